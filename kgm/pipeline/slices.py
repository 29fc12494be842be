"""Slices of a source (`parts.SLICES`), written to the store by the workers that read them, so that no record goes
through the JVM."""

import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgm.history.decode.raw_batch import leading_int16
from kgm.history.places.parquet import CODEC
from kgm.history.schema import BRONZE_RAW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The records of a row of SLICES, for a worker.
SliceReader = Callable[[Mapping[str, Any]], Iterator[pa.RecordBatch]]


def write(slices: "DataFrame", staged: Path, *, read: SliceReader, cluster: str | None, source: str) -> None:
    """Write the records of rows by `parts.SLICES` into a new directory, by `schema.BRONZE_RAW`, a file for each row.
    What a failed attempt has left is not in it."""
    taken_ms = int(time.time() * 1000)
    attempts = staged.with_name(f"{staged.name}.attempts")
    shutil.rmtree(attempts, ignore_errors=True)
    attempts.mkdir(parents=True)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                name = f"part-{row['partition']:05}-{uuid.uuid4()}.parquet"
                with pq.ParquetWriter(attempts / name, BRONZE_RAW, compression=CODEC) as writer:
                    for raw in read(row):
                        writer.write_batch(with_identity(raw, cluster, source, taken_ms))
                yield pa.RecordBatch.from_pydict({"name": [name]})

    done = [row.name for row in slices.mapInArrow(work, "name string").collect()]
    staged.mkdir(parents=True)
    for name in done:
        (attempts / name).rename(staged / name)
    shutil.rmtree(attempts)


def with_identity(raw: pa.RecordBatch, cluster: str | None, source: str, taken_ms: int) -> pa.RecordBatch:
    """The columns of `schema.BRONZE_RAW`."""
    (kind, has_kind), (version, has_version) = (leading_int16(raw.column(name)) for name in ("key", "value"))
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(cluster or "", len(raw)), *raw.columns, pa.array(kind, mask=~has_kind),
            pa.array(version, mask=~has_version), pa.repeat(source, len(raw)),
            pa.repeat(pa.scalar(taken_ms, pa.int64()), len(raw)),
        ],
        schema=BRONZE_RAW,
    )  # fmt: skip
