"""The audit log: every batch whole or not at all, from many processes, on full and read-only disks, after a crash."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import resource
import subprocess
import sys

import pytest

from kgm.model.errors import KgmError, RefusedError
from kgm.operations.audit import audit_log
from kgm.operations.audit.audit_log import AuditLog, default_path, intents, outcomes, timestamp

COMMON = {"operator": "alice", "uid": 1, "host": "h", "pid": 2, "cluster_id": "c", "bootstrap": "b:1",
          "group_id": "g", "reason": "why"}  # fmt: skip
A = {"group_instance_id": "a", "member_id": "a-1", "client_id": "cl", "client_host": "/10.0.0.1"}
B = {**A, "group_instance_id": "b", "member_id": "b-1"}
DONE = {"result": "removed", "error": None, "note": None}


@pytest.fixture
def log(tmp_path):
    return AuditLog(tmp_path / "state" / "kgm" / "audit.jsonl", clock=lambda: 1_700_000_000.5)


def test_intent_and_outcome_become_one_removal(log):
    log.append(intents("r", [A, B], COMMON))
    log.append(
        outcomes("r", [{**A, **DONE}, {**B, "result": "failed", "error": "FENCED_INSTANCE_ID", "note": "n"}], COMMON)
    )
    a, b = log.read().removals
    assert (a.group_instance_id, a.result, a.error, a.note) == ("a", "removed", None, None)
    assert (b.group_instance_id, b.result, b.error, b.note) == ("b", "failed", "FENCED_INSTANCE_ID", "n")
    assert (a.time, a.finished_at) == ("2023-11-14T22:13:20.500Z",) * 2
    assert (a.operator, a.uid, a.host, a.pid, a.cluster_id, a.bootstrap) == ("alice", 1, "h", 2, "c", "b:1")
    assert (a.group_id, a.member_id, a.client_id, a.client_host, a.reason) == ("g", "a-1", "cl", "/10.0.0.1", "why")


def test_an_intent_alone_is_unknown(log):
    log.append(intents("r", [A], COMMON))
    (one,) = log.read().removals
    assert (one.result, one.finished_at) == ("unknown", None)


def test_an_outcome_whose_intent_was_rotated_away_is_shown(log):
    log.append(outcomes("r", [{**A, **DONE}], COMMON))
    (one,) = log.read().removals
    assert (one.operator, one.group_instance_id, one.result) == ("alice", "a", "removed")


def test_nothing_is_there_before_the_first_removal(log):
    assert log.read() == audit_log.AuditLogContents(removals=(), torn=0)


def test_only_the_owner_reads_it(log):
    old = os.umask(0)
    try:
        log.append(intents("r", [A], COMMON))
    finally:
        os.umask(old)
    assert oct(log.path.stat().st_mode & 0o777) == "0o600"
    assert oct(log.path.parent.stat().st_mode & 0o777) == "0o700"
    log.path.chmod(0o644)
    log.path.parent.chmod(0o755)
    log.prepare()
    assert oct(log.path.stat().st_mode & 0o777) == "0o600"
    assert oct(log.path.parent.stat().st_mode & 0o777) == "0o700"


HOSTILE = ["a\nb", "\x1b]0;x\x07", "\u202e", "\ud800", "\x00", '"}\n{"', "é" * 300, "\u2028", ""]


def test_hostile_names_come_back_exactly_and_never_break_a_line(log):
    members = [{**A, "group_instance_id": name} for name in HOSTILE]
    log.append(intents("r", members, {**COMMON, "operator": "x\ny", "reason": "\n"}))
    assert log.path.read_bytes().isascii()
    assert len(log.path.read_bytes().splitlines()) == len(HOSTILE)
    assert [one.group_instance_id for one in log.read().removals] == HOSTILE
    assert log.read().removals[0].operator == "x\ny"


@pytest.mark.parametrize("end", [b'{"v":1,"event":"int', b"\0\0\0\0", b"\xff\xfe", b'{"v":1}', b"[" * 5000])
def test_a_torn_last_line_is_counted_and_does_not_swallow_the_next(log, end):
    log.append(intents("r", [A], COMMON))
    with log.path.open("ab") as file:
        file.write(end)
    assert [len(log.read().removals), log.read().torn] == [1, 1]
    log.append(outcomes("r", [{**A, **DONE}], COMMON))
    found = log.read()
    assert [one.result for one in found.removals] == ["removed"]
    assert found.torn == 1


@pytest.mark.parametrize("record", ["7", "[]", "null", '{"event":"intent"}', '{"event":"intent","run":1,"seq":0,"time":"x"}',
                                    '{"event":"intent","run":"r","seq":true,"time":"x"}', '{"event":"outcome","run":"r","seq":0,"time":3}'])  # fmt: skip
def test_lines_of_another_shape_are_no_records(log, record):
    log.prepare()
    log.path.write_text(record + "\n")
    assert log.read() == audit_log.AuditLogContents(removals=(), torn=1, has_head=False)


@pytest.mark.parametrize(("evidence", "kept"), [("true", ()), ('"it"', ()), ('{"it":1}', ()), ('["it",1]', ("it",))])
def test_fields_of_another_type_are_left_out(log, evidence, kept):
    log.prepare()
    fields = f'"operator":[1],"uid":"x","group_id":{{}},"evidence":{evidence}'
    log.path.write_text(f'{{"event":"intent","run":"r","seq":0,"time":"t",{fields}}}\n')
    (one,) = log.read().removals
    assert (one.operator, one.uid, one.group_id, one.result) == (None, None, None, "unknown")
    assert one.evidence == kept


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_a_disk_that_fills_up_in_the_middle_leaves_nothing_of_the_batch(log, monkeypatch):
    log.append(intents("r", [A], COMMON))
    before = log.path.read_bytes()
    real = os.write

    def write(file, data):
        if len(data) > 100:
            return real(file, data[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(audit_log.os, "write", write)
    with pytest.raises(RefusedError) as caught:
        log.append(intents("s", [B], COMMON))
    assert caught.value.exit_code == 6
    assert "No space left on device" in caught.value.facts[0]
    assert "--no-audit" in caught.value.hint
    monkeypatch.undo()
    assert log.path.read_bytes() == before


def test_where_nothing_can_be_taken_back_the_next_batch_is_still_read(log, monkeypatch):
    """An append-only file (chattr +a) may not be cut."""
    log.append(intents("r", [A], COMMON))
    real = os.write

    def write(file, data):
        if len(data) > 300:
            return real(file, data[:50])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(audit_log.os, "write", write)
    monkeypatch.setattr(audit_log.os, "ftruncate", lambda *_: (_ for _ in ()).throw(PermissionError()))
    with pytest.raises(RefusedError):
        log.append(intents("s", [B], COMMON))
    monkeypatch.undo()
    log.append(outcomes("r", [{**A, **DONE}], COMMON))
    found = log.read()
    assert [(one.group_instance_id, one.result) for one in found.removals] == [("a", "removed")]
    assert found.torn <= 1


def test_what_could_not_be_flushed_is_not_recorded(log, monkeypatch):
    log.prepare()

    def fsync(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(audit_log.os, "fsync", fsync)
    with pytest.raises(RefusedError, match="cannot be written"):
        log.append(intents("r", [A], COMMON))
    assert log.path.read_bytes() == b""


@pytest.mark.parametrize("kind", ["symlink", "folder", "fifo"])
def test_only_a_regular_file_is_written(log, tmp_path, kind):
    """A root shell that kept somebody's HOME must not append to whatever that person linked there."""
    target = tmp_path / "target"
    target.write_text("")
    log.path.parent.mkdir(parents=True)
    if kind == "symlink":
        log.path.symlink_to(target)
    elif kind == "folder":
        log.path.mkdir()
    else:
        os.mkfifo(log.path)
    with pytest.raises(RefusedError, match="cannot be written"):
        log.append(intents("r", [A], COMMON))
    assert target.read_text() == ""


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RefusedError) as caught:
        AuditLog(tmp_path / "file" / "kgm" / "audit.jsonl").prepare()
    assert "Not a directory" in caught.value.facts[0] or "File exists" in caught.value.facts[0]


