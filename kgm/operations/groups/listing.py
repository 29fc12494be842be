"""The groups of a cluster, with the number of their members."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgm.model.errors import KgmError

if TYPE_CHECKING:
    from kgm.client import AdminClient
    from kgm.client.group_listing import ListedGroup, Listing
    from kgm.model.snapshot import CoordinatorNode, GroupSnapshot


#: States and types of groups as Kafka names them.
STATES = (
    "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling", "NotReady",
    "Unknown",
)  # fmt: skip
TYPES = ("classic", "consumer", "share", "streams")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group. members and coordinator are None where the group could not be described."""

    group_id: str
    type: str | None
    state: str | None
    protocol_type: str | None
    members: int | None
    coordinator: CoordinatorNode | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTable:
    """rows: by group id. snapshots: of those groups that could be described, without offsets and assignments."""

    rows: tuple[GroupRow, ...]
    snapshots: tuple[GroupSnapshot, ...]
    listing: Listing


def list_groups(
    cluster: AdminClient, *, states: Iterable[str] = (), types: Iterable[str] = (), pattern: str | None = None
) -> GroupTable:
    """Groups in any of these states, of any of these types (in any case; empty is all), whose id matches the pattern.

    Raises KgmError when no broker answers."""
    listing = cluster.list_groups(states=states, types=types)
    listed = [row for row in listing.groups if pattern is None or fnmatch.fnmatchcase(row.group_id, pattern)]
    listed.sort(key=lambda row: row.group_id)
    described = cluster.rosters([row.group_id for row in listed])
    snapshots = {answer.group_id: answer for answer in described if not isinstance(answer, KgmError)}
    return GroupTable(
        rows=tuple(_row(row, snapshots.get(row.group_id)) for row in listed),
        snapshots=tuple(snapshots.values()),
        listing=listing,
    )


def _row(listed: ListedGroup, snapshot: GroupSnapshot | None) -> GroupRow:
    return GroupRow(
        group_id=listed.group_id,
        type=listed.type or (None if snapshot is None else snapshot.type),
        state=listed.state or (None if snapshot is None else snapshot.state),
        protocol_type=listed.protocol_type,
        members=None if snapshot is None else len(snapshot.members),
        coordinator=None if snapshot is None else snapshot.coordinator,
    )
