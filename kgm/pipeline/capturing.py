"""Captures a source into a store: batches of offset ranges, each with its end in the entry that makes it count. See
`kgm.pipeline.store`.

There is no streaming query and no checkpoint: the log alone records what was read. kgm itself reads a live topic and
segments, in this process or by Spark's workers (`taking.engine`); Spark reads dumps."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pyarrow as pa

from kgm.history.places.remote_path import Place
from kgm.history.store.commit_log import Commit, Spans
from kgm.pipeline import tasks
from kgm.pipeline.options import CaptureProgress, Source, SourceKind, SparkOptions, StoreFormat
from kgm.pipeline.store import layout
from kgm.pipeline.store.bronze import Bronze, as_raw
from kgm.pipeline.store.claims import Claim, claimed
from kgm.pipeline.taking.engine import Engine
from kgm.pipeline.taking.following import follow
from kgm.pipeline.taking.slices import Ranges, slice_reader
from kgm.pipeline.taking.writing import CaptureTarget, CaptureTask, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Source names use `topic`: `kafka` stands for what Spark's own source captured, in stores of an older kgm.
_SLUGS = {SourceKind.KAFKA: "topic"}


def capture(
    out: Place, source: Source, *, options: SparkOptions, once: bool, format: StoreFormat | None,  # noqa: A002
    cluster: str | None, every_s: float, most_records: int | None, stop: Event | None,
    on_batch: Callable[[CaptureProgress], None] | None,
) -> CaptureProgress:  # fmt: skip
    """See `kgm.pipeline.capture`."""
    store = layout.opened(out, format=format, cluster=cluster, create=True)
    with claimed(out, "capture", store.writer) as claim:
        engine = Engine(options, source)
        store = layout.opened(out, format=None, cluster=engine.cluster_of() or cluster, create=False)
        if source.is_live:  # each batch has a connection of its own, and the address may lead elsewhere by then
            source = replace(source, cluster=store.cluster)
            engine = Engine(options, source)
        run = _Capture(engine, store, source, claim, on_batch or _ignore)
        return run.run(once=once, every_s=every_s, most_records=most_records, stop=stop or Event())


def _ignore(_: CaptureProgress) -> None:
    pass


@dataclass
class _Capture:
    """One run."""

    engine: Engine
    store: layout.Store
    source: Source
    claim: Claim
    on_batch: Callable[[CaptureProgress], None]
    progress: CaptureProgress = field(default_factory=CaptureProgress)

    def run(self, *, once: bool, every_s: float, most_records: int | None, stop: Event) -> CaptureProgress:
        bronze = Bronze.of(self.store)
        bronze.publish()
        bronze.sweep(self.claim.path.stat().st_mtime_ns)
        if self.source.is_dump:
            from kgm.pipeline import sources

            target = self.target(bronze, bronze.spans)
            self.add(bronze, None, self.of_frame(target, sources.read(self.engine.spark(), self.source)), {})
            return self.progress
        name = slug(self.store.cluster, self.source)

        def take(ranges: Ranges) -> None:
            results = self.of_ranges(bronze, ranges)
            self.add(bronze, name, results, {number: end for number, (_, end) in ranges.items()})

        follow(
            self.source, bounds=self.engine.bounds, reached=lambda: bronze.positions(name), take=take, once=once,
            every_s=every_s, most_records=most_records, stop=stop,
        )  # fmt: skip
        return self.progress

    def of_ranges(self, bronze: Bronze, ranges: Ranges) -> list[str]:
        """Write the records of offset ranges; returns the tasks' results."""
        target = self.target(bronze, bronze.holding(ranges))
        return self.engine.each(CaptureTask(target, slice_reader(self.source)), ranges)

    def of_frame(self, target: CaptureTarget, frame: "DataFrame") -> list[str]:
        """The same for a frame by `schema.RAW`."""

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            done = target.write(map(as_raw, batches))
            yield pa.RecordBatch.from_pydict({"done": [done]}, schema=pa.schema([pa.field("done", pa.string())]))

        with tasks.failures():
            return [row.done for row in frame.mapInArrow(work, "done string").collect()]

    def target(self, bronze: Bronze, known: Mapping[Place, Spans]) -> CaptureTarget:
        bronze.began_s = time.time()
        return CaptureTarget(
            raw=self.store.raw, known=known, cluster=self.store.cluster, source=str(self.source),
            taken_ms=int(time.time() * 1000),
        )  # fmt: skip

    def add(self, bronze: Bronze, name: str | None, results: list[str], positions: Mapping[int, int]) -> None:
        """Make the tasks' files count, and note how far the source was read."""
        written = Written.of(results)
        self.claim.check()
        if written.files or positions:
            bronze.add(Commit(source=name, positions=dict(positions), files=written.files))
        self.progress = self.progress.after(written.added, written.repeated)
        self.on_batch(self.progress)


def slug(cluster: str | None, source: Source) -> str:
    """The name of a source in the log, which does not depend on the broker used to reach a cluster."""
    place = f"{cluster}/{source.topic}" if source.is_live else str((source.path or Path()).resolve())
    return f"{_SLUGS.get(source.kind, source.kind)}-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
