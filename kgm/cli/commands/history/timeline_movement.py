"""`kgm history timeline` and `movement`: who sat where, and who owned what, over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from kgm.cli.commands.history.question import (
    GroupOption,
    TheGroup,
    check_group,
    cluster_of,
    one_group,
    rebalances_of,
    warn_of_damage,
    window_json,
)
from kgm.cli.commands.history.rows import (
    Json,
    Row,
    at,
    event_json,
    generation_text,
    in_words,
    moved_text,
    rebalance_json,
    short,
    sure_text,
    who_text,
    why_text,
)
from kgm.cli.commands.history.source import Where, of_history
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.model.ids import uuid_text
from kgm.text.durations import show_duration
from kgm.text.wording import many, typed

if TYPE_CHECKING:
    from kgm.history.store.store import Asked, Tables

_TIMELINE, _MOVEMENT = "kgm.history-timeline/v1", "kgm.history-movement/v1"
_BAR = 32
_MOST_OWNERS = 6


@cluster_options
@of_history
def timeline(*, group: TheGroup = None, group_option: GroupOption = None, where: Where, common: RunOptions) -> None:
    """Show a group's seats over time, and what happened to it: rebalances, absorbed bounces, and the like.

    A seat is an instance id, or the member id of a dynamic member. In the bars each column is an equal part of the
    window: # somebody sits there, . nobody does."""
    name = one_group(group, group_option)
    with where.tables() as tables:
        asked = where.asked(name)
        seats = [_seat_json(row) for row in sorted(tables.rows("silver_seat", asked), key=_seat_order)]
        events = [event_json(row) for row in tables.rows("gold_event", asked)]
        rebalances = [rebalance_json(row) for row in rebalances_of(tables, where, name)]
        if not seats and not rebalances and not events:
            check_group(tables, where, name)
        window, cluster_json = window_json(tables, where), cluster_of(tables)
        end_ms = tables.about.get("last_ms")
        warn_of_damage(tables, common)
    happened = sorted([*events, *rebalances], key=lambda each: (each["at"] or "", each["record"]["offset"]))
    emit(
        Report(
            schema=_TIMELINE,
            data={"group_id": name, "window": window, "seats": seats, "events": events, "rebalances": rebalances},
            tables=[_seats(name, seats, span(seats, where, end_ms)), _happened(happened)],
            names=list(dict.fromkeys(each["identity"] for each in seats)),
            items=seats,
            cluster=cluster_json,
        ),
        common,
    )


def _seat_order(row: Row) -> tuple[str, int]:
    return row["seat"] or "", row["from_offset"]


def _seat_json(row: Row) -> Json:
    """One process on a seat. A null `to`: it sits there still."""
    return {
        "identity": row["seat"], "member_id": row["member_id"], "group_instance_id": row["group_instance_id"],
        "client_id": row["client_id"], "client_host": row["client_host"],
        "session_timeout_ms": row["session_timeout_ms"], "from": at(row["from_timestamp"]),
        "from_generation": row["from_generation"], "known_from": row["known_from"], "to": at(row["to_timestamp"]),
        "to_generation": row["to_generation"], "end_cause": row["end_cause"],
        "end_confidence": row["end_confidence"], "from_ms": row["from_timestamp"], "to_ms": row["to_timestamp"],
    }  # fmt: skip


def _seats(group: str, seats: Sequence[Json], window: tuple[int, int]) -> Table:
    first, last = window
    columns = [
        Column(title="SEAT"), Column(title="MEMBER-ID", wide=True), Column(title="CLIENT-ID"), Column(title="HOST"),
        Column(title="FROM"), Column(title="TO"), Column(title="FOR", right=True), Column(title="ENDED-BY"),
        Column(title="CONFIDENCE"), Column(title="OVER TIME"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            short(each["identity"]), each["member_id"], each["client_id"], each["client_host"],
            ("" if each["known_from"] else "before ") + (each["from"] or "?"), each["to"],
            _length(each, last), each["end_cause"] and in_words(each["end_cause"]), each["end_confidence"],
            bar([(each["from_ms"], each["to_ms"])], first, last),
        ]
        for each in seats
    ]  # fmt: skip
    here = sum(each["to_ms"] is None for each in seats)
    notes = [
        f"{many(len(seats), 'member')} on {many(len({each['identity'] for each in seats}), 'seat')}, {here} at the end"
    ]
    return Table(columns=columns, rows=rows, heading=f"{group}  seats, {at(first)} to {at(last)}", notes=notes)


def span(intervals: Sequence[Json], where: Where, end_ms: int | None) -> tuple[int, int]:
    """From when to when the intervals are shown: what was asked for, or else all of it; end_ms: of the history."""
    starts = [each["from_ms"] for each in intervals if each["from_ms"] is not None]
    ends = [each["to_ms"] for each in intervals if each["to_ms"] is not None]
    first = where.since_ms if where.since_ms is not None else min(starts, default=0)
    last = where.until_ms if where.until_ms is not None else max([*starts, *ends, end_ms or 0])
    return first, max(first, last)


