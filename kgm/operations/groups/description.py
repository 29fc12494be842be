"""What `kgm describe` asks a cluster: groups as snapshots, and the partitions that were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgm.client import AdminClient
from kgm.client.group_listing import Listing
from kgm.model.errors import KgmError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.groups.partitions import PartitionFilter, PartitionOrder, PartitionRow
from kgm.operations.groups.rebalance_wait import RebalanceWait
from kgm.operations.groups.selection import select_groups
from kgm.operations.groups.unread import Unread, unread

#: Of more groups the coordinators' logs are not read, which takes time and bytes for each.
_MOST_COMPLETED = 10
#: States in which members, or partitions, are waited for.
_CHANGING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionRequest:
    """Which groups: names, those that match the pattern, or all. partitions: None to show none.

    is_complete: read also what only the coordinators' logs and versions tell. with_times: and how far behind partitions
    are in time, and when they were committed last."""

    names: Sequence[str] = ()
    pattern: str | None = None
    all_groups: bool = False
    partitions: PartitionFilter | None = None
    is_complete: bool = False
    with_times: bool = False

    @property
    def is_of_all_readers(self) -> bool:
        """Whether a topic is asked for, and no group: then all groups are meant that have a part in it."""
        has_topics = self.partitions is not None and bool(self.partitions.topics)
        return has_topics and not self.names and self.pattern is None and not self.all_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroups:
    """partitions: None if they were not asked for. waits: what groups that rebalance wait for. listing: None if none
    was needed. unread: what is missing."""

    groups: tuple[GroupSnapshot, ...]
    partitions: tuple[PartitionRow, ...] | None
    errors: tuple[KgmError, ...]
    unread: tuple[Unread, ...]
    listing: Listing | None
    waits: tuple[RebalanceWait, ...] = ()


def describe(cluster: AdminClient, request: DescriptionRequest, order: PartitionOrder) -> DescribedGroups:
    """The groups in the order in which they are named, then by name. Raises KgmError when no broker answers."""
    is_of_all = request.is_of_all_readers
    selection = select_groups(cluster, request.names, request.pattern, all_groups=request.all_groups or is_of_all)
    answers = cluster.describe_groups(selection.group_ids) if selection.group_ids else []
    errors = [*selection.errors, *(answer for answer in answers if isinstance(answer, KgmError))]
    cluster.name_similar_groups(errors)
    groups = [answer for answer in answers if not isinstance(answer, KgmError)]
    if groups and request.with_times:
        from kgm.client.lag_times import with_commit_ages, with_lag_times

        groups = with_commit_ages(cluster, with_lag_times(cluster, groups))
    rows = None
    if request.partitions is not None:
        from kgm.operations.groups.partitions import absent_partitions, partition_rows

        rows = tuple(partition_rows(groups, request.partitions, order))
        errors += absent_partitions(cluster, request.partitions)
        if is_of_all:
            concerned = {row.group_id for row in rows}
            groups = [group for group in groups if group.group_id in concerned]
    if groups and request.is_complete:
        groups = cluster.with_kafka_versions(groups)
    # The log tells when the delay of a Connect group began, and so when it ends.
    if request.is_complete or any(group.rebalance_delay_ms for group in groups):
        groups = _with_logged(cluster, groups)
    waits = tuple(_waits(cluster, groups))
    return DescribedGroups(
        groups=tuple(groups), partitions=rows, errors=tuple(errors), listing=selection.listing, waits=waits,
        unread=tuple(unread(cluster)),
    )  # fmt: skip


def _waits(cluster: AdminClient, groups: list[GroupSnapshot]) -> Iterator[RebalanceWait]:
    changing = [group for group in groups if group.state in _CHANGING]
    if not changing:
        return
    from kgm.operations.groups.rebalance_wait import read_rebalance_wait, rebalance_wait

    for number, group in enumerate(changing):
        wait = read_rebalance_wait(cluster, group) if number < _MOST_COMPLETED else rebalance_wait(group)
        if wait is not None:
            yield wait


def _with_logged(cluster: AdminClient, groups: list[GroupSnapshot]) -> list[GroupSnapshot]:
    if not 0 < len(groups) <= _MOST_COMPLETED:
        return groups
    from kgm.client.offsets_topic.last_rebalance import all_with_logged_timeouts

    return all_with_logged_timeouts(cluster, groups)
