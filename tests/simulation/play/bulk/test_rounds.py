"""Rounds of classic groups in bulk, and event by event (`both_ways`)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.model.client_library import stated_library
from kgm.model.snapshot import TopicSnapshot
from kgm.simulation.plan.bounce_plan import Plan, Rolling, Stop, WhatIf
from kgm.simulation.plan.synthetic_group import newly_assigned, synthetic_group
from kgm.simulation.play.timing import EXTREME_TIMINGS, DrawTiming, OneByOne
from tests.selection import sized
from tests.simulation.groups import DYNAMIC, STATIC, ids, made_up
from tests.simulation.play.bulk.both_ways import assert_equal, play, with_a_plan

pytestmark = pytest.mark.slow

OFTEN = {"offsets.retention.check.interval.ms": "700"}
LIBRARIES = (None, "java", "librdkafka")
ALL = 100


@st.composite
def situations(draw, statics=(0, 0, 0, 1, ALL)):
    """A group of members of several libraries, and a plan for it. statics: how many of the members may be static."""
    members = draw(st.integers(2, 9))
    count = st.integers(1, 3 * members)
    topics = [TopicSnapshot(name=name, partitions=draw(count)) for name in ("orders", "b")[: draw(st.integers(1, 2))]]
    assignor = draw(st.sampled_from(["range", "roundrobin", "sticky", "cooperative-sticky"]))
    snapshot = synthetic_group(members, topics, DYNAMIC, assignor)
    static = draw(st.sampled_from(statics))
    rows = []
    for number, member in enumerate(snapshot.members):
        name = f"static-{number}" if number < static else None
        member_id = f"{name}-{member.member_id}" if name else member.member_id
        library = draw(st.sampled_from(LIBRARIES))
        rows.append(
            replace(
                member,
                group_instance_id=name,
                member_id=member_id,
                client_library=stated_library(library),
                session_timeout_ms=draw(st.sampled_from([None, None, 10_000, 30_000])),
                rebalance_timeout_ms=draw(st.sampled_from([None, 12_000])),
            )
        )
    return with_a_plan(
        draw, replace(snapshot, members=tuple(rows)), [0, 0, 0, 1],
        heartbeat_interval_ms=draw(st.sampled_from([None, None, 3_000, 1_000, 300])),
        what_if=WhatIf(session_timeout_ms=draw(st.sampled_from([None, None, 10_000]))),
        settings=draw(st.sampled_from([{}, {}, OFTEN])),
    )  # fmt: skip


@settings(max_examples=sized(8, 150))
@given(situations())
def test_a_draw_in_bulk_is_the_draw_of_events(situation):
    assert_equal(*situation)


@settings(max_examples=sized(6, 100))
@given(situations(statics=(1, 2, ALL)))
def test_a_draw_with_static_members_in_bulk_is_the_draw_of_events(situation):
    assert_equal(*situation)


@pytest.mark.few(2)
@pytest.mark.parametrize("stop", [Stop.CLEAN, Stop.CRASH])
@pytest.mark.parametrize("library", ["java", "librdkafka"])
@pytest.mark.parametrize(("at_once", "restart_time_ms"), sized([(3, 5_000)], [(1, 5_000), (3, 5_000), (1, 40_000)]))
def test_heartbeats_are_heartbeats_applied_together_while_static_members_restart(
    library, at_once, restart_time_ms, stop
):
    group = made_up(100, 200, STATIC, library=library)
    plan = Plan(
        bounce=ids(group)[:40], rolling=Rolling(max_unavailable=at_once), stop=stop, restart_time_ms=restart_time_ms
    )
    runner = assert_equal(group, plan)
    assert runner.world.rebalances == 0
    assert runner.bulk is not None
    assert runner.bulk.heartbeats_applied > runner.world.requests / 4


@pytest.mark.parametrize("restart_time_ms", sized([5_000], [5_000, 90_000]))
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_static_members_restart_between_rebalances_of_dynamic_ones(assignor, restart_time_ms):
    """What a round in bulk has assigned is what the coordinator answers a static member that is back; the session of one
    that is back late ends, which is played by events."""
    group = made_up(40, 95, DYNAMIC, assignor, library="java")
    rows = [
        replace(m, group_instance_id=f"s-{n}", member_id=f"s-{n}-{m.member_id}") if n % 2 else m
        for n, m in enumerate(group.members)
    ]
    group = replace(group, members=tuple(rows))
    runner = assert_equal(group, Plan(bounce=ids(group)[:12], rolling=Rolling(), restart_time_ms=restart_time_ms))
    assert runner.bulk is not None
    assert runner.bulk.played >= 12


@pytest.mark.long
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_leader_that_does_not_know_all_topics_is_played_by_events(assignor):
    """Members of kafka-python, two of three of which subscribe to one of two topics: a new leader leaves the other one
    out at first, and one that subscribes to both is played in bulk."""
    topics = [TopicSnapshot(name=name, partitions=40) for name in ("orders", "b")]
    group = synthetic_group(20, topics, DYNAMIC, assignor)
    rows = [
        replace(m, client_library=stated_library("kafka-python"), topics=(("b",), ("orders",), ("orders", "b"))[n % 3])
        for n, m in enumerate(group.members)
    ]
    group = newly_assigned(replace(group, members=tuple(rows)))
    played = 0
    for seed in range(sized(2, 6)):
        plan = Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=5_000)
        runner = assert_equal(group, plan, seed=f"{seed}")
        assert runner.bulk is not None
        played += runner.bulk.played
    assert played


@pytest.mark.few(1)
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
@pytest.mark.parametrize("library", ["java", "librdkafka", "both"])
@pytest.mark.parametrize("restart_time_ms", sized([5_000], [5_000, 90_000]))
def test_a_rolling_bounce_of_dynamic_members_is_played_in_bulk(assignor, library, restart_time_ms):
    """With 40 members some message is slow in most rounds, and members sync after their leader. In 90 s calm members
    hand in heartbeats."""
    group = made_up(40, 95, DYNAMIC, assignor, library="java" if library == "both" else library)
    if library == "both":
        rows = (replace(m, client_library=stated_library(LIBRARIES[1 + n % 2])) for n, m in enumerate(group.members))
        group = replace(group, members=tuple(rows))
    runner = assert_equal(group, Plan(bounce=ids(group)[:12], rolling=Rolling(), restart_time_ms=restart_time_ms))
    assert runner.world.rebalances == 24
    assert runner.bulk is not None
    assert runner.bulk.played >= 20, (runner.bulk.played, runner.bulk.failed)


@pytest.mark.few(1)
@pytest.mark.parametrize("library", ["java", "librdkafka", "both"])
@pytest.mark.parametrize("restart_time_ms", sized([5_000], [5_000, 90_000]))
@pytest.mark.parametrize("heartbeat_interval_ms", [None, 1_000])
def test_the_rebalances_that_follow_in_a_cooperative_group_are_played_in_bulk(
    library, restart_time_ms, heartbeat_interval_ms
):
    """Members give up partitions and join again while others have not been assigned yet."""
    group = made_up(40, 95, DYNAMIC, "cooperative-sticky", library="java" if library == "both" else library)
    if library == "both":
        rows = (replace(m, client_library=stated_library(LIBRARIES[1 + n % 2])) for n, m in enumerate(group.members))
        group = replace(group, members=tuple(rows))
    plan = Plan(
        bounce=ids(group)[:12], rolling=Rolling(), restart_time_ms=restart_time_ms,
        heartbeat_interval_ms=heartbeat_interval_ms,
    )  # fmt: skip
    runner = assert_equal(group, plan)
    assert runner.world.rebalances > 24, "each change has two rebalances or more"
    assert runner.bulk is not None
    assert runner.bulk.played >= 0.9 * runner.world.rebalances, (runner.bulk.played, runner.bulk.failed)


@pytest.mark.parametrize("seed", range(sized(1, 8)))
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_rebalance_in_which_several_members_leave_or_join_before_others_notice(assignor, seed):
    """Two processes stop within 100 ms, and come back together."""
    group = made_up(40, 95, DYNAMIC, assignor, library=LIBRARIES[1 + seed % 2])
    plan = Plan(bounce=ids(group)[:12], rolling=Rolling(max_unavailable=2), restart_time_ms=5_000)
    runner = assert_equal(group, plan, seed=f"batch {seed}")
    assert runner.bulk is not None
    assert runner.bulk.played, runner.bulk.failed


@pytest.mark.long
@pytest.mark.parametrize("seed", range(sized(2, 12)))
def test_a_cooperative_group_with_messages_that_are_slow(seed):
    """A slow SyncGroup is refused when the next rebalance has begun; its member does not learn what it was assigned,
    and another rebalance follows."""
    group = made_up(60, 400, DYNAMIC, "cooperative-sticky", library=LIBRARIES[1 + seed % 2])
    plan = Plan(bounce=ids(group)[:6], scale_out=seed % 3, rolling=Rolling(), restart_time_ms=20_000)
    timing = [DrawTiming, *EXTREME_TIMINGS][seed % (1 + len(EXTREME_TIMINGS))]
    runner = assert_equal(group, plan, seed=f"slow {seed}", timing=timing)
    assert runner.bulk is not None
    assert runner.bulk.played


@pytest.mark.few(1)
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
    assert runner.bulk is not None
    assert runner.bulk.played > 20, (runner.bulk.played, runner.bulk.failed)


@pytest.mark.parametrize(("membership", "at_once"), [(STATIC, 2), (DYNAMIC, 1)])
def test_a_process_that_is_killed_is_missed_by_members_in_arrays(membership, at_once):
    """The session timers of members in arrays are not the coordinator's: a member that is killed gets its own back."""
    group = made_up(8, 30, membership, library="java")
    plan = Plan(bounce=ids(group), rolling=Rolling(max_unavailable=at_once), stop=Stop.CRASH, restart_time_ms=100_000)
    runner = assert_equal(group, plan)
    assert runner.bulk is not None
    assert runner.bulk.played


