"""Members of a classic group that do nothing but send heartbeats, as arrays.

While members are gathered, their state is in the arrays, not in the scripted members, and none of their heartbeats is
scheduled: `apply_due_heartbeats` carries out what was due meanwhile. `release` makes one of them a scripted member
again, `to_scripted_members` all of them."""

import bisect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kgm.coordinator.classic.regular_round import update_members
from kgm.coordinator.contract.outcome import Millis, TimerKey, session_key
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.model.assignment import Partitions
from kgm.protocol.subscription import NO_GENERATION
from kgm.simulation.plan.client_library import STICKY
from kgm.simulation.play.bulk.arrays import NO_MEMBER, ArrayLedger, Flags, Floats, Ints, LedgerState, RandomWords
from kgm.simulation.play.bulk.assignments import LeaderAssignment, SubscribedPartitions, are_alike, is_ordered
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.leader import assignment_user_data
from kgm.simulation.play.scripted_member import LifecyclePhase
from kgm.simulation.play.world import World

Saved = tuple[list[npt.NDArray[Any]], LedgerState, int]

_WITHOUT_ASSIGNMENT = (LifecyclePhase.DOWN, LifecyclePhase.STARTING, LifecyclePhase.JOINING, LifecyclePhase.DEAD)
#: The arrays that rounds change.
_CHANGED = (
    "drawn", "last_beat_ms", "extended_ms", "last_join_ms", "link_busy_ms", "due_ms", "deadline_ms", "turn",
    "has_beaten", "sent", "generation", "remembered",
)  # fmt: skip


