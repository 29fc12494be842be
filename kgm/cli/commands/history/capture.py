"""`kgm history capture`: capture records in a store, on Spark where that pays off."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.commands.history.spark_arguments import (
    FormatOption,
    cluster_of,
    spark_source,
    store_directory,
    store_format_of,
)
from kgm.cli.options.history import HistoryOptions, history_options
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options_with
from kgm.cli.output.history.forms import CAPTURED
from kgm.cli.output.notices import Notices
from kgm.cli.output.report import Column, Report, emit, object_table
from kgm.cli.stop_signal import stopped_by_sigterm
from kgm.model.errors import UsageError
from kgm.model.forms.json_form import as_json
from kgm.text.durations import parse_duration

if TYPE_CHECKING:
    from kgm.pipeline import CaptureProgress

_SCHEMA = "kgm.history-capture/v1"


@cluster_options_with("Time limit for connecting (30s), not for the capture.")
@history_options
def capture(
    *,
    once: Annotated[bool, typer.Option("--once", help="Capture the records that exist now, and exit.")] = False,
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="Time between batches.")] = "10s",
    most_records: Annotated[
        int | None,
        typer.Option("--most-records", metavar="N", help="Approximate number of records in one batch (no limit)."),
    ] = None,
    store_format: FormatOption = None,
    options: HistoryOptions,
    common: RunOptions,
) -> None:
    """Capture records of __consumer_offsets in --out DIR, each once, from where the last capture stopped.

    Compaction removes records after a while, so only a continuous capture gives a complete history. Without --once it
    runs until SIGTERM or Ctrl-C. It can be killed at any time without losing or duplicating records. The next step is
    `kgm history build`."""
    if options.kind is None:
        raise UsageError("no source is given", hint="--source kafka -b HOST:PORT, or --source segments:DIR")
    out = store_directory(options)
    every_ms = parse_duration(every, "--every")
    cluster_json, cluster_id = cluster_of(options, common)
    notices = Notices()
    stop = threading.Event()

    def on_batch(progress: CaptureProgress) -> None:
        if not once:
            batches = "1 batch" if progress.batches == 1 else f"{progress.batches} batches"
            notices.note(f"{progress.records:,} records in {batches}")

    from kgm.operations.history.source import extra_needed

    with extra_needed(), stopped_by_sigterm(stop):
        from kgm.pipeline import capture as capture_records

        done = capture_records(
            out, spark_source(options, common), options=options.spark_options(), once=once,
            format=store_format_of(store_format), cluster=cluster_id, every_s=every_ms / 1000,
            most_records=most_records, stop=stop, on_batch=on_batch,
        )  # fmt: skip
    data = {"out": str(out), "source": options.source_text, **as_json(done, CAPTURED)}
    columns = {key: Column(title=key.upper(), right=True) for key in CAPTURED}
    notes = [f"next: kgm history build --out {out}"]
    emit(
        Report(
            schema=_SCHEMA, data=data, tables=[object_table(columns, [data], notes=notes)],
            keys=[*columns], names=[str(out)], items=[data], cluster=cluster_json,
        ),
        common,
    )  # fmt: skip
