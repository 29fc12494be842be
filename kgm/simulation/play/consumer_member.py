"""A scripted consumer of the protocol of KIP-848: one heartbeat for everything, and partitions given up and taken over
member by member.

The rules are those of ConsumerHeartbeatRequestManager and ConsumerMembershipManager (Java) and of rdkafka_cgrp.c
(librdkafka), which agree in what a group notices: who gives up partitions or takes some says so with a heartbeat at
once, and everything else waits for the next one, whose interval the broker sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgm.coordinator.contract.outcome import Request
from kgm.model.assignment import Partitions, less
from kgm.model.errors import ErrorCode, error_name
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kgm.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kgm.simulation.plan.bounce_plan import GroupProtocol, Stop
from kgm.simulation.plan.starting_group import Seat, random_member_id
from kgm.simulation.play.classic_member import Phase
from kgm.simulation.play.client_profiles import HEARTBEAT_LATE_MS, Habits, drawn
from kgm.simulation.play.virtual_clock import Alarm

if TYPE_CHECKING:
    from kgm.simulation.play.world import World

_VERSION = 1
_JOIN, _LEAVE, _STEP_AWAY = 0, -1, -2


class EpochMember:
    """One consumer. `life` counts its starts and stops, so that what an earlier process was sent is lost."""

    def __init__(self, world: World, seat: Seat, habits: Habits) -> None:
        self.world = world
        self.seat = seat
        self.habits = habits
        self.client_id = seat.client_id
        self.client_host = seat.client_host
        self.life = 0
        self.link_busy_until_ms = 0.0
        self.phase = Phase.DOWN
        self._forget()

    def _forget(self) -> None:
        """What a new process starts with; its member id it makes itself (KIP-1082)."""
        self.member_id = ""
        #: Its member epoch.
        self.generation = _JOIN
        self.owned: dict[str, tuple[int, ...]] = {}
        self.consumes_as = self.seat.identity
        self.target: Partitions = {}
        self.period_ms = self.world.epoch_period_ms
        self.last_beat_ms = self.extended_ms = self.world.clock.now_ms
        self.beat: Alarm | None = None
        #: Its start, or what it does with a new target; nothing else is under way then.
        self.intent: Alarm | None = None
        self._ready: Request | None = None
        self.started_ms = self.world.clock.now_ms
        self.waited_ms: float | None = None
        """From its start to its first assignment."""

    # -- from outside

    @property
    def identity(self) -> str:
        """By which the group knows it now."""
        return self.seat.group_instance_id or self.member_id or self.seat.identity

    @property
    def is_up(self) -> bool:
        return self.phase is not Phase.DOWN and self.phase is not Phase.DEAD

    @property
    def is_behind(self) -> bool:
        """Whether it is not yet where the group wants it."""
        return self.generation != self.world.generation or self.member_id in self.world.unreconciled

    def take_seat(self) -> None:
        """It is a member of the Stable group from before the plan; its last heartbeat was less than a period ago."""
        world = self.world
        self.phase = Phase.STEADY
        self.member_id = self.seat.member_id
        self.generation = world.origin.generation
        self.owned = {topic: tuple(numbers) for topic, numbers in self.seat.owned.items() if numbers}
        self.target = self.owned
        self.period_ms += HEARTBEAT_LATE_MS * world.chance.random()
        self.last_beat_ms = self.extended_ms = world.clock.now_ms - world.tempo.phase() * self.period_ms
        self._beat_at(self.last_beat_ms + self.period_ms)

    def show_life(self) -> None:
        """Hand in the heartbeat from before the plan, with which its session began."""
        self._hand_in(self.extended_ms)

    def start(self) -> None:
        """The process starts; its first heartbeat takes a while."""
        may_be_slow = self.seat.group_instance_id is None or not self.seat.member_id
        self.life += 1
        self._forget()
        self.phase = Phase.STARTING
        self.world.restless.add(self)
        delay_ms = self.world.tempo.start(self.habits.start, may_be_slow=may_be_slow)
        self.intent = self.world.clock.after(delay_ms, self._begin)

    def stop(self, how: Stop) -> None:
        """The process ends. Closed, a dynamic member leaves; a static one says that it will be back (epoch -2)."""
        self._hand_in_last_beat()
        self._release()
        if how is Stop.CLEAN and self.member_id:
            self.generation = _LEAVE if self.seat.group_instance_id is None else _STEP_AWAY
            self.world.send(self, self._said(), _VERSION, None)
        self._end(Phase.DOWN)

    def wake(self) -> None:
        """The group has another epoch: heartbeats that were left out count again."""
        if self.beat is not None:
            self._catch_up()
            self._beat_at(self.last_beat_ms + self.period_ms)

    # -- heartbeats

    def _begin(self) -> None:
        self.member_id = random_member_id(self.world.chance)
        self.world.made_up.add(self.member_id)
        self._join()

    def _join(self) -> None:
        """Join with nothing; again, after the group has let go of it."""
        self.intent = None
        self.phase = Phase.JOINING
        self.generation = _JOIN
        self.world.restless.add(self)
        self._send(self._said(everything=True))

    def _said(self, *, everything: bool = False, owned: bool = False) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat. everything: what a member says when it joins. owned: what it owns now."""
        world, seat = self.world, self.seat
        message = ConsumerGroupHeartbeatRequest(
            group_id=world.origin.group_id,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=seat.group_instance_id,
            topic_partitions=None,
        )
        if everything:
            message.rack_id = seat.rack
            message.rebalance_timeout_ms = world.origin.rebalance_timeout_ms
            message.subscribed_topic_names = list(seat.topics)
            if world.origin.protocol is GroupProtocol.CONSUMER:
                message.server_assignor = world.origin.assignor
        if everything or owned:
            ids = world.image.by_name
            message.topic_partitions = [
                TopicPartitions(topic_id=ids[topic].topic_id, partitions=list(numbers))
                for topic, numbers in self.owned.items()
            ]
        return message

    def _send(self, message: ConsumerGroupHeartbeatRequest) -> None:
        self._quiet()
        self.last_beat_ms = self.extended_ms = self.world.clock.now_ms
        self.world.send(self, message, _VERSION, self._on_beat)
        self._beat_at(self.world.clock.now_ms + self.period_ms)

    def _hand_in(self, at_ms: float) -> None:
        """A heartbeat that arrives without a journey: it changes nothing but the session's deadline."""
        ready = self._ready
        if ready is None or ready.message.member_epoch != self.generation:  # type: ignore[attr-defined]  # it is a heartbeat
            ready = self._ready = Request(self._said(), _VERSION, self.client_id, self.client_host)
        self.world.hand_in(ready, at_ms)

    @property
    def _is_calm(self) -> bool:
        """Whether a heartbeat would change nothing but the session's deadline."""
        return self.phase is Phase.STEADY and self.intent is None and not self.is_behind

    def _beat_at(self, at_ms: float) -> None:
        """Plan the next heartbeat; of a calm member the last one before its session would be in danger."""
        self._quiet()
        if self._is_calm:
            spare = self.extended_ms + self.world.epoch_session_ms - self.period_ms - at_ms
            if spare > self.period_ms:
                at_ms += (spare // self.period_ms) * self.period_ms
        self.beat = self.world.clock.at(at_ms, self._beat)

    def _beat(self) -> None:
        self.beat = None
        if self._is_calm:
            self.last_beat_ms = self.extended_ms = self.world.clock.now_ms
            self._hand_in(self.extended_ms)
            self._beat_at(self.extended_ms + self.period_ms)
        else:
            self._send(self._said())

    def _on_beat(self, reply: ConsumerGroupHeartbeatResponse) -> None:
        match reply.error_code:
            case ErrorCode.NONE:
                self._heard(reply)
            case ErrorCode.FENCED_MEMBER_EPOCH | ErrorCode.UNKNOWN_MEMBER_ID:
                self._release()
                self._abandon()
                self._join()
            case ErrorCode.FENCED_INSTANCE_ID:
                self.world.note("fenced", "FENCED_INSTANCE_ID: another process has its instance id", self.identity)
                self.world.fenced.append(self.identity)
                self._give_up()
            case (
                ErrorCode.UNRELEASED_INSTANCE_ID
                | ErrorCode.GROUP_MAX_SIZE_REACHED
                | ErrorCode.UNSUPPORTED_ASSIGNOR
                | ErrorCode.GROUP_ID_NOT_FOUND
            ) as code:
                self.world.note("refused", f"the heartbeat to join is refused with {error_name(code)}", self.identity)
                self.world.refused_joins += 1
                self._give_up()
                self.world.on_refused(self)
            case code:
                raise AssertionError(f"ConsumerGroupHeartbeat answered with {error_name(code)}")

    def _heard(self, reply: ConsumerGroupHeartbeatResponse) -> None:
        world = self.world
        self.generation = reply.member_epoch
        self.period_ms = reply.heartbeat_interval_ms + HEARTBEAT_LATE_MS * world.chance.random()
        if self.phase is Phase.JOINING:
            self.phase = Phase.STEADY
        if reply.assignment is not None:
            names = world.image.by_id
            rows = reply.assignment.topic_partitions
            self.target = {names[row.topic_id].name: tuple(sorted(row.partitions)) for row in rows if row.partitions}
        if self.target != self.owned or self.consumes_as != self.identity:
            world.restless.add(self)
            if self.intent is None:
                span_ms = drawn(world.chance, self.habits.react) + drawn(world.chance, self.habits.revoke)
                self.intent = world.clock.after(span_ms, self._reconcile)
        elif self.intent is None:
            world.restless.discard(self)

    def _reconcile(self) -> None:
        """Give up what is not in the target, take what is new, and say so."""
        world = self.world
        self.intent = None
        now_ms = world.clock.now_ms
        if self.consumes_as != self.identity:
            world.ledger.drop(self.consumes_as, self.owned, now_ms)
            self.consumes_as, self.owned = self.identity, {}
        world.ledger.drop(self.consumes_as, less(self.owned, self.target), now_ms)
        world.ledger.take(self.consumes_as, less(self.target, self.owned), now_ms)
        changed = self.owned != self.target
        self.owned = {topic: tuple(numbers) for topic, numbers in self.target.items()}
        if self.owned and self.waited_ms is None:
            self.waited_ms = now_ms - self.started_ms
        world.restless.discard(self)
        if changed:
            self._send(self._said(owned=True))

    def _catch_up(self) -> None:
        """Work out when the last heartbeat that was left out would have been."""
        missed = max((self.world.clock.now_ms - self.last_beat_ms) // self.period_ms, 0)
        self.last_beat_ms += missed * self.period_ms

    def _hand_in_last_beat(self) -> None:
        if self.beat is None or not self._is_calm:
            return
        self._catch_up()
        if self.last_beat_ms > self.extended_ms:
            self._hand_in(self.last_beat_ms)

    def _quiet(self) -> None:
        if self.beat is not None:
            self.beat.cancel()
            self.beat = None

    # -- the end of things

    def _release(self) -> None:
        """Stop consuming."""
        self.world.ledger.drop(self.consumes_as, self.owned, self.world.clock.now_ms)
        self.owned, self.target = {}, {}

    def _abandon(self) -> None:
        """Drop what it was going to do."""
        if self.intent is not None:
            self.intent.cancel()
            self.intent = None

    def _give_up(self) -> None:
        """A consumer does not get over this."""
        self._release()
        self._end(Phase.DEAD)

    def _end(self, phase: Phase) -> None:
        self._quiet()
        self._abandon()
        self.phase = phase
        self.world.restless.discard(self)
        self.life += 1
