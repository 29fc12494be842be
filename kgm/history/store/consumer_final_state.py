"""What each group of the consumer protocol was at the end of a history, or at a time in it: see `final_state`.

Its records have topic ids, and commits show the topics' names. If a subscription has one name and one id left, they
belong together; a group with an id that remains without a name cannot be simulated, and the reason is given."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import ClassVar

import pyarrow as pa

from kgm.clients.recognition import recognise_by_ids
from kgm.history.causes.verdict import GroupEventKind
from kgm.history.facts.consumer_state import LoggedMemberState
from kgm.history.row_tables import read_rows
from kgm.history.rows import CONSUMER_EPOCHS, AnyRow, MemberStateRow, TableRow, TopicRow
from kgm.history.store.classic_final_state import partition_counts
from kgm.history.store.query import RowFilter
from kgm.history.store.tables import Tables
from kgm.java.hash_map import uuid_map_order
from kgm.java.hash_set import copied_set_order
from kgm.java.timeline_hash_map import TimelineOrder
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, TopicSnapshot

#: After these events a group no longer uses the consumer protocol.
_ENDS = (GroupEventKind.REMOVED.value, GroupEventKind.CONVERTED.value)
_GroupKey = tuple[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Epoch(TableRow):
    table: ClassVar[str] = "silver_group_epoch"
    partition: int
    offset: int
    timestamp: int
    group_id: str
    epoch: int
    assignment_epoch: int | None
    assigned_timestamp: int | None
    group_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event(TableRow):
    table: ClassVar[str] = "gold_event"
    partition: int
    offset: int
    timestamp: int
    group_id: str
    group_type: str
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tenure(TableRow):
    table: ClassVar[str] = "silver_seat"
    partition: int
    group_id: str
    group_type: str
    member_id: str
    session_timeout_ms: int | None
    from_offset: int
    to_timestamp: int | None


def consumer_groups(tables: Tables, wanted: RowFilter) -> Iterator[tuple[GroupSnapshot, str | None]]:
    """Each group, by id, and why it cannot be simulated; None if no reason is known."""
    every = [row for row in tables.rows(_Epoch, wanted) if row.group_type in CONSUMER_EPOCHS]
    if not every:
        return
    epochs: dict[_GroupKey, _Epoch] = {}
    for row in sorted(every, key=attrgetter("offset")):
        epochs[row.partition, row.group_id] = row
    assigned = _assigned_epochs(every, wanted.until_ms)
    ended = {
        (row.partition, row.group_id): row.offset
        for row in sorted(tables.rows(_Event, wanted), key=attrgetter("offset"))
        if row.group_type == "consumer" and row.event in _ENDS
    }
    members: dict[_GroupKey, list[MemberStateRow]] = defaultdict(list)
    rows = sorted(tables.rows(_Tenure, wanted), key=attrgetter("from_offset"))
    tenures = {(row.partition, row.group_id, row.member_id): row for row in rows if row.group_type == "consumer"}
    for member in _last(MemberStateRow, tables.table(MemberStateRow.table, wanted), "member_id"):
        tenure = tenures.get((member.partition, member.group_id, member.member_id))
        if member.state != LoggedMemberState.GONE.value and not _has_ended(tenure, wanted.until_ms):
            members[member.partition, member.group_id].append(member)
    sessions = {
        (row.partition, row.group_id, row.member_id): row.session_timeout_ms
        for row in rows
        if row.group_type == "consumer" and (row.session_timeout_ms or 0) > 0
    }
    topics = sorted(tables.rows(TopicRow, RowFilter()), key=attrgetter("offset"))
    names = {row.topic_id: row.topic for row in topics}
    for key, epoch in sorted(epochs.items(), key=lambda item: item[1].group_id):
        if ended.get(key, -1) <= epoch.offset:
            snapshot, unplayable = _group(
                epoch, assigned.get(key), sorted(members[key], key=attrgetter("member_id")), names
            )
            # Set by the broker or for the group: one for all members, and given, asked of the broker, or inferred.
            known = {sessions.get((*key, each.member_id)) for each in members[key]}
            yield replace(snapshot, session_timeout_ms=known.pop() if len(known) == 1 else None), unplayable


def _has_ended(tenure: _Tenure | None, until_ms: int | None) -> bool:
    """Whether a member is known to be gone by then, even if the records that deleted it are missing."""
    at = None if tenure is None else tenure.to_timestamp
    return at is not None and (until_ms is None or at < until_ms)


def _assigned_epochs(epochs: Sequence[_Epoch], until_ms: int | None) -> dict[_GroupKey, int]:
    """The epoch of each group's last target assignment until then. In an empty group it lags behind."""
    assigned: dict[_GroupKey, int] = {}
    for row in epochs:
        at, epoch = row.assigned_timestamp, row.assignment_epoch
        if at is not None and epoch is not None and (until_ms is None or at < until_ms):
            key = row.partition, row.group_id
            assigned[key] = max(assigned.get(key, epoch), epoch)
    return assigned


def _last(cls: type[AnyRow], table: pa.Table, *also: str) -> list[AnyRow]:
    """The last row for each group and each value of the further key columns."""
    if not len(table):
        return []
    keys = ["partition", "group_id", *also]
    ends = table.group_by(keys).aggregate([("offset", "max")]).rename_columns([*keys, "offset"])
    numbered = table.select([*keys, "offset"]).append_column("row", pa.array(range(len(table)), pa.int64()))
    chosen = numbered.join(ends, keys=[*keys, "offset"], join_type="inner").column("row")
    return read_rows(cls, table.take(chosen))


