"""Every command in every format on a cluster of hostile names: nothing that a terminal, a log or a spreadsheet acts on is
printed, JSON is exact and matches its schema, and a reader that goes away is not an error.

The commands are found in the command tree. A new one is called with a group if it takes one, and with the cluster; what
else it needs is in `_CALLS`."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kgm.cli.main import run
from kgm.cli.options.run_options import RunOptions
from kgm.cli.output import report as output
from kgm.cli.output.output_options import FORMATS
from kgm.cli.output.report import Report
from kgm.cli.output.schema import schema_of
from tests.cli.environment import bare, forget_settings
from tests.cli.forked import forked_command
from tests.cli.hostile_cluster import CROWD, GONE, Hostile, hostile_cluster
from tests.text.hostile import OUR_COLORS, WIRE, hidden, is_formula
from tools.manual.tree import leaves

pytestmark = pytest.mark.slow
LEAVES = leaves()
COMMANDS = [words for words, leaf in LEAVES.items() if any("--output" in param.opts for param in leaf.params)]
#: Takes ten seconds, starts real consumers, and prints no foreign names: tests/cli/commands/test_demo.py.
COMMANDS.remove(("demo",))
SEGMENTS = "segments:{logs}"
_HISTORY = [CROWD, "--source", SEGMENTS]
#: What a command needs beyond a group and a cluster. {logs}: the broker's folders; {dir}: a folder with snapshot.json,
#: other.json (snapshots of CROWD) and cases.jsonl; None: not run here, for the reason given.
_CALLS: dict[tuple[str, ...], list[str] | None] = {
    ("list",): [],
    ("top",): ["--once"],
    ("describe",): ["--all-groups", "--verbose"],
    ("remove-members",): [CROWD, "--match", "*", "--dry-run", "--guard-window", "0s", "--assume-stopped"],
    ("delete-groups",): [GONE, "--dry-run", "--idle-for", "0s"],
    ("simulate-bounce",): [CROWD, "--all", "--restart-time", "5s", "--draws", "2"],
    # All but one member, whose id has a NUL: no command can have it in its environment.
    ("rollout",): [CROWD, "--match", "*[!l]", "--exec", "true", "--dry-run", "--draws", "2"],
    # Instance ids of the crowd are no names of pods: tests/cli/commands/planning/test_scale_in.py.
    ("scale-in",): None,
    ("drain",): [CROWD, "--client-id", "*", "--draws", "2"],
    ("plan",): [CROWD, "--restart-time", "5s", "--draws", "1", "--budget", "10ms"],
    ("assign",): ["--from-file", "{dir}/cases.jsonl"],
    ("diff",): ["{dir}/other.json", "{dir}/snapshot.json"],
    ("wait",): [CROWD, "--for", "members>=1"],
    ("watch",): [CROWD, "--count", "3", "--interval", "100ms"],
    ("doctor",): ["--window", "0s"],
    ("audit",): [],
    ("config", "list"): [],
    ("config", "view"): ["-X", "client.id=\x1b[31m=x\u202e"],
    ("config", "test"): ["-g", CROWD],
    ("version",): [],
    ("history", "capture"): None,  # starts Spark: tests/pipeline
    ("history", "build"): None,  # starts Spark: tests/pipeline
}
#: What else `describe` shows.
_VIEWS = [["--offsets", "--lag-time"], ["--state"], ["--members", "--lag-time"], ["--only-lagging"]]
#: Columns of csv and tsv that are no keys of JSON.
_NOT_IN_JSON: dict[tuple[str, ...], set[str]] = {
    ("assign",): {"member_id", "topic", "partitions", "count"},  # members and topics are keys of `assignment`
    ("describe",): {"static_members"},  # in JSON, members can be counted
    ("diff",): {"change"},  # the list of JSON that the row is from
}
#: Their JSON contains none of the names; the labels of metrics have them as they are shown.
_NAMELESS = {
    ("version",),
    ("export",),
    ("config", "view"),
    ("config", "list"),
    ("config", "test"),
    ("history", "verify"),
    ("history", "zombies"),
}


def arguments(words: tuple[str, ...], cluster: Hostile, folder: str) -> list[str] | None:
    """The command line, without `kgm` and without a format; None where it is not run."""
    leaf = LEAVES[words]
    if words in _CALLS:
        own = _CALLS[words]
        if own is None:
            return None
    elif words[0] == "history":
        takes_group = any(param.param_type_name == "argument" for param in leaf.params)
        own = _HISTORY if takes_group else _HISTORY[1:]
    else:
        own = [CROWD] if any(param.param_type_name == "argument" for param in leaf.params) else []
    asks = words[0] != "history" and any("--bootstrap-server" in param.opts for param in leaf.params)
    filled = [one.replace("{logs}", str(cluster.logs)).replace("{dir}", folder) for one in own]
    return [*words, *filled, *(["-b", cluster.bootstrap] if asks else [])]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Hostile]:
    with hostile_cluster(tmp_path_factory.mktemp("logs")) as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory, cluster) -> str:
    """Files with hostile names in them, and a log of removals."""
    where = tmp_path_factory.mktemp("files")
    env = {
        **bare(),
        "XDG_STATE_HOME": str(where / "state"),
        "XDG_CACHE_HOME": str(where),
    }

    def kgm(*words: str) -> str:
        done = subprocess.run(
            [*forked_command(), *words, "-b", cluster.bootstrap],
            capture_output=True,
            text=True,
            env=env,
            check=True,
        )
        return done.stdout

    (where / "snapshot.json").write_text(kgm("describe", CROWD, "-o", "json"))
    document = json.loads((where / "snapshot.json").read_text())
    (group,) = document["data"]["groups"]
    group["members"] = group["members"][5:]
    group["members"][0].update(member_id="came\x1b[2Jback", assignment={"orders": [1], "=\u202e": [1]})
    (where / "other.json").write_text(json.dumps(document))
    case = {"assignor": "range", "case": WIRE[0], "topics": [{"name": name, "partitions": 3} for name in WIRE]}
    case["members"] = [{"member_id": name, "topics": WIRE} for name in WIRE]
    (where / "cases.jsonl").write_text(json.dumps(case) + "\n")
    kgm("remove-members", GONE, "--match", "*", "--yes", "--allow-live", "--assume-stopped", "--reason", "because")
    return str(where)


@pytest.fixture
def kgm(monkeypatch, capsys, folder):
    """Runs kgm here: (exit code, stdout, stderr)."""
    forget_settings(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")

    def ask(*words: str) -> tuple[int, str, str]:
        code = run(words)
        found = capsys.readouterr()
        return code, found.out, found.err

    return ask


def takes_a_while(words: tuple[str, ...]) -> bool:
    """Whether a run is seconds of work, whatever the format."""
    return words[0] == "history" or words == ("plan",)


@pytest.mark.few(1)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_format_prints_an_active_character(words, cluster, folder, kgm, monkeypatch):
    import jsonschema

    line = arguments(words, cluster, folder)
    if line is None:
        pytest.skip("starts Spark")
    texts: set[str] = set()
    for text_format, out, err in _in_every_format(words, line, kgm, monkeypatch):
        assert hidden(err) == []
        assert out or (words in _NAMELESS and text_format in ("name", "ndjson")), f"it prints nothing as {text_format}"
        assert hidden(out, but="\n\t" if text_format == "tsv" else "\n") == [], text_format
        if text_format in ("csv", "tsv"):
            rows = list(csv.reader(io.StringIO(out), delimiter="," if text_format == "csv" else "\t"))
            assert not [cell for row in rows for cell in row if is_formula(cell)]
            assert len({len(row) for row in rows}) <= 1
        elif text_format == "ndjson":
            for each in out.splitlines():
                json.loads(each)
        elif text_format == "json":
            document = json.loads(out)
            texts = set(_strings(document))
            jsonschema.validate(document, schema_of("-".join(words)))
    assert texts & {*WIRE, CROWD, GONE} or words in _NAMELESS, (
        "the names are not in its JSON: is it called with a group?"
    )


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("words", "more"),
    [*((words, []) for words in COMMANDS), *((("describe",), more) for more in _VIEWS)],
    ids=" ".join,
)
def test_columns_have_the_keys_of_json(words, more, cluster, folder, kgm):
    line = arguments(words, cluster, folder)
    if line is None:
        pytest.skip("not run here")
    code, out, err = kgm(*line, *more, "-o", "csv")
    assert code in (0, 8), err
    header, *rows = csv.reader(io.StringIO(out))
    known = {*_keys(schema_of("-".join(words))["properties"]["data"]), *_NOT_IN_JSON.get(words, ())}
    assert [name for name in header if name not in known] == []
    assert len(set(header)) == len(header)
    assert not [cell for row in rows for cell in row if is_formula(cell)]


def _keys(schema: dict[str, Any], of: str = "") -> Iterator[str]:
    """The keys of objects at any depth, and those in an object with its own key before them: record_offset."""
    for name, each in schema.get("properties", {}).items():
        yield name
        if of:
            yield f"{of}_{name}"
        yield from _keys(each, name)
    for each in (schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", ())):
        if isinstance(each, dict):
            yield from _keys(each, of)


def _in_every_format(words, line, kgm, monkeypatch) -> Iterator[tuple[str, str, str]]:
    """(format, stdout, stderr). Some commands take a while, so each runs once and its report is rendered again."""
    formats = [one for one in FORMATS if one != "schema"]
    if not takes_a_while(words):
        for text_format in formats:
            code, out, err = kgm(*line, "-o", text_format)
            assert code in (0, 8), (text_format, code, out, err)
            yield text_format, out, err
        return
    reports: list[tuple[Report, RunOptions]] = []
    pieces = output._pieces
    monkeypatch.setattr(
        output, "_pieces", lambda report, common: reports.append((report, common)) or pieces(report, common)
    )
    code, _, err = kgm(*line, "-o", "table")
    assert code == 0, err
    ((report, common),) = reports
    for text_format in formats:
        yield text_format, "".join(pieces(report, replace(common, output=text_format))), err
    if words[0] != "history":
        return
    # `history decode` writes lines as it reads, without a report.
    code, out, err = kgm(*line, "-o", "ndjson")
    assert code == 0, err
    assert out or words in _NAMELESS
    yield "ndjson", out, err


@pytest.mark.few(1)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_colour_is_the_only_thing_that_a_terminal_acts_on(words, cluster, folder, kgm):
    line = arguments(words, cluster, folder)
    if line is None:
        pytest.skip("starts Spark")
    _, out, err = kgm(*line, "-o", "wide", "--color", "always")
    assert hidden(OUR_COLORS.sub("", out)) == []
    assert hidden(OUR_COLORS.sub("", err)) == []
    for name in (CROWD, *WIRE):
        assert name not in out or not hidden(
            name
        )  # one line may end with the "a", and the next begin with the "b", of "a\nb"


@pytest.mark.few(4)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_errors_and_usage_show_typed_words_cleaned(words, cluster, folder, kgm):
    asks = any("--bootstrap-server" in param.opts for param in LEAVES[words].params)
    lines = [
        [*words, "no\x1b[2Jsuch\u202e=", *(["-b", cluster.bootstrap] if asks else [])],
        [*words, "--no\x1b[2J\u202e"],
        [*words, "-o", "\x1b[2J"],
    ]
    for line in lines:
        _, out, err = kgm(*line, *([] if words[0] != "history" else ["--source", f"segments:{folder}/no\x1bne"]))
        assert hidden(out) == hidden(err) == []
        assert "Traceback" not in err


@pytest.mark.few(3)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_schema_needs_no_other_option(words, kgm):
    import jsonschema

    code, out, err = kgm(*words, "-o", "schema")
    assert (code, err) == (0, ""), f"describe the data of kgm {' '.join(words)} -o json in kgm/cli/output/contracts/"
    schema = json.loads(out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"] == {"enum": [f"kgm.{'-'.join(words)}/v1"]}


@pytest.mark.few(2)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_closed_stdout_is_not_an_error(words, cluster, folder, kgm, monkeypatch):
    line = arguments(words, cluster, folder)
    if line is None:
        pytest.skip("starts Spark")
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        code, _, err = kgm(*line)
    assert code in (0, 8)
    assert "roken pipe" not in err
    assert code == 8 or "\nerror: " not in "\n" + err


@pytest.mark.few(1)
@pytest.mark.parametrize("words", [("list",), ("describe",), ("config", "view"), ("watch",)], ids=" ".join)
def test_nor_does_a_process_fail_at_its_end(words, cluster, folder):
    line = arguments(words, cluster, folder)
    assert line is not None
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kgm", *line], stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=90,
            env={**bare(), "XDG_STATE_HOME": f"{folder}/state", "XDG_CACHE_HOME": folder},
        )  # fmt: skip
    finally:
        os.close(writing)
    assert done.returncode in (0, 8), done
    assert "roken pipe" not in done.stderr
    assert "Exception" not in done.stderr


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