def test_a_file_that_cannot_be_read_is_an_error(log):
    log.path.mkdir(parents=True)
    with pytest.raises(KgmError, match="the audit log cannot be read"):
        log.read()


def test_another_process_that_holds_the_lock_for_long(log, monkeypatch):
    log.prepare()
    monkeypatch.setattr(audit_log, "_LOCK_S", 0.05)
    with log.path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RefusedError) as caught:
            log.append(intents("r", [A], COMMON))
    assert "another process holds it" in caught.value.facts[0]


# -- bounded -----------------------------------------------------------------------------------------------------------


def test_it_is_rotated_and_bounded(log, monkeypatch):
    monkeypatch.setattr(audit_log, "MAX_BYTES", 1000)
    monkeypatch.setattr(audit_log, "MAX_ROTATED_FILES", 3)
    for number in range(40):
        log.append(intents(f"r{number:02}", [A], COMMON))
    names = sorted(path.name for path in log.path.parent.iterdir())
    assert names == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3", "audit.jsonl.head"]
    assert all(path.stat().st_size < 1500 for path in log.path.parent.iterdir())
    runs = [one.run for one in log.read().removals]
    assert runs == [f"r{number:02}" for number in range(40 - len(runs), 40)]
    assert len(runs) > 8
    assert problems(log) == []


