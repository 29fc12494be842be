"""Raw records of `__consumer_offsets` into one table for each record type (KIP-915 tells what newer brokers may add).

Keys repeat, so that each different one is decoded once. Values are decoded by version. What `decode_record` would
refuse ends up in `Decoded.bad`, whole and with its error: nothing is dropped, nothing raises for what a log holds."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.arrow_lists import listed
from kgm.history.decode.message_reader import Apart, read_apart, read_messages
from kgm.history.decode.vector_cursor import Buffer, Positions
from kgm.history.schema import BAD, RAW, record_schema
from kgm.model.errors import DecodeError
from kgm.records.record import decode_record, message_classes
from kgm.records.record_types import TYPES

_VERSION_BYTES = 2
_OFFSET_COMMITS, _GROUP_METADATA = (0, 1), 2
_PLAIN = ("partition", "offset", "timestamp", "leader_epoch", "producer_id", "producer_epoch", "transactional")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """records: a table by `schema.record_schema` for each record type that occurs, in the order of the raw records;
    groups: those of classic groups in the form that they are read in; bad: by `schema.BAD`; controls: the raw records
    of control batches, which hold no record of a group; count: all records that are in one of these."""

    count: int
    records: Mapping[int, pa.Table]
    groups: tuple["GroupRecords", ...]
    bad: pa.Table
    controls: pa.Table

    @property
    def refused(self) -> Counter[tuple[str, int | None, int | None]]:
        """How many records were not decoded, by (reason, record type, value version)."""
        columns = [self.bad.column(name).to_pylist() for name in ("reason", "key_type", "value_version")]
        return Counter(zip(*columns, strict=True))


def decode(raw: pa.Table) -> Decoded:
    """Decode records that have the columns of `schema.RAW`; batch by batch, as the table is chunked. Cut it into
    batches of less than 2 GiB, a thousand records of large groups or a hundred thousand commits each."""
    bad: list[pa.RecordBatch] = []
    controls: list[pa.RecordBatch] = []
    groups: list[GroupRecords] = []
    records: dict[int, list[pa.RecordBatch]] = {}
    for batch in raw.select(RAW.names).to_batches():
        found = RawBatch(batch)
        found.decode()
        for kind, part in found.records.items():
            records.setdefault(kind, []).append(part)
        if found.groups is not None:
            groups.append(found.groups)
        bad.append(found.bad())
        controls.append(found.controls())
    parts = [*(part for each in records.values() for part in each), *groups, *bad, *controls]
    return Decoded(
        count=sum(map(len, parts)), records=_Tables(records, groups), groups=tuple(groups),
        bad=pa.Table.from_batches(bad, schema=BAD),
        controls=pa.Table.from_batches(controls, schema=RAW),
    )  # fmt: skip


def decoded(raw: Iterable[pa.RecordBatch], kind: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The records of one type alone, batch by batch. columns: of `schema.record_schema`, all if None."""
    for batch in raw:
        found = decode(pa.Table.from_batches([batch])).records
        if kind in found:
            yield from (found[kind] if columns is None else found[kind].select(columns)).to_batches()


class _Tables(Mapping[int, pa.Table]):
    """By record type. The table of classic groups, with every member of every record in it, is made when it is looked
    at."""

    def __init__(self, parts: dict[int, list[pa.RecordBatch]], groups: list["GroupRecords"]) -> None:
        self._parts, self._groups = parts, groups
        self._tables: dict[int, pa.Table] = {}
        self._kinds = sorted([*parts, _GROUP_METADATA] if groups else parts)

    def __getitem__(self, kind: int) -> pa.Table:
        if kind not in self._kinds:
            raise KeyError(kind)
        if kind not in self._tables:
            parts = [each.batch() for each in self._groups] if kind == _GROUP_METADATA else self._parts[kind]
            self._tables[kind] = pa.Table.from_batches(parts, schema=record_schema(kind))
        return self._tables[kind]

    def __iter__(self) -> Iterator[int]:
        return iter(self._kinds)

    def __contains__(self, kind: object) -> bool:
        return kind in self._kinds

    def __len__(self) -> int:
        return len(self._kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecords:
    """The GroupMetadata records of a chunk, each different member once. plain: `schema.POSITION` and what else is of
    the raw record; key_of, value_of: which key, and which value of `values` (those of one version in each) a record
    has, -1 for a tombstone."""

    plain: list[pa.Array]
    keys: pa.StructArray
    key_of: Positions
    versions: pa.Array
    values: list[Apart]
    value_of: Positions
    unknown_tags: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.key_of)

    def batch(self) -> pa.RecordBatch:
        """By `schema.record_schema`, every member of every record."""
        schema = record_schema(_GROUP_METADATA)
        kind = schema.field("value").type
        parts = [pa.StructArray.from_arrays(_whole(kind, part), fields=list(kind)) for part in self.values]
        values = pa.concat_arrays(parts) if parts else pa.nulls(0, kind)
        return pa.RecordBatch.from_arrays(
            [
                *self.plain, _take(self.keys, self.key_of), self.versions, _take(values, self.value_of),
                pa.array(self.unknown_tags),
            ],
            schema=schema,
        )  # fmt: skip


