"""`kgm assign`: JSON lines in and out, and errors that name the line."""

import contextlib
import io
import json
import subprocess
import sys
import threading

import pytest

from kgm.cli.main import run
from tests import KGM

CASE = {
    "case": "first",
    "assignor": "range",
    "topics": [{"name": "t", "partitions": 3}],
    "members": [
        {"member_id": "a", "topics": ["t"]},
        {"member_id": "b", "topics": ["t"]},
        {"member_id": "c", "topics": []},
    ],
}
ANSWER = {"case": "first", "assignment": {"a": {"t": [0, 1]}, "b": {"t": [2]}, "c": {}}}


@pytest.fixture
def assign(tmp_path, capsys):
    def assign(text, *options):
        path = tmp_path / "cases.jsonl"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        code = run(["assign", "--from-file", str(path), *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return assign


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_one_answer_per_line_in_order(assign):
    code, out, err = assign(f"{json.dumps(CASE)}\n\n{json.dumps({**CASE, 'case': None})}\n")
    assert (code, err) == (0, "")
    assert lines(out) == [ANSWER, {**ANSWER, "case": None}]


def test_from_stdin(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(CASE).encode())))
    assert run(["assign", "--from-file", "-"]) == 0
    assert lines(capsys.readouterr().out) == [ANSWER]


def test_one_object_over_many_lines(assign):
    code, out, _ = assign(json.dumps(CASE, indent=2))
    assert (code, lines(out)) == (0, [ANSWER])


def test_a_byte_order_mark_and_no_lines_at_all(assign):
    assert assign(b"\xef\xbb\xbf" + json.dumps(CASE).encode())[:1] == (0,)
    assert assign("\n") == (0, "", "")


def test_another_assignor(assign):
    _, out, _ = assign(json.dumps(CASE), "--assignor", "roundrobin")
    assert lines(out)[0]["assignment"] == {"a": {"t": [0, 2]}, "b": {"t": [1]}, "c": {}}


def test_another_library(assign):
    members = [{"member_id": "z", "group_instance_id": "i", "topics": ["t"]}, {"member_id": "a", "topics": ["t"]}]
    case = json.dumps({**CASE, "members": members})
    assert lines(assign(case)[1])[0]["assignment"] == {"z": {"t": [0, 1]}, "a": {"t": [2]}}
    assert lines(assign(case, "--library", "librdkafka")[1])[0]["assignment"] == {"a": {"t": [0, 1]}, "z": {"t": [2]}}
    # segmentio/kafka-go 0.4.51 gives 3 partitions of 5 members like this: i*P/M.
    assert lines(assign(case, "--library", "kafka-go")[1])[0]["assignment"] == {"a": {"t": [0]}, "z": {"t": [1, 2]}}
    assert assign(case, "--library", "mine")[0] == 2


def test_other_formats(assign):
    _, out, _ = assign(json.dumps({**CASE, "case": {"n": 1}}), "-o", "table")
    assert [line.split() for line in out.splitlines()[:5]] == [
        ["CASE", "MEMBER-ID", "TOPIC", "PARTITIONS", "COUNT"],
        ['{"n":', "1}", "a", "t", "0-1", "2"],
        ['{"n":', "1}", "b", "t", "2", "1"],
        ['{"n":', "1}", "c", "-", "-", "0"],
        ["1", "case,", "3", "partitions", "assigned"],
    ]
    _, out, _ = assign(json.dumps(CASE), "-o", "json")
    report = json.loads(out)
    assert (report["schema"], report["errors"]) == ("kgm.assign/v1", [])
    assert report["data"]["cases"] == [{**ANSWER, "assignor": "range"}]
    assert assign(json.dumps(CASE), "-o", "name")[1].split() == ["a", "b", "c"]


