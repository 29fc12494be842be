"""A group coordinator and its clients in virtual time: the network between them, and a log of what happens.

The coordinator is the real engine. A request takes a randomly drawn time to arrive, and so does its reply; a connection
keeps the order of requests.

Heartbeats of a calm group change nothing but the session's deadline, and are left out as long as no session ends
because of that. `WorldObserver.rebalance_began` brings them back; a member that stops hands in its last one
(`scripted_member`)."""

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from kgm.assignors.map_order import MapOrder
from kgm.coordinator.contract.outcome import Millis, Producer, Reply, Request, Ticket, TimerKey, TimerKind, runs_of
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.runtime import Runtime
from kgm.protocol.struct import Message
from kgm.records.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from kgm.records.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kgm.records.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kgm.records.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from kgm.records.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kgm.records.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kgm.records.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.record import Record
from kgm.simulation.plan.member_ids import new_classic_member_id
from kgm.simulation.plan.retention import Retention
from kgm.simulation.plan.starting_group import StartingGroup
from kgm.simulation.play.draw import TimelineEvent
from kgm.simulation.play.held_newcomers import HeldNewcomers
from kgm.simulation.play.leader import DrawCache
from kgm.simulation.play.open_regexes import OpenRegexes
from kgm.simulation.play.ownership_ledger import OwnershipLedger
from kgm.simulation.play.random_stream import LateRandom, RandomStream
from kgm.simulation.play.timing import NETWORK_MS, DrawTiming, draw_ms
from kgm.simulation.play.virtual_clock import VirtualClock
from kgm.text.wording import many

#: When a plan starts. Late enough that earlier events have positive times too.
START_MS = 1_000_000
#: How often processes know the topics before they join although their library does not wait for them
#: (`ClientProfile.topics_ms`): they subscribe with a pattern, or the application has asked for the topics.
_TOPICS_FIRST_SHARE = 0.25
#: How long before the group is loaded its offsets were committed.
_COMMITTED_BEFORE_MS = 60_000


#: A process: a client and the number of its life.
_Connection = tuple["Client", int]
_Arrival = tuple["Client", int, Message, int, Callable[[Any], None] | None]


class Client(Protocol):
    """A sender of requests. life: counts its starts and stops; a reply to an earlier life is lost. chance: its random
    numbers (`World.stream`)."""

    client_id: str
    client_host: str
    life: int
    link_busy_until_ms: float
    chance: RandomStream

    @property
    def identity(self) -> str: ...


#: The version of LeaveGroup that has a reason for each member (KIP-800).
LEAVE_VERSION = 5


class LeaveSender:
    """The sender of a LeaveGroup for members: an operator who removes them, or a process that is about to end. stream:
    the name of its random stream."""

    client_id = identity = "kgm"
    client_host = "/127.0.0.1"
    life = 0
    link_busy_until_ms = 0.0

    def __init__(self, world: "World", stream: str) -> None:
        self.chance = world.stream(stream)


class WorldObserver(Protocol):
    """Is notified of what happens in a world, when it happens."""

    def rebalance_began(self) -> None:
        """The coordinator began a rebalance of a classic group, or raised the epoch of a consumer group."""

    def timer_expired(self) -> None:
        """A timer of the coordinator has expired and been handled."""

    def group_recorded(self) -> None:
        """The coordinator wrote the record of a classic group, and has acted on it."""

    def members_removed(self, member_ids: Sequence[str], replaced: frozenset[str]) -> None:
        """The coordinator wrote that members of a consumer group are removed. replaced: the instance ids that other
        members took over in the same batch of records."""

    def start_refused(self, member: Client) -> None:
        """The broker refused to let a process join, and the process has ended."""

    def expects_room(self) -> bool:
        """Whether the group will lose a member: the session of a stopped process has yet to end."""


class CoordinatorWatcher(Protocol):
    """Plays members without events (`bulk`), and has to bring the coordinator up to date before it does anything."""

    def coordinator_acts(self, message: Message | None) -> None:
        """The coordinator is about to handle a request; None: a timer that has expired."""

    def coordinator_writes(self, records: Sequence[Record]) -> None:
        """The coordinator is about to write these records. The coordinator must not be called in the meantime."""


