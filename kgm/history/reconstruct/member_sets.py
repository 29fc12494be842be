"""The members of many GroupMetadata records, as numbers: equal numbers, equal members.

A group changes by a member or two at a time, so nearly all members in a piece of records occurred before, byte for
byte. Each distinct member is read once, and becomes an object only when it is looked at."""

from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.arrow_lists import to_list
from kgm.history.decode.message_reader import SplitMessages
from kgm.history.decode.subscriptions import assignments, subscriptions
from kgm.history.reconstruct.classic_snapshots import Header, SnapshotMember, TopicPartition, member_of
from kgm.protocol import codec
from kgm.protocol.subscription import PROTOCOL_TYPE
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.record import Record, decode_record, encode_record

_VERSION_BYTES = 2
#: If more than this share of the members are distinct, most of them differ only in bytes (KIP-792 writes the generation
#: into each).
_MOSTLY = 0.25


class DistinctMembers:
    """The distinct members of records of one version. identities: of each. assigned_from: where each member's assigned
    partitions begin in `assigned`, which has them as numbers (`MemberSets.number_of`)."""

    __slots__ = (
        "_members", "_prefix", "_read", "_rows", "_spans", "_suffix", "assigned", "assigned_from", "identities",
    )  # fmt: skip

    def __init__(self, version: int, spans: pa.BinaryArray, read: pa.StructArray, *, few: bool) -> None:
        """spans: the bytes of each. few: whether there are few, so that many of them are likely to be looked at."""
        self._spans = spans
        self._prefix, self._suffix = _wrapping(version)
        self._members: dict[tuple[int, bool], SnapshotMember] = {}
        # Fields from a newer Kafka are only in the bytes.
        self._read = read if few and version < GroupMetadataValue.FLEXIBLE_FROM else None
        self._rows: list[tuple[Any, ...]] = []
        member_id, instance_id = (pc.struct_field(read, name) for name in ("member_id", "group_instance_id"))
        self.identities: list[str] = to_list(pc.coalesce(instance_id, member_id))
        self.assigned_from: list[int] = []
        self.assigned: list[int] = []

    def member(self, number: int, *, consumer: bool) -> SnapshotMember:
        """A member. consumer: whether the group has the protocol type with subscriptions and assignments."""
        known = self._members.get((number, consumer))
        if known is None:
            known = member_of(self._record(number), PROTOCOL_TYPE if consumer else "")
            self._members[number, consumer] = known
        return known

    def _record(self, number: int) -> MemberMetadata:
        if self._read is not None:
            columns = (to_list(self._read.field(row[0])) for row in MemberMetadata.FIELDS)
            self._rows = [*zip(*columns, strict=True)]
            self._read = None
        if self._rows:
            return MemberMetadata(*self._rows[number])
        value = decode_record(_KEY, self._prefix + self._spans[number].as_py() + self._suffix).value
        assert isinstance(value, GroupMetadataValue)
        return value.members[0]


_KEY = encode_record(Record(GroupMetadataKey(), None))[0]


def _wrapping(version: int) -> tuple[bytes, bytes]:
    """The bytes around a member in a record that has no other member."""
    empty = version.to_bytes(_VERSION_BYTES, "big") + codec.encode(GroupMetadataValue(), version)
    if version < GroupMetadataValue.FLEXIBLE_FROM:
        return empty[:-4] + (1).to_bytes(4, "big"), b""
    return empty[:-2] + b"\2", empty[-1:]


class MembersByIdentity(Mapping[str, SnapshotMember]):
    """The members of a snapshot by identity, created when they are looked at."""

    __slots__ = ("_consumer", "_distinct", "_members", "_number_of", "_numbers")

    def __init__(self, distinct: DistinctMembers, numbers: npt.NDArray[np.int32], *, consumer: bool) -> None:
        self._distinct, self._numbers, self._consumer = distinct, numbers, consumer
        self._number_of: dict[str, int] | None = None
        self._members: dict[str, SnapshotMember] | None = None

    def _all_members(self) -> dict[str, SnapshotMember]:
        if self._members is None:
            member, consumer = self._distinct.member, self._consumer
            self._members = {name: member(number, consumer=consumer) for name, number in self._all_numbers().items()}
        return self._members

    def items(self) -> ItemsView[str, SnapshotMember]:
        return self._all_members().items()

    def values(self) -> ValuesView[SnapshotMember]:
        return self._all_members().values()

    def _all_numbers(self) -> dict[str, int]:
        if self._number_of is None:
            identities = self._distinct.identities
            self._number_of = {identities[number]: number for number in self._numbers.tolist()}
        return self._number_of

    def __getitem__(self, identity: str) -> SnapshotMember:
        return self._distinct.member(self._all_numbers()[identity], consumer=self._consumer)

    def __contains__(self, identity: object) -> bool:
        return identity in self._all_numbers()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all_numbers())

    def __len__(self) -> int:
        return len(self._all_numbers())

    def __bool__(self) -> bool:
        return len(self._numbers) > 0

    def __repr__(self) -> str:
        return repr(dict(self))


