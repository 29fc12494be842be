"""The members whose targets change, found by a tally of the targets, are those of the whole computation."""

from __future__ import annotations

import random
from itertools import chain

import pytest

from kgm.coordinator.consumer import target
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.target_tally import TargetTally
from tests.coordinator.consumer.harness import Consumers

#: Ends of member ids of which Java's hash codes are the same.
ALIKE = ("AaAa", "AaBB", "BBAa", "BBBB")


@pytest.fixture
def compared(monkeypatch):
    """How many target assignments were computed both ways, and were equal; each of them after many records."""
    seen = []
    real = target.compute_changed

    def both(group, updated, image, *, listed=None):
        short = real(group, updated, image, listed=listed)
        if short is not None:
            whole = target.compute(group, updated, "uniform", image, is_homogeneous=True, listed=listed)
            wanted = {
                member_id: (found, [*as_listed.items()])
                for member_id, (found, as_listed) in whole.items()
                if member_id == updated.member_id or group.targets.get(member_id) != found
            }
            got = {member_id: (found, [*as_listed.items()]) for member_id, (found, as_listed) in short.items()}
            assert [*got.items()] == [*wanted.items()]
            assert group.tally is not None
            again = TargetTally(group.targets)
            assert (group.tally.loads, group.tally.counts, group.tally.repeated) == (again.loads, again.counts, 0)
            for topic_id, counts in again.counts.items():
                partitions = image.by_id[topic_id].partitions
                assert group.tally.free(topic_id, partitions) == [p for p in range(partitions) if p not in counts]
            seen.append(len(short))
        return short

    monkeypatch.setattr(target, "compute_changed", both)
    monkeypatch.setattr(target, "TALLIED_FROM", 1)
    return seen


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(24))
def test_members_come_and_go(compared, seed):
    """From few members to more than 48, where the table of the hash map follows from their number alone; their targets
    fall to pieces, which are more than 16 apart."""
    r = random.Random(seed)
    topics = {name: r.choice([1, 5, 40, 200]) for name in "abc"[: r.randint(1, 3)]}
    h = Consumers(topics=topics)
    size, alive, made = r.choice([3, 12, 60]), [], 0
    for _ in range(120):
        if len(alive) < size * 0.7 or (len(alive) < size * 1.3 and r.random() < 0.5):
            made += 1
            name = f"m{made // 4}-{ALIKE[made % 4]}"
            static = {"instance": f"app-{made}"} if r.random() < 0.2 else {}
            h.beat(name, names=r.sample([*topics], len(topics)), **static)
            alive.append(name)
        else:
            gone = alive.pop(r.randrange(len(alive)))
            member = h.engine.consumer_group("g").members[gone]
            h.beat(gone, epoch=-1, **({"instance": member.group_instance_id} if member.group_instance_id else {}))
    assert len(compared) > 40
    assert any(count < len(alive) / 2 for count in compared) or size == 3


def of_targets(**targets):
    group = ConsumerGroup(group_id="g")
    for member_id, rows in targets.items():
        group.put_target(member_id, rows, {})
    return group


A, B = b"a" * 16, b"b" * 16


@pytest.mark.parametrize(
    ("targets", "members", "is_of"),
    [
        ({"m": {A: (0, 1)}, "n": {A: (2,)}}, "mn", True),
        ({"m": {A: (0, 1)}, "n": {}}, "mn", True),
        ({"m": {A: (0, 1)}, "n": {A: (1,)}}, "mn", False),
        ({"m": {A: (0, 1)}, "n": {A: (3,)}}, "mn", False),
        ({"m": {A: (0, 2**31 - 1)}}, "m", False),
        ({"m": {A: (-1, 1)}}, "m", False),
        ({"m": {A: (0, 1)}, "n": {B: (0,)}}, "mn", False),
        ({"m": {A: (0, 1)}}, "mn", False),
        ({"m": {A: (0, 1)}, "gone": {A: (2,)}}, "m", False),
        ({"m": {}}, "m", False),
    ],
)
def test_what_no_broker_writes_is_left_to_the_whole_computation(targets, members, is_of):
    tally = TargetTally(of_targets(**targets).targets)
    assert tally.is_of(dict.fromkeys(members).keys(), {A: 3}) is is_of


@pytest.mark.parametrize("partitions", [(-1,), (3,), (2**31 - 1,)])
def test_a_partition_that_never_was_is_not_free_when_it_is_given_up(partitions):
    group = of_targets(m={A: (0, 1)}, n={B: partitions})
    group.tally = tally = TargetTally(group.targets)
    group.put_target("n", {}, {})
    assert not tally.is_of({"m": None, "n": None}.keys(), {A: 3, B: 3})
    assert tally.is_of({"m": None, "n": None}.keys(), {A: 3})


def test_a_tally_follows_records_in_which_a_partition_passes_from_one_to_another():
    """The record of its next owner may come first."""
    group = of_targets(m={A: (0, 1)}, n={A: (2,)})
    group.tally = tally = TargetTally(group.targets)
    group.put_target("n", {A: (1, 2)}, {})
    assert tally.repeated == 1
    group.put_target("m", {A: (0,)}, {})
    assert tally.repeated == 0
    group.put_target("m", None, {})
    assert tally.loads == {"n": 2}
    assert tally.free(A, 4) == [0, 3]
    assert [*chain(*(counts.values() for counts in tally.counts.values()))] == [1, 1]


def test_a_copy_has_no_tally_of_another_group():
    group = of_targets(m={A: (0, 1)})
    group.tally = TargetTally(group.targets)
    twin = group.copy()
    twin.put_target("m", None, {})
    assert group.tally.loads == {"m": 2}
