"""Streams groups (KIP-1071): behaviours B115 to B126 of Apache Kafka 4.3.0's coordinator."""

import pytest

from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kgm.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kgm.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    Endpoint,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kgm.records.record_types import TYPES
from tests.coordinator.behaviours import rule
from tests.coordinator.consumer.harness import Consumers

SESSION_MS, DELAY_MS = 45_000, 3_000
NOTHING = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
STALE, NO_SOURCE, WRONG_SIZE, NO_INTERNAL, SHUTDOWN, DELAYED = range(6)


def subtopology(name="0", *sources, changelog=None, **more):
    topics = [TopicInfo(name=changelog)] if changelog else []
    return Subtopology(subtopology_id=name, source_topics=list(sources), state_changelog_topics=topics, **more)


PLAIN = Topology(subtopologies=[subtopology("0", "a")])
WITH_STATE = Topology(subtopologies=[subtopology("0", "a", changelog="a-changelog")])


#: A changelog is as large as its subtopology, and has no size of its own.
SIZED = Subtopology(subtopology_id="0", source_topics=["a"], state_changelog_topics=[TopicInfo(name="c", partitions=3)])


class Streams(Consumers):
    """One coordinator with the topic `a` of 6 partitions and `b` of 3. No delays, unless it is said."""

    def __init__(self, **overrides):
        quick = {"group_streams_assignment_interval_ms": 0, "group_streams_initial_rebalance_delay_ms": 0}
        super().__init__(**quick | overrides)

    def join(self, member="m1", process="p", topology=PLAIN, **more):
        fields = {"rebalance_timeout_ms": 60_000, "topology": topology, "process_id": process} | NOTHING | more
        return self.beat(member, 0, **fields)

    def beat(self, member="m1", epoch=None, *, group="g", **fields):
        """A heartbeat, in the member's epoch and with the tasks that it has unless it is said."""
        if epoch is None:
            row = self.engine.streams_group(group).members[member]
            epoch, fields = row.member_epoch, owning(*row.assigned.kinds) | fields
        message = StreamsGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)
        return self.got(self.send(message, 0))

    def held(self, group="g"):
        """Active and standby tasks by member, as names."""
        return {row.member_id: row.streams.assigned[:2] for row in self.engine.group(group).members}

    def written(self, since=0):
        return [
            ("-" if row.value is None else "") + TYPES[row.key.API_KEY].removeprefix("StreamsGroup")
            for row in self.log[since:]
        ]

    def described(self, *groups):
        return self.got(self.send(StreamsGroupDescribeRequest(group_ids=list(groups or ("g",))), 0)).groups


def owning(active=None, standby=None, warmup=None):
    return {
        kind: [TaskIds(subtopology_id=name, partitions=sorted(those)) for name, those in (tasks or {}).items()]
        for kind, tasks in zip(NOTHING, (active, standby, warmup), strict=True)
    }


def codes(reply):
    return [row.status_code for row in reply.status]


def names(count, of="0"):
    return tuple(f"{of}_{partition}" for partition in range(count))


@pytest.fixture
def h():
    return Streams()


@rule("B115")
@pytest.mark.parametrize(
    ("epoch", "fields", "error"),
    [
        (0, {"member": " "}, E.INVALID_REQUEST),
        (0, {"rack_id": ""}, E.INVALID_REQUEST),
        (0, {"instance_id": "i"}, E.INVALID_REQUEST),
        (0, {"rebalance_timeout_ms": -1}, E.INVALID_REQUEST),
        (0, {"active_tasks": None}, E.INVALID_REQUEST),
        (0, owning({"0": [1]}), E.INVALID_REQUEST),
        (0, {"topology": None}, E.INVALID_REQUEST),
        (0, {"task_offsets": []}, E.INVALID_REQUEST),
        (0, {"topology": Topology(subtopologies=[subtopology("0", source_topic_regex=["a"])])}, E.INVALID_REQUEST),
        (1, {"rebalance_timeout_ms": -1, "topology": PLAIN}, E.INVALID_REQUEST),
        (1, {"topology": None, "standby_tasks": None}, E.INVALID_REQUEST),
        (1, {"topology": None, "warmup_tasks": [TaskIds(subtopology_id="0", partitions=[1])]}, E.INVALID_REQUEST),
        (-2, {"topology": None}, E.INVALID_REQUEST),
        (-3, {"topology": None}, E.INVALID_REQUEST),
        (0, {"topology": Topology(subtopologies=[subtopology("0", "a", changelog="c")])}, E.NONE),
        (0, {"topology": Topology(subtopologies=[SIZED])}, E.STREAMS_INVALID_TOPOLOGY),
    ],
)
def test_a_request_is_checked_by_itself(h, epoch, fields, error):
    fields = {"member": "m", "process": "p", "rebalance_timeout_ms": 9, "topology": PLAIN} | NOTHING | fields
    member, process = fields.pop("member"), fields.pop("process")
    assert h.beat(member, epoch, process_id=process, **fields).error_code == error
    assert bool(h.log) == (error == E.NONE)


