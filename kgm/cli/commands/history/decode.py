"""`kgm history decode`: records as lines of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.commands.history.question import warn_of
from kgm.cli.commands.history.rows import Json, at
from kgm.cli.commands.history.source import Where, no_history, of_history, refuse_kafka
from kgm.cli.options.extras import extra_needed
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import output_options_with
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.cli.output.streams import reader_has_gone, write_stdout

if TYPE_CHECKING:
    import pathlib

SCHEMA = "kgm.history-decode/v1"
_AT_ONCE = 2_000
_DATA_SHOWN = 160


@output_options_with("ndjson")
@of_history
def decode(
    *,
    all_batches: Annotated[
        bool, typer.Option("--all-batches", help="Also markers, and records of aborted and open transactions.")
    ] = False,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", metavar="N", help="Only of this partition; repeatable.")
    ] = None,
    where: Where,
    common: RunOptions,
) -> None:
    """Print records as NDJSON, key and value as Kafka's own JSON converters print them; bytes fields in base64.

    {"partition", "offset", "timestamp", "key": {"type", "data"}, "value": {"version", "data"} or null}

    What cannot be decoded has null for data, its bytes in base64 as raw, and the reason as error."""
    with extra_needed():
        from kgm.history.folders import Reading

        reading = Reading()
        lines = _lines(where, reading, partition, all_batches=all_batches)
        if common.output == "ndjson":
            while chunk := list(islice(lines, _AT_ONCE)):
                write_stdout("".join(f"{line}\n" for line in chunk))
                if reader_has_gone(sys.stdout):
                    return
        else:
            records = [json.loads(line) for line in lines]
            emit(_report(records), common)
    warn_of(reading.damages, common)


def _lines(where: Where, reading: Any, partitions: Sequence[int] | None, *, all_batches: bool) -> Iterator[str]:
    """A line for each record, without its end."""
    from kgm.history.decode.ndjson import lines
    from kgm.history.in_process import partitions_of

    kind, path = raw_source(where)
    for raw in partitions_of(kind, path, reading=reading):
        if len(raw) and (partitions is None or raw.column("partition")[0].as_py() in partitions):
            yield from _within(lines(raw, all_batches=all_batches), where)


def raw_source(where: Where) -> tuple[str, pathlib.Path]:
    """(kind, directory) of raw records: the source, or what was captured into the store."""
    if where.kind == "kafka":
        raise refuse_kafka()
    if where.kind is not None:
        assert where.path is not None
        return where.kind, where.path
    if where.store is None:
        raise no_history()
    return "parquet", where.store / "bronze" / "raw"


def _within(lines: Iterable[str], where: Where) -> Iterator[str]:
    if where.since_ms is None and where.until_ms is None:
        yield from lines
        return
    since, until = where.since_ms, where.until_ms
    for line in lines:
        timestamp = json.loads(line)["timestamp"]
        if timestamp is not None and (since is None or timestamp >= since) and (until is None or timestamp < until):
            yield line


def _report(records: Sequence[Json]) -> Report:
    columns = [
        Column(title="PARTITION", right=True), Column(title="OFFSET", right=True), Column(title="AT"),
        Column(title="TYPE", right=True), Column(title="KEY"), Column(title="VERSION", right=True),
        Column(title="VALUE"), Column(title="ERROR"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for each in records:
        key, value = each["key"] or {}, each["value"] or {}
        rows.append(
            [
                each["partition"], each["offset"], at(each["timestamp"]), key.get("type"), _text(key.get("data")),
                value.get("version"), _text(value.get("data")), each.get("error"),
            ]
        )  # fmt: skip
    return Report(
        schema=SCHEMA, data={"records": list(records)}, tables=[Table(columns=columns, rows=rows)],
        names=[f"{each['partition']}:{each['offset']}" for each in records], items=records,
    )  # fmt: skip


def _text(data: Any) -> str | None:
    """As much of it as a cell takes."""
    if data is None:
        return None
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= _DATA_SHOWN else text[: _DATA_SHOWN - 3] + "..."
