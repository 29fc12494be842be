"""Cells from the objects of JSON: rows of csv and tsv, and of tables that show the same.

A key is a path into the object, `stopped_ms.min`, which names its column, stopped_ms_min; or `verdict=idleness.verdict`
with a name of its own. What the object lacks is an empty cell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kgm.model.assignment import Move
from kgm.text.durations import show_duration
from kgm.text.joined_moves import joined_moves
from kgm.text.sanitize import csv_cell
from kgm.text.wording import in_words, partitions_text, subscription_text

Row = Mapping[str, Any]
#: The most characters of a record's key or value.
_DATA_SHOWN: Final = 160


def separated(rows: Iterable[Row], keys: Sequence[str], mark: str, *, headers: bool) -> Iterator[str]:
    """The lines of csv and tsv. mark: what separates cells."""
    if headers and keys:
        yield mark.join(key.partition("=")[0].replace(".", "_") for key in keys) + "\n"
    values = [*map(_value_of, keys)]
    for row in rows if keys else ():
        yield mark.join([_quoted(value(row), mark) for value in values]) + "\n"


def cells_of(keys: Iterable[str]) -> Callable[[Row], list[str | int | None]]:
    """What makes the row of a table that shows the same."""
    values = [*map(_value_of, keys)]
    return lambda row: [value(row) for value in values]


def _value_of(key: str) -> Callable[[Row], str | int | None]:
    """What takes the cell of a key from an object."""
    name, _, path = key.partition("=")
    *parents, last = (path or name).split(".")
    text = _TEXTS.get(key) or _TEXTS.get(last)

    def value(row: Row | None) -> str | int | None:
        for part in parents:
            row = None if row is None else row.get(part)
        found = None if row is None else row.get(last)
        return _plain(found) if found is None or text is None else text(found) or None

    return value


def _plain(value: Any) -> str | int | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or None
    return str(value) if isinstance(value, float) else value


def _quoted(value: str | int | None, mark: str) -> str:
    """A cell as RFC 4180 writes it. In CSV a semicolon is quoted too: some spreadsheets split cells at it."""
    if value is None:
        return ""
    text = csv_cell(value) if isinstance(value, str) else str(value)
    if '"' in text or mark in text or (mark == "," and ";" in text):
        return '"' + text.replace('"', '""') + '"'
    return text


def _places(places: Iterable[Row]) -> str:
    partitions: dict[str, list[int]] = {}
    for place in places:
        partitions.setdefault(place["topic"], []).append(place["partition"])
    return partitions_text(partitions)


def _age(span_ms: int) -> str:
    """A duration in whole seconds, the precision that is known."""
    return "0s" if span_ms < 1000 else show_duration(span_ms // 1000 * 1000)


def _library(library: Row) -> str:
    return library["name"] or " or ".join(library["candidates"]) or ("unknown" if library["evidence"] else "")


def _causes(causes: Iterable[Row]) -> str:
    return ", ".join(f"{each['count']} {in_words(each['cause'])}" for each in causes)


def _who(who: Iterable[Row]) -> str:
    return "; ".join(f"{each['identity'] or '?'}: {in_words(each['what'])}" for each in who)


def _moves(moves: Iterable[Row]) -> str:
    joined = joined_moves(
        Move(topic=one["topic"], partition=one["partition"], owner_before=one["from"], owner_after=one["to"])
        for one in moves
    )
    return ", ".join(f"{one.what} {one.owners}" for one in joined)


def _data(data: Any) -> str:
    """The key or value of a record, cut to what fits in a cell."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= _DATA_SHOWN else text[: _DATA_SHOWN - 3] + "..."


#: The texts of values, by key or by the last part of its path. Other lists are joined by commas.
_TEXTS: Final[Mapping[str, Callable[[Any], str]]] = {
    **dict.fromkeys(("assignment", "target_assignment", "partitions_freed"), partitions_text),
    **dict.fromkeys(("flags", "active_tasks", "standby_tasks", "warmup_tasks", "connectors"), " ".join),
    **dict.fromkeys(("lag_time=lag_ms", "commit_age=commit_age_ms"), _age),
    "trend": lambda trend: str(trend.kind),
    "trend_text=trend": lambda trend: trend.text,
    "evidence": "; ".join,
    "subscription": lambda one: subscription_text(one["topics"] or (), one["regex"]),
    "client_library": _library,
    "offsets": _places,
    "moves": _moves,
    "causes": _causes,
    "who": _who,
    "data": _data,
}
