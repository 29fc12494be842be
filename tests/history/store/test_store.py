"""Asking tables: what is read is what a look at every row would give; files that do not count are not read."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgm.history import schema
from kgm.history.folders import Reading
from kgm.history.in_process import read_source
from kgm.history.rows import BadRow, RebalanceRow, TableRow, TenureRow
from kgm.history.store import tables as store_tables
from kgm.history.store.query import RowFilter, read_files
from kgm.history.store.sink_files import counted_files
from kgm.history.store.tables import BuiltStore, TablesInMemory, open_store
from kgm.java.partitions import partition_for
from kgm.model.errors import MissingFileError, RefusedError, UsageError
from tests.history.store.stores import write_store

REBALANCES = schema.TABLES["gold_rebalance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOnly(TableRow):
    table: ClassVar[str] = "gold_rebalance"
    group_id: str


def rows(*facts):
    """Rebalances: (partition, offset, timestamp, group)."""
    names = ("partition", "offset", "timestamp", "group_id")
    return pa.Table.from_pylist([dict(zip(names, fact, strict=True)) for fact in facts], schema=REBALANCES)


def home(group, partitions=4):
    return partition_for(group, partitions)


GROUPS = [f"group-{n}" for n in range(40)]
FACTS = [(home(group), n * 40 + m, 1000 * m + n, group) for m in range(6) for n, group in enumerate(GROUPS)]


@pytest.fixture
def both(tmp_path):
    """The same tables in memory and built, in small row groups."""
    tables = {name: columns.empty_table() for name, columns in schema.TABLES.items() if name[:4] in ("silv", "gold")}
    tables["gold_rebalance"] = rows(*FACTS).sort_by("group_id")
    snapshots = [{"partition": p, "offset": o, "timestamp": t, "group_id": g} for p, o, t, g in FACTS]
    tables["silver_snapshot"] = pa.Table.from_pylist(snapshots, schema=schema.TABLES["silver_snapshot"])
    path = write_store(tmp_path / "store", tables, partitions=range(4), rows_in_group=7)
    return TablesInMemory(tables=tables), open_store(path)


def keyed(found):
    return sorted((row.partition, row.offset, row.timestamp, row.group_id) for row in found)


@pytest.mark.few(3)
@pytest.mark.parametrize("groups", [None, ("group-7",), ("group-7", "group-31"), ("nobody",), ()])
@pytest.mark.parametrize(("since", "until"), [(None, None), (2003, None), (None, 2003), (1010, 4000), (9000, None)])
def test_what_is_asked_for_is_what_a_look_at_every_row_gives(both, groups, since, until):
    asked = RowFilter(group_ids=groups, since_ms=since, until_ms=until)
    expected = sorted(
        fact
        for fact in FACTS
        if (groups is None or fact[3] in groups)
        and (since is None or fact[2] >= since)
        and (until is None or fact[2] < until)
    )
    for tables in both:
        assert keyed(tables.rows(RebalanceRow, asked)) == expected
        assert sorted(tables.table("gold_rebalance", asked, ["group_id"]).column("group_id").to_pylist()) == sorted(
            fact[3] for fact in expected
        )
        assert sorted(row.group_id for row in tables.rows(GroupOnly, asked)) == sorted(fact[3] for fact in expected)


def test_intervals_count_if_any_of_them_lies_within(tmp_path):
    columns = schema.TABLES["silver_seat"]
    table = pa.Table.from_pylist(
        [
            {"partition": 0, "group_id": "g", "seat": seat, "from_timestamp": start, "to_timestamp": end}
            for seat, start, end in (("old", 0, 10), ("over", 5, 50), ("open", 20, None), ("late", 60, 70))
        ],
        schema=columns,
    )
    built = BuiltStore(write_store(tmp_path / "store", {"silver_seat": table}, partitions=[0]))
    for tables in (TablesInMemory(tables={"silver_seat": table}), built):
        asked = RowFilter(since_ms=30, until_ms=60)
        assert [row.seat for row in tables.rows(TenureRow, asked)] == ["over", "open"]
        assert tables.table("silver_seat", asked).schema == columns


def test_only_the_partition_of_a_group_is_read(both, monkeypatch):
    _, built = both
    read = []
    monkeypatch.setattr(
        store_tables, "read_files", lambda files, *rest: (read.extend(files), read_files(files, *rest))[1]
    )
    built.rows(RebalanceRow, RowFilter(group_ids=("group-7",)))
    assert {file.name for file in read} == {f"p{home('group-7'):05}-b000001.parquet"}


def test_a_store_that_lacks_partitions_is_read_all_over(tmp_path):
    """Nobody knows how many partitions the topic had, so the group's place is not where it is looked for."""
    other = next(p for p in range(4) if p != home("group-7", 3))
    table = rows((other, 1, 1, "group-7"))
    tables = {"gold_rebalance": table} | {
        name: schema.TABLES[name].empty_table()
        for name in ("silver_snapshot", "silver_group_epoch", "silver_member_state", "silver_seat", "silver_commit")
    }
    built = BuiltStore(write_store(tmp_path / "store", tables, partitions=range(3)))
    assert len(built.rows(RebalanceRow, RowFilter(group_ids=("group-7",)))) == 1


