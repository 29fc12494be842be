"""The history on Spark: sessions, sources and jobs around the functions of `kgm.history`.

Nothing is decoded or inferred here: a job reads, passes Arrow batches to a function of the history that knows nothing
about Spark, and writes what it returns. PySpark comes with the extra `spark`, and nothing else in kgm imports it;
importing this package does not.

`capture` takes records from a source (`sources`) into DIR/bronze/raw, in commits. Sources that kgm itself reads are
taken in slices of partitions, by this process or by Spark's workers (`taking`): no record becomes a row in the JVM.
Spark reads dumps. The store has each record once, by cluster, partition and offset, no matter how sources overlap.
`build` gives each partition of `__consumer_offsets` with something new to a worker, which runs `kgm.history.derive` on
it from where the last build stopped (`partition_work`); all records of a group are in one partition, so nothing is
shuffled. For where everything goes, and why nothing is lost or half-written no matter what is killed, see `store`."""

from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING

from kgm.history.causes.session_timeouts import GivenSessions
from kgm.history.places.remote_path import Place
from kgm.model.errors import UsageError
from kgm.pipeline import session
from kgm.pipeline.options import BuildReport, CaptureProgress, Source, SourceKind, SparkOptions, StoreFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "BuildReport",
    "CaptureProgress",
    "Source",
    "SourceKind",
    "SparkOptions",
    "StoreFormat",
    "build",
    "capture",
    "read",
    "start",
]  # fmt: skip


def start(options: SparkOptions, *sources: Source) -> "SparkSession":
    """A Spark session that can read the sources; the running one, if there is one. Stop it with `.stop()`.

    Raises UsageError if the extra or Java is missing, or if kgm does not support the version of PySpark."""
    return session.start(options, *sources)


def capture(
    out: Place, source: Source, *, options: SparkOptions | None = None, once: bool = False,
    format: StoreFormat | None = None,  # noqa: A002
    cluster: str | None = None, every_s: float = 10, most_records: int | None = None, stop: Event | None = None,
    on_batch: Callable[[CaptureProgress], None] | None = None,
) -> CaptureProgress:  # fmt: skip
    """Take records of `__consumer_offsets` into DIR/bronze, each once, from where the last capture of the source
    stopped.

    once: take what is there now, and return; otherwise take a batch every `every_s` seconds until `stop` is set, or
    until KeyboardInterrupt, which abandons the batch in flight; the next capture takes it again. format: of a new
    store, Parquet if None; an existing one keeps its format. cluster: its id, if the caller knows it; a copy of a
    broker's log.dirs has it. most_records: in one batch, approximately. on_batch: called after each batch. options: no
    Spark is started for batches of a live topic or of segments that span fewer than 10,000,000 offsets, unless a master
    is given or a session is running.

    Raises UsageError (a store of another cluster or format, no Java, no extra), RefusedError (another capture is
    running on the store; the source ends before what was captured from it), UnreachableError, AuthenticationError,
    AuthorizationError, and BrokerError for other errors from Kafka."""
    if not once and source.is_dump:
        raise UsageError(f"{source} is a dump and cannot be followed", hint="use --once")
    if not source.is_live:
        source.directory()  # before a store is made and Spark started for nothing
    from kgm.pipeline import capturing

    return capturing.capture(
        out, source, options=options or SparkOptions(), once=once, format=format, cluster=cluster, every_s=every_s,
        most_records=most_records, stop=stop, on_batch=on_batch,
    )  # fmt: skip


def build(
    out: Place, *, source: Source | None = None, options: SparkOptions | None = None,
    format: StoreFormat | None = None,  # noqa: A002
    cluster: str | None = None, from_scratch: bool = False, sessions: "GivenSessions | None" = None,
) -> BuildReport:  # fmt: skip
    """Build the tables of DIR/silver and DIR/gold from what was added to DIR/bronze since the last build.

    source: captured first, once, into the same store. from_scratch: build all partitions from their beginning, for
    example after kgm's rules have changed. sessions: the user's session timeouts of consumer groups, for what is built
    now. Building twice, or again after a build was killed, gives the same tables.
    Raises the errors of `capture`, and MissingFileError if there is no store and no source."""
    captured = None
    if source is not None:
        captured = capture(out, source, options=options, once=True, format=format, cluster=cluster)
    from kgm.pipeline import building

    report = building.build(
        out, options=options or SparkOptions(), format=format, cluster=cluster, from_scratch=from_scratch,
        sessions=sessions,
    )  # fmt: skip
    return replace(report, captured=captured)


def read(out: Place, table: str, spark: "SparkSession") -> "DataFrame":
    """A table of a built store, by its name in `kgm.history.schema.TABLES`. Raises MissingFileError."""
    from kgm.pipeline import building

    return building.read(out, table, spark)
