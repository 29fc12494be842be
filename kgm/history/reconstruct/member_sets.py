"""GroupMetadata records of many groups, their members as numbers: equal numbers, equal members.

A group changes by a member or two at a time, so that nearly all members of a chunk of records have been there before,
byte for byte. Each different one is read once, and made into an object when somebody looks at it."""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.arrow_lists import listed
from kgm.history.decode.message_reader import read_apart
from kgm.history.decode.subscriptions import assignments, subscriptions
from kgm.history.decode.vector_cursor import Buffer, Positions
from kgm.history.reconstruct.classic_snapshots import Header, Member, member_of
from kgm.protocol import codec
from kgm.protocol.subscription import PROTOCOL_TYPE
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.record import Record, decode_record, encode_record

_VERSION_BYTES = 2
#: If so many members are different, most of them are so in bytes only (KIP-792 writes the generation into each).
_MOSTLY = 0.25


class Different:
    """The different members of records of one version. spans: the bytes of each. seats: of each. places_from: where the
    partitions that it is assigned begin in `places`, which numbers them (`Rosters.place_numbers`)."""

    __slots__ = ("_members", "_prefix", "_read", "_rows", "_spans", "_suffix", "places", "places_from", "seats")

    def __init__(self, version: int, spans: pa.BinaryArray, read: pa.StructArray, *, few: bool) -> None:
        """few: whether it is likely that many of them will be looked at."""
        self._spans = spans
        self._prefix, self._suffix = _wrapping(version)
        self._members: dict[tuple[int, bool], Member] = {}
        # Fields of a newer Kafka are in the bytes only.
        self._read = read if few and version < GroupMetadataValue.FLEXIBLE_FROM else None
        self._rows: list[tuple[Any, ...]] = []
        member_id, instance = (pc.struct_field(read, name) for name in ("member_id", "group_instance_id"))
        self.seats: list[str] = listed(pc.coalesce(instance, member_id))
        self.places_from: list[int] = []
        self.places: list[int] = []

    def member(self, number: int, *, consumer: bool) -> Member:
        """consumer: whether the group is of the protocol type with subscriptions and assignments."""
        found = self._members.get((number, consumer))
        if found is None:
            found = member_of(self._record(number), PROTOCOL_TYPE if consumer else "")
            self._members[number, consumer] = found
        return found

    def _record(self, number: int) -> MemberMetadata:
        if self._read is not None:
            columns = (listed(self._read.field(row[0])) for row in MemberMetadata.FIELDS)
            self._rows = [*zip(*columns, strict=True)]
            self._read = None
        if self._rows:
            return MemberMetadata(*self._rows[number])
        value = decode_record(_KEY, self._prefix + self._spans[number].as_py() + self._suffix).value
        assert isinstance(value, GroupMetadataValue)
        return value.members[0]


_KEY = encode_record(Record(GroupMetadataKey(), None))[0]


def _wrapping(version: int) -> tuple[bytes, bytes]:
    """What stands around a member in a record that has no other."""
    empty = version.to_bytes(_VERSION_BYTES, "big") + codec.encode(GroupMetadataValue(), version)
    if version < GroupMetadataValue.FLEXIBLE_FROM:
        return empty[:-4] + (1).to_bytes(4, "big"), b""
    return empty[:-2] + b"\2", empty[-1:]


class Seats(Mapping[str, Member]):
    """The members of a snapshot by seat, made when they are looked at."""

    __slots__ = ("_consumer", "_different", "_made", "_numbers", "_of_seat")

    def __init__(self, different: Different, numbers: npt.NDArray[np.int32], *, consumer: bool) -> None:
        self._different, self._numbers, self._consumer = different, numbers, consumer
        self._of_seat: dict[str, int] | None = None
        self._made: dict[str, Member] | None = None

    def _every(self) -> dict[str, Member]:
        if self._made is None:
            member, consumer = self._different.member, self._consumer
            self._made = {seat: member(number, consumer=consumer) for seat, number in self._all().items()}
        return self._made

    def items(self) -> ItemsView[str, Member]:
        return self._every().items()

    def values(self) -> ValuesView[Member]:
        return self._every().values()

    def _all(self) -> dict[str, int]:
        if self._of_seat is None:
            seats = self._different.seats
            self._of_seat = {seats[number]: number for number in self._numbers.tolist()}
        return self._of_seat

    def __getitem__(self, seat: str) -> Member:
        return self._different.member(self._all()[seat], consumer=self._consumer)

    def __contains__(self, seat: object) -> bool:
        return seat in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __bool__(self) -> bool:
        return len(self._numbers) > 0

    def __repr__(self) -> str:
        return repr(dict(self))


