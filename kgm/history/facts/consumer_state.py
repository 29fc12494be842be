"""The state of a group of the consumer protocol, from record to record and between two runs (`state_json`).

Topics are ids here, in hex. Times are in ms."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, Self

from kgm.clients.recognition import recognise_by_ids
from kgm.history.causes.consumer_causes import NO_TOPICS, ConsumerAbsence
from kgm.history.causes.session_timeouts import CONSUMER_HEARTBEAT_MS, SessionEvidence, SessionTimeout
from kgm.history.causes.verdict import Cause, MissingMember
from kgm.history.facts.commit_windows import Times
from kgm.history.facts.daily_totals import DayTotals
from kgm.history.reconstruct.broker_member_map import BrokerMemberMap
from kgm.history.reconstruct.classic_snapshots import MemberChange
from kgm.history.row_parts import GroupRecord
from kgm.history.rows import GroupEpochRow, OwnerRow, RebalanceRow, TenureRow
from kgm.history.state_json import json_name
from kgm.model.snapshot import AWAY_EPOCH
from kgm.protocol.struct import Message
from kgm.records.member_states import MemberState, member_state
from kgm.records.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from kgm.records.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from kgm.records.messages.consumer_group_partition_metadata_value import ConsumerGroupPartitionMetadataValue

#: (topic id, partition)
TopicIdPartition = tuple[str, int]


class LoggedMemberState(StrEnum):
    """The column `state` of `silver_member_state`. AWAY and GONE are not in the record itself."""

    STABLE = "stable"
    UNREVOKED = "unrevoked"
    UNRELEASED = "unreleased"
    UNKNOWN = "unknown"
    AWAY = "away"
    GONE = "gone"


_STATES = {
    MemberState.STABLE: LoggedMemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS: LoggedMemberState.UNREVOKED,
    MemberState.UNRELEASED_PARTITIONS: LoggedMemberState.UNRELEASED,
    MemberState.UNKNOWN: LoggedMemberState.UNKNOWN,
}


def logged_state(member_epoch: int, state: int) -> LoggedMemberState:
    """The state of a member according to its record. state: the number in it."""
    return LoggedMemberState.AWAY if member_epoch == AWAY_EPOCH else _STATES[member_state(state)]


class _IdPartitions(Protocol):
    topic_id: bytes
    partitions: list[int]


def flat_partitions(topics: Iterable[_IdPartitions]) -> list[TopicIdPartition]:
    """The partitions as (topic id, partition) pairs."""
    return [(each.topic_id.hex(), number) for each in topics for number in each.partitions]


@dataclass(slots=True, kw_only=True)
class LoggedMember:
    """A member according to its own record. classic_session_ms: the session timeout of a member that uses the classic
    protocol, None for other members; heard_at: the time of its last record; away_since, unrevoked_since: since when it
    has been away, or has had partitions to revoke. listed_offset: the record with which it joined, None for a member
    that an older kgm stored; topics_before: of its record before this one, None if there was none; named_offset: the
    last record of any kind that names it."""

    instance_id: str | None = field(metadata=json_name("instance"))
    client_id: str
    client_host: str = field(metadata=json_name("host"))
    rack_id: str | None = field(default=None, metadata=json_name("rack"))
    topics: list[str]
    regex: str
    server_assignor: str | None = field(metadata=json_name("assignor"))
    rebalance_timeout_ms: int = field(metadata=json_name("rebalance"))
    classic_session_ms: int | None = field(metadata=json_name("session"))
    heard_at: int = field(metadata=json_name("at"))
    away_since: int | None = field(metadata=json_name("away"))
    unrevoked_since: int | None = field(metadata=json_name("unrevoked"))
    listed_offset: int | None = field(default=None, metadata=json_name("listed"))
    topics_before: list[str] | None = field(default=None, metadata=json_name("before"))
    named_offset: int | None = field(default=None, metadata=json_name("named"))

    @property
    def old_topics(self) -> frozenset[str] | None:
        """`topics_before` as a set."""
        return None if self.topics_before is None else frozenset(self.topics_before)

    @classmethod
    def of(cls, record: GroupRecord, value: ConsumerGroupMemberMetadataValue, old: Self | None) -> Self:
        """The member with its new record. old: with the one before, None if it joined."""
        classic = value.classic_member_metadata
        return cls(
            instance_id=value.instance_id, client_id=value.client_id, client_host=value.client_host,
            rack_id=value.rack_id, topics=sorted(value.subscribed_topic_names or ()),
            regex=value.subscribed_topic_regex or "", server_assignor=value.server_assignor,
            rebalance_timeout_ms=value.rebalance_timeout_ms, heard_at=record.timestamp,
            classic_session_ms=None if classic is None else classic.session_timeout_ms,
            away_since=None if old is None else old.away_since,
            unrevoked_since=None if old is None else old.unrevoked_since,
            listed_offset=record.offset if old is None else old.listed_offset,
            topics_before=None if old is None else old.topics, named_offset=record.offset,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """What a member has, according to its current-assignment record."""

    epoch: int
    state: LoggedMemberState
    assigned: list[TopicIdPartition]
    pending: list[TopicIdPartition]

    def owned(self) -> list[TopicIdPartition]:
        """The partitions that the member could be consuming."""
        return [] if self.state is LoggedMemberState.AWAY else [*self.assigned, *self.pending]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """A member whose records were deleted. It left, unless another member id takes over its instance id at the same
    time. last_commit, cadence_ms: as in `verdict.MissingMember`; partitions: how many it had; together: whether other
    members left at the same time; session: the session timeout as known then; led_since: as in `ConsumerAbsence`;
    in_lull: as in `MissingMember`."""

    member_id: str
    record: GroupRecord = field(metadata=json_name("at"))
    member: LoggedMember
    last_commit: int | None = field(metadata=json_name("last"))
    cadence_ms: int | None = field(metadata=json_name("cadence"))
    partitions: int = field(metadata=json_name("held"))
    together: bool = False
    session: SessionTimeout | None = None
    led_since: int = 0
    in_lull: bool = False

    @property
    def absence(self) -> ConsumerAbsence:
        """What the member's records showed before they were deleted."""
        member = self.member
        return ConsumerAbsence(
            away=member.away_since, heard=member.heard_at, unrevoked=member.unrevoked_since, together=self.together,
            led_since=self.led_since,
        )  # fmt: skip

    def down(self, cause: Cause) -> tuple[int, int]:
        """When it stopped, at the earliest and at the latest. cause: why its records were deleted."""
        if self.member.away_since is not None:
            return self.member.away_since, self.member.away_since
        low, high = max(self.last_commit or 0, self.member.heard_at), self.record.timestamp
        if self.session is not None and not self.session.may_differ and cause is Cause.SESSION_EXPIRY:
            high = max(high - self.session.ms + CONSUMER_HEARTBEAT_MS, low)
        return low, high

    def missing(self, change: MemberChange) -> MissingMember:
        """The member in the form that a verdict needs. change: its departure."""
        library = None
        if self.member.instance_id is not None:  # how a dynamic member left does not depend on it
            library = recognise_by_ids(
                self.record.group_id, self.member.client_id or "", self.member_id, "consumer", is_static=True
            )
        return MissingMember(
            change=change, last_commit=self.last_commit, cadence_ms=self.cadence_ms, in_lull=self.in_lull,
            library=library,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class PendingChanges:
    """What changed since the last epoch of the group. left: the members in `leaving` whose instance id no other member
    took over. unseen_left_at: the time of the last record that deleted a member of which no other record was seen.
    broken: an offset is missing since the last epoch; moved: the leader epoch rose."""

    joined: list[tuple[str, GroupRecord, LoggedMember]] = field(default_factory=list)
    leaving: list[LeavingMember] = field(default_factory=list)
    left: list[LeavingMember] = field(default_factory=list)
    resubscribed: list[tuple[str, GroupRecord, LoggedMember]] = field(default_factory=list)
    regex: bool = False
    assignor: bool = False
    broken: bool = False
    moved: bool = False
    unseen_left_at: int | None = None

    def came(self, member_id: str, record: GroupRecord, member: LoggedMember) -> None:
        """A member is seen for the first time. A static one may have replaced a member that was not seen."""
        if member.instance_id is None or self.unseen_left_at != record.timestamp:
            self.joined.append((member_id, record, member))

    def leaving_with(self, instance_id: str | None) -> LeavingMember | None:
        """The leaving member that has this instance id."""
        if instance_id is None:
            return None
        return next((each for each in self.leaving if each.member.instance_id == instance_id), None)

    def joined_at(self, timestamp: int) -> list[tuple[str, GroupRecord, LoggedMember]]:
        """The members that joined with an epoch at this time. A member that joins raises the epoch immediately, unless
        its regular expression has to be resolved first. In a log that does not begin with the group's creation, the
        other members were there before, and are seen for the first time."""
        return [each for each in self.joined if each[1].timestamp == timestamp or each[2].regex]


@dataclass(slots=True, kw_only=True)
class EpochState:
    """epoch: of the group, None before its first record. metadata_hash, topics_hash: of its topics with that epoch, and
    of the topics that brokers before 4.1 write. assigned_epoch: of the last target assignment. lagging: the members
    that do not yet have what that gives them. whole: no record is missing since the group was created. heard_at: the
    time of the last record. listing: None in a group that an older kgm stored. leader_epoch: of the last record that
    has one; led_since: the time of the first record with another one than before it, 0 if there was none.
    resumed_offset: the first record after the last gap, None if there was none."""

    epoch: int | None = None
    metadata_hash: int | None = field(default=None, metadata=json_name("hash"))
    assigned_epoch: int | None = field(default=None, metadata=json_name("assigned"))
    whole: bool = True
    heard_at: int = field(default=0, metadata=json_name("at"))
    lagging: list[str] = field(default_factory=list)
    topics_hash: int | None = field(default=None, metadata=json_name("topics"))
    listing: BrokerMemberMap | None = None
    leader_epoch: int | None = None
    led_since: int = 0
    resumed_offset: int | None = field(default=None, metadata=json_name("resumed"))

    def heard(self, record: GroupRecord, *, complete: bool) -> bool:
        """The next record of the group. complete: no offset is missing since the previous one. Returns whether another
        coordinator wrote it than the previous one."""
        self.heard_at = record.timestamp
        is_moved = record.is_led_otherwise(self.leader_epoch)
        if is_moved:
            self.led_since = record.timestamp
        self.leader_epoch = self.leader_epoch if record.leader_epoch is None else record.leader_epoch
        if not complete:
            self.whole, self.listing, self.resumed_offset = False, None, record.offset
        if self.listing is not None:
            self.listing.led_by(record.leader_epoch)
        return is_moved

    def topics_written(self, key: Message, value: Message | None) -> None:
        """If the record lists the group's topics, as brokers before 4.1 write them instead of a hash, note their
        hash."""
        if isinstance(value, ConsumerGroupPartitionMetadataValue):
            rows = sorted((row.topic_name, row.topic_id.hex(), row.num_partitions) for row in value.topics)
            self.topics_hash = zlib.crc32(repr(rows).encode()) + 1
        elif isinstance(key, ConsumerGroupPartitionMetadataKey):
            self.topics_hash = None

    def next_hashes(self, metadata_hash: int) -> tuple[int | None, int]:
        """(the hash before an epoch record, the hash with it), given the hash in the record (0 before 4.1)."""
        before, now = self.metadata_hash, metadata_hash or self.topics_hash or NO_TOPICS
        if metadata_hash and self.topics_hash is not None:
            before = NO_TOPICS  # the first epoch after the upgrade to 4.1
        self.metadata_hash = now
        return before, now


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipState:
    """open: the rows of partitions that have an owner. free: since when the other partitions have had no owner, and who
    the last one was."""

    open: list[tuple[str, int, OwnerRow]] = field(default_factory=list)
    free: list[tuple[str, int, int, str]] = field(default_factory=list)
    commits: list[tuple[str, int, Times]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ConsumerGroupState:
    """The whole state. target: by member id, that with the newest record last. planned: the identity to which the last
    target assignment gives each partition (`plan_key`); last_planned: the identity to which an earlier one gave each
    partition that it gives to nobody; waiting: the epochs since then. The rows in owners, tenures, days, epochs,
    recent and waiting are put there for the next run by the objects that maintain them."""

    members: dict[str, LoggedMember] = field(default_factory=dict)
    current: dict[str, CurrentAssignment] = field(default_factory=dict)
    target: dict[str, list[TopicIdPartition]] = field(default_factory=dict)
    planned: dict[str, str] = field(default_factory=dict)
    last_planned: dict[str, str] = field(default_factory=dict)
    group: EpochState = field(default_factory=EpochState)
    pending: PendingChanges = field(default_factory=PendingChanges)
    owners: OwnershipState = field(default_factory=OwnershipState)
    tenures: dict[str, TenureRow] = field(default_factory=dict, metadata=json_name("seats"))
    days: dict[str, DayTotals] = field(default_factory=dict)
    epochs: list[GroupEpochRow] = field(default_factory=list)
    recent: list[RebalanceRow] = field(default_factory=list)
    waiting: list[RebalanceRow] = field(default_factory=list)
    sessions: SessionEvidence = field(default_factory=SessionEvidence)

    @property
    def generation(self) -> int:
        """The group's epoch, 0 before its first one."""
        return 0 if self.group.epoch is None else self.group.epoch

    @property
    def unconfirmed(self) -> list[str]:
        """The members that no record names since the last gap. They may have left in it: the cleaner removes tombstones
        too, so that a log that was read before and after that shows the members, and not that they left."""
        resumed = self.group.resumed_offset
        if resumed is None:
            return []
        return [name for name, one in self.members.items() if one.named_offset is None or one.named_offset < resumed]

    @property
    def member_count(self) -> int | None:
        """How many members the group has; None if it is not known of each whether it is still there."""
        return None if self.unconfirmed else len(self.members)

    def named(self, member_id: str, record: GroupRecord) -> None:
        """A record names a member."""
        member = self.members.get(member_id)
        if member is not None:
            member.named_offset = record.offset

    def superseded(self) -> list[str]:
        """The unconfirmed members that the target assignment, now complete, shows to be gone: according to a newer
        record, another member is to have a partition of theirs, or has their instance id. If such a member were still
        there, its own target assignment would have changed, and a newer record would name it."""
        unconfirmed = self.unconfirmed
        if not unconfirmed:
            return []
        holders = {one.instance_id: name for name, one in self.members.items()}
        owners = {place: name for name, places in self.target.items() for place in places}
        return [
            name
            for name in unconfirmed
            if (self.members[name].instance_id is not None and holders[self.members[name].instance_id] != name)
            or any(owners[place] != name for place in self.target.get(name, ()))
        ]

    def put_in_map(self, record: GroupRecord, old: LoggedMember | None, *, is_classic: bool) -> bool:
        """The broker puts a member into its map, in place of `old`. Returns whether it now lists the members in another
        order although none joined."""
        group, members = self.group, self.members
        if group.listing is None and group.epoch is None and not members and group.whole:
            group.listing = BrokerMemberMap(leader_epoch=record.leader_epoch)
        if group.listing is None:
            return False
        return group.listing.put(len(members), is_new=old is None, is_classic=is_classic) and old is not None

    def put_again_in_map(self, member_id: str) -> None:
        """The broker puts a member into the same place again, with another current assignment."""
        if self.group.listing is not None and member_id in self.members:
            self.group.listing.put_again(len(self.members))

    def others(self, member_id: str) -> list[TopicIdPartition]:
        """What the members other than this one could be consuming."""
        return [place for name, one in self.current.items() if name != member_id for place in one.owned()]

    def forget(self, member_id: str) -> None:
        """A member's record was deleted, and its current and target assignments with it."""
        self.current.pop(member_id, None)
        self.target.pop(member_id, None)
        if self.group.listing is not None:
            self.group.listing.is_loaded_alike = False

    def identity(self, member_id: str) -> str:
        """The instance id of a member, if it has one, or else its member id."""
        member = self.members.get(member_id)
        return member_id if member is None or member.instance_id is None else member.instance_id


def plan_key(place: TopicIdPartition) -> str:
    """A partition as a JSON key."""
    return f"{place[0]} {place[1]}"
