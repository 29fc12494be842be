"""Several brokers without sockets: who coordinates what, and what becomes of groups when that changes."""

import itertools

import pytest

from kgm.java.partitions import partition_for
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kgm.protocol.messages.offset_commit_request import OffsetCommitRequestTopic
from kgm.protocol.messages.offset_delete_request import OffsetDeleteRequest
from kgm.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.server.cluster.nodes import Nodes, Placement
from kgm.server.contract.offsets_topic import OFFSETS_TOPIC
from tests.server.broker_driver import Driver
from tests.server.group_requests import commit, join, stable

LOADING, NOT_COORDINATOR = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR


def of_partition(partition, partitions=50):
    """A group id that belongs to a partition."""
    return next(f"g{n}" for n in itertools.count() if partition_for(f"g{n}", partitions) == partition)


def coordinator(driver, group):
    answer = driver.ask(FindCoordinatorRequest(key=group), version=3)
    return answer.error_code or answer.node_id


# -- places


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [("", 0), ("a", 47), ("g", 3), ("console-consumer-81456", 5), ("polygenelubricants", 0), ("\U0001f600", 49)],
)
def test_groups_are_placed_by_the_hash_of_java(group_id, partition):
    """Values of Java itself: `Utils.abs(id.hashCode()) % 50`; the fifth hashes to Integer.MIN_VALUE."""
    assert partition_for(group_id, 50) == partition


def test_leaders_are_spread_and_stay_until_they_have_to_go():
    nodes = Nodes(3)
    placement = Placement(nodes, 7)
    assert [placement[n].leader for n in range(7)] == [1, 2, 3, 1, 2, 3, 1]
    nodes[2].alive = False
    assert [n for n in range(7) if placement.elect(n)] == [1, 4]
    assert [placement[n].leader for n in range(7)] == [1, 3, 3, 1, 3, 3, 1]
    nodes[2].alive = True
    assert [n for n in range(7) if placement.elect(n)] == []
    assert [n for n in range(7) if placement.elect(n, preferred=True)] == [1, 4]
    assert [placement[n].epoch for n in range(7)] == [0, 2, 0, 0, 2, 0, 0]


def test_a_partition_without_a_living_replica_has_no_leader():
    nodes = Nodes(2)
    placement = Placement(nodes, 2, {0: [2], 1: [7]})
    assert (placement[0].leader, placement[1].replicas) == (2, (2, 1))
    assert placement.reassigned() == {0: [2]}
    nodes[2].alive = False
    assert placement.elect(0)
    assert placement[0].leader is None


# -- where things are


def test_metadata_names_all_brokers_and_spreads_the_leaders():
    driver = Driver({"t": 6}, brokers=3)
    for node_id in (1, 2, 3):
        driver.cluster.nodes[node_id].port = 9091 + node_id
    response = driver.ask(MetadataRequest(topics=None), to=2)
    assert [(row.node_id, row.host, row.port) for row in response.brokers] == [
        (1, "192.0.2.1", 9092), (2, "192.0.2.1", 9093), (3, "192.0.2.1", 9094),
    ]  # fmt: skip
    parts = response.topics[1].partitions
    assert sorted(part.leader_id for part in parts) == [1, 1, 2, 2, 3, 3]
    assert {tuple(sorted(part.replica_nodes)) for part in parts} == {(1, 2, 3)}
    driver.stop(3)
    response = driver.ask(MetadataRequest(topics=None))
    assert [row.node_id for row in response.brokers] == [1, 2]
    for part in response.topics[1].partitions:
        assert part.leader_id in (1, 2)
        assert part.offline_replicas == [3]
        assert sorted(part.isr_nodes) == [1, 2]
    driver.stop(1)
    described = driver.ask(DescribeClusterRequest(), to=2)
    assert (described.controller_id, [row.broker_id for row in described.brokers]) == (2, [2])


