"""Converts the rows of `rows` to Arrow tables by `schema`, and back: the only place where a row meets a column's name.

`RowCollector` holds the rows that a step of `derive` produces, by key, so that a newer row about the same thing
replaces the older one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from kgm.history.decode.arrow_lists import to_list
from kgm.history.rows import AnyRow, TableRow
from kgm.history.schema import KEYS, TABLES

_Convert = Callable[[Any], Any]


class _Column(NamedTuple):
    """A field of a row. read, write: convert from and to Arrow's value; None if no conversion is needed."""

    name: str
    read: _Convert | None
    write: _Convert | None


def columns_of(cls: type[TableRow]) -> tuple[str, ...]:
    """The names of the columns in rows of a class."""
    return tuple(column.name for column in _columns(cls))


def read_rows(cls: type[AnyRow], table: pa.Table) -> list[AnyRow]:
    """The rows of a table that has all of the class's columns."""
    names, values = [], []
    for name, read, _ in _columns(cls):
        column = to_list(table.column(name))
        names.append(name)
        values.append(column if read is None else list(map(read, column)))
    return [cls(**dict(zip(names, row, strict=True))) for row in zip(*values, strict=True)]


def row_table(cls: type[TableRow], rows: Sequence[TableRow]) -> pa.Table:
    """A table with the schema of the class's table."""
    arrays = []
    for field, (name, _, write) in zip(TABLES[cls.table], _columns(cls), strict=True):
        values = list(map(attrgetter(name), rows))
        arrays.append(_array(values if write is None else list(map(write, values)), field.type))
    return pa.Table.from_arrays(arrays, schema=TABLES[cls.table])


def column_table(columns: dict[str, list[Any]], count: int, schema: pa.Schema) -> pa.Table:
    """A table from lists of values, for cases in which one object for each row would take too long; columns that are
    left out are null."""
    arrays = [
        pa.array(columns[field.name], type=field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type=kind)
    except (OverflowError, pa.ArrowInvalid):
        if not pa.types.is_integer(kind):
            raise
        # Sums of implausible timestamps: the rest of the table must not suffer from them.
        most = (1 << (kind.bit_width - 1)) - 1
        return pa.array([None if value is None else max(min(value, most), -most - 1) for value in values], type=kind)


_columns_of: dict[type[Any], tuple[_Column, ...]] = {}


def _columns(cls: type[Any]) -> tuple[_Column, ...]:
    known = _columns_of.get(cls)
    if known is None:
        hints = get_type_hints(cls)
        known = tuple(_Column(each.name, _reader(hints[each.name]), _writer(hints[each.name])) for each in fields(cls))
        _columns_of[cls] = known
    return known


def _plain_type(hint: Any) -> tuple[Any, bool]:
    """(a type without None, whether None was part of it)."""
    if get_origin(hint) in (Union, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        return kinds[0], True
    return hint, False


def _reader(hint: Any) -> _Convert | None:
    kind, optional = _plain_type(hint)
    if get_origin(kind) is tuple:
        element, missing = _reader(get_args(kind)[0]), None if optional else ()
        if element is None:
            return lambda values: missing if values is None else tuple(values)
        return lambda values: missing if values is None else tuple(map(element, values))
    if isinstance(kind, type) and is_dataclass(kind):
        inner = [(column.name, column.read) for column in _columns(kind)]
        return lambda value: kind(
            **{name: value[name] if read is None else read(value[name]) for name, read in inner}
        )  # fmt: skip
    return None


def _writer(hint: Any) -> _Convert | None:
    kind, _ = _plain_type(hint)
    if get_origin(kind) is tuple:
        element = _writer(get_args(kind)[0])
        return None if element is None else lambda values: None if values is None else list(map(element, values))
    if isinstance(kind, type) and is_dataclass(kind):
        names = [column.name for column in _columns(kind)]
        return lambda value: {name: getattr(value, name) for name in names}
    return None


class RowCollector:
    """New and replaced rows of every table."""

    def __init__(self) -> None:
        self._rows: dict[type[TableRow], dict[tuple[Any, ...], TableRow]] = {}
        self._keys: dict[type[TableRow], Callable[[TableRow], tuple[Any, ...]]] = {}

    def put(self, row: TableRow) -> None:
        """Add a row, or replace the one with the same key."""
        cls = type(row)
        rows = self._rows.get(cls)
        if rows is None:
            rows = self._rows[cls] = {}
            self._keys[cls] = attrgetter(*KEYS[cls.table])
        rows[self._keys[cls](row)] = row

    def without(self, *classes: type[TableRow]) -> "RowCollector":
        """The same collector, for a caller whose rows of these classes are left out."""
        return _WithoutSome(self, classes)

    def put_all(self, rows: Iterable[TableRow]) -> None:
        """Add or replace each of these rows."""
        for row in rows:
            self.put(row)

    def table(self, cls: type[TableRow]) -> pa.Table:
        """All rows of a class."""
        return row_table(cls, list(self._rows.get(cls, {}).values()))


class _WithoutSome(RowCollector):
    def __init__(self, rows: RowCollector, left_out: tuple[type[TableRow], ...]) -> None:
        self._all, self._left_out = rows, left_out

    def put(self, row: TableRow) -> None:
        if not isinstance(row, self._left_out):
            self._all.put(row)
