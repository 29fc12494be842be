"""Commands that plan a change tell of the groups of sink connectors beside that of their Connect workers."""

import json

import jsonschema
import pytest

from kgm.cli.main import run
from kgm.cli.output.schema import schema_of
from tests.simulation.test_sinks import WORKERS, A, B

DELAY = ("--set", "scheduled.rebalance.max.delay.ms=60000")
COMMANDS = [
    (("simulate-bounce", "connect", "--member-ids", "w-2", *DELAY), lambda data: data["scenarios"][0]),
    (("plan", "connect"), lambda data: data["plans"][0]["scenario"]),
    (
        ("drain", "--host", "10.0.0.2"),
        lambda data: next(group for group in data["groups"] if group["group_id"] == "connect"),
    ),
]


@pytest.fixture
def kgm(tmp_path, capsys):
    """Runs kgm here on a snapshot of some groups: what it prints."""

    def ask(groups, *words):
        path = tmp_path / "snapshot.json"
        path.write_text(json.dumps({"groups": [group.to_json() for group in groups]}))
        assert run([words[0], *words[1:], "--from-file", str(path), "--draws", "2"]) == 0
        return capsys.readouterr().out

    return ask


@pytest.mark.few(1)
@pytest.mark.parametrize(("words", "scenario_of"), COMMANDS)
def test_sink_groups_have_a_table_and_json(kgm, words, scenario_of):
    document = json.loads(kgm((WORKERS, A, B), *words, "-o", "json"))
    jsonschema.validate(document, schema_of(words[0]))
    found = scenario_of(document["data"])["sink_groups"]
    assert [one["group_id"] for one in found] == ["connect-a", "connect-b"]
    assert [one["exact"] for one in found] == [False, False]
    assert {"b-0"} <= {*found[1]["stopping_tasks"]}
    assert [one["partition"] for one in found[1]["unowned_partitions"]] == [0, 1]
    table = kgm((WORKERS, A, B), *words, "-o", "wide")
    assert "sink groups of connect\nSINK GROUP " in table
    (row,) = [line.split() for line in table.splitlines() if line.startswith("connect-b ")]
    assert (row[1:3], row[-1]) == (["1", "1"], "orders[0-1]")


def test_the_table_has_what_gates_count(kgm):
    header = next(line for line in kgm((WORKERS, A, B), *COMMANDS[0][0]).splitlines() if line.startswith("SINK GROUP"))
    assert {"REBALANCES", "HANDOVERS", "MOVED"} <= {*header.split()}


@pytest.mark.parametrize("words", [COMMANDS[0][0], COMMANDS[2][0]])
def test_a_page_has_the_table(kgm, tmp_path, words):
    page = tmp_path / "page.html"
    kgm((WORKERS, A, B), *words, "--report", str(page))
    shown = page.read_text()
    assert shown.count("<h3>Sink groups</h3>") == 1
    row = shown.partition("<td>connect-b</td>")[2].partition("</tr>")[0]
    assert "<td>orders[0-1]</td>" in row
    assert "<td>connect-a</td>" in shown


@pytest.mark.parametrize(("words", "scenario_of"), COMMANDS)
def test_a_snapshot_without_them_says_so(kgm, words, scenario_of):
    scenario = scenario_of(json.loads(kgm((WORKERS,), *words, "-o", "json"))["data"])
    assert not scenario["sink_groups"]
    assert scenario["caveats"][-1].startswith("sink groups are not part of the prediction: no group connect-CONNECTOR")
    assert "sink groups of" not in kgm((WORKERS,), *words)
