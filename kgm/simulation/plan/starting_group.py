"""Where a simulation begins: a Stable group, taken from a snapshot (or made up), what-ifs applied."""

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kgm.assignors import GroupSpec, MemberSpec, TopicSpec, assign
from kgm.assignors.server.broker_view import as_the_broker_sees
from kgm.assignors.unsupported_groups import STREAMS, refuse_unsupported
from kgm.coordinator.contract.topic_image import Topic, TopicImage, topic_id
from kgm.java.hash_map import DEFAULT_CAPACITY, map_capacity
from kgm.java.timeline_hash_map import timeline_capacity
from kgm.model.assignment import Assignment, Partitions
from kgm.model.errors import NotFoundError, RefusedError, UsageError
from kgm.model.ids import uuid_text
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, TopicSnapshot
from kgm.protocol.subscription import PROTOCOL_TYPE
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, WhatIf
from kgm.simulation.play.client_profiles import Library, guess

#: Defaults of Kafka's clients.
SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 300_000
_UNKNOWN_GENERATION = 1
_CLIENT_ID = "consumer"
#: What most classic groups use, and those that the broker has for consumer groups, the default first.
CLASSIC_ASSIGNOR = "range"
SERVER_ASSIGNORS = ("uniform", "range")
SERVER_PREFIX = "consumer-"
#: A cooperative group comes to rest after two rounds; more would be an assignor that never does.
_SETTLING_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One consumer, through its restarts. identity: by which the plan and the report name it before it restarts.

    listed: of a consumer group, what it owns in the broker's order, if that is known. library: None when nobody knows
    which."""

    identity: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str = "/127.0.0.1"
    rack: str | None = None
    topics: tuple[str, ...] = ()
    owned: Partitions
    listed: Partitions | None = None
    library: Library | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A Stable group at the start. generation: the epoch of a consumer group; made up when `generation_is_known` is
    False. assignor: of a consumer group, the broker's.

    topics: partitions by topic. topic_ids: of those whose id is known; the broker's assignors take topics in an order
    that hangs on it. caveats: what had to be assumed. seats: in the order in which the broker lists them, if it is
    known. listing_capacity: buckets of the hash map by which it does, None if that is not known; of a classic group the
    one that a leader gets to see (`assigning`), of a consumer group the broker's own (`installed`)."""

    group_id: str
    assignor: str
    generation: int
    generation_is_known: bool
    session_timeout_ms: int
    rebalance_timeout_ms: int
    seats: tuple[Seat, ...]
    topics: Mapping[str, int]
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    listing_capacity: int | None = DEFAULT_CAPACITY
    caveats: tuple[str, ...] = ()
    protocol: GroupProtocol = GroupProtocol.CLASSIC

    @property
    def assignment(self) -> dict[str, Partitions]:
        return {seat.identity: seat.owned for seat in self.seats}

    @property
    def image(self) -> TopicImage:
        """The topics as a broker has them; ids that are not known are made from the names."""
        return TopicImage.of(
            Topic(name=name, topic_id=self.topic_ids.get(name) or topic_id(name), partitions=count)
            for name, count in self.topics.items()
        )

    @property
    def all_static(self) -> bool:
        return all(seat.group_instance_id is not None for seat in self.seats)


