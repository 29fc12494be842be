"""What a leader does between JoinGroup and SyncGroup: read the subscriptions, run the assignor, write the assignments.

A consumer reports what it owned in one of two places. `cooperative-sticky` reads it from the subscription (KIP-429,
KIP-792); `sticky` from the subscription's user data, which StickyAssignor writes itself: the previous assignment, then
the generation."""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from kgm.assignors import GroupSpec, MemberSpec, TopicSpec, assign, is_cooperative, is_known
from kgm.assignors.client.librdkafka import as_the_leader_sees
from kgm.assignors.contract import Assigned
from kgm.assignors.map_order import MapOrder
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.java.hash_map import DEFAULT_CAPACITY, map_order
from kgm.java.scala_map import grown_scala_capacity, scala_map_order
from kgm.model.assignment import Partitions
from kgm.model.client_library import LIBRDKAFKA, SARAMA
from kgm.model.errors import RefusedError
from kgm.model.work import STREAMS_ASSIGNOR
from kgm.protocol.messages.join_group_response import JoinGroupResponseMember
from kgm.protocol.subscription import (
    NEWEST,
    NO_GENERATION,
    SHORT_VERSION,
    MemberAssignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kgm.simulation.plan.client_library import STICKY
from kgm.simulation.plan.starting_group import StartingGroup

K = TypeVar("K")
V = TypeVar("V")

#: The most subscriptions or assignments of each kind that a `DrawCache` holds.
_MAX_ENTRIES = 20_000
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")


class DrawCache:
    """What the draws of a simulation share, because each would otherwise compute the same again: subscriptions and
    assignments, encoded and decoded only once, and the consumer group with which draws begin.

    Each kind of subscription or assignment is emptied when it is full, to limit the memory of a long simulation."""

    def __init__(self) -> None:
        self._members: dict[tuple[str, str, str | None, bytes], MemberSpec] = {}
        self._subscriptions: dict[tuple[str, bytes], _DecodedSubscription] = {}
        self._written: dict[tuple[object, ...], bytes] = {}
        self._assignments: dict[bytes, Partitions] = {}
        #: A consumer group and what its coordinator has loaded, for the draws that begin in the same way.
        self.loaded: tuple[StartingGroup, ConsumerGroup] | None = None
        self._encoded: dict[tuple[bytes | None, tuple[tuple[str, tuple[int, ...]], ...]], bytes] = {}

    def encode_subscription(
        self, topics: tuple[str, ...], owned: Partitions, data: bytes | None, generation: int, rack: str | None,
        *, version: int = NEWEST,
    ) -> bytes:  # fmt: skip
        """The subscription that a member sends. version: `SHORT_VERSION` has topics only, and version 0 has no field
        for owned partitions."""
        if version <= SHORT_VERSION:
            owned, data, generation, rack = {}, data if version < SHORT_VERSION else None, NO_GENERATION, None
        key = (topics, tuple([(t, tuple(p)) for t, p in owned.items()]), data, generation, rack, version)
        cached = self._written.get(key)
        if cached is None:
            blob = encode_subscription(
                Subscription(
                    topics=topics, user_data=data, owned_partitions=owned, generation_id=generation, rack_id=rack,
                    version=version, says_owned=version != SHORT_VERSION,
                )
            )  # fmt: skip
            cached = _with_room(self._written)[key] = blob
        return cached

    def ends_at_user_data(self, metadata: bytes) -> bool:
        """Whether nothing follows the user data of a subscription that was encoded here."""
        version: int = _SHORT.unpack_from(metadata)[0]
        return version <= SHORT_VERSION

    def decode_member(self, assignor: str, row: JoinGroupResponseMember) -> MemberSpec:
        """A member as the leader's assignor sees it."""
        key = (assignor, row.member_id, row.group_instance_id, row.metadata)
        cached = self._members.get(key)
        if cached is None:
            decoded = self._subscriptions.get((assignor, row.metadata))
            if decoded is None:
                decoded = _decode_subscription(assignor, row.metadata)
                _with_room(self._subscriptions)[assignor, row.metadata] = decoded
            cached = _with_room(self._members)[key] = MemberSpec(
                member_id=row.member_id,
                group_instance_id=row.group_instance_id,
                rack=decoded.rack,
                topics=decoded.topics,
                owned=decoded.owned,
                generation=decoded.generation,
                names_generation=decoded.names_generation,
                says_owned=decoded.says_owned,
            )
        return cached

    def encode_assignment(self, partitions: Partitions, data: bytes | None = None) -> bytes:
        """An assignment as a leader sends it. data: its user data."""
        key = data, tuple([(topic, tuple(numbers)) for topic, numbers in partitions.items()])
        cached = self._encoded.get(key)
        if cached is None:
            blob = encode_assignment(MemberAssignment(partitions=partitions, user_data=data))
            cached = _with_room(self._encoded)[key] = blob
        return cached

    def decode_assignment(self, blob: bytes) -> Partitions:
        """The partitions in an assignment that a member received."""
        cached = self._assignments.get(blob)
        if cached is None:
            partitions = decode_assignment(blob).partitions
            cached = {topic: tuple(numbers) for topic, numbers in partitions.items()}
            _with_room(self._assignments)[blob] = cached
        return cached


def _with_room(cache: dict[K, V]) -> dict[K, V]:
    """The cache, emptied first if it has no room for one more entry."""
    if len(cache) >= _MAX_ENTRIES:
        cache.clear()
    return cache


class _DecodedSubscription(NamedTuple):
    """What a leader learns from a subscription."""

    rack: str | None
    topics: tuple[str, ...]
    owned: Partitions
    generation: int | None
    names_generation: bool
    says_owned: bool


def _decode_subscription(assignor: str, metadata: bytes) -> _DecodedSubscription:
    subscription = decode_subscription(metadata)
    named = None if subscription.generation_id == NO_GENERATION else subscription.generation_id
    owned: Partitions = {topic: tuple(numbers) for topic, numbers in subscription.owned_partitions.items()}
    generation = named
    if assignor == STICKY:
        owned, generation = decode_sticky_data(subscription.user_data)
    return _DecodedSubscription(
        subscription.rack_id, subscription.topics, owned, generation, named is not None, subscription.says_owned
    )


def assignments(
    assignor: str,
    members: Sequence[MemberSpec],
    topics: Mapping[str, int],
    library: str,
    least_capacity: int = DEFAULT_CAPACITY,
    *,
    has_scala_maps: bool = False,
    leader: str | None = None,
    map_order: MapOrder | None = None,
    cache: DrawCache | None = None,
    has_user_data: bool = False,
) -> dict[str, bytes]:
    """The encoded assignments that a leader sends in its SyncGroup, by member id. has_user_data: `is_seen` of
    `assignment_user_data`; for the other parameters, and errors, see `assigned`."""
    found = assigned(
        assignor, members, topics, library, least_capacity, has_scala_maps=has_scala_maps, leader=leader,
        map_order=map_order,
    )  # fmt: skip
    encode = (DrawCache() if cache is None else cache).encode_assignment
    data = assignment_user_data(assignor, library, is_seen=has_user_data)
    return {member_id: encode(partitions, data) for member_id, partitions in found.items()}


def assigned(
    assignor: str,
    members: Sequence[MemberSpec],
    topics: Mapping[str, int],
    library: str,
    least_capacity: int = DEFAULT_CAPACITY,
    *,
    has_scala_maps: bool = False,
    leader: str | None = None,
    map_order: MapOrder | None = None,
) -> Assigned:
    """What a leader assigns, by member id. members: as the broker lists them. library: the one whose assignor runs.
    leader: its member id, if it matters. least_capacity, has_scala_maps: see `in_map_order`. map_order: see
    `GroupSpec`.

    Raises RefusedError for an assignor that kgm cannot run."""
    if assignor == STREAMS_ASSIGNOR:
        raise RefusedError(
            f"the group rebalances, and it is a Kafka Streams application: its assignor {STREAMS_ASSIGNOR!r} assigns "
            "tasks by what members write into their user data, so kgm cannot predict which member gets what",
        )
    if not is_known(assignor):
        raise RefusedError(
            f"the group rebalances, and kgm does not know its assignor {assignor!r}: it cannot predict which member "
            "gets what",
            # Not all commands that predict have --assignor, so the hint names one that does.
            hint="an assignor of your own can be installed alongside kgm (entry point kgm.assignors); "
            "for an estimate name one that kgm knows: kgm simulate-bounce --assignor cooperative-sticky",
        )
    known = tuple(TopicSpec(name=name, partitions=count) for name, count in topics.items())
    listed = in_map_order(members, least_capacity, has_scala_maps=has_scala_maps)
    spec = GroupSpec(members=tuple(listed), topics=known, leader=leader, map_order=map_order)
    if library == LIBRDKAFKA:
        spec = as_the_leader_sees(spec)
    return assign(assignor, spec, library)


def assignment_user_data(assignor: str, library: str, *, is_seen: bool = False) -> bytes | None:
    """The user data in the assignments of a leader, which make a broker treat the assignor as a custom one (the bytes
    themselves do not matter). librdkafka's cooperative-sticky and sarama's sticky write some, and so does the assignor
    of a group whose assignments contain some now (is_seen); the others write none."""
    of_library = is_cooperative(assignor) if library == LIBRDKAFKA else library == SARAMA and assignor == STICKY
    writes_some = is_seen or of_library
    return encode_sticky_data({}, 0) if writes_some else None


def in_map_order(
    members: Sequence[MemberSpec], least_capacity: int = DEFAULT_CAPACITY, *, has_scala_maps: bool = False
) -> Sequence[MemberSpec]:
    """The members as a broker lists them to the leader: in the order of a hash map of member ids, Java's or Scala's.

    members: in the order in which they joined. least_capacity: the fewest buckets that the map can have; it has more if
    the group was larger in the past."""
    ids = [member.member_id for member in members]
    if has_scala_maps:
        order = scala_map_order(ids, max(least_capacity, grown_scala_capacity(len(ids))))
    else:
        order = map_order(ids, least_capacity)
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
    """StickyAssignor's user data: version 1, or version 0, which has no generation.

    As in Java, user data that is missing or cannot be decoded means that nothing is owned."""
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
