"""What is computed in arrays is what the assignor answers, which tests/assignors compares with Kafka's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.assignors.client import librdkafka_alike
from kgm.model.client_library import JAVA, LIBRDKAFKA
from kgm.model.snapshot import TopicSnapshot
from kgm.simulation.plan.bounce_plan import Plan
from kgm.simulation.plan.synthetic_group import synthetic_group
from kgm.simulation.play.bulk.arrays import NO_MEMBER
from kgm.simulation.play.bulk.assignments import (
    CooperativeAssignment,
    StickyAssignment,
    SubscribedPartitions,
    are_alike,
    rows_of,
)
from kgm.simulation.simulation import Simulation
from tests.selection import sized
from tests.simulation.groups import DYNAMIC

#: How many partitions nobody claims, of ten.
FREE = st.integers(0, 10)
#: The assignors that are computed, by the library of the leader.
COMPUTED = [("sticky", JAVA), ("cooperative-sticky", JAVA), ("cooperative-sticky", LIBRDKAFKA)]
#: More than four, so that their order in the leader's metadata is not that in which members name them.
NAMES = ("orders", "b", "Z", "a", "payments", "c-0")


@st.composite
def claimed(draw):
    """A group, the library of its leader, its members in an order of its own, and for each partition who claims it:
    at random, or almost evenly, as after a rebalance."""
    count = draw(st.integers(1, 40))
    assignor, library = draw(st.sampled_from(COMPUTED))
    topics = [TopicSnapshot(name=name, partitions=draw(st.integers(1, 60))) for name in NAMES]
    group = synthetic_group(count, topics[: draw(st.integers(1, len(topics)))], DYNAMIC, assignor)
    group = replace(group, members=tuple(draw(st.permutations(group.members))))
    start = Simulation.of(group, Plan(scale_out=1)).group
    total = sum(start.topics.values())
    random, free = draw(st.randoms(use_true_random=False)), draw(FREE)
    few = draw(st.integers(1, count))  # who claims anything
    is_even, new = draw(st.booleans()), draw(st.integers(0, 2))
    turns = random.sample(range(total), total)
    before = [
        NO_MEMBER if random.random() * 10 < free else turn % max(count - new, 1) if is_even else random.randrange(few)
        for turn in turns
    ]
    return start, library, np.array(before, dtype=np.int64)


def layout_of(start):
    starts, at = {}, 0
    for topic, count in start.topics.items():
        starts[topic], at = at, at + count
    return starts


def both(start, library, before, waited=None):
    """The assignment that is computed, and that of the assignor. What is not claimed at all is not computed."""
    specs = tuple(member.as_of(library) for member in start.members)
    assert are_alike(start, specs)
    slots = {member.member_id: slot for slot, member in enumerate(specs)}
    by_id = np.array([slot for _, slot in sorted(slots.items())], dtype=np.int64)
    starts = layout_of(start)
    subscribed = SubscribedPartitions.of(specs[0].topics, starts, start.topics)
    sent = np.full(len(specs), 5, dtype=np.int64)
    more = {"generation": 5, "waited": waited or {}} if start.assignor == "sticky" else {}
    kind = StickyAssignment if start.assignor == "sticky" else CooperativeAssignment
    return (
        kind(start, 0, slots, specs, sent, starts, by_id=order, subscribed=subscribed, before=before, **more)
        for order in (by_id, None)
    )


def assert_equal(start, library, before, waited=None):
    """Returns the owners."""
    computed, asked = both(start, library, before, waited)
    assert computed.is_computed == bool((before != NO_MEMBER).any())
    assert not asked.is_computed
    owners = computed.owners()
    assert owners.tolist() == asked.owners().tolist()
    assert computed.by_member == asked.by_member
    assert {who: [*row] for who, row in computed.by_member.items()} == {who: [*r] for who, r in asked.by_member.items()}
    return owners


@settings(max_examples=sized(16, 300))
@given(claimed())
def test_what_is_computed_is_what_the_assignor_answers(situation):
    start, library, before = situation
    assert_equal(start, library, before)
    rows = rows_of(before, layout_of(start), start.topics)
    assert sum(len(numbers) for row in rows.values() for numbers in row.values()) == (before != NO_MEMBER).sum()


@pytest.mark.long
@settings(max_examples=sized(11, 200))
@given(claimed())
def test_sequences_of_what_is_computed(situation):
    """Members give up what they are not assigned, until nothing changes; then one leaves, and one is new."""
    start, library, before = situation
    for _ in range(4):
        before = assert_equal(start, library, before)
    for slot in (0, len(start.members) // 2):
        before = np.where(before == slot, NO_MEMBER, before)
        before = assert_equal(start, library, before)
        before = assert_equal(start, library, before)


def situation_of(assignor, partitions=(6, 3)):
    """A group of three, all of whose partitions the first member claims."""
    topics = [TopicSnapshot(name=name, partitions=count) for name, count in zip("ab", partitions, strict=True)]
    start = Simulation.of(synthetic_group(3, topics, DYNAMIC, assignor), Plan(scale_out=1)).group
    return start, np.zeros(sum(partitions), dtype=np.int64)


def without_the_last_topic(start):
    named = start.members[0].topics[:-1]
    return replace(start, members=tuple(replace(member, topics=named) for member in start.members))


@pytest.mark.parametrize(("assignor", "library"), COMPUTED)
def test_claims_of_topics_to_which_nobody_subscribes(assignor, library):
    """Java's leader takes no notice of them, librdkafka's lets members keep them: it is asked."""
    start, before = situation_of(assignor)
    start = without_the_last_topic(start)
    computed, asked = both(start, library, before)
    assert computed.is_computed == (library == JAVA)
    assert computed.owners().tolist() == asked.owners().tolist()
    assert (computed.owners()[6:] == (NO_MEMBER if library == JAVA else 0)).all()
    before[6:] = NO_MEMBER
    assert_equal(start, library, before)


def test_a_member_that_waits_with_claims_of_an_earlier_generation():
    start, before = situation_of("sticky")
    before[4:] = NO_MEMBER
    computed, asked = both(start, JAVA, before, waited={1: ({"a": (3, 4, 5)}, 4), 2: None})
    assert not computed.is_computed
    assert computed.by_member == asked.by_member
    assert set(computed.owners()[4:6]) == {1}
    assert_equal(start, JAVA, before, waited={1: None, 2: None})


def test_librdkafka_is_asked_when_its_sums_may_overflow(monkeypatch):
    start, before = situation_of("cooperative-sticky")
    monkeypatch.setattr(librdkafka_alike, "_OVERFLOW", 3 * 9)
    computed, _ = both(start, LIBRDKAFKA, before)
    assert not computed.is_computed
    monkeypatch.setattr(librdkafka_alike, "_OVERFLOW", 3 * 9 + 1)
    assert_equal(start, LIBRDKAFKA, before)


def test_another_cooperative_assignor_is_asked():
    start, before = situation_of("cooperative-sticky")
    other, _ = both(replace(start, assignor="mine"), JAVA, before)
    assert not other.is_computed
