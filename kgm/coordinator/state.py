"""What a log says: the groups and the offsets of one shard, and the replay of records that writes them."""

from dataclasses import dataclass, field

from kgm.coordinator.classic.records import group_from_record
from kgm.coordinator.consumer import records as consumer_records
from kgm.coordinator.contract.behavior import REFERENCE_BEHAVIOR, CoordinatorBehavior
from kgm.coordinator.contract.outcome import Producer
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.foreign_group import ForeignGroup, foreign_type
from kgm.coordinator.groups.group import Group
from kgm.coordinator.offsets.store import Offsets, from_legacy
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from kgm.records.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record

_CONSUMER_KEYS = frozenset(consumer_records.KEYS)


@dataclass(slots=True)
class CoordinatorState:
    """Groups by group id, and offsets. Offsets and groups that are not classic are written here only. Classic groups
    also take effect from drafts (`Coordinator`)."""

    groups: dict[str, Group] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    behavior: CoordinatorBehavior = REFERENCE_BEHAVIOR

    def replay(self, record: Record, producer: Producer | tuple[int, int] | None, *, is_own: bool) -> None:
        """A record is in the log. is_own: it is a record of the outcome in flight, whose draft has its classic
        group."""
        if type(record.key) in _CONSUMER_KEYS:  # most records of a rebalance are of these
            self._replay_consumer_group(record)
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

    def _replay_consumer_group(self, record: Record) -> None:
        group_id: str = record.key.group_id  # type: ignore[attr-defined]  # all of these keys have one
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup) and group.protocol_type is None and group.is_empty:
            # A simple group has no record of its own: there were offsets of this group before its records.
            group = None
            if record.value is None:
                self.groups.pop(group_id)
        if consumer_records.ends_group(record):
            if isinstance(group, ConsumerGroup):
                self.groups.pop(group_id)
            return
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            group = ConsumerGroup.new(group_id, self.behavior)
        elif group.is_shared:
            group = group.copy()
        self.groups[group_id] = group
        consumer_records.replay(group, record.key, record.value)

    def _replay_foreign_group(self, record: Record) -> None:
        group_type, group_id = foreign_type(record.key), getattr(record.key, "group_id", "")
        installed = self.groups.get(group_id)
        if group_type is None or (record.value is None and not isinstance(installed, ForeignGroup)):
            return
        if isinstance(installed, ForeignGroup):
            group = installed.copy() if installed.is_shared else installed
        else:
            group = ForeignGroup(group_id=group_id, group_type=group_type)
        group.put(record)
        self.groups.pop(group_id, None)
        if group.records:
            self.groups[group_id] = group

    def own(self, group: ConsumerGroup) -> ConsumerGroup:
        """The group, copied if a fork has the same object, so that it may be changed."""
        if group.is_shared:
            group = self.groups[group.group_id] = group.copy()
        return group

    def fork(self) -> "CoordinatorState":
        """An independent copy. Groups are shared until one of the two changes them."""
        for group in self.groups.values():
            group.is_shared = True
        return CoordinatorState(self.groups.copy(), self.offsets.fork(), self.behavior)
