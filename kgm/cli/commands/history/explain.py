"""`kgm history explain`: one group, and one of its rebalances in all that is known of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.commands.history.churn import ReportFile
from kgm.cli.commands.history.next_steps import next_steps
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
    REBALANCE_TITLES,
    Json,
    Row,
    at,
    between_text,
    event_json,
    generation_text,
    in_words,
    rebalance_cells,
    rebalance_json,
    short,
    stopped_text,
    sure_text,
    why_text,
)
from kgm.cli.commands.history.source import Where, of_history
from kgm.cli.commands.history.timeline_movement import owners_of
from kgm.cli.commands.history.zombies_timeouts import advice_json
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.model.assignment import Move
from kgm.model.errors import NotFoundError
from kgm.model.ids import uuid_text
from kgm.text.durations import show_duration
from kgm.text.wording import many, moves_text, typed

if TYPE_CHECKING:
    from kgm.history.store.store import Asked, Tables

SCHEMA = "kgm.history-explain/v1"
_SHOWN = 12
_MEMBERS_SHOWN = 20
_GENERATIONS_SHOWN = 40


@cluster_options
@of_history
def explain(
    *,
    group: TheGroup = None,
    group_option: GroupOption = None,
    generation: Annotated[
        int | None, typer.Option("--generation", metavar="N", help="The rebalance that led to it. [the last one]")
    ] = None,
    report: ReportFile = None,
    where: Where,
    common: RunOptions,
) -> None:
    """Explain a group's rebalance: why, how sure that is and from what, who, how long, what moved, what to do next."""
    name = one_group(group, group_option)
    with where.tables() as tables:
        rows = rebalances_of(tables, where, name)
        if not rows:
            check_group(tables, where, name)
        chosen = _chosen(rows, generation, name, where)
        data = _data(tables, where, name, rows, chosen)
        owners = [] if report is None else owners_of(tables, where.asked(name))
        cluster_json = cluster_of(tables)
        warn_of_damage(tables, common)
    emit(
        Report(
            schema=SCHEMA,
            data=data,
            tables=_tables(data),
            names=[f"{each['generation_after']}" for each in data["rebalances"]],
            items=data["rebalances"],
            cluster=cluster_json,
        ),
        common,
    )
    if report is not None:
        from kgm.cli.output.pages.history_page import explain_page
        from kgm.cli.output.pages.page import write

        write(report, explain_page(data, owners))


def _chosen(rows: Sequence[Row], generation: int | None, group: str, where: Where) -> Row | None:
    """The last rebalance, or the last that led to this generation, or lost it on the way."""
    if generation is None:
        return rows[-1] if rows else None
    for row in reversed(rows):
        if row["from_generation"] < generation <= row["to_generation"]:
            return row
    known = sorted({row["to_generation"] for row in rows})
    shown = ", ".join(map(str, known[-_GENERATIONS_SHOWN:])) or "none"
    raise NotFoundError(
        f"the history has no rebalance of group {group} that led to generation {generation}",
        facts=(f"generations that it has: {shown}",),
        hint=f"kgm history rebalances {typed(group)} {where.text}",
        group_id=group,
    )


def _data(tables: Tables, where: Where, group: str, rows: Sequence[Row], chosen: Row | None) -> Json:
    """The `data` of the report."""
    asked = where.asked(group)
    rebalances = [rebalance_json(row) for row in rows]
    whole = _whole_life(group)
    advice = tables.rows("gold_timeout_advice", whole)
    found: Json = {
        "group_id": group,
        "group_type": next((row["group_type"] for row in rows), None),
        "window": window_json(tables, where),
        "complete": all(row["complete"] for row in rows) if rows else None,
        "causes": _causes(rebalances),
        "rebalance": None if chosen is None else rebalance_json(chosen),
        "changes": [] if chosen is None else _changes(tables, asked, chosen),
        "moves": [] if chosen is None else _moves(tables, whole, rows, chosen),
        "rebalances": rebalances,
        "events": [event_json(row) for row in tables.rows("gold_event", asked)],
        "alarms": [_alarm_json(row) for row in tables.rows("gold_alarm", asked)],
        "timeout_advice": advice_json(advice[0]) if advice else None,
    }
    found["next"] = next_steps(found, where.text)
    return found


def _whole_life(group: str) -> Asked:
    from kgm.history.store.store import Asked

    return Asked(group_ids=(group,))


