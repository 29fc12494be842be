"""Carries out a plan on consumer groups (KIP-848) of a real Kafka with real clients: `reality` for the other protocol.

The broker says how long a session is and how often members heartbeat; so each group is given short ones of its own, and
kgm has to find that out by itself, as `kgm simulate-bounce GROUP` does. Epochs and target assignments are read from
`__consumer_offsets`. A client that the broker refuses (UNRELEASED_INSTANCE_ID) has ended, as in a real application."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kgm.cli.commands.simulate_bounce import GROUP_SETTINGS, in_force
from kgm.client import connect
from kgm.client.group_record import completed_from_log
from kgm.model.assignment import moves
from kgm.model.errors import NotFoundError
from kgm.model.snapshot import GroupSnapshot
from kgm.records.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kgm.records.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, Stop, WhatIf
from kgm.simulation.report.prediction import Prediction
from tests.kafka.members import JavaMembers, RdMembers
from tests.simulation.reality.classic import Case, Group, group_rows, remove, stopped_ms, story

SESSION_MS = 5_000
HEARTBEAT_MS = 500
_REFUSALS = ("UNRELEASED_INSTANCE_ID", "GROUP_ID_NOT_FOUND")
_NOT_UPGRADED = "group id does not exist"
TOO_LATE_MS = 2_000
_USUAL_START_MS = 500
_ATTEMPTS = 3
_java_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What really happened. owners are identities. late_ms: how much longer than usual a process took to start."""

    epochs: int
    targets: int  # and, before a classic group has become a consumer group, its generations
    moved_partitions: int
    refused: int
    final: Mapping[str, Mapping[str, tuple[int, ...]]]
    stopped_partition_ms: int
    late_ms: int
    story: tuple[str, ...]


@dataclass(slots=True)
class EpochGroup(Group):
    """The members of one case, by seat. Those that were refused are not alive. own: a static Java consumer that is to
    be killed has a JVM of its own, the first time."""

    own: dict[int, JavaMembers] = field(default_factory=dict)
    is_classic: bool = False
    refused: int = 0
    refused_at_s: dict[int, float] = field(default_factory=dict)
    asked_at_s: dict[str, float] = field(default_factory=dict)

    @property
    def topics(self) -> list[str]:
        names = (f"epoch-{self.case.partitions}", f"other-{self.case.partitions}")
        return list(names[: self.case.topics])

    def pool_of(self, seat: int) -> RdMembers | JavaMembers:
        return self.own.get(seat) or Group.pool_of(self, seat)

    def start(self, seat: int) -> None:
        case = self.case
        asks_for = case.assignor if self.is_classic or not case.migrate else None
        with _java_lock:
            at_s = time.monotonic()
            member = self.pool_of(seat).start(
                group=self.group_id, topics=self.topics, instance_id=self.instance_id(seat), assignor=asks_for,
                protocol="classic" if self.is_classic else "consumer", client_id=f"app-{seat + 1}",
                session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS, max_poll_interval_ms=60_000,
            )  # fmt: skip
        self.alive[seat] = member
        self.everyone.append(member)
        self.asked_at_s[member.name] = at_s

    def wait_rest(self, *, ghosts_may_stay: bool, timeout_s: float = 100.0, quiet_s: float = 1.2) -> GroupSnapshot:
        """Until the group is Stable, its members are those alive, everything is owned once, and stays so."""
        deadline = time.monotonic() + timeout_s
        since: float | None = None
        last: tuple[Any, ...] | None = None
        while True:
            self.bury_refused()
            snapshot = self.describe()
            ids = {member.member_id for member in snapshot.members}
            live = {member.member_id for member in self.alive.values()}
            owned = sorted(partition for member in self.alive.values() for partition in member.assignment)
            everything = sorted((topic, p) for topic in self.topics for p in range(self.case.partitions))
            whole = owned == everything if self.alive else not ids
            right = live <= ids if ghosts_may_stay else live == ids
            states = ("Stable", "Reconciling") if ghosts_may_stay else ("Stable", "Empty", "Dead")
            whole = whole and not self.refused_at_s
            now = (snapshot.state, snapshot.group_epoch, sorted(ids), owned)
            if snapshot.state in states and right and whole and "" not in live:
                if now != last:
                    since, last = time.monotonic(), now
                elif since is not None and time.monotonic() - since >= quiet_s:
                    return snapshot
            else:
                since = last = None
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.case}: not at rest: {now}\n" + "\n".join(story(self, deadline - timeout_s)))
            time.sleep(0.15)

    def bury_refused(self) -> None:
        """Who was refused has ended; if the case says so it is started again after a while."""
        for seat, member in list(self.alive.items()):
            if member.fatal is not None:
                told = member.of_kind("fatal")[0].data
                assert member.fatal in _REFUSALS or _NOT_UPGRADED in told["message"], told
                self.refused += 1
                del self.alive[seat]
                if self.case.retry_ms is not None:
                    self.refused_at_s[seat] = member.of_kind("fatal")[0].at_s
        for seat, at_s in list(self.refused_at_s.items()):
            if time.monotonic() >= at_s + (self.case.retry_ms or 0) / 1000:
                del self.refused_at_s[seat]
                self.start(seat)

    def describe(self) -> GroupSnapshot:
        with connect(self.kafka.bootstrap, timeout_ms=20_000) as cluster:
            try:
                return cluster.describe_group(self.group_id, offsets=False)
            except NotFoundError:  # nobody has joined yet
                return GroupSnapshot(group_id=self.group_id, type="consumer", state="Dead")

    def late_ms(self, since_s: float) -> int:
        """How much longer than usual the slowest process since then took from being asked for to being a consumer."""
        spans = [
            member.of_kind("started")[0].at_s - self.asked_at_s[member.name]
            for member in self.everyone
            if self.asked_at_s[member.name] >= since_s and member.of_kind("started")
        ]
        return max(round(max(spans, default=0.0) * 1000) - _USUAL_START_MS, 0)

    def stop(self, seats: Sequence[int], how: Stop) -> None:
        Group.stop(self, seats, how)
        for seat in seats:
            self.own.pop(seat, None)