def origin_of(snapshot: GroupSnapshot, what_if: WhatIf) -> Origin:
    """The group of a snapshot. Raises RefusedError for a group that kgm cannot play, NotFoundError for none."""
    _refuse_unplayable(snapshot)
    other = what_if.assignor not in (None, STREAMS) or what_if.protocol is GroupProtocol.CONSUMER
    if snapshot.assignor == STREAMS and other:
        refuse_unsupported(snapshot)  # another assignor would share out partitions, where these members share out tasks
    snapshot = snapshot.in_listed_order()
    protocol = what_if.protocol or GroupProtocol(snapshot.type)
    assignor = _assignor(snapshot, what_if, protocol)
    if assignor is None:
        if snapshot.members:
            raise RefusedError(
                f"the snapshot of group {snapshot.group_id} does not tell the assignor",
                hint="take it while the group is Stable, or name one: --assignor range",
                group_id=snapshot.group_id,
            )
        assignor = "range"
    caveats: list[str] = []
    session_timeout_ms = _timeout(
        what_if.session_timeout_ms, snapshot.session_timeout_ms, SESSION_TIMEOUT_MS, "session", caveats
    )
    matters = caveats if protocol is GroupProtocol.CLASSIC else []  # otherwise only to who gives nothing up
    rebalance_timeout_ms = _timeout(
        what_if.rebalance_timeout_ms, snapshot.rebalance_timeout_ms, REBALANCE_TIMEOUT_MS, "rebalance", matters
    )
    generation = snapshot.generation if snapshot.type == "classic" else snapshot.group_epoch
    origin = Origin(
        group_id=snapshot.group_id,
        assignor=assignor,
        protocol=protocol,
        generation=_UNKNOWN_GENERATION if generation is None else generation,
        generation_is_known=generation is not None,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        seats=tuple(_seat(member, snapshot, what_if, caveats) for member in snapshot.members),
        topics=_topics(snapshot, caveats),
        topic_ids={topic.name: topic.topic_id for topic in snapshot.topics if topic.topic_id is not None},
        listing_capacity=_listing_capacity(snapshot, protocol),
        caveats=tuple(caveats),
    )
    if any(seat.rack for seat in origin.seats):
        origin = _with_caveat(origin, "members have racks; those of partitions are not in a snapshot; all are ignored")
    if what_if.resettles and origin.seats:
        supposed = f"before the plan the group is taken to have settled under {_supposed(what_if)}"
        origin = _with_caveat(settled(origin), supposed)
    return origin


def _listing_capacity(snapshot: GroupSnapshot, protocol: GroupProtocol) -> int | None:
    """Buckets of the hash map by which the broker lists the members; None if the order in which it does is not known,
    or not what would count under another protocol.

    From a broker that does not list a classic group by hash (`kgm serve` lists in the order of joining) nothing is
    learned."""
    if not snapshot.knows_listed_order or protocol.value != snapshot.type:
        return None
    ids = [member.member_id for member in snapshot.members]
    if protocol is GroupProtocol.CONSUMER:
        return timeline_capacity(ids)
    return map_capacity(ids) or DEFAULT_CAPACITY


def _supposed(what_if: WhatIf) -> str:
    membership = None if what_if.membership is None else f"{what_if.membership.value} membership"
    return " and ".join(part for part in (what_if.assignor, membership) if part)


def _with_caveat(origin: Origin, caveat: str) -> Origin:
    return replace(origin, caveats=(*origin.caveats, caveat))


def _refuse_unplayable(snapshot: GroupSnapshot) -> None:
    group_id = snapshot.group_id
    if snapshot.state == "Dead":
        raise NotFoundError(f"group {group_id} does not exist", group_id=group_id)
    if snapshot.type not in ("classic", "consumer") or (snapshot.members and snapshot.assignor != STREAMS):
        refuse_unsupported(snapshot)
    if any(member.protocol == "classic" for member in snapshot.members) and snapshot.type == "consumer":
        raise RefusedError(
            f"group {group_id} is on its way from the classic protocol to KIP-848: members of both are in it",
            facts=("how such a group fares is not predicted: no prediction is better than a wrong one",),
            hint="finish the migration, or make a group up: --members N --topic NAME:PARTITIONS",
            group_id=group_id,
        )
    away = [member.identity for member in snapshot.members if member.status == "away"]
    if away:
        raise RefusedError(
            f"group {group_id} has members that are away: {', '.join(away)}",
            facts=("when they went, and so when the coordinator lets go of them, is not known",),
            hint="try again when they are back, or remove them: kgm remove-members",
            group_id=group_id,
        )
    if snapshot.state not in ("Stable", "Empty"):
        raise RefusedError(
            f"group {group_id} is in state {snapshot.state}: who owns what is open until it is Stable",
            hint="try again in a few seconds",
            group_id=group_id,
        )


