"""When a rollout goes on and when it stops, on an embedded server with members that do what the test says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kgm.operations.rollout.journal import read_journal
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from tests import KGM
from tests.cli.forked import run_forked
from tests.operations.rollout.units import JoinedUnits, environment, kgm
from tests.server.wire_client import WireClient
from tests.waiting import until

pytestmark = pytest.mark.slow
NAMES = ["a", "b", "c"]
FLAGS = ["--settle", "0s", "--interval", "100ms", "--restart-time", "200ms", "--step-timeout", "1s"]


@pytest.fixture
def units(server, group, tmp_path):
    with JoinedUnits(server.bootstrap, tmp_path, {"group": group, "topic": "orders"}) as joined:
        joined.form(server, NAMES)
        yield joined


@pytest.fixture
def rollout(units, tmp_path):
    """Carry a rolling restart out; further arguments are options."""

    def rollout(*words, command="{unit} restart {{instance_id}}", plan=("--all", "--rolling", "--accept-unseen")):
        text = command.format(unit=units.command).replace("{{", "{").replace("}}", "}")
        where = ["--journal", str(tmp_path / "j.ndjson")] if "--journal" not in words else []
        return kgm(
            tmp_path,
            units.bootstrap,
            "rollout",
            "--yes",
            units.group,
            "--exec",
            text,
            *plan,
            *FLAGS,
            "-o",
            "ndjson",
            *where,
            *words,
        )

    return rollout


@pytest.fixture
def resume(units, tmp_path):
    def resume(*words):
        return kgm(
            tmp_path,
            units.bootstrap,
            "rollout",
            "--yes",
            "--resume",
            str(tmp_path / "j.ndjson"),
            "-o",
            "ndjson",
            *words,
        )

    return resume


@pytest.fixture
def start(units, tmp_path):
    """Start a rollout, and do not wait for its end."""
    started = []

    def start(*words, plan=("--all", "--rolling")):
        command = f"{units.command} restart {{instance_id}}"
        running = subprocess.Popen(
            [*KGM, "rollout", "--yes", units.group, *plan, "--accept-unseen", "--exec", command, *FLAGS, "--journal",
             str(tmp_path / "j.ndjson"), *words],
            env=environment(tmp_path, units.bootstrap), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(running)
        return running

    yield start
    for running in started:
        running.kill()
        running.communicate()


def restarted(units):
    return [name for verb, name in units.calls if verb == "restart"]


def test_each_member_is_restarted_once_in_order_and_recorded(units, rollout, tmp_path):
    ended = rollout()
    assert (ended.code, restarted(units)) == (0, NAMES)
    kinds = [event["event"] for event in ended.events if event["event"] != "note"]
    assert kinds == ["step", "foretold", "command", "command", "observed"] * 3 + ["done"]
    assert [event["step"] for event in ended.of_kind("step")] == [1, 2, 3]
    assert {event["foretold"]["rebalances"]["max"] for event in ended.of_kind("foretold")} == {0}
    assert units.inputs[1]["instance_id"] == "b"
    assert units.inputs[1]["index"] == 1
    audit = kgm(tmp_path, units.bootstrap, "audit", "-o", "ndjson").out
    assert audit.count('"action": "rollout"') == 3
    assert audit.count('"result": "done"') == 3


def test_a_dry_run_shows_every_command_and_runs_none(units, rollout, tmp_path):
    ended = rollout("--dry-run")
    assert (ended.code, units.calls) == (0, [])
    assert [event["command"] for event in ended.of_kind("command")] == [
        [units.command, "restart", name] for name in NAMES
    ]
    assert not (tmp_path / "j.ndjson").exists()


def test_a_stated_library_counts_for_every_step_and_after_a_resume(units, rollout, resume):
    """A restart of a static member of platformatic is one or two rebalances, as seen on Kafka 4.3.0: it leaves."""
    units.faults["b"] = lambda _units, _name: 3
    first = rollout("--library", "platformatic")
    resumed = resume()
    assert (first.code, resumed.code) == (7, 0)
    spans = [event["foretold"]["rebalances"] for ended in (first, resumed) for event in ended.of_kind("foretold")]
    assert spans == [{"min": 1, "max": 2}] * 4
    assert "all members, and the leader, are assumed to use platformatic (--library)" in first.err


@pytest.mark.parametrize(
    ("words", "more", "code", "message"),
    [
        (
            ["--max-unavailable", "2", "--fail-if-moves", "0", "--session-timeout", "100ms"],
            {},
            6,
            "are predicted, more than 0",
        ),
        ([], {"command": "no-such-program {{instance_id}}"}, 6, "program not found or not executable: 'no-such"),
        ([], {"command": "{unit} restart {{pod}}"}, 6, "no member was resolved to a pod"),
        (["--expect", "x"], {}, 2, "No such option"),
        (["--library", "nobody"], {}, 2, "library 'nobody' is not known"),
        (["--assignor", "sticky"], {}, 2, "as they are configured, with range"),
    ],
)
def test_what_is_refused_before_the_first_step(units, rollout, words, more, code, message):
    ended = rollout(*words, **more)
    assert ended.code == code, ended
    assert re.search(message, ended.err), ended.err
    assert units.calls == []


def test_rebalances_that_cannot_be_counted_are_refused_before_the_first_step(units, rollout, proxy):
    proxy.hide_offsets_topic()
    units.bootstrap = proxy.bootstrap
    ended = rollout(plan=("--all", "--rolling"))
    assert (ended.code, units.calls) == (6, [])
    assert re.search("rebalances of group .* cannot be counted", ended.err), ended.err


def test_a_journal_that_exists_is_not_written_over(units, rollout, tmp_path):
    (tmp_path / "j.ndjson").write_text("mine")
    ended = rollout()
    assert (ended.code, units.calls) == (6, [])
    assert "already exists: nothing was done" in ended.err
    assert (tmp_path / "j.ndjson").read_text() == "mine"


def test_a_journal_is_a_regular_file_with_a_name(units, tmp_path):
    """An unset shell variable would be the folder where kgm runs."""
    plan = ("rollout", "--yes", units.options["group"], "--all", "--rolling", "--exec", "true {instance_id}")
    ended = kgm(tmp_path, units.bootstrap, *plan, "--journal", "/dev/null")
    assert (ended.code, units.calls) == (6, [])
    assert "the journal /dev/null is not a regular file: nothing was done" in ended.err
    assert "--resume" not in ended.err
    for words in ([*plan, "--journal", ""], ["rollout", "--yes", "--resume", " "]):
        ended = kgm(tmp_path, units.bootstrap, *words)
        assert ended.code == 2
        assert f"{words[-2]}: the value is empty" in ended.err


def test_the_hint_to_continue_can_be_run(units, tmp_path):
    """Also where the cluster was given on the command line only."""
    journal = tmp_path / "the journal.ndjson"
    alone = environment(tmp_path, units.bootstrap)
    del alone["KGM_BOOTSTRAP_SERVER"]
    ended = run_forked(
        ["rollout", "--yes", units.options["group"], "--all", "--rolling", "--exec", "false", "--journal", str(journal),
         "-b", units.bootstrap, *FLAGS], stdin="", environment=alone, timeout_s=120,
    )  # fmt: skip
    assert ended.returncode == 7, ended.stderr
    words = shlex.split(ended.stderr.rpartition("to continue: ")[2])
    assert words[:2] == ["kgm", "rollout"]
    again = run_forked([*words[1:], "--yes"], stdin="", environment=alone, timeout_s=120)
    assert again.returncode == 7, again.stderr
    assert "no bootstrap server" not in again.stderr


def test_a_complete_rollout_is_over_whatever_its_commands_are(units, tmp_path):
    """Although kgm has dropped what it kept about the first run."""
    journal = tmp_path / "j.ndjson"
    plan = ["rollout", "--yes", units.options["group"], "--all", "--rolling", "--journal", str(journal)]
    done = kgm(tmp_path, units.bootstrap, *plan, *FLAGS, "--exec", f"{units.command} restart {{instance_id}}")
    assert done.code == 0, str(done)
    ended = kgm(tmp_path, units.bootstrap, "rollout", "--yes", "--resume", str(journal))
    assert ended.code == 6
    assert f"the rollout of {journal} is over" in ended.err


def test_a_failed_command_stops_the_rollout_and_is_run_again_when_it_is_resumed(units, rollout, resume, tmp_path):
    units.faults["b"] = lambda _units, _name: 3
    ended = rollout()
    assert (ended.code, restarted(units)) == (7, ["a", "b"])
    assert "the command of b ended with exit code 3" in ended.err
    assert "1 of 3 steps done; step 2 (b) has begun; the group is Stable; b has not been restarted" in ended.err
    assert f"kgm rollout --resume {tmp_path / 'j.ndjson'}" in ended.err
    resumed = resume()
    assert (resumed.code, restarted(units)) == (0, ["a", "b", "b", "c"])


def test_a_member_that_does_not_come_back_stops_the_rollout(units, rollout, resume):
    """Kafka does not show that a static member has gone until its session times out: it has not been restarted."""
    units.faults["b"] = lambda _units, _name: 0
    ended = rollout()
    assert (ended.code, restarted(units)) == (8, ["a", "b"])
    assert "1.0s after the commands of step 2: b has not been restarted" in ended.err.replace("1s", "1.0s")
    units.stop("b")
    units.members["b"] = units.start("b")  # the operator does it by hand
    resumed = resume()
    assert (resumed.code, restarted(units)) == (0, ["a", "b", "c"])


def test_another_member_that_is_restarted_meanwhile_stops_the_rollout(units, rollout):
    def other(units, name):
        units.stop("c")
        units.members["c"] = units.start("c")
        units.stop(name)
        units.members[name] = units.start(name)
        return 0

    units.faults["b"] = other
    ended = rollout()
    assert (ended.code, restarted(units)) == (8, ["a", "b"])
    assert "c, which is not part of the step, has been restarted" in ended.err


@pytest.mark.long
def test_a_deviation_during_a_command_is_reported_with_what_the_command_has_done(units, start):
    """The member is restarted after the deviation was seen, so only a later poll shows it."""
    told = threading.Event()

    def other(units, name):
        units.stop("b")
        units.members["b"] = units.start("b")
        assert told.wait(60)
        units.stop(name)
        units.members[name] = units.start(name)
        return 0

    units.faults["a"] = other
    before = units.member_ids()["a"]
    running = start("-o", "ndjson")
    for line in running.stdout:
        if "replaced: b" in line:
            break
    told.set()
    _, err = running.communicate(timeout=60)
    assert (running.returncode, restarted(units)) == (8, ["a"])
    assert units.member_ids()["a"] != before
    assert "b, which is not part of the step, has been restarted" in err
    assert "step 1 (a) has begun" in err
    assert "a has not been restarted" not in err


def test_a_command_on_failure_is_reported_with_what_it_has_done(units, rollout):
    units.faults["b"] = lambda _units, _name: 1
    ended = rollout("--on-failure", f"run {units.command} restart {{instance_id}}")
    assert (ended.code, restarted(units)) == (7, ["a", "b", "b"])
    assert "the command of b ended with exit code 1" in ended.err
    assert "b has not been restarted" not in ended.err


def test_a_member_that_comes_back_twice_stops_the_rollout(units, start):
    def restart(units, name):
        units.strays.append(units.start(name))
        return 0

    units.faults["b"] = restart
    running = start("--settle", "60s", "--step-timeout", "90s", "-o", "ndjson", plan=("-i", "b"))
    for line in running.stdout:
        if "replaced: b" in line:
            units.strays.append(units.start("b"))
            break
    _, err = running.communicate(timeout=60)
    assert (running.returncode, restarted(units)) == (8, ["b"])
    assert "b has come back 2 times: two processes may have its instance id" in err


def test_a_change_between_two_steps_stops_the_rollout_before_the_next(units, rollout, resume):
    paused = threading.Event()

    def restart(units, name):
        units.stop(name)
        units.members[name] = units.start(name)
        paused.set()
        return 0

    units.faults["a"] = restart
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(rollout, "--pause", "5s")
        assert paused.wait(60)
        until(lambda: any(line.kind == "command-end" for line in read_journal(units.folder / "j.ndjson")), "no end", 60)
        units.strays.append(units.start("c"))
        ended = future.result()
    assert (ended.code, restarted(units)) == (8, ["a"])
    assert "c, which is not part of the step, has been restarted" in ended.err
    assert resume().code == 0
    assert restarted(units) == NAMES


def test_a_second_rollout_of_the_group_is_refused(units, rollout, tmp_path):
    begun, release = threading.Event(), threading.Event()

    def wait(units, name):
        begun.set()
        assert release.wait(60)
        units.stop(name)
        units.members[name] = units.start(name)
        return 0

    units.faults["a"] = wait
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(rollout)
        assert begun.wait(60)
        second = rollout("--journal", str(tmp_path / "second.ndjson"))
        release.set()
        assert future.result().code == 0
    assert second.code == 6
    assert f"another rollout of group '{units.group}' is running" in second.err
    assert str(tmp_path / "j.ndjson") in second.err
    assert not (tmp_path / "second.ndjson").exists()
    assert restarted(units) == NAMES


def test_an_aborted_rollout_cannot_be_resumed(units, rollout, resume):
    units.faults["b"] = lambda _units, _name: 3
    assert rollout("--on-failure", "abort").code == 7
    resumed = resume()
    assert (resumed.code, restarted(units)) == (6, ["a", "b"])


def test_a_command_runs_for_the_members_of_a_failed_step(units, rollout):
    units.faults["b"] = lambda _units, _name: 3
    ended = rollout("--on-failure", f"run {units.command} start {{instance_id}}")
    assert ended.code == 7
    assert units.calls == [("restart", "a"), ("restart", "b"), ("start", "b")]


def test_members_that_are_down_at_the_same_time_are_one_step(units, rollout):
    together = threading.Barrier(2)

    def restart(units, name):
        together.wait(60)
        units.stop(name)
        units.members[name] = units.start(name)
        return 0

    units.faults |= {"a": restart, "b": restart}
    ended = rollout("--max-unavailable", "2")
    assert ended.code == 0
    assert [event["text"] for event in ended.of_kind("step")] == ["a, b", "c"]


def test_another_cluster_than_that_of_the_journal_is_refused(units, rollout, resume, tmp_path):
    units.faults["b"] = lambda _units, _name: 3
    assert rollout().code == 7
    journal = tmp_path / "j.ndjson"
    journal.write_text(journal.read_text().replace('"cluster_id": "', '"cluster_id": "other-', 1))
    shutil.rmtree(tmp_path / "state")  # else it is not the journal of the first run
    resumed = resume("--exec", f"{units.command} restart {{instance_id}}")
    assert (resumed.code, restarted(units)) == (6, ["a", "b"])
    assert "the journal is about cluster other-" in resumed.err


def test_a_journal_takes_no_other_plan(resume):
    ended = resume("--rolling")
    assert ended.code == 2
    assert "--resume takes the plan from its journal, so it does not accept --rolling" in ended.err


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_kgm_and_not_the_command(units, start, resume, tmp_path, number, code):
    begun, release = threading.Event(), threading.Event()

    def wait(units, name):
        begun.set()
        assert release.wait(60)
        units.stop(name)
        units.members[name] = units.start(name)
        return 0

    units.faults["a"] = wait
    running = start("-o", "json")
    assert begun.wait(60)
    until(lambda: read_journal(tmp_path / "j.ndjson")[-1].kind == "command-started", "it is not in the journal", 60)
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert running.returncode == code
    document = json.loads(out)
    assert (document["data"]["outcome"], document["data"]["steps_done"]) == ("failed", 0)
    assert [event["event"] for event in document["data"]["events"]][-2:] == ["command", "note"]
    assert [error["message"] for error in document["errors"]] == ["the rollout was interrupted"]
    assert read_journal(tmp_path / "j.ndjson")[-1].data["exit_code"] == code
    assert f"kgm rollout --resume {tmp_path / 'j.ndjson'} continues" in err
    release.set()  # the command goes on, and the next run waits for it
    assert resume().code == 0
    assert restarted(units) == NAMES


@pytest.mark.long
def test_a_signal_during_the_command_on_failure_leaves_the_failure_in_the_document(units, start):
    begun, release = threading.Event(), threading.Event()

    def wait(_units, _name):
        begun.set()
        assert release.wait(60)
        return 0

    def fail(units, name):
        units.faults[name] = wait
        return 1

    units.faults["a"] = fail
    running = start("-o", "json", "--on-failure", f"run {units.command} restart {{instance_id}}")
    try:
        assert begun.wait(60)
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=60)
    finally:
        release.set()
    assert running.returncode == 143
    assert "interrupted: commands that were running continue" in err
    (error,) = json.loads(out)["errors"]
    assert error["message"] == "the command of a ended with exit code 1"
    assert error["facts"][-1] == "0 of 3 steps done; step 1 (a) has begun"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (lambda text: text.replace('"step-begin"', '"step-x"'), 2, "line 2 of .* is not a line of a journal"),
        (lambda text: "{}\n" + text, 2, "line 1 of .* is not a line of a journal"),
        (lambda text: text.replace('"limits": {', '"limits": {"x": 1, '), 2, "has no valid plan"),
        (lambda text: text.replace('"v": 1', '"v": 2'), 2, "was written by another version of kgm"),
        (lambda _text: "\x00" * 100, 2, "is not the journal of a rollout"),
    ],
)
def test_a_damaged_journal_is_refused(units, rollout, resume, tmp_path, change, code, message):
    units.faults["b"] = lambda _units, _name: 3
    assert rollout().code == 7
    journal = tmp_path / "j.ndjson"
    journal.write_text(change(journal.read_text()))
    ended = resume()
    assert ended.code == code
    assert re.search(message, ended.err), ended.err
    assert restarted(units) == ["a", "b"]


def migrated(units, name):
    """The unit comes back with group.protocol=consumer."""
    units.members.pop(name).close()
    wire = WireClient(units._server.port)
    answer = wire.ask(
        ConsumerGroupHeartbeatRequest(
            group_id=units.group, member_id=f"new-{name}", member_epoch=0, instance_id=name, rebalance_timeout_ms=60_000,
            subscribed_topic_names=["orders"], topic_partitions=[],
        ),
        version=1,
    )  # fmt: skip
    units.strays.append(wire.socket)
    assert answer.error_code == 0, answer
    return 0


def test_a_restart_that_changes_the_protocol_of_the_group_stops_the_rollout(units, rollout, resume, tmp_path):
    """What was predicted was predicted for the classic protocol (KIP-848: the group changes its type with the first
    member)."""
    units.faults["a"] = migrated
    ended = rollout()
    assert (ended.code, restarted(units)) == (8, ["a"])
    assert "type: classic -> consumer" in [event["text"] for event in ended.of_kind("note")]
    assert "deviated from the prediction: its type has changed from classic to consumer" in ended.err
    assert "members of the classic protocol, to be migrated before the rollout can continue: b, c" in ended.err
    assert "0 of 3 steps done; step 1 (a) has begun" in ended.err
    journal = tmp_path / "j.ndjson"
    assert f"kgm describe {units.group}; to continue: kgm rollout --resume {journal}" in ended.err
    assert "--members" not in ended.err
    again = resume()
    assert (again.code, restarted(units)) == (8, ["a"])
    assert "step 2 cannot be predicted" in again.err
    assert f"to continue: kgm rollout --resume {journal}" in again.err
    for name in ("b", "c"):
        migrated(units, name)
    back = resume()  # the group can be predicted again, but the command still starts members with the classic protocol
    assert (back.code, restarted(units)) == (8, ["a", "b"])
    assert "1 of 3 steps done; step 2 (b) has begun" in back.err
    assert "members of the classic protocol, to be migrated before the rollout can continue: b" in back.err
