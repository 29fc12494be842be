"""A classic group as data, with the queries and changes that need only the group (Kafka: ClassicGroup).

A group has *hard* and *soft* state. Hard state is what a GroupMetadata record holds, so `group_from_record` can rebuild
it from the log. Soft state is lost with the process: parked requests, pending ids, the rebalance in flight. (Timers are
soft state too; the coordinator keeps them.)

A Stable or Empty group has the members, leader, protocol and generation of its last record, so these change only in
`replay`. (Of the protocols that a member offers, the record has only the selected one. The one exception: a group that
became Empty stays Empty even if its record could not be appended.) While a rebalance is in flight (PreparingRebalance,
CompletingRebalance) they are ahead of the log, as in Kafka: if the process dies then, the group goes back to what it
was before the rebalance. A group that has offsets but never had members has no record.

An event that has records can fail, so it never changes a group in place. It works on a `draft`, whose cost depends on
what the event changes, not on the size of the group; the draft takes the group's place when it takes effect
(`event_draft`). Members are immutable and are replaced."""

import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from kgm.coordinator.contract.outcome import Millis, Ticket
from kgm.coordinator.groups.classic_state import ClassicState, can_move
from kgm.coordinator.groups.overlay import Overlay, Table, copied, overlaid
from kgm.java.hash_map import first_in_map, grown_capacity, map_order
from kgm.java.scala_map import first_in_scala_map, grouped_order, grown_scala_capacity, scala_map_order
from kgm.model.errors import DecodeError, ErrorCode
from kgm.protocol import codec
from kgm.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kgm.protocol.subscription import PROTOCOL_TYPE
from kgm.records.messages.group_metadata_value import MemberMetadata

CLASSIC = "classic"
NO_ASSIGNMENT = b""
_VERSION_SIZE = 2


class OfferedProtocol(NamedTuple):
    """An assignor that a member offers, and the member's metadata for it (a subscription, for consumers)."""

    name: str
    metadata: bytes


class ClassicMember(NamedTuple):
    """A member. is_new: it is waiting for its first JoinGroup reply, so its session has the new-member timeout."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[OfferedProtocol, ...]
    assignment: bytes = NO_ASSIGNMENT
    is_new: bool = False

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for the group's protocol. Every member offers it: that is how it was selected."""
        first = self.protocols[0]  # nearly always the right one
        if first.name == protocol:
            return first.metadata
        return next(offered.metadata for offered in self.protocols if offered.name == protocol)

    def vote(self, candidates: frozenset[str]) -> str:
        """The member's first protocol that all members support."""
        first = self.protocols[0].name
        return first if first in candidates else next(p.name for p in self.protocols if p.name in candidates)


_REBALANCE_TIMEOUT = operator.attrgetter("rebalance_timeout_ms")


class ParkedRequest(NamedTuple):
    """A JoinGroup or SyncGroup that waits for its reply."""

    ticket: Ticket
    version: int


class HeldNewcomer(NamedTuple):
    """A newcomer that is held back for a planned scale-out (`classic.standby`): the member that it will become, the
    parked JoinGroup, and the time until which it may wait."""

    member: ClassicMember
    protocol_type: str
    parked: ParkedRequest
    until_ms: Millis


class InitialDelay(NamedTuple):
    """The wait in the first join phase of a group: the length of this wait, and how much can still be added."""

    delay_ms: int
    remaining_ms: int


class LoggedMembers(NamedTuple):
    """The members in the group's last record: ids and rows, in the same order. Never changed in place."""

    member_ids: list[str]
    rows: list[MemberMetadata]


@dataclass(slots=True, kw_only=True)
class ClassicHardState:
    """What the log holds for a classic group, and what follows from it. Members are in the order of joining."""

    group_id: str
    #: In a record, a group is Stable or Empty; rebalance states are never in the log.
    state: ClassicState = ClassicState.EMPTY
    state_timestamp_ms: Millis | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int = 0
    leader: str | None = None
    members: Table[str, ClassicMember] = field(default_factory=dict)
    #: Member ids by group instance id.
    static_ids: Table[str, str] = field(default_factory=dict)
    #: How many members offer a protocol, and how many offer a list of protocols. Never changed in place.
    protocol_counts: dict[str, int] = field(default_factory=dict)
    offers: dict[tuple[str, ...], int] = field(default_factory=dict)
    #: None if they are not known.
    subscribed_topics: frozenset[str] | None = None


