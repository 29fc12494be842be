"""What is requested from the cluster besides group descriptions: what holds up partitions with lag, whether commits can
be written, and topics that no longer exist."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kgm.client import AdminClient
from kgm.client.lag_times import with_lag_times
from kgm.client.offsets_topic.group_tail import RecordedGroup
from kgm.client.offsets_topic.writability import Writability, writability
from kgm.client.topic_log import partition_log
from kgm.java.partitions import partition_for
from kgm.model.errors import ErrorCode, KgmError, NotFoundError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.doctor import poll_intervals
from kgm.operations.doctor.coordinator_records import LOG_SHARE
from kgm.operations.doctor.findings import SkippedChecks

#: A lag up to this many records can be nothing but transaction markers, one per transaction.
_MOST_MARKERS: Final = 2
#: Records of at most this many groups are read, because each one takes time.
_MOST_TIMED: Final = 10
_UNKNOWN_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@dataclass(slots=True)
class WaitingPartitions:
    """What holds up partitions with lag. stable_ends: the last stable offsets (KIP-98) by (topic, partition), for the
    groups in the latest `look_at`."""

    cluster: AdminClient
    stable_ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    _marker_ends: set[tuple[str, tuple[str, int]]] = field(default_factory=set)
    _timed: int = 0

    def look_at(self, groups: Collection[GroupSnapshot]) -> None:
        """For partitions with lag, find out whether a transaction is open in them; for those whose lag is small enough
        to be only transaction markers, whether it is."""
        pairs = {(row.topic, row.partition) for group in groups for row in group.offsets if row.lag}
        self.stable_ends = self.cluster.end_offsets(pairs, is_stable=True) if pairs else {}
        few = [
            replace(
                group, members=(), offsets=tuple(row for row in group.offsets if 0 < (row.lag or 0) <= _MOST_MARKERS)
            )
            for group in groups
        ]
        chosen = [group for group in few if group.offsets][: max(_MOST_TIMED - self._timed, 0)]
        self._timed += len(chosen)
        self._marker_ends = {
            (group.group_id, (topic, number))
            for group in with_lag_times(self.cluster, chosen)
            for topic, numbers in group.marker_ends.items()
            for number in numbers
        }
        self.cluster.offsets.unread_times.clear()  # without permission, any lag counts as records to read

    def marker_ends_of(self, group_id: str) -> frozenset[tuple[str, int]]:
        """The (topic, partition) pairs of a group where only transaction markers are left to read."""
        return frozenset(place for one, place in self._marker_ends if one == group_id)


@dataclass(slots=True)
class OffsetsPartitions:
    """Which partitions of `__consumer_offsets` took no records at any look."""

    cluster: AdminClient
    _count: int = 0
    _unwritable: dict[int, Writability] = field(default_factory=dict)
    _reasons: set[str] = field(default_factory=set)

    @property
    def skipped(self) -> list[SkippedChecks]:
        """What is not known about them."""
        return [SkippedChecks(checks=("commits-refused",), why=why, is_optional=True) for why in sorted(self._reasons)]

    def look_at(self, group_ids: Collection[str]) -> None:
        """Look at the partitions of these groups."""
        if not group_ids:
            return
        brokers, deadline = self.cluster.brokers, self.cluster.deadline.part(LOG_SHARE)
        try:
            topic = partition_log.look_up(brokers, deadline)
        except KgmError as error:
            if not isinstance(error, NotFoundError):
                self._reasons.add(partition_log.why_unreadable(error))
            return
        self._count = topic.partition_count
        numbers = {partition_for(group_id, self._count) for group_id in group_ids}
        for number, one in writability(brokers, topic, numbers, deadline).items():
            if one.takes_records is None:
                self._reasons.add(one.why_not)
            elif not one.takes_records:
                self._unwritable[number] = one

    def unwritable_of(self, group_id: str) -> Writability | None:
        """The group's partition, if it took no records at some look."""
        return self._unwritable.get(partition_for(group_id, self._count)) if self._count else None


def vanished_topics(cluster: AdminClient, group: GroupSnapshot, recorded: Sequence[RecordedGroup]) -> frozenset[str]:
    """Topics that members used to subscribe to and that do not exist."""
    names = poll_intervals.vanishing_topics(recorded, group) if group.state == "Stable" else set()
    if not names:
        return frozenset()
    try:
        rows = cluster.brokers.metadata(sorted(names), cluster.deadline).topics
    except KgmError:
        return frozenset()  # unknown, so not reported
    return frozenset(row.name for row in rows if row.name and row.error_code == _UNKNOWN_TOPIC)