class MemberSet(NamedTuple):
    """The members of one record. numbers: the index in `distinct` of each, the same for two members without a relevant
    difference; exact_numbers: the same for two only if their bytes are the same. consumer: whether the group's protocol
    type is "consumer"."""

    distinct: DistinctMembers
    version: int
    numbers: list[int]
    exact_numbers: npt.NDArray[np.int32]
    consumer: bool

    @property
    def by_identity(self) -> MembersByIdentity:
        return MembersByIdentity(self.distinct, self.exact_numbers, consumer=self.consumer)

    def assigned(self, number: int) -> list[int]:
        """The numbers of the partitions assigned to a member."""
        if not self.consumer:
            return []
        begin, end = self.distinct.assigned_from[number : number + 2]
        return self.distinct.assigned[begin:end]


class MemberSets:
    """GroupMetadata values that were read together. headers: of each value, by its number."""

    def __init__(self, values: Sequence[SplitMessages]) -> None:
        self.headers: list[Header] = []
        #: For each value: the part that contains its members, and their range in it.
        self._parts: list[tuple[tuple[int, DistinctMembers, list[int], npt.NDArray[np.int32]], int, int]] = []
        self._number_of: dict[TopicPartition, int] = {}
        for part in values:
            self._add(part)

    def _add(self, values: SplitMessages) -> None:
        elements = values.elements
        assert elements.number is not None
        self.headers += map(Header, *(to_list(values.columns[name]) for name in Header._fields))
        few = len(elements.different) <= _MOSTLY * len(elements.number)
        distinct = DistinctMembers(values.version, elements.spans, elements.different, few=few)
        self._number_partitions(distinct, pc.struct_field(elements.different, "assignment"))
        numbers = _equal_numbers(elements.different, elements.number).tolist()
        bounds = elements.offsets.tolist()
        part = values.version, distinct, numbers, elements.number
        self._parts += [(part, first, behind) for first, behind in pairwise(bounds)]

    def member_set(self, value: int) -> MemberSet:
        """The members of a value."""
        (version, distinct, numbers, exact), first, behind = self._parts[value]
        consumer = self.headers[value].protocol_type == PROTOCOL_TYPE
        return MemberSet(distinct, version, numbers[first:behind], exact[first:behind], consumer)

    def _number_partitions(self, distinct: DistinctMembers, blobs: pa.Array) -> None:
        """Number the partitions in the assignments."""
        encoded = blobs.dictionary_encode()
        lists = pc.struct_field(assignments(encoded.dictionary).messages, "assigned_partitions")
        bounds = np.append(0, np.cumsum(pc.fill_null(lists.value_lengths(), 0).to_numpy())).tolist()
        names, partitions_of = (lists.flatten().field(name) for name in ("topic", "partitions"))
        topics = list(zip(to_list(names), partitions_of.to_pylist(), strict=True))
        known = self._number_of
        of_blob = [
            [
                known.setdefault((topic, partition), len(known))
                for topic, partitions in topics[first:behind]
                for partition in partitions
            ]
            for first, behind in pairwise(bounds)
        ]
        distinct.assigned_from.append(0)
        for number in encoded.indices.to_numpy().tolist():
            distinct.assigned += of_blob[number]
            distinct.assigned_from.append(len(distinct.assigned))

    def number_of(self, place: TopicPartition) -> int:
        """The number of a partition, -1 if no member has it."""
        return self._number_of.get(place, -1)


def _equal_numbers(different: pa.StructArray, number: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """A number for each member, which two members share only if their member id, instance id, topics and assignment are
    the same; it is the index in `different` of one of them."""
    if len(different) <= _MOSTLY * len(number) or not len(different):
        return number.astype(np.int64)
    codes = [
        pc.struct_field(different, name).dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
        for name in ("member_id", "group_instance_id", "assignment")
    ]
    together = _topic_numbers(pc.struct_field(different, "subscription"))
    for each in codes:
        _, together = np.unique(together * (int(each.max()) + 2) + each + 1, return_inverse=True)
    # Numbered after the first equal one, which can be looked up.
    _, first = np.unique(together, return_index=True)
    equal: npt.NDArray[np.int64] = first[together][number].astype(np.int64)
    return equal


def _topic_numbers(blobs: pa.Array) -> npt.NDArray[np.int64]:
    """For each subscription a number that stands for its set of topics; one further number for all that do not
    parse."""
    encoded = blobs.dictionary_encode()
    known: dict[frozenset[str] | None, int] = {}
    topics = pc.struct_field(subscriptions(encoded.dictionary).messages, "topics").to_pylist()
    codes = [known.setdefault(None if each is None else frozenset(each), len(known)) for each in topics]
    numbers: npt.NDArray[np.int64] = np.array(codes, dtype=np.int64)[encoded.indices.to_numpy()]
    return numbers
