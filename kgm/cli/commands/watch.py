"""`kgm watch`: groups as they change, and whether a rolling restart meets expectations."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.group_names import GroupsOption
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options_with
from kgm.cli.output.report import Report, cluster_json, emit, object_table
from kgm.cli.stop_signal import interrupted_by_signals
from kgm.model.errors import KgmError, UsageError
from kgm.text.durations import parse_duration, show_duration

if TYPE_CHECKING:
    from kgm.cli.options.snapshots import SnapshotFile
    from kgm.cli.output.watch.event_lines import CollectedEvents, JsonLines, TextLines
    from kgm.cli.output.watch.screen import Screen
    from kgm.client import AdminClient
    from kgm.operations.watch.expectations import Expectations
    from kgm.operations.watch.timekeeper import Timekeeper
    from kgm.operations.watch.watch import Watch, WatchLimits
    from kgm.operations.watch.watched_group import WatchedGroup

SCHEMA = "kgm.watch/v1"
_SHORTEST_INTERVAL_MS = 100


@cluster_options_with(
    "How long to watch (no limit). From the environment or a profile: only how long connecting may take (30s)."
)
def watch(
    groups: Annotated[list[str] | None, typer.Argument(metavar="GROUP...", help="Groups to watch.")] = None,
    *,
    group: GroupsOption = None,
    match: Annotated[
        str | None, typer.Option("--match", metavar="GLOB", help="Groups whose id matches when the watch begins.")
    ] = None,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="Polling interval.")] = "2s",
    until: Annotated[
        str | None, typer.Option("--until", metavar="WHAT", help="Exit 0 once all groups are: stable | bounced.")
    ] = None,
    settle: Annotated[
        str, typer.Option("--settle", metavar="DURATION", help="How long a group must be quiet to count as stable.")
    ] = "5s",
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="SNAPSHOT",
            help="Compare with this output of `kgm describe -o json`, not with the groups as they are now.",
        ),
    ] = None,
    expect_no_moves: Annotated[
        bool, typer.Option("--expect-no-moves", help="Exit 8 as soon as a partition moves to another consumer.")
    ] = False,
    max_rebalances: Annotated[
        int | None, typer.Option("--max-rebalances", metavar="K", help="Exit 8 after more than K rebalances.")
    ] = None,
    expect_members: Annotated[
        int | None,
        typer.Option("--expect-members", metavar="N", help="Stable means N members, instead of as many as before."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="N", help="End after N polls: exit 0, or 8 if --until is not reached."),
    ] = None,
    options: RunOptions,
) -> None:
    """Watch groups: members that join, leave and are replaced, rebalances, moved partitions, lag, coordinators.

    Redraws at a terminal, and writes one line per event to a pipe (-o ndjson: one object). Ends with Ctrl-C (130), when
    --timeout expires or you press q, when --until is reached (0), or when an expectation is broken (8). Owners are
    compared with the owners in the first poll in which the group was stable, or with --baseline.

    --until stable: the state is Stable, every static member from before is present and not away, there are as many
    members as before (or --expect-members), every partition that had an owner has one, and the group has been quiet for
    the --settle time. A static member of a classic group that has stopped stays in the group until its session expires,
    and Kafka does not show that it is gone. For a restart, start watching, restart the fleet, and use --until bounced:
    stable, after every member from before has been restarted.

    --expect-no-moves counts handovers: each time a consumer gets a partition that another one had before. A partition
    that moves away and comes back counts twice; a partition that has no consumer for a while and then gets the same one
    again does not count, nor does the first owner of a new partition. In a stable group, a partition whose owner has
    changed, or that has no owner now, also breaks the expectation.

    Rebalances are counted in __consumer_offsets (which needs READ on it), so none between two polls is missed: by
    generation, and in a group with epochs by target assignment, since from Kafka 4.3 on several epochs can share one
    (group.consumer.assignment.interval.ms). A generation without members, in which nothing is assigned, does not count,
    as in kgm simulate-bounce. Without that right, kgm counts only those of a classic group that show between two polls,
    and of others it knows a range by the assignment epochs, such as 1 to 5 rebalances, and says so. If it is not known
    at the end whether an expectation was met, the exit code is 4, 5 or 7. It ends with 6
    when another cluster answers at the same address, whose groups are others, or than the one --baseline is about.
    --timeout is how long to watch (no limit by default; exit 8 if --until is not reached by then); a timeout from the
    environment or a profile does not end a watch."""
    wanted = list(dict.fromkeys([*(groups or ()), *(group or ())]))
    if not wanted and match is None:
        raise UsageError("no group is given", hint="kgm watch GROUP; `kgm list` shows the groups")
    for option, number, least in (
        ("--max-rebalances", max_rebalances, 0), ("--expect-members", expect_members, 1), ("--count", count, 1)
    ):  # fmt: skip
        if number is not None and number < least:
            raise UsageError(f"{option} is {number}; the minimum is {least}")
    limits = _limits(interval, until, count, options)
    from kgm.cli.options.snapshots import read_snapshot_file
    from kgm.operations.watch.expectations import Expectations

    expectations = Expectations(
        quiet_ms=parse_duration(settle, "--settle"),
        bounced=until == "bounced",
        members=expect_members,
        expect_no_moves=expect_no_moves,
        max_rebalances=max_rebalances,
    )
    recorded = None if baseline is None else read_snapshot_file(baseline)
    watched = _watched_groups(wanted, recorded, expectations)

    def matching(connected: AdminClient) -> tuple[list[WatchedGroup], KgmError | None]:
        if recorded is not None:
            recorded.refuse_at(connected.cluster_id)
        group_ids, unseen = _matching(connected, match)
        names = [name for name in group_ids if name not in wanted]
        return _watched_groups(names, recorded, expectations), unseen

    _watch(watched, matching, limits, options, taken_ms=None if recorded is None else recorded.taken_ms)


def _matching(connected: AdminClient, pattern: str | None) -> tuple[Sequence[str], KgmError | None]:
    """The groups that match, and why there may be others. Raises NotFoundError if there are none, and the error of a
    broker that does not answer, because its groups would be missing."""
    if pattern is None:
        return (), None
    from kgm.cli.output.failures import warn_of_unseen_groups
    from kgm.operations.groups.selection import select_groups

    selection = select_groups(connected, [], pattern)
    warn_of_unseen_groups(selection.unseen)
    for error in selection.errors:
        raise error
    return selection.group_ids, selection.unseen


def _limits(interval: str, until: str | None, count: int | None, options: RunOptions) -> WatchLimits:
    from kgm.operations.watch.watch import Goal, WatchLimits

    if until is not None and until not in list(Goal):
        raise UsageError(f"--until: {until!r} is not one of {', '.join(Goal)}")
    interval_ms = parse_duration(interval, "--interval")
    if interval_ms < _SHORTEST_INTERVAL_MS:
        raise UsageError(f"--interval: {interval} is shorter than {show_duration(_SHORTEST_INTERVAL_MS)}")
    return WatchLimits(
        interval_ms=interval_ms,
        goal=None if until is None else Goal(until),
        duration_ms=options.given_timeout_ms,
        looks=count,
    )


def _watched_groups(
    names: Sequence[str], baseline: SnapshotFile | None, expectations: Expectations
) -> list[WatchedGroup]:
    """The groups with their baselines. Raises NotFoundError if one of them is not in the baseline."""
    from kgm.operations.watch.watched_group import WatchedGroup

    return [
        WatchedGroup(name, expectations=expectations, baseline=None if baseline is None else baseline.group(name))
        for name in names
    ]


def _watch(
    named: Sequence[WatchedGroup],
    matching: Callable[[AdminClient], tuple[Sequence[WatchedGroup], KgmError | None]],
    limits: WatchLimits,
    options: RunOptions,
    *,
    taken_ms: int | None,
) -> None:
    from kgm.cli.output.failures import print_error
    from kgm.cli.output.watch.event_lines import CollectedEvents
    from kgm.client.poller import POLL_MS, GroupPoller
    from kgm.operations.watch.watch import Watch

    with interrupted_by_signals(), options.cluster(reads_only=True) as connected:
        found, unseen = matching(connected)
        groups = [*named, *found]
        names = [group.group_id for group in groups]
        poller = GroupPoller(connected, names, budget_ms=min(POLL_MS, options.timeout_ms))
        observer = _observer(groups, limits, options)
        clock, is_ended = _clock(observer)
        running = Watch(poller, groups, limits, clock, is_ended=is_ended, unseen=unseen, taken_ms=taken_ms)
        running.begin()
        try:
            with (
                clock if isinstance(clock, AbstractContextManager) else nullcontext(),
                observer if isinstance(observer, AbstractContextManager) else nullcontext(),
            ):
                running.run(observer)
        finally:
            if isinstance(observer, CollectedEvents):
                _emit(running, observer, cluster_json(connected), options)
    if running.error is not None:
        print_error(running.error)
        raise typer.Exit(running.error.exit_code)


def _clock(observer: object) -> tuple[Timekeeper, Callable[[], bool]]:
    """The clock of the watch, and whether q has ended it; keys are read only if the screen is redrawn."""
    from kgm.cli.output.watch.event_lines import CollectedEvents, JsonLines, TextLines
    from kgm.operations.watch.timekeeper import SystemTimekeeper

    if isinstance(observer, CollectedEvents | JsonLines | TextLines):
        return SystemTimekeeper(), lambda: False
    from kgm.cli.output.watch.keys import LeaveKey

    key = LeaveKey()
    return key, key.is_pressed


def _observer(
    groups: Sequence[WatchedGroup], limits: WatchLimits, options: RunOptions
) -> Screen | TextLines | JsonLines | CollectedEvents:
    """Where events are shown: at a terminal, as lines, or in a document at the end."""
    from kgm.cli.output.watch.event_lines import CollectedEvents, JsonLines, TextLines

    if options.output == "ndjson":
        return JsonLines(groups)
    if options.is_data:
        return CollectedEvents(groups)
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return TextLines()
    from kgm.cli.output.watch.screen import Screen

    return Screen(options, groups, interval_ms=limits.interval_ms, waiting_for=limits.goal)


def _emit(running: Watch, collected: CollectedEvents, where: dict[str, str | None], options: RunOptions) -> None:
    """Print the document at the end, even if Ctrl-C ended the watch."""
    from kgm.cli.output.contracts.watch import verdict_json

    columns = {"at": "AT", "group_id": "GROUP", "event": "EVENT", "text": "DETAIL"}
    verdicts = running.verdicts()
    emit(
        Report(
            schema=SCHEMA,
            data={"groups": [verdict_json(verdict) for verdict in verdicts], "events": collected.items},
            tables=[object_table(columns, collected.items)],
            keys=[*columns],
            names=[verdict.group_id for verdict in verdicts],
            items=collected.items,
            cluster=where,
            errors=[running.error] if running.error is not None else [],
        ),
        options,
    )
