"""Share groups: kept and listed, not interpreted.

Their records are kept as they are. So these groups can be told apart from other types of group, which cannot use their
ids, and they can be deleted when they have no members."""

from dataclasses import dataclass, field
from typing import ClassVar

from kgm.protocol.struct import Message
from kgm.records.record import Record, encode_record
from kgm.records.record_types import SHARE_GROUP_TYPES, RecordType

SHARE = "share"


@dataclass(slots=True, kw_only=True)
class ForeignGroup:
    """A share group. records: the last record for each key, by the key's bytes. is_shared: a fork has the same object,
    so it is copied before it is changed."""

    group_type: ClassVar[str] = SHARE
    protocol_type: ClassVar[str] = SHARE
    group_id: str
    records: dict[bytes, Record] = field(default_factory=dict)
    is_shared: bool = False

    def copy(self) -> "ForeignGroup":
        return ForeignGroup(group_id=self.group_id, records=self.records.copy())

    def put(self, record: Record) -> None:
        """A record of this group is in the log."""
        key, _ = encode_record(Record(record.key, None))
        if record.value is None:
            self.records.pop(key, None)
        else:
            self.records[key] = record

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return all(row.key.API_KEY != RecordType.SHARE_GROUP_MEMBER_METADATA for row in self.records.values())

    @property
    def state(self) -> str:
        """Empty or Stable; the states in between are not computed."""
        return "Empty" if self.is_empty else "Stable"

    def is_subscribed_to(self, topic: str) -> bool:  # noqa: ARG002  (as in the other types of group)
        """False: subscriptions of these groups are not read."""
        return False

    def tombstones(self) -> list[Record]:
        """Tombstones for all its records: those of members first, the group's own last."""
        rows = sorted(self.records.items(), key=lambda row: (not hasattr(row[1].key, "member_id"), row[0]))
        return [Record(record.key, None) for _, record in rows]


def is_foreign(key: Message) -> bool:
    """Whether a record's key belongs to such a group."""
    return key.API_KEY in SHARE_GROUP_TYPES