def play(case: Case, kafka: Any, java: JavaMembers) -> tuple[Prediction, Seen]:
    """Predict, then do it; again on a machine that was so slow to start a process that the plan was not carried out."""
    for _ in range(_ATTEMPTS):
        prediction, seen = _play_once(case, kafka, java)
        if seen.late_ms <= TOO_LATE_MS:
            break
    return prediction, seen


def _play_once(case: Case, kafka: Any, java: JavaMembers) -> tuple[Prediction, Seen]:
    with contextlib.ExitStack() as stack:
        pools: dict[str, RdMembers | JavaMembers] = {"java": java}
        if case.kind != "java":
            pools["rd"] = stack.enter_context(RdMembers(kafka.bootstrap))
        group = EpochGroup(case, kafka, pools)
        group.group_id = f"epochs-{group.group_id}"
        for seat in case.who if case.stop is Stop.CRASH else ():
            if group.pool_of(seat) is java and group.instance_id(seat) is not None:
                group.own[seat] = stack.enter_context(JavaMembers(kafka.bootstrap))
        try:
            return _play(case, kafka, group)
        finally:
            for seat, member in group.alive.items():
                if group.pool_of(seat) is java:
                    member.send("close-remain")


def _play(case: Case, kafka: Any, group: EpochGroup) -> tuple[Prediction, Seen]:
    configure(kafka, group.group_id)
    group.is_classic = case.migrate
    for seat in range(case.members):
        group.start(seat)
    before = group.wait_rest(ghosts_may_stay=False)
    if case.migrate:
        with connect(kafka.bootstrap, timeout_ms=20_000) as cluster:
            before = completed_from_log(cluster, before)
    prediction = simulate(before, plan_of(case, group, before))
    first = before.generation if case.migrate else before.group_epoch
    assert first is not None
    group.is_classic = False
    started = time.monotonic()
    after = carry_out(case, group)
    ended = time.monotonic()
    values = [row.value for row in group_rows(kafka, group.group_id)]
    classic = [value for value in values if isinstance(value, GroupMetadataValue)]
    rounds = {value.generation for value in classic if value.members}
    epochs = {value.epoch for value in values if isinstance(value, ConsumerGroupMetadataValue)}
    targets = {
        value.assignment_epoch for value in values if isinstance(value, ConsumerGroupTargetAssignmentMetadataValue)
    }
    owners = {m.identity: {t: tuple(p) for t, p in m.assignment.items() if p} for m in after.members}
    return prediction, Seen(
        epochs=_counted(epochs, first, classic),
        targets=sum(generation > first for generation in rounds)
        + sum(epoch > (0 if _begins_anew(classic) else max([first, *rounds])) for epoch in targets),
        moved_partitions=len(moves({m.identity: m.assignment for m in before.members}, owners)),
        refused=group.refused,
        final=owners,
        stopped_partition_ms=stopped_ms(group, started, ended),
        late_ms=group.late_ms(started),
        story=story(group, started),
    )


