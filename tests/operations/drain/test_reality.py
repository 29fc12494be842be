"""The forecast for 20 groups on four hosts, and what then happens on a real Kafka with real clients.

The members of each host connect from an address of its own. One host crashes, whose members run in one JVM, then another
one is shut down cleanly. Each time every group that has members there has to come out as predicted, and no other group may
change."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from kgm.client import connect
from kgm.model.assignment import moves
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.group import live_group
from kgm.operations.drain.fleet import DrainedFleet, live_fleet
from kgm.operations.drain.forecast import Drain, DrainForecast, forecast
from kgm.operations.drain.target import DrainTarget
from kgm.simulation.plan.bounce_plan import Stop
from kgm.simulation.report.prediction import Prediction, Range
from tests.client.faults import FaultProxy
from tests.kafka.members import JavaMember, JavaMembers
from tests.selection import sized
from tests.simulation.reality.case import Case
from tests.simulation.reality.play import counted, latest_generation
from tests.simulation.reality.real_group import RealGroup, Terms, values_by_group

pytestmark = pytest.mark.shows("drain")

HOSTS = ("127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14")
CRASHED, SHUT_DOWN = HOSTS[2], HOSTS[1]
GROUPS, PARTITIONS = sized(12, 20), 13
CLASSIC = Terms(
    prefix="drain", protocol="classic", topics=("drain", "again"), session_ms=6_000, heartbeat_ms=1_000,
    rebalance_ms=60_000, quiet_s=1.5,
)  # fmt: skip
CONSUMER = Terms(
    prefix="drain", protocol="consumer", topics=("drain", "again"), session_ms=6_000, heartbeat_ms=300,
    rebalance_ms=60_000, quiet_s=1.5,
)  # fmt: skip
_CLASSIC_ASSIGNORS = ("range", "roundrobin", "cooperative-sticky")
_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What was foreseen when a host was drained, and what came of it, by group."""

    forecast: DrainForecast
    before: Mapping[str, GroupSnapshot]
    after: Mapping[str, GroupSnapshot]
    generations: Mapping[str, int]
    rebalances: Mapping[str, int]
    handovers: Mapping[str, int]
    stories: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class HostMembers:
    """Members of a JVM that connect through a host's proxy."""

    jvm: JavaMembers
    bootstrap: str

    def start(self, **options: Any) -> JavaMember:
        return self.jvm.start(**options, config={"bootstrap.servers": self.bootstrap})


def hosts_of(number: int) -> tuple[str, ...]:
    """From one member up to five; each host has all the members of some groups."""
    return tuple(HOSTS[(number + position) % len(HOSTS)] for position in range(1 + number % 5))


