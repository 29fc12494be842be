"""What advice says that a change would have spared a group, against the same group driven with the change."""

from dataclasses import replace

import pytest

from kgm.operations.history.advice import advise
from kgm.simulation.replay.changes import GroupChangeKind
from tests.operations.history.advice.driven_twice import GROUP_ID, Life, Script, count, drive, history_of, random_script
from tests.selection import sized

pytestmark = pytest.mark.slow


def advice_of(script):
    """(the report, what was recorded)."""
    records = drive(script)
    history = history_of(records)
    return advise(history, GROUP_ID, history.rebalances(GROUP_ID)), count(records)


def one(report, kind):
    (each,) = [each for each in report.advice if each.change.kind is kind]
    return each


def with_change(script, change):
    """The script of a group that was configured so, or None if that is not what the change is about."""
    is_static = change.kind in (GroupChangeKind.STATIC_MEMBERSHIP, GroupChangeKind.STATIC_AND_SESSION)
    if not (is_static or change.session_timeout_ms or change.assignor):
        return None
    return script.but(
        is_static=script.is_static or is_static, session_ms=change.session_timeout_ms or script.session_ms,
        assignor=change.assignor or script.assignor,
    )  # fmt: skip


def spared(before, after):
    return before.rebalances - after.rebalances, before.moves - after.moves


def rolled(restarts, for_ms=5_000, every_ms=120_000, members=3, **fixed):
    """A group whose members are restarted one after the other, in turn."""
    lives = [
        Life(
            name=f"app-{number}",
            start=number * 20_000,
            restarts=tuple((100_000 + turn * every_ms, for_ms, True) for turn in range(number, restarts, members)),
        )
        for number in range(members)
    ]
    return Script(lives=tuple(lives), partitions=6, **fixed)


@pytest.mark.long
def test_static_membership_would_have_spared_every_restart():
    script = rolled(9)
    report, before = advice_of(script)
    each = one(report, GroupChangeKind.STATIC_MEMBERSHIP)
    after = count(drive(script.but(is_static=True)))
    rebalances, moves = spared(before, after)
    # Each restart is a leave and a join. Three partitions move to the second member, and then three more by the third.
    assert (rebalances, after.moves) == (2 * 9, 3 + 3)
    assert (each.gain.rebalances.least, each.gain.rebalances.most) == (rebalances, rebalances)
    assert (each.gain.moves.least, each.gain.moves.most) == (moves, moves)
    assert each.bound == "exact"
    assert f"{rebalances} of these {before.rebalances} rebalances" in each.text
    assert f"{moves} of {before.moves} moves" in each.text


def test_a_session_timeout_would_have_spared_slow_restarts():
    script = rolled(6, for_ms=30_000, is_static=True, session_ms=20_000)
    report, before = advice_of(script)
    each = one(report, GroupChangeKind.SESSION_TIMEOUT)
    after = count(drive(script.but(session_ms=each.change.session_timeout_ms)))
    rebalances, moves = spared(before, after)
    assert rebalances == 12
    assert (each.gain.rebalances.least, each.gain.rebalances.most) == (rebalances, rebalances)
    assert (each.gain.moves.least, each.gain.moves.most) == (moves, moves)
    assert each.price is not None


@pytest.mark.long
def test_what_comes_and_goes_all_the_time():
    """A process that is restarted again and again, beside others that stay."""
    stays = [Life(name=f"app-{number}", start=0) for number in range(3)]
    flaps = Life(name="flaps", start=0, restarts=tuple((60_000 + turn * 60_000, 15_000, True) for turn in range(6)))
    script = Script(lives=(*stays, flaps), partitions=8)
    report, before = advice_of(script)
    each = one(report, GroupChangeKind.KEEP_RUNNING)
    after = count(drive(script.but(lives=(*stays, Life(name="flaps", start=0)))))
    assert each.change.processes == ("flaps",)
    assert (each.gain.rebalances.least, each.gain.rebalances.most) == (12, 12)
    assert spared(before, after) == (each.gain.rebalances.most, each.gain.moves.most)