def test_what_is_not_there_is_told(both, tmp_path):
    _, built = both
    with pytest.raises(MissingFileError):
        open_store(tmp_path)
    (tmp_path / "kgm-history.json").write_text("nonsense")
    with pytest.raises(UsageError):
        open_store(tmp_path)
    (tmp_path / "kgm-history.json").write_text("[]")
    with pytest.raises(UsageError):
        open_store(tmp_path)
    with pytest.raises(MissingFileError):
        built.rows(BadRow, RowFilter())


def parquet(path, *offsets):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"offset": pa.array(offsets, pa.int64())}), path)
    return path


def offsets(directory):
    files = counted_files(directory)
    return sorted(offset for file in files for offset in pq.read_table(file).column("offset").to_pylist())


def test_without_a_log_every_visible_file_counts(tmp_path):
    parquet(tmp_path / "date=2026-01-01" / "a.parquet", 1)
    parquet(tmp_path / "b.parquet", 2)
    parquet(tmp_path / "_temporary" / "c.parquet", 3)
    parquet(tmp_path / ".d.parquet", 4)
    assert offsets(tmp_path) == [1, 2]


def sink_log(directory, batch, *lines):
    log = directory / "_spark_metadata"
    log.mkdir(exist_ok=True)
    (log / batch).write_text("\n".join(["v1", *map(json.dumps, lines)]))


def add(path, action="add"):
    return {"path": f"file://{path}", "size": 1, "action": action}


def test_only_what_sparks_sink_has_committed_counts(tmp_path):
    for n in (1, 2, 3):
        parquet(tmp_path / f"part {n}.parquet", n)
    parquet(tmp_path / "left-behind.parquet", 99)
    (tmp_path / "half.parquet").write_bytes(b"PAR1 and no end")
    sink_log(tmp_path, "0", add(f"{tmp_path}/part%201.parquet"))
    assert offsets(tmp_path) == [1]
    sink_log(tmp_path, "1.compact", add(f"{tmp_path}/part%202.parquet"))
    assert offsets(tmp_path) == [2]
    sink_log(tmp_path, "2", add(f"{tmp_path}/part%203.parquet"), add(f"{tmp_path}/part%202.parquet", "delete"))
    assert offsets(tmp_path) == [3]
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    tmp_path.rename(moved)
    assert offsets(moved) == [3]
    (moved / "_spark_metadata" / "3").write_text("v9\n{}")
    with pytest.raises(UsageError):
        counted_files(moved)


def delta_log(directory, version, *actions):
    log = directory / "_delta_log"
    log.mkdir(exist_ok=True)
    (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def test_only_what_deltas_log_has_counts(tmp_path):
    for n in (1, 2, 3):
        parquet(tmp_path / f"part {n}.parquet", n)
    delta_log(tmp_path, 0, {"protocol": {"minReaderVersion": 1}}, {"add": {"path": "part%201.parquet"}})
    delta_log(tmp_path, 1, {"add": {"path": "part%202.parquet"}}, {"remove": {"path": "part%201.parquet"}})
    assert offsets(tmp_path) == [2]
    checkpoint = pa.Table.from_pylist([{"add": {"path": "part%202.parquet"}, "remove": None, "protocol": None}])
    pq.write_table(checkpoint, tmp_path / "_delta_log" / f"{1:020d}.checkpoint.parquet")
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text('{"version": 1}')
    (tmp_path / "_delta_log" / f"{0:020d}.json").unlink()
    delta_log(tmp_path, 2, {"add": {"path": "part%203.parquet"}})
    assert offsets(tmp_path) == [2, 3]
    delta_log(tmp_path, 3, {"protocol": {"minReaderVersion": 3}})
    with pytest.raises(UsageError):
        counted_files(tmp_path)


def test_dumps_are_read_with_the_names_that_sparks_source_gives(tmp_path):
    times = pa.array([1_000_000, 2_000_000], pa.timestamp("us", "UTC"))
    table = pa.table(
        {
            "topic": ["__consumer_offsets", "other"], "partition": pa.array([1, 1], pa.int32()),
            "offset": pa.array([5, 6], pa.int64()), "timestamp": times, "key": [b"k", b"l"], "value": [None, b"v"],
        }
    )  # fmt: skip
    pq.write_table(table, tmp_path / "dump.parquet")
    raw = read_source("parquet", tmp_path, most_bytes=1 << 20, reading=Reading())
    assert raw.schema == schema.RAW
    assert [(row["offset"], row["timestamp"], row["key"], row["value"]) for row in raw.to_pylist()] == [
        (5, 1000, b"k", None)
    ]
    with pytest.raises(RefusedError):
        read_source("parquet", tmp_path, most_bytes=1, reading=Reading())
    pq.write_table(table.drop_columns(["key"]), tmp_path / "dump.parquet")
    with pytest.raises(UsageError, match="key"):
        read_source("parquet", tmp_path, most_bytes=1 << 20, reading=Reading())
