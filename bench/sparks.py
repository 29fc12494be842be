"""Jobs of kgm's pipeline, each measured in its own process, on Spark or without it.

usage: python bench/sparks.py JSON      (by the function `in_process`)

CPU is that of whole process trees, JVM and Python; shared pages are counted in each process. Spark has -Xmx1g in a
single process, 512m in each executor."""

import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from tests.pipeline.standalone import Daemons, tree

PARTITIONS = 4
TICK = os.sysconf("SC_CLK_TCK")
#: Number of records in a job that only warms up.
WARM = 500


def used(pids):
    """(CPU seconds, including ended children; resident MB) of process trees."""
    cpu = resident = 0
    for each in [each for pid in pids for each in tree(pid)]:
        try:
            fields = pathlib.Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        cpu += sum(map(int, fields[11:15])) / TICK
        resident += int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return cpu, resident


def watched(task, others=()):
    """(wall seconds, CPU seconds, peak MB) of a task and its processes. others: ids of other processes that do part of
    the work."""
    peak, done, pids = [0.0], threading.Event(), [os.getpid(), *others]

    def look():
        while not done.wait(0.2):
            peak[0] = max(peak[0], used(pids)[1])

    watcher = threading.Thread(target=look)
    watcher.start()
    cpu, start = used(pids)[0], time.perf_counter()
    try:
        task()
        wall, cpu = time.perf_counter() - start, used(pids)[0] - cpu
    finally:
        done.set()
        watcher.join()
    return wall, cpu, max(peak[0], used(pids)[1])


def fleet(count):
    """[(group id, group as JSON)]: ten members with ten partitions each, restarted one after another."""
    from kgm.model.snapshot import TopicSnapshot
    from kgm.simulation.plan.bounce_plan import Membership
    from kgm.simulation.plan.synthetic_group import synthetic_group

    made = synthetic_group(10, [TopicSnapshot(name="orders", partitions=100)], Membership.DYNAMIC, "range").to_json()
    return [(f"fleet-{number:04}", json.dumps(made | {"group_id": f"fleet-{number:04}"})) for number in range(count)]


def played(asked):
    from functools import partial

    from kgm.operations.history.fleet_costs import costs_as_text
    from kgm.pipeline import SparkOptions, jobs, start
    from kgm.simulation.fleet import FleetPlan, group_costs

    plan, groups = FleetPlan(draws=1), fleet(asked["count"])
    if asked["master"] is None:
        return watched(lambda: [list(group_costs(json.loads(text), plan)) for _, text in groups])
    spark = start(SparkOptions(master=asked["master"], conf={"spark.driver.memory": "1g"}))

    def job(rows):
        frame = spark.createDataFrame(rows, "group_id string, text string")
        found = jobs.map_texts(frame, partial(costs_as_text, plan=plan))
        assert len(found) == len(rows)
        assert not any(json.loads(cost)["reason"] for cost in found)

    job(groups[:8])
    return watched(lambda: job(groups))


def executors(count):
    """Spark's settings on a standalone master; no job starts before all executors are there."""
    return {
        "spark.executor.memory": "512m",
        "spark.cores.max": str(count),
        "spark.scheduler.minRegisteredResourcesRatio": "1",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    }


def work(asked):
    if asked["how"] == "fleet":
        return played(asked)
    from kgm.pipeline import Source, SourceKind, SparkOptions, build, capture, start

    master, others = asked["master"], asked.get("others", [])
    conf = {"spark.driver.memory": "1g"} | (executors(asked["executors"]) if "executors" in asked else {})
    options = SparkOptions(master=master, conf=conf)
    with tempfile.TemporaryDirectory() as out:
        stores = (pathlib.Path(out) / str(number) for number in itertools.count())
        if asked["how"] == "build":
            start(options)
            for place in (asked["warm"], asked["place"]):
                store = next(stores)
                capture(store, Source(kind=SourceKind.SEGMENTS, path=pathlib.Path(place)), options=options, once=True)
                measured = watched(lambda store=store: build(store, options=options), others)
            return measured
        begun = used(others)[0]

        def job(place, count):
            source = Source(kind=SourceKind.KAFKA, properties={"bootstrap.servers": asked["bootstrap"]}, topic=place)
            done = capture(next(stores), source, options=options, once=True)
            assert done.records == count, done

        memory = watched(lambda: job("once", asked["count"]), others)[2]
        first = since_start(), used([os.getpid(), *others])[0] - begun, memory
        following = watched(lambda: job("once", asked["count"]), others)
        small = [watched(lambda: job("warm", WARM), others) for _ in range(3)]
    least = [min(column) for column in zip(*small, strict=True)]
    return [first, (following[0] - least[0], following[1] - least[1], following[2])]


def since_start():
    """Seconds since this process started."""
    begun = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / TICK
    return float(pathlib.Path("/proc/uptime").read_text().split()[0]) - begun


def in_process(**asked):
    """[wall, CPU, MB] of a job in its own process; for a capture, those of the first one and of the next one."""
    command = [sys.executable, str(pathlib.Path(__file__).resolve()), json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def standalone(workers):
    """The arguments that make a job run on a standalone master with this many workers of one core."""
    with tempfile.TemporaryDirectory(prefix="kgm-bench-") as folder:
        daemons = Daemons(pathlib.Path(folder))
        try:
            address = daemons.cluster(workers)
            others = [child.pid for child in daemons.children]
            yield {"master": address, "executors": workers, "others": others}
        finally:
            daemons.stop()


def spread(batches):
    """Distribute the batches over the partitions in turn: [(partition, pairs)]."""
    return [(number % PARTITIONS, pairs) for number, pairs in enumerate(batches)]


def write(folder, batches):
    """Write segments with the batches, in folders named after the partitions."""
    from history import NOW

    from kgm.records.batch import new_batch

    offsets, files = [0] * PARTITIONS, [segment(folder, partition).open("wb") for partition in range(PARTITIONS)]
    for partition, pairs in batches:
        files[partition].write(new_batch(pairs, base_offset=offsets[partition], timestamp_ms=NOW))
        offsets[partition] += len(pairs)
    for file in files:
        file.close()
    return str(folder)


def segment(folder, partition):
    from history import SEGMENT

    path = folder / f"__consumer_offsets-{partition}" / SEGMENT
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


if __name__ == "__main__":
    print(json.dumps(work(json.loads(sys.argv[1]))))
