"""The group that a simulation starts with: a Stable group from a snapshot, with what-ifs applied."""

import functools
import random
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

from kgm.assignors import GroupSpec, MemberSpec, TopicSpec, assign, has_assignor, is_known
from kgm.assignors.server.broker_view import as_the_broker_sees
from kgm.assignors.unsupported_groups import refuse_unsupported
from kgm.clients.recognition import recognise_by_ids
from kgm.clients.table import CLIENTS, SAME_ASSIGNOR, known_library, never_says_owned, possible_libraries, version_sent
from kgm.coordinator.contract.topic_image import Topic, TopicImage, topic_id
from kgm.java.hash_map import DEFAULT_CAPACITY, map_capacity
from kgm.java.timeline_hash_map import timeline_capacity
from kgm.model.assignment import Assignment, Partitions
from kgm.model.client_library import CERTAIN, JAVA, ClientLibrary, stated_library
from kgm.model.errors import RefusedError, UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.work import STREAMS_ASSIGNOR
from kgm.protocol.subscription import NEWEST, SHORT_VERSION
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, WhatIf
from kgm.simulation.plan.client_library import Library, is_nameless, may_forget, played_as
from kgm.simulation.plan.refusals import refuse_unplayable
from kgm.simulation.plan.server_assignors import SERVER_ASSIGNORS, SERVER_PREFIX
from kgm.simulation.plan.timeouts import REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS, timeouts_of, usual_timeouts
from kgm.simulation.plan.topics import is_matched, partition_counts, topics_of_member, without_nonexistent
from kgm.simulation.plan.votes import has_known_votes, other_assignors

#: How many times a different half of the members is played as not upgraded yet, which for a few members covers about
#: all the halves there are. With more members than this it is done once, because halves of many members give much the
#: same result.
_HALVES, _FEW = 8, 20
_UNKNOWN_GENERATION = 1
#: How long ago the regular expressions of a group that has been stable for a while were resolved: longer ago than
#: matters, but not so long that they are due again.
RESOLVED_BEFORE_MS = 300_000
#: What most classic groups use.
CLASSIC_ASSIGNOR = "range"
#: A cooperative group is stable after two rounds. More rounds mean an assignor that never returns the same twice.
_MAX_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingMember:
    """One consumer, through all its restarts, as it is before the plan. A new member has an empty `member_id`.

    identity: what the plan and the report call it before it restarts. listed: in a consumer group, what it owns in the
    order in which the broker lists it, if that is known. library: the library whose consumer is played; None if it is
    unknown, or one that kgm does not play. topics: all that it subscribes to. regex: the regular expression (KIP-848)
    that is played; the other topics are then `named_topics`. None: it is played as naming `topics`. client: the library
    as far as it is known. leaves_when_static: whether it leaves the group when it is closed although it is static.
    writes_version: the version of its subscription, None if that is not known. is_nameless: see `plan.client_library`.
    heartbeat_interval_ms: None: as in the plan, or the usual one. In a consumer group the broker sets both times."""

    identity: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str = "/127.0.0.1"
    rack: str | None = None
    topics: tuple[str, ...] = ()
    regex: str | None = None
    named_topics: tuple[str, ...] = ()
    session_timeout_ms: int
    rebalance_timeout_ms: int
    owned: Partitions
    listed: Partitions | None = None
    library: Library | None = None
    client: ClientLibrary = field(default_factory=ClientLibrary)
    leaves_when_static: bool = False
    writes_version: int | None = None
    is_nameless: bool = False
    heartbeat_interval_ms: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that it subscribes to by name."""
        return self.topics if self.regex is None else self.named_topics

    @property
    def subscription(self) -> tuple[frozenset[str], str | None]:
        """What makes subscriptions of members the same in the broker's view: topic names, and a regular expression."""
        return frozenset(self.names), self.regex

    def assigner(self, assignor: str) -> str:
        """The library whose assignor of this name runs if this member leads: Java, if kgm does not have the library's
        own."""
        names = self.possible_assigners(assignor)
        return names[0] if names else JAVA

    def possible_assigners(self, assignor: str) -> tuple[str, ...]:
        """The libraries that the member may run on and whose assignor of this name kgm has, most likely first."""
        played = "" if self.library is None else self.library.value
        return _with_assignor((played, self.client.name or "", *self.client.candidates), assignor)

    @property
    def is_sure(self) -> bool:
        """Whether the evidence leaves one library only."""
        return self.client.name in CLIENTS and {*self.client.candidates} <= {self.client.name}

    @property
    def possible_libraries(self) -> tuple[str, ...]:
        """The libraries that the member may run on; if kgm does not know its library, the ones that it may behave
        like."""
        return possible_libraries(self.client, is_static=self.group_instance_id is not None)

    @property
    def says_owned(self) -> bool:
        """Whether its subscription format includes the partitions that it owns."""
        return not never_says_owned(self.client)

    def subscription_version(self, assignor: str) -> int:
        """The version of its subscriptions as they are played: the one that the library writes, unless the member has
        sent version 0, which in some libraries depends on settings."""
        return 0 if self.writes_version == 0 else version_sent(self.client.candidates, assignor)

    def behavior(self, assignor: str) -> tuple[object, ...]:
        """The traits of its library that are played."""
        return self.library or Library.JAVA, self.leaves_when_static, self.assigner(assignor)

    def as_of(self, library: str) -> "StartingMember":
        """The member as if it ran on this library."""
        client = ClientLibrary(name=library, confidence=CERTAIN, candidates=(library,))
        return replace(self, client=client, library=played_as(client), leaves_when_static=_leaves_when_static(client))


