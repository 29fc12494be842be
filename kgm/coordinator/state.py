"""The state that a log describes: the groups and offsets of one shard, and how replayed records change them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kgm.coordinator.classic.records import group_from_record
from kgm.coordinator.consumer import records as consumer_records
from kgm.coordinator.contract.behavior import REFERENCE_BEHAVIOR, CoordinatorBehavior
from kgm.coordinator.contract.outcome import Producer
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.foreign_group import ForeignGroup, is_foreign
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.groups.streams_topology import ConfiguredTopology
from kgm.coordinator.offsets.store import Offsets, from_legacy
from kgm.coordinator.streams import records as streams_records
from kgm.protocol.struct import Message
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from kgm.records.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record

_CONSUMER_KEYS = frozenset(consumer_records.KEYS)
_STREAMS_KEYS = frozenset(streams_records.KEYS)
_Owned = TypeVar("_Owned", ConsumerGroup, StreamsGroup)


@dataclass(slots=True)
class CoordinatorState:
    """Groups by group id, and offsets. Offsets and non-classic groups are written only here. Classic groups are also
    replaced by drafts that take effect (`Coordinator`)."""

    groups: dict[str, Group] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    behavior: CoordinatorBehavior = REFERENCE_BEHAVIOR
    _undescribed: set[str] = field(default_factory=set)

    def replay(self, record: Record, producer: Producer | tuple[int, int] | None, *, is_own: bool) -> None:
        """A record is in the log. is_own: it belongs to the outcome in flight, whose draft already has the classic
        group."""
        if type(record.key) in _CONSUMER_KEYS:  # most records of a rebalance have these keys
            self._replay_owned(record, ConsumerGroup, consumer_records.ends_group, consumer_records.replay)
            return
        if type(record.key) in _STREAMS_KEYS:
            self._replay_owned(record, StreamsGroup, streams_records.ends_group, streams_records.replay)
            return
        match record.key, record.value:
            case OffsetCommitKey() as key, (OffsetCommitValue() | None) as value:
                self.offsets.replay(key, value, None if producer is None else producer[0])
                if value is not None and key.group not in self.groups:
                    self.groups[key.group] = ClassicGroup(group_id=key.group)
            case LegacyOffsetCommitKey() as key, (LegacyOffsetCommitValue() | None) as value:
                self.replay(from_legacy(key, value), producer, is_own=is_own)
            case GroupMetadataKey() as key, None:
                self.groups.pop(key.group, None)
            case GroupMetadataKey() as key, GroupMetadataValue() as value:
                if not is_own:
                    self.groups[key.group] = group_from_record(key.group, value)
            case _:
                self._replay_foreign_group(record)

    def replay_targets(self, run: Sequence[Record]) -> None:
        """Records of changed targets are in the log."""
        assert isinstance(run, consumer_records.TargetRecords)
        group = self.groups[run.group_id]
        assert isinstance(group, ConsumerGroup)
        if group.is_shared:
            self.groups[run.group_id] = group = group.copy()
        group.put_spans(run.topics, run.spans)

    def _recorded_group(self, record: Record) -> tuple[str, Group | None]:
        """The id of the group that a record belongs to, and the group as built from the records before it."""
        group_id: str = record.key.group_id  # type: ignore[attr-defined]  # all of these keys have one
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup) and group.protocol_type is None and group.is_empty:
            # A simple group has no record of its own: the log had offsets for this group id before any group record.
            group = None
            if record.value is None:
                self.groups.pop(group_id)
        return group_id, group

    def _replay_owned(
        self, record: Record, kind: type[_Owned], ends_group: Callable[[Record], bool],
        replay: Callable[[_Owned, Message, Message | None], None],
    ) -> None:  # fmt: skip
        """A record of a consumer or a streams group. ends_group, replay: of the module that has its records."""
        group_id, group = self._recorded_group(record)
        if ends_group(record):
            if isinstance(group, kind):
                self.groups.pop(group_id)
            return
        if not isinstance(group, kind):
            if record.value is None:
                return
            group = kind.new(group_id, self.behavior)
        elif group.is_shared:
            group = group.copy()
        self.groups[group_id] = group
        replay(group, record.key, record.value)

    def _replay_foreign_group(self, record: Record) -> None:
        group_id = getattr(record.key, "group_id", "")
        installed = self.groups.get(group_id)
        if not is_foreign(record.key) or (record.value is None and not isinstance(installed, ForeignGroup)):
            return
        if isinstance(installed, ForeignGroup):
            group = installed.copy() if installed.is_shared else installed
        else:
            group = ForeignGroup(group_id=group_id)
        group.put(record)
        self.groups.pop(group_id, None)
        if group.records:
            self.groups[group_id] = group

    def own(self, group: _Owned) -> _Owned:
        """The group, copied if a fork shares the object, so that it can be changed."""
        if group.is_shared:
            group = group.copy()
            self.groups[group.group_id] = group
        return group

    def configured(self, topologies: Mapping[str, ConfiguredTopology], *, is_written: bool) -> None:
        """Store how the topics fit the topologies of streams groups. is_written: something was written to the log, so
        others can now see this, both for these groups and for groups where it was stored earlier."""
        for group_id, topology in topologies.items():
            group = self.groups.get(group_id)
            if isinstance(group, StreamsGroup):
                self.own(group).configured = topology
                self._undescribed.add(group_id)
        if is_written and self._undescribed:
            for group in self._all_undescribed():
                group.described = group.configured

    def forget_topologies(self) -> None:
        """An append has failed: restore what streams groups knew at the last record of the shard."""
        for group in self._all_undescribed():
            group.configured = group.described

    def _all_undescribed(self) -> list[StreamsGroup]:
        """The groups whose `configured` differs from what others see (`described`). The set is cleared: the caller must
        make the two equal."""
        group_ids, self._undescribed = self._undescribed, set()
        found = [self.groups.get(group_id) for group_id in group_ids]
        return [self.own(group) for group in found if isinstance(group, StreamsGroup)]

    def fork(self) -> "CoordinatorState":
        """An independent copy. Groups are shared until one of the two changes them."""
        for group in self.groups.values():
            group.is_shared = True
        return CoordinatorState(self.groups.copy(), self.offsets.fork(), self.behavior, self._undescribed.copy())