def _causes(rebalances: Sequence[Json]) -> list[Json]:
    counts = Counter(each["cause"] for each in rebalances)
    return [{"cause": cause, "count": count} for cause, count in counts.most_common()]


def _changes(tables: Tables, asked: Asked, chosen: Row) -> list[Json]:
    """What became of each member in the rebalance."""
    rows = tables.rows("silver_member_change", asked)
    mine = [row for row in rows if row["offset"] == chosen["offset"]]
    if not mine and chosen["group_type"] == "consumer":
        mine = [row for row in rows if row["generation"] == chosen["to_generation"]]
    return [
        {
            "what": row["kind"], "identity": row["group_instance_id"] or row["member_id"],
            "member_id": row["member_id"], "old_member_id": row["old_member_id"], "client_id": row["client_id"],
            "client_host": row["client_host"], "session_timeout_ms": row["session_timeout_ms"],
            "topics_added": list(row["topics_added"] or ()), "topics_removed": list(row["topics_removed"] or ()),
            "partitions_before": row["partitions_before"], "partitions_after": row["partitions_after"],
        }
        for row in mine
    ]  # fmt: skip


def _moves(tables: Tables, asked: Asked, rows: Sequence[Row], chosen: Row) -> list[Json]:
    """Which partitions came to another seat between this rebalance and the next one."""
    later = [row["offset"] for row in rows if row["offset"] > chosen["offset"]]
    start, stop = chosen["offset"], min(later, default=None)
    before: dict[tuple[str, int], Row] = {}
    after: dict[tuple[str, int], Row] = {}
    ended: set[tuple[str, int]] = set()
    for row in sorted(tables.rows("silver_owner", asked), key=lambda row: row["from_offset"]):
        place = (_topic(row), row["topic_partition"])
        if row["from_offset"] < start:
            before[place] = row
        elif stop is None or row["from_offset"] < stop:
            after[place] = row
    for place, held in before.items():
        end = held["to_offset"]
        if end is not None and start <= end and (stop is None or end < stop):
            ended.add(place)
    found = []
    for place in sorted(after.keys() | ended):
        old = before.get(place)
        was_held = old is not None and (old["to_offset"] is None or old["to_offset"] >= start)
        one = old["seat"] if old is not None and was_held else None
        other = after[place]["seat"] if place in after else None
        if one != other:
            found.append({"topic": place[0], "partition": place[1], "from": one, "to": other})
    return found


def _topic(row: Row) -> str:
    topic_id = row["topic_id"]
    return row["topic"] or ("?" if topic_id is None else f"id {uuid_text(topic_id)}")


def _alarm_json(row: Row) -> Json:
    return {
        "alarm": row["alarm"], "identity": row["seat"] or None, "confidence": row["confidence"], "count": row["count"],
        "since": at(row["timestamp"]), "cleared": at(row["cleared_timestamp"]), "evidence": list(row["evidence"] or ()),
    }  # fmt: skip


# -- for people


def _tables(data: Mapping[str, Any]) -> list[Table]:
    """The list of rebalances first: it is the one that CSV and markdown are made of."""
    return [
        _list(data),
        *([_detail(data), *_members(data)] if data["rebalance"] is not None else []),
        *_advice(data),
    ]


def _list(data: Mapping[str, Any]) -> Table:
    rows = data["rebalances"]
    shown = [column for column in range(len(REBALANCE_TITLES)) if REBALANCE_TITLES[column] != "GROUP"]
    cells: list[list[Cell]] = [[rebalance_cells(each)[column] for column in shown] for each in rows]
    said = ", ".join(f"{each['count']} {in_words(each['cause'])}" for each in data["causes"])
    absorbed = sum("absorbed" in (each["event"] or "") for each in data["events"])
    notes = []
    if len(cells) > _SHOWN:
        notes.append(f"the last {_SHOWN}; {len(cells) - _SHOWN} before them: kgm history rebalances has them all")
    if absorbed:
        notes.append(f"{many(absorbed, 'restart')} of static members without a rebalance")
    if data["complete"] is False:
        notes.append("compaction has eaten records in between: a ? marks what is only the difference between two ends")
    heading = f"{data['group_id']}  {many(len(rows), 'rebalance')}" + (f": {said}" if said else "")
    return Table(
        columns=[Column(title=REBALANCE_TITLES[column]) for column in shown], rows=cells[-_SHOWN:], heading=heading,
        notes=notes,
    )  # fmt: skip


