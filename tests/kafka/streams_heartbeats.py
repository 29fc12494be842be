"""Members of a streams group (KIP-1071) that are single heartbeats: a whole group lives on one connection, without a
JVM of its own."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Final

from kgm.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    Topology,
)
from tests.server.wire_client import WireClient
from tests.waiting import NOT_READY, until

#: The settings of a group for which the broker assigns tasks immediately.
PROMPT: Final = {"streams.initial.rebalance.delay.ms": 0, "streams.assignment.interval.ms": 0}


@dataclass
class _Member:
    process_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    epoch: int = 0
    tasks: list[int] = field(default_factory=list)


class StreamsHeartbeats:
    """A group with one subtopology, which reads a topic, and its members, each in a process of its own."""

    def __init__(self, wire: WireClient, group_id: str, topic: str) -> None:
        self._wire, self._group_id = wire, group_id
        self._topology = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=[topic])])
        self._members: dict[str, _Member] = {}

    def join(self, member_ids: list[str], *, tasks: int) -> None:
        """These members join, and the group is stable with so many tasks."""
        for member_id in member_ids:
            self._members[member_id] = _Member()
        until(lambda: self._have(tasks), lambda: f"not all tasks are assigned: {self._members}", 60, every_s=0.1)

    def _have(self, tasks: int) -> bool:
        changes = [self._heartbeat(member_id) for member_id in self._members]
        held = sorted(number for one in self._members.values() for number in one.tasks)
        return not any(changes) and held == list(range(tasks)) and all(one.tasks for one in self._members.values())

    def _heartbeat(self, member_id: str) -> bool:
        """Send one heartbeat; returns whether the answer changes the member's epoch or tasks."""
        one = self._members[member_id]
        joins = one.epoch == 0
        answer = self._wire.ask(
            StreamsGroupHeartbeatRequest(
                group_id=self._group_id, member_id=member_id, member_epoch=one.epoch,
                rebalance_timeout_ms=60_000 if joins else -1, topology=self._topology if joins else None,
                process_id=one.process_id if joins else None, standby_tasks=[], warmup_tasks=[],
                active_tasks=[TaskIds(subtopology_id="0", partitions=one.tasks)] if one.tasks else [],
            ),
            version=0,
        )  # fmt: skip
        if answer.error_code in NOT_READY:
            return True
        assert answer.error_code == 0, answer
        before = one.epoch, one.tasks
        one.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            one.tasks = sorted(number for row in answer.active_tasks for number in row.partitions)
        return before != (one.epoch, one.tasks)
