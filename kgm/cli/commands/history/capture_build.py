"""`kgm history capture` and `build`: records into a store, and the store's tables, on Spark."""

from __future__ import annotations

import contextlib
import pathlib
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.commands.history.source import Where, of_history
from kgm.cli.options.extras import extra_needed
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.notices import Notices
from kgm.cli.output.report import Cell, Column, Report, Table, emit
from kgm.model.errors import UsageError
from kgm.text.durations import parse_duration
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.pipeline import Format, Progress, Source, SparkOptions

_CAPTURE, _BUILD = "kgm.history-capture/v1", "kgm.history-build/v1"
FormatOption = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help="Of a new store: parquet | delta. [parquet]")
]


@cluster_options
@of_history
def capture(
    *,
    once: Annotated[bool, typer.Option("--once", help="Take what is there now, and end.")] = False,
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="From one batch to the next.")] = "10s",
    most_records: Annotated[
        int | None, typer.Option("--most-records", metavar="N", help="In one batch, about.")
    ] = None,
    store_format: FormatOption = None,
    where: Where,
    common: RunOptions,
) -> None:
    """Take records of __consumer_offsets into --out DIR, each once, from where the last capture stopped.

    Compaction takes records away after a while, so that only a capture that goes on is a whole history. Without --once
    it goes on until SIGTERM or Ctrl-C; it may be killed at any time, and loses and doubles nothing. Read it with
    `kgm history build`."""
    if where.kind is None:
        raise UsageError("no source is given", hint="--source kafka -b HOST:PORT, or --source segments:DIR")
    out = _store(where)
    every_ms = parse_duration(every, "--every")
    cluster_json, cluster_id = _cluster(where, common)
    voice = Notices()
    stop = threading.Event()

    def told(progress: Progress) -> None:
        if not once:
            voice.note(
                f"{progress.records:,} records in {many(progress.batches, 'batch')}".replace("batchs", "batches")
            )

    with extra_needed(), _ended_by_sigterm(stop):
        from kgm.pipeline import capture as capture_records

        done = capture_records(
            out, spark_source(where, common), options=spark_options(where), once=once, format=_format(store_format),
            cluster=cluster_id, every_s=every_ms / 1000, most_records=most_records, stop=stop, told=told,
        )  # fmt: skip
    data = {
        "out": str(out), "source": where.text.removeprefix("--source "), "records": done.records,
        "repeated": done.repeated, "batches": done.batches,
    }  # fmt: skip
    columns = [Column(title=title, right=True) for title in ("RECORDS", "REPEATED", "BATCHES")]
    row: list[Cell] = [done.records, done.repeated, done.batches]
    notes = [f"next: kgm history build --out {out}"]
    emit(
        Report(
            schema=_CAPTURE, data=data, tables=[Table(columns=columns, rows=[row], notes=notes)], names=[str(out)],
            items=[data], cluster=cluster_json,
        ),
        common,
    )  # fmt: skip


@cluster_options
@of_history
def build(
    *,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="All of it again, as after a change of kgm's rules.")
    ] = False,
    store_format: FormatOption = None,
    where: Where,
    common: RunOptions,
) -> None:
    """Make the tables of --out DIR from what was captured since the last build; with --source capture it first, once.

    Building again changes nothing. Ask the tables with --store DIR; that takes no Spark."""
    out = _store(where)
    cluster_json, cluster_id = (None, None) if where.kind is None else _cluster(where, common)
    with extra_needed():
        from kgm.pipeline import build as build_tables

        done = build_tables(
            out, source=None if where.kind is None else spark_source(where, common), options=spark_options(where),
            format=_format(store_format), cluster=cluster_id, from_scratch=from_scratch,
        )  # fmt: skip
    captured = done.captured
    data = {
        "out": str(out), "number": done.number, "records": done.records, "bad": done.bad,
        "partitions": list(done.partitions), "rebuilt": list(done.rebuilt),
        "rows": dict(done.rows),
        "captured": None if captured is None else {
            "records": captured.records, "repeated": captured.repeated, "batches": captured.batches,
        },
    }  # fmt: skip
    emit(_build_report(data, cluster_json, out), common)


def _build_report(data: dict[str, Any], cluster_json: dict[str, Any] | None, out: pathlib.Path) -> Report:
    rows: list[list[Cell]] = [[name, count] for name, count in sorted(data["rows"].items())]
    columns = [Column(title="TABLE"), Column(title="ROWS", right=True)]
    notes = [f"{data['bad']:,} records could not be decoded: kgm history verify --store {out}"] if data["bad"] else []
    notes.append(f"next: kgm history churn --store {out}")
    heading = f"build {data['number']}: {data['records']:,} new records of {many(len(data['partitions']), 'partition')}"
    return Report(
        schema=_BUILD, data=data, tables=[Table(columns=columns, rows=rows, heading=heading, notes=notes)],
        names=[str(out)], items=[data], cluster=cluster_json,
    )  # fmt: skip


def _store(where: Where) -> pathlib.Path:
    if where.store is None:
        raise UsageError("no directory for the history is given", hint="--out DIR")
    return where.store


def _format(text: str | None) -> Format | None:
    from kgm.pipeline import Format

    if text is None:
        return None
    try:
        return Format(text)
    except ValueError:
        raise UsageError(f"--format: {text!r} is not one of {', '.join(Format)}") from None


def _cluster(where: Where, common: RunOptions) -> tuple[dict[str, Any] | None, str | None]:
    """(the `cluster` of the envelope, its id), asked of the brokers where the source is live."""
    if where.kind != "kafka":
        return None, None
    from kgm.cli.output.report import cluster_json

    with common.cluster(reads_only=True) as connected:
        return cluster_json(connected), connected.cluster_id


def spark_source(where: Where, common: RunOptions) -> Source:
    """The source for Spark: of Kafka with the settings of the client."""
    from kgm.pipeline import Kind, Source

    assert where.kind is not None
    kind = Kind(where.kind)
    if kind is not Kind.KAFKA:
        return Source(kind=kind, path=where.path)
    bootstrap = common.bootstrap_for(reads_only=True)
    return Source(kind=kind, properties={**common.settings, "bootstrap.servers": bootstrap})


def spark_options(where: Where) -> SparkOptions:
    from kgm.pipeline import SparkOptions

    return SparkOptions(master=where.master, conf=dict(where.spark_conf), jars=where.jars)


@contextlib.contextmanager
def _ended_by_sigterm(stop: threading.Event) -> Iterator[None]:
    """SIGTERM ends the capture cleanly, as an orchestrator expects; handlers belong to the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
