"""kgm is killed in a step that stops a member, removes it and starts it again: `--resume` goes on where it was."""

from __future__ import annotations

import json
import signal
import subprocess
import threading

import pytest

from kgm.operations.change.carrying_out import InterruptedChangeError
from kgm.operations.rollout.journal import read_journal
from kgm.operations.rollout.removal import execute_removal
from kgm.protocol.apis import ApiKey
from tests import KGM
from tests.client.faults import BlackHole, Edit
from tests.operations.rollout.test_kills import killed_at
from tests.operations.rollout.units import JoinedUnits, environment, kgm

pytestmark = pytest.mark.slow
_COMMAND = ["command-begin", "command-started", "command-end"]
LINES = ["plan", "step-begin", *_COMMAND, "removal-begin", "removal-end", *_COMMAND, "step-end", "done"]
STOP_BEGUN, REMOVED, START_BEGUN = 3, LINES.index("removal-end") + 1, LINES.index("removal-end") + 2
FLAGS = ["--settle", "0s", "--interval", "100ms", "--restart-time", "200ms", "-o", "ndjson"]


@pytest.fixture
def units(server, group, tmp_path):
    with JoinedUnits(server.bootstrap, tmp_path, {"group": group, "topic": "orders"}) as joined:
        joined.form(server, ["a"])
        yield joined


