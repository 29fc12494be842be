"""Reads many messages of one class and version into Arrow arrays together: a reader walks the class's table with a
cursor.

Arrays are walked in lockstep: first the j-th elements of all records are skipped together, for every j, to find where
they begin (`array_bounds` saves most of that); then all elements of all records are read as one column. So the work in
Python grows with the longest array, not with the number of records. Structs that occur many times with the same bytes,
as a group's members do, are read once."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgm.history.decode.array_bounds import Bounds
from kgm.history.decode.vector_cursor import Buffer, Cursor, Positions
from kgm.history.schema import arrow_type, struct_type
from kgm.protocol.primitives import WIDTH
from kgm.protocol.struct import Field, Message, Struct, within

#: With fewer structs than this, finding duplicates takes longer than reading all of them.
_WORTH_ENCODING = 1_000
_PRESENT, _ABSENT = 1, -1
_TAG_PRESENT, _TAG_ABSENT = 1, 0


def read_messages(
    cls: type[Message], version: int, buffer: Buffer, start: Positions, end: Positions, *, lenient: bool = False
) -> tuple[pa.StructArray, Positions, Positions]:
    """Decode the bytes from each start to its end, as `kgm.protocol.codec.decode` does with trailing bytes allowed.
    lenient: whether text that is not UTF-8 is allowed.

    Returns (messages, the index of each in the input, how many unknown tags each has): bytes that are not such a
    message are left out."""
    good = np.arange(len(start))
    while True:
        cursor = Cursor.over(buffer, start[good], end[good])
        reader = _Reader(cls, version, len(cursor), lenient=lenient)
        messages = reader.struct(cls.__name__, cursor)
        if not cursor.bad.any():
            return messages, good, reader.unknown_tags
        good = good[~cursor.bad]


@dataclass(frozen=True, slots=True)
class SplitMessages:
    """Messages of one version with one array field split off: the columns of the other fields, and the elements."""

    version: int
    columns: dict[str, pa.Array]
    elements: "ArrayElements"

    def __len__(self) -> int:
        return len(self.elements.offsets) - 1


def read_split(
    cls: type[Message], version: int, buffer: Buffer, start: Positions, end: Positions, *, name: str
) -> tuple[SplitMessages, Positions, Positions]:
    """Does what `read_messages` does, with the array field `name` split off."""
    good = np.arange(len(start))
    while True:
        cursor = Cursor.over(buffer, start[good], end[good])
        reader = _Reader(cls, version, len(cursor))
        columns = reader.columns(cls.__name__, cursor, split=name)
        if not cursor.bad.any():
            assert reader.split_off is not None
            return SplitMessages(version, columns, reader.split_off), good, reader.unknown_tags
        good = good[~cursor.bad]


class ArrayElements(NamedTuple):
    """Elements of one array field of many records; those of record i are numbered from offsets[i] on.

    different: the distinct structs; number: the index in `different` of each element; spans: the bytes of each distinct
    struct. number and spans are None if `different` has all elements, one by one."""

    offsets: Positions
    different: pa.Array
    number: npt.NDArray[np.int32] | None
    spans: pa.BinaryArray | None

    def values(self) -> pa.Array:
        return self.different if self.number is None else self.different.take(pa.array(self.number))


class _Reader:
    """Reads structs of one message class at one version, or skips them."""

    def __init__(self, cls: type[Message], version: int, count: int, *, lenient: bool = False) -> None:
        self.cls, self.version, self.lenient = cls, version, lenient
        self.flexible = version >= cls.FLEXIBLE_FROM
        self.unknown_tags = np.zeros(count, dtype=np.int64)
        self.split_off: ArrayElements | None = None

    def struct(self, name: str, cursor: Cursor) -> pa.StructArray:
        columns = self.columns(name, cursor)
        names = [row.name for row in field_rows(self.cls, name)]
        return _struct_array([columns[name] for name in names], names, len(cursor))

    def columns(self, name: str, cursor: Cursor, *, split: str | None = None) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        tagged = []
        for row in field_rows(self.cls, name):
            if not within(self.version, row.versions):
                columns[row.name] = default_of(self.cls, row).take(_zeros(len(cursor)))
            elif row.tag is not None and within(self.version, row.tagged):
                tagged.append(row)
            elif row.name == split:
                counts, _ = self.counts(row.kind[2:], cursor, nullable=False)
                self.split_off = self.elements(row.kind[2:], cursor, counts, least=0)
            else:
                columns[row.name] = self.value(row.kind, cursor, nullable=within(self.version, row.nullable))
        if self.flexible:
            columns |= self.tags(tagged, cursor)
        return columns

    def value(self, kind: str, cursor: Cursor, *, nullable: bool) -> pa.Array:
        if kind in WIDTH:
            values = cursor.fixed(kind)
            return pa.array(values, type=arrow_type(self.cls, kind))
        if kind == "uuid":
            return cursor.uuids()
        if kind.startswith("[]"):
            return self.array(kind[2:], cursor, nullable=nullable)
        if kind in ("string", "bytes"):
            start, lengths = cursor.spans(flexible=self.flexible, wide=_wide(kind), nullable=nullable)
            values = cursor.cut(start, lengths)
            return _text(values, cursor, lenient=self.lenient) if kind == "string" else values
        if not nullable:
            return self.struct(kind, cursor)
        return self.maybe(kind, cursor, cursor.fixed("int8"), _PRESENT, _ABSENT)

    def maybe(self, kind: str, cursor: Cursor, flag: Any, present: int, absent: int) -> pa.Array:
        """A struct where the flag is `present`, null where it is `absent`."""
        cursor.fail((flag != present) & (flag != absent))
        there = np.nonzero((flag == present) & (cursor.end >= 0))[0]
        inner = cursor.select(there)
        structs = self.struct(kind, inner)
        cursor.at[there] = inner.at
        cursor.catch_up()
        null = pa.nulls(1, struct_type(self.cls, self.cls.STRUCTS[kind]))
        return _overlay(structs, there, len(cursor), null)

    def counts(self, kind: str, cursor: Cursor, *, nullable: bool) -> tuple[Positions, Any]:
        """(how many elements each array has, which arrays are null)."""
        counts = cursor.length(flexible=self.flexible, wide="int32", nullable=nullable)
        null = counts < 0
        counts = np.maximum(counts, 0)
        # No count can make us allocate more than the available bytes justify.
        least = _least_bytes(self.cls, kind, self.version)  # type: ignore[arg-type]  # mypy: a class is not Hashable
        cursor.fail(counts * least > cursor.end - cursor.at)
        return np.where(cursor.end < 0, 0, counts), null

    def array(self, kind: str, cursor: Cursor, *, nullable: bool) -> pa.Array:
        counts, null = self.counts(kind, cursor, nullable=nullable)
        if kind in WIDTH:
            offsets, values = self.numbers(kind, cursor, counts)
        else:
            elements = self.elements(kind, cursor, counts)
            offsets, values = elements.offsets, elements.values()
        at = pa.array(offsets, type=pa.int32(), mask=np.append(null, False) if null.any() else None)
        return pa.ListArray.from_arrays(at, values, type=arrow_type(self.cls, "[]" + kind))

    def numbers(self, kind: str, cursor: Cursor, counts: Positions) -> tuple[Positions, pa.Array]:
        offsets = np.zeros(len(cursor) + 1, dtype=np.int64)
        np.cumsum(counts, out=offsets[1:])
        place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        starts = np.repeat(cursor.at, counts) + place * WIDTH[kind]
        cursor.skip(counts * WIDTH[kind])
        elements = Cursor(
            cursor.buffer, starts, np.repeat(cursor.end, counts), np.repeat(cursor.row, counts), cursor.bad
        )
        elements.catch_up()
        return offsets, self.value(kind, elements, nullable=False)

    def elements(
        self, kind: str, cursor: Cursor, counts: Positions, *, least: int = _WORTH_ENCODING
    ) -> "ArrayElements":
        """All elements of arrays that begin at the cursor, which is moved past them. least: with fewer elements,
        duplicates are not looked for; 0: they always are."""
        struct = _is_struct(kind)
        bounds = Bounds(counts)
        bounds.find(cursor, lambda each: self.skip(kind, each), alike=struct and not self.flexible)
        row = np.repeat(cursor.row, counts)
        if struct and len(row) >= least and not cursor.bad.any():
            spans = cursor.cut(bounds.start, bounds.end - bounds.start).dictionary_encode()
            if len(spans.dictionary) * 2 <= len(row) or not least:
                return self.different(kind, bounds, spans, row, cursor)
        elements = Cursor(cursor.buffer, bounds.start, np.repeat(cursor.end, counts), row, cursor.bad)
        elements.catch_up()
        return ArrayElements(bounds.offsets, self.value(kind, elements, nullable=False), None, None)

    def different(
        self, kind: str, bounds: Bounds, spans: pa.DictionaryArray, row: Positions, cursor: Cursor
    ) -> "ArrayElements":
        """The elements, with each distinct struct read once."""
        buffer, start, end = Buffer.of(spans.dictionary)
        inner = Cursor.over(buffer, start, end)
        reader = _Reader(self.cls, self.version, len(inner), lenient=self.lenient)
        structs = reader.struct(kind, inner)
        number = spans.indices.to_numpy()
        if inner.bad.any():
            cursor.bad[row[inner.bad[number]]] = True
            cursor.catch_up()
        if reader.unknown_tags.any():
            np.add.at(self.unknown_tags, row, reader.unknown_tags[number])
        return ArrayElements(bounds.offsets, structs, number, spans.dictionary)

    def tags(self, tagged: list[Field], cursor: Cursor) -> dict[str, pa.Array]:
        """The tag section: known fields by name, defaults for those that it lacks; unknown tags are counted."""
        spans = {row.tag: np.full((2, len(cursor)), -1, dtype=np.int64) for row in tagged}

        def note(active: Positions, tag: Positions, start: Positions, stop: Positions, sub: Cursor) -> None:
            other = sub.end >= 0
            for known, span in spans.items():
                hit = other & (tag == known)
                span[0, active[hit]], span[1, active[hit]] = start[hit], stop[hit]
                other &= ~hit
            np.add.at(self.unknown_tags, sub.row[other], 1)

        _walk_tags(cursor, note)
        columns = {}
        for row in tagged:
            start, stop = spans[row.tag]
            there = np.nonzero(start >= 0)[0]
            inner = Cursor(cursor.buffer, start[there], stop[there], cursor.row[there], cursor.bad)
            default = default_of(self.cls, row)
            columns[row.name] = _overlay(self.tagged(row, inner), there, len(cursor), default)
            inner.fail((inner.at != inner.end) & (inner.end >= 0))
        cursor.catch_up()
        return columns

    def tagged(self, row: Field, inner: Cursor) -> pa.Array:
        nullable = within(self.version, row.nullable)
        if nullable and _is_struct(row.kind):
            # Inside a tag a null struct is the byte 0, not -1 (Kafka's generator writes it as a varint).
            return self.maybe(row.kind, inner, inner.fixed("int8"), _TAG_PRESENT, _TAG_ABSENT)
        return self.value(row.kind, inner, nullable=nullable)

    # -- skipping

    def skip(self, kind: str, cursor: Cursor, *, nullable: bool = False) -> None:
        if kind in WIDTH:
            cursor.skip(WIDTH[kind])
        elif kind == "uuid":
            cursor.skip(16)
        elif kind in ("string", "bytes"):
            cursor.spans(flexible=self.flexible, wide=_wide(kind), nullable=nullable)
        elif kind.startswith("[]"):
            self.skip_array(kind[2:], cursor, nullable=nullable)
        elif nullable:
            flag = cursor.fixed("int8")
            cursor.fail((flag != _PRESENT) & (flag != _ABSENT))
            there = np.nonzero((flag == _PRESENT) & (cursor.end >= 0))[0]
            inner = cursor.select(there)
            self.skip_struct(kind, inner)
            cursor.at[there] = inner.at
            cursor.catch_up()
        else:
            self.skip_struct(kind, cursor)

    def skip_struct(self, name: str, cursor: Cursor) -> None:
        for row in field_rows(self.cls, name):
            tagged = row.tag is not None and within(self.version, row.tagged)
            if within(self.version, row.versions) and not tagged:
                self.skip(row.kind, cursor, nullable=within(self.version, row.nullable))
        if self.flexible:
            _walk_tags(cursor, None)

    def skip_array(self, kind: str, cursor: Cursor, *, nullable: bool) -> None:
        counts, _ = self.counts(kind, cursor, nullable=nullable)
        if kind in WIDTH:
            cursor.skip(counts * WIDTH[kind])
        else:
            cursor.lockstep(counts, lambda _, __, sub: self.skip(kind, sub))


def _walk_tags(cursor: Cursor, note: Callable[..., None] | None) -> None:
    """Skip a tag section, calling note(active, tag, start, stop, sub) for the j-th tags of all records, for every j."""
    counts = cursor.uvarint()
    if not counts.any():
        return
    cursor.fail(counts > (cursor.end - cursor.at) // 2)
    counts = np.where(cursor.end < 0, 0, counts)
    last = np.full(len(cursor), -1, dtype=np.int64)

    def step(active: Positions, _: int, sub: Cursor) -> None:
        tag, size = sub.uvarint(), sub.uvarint()
        sub.fail((tag <= last[active]) | (size > sub.end - sub.at))
        size = np.where(sub.end < 0, 0, size)
        last[active] = tag
        if note is not None:
            note(active, tag, sub.at, sub.at + size, sub)
        sub.skip(size)

    cursor.lockstep(counts, step)


def _text(values: pa.Array, cursor: Cursor, *, lenient: bool) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        if lenient:
            texts = [None if value is None else value.decode(errors="replace") for value in values.to_pylist()]
            return pa.array(texts, type=pa.string())
        failed = np.array([not _is_utf8(value) for value in values.to_pylist()])
        cursor.fail(failed)
        return pa.array([""] * len(values), type=pa.string())


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def _overlay(values: pa.Array, there: Positions, count: int, default: pa.Array) -> pa.Array:
    """An array of length `count`: `values` at the positions `there`, the default everywhere else."""
    if len(there) == count:
        return values
    chosen = np.full(count, len(values), dtype=np.int64)
    chosen[there] = np.arange(len(there))
    return pa.concat_arrays([values, default]).take(pa.array(chosen))


def _struct_array(columns: list[pa.Array], names: list[str], count: int) -> pa.StructArray:
    assert all(len(column) == count for column in columns)
    return pa.StructArray.from_arrays(columns, names)


@cache
def _least_bytes(cls: type[Message], kind: str, version: int) -> int:
    """The fewest bytes that a value of this kind can take."""
    flexible = version >= cls.FLEXIBLE_FROM
    if kind in WIDTH:
        return WIDTH[kind]
    if kind == "uuid":
        return 16
    if kind.startswith("[]") or kind in ("string", "bytes"):
        return 1 if flexible else 2 if kind == "string" else 4
    least = 1 if flexible else 0
    for row in field_rows(cls, kind):
        if within(version, row.versions) and (row.tag is None or not within(version, row.tagged)):
            null = within(version, row.nullable) and _is_struct(row.kind)
            least += 1 if null else _least_bytes(cls, row.kind, version)  # type: ignore[arg-type]  # as above
    return least


def _zeros(count: int) -> pa.Array:
    return pa.array(np.zeros(count, dtype=np.int64))


def _wide(kind: str) -> str:
    return "int16" if kind == "string" else "int32"


def _is_struct(kind: str) -> bool:
    return not kind.startswith("[]") and kind not in WIDTH and kind not in ("string", "bytes", "uuid")


_tables: dict[tuple[type[Message], str], tuple[Field, ...]] = {}
_defaults: dict[tuple[type[Message], Field], pa.Array] = {}


def field_rows(cls: type[Message], name: str) -> tuple[Field, ...]:
    known = _tables.get((cls, name))
    if known is None:
        struct = cls if name == cls.__name__ else cls.STRUCTS[name]
        known = _tables[cls, name] = tuple(Field(*row) for row in struct.FIELDS)
    return known


def default_of(cls: type[Message], row: Field) -> pa.Array:
    """Kafka's default for a field, as an array of length one."""
    known = _defaults.get((cls, row))
    if known is None:
        known = _defaults[cls, row] = pa.array([_default_value(cls, row)], type=arrow_type(cls, row.kind))
    return known


def _default_value(cls: type[Message], row: Field) -> Any:
    value = row.default
    if value == () and _is_struct(row.kind):
        return plain(cls.STRUCTS[row.kind]())
    return [] if value == () else value


def plain(value: Any) -> Any:
    """A message of the scalar codec in the form of Arrow's `to_pylist`: structs are dicts."""
    if isinstance(value, Struct):
        return {row[0]: plain(getattr(value, row[0])) for row in value.FIELDS}
    return [plain(each) for each in value] if isinstance(value, list) else value
