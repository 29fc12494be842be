"""Snapshots and audit logs with any part of their structure replaced, removed, repeated or cut: whatever reads them ends with
an error of its own, never with an internal one."""

from __future__ import annotations

import copy
import json
import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.cli.commands.audit import removal_json
from kgm.cli.options.snapshots import read_snapshot_file
from kgm.model.errors import UsageError
from kgm.operations.audit.audit_log import AuditLog, intents, outcomes
from tests.cli.runner import kgm

GROUP = {
    "group_id": "orders", "type": "classic", "state": "Stable", "protocol_type": "consumer", "assignor": "range",
    "coordinator": {"id": 1, "host": "h", "port": 9092}, "generation": 3, "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 60_000, "topics": [{"name": "t", "partitions": 4}],
    "members": [
        {"group_instance_id": name, "member_id": f"{name}-1", "client_id": "c", "client_host": "/10.0.0.1", "rack": None,
         "member_epoch": None, "status": "stable", "subscription": {"topics": ["t"], "regex": None},
         "assignment": {"t": numbers}, "target_assignment": None, "lag": 2}
        for name, numbers in (("a", [0, 1]), ("b", [2, 3]))
    ],
    "offsets": [{"topic": "t", "partition": 0, "committed": 1, "end": 3, "lag": 2, "group_instance_id": "a",
                 "member_id": "a-1"}],
}  # fmt: skip
ODD = st.sampled_from([
    None, True, 0, -1, 1, 2**31, 2**63, 2**64, 10**400, 0.5, float("inf"), "", "\ud800", "a\udfff", "\x00", "\n", "classic",
    "consumer", "é" * 300, [], {}, [None], [[]], {"": None}, {"t": [0, 0]}, {"t": [2**31 - 1]}, {"\ud800": [1]}, [1, "x"],
])  # fmt: skip


def places_in(value, at=()):
    """The path of every value in a document."""
    yield at
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places_in(child, (*at, key))


@st.composite
def mutated(draw, document):
    """The document with some of its values replaced, removed or repeated."""
    found = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.sampled_from([one for one in places_in(found) if one] or [()]))
        if not at:
            return copy.deepcopy(draw(ODD))
        parent = found
        for key in at[:-1]:
            parent = parent[key]
        how = draw(st.sampled_from(["replaced", "removed", "repeated"]))
        if how == "replaced":
            parent[at[-1]] = copy.deepcopy(draw(ODD))
        elif how == "removed":
            del parent[at[-1]]
        elif isinstance(parent, list):
            parent.append(copy.deepcopy(parent[at[-1]]))
        else:
            parent[f"{at[-1]}2"] = parent[at[-1]]
    return found


def read_and_use(path):
    """Reads a snapshot, and writes it as JSON as diff and plan do."""
    try:
        found = read_snapshot_file(str(path)).snapshots
    except UsageError as error:
        error.message.encode()
        return
    for group in found:
        json.dumps(group.to_json()).encode()
        group.group_id.encode()
        assert all(number < 2**31 for member in group.members for row in member.assignment.values() for number in row)


def check_snapshots(path, count):
    @settings(max_examples=count, deadline=None)
    @given(mutated(GROUP), st.integers(0, 3_000))
    def reads(document, cut):
        text = json.dumps(document)
        path.write_text(text if cut % 5 else text[:cut])
        read_and_use(path)

    reads()


@pytest.mark.long
def test_mutated_snapshots(tmp_path):
    check_snapshots(tmp_path / "s.json", 150)


@pytest.mark.long
def test_many_mutated_snapshots(tmp_path):
    check_snapshots(tmp_path / "s.json", 10_000)


def head_of_none(text):
    try:
        found = json.loads(text)
        return (found["records"], found.get("last")) == (0, None)
    except (ValueError, TypeError, LookupError):
        return False


def check_logs(folder, count):
    log = AuditLog(folder / "state" / "kgm" / "audit.jsonl", clock=lambda: 1_700_000_000)
    member = {"group_instance_id": "a", "member_id": "a-1", "client_id": "c", "client_host": "/1", "evidence": ["x"]}
    for number in range(3):
        common = {"operator": "alice", "uid": 1, "host": "h", "pid": 2, "group_id": "g", "reason": "r"}
        log.append(intents(f"r{number}", [member], common))
        log.append(outcomes(f"r{number}", [{**member, "result": "removed", "error": None, "note": None}], common))
    head = pathlib.Path(f"{log.path}.head")
    lines, text = log.path.read_bytes().splitlines(), head.read_bytes()

    @settings(max_examples=count, deadline=None)
    @given(st.data())
    def reads(data):
        found = [json.loads(line) for line in lines]
        number = data.draw(st.integers(0, len(lines) - 1))
        if data.draw(st.booleans()):
            found[number] = data.draw(mutated(found[number]))
            head.write_bytes(text)
        else:
            head.write_text(json.dumps(data.draw(mutated(json.loads(text)))))
        whole = b"".join(json.dumps(one).encode() + b"\n" for one in found)
        is_cut = data.draw(st.integers(0, 3)) == 0
        log.path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))] if is_cut else whole)
        # Of a log without an end of the last line every record is there. Who changes both files can forge both: a head
        # that was written before the first record knows of none.
        is_whole = log.path.read_bytes().splitlines() == lines
        is_forged = head_of_none(head.read_text())
        before = log.read()
        for one in before.removals:
            json.dumps(removal_json(one)).encode()
        damage = before.breaks or before.problems
        assert is_whole or is_forged or damage, "a log that was changed passes for a whole one"
        log.append(intents("later", [member], {}))
        after = log.read()
        assert "later" in [one.run for one in after.removals]
        assert not damage or after.breaks or after.problems

    reads()


@pytest.mark.long
def test_mutated_audit_logs(tmp_path):
    check_logs(tmp_path, 80)


@pytest.mark.long
def test_many_mutated_audit_logs(tmp_path):
    check_logs(tmp_path, 2_000)


@pytest.mark.parametrize(
    "words", [["plan", "--restart-time", "5s", "--draws", "1", "--budget", "10ms"], ["drain", "--client-id", "*"]]
)
def test_half_of_a_surrogate_pair_is_no_group_id(tmp_path, words):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({**GROUP, "group_id": "\ud800x"}))
    done = kgm(*words, "--from-file", str(path))
    assert (done.code, "half of a surrogate pair" in done.err) == (2, True), done.err


def test_a_file_that_cannot_be_read_is_no_case():
    done = kgm("assign", "--from-file", "/proc/self/mem")
    assert (done.code, "cannot be read" in done.err) == (2, True), done.err
