"""kgm is killed in a step that replaces several members with one LeaveGroup: each is stopped, removed and started again once,
and a second time only where kgm could not know how its command had ended."""

from __future__ import annotations

import itertools

import pytest

from kgm.operations.rollout.journal import read_journal
from tests.operations.rollout.test_kills import killed_at
from tests.operations.rollout.test_replace_kills import plan_of
from tests.operations.rollout.units import fleet, kgm
from tests.selection import sized

pytestmark = pytest.mark.slow
NAMES = ["a", "b", "c"]
_COMMAND = ["command-begin", "command-started", "command-end"]


def step(members):
    """Commands of a batch run at the same time, so the order of their lines is left open."""
    commands = sorted(_COMMAND * members)
    return ["step-begin", *commands, "removal-begin", "removal-end", *commands, "step-end"]


LINES = ["plan", *step(2), *step(1), "done"]
#: How many lines are written: in the first step up to 8 of those who stop, 10 with the removal, 16 of those who start.
KILLED_AT = (4, 7, 8, 9, 10, 13, 16, 22)


def in_any_order(kinds):
    """The lines with those of commands that run at the same time sorted."""
    runs = [(is_command, [*run]) for is_command, run in itertools.groupby(kinds, lambda kind: kind in _COMMAND)]
    return [kind for is_command, run in runs for kind in (sorted(run) if is_command else run)]


@pytest.fixture
def units(server, group, tmp_path):
    """Clients that take part in rebalances, which a member that is a single request does not."""
    with fleet(
        server.bootstrap,
        tmp_path,
        NAMES,
        partitions=6,
        group=group,
        topics=["orders"],
        session_timeout_ms=900_000,  # longer than a busy machine takes from the stops to the removal
        max_poll_interval_ms=1_800_000,
    ) as units:
        yield units


def member_ids(server, group):
    found = server.inspect(lambda view: view.group(group))
    return {one.group_instance_id: one.member_id for one in found.members}


def words_of(units, journal):
    return [*plan_of(units, journal), "--rolling", "--max-unavailable", "2", "--order", "id"]


def kinds(journal):
    return [str(line.kind) for line in read_journal(journal)]


def test_a_batch_is_removed_by_one_request(units, tmp_path):
    journal = tmp_path / "j.ndjson"
    ended = kgm(tmp_path, units.bootstrap, *words_of(units, journal))
    # How many rebalances members that start together cause is left to chance; after more than any draw had, go on.
    for _ in NAMES:
        if ended.code == 8:
            ended = kgm(tmp_path, units.bootstrap, "rollout", "--yes", "--resume", str(journal), "-o", "ndjson")
    assert ended.code == 0, str(ended)
    assert in_any_order(kind for kind in kinds(journal) if kind not in ("stop", "resume")) == LINES
    verbs = [verb for verb, _ in units.calls]
    assert verbs == ["stop", "stop", "start", "start", "stop", "start"]
    assert sorted(units.calls) == sorted((verb, name) for verb in ("stop", "start") for name in NAMES)


@pytest.mark.long
@pytest.mark.parametrize("number", sized(KILLED_AT[:1], KILLED_AT))
def test_a_killed_rollout_is_resumed(server, group, units, tmp_path, number):
    journal = tmp_path / "j.ndjson"
    before = member_ids(server, group)
    killed_at(units, tmp_path, number, "after", words_of(units, journal))
    written = read_journal(journal)
    begun = [line.data["identity"] for line in written if str(line.kind) == "command-begin"]
    ended = [line.data["identity"] for line in written if str(line.kind) == "command-end"]
    resumed = kgm(tmp_path, units.bootstrap, "rollout", "--yes", "--resume", str(journal), "-o", "ndjson")
    assert resumed.code == 0, str(resumed)
    assert (kinds(journal)[-1], kinds(journal).count("removal-end")) == ("done", 2)
    after = member_ids(server, group)
    assert after.keys() == before.keys()
    assert all(after[name] != before[name] for name in NAMES)
    for verb, name in itertools.product(("stop", "start"), NAMES):
        is_unknown = begun.count(name) > ended.count(name)
        assert units.calls.count((verb, name)) in ((1, 2) if is_unknown else (1,)), units.calls