def test_the_offsets_topic_is_described():
    driver = Driver(brokers=2)
    driver.move(7, 1)
    (row,) = driver.ask(MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)])).topics
    assert (row.is_internal, len(row.partitions), row.error_code) == (True, 50, 0)
    assert [part.leader_id for part in row.partitions[5:9]] == [2, 1, 1, 1]
    assert [part.leader_epoch for part in row.partitions[5:9]] == [0, 0, 1, 0]
    (by_id,) = driver.ask(MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=row.topic_id)])).topics
    assert by_id == row
    assert driver.ask(MetadataRequest(topics=None)).topics[0] == row


# -- NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS


def refused(driver, group, *, to):
    """Each API's way to say that the broker does not coordinate the group (yet), and the error."""
    known = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    sync = SyncGroupRequest(group_id=group, protocol_type="c", protocol_name="r", member_id="m")
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=known)])
    return {
        "join": driver.ask(join(group=group), to=to).error_code,
        "sync": driver.ask(sync, to=to).error_code,
        "heartbeat": driver.ask(HeartbeatRequest(group_id=group, member_id="m"), to=to).error_code,
        "leave": driver.ask(LeaveGroupRequest(group_id=group, members=[MemberIdentity()]), to=to).error_code,
        "commit": driver.ask(commit(group, name="t"), version=9, to=to).topics[0].partitions[0].error_code,
        "fetch": driver.ask(fetch, version=9, to=to).groups[0].error_code,
        "old fetch": driver.ask(OffsetFetchRequest(group_id=group, topics=[]), version=7, to=to).error_code,
        "delete offsets": driver.ask(OffsetDeleteRequest(group_id=group), to=to).error_code,
        "describe": driver.ask(DescribeGroupsRequest(groups=[group]), to=to).groups[0].error_code,
        "describe new": driver.ask(ConsumerGroupDescribeRequest(group_ids=[group]), to=to).groups[0].error_code,
        "delete": driver.ask(DeleteGroupsRequest(groups_names=[group]), to=to).results[0].error_code,
    }


def test_a_broker_that_does_not_coordinate_a_group_says_so():
    driver = Driver(brokers=2)
    group = of_partition(3)
    assert coordinator(driver, group) == 2
    assert set(refused(driver, group, to=1).values()) == {NOT_COORDINATOR}
    assert driver.ask(ListGroupsRequest(), to=1).error_code == 0


def test_while_it_loads_it_says_so_and_a_heartbeat_is_good():
    driver = Driver(brokers=2)
    group = of_partition(3)
    driver.ask(commit(group, name="t"), version=9, to=2)
    driver.move(3, 1)
    assert driver.cluster.is_loading
    answers = refused(driver, group, to=1)
    assert answers.pop("heartbeat") == 0
    assert set(answers.values()) == {LOADING}
    assert driver.ask(ListGroupsRequest(), to=1).error_code == LOADING
    assert driver.ask(ListGroupsRequest(), to=2).groups == []
    assert set(refused(driver, group, to=2).values()) == {NOT_COORDINATOR}
    driver.load()
    assert [row.group_id for row in driver.ask(ListGroupsRequest(), to=1).groups] == [group]