def bar(intervals: Sequence[tuple[int | None, int | None]], first: int, last: int) -> str:
    """`..####..`: in which parts of the window one of the intervals is."""
    width = max(last - first, 1)
    cells = ["."] * _BAR
    for start, end in intervals:
        left = ((start if start is not None else first) - first) * _BAR // width
        right = ((end if end is not None else last) - first) * _BAR // width
        for place in range(max(left, 0), min(max(right, left + 1), _BAR)):
            cells[place] = "#"
    return "".join(cells)


def _length(interval: Json, last: int) -> str | None:
    if interval["from_ms"] is None:
        return None
    return show_duration(max((interval["to_ms"] or last) - interval["from_ms"], 0))


def _happened(rows: Sequence[Json]) -> Table:
    columns = [Column(title=title) for title in ("AT", "WHAT", "WHO", "CONFIDENCE", "GENERATION", "MOVED")]
    cells: list[list[Cell]] = []
    for row in rows:
        who = who_text(row["who"])
        if "event" in row:
            cells.append([row["at"], in_words(row["event"]), who, row["confidence"], row["generation"], None])
        else:
            generation = generation_text(row)
            cells.append([row["at"], f"rebalance: {why_text(row)}", who, sure_text(row), generation, moved_text(row)])
    return Table(columns=columns, rows=cells, heading="what happened")


@cluster_options
@of_history
def movement(*, group: TheGroup = None, group_option: GroupOption = None, where: Where, common: RunOptions) -> None:
    """Show who owned each partition of a group over time, and how often it changed hands.

    In the bars each column is an equal part of the window: # it has an owner, . it has none."""
    name = one_group(group, group_option)
    with where.tables() as tables:
        owners = owners_of(tables, where.asked(name))
        if not owners:
            check_group(tables, where, name)
        window, cluster_json = window_json(tables, where), cluster_of(tables)
        end_ms = tables.about.get("last_ms")
        warn_of_damage(tables, common)
    emit(
        Report(
            schema=_MOVEMENT,
            data={"group_id": name, "window": window, "owners": owners},
            tables=[_owners(name, owners, span(owners, where, end_ms), where)],
            names=list(dict.fromkeys(f"{each['topic']}:{each['partition']}" for each in owners)),
            items=owners,
            cluster=cluster_json,
        ),
        common,
    )


def owners_of(tables: Tables, asked: Asked) -> list[Json]:
    """By topic and partition, oldest first."""
    return [owner_json(row) for row in sorted(tables.rows("silver_owner", asked), key=owner_order)]


def owner_order(row: Row) -> tuple[str, bytes, int, int]:
    return row["topic"] or "", row["topic_id"] or b"", row["topic_partition"], row["from_offset"]


def owner_json(row: Row) -> Json:
    """A seat's hold on a partition. A null `to`: it holds it still; to_earliest: when it may have let go."""
    topic_id = row["topic_id"]
    return {
        "topic": row["topic"], "topic_id": None if topic_id is None else uuid_text(topic_id),
        "partition": row["topic_partition"], "identity": row["seat"], "member_id": row["member_id"],
        "from": at(row["from_timestamp"]), "from_generation": row["from_generation"], "known_from": row["known_from"],
        "to": at(row["to_timestamp"]), "to_earliest": at(row["to_earliest_timestamp"]),
        "to_generation": row["to_generation"], "exact": row["exact"], "from_ms": row["from_timestamp"],
        "to_ms": row["to_timestamp"],
    }  # fmt: skip


def _owners(group: str, owners: Sequence[Json], window: tuple[int, int], where: Where) -> Table:
    first, last = window
    held: dict[tuple[str, int], list[Json]] = {}
    for each in owners:
        held.setdefault((each["topic"] or f"id {each['topic_id']}", each["partition"]), []).append(each)
    columns = [
        Column(title="TOPIC"), Column(title="PARTITION", right=True), Column(title="MOVES", right=True),
        Column(title="OWNER"), Column(title="SINCE"), Column(title="OWNERS BEFORE"), Column(title="OVER TIME"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    moves = 0
    for (topic, partition), rounds in held.items():
        mine = _moves(rounds)
        moves += mine
        now = rounds[-1] if rounds[-1]["to_ms"] is None else None
        before = [name for name, _ in groupby(short(each["identity"]) for each in rounds)]
        if now is not None:
            before.pop()
        left_out = "... " if len(before) > _MOST_OWNERS else ""
        rows.append(
            [
                topic, partition, mine, *((None, None) if now is None else (short(now["identity"]), now["from"])),
                left_out + " -> ".join(before[-_MOST_OWNERS:]) or None,
                bar([(each["from_ms"], each["to_ms"]) for each in rounds], first, last),
            ]
        )  # fmt: skip
    note = f"{many(moves, 'move')} of {many(len(held), 'partition')}"
    return Table(
        columns=columns, rows=rows, heading=f"{group}  owners, {at(first)} to {at(last)}",
        notes=[f"{note}; next: kgm history explain {typed(group)} {where.text}"],
    )  # fmt: skip


def _moves(rounds: Sequence[Json]) -> int:
    """How often it came to another seat."""
    return sum(a["identity"] != b["identity"] for a, b in pairwise(rounds))