@functools.cache
def _with_assignor(names: tuple[str, ...], assignor: str) -> tuple[str, ...]:
    """Cached: it is called for each member of each draw, but there are few distinct lists of libraries."""
    return tuple(name for name in dict.fromkeys(names) if has_assignor(name, assignor))


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingGroup:
    """A Stable group before the plan.

    generation: the group epoch of a consumer group; a made-up number if `generation_is_known` is False. assignor: in a
    consumer group, the broker's. topics: partition counts. topic_ids: the ones that are known; the broker's assignors
    take topics in an order that depends on them. members: in the order in which the broker lists them, if that is
    known. listing_capacity: the number of buckets of the hash map behind that order, None if it is not known. In a
    classic group it is the map that a leader sees (`play.leader`), in a consumer group the broker's own
    (`play.seed_records`). has_offsets: whether it has committed offsets, None if that is not known; a broker deletes a
    group without any when it finds it empty. caveats: what had to be assumed. unknown_assignor: the group's assignor if
    kgm does not know it; then `assignor` stands in for it, and who gets what is not known. has_user_data: whether
    assignments carry user data, which makes a broker treat the assignor as a custom one. may_forget: see
    `plan.client_library`. giving_up: the members that are played as giving up all partitions in a rebalance.
    resolved_before_ms: how long before the plan the broker resolved the regular expressions of members. voters: in a
    consumer group, the members that are played as asking for its assignor, whose majority decides; None: all members,
    and new ones. has_known_votes: whether all members are known to ask for the assignor, and in a classic group for no
    other. other_assignors: those to which a classic group may change because its members list them, as far as seen."""

    group_id: str
    assignor: str
    generation: int
    generation_is_known: bool
    members: tuple[StartingMember, ...]
    topics: Mapping[str, int]
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    listing_capacity: int | None = DEFAULT_CAPACITY
    has_offsets: bool | None = True
    caveats: tuple[str, ...] = ()
    protocol: GroupProtocol = GroupProtocol.CLASSIC
    unknown_assignor: str | None = None
    has_user_data: bool = False
    may_forget: bool = False
    giving_up: frozenset[str] = frozenset()
    resolved_before_ms: int = RESOLVED_BEFORE_MS
    voters: frozenset[str] | None = None
    has_known_votes: bool = True
    other_assignors: tuple[str, ...] = ()

    def vote_of(self, identity: str) -> str | None:
        """The assignor of the broker for which a member of a consumer group asks (`group.remote.assignor`)."""
        return self.assignor if self.voters is None or identity in self.voters else None

    @property
    def assignment(self) -> dict[str, Partitions]:
        return {member.identity: member.owned for member in self.members}

    @property
    def image(self) -> TopicImage:
        """The topics as the broker sees them. Unknown topic ids are derived from the names."""
        return TopicImage.of(
            Topic(name=name, topic_id=self.topic_ids.get(name) or topic_id(name), partitions=count)
            for name, count in self.topics.items()
        )

    def sessions_ms(self, identities: Container[str] | None = None) -> tuple[int, int]:
        """The shortest and the longest session timeout of these members, or of all."""
        some = [one.session_timeout_ms for one in self.members if identities is None or one.identity in identities]
        return (min(some), max(some)) if some else (SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS)

    @property
    def longest_rebalance_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members), default=REBALANCE_TIMEOUT_MS)

    @property
    def assigner(self) -> str:
        """The library whose assignor runs, if it is the same whichever member leads; otherwise Java."""
        names = {member.assigner(self.assignor) for member in self.members}
        return names.pop() if len(names) == 1 else JAVA

    @property
    def other_libraries(self) -> list[str]:
        """The libraries that members of unknown library may run on, except the ones that they are already played as."""
        unknown = [member for member in self.members if not member.is_sure]
        kinds = {(member.client, member.group_instance_id is None): member for member in unknown}
        return sorted(
            {
                name
                for member in kinds.values()
                for name in member.possible_libraries
                if member.as_of(name).behavior(self.assignor) != member.behavior(self.assignor)
            }
        )

    def as_of(self, library: str) -> "StartingGroup":
        """The group as if all members of unknown library that may run on this one did."""

        def changed(member: StartingMember) -> StartingMember:
            if member.is_sure or library not in member.possible_libraries:
                return member
            as_of = member.as_of(library)
            return member if as_of.behavior(self.assignor) == member.behavior(self.assignor) else as_of

        return replace(self, members=tuple(changed(member) for member in self.members))

    @property
    def leaders(self) -> frozenset[str]:
        """The identities of the members that can lead the group: kafka-go cannot read subscriptions that go beyond the
        user data, and Java and kafka-python cannot read one that ends there although its version has more fields."""
        versions = {member.subscription_version(self.assignor) for member in self.members}
        unable = {Library.KAFKA_GO} if NEWEST in versions else set()
        unable |= {Library.JAVA, Library.KAFKA_PYTHON} if SHORT_VERSION in versions else set()
        return frozenset(member.identity for member in self.members if member.library not in unable)

    @property
    def may_give_up(self) -> tuple[frozenset[str], ...]:
        """The sets of members to play as giving up all partitions although the assignor is cooperative. First all
        members that name none. But the latest to join had none to name; so if most members name none, it may be an
        upgrade in progress, and random halves of them follow."""
        nameless = [member.identity for member in self.members if member.is_nameless]
        is_upgrade, many_halves = len(nameless) * 2 > len(self.members), _HALVES if len(nameless) <= _FEW else 1
        halves = (
            [name for name in nameless if random.Random(f"{number}/{name}").random() < 0.5]  # noqa: S311
            for number in range(many_halves if is_upgrade else 0)
        )
        return tuple(dict.fromkeys(frozenset(some) for some in (nameless, *halves) if some))

    @property
    def regexes(self) -> frozenset[str]:
        """The regular expressions of its members that are played."""
        return frozenset(member.regex for member in self.members if member.regex is not None)

    @property
    def all_static(self) -> bool:
        return all(member.group_instance_id is not None for member in self.members)


