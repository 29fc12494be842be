"""Stores in directories that an older kgm wrote: read as they are, and taken over by the first capture or build.

`tests/data/older-stores` has two that kgm 3033bed9 wrote, without Spark: two builds, a capture of 5 more commits, and the
log of 50 commits that it read."""

import fcntl
import itertools
import json
import tarfile

import pytest

from kgm.model.errors import RefusedError, UsageError
from kgm.pipeline import Source, build, capture
from kgm.pipeline.capturing import slug
from tests import ROOT
from tests.pipeline.killed_build import KilledBuild, without_spark
from tests.pipeline.test_store import by_every_file, captured, count, expected, stored

FORMATS = ["parquet", "delta"]
pytestmark = [pytest.mark.shows("store directory"), pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch):
    without_spark(monkeypatch)


@pytest.fixture(params=FORMATS)
def older(request, tmp_path):
    """(store, the log that it is of)"""
    with tarfile.open(ROOT / "tests" / "data" / "older-stores" / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    source = Source.parse(f"segments:{tmp_path / 'log'}")
    (checkpoint,) = (tmp_path / request.param / "checkpoints").iterdir()
    checkpoint.rename(checkpoint.with_name(slug(None, source)))  # of a log that was elsewhere
    return tmp_path / request.param, source


@pytest.mark.few(1)
def test_it_is_read_as_it_is_until_it_is_built(older):
    store, source = older
    files = {path for path in store.rglob("*") if not path.is_symlink()}
    assert (count(store), captured(store)) == (45, 50)
    assert {path for path in store.rglob("*") if not path.is_symlink()} == files, "reading writes nothing"
    assert capture(store, source, once=True).batches == 0, "nothing is read again"
    assert (count(store), captured(store)) == (45, 50)
    done = build(store)
    assert (done.number, done.records) == (1, 50)
    assert stored(store) == expected(source)
    left = {path.name for path in store.iterdir()}
    links = {"current", "silver", "gold", "tables", "views"} if store.name == "parquet" else {"silver", "gold", "carry"}
    assert left == links | {"bronze", "builds", "claims", "kgm-store.json"}
    if store.name == "parquet":
        assert by_every_file(store / "silver" / "commit") == (50, 50)
    assert build(store, source=source).records == 0


def test_where_a_streaming_query_of_spark_stopped(older):
    """With the checkpoint of PySpark 4.0.1: batch 0 is complete; batch 1, with 20 more records of partition 0, was
    begun, and nobody knows how far it got."""
    store, source = older
    (checkpoint,) = (store / "checkpoints").iterdir()
    (checkpoint / "kgm-positions.json").unlink()
    for folder, number, text in (
        ("offsets", 0, 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795435533685}\n{"0": 5, "1": 25}'),
        ("offsets", 1, 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795435564053}\n{"0": 25, "1": 25}'),
        ("commits", 0, 'v1\n{"nextBatchWatermarkMs":0}'),
    ):
        (checkpoint / folder).mkdir(exist_ok=True)
        (checkpoint / folder / str(number)).write_text(text)
    done = capture(store, source, once=True)
    assert (done.records, done.repeated) == (0, 20)
    assert captured(store) == 50


def test_not_while_an_older_kgm_works_on_it(older):
    store, source = older
    with (store / ".build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RefusedError, match="another process is working on it"):
            capture(store, source, once=True)
    assert not (store / "bronze" / "raw" / "_kgm_log").exists()


def test_one_of_a_newer_kgm_is_not_touched(older):
    store, source = older
    about = store / "kgm-store.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "version": 3}))
    with pytest.raises(UsageError, match="of a newer kgm"):
        capture(store, source, once=True)


@pytest.mark.parametrize("older", [pytest.param(each, marks=pytest.mark.long) for each in FORMATS], indirect=True)
def test_killed_at_every_step_of_taking_it_over(older):
    """Before and after each write and each deletion, one after the other on the same store."""
    store, source = older
    died = 0
    for step in itertools.count(1):
        killed = KilledBuild(
            store=str(store), source=str(source), step=step, format=store.name, requests=False, grace_s=0
        )
        if not killed.run():
            break
        died += 1
        assert count(store) in (45, 50), step
        assert captured(store) == 50, step
        if store.name == "parquet":
            assert by_every_file(store / "silver" / "commit") in ((45, 45), (50, 50)), step
    assert died > 5
    assert stored(store) == expected(source)
