"""Which partitions moved: in the row of the rebalance that gave them to another owner, in any way of assigning."""

import itertools

import pytest

from kgm.history.derive import derive
from kgm.history.in_process import derive_records
from kgm.history.row_tables import read_rows
from kgm.history.rows import OwnerRow, RebalanceRow
from kgm.history.store.query import RowFilter
from tests.history.causes.test_framework_causes import records, revoking
from tests.history.test_derive import piecewise, same
from tests.history.truth.lives import World
from tests.history.truth.test_cut_logs import classic_world
from tests.selection import sized


def cooperative_world(*names, partitions):
    worlds = (each for each in map(World, range(1_000)) if each.cooperative)
    world = next(each for each in worlds if each.partitions["orders"] == partitions)
    world.clients = [world.client(world, name, None, ["orders"]) for name in names]
    return world, world.clients


def moves(raw):
    """(cause, moved, kept) of each rebalance."""
    rows = derive(raw).tables["gold_rebalance"].sort_by("offset").to_pylist()
    return [(row["cause"], row["moved"], row["kept"]) for row in rows]


def test_a_partition_that_moves_in_two_rounds_counts_in_the_second():
    """The first round takes a partition from a member and gives it to nobody (KIP-429)."""
    world, (one, two) = cooperative_world("one", "two", partitions=4)
    one.start()
    world.run(10_000)
    two.start()
    world.run(30_000)
    assert moves(world.log.raw()) == [("join", 0, 0), ("join", 0, 2), ("cooperative-round", 2, 2)]


def test_a_partition_that_comes_back_to_its_last_owner_has_not_moved():
    """A static member is the same owner after its restart, whatever its member id."""
    world, (static,) = classic_world(("static", "s"))
    static.start()
    world.run(10_000)
    static.crash()
    world.run(120_000)
    static.start()
    world.run(10_000)
    (*_, (cause, moved, kept)) = moves(world.log.raw())
    assert (cause, moved, kept) == ("bounce", 0, world.partitions["orders"])


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(sized(3, 60)))
def test_the_rows_count_each_change_of_owner_once(seed):
    """The owners of a partition one after another are those of the table of owners, which no row of a rebalance is made
    of. A group that was removed starts from nothing."""
    world = World(seed)
    world.play(10)
    raw = world.log.raw()
    tables = derive(raw).tables
    if any(event["event"] != "absorbed-bounce" for event in tables["gold_event"].to_pylist()):
        pytest.skip("the group was removed, or changed its type")
    owners = sorted(
        read_rows(OwnerRow, tables["silver_owner"]),
        key=lambda row: (row.group_id, row.topic, row.topic_partition, row.from_offset),
    )
    changed = sum(
        before.seat != after.seat
        for before, after in itertools.pairwise(owners)
        if (before.group_id, before.topic, before.topic_partition)
        == (after.group_id, after.topic, after.topic_partition)
    )
    assert sum(row.moved for row in read_rows(RebalanceRow, tables["gold_rebalance"])) == changed
    same(piecewise(raw, range(0, len(raw), len(raw) // 3)), tables)


def test_what_workers_of_connect_move_is_not_known():
    """Their assignments have connectors and tasks, and no partitions."""
    rows = derive_records(records(revoking(), 1_000, protocol_type="connect", protocol="sessioned"))
    last = max(rows.rows(RebalanceRow, RowFilter()), key=lambda row: row.offset)
    assert (last.moved, last.kept, last.assigned) == (None, None, None)