def _timeout(supposed: int | None, seen: int | None, default: int, what: str, caveats: list[str]) -> int:
    if supposed is not None:
        return supposed
    if seen is not None:
        return seen
    assumed = f"{default // 1000} s assumed (--{what}-timeout says otherwise)"
    caveats.append(f"the {what} timeout is not in the snapshot: {assumed}")
    return default


def _topics(snapshot: GroupSnapshot, caveats: list[str]) -> dict[str, int]:
    """Partitions of every topic that matters; of one that the snapshot leaves out, as many as are assigned."""
    known = {topic.name: topic.partitions for topic in snapshot.topics}
    for member in snapshot.members:
        for name, partitions in member.assignment.items():
            if name not in known and partitions:
                known[name] = 1 + max(max(other.assignment.get(name, ()), default=-1) for other in snapshot.members)
                taken = f"taken to have {known[name]} partitions, as assigned"
                caveats.append(f"topic {name} is not in the snapshot: {taken}")
    wanted = {name for member in snapshot.members for name in member.topics}
    return {name: known[name] for name in sorted(known) if name in wanted or not wanted}


def _assignor(snapshot: GroupSnapshot, what_if: WhatIf, protocol: GroupProtocol) -> str | None:
    """The assignor of the members, or of the broker; None where the snapshot does not tell."""
    if protocol is GroupProtocol.CLASSIC:
        seen = snapshot.assignor if snapshot.type == "classic" else CLASSIC_ASSIGNOR
        return what_if.assignor or seen
    supposed = (what_if.assignor or "").removeprefix(SERVER_PREFIX)
    if supposed and supposed not in SERVER_ASSIGNORS:
        known = ", ".join(SERVER_ASSIGNORS)
        raise UsageError(f"assignor {supposed} is none of the broker's", facts=[f"in consumer groups: {known}"])
    seen = snapshot.assignor if snapshot.type == "consumer" else None
    return supposed or (seen if seen in SERVER_ASSIGNORS else SERVER_ASSIGNORS[0])


def _seat(member: MemberSnapshot, snapshot: GroupSnapshot, what_if: WhatIf, caveats: list[str]) -> Seat:
    instance_id = member.group_instance_id
    if what_if.membership is Membership.DYNAMIC:
        instance_id = None
    elif what_if.membership is Membership.STATIC:
        instance_id = member.identity
    return Seat(
        identity=member.member_id if instance_id is None else instance_id,
        member_id=member.member_id,
        group_instance_id=instance_id,
        client_id=member.client_id,
        client_host=member.client_host or "/127.0.0.1",
        rack=member.rack,
        topics=_subscribed(member, snapshot, caveats),
        owned=member.assignment,
        listed=_listed(member),
        library=guess(member.client_library, member.client_id, member.member_id),
    )


def _listed(member: MemberSnapshot) -> Partitions | None:
    """What the member owns as the broker lists it; None where the snapshot does not tell (of just this)."""
    listed = member.listed_target
    if listed is None or {t: sorted(p) for t, p in listed.items()} != {
        t: sorted(p) for t, p in member.assignment.items() if p
    }:
        return None
    return listed


def _subscribed(member: MemberSnapshot, snapshot: GroupSnapshot, caveats: list[str]) -> tuple[str, ...]:
    """The topics of a member; of a regular expression, those that members with the same one have partitions of."""
    if not member.regex:
        return member.topics or tuple(sorted(member.assignment))
    said = "a subscription by regular expression is taken for the topics that are assigned now"
    if said not in caveats:
        caveats.append(said)
    alike = [other.assignment for other in snapshot.members if other.regex == member.regex]
    resolved = {topic for assignment in alike for topic, numbers in assignment.items() if numbers}
    return tuple(sorted({*member.topics, *resolved}))


