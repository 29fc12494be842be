"""Records by `schema.RAW` from every source, as DataFrames."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import TimestampNTZType, TimestampType

from kgm.history.places.remote_path import RemotePath
from kgm.history.raw_files import raw_of_files
from kgm.history.schema import RAW, chosen_columns
from kgm.history.store.sink_files import counted_files
from kgm.model.errors import UsageError
from kgm.pipeline import data_sources, jobs, kafka, tasks
from kgm.pipeline.options import Source, SourceKind
from kgm.pipeline.topic import LiveTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

_RAW = from_arrow_schema(RAW)
_LEAST = ("partition", "offset", "key", "value")


def read(spark: "SparkSession", source: Source, ranges: Mapping[int, tuple[int, int]] | None = None) -> DataFrame:
    """Everything that is there now; by Spark's own Kafka source these offsets of partitions only, from start to end
    (exclusive). But for dumps, each partition of the topic is one of Spark's, in order."""
    if source.has_slices:
        return _own(spark, source).load()
    if source.kind is SourceKind.SPARK_KAFKA:
        _fetch_with_a_consumer(spark)
        return to_raw(spark.read.format("kafka").options(**kafka.options(source, ranges)).load())
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


def records(spark: "SparkSession", source: Source, kind: int, columns: Sequence[str] | None) -> DataFrame:
    """The records of one type that are there now. See `kgm.pipeline.records`."""
    chosen = chosen_columns(kind, columns).names
    if source.has_slices:
        return _own(spark, source).option("record", str(kind)).option("columns", ",".join(chosen)).load()
    return read(spark, source).transform(jobs.decoded, kind, chosen)


def cluster_of(spark: "SparkSession", source: Source) -> str | None:
    """The cluster's id, if a source that only Spark reads has it."""
    return kafka.JvmClient(spark, source).cluster_id() if source.is_live else None


def bounds(spark: "SparkSession", source: Source) -> Mapping[int, tuple[int, int]]:
    """(first offset, next offset) of each partition, by the broker as Spark reaches it."""
    return kafka.JvmClient(spark, source).offsets()


def to_raw(frame: DataFrame) -> DataFrame:
    """The columns of `schema.RAW`, null where there is none. `timestamp` may be a time or milliseconds."""
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
    """Each record once, and those of a partition of the topic together, by offset."""
    return (
        frame.repartition("partition")
        .dropDuplicates(["partition", "offset"])
        .sortWithinPartitions("partition", "offset")
    )


def _own(spark: "SparkSession", source: Source) -> "DataFrameReader":
    """A reader of what kgm's own data sources read."""
    if source.kind is SourceKind.SEGMENTS:
        return spark.read.format(data_sources.SEGMENTS).option("path", str(source.directory()))
    spark.dataSource.register(data_sources.topic_source(LiveTopic.of(source)))
    return spark.read.format(data_sources.TOPIC)


def _fetch_with_a_consumer(spark: "SparkSession") -> None:
    if spark.conf.get(kafka.FETCH_WITH_A_CONSUMER, None) is None:
        spark.conf.set(kafka.FETCH_WITH_A_CONSUMER, "true")