@pytest.mark.long
def test_what_the_records_leave_open_is_a_range():
    """Without commits nothing shows how long a dynamic member had been gone when its session may have expired."""
    script = rolled(4, for_ms=15_000, commits=False, session_ms=45_000)
    report, before = advice_of(script)
    each = one(report, GroupChangeKind.STATIC_MEMBERSHIP)
    rebalances, _ = spared(before, count(drive(script.but(is_static=True))))
    assert each.bound == "range"
    assert each.gain.rebalances.least < rebalances <= each.gain.rebalances.most
    assert "at most" in each.text
    assert any("not known whether they left" in caveat for caveat in each.caveats)


@pytest.mark.long
def test_processes_that_cannot_be_told_apart_make_it_at_most():
    script = rolled(6, same_client_id=True)
    report, before = advice_of(script)
    each = one(report, GroupChangeKind.STATIC_MEMBERSHIP)
    rebalances, _ = spared(before, count(drive(script.but(is_static=True))))
    assert each.bound == "at-most"
    assert rebalances <= each.gain.rebalances.most
    assert "at most" in each.text
    assert any("same client id" in caveat for caveat in each.caveats)


def test_a_group_without_restarts_gets_no_advice():
    report, _ = advice_of(Script(lives=(Life(name="app-0", start=0),), partitions=2))
    assert not report.advice
    assert report.reason is not None


#: With fewer draws, or none in which everything happens at a time of its own, what really happens was outside of a range,
#: or not what was called exact.
MISSED_BY_FEW_DRAWS = (1052, 2010, 2046, 3053, 3114)


@pytest.mark.long
@pytest.mark.parametrize("seed", sized(range(100, 101), [*range(100, 112), *MISSED_BY_FEW_DRAWS]))
def test_gains_are_what_really_happens(seed):
    """Random groups: how many rebalances and moves there are less when the same is done to the changed group."""
    script = random_script(seed)
    report, before = advice_of(script)
    assert report.reason is None
    for each in report.advice:
        changed = with_change(script, each.change)
        if changed is None:
            continue
        rebalances, moves = spared(before, count(drive(changed)))
        gain = each.gain
        assert gain.rebalances.least <= rebalances <= gain.rebalances.most, each
        assert gain.moves.least <= moves <= gain.moves.most, each
        if each.bound == "exact":
            assert (gain.rebalances.least, gain.moves.least) == (rebalances, moves)


@pytest.mark.long
def test_a_max_poll_interval_would_have_kept_those_that_stalled():
    """Members that leave when max.poll.interval.ms has passed, and join with their next poll. The broker's log says so
    of the leaves: without it they may be anything."""
    stalls, for_ms, interval_ms = (100_000, 300_000, 700_000), 40_000, 300_000
    lives = [Life(name=f"app-{number}", start=number * 20_000) for number in range(3)]
    calm = Script(lives=tuple(lives), partitions=6)
    lives[1] = replace(lives[1], restarts=tuple((at_ms, for_ms, True) for at_ms in stalls))
    script = calm.but(lives=tuple(lives))
    records = drive(script)
    history = history_of(records)
    rows = history.rebalances(GROUP_ID)
    assert not [
        each for each in advise(history, GROUP_ID, rows).advice
        if each.change.kind is GroupChangeKind.MAX_POLL_INTERVAL
    ]  # fmt: skip
    logged = [
        replace(row, cause="max-poll", confidence="certain", source="broker log") if row.left == 1 else row
        for row in rows
    ]
    report = advise(history, GROUP_ID, logged)
    each = one(report, GroupChangeKind.MAX_POLL_INTERVAL)
    rebalances, moves = spared(count(records), count(drive(calm)))
    assert rebalances == 2 * len(stalls)
    assert (each.gain.rebalances.least, each.gain.rebalances.most) == (rebalances, rebalances)
    assert (each.gain.moves.least, each.gain.moves.most) == (moves, moves)
    assert each.bound == "exact"
    assert interval_ms + for_ms < each.change.max_poll_interval_ms <= 1.5 * (interval_ms + for_ms)
    assert "hangs is noticed" in each.price
    inferred = [replace(row, confidence="possible") if row.cause == "max-poll" else row for row in logged]
    unsure = one(advise(history, GROUP_ID, inferred), GroupChangeKind.MAX_POLL_INTERVAL)
    assert unsure.bound == "at-most"
    assert any("--broker-log" in caveat for caveat in unsure.caveats)