def test_where_it_cannot_be_renamed_it_grows(log, monkeypatch):
    monkeypatch.setattr(audit_log, "MAX_BYTES", 1)

    real = audit_log.pathlib.Path.replace

    def replace(path, target):
        if path == log.path:
            raise PermissionError
        return real(path, target)

    monkeypatch.setattr(audit_log.pathlib.Path, "replace", replace)
    for number in range(3):
        log.append(intents(f"r{number}", [A], COMMON))
    assert len(log.read().removals) == 3


def test_a_file_that_is_rotated_while_we_wait_for_it_is_not_written(log, monkeypatch):
    log.prepare()
    real, calls = fcntl.flock, []

    def flock(file, how):
        if not calls:
            log.path.replace(log.path.with_name("audit.jsonl.1"))
        calls.append(file)
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    log.append(intents("r", [A], COMMON))
    assert len(calls) == 2
    assert log.path.with_name("audit.jsonl.1").read_bytes() == b""
    assert len(log.path.read_bytes().splitlines()) == 1


# -- whole processes ---------------------------------------------------------------------------------------------------

WRITER = """
import sys, pathlib
from kgm.operations.audit import audit_log
audit_log.MAX_BYTES = 200_000
log = audit_log.AuditLog(pathlib.Path(sys.argv[1]))
for n in range(60):
    member = {"group_instance_id": f"{sys.argv[2]}-{n}", "pad": "x" * 3000}
    log.append(audit_log.intents(f"{sys.argv[2]}-{n}", [member] * 2, {"operator": sys.argv[2]}))
"""


@pytest.mark.slow
def test_several_processes_at_once_lose_and_tear_nothing(log):
    """Also over rotations: six writers, 4 MB, a file of 200 kB at most."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(log.path), f"w{n}"]) for n in range(6)]
    try:
        assert [one.wait(60) for one in writers] == [0] * 6
    finally:
        for one in writers:
            one.kill()
    found = log.read()
    assert found.torn == 0
    kept = [one.group_instance_id for one in found.removals]
    # The oldest went, as they must; of each writer the last ones are there, without a gap.
    for n in range(6):
        numbers = sorted({int(name.partition("-")[2]) for name in kept if name.startswith(f"w{n}-")})
        assert numbers == list(range(numbers[0], 60)) if numbers else True
    assert any(name.endswith("-59") for name in kept)
    assert all(path.stat().st_size < 210_000 for path in log.path.parent.iterdir())


LIMITED = """
import pathlib, resource, sys
from kgm.operations.audit import audit_log
from kgm.model.errors import RefusedError
resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
log = audit_log.AuditLog(pathlib.Path(sys.argv[1]))
log.append(audit_log.intents("r", [{"group_instance_id": "a"}], {}))
try:
    log.append(audit_log.intents("s", [{"group_instance_id": "b", "pad": "x" * 3000}], {}))
except RefusedError as error:
    print(error.facts[0])
