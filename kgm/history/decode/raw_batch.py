"""A batch of raw records during decoding: what each record is, and the records of one type read together.

Keys repeat, so each distinct key is decoded once. Values are decoded by version. Nothing is read twice: `commits` and
`read_groups` are the input of `partition_replay`, and `record_tables` builds tables from the same reading."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.arrow_lists import to_list
from kgm.history.decode.message_reader import SplitMessages, read_messages, read_split
from kgm.history.decode.vector_cursor import Buffer, Mask, Positions
from kgm.protocol.struct import Message
from kgm.records.record import message_classes
from kgm.records.record_types import TYPES, RecordType

_VERSION_BYTES = 2
_PLAIN = ("partition", "offset", "timestamp", "leader_epoch", "producer_id", "producer_epoch", "transactional")
_COMMIT_TYPES = (RecordType.LEGACY_OFFSET_COMMIT, RecordType.OFFSET_COMMIT)
#: Reads messages of a class and version: (class, version, buffer, starts, ends) -> (messages, the index of each in the
#: input, unknown tags).
_Read = Callable[[type[Message], int, Buffer, Positions, Positions], tuple[Any, Positions, Positions]]


class RecordsOfType(NamedTuple):
    """Records of one type. rows: where they are in the batch. keys: the distinct keys; values: in parts, one for each
    version. key_of, value_of: the index of each record's key and value, -1 for none."""

    rows: Positions
    keys: pa.StructArray
    key_of: Positions
    values: list[Any]
    value_of: Positions
    unknown_tags: npt.NDArray[np.int32]
    readable: Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecords:
    """The readable GroupMetadata records of a batch, with each distinct member once.

    rows: where they are in the batch; plain: the columns of the raw records that are also columns of their table.
    values: in parts, one for each version, numbered consecutively; key_of, value_of: the index of each record's key and
    value, -1 for a tombstone. Values of earlier records that were read with them (`RawBatch.read_groups`) are the last
    in each part, after the first `own[part]`; earlier_of: the index of each of those values, -1 for bytes that are not
    a value."""

    rows: Positions
    plain: list[pa.Array]
    keys: pa.StructArray
    key_of: Positions
    versions: pa.Array
    values: list[SplitMessages]
    value_of: Positions
    unknown_tags: npt.NDArray[np.int32]
    own: list[int]
    earlier_of: Positions

    def __len__(self) -> int:
        return len(self.key_of)


class CommitRows(NamedTuple):
    """The readable offset commits of a batch that are not tombstones. rows: where they are; place: the index in
    `places` of each one's (group, topic, partition)."""

    rows: Positions
    place: Positions
    places: list[tuple[str, str, int]]


