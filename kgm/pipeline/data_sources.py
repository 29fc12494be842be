"""kgm's own data sources for Spark: partitions of the offsets topic whose records are read, and decoded, by Spark's
Python workers.

Each partition of the topic is one of Spark's, with its records in the order of their offsets, so what works group by
group needs no shuffle."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kgm.history.decode.record_tables import decode_type
from kgm.history.places.remote_path import place
from kgm.history.schema import RAW, chosen_columns
from kgm.model.errors import UsageError
from kgm.pipeline.parts import Part, Partitions
from kgm.pipeline.segments import SegmentFolders
from kgm.pipeline.topic import LiveTopic

SEGMENTS: Final = "kgm-segments"
TOPIC: Final = "kgm-topic"
#: The most records in one Arrow batch on its way through the JVM: group metadata may take 10 KB each.
_BATCH_RECORDS = 20_000


@dataclass(frozen=True)
class Wanted:
    """What is read of a part. kind: the record type, None for raw records."""

    kind: int | None
    schema: pa.Schema

    @classmethod
    def of(cls, options: Mapping[str, str], name: str) -> "Wanted":
        """By the options of a data source with this name: record: a record type (`kgm.records.record_types.TYPES`),
        whose records are decoded where they are read, by `schema.record_schema`; raw ones would go to the JVM and back
        for that. columns: of those, with commas between them; all by default."""
        if "record" not in options:
            return cls(None, RAW)
        kind, columns = options["record"], options.get("columns")
        if not kind.isdecimal():
            raise UsageError(f"{name}: {kind!r} is not a record type")
        return cls(int(kind), chosen_columns(int(kind), None if columns is None else columns.split(",")))

    def rows(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a part. None: of nothing, which Spark has read, too, where there is no part."""
        if partition is None:
            return iter(())
        return self.read(partition.value)

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows, in batches that are not too large for the JVM."""
        for raw in part.records():
            for batch in [raw] if self.kind is None else decode_type([raw], self.kind, self.schema.names):
                for at in range(0, len(batch), _BATCH_RECORDS):
                    yield batch.slice(at, _BATCH_RECORDS)


class Reader(DataSourceReader):
    """Everything that is there now."""

    def __init__(self, partitions: Partitions, wanted: Wanted) -> None:
        self._partitions, self._wanted = partitions, wanted

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(part) for part in self._partitions.all()]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return self._wanted.rows(partition)


class SegmentsDataSource(DataSource):
    """`kgm-segments`: copies of a broker's folders `__consumer_offsets-N`, read in place. Options: path: the directory;
    record, columns: see `Wanted`."""

    @classmethod
    def name(cls) -> str:
        return SEGMENTS

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(cast("dict[str, str]", options))
        path = options.get("path")
        if not path:
            raise UsageError(f"{SEGMENTS} needs a path")
        self._folders = SegmentFolders(place(path))
        self._wanted = Wanted.of(options, SEGMENTS)

    def schema(self) -> StructType:
        return from_arrow_schema(self._wanted.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        return Reader(self._folders, self._wanted)


def topic_source(topic: LiveTopic) -> type[DataSource]:
    """`kgm-topic`, the data source of a live topic, to be registered in a session. Options: record, columns: see
    `Wanted`.

    A class of its own for each topic: Spark pickles it, with the topic, where options would be shown."""

    class TopicDataSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return TOPIC

        def __init__(self, options: MutableMapping[str, str]) -> None:
            super().__init__(cast("dict[str, str]", options))
            self._wanted = Wanted.of(options, TOPIC)

        def schema(self) -> StructType:
            return from_arrow_schema(self._wanted.schema)

        def reader(self, schema: StructType) -> DataSourceReader:
            del schema
            return Reader(topic, self._wanted)

    return TopicDataSource
