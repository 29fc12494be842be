"""`kgm simulate-bounce` by its contract. Numbers of rebalances are those that were counted on a real Kafka 4.3 with real
clients (see tests/simulation for predictions compared with live bounces); moves follow from the assignors."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from kgm.cli import main
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, TopicSnapshot
from tests.cli.runner import kgm
from tests.selection import sized
from tests.simulation.streams.applications import streams_group

SCENARIO_KEYS = {
    "name", "protocol", "assignor", "generations", "rebalances", "generation_before", "generation_after", "moves",
    "moved_partitions", "stopped_partition_ms", "fenced", "refused_joins", "final_assignment", "timeline", "exact",
    "caveats", "ranges",
}  # fmt: skip
SYNTHETIC = ("--members", "4", "--topic", "orders:12")
#: Where an answer does not depend on how many there are; with `--long` as many as there are by default.
FEW_DRAWS = sized(("--draws", "5"), ())


def simulate(*arguments, code=0, **options):
    draws = () if "--draws" in arguments or "--budget" in arguments else FEW_DRAWS
    run = kgm("simulate-bounce", *arguments, *draws, "-o", "json", **options)
    assert run.code == code, run
    document = json.loads(run.out)
    assert document["schema"] == "kgm.simulate-bounce/v1"
    return document["data"]


def only(data):
    (scenario,) = data["scenarios"]
    assert scenario.keys() >= SCENARIO_KEYS
    return scenario


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "flags", [("--all",), ("--all", "--rolling"), ("--instance-ids", "member-2"), ("--all", "--stop", "crash")]
)
def test_a_static_bounce_within_the_session_costs_nothing(flags):
    scenario = only(simulate(*SYNTHETIC, *flags, "--restart-time", "5s"))
    assert (scenario["name"], scenario["rebalances"], scenario["moves"], scenario["exact"]) == ("as-is", 0, [], True)
    assert scenario["ranges"] is None
    assert scenario["stopped_partition_ms"] >= 3 * 5000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "rebalances"),
    [
        pytest.param(("--as", "dynamic", "--assignor", "range", "--all", "--rolling"), 8, marks=pytest.mark.long),
        pytest.param(
            ("--as", "dynamic", "--assignor", "cooperative-sticky", "--all", "--rolling"), 12, marks=pytest.mark.long
        ),
        (("--scale-in", "member-3,member-4"), 1),
        (("--remove", "member-4"), 1),
    ],
)
def test_rebalances_as_counted_on_a_real_kafka(flags, rebalances):
    scenario = only(simulate(*SYNTHETIC, *flags, "--restart-time", "5s"))
    ranges = scenario["ranges"]
    lowest, highest = (
        (rebalances, rebalances) if ranges is None else (ranges["rebalances"]["min"], ranges["rebalances"]["max"])
    )
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
    data = simulate(*SYNTHETIC, "--all", "--rolling", "--restart-time", "5s", "--compare", "--draws", sized("5", "20"))
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
    assert simulate(*flags) == simulate(*flags, is_fork=False)  # other hashes of strings


@pytest.mark.slow
def test_few_draws_are_no_range():
    flags = (*SYNTHETIC, "--as", "dynamic", "--all", "--rolling", "--seed", "3")
    few, enough = (kgm("simulate-bounce", *flags, "--draws", draws).out.splitlines()[2] for draws in ("4", "5"))
    assert "(" not in few
    assert few.endswith("  no, 4 draws")
    assert "(" in enough
    assert enough.endswith("  no, 5 draws")


def test_one_draw_is_no_range_and_not_exact():
    scenario = only(simulate(*SYNTHETIC, "--as", "dynamic", "--scale-out", "1", "--draws", "1"))
    assert (scenario["ranges"], scenario["exact"], scenario["draws"]) == (None, False, 1)
    assert any("one of many possible outcomes" in caveat for caveat in scenario["caveats"])


@pytest.mark.long
def test_a_budget_is_counted_in_requests_and_may_pay_for_one_draw_only():
    flags = (*SYNTHETIC, "--as", "dynamic", "--all", "--rolling")
    least, some, more = (only(simulate(*flags, "--budget", budget)) for budget in ("1ms", "200ms", "1s"))
    assert least["draws"] == 1
    assert 1 < some["draws"] < more["draws"]
    assert kgm("simulate-bounce", *flags, "--budget", "0s").code == 2


@pytest.mark.parametrize(("read_s", "code"), [(0, 0), (30, 5)])
def test_reading_the_group_takes_of_the_time_limit_for_the_whole_command(monkeypatch, capsys, read_s, code):
    """30 s by default."""
    clock = iter([1_000.0, 1_000.0 + read_s])
    monkeypatch.setattr("kgm.cli.commands.simulate_bounce.time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert main.run(["simulate-bounce", *SYNTHETIC, "-i", "member-1"]) == code
    assert ("before the plan was simulated once" in capsys.readouterr().err) is bool(code)


@pytest.mark.slow
def test_a_session_too_short_to_heartbeat_in():
    flags = (*SYNTHETIC, "-i", "member-1", "--session-timeout")
    late = kgm("simulate-bounce", *flags, "1ms", "--timeout", "100ms")
    assert (late.code, late.out) == (5, "")
    assert "error: the time limit has passed before the plan was simulated once" in late.err
    assert kgm("simulate-bounce", *flags, "0s").code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags", [("--all", "--pause", "9999h"), ("--all", "--restart-time", "1000000h"), ("--scale-out", "100000")]
)
def test_the_time_limit_holds_wherever_it_comes_from(flags):
    late = kgm("simulate-bounce", *SYNTHETIC, *flags, env={"KGM_TIMEOUT": "500ms"})
    assert (late.code, late.out) == (5, "")
    assert "error: the time limit has passed before the plan was simulated once" in late.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--all", "--restart-time", "5s", "--fail-if-moves", "0", "--fail-if-rebalances", "0"), 0),
        (("--scale-in", "member-4", "--fail-if-moves", "1"), 8),
        (("-i", "member-1", "--restart-time", "60s", "--session-timeout", "30s", "--fail-if-moves", "0"), 8),
        (("--scale-in", "member-4", "--fail-if-rebalances", "0"), 8),
    ],
)
def test_gates(flags, code):
    assert kgm("simulate-bounce", *SYNTHETIC, *flags, *FEW_DRAWS).code == code


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
        (("--from-file", "no-such-file.json", "--all"), 2),
        (("--all",), 2),
        ((*SYNTHETIC, "--all", "--fail-if-moves", "-1"), 2),
        ((*SYNTHETIC, "--all", "--fail-if-rebalances", "-1"), 2),
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
    for text in (
        "",
        "[]",
        "{}",
        '{"schema": "kgm.describe/v1", "data": {"groups": []}}',
        "{",
        '{"data": {"groups": [{"group_id": 1}]}}',
    ):
        path.write_text(text)
        run = kgm("simulate-bounce", "--from-file", str(path), "--all")
        assert run.code in (2, 3), (text, run)
        assert "Traceback" not in run.err


@pytest.mark.slow
def test_a_scale_out_with_a_target_size_is_shown_beside_what_kafka_does():
    """KIP-345's future work: as-is stays Apache Kafka's, and the second scenario says that it is none."""
    flags = (*SYNTHETIC, "--scale-out", "3", "--scale-out-every", "20s", "--target-size", "7", "--draws", "4")
    data = simulate(*flags)
    as_is, standby = data["scenarios"]
    assert (as_is["name"], standby["name"]) == ("as-is", "standby")
    assert as_is.keys() == standby.keys() >= SCENARIO_KEYS
    assert (as_is["rebalances"], standby["rebalances"]) == (3, 1)
    assert as_is["newcomers_wait_ms"] < 20_000
    assert standby["newcomers_wait_ms"] >= 40_000
    assert "Apache Kafka has neither" in standby["caveats"][0]
    assert not any("Apache Kafka has neither" in caveat for caveat in as_is["caveats"])
    assert {"scale_out_every_ms": 20_000, "target_size": 7, "pre_registered": []}.items() <= data["plan"].items()
    assert [event["event"] for event in standby["timeline"]].count("held") == 2
    # The gate is on what Kafka does.
    assert kgm("simulate-bounce", *flags, "--fail-if-rebalances", "2").code == 8
    assert kgm("simulate-bounce", *flags, "--fail-if-rebalances", "3").code == 0


@pytest.mark.slow
def test_the_table_says_what_a_wait_costs():
    run = kgm("simulate-bounce", *SYNTHETIC, "--pre-registered", "member-{1..6}", "--scale-out", "1", "--draws", "2")
    assert run.code == 0, run
    assert "note (standby): what-if only: Apache Kafka has neither" in run.out
    assert "not all planned members join" in run.out
    assert "timeline of standby" in run.out
    assert "waits until all pre-registered members have joined (1 waiting)" in run.out
    rows = {line.split()[0]: line.split() for line in run.out.splitlines() if line.startswith(("as-is", "standby"))}
    assert float(rows["as-is"][7].removesuffix("s")) < 20
    assert float(rows["standby"][7].removesuffix("s")) >= 300


@pytest.mark.slow
def test_pre_registered_ids_that_are_not_there_come():
    data = simulate(*SYNTHETIC, "--pre-registered", "member-{1..4},extra-{1..2}", "--draws", "2")
    assert data["plan"]["scale_out"] == 2
    for scenario in data["scenarios"]:
        assert {"extra-1", "extra-2"} <= scenario["final_assignment"].keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ("--scale-out", "1", "--target-size", "0"),
        ("--scale-out", "1", "--target-size", "many"),
        ("--scale-out", "1", "--pre-registered", "a,,b"),
        ("--scale-out", "1", "--scale-out-every", "soon"),
        ("--scale-out", "1", "--set", "kgm.group.target.size.synthetic=0"),
        ("--target-size", "7"),
    ],
)  # fmt: skip
def test_a_bad_plan_for_the_size_is_a_usage_error(flags):
    run = kgm("simulate-bounce", *SYNTHETIC, *flags)
    assert run.code == 2, run
    assert "Traceback" not in run.err


@pytest.mark.slow
def test_a_migration_of_static_members_costs_nothing_and_is_in_the_plan():
    data = simulate(*SYNTHETIC, "--all", "--rolling", "--restart-time", "5s", "--migrate")
    scenario = only(data)
    assert (data["plan"]["migrate"], data["plan"]["retry_every_ms"]) == (True, None)
    assert (scenario["generations"], scenario["rebalances"], scenario["moves"], scenario["exact"]) == (0, 0, [], True)
    assert any("consumer protocol" in event["detail"] for event in scenario["timeline"])
    assert kgm("simulate-bounce", *SYNTHETIC, "--protocol", "consumer", "--all", "--migrate").code == 2


@pytest.mark.slow
def test_starts_that_are_refused_are_counted_and_explained():
    flags = (*SYNTHETIC, "--protocol", "consumer", "--stop", "crash", "-i", "member-1", "--draws", "3")
    as_is, freed = simulate(*flags, "--restart-time", "5s", "--retry-every", "10s")["scenarios"]
    assert (as_is["name"], as_is["refused_joins"], as_is["generations"]) == ("as-is", 4, 2)
    assert (freed["name"], freed["refused_joins"]) == ("freed", 0)
    run = kgm("simulate-bounce", *flags)
    assert run.code == 0, run
    assert "REFUSED" in run.out
    assert "kgm remove-members synthetic --instance-ids member-1" in run.out
    assert "GENERATIONS counts group epochs" in run.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "version"),
    [((), "4.3"), (("--kafka-version", "2.8.2"), "2.8"), (("--kafka-version", "3.9+new"), "3.9+new")],
)
def test_the_plan_says_which_version_was_played(flags, version):
    data = simulate(*SYNTHETIC, "--all", "--restart-time", "5s", *flags)
    assert data["plan"]["kafka_version"] == version
    assert (only(data)["rebalances"], only(data)["exact"]) == (0, True)


@pytest.mark.slow
def test_what_depends_on_how_an_earlier_broker_was_built_is_no_exact_prediction():
    flags = ("--scale-in", "member-3,member-4", "--assignor", "cooperative-sticky", "--draws", "5")
    caveats = only(simulate(*SYNTHETIC, *flags, "--kafka-version", "3.9"))["caveats"]
    assert any("Kafka 3.9 lists members" in caveat and "Scala" in caveat for caveat in caveats)
    assert not any("Scala" in caveat for caveat in only(simulate(*SYNTHETIC, *flags))["caveats"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ("--kafka-version", "2.3"),
        ("--kafka-version", "new"),
        ("--kafka-version", "3.9", "--protocol", "consumer"),
        ("--kafka-version", "2.8", "--migrate"),
    ],
)
def test_a_version_that_cannot_be_played_is_a_usage_error(flags):
    simulate_error = kgm("simulate-bounce", *SYNTHETIC, "--all", *flags)
    assert (simulate_error.code, simulate_error.out) == (2, "")
    assert "Kafka" in simulate_error.err


def snapshot_of(tmp_path, **changes):
    """A file with a classic group of two members, as `kgm describe -o json` writes it."""
    members = tuple(
        MemberSnapshot(member_id=f"id-{name}", group_instance_id=name, topics=("t",), assignment={"t": (number,)})
        for number, name in enumerate("ab")
    )
    group = GroupSnapshot(
        group_id="g", type="classic", state="Stable", protocol_type="consumer", assignor="range", members=members,
        topics=(TopicSnapshot(name="t", partitions=2),), **changes,
    )  # fmt: skip
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps({"schema": "kgm.describe/v1", "data": {"groups": [group.to_json()]}}))
    return str(path)


def test_a_comparison_says_once_why_there_is_nothing_to_compare(tmp_path):
    """A streams group (KIP-1071) has no static members, no assignor of consumers and no other protocol."""
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps({"schema": "kgm.describe/v1", "data": {"groups": [streams_group().to_json()]}}))
    run = kgm("simulate-bounce", "--from-file", str(path), "--all", "--compare", "--draws", "2")
    assert run.code == 0
    (note,) = [line for line in run.out.splitlines() if line.startswith("not compared: ")]
    assert "group app is a streams group (KIP-1071): its members have no instance ids" in note


@pytest.mark.parametrize(
    ("generation", "text"), [(None, "the group is empty"), (7, "the group is empty at generation 8")]
)
def test_a_generation_that_is_not_known_is_not_in_the_timeline(tmp_path, generation, text):
    scenario = only(simulate("--from-file", snapshot_of(tmp_path, generation=generation), "--remove", "a,b"))
    assert (scenario["generation_before"], scenario["generation_after"]) == (generation, generation and 8)
    assert next(event["detail"] for event in scenario["timeline"] if event["event"] == "empty") == text


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("flags", "order", "words"),
    [
        (("--all", "--rolling"), "id", "rolling, 1 at a time, in the order of their ids"),
        (("--all", "--rolling", "--order", "leader-last"), "leader-last", "rolling, 1 at a time, leader last"),
        (("-i", "b,a", "--rolling"), "named", "rolling, 1 at a time, in the order named"),
        (("-i", "b,a"), "named", "rolling, 1 at a time, in the order named"),
        (("-i", "b,a", "--together"), "named", "together"),
    ],
)
def test_the_answer_says_in_what_order_members_bounce(tmp_path, flags, order, words):
    path = snapshot_of(tmp_path, leader="id-a")
    plan = simulate("--from-file", path, *flags)["plan"]
    assert plan["order"] == order
    assert plan["bounce"] == (["a", "b"] if order == "id" else ["b", "a"])
    assert (
        f"2 members restart ({words}, clean stop" in kgm("simulate-bounce", "--from-file", path, *flags, *FEW_DRAWS).out
    )


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--all", "--together", "--order", "id"), 2, "--max-unavailable, --pause and --order exclude --together"),
        (("--all", "--rolling", "--order", "random"), 2, "--order: 'random' is not one of"),
        (("--all", "--rolling", "--order", "leader-last"), 6, "the leader of group g is not known"),
        (("--all", "--restart-time", "1"), 2, "--restart-time: 1 has no unit"),
    ],
)
def test_an_order_or_a_time_that_means_nothing_is_refused(tmp_path, flags, code, message):
    run = kgm("simulate-bounce", "--from-file", snapshot_of(tmp_path), *flags)
    assert run.code == code
    assert message in run.err