class RawBatch:
    """Records by `schema.RAW`. lenient: whether text that is not UTF-8 is read as Java reads it, with U+FFFD in it,
    instead of being refused."""

    def __init__(self, raw: pa.RecordBatch, *, lenient: bool = False) -> None:
        self.raw, self.lenient = raw, lenient
        self.keys, self.values = raw.column("key"), raw.column("value")
        self.value_bytes, self.value_start, self.value_end = Buffer.of(self.values)
        self.key_type, self.has_type = leading_int16(self.keys)
        self.version, self.has_version = leading_int16(self.values)
        self.tombstone = self.values.is_null().to_numpy(zero_copy_only=False)
        self.control = pc.fill_null(raw.column("control"), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
        self._known = self.has_type & ~self.control
        self._read: dict[int, RecordsOfType] = {}
        self._groups: GroupRecords | None = None

    def __len__(self) -> int:
        return len(self.key_type)

    def types(self) -> list[int]:
        """The record types that occur, known or not."""
        kinds: list[int] = np.unique(self.key_type[self._known]).tolist()
        return kinds

    def rows_of(self, kind: int) -> Positions:
        """The positions of the records of a type."""
        rows: Positions = np.nonzero(self._known & (self.key_type == kind))[0]
        return rows

    def read(self, kind: int) -> RecordsOfType:
        """All records of one of the types in TYPES."""
        known = self._read.get(kind)
        if known is None:
            rows = self.rows_of(kind)
            keys, key_of = self._decode_keys(kind, rows)
            there = (key_of >= 0) & ~self.tombstone[rows] & self.has_version[rows]
            values, value_of, tags = _read_values(
                message_classes(kind)[1], self.value_bytes, self.version[rows], self.value_start[rows],
                self.value_end[rows], there, self._reader,
            )  # fmt: skip
            readable = (key_of >= 0) & (self.tombstone[rows] | (value_of >= 0))
            known = self._read[kind] = RecordsOfType(rows, keys, key_of, values, value_of, tags, readable)
        return known

    def _reader(
        self, cls: type[Message], version: int, buffer: Buffer, start: Positions, end: Positions
    ) -> tuple[Any, Positions, Positions]:
        return read_messages(cls, version, buffer, start, end, lenient=self.lenient)

    @cached_property
    def _group_keys(self) -> tuple[Positions, pa.StructArray, Positions]:
        rows = self.rows_of(RecordType.GROUP_METADATA)
        return rows, *self._decode_keys(RecordType.GROUP_METADATA, rows)

    def group_ids(self) -> list[str]:
        """The classic groups that have a GroupMetadata record in the batch, without duplicates."""
        _, keys, key_of = self._group_keys
        names = to_list(keys.field("group"))
        return list(dict.fromkeys(names[number] for number in np.unique(key_of[key_of >= 0]).tolist()))

    def read_groups(self, earlier: Sequence[bytes] = ()) -> GroupRecords:
        """The GroupMetadata records, which the first call reads. earlier: values of records before the batch that are
        read together with it, so that members can be compared."""
        if self._groups is None:
            self._groups = self._read_groups(earlier)
        return self._groups

    def _read_groups(self, earlier: Sequence[bytes]) -> GroupRecords:
        rows, keys, key_of = self._group_keys
        there = (key_of >= 0) & ~self.tombstone[rows] & self.has_version[rows]
        buffer, start, end = self.value_bytes, self.value_start[rows], self.value_end[rows]
        version, count = self.version[rows], len(rows)
        if len(earlier):
            both = pa.concat_arrays([self.values.take(pa.array(rows)), pa.array(earlier, type=pa.binary())])
            buffer, start, end = Buffer.of(both)
            version, has_version = leading_int16(both)
            there = np.append(there, has_version[count:])
        value_class = message_classes(RecordType.GROUP_METADATA)[1]
        values, value_of, tags = _read_values(value_class, buffer, version, start, end, there, _read_group_values)
        readable = (key_of >= 0) & (self.tombstone[rows] | (value_of[:count] >= 0))
        kept = rows[readable]
        ends = np.cumsum([0, *map(len, values)])
        own = [
            int(np.count_nonzero((value_of[:count] >= first) & (value_of[:count] < behind)))
            for first, behind in pairwise(ends.tolist())
        ]
        return GroupRecords(
            rows=kept, plain=self.plain(kept), keys=keys, key_of=key_of[readable],
            versions=pa.array(self.version[kept], mask=self.tombstone[kept]), values=values,
            value_of=value_of[:count][readable], unknown_tags=tags[:count][readable], own=own,
            earlier_of=value_of[count:],
        )  # fmt: skip

    def commits(self) -> CommitRows:
        """The offset commits, of both record types."""
        rows, numbers = [], []
        places: list[tuple[str, str, int]] = []
        for kind in _COMMIT_TYPES:
            if not len(self.rows_of(kind)):
                continue
            records = self.read(kind)
            chosen = records.value_of >= 0
            if chosen.any():
                rows.append(records.rows[chosen])
                numbers.append(records.key_of[chosen] + len(places))
                places += list(zip(*map(to_list, records.keys.flatten()), strict=True))
        if not rows:
            return CommitRows(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), [])
        at, place = np.concatenate(rows), np.concatenate(numbers)
        if len(set(places)) != len(places):
            # Keys of both types, and keys with surplus bytes, can mean the same partition.
            known: dict[tuple[str, str, int], int] = {}
            place = np.array([known.setdefault(each, len(known)) for each in places], dtype=np.int64)[place]
            places = list(known)
        if len(rows) > 1:
            order = np.argsort(at)
            at, place = at[order], place[order]
        return CommitRows(at, place, places)

    def refused(self) -> Positions:
        """The positions of the records that cannot be decoded."""
        refused = ~self.has_type & ~self.control
        for kind in self.types():
            if kind == RecordType.GROUP_METADATA:
                rows = self.rows_of(kind)
                refused[np.setdiff1d(rows, self.read_groups().rows, assume_unique=True)] = True
            elif kind in TYPES:
                records = self.read(kind)
                refused[records.rows[~records.readable]] = True
            else:
                refused[self.rows_of(kind)] = True
        found: Positions = np.nonzero(refused)[0]
        return found

    def _decode_keys(self, kind: int, rows: Positions) -> tuple[pa.StructArray, Positions]:
        """(distinct keys, the index of each record's key; -1 if its bytes are not a key of this type)."""
        key_class = message_classes(kind)[0]
        encoded = self.keys.take(pa.array(rows)).dictionary_encode()
        buffer, start, end = Buffer.of(encoded.dictionary)
        messages, good, _ = read_messages(
            key_class, key_class.MIN_VERSION, buffer, start + _VERSION_BYTES, end, lenient=self.lenient
        )
        place = np.full(len(start), -1, dtype=np.int64)
        place[good] = np.arange(len(good))
        return messages, place[encoded.indices.to_numpy()]

    def plain(self, rows: Positions) -> list[pa.Array]:
        """The columns that precede a decoded record's key."""
        columns = [self.raw.column(name) for name in _PLAIN]
        if len(rows) == len(self.raw):
            return columns
        chosen = pa.array(rows)
        return [column.take(chosen) for column in columns]