def starting_group_of(snapshot: GroupSnapshot, what_if: WhatIf) -> StartingGroup:
    """The starting group for a snapshot.

    Raises RefusedError for a group that cannot be simulated, NotFoundError for one that does not exist, UsageError for
    an assignor that brokers do not have."""
    refuse_unplayable(snapshot)
    other = what_if.assignor not in (None, STREAMS_ASSIGNOR) or what_if.protocol is GroupProtocol.CONSUMER
    if snapshot.assignor == STREAMS_ASSIGNOR and other:
        refuse_unsupported(snapshot)  # these members are assigned tasks; another assignor would assign partitions
    snapshot = with_stated_library(snapshot.in_listed_order(), what_if.library)
    protocol = what_if.protocol or GroupProtocol(snapshot.type)
    caveats: list[str] = []
    if what_if.library is not None:
        caveats.append(f"all members, and the leader, are assumed to use {what_if.library} (--library)")
    session_ms, rebalance_ms = usual_timeouts(snapshot)
    seen_ms = [snapshot.session_of(member) for member in snapshot.members]
    sessions_ms = timeouts_of(what_if.session_timeout_ms, seen_ms, session_ms, "session", caveats)
    # In a consumer group it only matters for a member that does not give up its partitions.
    matters = caveats if protocol is GroupProtocol.CLASSIC else []
    seen_ms = [snapshot.rebalance_of(member) for member in snapshot.members]
    rebalances_ms = timeouts_of(what_if.rebalance_timeout_ms, seen_ms, rebalance_ms, "rebalance", matters)
    generation = snapshot.generation if snapshot.type == "classic" else snapshot.group_epoch
    assignor = _assignor(snapshot, what_if, protocol)
    is_classic = protocol is GroupProtocol.CLASSIC
    is_playable = assignor == STREAMS_ASSIGNOR or is_known(assignor) if is_classic else assignor in SERVER_ASSIGNORS
    stand_in = CLASSIC_ASSIGNOR if is_classic else SERVER_ASSIGNORS[0]
    if not is_classic:
        snapshot = without_nonexistent(snapshot)  # the broker's assignors know the topics as they are now
    members = tuple(
        _member(member, snapshot, what_if, caveats, timeouts_ms)
        for member, timeouts_ms in zip(snapshot.members, zip(sessions_ms, rebalances_ms, strict=True), strict=True)
    )
    group = StartingGroup(
        group_id=snapshot.group_id,
        assignor=assignor if is_playable or what_if.assignor else stand_in,
        unknown_assignor=None if is_playable or what_if.assignor else assignor,
        protocol=protocol,
        generation=_UNKNOWN_GENERATION if generation is None else generation,
        generation_is_known=generation is not None,
        members=members,
        topics=partition_counts(snapshot, {topic for member in members for topic in member.topics}, caveats),
        topic_ids={topic.name: topic.topic_id for topic in snapshot.topics if topic.topic_id is not None},
        listing_capacity=_listing_capacity(snapshot, protocol),
        has_offsets=has_offsets(snapshot),
        caveats=tuple(caveats),
        has_user_data=any(member.user_data is not None for member in snapshot.members),
        may_forget=may_forget(snapshot, what_if.assignor),
        has_known_votes=has_known_votes(snapshot, what_if.assignor),
        other_assignors=other_assignors(snapshot, what_if.assignor) if is_classic else (),
    )
    if any(member.rack for member in group.members):
        group = _with_caveat(
            group, "racks are ignored: members have racks, but a snapshot does not have the racks of partitions"
        )
    if what_if.changes_assignment and group.members:
        group = _with_caveat(
            with_assignor_applied(group),
            f"the group is assumed to be stable under {_supposed(what_if)} before the plan",
        )
    return group


