"""Restarts of real Connect workers, and what the groups of their sink connectors did meanwhile: played, recorded as
lines of JSON, and compared with what kgm predicts.

python -m tests.frameworks.sink_scenes (plays them on a broker of its own, and records what was seen)

A line has the groups before the restart, the plan as it was carried out, and what each group did: how many generations,
how many tasks or partitions have another owner in the end, and for a sink group the gaps during which no task had a
partition: [partition, from, to], in ms since the stop."""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kgm.client import connect
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.snapshot_json import snapshot_from_json
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.bounce.prediction import simulate
from kgm.operations.bounce.sinks import with_recorded_sinks
from kgm.simulation.connect.group import MAX_DELAY
from kgm.simulation.plan.bounce_plan import Plan, Stop
from kgm.simulation.report.prediction import Prediction, Range, SinkForecast
from tests.frameworks.connect_workers import Workers
from tests.kafka.broker import KafkaCluster
from tests.kafka.jars import KAFKA_VERSION
from tests.kafka.versions import broker_of
from tests.waiting import until

RECORDED: Final = Path(__file__).parent / "sink_scenes.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """is_leader: whether the worker that stops is the leader. away_s: seconds from its stop to its start, if stopping
    does not take longer; None: until others run its tasks. is_killed: it ends without saying so."""

    is_leader: bool = False
    away_s: float | None = 0.0
    is_killed: bool = False

    def __str__(self) -> str:
        who, how = "leader" if self.is_leader else "worker", "is killed" if self.is_killed else "stops"
        return f"{who} {how}, back {'beyond the delay' if self.away_s is None else f'after {self.away_s:g} s'}"


#: (in one JVM or not, delay, interval of the workers' heartbeats): the scenes with such workers.
SCENES: Final = {
    (True, 10_000, 300): (
        Scene(), Scene(is_leader=True), Scene(away_s=None), Scene(is_leader=True, away_s=5.0), Scene(away_s=4.0),
        Scene(is_leader=True, away_s=None),
    ),
    (False, 8_000, 3_000): (
        Scene(), Scene(is_leader=True), Scene(away_s=None), Scene(is_killed=True), Scene(is_leader=True, is_killed=True),
    ),
}  # fmt: skip


_NOT_KEPT: Final = frozenset({
    "coordinator", "offsets", "evidence", "candidates", "topic_id", "may_lack_offsets", "hidden_offset_topics",
})  # fmt: skip


def play_all(kafka: KafkaCluster, *, in_one_jvm: bool) -> list[dict[str, Any]]:
    """The lines of the scenes of one kind. Each scene begins when the one before has ended."""
    ((delay_ms, heartbeat_ms), scenes) = next((key[1:], each) for key, each in SCENES.items() if key[0] is in_one_jvm)
    name = f"sinks-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({name: 6})
    with tempfile.TemporaryDirectory(prefix="kgm-sinks-") as folder:
        workers = Workers(
            kafka.bootstrap, folder, group=name, names=("w-1", "w-2"), delay_ms=delay_ms, heartbeat_ms=heartbeat_ms,
            in_one_jvm=in_one_jvm,
        )  # fmt: skip
        try:
            for each in workers.all_ports:
                workers.start(each)
            workers.create({f"{name}-many": 4, f"{name}-alone": 1}, drains=name)
            return [play(workers, scene) for scene in scenes]
        finally:
            workers.end()


def play(workers: Workers, scene: Scene) -> dict[str, Any]:
    """Play the scene with settled workers, and wait until they are settled again. Returns its line."""
    before = workers.linked()
    group = before.snapshot
    stopping = next(one for one in group.members if (one.member_id == group.leader) is scene.is_leader)
    name, stop_ms = workers.name_of(stopping), _now_ms()
    (workers.kill if scene.is_killed else workers.stop)(name)
    if scene.away_s is None:

        def are_elsewhere() -> bool:
            now = workers.snapshot()
            return bool(now.is_settled) and len(now.members) == len(group.members) - 1

        until(are_elsewhere, f"{scene}: still held back", 120, every_s=0.3)
    else:
        time.sleep(max(stop_ms / 1000 + scene.away_s - time.time(), 0))
    start_ms = _now_ms()
    workers.start(name)
    killed = {*(stopping.work.active_tasks or ())} if scene.is_killed and stopping.work is not None else set()
    if scene.is_killed:
        _until_expired(workers, before, stopping, killed)
    after = workers.linked()
    seen = {group.group_id: _seen(group, after.snapshot, _tasks)}
    for old, new in zip(before.sinks, after.sinks, strict=True):
        gaps = until(
            lambda old=old: _gaps(workers, old.snapshot, old.connector, stop_ms, killed), "partitions are not open",
            accept=lambda found: found is not None,
        )  # fmt: skip
        seen[old.snapshot.group_id] = {**_seen(old.snapshot, new.snapshot, _partitions), "gaps": gaps}
    return {
        "scene": f"{'in one JVM' if workers.in_one_jvm else 'JVMs of their own'}: {scene}",
        "groups": [_kept(one.to_json()) for one in (group, *(sink.snapshot for sink in before.sinks))],
        "broker_settings": dict(before.sinks[0].settings),
        "plan": {
            "bounce": [stopping.identity], "stop": "crash" if scene.is_killed else "clean",
            "restart_time_ms": start_ms - stop_ms, "settings": {MAX_DELAY: str(workers.delay_ms)},
        },
        "seen": seen,
    }  # fmt: skip


def _kept(value: Any) -> Any:
    """The part of a snapshot that a prediction needs."""
    if isinstance(value, dict):
        return {key: _kept(each) for key, each in value.items() if each is not None and key not in _NOT_KEPT}
    return [_kept(each) for each in value] if isinstance(value, list) else value


def _until_expired(workers: Workers, before: BounceGroup, worker: MemberSnapshot, tasks: set[str]) -> None:
    """Wait until the sessions of a killed worker and of its tasks have ended."""
    dead = {
        task.member_id
        for sink in before.sinks for task in sink.snapshot.members
        if _task_of(task) in tasks
    }  # fmt: skip
    names = [before.snapshot.group_id, *(sink.snapshot.group_id for sink in before.sinks)]

    def living() -> set[str]:
        with connect(workers.bootstrap) as cluster:
            return {one.member_id for name in names for one in cluster.describe_group(name).members}

    until(lambda: not {*dead, worker.member_id} & living(), "a session does not end", 120, every_s=0.5)


def _seen(old: GroupSnapshot, new: GroupSnapshot, owned: Any) -> dict[str, Any]:
    now = {what: owner for member in new.members for owner, what in owned(member)}
    moved = sum(now.get(what) != owner for member in old.members for owner, what in owned(member))
    return {"generations": (new.generation or 0) - (old.generation or 0), "moved": moved}


def _tasks(worker: MemberSnapshot) -> Iterator[tuple[str | None, Any]]:
    if worker.work is not None:
        yield from ((worker.work.user_endpoint, task) for task in worker.work.active_tasks or ())


def _partitions(task: MemberSnapshot) -> Iterator[tuple[str | None, Any]]:
    for topic, numbers in task.assignment.items():
        yield from ((task.client_id, (topic, number)) for number in numbers)


def _gaps(
    workers: Workers, group: GroupSnapshot, connector: str, stop_ms: int, killed: set[str]
) -> list[list[int]] | None:  # fmt: skip
    """The gaps; None while a partition has no task yet. killed: tasks that could not report their end."""
    free_ms = {
        number: 0
        for member in group.members for numbers in member.assignment.values() for number in numbers
        if _task_of(member) in killed
    }  # fmt: skip
    found = []
    for line in sorted(workers.events.read_text().splitlines()):
        at, event, of, partition = line.split()
        at_ms, number = int(at) - stop_ms, int(partition)
        if of != connector or at_ms < 0:
            continue
        if event == "close":
            free_ms.setdefault(number, at_ms)
        elif number in free_ms:
            found.append([number, free_ms.pop(number), at_ms])
    return None if free_ms else sorted(found)


def _task_of(consumer: MemberSnapshot) -> str:
    return consumer.client_id.removeprefix("connector-consumer-")


def _now_ms() -> int:
    return round(time.time() * 1000)


def predicted(line: Mapping[str, Any], draws: int = 60) -> Prediction:
    """kgm's prediction for a line."""
    workers, *sinks = (snapshot_from_json(each) for each in line["groups"])
    group = BounceGroup(snapshot=workers)
    others = [BounceGroup(snapshot=each, broker_settings=line["broker_settings"]) for each in sinks]
    plan = {**line["plan"], "bounce": tuple(line["plan"]["bounce"]), "stop": Stop(line["plan"]["stop"])}
    return simulate(with_recorded_sinks(group, others), Plan(**plan), draws=draws)


