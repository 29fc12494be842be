"""`kgm drain` by its contract: its JSON, its table, its gates and exit codes. What it foresees is held against a real Kafka
in tests/operations/drain."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from dataclasses import replace
from itertools import pairwise

import pytest

from kgm.cli.main import run
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.work import MemberWork
from kgm.simulation.plan.bounce_plan import Membership
from tests.cli.output.pages.reading import assert_stands_alone, tree
from tests.operations.drain.fleets import placed

#: A group that loses a third, one that loses all, one that cannot be simulated, one elsewhere.
GROUPS = (
    placed("third", ["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
    placed("all", ["10.0.0.1"], membership=Membership.DYNAMIC, partitions=3),
    replace(placed("busy", ["10.0.0.1", "10.0.0.2"]), state="PreparingRebalance"),
    placed("elsewhere", ["10.0.0.2", "10.0.0.3"]),
)


@pytest.fixture
def kgm(tmp_path, capsys):
    """Runs kgm here on a snapshot of these groups: (exit code, stdout, stderr)."""
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps({"groups": [group.to_json() for group in GROUPS]}))

    def ask(*words: str, of_file: bool = True):
        code = run(["drain", *(["--from-file", str(path)] if of_file else []), "--draws", "5", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return ask


def test_groups_are_ranked_and_nothing_is_dropped(kgm):
    code, out, err = kgm("--host", "10.0.0.1", "-o", "json")
    data = json.loads(out)["data"]
    assert (code, err) == (0, "")
    assert [group["group_id"] for group in data["groups"]] == ["all", "third"]
    assert [(group["empty"], group["unowned_partitions"]) for group in data["groups"]] == [(True, 3), (False, 0)]
    (busy,) = data["not_predicted"]
    assert (busy["group_id"], busy["drained_members"], busy["code"]) == ("busy", ["member-1"], "REFUSED")
    assert data["groups_examined"] == 4
    assert data["totals"]["drained_members"] == 3
    third = data["groups"][1]
    assert third["drained_members"] == ["member-1"]
    assert third["moved_partitions"] == len(third["moves"]) >= 4
    assert set(third["final_assignment"]) == {"member-2", "member-3"}


def test_in_ndjson_groups_come_as_they_are_predicted(kgm):
    """In the order of the file, and each as in the ranked JSON."""
    _, ranked, _ = kgm("--host", "10.0.0.1", "-o", "json")
    code, out, err = kgm("--host", "10.0.0.1", "-o", "ndjson")
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, err, [line["group_id"] for line in lines]) == (0, "", ["third", "all", "busy"])
    data = json.loads(ranked)["data"]
    assert [*reversed(lines[:2]), lines[2]] == [*data["groups"], *data["not_predicted"]]


def test_a_group_has_what_simulate_bounce_says_of_the_same_plan(kgm, tmp_path, capsys):
    _, out, _ = kgm("--host", "10.0.0.1", "--restart-time", "60s", "-g", "third", "-o", "json")
    (drained,) = json.loads(out)["data"]["groups"]
    words = ["simulate-bounce", "third", "--from-file", str(tmp_path / "snapshot.json"), "--draws", "5"]
    assert run([*words, "-i", "member-1", "--restart-time", "60s", "-o", "json"]) == 0
    (alone,) = json.loads(capsys.readouterr().out)["data"]["scenarios"]
    assert {name: drained[name] for name in alone} == alone


def test_the_command_that_it_prints_next_names_odd_ids_too(tmp_path, capsys):
    group = placed("g", ["10.0.0.1", "10.0.0.2"])
    odd, other = group.members
    group = replace(group, members=(replace(odd, group_instance_id="a,{b,c}"), other))
    path = tmp_path / "odd.json"
    path.write_text(json.dumps({"groups": [group.to_json()]}))
    assert run(["drain", "--from-file", str(path), "--host", "10.0.0.1", "--draws", "2"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("next: kgm ")]
    words = shlex.split(line)[2:]
    assert run([*words, "--draws", "2", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["plan"]["scale_in"] == ["a,{b,c}"]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "more",
    [
        ["--host", "10.0.0.1"],
        ["--host", "10.0.0.1,10.0.0.2"],
        ["--host", "10.0.0.1", "--restart-time", "90s", "--stop", "crash"],
        ["--match", "member-[12]", "--restart-time", "30s"],
        ["--match", "member-[12]", "--restart-time", "90s", "--assignor", "cooperative-sticky", "--library", "java"],
        ["--match", "member-[12]", "--restart-time", "40s", "--session-timeout", "30s"],
    ],
)
def test_the_command_that_it_prints_next_plays_the_same_plan(kgm, capsys, more):
    _, out, _ = kgm("-g", "third", *more, "-o", "json")
    (drained,) = json.loads(out)["data"]["groups"]
    _, out, _ = kgm("-g", "third", *more)
    (line,) = [line for line in out.splitlines() if line.startswith("next: kgm ")]
    words = shlex.split(line.removeprefix("next: kgm "))
    assert run([*words, "--draws", "5", "-o", "json"]) == 0
    alone = json.loads(capsys.readouterr().out)["data"]["scenarios"][0]
    assert {name: drained[name] for name in alone} == alone


@pytest.mark.parametrize(("session", "code"), [("10s", 8), ("30s", 0)])
def test_a_session_timeout_means_the_same_as_in_simulate_bounce(kgm, tmp_path, capsys, session, code):
    """A process that is back after 20 seconds is in time only for the longer of these, whatever the group's own is."""
    more = ["--restart-time", "20s", "--session-timeout", session, "--fail-if-rebalances", "0"]
    drained, _, err = kgm("-g", "third", "--host", "10.0.0.1", *more)
    path = str(tmp_path / "snapshot.json")
    alone = run(["simulate-bounce", "third", "--from-file", path, "--draws", "5", "-i", "member-1", *more])
    assert (drained, alone) == (code, code), err + capsys.readouterr().err