def test_errors_in_a_request_come_before_not_coordinator():
    driver = Driver(brokers=2)
    group = of_partition(3)
    assert driver.ask(join(group=""), to=2).error_code == ErrorCode.INVALID_GROUP_ID
    short = driver.ask(join(group=group, session_ms=1, member="m"), to=1)
    assert (short.error_code, short.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "m")
    for request in (HeartbeatRequest(group_id=""), LeaveGroupRequest(group_id=""), OffsetDeleteRequest(group_id="")):
        assert driver.ask(request, to=2).error_code == ErrorCode.INVALID_GROUP_ID
    nameless = SyncGroupRequest(group_id=group, protocol_type=None, protocol_name=None)
    assert driver.ask(nameless, to=1).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.ask(nameless, to=1, version=4).error_code == NOT_COORDINATOR
    request = commit(group, name="t")
    request.topics.append(OffsetCommitRequestTopic(name="nope", partitions=request.topics[0].partitions))
    rows = driver.ask(request, version=9, to=1).topics
    assert [row.partitions[0].error_code for row in rows] == [
        NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_requests_for_several_groups_are_split_and_joined_in_order():
    driver = Driver(brokers=2)
    here, there, second = of_partition(0), of_partition(1), of_partition(2)
    for group, node_id in ((here, 1), (there, 2), (second, 1)):
        driver.ask(commit(group, name="t", offset=len(group)), version=9, to=node_id)
    asked = [second, there, "none of these", here, second]
    unknown = NOT_COORDINATOR if partition_for("none of these", 50) % 2 else ErrorCode.GROUP_ID_NOT_FOUND
    rows = driver.ask(DescribeGroupsRequest(groups=asked)).groups
    assert [row.group_id for row in rows] == asked
    assert [row.error_code for row in rows] == [0, NOT_COORDINATOR, unknown, 0, 0]
    groups = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in asked]
    rows = driver.ask(OffsetFetchRequest(groups=groups), version=9).groups
    assert [row.group_id for row in rows] == asked
    assert [len(row.topics) for row in rows] == [1, 0, 0, 1, 1]
    rows = driver.ask(OffsetFetchRequest(groups=groups), version=10).groups
    assert [len(row.topics) for row in rows] == [1, 0, 0, 1, 1]
    rows = driver.ask(DeleteGroupsRequest(groups_names=asked)).results
    assert [(row.group_id, row.error_code) for row in rows] == [
        (second, 0), (there, NOT_COORDINATOR), ("none of these", unknown), (here, 0),
    ]  # fmt: skip
    listed = [[row.group_id for row in driver.ask(ListGroupsRequest(), to=to).groups] for to in (1, 2)]
    assert listed == [[], [there]]
    for empty in (DescribeGroupsRequest(), ConsumerGroupDescribeRequest(), DeleteGroupsRequest(), OffsetFetchRequest()):
        driver.ask(empty)


# -- moving


def group_of(driver, group_id="g"):
    return driver.cluster.view.group(group_id)


def test_a_stable_group_moves_with_members_generation_and_offsets():
    driver = Driver(brokers=2)
    partition = partition_for("g", 50)
    driver.move(partition, 1)
    joined = stable(driver)
    request = commit("g", name="t", offset=7)
    request.generation_id_or_member_epoch = joined.generation_id
    request.member_id, request.group_instance_id = joined.member_id, "i"
    assert driver.ask(request, version=9).topics[0].partitions[0].error_code == 0
    before, offsets = group_of(driver), dict(driver.cluster.view.offsets("g"))
    driver.advance(5_000)
    driver.move(partition, 2)
    assert group_of(driver) is None
    driver.load()
    after = group_of(driver)
    assert (after.state, after.generation, after.leader) == ("Stable", before.generation, before.leader)
    assert [(m.member_id, m.group_instance_id, m.assignment) for m in after.members] == [
        (m.member_id, m.group_instance_id, m.assignment) for m in before.members
    ]
    assert dict(driver.cluster.view.offsets("g")) == offsets
    # a whole session from now on
    assert after.members[0].session_deadline_ms == driver.now + 10_000
    beat = HeartbeatRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id="i"
    )
    assert driver.ask(beat, to=1).error_code == NOT_COORDINATOR
    assert driver.ask(beat, to=2).error_code == 0
    driver.advance(10_001)
    assert group_of(driver).members == ()


def test_parked_joins_are_answered_not_coordinator_and_a_static_member_comes_back():
    driver = Driver(brokers=2, group_initial_rebalance_delay_ms=3_000)
    partition = partition_for("g", 50)
    driver.move(partition, 1)
    parked = driver.send(join("i"))
    assert parked not in driver.events
    driver.move(partition, 2)
    assert driver.answer(parked).error_code == NOT_COORDINATOR
    driver.load()
    assert group_of(driver).members == ()  # a join phase is not in the log
    again = driver.send(join("i"), to=2)
    driver.advance(3_000)
    assert driver.answer(again).error_code == 0


