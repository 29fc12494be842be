"""From a source into the store: a streaming query whose batches are commits of `bronze`.

Spark's checkpoint says how far the source was read, and which batch is next. A batch that was in flight when the driver
died is run again, with the same number and the same offsets; if its commit is there, it is done. If a checkpoint gets
lost, the query starts again under another name, and records that are in the store already are left out, by offset."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from kgm.model.errors import KgmError, RefusedError
from kgm.pipeline import layout
from kgm.pipeline.kafka import FETCH_WITH_A_CONSUMER
from kgm.pipeline.options import CaptureProgress, Source, SourceKind, SparkOptions, StoreFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kgm.pipeline.bronze import Bronze

_POLL_S = 0.5
#: Spark gives the Python process that plans a source ten seconds to start; a busy machine may need longer.
_SLOW_START, _STARTS = "failed to connect back", 5
#: In the names of checkpoints: `kafka` is what Spark's source had when it was the only one.
_SLUGS = {SourceKind.KAFKA: "topic", SourceKind.SPARK_KAFKA: "kafka"}


def capture(
    out: Path, source: Source, *, options: SparkOptions, once: bool, format: StoreFormat | None,  # noqa: A002
    cluster: str | None, every_s: float, most_records: int | None, stop: Event | None,
    on_batch: Callable[[CaptureProgress], None] | None,
) -> CaptureProgress:  # fmt: skip
    """See `kgm.pipeline.capture`."""
    store = layout.opened(out, format=format, cluster=cluster, create=True)
    with store.locked("capture"):
        from kgm.pipeline import session, sources

        spark = session.start(options, source)
        store = layout.opened(out, format=None, cluster=sources.cluster_of(spark, source) or cluster, create=False)
        shutil.rmtree(store.staging, ignore_errors=True)
        return _Capture(spark, store, source, on_batch or _ignore).run(
            once=once, every_s=every_s, most_records=most_records, stop=stop or Event()
        )


def _ignore(_: CaptureProgress) -> None:
    pass


@dataclass
class _Capture:
    """One run."""

    spark: "SparkSession"
    store: layout.Store
    source: Source
    on_batch: Callable[[CaptureProgress], None]
    progress: CaptureProgress = field(default_factory=CaptureProgress)
    failure: KgmError | None = None

    def run(self, *, once: bool, every_s: float, most_records: int | None, stop: Event) -> CaptureProgress:
        from kgm.pipeline import kafka, sources
        from kgm.pipeline.bronze import Bronze
        from kgm.pipeline.parts import raised_by_worker

        bronze = Bronze.of(self.store)
        if self.source.is_dump:
            self.take(
                bronze,
                sources.read(self.spark, self.source),
                f"dump-{slug(self.store.cluster, self.source)}",
                again=True,
            )
            return self.progress
        known = sources.bounds(self.spark, self.source)
        checkpoint = self.checkpoint
        try:
            self.follow(bronze, known, once=once, every_s=every_s, most_records=most_records, stop=stop)
            if once and self.source.has_slices and short(known, _reached(checkpoint)):
                # Spark ran a batch again that was in flight when it was killed, and takes that for all there is.
                self.follow(bronze, known, once=once, every_s=every_s, most_records=most_records, stop=stop)
        except KgmError:
            raise
        except Exception as error:
            if self.failure is not None:
                raise self.failure from error
            known_error = kafka.raised_by_client(error, self.source) or raised_by_worker(error)
            if known_error is None:
                raise
            raise known_error from error
        if once:
            check_read(self.source, known, _reached(checkpoint))
        return self.progress

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint of the source."""
        return self.store.checkpoints / slug(self.store.cluster, self.source)

    def follow(
        self, bronze: "Bronze", known: Mapping[int, tuple[int, int]], *, once: bool, every_s: float,
        most_records: int | None, stop: Event,
    ) -> None:  # fmt: skip
        """Run the query, to the end of the source or until `stop` is set. known: the bounds of the partitions. Raises
        what Spark does, and RefusedError."""
        from kgm.pipeline import sources

        checkpoint = self.checkpoint

        def batch(frame: "DataFrame", number: int) -> None:
            try:
                self.take(bronze, frame, f"{_query_id(checkpoint)}-{number:09}")
            except KgmError as error:
                self.failure = error
                raise

        def watch(query: "StreamingQuery") -> None:
            if self.source.kind is SourceKind.SPARK_KAFKA and query.lastProgress is not None:
                check_seen(self.source, known, _reached(checkpoint))

        for start in range(1, _STARTS + 1):
            stream = sources.stream(self.spark, self.source, most_records=most_records)
            writer = stream.writeStream.foreachBatch(batch).option("checkpointLocation", str(checkpoint))
            writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_s} seconds")
            try:
                _awaited(writer.start(), stop, watch)
                return
            except Exception as error:
                if _SLOW_START not in str(error) or start == _STARTS:
                    raise

    def take(self, bronze: "Bronze", records: "DataFrame", name: str, *, again: bool = False) -> None:
        """Add a commit. again: the same name may come again with other records."""
        name = f"{name}-{len(bronze.spans):06}" if again else name
        from kgm.pipeline import sources

        read = sources.slice_reader(self.source)
        added, repeated = bronze.add(self.spark, records, name, str(self.source), read)
        self.progress = CaptureProgress(
            records=self.progress.records + added,
            repeated=self.progress.repeated + repeated,
            batches=self.progress.batches + (added > 0),
        )
        self.on_batch(self.progress)