def _begins_anew(classic: Sequence[GroupMetadataValue]) -> bool:
    """Whether the members of a classic group had all gone before it became a consumer group, which is then another."""
    return bool(classic) and not classic[-1].members


def _counted(epochs: set[int], first: int, classic: Sequence[GroupMetadataValue]) -> int:
    """By how much the counter of generations and epochs rose; in a new group from 1 on."""
    last = classic[-1].generation if classic else first
    if not epochs:
        return last - first
    return last - first + max(epochs) - (1 if _begins_anew(classic) else last)


def configure(kafka: Any, group_id: str) -> None:
    """Give the group a session timeout and a heartbeat interval of its own."""
    settings = {"consumer.session.timeout.ms": SESSION_MS, "consumer.heartbeat.interval.ms": HEARTBEAT_MS}
    entries = [
        ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group_id, incremental_configs=entries)
    admin = kafka.admin()
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def plan_of(case: Case, group: EpochGroup, before: GroupSnapshot) -> Plan:
    """The plan as `kgm simulate-bounce GROUP` makes it: nothing is told but what is going to be done."""
    identity = group.identities(before)
    with connect(group.kafka.bootstrap, timeout_ms=20_000) as cluster:
        settings = in_force(cluster.group_settings(group.group_id, GROUP_SETTINGS))
    return Plan(
        bounce=tuple(identity[seat] for seat in case.who),
        scale_in=tuple(identity[seat] for seat in case.scale_in),
        remove=tuple(identity[seat] for seat in case.remove),
        scale_out=case.scale_out,
        rolling=case.rolling,
        restart_time_ms=case.restart_ms,
        stop=case.stop,
        retry_every_ms=case.retry_ms,
        migrate=case.migrate,
        heartbeat_interval_ms=HEARTBEAT_MS if case.migrate else None,  # of classic members, which no broker tells
        what_if=WhatIf(freed=case.freed),
        settings={"group.initial.rebalance.delay.ms": "0", **settings},
    )


def carry_out(case: Case, group: EpochGroup) -> GroupSnapshot:
    if case.scale_in or case.remove:
        group.stop((*case.scale_in, *case.remove), case.stop)
        if case.remove:
            remove(group, [str(group.instance_id(seat)) for seat in case.remove])
    for number in range(case.scale_out):
        group.start(case.members + number)
    for batch in batches(case):
        group.stop(batch, case.stop)
        time.sleep(case.restart_ms / 1000)
        if case.freed:
            remove(group, [str(group.instance_id(seat)) for seat in batch])
        for seat in batch:
            group.start(seat)
        if case.rolling is not None:
            group.wait_rest(ghosts_may_stay=True, quiet_s=0.5)
    return group.wait_rest(ghosts_may_stay=False)


def batches(case: Case) -> Sequence[tuple[int, ...]]:
    if case.rolling is None:
        return [case.who] if case.who else []
    size = case.rolling.max_unavailable
    return [case.who[first : first + size] for first in range(0, len(case.who), size)]
