"""Transformations of DataFrames, for `.transform`, and a function called for each group on all cores of a cluster."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.pandas.types import from_arrow_schema

from kgm.history.decode.record_tables import decode_type
from kgm.history.schema import RAW, chosen_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Tasks for each core: groups differ in size, and a short queue evens that out.
_TASKS_PER_CORE = 4
#: The record type at the beginning of a key.
_TYPE_BYTES = 2


def map_groups(
    frame: "DataFrame", function: Callable[[pa.Table], pa.Table], schema: pa.Schema, *, key: str = "group_id",
    tasks: int | None = None,
) -> "DataFrame":  # fmt: skip
    """Call a function with all rows of one group at a time, on all cores; what it returns (by `schema`) is the result.

    The function runs on other machines: it and what it refers to must be importable there, or can be pickled. tasks:
    how many tasks the groups are spread over; Spark would put a few small rows into one."""
    cores = frame.sparkSession.sparkContext.defaultParallelism
    spread = frame.repartition(tasks or cores * _TASKS_PER_CORE, key)
    return spread.groupBy(key).applyInArrow(function, from_arrow_schema(schema))


def decoded(frame: "DataFrame", kind: int, columns: Sequence[str] | None = None) -> "DataFrame":
    """The records of one type (`kgm.records.record_types.TYPES`) of raw ones, by `schema.chosen_columns`."""
    schema = chosen_columns(kind, columns)
    # Of the raw record only what is asked for goes to Python; the decoder needs a column for the rest.
    sent = [name for name in RAW.names if name in {"key", "value", *schema.names}]
    rest = {field.name: field for field in RAW if field.name not in sent}
    # Records of other types do not leave the JVM: in most clusters nearly every record is an offset commit.
    mine = frame.where(F.substring("key", 1, _TYPE_BYTES) == F.lit(kind.to_bytes(_TYPE_BYTES, "big")))

    def whole(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [_filler(rest[name], len(batch)) if name in rest else batch.column(name) for name in RAW.names]
        # In what Spark reads from Parquet any column may be null, whatever its schema says.
        return pa.RecordBatch.from_arrays(columns, names=RAW.names).cast(RAW)

    def batches(raw: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return decode_type(map(whole, raw), kind, schema.names)

    return mine.select(*sent).mapInArrow(batches, from_arrow_schema(schema))


def _filler(field: pa.Field, count: int) -> pa.Array:
    return pa.nulls(count, field.type) if field.nullable else pa.array(np.zeros(count), type=field.type)