def test_rows_of_groups_without_a_forecast_have_the_reason(kgm):
    _, out, _ = kgm("--host", "10.0.0.1", "-o", "csv")
    rows = {row["group_id"]: row for row in csv.DictReader(io.StringIO(out))}
    assert list(rows) == ["all", "third", "busy"]
    assert "PreparingRebalance" in rows["busy"]["reason"]
    assert [rows["all"][name] for name in ("empty", "thin", "unowned_partitions")] == ["yes", "no", "3"]


def test_columns_of_csv_have_the_keys_and_values_of_json(kgm):
    _, out, _ = kgm("--host", "10.0.0.1", "-o", "json")
    of_json = {one["group_id"]: one for one in json.loads(out)["data"]["groups"]}
    _, out, _ = kgm("--host", "10.0.0.1", "-o", "csv")
    for row in csv.DictReader(io.StringIO(out)):
        if (one := of_json.get(row["group_id"])) is None:
            continue
        for name in ("members", "members_left", "rebalances", "handovers", "moved_partitions", "stopped_partition_ms"):
            assert row[name] == str(one[name])
        assert row["drained_members"] == ",".join(one["drained_members"])
        assert row["stopped_partition_ms_max"] == str(one["stopped_partition_range_ms"]["max"])
        assert {name for name in row if not name.endswith(("_min", "_max"))} <= {*one, "reason"}


@pytest.mark.parametrize("task", ["named__0_1", "join_0"])
def test_tasks_that_have_other_names_than_those_of_connect(task, tmp_path, capsys):
    """A named topology is part of a task's name (TaskId.toString), and a broker takes any subtopology id."""
    worker = MemberSnapshot(member_id="a", client_id="c", work=MemberWork(active_tasks=(task,)))
    group = GroupSnapshot(group_id="app", type="streams", state="Stable", members=(worker,))
    (tmp_path / "file.json").write_text(json.dumps(group.to_json()))
    assert run(["drain", "--from-file", str(tmp_path / "file.json"), "--client-id", "c", "-o", "json"]) in (0, 6)
    (named,) = json.loads(capsys.readouterr().out)["data"]["not_predicted"]
    assert named["group_id"] == "app"


