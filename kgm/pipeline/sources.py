"""Records by `schema.RAW` from every source, as DataFrames: all there is, or as a stream."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import TimestampNTZType, TimestampType

from kgm.history.folders import folders
from kgm.history.schema import RAW, chosen_columns
from kgm.model.errors import UsageError
from kgm.pipeline import jobs, kafka, segments, topic
from kgm.pipeline.options import Source, SourceKind
from kgm.pipeline.slices import SliceReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

    AnyReader = TypeVar("AnyReader", DataFrameReader, DataStreamReader)

_RAW = from_arrow_schema(RAW)
_LEAST = ("partition", "offset", "key", "value")
_META = "meta.properties"


def read(spark: "SparkSession", source: Source) -> DataFrame:
    """Everything that is there now. But for dumps, each partition of the topic is one of Spark's, in order."""
    if source.has_slices:
        return _own(spark, source, spark.read).load()
    if source.kind is SourceKind.SPARK_KAFKA:
        _fetch_with_a_consumer(spark)
        options = kafka.options(source)
        return to_raw(spark.read.format("kafka").options(**options).option("endingOffsets", "latest").load())
    path = source.directory()
    try:
        dump = spark.read.format(source.kind).load(str(path))
    except PySparkException as error:
        raise UsageError(f"{source} cannot be read: {str(error).splitlines()[0]}") from error
    return dump.transform(of_topic, source.topic).transform(to_raw).transform(in_order)


def records(spark: "SparkSession", source: Source, kind: int, columns: Sequence[str] | None) -> DataFrame:
    """The records of one type that are there now. See `kgm.pipeline.records`."""
    chosen = chosen_columns(kind, columns).names
    if source.has_slices:
        return _own(spark, source, spark.read).option("record", str(kind)).option("columns", ",".join(chosen)).load()
    return read(spark, source).transform(jobs.decoded, kind, chosen)


def stream(spark: "SparkSession", source: Source, *, most_records: int | None = None) -> DataFrame:
    """What is there, and what comes; for what kgm's own data sources read, only which slices there are to read
    (`parts.SLICES`). most_records: in one batch, approximately. Raises UsageError for a dump."""
    if source.has_slices:
        reader = _own(spark, source, spark.readStream).option("slices", "true")
        return (reader.option("max_records", str(most_records)) if most_records else reader).load()
    if source.kind is SourceKind.SPARK_KAFKA:
        _fetch_with_a_consumer(spark)
        reader = spark.readStream.format("kafka").options(**kafka.options(source))
        return to_raw((reader.option("maxOffsetsPerTrigger", most_records) if most_records else reader).load())
    raise UsageError(f"{source} is a dump and cannot be followed", hint="use --once")


def cluster_of(spark: "SparkSession", source: Source) -> str | None:
    """The cluster's id, if the source has it: Kafka does, and so does meta.properties in a broker's log.dirs."""
    if source.kind is SourceKind.KAFKA:
        return topic.LiveTopic.of(source).cluster_id()
    if source.kind is SourceKind.SPARK_KAFKA:
        return kafka.JvmClient(spark, source).cluster_id()
    meta = source.directory() / _META
    if source.kind is not SourceKind.SEGMENTS or not meta.is_file():
        return None
    pairs = (line.partition("=") for line in meta.read_text(encoding="utf-8").splitlines())
    return next((value.strip() or None for name, _, value in pairs if name.strip() == "cluster.id"), None)


def bounds(spark: "SparkSession", source: Source) -> Mapping[int, tuple[int, int]]:
    """(first offset, next offset) of each partition, by the broker or the files themselves."""
    if source.kind is SourceKind.KAFKA:
        return topic.LiveTopic.of(source).bounds()
    if source.kind is SourceKind.SPARK_KAFKA:
        return kafka.JvmClient(spark, source).offsets()
    ends = segments.Ends()
    return {folder.partition: (0, ends.of(folder)) for folder in folders(source.directory())}


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


def slice_reader(source: Source) -> SliceReader | None:
    """How workers read the slices of a source; None for a source of records."""
    if source.kind is SourceKind.SEGMENTS:
        return segments.slice_records
    return partial(topic.slice_records, topic.LiveTopic.of(source)) if source.kind is SourceKind.KAFKA else None


def _own(spark: "SparkSession", source: Source, reader: "AnyReader") -> "AnyReader":
    """A reader of what kgm's own data sources read, as a batch or as a stream."""
    if source.kind is SourceKind.SEGMENTS:
        return reader.format(segments.NAME).option("path", str(source.directory()))
    spark.dataSource.register(topic.data_source(topic.LiveTopic.of(source)))
    return reader.format(topic.NAME)


def _fetch_with_a_consumer(spark: "SparkSession") -> None:
    if spark.conf.get(kafka.FETCH_WITH_A_CONSUMER, None) is None:
        spark.conf.set(kafka.FETCH_WITH_A_CONSUMER, "true")