def _detail(data: Mapping[str, Any]) -> Table:
    """A line for each thing that is known of the rebalance."""
    one = data["rebalance"]
    moves = [
        Move(topic=each["topic"], partition=each["partition"], owner_before=each["from"] and short(each["from"]),
             owner_after=each["to"] and short(each["to"]))
        for each in data["moves"]
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        ["when", f"{one['at']}, in __consumer_offsets-{one['record']['partition']} at {one['record']['offset']}"],
        ["why", f"{why_text(one)} ({sure_text(one)})"],
    ]
    if one["reason"]:
        rows.append(["the broker says", one["reason"]])
    if one["inferred"]:
        rows.append(["the log alone says", _inferred(one)])
    rows += [["because", sentence] for sentence in one["evidence"]]
    rows += [["who", f"{short(each['identity'])}: {in_words(each['what'])}"] for each in one["who"][:_MEMBERS_SHOWN]]
    if len(one["who"]) > _MEMBERS_SHOWN:
        rows.append(["", f"and {len(one['who']) - _MEMBERS_SHOWN} more: -o json has them all"])
    rows.append(["members", f"{_known(one['members_before'])} -> {_known(one['members_after'])}"])
    if one["lost_rounds"]:
        rows.append(["rounds", f"{many(one['lost_rounds'], 'round')} before it never completed"])
    rows += [["stopped", _stopped(one)], ["moved", _moved(one)]]
    if moves:
        rows.append(["", moves_text(moves)])
    heading = f"generation {generation_text(one)}"
    return Table(columns=[Column(title="WHAT"), Column(title="IS KNOWN")], rows=rows, heading=heading)


def _inferred(one: Json) -> str:
    return f"{in_words(one['inferred']['cause'])} ({one['inferred']['confidence']})"


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)


def _stopped(one: Json) -> str:
    said = stopped_text(one)
    if said is None:
        return "the log does not tell: nobody committed around it, or not everybody had to stop"
    total = between_text(one["stopped_partition_ms"]) if one["group_type"] != "consumer" else None
    sync = "" if one["sync_ms"] is None else f"; from the last join to the assignment {show_duration(one['sync_ms'])}"
    return f"{said}{sync}" + (f"; {total} added up over partitions" if total else "")


def _moved(one: Json) -> str:
    if one["moved"] is None:
        return "?"
    both = one["moved"] + one["kept"]
    assigned = "" if one["assigned"] is None else f"; {one['assigned']} assigned after it"
    return f"{one['moved']} of {many(both, 'partition')} that had an owner before and after{assigned}"


def _members(data: Mapping[str, Any]) -> list[Table]:
    changes = data["changes"]
    if not changes:
        return []
    columns = [
        Column(title="MEMBER"), Column(title="WHAT"), Column(title="CLIENT-ID"), Column(title="HOST"),
        Column(title="SESSION", right=True), Column(title="PARTITIONS", right=True), Column(title="TOPICS"),
        Column(title="MEMBER-ID", wide=True), Column(title="BEFORE", wide=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            short(each["identity"]), in_words(each["what"]), each["client_id"], each["client_host"],
            None if each["session_timeout_ms"] is None else show_duration(each["session_timeout_ms"]),
            f"{_known(each['partitions_before'])} -> {_known(each['partitions_after'])}",
            _topics(each),
            each["member_id"], each["old_member_id"],
        ]
        for each in changes[:_MEMBERS_SHOWN]
    ]  # fmt: skip
    rest = len(changes) - _MEMBERS_SHOWN
    notes = [f"and {rest} more: -o json has them all"] if rest > 0 else []
    return [Table(columns=columns, rows=rows, heading="members that changed", notes=notes)]


def _topics(change: Json) -> str | None:
    """What the member subscribes to now and did not before, and the reverse."""
    if change["what"] != "resubscribed":
        return None
    names = [f"+{name}" for name in change["topics_added"]] + [f"-{name}" for name in change["topics_removed"]]
    return " ".join(names) or None


def _advice(data: Mapping[str, Any]) -> list[Table]:
    rows: list[list[Cell]] = [
        [
            f"look at {short(each['identity'])}" if each["identity"] else "look at all of it",
            f"{in_words(each['alarm'])}: {'; '.join(each['evidence'])}",
        ]
        for each in data["alarms"]
        if each["cleared"] is None
    ]
    rows += [[step["why"], step["command"]] for step in data["next"]]
    if not rows:
        return []
    return [Table(columns=[Column(title="WHAT"), Column(title="NEXT")], rows=rows, heading="what to do")]
