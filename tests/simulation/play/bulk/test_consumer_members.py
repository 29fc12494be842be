"""Members of a consumer group (KIP-848), those that an epoch concerns and the others, in bulk and event by event
(`both_ways`)."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.model.broker_version import BrokerVersion
from kgm.model.client_library import stated_library
from kgm.model.snapshot import TopicSnapshot
from kgm.records.member_states import MemberState
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, Rolling, Stop, WhatIf
from kgm.simulation.plan.synthetic_group import synthetic_group
from kgm.simulation.play import plan_runner, timing
from kgm.simulation.play.bulk import arrays
from kgm.simulation.play.bulk.consumer_heartbeats import ANSWERED, BEHIND, REACTING, UP_TO_DATE
from kgm.simulation.play.bulk.consumer_members import ConsumerMembers
from kgm.simulation.play.plan_runner import PlanRunner
from kgm.simulation.play.timing import EXTREME_TIMINGS, DrawTiming
from kgm.simulation.play.world import World
from kgm.simulation.simulation import Simulation
from tests.selection import sized
from tests.simulation.groups import DYNAMIC, STATIC, ids
from tests.simulation.play.bulk.both_ways import NEVER, assert_equal, play, with_a_plan

pytestmark = pytest.mark.slow

ASSIGNORS = ("uniform", "range")
LIBRARIES = (None, "java", "librdkafka")
INTERVAL, ASSIGNED_EVERY = "group.consumer.heartbeat.interval.ms", "group.consumer.assignment.interval.ms"
OFTEN = {INTERVAL: "700", "group.consumer.min.heartbeat.interval.ms": "500"}
#: Of `test_slow_messages_between_frequent_heartbeats`.
SEEDS_OF_RARE_EVENTS = (16, 271, 290, 48, 203, 553)
VERSIONS = [BrokerVersion.parse(version) for version in ("4.0.0", "4.1.0", "4.2.0", "4.3.0", "4.4.0")]


def consumers(members, partitions, membership=DYNAMIC, assignor="uniform", *, library="java"):
    topics = [TopicSnapshot(name="t", partitions=partitions)]
    group = synthetic_group(members, topics, membership, assignor, GroupProtocol.CONSUMER)
    return replace(group, members=tuple(replace(m, client_library=stated_library(library)) for m in group.members))


def make_messages_slow(monkeypatch):
    """One in four."""
    for module in (timing, arrays):
        monkeypatch.setattr(module, "SLOW_BELOW", 1 << (timing.SLOW_BITS - 2))


@st.composite
def situations(draw):
    """A consumer group of members of several libraries, and a plan for it."""
    members = draw(st.integers(2, 14))
    count = st.integers(1, 3 * members)
    names = ("orders", "b", "zeta")[: draw(st.sampled_from([1, 1, 2, 3]))]
    topics = [TopicSnapshot(name=name, partitions=draw(count)) for name in names]
    assignor = draw(st.sampled_from(["uniform", "range"]))
    snapshot = synthetic_group(members, topics, DYNAMIC, assignor, GroupProtocol.CONSUMER)
    static = draw(st.sampled_from([0, 0, 1, members]))
    rows = []
    for number, member in enumerate(snapshot.members):
        name = f"static-{number}" if number < static else None
        rows.append(
            replace(member, group_instance_id=name, client_library=stated_library(draw(st.sampled_from(LIBRARIES))))
        )
    broker = {INTERVAL: draw(st.sampled_from(["5000", "5000", "5000", "10000"]))}
    version = draw(st.sampled_from(VERSIONS))
    if version >= BrokerVersion.parse("4.3.0"):
        broker[ASSIGNED_EVERY] = draw(st.sampled_from(["0", "1000", "1000", "4000", "15000"]))
    return with_a_plan(
        draw, replace(snapshot, members=tuple(rows)), [0, 0, 0, 1, 3], settings=broker, kafka_version=version,
        what_if=WhatIf(session_timeout_ms=draw(st.sampled_from([None, None, 60_000]))),
    )  # fmt: skip


@settings(max_examples=sized(11, 200))
@given(situations())
def test_a_draw_in_bulk_is_the_draw_of_events(situation):
    assert_equal(*situation)


@pytest.mark.few(1)
@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("library", ["java", "librdkafka"])
@pytest.mark.parametrize("restart_time_ms", sized([5_000], [500, 5_000, 90_000]))
def test_most_heartbeats_of_a_rolling_bounce_are_played_in_bulk(assignor, library, restart_time_ms):
    """In 90 s calm members hand in heartbeats, too. With the range assignor a member that leaves moves partitions of
    half of the others."""
    group = consumers(40, 95, assignor=assignor, library=library)
    runner = assert_equal(group, Plan(bounce=ids(group)[:12], rolling=Rolling(), restart_time_ms=restart_time_ms))
    assert 12 < runner.world.rebalances <= 24
    assert isinstance(runner.bulk, ConsumerMembers)
    share = runner.bulk.heartbeats_applied / runner.world.requests
    assert share > 0.8, share


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("version", "assignor"),
    sized(list(zip(VERSIONS, itertools.cycle(ASSIGNORS))), list(itertools.product(VERSIONS, ASSIGNORS))),
    ids=str,
)
def test_brokers_of_each_release(version, assignor):
    group = consumers(30, 61, assignor=assignor)
    plan = Plan(bounce=ids(group)[:8], scale_out=2, rolling=Rolling(), restart_time_ms=3_000, kafka_version=version)
    runner = assert_equal(group, plan)
    assert isinstance(runner.bulk, ConsumerMembers)
    assert runner.bulk.heartbeats_applied > 8 * 20


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(sized(6, 60)))
def test_epochs_that_begin_while_members_reconcile(seed, monkeypatch):
    """Several processes stop and start at a time, some of them before they have reached their targets, whose partitions
    move on and back; messages are slow, so that answers are on their way when an epoch begins."""
    r = random.Random(seed)
    if seed % 2:
        make_messages_slow(monkeypatch)
    topics = [TopicSnapshot(name=name, partitions=r.choice([20, 41, 90])) for name in "tuv"[: r.choice([1, 1, 2, 3])]]
    group = synthetic_group(r.choice([16, 30]), topics, DYNAMIC, r.choice(["range", "uniform"]), GroupProtocol.CONSUMER)
    group = replace(
        group, members=tuple(replace(m, client_library=stated_library(r.choice(LIBRARIES))) for m in group.members)
    )
    assigned_every = r.choice([{}, {ASSIGNED_EVERY: r.choice(["0", "1000", "2500", "4990"])}])
    plan = Plan(
        bounce=ids(group)[: r.choice([6, 14])], rolling=Rolling(max_unavailable=r.choice([2, 3, 6])),
        restart_time_ms=r.choice([0, 500, 1_500, 5_000]), stop=r.choice([Stop.CLEAN, Stop.CLEAN, Stop.CRASH]),
        settings=assigned_every, kafka_version=r.choice(VERSIONS[-2:] if assigned_every else VERSIONS),
        scale_out=r.choice([0, 2]),
    )  # fmt: skip
    runner = assert_equal(group, plan, seed=f"epochs {seed}", timing=r.choice([DrawTiming, *EXTREME_TIMINGS]))
    assert isinstance(runner.bulk, ConsumerMembers)
    assert runner.bulk.heartbeats_applied > 0


@pytest.mark.parametrize("seed", range(sized(1, 6)))
def test_who_consumes_what_and_when(seed):
    group = consumers(20, 47, assignor="range")
    plan = Plan(bounce=ids(group)[:6], rolling=Rolling(max_unavailable=2), restart_time_ms=3_000)
    simulation = Simulation.of(group, plan)
    draws = [
        PlanRunner(
            simulation.group, simulation.plan, simulation.settings, f"holdings {seed}", bulk_from=at, keeps_holdings=True
        ).play()
        for at in (1, NEVER)
    ]  # fmt: skip
    assert draws[0].holdings
    assert draws[0] == draws[1]


@pytest.mark.long
def test_who_has_the_target_assignment_computed_is_foreseen(monkeypatch):
    """The member whose heartbeat arrives first is played by events in time; also one that is about to react to an
    answer, whose heartbeat is drawn only then."""
    foreseen, arrived = [], set()
    release, arrive = ConsumerMembers.release, World._arrive

    def watched(unaffected, member):
        slot = unaffected.slots.get(member.member_id)
        if slot is not None:
            foreseen.append((member, unaffected.stage[slot] == REACTING, unaffected._world.clock.now_ms))
        release(unaffected, member)

    def arrives(world, client, *rest):
        arrived.add((client, world.clock.now_ms))
        arrive(world, client, *rest)

    monkeypatch.setattr(ConsumerMembers, "release", watched)
    monkeypatch.setattr(World, "_arrive", arrives)
    make_messages_slow(monkeypatch)
    group = consumers(30, 95, assignor="range")
    plan = Plan(
        bounce=ids(group), rolling=Rolling(max_unavailable=10), restart_time_ms=500,
        settings={ASSIGNED_EVERY: "250"}, kafka_version=BrokerVersion.parse("4.3.0"),
    )  # fmt: skip
    for seed in range(30):
        assert_equal(group, plan, seed=f"foreseen {seed}")
    assert any(reacts for _, reacts, _ in foreseen)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(sized(2, 20)))
def test_members_may_be_played_by_events_at_any_time(seed, monkeypatch):
    """Whatever they are doing; and the world knows then who is not reconciled, also if no record is written of it."""
    plays_next, play_by_events, seen = ConsumerMembers.plays_next, ConsumerMembers._play_by_events, set()

    def release_some(unaffected, *until, **more):
        for member in r.sample(unaffected.members, r.choice([0, 0, 0, 0, 1, 3])):
            unaffected.release(member)
        return plays_next(unaffected, *until, **more)

    def watched(unaffected, slot):
        play_by_events(unaffected, slot)
        world, member_id = unaffected._world, unaffected.members[slot].member_id
        state = unaffected._group().members[member_id].state
        assert (member_id not in world.unreconciled) == (state is MemberState.STABLE)
        seen.add((int(unaffected.stage[slot]), state))

    monkeypatch.setattr(ConsumerMembers, "plays_next", release_some)
    monkeypatch.setattr(ConsumerMembers, "_play_by_events", watched)
    make_messages_slow(monkeypatch)
    r = random.Random(seed)
    topics = [TopicSnapshot(name=name, partitions=60) for name in "tuv"[: r.choice([1, 2, 3])]]
    group = synthetic_group(30, topics, DYNAMIC, "range", GroupProtocol.CONSUMER)
    plan = Plan(
        bounce=ids(group)[:12], rolling=Rolling(max_unavailable=2), restart_time_ms=1_000,
        kafka_version=r.choice(VERSIONS),
    )  # fmt: skip
    assert_equal(group, plan, seed=f"any time {seed}")
    assert {state for _, state in seen} == {*MemberState} - {MemberState.UNKNOWN}
    stages = {stage for stage, _ in seen}
    assert stages >= {UP_TO_DATE, BEHIND}
    assert stages & {ANSWERED, REACTING}  # each is seldom


@pytest.mark.parametrize("seed", range(sized(3, 20)))
def test_static_members_that_come_back_among_dynamic_ones_to_another_target(seed):
    """Their partitions are free at once: the coordinator writes two states of such a member in one batch."""
    group = consumers(24, 240, DYNAMIC, "range")
    members = [replace(m, group_instance_id=f"s-{n}" if n % 2 else None) for n, m in enumerate(group.members)]
    group = replace(group, members=tuple(members))
    plan = Plan(
        bounce=ids(group)[:8], rolling=Rolling(max_unavailable=2), restart_time_ms=3_000, kafka_version=VERSIONS[-1]
    )
    assert_equal(group, plan, seed=f"back {seed}")


def test_a_session_that_ends_while_all_stand_by_begins_an_epoch():
    """The group is not stable then, although nobody has anything to do yet."""
    group = consumers(3, 6, STATIC, "range")
    broker = {ASSIGNED_EVERY: "10010"}
    plan = Plan(
        bounce=ids(group), rolling=Rolling(pause_ms=50_000), restart_time_ms=500, stop=Stop.CRASH, settings=broker,
        kafka_version=BrokerVersion.parse("4.3.0"), scale_out=3,
    )  # fmt: skip
    for seed in range(8):
        assert_equal(group, plan, seed=f"ends {seed}")


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(sized(5, 40)))
def test_a_batch_that_begins_while_members_give_up_partitions(seed, monkeypatch):
    """The session of a killed process has ended just before: there are rebalance timers."""
    make_messages_slow(monkeypatch)
    group = consumers(6, 36, DYNAMIC, "range")
    plan = Plan(
        bounce=ids(group), rolling=Rolling(pause_ms=50_000), restart_time_ms=0, stop=Stop.CRASH,
        what_if=WhatIf(session_timeout_ms=60_000), settings={INTERVAL: "10000"},
    )  # fmt: skip
    assert_equal(group, plan, seed=f"batch {seed}")


@pytest.mark.few(1)
@pytest.mark.parametrize("assigned_every_ms", [0, 1_000, 7_000, 15_000])
def test_members_that_learn_of_an_epoch_before_it_has_a_target_assignment(assigned_every_ms):
    """Only so often does the coordinator compute one, and several members leave and come back meanwhile."""
    group = consumers(30, 61)
    plan = Plan(
        bounce=ids(group)[:18], rolling=Rolling(max_unavailable=3), restart_time_ms=2_500,
        settings={ASSIGNED_EVERY: str(assigned_every_ms)}, kafka_version=BrokerVersion.parse("4.3.0"),
    )  # fmt: skip
    runner = assert_equal(group, plan)
    assert isinstance(runner.bulk, ConsumerMembers)
    assert runner.bulk.heartbeats_applied > 100


@pytest.mark.parametrize("membership", [STATIC, DYNAMIC])
def test_processes_that_are_killed_are_missed(membership):
    """Their session timers are not the coordinator's while they are played in bulk: they get them back."""
    group = consumers(24, 50, membership)
    plan = Plan(bounce=ids(group)[:8], rolling=Rolling(max_unavailable=2), stop=Stop.CRASH, restart_time_ms=100_000)
    runner = assert_equal(group, plan)
    assert isinstance(runner.bulk, ConsumerMembers)
    assert runner.bulk.heartbeats_applied > 100


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(sized(1, 8)))
@pytest.mark.parametrize("kind", EXTREME_TIMINGS)
def test_unusual_timings(kind, seed):
    """Everybody in step, or as far apart as can be; some messages are slow."""
    group = consumers(50, 120, library=LIBRARIES[1 + seed % 2])
    plan = Plan(bounce=ids(group)[:6], scale_out=seed % 3, rolling=Rolling(max_unavailable=1 + seed % 2))
    runner = assert_equal(group, plan, seed=f"unusual {seed}", timing=kind)
    assert isinstance(runner.bulk, ConsumerMembers)
    assert runner.bulk.heartbeats_applied > 100


