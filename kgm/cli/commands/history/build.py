"""`kgm history build`: build the tables of a store, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

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
from kgm.cli.output.report import Column, Columns, Report, emit, object_table
from kgm.model.forms.json_form import json_value
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.history.places.remote_path import Place
    from kgm.pipeline import BuildReport

_SCHEMA = "kgm.history-build/v1"


@cluster_options_with("Time limit for connecting (30s), not for the build.")
@history_options
def build(
    *,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Rebuild everything, for example after kgm's rules have changed.")
    ] = False,
    store_format: FormatOption = None,
    options: HistoryOptions,
    common: RunOptions,
) -> None:
    """Build the tables of --out DIR from the records captured since the last build; with --source, first capture once.

    Without new records, another build changes nothing. Query the tables with --store DIR, which needs no Spark."""
    out = store_directory(options)
    cluster_json, cluster_id = (None, None) if options.kind is None else cluster_of(options, common)
    from kgm.operations.history.source import extra_needed

    with extra_needed():
        from kgm.pipeline import build as build_tables

        done = build_tables(
            out, source=None if options.kind is None else spark_source(options, common),
            options=options.spark_options(), format=store_format_of(store_format), cluster=cluster_id,
            from_scratch=from_scratch, sessions=options.sessions(),
        )  # fmt: skip
    emit(_report(done, cluster_json, out), common)


def _report(done: BuildReport, cluster_json: dict[str, Any] | None, out: Place) -> Report:
    data = {
        "out": str(out), "number": done.number, "records": done.records, "bad": done.bad,
        "partitions": list(done.partitions), "rebuilt": list(done.rebuilt),
        "rows": dict(done.rows), "captured": json_value(done.captured, (CAPTURED, None)),
    }  # fmt: skip
    rows = [{"table": name, "rows": count} for name, count in sorted(done.rows.items())]
    columns: Columns = {"table": "TABLE", "rows": Column(title="ROWS", right=True)}
    notes = [f"{done.bad:,} records could not be decoded: kgm history verify --store {out}"] if done.bad else []
    notes.append(f"next: kgm history churn --store {out}")
    heading = f"build {done.number}: {done.records:,} new records of {many(len(done.partitions), 'partition')}"
    return Report(
        schema=_SCHEMA, data=data, tables=[object_table(columns, rows, heading, notes)], keys=[*columns],
        names=[str(out)], items=[data], rows=rows, cluster=cluster_json,
    )  # fmt: skip