def test_a_parked_sync_is_answered_not_coordinator_too():
    driver = Driver(brokers=2, group_initial_rebalance_delay_ms=500)
    partition = partition_for("g", 50)
    driver.move(partition, 1)
    driver.send(join("i"))
    ticket = driver.send(join("j"))
    driver.advance(500)
    driver.advance(500)
    follower = driver.answer(ticket)
    waiting = SyncGroupRequest(
        group_id="g",
        generation_id=follower.generation_id,
        member_id=follower.member_id,
        protocol_type="consumer",
        protocol_name="range",
    )
    ticket = driver.send(waiting)
    assert ticket not in driver.events
    driver.stop(1)
    assert driver.answer(ticket).error_code == NOT_COORDINATOR


def test_a_stopped_broker_hands_over_and_gets_nothing_back_by_itself():
    driver = Driver(brokers=3)
    groups = [of_partition(n) for n in range(6)]
    for n, group in enumerate(groups):
        driver.ask(commit(group, name="t", offset=n), version=9, to=n % 3 + 1)
    driver.stop(2)
    driver.load()
    assert [coordinator(driver, group) for group in groups] == [1, 3, 3, 1, 3, 3]
    assert [driver.cluster.view.offsets(group)["t", 0].offset for group in groups] == list(range(6))
    driver.start(2)
    assert [coordinator(driver, group) for group in groups] == [1, 3, 3, 1, 3, 3]
    driver.move(4, 2)
    driver.load()
    assert coordinator(driver, groups[4]) == 2
    assert driver.cluster.view.offsets(groups[4])["t", 0].offset == 4


def test_a_move_while_it_loads_starts_again_elsewhere():
    driver = Driver({"t": 500}, brokers=3)
    group = of_partition(0)
    for n in range(3):
        driver.ask(commit(group, name="t", partition=n, offset=n), version=9)
    driver.move(0, 2)
    driver._keep(driver.cluster.load_piece(driver.now))
    assert driver.cluster.is_loading
    driver.move(0, 3)
    driver.move(0, 1)
    driver.load()
    assert coordinator(driver, group) == 1
    assert len(driver.cluster.view.offsets(group)) == 3


def test_loading_is_done_in_pieces():
    driver = Driver({"t": 500}, brokers=2)
    group = of_partition(0)
    for n in range(3):
        driver.ask(commit(group, name="t", partition=n), version=9)
    driver.move(0, 2)
    pieces = 0
    while driver.cluster.is_loading:
        assert driver.ask(DescribeGroupsRequest(groups=[group]), to=2).groups[0].error_code == LOADING
        driver._keep(driver.cluster.load_piece(driver.now))
        pieces += 1
    assert pieces == 6  # three of the log, one for the group's offsets and timers each, and one to begin to serve


def test_deleted_groups_do_not_come_back():
    driver = Driver(brokers=2)
    group = of_partition(0)
    driver.ask(commit(group, name="t"), version=9)
    assert driver.ask(DeleteGroupsRequest(groups_names=[group])).results[0].error_code == 0
    driver.move(0, 2)
    driver.load()
    assert group_of(driver, group) is None
    assert driver.ask(ListGroupsRequest(), to=2).groups == []
    assert driver.cluster.shards.group_ids == set()


# -- AlterPartitionReassignments, ElectLeaders


def reassign(driver, replicas, *, partition=3, topic=OFFSETS_TOPIC, version=None, **fields):
    row = ReassignablePartition(partition_index=partition, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[row])], **fields)
    response = driver.ask(request, version=version)
    assert response.error_code == 0
    return ErrorCode(response.responses[0].partitions[0].error_code).name


