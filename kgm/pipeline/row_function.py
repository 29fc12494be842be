"""A function of plain rows as one of Arrow tables, as Spark's workers call it, so that the function needs no
pyarrow."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

RowFunction = Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]]
_TYPES = {
    "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.string()),
}  # fmt: skip


def schema_of(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    """The schema of (name, type) pairs; types have their SQL names."""
    return pa.schema([pa.field(name, _TYPES[kind]) for name, kind in columns])


def rowwise(function: RowFunction, columns: Sequence[tuple[str, str]]) -> Callable[[pa.Table], pa.Table]:
    """A function that calls this one for each row of a table; all the rows that it returns are the result. (Spark
    counts the parameters of what it is given, so this has to be a plain function.)"""
    schema = schema_of(columns)

    def rows_of(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist([dict(made) for row in table.to_pylist() for made in function(row)], schema=schema)

    return rows_of
