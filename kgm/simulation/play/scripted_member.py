"""What scripted consumers of both protocols have in common: lives, heartbeats, and ownership.

A calm member's heartbeats are left out (`world`): `next_heartbeat` is then the last one before its session would be in
danger, and `last_beat_ms` the time of the last one that was sent or handed in, or would have been sent."""

import abc
import enum

from kgm.coordinator.contract.outcome import Request
from kgm.simulation.plan.bounce_plan import Stop
from kgm.simulation.plan.starting_group import StartingMember
from kgm.simulation.play.client_profiles import ClientProfile, Span
from kgm.simulation.play.random_stream import RandomStream
from kgm.simulation.play.timing import reaction_ms
from kgm.simulation.play.virtual_clock import ScheduledCall
from kgm.simulation.play.world import World


class LifecyclePhase(enum.Enum):
    """A consumer's lifecycle phase."""

    DOWN = enum.auto()
    STARTING = enum.auto()
    JOINING = enum.auto()
    SYNCING = enum.auto()
    STABLE = enum.auto()
    DEAD = enum.auto()
    """It hit an error that ends a consumer: it was fenced or refused."""


class ScriptedMember(abc.ABC):
    """One consumer, through its restarts. life: counts its starts and stops, so that replies to an earlier process are
    lost. generation: the member epoch in a consumer group."""

    #: What `generation` is before the first join.
    UNJOINED: int

    def __init__(self, world: World, spec: StartingMember, profile: ClientProfile) -> None:
        self.world = world
        self.spec = spec
        self.profile = profile
        self.chance = world.stream(spec.identity)
        self.client_id = spec.client_id
        self.client_host = spec.client_host
        self.life = 0
        self.link_busy_until_ms = 0.0
        self.phase = LifecyclePhase.DOWN
        self._forget()

    def _forget(self) -> None:
        """Begin as a new process does."""
        now_ms = self.world.clock.now_ms
        self.member_id = ""
        self.generation = self.UNJOINED
        self.owned: dict[str, tuple[int, ...]] = {}
        self.consumes_as = self.spec.identity
        self.period_ms = self._first_period_ms()
        #: What it does next, apart from heartbeats.
        self.next_action: ScheduledCall | None = None
        self.next_heartbeat: ScheduledCall | None = None
        self.last_beat_ms = now_ms
        #: The time of the heartbeat from which its session counts.
        self.extended_ms = float("-inf")
        self._handed_in: Request | None = None
        self.started_ms = now_ms
        self.waited_ms: float | None = None
        """The time in ms from its start to its first assignment; None until it has one."""

    def takes_ms(self, span: Span) -> float:
        """How long something takes this time."""
        return self.takes_ms_of(self.chance, span)

    def takes_ms_of(self, chance: RandomStream, span: Span) -> float:
        """Like `takes_ms`, from another stream."""
        return self.world.timing.pace * reaction_ms(chance, span)

    # -- what the plan does with it

    @property
    def identity(self) -> str:
        """The name that the group uses for it now."""
        return self.spec.group_instance_id or self.member_id or self.spec.identity

    @property
    def is_up(self) -> bool:
        return self.phase is not LifecyclePhase.DOWN and self.phase is not LifecyclePhase.DEAD

    def be_member(self) -> None:
        """Become a member of the Stable group before the plan, with the last heartbeat less than a period ago."""
        world = self.world
        self.phase = LifecyclePhase.STABLE
        self.member_id = self.spec.member_id
        self.generation = world.group.generation
        self.owned = {topic: tuple(numbers) for topic, numbers in self.spec.owned.items() if numbers}
        self._joined_before()
        self.last_beat_ms = self.extended_ms = world.clock.now_ms - world.timing.phase() * self.period_ms
        self._beat_at(self.last_beat_ms + self.period_ms)

    def hand_in_first_heartbeat(self) -> None:
        """Hand in the heartbeat from before the plan, from which its session counts."""
        self._hand_in(self.extended_ms)

    def start(self) -> None:
        """Start the process. Its first request follows after a while."""
        # A static member that was in the group before takes exactly the restart time of the plan: what matters is when
        # it is back, not which of several is first.
        may_be_slow = self.spec.group_instance_id is None or not self.spec.member_id
        self.life += 1
        self._forget()
        self.phase = LifecyclePhase.STARTING
        self.world.unfinished.add(self)
        delay_ms = self.world.timing.start_ms(self.profile, may_be_slow=may_be_slow)
        self.next_action = self.world.clock.after(delay_ms, self._begin)

    def fetch_ends_ms(self) -> float:
        """How long its current fetches will take, in ms: they are all of about the same age."""
        is_fetching = self.profile.fetch_ms and any(self.owned.values()) and not self.world.timing.has_records
        return self.profile.fetch_ms * self.chance.random() if is_fetching else 0.0

    def begin_to_stop(self, how: Stop) -> float:
        """Stop consuming, and return after how many ms the process stops: a clean stop waits for fetches. 0:
        immediately."""
        wait_ms = self.fetch_ends_ms() if how is not Stop.CRASH and self.phase is LifecyclePhase.STABLE else 0.0
        if wait_ms:
            self._hand_in_last_beat()
            self._stop_heartbeats()
            self._cancel_next_action()
            self._release()
        return wait_ms

    def stop(self, how: Stop) -> None:
        """End the process."""
        self._hand_in_last_beat()
        leaves = self.leaves_after(how)
        self._release()
        if how is not Stop.CRASH and self.member_id:
            self._close(leaves=leaves)
        self._end(LifecyclePhase.DOWN)

    def resume_heartbeats(self) -> None:
        """The group is no longer calm: heartbeats that were left out are sent again."""
        if self.next_heartbeat is not None:
            self._catch_up()
            share, now_ms = self.world.timing.notices_after, self.world.clock.now_ms
            self._beat_at(self.last_beat_ms + self.period_ms if share is None else now_ms + share * self.period_ms)

    def resume_beating_at(self, at_ms: float) -> None:
        """Schedule the next heartbeat for this time, and cancel the one scheduled before."""
        self._stop_heartbeats()
        self.next_heartbeat = self.world.clock.at(at_ms, self._beat)

    # -- what differs between the protocols

    @abc.abstractmethod
    def _first_period_ms(self) -> float:
        """The time between heartbeats of a new process."""

    @abc.abstractmethod
    def _joined_before(self) -> None:
        """Set what a member knows if it was in the group before the plan."""

    @abc.abstractmethod
    def _begin(self) -> None:
        """Send the first request of a new process."""

    def leaves_after(self, how: Stop) -> bool:
        """Whether the group would remove it immediately if it stopped now in this way. A dynamic member leaves when it
        is closed; a static one does not (KIP-345), except with platformatic, or if it asks for that."""
        if how is Stop.CRASH:
            return False
        return how is Stop.LEAVE or self.spec.group_instance_id is None or self.spec.leaves_when_static

    @abc.abstractmethod
    def _close(self, *, leaves: bool) -> None:
        """Send what a consumer sends when it is closed."""

    @abc.abstractmethod
    def _heartbeat(self) -> Request:
        """A heartbeat that changes nothing but the session's deadline."""

    @abc.abstractmethod
    def _send_heartbeat(self) -> None:
        """Send a heartbeat over the network."""

    @property
    @abc.abstractmethod
    def session_timeout_ms(self) -> int:
        """How long the coordinator waits for its next heartbeat."""

    @property
    @abc.abstractmethod
    def _is_calm(self) -> bool:
        """Whether a heartbeat would change nothing but the session's deadline."""

    @property
    @abc.abstractmethod
    def _may_hand_in(self) -> bool:
        """Whether heartbeats that were left out can still be handed in before it stops."""

    # -- heartbeats

    def _hand_in(self, at_ms: float) -> None:
        """Hand in a heartbeat without the network, with the time at which it would have been sent."""
        self.world.hand_in(self._heartbeat(), at_ms)

    def _beat_at(self, at_ms: float, *, is_calm: bool | None = None) -> None:
        """Schedule the next heartbeat; for a calm member, the last one before its session would be in danger.

        is_calm: pass it if it is already known."""
        if self.next_heartbeat is not None:
            self.next_heartbeat.cancel()
        if self._is_calm if is_calm is None else is_calm:
            spare = self.extended_ms + self.session_timeout_ms - self.period_ms - at_ms
            if spare > self.period_ms:
                at_ms += (spare // self.period_ms) * self.period_ms
        self.next_heartbeat = self.world.clock.at(at_ms, self._beat)

    def _beat(self) -> None:
        self.next_heartbeat = None
        now_ms = self.last_beat_ms = self.extended_ms = self.world.clock.now_ms
        is_calm = self._is_calm
        if is_calm:
            self._hand_in(now_ms)
        else:
            self._send_heartbeat()
        self._beat_at(now_ms + self.period_ms, is_calm=is_calm)

    def _catch_up(self) -> None:
        """Compute when the last of the heartbeats that were left out would have been sent."""
        missed = max((self.world.clock.now_ms - self.last_beat_ms) // self.period_ms, 0)
        self.last_beat_ms += missed * self.period_ms

    def _hand_in_last_beat(self) -> None:
        if self.next_heartbeat is None or not self._may_hand_in:
            return
        self._catch_up()
        if self.last_beat_ms > self.extended_ms:
            self._hand_in(self.last_beat_ms)

    def _stop_heartbeats(self) -> None:
        if self.next_heartbeat is not None:
            self.next_heartbeat.cancel()
            self.next_heartbeat = None

    # -- endings

    def _release(self) -> None:
        """Stop consuming."""
        self.world.ledger.drop(self.consumes_as, self.owned, self.world.clock.now_ms)
        self.owned = {}

    def _cancel_next_action(self) -> None:
        if self.next_action is not None:
            self.next_action.cancel()
            self.next_action = None

    def _fenced(self) -> None:
        """Another process has taken over its instance id, which ends a consumer."""
        self.world.fence(self)
        self._die()

    def _die(self) -> None:
        """End with an error that a consumer does not recover from."""
        self._release()
        self._end(LifecyclePhase.DEAD)

    def _end_refused(self, detail: str) -> None:
        """End because the broker does not let it join; a supervisor may start it again."""
        self.world.refuse(self, detail)
        self._die()
        self.world.observer.start_refused(self)

    def _end(self, phase: LifecyclePhase) -> None:
        self._stop_heartbeats()
        self._cancel_next_action()
        self.phase = phase
        self.world.unfinished.discard(self)
        self.life += 1