@rule("B115")
def test_the_protocol_may_be_disabled():
    h = Streams(group_coordinator_rebalance_protocols="classic,consumer")
    assert h.join().error_code == E.UNSUPPORTED_VERSION
    assert h.described()[0].error_code == E.UNSUPPORTED_VERSION


@rule("B116")
def test_the_first_member_brings_the_topology_and_gets_all_tasks(h):
    reply = h.join()
    assert (reply.error_code, reply.member_epoch, reply.heartbeat_interval_ms) == (E.NONE, 2, 5_000)
    assert [(row.subtopology_id, row.partitions) for row in reply.active_tasks] == [("0", [0, 1, 2, 3, 4, 5])]
    assert (reply.standby_tasks, reply.warmup_tasks, reply.status) == ([], [], [])
    assert h.written() == [
        "MemberMetadata", "Topology", "Metadata", "TargetAssignmentMember", "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]  # fmt: skip
    assert h.beat().active_tasks is None
    assert h.engine.group("g").state == "Stable"


@rule("B116")
def test_the_topology_stays_as_it_is(h):
    h.join(topology=Topology(epoch=1, subtopologies=PLAIN.subtopologies))
    assert h.join("m2", topology=Topology(epoch=1, subtopologies=[subtopology("0", "b")])).error_code == (
        E.INVALID_REQUEST
    )
    assert h.join("m2", topology=Topology(epoch=2, subtopologies=PLAIN.subtopologies)).error_code == E.INVALID_REQUEST
    assert codes(h.join("m2", topology=Topology(epoch=0, subtopologies=[subtopology("0", "b")]))) == [STALE]


@rule("B117")
@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([subtopology("0", "a", "none")], NO_SOURCE),
        ([subtopology("0", "a", "b", copartition_groups=[CopartitionGroup(source_topics=[0, 1])])], WRONG_SIZE),
        ([subtopology("0", "a", changelog="b")], WRONG_SIZE),
        ([subtopology("0", "a", changelog="c")], NO_INTERNAL),
    ],
    ids=["no source", "joined", "changelog", "to be created"],
)
def test_topics_that_do_not_fit(h, rows, code):
    reply = h.join(topology=Topology(subtopologies=rows))
    assert (reply.error_code, codes(reply), reply.active_tasks) == (E.NONE, [code], [])
    assert h.engine.group("g").state == "NotReady"


@rule("B118")
def test_internal_topics_are_as_large_as_what_they_are_made_from(h):
    """A repartition topic has as many partitions as the largest topic of the subtopology that writes it."""
    asked = []
    h.runtime._create_topics = asked.extend
    middle = subtopology("1", "b", changelog="c", repartition_source_topics=[TopicInfo(name="r", replication_factor=2)])
    topology = Topology(subtopologies=[subtopology("0", "a", repartition_sink_topics=["r"]), middle])
    assert codes(h.join(topology=topology)) == [NO_INTERNAL]
    assert {(topic.name, topic.partitions, topic.replication_factor) for topic in asked} == {("r", 6, 2), ("c", 6, 0)}
    h.topics({"a": 6, "b": 3, "r": 6, "c": 6})
    reply = h.beat(epoch=2, **NOTHING)
    assert (codes(reply), h.held()["m1"][0]) == ([], names(6) + names(6, "1"))


