"""Consumer groups (KIP-848) whose members are single heartbeats: a whole group lives on one connection.

A member immediately does what the broker asks for and never heartbeats on its own, so a test can play many groups per
second."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable
from typing import Final

from kgm.model.uuids import uuid_text
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kgm.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from tests.server.wire_client import WireClient
from tests.waiting import NOT_READY, until

Owned = dict[bytes, list[int]]
#: The settings of a group for which the broker computes assignments immediately, and keeps members that do not
#: heartbeat.
PROMPT: Final = {"consumer.assignment.interval.ms": 0, "consumer.session.timeout.ms": 60_000}
_MOST_ROUNDS = 60
_LEAVE_EPOCH, _AWAY_EPOCH = -1, -2


class HeartbeatGroup:
    """A group and its members by member id; `owned` is what each member has, by topic id."""

    def __init__(self, wire: WireClient, group_id: str, topics: Iterable[str], assignor: str) -> None:
        self.wire, self.group_id, self.topics, self.assignor = wire, group_id, sorted(topics), assignor
        #: The version of ConsumerGroupHeartbeat; None: the latest.
        self.version: int | None = None
        self.rebalance_timeout_ms = 60_000
        self.instance_ids: dict[str, str | None] = {}
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, Owned] = {}
        self.subscriptions: dict[str, list[str]] = {}

    def join(self, member_id: str, instance_id: str | None, *, topics: Iterable[str] | None = None) -> None:
        """topics: the member's subscription, by default the group's topics."""
        self.instance_ids[member_id] = instance_id
        self.subscriptions[member_id] = self.topics if topics is None else sorted(topics)
        self.epochs[member_id], self.owned[member_id] = 0, {}
        self.heartbeat(member_id)

    def leave(self, member_id: str) -> None:
        """Leave for good."""
        self.epochs[member_id] = _LEAVE_EPOCH
        self.heartbeat(member_id)
        self.forget(member_id)

    def step_away(self, member_id: str) -> None:
        """A static member stops, and keeps its place until its session ends."""
        self.epochs[member_id] = _AWAY_EPOCH
        self.heartbeat(member_id)
        self.forget(member_id)

    def forget(self, member_id: str) -> None:
        """The member is gone, for example because it was removed."""
        del self.instance_ids[member_id], self.epochs[member_id], self.owned[member_id], self.subscriptions[member_id]

    def heartbeat_until_stable(self) -> None:
        """Heartbeat for all members until no answer changes anything."""
        for _ in range(_MOST_ROUNDS):
            if not [member_id for member_id in self.epochs if self.heartbeat(member_id)]:
                return
        raise TimeoutError(f"group {self.group_id} does not become stable: {self.epochs}")

    def heartbeat(self, member_id: str) -> bool:
        """Send one heartbeat; returns whether the answer changes the member's epoch or assignment."""
        epoch = self.epochs[member_id]
        joins = epoch == 0
        rows = [TopicPartitions(topic_id=topic, partitions=owned) for topic, owned in self.owned[member_id].items()]
        answer = self._ask(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group_id, member_id=member_id, member_epoch=epoch,
                instance_id=self.instance_ids[member_id], rebalance_timeout_ms=self.rebalance_timeout_ms if joins else -1,
                subscribed_topic_names=self.subscriptions[member_id] if joins else None,
                server_assignor=self.assignor if joins else None, topic_partitions=rows,
            )
        )  # fmt: skip
        before = epoch, self.owned[member_id]
        self.epochs[member_id] = answer.member_epoch
        if answer.assignment is not None:
            self.owned[member_id] = {row.topic_id: row.partitions for row in answer.assignment.topic_partitions}
        return before != (answer.member_epoch, self.owned[member_id])

    def _ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """The answer, once the coordinator is ready: that takes a moment after a broker has started."""
        answer = until(
            lambda: self.wire.ask(request, version=self.version),
            "the coordinator is not ready",
            accept=lambda answer: answer.error_code not in NOT_READY,
            every_s=0.1,
        )
        assert answer.error_code == 0, answer
        return answer


def random_member_ids(chance: random.Random, count: int) -> list[str]:
    return [java_member_id(chance.randbytes(16)) for _ in range(count)]


def java_member_id(data: bytes) -> str:
    """A member id as Java's consumers make them, of 16 bytes (Kafka: Uuid.randomUuid, Uuid.toString)."""
    return uuid_text(uuid.UUID(bytes=data, version=4).bytes)


def wait_coordinator_knows(bootstrap: str, topics: Iterable[str]) -> None:
    """Wait until the group coordinator knows these topics. It learns of a new topic after the broker's metadata has it,
    seconds later on a busy machine; a member that joins before that is assigned nothing, and its group gets another
    epoch later."""
    names = sorted(topics)
    with WireClient(int(bootstrap.rpartition(":")[2])) as wire:
        group = HeartbeatGroup(wire, f"knows-topics-{uuid.uuid4().hex[:8]}", names, "range")
        group.join("waits-for-topics", None)

        def known_topics() -> int:
            group.heartbeat_until_stable()
            return len(group.owned["waits-for-topics"])

        until(
            known_topics, f"the coordinator does not know all of {names}",
            accept=lambda count: count == len(names), every_s=0.1,
        )  # fmt: skip
        group.leave("waits-for-topics")