@dataclass(slots=True, kw_only=True)
class ClassicSoftState:
    """What only this coordinator's memory knows about a classic group. Tables are in insertion order."""

    #: Ids that were given out with MEMBER_ID_REQUIRED and have not joined yet.
    pending_joins: Table[str, None] = field(default_factory=dict)
    #: Parked requests by member id.
    parked_joins: Table[str, ParkedRequest] = field(default_factory=dict)
    parked_syncs: Table[str, ParkedRequest] = field(default_factory=dict)
    #: Newcomers that are not members yet, by member id. Never changed in place.
    held: dict[str, HeldNewcomer] = field(default_factory=dict)
    #: The rebalance in flight: members that got a JoinGroup reply in this generation but have not sent SyncGroup since.
    pending_syncs: Table[str, None] = field(default_factory=dict)
    previous_state: ClassicState = ClassicState.DEAD
    #: During the first join phase, and whether a member was added in it since the delay was last extended.
    initial_delay: InitialDelay | None = None
    new_member_added: bool = False
    #: The largest number of members so far, which determines the size of Kafka's hash map of members.
    most_members: int = 0


@dataclass(slots=True, kw_only=True)
class ClassicGroup(ClassicHardState):
    """A classic group: its hard state, and its soft state in `soft`.

    logged_members: a cache of the rows in the last record, as long as they still match the members. is_shared: a fork
    has the same group, so a draft must not take over this group's tables."""

    group_type: ClassVar[str] = CLASSIC
    soft: ClassicSoftState = field(default_factory=ClassicSoftState)
    logged_members: LoggedMembers | None = None
    is_shared: bool = False

    def draft(self) -> "ClassicGroup":
        """A copy that can be changed without changing this group until the draft takes effect."""
        own: Callable[[Table[str, Any]], Table[str, Any]] = copied if self.is_shared else overlaid
        twin = object.__new__(ClassicGroup)
        twin.group_id = self.group_id
        twin.state = self.state
        twin.state_timestamp_ms = self.state_timestamp_ms
        twin.protocol_type = self.protocol_type
        twin.protocol = self.protocol
        twin.generation = self.generation
        twin.leader = self.leader
        twin.members = own(self.members)
        twin.static_ids = own(self.static_ids)
        twin.protocol_counts = self.protocol_counts
        twin.offers = self.offers
        twin.subscribed_topics = self.subscribed_topics
        twin.logged_members = self.logged_members
        twin.is_shared = False
        soft = self.soft
        soft_twin = twin.soft = object.__new__(ClassicSoftState)
        soft_twin.pending_joins = own(soft.pending_joins)
        soft_twin.parked_joins = own(soft.parked_joins)
        soft_twin.parked_syncs = own(soft.parked_syncs)
        soft_twin.held = soft.held
        soft_twin.pending_syncs = own(soft.pending_syncs)
        soft_twin.previous_state = soft.previous_state
        soft_twin.initial_delay = soft.initial_delay
        soft_twin.new_member_added = soft.new_member_added
        soft_twin.most_members = soft.most_members
        return twin

    def take_effect(self) -> "ClassicGroup":
        """Turn this draft into a group, which replaces the group that it was drafted from."""
        soft = self.soft
        if type(self.members) is Overlay:
            self.members = self.members.merge()
        if type(self.static_ids) is Overlay:
            self.static_ids = self.static_ids.merge()
        if type(soft.pending_joins) is Overlay:
            soft.pending_joins = soft.pending_joins.merge()
        if type(soft.parked_joins) is Overlay:
            soft.parked_joins = soft.parked_joins.merge()
        if type(soft.parked_syncs) is Overlay:
            soft.parked_syncs = soft.parked_syncs.merge()
        if type(soft.pending_syncs) is Overlay:
            soft.pending_syncs = soft.pending_syncs.merge()
        return self

    # -- questions

    @property
    def is_empty(self) -> bool:
        """Whether the group is Empty. Then it has no members, but it may have pending ids."""
        return self.state is ClassicState.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def all_joined(self) -> bool:
        """Whether every member is waiting for the end of the join phase, and there are no pending ids."""
        return len(self.members) == len(self.soft.parked_joins) and not self.soft.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members; 0 without members."""
        return max(map(_REBALANCE_TIMEOUT, self.members.values()), default=0)

    def listed(self, *, has_scala_maps: bool) -> Collection[ClassicMember]:
        """The members in the order in which they are sent to the leader, described and written: the order of joining,
        or of Scala's hash map. (Kafka's Java coordinator has an order of its own, but nothing here depends on it.)"""
        members = self.members.values()
        if not has_scala_maps:
            return members
        listed = list(members)
        order = scala_map_order([member.member_id for member in listed], grown_scala_capacity(self.soft.most_members))
        return [listed[at] for at in order]

    def check_member(
        self, member_id: str, group_instance_id: str | None, *, checks_instance_ids: bool = True
    ) -> ErrorCode:
        """NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID (KIP-345; Kafka: ClassicGroup.validateMember).

        A static member may give only its member id. checks_instance_ids: whether an instance id that no member has is
        an error."""
        if group_instance_id is not None:
            owner = self.static_ids.get(group_instance_id)
            if owner is None and checks_instance_ids:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner not in (None, member_id):
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols can be in the group.

        The counts include the old protocols of the joining member: if the only member of a group switches to a disjoint
        list of protocols, it is refused, as in Kafka."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        if self.protocol_type != protocol_type:
            return False
        everyone, counts = len(self.members), self.protocol_counts
        return any(counts.get(name, 0) == everyone for name in names)

    def select_protocol(self, *, has_scala_maps: bool = False) -> str:
        """The protocol with the most votes among those that all members support."""
        if len(self.offers) == 1:
            return next(iter(self.offers))[0]
        everyone = len(self.members)
        candidates = frozenset([name for name, count in self.protocol_counts.items() if count == everyone])
        votes: dict[str, int] = {}
        for names, count in self.offers.items():
            choice = next(name for name in names if name in candidates)
            votes[choice] = votes.get(choice, 0) + count
        if len(votes) == 1 or max(votes.values()) * 2 > everyone:
            return max(votes, key=votes.__getitem__)
        # Without a majority, the order of the votes matters.
        ballots = Counter(member.vote(candidates) for member in self.members.values())
        return most_voted(ballots, has_scala_maps=has_scala_maps)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to a topic. Consumers whose subscription cannot be read subscribe to every
        topic."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    # -- changes

    def move_to(self, state: ClassicState, now: Millis) -> None:
        """Enter a state. An illegal transition is a bug in this package."""
        assert can_move(self.state, state), f"group {self.group_id}: {self.state} -> {state}"
        self.soft.previous_state, self.state, self.state_timestamp_ms = self.state, state, now
        self.logged_members = None

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member. The first one gives the group its protocol type and becomes its leader."""
        assert member.member_id not in self.members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_ids
            self.static_ids[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.soft.most_members = max(self.soft.most_members, len(self.members))
        self._count(member.protocols, +1)
        self.soft.pending_joins.pop(member.member_id, None)
        self.logged_members = None

    def update(self, member: ClassicMember) -> None:
        """Replace a member's data."""
        before = self.members[member.member_id]
        if [offered.name for offered in member.protocols] != [offered.name for offered in before.protocols]:
            self._count(before.protocols, -1)
            self._count(member.protocols, +1)
        self.members[member.member_id] = member
        self.logged_members = None

    def remove(self, member_id: str, *, has_scala_maps: bool = False) -> None:
        """Remove a member or a pending id, if there is one. If it was the leader, the leader that Kafka would choose
        takes over."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            if member.group_instance_id is not None:
                del self.static_ids[member.group_instance_id]
            self.logged_members = None
        if self.leader == member_id:
            self.leader = next_leader(self.members, self.soft.most_members, has_scala_maps=has_scala_maps)
        self.soft.pending_joins.pop(member_id, None)
        self.soft.pending_syncs.pop(member_id, None)

    def rename(self, old_id: str, new_id: str, *, stays_new: bool = False) -> ClassicMember:
        """Give a static member a new member id; it keeps its assignment and leadership, and is no longer new unless
        `stays_new`.

        The old id stays in `pending_syncs` if it was there, as in Kafka: a static member that restarts between
        JoinGroup and SyncGroup costs a rebalance when the sync phase times out."""
        old = self.members[old_id]
        assert old.group_instance_id is not None
        renamed = old._replace(member_id=new_id, is_new=stays_new and old.is_new)
        del self.members[old_id]
        self.members[new_id] = renamed  # last, as in the chains of Kafka's hash map
        if self.leader == old_id:
            self.leader = new_id
        self.static_ids[old.group_instance_id] = new_id
        self.logged_members = None
        return renamed

    def elect_joined_leader(self, *, has_scala_maps: bool = False) -> bool:
        """Keep the leader if it has joined; otherwise the next member that has joined becomes the leader. False if no
        member has joined."""
        parked = self.soft.parked_joins
        if self.leader in parked:
            return True
        candidates = (member_id for member_id in self.members if member_id in parked)
        joined = next_leader(candidates, self.soft.most_members, has_scala_maps=has_scala_maps)
        if joined is None:
            return False
        self.leader = joined
        return True

    def start_generation(self, now: Millis, *, has_scala_maps: bool = False) -> None:
        """End the join phase: CompletingRebalance with the selected protocol, or Empty without members."""
        self.generation += 1
        self.protocol = self.select_protocol(has_scala_maps=has_scala_maps) if self.members else None
        self.subscribed_topics = self.read_subscribed_topics()
        self.move_to(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now)
        self.soft.pending_syncs.clear()

    def read_subscribed_topics(self) -> frozenset[str] | None:
        """The topics that the members subscribe to; None if they are not consumers, or if metadata cannot be read."""
        if not self.uses_consumer_protocol or (self.members and self.protocol is None):
            return None
        return topics_in(member.metadata(self.protocol) for member in self.members.values())

    def _count(self, protocols: Sequence[OfferedProtocol], by: int) -> None:
        names = tuple([offered.name for offered in protocols])
        offers, counts = self.offers.copy(), self.protocol_counts.copy()
        offers[names] = offers.get(names, 0) + by
        if not offers[names]:
            del offers[names]
        for name in dict.fromkeys(names):
            counts[name] = counts.get(name, 0) + by
        self.offers, self.protocol_counts = offers, counts


def next_leader(candidates: Iterable[str], most_members: int, *, has_scala_maps: bool = False) -> str | None:
    """The next leader when the leader is gone: the first candidate in Kafka's hash map of the members. Candidates are
    in the order of joining; most_members: the largest number of members that the group has had."""
    if has_scala_maps:
        return first_in_scala_map(candidates, grown_scala_capacity(most_members))
    return first_in_map(candidates, grown_capacity(most_members))


def most_voted(votes: Mapping[str, int], *, has_scala_maps: bool = False) -> str:
    """The protocol with the most votes; if tied, the first one in the hash map in which Kafka counts votes."""
    if len(votes) == 1:
        return next(iter(votes))
    most = max(votes.values())
    names = list(votes)
    order = grouped_order(names) if has_scala_maps else [names[at] for at in map_order(names)]
    return next(name for name in order if votes[name] == most)


def topics_in(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics in consumer protocol subscriptions, read from the prefix that all versions share; None if one of them
    cannot be read. (In Kafka, some of these escape as a server error and leave the group stuck; not here.)"""
    topics: set[str] = set()
    known = None
    for blob in dict.fromkeys(subscriptions):
        if known is not None and blob.startswith(known, _VERSION_SIZE):
            continue  # the same topics as the previous one, as in most groups
        try:
            message = codec.decode(ConsumerProtocolSubscription, blob, 0, offset=_VERSION_SIZE, allow_trailing=True)
        except DecodeError:
            return None
        topics.update(message.topics)
        known = codec.encode(message, 0)
    return frozenset(topics)
