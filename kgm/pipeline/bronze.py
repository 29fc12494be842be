"""What has been captured: raw records, each once by cluster, partition and offset, in commits that are complete or not
there.

A commit is written to a staging directory, compared with what is in the store already, and moved into place by one
rename. The Parquet statistics of its files say which offsets of which partitions they hold, so records are compared
only where two commits overlap."""

import shutil
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgm.history.places.parquet import CODEC, parquet_file, read_table
from kgm.history.places.remote_path import Place
from kgm.history.schema import BRONZE_RAW
from kgm.history.store.commit_log import Span, Spans
from kgm.history.store.sink_files import counted_files
from kgm.pipeline import delta
from kgm.pipeline.layout import Store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kgm.pipeline.taking.writing import Written


def spans_of(path: Place) -> Spans:
    """Of a Parquet file of raw records, by its statistics where it has them."""
    spans: Spans = {}
    with parquet_file(path) as file:
        names = file.schema_arrow.names
        columns = [names.index(name) for name in ("partition", "offset")]
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            partition, offset = (_statistics(group, column) for column in columns)
            if partition is not None and offset is not None and partition[0] == partition[1]:
                each = {partition[0]: Span(offset[0], offset[1], group.num_rows)}
            else:
                each = _counted(file, number)
            for key, span in each.items():
                spans[key] = spans[key].joined(span) if key in spans else span
    return spans


def _statistics(group: pq.RowGroupMetaData, leaf: int) -> tuple[int, int] | None:
    """(least, greatest). All columns of the raw records are leaves, so their numbers are those of the schema."""
    statistics = group.column(leaf).statistics
    if group.num_rows == 0 or statistics is None or not statistics.has_min_max:
        return None
    return statistics.min, statistics.max


def _counted(file: pq.ParquetFile, number: int) -> Spans:
    table = file.read_row_group(number, columns=["partition", "offset"])
    rows = table.group_by("partition").aggregate([("offset", "min"), ("offset", "max"), ("offset", "count")])
    return {
        row["partition"]: Span(row["offset_min"], row["offset_max"], row["offset_count"]) for row in rows.to_pylist()
    }


def count_below(path: Place, partition: int, offset: int) -> int:
    """How many records of a partition a file holds before an offset."""
    where = (pc.field("partition") == partition) & (pc.field("offset") < offset)
    return len(read_table(path, columns=["offset"], filters=where))