def _read_values(
    cls: type[Message], buffer: Buffer, version: npt.NDArray[np.int16], start: Positions, end: Positions, there: Mask,
    read: _Read,
) -> tuple[list[Any], Positions, npt.NDArray[np.int32]]:  # fmt: skip
    """(messages by version, the index of each value's message, how many unknown tags it has), for values where `there`
    is set."""
    parts: list[Any] = []
    value_of, unknown = np.full(len(start), -1, dtype=np.int64), np.zeros(len(start), dtype=np.int32)
    count = 0
    for each in np.unique(version[there]).tolist():
        if cls.MIN_VERSION <= each <= cls.MAX_VERSION:
            here = np.nonzero(there & (version == each))[0]
            messages, good, tags = read(cls, each, buffer, start[here] + _VERSION_BYTES, end[here])
            parts.append(messages)
            value_of[here[good]] = count + np.arange(len(good))
            unknown[here[good]] = tags
            count += len(good)
    return parts, value_of, unknown


def _read_group_values(
    cls: type[Message], version: int, buffer: Buffer, start: Positions, end: Positions
) -> tuple[SplitMessages, Positions, Positions]:
    return read_split(cls, version, buffer, start, end, name="members")


def read_group_values(values: Sequence[bytes]) -> tuple[list[SplitMessages], Positions]:
    """(GroupMetadata values by version, the index of each given value among them; -1 for bytes that are not a
    value)."""
    array = pa.array(values, type=pa.binary())
    buffer, start, end = Buffer.of(array)
    version, has_version = leading_int16(array)
    value_class = message_classes(RecordType.GROUP_METADATA)[1]
    parts, value_of, _ = _read_values(value_class, buffer, version, start, end, has_version, _read_group_values)
    return parts, value_of


def leading_int16(array: pa.Array) -> tuple[npt.NDArray[np.int16], Mask]:
    """(the int16 at the start of each value, whether the value is long enough to have one)."""
    buffer, start, end = Buffer.of(array)
    there = end - start >= _VERSION_BYTES
    values = buffer.view(">i2")[np.where(there, start, 0)].astype(np.int16)
    return np.where(there, values, np.int16(-1)), there