def test_a_rebalance_is_played_in_bulk_when_the_broker_looks_for_expired_offsets_meanwhile():
    group = made_up(12, 30, DYNAMIC, library="java")
    plan = Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=5_000, settings=OFTEN)
    runner = assert_equal(group, plan)
    assert runner.bulk is not None
    assert (runner.bulk.played, runner.bulk.failed) == (24, 0)


def test_a_restart_before_others_notice_belongs_to_the_rebalance():
    group = made_up(6, 30, DYNAMIC, library="java")
    runner = assert_equal(group, Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=0))
    assert runner.bulk is not None
    assert runner.bulk.played


def test_a_restart_while_others_notice_is_played_by_events():
    group = made_up(30, 90, DYNAMIC, library="java")
    plan = Plan(bounce=ids(group)[:6], rolling=Rolling(), restart_time_ms=0, heartbeat_interval_ms=300)
    runner = assert_equal(group, plan, timing=OneByOne)
    assert runner.bulk is not None
    assert runner.bulk.failed


def test_without_numpy_everything_is_played_by_events(monkeypatch):
    group = made_up(30, 60, DYNAMIC, library="java")
    plan = Plan(bounce=ids(group)[:2], rolling=Rolling())
    with_numpy, _, _, runner = play(group, plan, bulk_from=None)
    assert runner.bulk is not None
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    without, _, _, runner = play(group, plan, bulk_from=None)
    assert runner.bulk is None
    assert without == with_numpy
