"""Groups that are held for a second look come back as they were, in their order, and take little meanwhile."""

from __future__ import annotations

import tracemalloc

from kgm.model.snapshot import CoordinatorNode, GroupSnapshot, MemberSnapshot, OffsetSnapshot, TopicSnapshot
from kgm.operations.doctor import held_groups
from kgm.operations.doctor.held_groups import HeldGroups


def group(number):
    name = f"group-{number:04d}"
    members = [
        MemberSnapshot(member_id=f"{name}-{at}-{'x' * 36}", client_id=name, assignment={"orders": [at]})
        for at in range(4)
    ]
    offsets = [OffsetSnapshot("orders", at, 1_000, 1_003, 3, None, members[at].member_id) for at in range(4)]
    return GroupSnapshot(
        group_id=name, type="classic", state="Stable", members=tuple(members), offsets=tuple(offsets),
        coordinator=CoordinatorNode(id=1, host="a", port=1), topics=(TopicSnapshot(name="orders", partitions=4),),
    )  # fmt: skip


def test_they_come_back_as_they_were(monkeypatch):
    monkeypatch.setattr(held_groups, "PART", 3)
    for count in (0, 1, 3, 4, 7):
        held = HeldGroups()
        for number in range(count):
            held.hold(group(number))
        assert [*held] == [group(number) for number in range(count)]
        assert held.group_ids == [f"group-{number:04d}" for number in range(count)]


def test_they_take_a_fraction_of_what_they_took(monkeypatch):
    monkeypatch.setattr(held_groups, "PART", 100)

    def taken(hold):
        tracemalloc.start()
        try:
            kept = hold([group(number) for number in range(400)])
            return tracemalloc.get_traced_memory()[0], kept
        finally:
            tracemalloc.stop()

    def packed(groups):
        held = HeldGroups()
        for one in groups:
            held.hold(one)
        held.hold(group(400))  # the last ones are not packed before there are more
        held.hold(group(401))
        return held

    assert taken(packed)[0] * 3 < taken(list)[0]
