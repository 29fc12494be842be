"""What the consumers of a library do otherwise than Java's, in a group."""

from dataclasses import replace

import pytest

from kgm.clients.table import CLIENTS
from kgm.model.client_library import stated_library
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.simulation.bounce import Simulation
from kgm.simulation.plan.bounce_plan import Plan, WhatIf
from kgm.simulation.plan.client_library import Library
from kgm.simulation.plan.starting_group import starting_group_of
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.client_profiles import PROFILES
from tests.clients.recorded_groups import described
from tests.simulation.groups import DYNAMIC, made_up
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
