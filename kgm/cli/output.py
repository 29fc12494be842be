"""A command's result in the formats of `-o`. Data goes to stdout; warnings and errors go to stderr.

A command makes one `Report`; nothing else prints to stdout. Strings in reports are raw: this module is the one door
to the terminal, and cleans them (`sanitize`), while JSON and YAML stay exact."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from kgm.cli.options import Common
from kgm.cli.sanitize import clean, csv_cell
from kgm.model.errors import KgmError

if TYPE_CHECKING:
    import rich.console

    from kgm.client import Cluster

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
    try:
        text = rendered(report, common)
        if text is not None:
            sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain again at exit when it flushes what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def rendered(report: Report, common: Common) -> str | None:
    """The text of a report; None when rich has printed it already."""
    match common.output:
        case "json":
            return _json(envelope(report), indent=2) + "\n"
        case "ndjson":
            return "".join(_json(item, indent=None) + "\n" for item in report.items)
        case "yaml":
            import yaml

            text: str = yaml.safe_dump(envelope(report), sort_keys=False, allow_unicode=True)
            return text
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


def cluster_json(cluster: Cluster) -> dict[str, str | None]:
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
    import json

    return json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def _cell(value: Cell) -> str:
    return "-" if value is None else clean(str(value))


def _separated(report: Report, common: Common) -> str:
    import csv
    import io

    if not report.tables:
        return ""
    out = io.StringIO()
    writer = csv.writer(out, delimiter="," if common.output == "csv" else "\t", lineterminator="\n")
    titles = [column.title for column in report.tables[0].columns]
    if common.headers:
        writer.writerow([title.lower().replace("-", "_").replace(" ", "_") for title in titles])
    for table in report.tables:
        if [column.title for column in table.columns] == titles:
            writer.writerows([_csv_value(value) for value in row] for row in table.rows)
    return out.getvalue()


def _csv_value(value: Cell) -> str | int:
    if value is None:
        return ""
    return csv_cell(value) if isinstance(value, str) else value


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


def _tables(report: Report, common: Common) -> str | None:
    wide = common.output == "wide"
    if wants_color(common, sys.stdout):
        _rich_tables(report, common, wide=wide)
        return None
    return "\n".join(_plain(table, common, wide=wide) for table in report.tables)


def _shown(table: Table, *, wide: bool) -> list[int]:
    return [i for i, column in enumerate(table.columns) if not column.data and (wide or not column.wide)]


def _plain(table: Table, common: Common, *, wide: bool) -> str:
    """Columns two spaces apart, as kubectl does: nothing to strip for awk."""
    shown = _shown(table, wide=wide)
    lines = [[table.columns[i].title for i in shown]] if common.headers else []
    lines += [[_cell(row[i]) for i in shown] for row in table.rows]
    widths = [max((len(line[k]) for line in lines), default=0) for k in range(len(shown))]
    right = [table.columns[i].right for i in shown]
    text = [clean(table.heading)] if table.heading else []
    for line in lines:
        cells = (v.rjust(w) if r else v.ljust(w) for v, w, r in zip(line, widths, right, strict=True))
        text.append("  ".join(cells).rstrip())
    text += [clean(note) for note in table.notes]
    return "\n".join(text) + "\n"


def _rich_tables(report: Report, common: Common, *, wide: bool) -> None:
    import rich.table
    from rich.text import Text

    console = console_for(common, sys.stdout)
    for table in report.tables:
        shown = _shown(table, wide=wide)
        view = rich.table.Table(box=None, pad_edge=False, header_style="bold", show_header=common.headers)
        for i in shown:
            column = table.columns[i]
            view.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
        for row in table.rows:
            view.add_row(*(Text(_cell(row[i]), style=_style(_cell(row[i]))) for i in shown))
        if table.heading:
            console.print(Text(clean(table.heading), style="bold cyan"))
        console.print(view)
        for note in table.notes:
            console.print(Text(clean(note), style="dim"))
        if table is not report.tables[-1]:
            console.print()


_STYLES = {
    "Stable": "green", "stable": "green", "removed": "green", "Empty": "dim", "Dead": "red", "absent": "yellow",
    "away": "yellow", "reconciling": "yellow", "failed": "red", "refused": "red", "unknown": "magenta",
    "PreparingRebalance": "yellow", "CompletingRebalance": "yellow", "Reconciling": "yellow", "Assigning": "yellow",
}  # fmt: skip


def _style(text: str) -> str:
    return _STYLES.get(text, "")


def wants_color(common: Common, stream: TextIO) -> bool:
    """--color, then NO_COLOR, then whether it is a terminal."""
    if common.color != "auto":
        return common.color == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def console_for(common: Common, stream: TextIO) -> rich.console.Console:
    """A rich console that interprets nothing in what it is given."""
    from rich.console import Console

    forced = True if common.color == "always" else None
    return Console(file=stream, force_terminal=forced, markup=False, highlight=False, emoji=False, soft_wrap=False)


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
            sys.stderr.write(f"{prefix}{clean(text)}\n")
