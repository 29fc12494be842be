"""Spark, thin: sessions, sources and jobs around the functions of `kgm.history`.

Nothing is decoded or inferred in here: a job reads, hands Arrow batches to a function of the history that knows
nothing of Spark, and writes what comes out. PySpark comes with the extra `spark`, and nothing else in kgm imports it;
importing this package does not.

Theory of operation. `capture` takes records from a source (`sources`) into DIR/bronze/raw, in commits: each is
written aside and put in its place by one rename (`bronze`), under a name that the streaming query gives it, so that a
batch that is done again after a crash finds itself there already. A record is in the store once, by cluster, partition
and offset, whatever overlaps. `build` gives each partition of `__consumer_offsets` with something new to a worker,
which runs `kgm.history.derive` over it from where the last build stopped (`derivation`); a group lives in one
partition, so nothing is shuffled. The tables of a build are a directory of their own, and it counts from the rename on
that lets `current` point to it (`layout`): whatever is killed, whoever reads any file of DIR/silver or DIR/gold sees
one whole build.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from kgm.pipeline.options import BuildReport, Format, Kind, Progress, Source, SparkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "BuildReport", "Format", "Kind", "Progress", "Source", "SparkOptions", "build", "capture", "read", "records",
    "start",
]  # fmt: skip


def start(options: SparkOptions, *sources: Source) -> "SparkSession":
    """A Spark session that can read the sources; the running one, if there is one. Stop it with `.stop()`.

    Raises UsageError where the extra or Java is missing, or PySpark is of a version that kgm does not run on."""
    from kgm.pipeline import session

    return session.start(options, *sources)


def capture(
    out: Path, source: Source, *, options: SparkOptions | None = None, once: bool = False,
    format: Format | None = None,  # noqa: A002
    cluster: str | None = None, every_s: float = 10, most_records: int | None = None, stop: Event | None = None,
    told: Callable[[Progress], None] | None = None,
) -> Progress:  # fmt: skip
    """Take records of `__consumer_offsets` into DIR/bronze, each once, from where the last one of the source stopped.

    once: what is there now, and return; otherwise a batch every `every_s` seconds until `stop` is set (or
    KeyboardInterrupt, which is raised when the batch in flight is given up; it is done again next time). format: of a
    new store, Parquet if None; that of an old one stays. cluster: its id, where the caller knows it; what a copy of a
    broker's log.dirs says is known anyhow. most_records: in one batch, about. told: called after each batch.

    Raises UsageError (a store of another cluster or format, no Java, no extra), RefusedError (another capture
    is at work on the store; or the source says that there is nothing while the broker says otherwise),
    UnreachableError, AuthenticationError, AuthorizationError, and BrokerError for what else Kafka says."""
    from kgm.pipeline import capturing

    return capturing.capture(
        out, source, options=options or SparkOptions(), once=once, format=format, cluster=cluster, every_s=every_s,
        most_records=most_records, stop=stop, told=told,
    )  # fmt: skip


def build(
    out: Path, *, source: Source | None = None, options: SparkOptions | None = None,
    format: Format | None = None,  # noqa: A002
    cluster: str | None = None, from_scratch: bool = False,
) -> BuildReport:  # fmt: skip
    """Make the tables of DIR/silver and DIR/gold from what came into DIR/bronze since the last build.

    source: captured first, once, into the same store. from_scratch: all partitions from their beginning, as after a
    change of kgm's rules. Doing it twice, or again after it was killed, gives the same tables. Raises what `capture`
    does, and NotFoundError where there is no store and no source."""
    from kgm.pipeline import building

    return building.build(
        out, source=source, options=options or SparkOptions(), format=format, cluster=cluster, from_scratch=from_scratch
    )


def read(out: Path, table: str, spark: "SparkSession") -> "DataFrame":
    """A table of a built store, by its name in `kgm.history.schema.TABLES`. Raises NotFoundError."""
    from kgm.pipeline import building

    return building.read(out, table, spark)


def records(spark: "SparkSession", source: Source, kind: int, *, columns: Sequence[str] | None = None) -> "DataFrame":
    """The records of one type (a number of `kgm.records.record_types.TYPES`) that are in a source now, decoded, by
    `kgm.history.schema.record_schema`. What does not decode is left out; `build` keeps it, in bronze/bad.

    columns: of that schema, all if None. Fewer make little difference: what Spark takes for a row hangs on the row.

    Raises NotFoundError and UsageError for a source that is not there, no such source, or no such column."""
    from kgm.pipeline import sources

    return sources.records(spark, source, kind, columns)
