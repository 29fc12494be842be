"""From a source into a store that a URI names: batches of offset ranges, each with its end in the entry that makes it
count. See `kgm.pipeline.remote`.

There is no streaming query and no checkpoint: what was read is what the log says was read."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgm.history.places.remote_path import RemotePath
from kgm.history.store.commit_log import Commit, CommittedFile
from kgm.model.errors import KgmError, RefusedError
from kgm.pipeline import tasks
from kgm.pipeline.capturing import check_seen, short, slug
from kgm.pipeline.options import CaptureProgress, Source, SparkOptions, StoreFormat
from kgm.pipeline.remote import layout
from kgm.pipeline.remote.bronze import CaptureTarget, RemoteBronze, as_raw
from kgm.pipeline.remote.claims import Claim, claimed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kgm.pipeline.slices import SliceReader

#: Offsets from start to end (exclusive) of each partition.
Ranges = Mapping[int, tuple[int, int]]


def capture(
    out: RemotePath, source: Source, *, options: SparkOptions, once: bool, format: StoreFormat | None,  # noqa: A002
    cluster: str | None, every_s: float, most_records: int | None, stop: Event | None,
    on_batch: Callable[[CaptureProgress], None] | None,
) -> CaptureProgress:  # fmt: skip
    """See `kgm.pipeline.capture`."""
    store = layout.opened(out, format=format, cluster=cluster, create=True)
    with claimed(out, "capture", store.writer) as claim:
        from kgm.pipeline import kafka, session, sources

        spark = session.start(options, source)
        found = sources.cluster_of(spark, source) or cluster
        store = layout.opened(out, format=None, cluster=found, create=False)
        run = _Capture(spark, store, source, claim, on_batch or _ignore)
        try:
            return run.run(once=once, every_s=every_s, most_records=most_records, stop=stop or Event())
        except KgmError:
            raise
        except Exception as error:
            known = kafka.raised_by_client(error, source)
            if known is None:
                raise
            raise known from error


def _ignore(_: CaptureProgress) -> None:
    pass


@dataclass
class _Capture:
    """One run."""

    spark: "SparkSession"
    store: layout.RemoteStore
    source: Source
    claim: Claim
    on_batch: Callable[[CaptureProgress], None]
    progress: CaptureProgress = field(default_factory=CaptureProgress)

    def run(self, *, once: bool, every_s: float, most_records: int | None, stop: Event) -> CaptureProgress:
        from kgm.pipeline import sources

        bronze = RemoteBronze.of(self.store)
        bronze.publish()
        if self.source.is_dump:
            self.take(bronze, None, self.of_frame(bronze, sources.read(self.spark, self.source)), {})
            return self.progress
        name = slug(self.store.cluster, self.source)
        known = sources.bounds(self.spark, self.source)
        end = known
        while True:
            reached = bronze.positions(name)
            _refuse_shorter(self.source, end, reached)
            ranges = _limited({at: (reached.get(at, first), last) for at, (first, last) in end.items()}, most_records)
            if ranges:
                self.take(bronze, name, self.of_ranges(bronze, ranges), {at: last for at, (_, last) in ranges.items()})
                if stop.is_set():
                    break
                if once or most_records:
                    continue
            if once or stop.wait(every_s):
                break
            end = sources.bounds(self.spark, self.source)
            check_seen(self.source, {at: place for at, place in known.items() if at not in end}, {})
        behind = short(known, bronze.positions(name)) if once and not stop.is_set() else {}
        assert not behind, behind
        return self.progress

    def of_ranges(self, bronze: RemoteBronze, ranges: Ranges) -> list[str]:
        """Write the records of offset ranges; the results of the tasks."""
        from kgm.pipeline import sources

        read = sources.slice_reader(self.source)
        if read is None:
            return self.of_frame(bronze, sources.read(self.spark, self.source, ranges))
        return tasks.each(self.spark, _Take(self.target(bronze), read), sources.slices(self.source, ranges))

    def of_frame(self, bronze: RemoteBronze, frame: "DataFrame") -> list[str]:
        """The same of a frame by `schema.RAW`."""
        target = self.target(bronze)

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            done = target.write(map(as_raw, batches))
            yield pa.RecordBatch.from_pydict({"done": [done]}, schema=pa.schema([pa.field("done", pa.string())]))

        with tasks.failures():
            return [row.done for row in frame.mapInArrow(work, "done string").collect()]

    def target(self, bronze: RemoteBronze) -> CaptureTarget:
        return CaptureTarget(
            raw=self.store.raw, known=bronze.spans, cluster=self.store.cluster, source=str(self.source),
            taken_ms=int(time.time() * 1000),
        )  # fmt: skip

    def take(self, bronze: RemoteBronze, name: str | None, results: list[str], positions: Mapping[int, int]) -> None:
        """Let what tasks wrote count, and how far the source was read."""
        files: dict[str, CommittedFile] = {}
        repeated = 0
        for each in map(json.loads, results):
            files.update(Commit.of_json(each["commit"]).files)
            repeated += each["repeated"]
        added = sum(span.records for file in files.values() for span in file.spans.values())
        self.claim.check()
        if files or positions:
            bronze.add(Commit(source=name, positions=dict(positions), files=files))
        self.progress = CaptureProgress(
            records=self.progress.records + added, repeated=self.progress.repeated + repeated,
            batches=self.progress.batches + (added > 0),
        )  # fmt: skip
        self.on_batch(self.progress)


@dataclass(frozen=True, slots=True)
class _Take:
    """Writes the records of a row of `parts.SLICES`."""

    target: CaptureTarget
    read: "SliceReader"

    def __call__(self, row: Mapping[str, Any]) -> str:
        return self.target.write(self.read(row))


def _limited(ranges: Ranges, most_records: int | None) -> dict[int, tuple[int, int]]:
    """Those with something in them, cut to so many offsets in all, approximately."""
    waiting = {number: each for number, each in ranges.items() if each[0] < each[1]}
    if not most_records:
        return waiting
    share = max(1, most_records // max(1, len(waiting)))
    return {number: (first, min(last, first + share)) for number, (first, last) in waiting.items()}


def _refuse_shorter(source: Source, ends: Ranges, reached: Mapping[int, int]) -> None:
    """Raises RefusedError if partitions end before what was read of them: then it is not the same log."""
    facts = [
        f"partition {number}: read up to {reached[number]}, it ends at {last}"
        for number, (_, last) in sorted(ends.items())
        if last < reached.get(number, 0)
    ]
    if facts:
        raise RefusedError(
            f"{source} ends before what was captured of it: the topic was created again, or it is another copy",
            facts=facts[:10], hint="capture it into another store",
        )  # fmt: skip
