"""What the coordinators recorded about the groups: records of classic groups, target assignments of all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kgm.client import AdminClient
from kgm.client.in_parts import PART
from kgm.client.offsets_topic.group_tail import GroupRecordTail, RawRecord
from kgm.client.topic_log import partition_log
from kgm.java.partitions import partition_for
from kgm.model.errors import KgmError
from kgm.operations.doctor.findings import SkippedChecks

_CHECKS: Final = (
    "duplicate-instance-id",
    "session-too-short",
    "max-poll-exceeded",
    "frequent-rebalances",
    "offsets-expire-soon",
    "idle-group",
    "rejoins-refused",
)
#: The share of the remaining time that reading the coordinators' logs may take.
LOG_SHARE: Final = 0.3


class CoordinatorRecords:
    """Reads them back. If there are many groups, it keeps those of a few partitions of the log at a time: all of them
    would take more memory than everything else."""

    def __init__(self, cluster: AdminClient) -> None:
        self._cluster = cluster
        self._count = 0
        #: By partition: the groups, if they are many, and the records of those that are kept.
        self._groups: dict[int, list[str]] = {}
        self._kept: dict[int, Mapping[str, Sequence[RawRecord]]] = {}
        self._unread_because: str | None = None

    @property
    def skipped(self) -> list[SkippedChecks]:
        """The checks that need the records, if these could not be read."""
        why = self._unread_because
        return [] if why is None else [SkippedChecks(checks=_CHECKS, why=why)]

    def in_log_order(self, group_ids: Sequence[str]) -> Sequence[str]:
        """The groups that will be asked for. If they are many, those of one partition follow one another."""
        if len(group_ids) <= PART:
            return group_ids
        try:
            topic = partition_log.look_up(self._cluster.brokers, self._cluster.deadline.part(LOG_SHARE))
        except KgmError:
            return group_ids  # `read` will say why
        self._count = topic.partition_count
        for group_id in group_ids:
            self._groups.setdefault(partition_for(group_id, self._count), []).append(group_id)
        return [group_id for number in sorted(self._groups) for group_id in self._groups[number]]

    def read(self, group_ids: Sequence[str]) -> Mapping[str, Sequence[RawRecord]]:
        """By group, oldest first."""
        if not self._groups:
            return self._read(group_ids)
        wanted = {partition_for(group_id, self._count) for group_id in group_ids}
        self._kept = {
            number: self._kept[number] if number in self._kept else self._read(self._groups[number])
            for number in wanted
        }
        return {group_id: records for kept in self._kept.values() for group_id, records in kept.items()}

    def _read(self, group_ids: Sequence[str]) -> Mapping[str, Sequence[RawRecord]]:
        """Once this has failed, it reads no more, and leaves the time to the other checks."""
        if self._unread_because is not None or not group_ids:
            return {}
        tail = GroupRecordTail(self._cluster, group_ids, has_targets=True)
        records = tail.read_back(self._cluster.deadline.part(LOG_SHARE))
        self._unread_because = tail.unreadable_because or tail.interrupted_because
        return records
