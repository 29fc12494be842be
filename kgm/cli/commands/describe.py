"""`kgm describe`: members with instance ids, assignments, lag; partitions and who owns them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from enum import Enum
from typing import Annotated, Any

import typer

from kgm.cli.options.group_names import GroupsOption
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.contracts.groups import snapshot_json
from kgm.cli.output.groups import rows as group_rows
from kgm.cli.output.groups.tables import members_table, offsets_table, partitions_table, state_table
from kgm.cli.output.report import Report, Table, cluster_json, emit
from kgm.model.errors import NotFoundError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.groups.description import DescribedGroups
from kgm.operations.groups.partitions import PartitionFilter, PartitionOrder
from kgm.operations.groups.trends import GroupTrends
from kgm.text.names import in_order

SCHEMA = "kgm.describe/v1"
#: Formats for people, which have one line per process.
_FOLDED = ("table", "markdown")


class DescribeView(Enum):
    """What is shown for each group; PARTITIONS shows one table over all groups."""

    MEMBERS = "members"
    OFFSETS = "offsets"
    STATE = "state"
    PARTITIONS = "partitions"


#: The columns of csv and tsv.
_KEYS = {
    DescribeView.MEMBERS: group_rows.MEMBER_KEYS,
    DescribeView.OFFSETS: group_rows.OFFSET_KEYS,
    DescribeView.STATE: group_rows.STATE_KEYS,
    DescribeView.PARTITIONS: group_rows.PARTITION_KEYS,
}


@cluster_options
def describe(
    groups: Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", help="Groups to describe.")] = None,
    *,
    group: GroupsOption = None,
    match: Annotated[str | None, typer.Option("--match", metavar="GLOB", help="Groups whose id matches.")] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="All visible groups.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Show members and what they own (the default).")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show committed and end offsets, lag, owner.")] = False,
    state: Annotated[
        bool, typer.Option("--state", help="Show one line for each group: state, assignor, coordinator.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show everything that is known about each member.")
    ] = False,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Show partitions of this topic, in all groups if none is named."),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", metavar="N", help="Only these partitions of --topic: 7, or 0-3,9; repeatable."),
    ] = None,
    only_lagging: Annotated[bool, typer.Option("--only-lagging", help="Show partitions whose lag is not 0.")] = False,
    unowned: Annotated[bool, typer.Option("--unowned", help="Show partitions that no member owns.")] = False,
    lag_time: Annotated[
        bool,
        typer.Option("--lag-time", help="Show lag in time, and the age of commits; reads records of topics."),
    ] = False,
    trend: Annotated[
        str | None,
        typer.Option("--trend", metavar="DURATION", help="Show how lag changes, from two polls this far apart: 10s."),
    ] = None,
    sort: Annotated[str, typer.Option("--sort", metavar="COLUMN", help="name | lag | lag-time")] = "name",
    options: RunOptions,
) -> None:
    """Describe groups: members with instance ids, assignments, lag.

    --topic, --partition, --only-lagging and --unowned show partitions and their owners: all partitions that a group
    owns, subscribes to, or has a committed offset for. Partitions whose lag or owner is unknown are shown too. --sort
    lag and --sort lag-time put the highest lag first.

    --lag-time adds the age of the first uncommitted record, from its timestamp (READ on the topic), and how long ago
    the offset was committed (READ on __consumer_offsets).

    --trend adds whether lag is rising, falling (and when the group will catch up at that rate), steady or caught up, or
    unknown if two polls are not enough to tell."""
    from kgm.cli.completion.cache import SeenNames, store_names
    from kgm.cli.options.words import known_word
    from kgm.cli.output.failures import exit_with, warn_of_unread, warn_of_unseen_groups
    from kgm.cli.output.progress import progress
    from kgm.operations.groups.description import DescriptionRequest
    from kgm.operations.groups.description import describe as ask

    wanted = _partition_filter(topic, partition, only_lagging=only_lagging, unowned=unowned)
    order = PartitionOrder(known_word(sort, "--sort", list(PartitionOrder)))
    view = _view(members=members, offsets=offsets, state=state, has_filter=wanted is not None)
    request = DescriptionRequest(
        names=[*(groups or ()), *(group or ())], pattern=match, all_groups=all_groups, partitions=wanted,
        is_complete=options.is_data,  # tables do not show what this adds
        with_times=lag_time or order is PartitionOrder.LAG_TIME, trend_ms=_window_ms(trend),
    )  # fmt: skip
    if not (request.names or match is not None or all_groups or request.is_of_all_readers):
        hint = "name one, or add --match GLOB or --all-groups; `kgm list` shows the groups"
        raise UsageError("no group is given", hint=hint)
    names = SeenNames()
    folds = options.output in _FOLDED
    with options.cluster(reads_only=True) as connected, progress(options, "describing groups"):
        described = ask(connected, request, order)
        described.groups = map(names.noted, described.groups)
        warn_of_unseen_groups(described.unseen)
        tables = _tables(described, view, order, verbose=verbose, times=request.with_times, folds=folds)
        emit(report(described, tables, cluster_json(connected), view=view, order=order), options)
    warn_of_unread(described.unread)
    gone = [one.group_id for one in described.errors if isinstance(one, NotFoundError) and one.group_id is not None]
    store_names(options, names, gone=gone)
    exit_with(described.errors, done=described.described)


def _window_ms(text: str | None) -> int | None:
    """The time between the two polls, in ms. Raises UsageError."""
    if text is None:
        return None
    from kgm.text.durations import parse_duration

    window_ms = parse_duration(text, "--trend")
    if not window_ms:
        raise UsageError("--trend: two polls must be some time apart", hint="kgm describe GROUP --trend 10s")
    return window_ms


def _partition_filter(
    topic: list[str] | None, partition: list[str] | None, *, only_lagging: bool, unowned: bool
) -> PartitionFilter | None:
    """The filter; None if no partitions are asked for. Raises UsageError."""
    if not (topic or partition or only_lagging or unowned):
        return None
    from kgm.cli.options.words import partition_numbers, topic_names
    from kgm.operations.groups.partitions import PartitionFilter

    if partition and not topic:
        raise UsageError("--partition needs --topic", hint="kgm describe --topic TOPIC --partition N")
    return PartitionFilter(
        topics=tuple(topic_names(topic)),
        numbers=partition_numbers(partition),
        only_lagging=only_lagging,
        unowned=unowned,
    )


def _view(*, members: bool, offsets: bool, state: bool, has_filter: bool) -> DescribeView:
    """The view that the options select. Raises UsageError for options that exclude each other."""
    if members + offsets + state > 1:
        raise UsageError("--members, --offsets and --state exclude each other")
    if has_filter:
        if members or state:
            raise UsageError("--topic, --only-lagging and --unowned show partitions, not --members or --state")
        return DescribeView.PARTITIONS
    return DescribeView.STATE if state else DescribeView.OFFSETS if offsets else DescribeView.MEMBERS


def _tables(
    described: DescribedGroups, view: DescribeView, order: PartitionOrder, *, verbose: bool, times: bool, folds: bool
) -> Iterator[Table]:
    match view:
        case DescribeView.PARTITIONS:
            for _ in described.groups:
                pass
            yield partitions_table(described.partitions or (), times=times, trends=described.trends)
        case DescribeView.STATE:
            table = state_table(described.groups, order, times=times, trends=described.trends)
            lines = [f"{wait.group_id}: {line}" for wait in described.waits for line in (wait.headline, *wait.lines())]
            yield _with_notes(table, lines)
        case DescribeView.OFFSETS:
            for snapshot in described.groups:
                yield offsets_table(snapshot, order, times=times, trends=described.trends)
        case DescribeView.MEMBERS:
            from kgm.operations.groups.sink_tasks import tasks_of

            for snapshot in described.groups:
                table = members_table(
                    snapshot, order, verbose=verbose, times=times, folds=folds, trends=described.trends,
                    sink_tasks=tasks_of(snapshot, described.sink_tasks),
                )  # fmt: skip
                yield _with_notes(table, _waits_of(snapshot, described))


def _waits_of(group: GroupSnapshot, described: DescribedGroups) -> list[str]:
    """Which members the group is waiting for. The group must be the one that was described last."""
    wait = described.waits[-1] if described.waits else None
    return [] if wait is None or wait.group_id != group.group_id else [wait.headline, *wait.lines()]


def _with_notes(table: Table, notes: Sequence[str]) -> Table:
    return replace(table, notes=[*table.notes, *notes]) if notes else table


def report(
    described: DescribedGroups, tables: Iterable[Table], where: dict[str, str | None], *, view: DescribeView,
    order: PartitionOrder = PartitionOrder.NAME,
) -> Report:  # fmt: skip
    """The report: its data are the snapshots, and partitions if they were asked for; its items are groups, partitions,
    offsets or members, depending on the view. Everything is lazy: groups are described while they are printed."""
    return Report(
        schema=SCHEMA,
        data={
            "groups": map(snapshot_json, described.groups),
            "partitions": None if view is not DescribeView.PARTITIONS else _partitions_json(described),
            "waits": _waits_json(described),
            "unread": _unread_json(described),
            "trends": None if described.trends is None else _trends_json(described.trends),
            "sink_tasks": _sink_tasks_json(described),
        },
        tables=tables,
        keys=[key for key in _KEYS[view] if key != "trend" or described.trends is not None],
        names=_names(described, view),
        items=_items(described, view, order),
        rows=_rows(described, view, order),
        cluster=where,
        errors=described.errors,
    )


def _partitions_json(described: DescribedGroups) -> Iterator[dict[str, Any]]:
    from kgm.cli.output.contracts.groups import partition_json

    for _ in described.groups:  # describe the groups that are not printed
        pass
    yield from map(partition_json, described.partitions or ())


def _waits_json(described: DescribedGroups) -> Iterator[dict[str, Any]]:
    if described.waits:
        from kgm.cli.output.contracts.describe import wait_json

        yield from map(wait_json, described.waits)


def _trends_json(trends: Mapping[str, GroupTrends]) -> Iterator[dict[str, Any]]:
    from kgm.cli.output.contracts.describe import trends_json

    for one in trends.values():
        yield from trends_json(one)


def _sink_tasks_json(described: DescribedGroups) -> Iterator[dict[str, Any]]:
    yield from map(asdict, described.sink_tasks)  # only begun when the groups, which add tasks, are printed


def _unread_json(described: DescribedGroups) -> Iterator[dict[str, Any]]:
    if described.unread:
        from kgm.cli.invocation import note_warning
        from kgm.cli.output.contracts.groups import unread_json

        for one in described.unread:
            note_warning(one.warning)  # it is printed along with the groups
        yield from unread_json(described.unread)


def _items(described: DescribedGroups, view: DescribeView, order: PartitionOrder) -> Iterator[dict[str, Any]]:
    """The objects of ndjson."""
    if view is DescribeView.PARTITIONS:
        yield from _partitions_json(described)
    for snapshot in described.groups:
        if view is DescribeView.STATE:
            yield snapshot_json(snapshot)
        elif view is DescribeView.OFFSETS:
            yield from group_rows.offset_items(snapshot, order)
        else:
            yield from group_rows.member_items(snapshot, order)


def _rows(described: DescribedGroups, view: DescribeView, order: PartitionOrder) -> Iterator[dict[str, Any]]:
    """The rows of csv and tsv."""
    trends = described.trends
    if view is DescribeView.STATE:
        yield from group_rows.state_rows(described.groups, order, trends)
    for snapshot in described.groups:
        if view is DescribeView.OFFSETS:
            yield from group_rows.offset_rows(snapshot, order, trends)
        elif view is DescribeView.MEMBERS:
            from kgm.operations.groups.sink_tasks import tasks_of

            yield from group_rows.member_rows(snapshot, order, trends, tasks_of(snapshot, described.sink_tasks))
    if view is DescribeView.PARTITIONS:
        yield from (group_rows.partition_row(row, trends) for row in described.partitions or ())


def _names(described: DescribedGroups, view: DescribeView) -> Iterator[str]:
    for snapshot in described.groups:
        if view is DescribeView.STATE:
            yield snapshot.group_id
        elif view is not DescribeView.PARTITIONS:
            yield from in_order(member.identity for member in snapshot.members)
    if view is DescribeView.PARTITIONS:
        owners = [row.owner for row in described.partitions or () if row.owner is not None]
        yield from dict.fromkeys(owner.identity for owner in owners)
