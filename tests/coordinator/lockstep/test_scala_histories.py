"""Random histories, in lockstep with Kafka's coordinator in Scala (3.9.1) in a JVM.

`--long` and `--seed` are as in `test_classic_histories`."""

import random
import string
from collections import Counter
from dataclasses import replace

import pytest

pytest.register_assert_rewrite("tests.coordinator.lockstep.driver", "tests.coordinator.lockstep.scala_driver")

from kgm.coordinator.contract import settings  # noqa: E402
from kgm.coordinator.contract.behavior import behavior_of  # noqa: E402
from kgm.java.scala_map import grouped_order, grown_scala_capacity, scala_map_capacity, scala_map_order  # noqa: E402
from tests.coordinator.lockstep.scala_driver import VERSION, ScalaCoordinator, ScalaWalk  # noqa: E402
from tests.coordinator.lockstep.test_classic_histories import FIRST, OPERATIONS, PATIENCE, report  # noqa: E402
from tests.selection import sized  # noqa: E402

#: How many histories there are of each length, in operations.
COUNTS = sized({OPERATIONS: 25}, {OPERATIONS: 1_000, 200: 40})
#: What at least one of the histories must have come upon: "request answer".
PLACES = {
    f"{request} {answer}"
    for request, answers in {
        "JoinGroupRequest": "NONE MEMBER_ID_REQUIRED FENCED_INSTANCE_ID GROUP_MAX_SIZE_REACHED UNKNOWN_MEMBER_ID "
        "INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID INVALID_SESSION_TIMEOUT UNKNOWN_SERVER_ERROR",
        "SyncGroupRequest": "NONE REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID ILLEGAL_GENERATION UNKNOWN_MEMBER_ID "
        "INCONSISTENT_GROUP_PROTOCOL",
        "HeartbeatRequest": "NONE REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID ILLEGAL_GENERATION UNKNOWN_MEMBER_ID",
        "LeaveGroupRequest": "NONE FENCED_INSTANCE_ID UNKNOWN_MEMBER_ID",
        "OffsetCommitRequest": "NONE REBALANCE_IN_PROGRESS ILLEGAL_GENERATION UNKNOWN_MEMBER_ID",
        "DeleteGroupsRequest": "NONE GROUP_ID_NOT_FOUND NON_EMPTY_GROUP",
        "DescribeGroupsRequest": "NONE",
        "ListGroupsRequest": "NONE",
    }.items()
    for answer in answers.split()
}


@pytest.fixture(scope="module")
def kafka():
    coordinator = ScalaCoordinator()
    yield coordinator
    coordinator.close()


def history(kafka, seed, operations=OPERATIONS):
    return ScalaWalk(kafka, seed).history(operations)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize(("operations", "count"), COUNTS.items())
def test_random_histories_are_those_of_the_coordinator_in_scala(kafka, operations, count):
    """Whatever the history, our coordinator does what Kafka's does."""
    seen = Counter()
    for seed in range(FIRST, FIRST + count):
        step, difference = history(kafka, seed, operations)
        assert difference is None, report(kafka, seed, step, difference)
        seen += step.seen
    assert count < 1_000 or {place for place in PLACES if not seen[place]} == set(), seen


@pytest.mark.kafka
def test_the_orders_of_maps_are_scalas(kafka):
    """Maps of member ids and of other strings, small and large, also after they were larger."""
    chance = random.Random(1)
    for _ in range(300):
        count, more = chance.choice([1, 2, 5, 11, 12, 13, 23, 24, 60]), chance.choice([0, 0, 20, 100])
        letters = chance.choice([string.ascii_letters + string.digits, "ab", "Aaé￿\U0001f600"])
        longest = chance.choice([6, 40])
        names = {"".join(chance.choices(letters, k=chance.randint(1, longest))) for _ in range(count)}
        keys = chance.sample(sorted(names), len(names))
        grown = [f"grown-{number}" for number in range(more)]
        answer = kafka.ask(op="order", keys=keys, grown=grown)
        capacity = max(grown_scala_capacity(more), grown_scala_capacity(len(keys)))
        ours = [keys[at] for at in scala_map_order(keys, capacity)]
        assert ours == answer["mutable"], (keys, more)
        found = scala_map_capacity(ours)
        assert found is not None
        assert found <= capacity
        assert [keys[at] for at in scala_map_order(keys, found)] == ours
        assert grouped_order(keys) == answer["grouped"], keys


# -- can they fail?

#: What is different in all versions with the coordinator in Scala.
FACTS = (
    "has_scala_maps", "describes_unstable_members", "writes_new_groups", "removes_members_together",
    "extends_every_initial_delay", "expiry_ends_initial_delay", "refusal_may_end_join_phase",
    "sync_needs_selected_protocol", "late_sync_extends_session", "replaced_members_stay_new",
    "commits_name_missing_groups", "strips_state_filters",
)  # fmt: skip
ENOUGH = 1_000


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fact", sized(FACTS[:1], FACTS))
def test_each_difference_is_found(kafka, monkeypatch, fact):
    """A coordinator that does one of these things as 4.3 does differs from Kafka's in one of the first histories."""
    wrong = replace(behavior_of(VERSION), **{fact: not getattr(behavior_of(VERSION), fact)})
    monkeypatch.setattr(settings, "behavior_of", lambda _version: wrong)
    found = next((seed for seed in range(ENOUGH) if history(kafka, seed)[1] is not None), None)
    assert found is not None
    monkeypatch.undo()
    assert history(kafka, found)[1] is None, "and one that does none of them does not"
