"""Captures on Spark that are killed with -9 and started again: nothing is lost, nothing comes twice."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kgm.history.store import commit_log
from kgm.history.store.query import RowFilter
from kgm.history.store.sink_files import counted_files
from kgm.history.store.tables import open_store
from kgm.pipeline import build, read
from tests.kafka.process import Child
from tests.pipeline.sparks import FAST, jars
from tests.pipeline.writer import write_log
from tests.selection import first_seed, sized
from tests.waiting import until

# Where a dozen others use the machine, each start of Spark may take a minute.
pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3000)]
KILLS = sized(1, 3)
PARTITIONS, PER_PARTITION = 2, 20_000
_CAPTURE = """
import json, sys
from pathlib import Path
from kgm.pipeline import Source, SparkOptions, capture
asked = json.loads(sys.argv[1])
options = SparkOptions(master=asked["master"], conf=asked["conf"], jars=Path(asked["jars"]))
done = capture(Path(asked["out"]), Source.parse(asked["source"]), options=options, once=asked["once"], every_s=0.1,
               on_batch=lambda progress: print(progress.records, flush=True))
print("done", done.records, flush=True)
"""


def asked(out, folder, *, once):
    said = {
        "out": str(out),
        "source": f"segments:{folder}",
        "conf": FAST,
        "jars": str(jars()),
        "master": "local[2,4]",
        "once": once,
    }
    return [sys.executable, "-c", _CAPTURE, json.dumps(said)]


def children(pid):
    """The processes below one, with their names."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                name = (path / "comm").read_text().strip()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append((int(path.name), name))
                found += children(int(path.name))
    return found


def committed(out):
    return len(commit_log.committed(out / "bronze" / "raw"))


def test_driver_and_workers_killed_again_and_again(spark, options, tmp_path):
    folder, out = tmp_path / "log", tmp_path / "store"
    chance = random.Random(first_seed())
    writers = [write_log(folder, partition) for partition in range(PARTITIONS)]
    written = [0] * PARTITIONS

    def grow(share):
        for partition, writer in enumerate(writers):
            while written[partition] < PER_PARTITION * share:
                written[partition] += writer(500)

    for kill in range(KILLS):
        grow((kill + 1) / (KILLS + 1))
        before = committed(out)
        child = Child(asked(out, folder, once=False), log=tmp_path / "capture.log")

        def has_committed(kill=kill, before=before, child=child):
            if chance.random() < 0.01:
                # Not all that is there to write: the next start has to find something new.
                grow(min((kill + 1.9) / (KILLS + 1), written[0] / PER_PARTITION + 0.02))
            return committed(out) > before or not child.running

        until(has_committed, lambda child=child: child.log_tail(80), 900, every_s=0.05)
        assert committed(out) > before, child.log_tail(80)
        grow((kill + 1.5) / (KILLS + 1))
        time.sleep(chance.uniform(0, 0.6))
        below = children(child.pid)
        workers = [pid for pid, name in below if name.startswith("python")]
        java = [pid for pid, name in below if name == "java"]
        assert java
        if kill % 3 == 1 and workers:  # a worker alone: Spark starts another, and goes on
            os.kill(workers[-1], signal.SIGKILL)
            time.sleep(chance.uniform(0, 0.3))
        for pid in [child.pid, *java] if kill % 2 else [*java, child.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.kill()
    grow(1)
    done = subprocess.run(asked(out, folder, once=True), timeout=900, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = sorted((partition, offset) for partition in range(PARTITIONS) for offset in range(written[partition]))
    assert (
        places(pq.read_table(file, columns=["partition", "offset"]) for file in counted_files(out / "bronze" / "raw"))
        == expected
    )
    # Whoever takes every file that is there, and each place once, sees the same.
    by_spark = spark.read.parquet(str(out / "bronze" / "raw")).select("partition", "offset").distinct().toArrow()
    assert places([by_spark]) == expected
    assert places([read(out, "bronze_raw", spark).select("partition", "offset").toArrow()]) == expected
    build(out, options=options)
    assert len(open_store(out).table("silver_commit", RowFilter())) == len(expected)
    assert read(out, "silver_commit", spark).count() == len(expected)


def places(tables):
    return sorted(
        (partition, offset)
        for table in tables
        for partition, offset in zip(
            table.column("partition").to_pylist(), table.column("offset").to_pylist(), strict=True
        )
    )
