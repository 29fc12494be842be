"""What the consumers of a library do otherwise than Java's, in a group."""

from dataclasses import replace

import pytest

from kgm.clients.table import CLIENTS
from kgm.model.client_library import stated_library
from kgm.model.errors import ErrorCode
from kgm.model.snapshot import TopicSnapshot
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.protocol.messages.sync_group_response import SyncGroupResponse
from kgm.simulation.bounce import Simulation
from kgm.simulation.plan.bounce_plan import Plan, WhatIf
from kgm.simulation.plan.client_library import Library
from kgm.simulation.plan.starting_group import starting_group_of
from kgm.simulation.plan.synthetic_group import synthetic_group
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.client_profiles import PROFILES
from tests.clients.recorded_groups import described
from tests.simulation.groups import DYNAMIC, STATIC, made_up
from tests.simulation.play.manual_world import ManualWorld

FETCH_MS = 10_000


def kafka_go():
    """A member of a group of its own library, and its world, that learns of a rebalance."""
    group = starting_group_of(made_up(2, 4, DYNAMIC, "range", library="kafka-go", generation=7), WhatIf())
    world = ManualWorld(group)
    one = ScriptedClassicMember(world, group.members[0], PROFILES[Library.KAFKA_GO])
    one.be_member()
    world.awaits_assignment = True
    one._send_heartbeat()
    world.answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    world.sent.clear()
    return one, world


def test_every_library_that_is_recognised_is_played():
    assert {library.value for library in PROFILES} == CLIENTS.keys()


def test_kafka_go_gives_up_its_partitions_at_once_but_joins_when_its_fetches_have_ended():
    """reader.go: fetches of up to 10 s, and no heartbeats meanwhile."""
    one, world = kafka_go()
    learned_ms = world.now_ms
    assert not one.owned
    assert one.next_heartbeat is None
    world.until_sent(JoinGroupRequest)
    assert [type(message) for message, _, _ in world.sent] == [JoinGroupRequest]
    assert 0 < world.now_ms - learned_ms <= FETCH_MS + 60


def test_kafka_go_waits_before_it_joins_as_a_new_member():
    """consumergroup.go: JoinGroupBackoff, 5 s."""
    one, world = kafka_go()
    world.until_sent(JoinGroupRequest)
    world.answer(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=one.member_id))
    removed_ms = world.now_ms
    world.sent.clear()
    join, _, _ = world.until_sent(JoinGroupRequest)
    assert (join.member_id, world.now_ms - removed_ms) == ("", 5_000)


@pytest.mark.parametrize(("other", "reads"), [("franz-go", False), ("kafka-python", True), ("kafka-go", True)])
def test_kafka_go_leaves_where_it_leads_and_cannot_read_a_subscription(other, reads):
    """Seen on Kafka 4.3.0 with franz-go: no assignment, LeaveGroup, and a new member 5 s later. kafka-python writes
    version 0."""
    one, world = kafka_go()
    peer = ScriptedClassicMember(world, replace(one.spec, client=stated_library(other)), one.profile)
    rows = [
        JoinGroupResponseMember(member_id=who, metadata=member._subscription())
        for who, member in ((one.member_id, one), ("peer", peer))
    ]
    world.until_sent(JoinGroupRequest)
    world.answer(
        JoinGroupResponse(
            generation_id=8, protocol_name="range", leader=one.member_id, member_id=one.member_id, members=rows
        )
    )
    world.until_sent(SyncGroupRequest if reads else LeaveGroupRequest)
    if reads:
        assert len(world.sent[-1][0].assignments) == 2
        return
    left_ms = world.now_ms
    assert not any(isinstance(message, SyncGroupRequest) for message, _, _ in world.sent)
    join, _, _ = world.until_sent(JoinGroupRequest)
    assert (join.member_id, world.now_ms - left_ms) == ("", 5_000)


def test_kafkajs_sends_heartbeats_between_fetches():
    group = starting_group_of(made_up(2, 4, DYNAMIC, "roundrobin", library="kafkajs"), WhatIf())
    one = ScriptedClassicMember(ManualWorld(group), group.members[0], PROFILES[Library.KAFKAJS])
    assert 5_000 <= one.period_ms <= 5_011


def test_a_closed_member_leaves_when_its_fetches_have_ended():
    """Measured with idle processes: kafka-go leaves 4 to 10 s after it was closed, kafkajs 3 to 6 s."""
    for library, assignor, least_ms, most_ms in (
        ("kafka-go", "range", 3_000, FETCH_MS + 200),
        ("kafkajs", "RoundRobinAssigner", 1_500, 5_200),
    ):
        group = replace(described(library, assignor, static=False), session_timeout_ms=30_000)
        simulation = Simulation.of(group, Plan(scale_in=(group.members[0].identity,)))
        draws = [simulation.runner(number).play() for number in range(1, 21)]
        stops_ms = [event.at_ms for draw in draws for event in draw.timeline if event.event == "stop"]
        assert least_ms <= max(stops_ms) <= most_ms
        assert all(draw.generations == 1 for draw in draws)