def _awaited(query: "StreamingQuery", stop: Event, watch: Callable[["StreamingQuery"], None]) -> None:
    """Wait until the query ends or `stop` is set; `watch` is called meanwhile, and may raise."""
    try:
        while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]  # seconds, whole or not
            watch(query)
            if stop.is_set():
                break
    finally:
        if query.isActive:
            query.stop()


def slug(cluster: str | None, source: Source) -> str:
    """The name of a source's checkpoint, which does not depend on the broker by which a cluster is reached."""
    place = f"{cluster}/{source.topic}" if source.is_live else str((source.path or Path()).resolve())
    return f"{_SLUGS.get(source.kind, source.kind)}-{hashlib.sha256(place.encode()).hexdigest()[:12]}"


def _query_id(checkpoint: Path) -> str:
    """The id of the query that a checkpoint belongs to; a new checkpoint in its place is another query."""
    query_id: str = json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"]
    return query_id


def _reached(checkpoint: Path) -> dict[int, int]:
    """How far a source was read, by its checkpoint: the next offset of each partition."""
    log = checkpoint / "offsets"
    numbers = sorted(int(path.name) for path in log.iterdir() if path.name.isdecimal()) if log.is_dir() else []
    if not numbers:
        return {}
    line = (log / str(numbers[-1])).read_text(encoding="utf-8").splitlines()[2]
    offsets: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
    nested = [each for each in offsets.values() if isinstance(each, dict)]  # Kafka's are by topic
    return {int(number): offset for number, offset in (nested[0] if nested else offsets).items()}


def short(known: Mapping[int, tuple[int, int]], reached: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """(offset reached, end) of each partition that was not read to its end."""
    return {
        number: (reached.get(number, first), last)
        for number, (first, last) in sorted(known.items())
        if reached.get(number, first) < last
    }


def check_read(source: Source, known: Mapping[int, tuple[int, int]], reached: Mapping[int, int]) -> None:
    """Raises RefusedError if reading did not get to where the partitions ended before it began."""
    behind = short(known, reached)
    if not behind:
        return
    raise _refused(
        f"Spark stopped before the end of {source}; the store has what it returned, which is not all", source, behind
    )


def check_seen(source: Source, known: Mapping[int, tuple[int, int]], reached: Mapping[int, int]) -> None:
    """Raises RefusedError if a running query does not see partitions that have records."""
    missing = {number: place for number, place in short(known, reached).items() if number not in reached}
    if missing:
        raise _refused(f"Spark does not see partitions of {source} that the broker has", source, missing)


def _refused(message: str, source: Source, behind: Mapping[int, tuple[int, int]]) -> RefusedError:
    facts = [f"partition {number}: read up to {at}, it ends at {last}" for number, (at, last) in behind.items()]
    hint = (
        f"check that nothing sets {FETCH_WITH_A_CONSUMER} to false"
        if source.kind is SourceKind.SPARK_KAFKA
        else "run it again"
    )
    return RefusedError(message, facts=facts[:10], hint=f"{hint}, and report it with the version of Spark")
