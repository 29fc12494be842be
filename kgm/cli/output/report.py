"""A command's result in the formats of `-o`. Data goes to stdout; warnings and errors go to stderr.

A command makes one `Report`, and only this module prints it. Strings in reports are raw: this module makes them safe
for a terminal (`kgm.text.sanitize`); JSON and YAML stay exact."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Generic, TextIO, TypeVar

from kgm.cli.invocation import warnings, with_cluster
from kgm.cli.output.output_options import OutputOptions
from kgm.cli.output.table_text import TableStyle, column_widths, columns_that_fit, fold, styled, table_lines
from kgm.client import AdminClient
from kgm.model.errors import KgmError
from kgm.model.forms.json_form import as_json
from kgm.text.names import visible
from kgm.text.sanitize import clean, json_text, name_line
from kgm.text.timestamps import rfc3339

if TYPE_CHECKING:
    from kgm.simulation.report.prediction import Range

Cell = str | int | None
R = TypeVar("R")
#: The form of an entry of `errors`.
ERROR: Final = {"code": "str", "message": "str", "group_id": "str?", "facts": ["str"], "hint": "str?"}
#: Characters with a meaning in Markdown: a backslash takes it away, except from tags and entities.
_MARKDOWN = r"[\\|<>&\[\]`*~]"
#: Output is written in pieces of at least this many characters, except the last.
_AT_ONCE = 1 << 16
#: Rows of a table that become text together.
_ROWS_AT_ONCE = 2_000
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table for people; `wide` ones show with -o wide only.

    left_out: at a terminal that is too narrow, columns are left out in this order, after columns without values; None:
    never left out."""

    title: str
    wide: bool = False
    right: bool = False
    left_out: int | None = None