@pytest.mark.few(4)
@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("seed", [*range(sized(1, 10)), *SEEDS_OF_RARE_EVENTS])
def test_slow_messages_between_frequent_heartbeats(seed, assignor, monkeypatch):
    """One message in four is slow; target assignments are due while heartbeats and answers are on their way, and
    members stop that were about to have one computed."""
    make_messages_slow(monkeypatch)
    r = random.Random(seed)
    group = consumers(r.choice([3, 5, 8]), 12, assignor=assignor)
    share = r.choice([0.0, 0.5])
    rows = (replace(m, group_instance_id=f"s{n}" if r.random() < share else None) for n, m in enumerate(group.members))
    group = replace(group, members=tuple(rows))
    broker = OFTEN | {ASSIGNED_EVERY: r.choice(["0", "1000", "4990", "5000", "10010"])}
    plan = Plan(
        bounce=ids(group), rolling=r.choice([Rolling(max_unavailable=3), Rolling(max_unavailable=6), None]),
        restart_time_ms=r.choice([0, 2_000, 7_000]), stop=r.choice([Stop.CLEAN, Stop.CLEAN, Stop.CRASH]),
        settings=broker, kafka_version=BrokerVersion.parse("4.3.0"),
    )  # fmt: skip
    assert_equal(group, plan, seed=f"slow {seed}", timing=r.choice([DrawTiming, *EXTREME_TIMINGS]))


