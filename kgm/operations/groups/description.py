"""What `kgm describe` asks a cluster: groups as snapshots, and the partitions that were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kgm.client import AdminClient
from kgm.client.group_listing import Listing
from kgm.model.errors import KgmError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.groups.partitions import PartitionFilter, PartitionOrder, PartitionRow
from kgm.operations.groups.rebalance_wait import RebalanceWait
from kgm.operations.groups.selection import select_groups
from kgm.operations.groups.trends import GroupTrends
from kgm.operations.groups.unread import Unread, unread
from kgm.text.durations import show_duration, typed_duration

#: Of more groups the coordinators' logs are not read, which takes time and bytes for each.
_MOST_COMPLETED = 10
#: States in which members, or partitions, are waited for.
_CHANGING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionRequest:
    """Which groups: names, those that match the pattern, or all. partitions: None to show none.

    is_complete: read also what only the coordinators' logs and versions tell. with_times: and how far behind partitions
    are in time, and when they were committed last. trend_ms: and describe them twice, so far apart, to see how lag
    changes; None is once."""

    names: Sequence[str] = ()
    pattern: str | None = None
    all_groups: bool = False
    partitions: PartitionFilter | None = None
    is_complete: bool = False
    with_times: bool = False
    trend_ms: int | None = None

    @property
    def is_of_all_readers(self) -> bool:
        """Whether a topic is asked for, and no group: then all groups are meant that have a part in it."""
        has_topics = self.partitions is not None and bool(self.partitions.topics)
        return has_topics and not self.names and self.pattern is None and not self.all_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroups:
    """partitions: None if they were not asked for. waits: what groups that rebalance wait for. listing: None if none
    was needed. unread: what is missing. trends: by group id; None if they were not asked for."""

    groups: tuple[GroupSnapshot, ...]
    partitions: tuple[PartitionRow, ...] | None
    errors: tuple[KgmError, ...]
    unread: tuple[Unread, ...]
    listing: Listing | None
    waits: tuple[RebalanceWait, ...] = ()
    trends: Mapping[str, GroupTrends] | None = None


def describe(cluster: AdminClient, request: DescriptionRequest, order: PartitionOrder) -> DescribedGroups:
    """The groups in the order in which they are named, then by name. Raises KgmError when no broker answers."""
    is_of_all = request.is_of_all_readers
    selection = select_groups(cluster, request.names, request.pattern, all_groups=request.all_groups or is_of_all)
    answers = cluster.describe_groups(selection.group_ids) if selection.group_ids else []
    errors = [*selection.errors, *(answer for answer in answers if isinstance(answer, KgmError))]
    cluster.name_similar_groups(errors)
    groups = [answer for answer in answers if not isinstance(answer, KgmError)]
    trends = None
    if request.trend_ms is not None:
        groups, trends = _with_trends(cluster, groups, request.trend_ms)
    if groups and request.with_times:
        from kgm.client.lag_times import with_commit_ages, with_lag_times

        groups = with_lag_times(cluster, groups if trends is not None else with_commit_ages(cluster, groups))
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
        unread=tuple(unread(cluster)), trends=trends,
    )  # fmt: skip


def _with_trends(
    cluster: AdminClient, first: list[GroupSnapshot], window_ms: int
) -> tuple[list[GroupSnapshot], dict[str, GroupTrends]]:
    """(the groups as they are so much later, with the ages of their commits; their trends). A group that cannot be
    described again stays as it was. Raises UsageError if there is no time for it."""
    import time

    from kgm.client.lag_times import with_commit_ages
    from kgm.operations.groups.trends import group_trends

    if window_ms >= cluster.deadline.remaining() * 1000:
        raise UsageError(
            f"--trend: {show_duration(window_ms)} is not within the --timeout",
            hint=f"--timeout {typed_duration(window_ms + cluster.deadline.budget_ms)}",
        )
    then = {group.group_id: group for group in with_commit_ages(cluster, first)}
    then_ms = round(time.time() * 1000)
    cluster.deadline.sleep(window_ms / 1000)
    answers = cluster.describe_groups([*then]) if then else []
    seen = [answer for answer in answers if not isinstance(answer, KgmError)]
    now = {group.group_id: group for group in with_commit_ages(cluster, seen)}
    now_ms = round(time.time() * 1000)
    # Where lag does not fall, a transaction may be in the way.
    waiting = {(row.topic, row.partition) for group in now.values() for row in group.offsets if row.lag}
    stable_ends = cluster.end_offsets(waiting, is_stable=True) if waiting else {}
    trends = {
        group_id: group_trends(then[group_id], group, then_ms=then_ms, now_ms=now_ms, stable_ends=stable_ends)
        for group_id, group in now.items()
    }
    return [now.get(group.group_id, group) for group in then.values()], trends


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
