"""`kgm history simulate-fleet` on Spark's workers: what it is in process, for every group."""

import json
from types import SimpleNamespace

import pytest

from kgm.cli.main import run
from tests.records.real_logs import DATA

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_costs_are_the_same_on_spark(spark, monkeypatch, capsys):
    def asked(*more):
        where = ["--source", f"segments:{DATA / 'plain'}", "--match", "k8-*", "--draws", "1"]
        assert run(["history", "simulate-fleet", *where, *more, "-o", "json"]) == 0
        return json.loads(capsys.readouterr().out)["data"]["costs"]

    here = asked()
    # The session stays: others need it.
    kept = SimpleNamespace(createDataFrame=spark.createDataFrame, stop=lambda: None)
    monkeypatch.setattr("kgm.pipeline.start", lambda options: kept)
    assert asked("--master", "local[1]") == here
    assert len(here) == 6
    assert sum(each["reason"] is None for each in here) == 5
