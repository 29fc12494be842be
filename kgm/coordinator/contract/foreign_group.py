"""Groups of other kinds in the log, share and streams groups: kept and listed, not interpreted.

Their records are held as they are, so that the groups can be told apart from classic and consumer groups, whose ids
they block, and deleted when they have no members."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgm.protocol.struct import Message
from kgm.records.record import Record, encode_record
from kgm.records.record_types import SHARE_GROUP_TYPES, STREAMS_GROUP_TYPES, RecordType

SHARE, STREAMS = "share", "streams"
#: There is one such record for each member of a group.
_MEMBER_TYPES = (RecordType.SHARE_GROUP_MEMBER_METADATA, RecordType.STREAMS_GROUP_MEMBER_METADATA)


@dataclass(slots=True, kw_only=True)
class ForeignGroup:
    """A share or streams group. records: the last one of each key, by the key's bytes."""

    group_id: str
    group_type: str
    records: dict[bytes, Record] = field(default_factory=dict)
    is_shared: bool = False

    def copy(self) -> "ForeignGroup":
        return ForeignGroup(group_id=self.group_id, group_type=self.group_type, records=self.records.copy())

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not any(record.key.API_KEY in _MEMBER_TYPES for record in self.records.values())

    @property
    def state(self) -> str:
        """Empty, or Stable: what it is in between is not looked at."""
        return "Empty" if self.is_empty else "Stable"

    def tombstones(self) -> list[Record]:
        """Members first, and the group's own records last."""
        kept = sorted(self.records.items(), key=lambda row: (not hasattr(row[1].key, "member_id"), row[0]))
        return [Record(record.key, None) for _, record in kept]


def foreign_type(key: Message) -> str | None:
    """The type of the group that a record's key belongs to, or None if it is no such group."""
    kind = key.API_KEY
    return SHARE if kind in SHARE_GROUP_TYPES else STREAMS if kind in STREAMS_GROUP_TYPES else None


def replayed(groups: Mapping[str, object], record: Record, group_type: str) -> ForeignGroup | None:
    """The group with one more record; None if nothing is left of it."""
    group_id: str = record.key.group_id  # type: ignore[attr-defined]  # all of these keys have one
    known = groups.get(group_id)
    group = known if isinstance(known, ForeignGroup) else ForeignGroup(group_id=group_id, group_type=group_type)
    if group.is_shared:
        group = group.copy()
    key, _ = encode_record(Record(record.key, None))
    if record.value is None:
        group.records.pop(key, None)
    else:
        group.records[key] = record
    return group if group.records else None
