"""`kgm history decode`: print records as lines of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import islice
from typing import Annotated

import typer

from kgm.cli.options.history import HistoryOptions, history_options
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import output_options_with
from kgm.cli.output.history.damages import warn_of
from kgm.cli.output.history.rows_json import Json, at
from kgm.cli.output.report import Column, Columns, Report, emit, object_table
from kgm.cli.output.streams import reader_has_gone, write_stdout

_SCHEMA = "kgm.history-decode/v1"
_AT_ONCE = 2_000
_COLUMNS: Columns = {
    "partition": Column(title="PARTITION", right=True), "offset": Column(title="OFFSET", right=True), "at": "AT",
    "type=key.type": Column(title="TYPE", right=True), "key=key.data": "KEY",
    "version=value.version": Column(title="VERSION", right=True), "value=value.data": "VALUE", "error": "ERROR",
}  # fmt: skip


@output_options_with("ndjson")
@history_options
def decode(
    *,
    all_batches: Annotated[
        bool, typer.Option("--all-batches", help="Also print markers, and records of aborted and open transactions.")
    ] = False,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", metavar="N", help="Only this partition; repeatable.")
    ] = None,
    options: HistoryOptions,
    common: RunOptions,
) -> None:
    """Print records as NDJSON, key and value as Kafka's own JSON converters print them; bytes fields in base64.

    {"partition", "offset", "timestamp", "key": {"type", "data"}, "value": {"version", "data"} or null}

    If a record cannot be decoded, `data` is null, `raw` has its bytes in base64, and `error` has the reason."""
    from kgm.operations.history.raw_records import decoded_lines
    from kgm.operations.history.source import extra_needed

    source = options.source()
    with extra_needed():
        from kgm.history.folders import Reading

        reading = Reading()
        lines = decoded_lines(
            source, reading, partitions=partition, since_ms=options.since_ms, until_ms=options.until_ms,
            all_batches=all_batches,
        )  # fmt: skip
        if common.output == "ndjson":
            while chunk := list(islice(lines, _AT_ONCE)):
                write_stdout("".join(f"{line}\n" for line in chunk))
                if reader_has_gone(sys.stdout):
                    return
        else:
            emit(_report([json.loads(line) for line in lines]), common)
    warn_of(reading.damages)


def _report(records: Sequence[Json]) -> Report:
    table = object_table(_COLUMNS, ({**each, "at": at(each["timestamp"])} for each in records))
    return Report(
        schema=_SCHEMA, data={"records": list(records)}, tables=[table],
        keys=["timestamp" if key == "at" else key for key in _COLUMNS],
        names=[f"{each['partition']}:{each['offset']}" for each in records], items=records,
    )  # fmt: skip
