"""Stores that a URI names, captured, built and read by Spark, which needs no jar for them: its workers read and write
with kgm's own file systems. What a store is to be is tested without Spark (test_store)."""

import json

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from kgm.history.derive import derive
from kgm.history.folders import Reading, folders, raw_table
from kgm.history.schema import TABLES
from kgm.history.store.query import RowFilter
from kgm.history.store.tables import open_store
from kgm.model.errors import UnreachableError
from kgm.pipeline import Source, build, read, tasks
from tests.cli.runner import kgm
from tests.pipeline.test_commands import on_spark
from tests.pipeline.writer import write_log
from tests.s3 import upload

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.slow]


def test_segments_and_dumps_on_s3_and_a_table_as_a_frame(spark, options, s3, tmp_path):
    bucket = s3.bucket()
    store = bucket / "history"
    write_log(tmp_path / "log", 0)(100)
    write_log(tmp_path / "log", 1)(60)
    raw = raw_table(folders(tmp_path / "log"), Reading())
    upload(tmp_path / "log", bucket / "log")
    first = build(store, source=Source.parse(f"segments:{bucket / 'log'}"), options=options)
    assert (first.number, first.records, first.partitions) == (1, 160, (0, 1))
    (tmp_path / "dump").mkdir()
    pq.write_table(raw, tmp_path / "dump" / "part.parquet")
    upload(tmp_path / "dump", bucket / "dump")
    again = build(store, source=Source.parse(f"parquet:{bucket / 'dump'}"), options=options)
    assert (again.number, again.captured.records, again.captured.repeated) == (1, 0, 160)
    expected = derive(raw).tables["silver_commit"]
    assert sorted(map(repr, read(store, "silver_commit", spark).toArrow().to_pylist())) == sorted(
        map(repr, expected.to_pylist())
    )
    assert read(store, "bronze_raw", spark).count() == 160
    assert read(store, "gold_rebalance", spark).schema.names == TABLES["gold_rebalance"].names
    # A store in a directory takes from there, too.
    local = build(tmp_path / "store", source=Source.parse(f"segments:{bucket / 'log'}"), options=options)
    assert local.records == 160


def test_the_commands_take_a_uri(options, s3, tmp_path):
    source, store = f"segments:{tmp_path / 'log'}", s3.bucket() / "history"
    write_log(tmp_path / "log", 0)(40)
    words = ["--out", str(store), "-o", "json"]
    run = kgm("history", "build", "--source", source, *words, *on_spark(options), env=s3.environment, timeout_s=600)
    assert (run.code, run.err) == (0, ""), run.err
    assert json.loads(run.out)["data"]["out"] == str(store)
    assert len(open_store(store).table("silver_commit", RowFilter())) == 40


def test_what_a_worker_cannot_reach_is_said_as_any_error(spark):
    """And not as a failure of Spark's."""

    def fail(_):
        raise UnreachableError("s3://bucket/history: nobody answers")

    with pytest.raises(UnreachableError, match=r"^s3://bucket/history: nobody answers$"):
        tasks.each(spark, fail, [1])
    with pytest.raises(PySparkException):
        tasks.each(spark, lambda _: str(1 / 0), [1])