def _group(
    epoch: _Epoch, assigned: int | None, members: list[MemberStateRow], names: Mapping[bytes, str]
) -> tuple[GroupSnapshot, str | None]:
    names, nameless = _topic_names(members, names)
    counts = partition_counts(_assignment(member, names) for member in members)
    ids = {name: topic_id for topic_id, name in names.items()}
    assignors = Counter(row.server_assignor for row in members if row.server_assignor)
    snapshot = GroupSnapshot(
        group_id=epoch.group_id, type="consumer", protocol_type="consumer",
        state=_state(members, epoch.epoch, assigned),
        assignor=assignors.most_common(1)[0][0] if assignors else None, group_epoch=epoch.epoch,
        assignment_epoch=assigned,
        rebalance_timeout_ms=max(
            (row.rebalance_timeout_ms for row in members if row.rebalance_timeout_ms is not None), default=None
        ),
        topics=tuple(
            TopicSnapshot(name=name, partitions=count, topic_id=ids.get(name)) for name, count in sorted(counts.items())
        ),
        members=_members(epoch.group_id, members, names),
    )  # fmt: skip
    if nameless:
        reason = "the history does not show the names of all of its topics: no member commits offsets for them"
        return snapshot, reason
    if any(row.topics is None for row in members):
        return snapshot, "compaction has removed what its members subscribe to"
    return snapshot, None


def _state(members: Sequence[MemberStateRow], epoch: int, assigned: int | None) -> str:
    """The state as in ConsumerGroup.maybeUpdateGroupState; a member that is away is not at any epoch of the group."""
    if not members:
        return "Empty"
    if assigned != epoch:
        return "Assigning"
    stable = all(row.state == LoggedMemberState.STABLE.value and row.member_epoch == epoch for row in members)
    return "Stable" if stable else "Reconciling"


def _topic_names(members: Sequence[MemberStateRow], names: Mapping[bytes, str]) -> tuple[Mapping[bytes, str], bool]:
    """(the names of the topics in which this group has partitions, by id; whether one is not known)."""
    ids = {each.topic_id for row in members for each in row.assigned or ()}
    nameless = ids - names.keys()
    known = {each: names[each] for each in ids - nameless}
    left = {topic for row in members for topic in row.topics or ()} - {*known.values()}
    if len(nameless) == 1 and len(left) == 1:
        return {**known, nameless.pop(): left.pop()}, False
    return known, bool(nameless)


def _members(group_id: str, rows: list[MemberStateRow], names: Mapping[bytes, str]) -> tuple[MemberSnapshot, ...]:
    order = _listed_order(rows)
    places = {} if order is None else {member_id: place for place, member_id in enumerate(order)}
    return tuple(_member(group_id, row, names, places.get(row.member_id)) for row in rows)


def _listed_order(rows: Sequence[MemberStateRow]) -> list[str] | None:
    """The member ids in the order in which the broker lists them; None if the records do not show it."""
    if not rows:
        return []
    by_put = [row.member_id for row in sorted(rows, key=lambda row: row.listed_offset or -1)]
    capacity = max(rows, key=attrgetter("offset")).listing_capacity
    if capacity is not None:
        return TimelineOrder(capacity).sorted(by_put)
    least = TimelineOrder()
    for size in range(len(by_put)):
        least.put(size)
    order = least.sorted(by_put)
    # If no two members share a slot, neither a larger table nor another order of arrival changes anything.
    return order if order == least.sorted(reversed(by_put)) else None


def _listed_target(row: MemberStateRow, names: Mapping[bytes, str]) -> dict[str, tuple[int, ...]] | None:
    """The target assignment as the broker lists it; None if the store is too old to have it."""
    if row.target is None or any(each.topic_id not in names for each in row.target):
        return None
    partitions = {each.topic_id: each.partitions for each in row.target}
    return {names[topic]: tuple(copied_set_order(partitions[topic])) for topic in uuid_map_order([*partitions])}


def _member(group_id: str, row: MemberStateRow, names: Mapping[bytes, str], listed_at: int | None) -> MemberSnapshot:
    status = row.state if row.state in (LoggedMemberState.STABLE.value, LoggedMemberState.AWAY.value) else "reconciling"
    listed = _listed_target(row, names)
    return MemberSnapshot(
        member_id=row.member_id, group_instance_id=row.group_instance_id, client_id=row.client_id or "",
        client_host=row.client_host or "", rack=row.rack_id or None, member_epoch=row.member_epoch, status=status,
        topics=row.topics or (), regex=row.regex or None, assignment=_assignment(row, names),
        target_assignment=None if listed is None else {topic: sorted(numbers) for topic, numbers in listed.items()},
        protocol="classic" if row.classic else "consumer",
        client_library=recognise_by_ids(
            group_id, row.client_id or "", row.member_id, "classic" if row.classic else "consumer"
        ),
        listed_at=listed_at, listed_target=listed,
    )  # fmt: skip


def _assignment(row: MemberStateRow, names: Mapping[bytes, str]) -> dict[str, list[int]]:
    return {names[each.topic_id]: sorted(each.partitions) for each in row.assigned or () if each.topic_id in names}
