"""`kgm watch` and real clients that restart, on an embedded cluster and on a real Kafka; what it does in a pipe, at a
terminal, when it is interrupted, and when brokers fail and return."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import IO

import pytest
from confluent_kafka.admin import AdminClient

from kgm.cli.main import run
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server import serve_in_thread
from tests import KGM
from tests.cli.environment import bare
from tests.cli.forked import forked_command
from tests.cli.runner import kgm, kgm_in_time
from tests.client.faults import FaultProxy
from tests.kafka.members import JavaMembers, RdMembers, wait_settled
from tests.needs import needs
from tests.server.served import ServedProcess
from tests.waiting import can_read

pytestmark = [pytest.mark.shows("watch"), pytest.mark.slow]
PARTITIONS = 6
PATIENCE_S = 60


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def cluster(request):
    """(bootstrap, topic)."""
    topic = f"t-{uuid.uuid4().hex[:8]}"
    if request.param == "embedded":
        settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
        with serve_in_thread(topics={topic: PARTITIONS}, settings=settings) as server:
            yield server.bootstrap, topic
    else:
        kafka = request.getfixturevalue("kafka")
        kafka.create_topics({topic: PARTITIONS})
        yield kafka.bootstrap, topic


class Watching:
    """`kgm watch` in a process of its own, read line by line."""

    def __init__(self, *arguments, stdout=subprocess.PIPE, stdin=None, env=None, command=("watch",), **more):
        is_plain = stdin is None and stdout == subprocess.PIPE
        self.process = subprocess.Popen(
            [*(forked_command() if is_plain else KGM), *command, *arguments, "--interval", "100ms"],
            stdin=stdin, stdout=stdout, **more, stderr=subprocess.PIPE, text=True, env={**bare(), **(env or {})}, start_new_session=True,
        )  # fmt: skip
        self.lines, self.err = [], []
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._read, args=(self.process.stderr, self.err), daemon=True)]
        if stdout == subprocess.PIPE:
            self._threads.append(
                threading.Thread(target=self._read, args=(self.process.stdout, self.lines), daemon=True)
            )
        for thread in self._threads:
            thread.start()

    def _read(self, stream, into):
        with stream:
            for line in stream:
                with self._changed:
                    into.append(line.rstrip("\n"))
                    self._changed.notify_all()

    def wait_for(self, word, *, after=0):
        """The first line with this word; the number of lines up to it."""

        def found():
            return next((i for i, line in enumerate(self.lines) if i >= after and word in line), None)

        with self._changed:
            if not self._changed.wait_for(lambda: found() is not None, PATIENCE_S):
                pytest.fail(f"no {word!r} in:\n" + "\n".join(self.lines + self.err))
        return found() + 1

    def end(self):
        """Its exit code."""
        code = self.process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        return code

    @property
    def events(self):
        return [json.loads(line) for line in self.lines]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def fleet(members, group, topic, *, is_static, protocol="classic", count=3, **more):
    def start(i):
        return members.start(
            group=group, topics=[topic], protocol=protocol, instance_id=f"seat-{i}" if is_static else None,
            session_timeout_ms=30_000, **more,
        )  # fmt: skip

    running = [start(i) for i in range(count)]
    wait_settled(running, PARTITIONS)
    return running, start


def restart_all(running, start):
    for i, member in enumerate(running):
        member.close()
        running[i] = start(i)
        wait_settled(running, PARTITIONS)


def test_a_rolling_restart_of_static_members_moves_nothing(cluster):
    bootstrap, topic = cluster
    group = f"g-{uuid.uuid4().hex[:8]}"
    with RdMembers(bootstrap) as members:
        running, start = fleet(members, group, topic, is_static=True)
        expected = [
            "--until",
            "bounced",
            "--settle",
            "1s",
            "--expect-no-moves",
            "--max-rebalances",
            "0",
            "--timeout",
            "2m",
        ]
        with Watching(group, "-b", bootstrap, *expected, "-o", "ndjson") as watch:
            watch.wait_for('"watching"')
            restart_all(running, start)
            assert watch.end() == 0, watch.err
    passing = ("note", "lag", "unreachable", "reachable")  # a look may take too long on a busy machine
    kinds = [event["event"] for event in watch.events if event["event"] not in passing]
    assert kinds == ["watching", "replaced", "replaced", "replaced", "stable"]
    replaced = [event for event in watch.events if event["event"] == "replaced"]
    assert [event["identity"] for event in replaced] == ["seat-0", "seat-1", "seat-2"]
    assert all(event["member_id"] != event["member_id_before"] for event in replaced)
    last = watch.events[-1]
    assert (last["rebalances"], last["moved_partitions"], last["state"], last["members"]) == (0, 0, "Stable", 3)
    assert last["generation"] is not None
    assert not any(event["event"] == "note" for event in watch.events)


def test_a_rolling_restart_of_dynamic_members_breaks_the_expectation(cluster):
    bootstrap, topic = cluster
    group = f"g-{uuid.uuid4().hex[:8]}"
    with RdMembers(bootstrap) as members:
        running, _ = fleet(members, group, topic, is_static=False)
        first = running[0].member_id
        with Watching(group, "-b", bootstrap, "--until", "bounced", "--expect-no-moves", "--timeout", "2m") as watch:
            watch.wait_for("watching")
            running[0].close()
            assert watch.end() == 8
    (error,) = [line for line in watch.err if line.startswith("error: ")]
    assert f"group {group!r}: " in error
    assert " handovers: " in error
    assert first in error
    assert "  breach  " in watch.lines[-1]


@pytest.mark.few(2)
@pytest.mark.parametrize("most", [0, 99])
def test_rebalances_are_counted(cluster, most):
    bootstrap, topic = cluster
    group = f"g-{uuid.uuid4().hex[:8]}"
    with RdMembers(bootstrap) as members:
        running, start = fleet(members, group, topic, is_static=False)
        expected = ["--until", "bounced", "--settle", "1s", "--max-rebalances", str(most), "--timeout", "2m"]
        with Watching(group, "-b", bootstrap, *expected, "-o", "ndjson") as watch:
            watch.wait_for('"watching"')
            if most:
                restart_all(running, start)
            else:
                running[0].close()
            assert watch.end() == (0 if most else 8), watch.err
    last = watch.events[-1]
    assert last["event"] == ("stable" if most else "breach")
    assert last["rebalances"] >= 1
    if most:
        jumps = [event["after"] - event["before"] for event in watch.events if event["event"] == "generation"]
        # One for each member that left and one for each that joined, unless they fell into one rebalance.
        assert 3 <= last["rebalances"] == sum(jumps) <= 6


@pytest.mark.kafka
@pytest.mark.parametrize("library", [RdMembers, JavaMembers])
def test_static_members_of_the_consumer_protocol(kafka, library):
    group, topic = f"g-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({topic: PARTITIONS})
    with library(kafka.bootstrap) as members:
        running, start = fleet(members, group, topic, is_static=True, protocol="consumer", count=2)
        expected = [
            "--until",
            "bounced",
            "--settle",
            "1s",
            "--expect-no-moves",
            "--max-rebalances",
            "0",
            "--timeout",
            "2m",
        ]
        with Watching(group, "-b", kafka.bootstrap, *expected, "-o", "ndjson") as watch:
            watch.wait_for('"watching"')
            for i in range(2):
                seen = len(watch.lines)
                running[i].close()
                watch.wait_for('"away"', after=seen)
                running[i] = start(i)
                wait_settled(running, PARTITIONS)
            assert watch.end() == 0, watch.err
    assert [event["identity"] for event in watch.events if event["event"] == "back"] == ["seat-0", "seat-1"]


def test_a_broker_that_fails_and_returns_is_reported_and_costs_nothing(tmp_path):
    arguments = ["--topic", f"t:{PARTITIONS}", "--set", "group.initial.rebalance.delay.ms=0"]
    with ServedProcess(tmp_path / "data", *arguments) as served, RdMembers(served.address) as members:
        fleet(members, "g", "t", is_static=True)
        with Watching(
            "g", "-b", served.address, "--until", "stable", "--settle", "3s", "--timeout", "3m", "-o", "ndjson"
        ) as watch:
            watch.wait_for('"watching"')
            served.kill()
            watch.wait_for('"unreachable"')
            served.start()
            watch.wait_for('"reachable"')
            assert watch.end() == 0, watch.err
    assert watch.events[-1]["event"] == "stable"


def test_a_coordinator_that_moves_is_reported():
    """A cluster of two brokers, of which one shuts down cleanly."""
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serve_in_thread(topics={"t": PARTITIONS}, settings=settings, brokers=2))
        members = stack.enter_context(RdMembers(server.bootstrap))
        fleet(members, "g", "t", is_static=True)
        before = server.coordinator_of("g")
        with Watching("g", "-b", server.bootstrap, "-o", "ndjson") as watch:
            watch.wait_for('"watching"')
            server.stop_broker(before)
            watch.wait_for('"coordinator"')
            watch.process.send_signal(signal.SIGINT)
            assert watch.end() == 130
    (moved,) = [event for event in watch.events if event["event"] == "coordinator"]
    assert (moved["before"], moved["after"]) == (before, 3 - before)


# -- how it ends, and where it writes


@pytest.fixture(scope="module")
def quiet():
    """(bootstrap, group) of two static members that stay as they are."""
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics={"t": PARTITIONS}, settings=settings) as server, RdMembers(server.bootstrap) as members:
        fleet(members, "quiet", "t", is_static=True, count=2)
        yield server.bootstrap, "quiet"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_can_be_ended(quiet, number, code):
    bootstrap, group = quiet
    with Watching(group, "-b", bootstrap) as watch:
        watch.wait_for("watching")
        watch.process.send_signal(number)
        assert watch.end() == code
    assert watch.err == []


def test_an_interrupted_watch_prints_its_document(quiet, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    bootstrap, group = quiet
    host, port = bootstrap.split(":")
    monkeypatch.setattr("kgm.operations.watch.timekeeper.SystemTimekeeper.sleep_ms", interrupt)
    with FaultProxy((host, int(port))) as proxy:
        proxy.hide_offsets_topic()  # so that there is something to note
        assert run(["watch", group, "-b", proxy.bootstrap, "-o", "json"]) == 130
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert (document["schema"], captured.err) == ("kgm.watch/v1", "")
    (seen,) = document["data"]["groups"]
    assert (seen["reached"], seen["looks"], seen["state"], seen["rebalances_exact"]) == (None, 1, "Stable", False)
    assert [event["event"] for event in document["data"]["events"]] == ["note", "watching", "ended"]


def test_documents_are_written_at_the_end(quiet):
    bootstrap, group = quiet
    look = ["watch", group, "-b", bootstrap, "--count", "1", "-o"]
    assert kgm(*look, "csv").out.splitlines()[0] == "at,group_id,event,text"
    assert "schema: kgm.watch/v1" in kgm(*look, "yaml").out.replace('"', "")
    assert kgm(*look, "name").out == f"{group}\n"


def test_a_breach_is_an_error_of_the_document(quiet, tmp_path):
    bootstrap, group = quiet
    path = tmp_path / "before.json"
    document = json.loads(kgm("describe", group, "-b", bootstrap, "-o", "json").out)
    document["data"]["groups"][0]["members"][0]["assignment"]["another"] = [0, 1, 2]
    path.write_text(json.dumps(document))
    done = kgm("watch", group, "-b", bootstrap, "--baseline", str(path), "--expect-no-moves", "-o", "json")
    document = json.loads(done.out)
    assert (done.code, document["errors"][0]["code"]) == (8, "CONDITION_NOT_MET")
    assert document["data"]["groups"][0]["breach"] == "3 partitions moved: another[0-2] seat-0 -> no consumer"


def test_a_reader_that_goes_away_ends_it(quiet):
    bootstrap, group = quiet
    command = (
        f"{sys.executable} -m kgm watch {group} -b {bootstrap} --interval 100ms | head -1; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(
        [needs("bash"), "-c", command], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


def test_time_and_polls_are_limits(quiet):
    bootstrap, group = quiet
    assert kgm("watch", group, "-b", bootstrap, "--count", "2", "--interval", "100ms").code == 0
    assert kgm("watch", group, "-b", bootstrap, "--timeout", "1s").code == 0
    late = kgm_in_time(
        lambda run: "seat-0 has not been restarted" in run.err,
        "watch", group, "-b", bootstrap, "--until", "bounced", "--interval", "100ms",
    )  # fmt: skip
    assert late.code == 8
    assert f"group {group!r}: not bounced within" in late.err
    assert "seat-0 has not been restarted" in late.err
    # A timeout from elsewhere is the time limit of each poll.
    elsewhere = kgm("watch", group, "-b", bootstrap, "--count", "1", env={"KGM_TIMEOUT": "1s"})
    assert elsewhere.code == 0
    early = kgm("watch", group, "-b", bootstrap, "--until", "stable", "--settle", "300ms", "--interval", "100ms")
    assert early.code == 0


def test_a_snapshot_can_be_the_baseline(quiet, tmp_path):
    bootstrap, group = quiet
    document = json.loads(kgm("describe", group, "-b", bootstrap, "-o", "json").out)
    members = document["data"]["groups"][0]["members"]
    members[0]["assignment"], members[1]["assignment"] = members[1]["assignment"], members[0]["assignment"]
    path = tmp_path / "before.json"
    path.write_text(json.dumps(document))
    done = kgm("watch", group, "-b", bootstrap, "--baseline", str(path), "--expect-no-moves", "--until", "stable")
    assert done.code == 8
    assert "6 handovers: t[" in done.err
    assert kgm("watch", "another", "-b", bootstrap, "--baseline", str(path)).code == 3


@pytest.mark.few(2)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_watch_that_begins_later_knows_what_has_happened_since_its_baseline(cluster, tmp_path, protocol):
    """As much as one that ran all the time, as far as the log shows it: members of a consumer group may have had
    partitions for a moment that no description shows."""
    bootstrap, topic = cluster
    group = f"g-{uuid.uuid4().hex[:8]}"
    path, where = tmp_path / "before.json", (group, "-b", bootstrap)
    with RdMembers(bootstrap) as members:
        running, start = fleet(members, group, topic, is_static=False, protocol=protocol)
        path.write_text(kgm("describe", *where, "-o", "json").out)
        with Watching(*where, "-o", "ndjson") as all_the_time:
            all_the_time.wait_for("watching")
            restart_all(running, start)
            later = kgm("watch", *where, "--baseline", str(path), "--count", "1", "-o", "ndjson").out.splitlines()
            events = [json.loads(line) for line in later]
            last = [one["text"] for one in events if one["event"] in ("generation", "epoch")][-1]
            all_the_time.wait_for(f'"{last}"')
            all_the_time.process.send_signal(signal.SIGINT)
            all_the_time.end()
    seen, found = all_the_time.events[-1]["text"], events[-1]["text"]
    assert re.match(r"[3-9] rebalances, ", seen)
    if protocol == "classic":
        assert found == seen
    else:
        assert found.partition(",")[0] == seen.partition(",")[0]
        assert "at least" in found


@pytest.mark.few(1)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_was_created_again_since_the_baseline_is_not_the_same(cluster, tmp_path, protocol):
    """Even if it has reached the same generation or epoch."""
    bootstrap, topic = cluster
    group = f"g-{uuid.uuid4().hex[:8]}"
    path, where = tmp_path / "before.json", (group, "-b", bootstrap)
    with RdMembers(bootstrap) as members:

        def form():
            """Two members, one after the other. Its generation or epoch."""
            running, start = fleet(members, group, topic, is_static=False, protocol=protocol, count=1)
            running.append(start(1))
            wait_settled(running, PARTITIONS)
            path.write_text(kgm("describe", *where, "-o", "json").out)
            seen = json.loads(path.read_text())["data"]["groups"][0]
            return running, seen["generation"] or seen["assignment_epoch"]

        running, number = form()
        before = path.read_text()
        for member in running:
            member.close()
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
        assert form()[1] == number
        path.write_text(before)
        for limit in (["--max-rebalances", "0"], ["--expect-no-moves"]):
            done = kgm("watch", *where, "--baseline", str(path), "--count", "1", *limit)
            assert done.code in (7, 8), done.out
        assert "at least" in kgm("watch", *where, "--baseline", str(path), "--count", "1").out.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2), (["g", "--until", "gone"], 2), (["g", "--interval", "1ms"], 2), (["g", "--max-rebalances", "-1"], 2),
        (["g", "--count", "0"], 2), (["g", "--baseline", "/no/such/file"], 2), (["g"], 5),
    ],
)  # fmt: skip
def test_what_cannot_be_done_fails_at_once(arguments, code):
    done = kgm("watch", *arguments, "-b", "127.0.0.1:1")
    assert (done.code, done.out) == (code, "")


def test_a_group_that_does_not_exist_is_an_error(quiet):
    done = kgm("watch", "no-such-group", "-b", quiet[0])
    assert done.code == 3
    assert "group 'no-such-group' does not exist" in done.err


# -- at a terminal


@contextlib.contextmanager
def terminal(columns, rows) -> Iterator[tuple[int, IO[bytes]]]:
    """Both ends of a terminal. The end of the process is a file, which may be closed earlier: closing its number twice would
    close what has got the number since then."""
    import fcntl
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    try:
        with os.fdopen(follower, "r+b", buffering=0) as file:
            yield leader, file
    finally:
        os.close(leader)


def at_terminal(columns, rows, *arguments, env=None):
    """(exit code, everything that was written to the terminal)."""
    with terminal(columns, rows) as (leader, follower):
        watch = Watching(*arguments, stdout=follower, env={"TERM": "xterm-256color", **(env or {})})
        follower.close()
        written = b""
        with contextlib.suppress(OSError):  # that is how its end shows
            while chunk := os.read(leader, 65536):
                written += chunk
        return watch.end(), written.decode().replace("\r\n", "\n")


def with_keys(keys, *arguments):
    """(exit code, what was drawn, the terminal's local flags before and after) of a watch with a keyboard."""
    import fcntl
    import termios

    with terminal(100, 24) as (leader, follower):
        before = termios.tcgetattr(follower)[3]
        # The terminal becomes that of its session, so that the watch is in the foreground.
        watch = Watching(
            *arguments, stdout=follower, stdin=follower, env={"TERM": "xterm-256color"},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        drawn = b""
        while b"Stable" not in drawn:
            drawn += os.read(leader, 65536)
        for key in keys:
            os.write(leader, key)
        code = None
        while code is None:
            if can_read(leader, 0.05):
                drawn += os.read(leader, 65536)
            code = watch.process.poll()
        while can_read(leader, 0):  # what it wrote before it ended
            drawn += os.read(leader, 65536)
        after = termios.tcgetattr(follower)[3]
        watch.end()
        return code, drawn.decode(errors="replace"), before, after


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--until", "bounced"], 8)])
def test_q_ends_it_as_its_time_limit_does(quiet, arguments, code):
    bootstrap, group = quiet
    ended, drawn, before, after = with_keys([b"x", b"q"], group, "-b", bootstrap, *arguments)
    assert ended == code
    assert before == after  # echo, and lines instead of keys
    assert "\x1b[?1049l" in drawn


def test_groups_by_pattern(quiet):
    bootstrap, group = quiet
    done = kgm("watch", "--match", "qui*", "--count", "1", "-b", bootstrap, "-o", "json")
    assert done.code == 0
    assert [one["group_id"] for one in json.loads(done.out)["data"]["groups"]] == [group]
    done = kgm("watch", group, "--match", "*", "--count", "1", "-b", bootstrap, "-o", "json")
    assert [one["group_id"] for one in json.loads(done.out)["data"]["groups"]] == [group]
    done = kgm("watch", "--match", "none*", "--count", "1", "-b", bootstrap)
    assert done.code == 3
    assert "error: no group matches none*" in done.err


@pytest.mark.few(1)
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (50, 12), (20, 5)])
def test_it_redraws_at_a_terminal_within_its_size(quiet, columns, rows):
    bootstrap, group = quiet
    code, written = at_terminal(columns, rows, group, "-b", bootstrap, "--count", "3", "--until", "bounced")
    assert code == 8
    opened, closed = written.index("\x1b[?1049h"), written.rindex("\x1b[?1049l")
    frames = written[opened:closed].split("\x1b[H")[1:]
    assert len(frames) >= 3
    from rich.cells import cell_len
    from rich.text import Text

    for frame in frames:
        lines = Text.from_ansi(frame.replace("\x1b[?25l", "").replace("\x1b[?25h", "")).plain.splitlines()
        assert len(lines) <= rows
        assert max(map(cell_len, lines), default=0) <= columns
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") >= 1  # the cursor is shown again
    last = Text.from_ansi(written[closed:]).plain  # what was last stays, whole but for the members' columns
    assert "Stable" in last
    assert "hasnotbeenrestarted" in re.sub(r"\s", "", last)
    if columns >= 50:
        assert "has not been restarted" in Text.from_ansi(frames[-1]).plain


