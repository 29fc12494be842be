"""Each fast assignor beside a slow obvious one, on random groups."""

import random

import pytest

from tests.assignors import naive
from tests.assignors.groups import assign, group_of, sequence
from tests.assignors.test_properties import check_complete

ORACLES = {
    "range": naive.range_,
    "roundrobin": naive.round_robin,
    "consumer-range": naive.server_range,
    "sticky": naive.sticky,
    "cooperative-sticky": naive.cooperative_sticky,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
def test_fast_is_as_slow(name):
    compared = 0
    for seed in range(60):
        for case in sequence(random.Random(f"oracle-{seed}"), name):
            group = group_of(case)
            if any(member.rack for member in group.members) or _size(group) > 200:
                continue
            try:
                expected = ORACLES[name](group)
            except naive.TradesPlaces:
                continue
            compared += 1
            assert assign(name, group) == expected, (seed, case["case"])
    assert compared > 70


@pytest.mark.slow
def test_uniform_is_legal_complete_and_even_where_subscribers_are_alike():
    """The coordinator's uniform assignor has no short description to compare with; these hold all the same."""
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
