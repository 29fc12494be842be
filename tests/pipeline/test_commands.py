"""`kgm history` where it runs on Spark, in the session of the tests."""

import json

import pyarrow as pa
import pytest

from kgm.cli.main import run
from kgm.history.decode.record_tables import decode
from kgm.history.folders import Reading, folders, raw_table
from kgm.history.store.sink_files import counted_files
from kgm.pipeline import jobs, read

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def kept(spark, options, monkeypatch):
    """The session of the tests outlives a command."""
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    return ["--jars", str(options.jars), "--master", options.master]


def answer(capsys, *arguments):
    code = run(["history", *arguments, "-o", "json"])
    out, err = capsys.readouterr()
    assert (code, err) == (0, ""), err
    return json.loads(out)["data"]


def test_a_fleet_costs_the_same_on_spark(kept, plain_log, tmp_path, capsys):
    """And what jobs make of groups and of raw records is what one process makes of them."""
    out = tmp_path / "store"
    built = answer(capsys, "build", "--source", f"segments:{plain_log}", "--out", str(out), *kept)
    asked = ["simulate-fleet", "--store", str(out), "--match", "k8-*", "--draws", "1"]
    here, there = answer(capsys, *asked), answer(capsys, *asked, *kept)
    assert here["costs"]
    assert there == here
    raw = raw_table(folders(plain_log), Reading())
    assert built["records"] == len(raw)
    assert counted_files(out / "bronze" / "raw")
    assert_records(out, decode(raw).records)


def assert_records(out, expected):
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    for kind in (1, 2):
        found = jobs.decoded(read(out, "bronze_raw", spark), kind).toArrow()
        assert by_place(found) == by_place(expected[kind]), kind


def by_place(table):
    assert isinstance(table, pa.Table)
    return sorted(map(repr, table.to_pylist()))
