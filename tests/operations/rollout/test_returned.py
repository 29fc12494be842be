"""A member comes back after it was stopped, before it is removed: its command stopped another process than the one that is
running now, so no LeaveGroup may name it before it has been stopped once more."""

from __future__ import annotations

import json

import pytest

from kgm.operations.rollout.journal import read_journal
from kgm.protocol.apis import ApiKey
from tests.client.faults import Edit
from tests.operations.rollout.test_kills import killed_at
from tests.operations.rollout.test_replace_kills import FLAGS
from tests.operations.rollout.units import JoinedUnits, kgm

pytestmark = pytest.mark.slow
NAMES = ["a", "b"]
#: The lines of a journal with the end of the stop command of a batch of one.
STOPPED = 5


@pytest.fixture
def members(request):
    return getattr(request, "param", ["a"])


@pytest.fixture
def units(server, group, members, tmp_path):
    with JoinedUnits(server.bootstrap, tmp_path, {"group": group, "topic": "orders"}) as joined:
        joined.form(server, members)
        yield joined


@pytest.fixture
def running_then(units, proxy):
    """For each LeaveGroup, the members whose processes were running."""
    found = []

    def note(answer):
        found.append(sorted(units.members))
        return answer

    proxy.always(ApiKey.LEAVE_GROUP, Edit(note))
    return found


def words_of(units, journal, *names, stays_away=False, start=None):
    """A restart of members with a removal, or a scale-in."""
    stop = [
        "--assume-stopped",
        "--exec-stop",
        f"{units.command} stop {{instance_id}}",
        "--journal",
        str(journal),
        *FLAGS,
    ]
    stop += ["--step-timeout", "5s"]
    if stays_away:
        return ["rollout", "--yes", units.options["group"], "--remove", ",".join(names), *stop]
    return [
        "rollout", "--yes", units.options["group"], "-i", ",".join(names), "--max-unavailable", "2", "--remove-first",
        "--exec", start or f"{units.command} start {{instance_id}}", *stop,
    ]  # fmt: skip


def resumed(proxy, folder, journal):
    return kgm(folder, proxy.bootstrap, "rollout", "--yes", "--resume", str(journal), "-o", "ndjson")


@pytest.mark.parametrize("members", [NAMES], indirect=True)
@pytest.mark.parametrize("stays_away", [False, True])
def test_a_member_that_came_back_before_the_resumption(units, proxy, running_then, tmp_path, stays_away):
    """The other command of the step failed, and the operator started the member again. Nothing starts in the end: members
    that are single requests cannot join at the same time."""
    units.faults["b"] = lambda _units, _name: 9
    journal = tmp_path / "j.ndjson"
    ended = kgm(tmp_path, proxy.bootstrap, *words_of(units, journal, *NAMES, stays_away=stays_away, start="false"))
    assert (ended.code, sorted(units.calls)) == (7, [("stop", "a"), ("stop", "b")]), str(ended)
    units.members["a"] = units.start("a")
    units.calls.clear()
    resumed(proxy, tmp_path, journal)
    assert running_then == [[]]
    assert [name for verb, name in sorted(units.calls) if verb == "stop"] == NAMES


@pytest.mark.parametrize("stays_away", [False, True])
def test_a_member_whose_stop_failed_and_that_was_restarted(units, proxy, running_then, tmp_path, stays_away):
    """Its command failed, which ends another process than the one that is running now."""

    def restart(units, name):
        units.stop(name)
        units.members[name] = units.start(name)
        return 9

    units.faults["a"] = restart
    journal = tmp_path / "j.ndjson"
    assert kgm(tmp_path, proxy.bootstrap, *words_of(units, journal, "a", stays_away=stays_away)).code == 7
    ended = resumed(proxy, tmp_path, journal)
    assert ended.code == 0, str(ended)
    assert running_then == [[]]
    assert units.calls[:2] == [("stop", "a"), ("stop", "a")]


@pytest.mark.few(1)
@pytest.mark.parametrize("stays_away", [False, True])
def test_a_member_that_came_back_after_kgm_was_killed(units, proxy, running_then, tmp_path, stays_away):
    journal = tmp_path / "j.ndjson"
    killed_at(units, tmp_path, STOPPED, "after", words_of(units, journal, "a", stays_away=stays_away))
    assert units.calls == [("stop", "a")]
    units.members["a"] = units.start("a")
    resumed(proxy, tmp_path, journal)
    assert running_then == [[]]
    assert units.calls[:2] == [("stop", "a"), ("stop", "a")]


def test_a_member_that_comes_back_at_once_is_not_removed(units, proxy, running_then, tmp_path):
    """As if a supervisor had started it again: the command succeeds, and the process is another one."""

    def restart(units, name):
        units.stop(name)
        units.members[name] = units.start(name)
        return 0

    units.faults["a"] = restart
    journal = tmp_path / "j.ndjson"
    ended = kgm(tmp_path, proxy.bootstrap, *words_of(units, journal, "a"))
    assert (ended.code, units.calls, running_then) == (7, [("stop", "a")], []), str(ended)
    assert "nothing was removed: a joined again after being stopped" in ended.err
    assert f"a is now member {units.member_ids()['a']}" in ended.err
    resumed(proxy, tmp_path, journal)
    assert running_then == [[]]
    assert units.calls[:2] == [("stop", "a"), ("stop", "a")]


@pytest.mark.long
def test_a_journal_of_an_earlier_version(units, proxy, running_then, tmp_path):
    """It does not say which process a command has stopped: that was the one before the step."""
    journal = tmp_path / "j.ndjson"
    killed_at(units, tmp_path, STOPPED, "after", words_of(units, journal, "a"))
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    journal.write_text(
        "".join(json.dumps({name: one[name] for name in one if name != "member_ids"}) + "\n" for one in lines)
    )
    assert all("member_ids" not in line.data for line in read_journal(journal))
    units.members["a"] = units.start("a")
    resumed(proxy, tmp_path, journal)
    assert running_then == [[]]
    assert units.calls[:2] == [("stop", "a"), ("stop", "a")]
