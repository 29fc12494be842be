"""All groups of one partition of `__consumer_offsets`: their rows, and the state needed to continue."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter, itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.causes.session_timeouts import SessionLookup, no_session
from kgm.history.decode.arrow_lists import to_list
from kgm.history.decode.framework_records import (
    GROUP_TYPES,
    SHARE,
    STREAMS,
    as_consumer_record,
    subtopologies,
    subtopology_topic,
)
from kgm.history.decode.message_objects import message_objects
from kgm.history.decode.record_tables import Decoded
from kgm.history.decode.vector_cursor import Positions
from kgm.history.facts.classic_groups import ClassicGroupFacts, ClassicGroupState
from kgm.history.facts.commit_windows import CommitWindow, GroupCommits, commit_windows
from kgm.history.facts.consumer_groups import CONSUMER, RECORD_TYPES, ConsumerGroupFacts
from kgm.history.facts.consumer_state import ConsumerGroupState
from kgm.history.facts.restarts import Restarts, RestartState
from kgm.history.reconstruct.classic_snapshots import MemberChange, Rebalance, Snapshot
from kgm.history.reconstruct.partition_replay import PartitionReplay, Timeline
from kgm.history.row_tables import RowCollector
from kgm.history.rows import TopicRow
from kgm.history.state_json import dump_state, load_state
from kgm.protocol.struct import Message
from kgm.records.record import message_classes
from kgm.records.record_types import RecordType

_NO_ID = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """The state kept for a group. gaps: how many gaps the partition's offsets had before the group's last record with
    epochs. classic, consumer, streams, share: None if it has not been of that type; a group can change its type."""

    gaps: int = 0
    restarts: RestartState = field(default_factory=RestartState)
    classic: ClassicGroupState | None = None
    consumer: ConsumerGroupState | None = None
    streams: ConsumerGroupState | None = None
    share: ConsumerGroupState | None = None


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """A record of a group with epochs, converted to a consumer group's record (`framework_records`). group_type: the
    group's real type; gaps: how many gaps in the partition's offsets precede it."""

    group_type: str
    offset: int
    timestamp: int
    leader_epoch: int | None
    key: Message
    value: Message | None
    gaps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecords:
    """Some records of a partition. offsets, gaps: of each record, the offset and how many gaps precede it. decoded: the
    records. timelines: by group. commits: by `schema.SILVER_COMMIT`; they include commits of earlier records whose
    transaction has ended."""

    offsets: Positions
    gaps: Positions
    decoded: Decoded
    timelines: Mapping[str, Timeline]
    commits: pa.Table


@dataclass(slots=True)
class Partition:
    """replay: of the metadata records of classic groups; it also counts offsets and gaps. topics: the name of each
    known topic id (in hex), and the offset of the record that has it. groups: the `GroupState` of each, as JSON.
    every_type: whether its streams and share groups were read from its beginning on."""

    number: int
    replay: PartitionReplay
    topics: dict[str, tuple[int, str]] = field(default_factory=dict)
    groups: dict[str, bytes] = field(default_factory=dict)
    every_type: bool = True

    def name(self, topic: str, offset: int) -> str | None:
        """The name of a topic id, if a record up to an offset has it."""
        known = self.topics.get(topic)
        return None if known is None or known[0] > offset else known[1]

    def feed(
        self, rows: RowCollector, records: PartitionRecords, *, session_of_group: SessionLookup = no_session
    ) -> None:
        """Derive the rows that the records add."""
        self._add_topics(rows, records.decoded)
        by_epochs = _epoch_records(records)
        timelines = records.timelines
        # Most groups of a log can have nothing but commits: no state is kept for these.
        commits = commit_windows(records.commits, timelines.keys() | by_epochs.keys() | self.groups.keys())
        touched = timelines.keys() | by_epochs.keys() | (commits.keys() & self.groups.keys())
        for name in sorted(touched):
            state = self.groups.get(name)
            known = GroupState() if state is None else load_state(GroupState, state)
            group = _Group(self, rows, name, known, session_of_group)
            group.feed(timelines.get(name), by_epochs.get(name, []), commits.get(name))
            self.groups[name] = dump_state(group.finish())

    def _add_topics(self, rows: RowCollector, decoded: Decoded) -> None:
        for offset, topic_id, name in sorted(
            [*_committed_topics(decoded), *_listed_topics(decoded), *_listed_subtopologies(decoded)]
        ):
            if topic_id != _NO_ID and topic_id.hex() not in self.topics:
                self.topics[topic_id.hex()] = offset, name
                rows.put(TopicRow(partition=self.number, topic_id=topic_id, topic=name, offset=offset))


def _committed_topics(decoded: Decoded) -> list[tuple[int, bytes, str]]:
    """(offset, topic id, name) of each topic's first commit that has its id."""
    if RecordType.OFFSET_COMMIT not in decoded.records:
        return []
    table = decoded.records[RecordType.OFFSET_COMMIT]
    chosen = pa.table({
        "offset": table.column("offset"),
        "id": pc.struct_field(table.column("value"), "topic_id"),
        "topic": pc.struct_field(table.column("key"), "topic"),
    })  # fmt: skip
    chosen = chosen.filter(pc.is_valid(chosen.column("id")))
    first = chosen.group_by(["id", "topic"]).aggregate([("offset", "min")])
    names = ("offset_min", "id", "topic")
    return list(zip(*(first.column(name).to_pylist() for name in names), strict=True))


