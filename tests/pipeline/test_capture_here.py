"""Captures into a directory that need no Spark: nothing of it is started, nothing is lost or comes twice whatever is
killed, and Spark does the work where it was asked for or the batch is large."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading

import pyarrow.dataset as ds
import pytest

from kgm.history.folders import Reading, folders, raw_table
from kgm.history.store.sink_files import counted_files
from kgm.model.errors import RefusedError, UnreachableError
from kgm.pipeline import Source, SparkOptions, capture, session, tasks
from kgm.pipeline.taking import engine
from tests.pipeline.writer import write_log
from tests.selection import first_seed, is_long
from tests.waiting import until

#: `--long` kills at every step; without it at some of them.
EVERY_STEP = is_long()
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def log(tmp_path):
    """(source, a function that appends so many records to each of two partitions)"""
    writers = [write_log(tmp_path / "log", partition) for partition in (0, 1)]

    def grow(count):
        for writer in writers:
            writer(count)

    grow(100)
    return Source.parse(f"segments:{tmp_path / 'log'}"), grow


@pytest.fixture
def no_spark(monkeypatch):
    """Whether a session runs is another test's affair."""
    monkeypatch.setattr(engine.Engine, "has_spark", False)


def rows(table):
    names = ["partition", "offset", "timestamp", "key", "value", "leader_epoch", "producer_id", "control", "marker"]
    return sorted(map(repr, table.select(names).to_pylist()))


def held(out):
    """By every file that is there."""
    files = sorted(map(str, (out / "bronze" / "raw").rglob("*.parquet")))
    assert files == sorted(map(str, counted_files(out / "bronze" / "raw")))
    return rows(ds.dataset(files, format="parquet").to_table())


def expected(source):
    return rows(raw_table(folders(source.path), Reading()))


_NO_JAVA = """
import sys
from pathlib import Path
from kgm.pipeline import Source, capture
done = capture(Path(sys.argv[1]), Source.parse(sys.argv[2]), once=True)
print(done.records, "pyspark" in sys.modules)
"""


def test_neither_spark_nor_java_is_needed(log, tmp_path):
    source, _ = log
    command = [sys.executable, "-c", _NO_JAVA, str(tmp_path / "store"), str(source)]
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": "/nowhere"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.stdout.split() == ["200", "False"], done.stderr
    assert held(tmp_path / "store") == expected(source)


@pytest.mark.usefixtures("no_spark")
def test_batches_positions_and_overlaps(log, tmp_path):
    source, grow = log
    out = tmp_path / "store"
    done = capture(out, source, once=True, most_records=40)
    assert (done.records, done.repeated, done.batches) == (200, 0, 5)
    assert capture(out, source, once=True).records == 0
    grow(5)
    assert capture(out, source, once=True).records == 10
    copy = tmp_path / "copy"
    grow(5)
    source.path.rename(copy)
    source = Source.parse(f"segments:{copy}")
    done = capture(out, source, once=True)  # another source, with much that is there, and a bit that is not
    assert (done.records, done.repeated, done.batches) == (10, 210, 1)
    assert capture(out, source, once=True) == type(done)()
    assert held(out) == expected(source)


@pytest.mark.usefixtures("no_spark")
def test_it_goes_on_until_it_is_stopped(log, tmp_path):
    source, grow = log
    stop, seen = threading.Event(), []
    arguments = {"every_s": 0.02, "stop": stop, "on_batch": lambda progress: seen.append(progress.records)}
    running = threading.Thread(target=capture, args=(tmp_path / "store", source), kwargs=arguments)
    running.start()
    try:
        for wanted in (200, 210, 220):
            until(lambda wanted=wanted: seen[-1:] == [wanted], lambda: str(seen), 60)
            grow(5)
        with pytest.raises(RefusedError, match="another capture is running"):
            capture(tmp_path / "store", source, once=True)
    finally:
        stop.set()
        running.join(60)
    assert not running.is_alive()
    capture(tmp_path / "store", source, once=True)
    assert held(tmp_path / "store") == expected(source)


@pytest.mark.usefixtures("no_spark")
def test_another_log_in_the_place_of_a_source_is_refused(log, tmp_path):
    source, _ = log
    capture(tmp_path / "store", source, once=True)
    segment = tmp_path / "log" / "__consumer_offsets-1" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes()[:2000])
    with pytest.raises(RefusedError, match="ends before what was captured"):
        capture(tmp_path / "store", source, once=True)


