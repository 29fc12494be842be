"""From the raw records of a store to its tables, one task for each partition with something new."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from kgm.history.causes.session_timeouts import GivenSessions
from kgm.history.schema import TABLES
from kgm.history.store.manifest import Manifest
from kgm.history.store.sink_files import counted_files
from kgm.model.errors import MissingFileError
from kgm.pipeline import delta, layout, session, tasks
from kgm.pipeline.bronze import Bronze
from kgm.pipeline.layout import Store, split
from kgm.pipeline.options import BuildReport, SparkOptions, StoreFormat
from kgm.pipeline.partition_work.derivation import BUILT, BuiltPartition, LinkedOutput, build_partition
from kgm.pipeline.partition_work.planning import BuildPlan, planned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def build(
    out: Path, *, options: SparkOptions, format: StoreFormat | None, cluster: str | None,  # noqa: A002
    from_scratch: bool, sessions: GivenSessions | None,
) -> BuildReport:  # fmt: skip
    """See `kgm.pipeline.build`."""
    store = layout.opened(out, format=format, cluster=cluster, create=False)
    with store.locked("build"):
        before = store.manifest()
        number = _next_number(store, before)

        def output(partition: int, goes_on: bool) -> LinkedOutput:  # noqa: FBT001
            old = store.build_path(before.number) if goes_on and before is not None else None
            return LinkedOutput(partition=partition, number=number, build=store.build_path(number), before=old)

        plan = planned(Bronze.of(store).spans.items(), before, output, from_scratch=from_scratch, sessions=sessions)
        if before is not None and not plan.works:
            return plan.report((), before)
        done = _carried_out(store, number, before, plan, options)
        manifest = _finished(store, number, before, plan)
        return plan.report(done, manifest)


def _next_number(store: Store, before: Manifest | None) -> int:
    """A number that no build had, not even one that died: its workers may still run."""
    builds = store.build_path(0).parent
    numbers = [int(path.name) for path in builds.iterdir() if path.name.isdecimal()] if builds.is_dir() else []
    return max([*numbers, before.number if before is not None else 0]) + 1


def _carried_out(
    store: Store, number: int, before: Manifest | None, plan: BuildPlan, options: SparkOptions
) -> list[BuiltPartition]:
    """Write every file of the build."""
    built = store.build_path(number)
    for name in (*BUILT, "carry"):
        built.joinpath(*split(name)).mkdir(parents=True)
    if before is not None:
        _link_rest(store.build_path(before.number), built, {work.partition for work in plan.works})
    if not plan.works:
        return []
    done = tasks.each(session.start(options), build_partition, plan.works)
    return [BuiltPartition.of_json(text) for text in done]


def _link_rest(before: Path, built: Path, touched: set[int]) -> None:
    """Link the files of partitions without anything new."""
    for name in (*BUILT, "carry"):
        for path in before.joinpath(*split(name)).glob("p*.parquet"):
            if int(path.name[1:].partition("-")[0]) not in touched:
                os.link(path, built.joinpath(*split(name), path.name))


def _finished(store: Store, number: int, before: Manifest | None, plan: BuildPlan) -> Manifest:
    built = store.build_path(number)
    if store.delta:
        _publish(store, built)
    partitions = {**(before.partitions if before is not None else {}), **plan.progress}
    rows = {name: _count(counted_files(built.joinpath(*split(name)))) for name in BUILT}
    manifest = Manifest(
        number=number, format=store.format, cluster=store.cluster, partitions=partitions, rows=rows
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
        raise MissingFileError(
            f"the history in {out} has no table {table}", hint=f"build it: kgm history build --out {out}"
        )
    files = [str(file) for file in counted_files(path)]
    schema = from_arrow_schema(TABLES[table])
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
