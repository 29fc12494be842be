"""What coordinators write about all groups of a cluster: when each last committed, and its rebalances.

The partitions of `__consumer_offsets` are read from an hour ago on, and then as they grow, within bounds: if a
partition has more than `MOST_RECORDS` to read, only the last ones are read, and `since_ms` says from when on nothing is
missing. For commits, of which there are many, only the group is decoded; those of a transaction are commits once its
marker is written. Times are by the coordinators' clocks. Reading requires READ on the topic; if that is missing, or the
topic cannot be read, `unreadable_because` says so."""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from kgm.client.admin_client import AdminClient
from kgm.client.topic_log import partition_log
from kgm.client.transport.brokers import BrokerNode
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.java.partitions import partition_for
from kgm.model.errors import DecodeError, KgmError
from kgm.records.batch import Batch, RawRecord
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.rebalances import EndedRebalances
from kgm.records.record import decode_record
from kgm.records.record_types import RecordType
from kgm.records.transactions import PendingItems

WINDOW_MS: Final = 3_600_000
#: The most offsets of a partition that are read at a time.
MOST_RECORDS: Final = 8_000
_KEY_HEAD: Final = struct.Struct(">hh")
_COMMITS: Final = (RecordType.OFFSET_COMMIT, RecordType.LEGACY_OFFSET_COMMIT)
#: Records that end a rebalance: a classic group's record has its generation, the others, of which each is one, have the
#: assignment epoch.
_REBALANCES: Final = (
    RecordType.GROUP_METADATA, RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA, RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
)  # fmt: skip


class LoggedGroup(NamedTuple):
    """What the log says about a group. read_ms: when its partition was last read; known_since_ms: from when on nothing
    is missing; both None if the partition was never read, or the last read failed. committed_ms: when the group last
    committed; None if it has not since known_since_ms. rebalances: how many ended since rebalances_since_ms, which is
    at most an hour ago; are_all_known: whether there were no more, because compaction removed no record of one.
    most_members: the most members that a classic group had after one of them."""

    read_ms: int | None
    known_since_ms: int | None
    committed_ms: int | None
    rebalances: int
    rebalances_since_ms: int | None
    most_members: int | None
    are_all_known: bool = True


class _Mark(NamedTuple):
    """A record that ends one or more rebalances. members: how many a classic group has, else None. is_whole: whether
    there were no more since the previous record."""

    at_ms: int
    rebalances: int
    members: int | None
    is_whole: bool


_NOTHING: Final = LoggedGroup(None, None, None, 0, None, None)


@dataclass(slots=True)
class _Ended:
    """The rebalances of a group until the record at this offset, the last one that ends some."""

    rebalances: EndedRebalances = field(default_factory=EndedRebalances)
    offset: int = -1


@dataclass(slots=True, kw_only=True)
class _Partition:
    """position: the next offset to read; None before the first read. since_ms: from when on all records were read.
    read_ms: when the partition was last read; None if the last read failed. open: the groups with offsets in open
    transactions. start: the first offset that was read, or the one after those that were left out; whole_from: the
    offset from which on compaction has removed no record. ended: what ended last, by the bytes of the group's id."""

    position: int | None = None
    open: PendingItems[bytes] = field(default_factory=PendingItems)
    since_ms: int = 0
    read_ms: int | None = None
    start: int = 0
    whole_from: int = 0
    ended: dict[bytes, _Ended] = field(default_factory=dict)

    def begin(self, first: int) -> None:
        """Read from this offset on, whatever was read before."""
        self.start = self.whole_from = first
        for ended in self.ended.values():
            ended.offset = -1