def plan_of(units, journal):
    return [
        "rollout", "--yes", units.options["group"], "--all", "--remove-first", "--assume-stopped", "--exec-stop",
        f"{units.command} stop {{instance_id}}", "--exec", f"{units.command} start {{instance_id}}", "--journal",
        str(journal), *FLAGS,
    ]  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("number", "how"),
    [*((number, "after") for number in range(STOP_BEGUN, len(LINES))), (REMOVED, "before"), (START_BEGUN, "torn")],
)
def test_a_killed_rollout_is_resumed(units, tmp_path, number, how):
    journal = tmp_path / "j.ndjson"
    before = units.member_ids()
    killed_at(units, tmp_path, number, how, plan_of(units, journal))
    resumed = kgm(tmp_path, units.bootstrap, "rollout", "--yes", "--resume", str(journal), "-o", "ndjson")
    assert resumed.code == 0, str(resumed)
    lines = [str(line.kind) for line in read_journal(journal)]
    assert (lines[-1], lines.count("removal-end")) == ("done", 1)
    assert units.member_ids().keys() == before.keys()
    assert units.member_ids() != before
    # A command ran a second time only if kgm was killed before it knew how it had ended.
    written = number if how == "after" else number - 1
    for verb, first in (("stop", STOP_BEGUN), ("start", START_BEGUN)):
        unknown = first <= written < first + 2
        assert units.calls.count((verb, "a")) in ((1, 2) if unknown else (1,)), units.calls


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_rollout_that_is_interrupted_in_a_removal_ends(units, proxy, tmp_path, number, code):
    """The member is removed, and the answer on its way: that is checked and recorded, but the member is not started. When
    the rollout is resumed, the removal counts."""
    sent, release = threading.Event(), threading.Event()

    def hold(_message):
        sent.set()
        release.wait(60)

    proxy.always(ApiKey.LEAVE_GROUP, Edit(hold))
    journal = tmp_path / "j.ndjson"
    before = units.generation()
    running = subprocess.Popen(
        [*KGM, *plan_of(units, journal)], env=environment(tmp_path, proxy.bootstrap), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert sent.wait(60)
        running.send_signal(number)
        _, err = running.communicate(timeout=60)
    finally:
        release.set()
        running.kill()
    assert (running.returncode, units.calls) == (code, [("stop", "a")]), err
    assert f"kgm rollout --resume {journal} continues" in err
    assert [line.kind for line in read_journal(journal)][-2:] == ["removal-end", "stop"]
    resumed = kgm(tmp_path, units.bootstrap, "rollout", "--yes", "--resume", str(journal), "-o", "ndjson")
    assert (resumed.code, units.calls) == (0, [("stop", "a"), ("start", "a")]), resumed
    (last,) = resumed.of_kind("done")
    assert last["observed"]["rebalances"] == units.generation() - before == 2
    assert last["as_predicted"] is True
    assert not [event for event in resumed.of_kind("note") if "fewer than predicted" in event["text"]]


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_removal_whose_outcome_is_unknown_is_resumed(units, proxy, tmp_path, number, code):
    """The request is on its way, and the member still there: it is an interruption all the same, not a failure, so that
    no command runs any more."""
    sent = threading.Event()
    proxy.script(ApiKey.LEAVE_GROUP, BlackHole(then=sent.set))
    journal = tmp_path / "j.ndjson"
    running = subprocess.Popen(
        [*KGM, *plan_of(units, journal), "--on-failure", f"run {units.command} start {{instance_id}}", "-o", "json"],
        env=environment(tmp_path, proxy.bootstrap), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert sent.wait(60)
        running.send_signal(number)
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert (running.returncode, units.calls) == (code, [("stop", "a")]), err
    assert f"interrupted: commands that were running continue; kgm rollout --resume {journal} continues" in err
    unknown = "a: unknown, it is still in the group, but the request may still take effect"
    assert unknown in err
    (error,) = json.loads(out)["errors"]
    assert (error["code"], unknown in "\n".join(error["facts"])) == ("PARTIAL", True)
    *_, begun, stop = read_journal(journal)
    assert (begun.kind, stop.kind) == ("removal-begin", "stop")
    assert (stop.data["reason"], stop.data["exit_code"], stop.data["is_final"]) == ("interrupted", code, False)
    assert unknown in "\n".join(stop.data["facts"])
    resumed = kgm(tmp_path, units.bootstrap, "rollout", "--yes", "--resume", str(journal), "-o", "ndjson")
    assert (resumed.code, units.calls) == (0, [("stop", "a"), ("start", "a")]), resumed


def test_an_interruption_before_anything_is_known_about_a_removal_is_no_failure(mocker):
    """A second Ctrl-C leaves no report of what was removed."""
    unknown = InterruptedChangeError("it is not known which members of group 'g' were removed")
    mocker.patch("kgm.operations.removal.removal.execute", side_effect=unknown)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        execute_removal(mocker.Mock(), mocker.Mock(), mocker.Mock(), None)
    assert interrupted.value.error is unknown


def test_a_start_that_fails_is_repeated_and_the_member_is_not_removed_again(units, tmp_path):
    journal = tmp_path / "j.ndjson"
    stop = units.stop

    def fail_to_start(units, name):
        stop(name)
        units.faults[name] = lambda _units, _name: 3
        return 0

    units.faults["a"] = fail_to_start
    ended = kgm(tmp_path, units.bootstrap, *plan_of(units, journal))
    assert (ended.code, units.calls) == (7, [("stop", "a"), ("start", "a")])
    assert "the command of a ended with exit code 3" in ended.err
    assert "the group is Empty; a has not come back" in ended.err
    resumed = kgm(tmp_path, units.bootstrap, "rollout", "--yes", "--resume", str(journal), "-o", "ndjson")
    assert (resumed.code, units.calls) == (0, [("stop", "a"), ("start", "a"), ("start", "a")]), resumed


def test_what_may_be_alive_is_removed_only_on_the_operators_word(units, tmp_path, proxy):
    """Which may be given later, with --resume."""
    proxy.hide_offsets_topic()  # so that kgm does not know how long it would have to watch
    journal = tmp_path / "j.ndjson"
    words = [word for word in plan_of(units, journal) if word != "--assume-stopped"]
    ended = kgm(tmp_path, proxy.bootstrap, *words, "--accept-unseen")
    assert (ended.code, units.calls) == (7, [("stop", "a")])
    assert "it is not known whether a is alive" in ended.err
    resumed = kgm(
        tmp_path, units.bootstrap, "rollout", "--yes", "--resume", str(journal), "--assume-stopped", "-o", "ndjson"
    )  # fmt: skip
    assert (resumed.code, units.calls) == (0, [("stop", "a"), ("start", "a")]), resumed


def test_both_commands_are_shown_and_needed(units, tmp_path):
    words = plan_of(units, tmp_path / "j.ndjson")
    shown = kgm(tmp_path, units.bootstrap, *words, "--dry-run")
    assert (shown.code, units.calls) == (0, [])
    texts = [event["text"] for event in shown.events]
    assert texts == [f"{units.command} stop a", "one LeaveGroup: a", f"{units.command} start a"]
    place = words.index("--exec-stop")
    without = kgm(tmp_path, units.bootstrap, *words[:place], *words[place + 2 :])
    assert without.code == 2
    assert "--exec-stop is missing: the command that stops a" in without.err