@contextlib.contextmanager
def running_groups(kafka) -> Iterator[tuple[list[RealGroup], Mapping[str, HostMembers]]]:
    """The groups, stable, and the members of each host."""
    kafka.create_topics({f"drain-{PARTITIONS}": PARTITIONS})
    address = ("127.0.0.1", kafka.port)
    with contextlib.ExitStack() as stack:
        stay, crash = (stack.enter_context(JavaMembers(kafka.bootstrap)) for _ in range(2))
        on_host = {}
        for host in HOSTS:
            proxy = stack.enter_context(FaultProxy(address, source=host))
            on_host[host] = HostMembers(crash if host == CRASHED else stay, proxy.bootstrap)
        groups = []
        for number in range(GROUPS):
            hosts, terms = hosts_of(number), CONSUMER if number % 4 == 3 else CLASSIC
            assignor = "uniform" if terms is CONSUMER else _CLASSIC_ASSIGNORS[number % 3]
            case = Case(
                kind="java", static=bool(number // 2 % 2), assignor=assignor, members=len(hosts), partitions=PARTITIONS
            )
            own = {position: on_host[host] for position, host in enumerate(hosts)}
            groups.append(RealGroup(case, kafka, {}, terms, f"drain-{number}", is_classic=terms is CLASSIC, own=own))
            for position in range(case.members):
                groups[-1].start(position)
        settle(groups)
        yield groups, on_host


def settle(groups: Sequence[RealGroup]) -> dict[str, GroupSnapshot]:
    """Wait until all groups are stable without those that have stopped."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        stable = pool.map(lambda group: group.wait_stable(with_lingering=True), groups)
        return {snapshot.group_id: snapshot for snapshot in stable}


def drained(kafka, groups: Sequence[RealGroup], members: HostMembers, host: str, how: Stop) -> Drained:
    """Foresee what the drain does, and do it."""
    fleet = read(kafka, host)
    foreseen = forecast(fleet, Drain(target=DrainTarget(hosts=(host,)), stop=how), draws=sized(20, 40))
    written = values_by_group(kafka.bootstrap, "drain-")
    started_s = time.monotonic()
    going = [(group, position) for group in groups for position, pool in group.own.items() if pool is members]
    stopping = [group.alive.pop(position) for group, position in going]
    if how is Stop.CRASH:
        members.jvm.crash()
    else:
        for member in stopping:
            member.send("close")
        for member in stopping:
            member.wait_event("closed", "fatal")
    after = settle(groups)
    now_written = values_by_group(kafka.bootstrap, "drain-")
    counts = {id_: counted(now_written[id_], latest_generation(written[id_])) for id_ in after}
    return Drained(
        forecast=foreseen,
        before={group.group_id: group for group in fleet.described},
        after=after,
        generations={group_id: generations for group_id, (generations, _) in counts.items()},
        rebalances={group_id: rebalances for group_id, (_, rebalances) in counts.items()},
        handovers={group.group_id: group.handovers(started_s) for group in groups},
        stories={group.group_id: group.story(started_s) for group in groups},
    )


def read(kafka, host: str) -> DrainedFleet:
    """Groups that are read in bulk are what they are when they are read one by one."""
    with connect(kafka.bootstrap, timeout_ms=60_000) as cluster:
        fleet = live_fleet(cluster, DrainTarget(hosts=(host,)))
        first, last = fleet.affected[0], fleet.affected[-1]
        assert [first, last] == [live_group(cluster, one.snapshot.group_id) for one in (first, last)]
    sessions = {one.snapshot.session_timeout_ms for one in fleet.affected}
    assert sessions == {CLASSIC.session_ms}, "which are in the log of the coordinator"
    return fleet


@pytest.fixture(scope="module")
def drains(kafka) -> dict[str, Drained]:
    with running_groups(kafka) as (groups, on_host):
        return {
            CRASHED: drained(kafka, groups, on_host[CRASHED], CRASHED, Stop.CRASH),
            SHUT_DOWN: drained(kafka, groups, on_host[SHUT_DOWN], SHUT_DOWN, Stop.CLEAN),
        }


def within(prediction: Prediction, name: str, seen: int) -> bool:
    if prediction.ranges is None:
        return bool(getattr(prediction.typical, name) == seen)
    drawn: Range = getattr(prediction.ranges, name)
    return drawn.min <= seen <= drawn.max


@pytest.mark.scenes
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(900)
@pytest.mark.parametrize("host", [CRASHED, SHUT_DOWN])
def test_each_group_comes_out_as_predicted(host: str, drains: dict[str, Drained]):
    drain = drains[host]
    assert drain.forecast.unpredicted == ()
    for one in drain.forecast.groups:
        id_, prediction = one.group.group_id, one.prediction
        story = (id_, one.taken, drain.stories[id_])
        owned = {member.identity: member.assignment for member in drain.after[id_].members}
        moved = moves({member.identity: member.assignment for member in drain.before[id_].members}, owned)
        assert owned.keys() == {member.identity for member in one.group.members} - {*one.taken}, story
        assert one.members_left == len(owned), story
        assert one.prediction.unowned_partitions == (0 if owned else PARTITIONS), story
        assert within(prediction, "generations", drain.generations[id_]), story
        assert within(prediction, "rebalances", drain.rebalances[id_]), story
        assert within(prediction, "moved_partitions", len(moved)), story
        assert within(prediction, "handovers", drain.handovers[id_]), story
        if prediction.exact:
            final = {who: {t: tuple(p) for t, p in have.items() if p} for who, have in owned.items()}
            assert final == prediction.typical.final_assignment, story


@pytest.mark.scenes
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(900)
@pytest.mark.parametrize("host", [CRASHED, SHUT_DOWN])
def test_the_groups_that_are_foreseen_are_those_that_change(host: str, drains: dict[str, Drained]):
    drain = drains[host]
    foreseen = {one.group.group_id for one in drain.forecast.groups}
    there = {f"drain-{number}" for number in range(GROUPS) if host in hosts_of(number)}
    assert foreseen == there
    for id_ in drain.after.keys() - foreseen:
        assert (drain.generations[id_], drain.rebalances[id_], drain.handovers[id_]) == (0, 0, 0)
        assert drain.after[id_].members == drain.before[id_].members
    assert any(one.is_emptied for one in drain.forecast.groups)
    assert sum(one.prediction.exact for one in drain.forecast.groups) >= len(foreseen) / 2, "a range says less"