@pytest.mark.parametrize(
    ("words", "failing"),
    [
        (["--fail-if-moves", "0"], {"all", "third", "busy"}),
        (["--fail-if-handovers", "0", "-g", "third"], {"third"}),
        (["--fail-if-moves", "1000", "-g", "third", "-g", "all"], set()),
        (["--fail-if-stopped", "1h", "-g", "third", "-g", "all"], {"all"}),
        (["--fail-if-stopped", "1s", "-g", "third"], {"third"}),
    ],
)
def test_a_gate_that_fails_exits_8_and_names_each_group(words, failing, kgm):
    code, out, err = kgm("--host", "10.0.0.1", *words, "-o", "json")
    assert code == (8 if failing else 0)
    document = json.loads(out)
    assert {error["group_id"] for error in document["errors"]} == failing
    assert len([line for line in err.splitlines() if line.startswith("error: ")]) == len(failing)


@pytest.mark.parametrize(
    ("group", "title", "word"), [("all", "MOVED", "moved partitions"), ("third", "HANDOVERS", "handovers")]
)
def test_the_number_that_fails_a_gate_is_in_the_column_of_its_name(group, title, word, kgm):
    """Partitions that no consumer is left for pass to nobody: that is no handover, and yet the gate counts them."""
    code, out, err = kgm("--host", "10.0.0.1", "-g", group, "--fail-if-moves", "0", "-o", "table")
    assert code == 8
    (failure,) = [line for line in err.splitlines() if line.startswith("error: ")]
    most, said = re.search(r"(?:up to )?(\d+) ([a-z ]+) are predicted, more than 0", failure).groups()
    assert said == word
    header, row = next((a, b) for a, b in pairwise(out.splitlines()) if a.startswith("GROUP "))
    end = header.index(title) + len(title)
    typical, _, drawn = re.search(r"(\d+)(?: \((\d+)-(\d+)\))?$", row[:end]).groups()
    assert most == (drawn or typical)


def test_what_does_not_exist_is_named(kgm):
    code, _, err = kgm("--host", "10.9.9.9")
    assert (code, "no group has a member that matches --host 10.9.9.9" in err) == (3, True)
    code, out, err = kgm("--host", "10.0.0.1,10.9.9.9", "-g", "third", "-o", "json")
    assert (code, "no member of any group matches --host 10.9.9.9" in err) == (7, True)
    assert [group["group_id"] for group in json.loads(out)["data"]["groups"]] == ["third"]
    code, _, err = kgm("--host", "10.0.0.1", "third", "none")
    assert (code, "has no group none" in err) == (7, True)
    for most, group, expected in (("1000", "third", 7), ("0", "third", 8), ("1000", "busy", 8)):
        code, _, err = kgm("--host", "10.0.0.1", group, "none", "--fail-if-moves", most)
        assert (code, "has no group none" in err) == (expected, True)


@pytest.mark.parametrize(
    "words",
    [
        [], ["--host", "10.0.0.1", "--for-good", "--restart-time", "5s"], ["--host", "10.0.0.1", "--stop", "gently"],
        ["--host", "10.0.0.1", "--draws", "0"], ["--host", ""],
        ["--host", "10.0.0.1", "--fail-if-moves", "-1"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_slip_is_a_usage_error(words, kgm):
    assert kgm(*words)[0] == 2


def test_the_page_says_what_the_json_says(kgm, tmp_path):
    _, out, _ = kgm("--host", "10.0.0.1", "--report", str(tmp_path / "drain.html"), "-o", "json")
    data = json.loads(out)["data"]
    page = (tmp_path / "drain.html").read_text()
    assert_stands_alone(page)
    ranking, unpredicted, *_ = tree(page).all("table")
    rows = [[cell.text for cell in row.all("td")] for row in ranking.all("tr")[1:]]
    assert [(row[0], row[2], row[3]) for row in rows] == [
        (one["group_id"], str(len(one["drained_members"])), str(one["members_left"])) for one in data["groups"]
    ]
    counted = [(row[5].split()[0], row[6].split()[0]) for row in rows]
    assert counted == [(str(one["handovers"]), str(one["moved_partitions"])) for one in data["groups"]]
    assert [row.all("td")[0].text for row in unpredicted.all("tr")[1:]] == ["busy"]
    assert len(tree(page).all("figure")) == len(data["groups"])
