"""What holds for every assignor and every group, found out by hypothesis."""

import dataclasses
import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.assignors import NAMES, GroupSpec, MemberSpec, TopicSpec, is_cooperative
from tests.assignors.groups import assign
from tests.selection import sized

STICKY = ("sticky", "cooperative-sticky", "consumer-uniform")
CLIENT = tuple(name for name in NAMES if not name.startswith("consumer-"))
RACKS = st.sampled_from(["a", "b", "c"])
few = functools.partial(settings, max_examples=sized(6, 60), deadline=None)


@st.composite
def groups(draw, *, alike=False, racks=True):
    counts = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    with_racks = racks and draw(st.booleans())
    topics = tuple(
        TopicSpec(
            name=f"t{i}",
            partitions=count,
            racks=tuple(tuple(draw(st.sets(RACKS, min_size=1))) for _ in range(count)) if with_racks else None,
        )
        for i, count in enumerate(counts)
    )
    names = [topic.name for topic in topics]
    common = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    members = tuple(
        MemberSpec(
            member_id=f"member-{draw(st.integers(0, 99))}-{i}",
            group_instance_id=f"instance-{i}" if draw(st.booleans()) else None,
            rack=draw(RACKS) if with_racks and draw(st.booleans()) else None,
            topics=tuple(common if alike else draw(st.lists(st.sampled_from(names), min_size=1, unique=True))),
        )
        for i in range(draw(st.integers(1, 9)))
    )
    return GroupSpec(members=members, topics=topics)


def owning(group, assignment, generation=1):
    """The group as it joins again, in possession of what it was given."""
    members = tuple(
        dataclasses.replace(m, owned=assignment[m.member_id], generation=generation) if m.member_id in assignment else m
        for m in group.members
    )
    return dataclasses.replace(group, members=members)


def settled(name, group):
    """The answer after as many rounds as it takes until nothing is held back: two, and a few more with racks."""
    answer = assign(name, group)
    for _ in range(8 if is_cooperative(name) else 0):
        answer = assign(name, owning(group, answer))
    return answer


def owners(assignment):
    pairs = [(topic, p, member) for member, topics in assignment.items() for topic, ps in topics.items() for p in ps]
    result = {(topic, p): member for topic, p, member in pairs}
    assert len(result) == len(pairs), "a partition has two owners"
    return result


def check_legal(group, assignment):
    """Everybody is there, nobody has what they did not ask for, and partitions are sorted; returns the owners."""
    assert set(assignment) == {member.member_id for member in group.members}
    size = {topic.name: topic.partitions for topic in group.topics}
    for member in group.members:
        for topic, partitions in assignment[member.member_id].items():
            assert topic in member.topics
            assert partitions
            assert partitions == sorted(partitions)
            assert 0 <= partitions[0] <= partitions[-1] < size[topic]
    return owners(assignment)


def check_complete(group, assignment):
    wanted = {topic for member in group.members for topic in member.topics}
    everything = {(t.name, p) for t in group.topics if t.name in wanted for p in range(t.partitions)}
    assert set(check_legal(group, assignment)) == everything


def loads(assignment):
    return [sum(map(len, topics.values())) for topics in assignment.values()]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@few()
def test_every_partition_goes_to_one_subscriber(name, data):
    group = data.draw(groups())
    check_complete(group, assign(name, group))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@few()
def test_no_answer_hangs_on_the_order_of_what_is_owned(name, data):
    group = data.draw(groups())
    first = settled(name, group)
    backwards = {m: {t: list(reversed(ps)) for t, ps in reversed(topics.items())} for m, topics in first.items()}
    assert assign(name, owning(group, backwards)) == assign(name, owning(group, first))


@pytest.mark.slow
@pytest.mark.parametrize("name", STICKY)
@given(data=st.data())
@few()
def test_equal_subscriptions_are_balanced_within_one(name, data):
    group = data.draw(groups(alike=True))
    first = assign(name, group)
    assert max(loads(first)) - min(loads(first)) <= 1
    fewer = dataclasses.replace(group, members=group.members[1:] or group.members)
    after = settled(name, owning(fewer, first, 2))
    assert max(loads(after)) - min(loads(after)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", STICKY)
@given(data=st.data())
@few()
def test_nothing_moves_when_nothing_changed(name, data):
    group = data.draw(groups(racks=False))
    first = assign(name, group)
    assert assign(name, owning(group, first)) == first


@pytest.mark.slow
@pytest.mark.parametrize("name", STICKY)
@given(data=st.data())
@few()
def test_who_leaves_takes_nothing_from_those_who_stay(name, data):
    group = data.draw(groups(alike=True, racks=False))
    first = assign(name, group)
    rest = dataclasses.replace(group, members=group.members[1:] or group.members)
    before, after = owners(first), owners(assign(name, owning(rest, first, 2)))
    staying = {member.member_id for member in rest.members}
    assert all(after.get(tp) == owner for tp, owner in before.items() if owner in staying)


@pytest.mark.slow
@given(data=st.data())
@few()
def test_a_cooperative_partition_is_given_up_before_it_is_taken(data):
    group = data.draw(groups())
    first = settled("cooperative-sticky", group)
    joined = MemberSpec(member_id="joined", topics=group.members[0].topics)
    larger = owning(dataclasses.replace(group, members=(*group.members, joined)), first, 2)
    held, given = owners(first), check_legal(larger, assign("cooperative-sticky", larger))
    assert all(held.get(tp, owner) == owner for tp, owner in given.items())
    check_complete(larger, settled("cooperative-sticky", larger))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["range", "roundrobin", "consumer-range"])
@given(data=st.data(), shift=st.integers(1, 99))
@few()
def test_static_members_keep_their_partitions_across_a_restart(name, data, shift):
    group = data.draw(groups())
    static = [dataclasses.replace(m, group_instance_id=f"instance-{i}") for i, m in enumerate(group.members)]
    before = assign(name, dataclasses.replace(group, members=tuple(static)))
    restarted = [dataclasses.replace(m, member_id=f"restarted-{(i * shift) % 101}-{i}") for i, m in enumerate(static)]
    after = assign(name, dataclasses.replace(group, members=tuple(restarted)))
    assert [before[m.member_id] for m in static] == [after[m.member_id] for m in restarted]


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENT)
@given(data=st.data(), seed=st.randoms(use_true_random=False))
@few()
def test_client_side_answers_do_not_hang_on_the_order_of_topics(name, data, seed):
    group = data.draw(groups())
    topics = list(group.topics)
    seed.shuffle(topics)
    assert assign(name, dataclasses.replace(group, topics=tuple(topics))) == assign(name, group)