#: Columns by the keys of objects; a text is the title of a plain column.
Columns = Mapping[str, Column | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under columns; the rows can be iterated again. `heading` and `notes` are lines around the table."""

    columns: Sequence[Column]
    rows: Iterable[Sequence[Cell]]
    heading: str | None = None
    notes: Iterable[str] = ()


@dataclass(frozen=True, slots=True)
class MadeRows(Generic[R]):
    """Rows that are made whenever they are iterated, because so many would take much memory."""

    make: Callable[[], Iterator[R]]

    def __iter__(self) -> Iterator[R]:
        return self.make()


def object_table(
    columns: Columns, rows: Iterable[Mapping[str, Any]], heading: str | None = None,
    notes: Iterable[str] = (),
) -> Table:  # fmt: skip
    """A table of objects of JSON."""
    from kgm.cli.output.object_cells import cells_of

    shown = [Column(title=one) if isinstance(one, str) else one for one in columns.values()]
    items, cells = [*rows] if isinstance(rows, Iterator) else rows, cells_of(columns)
    return Table(columns=shown, rows=MadeRows(lambda: map(cells, items)), heading=heading, notes=notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a command. `items` are the objects of ndjson, `names` the lines of -o name.

    CSV and TSV have a row for each object of `rows`, or of `items` if that is None, and the columns `keys`. Iterators,
    including those in `data`, are consumed only if the format needs them, in the order of the output, and printed as
    they produce items; `errors` are read last."""

    schema: str
    data: Mapping[str, Any]
    tables: Iterable[Table] = ()
    keys: Sequence[str] = ()
    rows: Iterable[Mapping[str, Any]] | None = None
    names: Iterable[str] = ()
    items: Iterable[Mapping[str, Any]] = ()
    cluster: Mapping[str, Any] | None = None
    errors: Sequence[KgmError] = ()


def emit(report: Report, options: OutputOptions) -> bool:
    """Print a report. Returns False if its reader has gone (`| head`), which is not an error.

    Raises OutputError if it cannot be written for another reason, and whatever its iterators raise."""
    from kgm.cli.output.streams import write_stdout

    pieces, size = [], 0
    for piece in _pieces(report, options):
        pieces.append(piece)
        size += len(piece)
        if size >= _AT_ONCE:
            if not write_stdout("".join(pieces)):
                return False
            pieces, size = [], 0
    return write_stdout("".join(pieces))


def emit_item(item: Mapping[str, Any]) -> bool:
    """Print an object of ndjson as soon as it is known; see `emit`."""
    from kgm.cli.output.streams import write_stdout

    return write_stdout(_json(item) + "\n")


def rendered(report: Report, options: OutputOptions) -> str:
    """The text of a report."""
    return "".join(_pieces(report, options))


def _pieces(report: Report, options: OutputOptions) -> Iterator[str]:
    match options.output:
        case "json":
            yield from map(json_text, _indented_json(envelope(report)))
            yield "\n"
        case "ndjson":
            for item in report.items:
                try:
                    line = _json(item) + "\n"
                except TypeError:  # looking for iterators in all items would take longer
                    yield from _json_line(item)
                else:
                    yield line
        case "yaml":
            from kgm.cli.output.yaml_text import yaml_lines

            yield from (line + "\n" for line in yaml_lines(envelope(report)))
        case "name":
            yield from (name_line(name) + "\n" for name in report.names)
        case "csv" | "tsv":
            from kgm.cli.output.object_cells import separated

            rows = report.items if report.rows is None else report.rows
            mark = "," if options.output == "csv" else "\t"
            yield from separated(rows, report.keys, mark, headers=options.headers)
        case "markdown":
            yield from _joined([_markdown(table, options)] for table in report.tables)
        case _:
            style = style_for(options)
            yield from _joined(table_pieces(table, options, style) for table in report.tables)


def _joined(texts: Iterable[Iterable[str]]) -> Iterator[str]:
    """The texts, each in pieces, separated by empty lines."""
    for at, pieces in enumerate(texts):
        if at:
            yield "\n"
        yield from pieces


def envelope(report: Report) -> dict[str, Any]:
    """The JSON object of a run; iterators in it stand for arrays."""
    return {
        "schema": report.schema,
        "cluster": report.cluster,
        "generated_at": rfc3339(time.time_ns() // 1_000_000),
        "data": report.data,
        "errors": map(error_json, report.errors),
        "warnings": warnings(),
    }


def cluster_json(cluster: AdminClient) -> dict[str, str | None]:
    """The `cluster` of the envelope; its id is null until a broker has sent it."""
    return {"id": cluster.cluster_id, "bootstrap": cluster.bootstrap}


def error_json(error: KgmError) -> dict[str, Any]:
    """An entry of `errors`."""
    hint = None if error.hint is None else with_cluster(error.hint)
    return as_json(error, ERROR, {"code": error.json_code, "hint": hint})


def _indented_json(value: Any, indent: str = "\n") -> Iterator[str]:
    """Pieces of JSON indented by 2. indent: the line break and indentation before the closing bracket of this value."""
    if isinstance(value, Iterator):
        between, end, deeper = "[", "[]", f"{indent}  "
        for one in value:
            try:
                text = _indented_text(one)
            except TypeError:  # there are iterators in it, as in few items
                yield between + deeper
                yield from _indented_json(one, deeper)
            else:
                yield between + deeper + text.replace("\n", deeper)
            between, end = ",", f"{indent}]"
        yield end
    elif isinstance(value, dict) and any(isinstance(one, Iterator | dict) for one in value.values()):
        between = "{"
        for key, one in value.items():
            yield f"{between}{indent}  {_indented_text(key)}: "
            yield from _indented_json(one, f"{indent}  ")
            between = ","
        yield f"{indent}}}"
    else:
        yield _indented_text(value).replace("\n", indent)


def _indented_text(value: Any) -> str:
    import msgspec  # not needed to print tables

    try:
        # Ten times as fast as the standard library, which indents in Python.
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except UnicodeEncodeError:  # words of the command line that are not UTF-8
        return json.dumps(value, indent=2, ensure_ascii=False)


def _json_line(item: Mapping[str, Any]) -> Iterator[str]:
    """A line of ndjson with iterators in it, which stand for arrays, in pieces."""
    before = "{"
    for key, value in item.items():
        yield f"{before}{_json(key)}: "
        if isinstance(value, Iterator):
            yield "["
            for at, one in enumerate(value):
                yield (", " if at else "") + _json(one)
            yield "]"
        else:
            yield _json(value)
        before = ", "
    yield "}\n"


def _json(value: Any) -> str:
    """Exact JSON, with characters escaped that a terminal may act on."""
    return json_text(json.dumps(value, ensure_ascii=False))


def _cell(value: Cell) -> str:
    if isinstance(value, int):
        return str(value)
    if value is None:
        return "-"
    return clean(visible(value))


def _cells(values: Sequence[Cell]) -> Sequence[str]:
    """The cells of a column as text. Checking all texts at once first is quicker for long columns."""
    texts = [value for value in values if isinstance(value, str)]
    together = "".join(texts)
    is_plain = len(texts) == len(values) and together.isascii() and together.isprintable()
    if is_plain and not any(text[-1:] == " " for text in texts):
        return texts
    return [*map(_cell, values)]


def _markdown(table: Table, options: OutputOptions) -> str:
    from tabulate import tabulate

    shown = [i for i, column in enumerate(table.columns) if not column.wide]
    rows = [[markdown_text(_cell(row[i])) for i in shown] for row in table.rows]
    headers = [table.columns[i].title for i in shown] if options.headers else ()
    title = f"{markdown_text(clean(table.heading))}\n\n" if table.heading else ""
    return title + tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True) + "\n"


def markdown_text(text: str) -> str:
    """Markdown that shows exactly this text: it cannot produce a table, tag, entity, link or emphasis."""
    text = re.sub(_MARKDOWN, lambda match: _ENTITIES.get(match[0]) or f"\\{match[0]}", text)
    return text.replace("://", "&#58;//").replace("www.", "www&#46;")


def table_pieces(table: Table, options: OutputOptions, style: TableStyle) -> Iterator[str]:
    """One table for people, in pieces: at a terminal one for all rows, because the width of all decides which columns
    there are; else a long table is read once for the widths of its columns and once more for its lines."""
    wide = options.output == "wide"
    shown = [i for i, column in enumerate(table.columns) if wide or not column.wide]
    titles = [table.columns[i].title for i in shown]
    parts = _parts(table, shown, None if style.width is not None else _ROWS_AT_ONCE)
    rows = next(parts, [])
    left_out: list[str] = []
    if not wide and style.width is not None:
        ranks = [table.columns[i].left_out for i in shown]
        kept = columns_that_fit(titles, rows, ranks, style)
        left_out = [title for at, title in enumerate(titles) if at not in kept]
        if left_out:
            shown, titles = [shown[at] for at in kept], [titles[at] for at in kept]
            rows = [[row[at] for at in kept] for row in rows]
    yield _text(_folded(table.heading, "cyan", style) if table.heading else [])
    right = [table.columns[i].right for i in shown]
    if len(rows) == _ROWS_AT_ONCE and style.width is None:
        widths = [0] * len(shown)
        for part in chain([rows], parts):
            widths = [*map(max, widths, column_widths(titles, part, style))]
        for part in _parts(table, shown, _ROWS_AT_ONCE):
            yield _text(table_lines(titles, part, right, style, widths))
            style = replace(style, headers=False)
    elif shown:
        yield _text(table_lines(titles, rows, right, style))
    no_room = [f"no room for {', '.join(left_out)}; -o wide shows all columns"] if left_out else []
    for note in chain(table.notes, no_room):
        yield _text(_folded(with_cluster(note), "dim", style))


def _parts(table: Table, shown: Sequence[int], size: int | None) -> Iterator[list[Sequence[str]]]:
    """The shown cells of the rows as text, so many rows at a time; all at once if size is None."""
    rows = iter(table.rows)
    while part := [*islice(rows, size)]:
        yield [*zip(*(_cells([row[i] for row in part]) for i in shown), strict=True)]


def _text(lines: Iterable[str]) -> str:
    return "".join(line + "\n" for line in lines)


def _folded(text: str, color: str, style: TableStyle) -> list[str]:
    pieces = [clean(text)] if style.width is None else fold(clean(text), style.width)
    return [styled(piece, color, style) for piece in pieces]


def style_for(options: OutputOptions) -> TableStyle:
    """Color as the options say; folded to the width of the terminal, if there is one."""
    width = None
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
    return TableStyle(width=width, color=wants_color(options, sys.stdout), headers=options.headers)


def with_range(typical: int, drawn: Range | None) -> str:
    """`2 (1-3)`: typical, and minimum and maximum."""
    return f"{typical} ({drawn.min}-{drawn.max})" if drawn is not None and drawn.min != drawn.max else str(typical)


def wants_color(options: OutputOptions, stream: TextIO) -> bool:
    """Whether to use color: decided by --color, then NO_COLOR, then whether the stream is a terminal."""
    if options.color != "auto":
        return options.color == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
