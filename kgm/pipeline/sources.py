"""Records by `schema.RAW` from dumps, as DataFrames."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import TimestampNTZType, TimestampType

from kgm.history.places.remote_path import RemotePath
from kgm.history.raw_files import raw_of_files
from kgm.history.schema import RAW
from kgm.history.store.sink_files import counted_files
from kgm.model.errors import UsageError
from kgm.pipeline import tasks
from kgm.pipeline.options import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RAW = from_arrow_schema(RAW)
_LEAST = ("partition", "offset", "key", "value")


def read(spark: "SparkSession", source: Source) -> DataFrame:
    """Everything in the source now, each record once, in order within each partition."""
    path = source.directory()
    if isinstance(path, RemotePath):
        return tasks.rows(spark, _raw_batches, counted_files(path), RAW).transform(in_order)
    try:
        dump = spark.read.format(source.kind).load(str(path))
    except PySparkException as error:
        raise UsageError(f"{source} cannot be read: {str(error).splitlines()[0]}") from error
    return dump.transform(of_topic, source.topic).transform(to_raw).transform(in_order)


def _raw_batches(path: RemotePath) -> Iterator[pa.RecordBatch]:
    """The records of one file of a dump."""
    yield from raw_of_files([path], path.parent).to_batches()


def to_raw(frame: DataFrame) -> DataFrame:
    """The columns of `schema.RAW`, null where one is missing. `timestamp` can be a time or milliseconds."""
    missing = [name for name in _LEAST if name not in frame.columns]
    if missing:
        raise UsageError(
            f"there is no column {', '.join(missing)}",
            facts=(f"columns: {', '.join(frame.columns)}",),
            hint="needed: partition, offset, timestamp, key, value, as Spark's Kafka source names them",
        )
    types = {field.name: field.dataType for field in frame.schema}
    columns = []
    for field in _RAW:
        column = F.col(field.name) if field.name in types else F.lit(None)
        if isinstance(types.get(field.name), TimestampNTZType):
            column = column.cast(TimestampType())
        if isinstance(types.get(field.name), TimestampType | TimestampNTZType):
            column = F.unix_millis(column)
        columns.append(column.cast(field.dataType).alias(field.name))
    return frame.select(*columns)


def of_topic(frame: DataFrame, topic: str) -> DataFrame:
    """Records of one topic, if there is a column `topic`."""
    return frame.where(F.col("topic") == topic) if "topic" in frame.columns else frame


def in_order(frame: DataFrame) -> DataFrame:
    """Each record once, with each partition's records together and by offset."""
    return (
        frame.repartition("partition")
        .dropDuplicates(["partition", "offset"])
        .sortWithinPartitions("partition", "offset")
    )
