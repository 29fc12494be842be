"""A command's result in the formats of `-o`. Data goes to stdout; warnings and errors go to stderr.

A command makes one `Report`; nothing else prints to stdout. Strings in reports are raw: this module is the one door
to the terminal, and cleans them (`sanitize`), while JSON and YAML stay exact."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from kgm.cli.options.common import Common
from kgm.cli.output.table_text import Look, fold, styled, table_lines
from kgm.model.errors import KgmError
from kgm.text.sanitize import clean, csv_cell, json_text

if TYPE_CHECKING:
    from kgm.client import AdminClient

Cell = str | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: `wide` ones show with -o wide and in data formats, `data` ones in data formats only."""

    title: str
    wide: bool = False
    data: bool = False
    right: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under columns. `heading` and `notes` are lines around the table for people, never in data formats."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    heading: str | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a command has to say. `items` are the objects of ndjson, `names` the lines of -o name.

    All tables of a report that is asked for as CSV, TSV or markdown have the same columns, or only the first counts."""

    schema: str
    data: Mapping[str, Any]
    tables: Sequence[Table] = ()
    names: Sequence[str] = ()
    items: Sequence[Mapping[str, Any]] = ()
    cluster: Mapping[str, Any] | None = None
    errors: Sequence[KgmError] = ()


def emit(report: Report, common: Common) -> None:
    """Print a report. A reader that goes away (`| head`) is no error."""
    from kgm.cli.output.streams import put

    put(rendered(report, common))


def rendered(report: Report, common: Common) -> str:
    """The text of a report."""
    match common.output:
        case "json":
            return _json(envelope(report), indent=2) + "\n"
        case "ndjson":
            return "".join(_json(item, indent=None) + "\n" for item in report.items)
        case "yaml":
            from kgm.cli.output.yaml_text import yaml_text

            return yaml_text(envelope(report))
        case "name":
            return "".join(clean(name) + "\n" for name in report.names)
        case "csv" | "tsv":
            return _separated(report, common)
        case "markdown":
            return _markdown(report, common)
        case _:
            return _tables(report, common)


def envelope(report: Report) -> dict[str, Any]:
    """The JSON object of a run."""
    from datetime import UTC, datetime

    return {
        "schema": report.schema,
        "cluster": report.cluster,
        "generated_at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "data": report.data,
        "errors": [error_json(error) for error in report.errors],
    }


def cluster_json(cluster: AdminClient) -> dict[str, str | None]:
    """The `cluster` of the envelope; its id is null until a broker has told it."""
    return {"id": cluster.cluster_id, "bootstrap": cluster.bootstrap}


def error_json(error: KgmError) -> dict[str, Any]:
    """One entry of `errors`."""
    return {
        "code": error.json_code,
        "message": error.message,
        "group_id": error.group_id,
        "facts": list(error.facts),
        "hint": error.hint,
    }


def _json(value: Any, *, indent: int | None) -> str:
    """JSON that says exactly what is there, with what a terminal might act on escaped."""
    import json

    return json_text(json.dumps(value, indent=indent, ensure_ascii=False))


def _cell(value: Cell) -> str:
    return "-" if value is None else clean(str(value))


def _separated(report: Report, common: Common) -> str:
    if not report.tables:
        return ""
    mark = "," if common.output == "csv" else "\t"
    titles = [column.title for column in report.tables[0].columns]
    lines = [mark.join(title.lower().replace("-", "_").replace(" ", "_") for title in titles)] if common.headers else []
    for table in report.tables:
        if [column.title for column in table.columns] == titles:
            lines += [mark.join(_csv_value(value, mark) for value in row) for row in table.rows]
    return "".join(line + "\n" for line in lines)


def _csv_value(value: Cell, mark: str) -> str:
    """A cell as RFC 4180 writes it. In CSV a semicolon is quoted too: some spreadsheets part cells at it."""
    if value is None:
        return ""
    text = csv_cell(value) if isinstance(value, str) else str(value)
    if '"' in text or mark in text or (mark == "," and ";" in text):
        return '"' + text.replace('"', '""') + '"'
    return text


def _markdown(report: Report, common: Common) -> str:
    from tabulate import tabulate

    parts = []
    for table in report.tables:
        shown = [i for i, column in enumerate(table.columns) if not column.data and not column.wide]
        rows = [[_cell(row[i]).replace("|", "\\|") for i in shown] for row in table.rows]
        headers = [table.columns[i].title for i in shown] if common.headers else ()
        title = f"{clean(table.heading)}\n\n" if table.heading else ""
        parts.append(title + tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True) + "\n")
    return "\n".join(parts)


def _tables(report: Report, common: Common) -> str:
    return "\n".join(table_text(table, common, look_of(common)) for table in report.tables)


def table_text(table: Table, common: Common, look: Look) -> str:
    """One table for people."""
    wide = common.output == "wide"
    shown = [i for i, column in enumerate(table.columns) if not column.data and (wide or not column.wide)]
    titles = [table.columns[i].title for i in shown]
    rows = [[_cell(row[i]) for i in shown] for row in table.rows]
    lines = _folded(table.heading, "cyan", look) if table.heading else []
    if shown:
        lines += table_lines(titles, rows, [table.columns[i].right for i in shown], look)
    for note in table.notes:
        lines += _folded(note, "dim", look)
    return "".join(line + "\n" for line in lines)


def _folded(text: str, style: str, look: Look) -> list[str]:
    pieces = [clean(text)] if look.width is None else fold(clean(text), look.width)
    return [styled(piece, style, look) for piece in pieces]


def look_of(common: Common) -> Look:
    """Colour as it is asked for, folded to the width of the terminal if there is one."""
    width = None
    if sys.stdout.isatty():
        import shutil

        width = shutil.get_terminal_size().columns
    return Look(width=width, color=wants_color(common, sys.stdout), headers=common.headers)


def wants_color(common: Common, stream: TextIO) -> bool:
    """--color, then NO_COLOR, then whether it is a terminal."""
    if common.color != "auto":
        return common.color == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@dataclass(slots=True)
class Voice:
    """What goes to stderr: warnings and notes, each once."""

    common: Common = field(default_factory=Common)
    said: set[str] = field(default_factory=set)

    def warn(self, text: str) -> None:
        self._say("warning: ", text)

    def note(self, text: str) -> None:
        self._say("", text)

    def _say(self, prefix: str, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            from kgm.cli.output.streams import say

            say(f"{prefix}{clean(text)}\n")
