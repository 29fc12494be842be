"""Groups of the size of Kafka's own tests (`AbstractStickyAssignorTest`), in the time that those allow."""

import dataclasses
import time

import pytest

from kgm.assignors import GroupSpec, MemberSpec, TopicSpec
from tests.assignors.groups import assign
from tests.cpu_time import allowed


def large_group(topics_of):
    names = [f"topic-{i:03d}" for i in range(500)]
    members = tuple(MemberSpec(member_id=f"member-{i:04d}", topics=tuple(topics_of(i, names))) for i in range(2000))
    return GroupSpec(members=members, topics=tuple(TopicSpec(name=name, partitions=2000) for name in names))


def without_the_first(group, assignment):
    members = (dataclasses.replace(m, owned=assignment[m.member_id], generation=1) for m in group.members[1:])
    return dataclasses.replace(group, members=tuple(members))


def loads(assignment):
    return [sum(map(len, topics.values())) for topics in assignment.values()]


@pytest.mark.long
@pytest.mark.slow
def test_a_million_partitions_with_equal_subscriptions():
    started = time.process_time()
    group = large_group(lambda i, names: names)
    first = assign("sticky", group)
    assert loads(first) == [500] * 2000
    after = assign("sticky", without_the_first(group, first))
    assert (min(loads(after)), max(loads(after))) == (500, 501)
    assert time.process_time() - started < allowed(30)


@pytest.mark.long
@pytest.mark.slow
def test_a_million_partitions_with_unequal_subscriptions():
    started = time.process_time()
    group = large_group(lambda i, names: names[i % 2 :: 2] if i else names)
    first = assign("sticky", group)
    after = assign("sticky", without_the_first(group, first))
    assert sum(loads(after)) == 1_000_000
    assert max(loads(after)) - min(loads(after)) <= 1
    assert time.process_time() - started < allowed(90)
