"""The arguments that `capture` and `build` pass to the pipeline, from the options of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.options.history import LIVE, HistoryOptions
from kgm.cli.options.run_options import RunOptions
from kgm.model.errors import UsageError

if TYPE_CHECKING:
    from kgm.history.places.remote_path import Place
    from kgm.pipeline import Source, StoreFormat

FormatOption = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help="Format of a new store: parquet | delta. [parquet]")
]


def store_directory(options: HistoryOptions) -> Place:
    """The directory or URI of the store. Raises UsageError if none is given."""
    if options.store is None:
        raise UsageError("no directory for the history is given", hint="--out DIR")
    return options.store


def store_format_of(text: str | None) -> StoreFormat | None:
    """The format that --format names. Raises UsageError."""
    from kgm.pipeline import StoreFormat

    if text is None:
        return None
    try:
        return StoreFormat(text)
    except ValueError:
        raise UsageError(f"--format: {text!r} is not one of {', '.join(StoreFormat)}") from None


def cluster_of(options: HistoryOptions, common: RunOptions) -> tuple[dict[str, Any] | None, str | None]:
    """(the `cluster` of the envelope, its id), from the brokers if the source is live."""
    if options.kind != LIVE:
        return None, None
    from kgm.cli.output.report import cluster_json

    with common.cluster(reads_only=True) as connected:
        return cluster_json(connected), connected.cluster_id


def spark_source(options: HistoryOptions, common: RunOptions) -> Source:
    """The source for Spark; for Kafka, with the settings of the client."""
    from kgm.pipeline import Source, SourceKind

    assert options.kind is not None
    kind = SourceKind(options.kind)
    if options.kind != LIVE:
        return Source(kind=kind, path=options.path)
    bootstrap = common.bootstrap_for(reads_only=True)
    return Source(kind=kind, properties={**common.settings, "bootstrap.servers": bootstrap})
