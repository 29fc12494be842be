"""What the records of a classic group show, in the order of their offsets: the group as of each record, how its members
changed in between, and its rebalances.

Kafka's coordinator writes a group's metadata at four points only: when the group is new (not before 4.0), when it
becomes empty, when a static member is replaced in a stable group (same generation: the bounce was absorbed, KIP-345),
and at the leader's sync, which ends a rebalance (org.apache.kafka.coordinator.group.GroupMetadataManager). Rounds that
never got that far show as a jump of the generation.

Compaction removes records that were written again later, and leaves gaps in the offsets of the partition. If there is a
gap between two records of a group, there may have been others: such a window is not `complete`, its changes are the
difference between its two ends, and anything that requires the records in between is None.

`incremental_fold` uses the functions here on records that were decoded as columns. Nothing here needs numpy or
Arrow."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import NamedTuple

from kgm.clients.table import EAGER
from kgm.protocol.subscription import PROTOCOL_TYPE, readable_assignment, readable_subscription
from kgm.records.messages.group_metadata_value import MemberMetadata

TopicPartition = tuple[str, int]


class SnapshotKind(StrEnum):
    """Why a record of a group was written."""

    NEW = "new"
    EMPTY = "empty"
    SYNCED = "synced"
    REPLACED = "replaced"
    #: The same generation and the same members again.
    REPEATED = "repeated"
    #: A group with members out of nowhere, in a later generation than its first one: either it used the consumer
    #: protocol until then (KIP-848, downgrade), or it began at a coordinator that writes no record for a new group,
    #: like those before 4.0, and its first rounds did not complete. What was before shows which (`classic_groups`).
    CONVERTED = "converted"
    TOMBSTONE = "tombstone"
    #: A record with members after a gap: the reason cannot be determined.
    UNKNOWN = "unknown"


class ChangeKind(StrEnum):
    """How a member changed. REPLACED: another member id with the same group_instance_id."""

    JOINED = "joined"
    LEFT = "left"
    REPLACED = "replaced"
    #: The same member subscribes to other topics than before.
    RESUBSCRIBED = "resubscribed"


@dataclass(frozen=True, slots=True)
class OffsetGaps:
    """Where offsets are missing in a partition of `__consumer_offsets`.

    starts, ends: of each gap, inclusive and exclusive, ascending; a gap from 0 stands for everything before the log."""

    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    def within(self, after: int, before: int) -> bool:
        """Whether any offset strictly between these two is missing."""
        return after + 1 < before and bisect_right(self.ends, after + 1) < bisect_left(self.starts, before)


@dataclass(frozen=True, slots=True)
class SnapshotMember:
    """A member in a snapshot: Kafka's record of it, and its decoded subscription and assignment. topics and assigned
    are None if the group is not of protocol type "consumer", or the bytes do not parse."""

    record: MemberMetadata
    topics: frozenset[str] | None
    assigned: Mapping[str, Sequence[int]] | None

    @property
    def identity(self) -> str:
        """The group_instance_id, which stays the same when the process is replaced; without one, the member id."""
        static = self.record.group_instance_id
        return self.record.member_id if static is None else static


@dataclass(frozen=True, kw_only=True)  # without slots, for `owners`
class Snapshot:
    """The group as of a record. members: by identity. complete: no record can be missing since the previous snapshot,
    or, for the first one, since the beginning. state_timestamp: when the join phase ended, in ms, -1 if it is not
    known. sync_ms: for SYNCED, the time from the end of the join phase to the leader's assignment."""

    offset: int
    timestamp: int
    kind: SnapshotKind
    generation: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    state_timestamp: int
    members: Mapping[str, SnapshotMember]
    complete: bool
    sync_ms: int | None

    @property
    def joined_at(self) -> int:
        """When the join phase ended, in ms; the record's timestamp if that is not known."""
        return self.state_timestamp if self.state_timestamp >= 0 else self.timestamp

    @property
    def leading(self) -> SnapshotMember | None:
        """The group's leader; None if it has none, or it is not among the members."""
        return next((one for one in self.members.values() if one.record.member_id == self.leader), None)

    @cached_property
    def owners(self) -> Mapping[TopicPartition, str]:
        """The identity to which each partition is assigned."""
        return owners(self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChange:
    """How one member changed up to the snapshot at `offset`. absorbed: for REPLACED, whether it caused no rebalance;
    None if the window is not complete, and for the other kinds. old_topics: for RESUBSCRIBED, what the member
    subscribed to before; None if that is not known."""

    offset: int
    timestamp: int
    generation: int
    kind: ChangeKind
    member: SnapshotMember
    old_member_id: str | None
    absorbed: bool | None
    complete: bool
    old_topics: frozenset[str] | None = None

    @property
    def identity(self) -> str:
        """The member's identity."""
        return self.member.identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """From one generation to another, ended by the snapshot at `offset`, or by the group becoming empty.

    lost_rounds: generations in between that never got an assignment (a flapping group has many); None if the window is
    not complete. moved, kept: partitions assigned before and after, to another identity or to the same. assigned:
    partitions assigned after it; None if an older kgm stored it. stopped_min_ms: the sync phase, in which no member
    consumes; None if the log does not show it, and for assignors that are not known to be eager: not every member stops
    for those. bounded: of how many partitions the commits show how long they were stopped at most, the time between the
    last commit before and the first one after it. longest_ms, total_ms: the longest of these times, and their sum."""

    offset: int
    timestamp: int
    from_generation: int
    to_generation: int
    lost_rounds: int | None
    moved: int
    kept: int
    stopped_min_ms: int | None
    complete: bool
    assigned: int | None = None
    bounded: int = 0
    longest_ms: int = 0
    total_ms: int = 0

    @property
    def stopped_max_ms(self) -> int | None:
        """How long any partition was stopped at most; None if the commits do not show it for each of them."""
        return self.longest_ms if self._is_bounded else None

    @property
    def stopped_partition_max_ms(self) -> int | None:
        """How long partitions were stopped at most, summed over them; None as for `stopped_max_ms`."""
        return self.total_ms if self._is_bounded else None

    @property
    def _is_bounded(self) -> bool:
        return self.bounded > 0 and self.bounded == self.assigned


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """The whole history of one group. end: the group as of its last record, None if that is a tombstone or there is
    none."""

    snapshots: tuple[Snapshot, ...]
    changes: tuple[MemberChange, ...]
    rebalances: tuple[Rebalance, ...]
    end: Snapshot | None


def can_be_timed(snapshot: Snapshot) -> bool:
    """Whether commits can show how long members were stopped by the rebalance that ended with a snapshot."""
    return bool(snapshot.members) and snapshot.complete and snapshot.protocol in EAGER


def timed(rebalance: Rebalance, gap: int) -> Rebalance:
    """The rebalance, given that one more of its partitions was committed before and after it, `gap` ms apart."""
    # Clocks of two coordinators can differ, and a clock can be set back: then the two commits show nothing.
    if gap < 0:
        return rebalance
    most = max(gap, rebalance.stopped_min_ms or 0)
    return replace(
        rebalance, bounded=rebalance.bounded + 1, longest_ms=max(rebalance.longest_ms, most),
        total_ms=rebalance.total_ms + most,
    )  # fmt: skip


class Difference(NamedTuple):
    """The members in which two snapshots of a group differ, before and after, by identity. It may also contain members
    that are the same. kept: how many partitions the members outside of it have, each counted once."""

    before: Mapping[str, SnapshotMember]
    after: Mapping[str, SnapshotMember]
    kept: int = 0


class Header(NamedTuple):
    """A GroupMetadataValue without its members."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int


def tombstone(offset: int, timestamp: int, generation: int, *, complete: bool) -> Snapshot:
    """The snapshot at a tombstone. generation: the last one known, or -1."""
    return Snapshot(
        offset=offset, timestamp=timestamp, kind=SnapshotKind.TOMBSTONE, generation=generation, protocol_type="",
        protocol=None, leader=None, state_timestamp=-1, members={}, complete=complete, sync_ms=None,
    )  # fmt: skip


def snapshot(
    offset: int,
    timestamp: int,
    header: Header,
    members: Mapping[str, SnapshotMember],
    *,
    kind: SnapshotKind,
    complete: bool,
) -> Snapshot:
    """The snapshot at a record with a value."""
    known = kind is SnapshotKind.SYNCED and header.current_state_timestamp >= 0
    return Snapshot(
        offset=offset, timestamp=timestamp, kind=kind, generation=header.generation,
        protocol_type=header.protocol_type, protocol=header.protocol, leader=header.leader,
        state_timestamp=header.current_state_timestamp, members=members, complete=complete,
        sync_ms=max(timestamp - header.current_state_timestamp, 0) if known else None,
    )  # fmt: skip


def kind_of(
    header: Header,
    previous: Snapshot | None,
    difference: Difference,
    *,
    members: bool,
    complete: bool,
) -> SnapshotKind:
    """Why a record was written. members: whether it has any."""
    if not members:
        return SnapshotKind.NEW if previous is None and header.generation == 0 else SnapshotKind.EMPTY
    if not complete:
        return SnapshotKind.UNKNOWN
    if previous is None:
        return SnapshotKind.SYNCED if header.generation == 1 else SnapshotKind.CONVERTED
    if previous.generation != header.generation:
        return SnapshotKind.SYNCED
    before = difference.before
    replaced = any(
        identity in before and before[identity].record.member_id != member.record.member_id
        for identity, member in difference.after.items()
    )
    return SnapshotKind.REPLACED if replaced else SnapshotKind.REPEATED


def member_of(record: MemberMetadata, protocol_type: str) -> SnapshotMember:
    if protocol_type != PROTOCOL_TYPE:
        return SnapshotMember(record, None, None)
    return SnapshotMember(record, _topics(record.subscription), _assigned(record.assignment))


@lru_cache(maxsize=4096)
def _topics(subscription: bytes) -> frozenset[str] | None:
    read = readable_subscription(subscription)
    return None if read is None else frozenset(read.topics)


@lru_cache(maxsize=4096)
def _assigned(assignment: bytes) -> Mapping[str, Sequence[int]] | None:
    read = readable_assignment(assignment)
    return None if read is None else read.partitions


def changes_between(previous: Snapshot, snapshot: Snapshot, difference: Difference) -> Iterable[MemberChange]:
    """How each member changed: first the members that left, in their previous order, then the others, in the order of
    the snapshot."""

    def change(
        kind: ChangeKind,
        member: SnapshotMember,
        old: str | None = None,
        *,
        absorbed: bool = False,
        old_topics: frozenset[str] | None = None,
    ) -> MemberChange:
        known = kind is ChangeKind.REPLACED and snapshot.complete
        return MemberChange(
            offset=snapshot.offset, timestamp=snapshot.timestamp, generation=snapshot.generation, kind=kind,
            member=member, old_member_id=old, absorbed=absorbed if known else None, complete=snapshot.complete,
            old_topics=old_topics,
        )  # fmt: skip

    for identity, member in difference.before.items():
        if identity not in difference.after:
            yield change(ChangeKind.LEFT, member)
    for identity, member in difference.after.items():
        old = difference.before.get(identity)
        if old is None:
            yield change(ChangeKind.JOINED, member)
            continue
        if old.record.member_id != member.record.member_id:
            absorbed = snapshot.generation == previous.generation
            yield change(ChangeKind.REPLACED, member, old.record.member_id, absorbed=absorbed)
        if None not in (old.topics, member.topics) and old.topics != member.topics:
            yield change(ChangeKind.RESUBSCRIBED, member, old_topics=old.topics)


def rebalance_between(previous: Snapshot, snapshot: Snapshot, difference: Difference) -> Rebalance:
    before, after = owners(difference.before), owners(difference.after)
    both = before.keys() & after.keys()
    stayed = sum(before[place] == after[place] for place in both)
    # A lower generation is that of a new group with this id; the end of the previous one was compacted away.
    complete = snapshot.complete and snapshot.generation > previous.generation
    return Rebalance(
        offset=snapshot.offset, timestamp=snapshot.timestamp, from_generation=previous.generation,
        to_generation=snapshot.generation,
        lost_rounds=snapshot.generation - previous.generation - 1 if complete else None,
        moved=len(both) - stayed, kept=stayed + difference.kept,
        stopped_min_ms=snapshot.sync_ms if snapshot.protocol in EAGER else None, complete=complete,
        assigned=len(after) + difference.kept,
    )  # fmt: skip


def owners(members: Mapping[str, SnapshotMember]) -> dict[TopicPartition, str]:
    """The identity to which each partition is assigned."""
    return {
        (topic, partition): identity
        for identity, member in members.items()
        for topic, partitions in (member.assigned or {}).items()
        for partition in partitions
    }
