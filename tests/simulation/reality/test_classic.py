"""Predictions for classic groups held against what a real Kafka and real clients then did.

Rebalances, generations and moved partitions must be equal where the prediction is exact, and inside its ranges where it
is not; and the ranges must say something. All cases are played at the same time, each a group of its own."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from tests.selection import sized
from tests.simulation.reality.case import Case, Outcome, Rolling, Stop, one_of_each_kind
from tests.simulation.reality.play import played
from tests.simulation.reality.real_group import Terms
from tests.simulation.reality.verdict import assert_counts, assert_stopped, predictions_for

pytestmark = pytest.mark.shows("simulate-bounce", "client librdkafka", "client java")

TERMS = Terms(
    prefix="bounce",
    protocol="classic",
    topics=("bounce", "again"),
    session_ms=6_000,
    heartbeat_ms=1_000,
    rebalance_ms=60_000,
    quiet_s=1.5,
)
ALL = (0, 1, 2)
LATE_MS = 9_000
"""Beyond the session timeout of the cases, 6 s."""

ALL_CASES = [
    # static members, back in time: nothing happens
    Case(static=True, assignor="range", who=(1,)),
    Case(static=True, assignor="range", who=(1,), stop=Stop.CRASH),
    Case(static=True, assignor="roundrobin", who=ALL, partitions=13),
    Case(static=True, assignor="cooperative-sticky", who=ALL, rolling=Rolling(), restart_ms=1000, partitions=13),
    Case(kind="java", static=True, assignor="range", who=ALL, rolling=Rolling(), restart_ms=1000, partitions=13),
    Case(kind="java", static=True, assignor="cooperative-sticky", who=(0,)),
    # static members, back too late
    Case(static=True, assignor="range", who=(0,), restart_ms=LATE_MS, partitions=13),
    Case(static=True, assignor="roundrobin", who=(0,), stop=Stop.CRASH, restart_ms=LATE_MS, partitions=13),
    Case(kind="java", static=True, assignor="cooperative-sticky", who=(0,), restart_ms=LATE_MS, partitions=13),
    # static members that stay away, are removed, or come
    Case(static=True, assignor="range", members=4, scale_in=(1, 3), partitions=17),
    Case(static=True, assignor="cooperative-sticky", members=4, scale_in=(1, 3), partitions=17),
    Case(static=True, assignor="range", members=4, remove=(1, 2), partitions=17),
    Case(static=True, assignor="roundrobin", members=4, remove=(1, 2), partitions=17),
    Case(kind="java", static=True, assignor="cooperative-sticky", members=4, remove=(1, 2), partitions=17),
    Case(static=True, assignor="range", members=3, scale_out=2, partitions=17),
    # dynamic members
    Case(static=False, assignor="range", who=(1,)),
    Case(static=False, assignor="range", who=(1,), stop=Stop.CRASH),
    Case(static=False, assignor="range", who=ALL, rolling=Rolling(), restart_ms=1000, partitions=13),
    Case(static=False, assignor="roundrobin", who=ALL, partitions=13),
    Case(static=False, assignor="roundrobin", who=(0,), restart_ms=LATE_MS, partitions=13),
    Case(static=False, assignor="cooperative-sticky", who=(1,)),
    Case(static=False, assignor="cooperative-sticky", who=(1,), stop=Stop.CRASH),
    Case(static=False, assignor="cooperative-sticky", members=4, scale_in=(1, 3), partitions=17),
    Case(kind="java", static=False, assignor="range", members=4, scale_in=(1, 3), partitions=17),
    Case(kind="java", static=False, assignor="cooperative-sticky", members=3, scale_out=2, partitions=17),
    Case(kind="java", static=False, assignor="sticky", who=(0,), restart_ms=LATE_MS, partitions=13),
    # members of both libraries, static and dynamic ones, one client id for all, two topics, heartbeat intervals that kgm is not told
    Case(kind="both", static=True, assignor="cooperative-sticky", members=4, scale_in=(0,), partitions=13, topics=2),
    Case(kind="both", static=True, assignor="range", members=5, half_dynamic=True, who=(1, 2), partitions=13),
    Case(
        kind="both",
        static=False,
        assignor="cooperative-sticky",
        members=4,
        who=(0,),
        shared_client_id=True,
        partitions=13,
    ),
    Case(
        static=False, assignor="range", members=5, who=(3,), shared_client_id=True, tell_heartbeat=False, partitions=24
    ),
    Case(
        kind="java",
        static=False,
        assignor="roundrobin",
        members=4,
        who=(0, 1, 2, 3),
        rolling=Rolling(max_unavailable=2),
        restart_ms=0,
        tell_heartbeat=False,
        partitions=13,
        topics=2,
    ),
    Case(static=True, assignor="cooperative-sticky", members=4, who=(0,), scale_in=(1,), restart_ms=0, partitions=24),
]
#: Without `--long`, one for each action.
CASES = sized(one_of_each_kind(ALL_CASES), ALL_CASES)


@pytest.fixture(scope="module")
def outcomes(kafka):
    with played(kafka, CASES, TERMS, threads=4) as futures:
        yield futures


@pytest.mark.scenes
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_prediction_held(case: Case, outcomes: dict[Case, Future[Outcome]]):
    outcome = outcomes[case].result()
    predictions = predictions_for(outcome)
    assert_counts(case, outcome, predictions)
    assert_stopped(case, outcome, predictions, TERMS.heartbeat_ms)
    ranges = outcome.prediction.ranges
    if ranges is not None:  # a range that says everything says nothing
        assert ranges.rebalances.max - ranges.rebalances.min <= 2 * max(2, case.members)


@pytest.mark.scenes
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(1200)
def test_predictions_for_static_members_that_only_restart_are_exact(outcomes: dict[Case, Future[Outcome]]):
    static = [case for case in CASES if case.static and not case.half_dynamic]
    in_time = [case for case in static if case.who and case.restart_ms < LATE_MS and not case.scale_in]
    exact = [case for case in in_time if outcomes[case].result().prediction.exact]
    assert exact == in_time
