"""From a source into a store in a directory, in batches that are commits of `bronze`.

kgm itself reads a live topic and segments: offset ranges, each into files of its own, by this process or by Spark's
workers (`taking.engine`); how far it got is written after the commit (`taking.positions`).

Spark's own Kafka source is read by a streaming query. Its checkpoint says how far the source was read, and which batch
is next. A batch that was in flight when the driver died is run again, with the same number and the same offsets; if its
commit is there, it is done. If a checkpoint gets lost, the query starts again under another name, and records that are
in the store already are left out, by offset."""

import hashlib
import json
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from kgm.model.errors import KgmError, RefusedError
from kgm.pipeline import layout
from kgm.pipeline.bronze import Bronze
from kgm.pipeline.kafka import FETCH_WITH_A_CONSUMER
from kgm.pipeline.options import CaptureProgress, Source, SourceKind, SparkOptions, StoreFormat
from kgm.pipeline.taking.engine import Engine
from kgm.pipeline.taking.following import facts_of, follow, short
from kgm.pipeline.taking.positions import Positions, begun
from kgm.pipeline.taking.slices import Ranges, slice_reader
from kgm.pipeline.taking.writing import CaptureTarget, CaptureTask, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S = 0.5
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
        engine = Engine(options, source)
        store = layout.opened(out, format=None, cluster=engine.cluster_of() or cluster, create=False)
        shutil.rmtree(store.staging, ignore_errors=True)
        kind = _OfSlices if source.has_slices else _OfFrames
        run = kind(engine, store, source, Bronze.of(store), on_batch or _ignore)
        run.run(once=once, every_s=every_s, most_records=most_records, stop=stop or Event())
        return run.progress


def _ignore(_: CaptureProgress) -> None:
    pass


@dataclass
class _Capture:
    """One run."""

    engine: Engine
    store: layout.Store
    source: Source
    bronze: Bronze
    on_batch: Callable[[CaptureProgress], None]
    progress: CaptureProgress = field(default_factory=CaptureProgress)

    @property
    def checkpoint(self) -> Path:
        """Where it says how far the source was read."""
        return self.store.checkpoints / slug(self.store.cluster, self.source)

    def taken(self, added: int, repeated: int) -> None:
        self.progress = self.progress.after(added, repeated)
        self.on_batch(self.progress)


class _OfSlices(_Capture):
    """Of what kgm itself reads."""

    def run(self, *, once: bool, every_s: float, most_records: int | None, stop: Event) -> None:
        positions = Positions(self.checkpoint)
        reached = positions.read()

        def take(ranges: Ranges) -> None:
            written = self.take(ranges)
            reached.update({number: end for number, (_, end) in ranges.items()})
            positions.write(reached)
            self.taken(written.added, written.repeated)

        follow(
            self.source, bounds=self.engine.bounds, reached=lambda: reached, take=take, once=once, every_s=every_s,
            most_records=most_records, stop=stop,
        )  # fmt: skip

    def take(self, ranges: Ranges) -> Written:
        """Add the records of offset ranges as a commit."""
        folder = self.store.staging / f"attempts-{uuid.uuid4().hex}"
        folder.mkdir(parents=True)
        target = CaptureTarget(
            raw=folder, known=self.bronze.holding(ranges), cluster=self.store.cluster, source=str(self.source),
            taken_ms=int(time.time() * 1000),
        )  # fmt: skip
        written = Written.of(self.engine.each(CaptureTask(target, slice_reader(self.source)), ranges))
        self.bronze.add_files(folder, written)
        return written


@dataclass
class _OfFrames(_Capture):
    """Of what Spark reads: its own Kafka source, as a stream, and dumps."""

    failure: KgmError | None = None

    @property
    def spark(self) -> "SparkSession":
        return self.engine.spark()

    def run(self, *, once: bool, every_s: float, most_records: int | None, stop: Event) -> None:
        from kgm.pipeline import kafka, sources

        if self.source.is_dump:
            name = f"dump-{slug(self.store.cluster, self.source)}-{len(self.bronze.spans):06}"
            self.take(sources.read(self.spark, self.source), name)
            return
        known = self.engine.bounds()
        try:
            self.stream(known, once=once, every_s=every_s, most_records=most_records, stop=stop)
        except KgmError:
            raise
        except Exception as error:
            if self.failure is not None:
                raise self.failure from error
            known_error = kafka.raised_by_client(error, self.source)
            if known_error is None:
                raise
            raise known_error from error
        if once:
            check_read(self.source, known, begun(self.checkpoint))

    def stream(
        self, known: Ranges, *, once: bool, every_s: float, most_records: int | None, stop: Event
    ) -> None:  # fmt: skip
        """Run the query, to the end of the source or until `stop` is set. known: the bounds of the partitions. Raises
        what Spark does, and RefusedError."""
        from kgm.pipeline import sources

        checkpoint = self.checkpoint

        def batch(frame: "DataFrame", number: int) -> None:
            try:
                self.take(frame, f"{_query_id(checkpoint)}-{number:09}")
            except KgmError as error:
                self.failure = error
                raise

        def watch(query: "StreamingQuery") -> None:
            # One that ends by itself is checked when it has ended (`check_read`).
            if not once and query.lastProgress is not None:
                check_seen(self.source, known, begun(checkpoint))

        stream = sources.stream(self.spark, self.source, most_records=most_records)
        writer = stream.writeStream.foreachBatch(batch).option("checkpointLocation", str(checkpoint))
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_s} seconds")
        _awaited(writer.start(), stop, watch)

    def take(self, records: "DataFrame", name: str) -> None:
        """Add a commit."""
        self.taken(*self.bronze.add(self.spark, records, name, str(self.source)))


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


def check_read(source: Source, known: Ranges, reached: Mapping[int, int]) -> None:
    """Raises RefusedError if reading did not get to where the partitions ended before it began."""
    behind = short(known, reached)
    if not behind:
        return
    raise _refused(
        f"Spark stopped before the end of {source}; the store has what it returned, which is not all", behind
    )


def check_seen(source: Source, known: Ranges, reached: Mapping[int, int]) -> None:
    """Raises RefusedError if a running query does not see partitions that have records."""
    missing = {number: place for number, place in short(known, reached).items() if number not in reached}
    if missing:
        raise _refused(f"Spark does not see partitions of {source} that the broker has", missing)


def _refused(message: str, behind: Ranges) -> RefusedError:
    hint = f"check that nothing sets {FETCH_WITH_A_CONSUMER} to false, and report it with the version of Spark"
    return RefusedError(message, facts=facts_of(behind), hint=hint)
