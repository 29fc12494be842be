"""Each fast assignor beside a slow obvious one, on random groups."""

import json
import random

import pytest

from kgm.assignors import NAMES
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
