"""`kgm simulate-bounce` by its contract. Numbers of rebalances are those that were counted on a real Kafka 4.3 with real
clients (see tests/simulation for predictions compared with live bounces); moves follow from the assignors."""

from __future__ import annotations

import json

import pytest

from tests.cli.runner import kgm

SCENARIO_KEYS = {
    "name", "protocol", "assignor", "generations", "rebalances", "generation_before", "generation_after", "moves",
    "moved_partitions", "stopped_partition_ms", "fenced", "refused_joins", "final_assignment", "timeline", "exact",
    "caveats", "ranges",
}  # fmt: skip
SYNTHETIC = ("--members", "4", "--topic", "orders:12")


def simulate(*arguments, code=0):
    run = kgm("simulate-bounce", *arguments, "-o", "json")
    assert run.code == code, run
    document = json.loads(run.out)
    assert document["schema"] == "kgm.simulate-bounce/v1"
    return document["data"]


def only(data):
    (scenario,) = data["scenarios"]
    assert scenario.keys() >= SCENARIO_KEYS
    return scenario


@pytest.mark.slow
@pytest.mark.parametrize("flags", [("--all",), ("--all", "--rolling"), ("--instance-ids", "member-2"), ("--all", "--stop", "crash")])
def test_a_static_bounce_within_the_session_costs_nothing(flags):
    scenario = only(simulate(*SYNTHETIC, *flags, "--restart-time", "5s"))
    assert (scenario["name"], scenario["rebalances"], scenario["moves"], scenario["exact"]) == ("as-is", 0, [], True)
    assert scenario["ranges"] is None
    assert scenario["stopped_partition_ms"] >= 3 * 5000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "rebalances"),
    [
        (("--as", "dynamic", "--assignor", "range", "--all", "--rolling"), 8),
        (("--as", "dynamic", "--assignor", "cooperative-sticky", "--all", "--rolling"), 12),
        (("--scale-in", "member-3,member-4"), 1),
        (("--remove", "member-4"), 1),
    ],
)
def test_rebalances_as_counted_on_a_real_kafka(flags, rebalances):
    scenario = only(simulate(*SYNTHETIC, *flags, "--restart-time", "5s"))
    ranges = scenario["ranges"]
    lowest, highest = (rebalances, rebalances) if ranges is None else (ranges["rebalances"]["min"], ranges["rebalances"]["max"])
    assert lowest <= rebalances <= highest
    assert highest - lowest <= 4


@pytest.mark.slow
def test_scale_in_gives_the_partitions_to_those_who_stay():
    scenario = only(simulate(*SYNTHETIC, "--assignor", "cooperative-sticky", "--scale-in", "member-4"))
    assert {move["from"] for move in scenario["moves"]} == {"member-4"}
    assert scenario["moved_partitions"] == 3
    owned = sorted(p for topics in scenario["final_assignment"].values() for p in topics.get("orders", []))
    assert owned == list(range(12))
    assert "member-4" not in scenario["final_assignment"]


@pytest.mark.slow
def test_compare_sets_scenarios_side_by_side():
    data = simulate(*SYNTHETIC, "--all", "--rolling", "--restart-time", "5s", "--compare", "--draws", "20")
    by_name = {scenario["name"]: scenario for scenario in data["scenarios"]}
    assert {"as-is", "static", "dynamic", "cooperative"} <= by_name.keys()
    assert by_name["static"]["rebalances"] == 0
    assert by_name["dynamic"]["rebalances"] > 0
    assert by_name["dynamic"]["exact"] is False
    assert by_name["dynamic"]["ranges"]["draws"] >= 1
    assert data["plan"]["mode"] == "rolling"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_answer():
    flags = (*SYNTHETIC, "--as", "dynamic", "--all", "--rolling", "--draws", "10", "--seed", "7")
    assert simulate(*flags) == simulate(*flags)


@pytest.mark.slow
def test_gates():
    assert kgm("simulate-bounce", *SYNTHETIC, "--all", "--restart-time", "5s", "--fail-if-moves", "0", "--fail-if-rebalances", "0").code == 0
    assert kgm("simulate-bounce", *SYNTHETIC, "--scale-in", "member-4", "--fail-if-moves", "1").code == 8
    assert kgm("simulate-bounce", *SYNTHETIC, "--scale-in", "member-4", "--fail-if-rebalances", "0").code == 8


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((*SYNTHETIC,), 2),
        ((*SYNTHETIC, "--instance-ids", "nobody"), 3),
        ((*SYNTHETIC, "--all", "--stop", "explode"), 2),
        ((*SYNTHETIC, "--all", "--restart-time", "soon"), 2),
        ((*SYNTHETIC, "--all", "--assignor", "random"), 2),
        (("--members", "0", "--topic", "orders:12", "--all"), 2),
        (("--members", "3", "--topic", "orders", "--all"), 2),
        (("--from-file", "no-such-file.json", "--all"), 3),
        (("--all",), 2),
    ],
)
def test_bad_input_has_a_clear_error_and_code(arguments, code):
    run = kgm("simulate-bounce", *arguments)
    assert run.code == code, run
    assert run.out == ""
    assert "Traceback" not in run.err
    assert run.err.lower().startswith(("error", "usage"))


def test_a_saved_snapshot_that_is_none_is_named(tmp_path):
    path = tmp_path / "s.json"
    for text in ("", "[]", "{}", '{"schema": "kgm.describe/v1", "data": {"groups": []}}', "{", '{"data": {"groups": [{"group_id": 1}]}}'):
        path.write_text(text)
        run = kgm("simulate-bounce", "--from-file", str(path), "--all")
        assert run.code in (2, 3), (text, run)
        assert "Traceback" not in run.err
