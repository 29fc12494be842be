"""CSV and TSV: a row for each object of `Report.rows`, and a column for each of `Report.keys`.

A key is a path into the object, `stopped_ms.min`, which names its column, stopped_ms_min; or `verdict=idleness.verdict`
with a name of its own. What the object lacks is an empty cell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kgm.text.sanitize import csv_cell
from kgm.text.wording import in_words, partitions_text, subscription_text

Row = Mapping[str, Any]
#: The most characters of a record's key or value.
_DATA_SHOWN: Final = 160


def separated(rows: Iterable[Row], keys: Sequence[str], mark: str, *, headers: bool) -> Iterator[str]:
    """The lines. mark: what separates cells."""
    named = [(name, path or name) for name, _, path in (key.partition("=") for key in keys)]
    if headers and named:
        yield mark.join(name.replace(".", "_") for name, _ in named) + "\n"
    values = [_value_of(path) for _, path in named]
    for row in rows if named else ():
        yield mark.join([_cell(value(row), mark) for value in values]) + "\n"


def _value_of(path: str) -> Callable[[Row], Any]:
    """What takes the value from an object."""
    *parents, last = path.split(".")
    text = _TEXTS.get(last)

    def value(row: Row | None) -> Any:
        for part in parents:
            row = None if row is None else row.get(part)
        found = None if row is None else row.get(last)
        return found if found is None or text is None else text(found)

    return value


def _cell(value: Any, mark: str) -> str:
    """A cell as RFC 4180 writes it. In CSV a semicolon is quoted too: some spreadsheets split cells at it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    text = csv_cell(value) if isinstance(value, str) else str(value)
    if '"' in text or mark in text or (mark == "," and ";" in text):
        return '"' + text.replace('"', '""') + '"'
    return text


def data_text(data: Any) -> str:
    """The key or value of a record as JSON, cut to what fits in a cell."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= _DATA_SHOWN else text[: _DATA_SHOWN - 3] + "..."


def _library_text(library: Row) -> str | None:
    unknown = "unknown" if library["evidence"] else None
    return library["name"] or " or ".join(library["candidates"]) or unknown


def _places_text(places: Iterable[Row]) -> str:
    partitions: dict[str, list[int]] = {}
    for place in places:
        partitions.setdefault(place["topic"], []).append(place["partition"])
    return partitions_text(partitions)


def _causes_text(causes: Iterable[Row]) -> str:
    return ", ".join(f"{each['count']} {in_words(each['cause'])}" for each in causes)


def _who_text(who: Iterable[Row]) -> str:
    return "; ".join(f"{each['identity'] or '?'}: {in_words(each['what'])}" for each in who)


#: The texts of values, by the last part of the path. Other lists are joined by commas.
_TEXTS: Final[Mapping[str, Callable[[Any], str | None]]] = {
    **dict.fromkeys(("assignment", "target_assignment", "partitions_freed"), partitions_text),
    **dict.fromkeys(("flags", "active_tasks", "standby_tasks", "warmup_tasks", "connectors"), " ".join),
    "evidence": "; ".join,
    "subscription": lambda one: subscription_text(one["topics"] or (), one["regex"]),
    "client_library": _library_text,
    "offsets": _places_text,
    "causes": _causes_text,
    "who": _who_text,
    "data": data_text,
}
