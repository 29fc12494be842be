"""Stores that hold as much as they can: 1 MiB of files never takes more than 512 MiB of memory, whatever is in them."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pytest

from kgm.history import schema
from kgm.history.rows import RebalanceRow
from kgm.history.store.query import RowFilter
from kgm.history.store.sink_files import counted_files
from kgm.history.store.tables import open_store
from kgm.model.errors import RefusedError
from tests.history.store import hostile_files as hostile
from tests.history.store.stores import write_store
from tests.history.test_expansion import MOST_KIB, history_of

pytestmark = pytest.mark.slow

MOST_BYTES = 1 << 20
TABLE = "gold_rebalance"


def numbers(count, kind=None):
    return pa.repeat(pa.scalar(1, kind or pa.int64()), count)


def row(count, **more):
    """Rebalances that are all the same."""
    return {"partition": numbers(count, pa.int32()), "offset": numbers(count), "timestamp": numbers(count),
            "group_id": hostile.same("g", count), **more}  # fmt: skip


#: By what they do: a function that writes the file of rebalances.
FILES = {
    "long strings of a dictionary": lambda path: hostile.repeated(path, row(100_000, reason=hostile.same("x" * 900_000, 100_000))),
    "long strings in lists": lambda path: hostile.repeated(
        path, row(1, evidence=pa.ListArray.from_arrays([0, 100_000], hostile.same("x" * 900_000, 100_000)))
    ),
    "equal rows": lambda path: hostile.repeated(path, row(1_000_000), times=5),
    "rows of another group": lambda path: hostile.repeated(path, row(1_000_000), times=5),
    "a list without end": lambda path: hostile.repeated(
        path, row(1, also=pa.ListArray.from_arrays([0, 30_000_000], pa.nulls(30_000_000, pa.string())))
    ),
    "compressed zeros": lambda path: hostile.repeated(path, row(1, reason=pa.array(["\0" * (20 << 20)])), use_dictionary=False),
    "shared beginnings": lambda path: hostile.repeated(
        path, row(1_500, reason=pa.array(["\0" * 200_000 + str(at) for at in range(1_500)])),
        use_dictionary=False, column_encoding={"reason": "DELTA_BYTE_ARRAY"},
    ),
    "a page that the footer does not tell of": lambda path: hostile.forged_page(path, b"reason", 1_500),
    "a wide schema": lambda path: hostile.wide_schema(path, 100_000),
    "a wide row group": lambda path: hostile.wide_row_group(path, 250_000),
    "row groups": lambda path: hostile.many_row_groups(path, 50_000),
}  # fmt: skip
#: What is read of those that hold no rows, or none that are asked for.
READ = {"a wide schema": 0, "a wide row group": 2, "row groups": 2, "rows of another group": 3}
QUICK = ("long strings of a dictionary", "a page that the footer does not tell of")


def empty_store(folder):
    tables = {name: columns.empty_table() for name, columns in schema.TABLES.items()}
    del tables["bronze_raw"]
    return write_store(folder / "store", tables)


def hostile_store(folder, kind):
    """A store whose rebalances are hostile."""
    store = empty_store(folder)
    FILES[kind](store / "gold" / "rebalance" / "a.parquet")
    assert sum(file.stat().st_size for file in store.rglob("*.parquet")) <= MOST_BYTES
    return store


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in QUICK else pytest.mark.long) for kind in FILES]
)
def test_a_small_store_fits_into_memory_or_is_refused(kind, tmp_path):
    command = ["explain", "other"] if kind == "rows of another group" else ["rebalances"]
    code, peak_kib = history_of(hostile_store(tmp_path, kind), *command, kind="store")
    assert code == READ.get(kind, 6)
    assert peak_kib < MOST_KIB


def heavy(count):
    """Rebalances that differ, each with somebody and a reason."""
    text = pa.array([f"{at:x}" for at in range(count)])
    lists = pa.ListArray.from_arrays(range(count + 1), text)
    who = pa.array([[{"seat": "a", "what": "left"}]] * count, schema.TABLES["gold_rebalance"].field("who").type)
    columns = row(count, group_type=text, protocol=text, reason=text, evidence=lists, also=lists, who=who)
    return {**columns, **{name: pa.array(range(count), pa.int32()) for name in ("moved", "kept", "members_after")}}


@pytest.mark.long
@pytest.mark.parametrize("command", [["rebalances"], ["rebalances", "-o", "json"], ["churn"]])
def test_what_is_accepted_fits_into_memory(command, tmp_path):
    store = empty_store(tmp_path)
    hostile.repeated(store / "gold" / "rebalance" / "a.parquet", heavy(24_000))
    code, peak_kib = history_of(store, *command, kind="store")
    assert code == 0
    assert peak_kib < MOST_KIB


@pytest.mark.long
def test_a_file_counts_once_however_often_it_is_named(tmp_path):
    """A manifest may name it by many paths, and a folder have links to it."""
    store = empty_store(tmp_path)
    file = store / "gold" / "rebalance" / "a.parquet"
    hostile.repeated(file, heavy(1_000))
    names = [f"gold/{'./' * at}rebalance/a.parquet" for at in range(300)]
    manifest = store / "kgm-history.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "files": {TABLE: dict.fromkeys(names, 1_000)}}))
    with pytest.raises(RefusedError, match="holds more than one process can read"):
        open_store(store).rows(RebalanceRow, RowFilter())
    manifest.write_text(json.dumps(content))
    for at in range(300):
        os.link(file, file.with_name(f"link-{at}.parquet"))
    with pytest.raises(RefusedError, match="holds more than one process can read"):
        open_store(store).rows(RebalanceRow, RowFilter())


def test_the_checkpoint_of_a_delta_table_is_bounded_too(tmp_path):
    folder = tmp_path / "silver" / "commit"
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    add = pa.StructArray.from_arrays([hostile.same("x" * 900_000, 10_000)], ["path"])
    hostile.repeated(log / f"{1:020}.checkpoint.parquet", {"add": add})
    (log / "_last_checkpoint").write_text('{"version": 1, "size": 1}')
    with pytest.raises(RefusedError, match=r"checkpoint.parquet holds more than one process can read"):
        counted_files(folder)
