"""Everything that is known about one rebalance, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgm.cli.output.history.rows_json import BROKER_LOG
from kgm.cli.output.history.words import (
    generation_text,
    known,
    record_text,
    short,
    stopped_partitions_text,
    stopped_text,
    sure_text,
    why_text,
)
from kgm.cli.output.report import Cell, Column, Table
from kgm.model.assignment import Move
from kgm.text.durations import show_duration
from kgm.text.wording import in_words, many, moves_text

if TYPE_CHECKING:
    from kgm.history.rows import RebalanceRow

#: The most members that a history table shows.
MEMBERS_SHOWN = 20


def rebalance_detail(one: RebalanceRow, moves: tuple[Move, ...]) -> Table:
    """A row for each known fact about the rebalance."""
    rows: list[list[Cell]] = [
        ["when", record_text(one)],
        ["why", f"{why_text(one)} ({sure_text(one)})"],
    ]
    if one.reason:
        rows.append(["broker log", one.reason])
    if one.inferred_cause is not None and one.source == BROKER_LOG:
        rows.append(["inferred", f"{in_words(one.inferred_cause)} ({one.inferred_confidence})"])
    rows += [["because", sentence] for sentence in one.evidence]
    rows += [["who", f"{short(each.seat or None)}: {in_words(each.what)}"] for each in one.who[:MEMBERS_SHOWN]]
    if len(one.who) > MEMBERS_SHOWN:
        rows.append(["", f"and {len(one.who) - MEMBERS_SHOWN} more: -o json has them all"])
    rows.append(["members", f"{known(one.members_before)} -> {known(one.members_after)}"])
    if one.lost_rounds:
        rows.append(["incomplete", f"{many(one.lost_rounds, 'earlier rebalance')} never completed"])
    rows += [["stopped", _stopped(one)], ["moved", _moved(one)]]
    if moves:
        rows.append(["", moves_text(_shortened(moves))])
    heading = f"generation {generation_text(one)}"
    return Table(columns=[Column(title="WHAT"), Column(title="DETAILS")], rows=rows, heading=heading)


def _shortened(moves: tuple[Move, ...]) -> list[Move]:
    return [
        Move(topic=move.topic, partition=move.partition, owner_before=move.owner_before and short(move.owner_before),
             owner_after=move.owner_after and short(move.owner_after))
        for move in moves
    ]  # fmt: skip


def _stopped(one: RebalanceRow) -> str:
    text = stopped_text(one)
    if text is None:
        return "not known: not every partition was committed before and after it, or not all members had to stop"
    total = stopped_partitions_text(one) if one.group_type == "classic" else None
    sync = "" if one.sync_ms is None else f"; {show_duration(one.sync_ms)} from the last join to the assignment"
    return f"{text}{sync}" + (f"; {total} total over partitions" if total else "")


def _moved(one: RebalanceRow) -> str:
    if one.moved is None:
        return "?"
    both = one.moved + (one.kept or 0)
    assigned = "" if one.assigned is None else f"; {one.assigned} assigned after it"
    # In the other groups the target assignments are compared: a member may be gone before it has what it was given.
    had = "had an owner" if one.group_type == "classic" else "were assigned"
    return f"{one.moved} of {many(both, 'partition')} that {had} before and after{assigned}"