class Unobserved:
    """A `WorldObserver` that does nothing."""

    def rebalance_began(self) -> None: ...
    def timer_expired(self) -> None: ...
    def group_recorded(self) -> None: ...
    def members_removed(self, member_ids: Sequence[str], replaced: frozenset[str]) -> None: ...
    def start_refused(self, member: Client) -> None: ...
    def expects_room(self) -> bool:
        return False


class World:
    """One draw. Everything that cannot be known is drawn at random: for each client from its own stream (`stream`),
    member ids from another one, and the rest from `chance`. The same seed gives the same draw.

    timing: what all members have in common in the draw. is_deleted_when_empty: see `Retention`. cache: the cache of
    other draws, to reuse."""

    def __init__(
        self, group: StartingGroup, settings: BrokerSettings, seed: str, *, heartbeat_interval_ms: int | None = None,
        keeps_holdings: bool = False, timing: type[DrawTiming] = DrawTiming, observer: WorldObserver | None = None,
        is_deleted_when_empty: bool = False, cache: DrawCache | None = None,
    ) -> None:  # fmt: skip
        self.group = group
        self._retention = Retention(group, seed, is_deleted_when_empty=is_deleted_when_empty)
        self.behavior = settings.behavior
        self.observer: WorldObserver = Unobserved() if observer is None else observer
        #: None if all members are played by events.
        self.watcher: CoordinatorWatcher | None = None
        self.chance = random.Random(seed)  # noqa: S311  (a simulation)
        self._seed = seed
        self._streams: dict[str, RandomStream] = {}
        self.id_chance, maps = LateRandom(seed + "/ids"), LateRandom(seed + "/maps")
        self.map_order = MapOrder(lambda items: maps().shuffle(items))
        self.knows_topics_first = RandomStream(seed + "/topics", "").random() < _TOPICS_FIRST_SHARE
        self.timing = timing(self.chance, heartbeat_interval_ms, group.sessions_ms()[0])
        self.clock = VirtualClock(START_MS)
        self.cache = DrawCache() if cache is None else cache
        self.ledger = OwnershipLedger(group.topics, group.assignment, START_MS, keeps_holdings=keeps_holdings)
        self.timeline: list[TimelineEvent] = []
        #: All records, if they are kept: by default they are not.
        self.kept_records: list[Record] | None = None
        #: Member ids that were drawn at random, so the real ones will differ.
        self.drawn_member_ids: set[str] = set()
        self.generation = group.generation
        self.rebalances = 0
        self.was_empty = False
        self.requests = 0
        self.fenced: list[str] = []
        self.refused_joins = self.in_flight = 0
        #: Whether a classic group is in a rebalance, and whether its new assignment has not been written yet.
        self.is_rebalancing = self.awaits_assignment = False
        #: Members that still have something to do before the group can be stable.
        self.unfinished: set[Client] = set()
        #: Member ids of a consumer group that have partitions to give up, or to wait for.
        self.unreconciled: set[str] = set()
        self.image = group.image
        #: Heartbeat interval and session timeout of consumer groups.
        self.consumer_heartbeat_ms = float(settings.group_consumer_heartbeat_interval_ms)
        self.consumer_session_ms = settings.group_consumer_session_timeout_ms
        self._target_epoch = group.generation
        #: The counter's value when it was reset, because an empty classic group became a new consumer group.
        self.epochs_before = 0
        self.is_new_group = False
        self._is_emptied = False
        self._may_be_empty = False
        self._is_joining = self._is_recorded = False
        self._join_key = TimerKey(TimerKind.JOIN, group.group_id)
        self._sync_key = TimerKey(TimerKind.SYNC, group.group_id)
        self._waiting: dict[int, tuple[Client, int, Callable[[Any], None] | None]] = {}
        self._unanswered: dict[_Connection, deque[_Arrival]] = {}
        self._connection_of: dict[int, _Connection] = {}
        self._when_answered: dict[_Connection, Callable[[], None]] = {}
        if not settings.group_initial_rebalance_delay_ms:  # next to longer delays, the lateness of timers is negligible
            late_ms = self.timing.timer_late_ms(random.Random(seed + "/timers"))  # noqa: S311
            settings = replace(settings, group_initial_rebalance_delay_ms=late_ms)
        self.engine = Coordinator(
            settings=settings, new_member_id=self._new_member_id, topics=group.topics, image=self.image
        )
        self.runtime = Runtime(self.engine, append=self._appended)
        self._deadlines = self.engine.deadlines
        self.held_newcomers = HeldNewcomers(self.engine, group.group_id, self.note)
        self.regexes = OpenRegexes(self.engine, group.group_id, has_regexes=bool(group.regexes))

    def load(self, records: Sequence[Record], *, now: Millis) -> None:
        """Load the group into the coordinator as it is before the plan, which starts at this time or later."""
        self.runtime.load([*records, *self._retention.records(int(now) - _COMMITTED_BEFORE_MS)], now=now)
        self._retention.begin(self.runtime, START_MS)

    # -- time

    @property
    def now_ms(self) -> float:
        return self.clock.now_ms

    @property
    def at_ms(self) -> int:
        """Time since the start of the plan."""
        return round(self.clock.now_ms - START_MS)

    def run_next(self) -> None:
        """Advance to the next event, which is a client's call or a timer of the coordinator."""
        if self.clock.run_next_before(self.runtime.quiet_until()):
            return
        next_at, deadline = self.clock.next_at(), self.runtime.next_deadline()
        if deadline is not None and (next_at is None or deadline <= next_at):
            self.clock.now_ms = max(self.clock.now_ms, float(deadline))
            self._coordinator_acts(None)
            self._deliver(self.runtime.advance(deadline))
            self._observe()
            self.observer.timer_expired()
        else:
            self.clock.run_next()

    # -- chance

    def stream(self, name: str) -> RandomStream:
        """The random stream of the client with this name, through all its lives."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = RandomStream(self._seed, name)
        return stream

    # -- the network

    def send(self, client: Client, message: Message, version: int, on_reply: Callable[[Any], None] | None) -> None:
        """Send a request. on_reply is called with the response, unless the client has stopped by then."""
        arrives = max(self.clock.now_ms + draw_ms(client.chance, NETWORK_MS), client.link_busy_until_ms)
        client.link_busy_until_ms = arrives
        self.post_request(client, message, version, on_reply, arrives)

    def post_request(
        self, client: Client, message: Message, version: int, on_reply: Callable[[Any], None] | None, arrives_ms: float
    ) -> None:
        """A request is on its way to the broker."""
        self.in_flight += 1
        self.clock.post(arrives_ms, self._arrive, client, client.life, message, version, on_reply)

    def post_reply(self, client: Client, message: Message, on_reply: Callable[[Any], None], arrives_ms: float) -> None:
        """A reply is on its way to the client."""
        self.in_flight += 1
        self.clock.post(arrives_ms, self._hand_over, client, client.life, on_reply, message)

    def hand_in(self, request: Request, at_ms: float) -> None:
        """Handle a request without the network: a heartbeat that was left out, with the time at which it would have
        arrived."""
        self._coordinator_acts(request.message)
        self.requests += 1
        self.runtime.handle(request, ticket=Ticket(self.requests), now=Millis(int(at_ms)))

    def when_answered(self, client: Client, life: int, action: Callable[[], None]) -> None:
        """Do something as soon as the broker has answered all requests of a process; immediately if it already has."""
        if (client, life) in self._unanswered:
            self._when_answered[client, life] = action
        else:
            action()

    def _arrive(
        self, client: Client, life: int, message: Message, version: int, on_reply: Callable[[Any], None] | None
    ) -> None:
        """Handle a request, unless the one before it on the same connection has not been answered yet: brokers do not
        read on until it is. So a member whose JoinGroup waits for others cannot leave."""
        unanswered = self._unanswered.get((client, life))
        if unanswered is not None:
            unanswered.append((client, life, message, version, on_reply))
            return
        self._coordinator_acts(message)
        self.in_flight -= 1
        self.requests += 1
        ticket = Ticket(self.requests)
        if on_reply is not None and client.life == life:
            self._waiting[ticket] = (client, life, on_reply)
        request = Request(message, version, client.client_id, client.client_host)
        replies = self.runtime.handle(request, ticket=ticket, now=Millis(int(self.clock.now_ms)))
        if not any(answered == ticket for answered, _ in replies):
            self._unanswered[client, life] = deque()
            self._connection_of[ticket] = (client, life)
        if replies:
            self._deliver(replies)
        self._observe()

    def _deliver(self, replies: Sequence[Reply]) -> None:
        now_ms, post = self.clock.now_ms, self.clock.post
        for ticket, message in replies:
            waiting = self._waiting.pop(ticket, None)
            if waiting is not None:
                self.in_flight += 1
                post(now_ms + draw_ms(waiting[0].chance, NETWORK_MS), self._hand_over, *waiting, message)
            connection = self._connection_of.pop(ticket, None)
            if connection is not None:
                self._read_on(connection)

    def _read_on(self, connection: "_Connection") -> None:
        """The request that kept others waiting has been answered."""
        arrivals = self._unanswered.pop(connection)
        if arrivals:
            at_ms = self.clock.now_ms + draw_ms(connection[0].chance, NETWORK_MS)
            for arrival in arrivals:
                self.clock.post(at_ms, self._arrive, *arrival)
        action = self._when_answered.pop(connection, None)
        if action is not None:
            action()

    def _hand_over(self, client: Client, life: int, on_reply: Callable[[Any], None], message: Message) -> None:
        self.in_flight -= 1
        if client.life == life:
            on_reply(message)

    # -- watching the coordinator

    def _coordinator_acts(self, message: Message | None) -> None:
        if self.watcher is not None:
            self.watcher.coordinator_acts(message)

    def note(self, event: str, detail: str, member: str | None = None) -> None:
        self.timeline.append(TimelineEvent(at_ms=self.at_ms, event=event, detail=detail, member=member))

    def fence(self, client: Client) -> None:
        """A client was told that another process has its instance id."""
        self.note("fenced", "FENCED_INSTANCE_ID: another process has its instance id", client.identity)
        self.fenced.append(client.identity)

    def refuse(self, client: Client, detail: str) -> None:
        """The broker refused to let a client join."""
        self.note("refused", detail, client.identity)
        self.refused_joins += 1

    def _observe(self) -> None:
        if self._may_be_empty:
            self._may_be_empty = False
            self._note_if_empty()
        if self._is_recorded:
            self._is_recorded = False
            self.observer.group_recorded()
        joining = self._join_key in self._deadlines
        begins = joining and not self._is_joining
        if begins:
            self.round_begins()
        self._is_joining = joining
        if self.held_newcomers.plan is not None:
            self.held_newcomers.observe()
        if self.regexes.begin():
            self.observer.rebalance_began()  # heartbeats matter again
        was_rebalancing = self.is_rebalancing
        self.is_rebalancing = joining or self._sync_key in self._deadlines
        if (self.is_rebalancing and not was_rebalancing) or begins:
            self.awaits_assignment = True
            self.observer.rebalance_began()
        elif not self.is_rebalancing:
            self.awaits_assignment = False

    def _appended(self, records: Sequence[Record], _producer: Producer | None = None) -> None:
        """The records of `__consumer_offsets` contain every generation and epoch, and which members got an
        assignment."""
        removed = []
        if self.watcher is not None:
            self.watcher.coordinator_writes(records)
        if self.kept_records is not None:
            self.kept_records += records
        # Without the records of changed targets, if they are a run.
        each_record = [run for run in runs_of(records) if isinstance(run, Record)]
        for record in each_record:
            match record.key, record.value:
                case ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id), value if value is not None:
                    assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
                    (self.unreconciled.add if value.state else self.unreconciled.discard)(member_id)
                case _, GroupMetadataValue() as value:
                    self._generation_appended(value)
                case GroupMetadataKey() | ConsumerGroupMetadataKey() as key, None:
                    if all(each.value is None for each in each_record):  # otherwise it becomes a group of another type
                        self._group_deleted(0 if isinstance(key, GroupMetadataKey) else self.behavior.first_epoch)
                case _, ConsumerGroupMetadataValue() as value:
                    self._epoch_appended(value.epoch)
                case _, ConsumerGroupTargetAssignmentMetadataValue() as value:
                    self._target_appended(value.assignment_epoch)
                case ConsumerGroupMemberMetadataKey(member_id=member_id), None:
                    self.unreconciled.discard(member_id)
                    removed.append(member_id)
                case _:
                    pass
        if removed:
            self._may_be_empty = True
            added = [each.value for each in each_record if isinstance(each.value, ConsumerGroupMemberMetadataValue)]
            replaced = frozenset(value.instance_id for value in added if value.instance_id is not None)
            self.observer.members_removed(removed, replaced)

    def _group_deleted(self, first: int) -> None:
        """The broker has found the group empty and without offsets. Members that join from now on are in a new
        group."""
        self._count_from(first)
        self.note("deleted", "the broker deletes the group, which is empty and has no committed offsets")

    def _count_from(self, first: int) -> None:
        """From now on generations or epochs belong to another group."""
        self.is_new_group = True
        self._is_emptied = False
        self.epochs_before += self.generation - first
        self.generation = self._target_epoch = first

    def _note_if_empty(self) -> None:
        group_id = self.group.group_id
        group = self.engine.classic_group(group_id) or self.engine.consumer_group(group_id)
        if group is not None and not group.members:
            self.was_empty = True
            self._retention.emptied(self.runtime, self.clock.now_ms)

    def _epoch_appended(self, epoch: int) -> None:
        if self._is_emptied:
            self._count_from(self.behavior.first_epoch)
        if epoch > self.generation:
            self.generation = epoch
            at = f"epoch {epoch}" if self.group.generation_is_known or self.is_new_group else "another epoch"
            self.note("epoch", f"the group is at {at}; members learn of it from their next heartbeats")
            self.observer.rebalance_began()

    def _target_appended(self, epoch: int) -> None:
        if epoch > self._target_epoch:  # a classic group that is upgraded keeps its assignment
            self._target_epoch = epoch
            self.rebalances += 1
            of = f" of epoch {epoch}" if self.group.generation_is_known or self.is_new_group else ""
            self.note("assigned", f"the target assignment{of} is computed")

    def _generation_appended(self, value: GroupMetadataValue) -> None:
        self._is_emptied = not value.members
        if value.generation > self.generation:
            self._generation_assigned(value.generation, len(value.members))
        self._is_recorded = True

    def _generation_assigned(self, number: int, members: int) -> None:
        self.awaits_assignment = False
        self.generation = self._target_epoch = number
        if members:
            self.rebalances += 1
            generation = f"generation {number}" if self.group.generation_is_known else "another generation"
            self.note("assigned", f"{generation} is assigned to {many(members, 'member')}")
        else:
            self.was_empty = self._may_be_empty = True
            at = f" at generation {number}" if self.group.generation_is_known else ""
            self.note("empty", f"the group is empty{at}")

    # -- rounds in bulk

    def waits_for(self, ticket: Ticket) -> Client | None:
        """The client that waits for the reply to a request, and has sent nothing since; None if its process has
        ended."""
        waiting = self._waiting.get(ticket)
        if waiting is None:
            return None
        client, life, _ = waiting
        connection = client, life
        is_quiet = not self._unanswered.get(connection) and connection not in self._when_answered
        return client if is_quiet and client.life == life else None

    def answered(self, tickets: Iterable[Ticket]) -> None:
        """These requests were answered in a round in bulk."""
        for ticket in tickets:
            del self._waiting[ticket]
            del self._unanswered[self._connection_of.pop(ticket)]

    def round_begins(self) -> None:
        """A classic group begins a rebalance."""
        self.note("rebalance", "the group prepares a rebalance; members learn of it from their next heartbeats")

    def round_ended(self, generation: int, members: int) -> None:
        """A classic group was assigned in a round in bulk, and all members have synced."""
        self._generation_assigned(generation, members)
        self._is_joining = self.is_rebalancing = False

    def _new_member_id(self, prefix: str) -> str:
        member_id = new_classic_member_id(prefix, self.id_chance())
        self.drawn_member_ids.add(member_id)
        return member_id