def _whole(kind: pa.StructType, part: Apart) -> list[pa.Array]:
    members = part.elements.values()
    offsets = pa.array(part.elements.offsets, type=pa.int32())
    lists = pa.ListArray.from_arrays(offsets, members, type=kind.field("members").type)
    return [part.columns.get(field.name, lists) for field in kind]


class RawBatch:
    """One chunk of raw records on its way through. lenient: whether text that is not UTF-8 is read as Java reads it,
    with U+FFFD in it, and not refused."""

    def __init__(self, raw: pa.RecordBatch, *, lenient: bool = False) -> None:
        self.raw, self.lenient = raw, lenient
        self.keys, self.values = raw.column("key"), raw.column("value")
        self.value_bytes, self.value_start, self.value_end = Buffer.of(self.values)
        self.key_type, self.has_type = leading(self.keys)
        self.version, self.has_version = leading(self.values)
        self.tombstone = self.values.is_null().to_numpy(zero_copy_only=False)
        self.control = pc.fill_null(raw.column("control"), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
        self.records: dict[int, pa.RecordBatch] = {}
        self.groups: GroupRecords | None = None
        self.refused = np.zeros(len(raw), dtype=np.bool_)

    def decode(self) -> None:
        """Decode what can be; the others are noted as refused."""
        known = self.has_type & ~self.control
        for kind in np.unique(self.key_type[known]).tolist():
            rows = np.nonzero(known & (self.key_type == kind))[0]
            if kind == _GROUP_METADATA:
                self.groups = self.group_records(rows)
            elif kind in TYPES:
                self.records[kind] = self.kind(kind, rows)
            else:
                self.refused[rows] = True
        self.refused |= ~self.has_type & ~self.control

    def kind(self, kind: int, rows: Positions) -> pa.RecordBatch:
        """All records of a type that can be decoded."""
        found = self.read(kind, rows)
        kept = found.readable
        self.refused[rows[~kept]] = True
        schema = record_schema(kind)
        values = pa.concat_arrays(found.values) if found.values else pa.nulls(0, schema.field("value").type)
        return pa.RecordBatch.from_arrays(
            [
                *self.plain(rows[kept]),
                _take(found.keys, found.key_of[kept]),
                pa.array(self.version[rows[kept]], mask=self.tombstone[rows[kept]]),
                _take(values, found.value_of[kept]),
                pa.array(found.unknown_tags[kept]),
            ],
            schema=schema,
        )

    def group_records(self, rows: Positions) -> "GroupRecords":
        found = self.read(_GROUP_METADATA, rows, apart=True)
        kept = found.readable
        self.refused[rows[~kept]] = True
        rows = rows[kept]
        return GroupRecords(
            plain=self.plain(rows), keys=found.keys, key_of=found.key_of[kept],
            versions=pa.array(self.version[rows], mask=self.tombstone[rows]), values=found.values,
            value_of=found.value_of[kept], unknown_tags=found.unknown_tags[kept],
        )  # fmt: skip

    def read(self, kind: int, rows: Positions, *, apart: bool = False) -> "Records":
        """Records of a type. apart: whether values are to be such, with the members of groups apart."""
        key_class, value_class = message_classes(kind)
        keys, key_of = self.decode_keys(key_class, rows)
        parts, places, unknown = [], [], np.zeros(len(rows), dtype=np.int32)
        valued = (key_of >= 0) & ~self.tombstone[rows] & self.has_version[rows]
        for version in np.unique(self.version[rows[valued]]).tolist():
            if value_class.MIN_VERSION <= version <= value_class.MAX_VERSION:
                here = np.nonzero(valued & (self.version[rows] == version))[0]
                start, end = self.value_start[rows[here]] + _VERSION_BYTES, self.value_end[rows[here]]
                found: Any
                if apart:
                    found, good, tags = read_apart(value_class, version, self.value_bytes, start, end, name="members")
                else:
                    found, good, tags = read_messages(
                        value_class, version, self.value_bytes, start, end, lenient=self.lenient
                    )
                parts.append(found)
                places.append(here[good])
                unknown[here[good]] = tags
        value_of = np.full(len(rows), -1, dtype=np.int64)
        decoded = np.concatenate(places) if places else np.zeros(0, dtype=np.int64)
        value_of[decoded] = np.arange(len(decoded))
        readable = (key_of >= 0) & (self.tombstone[rows] | (value_of >= 0))
        return Records(keys, key_of, parts, value_of, unknown, readable)

    def decode_keys(self, key_class: Any, rows: Positions) -> tuple[pa.StructArray, Positions]:
        """(different keys, which of them each record has; -1 if its bytes are no such key)."""
        encoded = self.keys.take(pa.array(rows)).dictionary_encode()
        buffer, start, end = Buffer.of(encoded.dictionary)
        found, good, _ = read_messages(
            key_class, key_class.MIN_VERSION, buffer, start + _VERSION_BYTES, end, lenient=self.lenient
        )
        place = np.full(len(start), -1, dtype=np.int64)
        place[good] = np.arange(len(good))
        return found, place[encoded.indices.to_numpy()]

    def plain(self, rows: Positions) -> list[pa.Array]:
        columns = [self.raw.column(name) for name in _PLAIN]
        if len(rows) == len(self.raw):
            return columns
        chosen = pa.array(rows)
        return [column.take(chosen) for column in columns]

    def controls(self) -> pa.RecordBatch:
        return self.raw.filter(pa.array(self.control))

    def bad(self) -> pa.RecordBatch:
        rows = np.nonzero(self.refused)[0]
        chosen = self.raw.take(pa.array(rows))
        reasons = [why(row["key"], row["value"]) for row in chosen.select(["key", "value"]).to_pylist()]
        return pa.RecordBatch.from_arrays(
            [
                *chosen.columns,
                pa.array(self.key_type[rows], mask=~self.has_type[rows]),
                pa.array(self.version[rows], mask=~self.has_version[rows]),
                pa.array([reason for reason, _ in reasons], type=pa.string()),
                pa.array([error for _, error in reasons], type=pa.string()),
            ],
            schema=BAD,
        )


class Records(NamedTuple):
    """Records of one type: which of the different keys and which of the values (in parts) each one has; -1 for none."""

    keys: pa.StructArray
    key_of: Positions
    values: list[Any]
    value_of: Positions
    unknown_tags: npt.NDArray[np.int32]
    readable: npt.NDArray[np.bool_]


class CommitRows(NamedTuple):
    """Which rows of a batch are commits and no tombstones, and which of the places each is of: (group, topic,
    partition)."""

    rows: Positions
    place: Positions
    places: list[tuple[str, str, int]]


def commit_rows(raw: pa.RecordBatch) -> CommitRows:
    """All offset commits of a batch that `decode` would accept, with no more of them than where they are."""
    batch = RawBatch(raw)
    rows, numbers = [], []
    places: list[tuple[str, str, int]] = []
    for kind in _OFFSET_COMMITS:
        mine = np.nonzero(batch.has_type & (batch.key_type == kind))[0]
        if len(mine):
            found = batch.read(kind, mine)
            chosen = found.value_of >= 0
            rows.append(mine[chosen])
            numbers.append(found.key_of[chosen] + len(places))
            places += list(zip(*map(listed, found.keys.flatten()), strict=True))
    if not rows:
        return CommitRows(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), [])
    at, place = np.concatenate(rows), np.concatenate(numbers)
    if len(set(places)) != len(places):
        # Keys of both types, and such with more bytes than they need, may mean the same.
        known: dict[tuple[str, str, int], int] = {}
        place = np.array([known.setdefault(each, len(known)) for each in places], dtype=np.int64)[place]
        places = list(known)
    if len(rows) > 1:
        order = np.argsort(at)
        at, place = at[order], place[order]
    return CommitRows(at, place, places)