class StableMemberArrays:
    """members: all that the draw may have, including those that are played by events. Arrays have an entry for each of
    them, their *slot*. Names are the same as in `ScriptedMember`; times are in ms.

    slots: of the members that are gathered, by member id, in the order of the coordinator. outside: the other members.
    sent: the generation in the latest subscription. generation, remembered: the member's generation, and the one in
    which it last got an assignment. identity: the number of the identity in the ledger. assignment: the latest one of a
    round in bulk."""

    def __init__(self, world: World, members: Sequence[ScriptedClassicMember]) -> None:
        self.world = world
        self.members = members
        self.is_gathered = False
        self.is_cooperative = members[0].keeps_while_joining
        self.is_sticky = world.group.assignor == STICKY
        self.slots: dict[str, int] = {}
        self._sorted_ids: list[str] = []
        self.outside = set(members)
        self.specs = [member.spec for member in members]
        self.slot_of = {member: slot for slot, member in enumerate(members)}
        self.is_ordered = is_ordered(world.group, self.specs)
        self.is_alike = (self.is_cooperative or self.is_sticky) and are_alike(world.group, self.specs)
        self._places: Ints = np.zeros(0, dtype=np.int64)
        self._by_id: Ints = self._places
        #: What members with equal subscriptions subscribe to; None if their subscriptions differ.
        self.subscribed: SubscribedPartitions | None = None
        self.assignment: LeaderAssignment | None = None
        #: When the first heartbeat is due, or an earlier time.
        self.next_due_ms = math.inf
        size = len(members)
        profiles = [member.profile for member in members]

        def per_member(values: list[float]) -> Floats:
            return np.array(values, dtype=np.float64)

        self.keys: RandomWords = np.array([member.chance.key for member in members], dtype=np.uint64)
        self.drawn: RandomWords = np.zeros(size, dtype=np.uint64)
        self.react_least = per_member([profile.react[0] for profile in profiles])
        self.react_span = per_member([profile.react[1] - profile.react[0] for profile in profiles])
        self.think_least = per_member([profile.think[0] for profile in profiles])
        self.think_span = per_member([profile.think[1] - profile.think[0] for profile in profiles])
        self.revoke_least = per_member([profile.revoke[0] for profile in profiles])
        self.revoke_span = per_member([profile.revoke[1] - profile.revoke[0] for profile in profiles])
        self.gap_ms = per_member([profile.rejoin_gap_ms if self.is_cooperative else -np.inf for profile in profiles])
        self.session_ms: Ints = np.array([spec.session_timeout_ms for spec in self.specs], dtype=np.int64)
        self.beats_while_syncing: Flags = np.array([profile.beats_while_syncing for profile in profiles])
        self.names_generation: Flags = np.array([profile.sends_generation_when_eager for profile in profiles])
        self.period_ms, self.last_beat_ms, self.extended_ms = np.zeros(size), np.zeros(size), np.zeros(size)
        self.last_join_ms, self.link_busy_ms, self.due_ms = np.zeros(size), np.zeros(size), np.zeros(size)
        #: When sessions end, and the turns of their timers: the coordinator has none for members that are gathered.
        self.deadline_ms: Ints = np.zeros(size, dtype=np.int64)
        self.turn: Ints = np.zeros(size, dtype=np.int64)
        self.has_beaten: Flags = np.zeros(size, dtype=np.bool_)
        self.sent: Ints = np.full(size, NO_GENERATION, dtype=np.int64)
        self.generation: Ints = np.full(size, NO_GENERATION, dtype=np.int64)
        self.remembered: Ints = np.full(size, NO_GENERATION, dtype=np.int64)
        self.identity: Ints = np.zeros(size, dtype=np.int64)

    # -- undoing

    def save(self) -> Saved:
        """Save what rounds change in the arrays and in the ledger."""
        return [getattr(self, name).copy() for name in _CHANGED], self.ledger.save(), self.world.requests

    def restore(self, saved: Saved) -> None:
        """Restore a saved state; each can be restored only once."""
        arrays, ledger, self.world.requests = saved
        for name, array in zip(_CHANGED, arrays, strict=True):
            setattr(self, name, array)
        self.ledger.restore(ledger)

    # -- in and out

    @property
    def ledger(self) -> ArrayLedger:
        ledger = self.world.ledger
        assert isinstance(ledger, ArrayLedger)
        return ledger

    def places(self) -> Ints:
        """The slots of the members that are gathered, in the order of the coordinator."""
        return self._places

    def is_complete(self, group: ClassicGroup) -> bool:
        """Whether only stable members can begin to consume before the end of the next join phase."""
        return all(member.phase in _WITHOUT_ASSIGNMENT or _is_stable(member, group) for member in self.members)

    def gather(self, group: ClassicGroup) -> bool:
        """Convert all stable members of the group to arrays. False if there are none, or if the arrays cannot represent
        something."""
        stable = {member.member_id: member for member in self.members if _is_stable(member, group)}
        if not stable or not ArrayLedger.can_hold(self.world.ledger):
            return False
        self.world.ledger = ArrayLedger(self.world.ledger)
        self._clear()
        if self.is_alike:
            self.subscribed = SubscribedPartitions.of(self.specs[0].topics, self.ledger.starts, self.world.group.topics)
        for member_id in group.members:
            member = stable.get(member_id)
            if member is not None:
                self._put(member)
        self._sorted_ids = sorted(self.slots)
        self._places = np.array([*self.slots.values()], dtype=np.int64)
        self._by_id = np.array([self.slots[member_id] for member_id in self._sorted_ids], dtype=np.int64)
        self.is_gathered = True
        self.look_for_next_due()
        return True

    def admit_stable(self, group: ClassicGroup) -> None:
        """Add members that have become stable since the others were gathered."""
        stable = {member.member_id: member for member in self.outside if _is_stable(member, group)}
        if stable:
            in_order = stable if len(stable) == 1 else [each for each in group.members if each in stable]
            for member_id in in_order:
                self._put(stable[member_id])
                self._insert(stable[member_id])
            self.look_for_next_due()

    def _put(self, member: ScriptedClassicMember) -> None:
        self.read(member)
        slot, runtime, key = self.slot_of[member], self.world.runtime, self._session_key(member)
        self.deadline_ms[slot], self.turn[slot] = runtime.engine.deadlines[key], runtime.turn_of(key)
        if member.next_heartbeat is not None:
            self.due_ms[slot] = member.next_heartbeat.at_ms
        self._enroll(member)

    def _enroll(self, member: ScriptedClassicMember) -> None:
        slot = self.slots[member.member_id] = self.slot_of[member]
        self.outside.discard(member)
        self.world.runtime.suspend_timers([self._session_key(member)])
        self.identity[slot] = self.ledger.number_of(member.identity)
        if member.next_heartbeat is not None:
            member.next_heartbeat.cancel()
            member.next_heartbeat = None

    def read(self, member: ScriptedClassicMember) -> None:
        """Load what a member knows."""
        slot = self.slot_of[member]
        self.drawn[slot] = member.chance.drawn
        self.period_ms[slot], self.last_beat_ms[slot] = member.period_ms, member.last_beat_ms
        self.extended_ms[slot], self.last_join_ms[slot] = member.extended_ms, member.last_join_ms
        self.link_busy_ms[slot], self.has_beaten[slot] = member.link_busy_until_ms, member.has_beaten
        self.generation[slot], self.remembered[slot] = member.generation, member.remembered_generation

    def admit(self, member: ScriptedClassicMember) -> None:
        """A member that waits for the end of a join phase, and has been read, is played in bulk from now on. It is the
        last one in the coordinator's list. Its session and its heartbeats are up to the caller."""
        member.phase = LifecyclePhase.STABLE
        member.consumes_as = member.identity
        self._enroll(member)
        self._insert(member)

    def _insert(self, member: ScriptedClassicMember) -> None:
        at, slot = bisect.bisect(self._sorted_ids, member.member_id), self.slot_of[member]
        self._sorted_ids.insert(at, member.member_id)
        self._by_id, self._places = np.insert(self._by_id, at, slot), np.append(self._places, slot)

    def release(self, member: ScriptedClassicMember) -> None:
        """Make one member a scripted member again. (The coordinator's data about it stays outdated, because the member
        is about to leave; unless `write_assignment` was called.)"""
        slot = self.slots.pop(member.member_id, None)
        if slot is not None:
            at = bisect.bisect_left(self._sorted_ids, member.member_id)
            del self._sorted_ids[at]
            self._by_id, self._places = np.delete(self._by_id, at), self._places[self._places != slot]
            self.outside.add(member)
            self._write(member, slot, self.ledger.consumed_by(member.identity))

    def to_scripted_members(self) -> None:
        """Make all of them scripted members again."""
        if not self.is_gathered:
            return
        self.is_gathered = False
        self.write_assignment()
        for slot in self.slots.values():
            member = self.members[slot]
            self._write(member, slot, member.remembered)
        self.world.ledger = self.ledger.written()
        self._clear()

    def pending_assignments(self) -> Mapping[str, Partitions]:
        """The assignments of the latest round by member id, if the coordinator does not have them yet."""
        return {} if self.assignment is None else self.assignment.owned()

    def write_assignment(self) -> None:
        """Update the coordinator and the members with the assignments of the latest round."""
        if self.assignment is None:
            return
        self.update_coordinator()
        for member_id, slot in self.slots.items():
            self.members[slot].remembered = _plain(self.assignment.by_member[member_id])
        self.assignment = None

    def _clear(self) -> None:
        self.slots, self._sorted_ids = {}, []
        self.next_due_ms = math.inf
        self._places = self._by_id = np.zeros(0, dtype=np.int64)
        self.outside = set(self.members)

    def _session_key(self, member: ScriptedClassicMember) -> TimerKey:
        return session_key(self.world.group.group_id, member.member_id)

    def _write(self, member: ScriptedClassicMember, slot: int, assigned: Partitions) -> None:
        member.generation = member.remembered_generation = self.world.generation
        member.remembered = assigned
        member.owned = {topic: tuple(numbers) for topic, numbers in assigned.items() if numbers}
        member.chance.drawn = int(self.drawn[slot])
        member.last_beat_ms, member.extended_ms = float(self.last_beat_ms[slot]), float(self.extended_ms[slot])
        member.last_join_ms, member.link_busy_until_ms = float(self.last_join_ms[slot]), float(self.link_busy_ms[slot])
        member.has_beaten = bool(self.has_beaten[slot])
        member.resume_beating_at(float(self.due_ms[slot]))
        timer = self._session_key(member), Millis(int(self.deadline_ms[slot])), int(self.turn[slot])
        self.world.runtime.resume_timers([timer])

    # -- what the coordinator knows of the members

    def remember(self, assignment: LeaderAssignment) -> None:
        """Remember what the members were assigned."""
        self.assignment = assignment

    def order(self) -> Ints | None:
        """The slots in the order of member ids, if the assignor itself does not have to run."""
        return self._by_id if self.is_ordered or self.is_alike else None

    def by_id_with(self, waiting: Sequence[ScriptedClassicMember]) -> Ints:
        """The slots of the members that are gathered, and of those that are waiting, in the order of member ids."""
        new = sorted(waiting, key=lambda member: member.member_id)
        at = [bisect.bisect(self._sorted_ids, member.member_id) for member in new]
        return np.insert(self._by_id, at, [self.slot_of[member] for member in new])

    def slot_of_identity(self, slots: Ints) -> Ints:
        """The slots of these members, by identity number; NO_MEMBER for others, and for no member."""
        found: Ints = np.full(len(self.ledger.names) + 1, NO_MEMBER, dtype=np.int64)
        found[self.identity[slots]] = slots
        return found

    def update_coordinator(self) -> None:
        """Update it with the subscriptions and assignments of the latest round."""
        assignment, world = self.assignment, self.world
        group = world.engine.classic_group(world.group.group_id)
        if assignment is None or group is None:
            return
        data = assignment_user_data(world.group.assignor, assignment.library, is_seen=world.group.has_user_data)
        encode = world.cache.encode_assignment
        found = assignment.by_member
        update_members(
            group,
            {
                member_id: subscription
                for member_id, subscription in assignment.subscriptions(world.cache).items()
                if member_id in group.members
            },
            {member_id: encode(partitions, data) for member_id, partitions in found.items()},
        )

    # -- heartbeats

    def look_for_next_due(self) -> None:
        """Compute `next_due_ms`."""
        self.next_due_ms = float(self.due_ms[self.places()].min(initial=math.inf))

    def apply_due_heartbeats(self) -> int:
        """Hand in the heartbeats that were due before now, each when it was due; returns how many."""
        slots, beats_ms = self.beat_until(self.world.clock.now_ms, self.places())
        if len(slots):
            self.extend_in_turn(slots, beats_ms)
        self.look_for_next_due()
        return len(slots)

    def beat_until(self, end_ms: float, places: Ints) -> tuple[Ints, Floats]:
        """These members send the heartbeats that are due before `end_ms`. Returns the slots and the times; sessions are
        up to the caller."""
        who, when = [places[:0]], [self.due_ms[:0]]
        while len(due := places[self.due_ms[places] < end_ms]):
            who.append(due)
            when.append(self.due_ms[due])
            self._beat(due)
        return np.concatenate(who), np.concatenate(when)

    def _beat(self, places: Ints) -> None:
        self.world.requests += len(places)
        now_ms = self.due_ms[places]
        self.last_beat_ms[places] = self.extended_ms[places] = now_ms
        self.set_due(places, now_ms + self.period_ms[places])

    def extend_in_turn(self, places: Ints, at_ms: Floats) -> None:
        """The sessions of these members are extended at these times, which can be in any order."""
        order = np.argsort(at_ms, kind="stable")
        self.extend_sessions(places[order], at_ms[order].astype(np.int64))

    def extend_sessions(self, places: Ints, at_ms: Ints | int) -> None:
        """The sessions of these members are extended at these times, in this order."""
        self.deadline_ms[places] = at_ms + self.session_ms[places]
        first = self.world.runtime.reserve_turns(len(places))
        self.turn[places] = np.arange(first, first + len(places))

    def next_beats(self, slots: Ints, done_ms: Floats) -> Floats:
        """The first heartbeats of members that got their assignments at these times."""
        next_ms = self.last_beat_ms[slots] + self.period_ms[slots]
        first_ms = np.where(self.has_beaten[slots], np.maximum(done_ms, next_ms), done_ms)
        return np.where(self.beats_while_syncing[slots], np.maximum(done_ms, next_ms), first_ms)

    def beats_after(self, slots: Ints, now_ms: float) -> Floats:
        """The first heartbeats of stable members from now on (`ScriptedMember.resume_heartbeats`)."""
        last_ms, period_ms = self.last_beat_ms[slots], self.period_ms[slots]
        last_ms = last_ms + np.maximum((now_ms - last_ms) // period_ms, 0.0) * period_ms
        return np.maximum(last_ms + period_ms, now_ms)

    def extend_by_heartbeats(self, until_ms: float, places: Ints, counted: Sequence[tuple[float, int]]) -> None:
        """Sessions are extended by heartbeats until `until_ms`: by those in `counted`, (time, slot), which arrived
        while members synced, and by those of the members in `places`, which already had their assignments."""
        slots, beats_ms = self.beat_until(until_ms, places)
        synced: Ints = np.array([slot for _, slot in counted], dtype=np.int64)
        synced_ms: Floats = np.array([at_ms for at_ms, _ in counted], dtype=np.float64)
        if len(slots) or len(synced):
            self.extend_in_turn(np.concatenate([synced, slots]), np.concatenate([synced_ms, beats_ms]))

    def set_due(self, places: Ints, at_ms: Floats) -> None:
        """The next heartbeat of stable members would be at these times; it is left out as long as sessions are safe
        (`ScriptedMember._beat_at`)."""
        period_ms = self.period_ms[places]
        spare_ms = self.extended_ms[places] + self.session_ms[places] - period_ms - at_ms
        skips = spare_ms > period_ms
        due_ms = at_ms.copy()
        due_ms[skips] += (spare_ms[skips] // period_ms[skips]) * period_ms[skips]
        self.due_ms[places] = due_ms


def _plain(partitions: Partitions) -> Partitions:
    return {topic: tuple(numbers) for topic, numbers in partitions.items()}


def _is_stable(member: ScriptedClassicMember, group: ClassicGroup) -> bool:
    return (
        member.phase is LifecyclePhase.STABLE
        and member.next_action is None
        and member.next_heartbeat is not None
        and member.generation == group.generation
        and member.consumes_as == member.identity
        and member.member_id in group.members
    )
