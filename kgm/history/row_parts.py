"""Building blocks for the rows of the history's tables: the types of columns, and groups of columns."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, TypedDict

#: Marks a column without nulls.
NOT_NULL: Final = "not null"
Int8 = Annotated[int, "int8"]
Int16 = Annotated[int, "int16"]
Int32 = Annotated[int, "int32"]
Partition = Annotated[int, "int32", NOT_NULL]
Offset = Annotated[int, NOT_NULL]
Required = Annotated[str, NOT_NULL]


class RecordColumns(TypedDict):
    """The columns with which every table of records begins (`schema.POSITION`)."""

    partition: int
    offset: int
    timestamp: int
    leader_epoch: int | None


class GroupColumns(TypedDict):
    """The columns of `GroupKey`. group_type: "classic" or "consumer"."""

    partition: int
    group_id: str
    group_type: str


class GroupRecordColumns(RecordColumns, GroupColumns):
    """The columns of a record, and those of `GroupKey`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """The group that a row is about, and the partition of `__consumer_offsets` that holds it."""

    partition: int
    group_id: str
    group_type: str

    @property
    def columns(self) -> GroupColumns:
        """The columns of a row about this group."""
        return {"partition": self.partition, "group_id": self.group_id, "group_type": self.group_type}

    def record(self, offset: int, timestamp: int, leader_epoch: int | None) -> "GroupRecord":
        """A record of this group."""
        return GroupRecord(
            partition=self.partition, offset=offset, timestamp=timestamp, leader_epoch=leader_epoch,
            group_id=self.group_id, group_type=self.group_type,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A record of a group: where it is in `__consumer_offsets`, and its time in ms since 1970 (-1 if it has none)."""

    partition: int
    offset: int
    timestamp: int
    leader_epoch: int | None
    group_id: str
    group_type: str

    def is_led_otherwise(self, last_epoch: int | None) -> bool:
        """Whether another coordinator wrote it than the record before, which had this leader epoch. False if one of the
        epochs is not known."""
        return None not in (last_epoch, self.leader_epoch) and last_epoch != self.leader_epoch

    @property
    def columns(self) -> GroupRecordColumns:
        """The columns of a row about this record."""
        return {
            "partition": self.partition, "offset": self.offset, "timestamp": self.timestamp,
            "leader_epoch": self.leader_epoch, "group_id": self.group_id, "group_type": self.group_type,
        }  # fmt: skip


class Involvement(StrEnum):
    """What a member did in a rebalance or an event, or what happened to it: `Who.what`."""

    JOINED = "joined"
    #: Another process has its group_instance_id.
    REPLACED = "replaced"
    #: The same process, judging by its ids, left and came back.
    RETURNED = "returned"
    RESUBSCRIBED = "resubscribed"
    #: It was given what others gave up in the previous rebalance.
    TOOK_OVER = "took over"
    #: It had stayed a member, and its JoinGroup began the rebalance.
    JOINED_AGAIN = "joined again"
    #: It had stayed a member, and joined again at the time that its assignor had set (Kafka Streams).
    PROBED = "probed"
    #: A static member of the consumer protocol that stopped and keeps its place in the group (member epoch -2).
    AWAY = "away"
    #: It was a member when the group changed its type.
    MEMBER = "member"
    #: It is gone. This one does not say how, the others do, with the words of `verdict.Cause`.
    LEFT = "left"
    LEAVE = "leave"
    SESSION_EXPIRY = "session-expiry"
    MAX_POLL = "max-poll"
    REMOVAL = "admin-removal"
    DEPARTURE = "departure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A member involved in an event. seat: the member's identity (its group_instance_id, or else its member id); what:
    an `Involvement`, or a word of a newer kgm that wrote the store."""

    seat: str
    what: str
    member_id: str | None
    client_id: str | None
    client_host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of a topic."""

    topic: str
    partitions: tuple[Int32, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdPartitions:
    """Partitions of a topic that is known by its id (16 bytes)."""

    topic_id: bytes
    partitions: tuple[Int32, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseCount:
    """How many rebalances had a cause."""

    cause: str
    count: Int32