@rule("B119")
def test_a_new_group_waits_for_more_members():
    h = Streams(group_streams_initial_rebalance_delay_ms=DELAY_MS)
    for member in ("m1", "m2"):
        assert codes(h.join(member, member)) == [DELAYED]
    assert h.engine.deadline(TimerKey(TimerKind.INITIAL_DELAY, "g")) == h.now + DELAY_MS
    h.sleep(DELAY_MS)
    assert h.written()[-3:] == ["TargetAssignmentMember"] * 2 + ["TargetAssignmentMetadata"]
    for member in ("m1", "m2"):
        h.beat(member)
    assert sorted(len(active) for active, _ in h.held().values()) == [3, 3]


@rule("B119")
def test_between_two_assignments_there_is_an_interval():
    h = Streams(group_streams_assignment_interval_ms=1_000)
    h.join()
    assert codes(h.join("m2", "q")) == [DELAYED]
    h.sleep(1_000)
    assert codes(h.beat("m2")) == []


@rule("B120")
def test_a_task_moves_when_its_member_has_given_it_up(h):
    h.join()
    h.join("m2", "q")
    assert h.held() == {"m1": (names(6), ()), "m2": ((), ())}
    told = h.beat("m1")
    assert [row.partitions for row in told.active_tasks] == [[0, 1, 2]]
    assert h.beat("m2").active_tasks is None
    h.beat("m1")
    assert [row.partitions for row in h.beat("m2").active_tasks] == [[3, 4, 5]]
    assert h.engine.group("g").state == "Stable"


@rule("B120")
def test_a_process_never_has_two_copies_of_a_task():
    """So a member gets an active task of which its process has a copy only a heartbeat after that was given up."""
    h = Streams(group_streams_num_standby_replicas=1)
    h.topics({"a": 2, "a-changelog": 2})
    h.join("m1", "p", WITH_STATE)
    h.join("m2", "q", WITH_STATE)
    for _ in range(3):
        h.beat("m1")
        h.beat("m2")
    (first,), (second,) = (h.held()[member][0] for member in ("m1", "m2"))
    assert h.held() == {"m1": ((first,), (second,)), "m2": ((second,), (first,))}
    h.beat("m2", -1)
    for _ in range(2):
        h.beat("m1")
        assert h.held()["m1"] == ((first,), ())
    h.beat("m1")
    assert h.held() == {"m1": (("0_0", "0_1"), ())}


@rule("B121")
def test_epochs_are_checked(h):
    h.join()
    assert h.beat("m1", 3).error_code == E.FENCED_MEMBER_EPOCH
    assert h.beat("m1", 1).error_code == E.FENCED_MEMBER_EPOCH
    assert h.beat("m1", 0, rebalance_timeout_ms=1, topology=PLAIN, **NOTHING).error_code == E.NONE
    assert h.beat("m1", **owning({"9": [0]})).error_code == E.INVALID_REQUEST
    assert h.beat("stranger", 1).error_code == E.UNKNOWN_MEMBER_ID
    assert h.beat("m1", 1, group="none").error_code == E.GROUP_ID_NOT_FOUND


@rule("B121")
def test_a_full_group_takes_nobody_in():
    h = Streams(group_streams_max_size=1)
    h.join()
    assert h.join("m2").error_code == E.GROUP_MAX_SIZE_REACHED
    assert h.join("m1").error_code == E.GROUP_MAX_SIZE_REACHED, "also a member that joins again, as in Kafka"
    assert h.beat("m1").error_code == E.NONE


@rule("B122")
def test_a_member_leaves_or_its_session_ends(h):
    h.join()
    h.join("m2", "q")
    since = len(h.log)
    reply = h.beat("m2", -1)
    assert (reply.error_code, reply.member_epoch) == (E.NONE, -1)
    gone = ["-CurrentMemberAssignment", "-TargetAssignmentMember", "-MemberMetadata", "Metadata"]
    assert h.written(since) == gone
    h.sleep(SESSION_MS)
    assert h.written(since + 4) == gone
    assert h.engine.group("g").state == "Empty"


@rule("B122")
def test_a_member_that_gives_nothing_up_is_removed(h):
    h.join(rebalance_timeout_ms=5_000)
    h.join("m2", "q")
    h.beat("m1")
    h.sleep(4_999)
    assert set(h.held()) == {"m1", "m2"}
    h.sleep(1)
    assert set(h.held()) == {"m2"}


