"""A broker deletes groups that it finds empty and without committed offsets. Predictions for groups that are empty for
a while know that, and whether the group has offsets; held against a real Kafka that looks twice a second."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from kgm.client import connect
from kgm.operations.bounce.group import live_group
from kgm.protocol.struct import Message
from kgm.records.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, WhatIf
from kgm.simulation.simulation import Simulation
from tests.kafka.broker import KafkaCluster
from tests.kafka.members import Member, RdMembers
from tests.selection import sized
from tests.simulation.reality.real_group import values_by_group
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(300)]

SESSION_MS, HEARTBEAT_MS = 6_000, 500
TOPIC, PARTITIONS = "kept", 6
#: Far longer than the time between two looks of the broker.
AWAY_S = 4.0


@pytest.fixture(scope="module")
def hasty() -> Iterator[KafkaCluster]:
    settings = {
        "offsets.retention.check.interval.ms": "500",
        "group.initial.rebalance.delay.ms": "1000",
        "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    }
    with KafkaCluster(properties=settings) as cluster:
        cluster.create_topics({TOPIC: PARTITIONS})
        yield cluster


def _start(pool: RdMembers, group_id: str, protocol: str, name: str) -> Member:
    return pool.start(
        group=group_id, topics=[TOPIC], protocol=protocol, client_id=name,
        assignor="range" if protocol == "classic" else None,
        session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS,
    )  # fmt: skip


def _wait_for_owners(members: Sequence[Member]) -> None:
    """Each partition has a consumer, and each member partitions."""
    share = PARTITIONS // len(members)
    until(
        lambda: [len(member.assignment) for member in members],
        "an assignment",
        accept=lambda owned: owned == [share] * len(members),
    )


def _counters(values: Sequence[Message | None]) -> list[int]:
    """Generations, or group epochs, in the order in which they were written."""
    generations = [one.generation for one in values if isinstance(one, GroupMetadataValue)]
    return generations or [one.epoch for one in values if isinstance(one, ConsumerGroupMetadataValue)]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("protocol", "has_offsets"),
    sized([("classic", True), ("consumer", False)], [*itertools.product(["classic", "consumer"], [False, True])]),
)
def test_a_group_that_is_empty_for_a_while(protocol: str, has_offsets: bool, hasty: KafkaCluster):
    group_id = f"{protocol}-{has_offsets}".lower()
    with RdMembers(hasty.bootstrap) as pool:
        members: list[Member] = []
        # One after the other, so that the counter stands higher than in a group that is created again.
        for name in ("one", "two", "three"):
            members.append(_start(pool, group_id, protocol, name))
            _wait_for_owners(members)
        members.pop().close()
        _wait_for_owners(members)
        if has_offsets:
            hasty.produce(TOPIC, [b"record"])
            until(lambda: any(member.commit().kind == "committed" for member in members), "a commit")
        with connect(hasty.bootstrap, timeout_ms=20_000) as cluster:
            live = live_group(cluster, group_id)
        snapshot = live.snapshot
        plan = Plan(
            bounce=tuple(member.identity for member in snapshot.members),
            restart_time_ms=round(AWAY_S * 1000),
            heartbeat_interval_ms=HEARTBEAT_MS,
            what_if=WhatIf(session_timeout_ms=SESSION_MS if protocol == "classic" else None),
            settings=live.broker_settings,
        )
        prediction = simulate(snapshot, plan)
        simulation = Simulation.of(snapshot, plan)
        drawn = [*simulation.play(40), *simulation.play_extreme(40)]
        before = _counters(values_by_group(hasty.bootstrap, group_id)[group_id])
        with ThreadPoolExecutor(len(members)) as threads:
            list(threads.map(Member.close, members))
        time.sleep(AWAY_S)  # what the plan does
        again = [_start(pool, group_id, protocol, name) for name in ("one", "two")]
        _wait_for_owners(again)
        after = _counters(values_by_group(hasty.bootstrap, group_id)[group_id])
    caveats = [text for text in prediction.caveats if "committed offsets" in text]
    assert simulation.group.has_offsets is has_offsets
    if has_offsets:
        assert not caveats
        assert all(draw.epoch_in_new_group is None for draw in drawn)
        least, most = (pick(draw.generations for draw in drawn) for pick in (min, max))
        assert least <= after[-1] - before[-1] <= most
    else:
        assert len(caveats) == 1
        assert "every 0.5 s" in caveats[0]
        assert not prediction.exact
        assert after[-1] < before[-1], "the broker has deleted the group"
        counters = [draw.epoch_in_new_group for draw in drawn]
        assert None not in counters
        assert min(counters) <= after[-1] <= max(counters)
