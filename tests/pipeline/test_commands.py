"""`kgm history` where it runs on Spark: kgm as a process, as an operator starts it."""

import json

import pyarrow as pa
import pytest

from kgm.history.decode.record_tables import decode
from kgm.history.folders import Reading, folders, raw_table
from kgm.history.store.sink_files import counted_files
from kgm.pipeline import jobs, read
from tests.cli.runner import kgm

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def answer(*arguments):
    run = kgm("history", *arguments, "-o", "json", timeout_s=600)
    assert (run.code, run.err) == (0, ""), run.err
    return json.loads(run.out)["data"]


def test_a_fleet_costs_the_same_on_spark(spark, options, plain_log, tmp_path):
    """And the jobs decode and derive the same from groups and raw records as one process does."""
    on_spark = ["--jars", str(options.jars), "--master", "local[1]"]
    on_spark += [word for key, value in options.conf.items() for word in ("--spark-conf", f"{key}={value}")]
    out = tmp_path / "store"
    built = answer("build", "--source", f"segments:{plain_log}", "--out", str(out), *on_spark)
    question = ["simulate-fleet", "--store", str(out), "--match", "k8-*", "--draws", "1"]
    here, there = answer(*question)["costs"], answer(*question, *on_spark)["costs"]
    assert there == here
    assert len(here) == 6
    assert sum(each["reason"] is None for each in here) == 5
    raw = raw_table(folders(plain_log), Reading())
    assert built["records"] == len(raw)
    assert counted_files(out / "bronze" / "raw")
    expected = decode(raw).records
    for kind in (1, 2):
        decoded = jobs.decoded(read(out, "bronze_raw", spark), kind).toArrow()
        assert sorted_rows(decoded) == sorted_rows(expected[kind]), kind


def sorted_rows(table):
    assert isinstance(table, pa.Table)
    return sorted(map(repr, table.to_pylist()))
