"""A scripted consumer of a classic group: does what a real one does with each answer, at the pace of its library.

The rules are those of AbstractCoordinator and ConsumerCoordinator (Java) and of rdkafka_cgrp.c (librdkafka); where the
two differ, `library` has it as data, or a branch here names the library."""

import enum
from typing import TYPE_CHECKING

from kgm.assignors import is_cooperative
from kgm.coordinator.contract.outcome import Request
from kgm.java.hash_map import DEFAULT_CAPACITY
from kgm.model.assignment import Partitions, less
from kgm.model.errors import ErrorCode, error_name
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.join_group_response import JoinGroupResponse
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.messages.sync_group_response import SyncGroupResponse
from kgm.protocol.subscription import NO_GENERATION, PROTOCOL_TYPE
from kgm.simulation.plan.bounce_plan import Stop
from kgm.simulation.plan.starting_group import Seat
from kgm.simulation.play.client_profiles import Habits, Library, drawn, period_ms
from kgm.simulation.play.leader import STICKY, assignments, encode_sticky_data
from kgm.simulation.play.virtual_clock import Alarm

if TYPE_CHECKING:
    from kgm.simulation.play.world import World

_SYNC_NAMES_PROTOCOL_FROM = 5
_LEAVE_IS_BATCH_FROM = 3
#: Answers to JoinGroup after which a consumer gives up.
_REFUSALS = frozenset(
    {
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class Phase(enum.Enum):
    """What a consumer is about."""

    DOWN = enum.auto()
    STARTING = enum.auto()
    JOINING = enum.auto()
    SYNCING = enum.auto()
    STEADY = enum.auto()
    DEAD = enum.auto()
    """It met an error that it does not get over: fenced, or refused."""


class Member:
    """One consumer. `life` counts its starts and stops, so that what an earlier process was sent is lost."""

    def __init__(self, world: "World", seat: Seat, habits: Habits) -> None:
        self.world = world
        self.seat = seat
        self.habits = habits
        self.client_id = seat.client_id
        self.client_host = seat.client_host
        self.assignor = world.origin.assignor
        self.keeps_while_joining = is_cooperative(self.assignor)
        self.life = 0
        self.link_busy_until_ms = 0.0
        self.phase = Phase.DOWN
        #: What it is going to send next, heartbeats aside.
        self.intent: Alarm | None = None
        self._forget()

    def _forget(self) -> None:
        """What a new process starts with."""
        self.member_id = ""
        self.generation = NO_GENERATION
        self.owned: dict[str, tuple[int, ...]] = {}
        self.consumes_as = self.seat.identity
        self.remembered: Partitions = {}
        self.remembered_generation = NO_GENERATION
        self.period_ms = period_ms(self.habits, self.world.tempo.heartbeat_interval_ms, self.world.chance)
        self.last_join_ms = float("-inf")
        self.last_beat_ms: float | None = None
        self.extended_ms = 0.0
        self._last_beat: HeartbeatRequest | None = None
        self._ready: Request | None = None
        self.beat: Alarm | None = None
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

    def take_seat(self) -> None:
        """It is a member of the Stable group from before the plan; its last heartbeat was less than a period ago."""
        world = self.world
        self.phase = Phase.STEADY
        self.member_id = self.seat.member_id
        self.generation = self.remembered_generation = world.origin.generation
        self.owned = {topic: tuple(numbers) for topic, numbers in self.seat.owned.items() if numbers}
        self.remembered = self.owned
        self.last_beat_ms = self.extended_ms = world.clock.now_ms - world.tempo.phase() * self.period_ms
        self._beat_at(self.last_beat_ms + self.period_ms)

    def show_life(self) -> None:
        """Hand in the heartbeat from before the plan, with which its session began."""
        self._hand_in(self.extended_ms)

    def start(self) -> None:
        """The process starts; its first JoinGroup takes a while."""
        # Where a static member had a seat it counts when it is back, not before whom: the plan's time is taken for it.
        may_be_slow = self.seat.group_instance_id is None or not self.seat.member_id
        self.life += 1
        self._forget()
        self.phase = Phase.STARTING
        self.world.restless.add(self)
        self.intent = self.world.clock.after(
            self.world.tempo.start(self.habits.start, may_be_slow=may_be_slow), self._join
        )

    def stop(self, how: Stop) -> None:
        """The process ends. Closed, a dynamic member says so; a static one never does (KIP-345)."""
        self._hand_in_last_beat()
        self._release()
        if how is Stop.CLEAN and self.seat.group_instance_id is None and self.member_id:
            self.world.send(self, self._leave(), self.habits.leave_version, None)
        self._end(Phase.DOWN)

    def wake(self) -> None:
        """A rebalance has begun: heartbeats that were left out count again."""
        if self.beat is not None and self.last_beat_ms is not None:
            self._catch_up()
            self._beat_at(self.last_beat_ms + self.period_ms)

    # -- joining

    def _join_soon(self, delay_ms: float, *, at_once: bool = False) -> None:
        """at_once: the rules skip the gap that is kept between two JoinGroups."""
        world = self.world
        at_ms = world.clock.now_ms + delay_ms
        if not at_once:
            at_ms = max(at_ms, self.last_join_ms + self.habits.rejoin_gap_ms)
        if self.intent is not None:
            self.intent.cancel()
        world.restless.add(self)
        self.intent = world.clock.at(at_ms, self._join)

    def _join(self) -> None:
        world, seat = self.world, self.seat
        self.intent = None
        self._quiet()
        if not self.keeps_while_joining:
            self._release()
        self.phase = Phase.JOINING
        self.last_join_ms = world.clock.now_ms
        request = JoinGroupRequest(
            group_id=world.origin.group_id,
            session_timeout_ms=world.origin.session_timeout_ms,
            rebalance_timeout_ms=world.origin.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=seat.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=self.assignor, metadata=self._subscription())],
        )
        world.send(self, request, self.habits.join_version, self._on_join)

    def _subscription(self) -> bytes:
        eager, is_java = not self.keeps_while_joining, self.habits.library is Library.JAVA
        generation = self.generation if is_java else self.remembered_generation
        if eager and not self.habits.tells_generation_when_eager:
            generation = NO_GENERATION
        has_data = self.assignor == STICKY and self.remembered_generation != NO_GENERATION
        data = encode_sticky_data(self.remembered, self.remembered_generation) if has_data else None
        owned: Partitions = {} if eager else self.owned
        return self.world.blobs.subscription(self.seat.topics, owned, data, generation, self.seat.rack)

    def _on_join(self, reply: JoinGroupResponse) -> None:
        match reply.error_code:
            case ErrorCode.NONE:
                self._joined(reply)
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = reply.member_id
                self.generation = NO_GENERATION
                self._join_soon(0, at_once=True)
            case ErrorCode.UNKNOWN_MEMBER_ID:
                if self.habits.library is Library.JAVA:
                    self._lose(forget_id=True)
                    self._join_soon(0, at_once=True)
                else:
                    self.member_id = ""
                    self._join_soon(0)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._join_soon(0)
            case ErrorCode.FENCED_INSTANCE_ID:
                self._fenced()
            case code if code in _REFUSALS:
                self._refused(code)
            case code:
                raise AssertionError(f"JoinGroup answered with {error_name(code)}")

    def _joined(self, reply: JoinGroupResponse) -> None:
        """SyncGroup follows, with the assignment of all if this member leads."""
        self.phase = Phase.SYNCING
        self.member_id = reply.member_id
        self.generation = reply.generation_id
        if self.habits.beats_while_syncing:
            self.last_beat_ms = self.world.clock.now_ms
            self._beat_at(self.world.clock.now_ms + self.period_ms)
        delay = drawn(self.world.chance, self.habits.think)
        leads = reply.leader == reply.member_id
        if leads and self.habits.library is Library.LIBRDKAFKA:
            delay += drawn(self.world.chance, self.habits.think)  # it asks for metadata first
        self.intent = self.world.clock.after(delay, self._sync, reply if leads else None, reply.protocol_name)

    def _sync(self, leading: JoinGroupResponse | None, protocol: str) -> None:
        world = self.world
        self.intent = None
        rows: list[SyncGroupRequestAssignment] = []
        if leading is not None and not leading.skip_assignment:
            members = [world.blobs.member(self.assignor, row) for row in leading.members]
            origin = world.origin
            given = assignments(
                self.assignor,
                members,
                origin.topics,
                self.habits.library,
                origin.listing_capacity or DEFAULT_CAPACITY,
                blobs=world.blobs,
            )
            rows = [SyncGroupRequestAssignment(member_id=who, assignment=blob) for who, blob in given.items()]
        names = self.habits.sync_version >= _SYNC_NAMES_PROTOCOL_FROM
        request = SyncGroupRequest(
            group_id=world.origin.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.seat.group_instance_id,
            protocol_type=PROTOCOL_TYPE if names else None,
            protocol_name=protocol if names else None,
            assignments=rows,
        )
        world.send(self, request, self.habits.sync_version, self._on_sync)

    def _on_sync(self, reply: SyncGroupResponse) -> None:
        is_java = self.habits.library is Library.JAVA
        match reply.error_code:
            case ErrorCode.NONE:
                self._assigned(self.world.blobs.assignment(reply.assignment))
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._join_soon(0, at_once=is_java)
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._lose(forget_id=True)
                self._join_soon(0, at_once=is_java)
            case ErrorCode.ILLEGAL_GENERATION:
                self._lose(forget_id=False)
                self._join_soon(0, at_once=is_java)
            case ErrorCode.FENCED_INSTANCE_ID:
                self._fenced()
            case code:
                raise AssertionError(f"SyncGroup answered with {error_name(code)}")

    def _assigned(self, given: Partitions) -> None:
        """Take what is new. In the cooperative protocol give up what is gone, and join again so that others get it."""
        world = self.world
        self.phase = Phase.STEADY
        if self.intent is None:
            world.restless.discard(self)
        if self.waited_ms is None:
            self.waited_ms = world.clock.now_ms - self.started_ms
        self.remembered, self.remembered_generation = given, self.generation
        lost = less(self.owned, given)
        if lost:
            world.ledger.drop(self.consumes_as, lost, world.clock.now_ms)
        if self.consumes_as != self.identity:
            world.ledger.drop(self.consumes_as, self.owned, world.clock.now_ms)
            self.consumes_as, self.owned = self.identity, {}
        world.ledger.take(self.consumes_as, less(given, self.owned), world.clock.now_ms)
        self.owned = {topic: tuple(numbers) for topic, numbers in given.items() if numbers}
        if lost and self.keeps_while_joining:
            self._join_soon(drawn(world.chance, self.habits.revoke), at_once=True)
        if not self.habits.beats_while_syncing:
            due_ms = world.clock.now_ms if self.last_beat_ms is None else self.last_beat_ms + self.period_ms
            self._beat_at(max(world.clock.now_ms, due_ms))

    # -- heartbeats

    def _heartbeat(self) -> HeartbeatRequest:
        last = self._last_beat
        if last is None or last.generation_id != self.generation or last.member_id != self.member_id:
            last = self._last_beat = HeartbeatRequest(
                group_id=self.world.origin.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.seat.group_instance_id,
            )
        return last

    def _hand_in(self, at_ms: float) -> None:
        """A heartbeat that arrives without a journey: it changes nothing but the session's deadline."""
        message = self._heartbeat()
        ready = self._ready
        if ready is None or ready.message is not message:
            ready = self._ready = Request(message, self.habits.heartbeat_version, self.client_id, self.client_host)
        self.world.hand_in(ready, at_ms)

    @property
    def _is_calm(self) -> bool:
        """Whether a heartbeat would be answered with NONE and change nothing but the session's deadline."""
        world = self.world
        return (
            not world.is_busy
            and self.phase is Phase.STEADY
            and self.intent is None
            and self.generation == world.generation
            and (not world.unreconciled or self.member_id not in world.unreconciled)
        )

    def _beat_at(self, at_ms: float, *, is_calm: bool | None = None) -> None:
        """Plan the next heartbeat; in a calm group the last one before the session would be in danger."""
        if self.beat is not None:
            self.beat.cancel()
        world = self.world
        if self._is_calm if is_calm is None else is_calm:
            spare = self.extended_ms + world.origin.session_timeout_ms - self.period_ms - at_ms
            if spare > self.period_ms:
                at_ms += (spare // self.period_ms) * self.period_ms
        self.beat = world.clock.at(at_ms, self._beat)

    def _beat(self) -> None:
        world = self.world
        self.beat = None
        now_ms = self.last_beat_ms = self.extended_ms = world.clock.now_ms
        is_calm = self._is_calm
        if is_calm:
            self._hand_in(now_ms)
        else:
            world.send(self, self._heartbeat(), self.habits.heartbeat_version, self._on_beat)
        self._beat_at(now_ms + self.period_ms, is_calm=is_calm)

    def _on_beat(self, reply: HeartbeatResponse) -> None:
        if reply.error_code == ErrorCode.NONE or self.phase is not Phase.STEADY or self.intent is not None:
            return
        react = drawn(self.world.chance, self.habits.react)
        match reply.error_code:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._join_soon(react, at_once=not self.keeps_while_joining)
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._lose(forget_id=True)
                self._join_soon(react, at_once=True)
            case ErrorCode.ILLEGAL_GENERATION:
                self._lose(forget_id=False)
                self._join_soon(react, at_once=True)
            case ErrorCode.FENCED_INSTANCE_ID:
                self._fenced()
            case code:
                raise AssertionError(f"Heartbeat answered with {error_name(code)}")

    def _catch_up(self) -> None:
        """Work out when the last heartbeat that was left out would have been."""
        assert self.last_beat_ms is not None
        missed = max((self.world.clock.now_ms - self.last_beat_ms) // self.period_ms, 0)
        self.last_beat_ms += missed * self.period_ms

    def _hand_in_last_beat(self) -> None:
        if self.beat is None or self.phase is not Phase.STEADY or self.last_beat_ms is None:
            return
        self._catch_up()
        if self.last_beat_ms > self.extended_ms:
            self._hand_in(self.last_beat_ms)

    def _quiet(self) -> None:
        if self.beat is not None:
            self.beat.cancel()
            self.beat = None

    # -- the end of things

    def _leave(self) -> LeaveGroupRequest:
        group_id = self.world.origin.group_id
        if self.habits.leave_version < _LEAVE_IS_BATCH_FROM:
            return LeaveGroupRequest(group_id=group_id, member_id=self.member_id)
        who = MemberIdentity(member_id=self.member_id, reason="the consumer is being closed")
        return LeaveGroupRequest(group_id=group_id, members=[who])

    def _release(self) -> None:
        """Stop consuming."""
        self.world.ledger.drop(self.consumes_as, self.owned, self.world.clock.now_ms)
        self.owned = {}

    def _lose(self, *, forget_id: bool) -> None:
        """The group went on without it: what it owned is lost."""
        self._release()
        self.generation = NO_GENERATION
        if forget_id:
            self.member_id = ""

    def _fenced(self) -> None:
        """Another process has taken its instance id: a consumer does not get over it."""
        self.world.note("fenced", "FENCED_INSTANCE_ID: another process has its instance id", self.identity)
        self.world.fenced.append(self.identity)
        self._release()
        self._end(Phase.DEAD)

    def _refused(self, code: int) -> None:
        self.world.note("refused", f"JoinGroup is refused with {error_name(code)}", self.identity)
        self.world.refused_joins += 1
        self._release()
        self._end(Phase.DEAD)

    def _end(self, phase: Phase) -> None:
        self._quiet()
        if self.intent is not None:
            self.intent.cancel()
            self.intent = None
        self.phase = phase
        self.world.restless.discard(self)
        self.life += 1
