"""`kgm wait`: block until a group meets conditions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.group_names import GroupOption, named_group
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.report import Report, cluster_json, emit, object_table
from kgm.model.errors import UsageError
from kgm.text.durations import parse_duration
from kgm.text.wording import typed

if TYPE_CHECKING:
    from kgm.operations.watch.wait import WaitResult

SCHEMA = "kgm.wait/v1"
_SHORTEST_INTERVAL_MS = 50


@cluster_options
def wait(
    group: Annotated[str | None, typer.Argument(metavar="GROUP", help="The group.")] = None,
    *,
    group_option: GroupOption = None,
    conditions: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="CONDITION",
            help="stable | settled | empty | members=N | lag<=N | lag-time<=60s | replaced=ID; all given must hold.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="FILE",
            help="The snapshot that replaced=ID compares with, `-` for stdin: kgm describe -o json.",
        ),
    ] = None,
    settle: Annotated[
        str, typer.Option("--settle", metavar="DURATION", help="How long the conditions must hold.")
    ] = "0s",
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="Polling interval.")] = "500ms",
    must_exist: Annotated[
        bool, typer.Option("--must-exist", help="Exit 3 if the group does not exist, instead of waiting for it.")
    ] = False,
    options: RunOptions,
) -> None:
    """Wait until a group is stable, is empty, has N members, or has a lag of at most N records.

    stable: the state is Stable, and no member is reconciling or away. settled: also, a Kafka Streams application or a
    group of Connect workers has no rebalance ahead; other groups do not report this, and waiting for them exits with 8
    immediately. empty: it has had no members for a second.
    members=N, members>=N, members<=N. lag<=N: over all partitions; not met while the lag of one of them is unknown.
    If this login has no DESCRIBE on some topics, the group may have more offsets than brokers tell it. SEEN says so if
    members name the topics that they read; otherwise, or if the group's log has such offsets, the lag is unknown.
    A DENY on a topic beside DESCRIBE on all topics shows in that log only (READ on __consumer_offsets).
    lag-time<=60s: in each partition, the first uncommitted record is at most that old, by its timestamp.
    replaced=ID: the static member ID has another member id than in --baseline, so a new process runs as ID. A static
    member that was stopped stays in a classic group until its session expires, so members=N holds without it.
    If --for is repeated, all conditions must hold in the same poll, and throughout --settle.

    Exits 0 when the conditions are met; 8 when --timeout (30s) passes before that, with the last state seen; 5 when the
    cluster cannot be reached at the start. It waits for brokers that fail later; if the last poll before --timeout
    fails, the exit code is that of its error (5, if no broker answers), and 7 if it could not read what a condition is
    about, such as an end offset. 6 when another cluster answers at the same address. It waits for a group that does not
    exist, since its first member creates it; a group that existed and was deleted counts as empty."""
    from kgm.cli.options.snapshots import read_snapshot_file
    from kgm.cli.output.failures import print_error
    from kgm.client.lag_times import with_lag_time
    from kgm.operations.groups.unread import UnreadKind, unread
    from kgm.operations.watch.conditions import Subject, parse_condition
    from kgm.operations.watch.timekeeper import SystemTimekeeper
    from kgm.operations.watch.wait import WaitLimits, wait_for

    name = named_group(group, group_option, hint="kgm wait GROUP --for stable")
    recorded = None if baseline is None else read_snapshot_file(baseline)
    before = None if recorded is None else recorded.group(name)
    wanted = [parse_condition(text, before) for text in conditions or ()]
    if recorded is not None and not any(one.subject is Subject.REPLACED for one in wanted):
        raise UsageError("--baseline is only used with --for replaced=ID")
    if not wanted:
        raise UsageError("no condition is given", hint=f"kgm wait {typed(name)} --for stable")
    limits = WaitLimits(
        timeout_ms=options.timeout_ms,
        hold_ms=parse_duration(settle, "--settle"),
        interval_ms=max(parse_duration(interval, "--interval"), _SHORTEST_INTERVAL_MS),
        must_exist=must_exist,
    )
    timekeeper = SystemTimekeeper()
    with options.cluster(reads_only=True) as connected:
        if recorded is not None:
            recorded.refuse_at(connected.cluster_id)
        timed = partial(with_lag_time, connected)

        def unread_offsets() -> list[str]:
            return [one.text for one in unread(connected) if one.kind is not UnreadKind.RECORDS]

        result = wait_for(connected, name, wanted, limits, timekeeper, with_lag_time=timed, unread=unread_offsets)
        where = cluster_json(connected)
    _emit(result, where, options)
    if result.error is not None:
        print_error(result.error)
        raise typer.Exit(result.error.exit_code)


def _emit(result: WaitResult, where: dict[str, str | None], options: RunOptions) -> None:
    from kgm.cli.output.contracts.wait import condition_json, wait_json

    columns = {"group_id": "GROUP", "condition": "CONDITION", "met": "MET", "seen": "SEEN"}
    items = [condition_json(one) for one in result.conditions]
    rows = [{"group_id": result.group_id, **item} for item in items]
    emit(
        Report(
            schema=SCHEMA,
            data=wait_json(result),
            tables=[object_table(columns, rows)],
            names=[result.group_id] if result.met else [],
            keys=[*columns],
            items=items,
            rows=rows,
            cluster=where,
            errors=[result.error] if result.error is not None else [],
        ),
        options,
    )
