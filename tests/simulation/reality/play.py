"""Predicts a case, and then carries it out with real clients on a real Kafka.

Members join, the group is described, kgm predicts from that snapshot, the plan is carried out, and once the group is
stable it is described again. Generations, epochs and target assignments are read from `__consumer_offsets`, where the
coordinator writes each of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from kgm.client import connect
from kgm.model.assignment import moves
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.group import live_group
from kgm.records.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kgm.records.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, WhatIf
from tests.kafka.members import JavaMembers, RdMembers
from tests.simulation.reality.case import Case, Outcome, Stop
from tests.simulation.reality.real_group import NotFormedError, RealGroup, Terms, group_values, in_formed_group

_ATTEMPTS = 3


@contextlib.contextmanager
def played(
    kafka: Any,
    cases: Sequence[Case],
    terms: Terms,
    *,
    threads: int,
    configure: Callable[[Any, str], None] = lambda _kafka, _group_id: None,
) -> Iterator[dict[Case, Future[Outcome]]]:
    """All cases, carried out on one broker, several at a time, each with a group of its own. configure: called with the
    id of each group before the group has members."""
    counts = {case.partitions for case in cases}
    kafka.create_topics({f"{name}-{count}": count for name in terms.topics for count in counts})
    with JavaMembers(kafka.bootstrap) as java, ThreadPoolExecutor(threads) as pool:
        first = {"group": "first-of-its-jvm", "topics": [f"{terms.topics[0]}-{cases[0].partitions}"]}
        java.start(**first, protocol=terms.protocol).wait_event("started", timeout_s=60)
        groups = {case: f"{terms.prefix}-{number}" for number, case in enumerate(cases)}
        futures = {
            case: pool.submit(play, case, kafka, java, terms, group_id, configure) for case, group_id in groups.items()
        }
        wait(futures.values())  # the tests' computations would disturb cases that are still running
        yield futures


def play(
    case: Case, kafka: Any, java: JavaMembers, terms: Terms, group_id: str, configure: Callable[[Any, str], None]
) -> Outcome:
    """Predict the case, then carry it out. If the machine is so busy that the broker refuses or loses a member before
    the prediction, another group is formed."""

    def play_in(name: str) -> Outcome:
        configure(kafka, name)
        return _play_once(case, kafka, java, terms, name)

    return in_formed_group(play_in, group_id, attempts=_ATTEMPTS)


def _play_once(case: Case, kafka: Any, java: JavaMembers, terms: Terms, group_id: str) -> Outcome:
    with contextlib.ExitStack() as stack:
        pools: dict[str, RdMembers | JavaMembers] = {"java": java}
        if case.kind != "java":
            pools["rd"] = stack.enter_context(RdMembers(kafka.bootstrap))
        is_classic = case.migrate or terms.protocol == "classic"
        group = RealGroup(case, kafka, pools, terms, group_id, is_classic)
        for position in case.who if case.stop is Stop.CRASH and not is_classic else ():
            if group.pool_of(position) is java:
                group.own[position] = stack.enter_context(JavaMembers(kafka.bootstrap))
        try:
            return _play(group)
        finally:
            for position, member in group.alive.items():
                if group.pool_of(position) is java:
                    member.send("close-remain")


def _play(group: RealGroup) -> Outcome:
    group.form()
    before, plan = _planned(group)
    prediction = simulate(before, plan)
    first = latest_generation(group_values(group))
    group.is_classic = group.terms.protocol == "classic"
    started = time.monotonic()
    after = group.carry_out()
    ended = time.monotonic()
    time.sleep(0.2)
    generations, rebalances = counted(group_values(group), first)
    owners = {m.identity: {t: tuple(p) for t, p in m.assignment.items() if p} for m in after.members}
    return Outcome(
        before=before,
        plan=plan,
        prediction=prediction,
        restarts_ms=tuple(group.restarts_ms),
        retries_ms=tuple(group.retries_ms),
        generations=generations,
        rebalances=rebalances,
        moved_partitions=len(moves({m.identity: m.assignment for m in before.members}, owners)),
        handovers=group.handovers(started),
        refused=group.refused,
        final=owners,
        stopped_partition_ms=group.stopped_ms(started, ended),
        story=group.story(started),
    )


def _planned(group: RealGroup) -> tuple[GroupSnapshot, Plan]:
    """The group and the plan as `kgm simulate-bounce GROUP` has them. Only for a classic group is kgm given the
    timeouts, as by an operator who has no right to read the log."""
    case, terms = group.case, group.terms
    with connect(group.kafka.bootstrap, timeout_ms=20_000) as cluster:
        live = live_group(cluster, group.group_id)
    if {member.member_id for member in live.snapshot.members} != {one.member_id for one in group.alive.values()}:
        raise NotFormedError(f"{case}: the members have changed before the plan: {live.snapshot.members}")
    identity = group.identities(live.snapshot)
    what_if = WhatIf(freed=case.freed)
    if terms.protocol == "classic":
        what_if = replace(what_if, session_timeout_ms=terms.session_ms, rebalance_timeout_ms=terms.rebalance_ms)
    return live.snapshot, Plan(
        bounce=tuple(identity[position] for position in case.who),
        scale_in=tuple(identity[position] for position in case.scale_in),
        remove=tuple(identity[position] for position in case.remove),
        scale_out=case.scale_out,
        rolling=case.rolling,
        restart_time_ms=case.restart_ms,
        stop=case.stop,
        retry_every_ms=case.retry_ms,
        migrate=case.migrate,
        heartbeat_interval_ms=terms.heartbeat_ms if group.is_classic and case.tell_heartbeat else None,
        what_if=what_if,
        settings=live.broker_settings,
        kafka_version=terms.kafka_version,
    )


def latest_generation(values: Sequence[object]) -> int:
    """The last generation of a classic group, or the last epoch of a consumer group, from its records."""
    generations = [value.generation for value in values if isinstance(value, GroupMetadataValue)]
    return max([*generations, *(value.epoch for value in values if isinstance(value, ConsumerGroupMetadataValue))])


def counted(values: Sequence[object], first: int) -> tuple[int, int]:
    """By how much the counter of generations and epochs has risen since `first`, and how many rebalances (target
    assignments) there were, by all records of a group.

    A classic group that has emptied before it becomes a consumer group is another group then, and counts from 1."""
    classic = [value for value in values if isinstance(value, GroupMetadataValue)]
    epochs = {value.epoch for value in values if isinstance(value, ConsumerGroupMetadataValue)}
    targets = {
        value.assignment_epoch for value in values if isinstance(value, ConsumerGroupTargetAssignmentMetadataValue)
    }
    rounds = {value.generation for value in classic if value.members}
    last = classic[-1].generation if classic else first
    is_new_group = bool(classic) and not classic[-1].members
    before_epochs = 0 if is_new_group else max([first, *rounds])
    rebalances = sum(generation > first for generation in rounds) + sum(epoch > before_epochs for epoch in targets)
    if not epochs:
        return last - first, rebalances
    return last - first + max(epochs) - (1 if is_new_group else last), rebalances
