"""A source that holds something else than raw records is a usage error that says what it holds."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgm.history.folders import Reading
from kgm.history.in_process import derive_source, read_partitions
from kgm.model.errors import UsageError

GOOD = {
    "partition": pa.array([0, 0], pa.int32()), "offset": pa.array([0, 1], pa.int64()),
    "timestamp": pa.array([1, 2], pa.int64()), "key": pa.array([b"", b""]), "value": pa.array([None, b""], pa.binary()),
}  # fmt: skip


def derived(path):
    return derive_source("parquet", path, most_bytes=1 << 20)


@pytest.mark.parametrize("read", [derived, lambda path: list(read_partitions("parquet", path, reading=Reading()))])
@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"partition": pa.array([0, None], pa.int32())}, "have records without partition"),
        ({"offset": pa.array([None, None], pa.int64())}, "have records without offset"),
        ({"partition": pa.nulls(2), "offset": pa.nulls(2)}, "have records without partition"),
        ({"offset": pa.array(["a", "b"])}, "does not hold raw records"),
        ({"key": pa.array([{"a": 1}, {"a": 2}])}, "does not hold raw records"),
        ({"partition": pa.array([2**40, 1])}, "does not hold raw records|have a record with partition 1099511627776"),
        ({"timestamp": pa.array([True, False])}, None),
    ],
)
def test_columns_of_another_kind(tmp_path, read, columns, said):
    pq.write_table(pa.table(GOOD | columns), tmp_path / "part-0.parquet")
    if said is None:
        read(tmp_path)
        return
    with pytest.raises(UsageError, match=said):
        read(tmp_path)


def test_files_that_are_not_parquet(tmp_path):
    (tmp_path / "part-0.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(UsageError, match="does not hold raw records"):
        derived(tmp_path)


def test_files_of_several_tables(tmp_path):
    """As in the root of a store."""
    pq.write_table(pa.table(GOOD), tmp_path / "part-0.parquet")
    pq.write_table(pa.table({**GOOD, "partition": pa.array(["a", "b"])}), tmp_path / "part-1.parquet")
    with pytest.raises(UsageError, match="does not hold raw records"):
        derived(tmp_path)


def test_a_column_whose_name_is_no_text(tmp_path):
    path = tmp_path / "part-0.parquet"
    pq.write_table(pa.table(GOOD), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"timestamp", b"time\xf0tamp"))
    with pytest.raises(UsageError, match="does not hold raw records"):
        derived(tmp_path)
