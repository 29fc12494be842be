"""Turns raw records of `__consumer_offsets` into one table for each record type (KIP-915 defines what newer brokers may
add).

What `decode_record` would refuse ends up in `Decoded.bad`, in full and with its error: no record is dropped, and no
content of a log raises an error."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kgm.history.decode.arrow_lists import to_list
from kgm.history.decode.message_reader import SplitMessages
from kgm.history.decode.raw_batch import GroupRecords, RawBatch
from kgm.history.decode.vector_cursor import Positions
from kgm.history.schema import BAD, RAW, record_schema
from kgm.model.errors import DecodeError
from kgm.records.record import decode_record, message_classes
from kgm.records.record_types import TYPES, RecordType

_VERSION_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """records: a table by `schema.record_schema` for each record type that occurs, in the order of the raw records;
    groups: the records of classic groups, in the form in which they are read; bad: by `schema.BAD`. Records of control
    batches are in none of these."""

    records: Mapping[int, pa.Table]
    groups: tuple[GroupRecords, ...]
    bad: pa.Table


def decode(raw: pa.Table) -> Decoded:
    """Decode records that have the columns of `schema.RAW`, batch by batch, as the table is chunked. Its batches must
    be smaller than 2 GiB: a thousand records of large groups, or a hundred thousand commits."""
    return decode_raw_batches(map(RawBatch, raw.select(RAW.names).to_batches()))


def decode_raw_batches(batches: Iterable[RawBatch]) -> Decoded:
    """Decode batches without repeating what has already been read of them."""
    bad: list[pa.RecordBatch] = []
    groups: list[GroupRecords] = []
    records: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        for kind in batch.types():
            if kind == RecordType.GROUP_METADATA:
                groups.append(batch.read_groups())
            elif kind in TYPES:
                records.setdefault(kind, []).append(_record_batch(kind, batch))
        bad.append(_bad_batch(batch))
    return Decoded(
        records=_TablesByType(records, groups), groups=tuple(groups), bad=pa.Table.from_batches(bad, schema=BAD)
    )


class _TablesByType(Mapping[int, pa.Table]):
    """Tables by record type. The table of classic groups, with every member of every record, is built on first
    access."""

    def __init__(self, parts: dict[int, list[pa.RecordBatch]], groups: list[GroupRecords]) -> None:
        self._parts, self._groups = parts, groups
        self._tables: dict[int, pa.Table] = {}
        self._kinds = sorted([*parts, RecordType.GROUP_METADATA] if groups else parts)

    def __getitem__(self, kind: int) -> pa.Table:
        if kind not in self._kinds:
            raise KeyError(kind)
        if kind not in self._tables:
            is_group = kind == RecordType.GROUP_METADATA
            parts = [group_record_batch(each) for each in self._groups] if is_group else self._parts[kind]
            self._tables[kind] = pa.Table.from_batches(parts, schema=record_schema(kind))
        return self._tables[kind]

    def __iter__(self) -> Iterator[int]:
        return iter(self._kinds)

    def __contains__(self, kind: object) -> bool:
        return kind in self._kinds

    def __len__(self) -> int:
        return len(self._kinds)


def group_record_batch(groups: GroupRecords) -> pa.RecordBatch:
    """Records of classic groups by `schema.record_schema`, with every member of every record."""
    schema = record_schema(RecordType.GROUP_METADATA)
    kind = schema.field("value").type
    parts = [pa.StructArray.from_arrays(_with_members(kind, part), fields=list(kind)) for part in groups.values]
    values = pa.concat_arrays(parts) if parts else pa.nulls(0, kind)
    return pa.RecordBatch.from_arrays(
        [
            *groups.plain, _take(groups.keys, groups.key_of), groups.versions, _take(values, groups.value_of),
            pa.array(groups.unknown_tags),
        ],
        schema=schema,
    )  # fmt: skip


def _with_members(kind: pa.StructType, part: SplitMessages) -> list[pa.Array]:
    members = part.elements.values()
    offsets = pa.array(part.elements.offsets, type=pa.int32())
    lists = pa.ListArray.from_arrays(offsets, members, type=kind.field("members").type)
    return [part.columns.get(field.name, lists) for field in kind]


def _record_batch(kind: int, batch: RawBatch) -> pa.RecordBatch:
    """All records of a type that can be decoded."""
    records = batch.read(kind)
    kept, rows = records.readable, records.rows[records.readable]
    schema = record_schema(kind)
    values = pa.concat_arrays(records.values) if records.values else pa.nulls(0, schema.field("value").type)
    return pa.RecordBatch.from_arrays(
        [
            *batch.plain(rows),
            _take(records.keys, records.key_of[kept]),
            pa.array(batch.version[rows], mask=batch.tombstone[rows]),
            _take(values, records.value_of[kept]),
            pa.array(records.unknown_tags[kept]),
        ],
        schema=schema,
    )


def _bad_batch(batch: RawBatch) -> pa.RecordBatch:
    rows = batch.refused()
    chosen = batch.raw.take(pa.array(rows))
    reasons = [
        why_refused(key, value)
        for key, value in zip(*(to_list(chosen.column(name)) for name in ("key", "value")), strict=True)
    ]
    return pa.RecordBatch.from_arrays(
        [
            *chosen.columns,
            pa.array(batch.key_type[rows], mask=~batch.has_type[rows]),
            pa.array(batch.version[rows], mask=~batch.has_version[rows]),
            pa.array([reason for reason, _ in reasons], type=pa.string()),
            pa.array([error for _, error in reasons], type=pa.string()),
        ],
        schema=BAD,
    )


def _take(array: pa.Array, chosen: Positions) -> pa.Array:
    """Elements by index, null where the index is negative."""
    if len(array) == len(chosen) and bool((chosen == np.arange(len(chosen))).all()):
        return array
    null = chosen < 0
    return array.take(pa.array(chosen, mask=null if null.any() else None))


def why_refused(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """(the reason, as in `rows.BadRow`, and the scalar codec's error) for a record that cannot be decoded."""
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
