"""A broker's group coordinator and its clients in virtual time: the wire between them, and a log of what happens.

The coordinator is the real engine. A request takes a drawn time to arrive, its reply too; a connection keeps order.

Heartbeats of a group that is calm change nothing but the session's deadline, and are left out as long as that lets
nobody expire. `wake` brings them back when a rebalance begins; a member that stops hands in its last one (`member`)."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kgm.coordinator.contract.outcome import Millis, Producer, Reply, Request, Ticket, TimerKey, TimerKind
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.groups.consumer_group import FIRST_EPOCH
from kgm.coordinator.runtime import Runtime
from kgm.protocol.struct import Message
from kgm.records.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from kgm.records.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kgm.records.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kgm.records.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from kgm.records.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kgm.records.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.record import Record
from kgm.simulation.plan.starting_group import Origin, made_up_member_id
from kgm.simulation.play.client_profiles import NETWORK_MS, Tempo, drawn
from kgm.simulation.play.held_newcomers import Standby
from kgm.simulation.play.leader import Blobs
from kgm.simulation.play.ownership_ledger import Ledger
from kgm.simulation.play.virtual_clock import Clock
from kgm.simulation.report.report import TimelineEvent

#: When a plan starts. Late enough that what happened before it has a time too.
START_MS = 1_000_000


class Client(Protocol):
    """Who sends requests. life: how often it was started; a reply to an earlier life is lost."""

    client_id: str
    client_host: str
    life: int
    link_busy_until_ms: float


class World:
    """One draw. `chance` decides everything that nobody can know; the same seed plays the same draw."""

    def __init__(
        self, origin: Origin, settings: BrokerSettings, seed: str, *, heartbeat_interval_ms: int | None = None,
        keeps_holdings: bool = False,
    ) -> None:  # fmt: skip
        self.origin = origin
        self.chance = random.Random(seed)  # noqa: S311  (a simulation)
        self.tempo = Tempo(self.chance, heartbeat_interval_ms, origin.session_timeout_ms)
        self.clock = Clock(START_MS)
        self.blobs = Blobs()
        self.ledger = Ledger(origin.topics, origin.assignment, START_MS, keeps_holdings=keeps_holdings)
        self.timeline: list[TimelineEvent] = []
        self.made_up: set[str] = set()
        self.generation = origin.generation
        self.rebalances = 0
        self.passed_empty = False
        self.requests = 0
        self.fenced: list[str] = []
        self.refused_joins = 0
        self.in_flight = 0
        self.is_busy = False
        self.wake: Callable[[], None] = lambda: None
        self.on_timer: Callable[[], None] = lambda: None
        self.restless: set[object] = set()
        #: Told of a record of a classic group, and of member ids that a consumer group has no longer, with the
        #: instance ids that others have taken over at the same time.
        self.on_record: Callable[[GroupMetadataValue], None] = lambda _: None
        self.on_gone: Callable[[Sequence[str], frozenset[str]], None] = lambda _gone, _replaced: None
        #: Told of a member of a consumer group that the broker has refused, and that has ended over it.
        self.on_refused: Callable[[Any], None] = lambda _: None
        #: Members of a consumer group that have something to give up, or to wait for.
        self.unreconciled: set[str] = set()
        self.image = origin.image
        self.epoch_period_ms = float(settings.group_consumer_heartbeat_interval_ms)
        self.epoch_session_ms = settings.group_consumer_session_timeout_ms
        self._target_epoch = origin.generation
        #: How far the counter had come when it began anew: a classic group without members becomes another group.
        self.epochs_before = 0
        self.began_anew = False
        self._is_emptied = False
        self._is_joining = False
        self._join_key = TimerKey(TimerKind.JOIN, origin.group_id)
        self._sync_key = TimerKey(TimerKind.SYNC, origin.group_id)
        self._waiting: dict[int, tuple[Client, int, Callable[[Any], None] | None]] = {}
        self.engine = Coordinator(
            settings=settings, new_member_id=self._new_member_id, topics=origin.topics, image=self.image
        )
        self.runtime = Runtime(self.engine, append=self._appended)
        self._deadlines = self.engine.deadlines
        self.standby = Standby(self.engine, origin.group_id, self.note)

    # -- time

    @property
    def now_ms(self) -> float:
        return self.clock.now_ms

    @property
    def at_ms(self) -> int:
        """Time since the start of the plan."""
        return round(self.clock.now_ms - START_MS)

    def run_next(self) -> None:
        """Let the next thing happen: a client's doing or a timer of the coordinator."""
        if self.clock.run_next_before(self.runtime.quiet_until()):
            return
        next_at, deadline = self.clock.next_at(), self.runtime.next_deadline()
        if deadline is not None and (next_at is None or deadline <= next_at):
            self.clock.now_ms = max(self.clock.now_ms, float(deadline))
            self._deliver(self.runtime.advance(deadline))
            self._observe()
            self.on_timer()
        else:
            self.clock.run_next()

    # -- the wire

    def send(self, client: Client, message: Message, version: int, on_reply: Callable[[Any], None] | None) -> None:
        """A request on its way. on_reply is called with the response, if the client still lives then."""
        arrives = max(self.clock.now_ms + drawn(self.chance, NETWORK_MS), client.link_busy_until_ms)
        client.link_busy_until_ms = arrives
        self.in_flight += 1
        self.clock.post(arrives, self._arrive, client, client.life, message, version, on_reply)

    def hand_in(self, request: Request, at_ms: float) -> None:
        """A request that needs no journey and no answer: a heartbeat that is left out, now or before."""
        self.requests += 1
        self.runtime.handle(request, ticket=Ticket(self.requests), now=Millis(int(at_ms)))

    def _arrive(
        self, client: Client, life: int, message: Message, version: int, on_reply: Callable[[Any], None] | None
    ) -> None:
        self.in_flight -= 1
        self.requests += 1
        ticket = Ticket(self.requests)
        if on_reply is not None and client.life == life:
            self._waiting[ticket] = (client, life, on_reply)
        request = Request(message, version, client.client_id, client.client_host)
        replies = self.runtime.handle(request, ticket=ticket, now=Millis(int(self.clock.now_ms)))
        if replies:
            self._deliver(replies)
        self._observe()

    def _deliver(self, replies: Sequence[Reply]) -> None:
        now_ms, chance, post = self.clock.now_ms, self.chance, self.clock.post
        for ticket, message in replies:
            waiting = self._waiting.pop(ticket, None)
            if waiting is not None:
                self.in_flight += 1
                post(now_ms + drawn(chance, NETWORK_MS), self._hand_over, *waiting, message)

    def _hand_over(self, client: Client, life: int, on_reply: Callable[[Any], None], message: Message) -> None:
        self.in_flight -= 1
        if client.life == life:
            on_reply(message)

    # -- watching the coordinator

    def note(self, event: str, detail: str, member: str | None = None) -> None:
        self.timeline.append(TimelineEvent(at_ms=self.at_ms, event=event, detail=detail, member=member))

    def _observe(self) -> None:
        joining = self._join_key in self._deadlines
        if joining and not self._is_joining:
            self.note("rebalance", "the group prepares a rebalance; members hear of it at their next heartbeat")
        self._is_joining = joining
        if self.standby.plan is not None:
            self.standby.observe()
        was_busy = self.is_busy
        self.is_busy = joining or self._sync_key in self._deadlines
        if self.is_busy and not was_busy:
            self.wake()

    def _appended(self, records: Sequence[Record], _producer: Producer | None = None) -> None:
        """What is written to `__consumer_offsets` tells of every generation and epoch, and who got an assignment."""
        gone = []
        for record in records:
            match record.key, record.value:
                case _, GroupMetadataValue() as value:
                    self._generation_appended(value)
                case _, ConsumerGroupMetadataValue() as value:
                    self._epoch_appended(value.epoch)
                case _, ConsumerGroupTargetAssignmentMetadataValue() as value:
                    self._target_appended(value.assignment_epoch)
                case ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id), value if value is not None:
                    assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
                    (self.unreconciled.add if value.state else self.unreconciled.discard)(member_id)
                case ConsumerGroupMemberMetadataKey(member_id=member_id), None:
                    self.unreconciled.discard(member_id)
                    gone.append(member_id)
                case _:
                    pass
        if gone:
            said = [each.value for each in records if isinstance(each.value, ConsumerGroupMemberMetadataValue)]
            self.on_gone(gone, frozenset(value.instance_id for value in said if value.instance_id is not None))

    def _epoch_appended(self, epoch: int) -> None:
        if self._is_emptied:
            self._is_emptied = False
            self.began_anew = True
            self.epochs_before += self.generation - FIRST_EPOCH
            self.generation = self._target_epoch = FIRST_EPOCH
        if epoch > self.generation:
            self.generation = epoch
            self.note("epoch", f"the group is at epoch {epoch}; members hear of it at their next heartbeats")
            self.wake()

    def _target_appended(self, epoch: int) -> None:
        if epoch > self._target_epoch:  # a classic group that is upgraded keeps what it has
            self._target_epoch = epoch
            self.rebalances += 1
            self.note("assigned", f"epoch {epoch} has its target assignment")

    def _generation_appended(self, value: GroupMetadataValue) -> None:
        self._is_emptied = not value.members
        if value.generation > self.generation:
            self.generation = self._target_epoch = value.generation
            if value.members:
                self.rebalances += 1
                count = len(value.members)
                self.note("assigned", f"generation {value.generation} has its assignment, for {count} members")
            else:
                self.passed_empty = True
                self.note("empty", f"the group is empty at generation {value.generation}")
        self.on_record(value)

    def _new_member_id(self, prefix: str) -> str:
        member_id = made_up_member_id(prefix, self.chance)
        self.made_up.add(member_id)
        return member_id
