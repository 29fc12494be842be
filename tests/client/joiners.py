"""Group members made of single requests: a join, a sync, a commit, only when the test says so.

Real clients heartbeat, retry and rejoin on their own; tests of a lost answer need a member that does nothing unasked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.join_group_response import JoinGroupResponse
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription
from tests.server.wire_client import WireClient
from tests.waiting import NOT_READY, until

if TYPE_CHECKING:
    from kgm.coordinator.engine import Coordinator

MEMBER_ID_REQUIRED = 79
COORDINATOR_LOAD_IN_PROGRESS = 14
#: The longest session that a broker grants by default: members send no heartbeats, and tests can take long.
SESSION_MS = 1_800_000
REBALANCE_MS = 60_000


def commit_without_member(group: str, topic: str, partition: int = 0, offset: int = 0) -> OffsetCommitRequest:
    """The commit of a consumer that assigns its partitions itself and is not a member of the group (version 9)."""
    row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[row])]
    return OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics)


def leave_dead_group(port: int, group: str, topic: str) -> None:
    """Make a group without members that has committed an offset of a topic."""
    wire = WireClient(port)
    code = until(
        lambda: wire.ask(commit_without_member(group, topic), version=9).topics[0].partitions[0].error_code,
        "the coordinator is not ready",
        accept=lambda code: code not in NOT_READY,
        every_s=0.05,
    )
    wire.socket.close()
    assert code == 0, code


class Joiner:
    """One member on one connection; `instance_id` None makes it a dynamic one."""

    def __init__(self, port: int, group: str, instance_id: str | None, topic: str, *, metadata: bytes | None = None):
        self.wire = WireClient(port)
        self.group, self.instance_id, self.topic = group, instance_id, topic
        self.member_id, self.generation, self.leader = "", -1, ""
        self.metadata = encode_subscription(Subscription(topics=(topic,))) if metadata is None else metadata
        self.members: list[str] = []
        self.session_ms, self.rebalance_ms = SESSION_MS, REBALANCE_MS
        #: Versions of JoinGroup, SyncGroup and OffsetCommit.
        self.join_version, self.sync_version, self.commit_version = 9, 5, 9

    def join(self, protocol_type: str = "consumer", *, rounds: int = 2) -> JoinGroupResponse:
        """Join, with the extra round trip for a dynamic member's id; waits for the answer, and for a coordinator that
        is loading."""

        def ask() -> JoinGroupResponse:
            self.send_join(protocol_type)
            return self.receive_join()

        for _ in range(rounds):
            answer = until(
                ask, "the coordinator loads", accept=lambda one: one.error_code != COORDINATOR_LOAD_IN_PROGRESS
            )
            if answer.error_code != MEMBER_ID_REQUIRED:
                break
        return answer

    def receive_join(self) -> JoinGroupResponse:
        """Wait for the answer to a join."""
        _, answer = self.wire.receive()
        self.member_id = answer.member_id or self.member_id
        self.generation, self.leader = answer.generation_id, answer.leader
        self.members = [row.member_id for row in answer.members]
        return answer

    def send_join(self, protocol_type: str = "consumer") -> None:
        """Send a JoinGroup without waiting."""
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=self.metadata)],
        )
        self.wire.send(request, version=self.join_version)

    def sync(self, assignments: Mapping[str, bytes] | None = None, protocol_type: str = "consumer"):
        """Sync; the leader brings an assignment blob per member id."""
        rows = [SyncGroupRequestAssignment(member_id=m, assignment=blob) for m, blob in (assignments or {}).items()]
        return self.wire.ask(
            SyncGroupRequest(
                group_id=self.group, generation_id=self.generation, member_id=self.member_id,
                group_instance_id=self.instance_id, protocol_type=protocol_type, protocol_name="range",
                assignments=rows,
            ),
            version=self.sync_version,
        )  # fmt: skip

    def commit(self, partition: int, offset: int) -> int:
        """Commit one offset; returns the error code."""
        rows = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)]
        answer = self.wire.ask(
            OffsetCommitRequest(
                group_id=self.group, generation_id_or_member_epoch=self.generation, member_id=self.member_id,
                group_instance_id=self.instance_id,
                topics=[OffsetCommitRequestTopic(name=self.topic, partitions=rows)],
            ),
            version=self.commit_version,
        )  # fmt: skip
        return answer.topics[0].partitions[0].error_code

    def close(self) -> None:
        """Close the connection; the group does not notice."""
        self.wire.close()


def form_group(
    server: Any, group: str, instance_ids: Sequence[str | None], topic: str, *,
    protocol_type: str = "consumer", metadata: bytes | None = None, members: Callable[[], int] | None = None, partitions: int | None = None,
) -> list[Joiner]:  # fmt: skip
    """Form a stable group in which member i owns partition i, or an equal block of all `partitions`. No timer is
    involved: the server must have no initial delay. Members join one at a time: a join is parked until the existing
    members have joined again, which ends the round. members: returns how many the group has, for a server that cannot
    be inspected."""

    def inspected() -> int:
        return server.inspect(lambda coordinator: _members(coordinator, group))

    count_members = members or inspected
    joiners: list[Joiner] = []
    for name in instance_ids:
        new = Joiner(server.port, group, name, topic, metadata=metadata)
        if name is None:
            new.join(protocol_type, rounds=1)  # this much only gives a dynamic member its id
        new.send_join(protocol_type)
        count = len(joiners) + 1
        until(
            lambda count=count: count_members() == count,
            f"{name} does not join {group}",
            every_s=0.001,
        )
        for joiner in joiners:
            joiner.send_join(protocol_type)
        joiners.append(new)
        for joiner in joiners:
            joiner.receive_join()
    size = 1 if partitions is None else partitions // len(joiners)
    blobs = {
        one.member_id: encode_assignment(MemberAssignment(partitions={topic: [*range(i * size, (i + 1) * size)]}))
        for i, one in enumerate(joiners)
    }
    for joiner in sorted(joiners, key=lambda one: one.member_id != one.leader):  # the leader first
        assert joiner.sync(blobs if joiner.member_id == joiner.leader else None, protocol_type).error_code == 0
    return joiners


def take_all(joiner: Joiner) -> None:
    """The only member joins again: one rebalance, in which it gets two partitions."""
    assert joiner.join().error_code == 0
    blob = encode_assignment(MemberAssignment(partitions={joiner.topic: [0, 1]}))
    assert joiner.sync({joiner.member_id: blob}).error_code == 0


def _members(coordinator: Coordinator, group: str) -> int:
    found = coordinator.group(group)
    return 0 if found is None else len(found.members)