def _listed_topics(decoded: Decoded) -> list[tuple[int, bytes, str]]:
    """The same from the records that list a group's topics, which brokers before 4.1 wrote."""
    kind = RecordType.CONSUMER_GROUP_PARTITION_METADATA
    if kind not in decoded.records:
        return []
    table = decoded.records[kind]
    values = message_objects(message_classes(kind)[1], table.column("value"))
    return [
        (offset, topic.topic_id, topic.topic_name)
        for offset, value in zip(to_list(table.column("offset")), values, strict=True)
        if value is not None
        for topic in value.topics or ()
    ]


def _listed_subtopologies(decoded: Decoded) -> Iterator[tuple[int, bytes, str]]:
    """The same for the subtopologies of streams groups, which stand for topics."""
    kind = RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT
    if kind in decoded.records:
        table = decoded.records[kind]
        values = message_objects(message_classes(kind)[1], table.column("value"))
        for offset, value in zip(to_list(table.column("offset")), values, strict=True):
            for subtopology_id in subtopologies(value):
                yield offset, *subtopology_topic(subtopology_id)


def _epoch_records(records: PartitionRecords) -> dict[str, list[EpochRecord]]:
    """The records of groups with epochs, by group, in order."""
    by_group: dict[str, list[EpochRecord]] = {}
    for kind in (*RECORD_TYPES, *GROUP_TYPES):
        if kind not in records.decoded.records:
            continue
        table = records.decoded.records[kind]
        gaps = records.gaps[np.searchsorted(records.offsets, table.column("offset").to_numpy())].tolist()
        groups = to_list(pc.struct_field(table.column("key"), "group_id"))
        plain = (to_list(table.column(name)) for name in ("offset", "timestamp", "leader_epoch"))
        keys, values = (
            message_objects(cls, table.column(name))
            for cls, name in zip(message_classes(kind), ("key", "value"), strict=True)
        )
        group_type = GROUP_TYPES.get(kind, CONSUMER)
        messages = list(zip(keys, values, strict=True))
        if kind in GROUP_TYPES:
            messages = [as_consumer_record(kind, key, value) for key, value in messages]
        for group, offset, timestamp, leader_epoch, (key, value), before in zip(
            groups, *plain, messages, gaps, strict=True
        ):
            record = EpochRecord(group_type, offset, timestamp, leader_epoch, key, value, before)
            by_group.setdefault(group, []).append(record)
    for each in by_group.values():
        each.sort(key=attrgetter("offset"))
    return by_group


