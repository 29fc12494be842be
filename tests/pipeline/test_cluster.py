"""Where the users' data is: a standalone master with two workers, and spark-submit with kgm's wheel."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pyspark
import pytest

from kgm.history.derive import DERIVED, derive
from kgm.history.folders import Reading, folders, raw_table
from kgm.history.store import Asked, open_store
from tests.kafka.process import Child
from tests.pipeline.sparks import FAST

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
SMALL = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
JOB = """
import json, os, sys
from pathlib import Path
import pyarrow as pa
from kgm.pipeline import Source, SparkOptions, build, jobs, read, start
asked = json.loads(sys.argv[1])
options = SparkOptions(master=asked["master"], conf=asked["conf"])
out = Path(asked["out"])
done = build(out, source=Source.parse(asked["source"]), options=options)
spark = start(options)

def hosted(rows):
    import kgm, os
    return pa.table({"group_id": rows.column("group_id")[:1], "pid": [os.getpid()], "where": [kgm.__file__]})

schema = pa.schema([("group_id", pa.string()), ("pid", pa.int64()), ("where", pa.string())])
rows = jobs.map_groups(read(out, "silver_snapshot", spark), hosted, schema).collect()
print(json.dumps({"records": done.records, "groups": sorted(row.group_id for row in rows),
                  "pids": len({row.pid for row in rows}), "where": sorted({row.where for row in rows})}))
spark.stop()
"""


class Daemons:
    """A master and its workers, each a process that a test ends by its id."""

    def __init__(self, folder):
        self.folder = folder
        self.children = []

    def start(self, *arguments):
        environment = ["env", "SPARK_LOCAL_IP=127.0.0.1", "SPARK_DAEMON_MEMORY=200m", f"SPARK_DAEMON_JAVA_OPTS={' '.join(SMALL)}",
                       f"PYSPARK_PYTHON={sys.executable}", f"SPARK_HOME={HOME}"]  # fmt: skip
        log = self.folder / f"daemon-{len(self.children)}.log"
        child = Child([*environment, str(HOME / "bin" / "spark-class"), *arguments], log=log)
        self.children.append(child)
        return log

    def cluster(self):
        log = self.start(
            "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        url = waited(log, r"Starting Spark master at (spark://\S+)")[0]
        for _ in range(2):
            self.start("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1",
                       "--memory", "600m", "--work-dir", str(self.folder / "work"), url)  # fmt: skip
        waited(log, r"Registering worker", 2)
        return url

    def stop(self):
        for child in reversed(self.children):
            child.kill()


def waited(log, pattern, count=1):
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        found = re.findall(pattern, log.read_text(errors="replace")) if log.exists() else []
        if len(found) >= count:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{pattern} is not in {log}: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture
def master(tmp_path):
    daemons = Daemons(tmp_path)
    try:
        yield daemons.cluster()
    finally:
        daemons.stop()


@pytest.fixture
def small(plain_log, tmp_path):
    for number in (0, 1):
        shutil.copytree(plain_log / f"__consumer_offsets-{number}", tmp_path / "log" / f"__consumer_offsets-{number}")
    return tmp_path / "log"


def run(command, **environment):
    clean = {name: value for name, value in os.environ.items() if name not in {"PYSPARK_PYTHON", "KGM_SPARK_JARS"}}
    done = subprocess.run(command, env=clean | environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def as_expected(said, out, folder):
    raw = raw_table(folders(folder), Reading())
    assert said["records"] == len(raw)
    expected = derive(raw).tables
    store = open_store(out)
    for name in DERIVED:
        found = store.table(name, Asked())
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected[name].to_pylist())), name
    assert said["groups"] == sorted(set(expected["silver_snapshot"].column("group_id").to_pylist()))


def test_on_a_standalone_cluster(master, small, tmp_path):
    """Two executors, that get kgm from the driver."""
    conf = FAST | {
        "spark.executor.memory": "400m",
        "spark.executor.extraJavaOptions": " ".join(SMALL),
        "spark.cores.max": "2",
    }
    out = tmp_path / "store"
    asked = {"master": master, "conf": conf, "out": str(out), "source": f"segments:{small}"}
    said = run([sys.executable, "-c", JOB, json.dumps(asked)])
    as_expected(said, out, small)
    assert said["pids"] == 2
    assert all("kgm.zip" in where for where in said["where"]), said["where"]


def test_spark_submit_with_the_wheel(small, tmp_path):
    """As docs/spark.md says it: nothing of kgm is installed where the job runs."""
    wheel = tmp_path / "kgm-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:  # what hatch puts in there, without fetching hatch
        for path in sorted((ROOT / "kgm").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(ROOT))
    job = tmp_path / "job.py"
    job.write_text(JOB)
    out = tmp_path / "store"
    asked = json.dumps({"master": None, "conf": {}, "out": str(out), "source": f"segments:{small}"})
    conf = [part for name, value in FAST.items() for part in ("--conf", f"{name}={value}")]
    command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]", *conf, "--conf", "spark.ui.enabled=false",
               "--py-files", str(wheel), str(job), asked]  # fmt: skip
    said = run(command, PYSPARK_PYTHON=sys.executable, SPARK_HOME=str(HOME), SPARK_LOCAL_IP="127.0.0.1")
    as_expected(said, out, small)
    assert all(wheel.name in where for where in said["where"]), said["where"]