def test_a_reassignment_moves_the_coordinator():
    driver = Driver(brokers=3)
    group = of_partition(3)
    driver.ask(commit(group, name="t"), version=9)
    assert reassign(driver, [3]) == "NONE"
    assert coordinator(driver, group) == 3
    driver.load()
    assert len(driver.cluster.view.offsets(group)) == 1
    assert reassign(driver, [1, 3]) == "NONE"  # the leader may stay
    assert coordinator(driver, group) == 3
    assert driver.ask(ListPartitionReassignmentsRequest(topics=None)).topics == []
    driver.stop(3)
    assert coordinator(driver, group) == 1
    driver.stop(1)
    answer = driver.ask(FindCoordinatorRequest(key=group), version=3, to=2)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    (topic,) = driver.ask(MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)]), to=2).topics
    assert (topic.partitions[3].leader_id, topic.partitions[3].error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
    driver.start(1)
    driver.load()
    assert coordinator(driver, group) == 1
    assert len(driver.cluster.view.offsets(group)) == 1


def test_reassignments_that_cannot_be():
    driver = Driver(brokers=2)
    assert reassign(driver, [4]) == "INVALID_REPLICA_ASSIGNMENT"
    assert reassign(driver, [1, 1]) == "INVALID_REPLICA_ASSIGNMENT"
    assert reassign(driver, []) == "INVALID_REPLICA_ASSIGNMENT"
    assert reassign(driver, None) == "NO_REASSIGNMENT_IN_PROGRESS"
    assert reassign(driver, [1], partition=50) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert reassign(driver, [1], topic="nope") == "UNKNOWN_TOPIC_OR_PARTITION"
    assert reassign(driver, [1], topic="t") == "INVALID_REPLICA_ASSIGNMENT"
    assert reassign(driver, [1], allow_replication_factor_change=False) == "INVALID_REPLICATION_FACTOR"
    driver.stop(2)
    assert reassign(driver, [2]) == "INVALID_REPLICA_ASSIGNMENT"
    assert driver.cluster.placement.reassigned() == {}


def test_preferred_leaders_are_elected():
    driver = Driver(brokers=2)
    driver.stop(2)
    driver.start(2)
    assert driver.cluster.placement[3].leader == 1
    wanted = [
        TopicPartitions(topic=OFFSETS_TOPIC, partitions=[2, 3, 99]),
        TopicPartitions(topic="t", partitions=[0, 9]),
    ]
    response = driver.ask(ElectLeadersRequest(topic_partitions=wanted))
    assert [[row.error_code for row in topic.partition_result] for topic in response.replica_election_results] == [
        [ErrorCode.ELECTION_NOT_NEEDED, 0, 3],
        [ErrorCode.ELECTION_NOT_NEEDED, 3],
    ]
    assert driver.cluster.placement[3].leader == 2
    (everything,) = driver.ask(ElectLeadersRequest(topic_partitions=None)).replica_election_results
    assert len(everything.partition_result) == 24
    assert [driver.cluster.placement[n].leader for n in range(4)] == [1, 2, 1, 2]
    driver.stop(2)
    not_there = driver.ask(ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=OFFSETS_TOPIC, partitions=[3])]))
    (row,) = not_there.replica_election_results[0].partition_result
    assert row.error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_a_member_goes_on_at_the_new_coordinator_with_its_known_id():
    """What a client does: look up, and send the same again."""
    driver = Driver(brokers=2)
    partition = partition_for("g", 50)
    driver.move(partition, 1)
    joined = stable(driver)
    for to in (2, 1, 2):
        driver.move(partition, to)
        driver.load()
        rejoin = join("i", member=joined.member_id)
        assert isinstance(rejoin, JoinGroupRequest)
        beat = HeartbeatRequest(
            group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id="i"
        )
        assert driver.ask(beat, to=to).error_code == 0
    restarted = driver.ask(join("i"), to=2)
    assert (restarted.error_code, restarted.generation_id, restarted.skip_assignment) == (0, joined.generation_id, True)
