"""From raw records to every table: the same however the log is cut, read twice or torn, and never more than it tells."""

import itertools
import random
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kgm.history.carry import Carry
from kgm.history.derive import DERIVED, derive, merge
from kgm.history.schema import CARRY, KEYS, RAW, TABLES
from tests.history.decode.test_real_logs import raw_log
from tests.records.real_logs import partitions
from tests.selection import first_seed, sized

FIRST = first_seed()
KINDS = ("plain", "compacted", "synthetic")


def whole_log(kind):
    return pa.concat_tables([raw_log(kind, each) for each in partitions(kind)]).combine_chunks()


def by_key(tables):
    found = {}
    for name, table in tables.items():
        rows = {tuple(row[column] for column in KEYS[name]): row for row in table.to_pylist()}
        assert len(rows) == len(table), f"{name} has two rows with one key"
        found[name] = rows
    return found


def between(raw, start, stop):
    offset = raw.column("offset")
    return raw.filter(pc.and_(pc.greater_equal(offset, start), pc.less(offset, stop)))


def piecewise(raw, cuts, *, again=0):
    """Derived part by part; `again`: so many records before each cut are read twice."""
    carry, tables, start = None, None, 0
    for stop in (*cuts, 1 << 40):
        found = derive(between(raw, max(start - again, 0), stop), carry=carry)
        carry, start = found.carry, stop
        tables = found.tables if tables is None else merge(tables, found.tables)
    return tables


def same(one, other):
    for name, rows in by_key(one).items():
        found = by_key({name: other[name]})[name]
        differing = {
            key: (rows.get(key), found.get(key))
            for key in rows.keys() | found.keys()
            if rows.get(key) != found.get(key)
        }
        assert not differing, (name, next(iter(differing.items())))


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + sized(1, 20)))
@pytest.mark.slow
def test_any_cut_gives_the_same_tables(kind, seed):
    draw = random.Random(f"{kind} {seed}")
    raw = whole_log(kind)
    cuts = sorted(draw.randrange(2_800) for _ in range(draw.randrange(1, 6)))
    same(derive(raw).tables, piecewise(raw, cuts, again=draw.randrange(30)))


@pytest.mark.long
@pytest.mark.slow
def test_order_and_repetition_of_rows_change_nothing():
    raw = whole_log("plain")
    order = list(range(len(raw))) + random.Random(4).choices(range(len(raw)), k=500)
    random.Random(5).shuffle(order)
    same(derive(raw).tables, derive(raw.take(pa.array(order))).tables)
    found = derive(raw)
    once_more = derive(raw, carry=found.carry)
    assert all(not len(table) for table in once_more.tables.values())
    assert once_more.carry.table.equals(found.carry.table)


def test_every_table_has_its_schema():
    found = derive(raw_log("synthetic", 0))
    assert set(found.tables) == set(DERIVED)
    assert {name: table.schema for name, table in found.tables.items()} == {name: TABLES[name] for name in DERIVED}
    assert found.carry.table.schema == CARRY
    assert set(KEYS) == set(TABLES)
    assert all(set(KEYS[name]) <= set(TABLES[name].names) for name in TABLES)
    nothing = derive(RAW.empty_table(), carry=Carry(CARRY.empty_table()))
    assert all(not len(table) for table in nothing.tables.values())


@pytest.mark.slow
def test_of_what_compaction_has_eaten_nothing_is_claimed():
    tables = {name: table.to_pylist() for name, table in derive(whole_log("compacted")).tables.items()}
    incomplete = [row for row in tables["gold_rebalance"] if not row["complete"]]
    assert incomplete
    assert {(row["cause"], row["confidence"], row["lost_rounds"]) for row in incomplete} == {
        ("unknown", "unknown", None)
    }
    assert {row["confidence"] for row in tables["gold_event"] if not row["complete"]} <= {"unknown"}


@pytest.mark.slow
def test_a_day_has_a_bound_only_if_each_of_its_rebalances_has_one():
    tables = {name: table.to_pylist() for name, table in derive(whole_log("plain")).tables.items()}
    most = {}
    for row in tables["gold_rebalance"]:
        if row["members_after"]:
            most.setdefault((row["group_id"], row["group_type"]), []).append(row["stopped_partition_ms_max"])
    days = {(row["group_id"], row["group_type"]): row["stopped_partition_ms_max"] for row in tables["gold_group_day"]}
    assert any(None in each for each in most.values())
    assert any(None not in each and sum(each) for each in most.values())
    types = Counter(name for name, _ in {*most, *days})
    same_type = {key: known for key, known in most.items() if types[key[0]] == 1}
    assert len(same_type) > 20
    for key, known in same_type.items():
        assert days[key] == (None if None in known else sum(known))


@pytest.mark.slow
def test_a_record_missing_in_between_makes_its_window_incomplete():
    """Take one record away: what is told of windows without it stays the same, the window with it is not explained."""
    raw = raw_log("plain", 2)
    before = by_key(derive(raw).tables)["gold_rebalance"]
    classic = sorted((key for key, row in before.items() if row["group_type"] == "classic"), key=lambda key: key[1])
    _, gone = classic[len(classic) // 2]
    after = by_key(derive(raw.filter(pc.not_equal(raw.column("offset"), gone))).tables)["gold_rebalance"]
    for key, row in after.items():
        assert row["complete"] or row["cause"] == "unknown"
        if row["complete"]:
            assert (row["cause"], row["from_generation"]) == (before[key]["cause"], before[key]["from_generation"])


@pytest.mark.slow
def test_owners_and_seats_follow_from_one_another():
    tables = derive(whole_log("plain")).tables
    owners = tables["silver_owner"].to_pylist()
    places = {}
    for row in owners:
        place = row["partition"], row["group_id"], row["group_type"], row["place"], row["topic_partition"]
        places.setdefault(place, []).append(row)
    for rows in places.values():
        rows.sort(key=lambda row: row["from_offset"])
        for one, other in itertools.pairwise(rows):
            assert one["to_offset"] is not None
            assert one["to_offset"] <= other["from_offset"], (one, other)
    for row in tables["silver_seat"].to_pylist():
        assert row["to_offset"] is None or row["to_offset"] > row["from_offset"]
        assert (row["to_offset"] is None) == (row["end_cause"] is None)
    exact = [row for row in owners if row["exact"]]
    assert exact
    assert all(row["topic"] for row in exact if row["topic_id"] is not None and row["to_offset"] is None)
