"""What scripted classic consumers send to the coordinator, and how they react to its responses."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.protocol.messages.sync_group_response import SyncGroupResponse
from kgm.protocol.subscription import MemberAssignment, decode_subscription, encode_assignment
from kgm.simulation.plan.bounce_plan import Plan, Stop, WhatIf
from kgm.simulation.plan.client_library import Library
from kgm.simulation.plan.starting_group import starting_group_of
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.client_profiles import PROFILES
from kgm.simulation.play.leader import decode_sticky_data
from kgm.simulation.play.plan_runner import PlanRunner
from kgm.simulation.play.scripted_member import LifecyclePhase
from kgm.simulation.play.world import World
from tests.simulation.groups import DYNAMIC, STATIC, ids, made_up
from tests.simulation.play.manual_world import ManualWorld

#: Those of which the others differ in little: see the end.
BOTH = (Library.JAVA, Library.LIBRDKAFKA)
LIBRARIES = pytest.mark.parametrize("library", BOTH, ids=lambda library: library.value)


def a_member(library=Library.JAVA, *, membership=STATIC, assignor="range", started=False):
    """A member and its world: one of the Stable group, or started as a new process."""
    group = starting_group_of(made_up(2, 4, membership, assignor, library=library.value, generation=7), WhatIf())
    world = ManualWorld(group)
    one = ScriptedClassicMember(world, group.members[0], PROFILES[library])
    if started:
        one.start()
    else:
        one.be_member()
    return one, world


def joined(world, generation=8, leader="other", **more):
    world.answer(
        JoinGroupResponse(generation_id=generation, protocol_name="range", leader=leader, member_id="me", **more)
    )


def synced(world, *partitions):
    world.answer(SyncGroupResponse(assignment=encode_assignment(MemberAssignment(partitions={"t": list(partitions)}))))


def subscription_of(request):
    return decode_subscription(request.protocols[0].metadata)


# -- joining


@LIBRARIES
def test_a_dynamic_newcomer_joins_twice_and_syncs(library):
    one, world = a_member(library, membership=DYNAMIC, started=True)
    join, version, _ = world.until_sent(JoinGroupRequest)
    assert (join.member_id, join.group_instance_id, version) == ("", None, PROFILES[library].join_version)
    assert (join.session_timeout_ms, join.rebalance_timeout_ms) == (45_000, 300_000)
    world.answer(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="given"))
    at_ms = world.now_ms
    world.sent.clear()
    join, _, _ = world.until_sent(JoinGroupRequest)
    assert (join.member_id, world.now_ms) == ("given", at_ms)
    joined(world)
    sync, version, _ = world.until_sent(SyncGroupRequest)
    assert (sync.member_id, sync.generation_id, sync.assignments) == ("me", 8, [])
    assert (version, sync.protocol_name) == ((5, "range") if library is Library.JAVA else (3, None))
    synced(world, 1, 2)
    assert (one.phase, one.owned, one.next_action) == (LifecyclePhase.STABLE, {"t": (1, 2)}, None)


@LIBRARIES
def test_a_leader_assigns_and_one_that_may_skip_it_does_not(library):
    one, world = a_member(library, started=True)
    world.until_sent(JoinGroupRequest)
    blob = world.sent[-1][0].protocols[0].metadata
    rows = [{"member_id": name, "group_instance_id": name, "metadata": blob} for name in ("me", "you")]
    joined(world, leader="me", members=[JoinGroupResponseMember(**row) for row in rows])
    sync, _, _ = world.until_sent(SyncGroupRequest)
    given = {each.member_id: world.cache.decode_assignment(each.assignment) for each in sync.assignments}
    assert given == {"me": {"t": (0, 1)}, "you": {"t": (2, 3)}}
    synced(world, 0, 1)
    one.stop(Stop.CRASH)
    one.start()
    world.sent.clear()
    world.until_sent(JoinGroupRequest)
    joined(world, leader="me", members=[JoinGroupResponseMember(**row) for row in rows], skip_assignment=True)
    sync, _, _ = world.until_sent(SyncGroupRequest)
    assert sync.assignments == []


def learns_of_a_rebalance(one, world):
    world.sent.clear()
    while one.next_action is None:
        world.run_next()
        if world.sent:
            world.answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            world.sent.clear()
    return world.until_sent(JoinGroupRequest)[0]


@LIBRARIES
@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
def test_an_eager_member_gives_up_everything_before_it_joins_and_a_cooperative_one_nothing(library, assignor):
    if assignor == "sticky" and library is Library.LIBRDKAFKA:
        pytest.skip("librdkafka has no sticky assignor")
    one, world = a_member(library, assignor=assignor)
    owned = one.owned
    world.awaits_assignment = True
    join = learns_of_a_rebalance(one, world)
    subscription = subscription_of(join)
    if assignor == "cooperative-sticky":
        assert one.owned == owned
        assert ({t: tuple(p) for t, p in subscription.owned_partitions.items()}, subscription.generation_id) == (
            owned,
            7,
        )
    else:
        assert one.owned == {}
        assert subscription.owned_partitions == {}
        assert subscription.generation_id == (7 if library is Library.JAVA else -1)
    if assignor == "sticky":
        assert decode_sticky_data(subscription.user_data) == (owned, 7)
    assert join.member_id == one.spec.member_id


def test_a_cooperative_member_that_loses_partitions_joins_again():
    one, world = a_member(assignor="cooperative-sticky")
    assert one.owned == {"t": (0, 2)}
    world.awaits_assignment = True
    learns_of_a_rebalance(one, world)
    joined(world)
    world.until_sent(SyncGroupRequest)
    synced(world, 0)
    assert one.owned == {"t": (0,)}
    join, _, _ = world.until_sent(JoinGroupRequest)
    subscription = subscription_of(join)
    assert ({t: tuple(p) for t, p in subscription.owned_partitions.items()}, subscription.generation_id) == (
        {"t": (0,)},
        8,
    )


def test_librdkafka_keeps_a_second_between_joins_unless_it_gave_up_partitions():
    for assignor, gap_ms in (("cooperative-sticky", 1_000), ("range", 0)):
        one, world = a_member(Library.LIBRDKAFKA, assignor=assignor)
        one.last_join_ms = world.now_ms
        world.awaits_assignment = True
        one._on_beat(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        waited = one.next_action.at_ms - world.now_ms
        assert gap_ms <= waited <= gap_ms + 400


# -- errors


@LIBRARIES
def test_a_fenced_member_is_dead(library):
    for how in ("beat", "join", "sync"):
        one, world = a_member(library, started=how != "beat")
        if how == "beat":
            one._on_beat(HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        else:
            world.until_sent(JoinGroupRequest)
            if how == "join":
                world.answer(JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
            else:
                joined(world)
                world.until_sent(SyncGroupRequest)
                world.answer(SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        assert (one.phase, one.owned, world.fenced) == (LifecyclePhase.DEAD, {}, ["member-1"])
        assert not world.unfinished


@pytest.mark.parametrize("code", [ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.INVALID_SESSION_TIMEOUT])
def test_a_refused_member_stays_away(code):
    one, world = a_member(started=True)
    world.until_sent(JoinGroupRequest)
    world.answer(JoinGroupResponse(error_code=code))
    assert (one.phase, world.refused_joins) == (LifecyclePhase.DEAD, 1)
    assert world.timeline[-1].detail == f"JoinGroup is refused with {code.name}"


@LIBRARIES
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_member_that_the_group_went_on_without_has_lost_what_it_owned(library, code):
    one, world = a_member(library, assignor="cooperative-sticky")
    one._on_beat(HeartbeatResponse(error_code=code))
    assert one.owned == {}
    join, _, _ = world.until_sent(JoinGroupRequest)
    assert join.member_id == ("" if code == ErrorCode.UNKNOWN_MEMBER_ID else one.spec.member_id)
    assert subscription_of(join).owned_partitions == {}
    joined(world)
    world.until_sent(SyncGroupRequest)
    world.answer(SyncGroupResponse(error_code=code))
    join, _, _ = world.until_sent(JoinGroupRequest)
    assert join.member_id == ("" if code == ErrorCode.UNKNOWN_MEMBER_ID else "me")


@LIBRARIES
def test_a_member_whose_sync_meets_another_rebalance_joins_again(library):
    one, world = a_member(library, started=True)
    world.until_sent(JoinGroupRequest)
    joined_ms = world.now_ms
    joined(world)
    world.until_sent(SyncGroupRequest)
    world.answer(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    world.until_sent(JoinGroupRequest)
    assert (world.now_ms - joined_ms >= 1_000) == (library is Library.LIBRDKAFKA)
    world.answer(JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert one.next_action is not None


def test_an_unknown_id_in_a_join_is_forgotten():
    for library in BOTH:
        one, world = a_member(library, assignor="cooperative-sticky")
        world.awaits_assignment = True
        learns_of_a_rebalance(one, world)
        world.answer(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=one.member_id))
        assert one.member_id == ""
        # librdkafka goes on with what it owns, and claims it under its next id.
        assert bool(one.owned) == (library is Library.LIBRDKAFKA)
        world.sent.clear()
        world.until_sent(JoinGroupRequest)
        joined(world)
        world.until_sent(SyncGroupRequest)
        synced(world, 0, 3)
        assert one.owned == {"t": (0, 3)}


@pytest.mark.parametrize("kind", ["join", "sync", "beat"])
def test_an_answer_that_no_coordinator_gives_is_a_bug(kind):
    one, _ = a_member()
    take, answer = {
        "join": (one._on_join, JoinGroupResponse),
        "sync": (one._on_sync, SyncGroupResponse),
        "beat": (one._on_beat, HeartbeatResponse),
    }[kind]
    with pytest.raises(AssertionError, match="STALE_MEMBER_EPOCH"):
        take(answer(error_code=ErrorCode.STALE_MEMBER_EPOCH))


# -- leaving


@LIBRARIES
@pytest.mark.parametrize("membership", [STATIC, DYNAMIC])
@pytest.mark.parametrize("how", Stop)
def test_a_dynamic_member_that_is_closed_leaves_and_a_static_one_if_it_asks_for_that(library, membership, how):
    """KIP-345, and KIP-1092 for what a consumer may ask for."""
    one, world = a_member(library, membership=membership)
    member_id = one.member_id
    one.stop(how)
    leaves = [message for message, _, _ in world.sent if isinstance(message, LeaveGroupRequest)]
    if how is Stop.LEAVE or (membership is DYNAMIC and how is Stop.CLEAN):
        (leave,) = leaves
        named = leave.members[0].member_id if library is Library.JAVA else leave.member_id
        assert named == member_id
    else:
        assert leaves == []
    assert (one.phase, one.owned, one.is_up) == (LifecyclePhase.DOWN, {}, False)


@LIBRARIES
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_librdkafka_does_not_leave_a_cooperative_group_in_which_it_has_no_partitions(library, assignor):
    """Seen in the requests of real clients: reality/test_client_scripts.py."""
    group = starting_group_of(made_up(2, 1, DYNAMIC, assignor, library=library.value), WhatIf())
    world = ManualWorld(group)
    (idle,) = (member for member in group.members if not any(member.owned.values()))
    one = ScriptedClassicMember(world, idle, PROFILES[library])
    one.be_member()
    stays = library is Library.LIBRDKAFKA and assignor == "cooperative-sticky"
    assert one.leaves_after(Stop.CLEAN) is not stays
    one.stop(Stop.CLEAN)
    assert bool(world.sent) is not stays


def test_a_process_that_was_never_assigned_anything_leaves():
    one, world = a_member(Library.LIBRDKAFKA, membership=DYNAMIC, assignor="cooperative-sticky", started=True)
    world.until_sent(JoinGroupRequest)
    world.answer(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="given"))
    assert one.leaves_after(Stop.CLEAN)


@LIBRARIES
def test_a_member_whose_join_waits_for_others_leaves_after_the_rebalance(library):
    """A broker answers the requests of a connection in order. On a real one the generation that this member had joined
    was completed, and the next one had it no more."""
    group = starting_group_of(made_up(3, 6, DYNAMIC, library=library.value), WhatIf())
    runner = PlanRunner(group, Plan(bounce=("x",), heartbeat_interval_ms=3_000), BrokerSettings(), "s")
    runner._load_group()
    world = runner.world
    first, second, third = runner.members
    runner._stop(third)
    while not world.is_rebalancing:
        world.run_next()
    first._beat_at(world.now_ms + 2_000)
    second._join()
    while world.in_flight:
        world.run_next()
    generation, ended = world.generation, []
    life = second.life
    runner._stop(second)
    world.when_answered(second, life, lambda: ended.append(world.now_ms))
    assert len(world.engine.group("synthetic").members) == 2
    stopped_ms = world.now_ms
    assert runner._until_stable(with_lingering=True)
    assert world.generation == generation + 2
    assert [member.member_id for member in world.engine.group("synthetic").members] == [first.member_id]
    (ended_ms,) = ended
    assert ended_ms >= stopped_ms


def test_a_response_to_an_earlier_life_is_lost():
    group = made_up(2, 4)
    runner = PlanRunner(starting_group_of(group, WhatIf()), Plan(bounce=ids(group)), BrokerSettings(), "s")
    runner._load_group()
    world, one = runner.world, runner.members[0]
    heard = []
    world.send(one, one._heartbeat().message, 4, heard.append)
    one.stop(Stop.CRASH)
    while world.in_flight:
        world.run_next()
    assert heard == []


# -- heartbeats


@LIBRARIES
def test_heartbeats_are_sent_at_their_interval_in_a_group_that_is_not_calm(library):
    one, world = a_member(library)
    world.awaits_assignment = True
    one.resume_heartbeats()
    times = []
    while len(times) < 6:
        world.run_next()
        if world.sent:
            world.sent.clear()
            times.append(world.now_ms)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert all(3_000 <= gap <= 3_012 for gap in gaps)


def test_a_calm_member_heartbeats_only_to_save_its_session_and_hands_in_its_last_heartbeat():
    group = made_up(2, 4)
    runner = PlanRunner(
        starting_group_of(group, WhatIf()), Plan(bounce=ids(group), heartbeat_interval_ms=3_000), BrokerSettings(), "s"
    )
    runner._load_group()
    world, one = runner.world, runner.members[0]
    before = world.requests
    end_ms = world.now_ms + 600_000
    while world.now_ms < end_ms:
        world.run_next()
        view = world.engine.group("synthetic")
        assert len(view.members) == 2
    # 14 intervals of 3 s in a session of 45 s
    assert world.requests - before <= 2 * (600 // 38 + 1)
    one.stop(Stop.CRASH)
    (deadline,) = (
        m.session_deadline_ms for m in world.engine.group("synthetic").members if m.member_id == one.spec.member_id
    )
    assert 42_000 - 20 <= deadline - world.now_ms <= 45_000


def test_librdkafka_rounds_intervals_up_to_half_seconds():
    group = replace(starting_group_of(made_up(), WhatIf()))
    world = World(group, BrokerSettings(), "s", heartbeat_interval_ms=700)
    periods = {library: ScriptedClassicMember(world, group.members[0], PROFILES[library]).period_ms for library in BOTH}
    assert 700 <= periods[Library.JAVA] <= 711
    assert 1_000 <= periods[Library.LIBRDKAFKA] <= 1_011
