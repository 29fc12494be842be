#!/usr/bin/env python3
"""Decode `__consumer_offsets` through Spark, beside the console consumer with Kafka's own formatters.

usage: python bench/pipeline.py [--only decode|fleet] [--commits N] [--snapshots N] [--members N] [--in-batch N]
                                [--groups N] [--rounds N] [--no-peer]
       (needs PySpark, Java 17+, and Maven for the jars)

The records of bench/history.py in four partitions: as segments (kgm's own data source), and in a topic of a real broker
(kgm's own fetch; Spark's Kafka source; and kafka-console-consumer with OffsetsMessageFormatter or GroupMetadataMessageFormatter, which
prints JSON, into /dev/null here). Both decode what the formatters print: every field of key and value. Timed is what
comes behind the start: of Spark a job into its `noop` sink, less what one like it takes for 500 records; of the console
consumer the whole process less the time that it takes for one record. Both JVMs still warm up within that, so it is
given for the first N records and for the N that follow those (2N less N, each in processes of their own).
CPU seconds and memory are those of the whole process tree, JVM and Python; shared pages count in each process. Spark
has -Xmx1g, the console consumer what its script gives it (512m). Medians of --rounds, each a process of its own.
Then a build: from the segments to every table of a store, capture and all. And what `kgm history simulate-fleet` does:
a rolling restart of every one of --groups groups with 10 dynamic members each, in this process and on Spark.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from history import NOW, SEGMENT, commits, snapshots
from processes import once

PARTITIONS = 4
HEAP_MB = 512
TICK = os.sysconf("SC_CLK_TCK")
CLASSES = {1: "OffsetsMessageFormatter", 2: "GroupMetadataMessageFormatter"}


def tree(pid):
    """Ids of a process and all below it."""
    below = {}
    for path in pathlib.Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            below.setdefault(parent, []).append(int(path.name))
    found, waiting = [], [pid]
    while waiting:
        found.append(waiting.pop())
        waiting += below.get(found[-1], [])
    return found


def used(pid):
    """(CPU seconds, of ended children too; MB resident) of a tree."""
    cpu = resident = 0
    for each in tree(pid):
        try:
            fields = pathlib.Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        cpu += sum(map(int, fields[11:15])) / TICK
        resident += int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return cpu, resident


def watched(task):
    """(wall seconds, CPU seconds, peak MB) of a task and what it sets to work."""
    peak, done = [0.0], threading.Event()

    def look():
        while not done.wait(0.2):
            peak[0] = max(peak[0], used(os.getpid())[1])

    watcher = threading.Thread(target=look)
    watcher.start()
    cpu, start = used(os.getpid())[0], time.perf_counter()
    try:
        task()
        wall, cpu = time.perf_counter() - start, used(os.getpid())[0] - cpu
    finally:
        done.set()
        watcher.join()
    return wall, cpu, max(peak[0], used(os.getpid())[1])


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
        master=asked["master"], conf=conf, jars=jars() if asked.get("kind of source") == "spark-kafka" else None
    )
    if asked["how"] == "capture":
        with tempfile.TemporaryDirectory() as out:
            start(options, source(asked["place"]))
            capture(pathlib.Path(out) / "warm", source(asked["warm"]), options=options, once=True)
            return watched(
                lambda: capture(pathlib.Path(out) / "store", source(asked["place"]), options=options, once=True)
            )
    if asked["how"] == "build":
        with tempfile.TemporaryDirectory() as out:
            start(options)
            build(pathlib.Path(out) / "warm", source=source(asked["warm"]), options=options)
            return watched(lambda: build(pathlib.Path(out) / "store", source=source(asked["place"]), options=options))
    spark = start(options, source(asked["place"]))

    def job(place):
        frame = records(spark, source(place), asked["kind"], columns=["key", "value"])
        frame.write.format("noop").mode("overwrite").save()

    job(asked["warm"])
    small_wall, small_cpu, _ = watched(lambda: job(asked["warm"]))
    wall, cpu, memory = watched(lambda: job(asked["place"]))
    return wall - small_wall, cpu - small_cpu, memory


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
    from kgm.records.batch import new_batch

    offsets, files = [0] * PARTITIONS, []
    for partition in range(PARTITIONS):
        place = folder / f"__consumer_offsets-{partition}"
        place.mkdir(parents=True)
        files.append((place / SEGMENT).open("wb"))
    for partition, pairs in batches:
        files[partition].write(new_batch(pairs, base_offset=offsets[partition], timestamp_ms=NOW))
        offsets[partition] += len(pairs)
    for file in files:
        file.close()
    return str(folder)


def produce(cluster, topic, batches, in_batch):
    """in_batch: how many records a batch has; a broker writes small ones into `__consumer_offsets`."""
    from confluent_kafka import Producer

    cluster.create_topics({topic: PARTITIONS})
    settings = {"linger.ms": 20, "batch.size": 1_000_000, "batch.num.messages": in_batch}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    for partition, pairs in batches:
        for key, value in pairs:
            while True:
                try:
                    producer.produce(topic, key=key, value=value, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
    producer.flush(120)
    return topic


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
    parser.add_argument("--commits", type=int, default=1_000_000)
    parser.add_argument("--snapshots", type=int, default=20_000)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--in-batch", type=int, default=10)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["decode", "fleet"])
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(worker(json.loads(arguments.worker))))
        return
    logs = {
        "OffsetCommit": (1, arguments.commits, lambda count: commits(count, arguments.in_batch)),
        f"GroupMetadata x {arguments.members}": (
            2, arguments.snapshots, lambda count: snapshots(count, arguments.members),
        ),
    }  # fmt: skip
    if arguments.only != "decode":
        fleets(arguments)
    if arguments.only == "fleet":
        return
    print("| records | how | wall s | k records/s | CPU s | k records/CPU s | peak MB | times the console consumer |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="kgm-bench-") as folder:
        for number, (name, (kind, count, made)) in enumerate(logs.items()):
            compare(pathlib.Path(folder) / str(number), name, kind, count, made, arguments)


def compare(folder, name, kind, count, made, arguments):
    sizes = {"warm": 500, "once": count, "twice": 2 * count}
    places = {("segments", size): write(folder / size, spread(made(number))) for size, number in sizes.items()}
    ways = {f"Spark, segments, local[{cores}]": {"how": "segments", "master": f"local[{cores}]"} for cores in (1, 2)}
    commands = None
    if arguments.no_peer:
        rows = timed(ways, places, kind, arguments.rounds, None)
    else:
        from tests.kafka.broker import KafkaCluster

        with KafkaCluster() as cluster:
            places |= {
                ("kafka", size): produce(cluster, size, spread(made(number)), arguments.in_batch)
                for size, number in sizes.items()
            }
            for what, source in (("fetch of kgm", "kafka"), ("Kafka source of Spark", "spark-kafka")):
                for cores in (1, 2):
                    ways[f"Spark, {what}, local[{cores}]"] = {
                        "how": "kafka", "kind of source": source, "master": f"local[{cores}]",
                        "bootstrap": cluster.bootstrap,
                    }  # fmt: skip
            commands = [console(cluster, "twice", kind, number) for number in (1, count, 2 * count)]
            rows = timed(ways, places, kind, arguments.rounds, commands)
            captures(places, name, kind, count, cluster.bootstrap, arguments.rounds)
    for which, heading in enumerate(("the first", "the next")):
        peer = rows["console consumer"][which][0] if commands else None
        for way, measured in rows.items():
            wall, cpu, memory = measured[which]
            ratio = "" if peer is None else f"{peer / wall:.1f}"
            print(
                f"| {heading} {count:,} {name} | {way} | {wall:.2f} | {count / wall / 1e3:.1f} | {cpu:.2f} | "
                f"{count / cpu / 1e3:.1f} | {memory:.0f} | {ratio} |",
                flush=True,
            )
    built = spark(
        kind=kind, how="build", master="local[2]", warm=places["segments", "warm"], place=places["segments", "once"]
    )
    wall, cpu, memory = built
    print(
        f"| {count:,} {name} | build, local[2] | {wall:.2f} | {count / wall / 1e3:.1f} | {cpu:.2f} | "
        f"{count / cpu / 1e3:.1f} | {memory:.0f} | |",
    )
    one, two = (rows[f"Spark, segments, local[{cores}]"] for cores in (1, 2))
    ratios = ", ".join(f"{one[which][0] / two[which][0]:.2f}x" for which in (0, 1))
    print(f"\n{name}: local[1] -> local[2] {ratios}\n", flush=True)


def captures(places, name, kind, count, bootstrap, rounds):
    """From the topic to bronze, by both sources."""
    for source in ("kafka", "spark-kafka"):
        asked = {"how": "capture", "kind of source": source, "bootstrap": bootstrap, "master": "local[2]"}
        wall, cpu, memory = medians(
            [
                spark(kind=kind, warm=places["kafka", "warm"], place=places["kafka", "once"], **asked)
                for _ in range(rounds)
            ]
        )
        print(
            f"| {count:,} {name} | capture from {source}, local[2] | {wall:.2f} | {count / wall / 1e3:.1f} | {cpu:.2f} "
            f"| {count / cpu / 1e3:.1f} | {memory:.0f} | |",
        )


def timed(ways, places, kind, rounds, commands):
    """{way: [(wall, CPU, MB) of the first records, of the next]}, each way in turn."""
    found = {way: [] for way in (*ways, *(["console consumer"] if commands else []))}
    for _ in range(rounds):
        for way, asked in ways.items():
            source = asked["how"]
            first, both = (
                spark(kind=kind, warm=places[source, "warm"], place=places[source, size], **asked)
                for size in ("once", "twice")
            )
            found[way].append((first, (both[0] - first[0], both[1] - first[1], both[2])))
        if commands is not None:
            start, first, both = (once(command) for command in commands)
            found["console consumer"].append([
                (after[1] - before[1], after[0] - before[0], float("nan"))
                for before, after in ((start, first), (first, both))
            ])  # fmt: skip
    return {way: [medians([row[which] for row in rows]) for which in (0, 1)] for way, rows in found.items()}


if __name__ == "__main__":
    main()