def misses(line: Mapping[str, Any], found: Prediction) -> list[str]:
    """What happened and was not within the prediction."""
    (workers, *_), ranges = line["groups"], found.ranges
    assert ranges is not None
    seen = line["seen"][workers["group_id"]]
    told = [("generations", seen["generations"], ranges.generations), ("moved", seen["moved"], ranges.moved_partitions)]
    told = [(f"workers: {what}", value, span) for what, value, span in told]
    for sink in found.sinks:
        told += [(f"{sink.connector}: {what}", value, span) for what, value, span in _told(line, sink)]
    return [
        f"{what} is {value}, predicted {span.min} to {span.max}"
        for what, value, span in told if not span.min <= value <= span.max
    ]  # fmt: skip


def _told(line: Mapping[str, Any], sink: SinkForecast) -> Iterator[tuple[str, int, Range]]:
    """(name, seen, predicted range) of each number of a sink group."""
    seen = line["seen"][sink.group_id]
    yield "generations", seen["generations"], sink.generations
    yield "moved", seen["moved"], sink.moved_partitions
    yield "time without a task", sum(to - since for _, since, to in seen["gaps"]), sink.stopped_partition_ms
    unowned = {one.partition: one for one in sink.unowned_partitions}
    for number in sorted({*unowned, *(number for number, *_ in seen["gaps"])}):
        spans = [(since, to) for each, since, to in seen["gaps"] if each == number]
        one, never = unowned.get(number), Range(min=0, median=0, max=0)
        longest = never if one is None else one.longest_ms
        yield f"longest gap of {number}", max((to - since for since, to in spans), default=0), longest
        if spans and one is not None and one.until_ms is not None:
            yield f"end of the last gap of {number}", max(to for _, to in spans), one.until_ms


def recorded() -> list[dict[str, Any]]:
    """The recorded lines."""
    return [json.loads(line) for line in RECORDED.read_text().splitlines()]


def main() -> None:
    with broker_of(KAFKA_VERSION) as kafka, RECORDED.open("a") as file:
        for in_one_jvm in (True, False):
            for line in play_all(kafka, in_one_jvm=in_one_jvm):
                file.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