@pytest.mark.usefixtures("no_spark")
def test_where_a_streaming_query_of_spark_stopped(log, tmp_path):
    """With the checkpoint of PySpark 4.0.1: batch 0 is complete; batch 1, with 30 more records of partition 0, was
    begun, and nobody knows how far it got."""
    source, _ = log
    out = tmp_path / "store"
    capture(out, source, once=True, most_records=80)
    (position,) = (out / "checkpoints").glob("*/kgm-positions.json")
    position.unlink()
    for folder, number, text in (
        ("offsets", 0, 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795435533685}\n{"0": 70, "1": 100}'),
        ("offsets", 1, 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795435564053}\n{"0": 100, "1": 100}'),
        ("commits", 0, 'v1\n{"nextBatchWatermarkMs":0}'),
    ):
        (position.parent / folder).mkdir(exist_ok=True)
        (position.parent / folder / str(number)).write_text(text)
    done = capture(out, source, once=True)
    assert (done.records, done.repeated) == (0, 30)
    assert held(out) == expected(source)


@pytest.mark.parametrize("how", ["master", "conf", "large"])
def test_spark_does_the_work_where_it_has_to(log, tmp_path, monkeypatch, how):
    source, _ = log
    used = []

    def each(_, function, works):
        used.append(len(works))
        return list(map(function, works))

    monkeypatch.setattr(tasks, "each", each)
    monkeypatch.setattr(session, "start", lambda *_: "a session")
    if how == "large":
        monkeypatch.setattr(engine.Engine, "has_spark", False)
        monkeypatch.setattr(engine, "SMALL_OFFSETS", 200)
    options = {"master": SparkOptions(master="local[*]"), "conf": SparkOptions(conf={"spark.master": "local[*]"})}
    done = capture(tmp_path / "store", source, options=options.get(how), once=True)
    assert (done.records, used) == (200, [2])
    assert held(tmp_path / "store") == expected(source)


@pytest.mark.usefixtures("no_spark")
def test_what_may_pass_is_tried_again(log, tmp_path, monkeypatch):
    source, _ = log
    monkeypatch.setattr(engine, "_PAUSE_S", 0)
    from kgm.pipeline.taking import writing

    write, failed = writing.CaptureTarget.write, []

    def fails(self, batches):
        if len(failed) < 3:
            failed.append(write(self, batches))  # all of it is there, but nobody hears of it
            raise UnreachableError("the connection was lost")
        return write(self, batches)

    monkeypatch.setattr(writing.CaptureTarget, "write", fails)
    assert capture(tmp_path / "store", source, once=True).records == 200
    assert held(tmp_path / "store") == expected(source)


_STEPS = """
import json, sys
from pathlib import Path
from kgm.pipeline import Source, capture, layout
from kgm.pipeline.taking import writing
from tests.pipeline.kills import Killer

asked = json.loads(sys.argv[1])
killer = Killer(asked["step"])

for name in ("rename", "mkdir", "replace", "unlink"):
    killer.counts(Path, name)
killer.counts(writing.CaptureTarget, "write")
killer.counts(writing.pq.ParquetWriter, "close")
capture(Path(asked["out"]), Source.parse(asked["source"]), once=True, most_records=60)
"""


def test_killed_at_every_step(log, tmp_path):
    """Before and after each file that is written, moved or named, one after the other on the same store."""
    source, grow = log
    out = tmp_path / "store"
    every = itertools.count(1) if EVERY_STEP else itertools.count(random.Random(first_seed()).randrange(1, 12), 11)
    died = 0
    for step in every:
        grow(30)
        before = held(out) if (out / "bronze" / "raw").exists() else []
        said = {"out": str(out), "source": str(source), "step": step}
        done = subprocess.run(
            [sys.executable, "-c", _STEPS, json.dumps(said)], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        whole = expected(source)
        if done.returncode == 0:
            break
        died += 1
        now = held(out) if (out / "bronze" / "raw").exists() else []
        assert set(before) <= set(now) <= set(whole), step
        assert len(now) == len(set(now)), step
        if died % 2:  # the next one goes on from there, killed again, or not
            capture(out, source, once=True, options=SparkOptions())
            assert held(out) == whole, step
    print(died, "of", step - 1)
    assert died > 1
    assert held(out) == whole
    assert list((out / ".staging").glob("*")) == []