def _listing_capacity(snapshot: GroupSnapshot, protocol: GroupProtocol) -> int | None:
    """The number of buckets of the hash map by which the broker lists the members. None if that order is not known, or
    is irrelevant because the protocol will be another one.

    A broker that does not list a classic group by hash (`kgm serve` lists members in the order of joining) reveals
    nothing."""
    if not snapshot.knows_listed_order or protocol.value != snapshot.type:
        return None
    ids = [member.member_id for member in snapshot.members]
    return timeline_capacity(ids) if protocol is GroupProtocol.CONSUMER else map_capacity(ids) or DEFAULT_CAPACITY


def has_offsets(snapshot: GroupSnapshot) -> bool | None:
    """Whether the group has committed offsets. None if the snapshot has no row for any partition, because it was taken
    without offsets, or if a broker may have left out all that it has."""
    if snapshot.hidden_offset_topics or any(row.committed is not None for row in snapshot.offsets):
        return True
    return None if not snapshot.offsets or snapshot.may_lack_offsets else False


def _supposed(what_if: WhatIf) -> str:
    membership = what_if.membership and f"{what_if.membership.value} membership"
    protocol = what_if.protocol and f"the {what_if.protocol.value} protocol"
    return " and ".join(part for part in (what_if.assignor, membership, protocol) if part)


