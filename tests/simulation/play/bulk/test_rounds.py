"""A draw in bulk and the same draw event by event: they have to be equal, to the last float, with the same records, and
leave the same coordinator and clients behind.

Sessions that end in the same millisecond end together, in whichever order, so no draw shows the order of their timers:
it is compared itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.coordinator.contract.outcome import session_key
from kgm.model.snapshot import TopicSnapshot
from kgm.simulation.bounce import Simulation
from kgm.simulation.plan.bounce_plan import MemberOrder, Plan, Rolling, Stop, WhatIf
from kgm.simulation.plan.synthetic_group import synthetic_group
from kgm.simulation.play.bulk.coverage import BULK_FROM
from kgm.simulation.play.plan_runner import PlanRunner
from kgm.simulation.play.timing import DIRECTED, DrawTiming
from tests.simulation.groups import DYNAMIC, STATIC, ids, made_up

NEVER = 10**9
OFTEN = {"offsets.retention.check.interval.ms": "700"}
LIBRARIES = (None, "java", "librdkafka")


def play(snapshot, plan, *, bulk_from, seed="seed", timing=DrawTiming):
    """A draw, the records that the coordinator wrote in it, its timers at the start of each batch, and what played
    it."""
    simulation = Simulation.of(snapshot, plan)
    seen = []

    class Watched(timing):
        """Looks at the timers at the start of each batch."""

        def begin_batch(self):
            super().begin_batch()
            seen.append(timers_of(runner))

    runner = PlanRunner(
        simulation.group, simulation.plan, simulation.settings, seed, timing=Watched, bulk_from=bulk_from
    )
    runner.world.kept_records = []
    draw = runner.play()
    return draw, runner.world.kept_records, seen, runner


def timers_of(runner):
    """The timers of the coordinator, and those that a crowd has for it, in the order in which they would fire."""
    world = runner.world
    timers = [(deadline, world.runtime.turn_of(key), key) for key, deadline in world.engine.deadlines.items()]
    if runner.rounds is not None:
        crowd, group_id = runner.rounds.crowd, world.group.group_id
        timers += [
            (int(crowd.deadline_ms[slot]), int(crowd.turn[slot]), session_key(group_id, member_id))
            for member_id, slot in crowd.slots.items()
        ]
    return [(deadline, key) for deadline, _, key in sorted(timers)]


def left_behind(runner):
    """Timers, the group, and what clients know."""
    world = runner.world
    clients = [
        (
            member.spec.identity, member.phase, member.member_id, member.generation, member.owned, member.chance.drawn,
            member.last_beat_ms, member.extended_ms, member.link_busy_until_ms,
            None if member.next_heartbeat is None else member.next_heartbeat.at_ms,
        )
        for member in runner.members
    ]  # fmt: skip
    return timers_of(runner), world.engine.group(world.group.group_id), clients, world.clock.now_ms


def assert_equal(snapshot, plan, **more):
    """Play it both ways; returns what played it in bulk."""
    plain, plain_records, plain_timers, by_events = play(snapshot, plan, bulk_from=NEVER, **more)
    bulk, bulk_records, timers, runner = play(snapshot, plan, bulk_from=1, **more)
    assert bulk == plain
    assert bulk_records == plain_records
    assert timers == plain_timers
    assert left_behind(runner) == left_behind(by_events)
    return runner


@st.composite
def situations(draw):
    """A group of members of several libraries, and a plan for it."""
    members = draw(st.integers(2, 9))
    count = st.integers(1, 3 * members)
    topics = [TopicSnapshot(name=name, partitions=draw(count)) for name in ("orders", "b")[: draw(st.integers(1, 2))]]
    assignor = draw(st.sampled_from(["range", "roundrobin", "sticky", "cooperative-sticky"]))
    snapshot = synthetic_group(members, topics, DYNAMIC, assignor)
    static = draw(st.sampled_from([0, 0, 0, 1, members]))
    rows = []
    for number, member in enumerate(snapshot.members):
        name = f"static-{number}" if number < static else None
        member_id = f"{name}-{member.member_id}" if name else member.member_id
        library = draw(st.sampled_from(LIBRARIES))
        rows.append(replace(member, group_instance_id=name, member_id=member_id, client_library=library))
    snapshot = replace(snapshot, members=tuple(rows))
    named = ids(snapshot)
    rolling = draw(st.sampled_from([None, Rolling(), Rolling(), Rolling(pause_ms=50_000), Rolling(max_unavailable=2)]))
    leaves = draw(st.sampled_from([0, 0, 0, 1]))
    plan = Plan(
        bounce=named[leaves:], scale_in=named[:leaves], scale_out=draw(st.sampled_from([0, 0, 0, 1])), rolling=rolling,
        order=draw(st.sampled_from(MemberOrder)), stop=draw(st.sampled_from([Stop.CLEAN, Stop.CLEAN, Stop.CRASH])),
        restart_time_ms=draw(st.sampled_from([0, 1_000, 5_000, 5_000, 20_000, 100_000])),
        heartbeat_interval_ms=draw(st.sampled_from([None, None, 3_000, 1_000, 300])),
        what_if=WhatIf(session_timeout_ms=draw(st.sampled_from([None, None, 10_000]))),
        remove_first=rolling is not None and draw(st.integers(0, 9)) == 0,
        settings=draw(st.sampled_from([{}, {}, OFTEN])),
    )  # fmt: skip
    return snapshot, plan, f"seed {draw(st.integers(0, 1_000))}", draw(st.sampled_from([DrawTiming, *DIRECTED]))


@settings(max_examples=150)
@given(situations())
def test_a_draw_in_bulk_is_the_draw_of_events(situation):
    snapshot, plan, seed, timing = situation
    assert_equal(snapshot, plan, seed=seed, timing=timing)


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
@pytest.mark.parametrize("library", ["java", "librdkafka", "both"])
@pytest.mark.parametrize("restart_time_ms", [5_000, 90_000])
def test_a_rolling_bounce_of_dynamic_members_is_played_in_bulk(assignor, library, restart_time_ms):
    """With 40 members some message is slow in most rounds, and members sync after their leader. In 90 s calm members
    hand in heartbeats."""
    group = made_up(40, 95, DYNAMIC, assignor, library="java" if library == "both" else library)
    if library == "both":
        rows = (replace(m, client_library=LIBRARIES[1 + n % 2]) for n, m in enumerate(group.members))
        group = replace(group, members=tuple(rows))
    runner = assert_equal(group, Plan(bounce=ids(group)[:12], rolling=Rolling(), restart_time_ms=restart_time_ms))
    assert runner.world.rebalances == 24
    assert runner.rounds is not None
    assert runner.rounds.played >= 20, (runner.rounds.played, runner.rounds.failed)


@pytest.mark.parametrize("library", ["java", "librdkafka", "both"])
@pytest.mark.parametrize("restart_time_ms", [5_000, 90_000])
@pytest.mark.parametrize("heartbeat_interval_ms", [None, 1_000])
def test_the_rebalances_that_follow_in_a_cooperative_group_are_played_in_bulk(
    library, restart_time_ms, heartbeat_interval_ms
):
    """Members give up partitions and join again while others have not been assigned yet."""
    group = made_up(40, 95, DYNAMIC, "cooperative-sticky", library="java" if library == "both" else library)
    if library == "both":
        rows = (replace(m, client_library=LIBRARIES[1 + n % 2]) for n, m in enumerate(group.members))
        group = replace(group, members=tuple(rows))
    plan = Plan(
        bounce=ids(group)[:12], rolling=Rolling(), restart_time_ms=restart_time_ms,
        heartbeat_interval_ms=heartbeat_interval_ms,
    )  # fmt: skip
    runner = assert_equal(group, plan)
    assert runner.world.rebalances > 24, "each change has two rebalances or more"
    assert runner.rounds is not None
    assert runner.rounds.played >= 0.9 * runner.world.rebalances, (runner.rounds.played, runner.rounds.failed)


@pytest.mark.parametrize("seed", range(12))
def test_a_cooperative_group_with_messages_that_are_slow(seed):
    """A slow SyncGroup is refused when the next rebalance has begun; its member does not learn what it was assigned,
    and another rebalance follows."""
    group = made_up(60, 400, DYNAMIC, "cooperative-sticky", library=LIBRARIES[1 + seed % 2])
    plan = Plan(bounce=ids(group)[:6], scale_out=seed % 3, rolling=Rolling(), restart_time_ms=20_000)
    timing = [DrawTiming, *DIRECTED][seed % (1 + len(DIRECTED))]
    runner = assert_equal(group, plan, seed=f"slow {seed}", timing=timing)
    assert runner.rounds is not None
    assert runner.rounds.played


@pytest.mark.parametrize("heartbeat_interval_ms", [200, 300, 600])
@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_members_that_heartbeat_again_before_they_join_or_while_they_sync(library, heartbeat_interval_ms):
    """When messages are slow, and intervals short."""
    group = made_up(40, 95, DYNAMIC, library=library)
    plan = Plan(
        bounce=ids(group)[:15], rolling=Rolling(), restart_time_ms=4_000, heartbeat_interval_ms=heartbeat_interval_ms
    )
    plain_beats = 3 * 39 * 30
    runner = assert_equal(group, plan)
    assert runner.world.requests > plain_beats + 60, "some have sent more than one heartbeat in a round"
    assert runner.rounds is not None
    assert runner.rounds.played > 20, (runner.rounds.played, runner.rounds.failed)


@pytest.mark.parametrize(("membership", "at_once"), [(STATIC, 2), (DYNAMIC, 1)])
def test_a_process_that_is_killed_is_missed_by_a_crowd(membership, at_once):
    """The session timers of a crowd are not the coordinator's: a member that is killed gets its own back."""
    group = made_up(8, 30, membership, library="java")
    plan = Plan(bounce=ids(group), rolling=Rolling(max_unavailable=at_once), stop=Stop.CRASH, restart_time_ms=100_000)
    runner = assert_equal(group, plan)
    assert runner.rounds is not None
    assert runner.rounds.played


def test_a_rebalance_is_played_in_bulk_when_the_broker_looks_for_expired_offsets_meanwhile():
    group = made_up(12, 30, DYNAMIC, library="java")
    plan = Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=5_000, settings=OFTEN)
    runner = assert_equal(group, plan)
    assert runner.rounds is not None
    assert (runner.rounds.played, runner.rounds.failed) == (24, 0)


def test_a_restart_within_a_rebalance_is_played_by_events():
    group = made_up(6, 30, DYNAMIC, library="java")
    runner = assert_equal(group, Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=0))
    assert runner.rounds is not None
    assert runner.rounds.failed


def test_without_numpy_everything_is_played_by_events(monkeypatch):
    group = made_up(30, 60, DYNAMIC, library="java")
    plan = Plan(bounce=ids(group)[:2], rolling=Rolling())
    with_numpy, _, _, runner = play(group, plan, bulk_from=BULK_FROM)
    assert runner.rounds is not None
    monkeypatch.setitem(__import__("sys").modules, "kgm.simulation.play.bulk.rounds", None)
    without, _, _, runner = play(group, plan, bulk_from=BULK_FROM)
    assert runner.rounds is None
    assert without == with_numpy
