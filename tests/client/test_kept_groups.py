"""Groups that are kept for a second look come back as they were, and take little meanwhile."""

from __future__ import annotations

import tracemalloc

import pytest

from kgm.client import in_parts
from kgm.client.in_parts import KeptGroups
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot, MemberSnapshot, OffsetSnapshot, TopicSnapshot


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


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(in_parts, "PART", 3)
    monkeypatch.setattr(in_parts, "UNPACKED", 4)


def kept(numbers, *, is_packed=True):
    groups = KeptGroups(is_packed=is_packed)
    for number in numbers:
        groups.put(f"group-{number:04d}", group(number))
    return groups


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 7, 20])
def test_they_come_back_as_they_were(count, is_packed):
    groups = kept(range(count), is_packed=is_packed)
    names = groups.group_ids
    assert names == [f"group-{number:04d}" for number in range(count)]
    assert [groups.take(name) for name in names] == [group(number) for number in range(count)]
    assert groups.group_ids == []


def test_they_come_back_in_any_order_once():
    groups = kept(range(20))
    for number in (17, 3, 9, 10, 0, 19):
        assert groups.take(f"group-{number:04d}") == group(number)
        assert groups.take(f"group-{number:04d}") is None
    assert groups.take("another") is None
    groups.put("group-0003", group(3))
    assert groups.group_ids[-1] == "group-0003"
    assert groups.take("group-0003") == group(3)


def test_they_take_a_fraction_of_what_they_took(monkeypatch):
    monkeypatch.setattr(in_parts, "PART", 100)
    monkeypatch.setattr(in_parts, "UNPACKED", 0)

    def taken(*, is_packed):
        tracemalloc.start()
        try:
            groups = kept(range(401), is_packed=is_packed)  # the last one is not packed before there are more
            return tracemalloc.get_traced_memory()[0], groups
        finally:
            tracemalloc.stop()

    assert taken(is_packed=True)[0] * 3 < taken(is_packed=False)[0]
