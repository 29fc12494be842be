"""Where the users' data is: a standalone master with two workers, and spark-submit with kgm's wheel."""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import zipfile

import pyarrow.parquet as pq
import pytest

from kgm.history.derive import DERIVED, derive
from kgm.history.folders import Reading, folders, raw_table
from kgm.history.store.query import RowFilter
from kgm.history.store.sink_files import counted_files
from kgm.history.store.tables import open_store
from kgm.protocol.apis import ApiKey
from tests import ROOT
from tests.client.faults import FaultProxy, Pass, ResetAfter
from tests.pipeline.sparks import FAST
from tests.pipeline.standalone import HOME, SMALL, Daemons, is_connected

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
JOB = """
import json, os, sys
from pathlib import Path
import pyarrow as pa
import kgm
from kgm.pipeline import Source, SparkOptions, build, jobs, read, start
asked = json.loads(sys.argv[1])
options = SparkOptions(master=asked["master"], conf=asked["conf"])
out = Path(asked["out"])
done = build(out, source=Source.parse(asked["source"]), options=options)
spark = start(options)

def hosted(rows):
    import kgm
    return pa.table({"group_id": rows.column("group_id")[:1], "where": [kgm.__file__]})

def placed(_):
    import kgm, os
    return [(os.getpid(), kgm.__file__)]

schema = pa.schema([("group_id", pa.string()), ("where", pa.string())])
rows = jobs.map_groups(read(out, "silver_snapshot", spark), hosted, schema).collect()
# Both at once, so that no executor is left out.
places = spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(placed).collect()
executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
print(json.dumps({"records": done.records, "groups": sorted(row.group_id for row in rows), "executors": executors,
                  "driver": kgm.__file__,
                  "pids": len({pid for pid, _ in places}),
                  "where": sorted({row.where for row in rows} | {where for _, where in places})}))
spark.stop()
"""


TWO_EXECUTORS = FAST | {
    "spark.executor.memory": "512m",  # Spark wants 450 at least
    "spark.executor.extraJavaOptions": " ".join(SMALL),
    "spark.cores.max": "2",
    # No job before both are there, however slow the machine is.
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
}


@pytest.fixture
def daemons(tmp_path):
    daemons = Daemons(tmp_path)
    yield daemons
    daemons.stop()


@pytest.fixture
def master(daemons):
    return daemons.cluster()


@pytest.fixture
def small(plain_log, tmp_path):
    for number in (0, 1):
        shutil.copytree(plain_log / f"__consumer_offsets-{number}", tmp_path / "log" / f"__consumer_offsets-{number}")
    return tmp_path / "log"


def run(command, folder, **environment):
    """What a job says. Its directory is not that of the checkout, which Python's workers would import kgm from."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK", "KGM_"))
    }
    done = subprocess.run(
        command, cwd=folder, env=clean | environment, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def as_expected(said, out, folder):
    raw = raw_table(folders(folder), Reading())
    assert said["records"] == len(raw)
    expected = derive(raw).tables
    store = open_store(out)
    for name in DERIVED:
        found = store.table(name, RowFilter())
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected[name].to_pylist())), name
    assert said["groups"] == sorted(set(expected["silver_snapshot"].column("group_id").to_pylist()))


def test_on_a_standalone_cluster(master, small, tmp_path):
    """Two executors, that get kgm from the driver."""
    out = tmp_path / "store"
    asked = {"master": master, "conf": TWO_EXECUTORS, "out": str(out), "source": f"segments:{small}"}
    said = run([sys.executable, "-c", JOB, json.dumps(asked)], tmp_path, PYTHONPATH=str(ROOT))
    as_expected(said, out, small)
    assert (said["executors"], said["pids"]) == (2, 2)
    assert all("kgm.zip" in where for where in said["where"]), said["where"]


CAPTURE = """
import json, sys
from pathlib import Path
from kgm.pipeline import Source, SourceKind, SparkOptions, capture
asked = json.loads(sys.argv[1])
source = Source(kind=SourceKind.KAFKA, properties={"bootstrap.servers": asked["bootstrap"]}, topic=asked["topic"])
done = capture(Path(asked["out"]), source, options=SparkOptions(master=asked["master"], conf=asked["conf"]), once=True)
print(json.dumps({"records": done.records, "repeated": done.repeated}))
"""


@pytest.mark.kafka
def test_an_executor_killed_while_it_fetches(daemons, master, kafka, tmp_path):
    """Its task begins again elsewhere; what it wrote does not count."""
    topic, records = "fetched-by-executors", 1_500
    kafka.create_topics({topic: 2})
    for partition in (0, 1):  # 15 MB each: two fetches
        kafka.produce(topic, [b"v" * 10_000] * records, partition=partition)
    host, port = kafka.bootstrap.rsplit(":", 1)
    killed = []
    with FaultProxy((host, int(port))) as proxy:

        def kill():
            killed.append(next(pid for pid in daemons.executors() if is_connected(pid, proxy.port)))
            os.kill(killed[0], signal.SIGKILL)

        # By the third fetch at least one of them has fetched some records, and not all.
        proxy.script(ApiKey.FETCH, Pass(), Pass(), ResetAfter(kill))
        out = tmp_path / "store"
        asked = {"master": master, "conf": TWO_EXECUTORS, "out": str(out), "bootstrap": proxy.bootstrap, "topic": topic}
        said = run([sys.executable, "-c", CAPTURE, json.dumps(asked)], tmp_path, PYTHONPATH=str(ROOT))
        begun = [row.partition for request in proxy.requests(ApiKey.FETCH) for each in request.topics
                 for row in each.partitions if row.fetch_offset == 0]  # fmt: skip
    assert killed
    assert len(begun) > 2, "a task began again"
    assert said == {"records": 2 * records, "repeated": 0}
    found = [
        row
        for file in counted_files(out / "bronze" / "raw")
        for row in pq.read_table(file, columns=["partition", "offset"]).to_pylist()
    ]
    assert sorted((row["partition"], row["offset"]) for row in found) == [
        (partition, offset) for partition in (0, 1) for offset in range(records)
    ]


@pytest.fixture
def bare(tmp_path):
    """A Python that has everything that kgm needs, but no kgm."""
    folder = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=300)
    packages = next(folder.glob("lib/python*/site-packages"))
    # What is installed editable is said by files there, and those count in a directory of packages of one's own only.
    (packages / "rest.pth").write_text("".join(f"{sysconfig.get_path(name)}\n" for name in ("purelib", "platlib")))
    return folder / "bin" / "python"


def test_spark_submit_with_the_wheel(bare, small, tmp_path):
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
    said = run(
        command, tmp_path, PYSPARK_PYTHON=str(bare), PYSPARK_DRIVER_PYTHON=str(bare), SPARK_HOME=str(HOME),
        SPARK_LOCAL_IP="127.0.0.1",
    )  # fmt: skip
    as_expected(said, out, small)
    assert wheel.name in said["driver"]
    assert all("kgm.zip" in where for where in said["where"]), said["where"]
