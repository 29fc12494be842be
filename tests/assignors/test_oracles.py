"""Each fast assignor beside a slow obvious one, on random groups."""

import dataclasses
import json
import random
from itertools import islice

import pytest

from kgm import assignors
from kgm.assignors import NAMES, result
from kgm.model.errors import UsageError
from tests.assignors import naive
from tests.assignors.groups import SEQUENCES, assign, every_case, group_of, sequence
from tests.assignors.shrink import shrink
from tests.assignors.test_properties import check_complete

ORACLES = {
    "range": naive.range_,
    "roundrobin": naive.round_robin,
    "consumer-range": naive.server_range,
    "sticky": naive.sticky,
    "cooperative-sticky": naive.cooperative_sticky,
    "consumer-uniform": naive.uniform,
}


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.timeout(120 + SEQUENCES)
@pytest.mark.parametrize("name", NAMES)
def test_fast_is_as_slow(name):
    compared = 0
    for case in every_case(name):
        group = group_of(case)
        if (any(member.rack for member in group.members) and not name.startswith("consumer-")) or _size(group) > 200:
            continue
        try:
            expected = ORACLES[name](group)
        except naive.TradesPlaces:
            continue
        compared += 1
        if assign(name, group) != expected:
            small = shrink(case, lambda candidate: _differs(name, candidate))
            pytest.fail(f"{case['case']}, made small:\n{json.dumps(small)}\nslow: {ORACLES[name](group_of(small))}")
    assert compared >= SEQUENCES


def _differs(name, case):
    group = group_of(case)
    try:
        return assign(name, group) != ORACLES[name](group)
    except (naive.TradesPlaces, UsageError):
        return False


@pytest.mark.few(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_does_not_matter_whether_what_is_owned_is_an_earlier_answer_as_it_came(name, monkeypatch):
    """Answers in columns are read in ways of their own; groups shrink, grow and change between two of them."""
    monkeypatch.setattr(result, "_LARGE", 0)
    rows = 0
    for number, case in enumerate(islice(every_case(name), 200)):
        group, rng = group_of(case), random.Random(number)
        given = assignors.assign(name, group)
        rows += any(isinstance(row, result.AnswerRow) for row in given.values())
        topics = [
            dataclasses.replace(topic, partitions=max(0, topic.partitions + rng.choice([0, 0, 0, 2, -1])), racks=None)
            for topic in group.topics
        ]
        members = [
            dataclasses.replace(
                member,
                topics=tuple(
                    rng.sample(member.topics, len(member.topics) - (rng.random() < 0.1 and len(member.topics) > 1))
                ),
                owned=given[member.member_id],
                generation=1,
            )
            for member in rng.sample(group.members, rng.randint(1, len(group.members)))
        ]
        if rng.random() < 0.5:
            members.insert(0, dataclasses.replace(members[0], member_id="new", owned={}))
        plain = [
            dataclasses.replace(member, owned={topic: list(ps) for topic, ps in member.owned.items()})
            for member in members
        ]
        one, other = (
            assign(name, dataclasses.replace(group, members=tuple(those), topics=tuple(topics)))
            for those in (members, plain)
        )
        assert one == other, case["case"]
    assert rows > 50


def test_rows_read_like_dictionaries():
    columns = {"t": [(0,), ()], "u": [(1,), (0, 2)], "v": [(), ()]}
    one, other = result.AnswerRow(columns, 0), result.AnswerRow(columns, 1)
    assert one == {"t": (0,), "u": (1,)}
    assert other == {"u": (0, 2)}
    assert (list(one), len(other), list(other.values()), "v" in one) == (["t", "u"], 1, [(0, 2)], False)
    assert repr(other) == "{'u': (0, 2)}"
    with pytest.raises(KeyError):
        other["t"]


@pytest.mark.slow
def test_uniform_is_legal_complete_and_even_where_subscribers_are_alike():
    for seed in range(60):
        for case in sequence(random.Random(f"uniform-{seed}"), "consumer-uniform"):
            group = group_of(case)
            answer = assign("consumer-uniform", group)
            check_complete(group, answer)
            loads = {member: sum(map(len, topics.values())) for member, topics in answer.items()}
            for topic in group.topics:
                subscribers = [member for member in group.members if topic.name in member.topics]
                if topic.partitions and len({frozenset(member.topics) for member in subscribers}) == 1:
                    giving = max(loads[m.member_id] for m in subscribers if topic.name in answer[m.member_id])
                    assert giving - min(loads[m.member_id] for m in subscribers) <= 1


def _size(group):
    return sum(topic.partitions for topic in group.topics)