def _with_caveat(group: StartingGroup, caveat: str) -> StartingGroup:
    return replace(group, caveats=(*group.caveats, caveat))


def _assignor(snapshot: GroupSnapshot, what_if: WhatIf, protocol: GroupProtocol) -> str:
    """The assignor of the members, or the broker's. An empty classic group needs none and gets the usual one; a
    consumer group gets the default if the snapshot does not have its assignor."""
    if protocol is GroupProtocol.CLASSIC:
        seen = snapshot.assignor if snapshot.type == "classic" else CLASSIC_ASSIGNOR
        assignor = what_if.assignor or seen or (None if snapshot.members else CLASSIC_ASSIGNOR)
        if assignor is None:
            raise RefusedError(
                f"the snapshot of group {snapshot.group_id} does not contain the assignor",
                hint="take it while the group is Stable, or name an assignor: --assignor range",
                group_id=snapshot.group_id,
            )
        return SAME_ASSIGNOR.get(assignor, assignor)
    supposed = (what_if.assignor or "").removeprefix(SERVER_PREFIX)
    if supposed and supposed not in SERVER_ASSIGNORS:
        known = ", ".join(SERVER_ASSIGNORS)
        raise UsageError(f"brokers do not have the assignor {supposed}", facts=[f"in consumer groups: {known}"])
    seen = snapshot.assignor if snapshot.type == "consumer" else None
    return supposed or seen or SERVER_ASSIGNORS[0]


def _member(
    member: MemberSnapshot, snapshot: GroupSnapshot, what_if: WhatIf, caveats: list[str], timeouts_ms: tuple[int, int]
) -> StartingMember:  # fmt: skip
    instance_id = member.group_instance_id
    if what_if.membership is Membership.DYNAMIC:
        instance_id = None
    elif what_if.membership is Membership.STATIC:
        instance_id = member.identity
    client = _sure_library(snapshot, library_of(snapshot, member))
    is_consumer = (what_if.protocol or GroupProtocol(snapshot.type)) is GroupProtocol.CONSUMER
    regex = member.regex if is_consumer and is_matched(member) else None
    return StartingMember(
        identity=member.member_id if instance_id is None else instance_id,
        member_id=member.member_id,
        group_instance_id=instance_id,
        client_id=member.client_id,
        client_host=member.client_host or "/127.0.0.1",
        rack=member.rack,
        topics=topics_of_member(member, snapshot, caveats),
        regex=regex,
        named_topics=() if regex is None else member.known_topics,
        session_timeout_ms=timeouts_ms[0],
        rebalance_timeout_ms=timeouts_ms[1],
        owned=member.assignment,
        listed=_listed(member),
        library=played_as(client),
        client=ClientLibrary(evidence=client.evidence) if _is_guessed(snapshot, member) else client,
        leaves_when_static=_leaves_when_static(client),
        writes_version=member.subscription_version,
        is_nameless=is_nameless(member),
    )


