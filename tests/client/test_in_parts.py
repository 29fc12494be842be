"""Many groups are described a part at a time: the same answers, errors that cost the others nothing, and time that is
the brokers' alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kgm.client.in_parts import in_parts
from kgm.client.offset_reader import OffsetReader
from kgm.client.transport.bootstrap import Address
from kgm.client.transport.brokers import BrokerNode, Brokers
from kgm.client.transport.connection import Plaintext
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import AuthorizationError, BrokerError, ErrorCode, NotFoundError, UnreachableError
from kgm.model.snapshot import GroupSnapshot

IDS = [f"g-{number}" for number in range(10)]
BUDGET_MS = 30_000


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("kgm.client.in_parts.time.monotonic", clock)
    return clock


@pytest.fixture
def cluster(clock):
    brokers = Brokers([Address("localhost", 1)], Plaintext())
    deadline = Deadline.after(BUDGET_MS, clock=clock)
    return SimpleNamespace(brokers=brokers, offsets=OffsetReader(brokers), deadline=deadline)


def group(group_id):
    return GroupSnapshot(group_id=group_id, type="classic", state="Stable")


def test_the_answers_in_the_order_of_the_ids_asked_for_some_at_a_time(cluster):
    asked = []

    def describe(part):
        asked.append([*part])
        return [NotFoundError("gone", group_id=one) if one == "g-4" else group(one) for one in part]

    answers = [*in_parts(cluster, IDS, describe, size=4)]
    assert [one.group_id for one in answers] == IDS
    assert [isinstance(one, NotFoundError) for one in answers].index(True) == 4
    assert asked == [IDS[:4], IDS[4:8], IDS[8:]]
    assert [*in_parts(cluster, [], describe)] == []


def test_the_next_part_is_asked_for_when_the_one_before_is_done_with(cluster):
    asked = []

    def describe(part):
        asked.append([*part])
        return [*map(group, part)]

    answers = in_parts(cluster, IDS, describe, size=4)
    for _ in range(4):
        next(answers)
    assert asked == [IDS[:4]]


def test_what_the_caller_does_meanwhile_takes_nothing_of_the_time_allowed(cluster, clock):
    def describe(part):
        clock.now += 5
        return [*map(group, part)]

    for _ in in_parts(cluster, IDS, describe, size=4):
        clock.now += 1_000  # somebody reads page after page
    assert cluster.deadline.remaining() == pytest.approx(15)


def test_groups_whose_turn_comes_too_late_are_errors(cluster, clock):
    def describe(part):
        clock.now += 40
        return [*map(group, part)]

    answers = [*in_parts(cluster, IDS, describe, size=4)]
    assert [*map(type, answers)] == [GroupSnapshot] * 4 + [UnreachableError] * 6
    assert {one.group_id for one in answers[4:]} == {*IDS[4:]}
    assert "30000 ms" in str(answers[-1])


def test_a_failure_of_the_first_part_is_raised_and_of_a_later_one_is_that_of_its_groups(cluster):
    refusal = AuthorizationError("no")

    def describe(part):
        if "g-4" in part:
            raise refusal
        return [*map(group, part)]

    assert [*in_parts(cluster, IDS, describe, size=4)][3:9] == [group("g-3"), *[refusal] * 4, group("g-8")]
    with pytest.raises(AuthorizationError):
        next(in_parts(cluster, IDS[4:], describe, size=4))


def test_one_part_may_wait_for_half_of_the_time_and_then_kgm_hurries(cluster):
    """A coordinator that loads, or a leader that is down, must not take the time of all the other groups."""
    left_s, hurried = [], []

    def describe(part):
        left_s.append(cluster.deadline.remaining())
        hurried.append(cluster.brokers.is_hurried)
        loading = BrokerError("loading", kafka_error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [loading if one == "g-5" else group(one) for one in part]

    assert [type(one) for one in in_parts(cluster, IDS, describe, size=4)].count(BrokerError) == 1
    assert left_s == pytest.approx([15, 15, 30])
    assert hurried == [False, False, True]
    assert not cluster.brokers.is_hurried


def test_a_leader_that_did_not_answer_makes_kgm_hurry_too(cluster):
    hurried = []

    def describe(part):
        hurried.append(cluster.brokers.is_hurried)
        if "g-0" in part:
            cluster.offsets.unread_ends["orders", 0] = UnreachableError("no answer")
        return [*map(group, part)]

    assert len([*in_parts(cluster, IDS, describe, size=4)]) == 10
    assert hurried == [False, True, True]


def test_what_one_part_could_not_read_is_known_at_the_end(cluster):
    """The next part may read it, but the groups before lack it."""

    def describe(part):
        unread = cluster.offsets.unread_ends, cluster.offsets.unread_topics
        for one in unread:
            one.clear()
        if "g-5" in part:
            unread[0]["orders", 0] = AuthorizationError("no")
            unread[1]["orders"] = AuthorizationError("no")
        return [*map(group, part)]

    assert len([*in_parts(cluster, IDS, describe, size=4)]) == 10
    assert [*cluster.offsets.unread_ends] == [("orders", 0)]
    assert [*cluster.offsets.unread_topics] == ["orders"]


def test_a_broker_that_does_not_answer_in_a_hurry_is_not_asked_again(cluster):
    silent, other = (BrokerNode(number, Address("localhost", number)) for number in (1, 2))
    asked = []

    def no_answer():
        asked.append("silent")
        raise UnreachableError("no answer")

    tasks = {silent: no_answer, other: lambda: "answer"}
    for is_hurried in (False, True, True):
        if is_hurried:
            cluster.brokers.hurry()
        results = cluster.brokers.ask_each(tasks, Deadline.after(BUDGET_MS), "a broker")
        assert isinstance(results[silent], UnreachableError)
        assert results[other] == "answer"
    assert len(asked) == 2
    cluster.brokers.take_time()
    cluster.brokers.ask_each(tasks, Deadline.after(BUDGET_MS), "a broker")
    assert len(asked) == 3