class FleetLog:
    """The records of all groups. clock: this machine's clock, in seconds since the epoch."""

    def __init__(self, cluster: AdminClient, *, clock: Callable[[], float] = time.time) -> None:
        self._cluster, self._clock = cluster, clock
        self._partitions: dict[int, _Partition] = {}
        #: By the bytes of the group's id: when it last committed, and its marks.
        self._commits: dict[bytes, int] = {}
        self._marks: dict[bytes, deque[_Mark]] = {}
        self._numbers_of_partitions: dict[str, int] = {}
        #: Why the topic, or part of it, could not be read last time; None if it could.
        self.unreadable_because: str | None = None

    def read(self, deadline: Deadline, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Read what is new. Raises nothing: what could not be read is read next time. is_enough: checked before each
        partition; the partitions left out come first next time."""
        try:
            topic = partition_log.look_up(self._cluster.brokers, deadline)
        except KgmError as error:
            self._could_not_read(self._partitions, error)
            return
        self.unreadable_because = None
        order = list(dict.fromkeys([*self._partitions, *range(topic.partition_count)]))
        self._partitions = {number: self._partitions.get(number) or _Partition() for number in order}
        by_leader: dict[BrokerNode, list[int]] = {}
        for number in order:
            if number in topic.leaders:
                by_leader.setdefault(topic.leaders[number].broker, []).append(number)
            else:
                self._could_not_read([number], partition_log.leaderless(number))
        for broker, numbers in by_leader.items():
            task = partial(self._read_led, numbers, deadline, is_enough)
            try:
                self._cluster.brokers.on_broker(broker, task, deadline)
            except KgmError as error:
                self._could_not_read(numbers, error)

    def _could_not_read(self, numbers: Iterable[int], error: KgmError) -> None:
        """Mark that what is known about these partitions' groups may no longer be complete."""
        self.unreadable_because = partition_log.why_unreadable(error)
        for number in numbers:
            self._partitions[number].read_ms = None

    def keep(self, group_ids: Collection[str]) -> None:
        """Forget all other groups."""
        kept = {group_id.encode() for group_id in group_ids}
        every: list[dict[bytes, Any]] = [self._commits, self._marks, *(one.ended for one in self._partitions.values())]
        for known in every:
            for group in known.keys() - kept:
                known.pop(group)
        for group_id in self._numbers_of_partitions.keys() - set(group_ids):
            self._numbers_of_partitions.pop(group_id)

    def of(self, group_id: str) -> LoggedGroup:
        """What is known about a group."""
        found = self._partition_of(group_id)
        if found is None or found.read_ms is None:
            return _NOTHING
        group = group_id.encode()
        committed_ms, counted_ms = self._commits.get(group, 0), max(found.since_ms, found.read_ms - WINDOW_MS)
        marks = [mark for mark in self._marks.get(group, ()) if mark.at_ms >= counted_ms]
        return LoggedGroup(
            read_ms=found.read_ms,
            known_since_ms=found.since_ms,
            committed_ms=committed_ms if committed_ms >= found.since_ms else None,
            rebalances=sum(mark.rebalances for mark in marks),
            rebalances_since_ms=counted_ms,
            most_members=max((mark.members for mark in marks if mark.members is not None), default=None),
            are_all_known=all(mark.is_whole for mark in marks),
        )

    def _partition_of(self, group_id: str) -> _Partition | None:
        if not self._partitions:
            return None
        number = self._numbers_of_partitions.get(group_id)
        if number is None:
            number = self._numbers_of_partitions[group_id] = partition_for(group_id, len(self._partitions))
        return self._partitions[number]

    def _now_ms(self) -> int:
        return round(self._clock() * 1000)

    def _read_led(
        self, numbers: Sequence[int], deadline: Deadline, is_enough: Callable[[], bool], connection: BrokerConnection
    ) -> None:
        """Read partitions of one leader. Raises KgmError."""
        ends = partition_log.end_offsets(connection, numbers, deadline)
        new = [number for number in numbers if self._partitions[number].position is None]
        now_ms = self._now_ms()
        firsts = partition_log.offsets_at(connection, new, now_ms - WINDOW_MS, deadline) if new else {}
        for number in numbers:
            if is_enough():
                break
            found = self._partitions.pop(number)
            self._partitions[number] = found  # at the end: the others come first next time
            end, first, since_ms, open_ = ends[number], found.position, found.since_ms, found.open.copy()
            if first is None or end < first:  # the topic was deleted and created again
                first, since_ms = firsts.get(number, -1), now_ms - WINDOW_MS
                first = end if first < 0 else first
                open_.pending.clear()
                found.begin(first)
            if end > first:
                since_ms = self._read_partition(number, first, end, since_ms, open_, deadline, connection)
            # Only now: after a failure, the same records are read again.
            found.position, found.since_ms, found.read_ms, found.open = end, since_ms, now_ms, open_

    def _read_partition(
        self, number: int, position: int, end: int, since_ms: int, open_: PendingItems[bytes], deadline: Deadline,
        connection: BrokerConnection,
    ) -> int:  # fmt: skip
        """Returns from when on nothing is missing."""
        first = max(position, end - MOST_RECORDS)
        is_cut = first > position
        found = self._partitions[number]
        if is_cut:
            open_.pending.clear()
            found.start = found.whole_from = first
        following = first
        for fetched in partition_log.fetch_batches(connection, number, first, end, deadline):
            if is_cut:
                since_ms, is_cut = fetched[0].max_timestamp, False
            for batch in fetched:
                records = () if batch.is_control else batch.records
                gaps, whole_from = partition_log.gaps(batch, records, following, end), found.whole_from
                following = batch.last_offset + 1
                committing: set[bytes] = set()
                for row in records:
                    if gaps:
                        found.whole_from = partition_log.last_gap(gaps, row.offset, whole_from)
                    if first <= row.offset < end:
                        self._note(batch, row, since_ms, found, committing)
                found.whole_from = partition_log.last_gap(gaps, end, whole_from)
                for group in committing:
                    open_.add(batch, group)
                if batch.is_control and first <= batch.base_offset < end:
                    self._end_transaction(batch, open_)
        return since_ms

    def _end_transaction(self, batch: Batch, open_: PendingItems[bytes]) -> None:
        ended = open_.end(batch)
        if ended is not None and ended[0].is_committed:
            self._commits |= dict.fromkeys(ended[1], ended[0].at_ms)

    def _note(
        self, batch: Batch, row: RawRecord, since_ms: int, found: _Partition, committing: set[bytes]
    ) -> None:  # fmt: skip
        """Take a record of a batch. committing: receives the group if it commits with the batch's transaction."""
        key = row.key
        if key is None or len(key) < _KEY_HEAD.size:
            return
        kind, size = _KEY_HEAD.unpack_from(key)
        group = key[_KEY_HEAD.size : _KEY_HEAD.size + size]
        if kind in _REBALANCES:
            self._note_rebalance(group, row, since_ms, found)
        elif row.value is None or kind not in _COMMITS:
            return
        elif batch.transactional:
            committing.add(group)
        else:
            self._commits[group] = row.timestamp

    def _note_rebalance(self, group: bytes, row: RawRecord, since_ms: int, found: _Partition) -> None:
        """Take a record of a group's generation or target assignment, unless it was taken by a read that failed
        later."""
        ended = found.ended.setdefault(group, _Ended())
        last, before = ended.offset, ended.rebalances.number
        if row.key is None or row.offset <= last:
            return
        try:
            decoded = decode_record(row.key, row.value).value
        except DecodeError:
            return
        ended.offset = row.offset
        members = None
        if decoded is None:
            ended.rebalances.removed()
            return
        follows_gap = found.whole_from > (found.start if before is None else last)
        if isinstance(decoded, GroupMetadataValue):
            number, members = decoded.generation, len(decoded.members)
            least, most = ended.rebalances.generation(number, is_empty=members == 0, follows_gap=follows_gap)
            # A record written for a replaced static member is not a rebalance; it has the timestamp of the last one.
            is_old = 0 <= decoded.current_state_timestamp < since_ms
            is_new, is_first = not is_old and number > 0 and members != 0, is_old or number <= 1
        else:
            number, is_new = decoded.assignment_epoch, True  # type: ignore[attr-defined]
            least, most = ended.rebalances.target(number, follows_gap=follows_gap)
            is_first = number <= 2  # the first one of a group has epoch 1 or 2
        is_whole = least == most
        if before is None:
            least, is_whole = int(is_new), is_first or not follows_gap
        marks = self._marks.setdefault(group, deque())
        while marks and marks[0].at_ms < row.timestamp - WINDOW_MS:
            marks.popleft()
        marks.append(_Mark(row.timestamp, least, members, is_whole))
