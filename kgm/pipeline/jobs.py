"""Transformations of DataFrames, for `.transform`, and groups given to the cores of a cluster."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  (everybody calls it that)
from pyspark.sql.pandas.types import from_arrow_schema

from kgm.history import columns
from kgm.history.schema import RAW, record_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Tasks for each core: groups differ in size, and a short queue evens it out.
_TASKS_PER_CORE = 4
#: Of a key: the record type that it begins with.
_TYPE_BYTES = 2


def map_groups(
    frame: "DataFrame", function: Callable[[pa.Table], pa.Table], schema: pa.Schema, *, key: str = "group_id",
    tasks: int | None = None,
) -> "DataFrame":  # fmt: skip
    """Call a function with all rows of one group at a time, on all cores; what it returns (by `schema`) is the result.

    The function goes to other machines: it and what it refers to must be importable there, or pickle. tasks: how many
    the groups are spread over; Spark would put few small rows into one."""
    cores = frame.sparkSession.sparkContext.defaultParallelism
    spread = frame.repartition(tasks or cores * _TASKS_PER_CORE, key)
    return spread.groupBy(key).applyInArrow(function, from_arrow_schema(schema))


def decoded(frame: "DataFrame", kind: int) -> "DataFrame":
    """The records of one type (`kgm.records.record.TYPES`) of raw ones, by `schema.record_schema`."""
    # Others do not leave the JVM: in most clusters nearly every record is an offset commit.
    mine = frame.where(F.substring("key", 1, _TYPE_BYTES) == F.lit(kind.to_bytes(_TYPE_BYTES, "big")))

    def batches(found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # What Spark reads of Parquet may be null anywhere, for all that its schema says.
        return columns.decoded((batch.cast(RAW) for batch in found), kind)

    return mine.select(*RAW.names).mapInArrow(batches, from_arrow_schema(record_schema(kind)))
