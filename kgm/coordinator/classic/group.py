"""The data of one classic group, and the questions and changes that need nothing but the group (Kafka: ClassicGroup).

A group in the coordinator is changed only when a draft of it takes effect: an event works on a `draft`, which costs
what is different in it, however large the group is. Members are frozen and are replaced."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kgm.coordinator.classic.state import ClassicState, can_move
from kgm.coordinator.contract.outcome import Millis, Ticket
from kgm.coordinator.contract.overlay import Overlay, Table, copied, overlaid
from kgm.java.hash_map import first_in_map, grown_capacity, map_order
from kgm.model.errors import DecodeError, ErrorCode
from kgm.protocol import codec
from kgm.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kgm.protocol.subscription import PROTOCOL_TYPE
from kgm.records.messages.group_metadata_value import MemberMetadata

NO_ASSIGNMENT = b""
_VERSION_SIZE = 2


class Protocol(NamedTuple):
    """One assignor that a member offers, and what the member tells its leader (a subscription, for consumers)."""

    name: str
    metadata: bytes


class Parked(NamedTuple):
    """A JoinGroup or SyncGroup that waits for its reply."""

    ticket: Ticket
    version: int


class Held(NamedTuple):
    """A newcomer that is held back (`standby`): the member that it is to be, the JoinGroup that waits, until when."""

    member: "ClassicMember"
    protocol_type: str
    parked: Parked
    until_ms: Millis


class Rows(NamedTuple):
    """The members of a group as its last record has them: member ids and rows, in the same order. Never changed."""

    member_ids: list[str]
    rows: list[MemberMetadata]


class InitialDelay(NamedTuple):
    """The wait of a group's first join phase: how long this wait is, and how much may still be added to it."""

    delay_ms: int
    remaining_ms: int


class ClassicMember(NamedTuple):
    """A member. is_new: it still waits for its first JoinGroup reply, and has the new-member timeout for a session."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = NO_ASSIGNMENT
    is_new: bool = False

    def metadata(self, protocol: str | None) -> bytes:
        """What the member says for a protocol. Every member has the group's protocol: that is how it was chosen."""
        first = self.protocols[0]  # nearly always the one
        if first.name == protocol:
            return first.metadata
        return next(offered.metadata for offered in self.protocols if offered.name == protocol)

    def vote(self, candidates: frozenset[str]) -> str:
        """The member's first protocol that all members support."""
        first = self.protocols[0].name
        return first if first in candidates else next(p.name for p in self.protocols if p.name in candidates)