@rule("B122")
def test_everybody_is_told_when_the_application_is_to_end(h):
    h.join()
    h.join("m2", "q")
    h.beat("m2", -1, shutdown_application=True)
    assert codes(h.beat("m1")) == [SHUTDOWN]
    h.beat("m1", -1)
    assert codes(h.join()) == []


@rule("B123")
def test_endpoints_are_told_when_they_change(h):
    h.join(user_endpoint=Endpoint(host="one", port=1))
    reply = h.beat("m1", endpoint_information_epoch=7)
    (row,) = reply.partitions_by_user_endpoint
    assert (row.user_endpoint.host, row.user_endpoint.port, row.active_partitions[0].topic) == ("one", 1, "a")
    assert row.active_partitions[0].partitions == [0, 1, 2, 3, 4, 5]
    known = reply.endpoint_information_epoch
    assert h.beat("m1", endpoint_information_epoch=known).partitions_by_user_endpoint is None


@rule("B124")
def test_groups_are_described_listed_and_deleted(h):
    h.join(rack_id="r", user_endpoint=Endpoint(host="one", port=1))
    group, none = h.described("g", "none")
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.topology.epoch) == ("Stable", 2, 2, 0)
    (member,) = group.members
    assert (member.process_id, member.rack_id, member.user_endpoint.port, member.member_epoch) == ("p", "r", 1, 2)
    assert member.assignment == member.target_assignment
    assert none.error_code == E.GROUP_ID_NOT_FOUND
    assert [(row.group_type, row.protocol_type) for row in h.list(types=["streams"])] == [("streams", "streams")]
    assert h.delete("g") == {"g": E.NON_EMPTY_GROUP}
    h.beat("m1", -1)
    since = len(h.log)
    assert h.delete("g") == {"g": E.NONE}
    assert h.written(since) == ["-TargetAssignmentMetadata", "-Metadata", "-Topology"]
    assert h.engine.group("g") is None


@rule("B125")
def test_commits_and_fetches_are_checked_by_epoch(h):
    def commit(epoch, partition=5, member="m1", v=9):
        row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1, committed_metadata="")
        message = OffsetCommitRequest(
            group_id="g", member_id=member, generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name="a", partitions=[row])],
        )  # fmt: skip
        return h.got(h.send(message, v)).topics[0].partitions[0].error_code

    def fetch(epoch):
        asked = OffsetFetchRequestGroup(group_id="g", member_id="m1", member_epoch=epoch, topics=None)
        return h.got(h.send(OffsetFetchRequest(groups=[asked]), 9)).groups[0].error_code

    h.join()
    assert [commit(2), commit(1), commit(3)] == [E.NONE, E.STALE_MEMBER_EPOCH, E.STALE_MEMBER_EPOCH]
    assert commit(2, member="x") == E.UNKNOWN_MEMBER_ID
    assert commit(2, v=8) == E.UNSUPPORTED_VERSION
    assert [fetch(2), fetch(1)] == [E.NONE, E.STALE_MEMBER_EPOCH]
    h.join("m2", "q")
    h.beat("m1")
    h.beat("m1")
    assert commit(2, 0) == E.NONE, "it has had this task since that epoch"
    assert commit(2, 5) == E.STALE_MEMBER_EPOCH, "and has given up this one"


@rule("B126")
def test_a_log_says_everything(h):
    h.join(user_endpoint=Endpoint(host="one", port=1))
    h.join("m2", "q")
    h.beat("m1")
    before = h.engine.streams_group("g")
    h.reload()
    after = h.engine.streams_group("g")
    for name in ("members", "targets", "active", "group_epoch", "assignment_epoch", "metadata_hash", "topology"):
        assert getattr(after, name) == getattr(before, name), name
    assert h.engine.deadline(TimerKey(TimerKind.REBALANCE, "g", "m1")) == h.now + 60_000
    assert h.engine.deadline(TimerKey(TimerKind.SESSION, "g", "m2")) == h.now + SESSION_MS
    twin = h.engine.fork()
    h.beat("m1")
    assert twin.streams_group("g").members["m1"] != h.engine.streams_group("g").members["m1"]
