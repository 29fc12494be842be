"""Carries out a plan on a real Kafka with real clients, and says what came of it.

A case is played like this: members join, the group is described, kgm predicts from that snapshot, the plan is carried
out, and once the group is at rest it is described again. Generations are read from `__consumer_offsets`, where the
coordinator writes each one that gets an assignment (and each time the group is empty)."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kgm.client import Leaver, connect
from kgm.model.assignment import moves
from kgm.model.errors import DecodeError, NotFoundError
from kgm.model.snapshot import GroupSnapshot
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.record import Record, decode_record
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, Rolling, Stop, WhatIf
from kgm.simulation.report.prediction import Prediction
from tests.kafka.members import JavaMembers, Member, RdMembers

SESSION_MS = 6_000
HEARTBEAT_MS = 1_000
REBALANCE_MS = 60_000
_serial = itertools.count(1)
_java_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A group and what is done to it. `who`: positions of the members that bounce; likewise scale_in and remove.

    kind: "rd", "java", or "both" (librdkafka in even seats). half_dynamic: members in odd seats are dynamic. freed:
    members that were killed are removed before they start again. retry_ms: after which a refused member is started
    again. migrate: members of a classic group come back with the consumer protocol."""

    kind: str = "rd"
    static: bool = True
    assignor: str = "range"
    members: int = 3
    partitions: int = 12
    who: tuple[int, ...] = ()
    rolling: Rolling | None = None
    stop: Stop = Stop.CLEAN
    restart_ms: int = 1_500
    scale_in: tuple[int, ...] = ()
    scale_out: int = 0
    remove: tuple[int, ...] = ()
    shared_client_id: bool = False
    heartbeat_ms: int = HEARTBEAT_MS
    tell_heartbeat: bool = True
    topics: int = 1
    half_dynamic: bool = False
    freed: bool = False
    retry_ms: int | None = None
    migrate: bool = False

    def __str__(self) -> str:
        membership = "mixed" if self.half_dynamic else "static" if self.static else "dynamic"
        who = "all" if len(self.who) == self.members else f"{len(self.who)}"
        how = f"{'rolling ' if self.rolling else ''}{who} {self.stop.value} back after {self.restart_ms} ms"
        how += ", removed before" if self.freed else ""
        how += f", again every {self.retry_ms} ms" if self.retry_ms else ""
        how += ", migrating" if self.migrate else ""
        what = how if self.who else ""
        for name, value in (("in", len(self.scale_in)), ("out", self.scale_out), ("remove", len(self.remove))):
            what += f" {name} {value}" if value else ""
        return (
            f"{self.kind} {membership} {self.assignor} {self.members}x{self.topics * self.partitions}: {what.strip()}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What really happened. owners are identities."""

    generations: int
    rebalances: int
    moved_partitions: int
    final: dict[str, dict[str, tuple[int, ...]]]
    stopped_partition_ms: int
    story: tuple[str, ...] = ()


@dataclass(slots=True)
class Group:
    """The members of one case, by seat."""

    case: Case
    kafka: Any
    pools: dict[str, RdMembers | JavaMembers]
    group_id: str = field(default_factory=lambda: f"bounce-{next(_serial)}")
    alive: dict[int, Member] = field(default_factory=dict)
    everyone: list[Member] = field(default_factory=list)

    @property
    def topics(self) -> list[str]:
        names = (f"bounce-{self.case.partitions}", f"again-{self.case.partitions}")
        return list(names[: self.case.topics])

    def instance_id(self, seat: int) -> str | None:
        dynamic = not self.case.static or (self.case.half_dynamic and seat % 2 == 1)
        return None if dynamic else f"app-{seat + 1}"

    def pool_of(self, seat: int) -> RdMembers | JavaMembers:
        if self.case.kind == "both":
            return self.pools["java" if seat % 2 else "rd"]
        return self.pools[self.case.kind]

    def start(self, seat: int) -> None:
        case = self.case
        with _java_lock:
            member = self.pool_of(seat).start(
                group=self.group_id, topics=self.topics, instance_id=self.instance_id(seat), assignor=case.assignor,
                client_id="app" if case.shared_client_id else f"app-{seat + 1}",
                session_timeout_ms=SESSION_MS, heartbeat_interval_ms=case.heartbeat_ms, max_poll_interval_ms=REBALANCE_MS,
            )  # fmt: skip
        self.alive[seat] = member
        self.everyone.append(member)

    def stop(self, seats: Sequence[int], how: Stop) -> None:
        """Stop them at the same time."""
        going = [self.alive.pop(seat) for seat in seats]
        threads = [threading.Thread(target=m.close if how is Stop.CLEAN else m.crash) for m in going]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def describe(self) -> GroupSnapshot:
        with connect(self.kafka.bootstrap, timeout_ms=20_000) as cluster:
            try:
                return cluster.describe_group(self.group_id, offsets=False)
            except NotFoundError:  # nobody has joined yet
                return GroupSnapshot(group_id=self.group_id, type="classic", state="Dead")

    def identities(self, snapshot: GroupSnapshot) -> dict[int, str]:
        """Seat -> identity, of those that are alive."""
        by_member_id = {member.member_id: member.identity for member in snapshot.members}
        return {seat: by_member_id[member.member_id] for seat, member in self.alive.items()}

    def wait_rest(self, *, ghosts_may_stay: bool, timeout_s: float = 100.0, quiet_s: float = 1.5) -> GroupSnapshot:
        """Until the group is Stable, its members are those alive, everything is owned once, and stays so."""
        deadline = time.monotonic() + timeout_s
        since: float | None = None
        last: tuple[Any, ...] | None = None
        while True:
            snapshot = self.describe()
            ids = {member.member_id for member in snapshot.members}
            live = {member.member_id for member in self.alive.values()}
            owned = [partition for member in self.alive.values() for partition in member.assignment]
            everything = sorted((topic, p) for topic in self.topics for p in range(self.case.partitions))
            whole = sorted(owned) == everything if self.alive else not ids
            right = live <= ids if ghosts_may_stay else live == ids
            states = ("Stable",) if self.alive else ("Empty", "Dead")
            now = (snapshot.state, sorted(ids), sorted(owned))
            if snapshot.state in states and right and (whole or ghosts_may_stay) and "" not in live:
                if now != last:
                    since, last = time.monotonic(), now
                elif since is not None and time.monotonic() - since >= quiet_s:
                    return snapshot
            else:
                since = last = None
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.case}: not at rest: {now}")
            time.sleep(0.15)