class Roster(NamedTuple):
    """The members of one record: `numbers` says which of `different` each is; it is the same for two that do not differ
    in what counts."""

    different: Different
    version: int
    numbers: list[int]
    bytes_numbers: npt.NDArray[np.int32]
    consumer: bool

    @property
    def seats(self) -> Seats:
        return Seats(self.different, self.bytes_numbers, consumer=self.consumer)

    def places(self, number: int) -> list[int]:
        """The numbers of the partitions that a member is assigned."""
        if not self.consumer:
            return []
        begin, end = self.different.places_from[number : number + 2]
        return self.different.places[begin:end]


class Rosters:
    """GroupMetadata values, read at once. `good` are those that parse; `headers` and `roster` are of those."""

    def __init__(self, values: pa.Array) -> None:
        """Of values that are no null."""
        buffer, start, end = Buffer.of(values)
        there = end - start >= _VERSION_BYTES
        version = np.where(there, buffer.view(">i2")[np.where(there, start, 0)].astype(np.int16), np.int16(-1))
        self.good = np.zeros(len(values), dtype=np.bool_)
        self.headers: list[Any] = [None] * len(values)
        #: Of each value: what its members are among, and where.
        self._parts: list[Any] = [None] * len(values)
        self._place_codes: dict[tuple[str, int], int] = {}
        for each in np.unique(version).tolist():
            if GroupMetadataValue.MIN_VERSION <= each <= GroupMetadataValue.MAX_VERSION:
                rows = np.nonzero(version == each)[0]
                self._read(each, buffer, rows, start[rows] + _VERSION_BYTES, end[rows])

    def _read(self, version: int, buffer: Buffer, rows: Positions, start: Positions, end: Positions) -> None:
        (columns, found), good, _ = read_apart(GroupMetadataValue, version, buffer, start, end, name="members")
        assert found.number is not None
        rows = rows[good]
        self.good[rows] = True
        headers = list(map(Header, *(listed(columns[name]) for name in Header._fields)))
        few = len(found.different) <= _MOSTLY * len(found.number)
        different = Different(version, found.spans, found.different, few=few)
        self._number_places(different, pc.struct_field(found.different, "assignment"))
        numbers = _saying(found.different, found.number).tolist()
        bounds = found.offsets.tolist()
        part = version, different, numbers, found.number
        for row, header, first, last in zip(rows.tolist(), headers, bounds[:-1], bounds[1:], strict=True):
            self.headers[row] = header
            self._parts[row] = part, first, last

    def roster(self, row: int) -> Roster:
        (version, different, numbers, of_bytes), first, last = self._parts[row]
        consumer = self.headers[row].protocol_type == PROTOCOL_TYPE
        return Roster(different, version, numbers[first:last], of_bytes[first:last], consumer)

    def _number_places(self, different: Different, blobs: pa.Array) -> None:
        """Number the partitions in the assignments, by topic and partition."""
        encoded = blobs.dictionary_encode()
        lists = pc.struct_field(assignments(encoded.dictionary).messages, "assigned_partitions").to_pylist()
        known = self._place_codes
        of_blob = [
            [
                known.setdefault((each["topic"], partition), len(known))
                for each in topics or ()
                for partition in each["partitions"]
            ]
            for topics in lists
        ]
        different.places_from.append(0)
        for number in encoded.indices.to_numpy().tolist():
            different.places += of_blob[number]
            different.places_from.append(len(different.places))

    def place(self, topic: str, partition: int) -> int:
        """The number of a partition, -1 if no member has it."""
        return self._place_codes.get((topic, partition), -1)


def _saying(different: pa.StructArray, number: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """For each member a number that two have in common only if member id, instance id, topics and assignment are the
    same; and one of those with these numbers in `different`."""
    if len(different) <= _MOSTLY * len(number) or not len(different):
        return number.astype(np.int64)
    topics = _topics(pc.struct_field(different, "subscription"))
    codes = [
        pc.struct_field(different, name).dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
        for name in ("member_id", "group_instance_id", "assignment")
    ]
    together = topics
    for each in codes:
        _, together = np.unique(together * (int(each.max()) + 2) + each + 1, return_inverse=True)
    # Named after the first that says it, which can be looked up.
    _, first = np.unique(together, return_index=True)
    said: npt.NDArray[np.int64] = first[together][number].astype(np.int64)
    return said


def _topics(blobs: pa.Array) -> npt.NDArray[np.int64]:
    """For each subscription a number that stands for its set of topics; for those that do not parse, one more."""
    encoded = blobs.dictionary_encode()
    known: dict[frozenset[str] | None, int] = {}
    topics = pc.struct_field(subscriptions(encoded.dictionary).messages, "topics").to_pylist()
    codes = [known.setdefault(None if each is None else frozenset(each), len(known)) for each in topics]
    numbers: npt.NDArray[np.int64] = np.array(codes, dtype=np.int64)[encoded.indices.to_numpy()]
    return numbers
