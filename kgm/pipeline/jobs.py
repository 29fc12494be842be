"""Transformations of DataFrames, for `.transform`, and groups given to the cores of a cluster."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  (everybody calls it that)
from pyspark.sql.pandas.types import from_arrow_schema

from kgm.history.decode import record_tables as decoder
from kgm.history.schema import RAW, chosen_columns

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


def decoded(frame: "DataFrame", kind: int, columns: Sequence[str] | None = None) -> "DataFrame":
    """The records of one type (`kgm.records.record_types.TYPES`) of raw ones, by `schema.chosen_columns`."""
    schema = chosen_columns(kind, columns)
    # Of the raw record only what is asked for goes to Python; the decoder wants a place for the rest.
    sent = [name for name in RAW.names if name in {"key", "value", *schema.names}]
    rest = {field.name: field for field in RAW if field.name not in sent}
    # Others do not leave the JVM: in most clusters nearly every record is an offset commit.
    mine = frame.where(F.substring("key", 1, _TYPE_BYTES) == F.lit(kind.to_bytes(_TYPE_BYTES, "big")))

    def whole(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [_nothing(rest[name], len(batch)) if name in rest else batch.column(name) for name in RAW.names]
        # What Spark reads of Parquet may be null anywhere, for all that its schema says.
        return pa.RecordBatch.from_arrays(columns, names=RAW.names).cast(RAW)

    def batches(found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return decoder.decoded(map(whole, found), kind, schema.names)

    return mine.select(*sent).mapInArrow(batches, from_arrow_schema(schema))


def _nothing(field: pa.Field, count: int) -> pa.Array:
    return pa.nulls(count, field.type) if field.nullable else pa.array(np.zeros(count), type=field.type)