@pytest.mark.parametrize("patience_ms", range(30_000, 58_000, sized(16_000, 4_000)))
def test_a_group_that_does_not_become_stable_in_time_is_given_up_at_the_same_time(patience_ms, monkeypatch):
    """With the first event after that; the session of a process that was killed has 60 s."""
    timeouts_ms = 2 * 60_000 + 3 * 300_000 + 1_000
    monkeypatch.setattr(plan_runner, "_PATIENCE_MS", patience_ms - timeouts_ms)
    group = consumers(24, 50)
    what_if = WhatIf(session_timeout_ms=60_000)
    plan = Plan(bounce=ids(group)[:2], stop=Stop.CRASH, restart_time_ms=1_000, what_if=what_if)
    runner = assert_equal(group, plan)
    assert patience_ms < runner.world.at_ms < 60_000


def test_heartbeats_that_may_overtake_each_other_are_played_by_events():
    group = consumers(30, 60)
    very_often = OFTEN | {INTERVAL: "500"}
    _, _, _, runner = play(group, Plan(bounce=ids(group)[:1], settings=very_often), bulk_from=1)
    assert runner.bulk is None


def test_without_numpy_everything_is_played_by_events(monkeypatch):
    group = consumers(80, 160)
    plan = Plan(bounce=ids(group)[:2], rolling=Rolling())
    with_numpy, _, _, runner = play(group, plan, bulk_from=None)
    assert runner.bulk is not None
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    without, _, _, runner = play(group, plan, bulk_from=None)
    assert runner.bulk is None
    assert without == with_numpy