def test_the_table_of_one_case_has_loads_and_moves(assign):
    members = [
        {"member_id": "a", "topics": ["t", "u"], "owned": {"t": [0, 1, 2, 3]}, "generation": 3},
        {"member_id": "b", "topics": ["t", "u"], "owned": {"t": [4, 5]}, "generation": 3},
    ]
    topics = [{"name": "t", "partitions": 6}, {"name": "u", "partitions": 2}]
    case = {"assignor": "cooperative-sticky", "topics": topics, "members": members}
    loads = "MEMBER-ID BEFORE AFTER GAINED LOST\na 4 4 0 0\nb 2 4 2 0\nloads from 4 to 4"
    moves = "TOPIC PARTITIONS FROM TO\nu 0-1 - b\n0 moved from one member to another, 2 had no owner before, 0 have none now"
    assert _tables(assign(json.dumps(case), "-o", "table")[1])[1:] == [f"Loads\n{loads}", f"Moves\n{moves}"]
    case["members"] = [members[0], {**members[1], "owned": {}}, {"member_id": "c", "topics": ["t", "u"]}]
    loads, moves = _tables(assign(json.dumps(case), "-o", "table")[1])[1:]
    assert "\na 4 3 0 1\n" in loads
    assert "\nt 3 a -\n" in moves  # given up first, handed on in the next round
    assert len(_tables(assign(f"{json.dumps(case)}\n" * 2, "-o", "table")[1])) == 1
    assert "GAINED" not in assign(json.dumps(case), "-o", "csv")[1]


def _tables(out):
    return ["\n".join(" ".join(line.split()) for line in part.splitlines()) for part in out.strip().split("\n\n")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no", "line 1: not JSON"),
        ("{\n'a'}\n", "line 2: not JSON"),
        ("[" * 100_000, "line 1: not JSON"),
        (b"{}\xff", "line 1: not JSON"),
        (f"{json.dumps(CASE)}\n{{", "line 2: not JSON"),
        (json.dumps({**CASE, "assignor": "best"}), "line 1: assignor 'best' is not known"),
        (f"\n{json.dumps({**CASE, 'members': 1})}", "line 2: Expected `array`, got `int` - at `$.members`"),
    ],
)
def test_an_invalid_line_is_named(assign, text, message):
    code, _, err = assign(text)
    assert code == 2
    assert err.startswith(f"error: {message}")


SNAPSHOT = {
    "group_id": "g", "type": "classic", "state": "Empty", "protocol_type": "consumer", "assignor": "range",
    "coordinator": None, "generation": 1, "group_epoch": None, "assignment_epoch": None, "session_timeout_ms": None,
    "rebalance_timeout_ms": None, "topics": [{"name": "t", "partitions": 1}], "members": [], "offsets": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"assignor": "stream"}, "is a Kafka Streams application: its assignor 'stream' places tasks"),
        ({"type": "streams", "protocol_type": "streams"}, "is a streams group (KIP-1071)"),
        ({"type": "share", "protocol_type": "share"}, "is a share group (KIP-932)"),
        ({"protocol_type": "connect", "assignor": "sessioned"}, "is a Kafka Connect group"),
        ({"protocol_type": "sr"}, "has protocol type sr: its members are not consumers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_groups_without_consumers_are_refused(assign, change, message):
    text = json.dumps({**SNAPSHOT, **change})
    for options in ([], ["--assignor", "range"]):  # nor is there a guess for those who insist
        code, out, err = assign(text, *options)
        assert (code, out) == (6, "")
        assert err.startswith(f"error: group g {message}")
    assert assign(json.dumps({**CASE, "assignor": "stream"}))[0] == 6


def test_answers_before_an_invalid_line_are_printed(assign):
    code, out, _ = assign(json.dumps(CASE) + "\n{")
    assert (code, lines(out)) == (2, [ANSWER])


def test_cases_without_end_end_with_their_reader():
    """As in `yes CASE | kgm assign --from-file - | head -1`."""
    child = subprocess.Popen([*KGM, "assign", "--from-file", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    stop = threading.Timer(60, child.kill)
    stop.start()
    try:
        _write(child, CASE)
        assert json.loads(child.stdout.readline()) == ANSWER
        child.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            while True:
                _write(child, CASE)
        assert child.wait() == 0
    finally:
        stop.cancel()
        child.kill()
        child.wait()
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()


def _write(child, case):
    child.stdin.write(f"{json.dumps(case)}\n".encode())
    child.stdin.flush()


def test_files_that_cannot_be_read(tmp_path, capsys):
    assert run(["assign", "--from-file", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert run(["assign", "--from-file", str(tmp_path)]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert run(["assign"]) == 2