@dataclass
class Bronze:
    """The raw records of a store, for one writer. spans: of every file."""

    store: Store
    spans: dict[Path, Spans] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store) -> "Bronze":
        bronze = cls(store, {path: spans_of(path) for path in sorted(store.raw.glob("*/*.parquet"))})
        if bronze.spans:
            bronze.publish()
        return bronze

    def publish(self) -> None:
        """Publish every commit in Delta's log, also one whose writer died before it did that."""
        if self.store.delta:
            from pyspark.sql.pandas.types import from_arrow_schema

            schema = from_arrow_schema(BRONZE_RAW).json()
            delta.publish(self.store.raw, self.spans, schema, now_ms=int(time.time() * 1000))

    def ends(self) -> dict[int, int]:
        """The offset after the last record of each partition."""
        ends: dict[int, int] = {}
        for spans in self.spans.values():
            for number, span in spans.items():
                ends[number] = max(ends.get(number, 0), span.last + 1)
        return ends

    def overlapping(self, new: Iterable[Spans]) -> list[Path]:
        """Files that may hold a record of `new`."""
        wanted: Spans = {}
        for spans in new:
            for number, span in spans.items():
                wanted[number] = wanted[number].joined(span) if number in wanted else span
        return [path for path, spans in self.spans.items() if _overlap(spans, wanted)]

    def holding(self, ranges: Mapping[int, tuple[int, int]]) -> dict[Path, Spans]:
        """The spans of files that may hold a record between these offsets, from start to end (exclusive)."""
        wanted = {number: Span(start, end - 1, 0) for number, (start, end) in ranges.items()}
        return {path: self.spans[path] for path in self.overlapping([wanted])}

    def add_files(self, folder: Path, written: "Written") -> None:
        """Add the files of a directory in `staging` that tasks have `written` as a commit; what failed attempts have
        left there is not in it. They hold no record that the store has."""
        if written.files:
            name = f"{int(time.time() * 1000):013}-{uuid.uuid4().hex[:8]}"
            staged = self.store.staging / name
            staged.mkdir()
            for each in written.files:
                (folder / each).rename(staged / each)
            self._commit(
                staged, self.store.raw / name, {staged / each: file.spans for each, file in written.files.items()}
            )
        shutil.rmtree(folder, ignore_errors=True)

    def add(self, spark: "SparkSession", records: "DataFrame", name: str, source: str) -> tuple[int, int]:
        """Add records by `schema.RAW` as a commit with this name; nothing happens if it is there. Returns (how many
        were new, how many the store had already)."""
        from pyspark.sql.pandas.types import from_arrow_schema

        target = self.store.raw / name
        if target.exists():
            return 0, 0
        staged = self.store.staging / name
        shutil.rmtree(staged, ignore_errors=True)
        _write(records.transform(with_identity, self.store.cluster, source), staged)
        spans = {path: spans_of(path) for path in counted_files(staged)}
        total = _total(spans)
        known = self.overlapping(spans.values())
        if known and total:
            held = spark.read.parquet(*map(str, known)).select("partition", "offset")
            fresh = (
                spark.read.schema(from_arrow_schema(BRONZE_RAW))
                .parquet(str(staged))
                .join(held, ["partition", "offset"], "left_anti")
            )
            again = self.store.staging / f"{name}.new"
            shutil.rmtree(again, ignore_errors=True)
            _write(fresh.select(*BRONZE_RAW.names).sortWithinPartitions("partition", "offset"), again)
            shutil.rmtree(staged)
            staged = again
            spans = {path: spans_of(path) for path in counted_files(staged)}
        added = _total(spans)
        if added:
            self._commit(staged, target, spans)
        shutil.rmtree(staged, ignore_errors=True)
        return added, total - added

    def _commit(self, staged: Path, target: Path, spans: Mapping[Path, Spans]) -> None:
        for path, spans_of_file in spans.items():
            if not spans_of_file:
                path.unlink()
        for extra in (*staged.glob("_SUCCESS"), *staged.glob(".*.crc")):
            extra.unlink()
        target.parent.mkdir(parents=True, exist_ok=True)
        staged.rename(target)
        for path, spans_of_file in spans.items():
            if spans_of_file:
                self.spans[target / path.relative_to(staged)] = spans_of_file
        self.publish()


def _overlap(one: Spans, other: Spans) -> bool:
    return any(
        number in one and one[number].first <= span.last and span.first <= one[number].last
        for number, span in other.items()
    )


def _total(spans: Mapping[Path, Spans]) -> int:
    return sum(span.records for each in spans.values() for span in each.values())


def _write(frame: "DataFrame", path: Path) -> None:
    frame.write.option("compression", CODEC).parquet(str(path))


def with_identity(raw: "DataFrame", cluster: str | None, source: str) -> "DataFrame":
    """The columns of `schema.BRONZE_RAW`: the cluster, the type of the record, where it is from and when it was
    captured are added."""
    from pyspark.sql import functions as F  # noqa: N812

    return raw.select(
        F.lit(cluster or "").alias("cluster"),
        *raw.columns,
        _leading("key").alias("key_type"),
        _leading("value").alias("value_version"),
        F.lit(source).alias("source"),
        F.lit(int(time.time() * 1000)).cast("long").alias("ingested_at"),
    )


def _leading(column: str) -> "Column":
    """The int16 at the beginning of bytes, null if they are too short."""
    from pyspark.sql import functions as F  # noqa: N812

    unsigned = F.conv(F.hex(F.substring(F.col(column), 1, 2)), 16, 10).cast("int")
    signed = F.when(unsigned >= 1 << 15, unsigned - (1 << 16)).otherwise(unsigned)
    return F.when(F.length(F.col(column)) >= 2, signed.cast("short"))
