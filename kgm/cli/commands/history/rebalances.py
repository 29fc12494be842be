"""`kgm history rebalances`: each rebalance, with its cause, who brought it about, what it cost and what moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from kgm.cli.commands.history.question import (
    Group,
    GroupOption,
    Match,
    check_group,
    cluster_of,
    matching,
    maybe_group,
    rebalances_of,
    warn_of_damage,
    window_json,
)
from kgm.cli.commands.history.rows import REBALANCE_TITLES, Json, in_words, rebalance_cells, rebalance_json
from kgm.cli.commands.history.source import Where, of_history
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.text.wording import many, typed

SCHEMA = "kgm.history-rebalances/v1"
_DATA = (
    "GENERATION-BEFORE", "GENERATION-AFTER", "LOST-ROUNDS", "MOVED-PARTITIONS", "KEPT-PARTITIONS", "STOPPED-MIN-MS",
    "STOPPED-MAX-MS", "COMPLETE", "PARTITION", "OFFSET",
)  # fmt: skip


@cluster_options
@of_history
def rebalances(
    *,
    group: Group = None,
    group_option: GroupOption = None,
    match: Match = None,
    cause: Annotated[list[str] | None, typer.Option("--cause", help="Only with this cause; repeatable or a,b.")] = None,
    where: Where,
    common: RunOptions,
) -> None:
    """List rebalances, oldest first: when, why, how sure that is, who, how long consumption stopped, what moved.

    WHO: + came, - went, ~ came back, = took over what others gave up the round before, * subscribes to something else.
    STOPPED: what the log bounds; of a consumer group the exact sum over partitions. MOVED: partitions with another
    owner than before, of those that had one before and after. A generation with a ? behind it: compaction has eaten
    records in between, so this is the difference between the ends."""
    name = maybe_group(group, group_option)
    wanted = {word.strip().lower() for text in cause or () for word in text.split(",") if word.strip()}
    with where.tables() as tables:
        rows = rebalances_of(tables, where, name)
        if name is not None and not rows:
            check_group(tables, where, name)
        window, cluster_json = window_json(tables, where), cluster_of(tables)
        warn_of_damage(tables, common)
    found = [rebalance_json(row) for row in matching(rows, match)]
    if wanted:
        found = [each for each in found if {in_words(each["cause"]), each["cause"]} & wanted]
    emit(
        Report(
            schema=SCHEMA,
            data={"window": window, "rebalances": found},
            tables=[_table(found, where)],
            names=list(dict.fromkeys(each["group_id"] for each in found)),
            items=found,
            cluster=cluster_json,
        ),
        common,
    )


def _table(found: Sequence[Json], where: Where) -> Table:
    columns = [Column(title=title) for title in REBALANCE_TITLES] + [Column(title=title, data=True) for title in _DATA]
    rows: list[list[Cell]] = [[*rebalance_cells(each), *_data(each)] for each in found]
    return Table(columns=columns, rows=rows, notes=_notes(found, where))


def _data(rebalance: Json) -> list[Cell]:
    stopped, record = rebalance["stopped_ms"], rebalance["record"]
    return [
        rebalance["generation_before"], rebalance["generation_after"], rebalance["lost_rounds"], rebalance["moved"],
        rebalance["kept"], stopped["min"], stopped["max"], str(rebalance["complete"]).lower(), record["partition"],
        record["offset"],
    ]  # fmt: skip


def _notes(found: Sequence[Json], where: Where) -> list[str]:
    if not found:
        return ["no rebalance in this window"]
    causes = Counter(each["cause"] for each in found)
    groups = Counter(each["group_id"] for each in found)
    most = groups.most_common(1)[0][0]
    last = next(each for each in reversed(found) if each["group_id"] == most)
    said = ", ".join(f"{count} {in_words(cause)}" for cause, count in causes.most_common())
    generation = last["generation_after"]
    return [
        f"{many(len(found), 'rebalance')} of {many(len(groups), 'group')}: {said}",
        f"next: kgm history explain {typed(most)} --generation {generation} {where.text}",
    ]
