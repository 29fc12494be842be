"""Captures into a directory that need no Spark: nothing of it is started, and Spark does the work where it was asked for
or the batch is large. That nothing is lost whatever is killed: `test_store`."""

import os
import resource
import subprocess
import sys
import threading

import pyarrow.dataset as ds
import pytest

from kgm.history.folders import Reading, folders, raw_table
from kgm.history.store.sink_files import counted_files
from kgm.model.errors import RefusedError, UnreachableError
from kgm.pipeline import SparkOptions, capture, session, tasks
from kgm.pipeline.taking import engine
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def no_spark(monkeypatch):
    """Whether a session runs is another test's affair."""
    monkeypatch.setattr(engine.Engine, "has_spark", False)


def rows(table):
    names = ["partition", "offset", "timestamp", "key", "value", "leader_epoch", "producer_id", "control", "marker"]
    return sorted(map(repr, table.select(names).to_pylist()))


def held(out):
    """By every file that counts."""
    return rows(ds.dataset(list(map(str, counted_files(out / "bronze" / "raw"))), format="parquet").to_table())


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


@pytest.mark.few(1)
@pytest.mark.parametrize("most_bytes", [0, 1_000])
def test_a_full_disk_is_told_and_leaves_nothing(log, tmp_path, most_bytes):
    """The limit on the size of a file stands for it: of the first small file, or of the file with the records."""
    source, _ = log
    command = [sys.executable, "-m", "kgm", "history", "capture", "--once"]
    done = subprocess.run(
        [*command, "--source", str(source), "--out", str(tmp_path / "store")], capture_output=True, text=True,
        # Python does not notice that a file of compiled code was cut off, and would read it next time.
        timeout=120, check=False, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes)),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(f"error: cannot write {tmp_path}/store/"), done.stderr
    assert "file too large" in done.stderr
    assert "nothing else was changed" in done.stderr
    assert list((tmp_path / "store").rglob("*.new")) == []


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
