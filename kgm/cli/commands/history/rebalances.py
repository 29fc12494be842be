"""`kgm history rebalances`: each rebalance, with its cause, the members involved, its cost, and what moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.commands.history import following
from kgm.cli.commands.history.following import Follow
from kgm.cli.options.group_names import GroupOption, maybe_group
from kgm.cli.options.history import Group, HistoryOptions, Match, history_options
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.options.words import known_word, split_words
from kgm.cli.output.history.damages import no_rebalance_text
from kgm.cli.output.history.rows_json import cluster_json, rebalance_json, window_json
from kgm.cli.output.history.words import REBALANCE_KEYS, rebalance_cells, rebalance_columns
from kgm.cli.output.report import Report, Table, emit
from kgm.model.errors import UsageError
from kgm.text.wording import in_words, many, typed

if TYPE_CHECKING:
    from kgm.history.rows import RebalanceRow
    from kgm.operations.history.source import History

_SCHEMA = "kgm.history-rebalances/v1"


@cluster_options
@history_options
def rebalances(
    *,
    group: Group = None,
    group_option: GroupOption = None,
    match: Match = None,
    cause: Annotated[list[str] | None, typer.Option("--cause", help="Only with this cause; repeatable or a,b.")] = None,
    follow: Follow = False,
    options: HistoryOptions,
    common: RunOptions,
) -> None:
    """List rebalances, oldest first: when, why and how certain, who, how long members were stopped, what moved.

    WHO: + joined, - left, ~ came back, = took over what others gave up in the previous rebalance, * changed its
    subscription; no sign: it stayed a member, and joined again.
    STOPPED: the bounds that the log gives; for a consumer group, the exact total over partitions. MOVED: partitions
    that got another owner than their last one, out of those that have had one before. What a cooperative rebalance
    takes from a member counts in the later rebalance that gives it to another one. A ? after the generation: compaction
    has removed records in between, so the row is the difference between the two ends. A warning names the groups of
    which earlier records are missing: rebalances in there have no row.

    With -b HOST:PORT and neither --source nor --store, kgm reads the live topic: one partition for one group, otherwise
    all. This needs READ on __consumer_offsets. --follow prints each rebalance as it happens."""
    name = maybe_group(group, group_option)
    wanted = _causes(cause)
    from kgm.operations.history import group_rows
    from kgm.operations.history.gaps import incomplete_groups

    def has_cause(row: RebalanceRow) -> bool:
        return not wanted or row.cause in wanted

    if follow:
        pattern = match or "*"
        following.follow(
            options, common, name,
            lambda history, rows: _report(
                [row for row in rows if fnmatchcase(row.group_id, pattern) and has_cause(row)], history,
                notes=(),
            ),
        )  # fmt: skip
    history = options.open(common, name, match)
    rows = [row for row in group_rows.rebalances(history, name, match) if has_cause(row)]
    is_complete = bool(rows) or not incomplete_groups(history, name, match)
    emit(_report(rows, history, notes=_notes(rows, history, is_complete=is_complete)), common)


def _report(rows: Sequence[RebalanceRow], history: History, *, notes: Sequence[str]) -> Report:
    items = [rebalance_json(row) for row in rows]
    return Report(
        schema=_SCHEMA,
        data={"window": window_json(history), "rebalances": items},
        tables=[_table(rows, notes)],
        keys=REBALANCE_KEYS,
        names=list(dict.fromkeys(row.group_id for row in rows)),
        items=items,
        cluster=cluster_json(history),
    )


def _causes(given: list[str] | None) -> set[str]:
    """The causes that --cause lists, in either spelling. Raises UsageError."""
    from kgm.history.causes.verdict import Cause

    words = [word.replace(" ", "-") for word in split_words(given)]
    if given and not words:
        raise UsageError("--cause: the name of the cause is empty")
    return {known_word(word, "--cause", list(Cause)) for word in words}


def _table(rows: Sequence[RebalanceRow], notes: Sequence[str]) -> Table:
    groups = {row.group_id for row in rows}
    columns = rebalance_columns(min(groups) if len(groups) == 1 else None)
    cells = [rebalance_cells(row) for row in rows]
    return Table(columns=columns, rows=cells, notes=notes)


def _notes(rows: Sequence[RebalanceRow], history: History, *, is_complete: bool) -> list[str]:
    if not rows:
        return [no_rebalance_text(is_complete=is_complete)]
    groups = Counter(row.group_id for row in rows)
    most = groups.most_common(1)[0][0]
    last = next(row for row in reversed(rows) if row.group_id == most)
    counts = Counter(row.cause for row in rows).most_common()
    causes = ", ".join(f"{count} {in_words(cause)}" for cause, count in counts)
    return [
        f"{many(len(rows), 'rebalance')} of {many(len(groups), 'group')}: {causes}",
        f"next: kgm history explain {typed(most)} --generation {last.to_generation} {history.source.option}",
    ]
