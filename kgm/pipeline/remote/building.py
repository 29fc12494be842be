"""The tables of a store that a URI names. See `kgm.pipeline.remote`."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from kgm.history.causes.session_timeouts import GivenSessions
from kgm.history.places.parquet import parquet_file
from kgm.history.places.remote_path import RemotePath
from kgm.history.schema import TABLES
from kgm.history.store.manifest import Manifest, newest_build
from kgm.model.errors import MissingFileError
from kgm.pipeline import delta, session, tasks
from kgm.pipeline.layout import split
from kgm.pipeline.options import BuildReport, SparkOptions, StoreFormat
from kgm.pipeline.partition_work.derivation import BUILT, BuiltPartition, PartitionWork, build_partition
from kgm.pipeline.partition_work.planning import BuildPlan, planned
from kgm.pipeline.remote import layout
from kgm.pipeline.remote.bronze import RemoteBronze
from kgm.pipeline.remote.claims import claimed
from kgm.pipeline.remote.layout import ListedOutput, RemoteStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def build(
    out: RemotePath, *, options: SparkOptions, format: StoreFormat | None, cluster: str | None,  # noqa: A002
    from_scratch: bool, sessions: GivenSessions | None,
) -> BuildReport:  # fmt: skip
    """See `kgm.pipeline.build`."""
    store = layout.opened(out, format=format, cluster=cluster, create=False)
    with claimed(out, "build", store.writer) as claim:
        newest = newest_build(out)
        before = None if newest is None else newest[1]
        number = 1 if before is None else before.number + 1

        def output(partition: int, goes_on: bool) -> ListedOutput:  # noqa: FBT001
            old = layout.files_of_partition(before, partition) if goes_on and before is not None else {}
            return ListedOutput(store=out, partition=partition, number=number, writer=store.writer, before=old)

        spans = RemoteBronze.of(store).spans.items()
        plan = planned(spans, before, output, from_scratch=from_scratch, sessions=sessions)
        if before is not None and not plan.works:
            return plan.report((), before)
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
    store: RemoteStore, number: int, before: Manifest | None, plan: BuildPlan, done: list[BuiltPartition]
) -> Manifest:
    """What was built, and what stays of the last build."""
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


def _publish(store: RemoteStore, manifest: Manifest) -> None:
    """Make the build's files Delta tables."""
    from pyspark.sql.pandas.types import from_arrow_schema

    for name in BUILT:
        files = [store.path / path for path in (manifest.files or {})[name]]
        schema = from_arrow_schema(TABLES[name]).json()
        delta.publish(store.path.joinpath(*split(name)), files, schema, now_ms=int(time.time() * 1000))


def read(out: RemotePath, table: str, spark: "SparkSession") -> "DataFrame":
    """See `kgm.pipeline.read`. The workers read the files themselves, so Spark needs no jar for the store."""
    store = layout.opened(out, format=None, cluster=None, create=False)
    overlap = False
    if table == "bronze_raw":
        bronze = RemoteBronze.of(store)
        files, overlap = list(bronze.spans), bronze.overlap
    else:
        newest = newest_build(out)
        if newest is None or table not in (newest[1].files or {}):
            raise MissingFileError(
                f"the history in {out} has no table {table}", hint=f"build it: kgm history build --out {out}"
            )
        files = [out / path for path in (newest[1].files or {})[table]]
    schema = TABLES[table]

    def rows(path: RemotePath) -> Iterator[pa.RecordBatch]:
        with parquet_file(path) as file:
            for batch in file.iter_batches():
                yield pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)

    frame = tasks.rows(spark, rows, files, schema)
    return frame.dropDuplicates(["partition", "offset"]) if overlap else frame