class _Group:
    """Processes one group's records, whatever type it has at each of them."""

    def __init__(
        self, partition: Partition, rows: RowCollector, name: str, state: GroupState, session_of_group: SessionLookup
    ) -> None:
        number = partition.number
        self.gaps, self.every_type = state.gaps, partition.every_type
        self.restarts = Restarts(rows, state.restarts)
        self.is_classic = state.classic is not None
        self.classic = ClassicGroupFacts(rows, number, name, self.restarts, state.classic or ClassicGroupState())
        self._make = partial(
            ConsumerGroupFacts, rows, number, name, partition.name, self.restarts, session_of_group=session_of_group
        )
        #: By type, for each type that the group has had.
        self.by_epochs = {
            kind: self._make(known, group_type=kind)
            for kind, known in ((CONSUMER, state.consumer), (STREAMS, state.streams), (SHARE, state.share))
            if known is not None
        }

    def feed(self, timeline: Timeline | None, records: Sequence[EpochRecord], commits: GroupCommits | None) -> None:
        """Process the records of all types, with the commits between them, in order."""
        steps: list[tuple[int, Callable[[], None]]] = [
            (record.offset, partial(self._by_epochs, record)) for record in records
        ]
        if timeline is not None:
            self.classic.previous = timeline.before
            steps += self._classic_steps(timeline)
        steps.sort(key=itemgetter(0))
        windows = None if commits is None else commits.windows([offset for offset, _ in steps])
        for at, (_, step) in enumerate(steps):
            self._committed(windows, at)
            step()
        self._committed(windows, len(steps))
        if timeline is not None:
            self.classic.timed(timeline.history.rebalances)

    def finish(self) -> GroupState:
        """Put the rows that are still open; returns the state to keep."""
        if self.is_classic:
            self.classic.finish()
        for facts in self.by_epochs.values():
            facts.finish()
        states = {kind: facts.state() for kind, facts in self.by_epochs.items()}
        return GroupState(
            gaps=self.gaps, restarts=self.restarts.state, classic=self.classic.state() if self.is_classic else None,
            consumer=states.get(CONSUMER), streams=states.get(STREAMS), share=states.get(SHARE),
        )  # fmt: skip

    def _committed(self, windows: list[list[CommitWindow]] | None, at: int) -> None:
        """Process commits. Commits before the group's first record say nothing about it, and are skipped."""
        if windows is not None and windows[at]:
            if self.is_classic:
                self.classic.committed(windows[at])
            for facts in self.by_epochs.values():
                facts.committed(windows[at])

    def _classic_steps(self, timeline: Timeline) -> list[tuple[int, Callable[[], None]]]:
        history = timeline.history
        changes: dict[int, list[MemberChange]] = {}
        for change in history.changes:
            changes.setdefault(change.offset, []).append(change)
        rebalances = {each.offset: each for each in history.rebalances}
        return [
            (
                each.offset,
                partial(
                    self._classic, each, changes.get(each.offset, ()), rebalances.get(each.offset),
                    timeline.leader_epochs[each.offset],
                ),
            )
            for each in history.snapshots
        ]  # fmt: skip

    def _classic(
        self, snapshot: Snapshot, changes: Sequence[MemberChange], rebalance: Rebalance | None, leader_epoch: int | None
    ) -> None:
        self.is_classic = True
        # The conversion deletes the consumer group's record and writes this one for the same request. A coordinator
        # before 4.0 also starts a group like this, with its first completed generation.
        before = self.by_epochs.get(CONSUMER)
        removed_at = None if before is None else before.removed_at
        converted = self.classic.previous is None and removed_at == snapshot.timestamp
        self.classic.snapshot(snapshot, changes, rebalance, leader_epoch, converted=converted)

    def _by_epochs(self, record: EpochRecord) -> None:
        kind = record.group_type
        if kind not in self.by_epochs:
            state = ConsumerGroupState()
            if kind != CONSUMER and not self.every_type:
                state.group.whole, state.pending.broken = False, True
            self.by_epochs[kind] = self._make(state, group_type=kind)
        facts = self.by_epochs[kind]
        at = facts.group.record(record.offset, record.timestamp, record.leader_epoch)
        facts.record(at, record.key, record.value, complete=record.gaps == self.gaps)
        self.gaps = record.gaps