class GroupRows(NamedTuple):
    """Which rows of a batch are GroupMetadata records with a key that can be read, and of which group each is."""

    rows: Positions
    group: Positions
    names: list[str]


def group_rows(raw: pa.RecordBatch) -> GroupRows:
    """All metadata records of classic groups, whatever their values are."""
    batch = RawBatch(raw)
    rows = np.nonzero(batch.has_type & (batch.key_type == _GROUP_METADATA))[0]
    keys, key_of = batch.decode_keys(message_classes(_GROUP_METADATA)[0], rows)
    known = key_of >= 0
    return GroupRows(rows[known], key_of[known], listed(keys.flatten()[0]))


def leading(array: pa.Array) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.bool_]]:
    """(the int16 that each value begins with, whether it has one)."""
    buffer, start, end = Buffer.of(array)
    there = end - start >= _VERSION_BYTES
    found = buffer.view(">i2")[np.where(there, start, 0)].astype(np.int16)
    return np.where(there, found, np.int16(-1)), there


def _take(array: pa.Array, chosen: Positions) -> pa.Array:
    """Elements by number, null where it is negative."""
    if len(array) == len(chosen) and bool((chosen == np.arange(len(chosen))).all()):
        return array
    null = chosen < 0
    return array.take(pa.array(chosen, mask=null if null.any() else None))


def why(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """(reason, error) of a record that was refused: the scalar codec's words."""
    if key is None:
        return "no key", "a record without a key"
    try:
        decode_record(key, value)
    except DecodeError as error:
        return _reason(key, value), error.message
    raise AssertionError(f"the two decoders disagree on key {key!r} and value {value!r}")


def _reason(key: bytes, value: bytes | None) -> str:
    kind = int.from_bytes(key[:_VERSION_BYTES], "big", signed=True)
    if len(key) < _VERSION_BYTES:
        return "malformed"
    if kind not in TYPES:
        return "unknown type"
    _, value_class = message_classes(kind)
    if value is not None and len(value) >= _VERSION_BYTES:
        version = int.from_bytes(value[:_VERSION_BYTES], "big", signed=True)
        if not value_class.MIN_VERSION <= version <= value_class.MAX_VERSION:
            return "unknown version"
    return "malformed"