#: The topics of a group that was played with kafka-python 3.0.12 on Kafka 4.3.0, and who had what.
SEEN = {"t-2": 3, "t-10": 7, "T-1": 4}
HAD = {
    "a-10": {"T-1": (0, 1, 2, 3)},
    "c1": {"t-10": (1, 4), "t-2": (0,)},
    "A": {"t-10": (0, 3, 6), "t-2": (2,)},
    "c3": {"t-10": (2, 5), "t-2": (1,)},
}


def kafka_python(assignor="cooperative-sticky", topics=None):
    """The group, with `a-10` and `A` as static members. topics: what each subscribes to; None: everything."""
    known = [TopicSnapshot(name=name, partitions=count) for name, count in SEEN.items()]
    group = synthetic_group(4, known, STATIC, assignor)
    members = tuple(
        replace(
            member, member_id=f"{name}-{number:08}-0000-4000-8000-000000000000", client_id=name,
            group_instance_id=name if name in ("a-10", "A") else None, client_library=stated_library("kafka-python"),
            assignment=HAD[name], topics=tuple(SEEN) if topics is None else topics[name],
        )
        for number, (member, name) in enumerate(zip(group.members, HAD, strict=True))
    )  # fmt: skip
    return replace(group, members=members)


def leading(one, world, *others):
    """The world, when the member has joined as the leader of itself and others, and sent what it assigns."""
    world.until_sent(JoinGroupRequest)
    rows = [JoinGroupResponseMember(member_id=each.spec.member_id, metadata=each._subscription()) for each in others]
    rows.append(JoinGroupResponseMember(member_id="me", metadata=one._subscription()))
    world.answer(
        JoinGroupResponse(
            generation_id=8, protocol_name="cooperative-sticky", leader="me", member_id="me", members=rows
        )
    )
    sync, _, _ = world.until_sent(SyncGroupRequest)
    given = {each.member_id: world.cache.decode_assignment(each.assignment) for each in sync.assignments}
    mine = next(each.assignment for each in sync.assignments if each.member_id == "me")
    world.answer(SyncGroupResponse(assignment=mine))
    return given


def scripted(snapshot, knows_first=False):
    world = ManualWorld(starting_group_of(snapshot, WhatIf()))
    world.knows_topics_first = knows_first
    profile = PROFILES[Library.KAFKA_PYTHON]
    return world, [ScriptedClassicMember(world, each, profile) for each in world.group.members]


def test_a_process_of_kafka_python_that_leads_as_soon_as_it_joins_assigns_nothing_until_it_knows_the_topics():
    """cluster.py: `ttl` puts retry_backoff_ms, 100 ms, between two requests for metadata, and the first has no topics;
    consumer.py: `need_rejoin` when the metadata differs from the one that it assigned by."""
    world, (one, *others) = scripted(kafka_python())
    for each in others:
        each.be_member()
    one.start()
    world.until_sent(JoinGroupRequest)
    joined_ms = world.now_ms
    assert leading(one, world, *others).keys() == {"me", *(each.spec.member_id for each in others)}
    assert not one.owned
    world.sent.clear()
    world.until_sent(JoinGroupRequest)
    assert 50 <= world.now_ms - joined_ms <= 200
    given = leading(one, world, *others)
    assert sorted((topic, number) for owned in given.values() for topic in owned for number in owned[topic]) == sorted(
        (topic, number) for topic, count in SEEN.items() for number in range(count)
    )
    world.sent.clear()
    assert not one.has_left_out


@pytest.mark.parametrize("knows_first", [False, True])
def test_a_new_leader_of_kafka_python_knows_only_its_own_topics_at_first(knows_first):
    """consumer.py: _perform_assignment asks for the topics of the others, but does not wait for the answer. Those that
    subscribe with a pattern have metadata of all topics."""
    topics = {"a-10": ("T-1",), "c1": ("t-10", "t-2"), "A": ("t-10", "t-2", "T-1"), "c3": ("t-10", "t-2")}
    world, (one, *others) = scripted(kafka_python(topics=topics), knows_first)
    for each in (one, *others):
        each.be_member()
    for round_number in (1, 2):
        one._join()
        given = leading(one, world, *others)
        assigned = {topic for owned in given.values() for topic, numbers in owned.items() if numbers}
        assert assigned == ({"T-1"} if round_number == 1 and not knows_first else set(SEEN))
        assert one.has_left_out is (round_number == 1 and not knows_first)


@pytest.mark.parametrize(("assignor", "seen"), [("cooperative-sticky", (9, 12, 12, 13)), ("sticky", (12, 12, 12))])
def test_partitions_move_when_the_static_leader_of_kafka_python_returns_last(assignor, seen):
    """Seen on Kafka 4.3.0 and on kgm's coordinator with kafka-python 3.0.12, heartbeats every second: in the round in
    which the leader is back it assigns nothing, and in the next one the sticky assignors know no owners. Otherwise at
    most 6 of the 14 partitions move."""
    group = kafka_python(assignor)
    named = ("a-10", group.members[1].identity)
    simulation = Simulation.of(group, Plan(bounce=named, restart_time_ms=1_500, heartbeat_interval_ms=1_000))
    moved = {simulation.runner(number).play().moved_partitions for number in range(1, 61)}
    assert min(moved) <= 6
    assert min(seen) <= max(moved)
    assert max(moved) >= max(seen)
