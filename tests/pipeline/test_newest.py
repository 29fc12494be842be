"""The other end of the range of PySpark that kgm runs on.

It is fetched once, into kgm's cache, and PYTHONPATH puts it before the PySpark of the environment that runs the tests.
Its Kafka source is not tried: not all of its jars are to be had."""

import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise

import pytest

from kgm.history.derive import DERIVED, derive
from kgm.history.folders import Reading, folders, raw_table
from kgm.history.store.query import RowFilter
from kgm.history.store.tables import open_store
from tests import ROOT
from tests.kafka.jars import cache_dir, locked
from tests.pipeline.sparks import FAST

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(2100)]
VERSION = "4.3.0"
JOB = """
import json, sys
from pathlib import Path
import pyarrow as pa, pyspark
from kgm.pipeline import Source, SparkOptions, build, capture, jobs, read, start
asked = json.loads(sys.argv[1])
options = SparkOptions(master="local[2,4]", conf=asked["conf"])
out, source = Path(asked["out"]), Source.parse(asked["source"])
steps = []
stop = __import__("threading").Event()

def on_batch(progress):
    steps.append(progress.records)
    if progress.records == asked["records"]:
        stop.set()

capture(out, source, options=options, every_s=0.1, most_records=1000, stop=stop, on_batch=on_batch)
again = capture(out, source, options=options, once=True)
done = build(out, options=options)
spark = start(options)

def counted(rows):
    return pa.table({"group_id": rows.column("group_id")[:1], "rows": [len(rows)]})

frame = read(out, "silver_snapshot", spark)
groups = jobs.map_groups(frame, counted, pa.schema([("group_id", pa.string()), ("rows", pa.int64())])).collect()
kinds = read(out, "bronze_raw", spark).where("key_type = 2").count()
print(json.dumps({"version": pyspark.__version__, "steps": steps, "again": again.records, "records": done.records,
                  "groups": {row.group_id: row.rows for row in groups}, "metadata": kinds}))
spark.stop()
"""


@pytest.fixture(scope="module")
def newest():
    """A directory that comes before what is installed."""
    folder = cache_dir() / f"pyspark-{VERSION}-alone"
    marker = folder / ".complete"
    with locked(folder.name):
        if not marker.exists():
            shutil.rmtree(folder, ignore_errors=True)
            install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
            subprocess.run([*install, f"pyspark=={VERSION}"], check=True, timeout=1200)
            marker.touch()
    return folder


def test_captures_builds_and_maps(newest, plain_log, tmp_path):
    """A stream in steps of so many records, as Spark asks for since 4.2; a build; functions on groups."""
    for number in (0, 1):
        shutil.copytree(plain_log / f"__consumer_offsets-{number}", tmp_path / "log" / f"__consumer_offsets-{number}")
    raw = raw_table(folders(tmp_path / "log"), Reading())
    out = tmp_path / "store"
    asked = {"conf": FAST, "out": str(out), "source": f"segments:{tmp_path / 'log'}", "records": len(raw)}
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK", "KGM_"))
    }
    command = [sys.executable, "-c", JOB, json.dumps(asked)]
    environment["PYTHONPATH"] = os.pathsep.join([str(newest), str(ROOT)])
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["version"] == VERSION
    assert said["steps"][-1] == len(raw)
    assert len(said["steps"]) >= len(raw) / 1000
    assert all(after - before <= 1000 for before, after in pairwise([0, *said["steps"]]))
    assert (said["again"], said["records"]) == (0, len(raw))
    expected = derive(raw).tables
    snapshots = expected["silver_snapshot"].column("group_id").to_pylist()
    assert said["groups"] == {group: snapshots.count(group) for group in set(snapshots)}
    assert said["metadata"] == len(snapshots)
    for name in DERIVED:
        found = open_store(out).table(name, RowFilter())
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected[name].to_pylist())), name
