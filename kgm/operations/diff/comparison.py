"""Compare the groups of two sides. A side is a list of snapshots or the live cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from kgm.client import AdminClient
from kgm.model.changes import Changes, changes
from kgm.model.errors import KgmError, NotFoundError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.groups.description import with_logged
from kgm.text.names import in_order, natural


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGroups:
    """A side to be described now. group_id: the only group; None means the groups of the other side."""

    group_id: str | None = None


#: Snapshots that were saved, or groups to be described.
Side: TypeAlias = Sequence[GroupSnapshot] | LiveGroups


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupComparison:
    """One group on both sides. before, after: None on a side that does not have it; changes: None unless both do."""

    group_id: str
    before: GroupSnapshot | None
    after: GroupSnapshot | None
    changes: Changes | None

    @property
    def is_same(self) -> bool:
        return self.changes is not None and not self.changes.any


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotComparison:
    """All groups of both sides, by group id, and what could not be compared."""

    groups: tuple[GroupComparison, ...]
    errors: tuple[KgmError, ...] = ()

    @property
    def different(self) -> list[GroupComparison]:
        return [group for group in self.groups if not group.is_same]


def live_group_ids(before: Side, after: Side, only: Sequence[str]) -> tuple[list[str], list[str]]:
    """The groups to describe for each side; none for a side that consists of saved snapshots.

    Raises UsageError if neither the other side nor `only` says which groups a live side should have."""
    written = [snapshot.group_id for side in (before, after) if not isinstance(side, LiveGroups) for snapshot in side]

    def wanted(side: Side) -> list[str]:
        if not isinstance(side, LiveGroups):
            return []
        ids = [side.group_id] if side.group_id is not None else list(dict.fromkeys(only or written))
        if not ids:
            raise UsageError("live: no group is named", hint="kgm diff SNAPSHOT live:GROUP")
        return ids

    return wanted(before), wanted(after)


def compare_with_cluster(before: Side, after: Side, only: Sequence[str], cluster: AdminClient) -> SnapshotComparison:
    """Describe the groups of live sides, then compare. only: group ids; empty means all groups.

    A group that the cluster does not have is a difference; it is an error only if the other side does not have it
    either. Raises UsageError as `live_group_ids` does, and KgmError if no broker can be reached."""
    wanted = live_group_ids(before, after, only)
    written = {snapshot.group_id for side in (before, after) if not isinstance(side, LiveGroups) for snapshot in side}
    errors: list[KgmError] = []

    def described(side: Side, group_ids: Sequence[str]) -> Sequence[GroupSnapshot]:
        if not isinstance(side, LiveGroups):
            return side
        answers = cluster.describe_groups(group_ids)
        failed = [answer for answer in answers if isinstance(answer, KgmError)]
        errors.extend(
            error for error in failed if not isinstance(error, NotFoundError) or error.group_id not in written
        )
        groups = [answer for answer in answers if not isinstance(answer, KgmError)]
        return with_logged(cluster, groups)

    return compare_snapshots(described(before, wanted[0]), described(after, wanted[1]), only, errors)


def compare_snapshots(
    before: Sequence[GroupSnapshot],
    after: Sequence[GroupSnapshot],
    only: Sequence[str] = (),
    errors: Sequence[KgmError] = (),
) -> SnapshotComparison:
    """Compare groups with the same id. If each side has exactly one group, these are compared even if their ids differ:
    one may be a copy, or renamed.

    only: group ids; a missing one is an error, unless `errors` already has one for it."""
    if not only and len(before) == len(after) == 1:
        return SnapshotComparison(groups=(_compared(after[0].group_id, before[0], after[0]),), errors=tuple(errors))
    old = {snapshot.group_id: snapshot for snapshot in before}
    new = {snapshot.group_id: snapshot for snapshot in after}
    names = [name for name in in_order(old.keys() | new.keys()) if not only or name in only]
    explained = {*names, *(error.group_id for error in errors)}
    missing = [NotFoundError(f"neither side has group {name}", group_id=name) for name in only if name not in explained]
    groups = tuple(_compared(name, old.get(name), new.get(name)) for name in names)
    return SnapshotComparison(groups=groups, errors=(*errors, *missing))


def _compared(group_id: str, before: GroupSnapshot | None, after: GroupSnapshot | None) -> GroupComparison:
    one = GroupComparison(group_id=group_id, before=before, after=after, changes=None)
    if before is None or after is None:
        return one
    return replace(one, changes=_in_natural_order(changes(before, after)))


def _in_natural_order(found: Changes) -> Changes:
    return replace(
        found,
        joined=tuple(sorted(found.joined, key=lambda one: natural(one.identity))),
        left=tuple(sorted(found.left, key=lambda one: natural(one.identity))),
        replaced=tuple(sorted(found.replaced, key=lambda one: natural(one.identity))),
        statuses=tuple(sorted(found.statuses, key=lambda one: natural(one.name))),
        resubscribed=tuple(sorted(found.resubscribed, key=lambda one: natural(one.identity))),
        moves=None
        if found.moves is None
        else tuple(sorted(found.moves, key=lambda one: (natural(one.topic), one.partition))),
        topics=tuple(sorted(found.topics, key=lambda one: natural(one.name))),
    )