"""


@pytest.mark.slow
def test_a_real_limit_of_the_kernel(log):
    assert resource.RLIMIT_FSIZE is not None
    done = subprocess.run([sys.executable, "-c", LIMITED, str(log.path)], capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert [json.loads(line)["run"] for line in log.path.read_text().splitlines()] == ["r"]


# -- where -------------------------------------------------------------------------------------------------------------


def test_the_folder_is_that_of_xdg(monkeypatch, tmp_path):
    assert str(default_path({"XDG_STATE_HOME": "/x"})) == "/x/kgm/audit.jsonl"
    monkeypatch.setenv("HOME", "/home/somebody")
    for value in ({}, {"XDG_STATE_HOME": ""}, {"XDG_STATE_HOME": "relative"}):
        assert str(default_path(value)) == "/home/somebody/.local/state/kgm/audit.jsonl"

    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(audit_log.pathlib.Path, "home", home)
    with pytest.raises(RefusedError, match="no directory for the audit log"):
        default_path({})


def test_timestamps_sort_as_times_do():
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"
    assert timestamp(1_700_000_000) == "2023-11-14T22:13:20.000Z"


# -- the chain ---------------------------------------------------------------------------------------------------------


def problems(log):
    return list(log.read().problems)


def breaks(log):
    return [(one.path, one.line) for one in log.read().breaks]


def test_each_line_has_the_hash_of_the_one_before(log):
    """As anybody can check it with sha256sum, over rotated files too."""
    log.append(intents("r", [A, B], COMMON))
    log.append(outcomes("r", [{**A, **DONE}], COMMON))
    lines = log.path.read_bytes().splitlines()
    expected = [None, *(hashlib.sha256(line).hexdigest() for line in lines[:-1])]
    assert [json.loads(line)["previous"] for line in lines] == expected
    assert breaks(log) == []


def test_a_rotation_does_not_end_the_chain(log, monkeypatch):
    monkeypatch.setattr(audit_log, "MAX_BYTES", 1000)
    monkeypatch.setattr(audit_log, "MAX_ROTATED_FILES", 3)
    for number in range(40):
        log.append(intents(f"r{number:02}", [A], COMMON))
        assert breaks(log) == []
    first = log.path.with_name("audit.jsonl.2")
    first.write_bytes(b"".join(first.read_bytes().splitlines(keepends=True)[:-1]))
    assert breaks(log) == [(log.path.with_name("audit.jsonl.1"), 1)]


@pytest.mark.parametrize(
    ("edit", "at"),
    [
        (lambda lines: [*lines[:2], lines[2].replace(b"alice", b"mallo"), *lines[3:]], [4]),
        (lambda lines: [*lines[:2], *lines[3:]], [3]),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], [4]),
        (lambda lines: [lines[1], lines[0], *lines[2:]], [2, 3]),
        (lambda lines: [*lines[:2], b'{"event":"intent","run":"x","seq":0,"time":"t"}\n', *lines[2:]], [3, 4]),
        (lambda lines: [*lines[:2], b"torn\n", *lines[2:]], [4]),
        (lambda lines: lines[2:], []),  # the chain does not show these two, the head does
        (lambda lines: lines[:-1], []),
    ],
    ids=["changed", "removed", "repeated", "swapped", "inserted", "torn", "oldest", "newest"],
)
def test_a_line_that_does_not_follow_the_one_before_is_found(log, edit, at):
    for number in range(6):
        log.append(intents(f"r{number}", [A], COMMON))
    log.path.write_bytes(b"".join(edit(log.path.read_bytes().splitlines(keepends=True))))
    assert breaks(log) == [(log.path, line) for line in at]
    assert at or problems(log)


def test_lines_without_a_chain_are_accepted_before_the_first_with_one(log):
    log.prepare()
    log.path.write_text('{"event":"intent","run":"old","seq":0,"time":"t"}\n' * 2)
    assert breaks(log) == []
    log.append(intents("r", [A], COMMON))
    assert breaks(log) == []
    assert json.loads(log.path.read_text().splitlines()[2])["previous"] is not None


@pytest.mark.parametrize("end", [b'{"v":1,"event":"int', b"\0\0\0\0", b"[" * 50_000, b"\n\n"])
def test_a_torn_line_is_part_of_the_chain(log, end):
    log.append(intents("r", [A], COMMON))
    with log.path.open("ab") as file:
        file.write(end)
    for _ in range(2):
        log.append(outcomes("r", [{**A, **DONE}], COMMON))
    assert breaks(log) == []


@pytest.mark.parametrize("end", [b'{"v":1,"event":"int', b"garbage", b"{}"])
def test_a_whole_line_at_the_end_that_is_no_record_is_not_a_torn_one(log, end):
    """kgm writes a record and its newline at once, so one that was cut off has no newline."""
    log.append(intents("r", [A, B], COMMON))
    with log.path.open("ab") as file:
        file.write(end)
    assert problems(log) == []
    with log.path.open("ab") as file:
        file.write(b"\n")
    assert problems(log) == [f"line 3 of {log.path}, the last one, is not a record"]
    for _ in range(2):
        log.append(outcomes("r", [{**A, **DONE}], COMMON))
        (problem,) = problems(log)
        assert problem.endswith(": line 3, the last one, was not a record")
    assert breaks(log) == []


# -- the head ----------------------------------------------------------------------------------------------------------


def head_of(log):
    return log.path.with_name("audit.jsonl.head")


def lines_of(log):
    return log.path.read_bytes().splitlines(keepends=True)


@pytest.fixture
def six(log):
    """Six records, in three batches."""
    for number in range(3):
        log.append(intents(f"r{number}", [A, B], COMMON))
    return log


def test_the_head_has_the_number_and_the_hash_of_the_last_record(six):
    head = json.loads(head_of(six).read_text())
    assert (head["records"], head["last"]) == (6, hashlib.sha256(lines_of(six)[-1].rstrip()).hexdigest())
    assert [json.loads(line)["record"] for line in lines_of(six)] == [1, 2, 3, 4, 5, 6]
    assert oct(head_of(six).stat().st_mode & 0o777) == "0o600"
    found = six.read()
    assert (found.problems, found.newer, found.has_head) == ((), 0, True)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda log: log.path.write_bytes(b"".join(lines_of(log)[:-1])), "record 6 is missing"),
        (lambda log: log.path.write_bytes(b"".join(lines_of(log)[:2])), "records 3 to 6 are missing"),
        (lambda log: log.path.write_bytes(b""), "records 1 to 6 are missing"),
        (lambda log: log.path.unlink(), "records 1 to 6 are missing"),
        (lambda log: log.path.write_bytes(b"".join(lines_of(log)[1:])), "record 1 is missing"),
        (
            lambda log: log.path.write_bytes(log.path.read_bytes().replace(b'"b-1"', b'"b-2"')[:-1] + b"\n"),
            "the last line is not record 6 as it was written",
        ),
        (
            lambda log: log.path.write_bytes(log.path.read_bytes()[:-9]),
            "the last line is not record 6 as it was written",
        ),
    ],
    ids=["last line", "cut", "emptied", "deleted", "first line", "changed", "cut in a line"],
)
def test_what_is_missing_is_said_and_stays_so_after_the_next_removal(six, damage, said):
    damage(six)
    assert said in problems(six)
    six.append(intents("later", [A], COMMON))
    after = six.read()
    assert after.breaks or said in after.problems
    assert "later" in [one.run for one in after.removals]
    six.append(outcomes("later", [{**A, **DONE}], COMMON))
    assert (six.read().problems, six.read().breaks) == (after.problems, after.breaks)


def test_a_head_whose_first_record_was_never_written_does_not_hide_that_all_are_gone(six):
    head = json.loads(head_of(six).read_text())
    head_of(six).write_text(json.dumps({**head, "first": 2**31}))
    six.path.write_bytes(b"")
    assert problems(six)
    six.append(intents("later", [A], COMMON))
    assert six.read().problems


@pytest.mark.parametrize("how", ["deleted", "emptied", "another file", "a link", "of other fields"])
def test_a_head_that_was_tampered_with_is_said_and_stays_so(six, tmp_path, how):
    head = head_of(six)
    text = head.read_text()
    head.unlink()
    if how == "emptied":
        head.write_text("")
    elif how == "another file":
        head.write_text("[1]")
    elif how == "a link":
        (tmp_path / "elsewhere").write_text(text)
        head.symlink_to(tmp_path / "elsewhere")
    elif how == "of other fields":
        head.write_text('{"first": 1, "records": -1, "last": null}')
    said = "is missing" if how == "deleted" else "is not readable"
    assert [said in one for one in problems(six)] == [True]
    six.append(intents("later", [A], COMMON))
    said = said.replace("is", "was", 1)
    assert [said in one for one in problems(six)] == [True]
    assert json.loads(head.read_text())["records"] == 7


def test_a_process_that_is_killed_between_line_and_head_is_no_tampering(six, mocker):
    """The next write takes the lines up."""
    mocker.patch.object(audit_log, "write_head", side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        six.append(intents("killed", [A, B], COMMON))
    mocker.stopall()
    found = six.read()
    assert (found.problems, found.breaks, found.newer) == ((), (), 2)
    six.append(intents("later", [A], COMMON))
    found = six.read()
    assert (found.problems, found.breaks, found.newer) == ((), (), 0)
    assert [one.run for one in found.removals][-3:] == ["killed", "killed", "later"]


def test_a_process_that_is_killed_at_its_first_line_is_no_tampering(log, mocker):
    real, calls = audit_log.write_head, []

    def write_head(path, head):
        calls.append(head)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(path, head)

    mocker.patch.object(audit_log, "write_head", write_head)
    with pytest.raises(KeyboardInterrupt):
        log.append(intents("killed", [A], COMMON))
    found = log.read()
    assert (found.problems, found.newer, len(found.removals)) == ((), 1, 1)


@pytest.mark.parametrize("renames", range(4))
def test_a_process_that_is_killed_while_it_rotates_is_no_tampering(log, monkeypatch, renames):
    monkeypatch.setattr(audit_log, "MAX_BYTES", 1000)
    monkeypatch.setattr(audit_log, "MAX_ROTATED_FILES", 3)
    number = 0
    while not log.path.with_name("audit.jsonl.3").exists() or log.path.stat().st_size < 1000:
        log.append(intents(f"r{number:02}", [A], COMMON))
        number += 1
    real, done = audit_log.pathlib.Path.replace, []

    def replace(path, target):
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(path)
        return real(path, target)

    monkeypatch.setattr(audit_log.pathlib.Path, "replace", replace)
    try:
        log.append(intents("killed", [A], COMMON))
    except KeyboardInterrupt:
        assert len(done) == renames
    monkeypatch.setattr(audit_log.pathlib.Path, "replace", real)
    assert problems(log) == []
    log.append(intents("later", [A], COMMON))
    assert (problems(log), breaks(log)) == ([], [])


def test_a_head_that_cannot_be_written_undoes_the_lines(six, mocker):
    before = six.path.read_bytes()
    mocker.patch.object(audit_log, "write_head", side_effect=OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(RefusedError, match="cannot be written"):
        six.append(intents("s", [B], COMMON))
    mocker.stopall()
    assert six.path.read_bytes() == before
    assert problems(six) == []


def test_a_log_without_a_head_is_told_and_the_next_write_makes_one(log):
    """Of a version of kgm that wrote none."""
    log.prepare()
    old = [b'{"event":"intent","run":"old","seq":%d,"time":"t"}\n' % number for number in range(3)]
    log.path.write_bytes(b"".join(old))
    assert (problems(log), log.read().has_head) == ([], False)
    log.append(intents("r", [A], COMMON))
    found = log.read()
    assert (found.problems, found.breaks, found.has_head) == ((), (), True)
    assert json.loads(lines_of(log)[-1])["record"] == 4
    log.path.write_bytes(b"".join([*old[1:], *lines_of(log)[3:]]))
    assert problems(log) == ["one record before record 4 is missing"]
    assert breaks(log) == []


def test_lines_that_an_older_kgm_appends_are_taken_up(six):
    last = hashlib.sha256(lines_of(six)[-1].rstrip()).hexdigest()
    with six.path.open("a") as file:
        file.write(json.dumps({"event": "intent", "run": "old", "seq": 0, "time": "t", "previous": last}) + "\n")
    assert (problems(six), breaks(six), six.read().newer) == ([], [], 1)
    six.append(intents("r", [A], COMMON))
    assert (problems(six), breaks(six), six.read().newer) == ([], [], 0)
