"""Writes records into a file of raw records, without those that the store already has."""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgm.history.decode.raw_batch import leading_int16
from kgm.history.places.parquet import read_table, writing
from kgm.history.places.remote_path import Place
from kgm.history.schema import BRONZE_RAW
from kgm.history.store.commit_log import Commit, CommittedFile, Span, Spans
from kgm.pipeline.taking.slices import Slice, SliceReader


@dataclass(slots=True)
class CapturedOffsets:
    """The offsets that the store already has, read only as far as needed. spans: of its files."""

    spans: Mapping[Place, Spans]
    _offsets: dict[tuple[Place, int], np.ndarray] = field(default_factory=dict)

    def without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records of a batch by `schema.RAW` that the store does not have."""
        partitions, offsets = batch.column("partition").to_numpy(), batch.column("offset").to_numpy()
        held = np.zeros(len(batch), dtype=bool)
        for number in np.unique(partitions).tolist() if self.spans else ():
            mine = partitions == number
            first, last = int(offsets[mine].min()), int(offsets[mine].max())
            for path, spans in self.spans.items():
                span = spans.get(number)
                if span is not None and span.first <= last and first <= span.last:
                    held |= mine & np.isin(offsets, self._of(path, number))
        return batch.filter(pa.array(~held)) if held.any() else batch

    def _of(self, path: Place, partition: int) -> np.ndarray:
        if (path, partition) not in self._offsets:
            where = pc.field("partition") == partition
            table = read_table(path, columns=["offset"], filters=where)
            self._offsets[path, partition] = table.column("offset").to_numpy()
        return self._offsets[path, partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureTarget:
    """Where a task writes. raw: the directory; known: the spans of the store's files that may hold the same records;
    cluster, source, taken_ms: column values of every record."""

    raw: Place
    known: Mapping[Place, Spans]
    cluster: str | None
    source: str
    taken_ms: int

    def write(self, batches: Iterable[pa.RecordBatch]) -> str:
        """Write records by `schema.RAW` into a file of their own, without those that the store has; returns the JSON
        that `Written.of` reads."""
        name = f"part-{uuid.uuid4()}.parquet"
        known, spans, repeated = CapturedOffsets(self.known), Spans(), 0
        with ExitStack() as stack:
            writer: pq.ParquetWriter | None = None
            for batch in batches:
                fresh = known.without(batch)
                repeated += len(batch) - len(fresh)
                if not len(fresh):
                    continue
                if writer is None:
                    writer = stack.enter_context(writing(self.raw / name, BRONZE_RAW))
                writer.write_batch(with_identity(fresh, self.cluster, self.source, self.taken_ms))
                for number, span in _spans(fresh):
                    spans[number] = spans[number].joined(span) if number in spans else span
        size = (self.raw / name).stat().st_size if spans else 0
        file = Commit(files={name: CommittedFile(size=size, spans=spans)} if spans else {})
        return json.dumps({"repeated": repeated, "commit": file.to_json()})


@dataclass(frozen=True, slots=True)
class CaptureTask:
    """Writes the records of a slice; the work of a task."""

    target: CaptureTarget
    read: SliceReader

    def __call__(self, part: Slice) -> str:
        return self.target.write(self.read(part))


@dataclass(frozen=True, slots=True)
class Written:
    """What tasks wrote: the files by name, how many records are in them, and how many the store already had."""

    files: Mapping[str, CommittedFile]
    added: int
    repeated: int

    @classmethod
    def of(cls, results: Iterable[str]) -> "Written":
        """The total of what `CaptureTarget.write` returned for each task."""
        files: dict[str, CommittedFile] = {}
        repeated = 0
        for each in map(json.loads, results):
            files.update(Commit.of_json(each["commit"]).files)
            repeated += each["repeated"]
        return cls(files, sum(span.records for file in files.values() for span in file.spans.values()), repeated)


def _spans(batch: pa.RecordBatch) -> Iterator[tuple[int, Span]]:
    table = pa.Table.from_batches([batch]).group_by("partition")
    rows = table.aggregate([("offset", "min"), ("offset", "max"), ("offset", "count")])
    for row in rows.to_pylist():
        yield row["partition"], Span(row["offset_min"], row["offset_max"], row["offset_count"])


def with_identity(raw: pa.RecordBatch, cluster: str | None, source: str, taken_ms: int) -> pa.RecordBatch:
    """The records with the columns of `schema.BRONZE_RAW`."""
    (kind, has_kind), (version, has_version) = (leading_int16(raw.column(name)) for name in ("key", "value"))
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(cluster or "", len(raw)), *raw.columns, pa.array(kind, mask=~has_kind),
            pa.array(version, mask=~has_version), pa.repeat(source, len(raw)),
            pa.repeat(pa.scalar(taken_ms, pa.int64()), len(raw)),
        ],
        schema=BRONZE_RAW,
    )  # fmt: skip
