"""From the raw records of a store to its tables, one task for each partition with something new."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kgm.history.causes.session_timeouts import GivenSessions
from kgm.history.schema import TABLES
from kgm.history.store.manifest import Manifest, PartitionProgress
from kgm.history.store.sink_files import counted_files
from kgm.model.errors import NotFoundError
from kgm.pipeline import capturing, delta, layout, session
from kgm.pipeline.bronze import Bronze, Spans, count_below
from kgm.pipeline.derivation import BUILT, BuiltPartition, PartitionWork, build_partition
from kgm.pipeline.layout import Store, split
from kgm.pipeline.options import BuildReport, Source, SparkOptions, StoreFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DONE = pa.schema([pa.field("partition", pa.int32()), pa.field("records", pa.int64()), pa.field("bad", pa.int64())])


def build(
    out: Path, *, source: Source | None, options: SparkOptions, format: StoreFormat | None,  # noqa: A002
    cluster: str | None, from_scratch: bool, sessions: GivenSessions | None,
) -> BuildReport:  # fmt: skip
    """See `kgm.pipeline.build`."""
    captured = None
    if source is not None:
        captured = capturing.capture(
            out, source, options=options, once=True, format=format, cluster=cluster, every_s=0, most_records=None,
            stop=None, on_batch=None,
        )  # fmt: skip
    store = layout.opened(out, format=format, cluster=cluster, create=False)
    with store.locked("build"):
        before = store.manifest()
        plan = _planned(store, before, from_scratch=from_scratch, sessions=sessions)
        if before is not None and not plan.works:
            return BuildReport(
                number=before.number, records=0, bad=0, partitions=(), rebuilt=(), rows=before.rows, captured=captured
            )
        done = _carried_out(store, before, plan, options)
        manifest = _finished(store, before, plan)
        return BuildReport(
            number=plan.number, records=sum(each.records for each in done), bad=sum(each.bad for each in done),
            partitions=tuple(sorted(work.partition for work in plan.works)),
            rebuilt=tuple(sorted(plan.rebuilt)), rows=manifest.rows, captured=captured,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """works: largest first. rebuilt: partitions that are built again from their beginning. progress: how far each
    partition is after the build."""

    number: int
    works: tuple[PartitionWork, ...]
    rebuilt: frozenset[int]
    progress: Mapping[int, PartitionProgress]


def _planned(store: Store, before: Manifest | None, *, from_scratch: bool, sessions: GivenSessions | None) -> _Plan:
    number = _next_number(store, before)
    spans = Bronze.of(store).spans
    works, rebuilt, progress = [], set(), {}
    for partition in sorted({number for each in spans.values() for number in each}):
        mine = {path: each for path, each in spans.items() if partition in each}
        end = max(each[partition].last + 1 for each in mine.values())
        records = sum(each[partition].records for each in mine.values())
        progress[partition] = PartitionProgress(next_offset=end, records=records)
        known = before.partitions.get(partition) if before is not None else None
        if known is not None and (from_scratch or _came_late(mine, partition, known)):
            rebuilt.add(partition)
        if known is not None and partition not in rebuilt and end == known.next_offset:
            continue
        start = known.next_offset if known is not None and partition not in rebuilt else 0
        files = sorted(
            (path for path, each in mine.items() if each[partition].last >= start),
            key=lambda path: mine[path][partition].first,
        )
        works.append(
            PartitionWork(
                partition=partition, start=start, files=tuple(files), number=number,
                build=store.build_path(number),
                before=store.build_path(before.number) if start and before is not None else None, sessions=sessions,
            )
        )  # fmt: skip
    works.sort(key=lambda work: -sum(spans[path][work.partition].records for path in work.files))
    return _Plan(number=number, works=tuple(works), rebuilt=frozenset(rebuilt), progress=progress)


def _next_number(store: Store, before: Manifest | None) -> int:
    """A number that no build had, not even one that died: its workers may still run."""
    builds = store.build_path(0).parent
    numbers = [int(path.name) for path in builds.iterdir() if path.name.isdecimal()] if builds.is_dir() else []
    return max([*numbers, before.number if before is not None else 0]) + 1


def _came_late(mine: Mapping[Path, Spans], partition: int, known: PartitionProgress) -> bool:
    """Whether there are records before the end of the last build that it did not have."""
    below = 0
    for path, spans in mine.items():
        span = spans[partition]
        if span.last < known.next_offset:
            below += span.records
        elif span.first < known.next_offset:
            below += count_below(path, partition, known.next_offset)
    return below != known.records


def _carried_out(store: Store, before: Manifest | None, plan: _Plan, options: SparkOptions) -> list[BuiltPartition]:
    """Write every file of the build."""
    built = store.build_path(plan.number)
    for name in (*BUILT, "carry"):
        built.joinpath(*split(name)).mkdir(parents=True)
    if before is not None:
        _link_rest(store.build_path(before.number), built, {work.partition for work in plan.works})
    if not plan.works:
        return []
    spark = session.start(options)
    works = plan.works

    def tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            done = [asdict(build_partition(works[at])) for at in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pylist(done, schema=_DONE)

    from pyspark.sql.pandas.types import from_arrow_schema

    rows = spark.range(0, len(works), 1, len(works)).mapInArrow(tasks, from_arrow_schema(_DONE)).collect()
    return [BuiltPartition(**row.asDict()) for row in rows]


def _link_rest(before: Path, built: Path, touched: set[int]) -> None:
    """Link the files of partitions without anything new."""
    for name in (*BUILT, "carry"):
        for path in before.joinpath(*split(name)).glob("p*.parquet"):
            if int(path.name[1:].partition("-")[0]) not in touched:
                os.link(path, built.joinpath(*split(name), path.name))


def _finished(store: Store, before: Manifest | None, plan: _Plan) -> Manifest:
    built = store.build_path(plan.number)
    if store.delta:
        _publish(store, built)
    partitions = {**(before.partitions if before is not None else {}), **plan.progress}
    rows = {name: _count(counted_files(built.joinpath(*split(name)))) for name in BUILT}
    manifest = Manifest(
        number=plan.number, format=store.format, cluster=store.cluster, partitions=partitions, rows=rows
    )  # fmt: skip
    store.finish(manifest)
    return manifest


def _count(files: Sequence[Path]) -> int:
    return sum(pq.read_metadata(path).num_rows for path in files)


def _publish(store: Store, built: Path) -> None:
    """Publish the build's files as Delta tables. Their names have the build's number, so none is written twice."""
    from pyspark.sql.pandas.types import from_arrow_schema

    for name in BUILT:
        table = store.table(name)
        table.mkdir(parents=True, exist_ok=True)
        files = [table / path.name for path in built.joinpath(*split(name)).glob("p*.parquet")]
        for path in files:
            if not path.exists():
                os.link(built.joinpath(*split(name), path.name), path)
        delta.publish(table, files, from_arrow_schema(TABLES[name]).json(), now_ms=int(time.time() * 1000))


def read(out: Path, table: str, spark: "SparkSession") -> "DataFrame":
    """See `kgm.pipeline.read`."""
    from pyspark.sql.pandas.types import from_arrow_schema

    store = layout.opened(out, format=None, cluster=None, create=False)
    path = store.table(table)
    if not path.is_dir():
        raise NotFoundError(
            f"the history in {out} has no table {table}", hint=f"build it: kgm history build --out {out}"
        )
    files = [str(file) for file in counted_files(path)]
    schema = from_arrow_schema(TABLES[table])
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
