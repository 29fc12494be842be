#!/usr/bin/env python3
"""Decode `__consumer_offsets` through Spark, beside the console consumer with Kafka's own formatters.

usage: python bench/pipeline.py [--only decode|commits|snapshots|fleet] [--commits N] [--snapshots N] [--members N]
                                [--in-batch N] [--groups N] [--rounds N] [--no-peer] [--match TEXT]
       (needs PySpark, Java 17+, and Maven for the jars; some minutes for each way and round; --match: only ways with
       this text in their names)

The records of bench/history.py in four partitions: as segments (kgm's own data source), and in a topic of a real broker
(kgm's own fetch; Spark's Kafka source; and kafka-console-consumer with OffsetsMessageFormatter or
GroupMetadataMessageFormatter, which prints JSON, into /dev/null here). The broker finds the same segments in the
topic's directories when it starts: producing batches as small as a coordinator's would take most of the time. Spark
runs in one process, with one core and with two, and on a standalone master with two workers of one core each. All
decode what the formatters print: every field of key and value. Timed is what comes behind the start: of Spark a job
into its `noop` sink, less the least that one like it takes afterwards for 500 records; of the console consumer the
whole process less the time that it takes for one record. Both JVMs still warm up within that, so it is given for the first N records and for
the next N: of Spark the same job once more, of the console consumer 2N less N, in processes of their own.
A capture is from the topic to the Parquet files of bronze. The first is a whole process, from its start on, JVM and
all, with nothing taken off, beside the console consumer with nothing taken off either; the next is the same once more,
into another store, less the least that a capture of 500 records takes. Spark's own source is measured with local[2]
only.
CPU seconds and memory are those of the whole process trees, JVM and Python; shared pages count in each process. Spark
has -Xmx1g in one process, 512m in each executor; the console consumer what its script gives it (512m). Medians of
--rounds, each a process of its own. Then a build: from the segments to every table of a store, capture and all. And
what `kgm history simulate-fleet` does: a rolling restart of every one of --groups groups with 10 dynamic members each,
in this process and on Spark.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

if "--worker" not in sys.argv:  # a worker is measured from its start
    from history import NOW, SEGMENT, commits, snapshots
    from processes import once

from tests.pipeline.standalone import Daemons, tree

PARTITIONS = 4
HEAP_MB = 512
TICK = os.sysconf("SC_CLK_TCK")
OFFSET = struct.Struct(">q")
CONSOLE = "console consumer"
#: Of the standalone master; no job before both executors are there.
EXECUTORS = {
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
}
CLASSES = {1: "OffsetsMessageFormatter", 2: "GroupMetadataMessageFormatter"}


def used(pids):
    """(CPU seconds, of ended children too; MB resident) of trees."""
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
    """(wall seconds, CPU seconds, peak MB) of a task and what it sets to work. others: ids of processes that work, too."""
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

    from kgm.pipeline import SparkOptions, jobs, start
    from kgm.pipeline.row_function import rowwise, schema_of
    from kgm.simulation.fleet import COLUMNS, FleetPlan, cost_rows_of_text

    plan, groups = FleetPlan(draws=1), fleet(asked["count"])
    if asked["master"] is None:
        function = partial(cost_rows_of_text, plan=plan)
        return watched(lambda: [list(function({"group_id": name, "group": text})) for name, text in groups])
    spark = start(SparkOptions(master=asked["master"], conf={"spark.driver.memory": "1g"}))
    function = rowwise(partial(cost_rows_of_text, plan=plan), COLUMNS)

    def job(rows):
        frame = spark.createDataFrame(rows, "group_id string, group string")
        found = jobs.map_groups(frame, function, schema_of(COLUMNS)).collect()
        assert len(found) == len(rows)
        assert not any(row.reason for row in found)

    job(groups[:8])
    return watched(lambda: job(groups))


def worker(asked):
    if asked["how"] == "fleet":
        return played(asked)
    from kgm.pipeline import Source, SourceKind, SparkOptions, build, capture, records, start
    from tests.pipeline.sparks import jars

    def source(place):
        if asked["how"] in {"segments", "build"}:
            return Source(kind=SourceKind.SEGMENTS, path=pathlib.Path(place))
        properties = {"bootstrap.servers": asked["bootstrap"]}
        return Source(kind=SourceKind(asked["kind of source"]), properties=properties, topic=place)

    conf = {"spark.driver.memory": "1g"}
    options = SparkOptions(
        master=asked["master"],
        conf=conf | (EXECUTORS if (asked["master"] or "").startswith("spark:") else {}),
        jars=jars() if asked.get("kind of source") == "spark-kafka" else None,
    )
    others = asked.get("others", [])
    if asked["how"] == "build":
        with tempfile.TemporaryDirectory() as out:
            start(options)
            build(pathlib.Path(out) / "warm", source=source(asked["warm"]), options=options)
            return watched(lambda: build(pathlib.Path(out) / "store", source=source(asked["place"]), options=options))
    captures, begun = asked["how"] == "capture", used(others)[0]
    spark = None if captures else start(options, source(asked["place"]))
    with tempfile.TemporaryDirectory() as out:
        stores = (pathlib.Path(out) / str(number) for number in itertools.count())

        def job(place):
            if captures:
                done = capture(next(stores), source(place), options=options, once=True)
                assert done.records == (500 if place == asked["warm"] else asked["count"]), done
                return
            frame = records(spark, source(place), asked["kind"], columns=["key", "value"])
            frame.write.format("noop").mode("overwrite").save()

        if captures:
            memory = watched(lambda: job(asked["place"]), others)[2]
            first = since_start(), used([os.getpid(), *others])[0] - begun, memory
        else:
            job(asked["warm"])
            first = watched(lambda: job(asked["place"]), others)
        following = watched(lambda: job(asked["place"]), others)
        small = [watched(lambda: job(asked["warm"]), others) for _ in range(3)]
    least_wall, least_cpu = (min(column) for column in list(zip(*small, strict=True))[:2])
    less = [(wall - least_wall, cpu - least_cpu, memory) for wall, cpu, memory in (first, following)]
    return [first, less[1]] if captures else less


def since_start():
    """Seconds since this process was started."""
    begun = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / TICK
    return float(pathlib.Path("/proc/uptime").read_text().split()[0]) - begun


def spark(**asked):
    """[wall, CPU, MB] of a job in a process of its own."""
    command = [sys.executable, str(pathlib.Path(__file__).resolve()), "--worker", json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def spread(batches):
    """The batches in turn to the partitions: [(partition, pairs)]."""
    return [(number % PARTITIONS, pairs) for number, pairs in enumerate(batches)]


def write(folder, batches):
    """Segments of the batches, in folders named as the partitions."""
    from kgm.records.batch import new_batch

    offsets, files = [0] * PARTITIONS, [segment(folder, partition).open("wb") for partition in range(PARTITIONS)]
    for partition, pairs in batches:
        files[partition].write(new_batch(pairs, base_offset=offsets[partition], timestamp_ms=NOW))
        offsets[partition] += len(pairs)
    for file in files:
        file.close()
    return str(folder)


def write_twice(folder, once):
    """The segments of another folder, and all their batches once more."""
    from kgm.records.batch import decode_batches

    for partition in range(PARTITIONS):
        data = segment(pathlib.Path(once), partition).read_bytes()
        batches = decode_batches(data)
        count = batches[-1].last_offset + 1
        with segment(folder, partition).open("wb") as file:
            file.write(data)
            for batch in batches:  # the checksum is not of the offset
                file.write(OFFSET.pack(batch.base_offset + count) + batch.data[OFFSET.size :])
    return str(folder)


def segment(folder, partition):
    path = folder / f"__consumer_offsets-{partition}" / SEGMENT
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def put(cluster, topics):
    """Make topics with the segments of folders, {topic: folder}."""
    cluster.create_topics(dict.fromkeys(topics, PARTITIONS))
    cluster.shut_down(1)
    for topic, folder in topics.items():
        for partition in range(PARTITIONS):
            there = cluster.log_dir() / f"{topic}-{partition}"
            for path in there.glob("0*"):
                path.unlink()
            shutil.copy(segment(pathlib.Path(folder), partition), there / SEGMENT)
    cluster.restart(1)


def console(cluster, topic, kind, count):
    from tests.kafka.jars import classpath
    from tests.kafka.java_tools import java_command

    return java_command(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", cluster.bootstrap, "--topic", topic,
        "--from-beginning", "--max-messages", str(count), "--formatter",
        f"org.apache.kafka.tools.consumer.{CLASSES[kind]}", heap_mb=HEAP_MB, options=(), class_path=classpath("kafka"),
    )  # fmt: skip


def fleets(arguments):
    ways = {"one process, no Spark": None, "Spark, local[1]": "local[1]", "Spark, local[2]": "local[2]"}
    found = {way: [] for way in ways}
    for _ in range(arguments.rounds):
        for way, master in ways.items():
            found[way].append(spark(how="fleet", master=master, count=arguments.groups))
    print("| fleet | how | wall s | groups/s | CPU s | groups/CPU s | peak MB |")
    print("|---|---|---|---|---|---|---|")
    for way, rows in found.items():
        wall, cpu, memory = medians(rows)
        print(
            f"| {arguments.groups} groups | {way} | {wall:.2f} | {arguments.groups / wall:.1f} | {cpu:.2f} | "
            f"{arguments.groups / cpu:.1f} | {memory:.0f} |",
        )
    one, two = (medians(found[f"Spark, local[{cores}]"])[0] for cores in (1, 2))
    print(f"\nfleet: local[1] -> local[2] {one / two:.2f}x\n", flush=True)


def medians(rows):
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=500_000)
    parser.add_argument("--snapshots", type=int, default=20_000)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--in-batch", type=int, default=10)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["decode", "commits", "snapshots", "fleet"])
    parser.add_argument("--match", default="")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(worker(json.loads(arguments.worker))))
        return
    logs = {
        "commits": ("OffsetCommit", 1, arguments.commits, lambda count: commits(count, arguments.in_batch)),
        "snapshots": (
            f"GroupMetadata x {arguments.members}", 2, arguments.snapshots,
            lambda count: snapshots(count, arguments.members),
        ),
    }  # fmt: skip
    if arguments.only in {None, "fleet"}:
        fleets(arguments)
    wanted = [log for name, log in logs.items() if arguments.only in {None, "decode", name}]
    if not wanted:
        return
    print("| records | how | wall s | k records/s | CPU s | k records/CPU s | peak MB | console / ours, wall | CPU |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="kgm-bench-") as folder, standalone(pathlib.Path(folder)) as masters:
        for number, log in enumerate(wanted):
            compare(pathlib.Path(folder) / str(number), *log, masters, arguments)


@contextlib.contextmanager
def standalone(folder):
    """{master: (its address, ids of processes that work for it)}."""
    daemons = Daemons(folder)
    try:
        address = daemons.cluster()
        pids = [child.pid for child in daemons.children]
        yield {
            "local[1]": ("local[1]", []),
            "local[2]": ("local[2]", []),
            "standalone, 2 workers": (address, pids),
        }
    finally:
        daemons.stop()


def compare(folder, name, kind, count, made, masters, arguments):
    places = {size: write(folder / size, spread(made(number))) for size, number in {"warm": 500, "once": count}.items()}

    two = {"local[2]": masters["local[2]"]}
    here = {"no Spark": (None, [])} | masters

    def ways(what, masters=masters, **asked):
        return {
            f"{what}, {label}": {
                "kind": kind, "count": count, "master": master, "others": others, "warm": "warm", "place": "once",
            } | asked
            for label, (master, others) in masters.items()
        }  # fmt: skip

    from_disk = {"how": "segments", "warm": places["warm"], "place": places["once"]}
    if arguments.no_peer:
        report(name, count, timed(ways("segments", **from_disk), arguments.rounds, None))
    else:
        from tests.kafka.broker import KafkaCluster

        places["twice"] = write_twice(folder / "twice", places["once"])
        # The records are old: they must not be deleted meanwhile.
        with KafkaCluster(properties={"log.retention.ms": "-1"}) as cluster:
            put(cluster, places)
            fetched = {"kind of source": "kafka", "bootstrap": cluster.bootstrap}
            by_spark = fetched | {"kind of source": "spark-kafka"}
            commands = [console(cluster, "twice", kind, number) for number in (1, count, 2 * count)]
            asked = (
                ways("`kafka`", how="topic", **fetched)
                | ways("capture from `kafka`", here, how="capture", **fetched)
                | ways("segments", **from_disk)
                | ways("`spark-kafka`", two, how="topic", **by_spark)
                | ways("capture from `spark-kafka`", two, how="capture", **by_spark)
            )
            asked = {way: each for way, each in asked.items() if arguments.match in way}
            report(name, count, timed(asked, arguments.rounds, commands))
    if arguments.match not in "build":
        return
    built = spark(kind=kind, master="local[2]", **from_disk | {"how": "build"})
    print(row(f"{count:,} {name}", "build, local[2]", count, built, " | "), flush=True)


def report(name, count, rows):
    for which, heading in enumerate(("the first", "the next")):
        peer = rows[CONSOLE][which] if CONSOLE in rows else None
        for way, measured in rows.items():
            whole = which == 0 and way.startswith("capture")
            beside = rows[CONSOLE][2] if whole and peer is not None else peer
            ratio = " | " if peer is None else ratios(beside, measured[which])
            said = "a whole process, the first" if whole else heading
            print(row(f"{said} {count:,} {name}", way, count, measured[which], ratio), flush=True)
    if CONSOLE in rows:
        print(
            row(f"a whole process, the first {count:,} {name}", CONSOLE, count, rows[CONSOLE][2], "1 | 1"), flush=True
        )


def ratios(peer, ours):
    """Of wall and CPU."""
    return " | ".join(f"{theirs / max(mine, 0.01):.1f}" for theirs, mine in zip(peer[:2], ours[:2], strict=True))


def row(what, how, count, measured, ratio):
    wall, cpu, memory = measured
    wall, cpu = max(wall, 0.01), max(cpu, 0.01)  # a difference of processes may be none, on a busy machine
    return (
        f"| {what} | {how} | {wall:.2f} | {count / wall / 1e3:.1f} | {cpu:.2f} | {count / cpu / 1e3:.1f} | "
        f"{memory:.0f} | {ratio} |"
    )


def timed(ways, rounds, commands):
    """{way: [(wall, CPU, MB) of the first records, of the next; of the console consumer also of a whole process]}, each way
    in turn."""
    found = {way: [] for way in (*ways, *([CONSOLE] if commands else []))}
    for _ in range(rounds):
        if commands is not None:
            start, first, both = (once(command) for command in commands)
            found[CONSOLE].append([
                (after[1] - before[1], after[0] - before[0], float("nan"))
                for before, after in ((start, first), (first, both), ((0, 0), first))
            ])  # fmt: skip
            print(time.strftime("%X"), CONSOLE, found[CONSOLE][-1], file=sys.stderr, flush=True)
        for way, asked in ways.items():
            found[way].append(spark(**asked))
            print(time.strftime("%X"), way, found[way][-1], file=sys.stderr, flush=True)
    return {way: [medians(each) for each in zip(*rows, strict=True)] for way, rows in found.items()}


if __name__ == "__main__":
    main()
