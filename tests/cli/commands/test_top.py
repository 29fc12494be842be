"""`kgm top`: one frame for scripts, and at a pseudo terminal its keys, its size, and how it is stopped and left."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import termios
import time
import uuid

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from kgm.server import serve_in_thread
from tests import KGM
from tests.cli.environment import bare
from tests.cli.runner import kgm
from tests.client.joiners import Joiner, form_group
from tests.kafka.records import produce
from tests.waiting import can_read, until

TOPIC = "orders"
ENTER, ESCAPE, DOWN, CTRL_C, CTRL_Z = b"\r", b"\x1b", b"\x1b[B", b"\x03", b"\x1a"
IN, OUT = "\x1b[?1049h", "\x1b[?1049l"
LIMIT_S = 60


@pytest.fixture(scope="module")
def fleet():
    """A broker with three groups: one lags."""
    with serve_in_thread(topics={TOPIC: 2}, settings=BrokerSettings(group_initial_rebalance_delay_ms=0)) as server:
        produce(server.bootstrap, TOPIC, [b"x"] * 20, range(2))
        joiners = [one for name in ("late", "done", "other") for one in form_group(server, name, ["a", "b"], TOPIC)]
        for joiner in joiners:
            for partition in range(2):
                assert joiner.commit(partition, 2 if joiner.group == "late" else 10) == 0
        yield server.bootstrap
        for joiner in joiners:
            joiner.close()


def test_one_frame_as_json(fleet):
    done = kgm("top", "--once", "-b", fleet, "-o", "json")
    assert done.code == 0, done.err
    data = json.loads(done.out)["data"]
    assert [one["group_id"] for one in data["groups"]] == ["late", "done", "other"]
    late, done_group, _ = data["groups"]
    assert (late["lag"], late["members"], late["missing"], late["state"]) == (16, 2, 0, "Stable")
    assert late["lag_ms"] > 0
    assert (done_group["lag"], done_group["lag_ms"]) == (0, 0)
    assert late["rebalances_exact"] is True
    assert data["unread"] == []


def test_without_a_terminal_it_prints_one_frame(fleet):
    done = kgm("top", "-b", fleet, "--sort", "group", "--match", "*t*")
    assert done.code == 0, done.err
    head, *lines = done.out.splitlines()
    assert head.split() == [
        "GROUP",
        "TYPE",
        "STATE",
        "MEMBERS",
        "MISSING",
        "LAG",
        "LAG-TIME",
        "COMMIT-AGE",
        "REBALANCES",
    ]
    assert [line.split()[:6] for line in lines] == [
        ["late", "classic", "Stable", "2", "0", "16"], ["other", "classic", "Stable", "2", "0", "0"],
    ]  # fmt: skip
    assert kgm("top", "-b", fleet, "-o", "name").out.split() == ["late", "done", "other"]
    (row, *_) = csv.DictReader(io.StringIO(kgm("top", "-b", fleet, "-o", "csv").out))
    assert (row["group_id"], row["lag"]) == ("late", "16")
    assert int(row["lag_ms"]) > 0
    lines = kgm("top", "-b", fleet, "-o", "ndjson").out.splitlines()
    assert [json.loads(line)["group_id"] for line in lines] == ["late", "done", "other"]


@pytest.mark.shows("top")
@pytest.mark.kafka
def test_the_worst_group_of_a_real_broker(kafka):
    prefix = f"top-{uuid.uuid4().hex[:8]}"
    topic = f"{prefix}-in"
    kafka.create_topics({topic: 2})
    produce(kafka.bootstrap, topic, [b"x"] * 20, range(2))

    for name, offset in (("fine", 10), ("worst", 3)):
        joiner = Joiner(kafka.port, f"{prefix}-{name}", "a", topic)
        assert until(joiner.join, "it cannot join", accept=lambda answer: answer.error_code == 0)
        blob = encode_assignment(MemberAssignment(partitions={topic: [0, 1]}))
        assert joiner.sync({joiner.member_id: blob}).error_code == 0
        assert [joiner.commit(partition, offset) for partition in range(2)] == [0, 0]
        joiner.close()
    done = kgm("top", "--once", "--match", f"{prefix}-*", "-b", kafka.bootstrap, "-o", "json")
    assert done.code == 0, done.err
    worst, fine = json.loads(done.out)["data"]["groups"]
    assert (worst["group_id"], worst["lag"], fine["lag"]) == (f"{prefix}-worst", 14, 0)
    assert worst["lag_ms"] > 0
    assert worst["commit_age_ms"] is not None
    assert (worst["members"], worst["rebalances"], worst["rebalances_exact"]) == (1, 1, True)


def test_wrong_options():
    for words, said in (
        (["--sort", "worst"], "--sort"), (["--interval", "1ms"], "--interval"), (["--interval", "1"], "--interval"),
    ):  # fmt: skip
        done = kgm("top", "-b", "localhost:1", *words)
        assert (done.code, said in done.err) == (2, True), done.err


class Terminal:
    """A command at a pseudo terminal of its own session."""

    def __init__(self, command, *, columns=80, lines=24, env=None):
        self.leader, self.follower = pty.openpty()
        self.resize(columns, lines)
        self.flags = termios.tcgetattr(self.follower)[3]
        self.process = subprocess.Popen(
            command, stdin=self.follower, stdout=self.follower, stderr=self.follower, start_new_session=True,
            env={**bare(), "TERM": "xterm-256color", "XDG_CACHE_HOME": "/dev/null", **(env or {})},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  (it only takes the terminal)
        )  # fmt: skip
        self.seen = ""
        self._end_s = time.monotonic() + LIMIT_S

    def resize(self, columns, lines):
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, *keys):
        for key in keys:
            os.write(self.leader, key)

    def wait_for(self, *texts):
        """What was drawn from now on until the screen, or the terminal, has all these texts. Raises TimeoutError."""
        begin = len(self.seen)
        while not all(text in self.seen[begin:] for text in texts):
            assert self.read(), (texts, self.seen[begin:])
        return self.seen[begin:]

    def read(self):
        """Whether there was something to read; TimeoutError when it takes too long."""
        if not can_read(self.leader, max(self._end_s - time.monotonic(), 0)):
            raise TimeoutError(self.seen[-3000:])
        try:
            data = os.read(self.leader, 65536)
        except OSError:
            return False
        self.seen += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)

    @property
    def echoes(self):
        return bool(termios.tcgetattr(self.follower)[3] & termios.ECHO)

    def end(self):
        """The exit code; everything that was written is in `seen`."""
        while self.process.poll() is None:
            if can_read(self.leader, 0.05):
                self.read()
        while can_read(self.leader, 0) and self.read():
            pass
        assert termios.tcgetattr(self.follower)[3] == self.flags  # echo, and lines instead of keys
        return self.process.returncode

    def hang_up(self):
        """Close the terminal, as a window that is closed does: the kernel sends SIGHUP, and nothing can be written."""
        null = os.open(os.devnull, os.O_RDWR)
        for end in (self.follower, self.leader):
            os.dup2(null, end)
        os.close(null)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.leader)
        os.close(self.follower)


@pytest.fixture
def top(fleet):
    made = []

    def run(*words, before=(), after=(), **more):
        terminal = Terminal([*before, *KGM, "top", "-b", fleet, "--interval", "200ms", *words, *after], **more)
        made.append(terminal)
        return terminal

    yield run
    for terminal in made:
        terminal.close()


def text_of(drawn):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn)


def test_keys_sort_filter_open_and_leave(top):
    terminal = top()
    first = text_of(terminal.wait_for("all read within", "Name"))
    names = [line.split()[0] for line in first.splitlines() if re.match(r"(late|done|other) ", line)]
    assert names[:3] == ["late", "done", "other"]
    terminal.press(b"n")
    terminal.wait_for("by group")
    terminal.press(DOWN, DOWN, DOWN, b"k", ENTER)  # done, late, other: one up again
    opened = terminal.wait_for("esc back", "ASSIGNMENT")
    assert "late" in text_of(opened)
    terminal.press(ESCAPE)
    terminal.wait_for("by group")
    terminal.press(b"/", *(b"oth"[at : at + 1] for at in range(3)), ENTER)
    assert "done " not in text_of(terminal.wait_for("filter 'oth': 1")).rpartition("filter 'oth': 1")[2]
    terminal.press(ENTER)
    terminal.wait_for("esc back")
    terminal.press(b"q")  # back, and not out
    terminal.wait_for("filter 'oth': 1")
    terminal.press(b"q")
    assert terminal.end() == 0
    assert OUT in terminal.seen
    last = text_of(terminal.seen.rpartition(OUT)[2])
    assert [line.split()[0] for line in last.splitlines()[3:]] == ["other"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("stop", "code"), [(CTRL_C, 130), (signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["key", "INT", "TERM"]
)
def test_the_terminal_is_as_before_however_it_ends(top, stop, code):
    terminal = top()
    terminal.wait_for("all read within")
    assert not terminal.echoes
    if isinstance(stop, bytes):
        terminal.press(stop)
    else:
        terminal.process.send_signal(stop)
    assert terminal.end() == code
    assert terminal.seen.count(IN) == terminal.seen.count(OUT) == 1
    assert "Traceback" not in terminal.seen


@pytest.mark.few(1)
@pytest.mark.parametrize("words", [["top"], ["watch", "late"], ["watch", "late", "-o", "ndjson"]], ids=shlex.join)
def test_a_terminal_that_hangs_up_ends_it_with_the_code_of_sighup(fleet, words):
    terminal = Terminal([*KGM, *words, "-b", fleet, "--interval", "200ms"])
    try:
        terminal.wait_for("late")
        terminal.hang_up()
        assert terminal.process.wait(LIMIT_S) == 129
    finally:
        terminal.close()


def test_a_time_limit_ends_it(top):
    terminal = top("--timeout", "1s")
    assert terminal.end() == 0
    assert "late" in terminal.seen.rpartition(OUT)[2]


def test_another_size_is_filled_at_once(top):
    terminal = top("--interval", "1h")  # so that no round draws it again
    terminal.wait_for("Name")
    terminal.resize(40, 8)  # of which the kernel tells it by SIGWINCH
    drawn = terminal.wait_for("enter open  / filter  q quit  sort: Tim…")
    assert all(len(line) <= 40 for line in text_of(drawn).rpartition("by lag-time")[2].splitlines()[1:])
    terminal.press(b"q")
    assert terminal.end() == 0


def test_without_colours(top):
    terminal = top(env={"NO_COLOR": "1"})
    drawn = terminal.wait_for("all read within", "Name")
    assert not re.search(r"\x1b\[(\d+;)*3[0-7]m", drawn)
    terminal.press(b"q")
    assert terminal.end() == 0


def test_a_dumb_terminal_gets_one_frame(top):
    terminal = top(env={"TERM": "dumb"})
    assert terminal.end() == 0
    assert IN not in terminal.seen
    assert "late" in terminal.seen


def test_a_shell_stops_it_and_goes_on_with_it(fleet):
    """Ctrl-Z gives the screen and the keyboard back to the shell, and `fg` takes them again; in the background it does not
    draw over the shell."""
    line = shlex.join([*KGM, "top", "-b", fleet, "--interval", "200ms"])
    then = 'echo; echo stopped; read; bg; until [ -n "$(jobs -s)" ]; do sleep 0.05; done; echo waits; read; fg; exit $?'
    terminal = Terminal(["bash", "--norc", "--noprofile", "-c", f"set -m; {line}; {then}"])
    try:
        terminal.wait_for("all read within")
        terminal.press(CTRL_Z)
        stopped = terminal.wait_for("stopped\n")
        assert OUT in stopped
        assert terminal.echoes
        terminal.press(b"\n")
        assert IN not in terminal.wait_for("waits\n")
        terminal.press(b"\n")
        terminal.wait_for(IN, "all read within")
        assert not terminal.echoes
        terminal.press(b"q")
        assert terminal.end() == 0
    finally:
        terminal.close()


def test_a_cluster_that_cannot_be_reached_is_an_error_and_no_screen():
    terminal = Terminal([*KGM, "top", "-b", "127.0.0.1:1", "--timeout", "1s"])
    try:
        assert terminal.end() == 5
        assert IN not in terminal.seen
        assert "error: " in terminal.seen
    finally:
        terminal.close()
