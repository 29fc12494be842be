"""Builds the tables of a store from its raw records, one task for each partition with something new."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kgm.history.causes.session_timeouts import GivenSessions
from kgm.history.places.parquet import parquet_file
from kgm.history.places.remote_path import Place
from kgm.history.schema import TABLES
from kgm.history.store.commit_log import Commit, committed
from kgm.history.store.manifest import Manifest, newest_build
from kgm.history.store.tables import BuiltStore
from kgm.pipeline import session, tasks
from kgm.pipeline.options import BuildReport, SparkOptions, StoreFormat
from kgm.pipeline.partition_work.derivation import BUILT, BuiltPartition, Output, PartitionWork, build_partition, split
from kgm.pipeline.partition_work.planning import BuildPlan, planned
from kgm.pipeline.store import delta, layout
from kgm.pipeline.store.bronze import Bronze
from kgm.pipeline.store.claims import claimed
from kgm.pipeline.store.layout import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def build(
    out: Place, *, options: SparkOptions, format: StoreFormat | None, cluster: str | None,  # noqa: A002
    from_scratch: bool, sessions: GivenSessions | None,
) -> BuildReport:  # fmt: skip
    """See `kgm.pipeline.build`."""
    store = layout.opened(out, format=format, cluster=cluster, create=False)
    with claimed(out, "build", store.writer) as claim:
        newest = newest_build(out)
        before = None if newest is None else newest[1]
        number = 1 if before is None else before.number + 1

        def output(partition: int, goes_on: bool) -> Output:  # noqa: FBT001
            old = layout.files_of_partition(before, partition) if goes_on and before is not None else {}
            return Output(
                store=out, tables=store.tables, partition=partition, number=number, writer=store.writer, before=old
            )

        spans = Bronze.of(store).spans.items()
        plan = planned(spans, before, output, from_scratch=from_scratch, sessions=sessions)
        if newest is not None and not plan.works:
            store.show(*newest)  # in case that build died before it did so
            return plan.report((), newest[1])
        done = [BuiltPartition.of_json(text) for text in _on_spark(options, plan.works)]
        manifest = _manifest(store, number, before, plan, done)
        claim.check()
        if store.delta:
            _publish(store, manifest)
        store.finish(manifest)
        store.sweep(manifest)
        return plan.report(done, manifest)


def _on_spark(options: SparkOptions, works: Sequence[PartitionWork]) -> list[str]:
    return tasks.each(session.start(options), build_partition, works) if works else []


def _manifest(
    store: Store, number: int, before: Manifest | None, plan: BuildPlan, done: list[BuiltPartition]
) -> Manifest:
    """The manifest of what was built, and what remains of the last build."""
    files: dict[str, dict[str, int]] = {name: {} for name in (*BUILT, "carry")}
    touched = {each.partition for each in done}
    for partition in () if before is None else before.partitions.keys() - touched:
        _add(files, layout.files_of_partition(before, partition) if before is not None else {})
    for each in done:
        _add(files, each.files)
    return Manifest(
        number=number, format=store.format, cluster=store.cluster, rows=layout.counts_of(files), files=files,
        partitions={**(before.partitions if before is not None else {}), **plan.progress},
    )  # fmt: skip


def _add(files: dict[str, dict[str, int]], more: Mapping[str, Mapping[str, int]]) -> None:
    for name, each in more.items():
        files.setdefault(name, {}).update(each)


def _publish(store: Store, manifest: Manifest) -> None:
    """Make the build's files Delta tables."""
    from pyspark.sql.pandas.types import from_arrow_schema

    for name in BUILT:
        files = [store.path / path for path in (manifest.files or {})[name]]
        schema = from_arrow_schema(TABLES[name]).json()
        delta.publish(store.path.joinpath(*split(name)), files, schema, now_ms=int(time.time() * 1000))


def read(out: Place, table: str, spark: "SparkSession") -> "DataFrame":
    """See `kgm.pipeline.read`."""
    files, schema = BuiltStore(out).files(table), TABLES[table]
    if isinstance(out, Path) and files:
        from pyspark.sql.pandas.types import from_arrow_schema

        frame = spark.read.schema(from_arrow_schema(schema)).parquet(*map(str, files))
    else:
        frame = tasks.rows(spark, partial(_rows, schema), files, schema)
    is_twice = table == "bronze_raw" and _overlap(committed(out / "bronze" / "raw").values())
    return frame.dropDuplicates(["partition", "offset"]) if is_twice else frame


def _rows(schema: pa.Schema, path: Place) -> Iterator[pa.RecordBatch]:
    """The rows of a file, read by the worker itself, so that Spark needs no jar for the store."""
    with parquet_file(path) as file:
        for batch in file.iter_batches():
            yield pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)


def _overlap(commits: Iterable[Commit]) -> bool:
    """Whether two files may hold the same record."""
    places = sorted(
        (number, span.first, span.last)
        for commit in commits for file in commit.files.values() for number, span in file.spans.items()
    )  # fmt: skip
    return any(one[0] == other[0] and other[1] <= one[2] for one, other in pairwise(places))
