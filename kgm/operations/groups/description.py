"""What `kgm describe` gets from a cluster: groups as snapshots, and the requested partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kgm.client import AdminClient
from kgm.model.errors import KgmError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.groups.partitions import (
    PartitionFilter,
    PartitionOrder,
    PartitionRows,
    absent_partitions,
    partition_rows,
)
from kgm.operations.groups.rebalance_wait import RebalanceWait
from kgm.operations.groups.selection import select_groups
from kgm.operations.groups.trends import GroupTrends
from kgm.operations.groups.unread import Unread, unread
from kgm.text.durations import show_duration, typed_duration
from kgm.text.names import in_order

if TYPE_CHECKING:
    from kgm.client.lag_times import KnownTimes
    from kgm.operations.groups.sink_tasks import SinkTask, SinkTasks  # asks for groups that most commands do not need

#: The coordinators' logs are read for at most this many groups, because each one takes time and bytes.
_MOST_COMPLETED = 10
#: Times of records that are kept for further groups, which may have read as far.
_MOST_TIMES = 50_000
#: States in which the group is waiting for members, or for partitions to be released.
_CHANGING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionRequest:
    """Which groups: the named ones, those that match the pattern, or all. partitions: None to show none.

    is_complete: also read what only the coordinators' logs and API versions show. with_times: also how far behind
    partitions are in time, and when they were last committed. trend_ms: describe the groups twice, this far apart, to
    see how lag changes; None: only once."""

    names: Sequence[str] = ()
    pattern: str | None = None
    all_groups: bool = False
    partitions: PartitionFilter | None = None
    is_complete: bool = False
    with_times: bool = False
    trend_ms: int | None = None

    @property
    def is_of_all_readers(self) -> bool:
        """Whether a topic is requested and no group: that means all groups that use the topic."""
        has_topics = self.partitions is not None and bool(self.partitions.topics)
        return has_topics and not self.names and self.pattern is None and not self.all_groups


@dataclass(slots=True, kw_only=True)
class DescribedGroups:
    """The described groups, which can be iterated once; the other fields are complete after the last one. Groups come
    in the order in which they were named, then by name.

    partitions: None if they were not requested. waits: what rebalancing groups are waiting for. unseen: why there may
    be other groups. unread: what could not be read. described: how many groups there were. trends: by group id; None if
    they were not requested. sink_tasks: which Connect worker runs which member of a sink connector's group, whichever
    of the two groups was described."""

    groups: Iterator[GroupSnapshot]
    errors: list[KgmError] = field(default_factory=list)
    partitions: PartitionRows | None = None
    waits: list[RebalanceWait] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    unseen: KgmError | None = None
    described: int = 0
    trends: dict[str, GroupTrends] | None = None
    sink_tasks: Collection[SinkTask] = ()


def describe(cluster: AdminClient, request: DescriptionRequest, order: PartitionOrder) -> DescribedGroups:
    """Find the groups, and describe them in batches while `groups` is iterated. Both raise KgmError when no broker
    answers. UsageError if there is no time for trends."""
    if request.trend_ms is not None and request.trend_ms >= cluster.deadline.remaining() * 1000:
        raise UsageError(
            f"--trend: {show_duration(request.trend_ms)} is not within the --timeout",
            hint=f"--timeout {typed_duration(request.trend_ms + cluster.deadline.budget_ms)}",
        )
    from kgm.operations.groups.sink_tasks import SinkTasks

    is_all = request.all_groups or request.is_of_all_readers
    selection = select_groups(cluster, request.names, request.pattern, all_groups=is_all)
    found = DescribedGroups(groups=iter(()), errors=[*selection.errors], unseen=selection.unseen)
    found.trends = None if request.trend_ms is None else {}
    sinks = SinkTasks(cluster=cluster, listing=selection.listing)
    found.sink_tasks = sinks.tasks.values()
    found.groups = _described(cluster, request, order, selection.group_ids, found, sinks)
    return found


def _described(
    cluster: AdminClient, request: DescriptionRequest, order: PartitionOrder, group_ids: Sequence[str],
    found: DescribedGroups, sinks: SinkTasks,
) -> Iterator[GroupSnapshot]:  # fmt: skip
    """The described groups. Everything else that is found goes into `found`."""
    from kgm.client.in_parts import PART, in_parts

    rows = None
    if request.partitions is not None:
        # Without names, they are in order already.
        rows = PartitionRows(order, in_order(group_ids) if request.names else group_ids)
    # Trends are those of all groups in the same time.
    size = len(group_ids) if request.trend_ms is not None else PART
    is_whole = len(group_ids) <= size
    times: KnownTimes = {}

    def ask(some: Sequence[str]) -> list[GroupSnapshot | KgmError]:
        if len(times) > _MOST_TIMES:
            times.clear()
        answers = _answers(cluster, request, some, rows, found.trends, times, is_whole=is_whole)
        if rows is None:
            sinks.look([answer for answer in answers if not isinstance(answer, KgmError)])
        return answers

    changing = 0
    for answer in in_parts(cluster, group_ids, ask, size=size):
        if isinstance(answer, KgmError):
            found.errors.append(answer)
            continue
        if answer.state in _CHANGING:
            found.waits += _waits(cluster, answer, is_read=changing < _MOST_COMPLETED)
            changing += 1
        found.described += 1
        yield answer
    cluster.name_similar_groups(found.errors)
    if request.partitions is not None:
        found.partitions = rows
        found.errors += absent_partitions(cluster, request.partitions)
    found.unread += [*unread(cluster), *sinks.unread]


def _answers(
    cluster: AdminClient, request: DescriptionRequest, group_ids: Sequence[str], rows: PartitionRows | None,
    trends: dict[str, GroupTrends] | None, times: KnownTimes, *, is_whole: bool,
) -> list[GroupSnapshot | KgmError]:  # fmt: skip
    """The snapshots of a batch of groups, without those that have nothing to do with the request, followed by the
    errors for the others. Their partitions go into `rows`, their trends into `trends`, and when records were written
    into `times`. is_whole: this batch has all the groups."""
    answers = cluster.describe_groups(group_ids)
    errors = [answer for answer in answers if isinstance(answer, KgmError)]
    groups = [answer for answer in answers if not isinstance(answer, KgmError)]
    if groups and request.trend_ms is not None and trends is not None:
        groups, found_trends = _with_trends(cluster, groups, request.trend_ms)
        trends |= found_trends
    if groups and request.with_times:
        from kgm.client.lag_times import with_commit_ages, with_lag_times

        if trends is None:
            groups = with_commit_ages(cluster, groups, is_whole=is_whole)
        groups = with_lag_times(cluster, groups, times)
    if request.partitions is not None and rows is not None:
        found = [(group, partition_rows(group, request.partitions)) for group in groups]
        groups = [group for group, own in found if own or not request.is_of_all_readers]
        for _, own in found:
            rows.add(own)
    if groups and request.is_complete:
        groups = cluster.with_kafka_versions(groups)
    # The log shows when the rebalance delay of a Connect group began, and so when it ends.
    if is_whole and (request.is_complete or any(group.rebalance_delay_ms for group in groups)):
        groups = with_logged(cluster, groups)
    return [*groups, *errors]


def _with_trends(
    cluster: AdminClient, first: list[GroupSnapshot], window_ms: int
) -> tuple[list[GroupSnapshot], dict[str, GroupTrends]]:
    """(the groups `window_ms` later, with the ages of their commits; their trends by group id). A group that could not
    be described again is returned as it was the first time. Raises OtherClusterError."""
    import time

    from kgm.client.failures import refuse_other_cluster
    from kgm.client.lag_times import with_commit_ages
    from kgm.operations.groups.trends import group_trends

    then = {group.group_id: group for group in with_commit_ages(cluster, first)}
    then_ms = round(time.time() * 1000)
    cluster.deadline.sleep(window_ms / 1000)
    answers = cluster.describe_groups([*then]) if then else []
    refuse_other_cluster(answers)
    seen = [answer for answer in answers if not isinstance(answer, KgmError)]
    now = {group.group_id: group for group in with_commit_ages(cluster, seen)}
    now_ms = round(time.time() * 1000)
    # If lag does not fall, an open transaction may be in the way.
    waiting = {(row.topic, row.partition) for group in now.values() for row in group.offsets if row.lag}
    stable_ends = cluster.end_offsets(waiting, is_stable=True) if waiting else {}
    trends = {
        group_id: group_trends(then[group_id], group, then_ms=then_ms, now_ms=now_ms, stable_ends=stable_ends)
        for group_id, group in now.items()
    }
    return [now.get(group.group_id, group) for group in then.values()], trends


def _waits(cluster: AdminClient, group: GroupSnapshot, *, is_read: bool) -> Iterator[RebalanceWait]:
    from kgm.operations.groups.rebalance_wait import read_rebalance_wait, rebalance_wait

    wait = read_rebalance_wait(cluster, group) if is_read else rebalance_wait(group)
    if wait is not None:
        yield wait


def with_logged(cluster: AdminClient, groups: list[GroupSnapshot]) -> list[GroupSnapshot]:
    """The described groups with what only the coordinators' logs have, such as session timeouts; as they are if there
    are more than `_MOST_COMPLETED`."""
    if not 0 < len(groups) <= _MOST_COMPLETED:
        return groups
    from kgm.client.offsets_topic.last_rebalance import all_with_logged_timeouts

    return all_with_logged_timeouts(cluster, groups)