@pytest.mark.long
def test_no_color_is_honoured_and_a_dumb_terminal_gets_lines(quiet):
    bootstrap, group = quiet
    _, colored = at_terminal(80, 24, group, "-b", bootstrap, "--count", "1")
    assert "\x1b[36m" in colored.replace("1;36", "36")
    for more, env in ((["--color", "never"], {}), ([], {"NO_COLOR": "1"})):
        _, plain = at_terminal(80, 24, group, "-b", bootstrap, "--count", "1", *more, env=env)
        assert "36m" not in plain
        assert "32m" not in plain
    _, dumb = at_terminal(80, 24, group, "-b", bootstrap, "--count", "1", env={"TERM": "dumb"})
    assert "\x1b" not in dumb
    assert "watching" in dumb


@pytest.mark.long
def test_hostile_names_do_nothing_to_a_terminal(monkeypatch):
    import io

    from kgm.cli.options.run_options import RunOptions
    from kgm.cli.output.watch import screen
    from kgm.client.poller import PolledGroup
    from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
    from kgm.operations.watch.watched_group import WatchedGroup
    from tests.text.hostile import WIRE, hidden

    members = tuple(
        MemberSnapshot(member_id=f"m-{i}", group_instance_id=name, assignment={name: (0,)})
        for i, name in enumerate(WIRE)
    )
    for name in WIRE:
        group = GroupSnapshot(group_id=name, type="classic", state=name, assignor=name, members=members)
        watched = WatchedGroup(name)
        out = io.StringIO()
        monkeypatch.setattr(sys, "stdout", out)
        with screen.Screen(RunOptions(), [watched], interval_ms=1000, waiting_for=None) as shown:
            monkeypatch.setattr(shown._console, "_width", 300)
            shown.show(watched.observe(PolledGroup(seen=group), 0), 0)
            shown.show(
                watched.observe(PolledGroup(seen=GroupSnapshot(group_id=name, type="classic", state="Empty")), 1000),
                1000,
            )
        monkeypatch.undo()
        from rich.text import Text

        plain = Text.from_ansi(out.getvalue().replace("\x1b[?25l", "").replace("\x1b[?25h", "")).plain
        assert not hidden(plain), name
