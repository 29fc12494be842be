"""Random histories, in lockstep with Apache Kafka's own coordinator (4.3.0) in a JVM.

`--long` tries more histories, and longer ones, which find more; `--seed` tries others. A difference is told with its
seed and with as few deeds as are needed to see it."""

import re
from collections import Counter

import pytest

pytest.register_assert_rewrite("tests.coordinator.lockstep.driver")

from kgm.coordinator.groups import overlay  # noqa: E402
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol  # noqa: E402
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest  # noqa: E402
from tests.coordinator.classic.mutants import MUTANTS  # noqa: E402
from tests.coordinator.harness import subscription  # noqa: E402
from tests.coordinator.lockstep.classic_histories import Walk  # noqa: E402
from tests.coordinator.lockstep.driver import Lockstep  # noqa: E402
from tests.kafka.jars import KAFKA_VERSION  # noqa: E402
from tests.selection import first_seed, sized  # noqa: E402

FIRST = first_seed()
#: Of how many operations a history is at least (every tenth is four times as long).
OPERATIONS = 30
#: How many histories there are of each length.
COUNTS = sized({OPERATIONS: 50}, {OPERATIONS: 2_000, 200: 100})
#: Seconds: a hundred times what it takes on a machine that has nothing else to do.
PATIENCE = 3_600
SMALL = overlay.SMALL

#: What at least one of the histories must have come upon: "request answer".
PLACES = {
    f"{request} {answer}"
    for request, answers in {
        "JoinGroupRequest": "NONE MEMBER_ID_REQUIRED FENCED_INSTANCE_ID GROUP_MAX_SIZE_REACHED NOT_COORDINATOR "
        "INCONSISTENT_GROUP_PROTOCOL UNKNOWN_MEMBER_ID INVALID_GROUP_ID INVALID_SESSION_TIMEOUT UNKNOWN_SERVER_ERROR",
        "SyncGroupRequest": "NONE REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID ILLEGAL_GENERATION UNKNOWN_MEMBER_ID "
        "INCONSISTENT_GROUP_PROTOCOL NOT_COORDINATOR",
        "HeartbeatRequest": "NONE REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID ILLEGAL_GENERATION UNKNOWN_MEMBER_ID",
        "LeaveGroupRequest": "NONE FENCED_INSTANCE_ID UNKNOWN_MEMBER_ID",
        "OffsetCommitRequest": "NONE REBALANCE_IN_PROGRESS ILLEGAL_GENERATION UNKNOWN_MEMBER_ID "
        "OFFSET_METADATA_TOO_LARGE",
        "TxnOffsetCommitRequest": "NONE FENCED_INSTANCE_ID ILLEGAL_GENERATION UNKNOWN_MEMBER_ID INVALID_GROUP_ID "
        "OFFSET_METADATA_TOO_LARGE",
        "OffsetFetchRequest": "NONE UNSTABLE_OFFSET_COMMIT",
        "OffsetDeleteRequest": "NONE GROUP_ID_NOT_FOUND GROUP_SUBSCRIBED_TO_TOPIC",
        "DeleteGroupsRequest": "NONE GROUP_ID_NOT_FOUND NON_EMPTY_GROUP",
        "DescribeGroupsRequest": "NONE GROUP_ID_NOT_FOUND",
        "ConsumerGroupDescribeRequest": "GROUP_ID_NOT_FOUND INVALID_GROUP_ID",
        "ListGroupsRequest": "NONE",
    }.items()
    for answer in answers.split()
}


@pytest.fixture(scope="module")
def kafka(kafkas):
    return kafkas(KAFKA_VERSION)


def history(kafka, seed, operations=OPERATIONS):
    return Walk(kafka, seed).history(operations)


def fails(kafka, step, deeds):
    """What goes wrong when these deeds of a lockstep are done again, and the trace; None if nothing does."""
    again = type(step)(kafka, seed=step.first_seed, **step.first_settings)
    try:
        again.redo(deeds)
    except Exception as difference:  # noqa: BLE001
        return difference, again.trace
    return None


def kind(difference):
    """What sort of difference it is: its first words, without names, numbers and what is in brackets."""
    return re.sub(r"\(.*|'.*?'|\W|\d", " ", str(difference)).split()[:8]


def smallest(kafka, step, difference):
    """Few of the deeds that go wrong in the same way: leave out halves, quarters, … single ones, as long as it helps.
    What goes wrong in another way may be what the walk avoids, because it is known."""
    deeds, size = list(step.deeds), len(step.deeds)
    while size >= 1:
        for start in range(len(deeds) - size, -1, -size):
            rest = deeds[:start] + deeds[start + size :]
            found = fails(kafka, step, rest)
            if found and kind(found[0]) == kind(difference):
                deeds = rest
        size //= 2
    return deeds


def report(kafka, seed, step, difference):
    deeds = smallest(kafka, step, difference)
    found = fails(kafka, step, deeds)
    difference, trace = found or (difference, step.trace[-40:])
    lines = [f"seed {seed}: {len(deeds)} of {len(step.deeds)} deeds show it", *trace, str(difference)]
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize(("operations", "count"), COUNTS.items())
def test_random_histories_are_kafkas(kafka, monkeypatch, operations, count):
    """Whatever the history, our coordinator does what Kafka's does; every other one as if the groups were large."""
    seen = Counter()
    for seed in range(FIRST, FIRST + count):
        monkeypatch.setattr(overlay, "SMALL", 0 if seed % 2 else SMALL)
        step, difference = history(kafka, seed, operations)
        assert difference is None, report(kafka, seed, step, difference)
        assert len(step.deeds) >= operations
        seen += step.seen
    # Enough walks have been to the places that matter.
    assert count < 1_000 or {place for place in PLACES if not seen[place]} == set(), seen


@pytest.mark.slow
@pytest.mark.kafka
def test_who_leads_next_is_who_leads_next_in_kafka(kafka):
    """Also in a group that was large once: the leader leaves, again and again."""
    step = Lockstep(kafka, group_initial_rebalance_delay_ms=0)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription())]

    def join(member_id):
        message = JoinGroupRequest(
            group_id="g", session_timeout_ms=60_000, rebalance_timeout_ms=60_000, member_id=member_id,
            protocol_type="consumer", protocols=protocols,
        )  # fmt: skip
        step.request(message, 3)

    for _ in range(40):
        join("")
    step.sleep(0)
    leaders = []
    while step.answer["groups"]["g"]["members"]:
        leaders.append(step.answer["groups"]["g"]["leader"])
        step.request(LeaveGroupRequest(group_id="g", member_id=leaders[-1]), 1)
        if len(leaders) % 4 == 0:
            join("")
    assert len(set(leaders)) > 50


# -- can they fail?

ENOUGH = 400


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sized([*MUTANTS][:1], MUTANTS))
def test_a_broken_rule_is_found(kafka, monkeypatch, name):
    """Each of these mutants differs from Kafka in one of the first histories."""
    MUTANTS[name](monkeypatch)
    found = (seed for seed in range(ENOUGH) if history(kafka, seed)[1] is not None)
    assert next(found, None) is not None


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_a_difference_is_made_small(kafka, monkeypatch):
    """A history that goes wrong is told with a few deeds: here members join, and one of them is not fenced."""
    MUTANTS["nobody_is_fenced"](monkeypatch)
    for seed in range(ENOUGH):
        step, difference = history(kafka, seed)
        if difference is not None:
            break
    assert len(smallest(kafka, step, difference)) <= 6
    assert f"seed {seed}: " in report(kafka, seed, step, difference)
    monkeypatch.undo()
    assert fails(kafka, step, step.deeds) is None
