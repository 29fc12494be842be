"""Which partitions a question is about, who owns them, and in which order they come."""

from __future__ import annotations

import random

import pytest

from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, OffsetSnapshot, TopicSnapshot
from kgm.operations.groups import partitions
from kgm.operations.groups.partitions import PartitionFilter, PartitionOrder, PartitionRows, partition_rows
from kgm.text.names import in_order


def member(name, partitions, topics=("orders",), **more):
    return MemberSnapshot(
        member_id=f"{name}-id", group_instance_id=name, client_id="app", client_host="10.0.0.1", topics=topics,
        assignment={"orders": partitions}, **more,
    )  # fmt: skip


def offset(partition, committed, end, owner=None, topic="orders"):
    lag = None if committed is None or end is None else end - committed
    return OffsetSnapshot(topic, partition, committed, end, lag, owner, owner and f"{owner}-id")


def group(name="g-2", *, members=(), offsets=(), state="Stable", partitions=4):
    return GroupSnapshot(
        group_id=name, type="classic", state=state, members=tuple(members), offsets=tuple(offsets),
        topics=(TopicSnapshot(name="orders", partitions=partitions),),
    )  # fmt: skip


BUSY = group(
    members=[member("a", (0, 1)), member("b", (2,))],
    offsets=[offset(0, 5, 5, "a"), offset(1, 3, 10, "a"), offset(2, None, 0, "b")],
)
EMPTY = group("g-10", offsets=[offset(2, 1, 31), offset(7, 0, None, topic="payments")], state="Empty")


def shown(wanted, order=PartitionOrder.NAME, groups=(EMPTY, BUSY)):
    rows = PartitionRows(order, in_order(one.group_id for one in groups))
    for one in groups:
        rows.add(partition_rows(one, wanted))
    return [(row.group_id, row.offset.topic, row.offset.partition, row.owner and row.owner.identity) for row in rows]


def test_who_owns_a_partition_in_each_group():
    assert shown(PartitionFilter(topics=("orders",), numbers=(2,))) == [
        ("g-2", "orders", 2, "b"),
        ("g-10", "orders", 2, None),
    ]
    assert shown(PartitionFilter(topics=("nothing",))) == []


def test_a_subscribed_partition_without_owner_and_offset_is_there():
    """Partition 3 is in no assignment and no commit: only the subscription and the number of partitions show it."""
    (row,) = partition_rows(BUSY, PartitionFilter(unowned=True))
    assert (row.offset.partition, row.has_owner, row.offset.committed, row.offset.lag) == (3, False, None, None)


@pytest.mark.parametrize(
    "doubtful",
    [group(state="PreparingRebalance", members=[member("a", ())], offsets=[offset(0, 1, 2)]),
     group(members=[member("a", (), is_readable=False)], offsets=[offset(0, 1, 2)])],
    ids=["it rebalances", "a member cannot be decoded"],
)  # fmt: skip
def test_an_owner_that_is_not_known_is_not_missing(doubtful):
    rows = partition_rows(doubtful, PartitionFilter(unowned=True))
    assert {row.has_owner for row in rows} == {None}
    assert [row.offset.partition for row in rows] == [0, 1, 2, 3]


def test_only_what_lags_or_may_lag():
    """Partition 2 is empty and has no committed offset; of partition 3 and of payments the end is not known."""
    lagging = PartitionFilter(only_lagging=True)
    assert shown(lagging) == [
        ("g-2", "orders", 1, "a"),
        ("g-10", "orders", 2, None),
        ("g-2", "orders", 3, None),
        ("g-10", "payments", 7, None),
    ]
    assert [row[:3] for row in shown(lagging, PartitionOrder.LAG)] == [
        ("g-10", "orders", 2), ("g-2", "orders", 1), ("g-2", "orders", 3), ("g-10", "payments", 7),
    ]  # fmt: skip


@pytest.mark.parametrize("order", [PartitionOrder.NAME, PartitionOrder.LAG])
@pytest.mark.parametrize("run", [1, 7, 64, 1_000])
def test_rows_that_are_packed_come_in_the_same_order(order, run, monkeypatch):
    """Numbers in names are compared as numbers; the highest lag is first, and unknown lag is last."""
    monkeypatch.setattr(partitions, "_RUN", run)
    monkeypatch.setattr(partitions, "_PART", 3)
    drawn = random.Random(5)
    of_groups = [
        [offset(n, drawn.choice([None, 0, 3]), 9, drawn.choice([None, "a", "b"]), topic=f"t-{drawn.randrange(12)}")
         for n in range(4)]
        for _ in range(25)
    ]  # fmt: skip
    members = [member("a", ()), member("b", ())]
    groups = [group(f"g-{n}", members=members, offsets=rows, partitions=0) for n, rows in enumerate(of_groups)]
    drawn.shuffle(groups)
    found = PartitionRows(order, in_order(one.group_id for one in groups))
    for one in groups:
        found.add(partition_rows(one, PartitionFilter()))
    everything = [row for one in groups for row in partition_rows(one, PartitionFilter())]

    def key(row):
        lag = row.offset.lag if order is PartitionOrder.LAG else 0
        topic, number = int(row.offset.topic[2:]), int(row.group_id[2:])
        return lag is None, -(lag or 0), topic, row.offset.partition, number

    assert [*found] == sorted(everything, key=key)
    assert [*found] == [*found]
    assert len(found) == len(everything) == 100
    assert {type(row.owner) for row in found} == {type(None), partitions.PartitionOwner}
