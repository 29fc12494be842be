"""Members of consumer groups (KIP-848) made of single heartbeats: a whole group lives on one connection.

They do at once what the broker asks for and never heartbeat unasked, so that a test goes through many groups a second."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kgm.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from tests.kafka.broker import KafkaCluster
from tests.server.wire_client import WireClient
from tests.waiting import until

Held = dict[bytes, list[int]]
_ROUNDS = 60
_LEAVES = -1


class BeatenGroup:
    """A group and its members by member id; `held` is what each has, by topic id."""

    def __init__(self, wire: WireClient, group_id: str, topics: Iterable[str], assignor: str) -> None:
        self.wire, self.group_id, self.topics, self.assignor = wire, group_id, sorted(topics), assignor
        self.instance_ids: dict[str, str | None] = {}
        self.epochs: dict[str, int] = {}
        self.held: dict[str, Held] = {}
        self.wanted: dict[str, list[str]] = {}

    def join(self, member_id: str, instance_id: str | None, *, topics: Iterable[str] | None = None) -> None:
        """topics: that it subscribes to, by default those of the group."""
        self.instance_ids[member_id] = instance_id
        self.wanted[member_id] = self.topics if topics is None else sorted(topics)
        self.epochs[member_id], self.held[member_id] = 0, {}
        self._beat(member_id)

    def leave(self, member_id: str) -> None:
        """Leave for good."""
        self.epochs[member_id] = _LEAVES
        self._beat(member_id)
        self.forget(member_id)

    def forget(self, member_id: str) -> None:
        """The member is gone, and not by what it did."""
        del self.instance_ids[member_id], self.epochs[member_id], self.held[member_id], self.wanted[member_id]

    def settle(self) -> None:
        """Heartbeat until nobody is told anything new."""
        for _ in range(_ROUNDS):
            if not [member_id for member_id in self.epochs if self._beat(member_id)]:
                return
        raise TimeoutError(f"group {self.group_id} does not settle: {self.epochs}")

    def _beat(self, member_id: str) -> bool:
        """One heartbeat, whether it told of anything new."""
        epoch = self.epochs[member_id]
        joins = epoch == 0
        rows = [TopicPartitions(topic_id=topic, partitions=held) for topic, held in self.held[member_id].items()]
        answer = self._asked(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group_id, member_id=member_id, member_epoch=epoch,
                instance_id=self.instance_ids[member_id], rebalance_timeout_ms=60_000 if joins else -1,
                subscribed_topic_names=self.wanted[member_id] if joins else None,
                server_assignor=self.assignor if joins else None, topic_partitions=rows,
            )
        )  # fmt: skip
        before = epoch, self.held[member_id]
        self.epochs[member_id] = answer.member_epoch
        if answer.assignment is not None:
            self.held[member_id] = {row.topic_id: row.partitions for row in answer.assignment.topic_partitions}
        return before != (answer.member_epoch, self.held[member_id])

    def _asked(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """The answer, once the coordinator is there: the first groups of a broker come before it."""
        coming = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        answer = until(
            lambda: self.wire.ask(request),
            "the coordinator is not there",
            accept=lambda answer: answer.error_code not in coming,
            every_s=0.1,
        )
        assert answer.error_code == 0, answer
        return answer


@contextmanager
def beaters_cluster(topics: Mapping[str, int]) -> Iterator[KafkaCluster]:
    """A broker that computes assignments at once, and whose coordinator knows these topics (partitions by name)."""
    with KafkaCluster(properties={"group.consumer.assignment.interval.ms": "0"}) as running:
        running.create_topics(topics)
        wait_coordinator_knows(running.bootstrap, topics)
        yield running


def random_member_ids(chance: random.Random, count: int) -> list[str]:
    return [base64.urlsafe_b64encode(chance.randbytes(16)).decode()[:22] for _ in range(count)]


def wait_coordinator_knows(bootstrap: str, topics: Iterable[str]) -> None:
    """Wait until the group coordinator knows these topics: it learns of a new one after the broker's metadata has it,
    on a busy machine by seconds. What joins before gets nothing, and its group another epoch a little later."""
    names = sorted(topics)
    with WireClient(int(bootstrap.rpartition(":")[2])) as wire:
        group = BeatenGroup(wire, "knows-topics", names, "range")
        group.join("waits-for-topics", None)

        def known() -> int:
            group.settle()
            return len(group.held["waits-for-topics"])

        until(
            known, f"the coordinator does not know all of {names}",
            accept=lambda count: count == len(names), every_s=0.1,
        )  # fmt: skip
        group.leave("waits-for-topics")
