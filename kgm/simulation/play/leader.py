"""What a leader does between JoinGroup and SyncGroup: read the subscriptions, run the assignor, write the assignments.

A consumer says what it owned in one of two places. `cooperative-sticky` looks into the subscription (KIP-429, KIP-792);
`sticky` into its user data, which StickyAssignor writes by itself: previous assignment, then generation."""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from kgm.assignors import GroupSpec, MemberSpec, TopicSpec, assign, is_cooperative, is_known
from kgm.assignors.client.librdkafka import with_metadata_order
from kgm.assignors.unsupported_groups import STREAMS
from kgm.java.hash_map import DEFAULT_CAPACITY, map_order
from kgm.model.assignment import Partitions
from kgm.model.errors import RefusedError
from kgm.protocol.messages.join_group_response import JoinGroupResponseMember
from kgm.protocol.subscription import (
    NO_GENERATION,
    MemberAssignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kgm.simulation.play.client_profiles import Library

K = TypeVar("K")
V = TypeVar("V")

STICKY = "sticky"
#: How many of each kind `Blobs` knows at most.
_REMEMBERED = 20_000
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")


class Blobs:
    """Subscriptions and assignments as bytes and back, each worked out once: they are the same over and over.

    What has not been seen for a long time is forgotten, so that a long simulation stays small."""

    def __init__(self) -> None:
        self._members: dict[tuple[str, str, str | None, bytes], MemberSpec] = {}
        self._said: dict[tuple[str, bytes], _Said] = {}
        self._plain: dict[tuple[tuple[str, ...], int, str | None], bytes] = {}
        self._assignments: dict[bytes, Partitions] = {}
        self._encoded: dict[tuple[bytes | None, tuple[tuple[str, tuple[int, ...]], ...]], bytes] = {}

    def subscription(
        self, topics: tuple[str, ...], owned: Partitions, data: bytes | None, generation: int, rack: str | None
    ) -> bytes:
        """What a member says of itself."""
        if owned or data is not None:
            return _subscription(topics, owned, data, generation, rack)
        key = (topics, generation, rack)
        known = self._plain.get(key)
        if known is None:
            known = _room(self._plain)[key] = _subscription(topics, owned, data, generation, rack)
        return known

    def member(self, assignor: str, row: JoinGroupResponseMember) -> MemberSpec:
        """What a leader reads of a member."""
        key = (assignor, row.member_id, row.group_instance_id, row.metadata)
        known = self._members.get(key)
        if known is None:
            said = self._said.get((assignor, row.metadata))
            if said is None:
                said = _room(self._said)[assignor, row.metadata] = _read(assignor, row.metadata)
            known = _room(self._members)[key] = MemberSpec(
                member_id=row.member_id,
                group_instance_id=row.group_instance_id,
                rack=said.rack,
                topics=said.topics,
                owned=said.owned,
                generation=said.generation,
                names_generation=said.names_generation,
            )
        return known

    def encoded(self, partitions: Partitions, data: bytes | None = None) -> bytes:
        """An assignment as a leader writes it, with its user data."""
        key = data, tuple([(topic, tuple(numbers)) for topic, numbers in partitions.items()])
        known = self._encoded.get(key)
        if known is None:
            blob = encode_assignment(MemberAssignment(partitions=partitions, user_data=data))
            known = _room(self._encoded)[key] = blob
        return known

    def assignment(self, blob: bytes) -> Partitions:
        """What a member reads of its assignment."""
        known = self._assignments.get(blob)
        if known is None:
            partitions = decode_assignment(blob).partitions
            known = _room(self._assignments)[blob] = {topic: tuple(numbers) for topic, numbers in partitions.items()}
        return known


def _room(memory: dict[K, V]) -> dict[K, V]:
    """The memory with room for one more."""
    if len(memory) >= _REMEMBERED:
        memory.clear()
    return memory


class _Said(NamedTuple):
    """What a subscription tells a leader."""

    rack: str | None
    topics: tuple[str, ...]
    owned: Partitions
    generation: int | None
    names_generation: bool


def _subscription(
    topics: tuple[str, ...], owned: Partitions, data: bytes | None, generation: int, rack: str | None
) -> bytes:
    return encode_subscription(
        Subscription(topics=topics, user_data=data, owned_partitions=owned, generation_id=generation, rack_id=rack)
    )


def _read(assignor: str, metadata: bytes) -> _Said:
    said = decode_subscription(metadata)
    named = None if said.generation_id == NO_GENERATION else said.generation_id
    owned: Partitions = {topic: tuple(numbers) for topic, numbers in said.owned_partitions.items()}
    generation = named
    if assignor == STICKY:
        owned, generation = decode_sticky_data(said.user_data)
    return _Said(said.rack_id, said.topics, owned, generation, named is not None)


def assignments(
    assignor: str,
    members: Sequence[MemberSpec],
    topics: Mapping[str, int],
    library: Library,
    least_capacity: int = DEFAULT_CAPACITY,
    *,
    blobs: Blobs | None = None,
) -> dict[str, bytes]:
    """What the leader sends in its SyncGroup, by member id. least_capacity: see `as_broker_lists`.

    Raises RefusedError for an assignor kgm cannot run."""
    if assignor == STREAMS:
        raise RefusedError(
            f"the group rebalances, and it is a Kafka Streams application: its assignor {STREAMS!r} places tasks by "
            "what members write into their user data; who gets what cannot be predicted",
        )
    if not is_known(assignor):
        raise RefusedError(
            f"the group rebalances, and kgm does not know its assignor {assignor!r}: who gets what cannot be predicted",
            hint="for an estimate name one that kgm knows, for example --assignor cooperative-sticky; "
            "an assignor of your own can be installed beside kgm (entry point kgm.assignors)",
        )
    known = tuple(TopicSpec(name=name, partitions=count) for name, count in topics.items())
    spec = GroupSpec(members=tuple(as_broker_lists(members, least_capacity)), topics=known)
    if library is Library.LIBRDKAFKA:
        spec = with_metadata_order(spec)
    encoded = (Blobs() if blobs is None else blobs).encoded
    given = assign(assignor, spec, library.value)
    data = data_of_leader(assignor, library)
    return {member_id: encoded(partitions, data) for member_id, partitions in given.items()}


def data_of_leader(assignor: str, library: Library) -> bytes | None:
    """The user data in assignments. librdkafka's cooperative-sticky leaves there what members use to remember by (the
    bytes themselves do not matter), over which a broker takes it for an assignor of somebody's own."""
    return encode_sticky_data({}, 0) if library is Library.LIBRDKAFKA and is_cooperative(assignor) else None


def as_broker_lists(members: Sequence[MemberSpec], least_capacity: int = DEFAULT_CAPACITY) -> Sequence[MemberSpec]:
    """The members, given in the order in which they joined, as a real broker tells them to the leader: in the order of
    a Java hash map of member ids, with at least so many buckets (a group that was larger once has more)."""
    order = map_order([member.member_id for member in members], least_capacity)
    return [members[position] for position in order]


def encode_sticky_data(owned: Partitions, generation: int) -> bytes:
    """StickyAssignor's user data, version 1: [topic [partition]] generation."""
    parts = [_INT.pack(len(owned))]
    for topic in sorted(owned):
        name = topic.encode()
        numbers = owned[topic]
        parts += [_SHORT.pack(len(name)), name, _INT.pack(len(numbers)), struct.pack(f">{len(numbers)}i", *numbers)]
    return b"".join([*parts, _INT.pack(generation)])


def decode_sticky_data(data: bytes | None) -> tuple[Partitions, int | None]:
    """What StickyAssignor wrote: version 1, or version 0, which ends before the generation.

    As in Java, nothing is owned where nothing is written or where it cannot be read."""
    if not data:
        return {}, None
    owned: dict[str, tuple[int, ...]] = {}
    try:
        (topics,) = _INT.unpack_from(data)
        at = _INT.size
        for _ in range(topics):
            (length,) = _SHORT.unpack_from(data, at)
            at += _SHORT.size
            (name,) = struct.unpack_from(f"{length}s", data, at)
            at += length
            (count,) = _INT.unpack_from(data, at)
            at += _INT.size
            owned[name.decode()] = struct.unpack_from(f">{count}i", data, at)
            at += 4 * count
    except (struct.error, UnicodeDecodeError):
        return {}, None
    return owned, _INT.unpack_from(data, at)[0] if len(data) >= at + _INT.size else None
