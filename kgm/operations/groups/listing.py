"""The groups of a cluster, with the number of their members."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from kgm.client import AdminClient
from kgm.client.group_listing import STATES, ListedGroup
from kgm.model.errors import KgmError, NotFoundError
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot
from kgm.operations.groups.selection import unmatched, unseen_groups
from kgm.text.names import NaturalKey, natural

#: The states that a list can be limited to.
LISTED_STATES = (*STATES, "Unknown")


class GroupOrder(StrEnum):
    """What a list of groups is sorted by: names alphabetically, numbers in descending order, unknown values last."""

    GROUP = "group"
    TYPE = "type"
    STATE = "state"
    MEMBERS = "members"
    LAG = "lag"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group. members and coordinator are None if the group could not be described; lag, in records, is None then
    too, and if it was not requested."""

    group_id: str
    type: str | None
    state: str | None
    protocol_type: str | None
    members: int | None
    coordinator: CoordinatorNode | None
    lag: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTable:
    """A list of groups. undescribed: why groups could not be described, by id; if topics are requested, these groups
    are not in the rows. Groups deleted in the meantime are not in undescribed. errors: brokers that did not list their
    groups, or a pattern that no group matches. unseen: why there may be other groups."""

    rows: tuple[GroupRow, ...]
    errors: tuple[KgmError, ...]
    undescribed: Mapping[str, KgmError]
    unseen: KgmError | None = None


def list_groups(
    cluster: AdminClient,
    *,
    states: Collection[str] = (),
    types: Collection[str] = (),
    pattern: str | None = None,
    topics: Collection[str] = (),
    lag: bool = False,
    order: GroupOrder = GroupOrder.GROUP,
    see: Callable[[GroupSnapshot], object] = lambda _: None,
) -> GroupTable:
    """Groups in any of these states and of any of these types (case-insensitive; empty means all), whose id matches the
    pattern, and that have a member or a committed offset on any of the topics.

    lag and topics cost requests for the offsets of every group. see: called with each listed group that could be
    described; its snapshot lacks offsets and assignments unless lag or topics were requested. Raises KgmError when no
    broker answers."""
    from kgm.client.in_parts import in_parts

    listing = cluster.list_groups(states=states, types=types)
    listed = sorted(listing.groups, key=lambda row: natural(row.group_id))
    if pattern is not None:
        listed = [row for row in listed if fnmatchcase(row.group_id, pattern)]
    errors = [*listing.errors, *([] if states or types else unmatched(pattern, listed, listing))]
    ids = [row.group_id for row in listed]
    describe = cluster.describe_groups if lag or topics else cluster.describe_members
    rows, undescribed = [], {}
    for row, answer in zip(listed, in_parts(cluster, ids, describe), strict=True):
        if isinstance(answer, KgmError):
            if not isinstance(answer, NotFoundError):
                undescribed[row.group_id] = answer
            if not topics:
                rows.append(_row(row, None, lag=lag))
        elif not topics or _topics_of(answer) & set(topics):
            see(answer)
            rows.append(_row(row, answer, lag=lag))
    return GroupTable(
        rows=tuple(rows if order is GroupOrder.GROUP else sorted(rows, key=lambda row: _place(row, order))),
        errors=tuple(errors),
        undescribed=undescribed,
        # Without any match, it is not known whether other groups are visible.
        unseen=unseen_groups(cluster, sees_some=bool(listing.groups or states or types)),
    )


def _topics_of(group: GroupSnapshot) -> set[str]:
    """Topics that members subscribe to or own, and topics with committed offsets."""
    topics = {row.topic for row in group.offsets if row.committed is not None}
    for member in group.members:
        topics |= {*member.known_topics, *member.assignment, *(member.target_assignment or {})}
    return topics


def _place(row: GroupRow, order: GroupOrder) -> tuple[bool, int, str, NaturalKey]:
    """The sort key of a row."""
    value = _value(row, order)
    number, name = (-value, "") if isinstance(value, int) else (0, value or "")
    return value is None, number, name, natural(row.group_id)


def _value(row: GroupRow, order: GroupOrder) -> str | int | None:
    match order:
        case GroupOrder.GROUP:
            return row.group_id
        case GroupOrder.TYPE:
            return row.type
        case GroupOrder.STATE:
            return row.state
        case GroupOrder.MEMBERS:
            return row.members
        case GroupOrder.LAG:
            return row.lag


def _row(listed: ListedGroup, snapshot: GroupSnapshot | None, *, lag: bool) -> GroupRow:
    """A row whose state and members are from the same moment: a broker that used to coordinate the group may still list
    it."""
    return GroupRow(
        group_id=listed.group_id,
        type=listed.type or (None if snapshot is None else snapshot.type),
        state=listed.state if snapshot is None else snapshot.state or listed.state,
        protocol_type=listed.protocol_type,
        members=None if snapshot is None else len(snapshot.members),
        coordinator=None if snapshot is None else snapshot.coordinator,
        lag=None if snapshot is None or not lag else snapshot.lag,
    )
