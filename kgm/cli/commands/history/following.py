"""`--follow`: explain each rebalance of a live cluster as soon as it has ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from kgm.cli.output.history.damages import warn_of_gaps
from kgm.cli.output.notices import Notices
from kgm.cli.output.report import emit
from kgm.cli.output.streams import reader_has_gone
from kgm.model.errors import UsageError

if TYPE_CHECKING:
    from kgm.cli.options.history import HistoryOptions
    from kgm.cli.options.run_options import RunOptions
    from kgm.cli.output.report import Report
    from kgm.history.rows import RebalanceRow
    from kgm.operations.history.source import History

Follow = Annotated[
    bool, typer.Option("--follow", help="Print each rebalance of the live cluster as it happens, until Ctrl-C.")
]
_FORMATS = ("table", "wide", "ndjson", "name")


def follow(
    options: HistoryOptions, run: RunOptions, group_id: str | None,
    report: Callable[[History, Sequence[RebalanceRow]], Report],
) -> NoReturn:  # fmt: skip
    """Print a report whenever there are new rebalances. Ends with Ctrl-C, or when the reader of stdout has gone.

    Raises UsageError for a history that is not live, or an output format that needs an end."""
    if not options.is_live(run):
        raise UsageError("--follow needs a live cluster", hint="-b HOST:PORT, without --source DIR and --store")
    if run.output not in _FORMATS:
        raise UsageError(f"--follow cannot print {run.output}, because the output has no end", hint="-o ndjson")
    with options.live(run, group_id, "waiting for rebalances") as live:
        warn_of_gaps(live.read(), group_id)
        of = "" if group_id is None else f" of group {group_id}"
        Notices().note(f"the history{of} is read; each new rebalance is printed when it has ended")
        for history, rows in live.follow(time.sleep):
            shown = report(history, rows)
            if not shown.items:
                continue
            emit(shown, run)
            sys.stdout.flush()
            if reader_has_gone(sys.stdout):
                raise typer.Exit
            run = replace(run, headers=False)
    raise AssertionError("following a history does not end")
