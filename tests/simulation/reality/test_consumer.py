"""Predictions for consumer groups (KIP-848) held against what a real Kafka and real clients then did.

The broker says how long a session is and how often members heartbeat; so each group is given short ones of its own, and
kgm has to find that out by itself. Epochs, target assignments and moved partitions must be equal where the prediction is
exact, and inside its ranges where it is not; refused clients must have been predicted, and have ended, as in a real
application; partitions must have been stopped about as long as predicted. All cases are played at the same time on one
broker, each a group of its own."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from tests.selection import sized
from tests.simulation.reality.case import Case, Outcome, Rolling, Stop, one_of_each_kind
from tests.simulation.reality.play import played
from tests.simulation.reality.real_group import Terms
from tests.simulation.reality.verdict import assert_counts, assert_stopped, predictions_for

HEARTBEAT_MS = 500
TERMS = Terms(
    prefix="epochs",
    protocol="consumer",
    topics=("epoch", "other"),
    session_ms=5_000,
    heartbeat_ms=HEARTBEAT_MS,
    rebalance_ms=60_000,
    quiet_s=1.2,
)
ALL = (0, 1, 2)
LATE_MS = 7_000
"""Beyond the session timeout of the groups, 5 s."""

ALL_CASES = [
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
#: Without `--long`, one for each action.
CASES = sized(one_of_each_kind(ALL_CASES), ALL_CASES)


def configure(kafka, group_id: str) -> None:
    """Give the group a session timeout and a heartbeat interval of its own."""
    settings = {"consumer.session.timeout.ms": TERMS.session_ms, "consumer.heartbeat.interval.ms": HEARTBEAT_MS}
    kafka.configure_group(group_id, settings)


@pytest.fixture(scope="module")
def outcomes(kafka):
    with played(kafka, CASES, TERMS, threads=6, configure=configure) as futures:
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
    if ranges is not None:
        # A range that says everything says nothing: epochs are certain, generations before a migration almost. A
        # process that was refused may be started again later.
        assert ranges.generations.max - ranges.generations.min <= case.migrate + len(outcome.prediction.typical.ended)
        assert ranges.rebalances.max - ranges.rebalances.min <= case.members


@pytest.mark.scenes
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(1200)
def test_predictions_for_static_members_that_say_that_they_will_return_are_exact(
    outcomes: dict[Case, Future[Outcome]],
):
    static = [case for case in CASES if case.static and not case.half_dynamic and not case.migrate]
    in_time = [case for case in static if case.who and case.restart_ms < LATE_MS and case.stop is Stop.CLEAN]
    assert in_time
    assert [case for case in in_time if outcomes[case].result().prediction.exact] == in_time