def _leaves_when_static(client: ClientLibrary) -> bool:
    return client.name in CLIENTS and CLIENTS[client.name].leaves_when_static


def with_stated_library(snapshot: GroupSnapshot, library: str | None) -> GroupSnapshot:
    """The group with a client library that an operator names, for all members and for the leader; unchanged for None.
    Raises UsageError for a library that kgm does not know."""
    if library is None:
        return snapshot
    stated = stated_library(known_library(library), "the operator")
    return replace(
        snapshot,
        members=tuple(replace(member, client_library=stated) for member in snapshot.members),
        leader_library=stated if snapshot.type == "classic" else None,
    )


def library_of(snapshot: GroupSnapshot, member: MemberSnapshot) -> ClientLibrary:
    """The client library of a member; inferred from its ids if the snapshot does not have it."""
    return member.client_library or recognise_by_ids(
        snapshot.group_id, member.client_id, member.member_id, member.protocol or snapshot.type,
        is_static=member.group_instance_id is not None,
    )  # fmt: skip


def _sure_library(snapshot: GroupSnapshot, client: ClientLibrary) -> ClientLibrary:
    """If kgm does not know the assignor, a library that is not certain counts as unknown, because then the user data
    comes from the assignor."""
    assignor = SAME_ASSIGNOR.get(snapshot.assignor or "", snapshot.assignor or STREAMS_ASSIGNOR)
    is_open = snapshot.type == "classic" and assignor != STREAMS_ASSIGNOR and not is_known(assignor)
    return ClientLibrary(evidence=client.evidence) if is_open and client.confidence != CERTAIN else client


def _is_guessed(snapshot: GroupSnapshot, member: MemberSnapshot) -> bool:
    """Whether only the client id of a classic member suggests a library, which anyone may choose: then that library is
    played, but counts as unknown."""
    is_classic = (member.protocol or snapshot.type) == "classic" and snapshot.assignor != STREAMS_ASSIGNOR
    return is_classic and member.client_library is None


def _listed(member: MemberSnapshot) -> Partitions | None:
    """What the member owns, in the order in which the broker lists it. None if the snapshot lists another assignment,
    or none."""
    listed = member.listed_target
    if listed is None or {t: sorted(p) for t, p in listed.items()} != {
        t: sorted(p) for t, p in member.assignment.items() if p
    }:
        return None
    return listed


def with_assignor_applied(group: StartingGroup) -> StartingGroup:
    """The group after its assignor has run, starting from what the members own, until it returns the same result
    twice."""
    owned: Assignment = {member.member_id: member.owned for member in group.members}
    name = group.unknown_assignor or group.assignor
    if group.protocol is not GroupProtocol.CLASSIC:
        name = SERVER_PREFIX + name
    for _ in range(_MAX_ROUNDS):
        assigned: Assignment = assign(name, _assignor_input(group, owned), group.assigner)
        if assigned == owned:
            break
        owned = assigned
    return replace(
        group,
        members=tuple(replace(member, owned=owned[member.member_id], listed=None) for member in group.members),
    )


def _assignor_input(group: StartingGroup, owned: Assignment) -> GroupSpec:
    """Members and topics as the assignor sees them."""
    members = tuple(
        MemberSpec(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            rack=member.rack,
            topics=member.topics,
            owned=owned[member.member_id],
            generation=group.generation,
            says_owned=member.says_owned,
        )
        for member in group.members
    )
    image = group.image.by_name.values()
    topics = tuple(TopicSpec(name=topic.name, partitions=topic.partitions) for topic in image)
    if group.protocol is GroupProtocol.CLASSIC:
        return GroupSpec(members=members, topics=topics)
    ids = {topic.name: topic.topic_id for topic in image}
    is_homogeneous = len({member.subscription for member in group.members}) == 1
    return as_the_broker_sees(members, topics, ids, is_homogeneous=is_homogeneous, is_listed=False)
