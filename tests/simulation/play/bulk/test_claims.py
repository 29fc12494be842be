"""What is dealt in arrays is what the assignor answers, which tests/assignors compares with Kafka's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.model.snapshot import TopicSnapshot
from kgm.simulation.bounce import Simulation
from kgm.simulation.plan.bounce_plan import Plan
from kgm.simulation.plan.client_library import Library
from kgm.simulation.plan.synthetic_group import synthetic_group
from kgm.simulation.play.bulk.claims import CooperativeAssignment, are_alike, rows_of
from kgm.simulation.play.bulk.ledger import NOBODY
from tests.simulation.groups import DYNAMIC

#: How many partitions nobody claims, of ten.
FREE = st.integers(0, 10)


@st.composite
def claimed(draw):
    """A group, its members in an order of its own, and for each partition who claims it."""
    count = draw(st.integers(1, 40))
    topics = [TopicSnapshot(name=name, partitions=draw(st.integers(1, 60))) for name in ("orders", "b", "Z")]
    group = synthetic_group(count, topics[: draw(st.integers(1, 3))], DYNAMIC, "cooperative-sticky")
    group = replace(group, members=tuple(draw(st.permutations(group.members))))
    start = Simulation.of(group, Plan(scale_out=1)).group
    total = sum(start.topics.values())
    random, free = draw(st.randoms(use_true_random=False)), draw(FREE)
    few = draw(st.integers(1, count))  # who claims anything
    before = [NOBODY if random.random() * 10 < free else random.randrange(few) for _ in range(total)]
    return start, np.array(before, dtype=np.int64)


def both(start, before):
    """The owners that are dealt, and those of the assignor. What is not claimed at all is not dealt."""
    specs = start.members
    assert are_alike(start, specs)
    slots = {member.member_id: slot for slot, member in enumerate(specs)}
    by_id = np.array([slot for _, slot in sorted(slots.items())], dtype=np.int64)
    starts, at = {}, 0
    for topic, count in start.topics.items():
        starts[topic], at = at, at + count
    sent = np.full(len(specs), 5, dtype=np.int64)
    dealt, asked = (
        CooperativeAssignment(start, Library.JAVA, slots, specs, sent, starts, by_id=order, before=before)
        for order in (by_id, None)
    )
    assert dealt.is_dealt == bool((before != NOBODY).any())
    assert not asked.is_dealt
    return dealt, asked, starts


@settings(max_examples=150)
@given(claimed())
def test_what_is_dealt_is_what_the_assignor_answers(situation):
    start, before = situation
    dealt, asked, starts = both(start, before)
    assert dealt.owners().tolist() == asked.owners().tolist()
    assert dealt.by_member == asked.by_member
    assert {who: [*row] for who, row in dealt.by_member.items()} == {who: [*r] for who, r in asked.by_member.items()}
    rows = rows_of(before, starts, start.topics)
    assert sum(len(numbers) for row in rows.values() for numbers in row.values()) == (before != NOBODY).sum()


@settings(max_examples=100)
@given(claimed())
def test_sequences_of_what_is_dealt(situation):
    """Members give up what they are not assigned, until nothing changes."""
    start, before = situation
    for _ in range(4):
        dealt, asked, _ = both(start, before)
        after = dealt.owners()
        assert after.tolist() == asked.owners().tolist()
        before = after
