"""`kgm top`: all groups of a cluster, worst first."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options_with
from kgm.cli.options.words import known_word
from kgm.cli.output.report import Report, cluster_json, emit
from kgm.model.errors import UsageError
from kgm.text.durations import parse_duration, show_duration

if TYPE_CHECKING:
    from kgm.client import AdminClient
    from kgm.operations.top.fleet import FleetRequest
    from kgm.operations.top.reader import FleetReader
    from kgm.operations.top.rows import FleetOrder

SCHEMA: Final = "kgm.top/v1"
#: The columns of csv and tsv.
_KEYS = (
    "group_id", "type", "state", "members", "missing", "lag", "rebalances", "assignor", "protocol_type", "lag_ms",
    "commit_age_ms", "commit_age_least_ms", "rebalances_since", "read_at", "rebalances_exact",
)  # fmt: skip
_SHORTEST_INTERVAL_MS: Final = 100


@cluster_options_with(
    "How long to redraw the screen (no limit). For one frame, and for connecting: the time limit (30s)."
)
def top(
    *,
    match: Annotated[str | None, typer.Option("--match", metavar="GLOB", help="Only groups whose id matches.")] = None,
    sort: Annotated[
        str,
        typer.Option(
            "--sort",
            metavar="COLUMN",
            help="lag-time | lag | rebalances | missing | commit-age | members | state | group",
        ),
    ] = "lag-time",
    once: Annotated[bool, typer.Option("--once", help="Print one frame with all groups, and exit.")] = False,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="Time between frames.")] = "1s",
    options: RunOptions,
) -> None:
    """Show all groups at a glance, worst first: state, members, lag, lag in time, last commit, rebalances.

    Redraws at a terminal until you press q or Ctrl-C (130), or until --timeout expires. Arrow keys move, Enter opens a
    group as in `kgm watch`, Escape returns, / filters by a part of the id or a glob, and the letters in the last line
    sort. With --once, another output format or no terminal, one frame is printed.

    By default, groups are sorted by lag in time; groups whose lag is known only in records come next, then groups whose
    lag is unknown, then groups that are caught up. MISSING is how many fewer members a stable group has than it had
    within the last hour, plus the members that are away. REBALANCES counts the last hour: 3/12m means 3 within 12
    minutes, 3+ means 3 or more. REBALANCES and COMMIT-AGE come from the latest records of __consumer_offsets (READ);
    without that right, kgm counts what it sees after it starts. Unknown values are shown as "-".

    With thousands of groups, kgm reads those on the screen for every frame, and the others in turn, using only a small
    share of one processor: the second line shows how old the oldest reading is."""
    from kgm.operations.top.fleet import FleetRequest
    from kgm.operations.top.rows import FleetOrder

    order = FleetOrder(known_word(sort, "--sort", list(FleetOrder)))
    interval_ms = parse_duration(interval, "--interval")
    if interval_ms < _SHORTEST_INTERVAL_MS:
        raise UsageError(f"--interval: {interval} is shorter than {show_duration(_SHORTEST_INTERVAL_MS)}")
    request = FleetRequest(pattern=match, round_ms=interval_ms)
    is_screen = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    with options.cluster(reads_only=True) as connected:
        if once or not is_screen or options.output != "table":
            _print_once(connected, request, order, options)
        else:
            _show(connected, request, order, interval_ms, options)


def _print_once(connected: AdminClient, request: FleetRequest, order: FleetOrder, options: RunOptions) -> None:
    from kgm.cli.output.contracts.groups import unread_json
    from kgm.cli.output.contracts.list import fleet_row_json
    from kgm.cli.output.failures import exit_with, warn_of_unread, warn_of_unseen_groups
    from kgm.cli.output.progress import progress
    from kgm.cli.output.top.cells import fleet_table
    from kgm.operations.groups.selection import unmatched
    from kgm.operations.top.fleet import Fleet

    fleet = Fleet(connected, request)
    with progress(options, "reading groups") as line:
        fleet.read_all(line.count)
        warn_of_unseen_groups(fleet.unseen)
    missing = fleet.unread()
    warn_of_unread(missing)
    rows = order.sorted([*fleet.rows.values()])
    errors = [*fleet.listing.errors, *unmatched(request.pattern, rows, fleet.listing)]
    emit(
        Report(
            schema=SCHEMA,
            data={"groups": map(fleet_row_json, rows), "unread": unread_json(missing)},
            tables=map(fleet_table, [rows]),
            keys=_KEYS,
            names=[row.group_id for row in rows],
            items=map(fleet_row_json, rows),
            cluster=cluster_json(connected),
            errors=errors,
        ),
        options,
    )
    exit_with(errors, done=len(rows))


def _show(
    connected: AdminClient, request: FleetRequest, order: FleetOrder, interval_ms: int, options: RunOptions
) -> None:
    from kgm.cli.output.top.screen import TopScreen
    from kgm.cli.output.top.view import TopView
    from kgm.cli.stop_signal import interrupted_by_signals
    from kgm.client.poller import POLL_MS
    from kgm.operations.top.fleet import Fleet
    from kgm.operations.top.reader import FleetReader

    fleet = Fleet(connected, request)

    def reader(notify: Callable[[], None]) -> FleetReader:
        budget_ms = min(POLL_MS, options.timeout_ms)
        return FleetReader(fleet, round_ms=interval_ms, budget_ms=budget_ms, notify=notify)

    title = connected.bootstrap + ("" if request.pattern is None else f"  {request.pattern}")
    screen = TopScreen(
        options, TopView(title=title, order=order), reader, interval_ms=interval_ms,
        duration_ms=options.given_timeout_ms,
    )  # fmt: skip
    with interrupted_by_signals():
        screen.run()
