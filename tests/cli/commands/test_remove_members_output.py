"""The outcome of a removal is never lost: every write to stdout and stderr may fail.

What was done is in the audit log, and printed where printing works; the exit code tells whether something was changed."""

from __future__ import annotations

import errno
import itertools
import json
import os
import pathlib
import pty
import random
import resource
import signal
import subprocess
import sys
import threading
import uuid
from dataclasses import dataclass

import pytest

from kgm.cli.main import finish, run
from kgm.client import connect
from kgm.operations.audit.audit_log import AuditLog
from kgm.protocol.apis import ApiKey
from tests import KGM
from tests.cli.environment import bare
from tests.cli.failing_streams import CLOSE, Failure, failing_streams
from tests.client.conftest import form, group, proxy, server  # noqa: F401  (fixtures)
from tests.client.faults import BlackHole, Edit
from tests.client.joiners import form_group, leave_dead_group
from tests.needs import needs
from tests.selection import sized
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nobody_returns")]

ERRORS = (errno.ENOSPC, errno.EPIPE, errno.EBADF, errno.EIO)
ASSUMED = ("--assume-stopped", "--guard-window", "50ms")
FORMATS = ("table", "json", "yaml", "ndjson")


@dataclass(frozen=True)
class Kind:
    """A way in which remove-members ends. code: where everything can be written; removed: whether member a is gone then;
    shown: the result of a, None if the command ends with an error alone; fault: (API, error code in its answers)."""

    words: tuple[str, ...]
    code: int
    removed: bool
    shown: str | None
    fault: tuple[ApiKey, int] | None = None


KINDS = {
    "planned": Kind(("-i", "a", "--dry-run", *ASSUMED), 0, False, "planned"),
    "refused": Kind(("-i", "a", "--yes", "--guard-window", "50ms"), 6, False, "refused"),
    "removed": Kind(("-i", "a", "--yes", *ASSUMED), 0, True, "removed"),
    "some absent": Kind(("-i", "a,zz", "--yes", *ASSUMED), 7, True, "removed"),
    "all absent": Kind(("-i", "zz", "--yes", *ASSUMED), 3, False, "absent"),
    "unknown": Kind(("-i", "a", "--yes", *ASSUMED), 7, True, "unknown", (ApiKey.LEAVE_GROUP, 30)),
    "failed": Kind(("-i", "a", "--yes", *ASSUMED, "--timeout", "3s"), 1, False, None, (ApiKey.FIND_COORDINATOR, -1)),
}


def failures(kind, text_format):
    """(failure of stdout, failure of stderr): each error for each stream, the writes after the first, the close, both."""
    chance = random.Random(f"{kind} {text_format}")
    for error in ERRORS:
        yield Failure(0, error), None
        yield None, Failure(0, error)
        yield Failure(0, error), Failure(0, chance.choice(ERRORS))
    yield Failure(CLOSE, errno.ENOSPC), None
    yield Failure(CLOSE, errno.EIO), Failure(0, errno.ENOSPC)
    for number in (1, 2, 3):
        yield None, Failure(number, chance.choice(ERRORS), lasts=chance.random() < 0.5)
    for _ in range(4):
        out = Failure(chance.choice((0, 1, CLOSE)), chance.choice(ERRORS), lasts=chance.random() < 0.5)
        err = Failure(chance.choice((0, 1, 2, 3)), chance.choice(ERRORS), lasts=chance.random() < 0.5)
        yield out, err


def expected_code(kind, out, err):
    """By the rule of docs/exit-codes.md."""
    reasons = {out.first_failed_with} if out.first_failed_with is not None else set()
    if out.close_failed:
        reasons |= out.failed_with
    lost = bool(reasons - {errno.EPIPE})
    if kind.removed:
        # Whether everything has reached one of the two depends on which of their writes fails.
        is_open = bool(out.failed_with) and bool(err.failed_with)
        return {7} if lost else {kind.code, 7} if is_open else {kind.code}
    if not lost or kind.shown is None:
        return {kind.code, kind.code or 1} if out.failed_with and err.failed_with else {kind.code}
    return {kind.code or 1} if out.close_failed else {1}


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "kgm" / "audit.jsonl"


