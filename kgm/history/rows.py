"""Rows on their way into tables: by key, so that what is said again of the same thing takes the place of it."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from kgm.history.schema import KEYS, TABLES

Row = dict[str, Any]
#: Where a record stands: the four columns of `schema.POSITION`.
Position = Mapping[str, Any]


def position(partition: int, offset: int, timestamp: int, leader_epoch: int | None) -> Row:
    """The columns that a record begins with."""
    return {"partition": partition, "offset": offset, "timestamp": timestamp, "leader_epoch": leader_epoch}


class Rows:
    """New and replaced rows of every table."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[tuple[Any, ...], Row]] = {}

    def put(self, table: str, row: Row) -> None:
        """Add a row, or replace the one that has its key. The row may go on changing until the tables are made."""
        key = tuple(row.get(name) for name in KEYS[table])
        self._rows.setdefault(table, {})[key] = row

    def table(self, name: str) -> pa.Table:
        """All rows of a table; columns that a row does not have are null."""
        rows = list(self._rows.get(name, {}).values())
        try:
            return pa.Table.from_pylist(rows, schema=TABLES[name])
        except (OverflowError, pa.ArrowInvalid):
            # Times that no clock shows, summed up; the rest of the table shall not suffer from it.
            return pa.Table.from_pylist([_bounded(row, TABLES[name]) for row in rows], schema=TABLES[name])


def _bounded(row: Row, schema: pa.Schema) -> Row:
    bits = {field.name: field.type.bit_width - 1 for field in schema if pa.types.is_integer(field.type)}
    return {
        name: max(min(value, (1 << bits[name]) - 1), -(1 << bits[name]))
        if name in bits and value is not None
        else value
        for name, value in row.items()
    }
