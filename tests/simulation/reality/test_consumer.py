"""Predictions for consumer groups (KIP-848) held against what a real Kafka and real clients then did.

Epochs, target assignments and moved partitions must be equal where the prediction is exact, and inside its ranges where
it is not; refused clients must have been predicted; partitions must have stood still about as long as it says. All cases
are played at the same time on one broker, each a group of its own."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.kafka.members import JavaMembers
from tests.simulation.reality.classic import Case, Rolling, Stop
from tests.simulation.reality.consumer import HEARTBEAT_MS, play

ALL = (0, 1, 2)
LATE_MS = 7_000
"""Beyond the session timeout of the groups, 5 s."""

CASES = [
    # static members that say that they will be back (epoch -2), and are: nothing happens
    Case(static=True, assignor="uniform", who=(1,)),
    Case(kind="java", static=True, assignor="range", who=ALL, rolling=Rolling(), restart_ms=1_000, partitions=13),
    Case(kind="both", static=True, assignor="uniform", who=ALL, partitions=13),
    # static members that are killed: refused until the session ends, or freed by a removal
    Case(static=True, assignor="uniform", who=(0,), stop=Stop.CRASH),
    Case(static=True, assignor="uniform", who=(1,), stop=Stop.CRASH, retry_ms=1_500),
    Case(kind="java", static=True, assignor="range", who=(0,), stop=Stop.CRASH, partitions=13),
    Case(static=True, assignor="uniform", who=(0,), stop=Stop.CRASH, freed=True),
    # static members that are back too late, stay away, are removed, or come
    Case(static=True, assignor="uniform", who=(0,), restart_ms=LATE_MS, partitions=13),
    Case(kind="java", static=True, assignor="uniform", members=4, scale_in=(1, 3), partitions=17),
    Case(static=True, assignor="range", members=4, remove=(1, 2), partitions=17),
    Case(kind="java", static=True, assignor="uniform", scale_out=2, partitions=17),
    # dynamic members
    Case(static=False, assignor="uniform", who=(1,)),
    Case(kind="java", static=False, assignor="range", who=ALL, rolling=Rolling(), restart_ms=1_000, partitions=13),
    Case(kind="java", static=False, assignor="uniform", who=ALL, partitions=13),
    Case(static=False, assignor="uniform", who=(1,), stop=Stop.CRASH),
    Case(kind="java", static=False, assignor="uniform", members=4, scale_in=(1, 3), partitions=17),
    Case(kind="java", static=False, assignor="range", who=(0,), restart_ms=LATE_MS, partitions=13),
    # members of a classic group that come back with the new protocol; one that the broker does not upgrade
    Case(static=True, assignor="range", who=ALL, rolling=Rolling(), restart_ms=500, partitions=13, migrate=True),
    Case(
        kind="java",
        static=False,
        assignor="cooperative-sticky",
        who=ALL,
        rolling=Rolling(),
        restart_ms=500,
        partitions=13,
        migrate=True,
    ),
    Case(static=False, assignor="cooperative-sticky", who=(0,), restart_ms=500, migrate=True),
    # static and dynamic ones, of both libraries, two topics
    Case(kind="both", assignor="uniform", members=5, half_dynamic=True, who=(1, 2), partitions=13),
    Case(kind="both", assignor="range", members=4, half_dynamic=True, who=(0, 3), partitions=13, topics=2),
    # two topics, which the broker takes in the order of a hash map of their ids
    Case(static=True, assignor="uniform", members=4, who=(0,), restart_ms=LATE_MS, partitions=13, topics=2),
    Case(kind="java", static=True, assignor="uniform", members=5, remove=(1, 2), partitions=17, topics=2),
    Case(kind="java", static=False, assignor="uniform", members=4, who=(2,), partitions=17, topics=2),
    Case(static=True, assignor="uniform", members=4, scale_in=(0,), partitions=12, topics=2),
]


@pytest.fixture(scope="module")
def played(kafka):
    """Every case under way on one broker, some at a time."""
    counts = {case.partitions for case in CASES}
    topics = {f"{name}-{count}": count for name in ("epoch", "other") for count in counts}
    kafka.create_topics(topics)
    with JavaMembers(kafka.bootstrap) as java, ThreadPoolExecutor(6) as pool:
        java.start(group="epochs-first", topics=["epoch-12"], protocol="consumer").wait_event("started", timeout_s=60)
        yield {case: pool.submit(play, case, kafka, java) for case in CASES}


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_prediction_held(case: Case, played: dict[Case, Future]):
    prediction, seen = played[case].result()
    typical, ranges, told = prediction.typical, prediction.ranges, "\n".join(seen.story)
    spread = 0 if case.retry_ms is None else 1  # one more if the session ends just after a start
    assert abs(seen.refused - typical.refused_joins) <= spread, told
    happened = (seen.epochs, seen.targets, seen.moved_partitions)
    if ranges is None:
        assert happened == (typical.generations, typical.rebalances, typical.moved_partitions), told
        owned = {who: {t: tuple(p) for t, p in topics.items() if p} for who, topics in typical.final_assignment.items()}
        assert seen.final == owned
        least = most = typical.stopped_partition_ms
    else:
        for predicted, value in zip(
            (ranges.generations, ranges.rebalances, ranges.moved_partitions), happened, strict=True
        ):
            assert predicted.min <= value <= predicted.max, told
        # A range that says everything says nothing: epochs are certain, generations before a migration almost.
        assert ranges.generations.max - ranges.generations.min <= case.migrate
        assert ranges.rebalances.max - ranges.rebalances.min <= case.members
        least, most = ranges.stopped_partition_ms.min, ranges.stopped_partition_ms.max
    # Each partition may stand still for as long again as this machine was slower than a process usually is.
    slack = case.partitions * case.topics * (1_000 + seen.late_ms) * (len(case.who) if case.rolling else 1)
    # A member hears of what it gets with its next heartbeat, which may be due at once.
    sooner = typical.moved_partitions * HEARTBEAT_MS / 2
    assert 0.7 * least - sooner - 1_000 <= seen.stopped_partition_ms <= 1.3 * most + slack, told


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(1200)
def test_predictions_for_static_members_that_say_that_they_will_be_back_are_exact(played: dict[Case, Future]):
    static = [case for case in CASES if case.static and not case.half_dynamic and not case.migrate]
    in_time = [case for case in static if case.who and case.restart_ms < LATE_MS and case.stop is Stop.CLEAN]
    assert len(in_time) == 3
    assert [case for case in in_time if played[case].result()[0].exact] == in_time