def play(case: Case, kafka: Any, java: JavaMembers | None = None) -> tuple[Prediction, Seen]:
    """Predict, then do it."""
    with contextlib.ExitStack() as stack:
        pools: dict[str, RdMembers | JavaMembers] = {}
        if case.kind != "rd":
            pools["java"] = java if java is not None else stack.enter_context(JavaMembers(kafka.bootstrap))
        if case.kind != "java":
            pools["rd"] = stack.enter_context(RdMembers(kafka.bootstrap))
        group = Group(case, kafka, pools)
        try:
            return _play(case, kafka, group)
        finally:
            for seat, member in group.alive.items():
                if group.pool_of(seat) is java:
                    member.send("close-remain")


def _play(case: Case, kafka: Any, group: Group) -> tuple[Prediction, Seen]:
    for seat in range(case.members):
        group.start(seat)
    before = group.wait_rest(ghosts_may_stay=False)
    identity = group.identities(before)
    plan = plan_of(case, identity)
    prediction = simulate(before, plan)
    generation = last_generation(kafka, group.group_id)
    started = time.monotonic()
    after = carry_out(case, group)
    ended = time.monotonic()
    time.sleep(0.2)
    found = [value for value in group_records(kafka, group.group_id) if value.generation > generation]
    reached = sorted({value.generation for value in found if value.members})
    owners = {m.identity: {t: tuple(p) for t, p in m.assignment.items() if p} for m in after.members}
    return prediction, Seen(
        generations=max((value.generation for value in found), default=generation) - generation,
        rebalances=len(reached),
        moved_partitions=len(moves({m.identity: m.assignment for m in before.members}, owners)),
        final=owners,
        stopped_partition_ms=stopped_ms(group, started, ended),
        story=story(group, started),
    )


def plan_of(case: Case, identity: dict[int, str]) -> Plan:
    return Plan(
        bounce=tuple(identity[seat] for seat in case.who),
        scale_in=tuple(identity[seat] for seat in case.scale_in),
        remove=tuple(identity[seat] for seat in case.remove),
        scale_out=case.scale_out,
        rolling=case.rolling,
        restart_time_ms=case.restart_ms,
        stop=case.stop,
        heartbeat_interval_ms=case.heartbeat_ms if case.tell_heartbeat else None,
        what_if=WhatIf(session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS),
        settings={"group.initial.rebalance.delay.ms": "0"},
    )