def settled(origin: Origin) -> Origin:
    """The group after its assignor has run until nothing changes, beginning with what the members own."""
    owned: Assignment = {seat.member_id: seat.owned for seat in origin.seats}
    name = origin.assignor if origin.protocol is GroupProtocol.CLASSIC else SERVER_PREFIX + origin.assignor
    for _ in range(_SETTLING_ROUNDS):
        assigned: Assignment = assign(name, _group_of(origin, owned))
        if assigned == owned:
            break
        owned = assigned
    return replace(
        origin, seats=tuple(replace(seat, owned=owned[seat.member_id], listed=None) for seat in origin.seats)
    )


def _group_of(origin: Origin, owned: Assignment) -> GroupSpec:
    """Members and topics as the assignor gets to see them."""
    members = tuple(
        MemberSpec(
            member_id=seat.member_id,
            group_instance_id=seat.group_instance_id,
            rack=seat.rack,
            topics=seat.topics,
            owned=owned[seat.member_id],
            generation=origin.generation,
        )
        for seat in origin.seats
    )
    image = origin.image.by_name.values()
    topics = tuple(TopicSpec(name=topic.name, partitions=topic.partitions) for topic in image)
    if origin.protocol is GroupProtocol.CLASSIC:
        return GroupSpec(members=members, topics=topics)
    ids = {topic.name: topic.topic_id for topic in image}
    is_homogeneous = len({frozenset(seat.topics) for seat in origin.seats}) == 1
    return as_the_broker_sees(members, topics, ids, is_homogeneous=is_homogeneous, is_listed=False)


# -- a group that is made up


def synthetic(
    members: int,
    topics: Sequence[TopicSnapshot],
    membership: Membership,
    assignor: str | None = None,
    protocol: GroupProtocol = GroupProtocol.CLASSIC,
) -> GroupSnapshot:
    """A Stable group that never was, all members subscribed to all topics. Static ones are `member-1` to `member-N`;
    dynamic ones have one client id, as the replicas of a deployment do, so that their ids sort at random."""
    if members < 1:
        raise UsageError(f"--members is {members}, the lowest is 1")
    if not topics:
        raise UsageError("a made-up group needs topics", hint="--topic orders:12")
    if len({topic.name for topic in topics}) != len(topics):
        raise UsageError("a topic is given twice")
    chance = random.Random("kgm")  # noqa: S311  (made-up names, the same in every run)
    is_static, is_classic = membership is Membership.STATIC, protocol is GroupProtocol.CLASSIC
    width = len(str(members))
    names = [f"member-{number:0{width}}" for number in range(1, members + 1)]
    snapshot = GroupSnapshot(
        group_id="synthetic",
        type=protocol.value,
        state="Stable",
        protocol_type=PROTOCOL_TYPE,
        assignor=assignor or (CLASSIC_ASSIGNOR if is_classic else SERVER_ASSIGNORS[0]),
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        generation=1 if is_classic else None,
        group_epoch=None if is_classic else 1,
        assignment_epoch=None if is_classic else 1,
        topics=tuple(topics),
        members=tuple(
            MemberSnapshot(
                member_id=made_up_member_id(name if is_static else _CLIENT_ID, chance)
                if is_classic
                else random_member_id(chance),
                group_instance_id=name if is_static else None,
                client_id=name if is_static else _CLIENT_ID,
                topics=tuple(topic.name for topic in topics),
                listed_at=place if is_classic else None,
            )
            for place, name in enumerate(names)
        ),
    )
    seats = settled(origin_of(snapshot, WhatIf())).seats
    return replace(
        snapshot,
        members=tuple(
            replace(member, assignment=seat.owned) for member, seat in zip(snapshot.members, seats, strict=True)
        ),
    )


def random_member_id(chance: random.Random) -> str:
    """A member id as clients and brokers make them for consumer groups: a random UUID in base64 (KIP-1082)."""
    while True:
        text = uuid_text(chance.getrandbits(128).to_bytes(16))
        if not text.startswith("-"):
            return text


def made_up_member_id(prefix: str, chance: random.Random) -> str:
    """A member id as a broker makes them: a prefix and a random UUID."""
    return f"{prefix}-{uuid.UUID(int=chance.getrandbits(128), version=4)}"