def outcomes(path, group):  # noqa: F811
    """The results of a group's members in the audit log."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line["result"] for line in lines if line["event"] == "outcome" and line["group_id"] == group]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "text_format"),
    sized(list(zip(list(KINDS)[::2], itertools.cycle(FORMATS))), list(itertools.product(KINDS, FORMATS))),
)
def test_every_write_may_fail(name, text_format, server, proxy, state, monkeypatch):  # noqa: F811
    kind = KINDS[name]
    if kind.fault is not None:
        api, answered = kind.fault

        def change(message):
            for row in getattr(message, "coordinators", None) or [message]:
                row.error_code = answered

        proxy.always(api, Edit(change))
    for out_failure, err_failure in failures(name, text_format):
        group_id = f"g-{uuid.uuid4().hex[:10]}"
        joiners = form_group(server, group_id, ("a", "b"), "orders")
        words = ["remove-members", group_id, "-b", proxy.bootstrap, "-o", text_format, *kind.words]
        case = (out_failure, err_failure)
        with failing_streams(monkeypatch, out_failure, err_failure) as (out, err):
            code = finish(run(words))
        for joiner in joiners:
            joiner.close()
        shown = out.text + err.text
        assert "Traceback" not in shown, case
        assert "internal error" not in shown, case
        assert code in expected_code(kind, out, err), (case, code, shown)
        with connect(server.bootstrap, timeout_ms=60_000) as cluster:
            left = [one.identity for one in cluster.describe_group(group_id).members]
        assert left == (["b"] if kind.removed else ["a", "b"]), case
        assert outcomes(state, group_id) == ([kind.shown] if kind.removed else []), case
        if kind.removed and not (out.failed_with and err.failed_with):
            assert kind.shown in shown, (case, shown)
        if kind.shown is None and text_format == "table" and not (out.failed_with and err.failed_with):
            assert "error: " in shown, (case, shown)


# -- whole processes: what the kernel and the interpreter make of it ---------------------------------------------------


#: What the shell does to the streams: (exit code after a removal, after a dry run).
REDIRECTIONS = {
    ">/dev/full": (7, 1),
    ">&-": (7, 1),
    "2>/dev/full": (0, 0),
    "2>&-": (0, 0),
    ">/dev/full 2>/dev/full": (7, 1),
    ">&- 2>&-": (7, 1),
    "<&- >&- 2>&-": (7, 1),
}


def shell(redirection, words, tmp_path):
    """kgm with a redirection: (exit code, stdout, stderr)."""
    env = {**bare(), "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [needs("bash"), "-c", f'"$@" {redirection}', "bash", *KGM, *words],
        capture_output=True, text=True, check=False, timeout=60, env=env, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize("redirection", sized([">/dev/full", ">&-", "2>&-", ">&- 2>&-"], list(REDIRECTIONS)))
def test_streams_that_the_shell_has_spoiled(redirection, server, group, form, state, tmp_path):  # noqa: F811
    form("a", "b")
    words = ["remove-members", group, "-b", server.bootstrap, "-i", "a", *ASSUMED]
    removed, planned = REDIRECTIONS[redirection]
    code, out, err = shell(redirection, [*words, "--dry-run"], tmp_path)
    assert (code, outcomes(state, group)) == (planned, [])
    code, out, err = shell(redirection, [*words, "--yes"], tmp_path)
    assert (code, outcomes(state, group)) == (removed, ["removed"])
    assert "Traceback" not in out + err
    assert "internal error" not in out + err
    if redirection.startswith(">") and "2>" not in redirection:
        assert "error: the output cannot be written: " in err
        assert f"the results are in the audit log: kgm audit --group={group}" in err
        assert "removed" in err
    elif ">/dev" not in redirection.replace("2>", "") and redirection.startswith("2"):
        assert "removed" in out


def test_a_reader_that_has_gone_leaves_the_code_and_the_result_to_stderr(server, group, form, state, tmp_path):  # noqa: F811
    form("a", "b")
    words = ["remove-members", group, "-b", server.bootstrap, "-i", "a", "--yes", *ASSUMED]
    code, _, err = shell("| head -c 0; exit ${PIPESTATUS[0]}", words, tmp_path)
    assert (code, outcomes(state, group)) == (0, ["removed"])
    (line,) = [line for line in err.splitlines() if line.startswith("a ")]
    assert "removed" in line.split()
    assert "Traceback" not in err


# -- an audit log that takes the intent, and not the outcome -----------------------------------------------------------


def change_of(command, server, group_id):  # noqa: F811
    """Form a group that the command changes: (the words after kgm, how the line with the result begins)."""
    if command == "delete-groups":
        leave_dead_group(server.port, group_id, "orders")
        return [command, group_id, "-b", server.bootstrap, "--yes", "--idle-for", "0s"], group_id
    form_group(server, group_id, ("a",), "orders")[0].close()
    return [command, group_id, "-b", server.bootstrap, "--yes", "-i", "a", *ASSUMED], "a "


def start_without_room(command, server, group_id, tmp_path, log, stdout):  # noqa: F811
    """kgm, for whose files the kernel has a limit: (process, how the line with the result begins)."""
    words, _ = change_of(command, server, f"g-{uuid.uuid4().hex[:10]}")
    assert shell("", words, tmp_path)[0] == 0
    most_bytes = log.stat().st_size + len(log.read_bytes().splitlines()[0]) + 100
    words, begin = change_of(command, server, group_id)
    env = {**bare(), "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CACHE_HOME": str(tmp_path)}
    env["PYTHONDONTWRITEBYTECODE"] = "1"  # Python would not notice that a file of compiled code was cut off
    child = subprocess.Popen(
        [*KGM, *words], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True, env=env,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes)),  # noqa: PLW1509
    )  # fmt: skip
    return child, begin


def assert_only_stderr_has_it(err, begin, log, group_id):
    assert "warning: the outcome is not in the audit log: " in err
    assert outcomes(log, group_id) == []
    assert "kgm audit" not in err
    assert [one for one in err.splitlines() if one.startswith(begin) and "removed" in one.split()], err


@pytest.mark.long
@pytest.mark.parametrize("command", ["remove-members", "delete-groups"])
def test_results_that_no_file_has_are_on_stderr(command, server, group, state, tmp_path):  # noqa: F811
    with pathlib.Path("/dev/full").open("w") as full:
        child, begin = start_without_room(command, server, group, tmp_path, state, full)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 7, err
    assert "error: the output cannot be written: " in err
    assert_only_stderr_has_it(err, begin, state, group)


@pytest.mark.parametrize("command", ["remove-members", "delete-groups"])
def test_results_that_no_file_has_are_on_stderr_after_ctrl_c(command, server, group, state, monkeypatch, capsys):  # noqa: F811
    """Ctrl-C while the reader of stdout keeps kgm waiting."""
    real, calls = AuditLog._append, []

    def append(self, records):
        calls.append(records)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, records)

    def interrupted(_text):
        monkeypatch.undo()
        raise KeyboardInterrupt

    words, begin = change_of(command, server, group)
    monkeypatch.setattr(AuditLog, "_append", append)
    monkeypatch.setattr(sys.stdout, "write", interrupted)
    code = run(words)
    assert code == 130
    _, err = capsys.readouterr()
    assert "interrupted after" in err
    assert_only_stderr_has_it(err, begin, state, group)


def at_terminal(words, tmp_path, **streams):
    """kgm with stdin at a terminal: (process, the other end of the terminal)."""
    controller, terminal = pty.openpty()
    env = {**bare(), "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CACHE_HOME": str(tmp_path)}
    child = subprocess.Popen([*KGM, *words], stdin=terminal, stdout=subprocess.PIPE, text=True, env=env, **streams)
    os.close(terminal)
    return child, controller


def test_a_question_that_cannot_be_shown_is_not_taken_as_answered(server, group, form, state, tmp_path):  # noqa: F811
    form("a", "b")
    with pathlib.Path("/dev/full").open("w") as full:
        words = ["remove-members", group, "-b", server.bootstrap, "-i", "a", *ASSUMED]
        child, controller = at_terminal(words, tmp_path, stderr=full)
        os.write(controller, b"y\n")
        out, _ = child.communicate(timeout=60)
    os.close(controller)
    assert child.returncode == 6
    assert "stderr cannot be written, so kgm cannot ask" in out
    assert outcomes(state, group) == []


def test_ctrl_c_at_the_prompt_says_that_nothing_was_removed(server, group, form, state, tmp_path):  # noqa: F811
    form("a", "b")
    words = ["remove-members", group, "-b", server.bootstrap, "-i", "a", *ASSUMED]
    child, controller = at_terminal(words, tmp_path, stderr=subprocess.PIPE)
    shown = ""
    while "[y/N]" not in shown:
        piece = os.read(child.stderr.fileno(), 4096).decode()
        assert piece, shown
        shown += piece
    with connect(server.bootstrap, timeout_ms=60_000) as cluster:
        where = f"of cluster {cluster.cluster_id} at {server.bootstrap}"
    assert f"group {group!r} {where}" in shown
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    os.close(controller)
    assert child.returncode == 130
    assert f"interrupted: nothing was removed from group {group!r} {where}" in err
    assert outcomes(state, group) == []


#: The signals that interrupt a command, and the exit code of each.
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


def start(words, tmp_path):
    env = {**bare(), "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CACHE_HOME": str(tmp_path)}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*KGM, *words], text=True, env=env, **streams)


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_between_the_intent_and_the_request(number, code, server, proxy, group, form, state, tmp_path):  # noqa: F811
    form("a", "b")
    held, release = threading.Event(), threading.Event()

    def hold(_message):
        if state.exists() and '"intent"' in state.read_text():
            held.set()
            release.wait(60)

    for api in (ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH):
        proxy.always(api, Edit(hold))
    child = start(["remove-members", group, "-b", proxy.bootstrap, "-i", "a", "--yes", *ASSUMED], tmp_path)
    try:
        assert held.wait(60)
        child.send_signal(number)
        _, err = child.communicate(timeout=60)
    finally:
        release.set()
        child.kill()
    assert child.returncode == code
    assert f"interrupted: nothing was removed from group {group!r}" in err
    assert (outcomes(state, group), proxy.requests(ApiKey.LEAVE_GROUP)) == (["failed"], [])


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_after_the_request(number, code, proxy, group, form, state, tmp_path):  # noqa: F811
    form("a", "b")
    proxy.always(ApiKey.LEAVE_GROUP, BlackHole())
    words = ["remove-members", group, "-b", proxy.bootstrap, "-i", "a", "--yes", *ASSUMED, "-o", "json"]
    child = start(words, tmp_path)
    until(lambda: proxy.requests(ApiKey.LEAVE_GROUP), "no LeaveGroup is sent")
    child.send_signal(number)
    out, err = child.communicate(timeout=60)
    assert child.returncode == code, err
    assert "interrupted after the request was sent" in err
    (shown,) = json.loads(out)["data"]["results"]
    assert (shown["group_instance_id"], shown["result"]) == ("a", "unknown")
    assert f"kgm describe {group}" in err
    assert outcomes(state, group) == ["unknown"]


def test_the_cluster_is_named_before_anything_is_sent(server, group, form, state, tmp_path):  # noqa: F811
    form("a", "b")
    words = ["remove-members", group, "-b", server.bootstrap, "-i", "a", "--yes", *ASSUMED, "-o", "json"]
    code, out, err = shell("", words, tmp_path)
    cluster = json.loads(out)["cluster"]
    assert (code, cluster["bootstrap"]) == (0, server.bootstrap)
    where = f"group {group!r} of cluster {cluster['id']} at {server.bootstrap}"
    assert f"removing 1 member from {where}\n" in err


@pytest.mark.parametrize("after", [False, True], ids=["before the request", "after it"])
def test_ctrl_c_while_the_audit_log_is_written(after, server, proxy, group, form, state, monkeypatch, capsys):  # noqa: F811
    """The one moment at which only the log, or only the group, has changed."""
    form("a", "b")
    fsync = os.fsync

    def interrupted(descriptor):
        fsync(descriptor)
        has_intent = state.exists() and '"intent"' in state.read_text()
        if has_intent and bool(proxy.requests(ApiKey.LEAVE_GROUP)) == after:
            monkeypatch.setattr(os, "fsync", fsync)
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    code = run(["remove-members", group, "-b", proxy.bootstrap, "-i", "a", "--yes", *ASSUMED])
    out, err = capsys.readouterr()
    with connect(server.bootstrap, timeout_ms=60_000) as cluster:
        left = [one.identity for one in cluster.describe_group(group).members]
    assert "Traceback" not in out + err
    if after:
        assert (code, left) == (7, ["b"])
        assert "interrupted after the request was sent: it is not known which members" in err
        assert outcomes(state, group) in (["removed"], ["removed", "unknown"], ["unknown"])
    else:
        assert (code, left) == (130, ["a", "b"])
        assert f"interrupted: nothing was removed from group {group!r}" in err
        assert outcomes(state, group) == ["failed"]