def carry_out(case: Case, group: Group) -> GroupSnapshot:
    if case.scale_in or case.remove:
        removed = [group.instance_id(seat) or group.alive[seat].member_id for seat in case.remove]
        group.stop((*case.scale_in, *case.remove), case.stop)
        if removed:
            remove(group, removed)
    for number in range(case.scale_out):
        group.start(case.members + number)
    if case.rolling is None and case.who:
        group.stop(case.who, case.stop)
        time.sleep(case.restart_ms / 1000)
        for seat in case.who:
            group.start(seat)
    elif case.rolling is not None:
        size = case.rolling.max_unavailable
        for first in range(0, len(case.who), size):
            batch = case.who[first : first + size]
            group.stop(batch, case.stop)
            time.sleep(case.restart_ms / 1000)
            for seat in batch:
                group.start(seat)
            group.wait_rest(ghosts_may_stay=True, quiet_s=0.5)
            time.sleep(case.rolling.pause_ms / 1000)
    return group.wait_rest(ghosts_may_stay=False)


def remove(group: Group, identities: Sequence[str]) -> None:
    """What `kgm remove-members` sends: static members by instance id alone."""
    with connect(group.kafka.bootstrap, timeout_ms=20_000) as cluster:
        static = {group.instance_id(seat) for seat in range(group.case.members)}
        leavers = [Leaver(group_instance_id=name) if name in static else Leaver(member_id=name) for name in identities]
        cluster.leave_group(group.group_id, leavers, reason="test", deadline=cluster.deadline)


def group_records(kafka: Any, group_id: str) -> Iterator[GroupMetadataValue]:
    """Every record of a classic group itself in `__consumer_offsets`, in order."""
    for row in group_rows(kafka, group_id):
        if isinstance(row.key, GroupMetadataKey) and row.value is not None:
            yield row.value


def group_rows(kafka: Any, group_id: str) -> Iterator[Record]:
    """Every record of the group in `__consumer_offsets`, in order."""
    reader = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 2}
    )
    try:
        topic = "__consumer_offsets"
        ends = {}
        for partition in reader.list_topics(topic, timeout=10).topics[topic].partitions:
            _, high = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            if high:
                ends[partition] = high
        reader.assign([TopicPartition(topic, partition, 0) for partition in ends])
        while ends:
            message = reader.poll(10)
            assert message is not None, "the log ends early"
            assert message.error() is None, message.error()
            if message.offset() + 1 >= ends.get(message.partition(), 1 << 60):
                ends.pop(message.partition(), None)
            with contextlib.suppress(DecodeError):
                record = decode_record(message.key(), message.value())
                if group_id in (getattr(record.key, "group", None), getattr(record.key, "group_id", None)):
                    yield record
    finally:
        reader.close()


def last_generation(kafka: Any, group_id: str) -> int:
    return max(value.generation for value in group_records(kafka, group_id))


def stopped_ms(group: Group, started: float, ended: float) -> int:
    """How long nobody consumed the partitions, added up, by what the members themselves say."""
    total = 0.0
    for partition in ((topic, p) for topic in group.topics for p in range(group.case.partitions)):
        spans = []
        for member in group.everyone:
            since = None
            for event in member.events:
                has = partition in event.assignment and event.kind not in ("closed", "fatal")
                if has and since is None:
                    since = event.at_s
                elif not has and since is not None:
                    spans.append((since, event.at_s))
                    since = None
            if since is not None:
                gone = member.events[-1].at_s if member not in group.alive.values() else ended
                spans.append((since, gone))
        covered = started
        for since, until in sorted(spans):
            if until <= covered:
                continue
            total += max(since - covered, 0.0)
            covered = until
        total += max(ended - covered, 0.0) if covered < ended and group.alive else 0.0
    return round(total * 1000)


def story(group: Group, started: float) -> tuple[str, ...]:
    rows = []
    for member in group.everyone:
        for event in member.events:
            if event.at_s >= started - 0.5 and event.kind != "polled":
                at = round((event.at_s - started) * 1000)
                owned = sorted(p for _, p in event.assignment)
                rows.append((at, f"{at} {member.name} {event.kind} {owned} {event.data.get('error', '')}"))
    return tuple(text for _, text in sorted(rows))


__all__ = ["Case", "Rolling", "Seen", "Stop", "play", "replace"]
