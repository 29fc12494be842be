import random

import pytest

from kgm.model.errors import UsageError
from kgm.model.snapshot import GroupSnapshot, TopicSnapshot
from kgm.simulation.plan.bounce_plan import WhatIf
from kgm.simulation.plan.new_members import new_members
from kgm.simulation.plan.starting_group import starting_group_of
from tests.simulation.groups import DYNAMIC, made_up, member


def come(count, *members, state="Stable", seed=1):
    group = GroupSnapshot(
        group_id="g", type="classic", state=state, assignor="range", topics=(TopicSnapshot(name="t", partitions=4),),
        members=members,
    )  # fmt: skip
    return new_members(starting_group_of(group, WhatIf()), count, random.Random(seed))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("app-1", "app-3"), ["app-4", "app-5"]),
        (("app-9", "app-10"), ["app-11", "app-12"]),
        (("w08", "w09"), ["w10", "w11"]),
        (("7",), ["8", "9"]),
        (("a-1-x1", "a-1-x2"), ["a-1-x3", "a-1-x4"]),
    ],
)
def test_new_names_continue_the_numbering(names, expected):
    found = come(2, *[member(name) for name in names])
    assert [seat.group_instance_id for seat in found.members] == expected
    assert [seat.identity for seat in found.members] == expected
    assert not found.guessed
    assert all(seat.member_id == "" and seat.owned == {} and seat.topics == ("t",) for seat in found.members)


@pytest.mark.parametrize("names", [("red", "green"), ("a-1", "b-2")])
def test_names_without_a_pattern_are_guessed(names):
    found = come(2, *[member(name) for name in names])
    assert found.guessed
    assert len({seat.group_instance_id for seat in found.members} | set(names)) == 4


def test_dynamic_new_members_have_the_client_id_of_the_others():
    found = new_members(starting_group_of(made_up(3, membership=DYNAMIC), WhatIf()), 2, random.Random(1))
    assert [(seat.group_instance_id, seat.client_id) for seat in found.members] == [(None, "consumer")] * 2
    assert len({seat.identity for seat in found.members}) == 2
    found = come(1, member("c-1", static=False), member("c-2", static=False))
    assert [(seat.group_instance_id, seat.client_id) for seat in found.members] == [(None, "c-3")]
    found = come(2, member("red", static=False), member("blue", static=False))
    assert not {"red", "blue"} & {seat.client_id for seat in found.members}


def test_new_members_of_a_mixed_group_may_be_of_either_kind():
    group = [member("s-1"), member("s-2"), member("d", static=False)]
    kinds = set()
    for seed in range(40):
        found = come(2, *group, seed=seed)
        assert found.guessed
        kinds |= {seat.group_instance_id is None for seat in found.members}
        assert {seat.group_instance_id for seat in found.members} <= {"s-3", "s-4", None}
    assert kinds == {True, False}


def test_subscriptions_that_differ_are_guessed():
    found = come(1, member("a-1", topics=("t",)), member("a-2", topics=("u",)))
    assert found.guessed


def test_a_group_without_members_gets_no_new_ones():
    assert come(0, member("a")).members == ()
    with pytest.raises(UsageError, match="no members"):
        come(1, state="Empty")