@dataclass(slots=True, kw_only=True)
class ClassicGroup:
    """A classic group. Containers are in order of joining.

    pending_joins: ids given out with MEMBER_ID_REQUIRED that have not joined yet. pending_syncs: members that got a
    JoinGroup reply of this generation and sent no SyncGroup since. subscribed_topics: None when not known.
    Replaced as a whole, never changed in place: held, newcomers that are no members yet; rows, the members as the last
    record of the group has them, as long as that is what they are; protocol_counts, how many members offer a protocol;
    offers, how many offer a list of them.
    is_shared: a fork has the same group, so that taking effect must not change the containers of this one.
    most_members: how many members there were at most, which tells the size of Kafka's hash map of them."""

    group_id: str
    state: ClassicState = ClassicState.EMPTY
    previous_state: ClassicState = ClassicState.DEAD
    state_timestamp_ms: Millis | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int = 0
    leader: str | None = None
    members: Table[str, ClassicMember] = field(default_factory=dict)
    static_ids: Table[str, str] = field(default_factory=dict)
    protocol_counts: dict[str, int] = field(default_factory=dict)
    offers: dict[tuple[str, ...], int] = field(default_factory=dict)
    pending_joins: Table[str, None] = field(default_factory=dict)
    pending_syncs: Table[str, None] = field(default_factory=dict)
    parked_joins: Table[str, Parked] = field(default_factory=dict)
    parked_syncs: Table[str, Parked] = field(default_factory=dict)
    subscribed_topics: frozenset[str] | None = None
    new_member_added: bool = False
    initial_delay: InitialDelay | None = None
    held: dict[str, Held] = field(default_factory=dict)
    rows: Rows | None = None
    is_shared: bool = False
    most_members: int = 0

    def draft(self) -> "ClassicGroup":
        """A group like this one that can be changed without changing this group, until it is `settled`."""
        own: Callable[[Table[str, Any]], Table[str, Any]] = copied if self.is_shared else overlaid
        twin = object.__new__(ClassicGroup)
        twin.group_id = self.group_id
        twin.state = self.state
        twin.previous_state = self.previous_state
        twin.state_timestamp_ms = self.state_timestamp_ms
        twin.protocol_type = self.protocol_type
        twin.protocol = self.protocol
        twin.generation = self.generation
        twin.leader = self.leader
        twin.members = own(self.members)
        twin.static_ids = own(self.static_ids)
        twin.protocol_counts = self.protocol_counts
        twin.offers = self.offers
        twin.pending_joins = own(self.pending_joins)
        twin.pending_syncs = own(self.pending_syncs)
        twin.parked_joins = own(self.parked_joins)
        twin.parked_syncs = own(self.parked_syncs)
        twin.subscribed_topics = self.subscribed_topics
        twin.new_member_added = self.new_member_added
        twin.initial_delay = self.initial_delay
        twin.held = self.held
        twin.rows = self.rows
        twin.is_shared = False
        twin.most_members = self.most_members
        return twin

    def settled(self) -> "ClassicGroup":
        """A draft that takes effect in the place of the group that it was made of."""
        if type(self.members) is Overlay:
            self.members = self.members.settle()
        if type(self.static_ids) is Overlay:
            self.static_ids = self.static_ids.settle()
        if type(self.pending_joins) is Overlay:
            self.pending_joins = self.pending_joins.settle()
        if type(self.pending_syncs) is Overlay:
            self.pending_syncs = self.pending_syncs.settle()
        if type(self.parked_joins) is Overlay:
            self.parked_joins = self.parked_joins.settle()
        if type(self.parked_syncs) is Overlay:
            self.parked_syncs = self.parked_syncs.settle()
        return self

    # -- questions

    def is_in(self, *states: ClassicState) -> bool:
        return self.state in states

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def all_joined(self) -> bool:
        """Whether every member waits for the end of the join phase, and nobody was promised a place in it."""
        return len(self.members) == len(self.parked_joins) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """What Kafka calls validateMember: NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID (KIP-345).

        A static member that names itself by its member id alone passes."""
        if group_instance_id is not None:
            owner = self.static_ids.get(group_instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols may be in the group.

        The counts include the joiner's own old entry, if it is a member: a lone member that changes to a disjoint list
        of protocols is refused, as in Kafka."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        if self.protocol_type != protocol_type:
            return False
        everyone, counts = len(self.members), self.protocol_counts
        return any(counts.get(name, 0) == everyone for name in names)

    def select_protocol(self) -> str:
        """The protocol with most votes among those that all members support."""
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
        # It is close: then it counts in which order they voted.
        return winner(Counter(member.vote(candidates) for member in self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        """Consumers whose subscription cannot be read count as subscribed to everything."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    # -- changes

    def move_to(self, state: ClassicState, now: Millis) -> None:
        """Enter a state. An illegal move is a bug of this package."""
        assert can_move(self.state, state), f"group {self.group_id}: {self.state} -> {state}"
        self.previous_state, self.state, self.state_timestamp_ms = self.state, state, now
        self.rows = None

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member: the first one gives the group its protocol type, and leads it."""
        assert member.member_id not in self.members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_ids
            self.static_ids[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.most_members = max(self.most_members, len(self.members))
        self._count(member.protocols, +1)
        self.pending_joins.pop(member.member_id, None)
        self.rows = None

    def update(self, member: ClassicMember) -> None:
        """Put a member's new data in the place of its old one."""
        before = self.members[member.member_id]
        if [offered.name for offered in member.protocols] != [offered.name for offered in before.protocols]:
            self._count(before.protocols, -1)
            self._count(member.protocols, +1)
        self.members[member.member_id] = member
        self.rows = None

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending id, if there is one. If it led, Kafka's next one leads."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            if member.group_instance_id is not None:
                del self.static_ids[member.group_instance_id]
            self.rows = None
        if self.leader == member_id:
            self.leader = successor(self.members, self.most_members)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def rename(self, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member a new member id; it keeps assignment and leadership, and is not new.

        The old id stays in `pending_syncs` if it was there, as in Kafka: a static member that restarts between
        JoinGroup and SyncGroup costs a rebalance when the sync phase times out."""
        old = self.members[old_id]
        assert old.group_instance_id is not None
        renamed = old._replace(member_id=new_id, is_new=False)
        del self.members[old_id]
        self.members[new_id] = renamed  # last, as in the chains of Kafka's hash map
        if self.leader == old_id:
            self.leader = new_id
        self.static_ids[old.group_instance_id] = new_id
        self.rows = None
        return renamed

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one who joined: itself, else the next one. False if nobody."""
        if self.leader in self.parked_joins:
            return True
        joined = successor(
            (member_id for member_id in self.members if member_id in self.parked_joins), self.most_members
        )
        if joined is None:
            return False
        self.leader = joined
        return True

    def start_generation(self, now: Millis) -> None:
        """End the join phase: CompletingRebalance with the elected protocol, or Empty without members."""
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed_topics = self.read_subscribed_topics()
        self.move_to(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now)
        self.pending_syncs.clear()

    def read_subscribed_topics(self) -> frozenset[str] | None:
        """The topics that the members of a consumer group name; None for other types and for unreadable metadata."""
        if not self.uses_consumer_protocol or (self.members and self.protocol is None):
            return None
        return topics_of(member.metadata(self.protocol) for member in self.members.values())

    def _count(self, protocols: Sequence[Protocol], by: int) -> None:
        names = tuple([offered.name for offered in protocols])
        offers, counts = self.offers.copy(), self.protocol_counts.copy()
        offers[names] = offers.get(names, 0) + by
        if not offers[names]:
            del offers[names]
        for name in dict.fromkeys(names):
            counts[name] = counts.get(name, 0) + by
        self.offers, self.protocol_counts = offers, counts


def successor(candidates: Iterable[str], most_members: int) -> str | None:
    """Who leads when the leader has gone: the first of the candidates, which are in order of joining, in Kafka's hash
    map of the members. A table never shrinks: its size is that for the most members that there were."""
    return first_in_map(candidates, grown_capacity(most_members))


def winner(votes: Mapping[str, int]) -> str:
    """The protocol with most votes; of equals the one that comes first in the hash map in which Kafka counts them."""
    if len(votes) == 1:
        return next(iter(votes))
    most = max(votes.values())
    names = list(votes)
    return next(names[at] for at in map_order(names) if votes[names[at]] == most)


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics in consumer protocol subscriptions, read by the prefix that every version has; None if one is not
    readable. (Kafka lets some unreadable ones escape as a server error and leaves the group stuck; not here.)"""
    topics: set[str] = set()
    known = None
    for blob in dict.fromkeys(subscriptions):
        if known is not None and blob.startswith(known, _VERSION_SIZE):
            continue  # it begins like the one before: members of a group mostly want the same
        try:
            message = codec.decode(ConsumerProtocolSubscription, blob, 0, offset=_VERSION_SIZE, allow_trailing=True)
        except DecodeError:
            return None
        topics.update(message.topics)
        known = codec.encode(message, 0)
    return frozenset(topics)
