"""Members of a consumer group (KIP-848) that a new epoch does not affect: their target assignment stays the same, and
all they do is learn of the epoch with their next heartbeat.

In a rolling bounce these are nearly all members each time. As long as a member is one of them, the arrays hold what it
knows, and what the coordinator knows of it, and none of its heartbeats is scheduled. `catch_up` carries out what these
members have done by now, before an epoch changes and before anything depends on it. What they do affects everything
else only through the order in which timers are set, for which `ReservedTimerOrder` keeps room. A member whose target
assignment changes is handed over to `ReconcilingMembers` until it has reached it, and the group begins another epoch. A
member that is about to stop, or to do anything unusual, is released and played by events.

What a member does, and which random numbers it draws for that, is in `scripted_member` and `consumer_member`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from kgm.coordinator.consumer import records
from kgm.coordinator.contract.outcome import Millis, TimerKey, TimerKind, session_key
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.model.assignment import Partitions
from kgm.records.member_states import MemberState
from kgm.records.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kgm.records.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey as TargetKey,
)
from kgm.records.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kgm.records.record import Record
from kgm.simulation.play.bulk.arrays import (
    COST_OF_CATCHING_UP,
    MOST_ROUNDS_AT_ONCE,
    Floats,
    Ints,
    ReservedTimerOrder,
    cost_of_epoch,
    cost_of_gathering,
    cost_of_reconciling,
)
from kgm.simulation.play.bulk.consumer_heartbeats import (
    ANSWERED,
    BEHIND,
    UP_TO_DATE,
    HeartbeatArrays,
    heartbeat_response,
)
from kgm.simulation.play.bulk.reconciling_members import ReconcilingMember, ReconcilingMembers
from kgm.simulation.play.consumer_member import ScriptedConsumerMember
from kgm.simulation.play.draw import named_partitions
from kgm.simulation.play.scripted_member import LifecyclePhase, ScriptedMember
from kgm.simulation.play.timing import LONGEST_TRIP_MS
from kgm.simulation.play.virtual_clock import ScheduledCall
from kgm.simulation.play.world import World

#: Records of the epochs of a group.
_EPOCHS: Final = (ConsumerGroupMetadataValue, ConsumerGroupTargetAssignmentMetadataValue)
#: How many heartbeats must fit into a session.
_BEATS_PER_SESSION: Final = 3


class UnaffectedMembers(HeartbeatArrays):
    """slots: of the members that are played in bulk, by member id; _is_unaffected: which of them an epoch does not
    affect; all others are in `_reconciling`. heartbeats_applied, saved, most_rebalances: see `BulkPlayer`."""

    most_rebalances = MOST_ROUNDS_AT_ONCE

    def __init__(self, world: World, members: Sequence[ScriptedConsumerMember], settings: BrokerSettings) -> None:
        super().__init__(world, members, settings)
        self.slots: dict[str, int] = {}
        self.saved = self.heartbeats_applied = 0
        self._has_begun = self._is_closed = False
        self._affected: list[str] = []
        self._next_ms = self._overdue_ms = np.inf
        #: Until then, at least, some member is behind.
        self._known_ms = -np.inf
        self._is_changed = False
        self._timer_order = ReservedTimerOrder(world)
        self._reconciling = ReconcilingMembers(world, settings)
        self._is_unaffected = np.zeros(len(members), dtype=bool)
        self._known_call: ScheduledCall | None = None
        self._assigning: tuple[int, int] | None = None

    @staticmethod
    def can_play(settings: BrokerSettings) -> bool:
        """Whether heartbeats are far enough apart that each is answered before the next, and sessions do not end by
        accident."""
        interval_ms = settings.group_consumer_heartbeat_interval_ms
        session_ms = settings.group_consumer_session_timeout_ms
        return interval_ms > LONGEST_TRIP_MS and session_ms > _BEATS_PER_SESSION * (interval_ms + LONGEST_TRIP_MS)

    # -- as the runner of a plan sees it (`bulk.BulkPlayer`)

    @property
    def is_settled(self) -> bool:
        self._react()
        now_ms = self._world.clock.now_ms
        if now_ms >= self._known_ms:
            self._known_ms = self._settled_from_ms()
        return now_ms >= self._known_ms

    def by_events(self, members: Sequence[ScriptedMember]) -> Collection[ScriptedMember]:
        return [self.members[slot] for slot in self._outside()] if self.slots else members

    def rebalance_began(self) -> None:
        self._has_begun = self._is_changed = True

    def plays_next(self, until_ms: float, *, is_undisturbed: bool) -> bool:  # noqa: ARG002
        self._react()
        if self.slots and self._world.clock.now_ms > until_ms - 2 * self._session_ms:
            # The operator is about to give up waiting. When that happens depends on events.
            self.to_scripted_members()
            self._is_closed = True
        next_at = self._world.clock.next_at()
        if next_at is None or self._reconciling.next_ms <= next_at:
            self._reconciling.run(self._world.next_event_ms())
        return False

    def batch_begins(self) -> None: ...

    def coordinator_acts(self) -> None:
        now_ms = self._world.clock.now_ms
        if now_ms >= self._next_ms or self._reconciling.touched:
            self._timer_order.reserve()
            if now_ms >= self._overdue_ms:
                self.catch_up(with_turns=True)

    def suspended_timers(self) -> list[tuple[TimerKey, Millis, int]]:
        """The timers that the coordinator would have for the members that are played in bulk, with their turns."""
        self.catch_up(with_turns=True)
        reconciling = self._reconciling.members
        return [
            timer
            for slot in self.slots.values()
            for timer in self._timers(slot, reconciling[slot].known if slot in reconciling else None)
        ]

    def coordinator_writes(self, records: Sequence[Record]) -> None:
        if any(isinstance(record.value, _EPOCHS) for record in records):
            # What these heartbeats do depends on the group's epochs, and the new ones are not in effect yet.
            self.catch_up()
            self._is_changed = True
        affected = [record.key.member_id for record in records if isinstance(record.key, TargetKey)]
        if affected:
            self._affected += affected
            self._is_changed = True

    def pending_assignments(self) -> Mapping[str, Partitions]:
        self.catch_up(with_turns=True)
        image = self._world.image
        return {one.member.member_id: named_partitions(one.known, image) for one in self._reconciling.members.values()}

    def to_scripted_members(self) -> None:
        self.catch_up(with_turns=True)
        for slot in [*self.slots.values()]:
            self._play_by_events(slot)
        self.slots.clear()
        self._is_unaffected[:] = False
        self._saw()

    def release(self, member: ScriptedMember) -> None:
        self._assigning = None  # its heartbeat may have been the one that triggers the target assignment
        self._is_changed = True
        slot = self.slots.get(member.member_id)
        if slot is not None:
            self.catch_up(with_turns=True)
            self._play_by_events(slot)
            del self.slots[member.member_id]

    def catch_up(self, *, with_turns: bool = False) -> None:
        """Carry out what members have done by now. with_turns: also make sure that all timers have their turns, even if
        unaffected members have done nothing."""
        now_ms, reconciling = self._world.clock.now_ms, self._reconciling
        reconciling.run(now_ms)
        if now_ms < self._next_ms and not (with_turns and reconciling.touched):
            return
        due_ms, group = self.due_ms, self._group()
        places = self._places()
        who = places[due_ms[places] <= now_ms]
        moved, moved_ms = [who[:0]], [due_ms[:0]]
        touched = [np.array(reconciling.touched, dtype=np.int64)]
        touched_ms = [np.array(reconciling.touched_ms, dtype=np.float64)]
        while len(who):
            stage = self.stage[who]
            if len(up_to_date := who[stage == UP_TO_DATE]):
                touched.append(up_to_date)
                touched_ms.append(due_ms[up_to_date])
                self._hand_in(up_to_date)
            if len(arriving := who[stage == BEHIND]):
                touched.append(arriving)
                touched_ms.append(due_ms[arriving])
                moved.append(self._arrive(arriving, group))
                moved_ms.append(self.arrives_ms[moved[-1]])
            if len(answered := who[stage == ANSWERED]):
                self._hear(answered)
            who = who[due_ms[who] <= now_ms]
        if len(touched) > 1 or len(touched[0]):
            self._extend_sessions(np.concatenate(touched), np.concatenate(touched_ms))
        if self._world.kept_records is not None:
            self._record(np.concatenate(moved), np.concatenate(moved_ms), group)
        self._timer_order.clear()
        self.saved -= cost_of_reconciling(len(reconciling.touched))
        reconciling.clear()
        self._overdue_ms = now_ms + self._session_ms
        self._next_ms = float(due_ms[places].min(initial=np.inf))

    # -- in and out

    def _react(self) -> None:
        """React to changed epochs and targets, and to the members that they affect."""
        if not self._is_changed:
            return
        self._is_changed = False
        if self._affected:
            affected, self._affected = [self.slots.get(member_id) for member_id in self._affected], []
            self._reconcile([slot for slot in affected if slot is not None])
        if self._has_begun:
            self._has_begun = False
            self._learn_of_epoch()
        if self.slots:
            group = self._group()
            if group.group_epoch > group.assignment_epoch:
                self._await_assignment(group)
        self._known_ms = -np.inf
        self._look_when_known()

    def _reconcile(self, slots: Sequence[int]) -> None:
        """The targets of these members have changed."""
        self.catch_up()
        group, reconciling, given, again = self._group(), self._reconciling, [], []
        for slot in slots:
            member = self.members[slot]
            one = reconciling.members.get(slot)
            known = self._as_known(member, group) if one is None else one.known
            target = group.target_of(member.member_id, known.group_instance_id)
            if not (reconciling.can_play and reconciling.may_take(known, target)):
                self.release(member)
            elif one is None:
                given.append(ReconcilingMember(slot, member, known, target))
            else:
                one.target, one.is_affected = target, True
                again.append(one)
        if given or again:
            self._write_clients([one.slot for one in given])
            for one in given:
                one.drawn_from = one.member.chance.drawn
            reconciling.draw_ahead([*given, *again])
            self._begin_to_reconcile(given)
        self._saw()

    def _begin_to_reconcile(self, given: Sequence[ReconcilingMember]) -> None:
        """These members begin to reconcile, because an epoch affects them."""
        slots, reconciling = [one.slot for one in given], self._reconciling
        self._is_unaffected[slots] = False
        columns = self.stage, self.due_ms, self.beat_ms, self.replied_ms
        for one, stage, due_ms, beat_ms, replied_ms in zip(
            given, *(column[slots].tolist() for column in columns), strict=True
        ):
            if stage == UP_TO_DATE:
                reconciling.add_up_to_date(one, due_ms)
            elif stage == BEHIND:
                reconciling.add_beating(one, beat_ms)
            else:
                reconciling.add_answered(one, replied_ms)

    def _end_reconciling(self, group: ConsumerGroup) -> None:
        """Members that have reached their targets become unaffected."""
        reconciling = self._reconciling
        slots = [slot for slot, one in reconciling.members.items() if reconciling.is_at_rest(one)]
        if slots:
            resting = [reconciling.rest(slot) for slot in slots]
            self._is_unaffected[slots] = True
            self._read_clients(slots, [one.known for one, _ in resting], group)
            self.due_ms[slots] = [due_ms for _, due_ms in resting]

    def _learn_of_epoch(self) -> None:
        """The group has a new epoch: heartbeats that were left out are sent again."""
        self.catch_up()
        group = self._group()
        if not (self._is_closed or group.regexes or group.metadata_expired(Millis(int(self._world.now_ms)))):
            self._gather(group)
        self._end_reconciling(group)
        self._reconciling.epoch_began()
        for member in self.by_events(self.members):
            member.resume_heartbeats()
        if not self.slots:
            return
        self.saved -= cost_of_epoch(len(self.slots))
        now_ms, places = self._world.now_ms, self._places()
        is_sent = (self.stage[places] == ANSWERED) | ((self.stage[places] == BEHIND) & (self.beat_ms[places] <= now_ms))
        places = places[~is_sent]
        period_ms = self.period_ms[places]
        missed = np.maximum((now_ms - self.last_beat_ms[places]) // period_ms, 0)
        self.last_beat_ms[places] += missed * period_ms
        self._send_at(places, np.maximum(self.last_beat_ms[places] + period_ms, now_ms))
        self._saw()

    def _gather(self, group: ConsumerGroup) -> None:
        found = [slot for slot in self._outside() if _is_unaffected(self.members[slot], group)]
        if found:
            self._read_clients(found, [group.members[self.members[slot].member_id] for slot in found], group)
            for slot in found:
                self._read(self.members[slot])
            self._is_unaffected[found] = True
            self.saved -= cost_of_gathering(len(found), 0)
            self._saw()

    def _places(self) -> Ints:
        """The slots of unaffected members."""
        return np.flatnonzero(self._is_unaffected)

    def _outside(self) -> list[int]:
        """The slots of all other members."""
        is_outside = ~self._is_unaffected
        is_outside[[*self._reconciling.members]] = False
        others: list[int] = np.flatnonzero(is_outside).tolist()
        return others

    def _saw(self) -> None:
        """Update when the next thing is due."""
        places = self._places()
        self._next_ms = float(self.due_ms[places].min(initial=np.inf))
        self._behind = int(np.count_nonzero(self.stage[places]))
        self._known_ms = -np.inf

    def _session_key(self, member: ScriptedConsumerMember) -> TimerKey:
        return session_key(self._world.group.group_id, member.member_id)

    def _timers(self, slot: int, known: ConsumerMember | None) -> list[tuple[TimerKey, Millis, int]]:
        """The coordinator's timers for a member, with their turns. known: None if it is unaffected."""
        deadline_ms, turn = int(self.deadline_ms[slot]), int(self.turn[slot])
        timers = [(self._session_key(self.members[slot]), Millis(deadline_ms), turn)]
        if known is not None and known.state is MemberState.UNREVOKED_PARTITIONS:
            # It has been revoking since its last heartbeat.
            key = TimerKey(TimerKind.REBALANCE, self._world.group.group_id, known.member_id)
            until_ms = deadline_ms - self._session_ms + known.rebalance_timeout_ms
            timers.append((key, Millis(until_ms), turn - 1))
        return timers

    def _read(self, member: ScriptedConsumerMember) -> None:
        """Load a member, whose next step is to learn of an epoch."""
        runtime, key, slot = self._world.runtime, self._session_key(member), self._slot_of[member]
        self.slots[member.member_id] = slot
        self.deadline_ms[slot], self.turn[slot] = runtime.engine.deadlines[key], runtime.turn_of(key)
        runtime.suspend_timers([key])
        assert member.next_heartbeat is not None
        self.due_ms[slot] = member.next_heartbeat.at_ms
        member.next_heartbeat.cancel()
        member.next_heartbeat = None

    def _play_by_events(self, slot: int) -> None:
        """Update the coordinator with what it would know of a member, and schedule what the member does next."""
        member, group, runtime = self.members[slot], self._group(), self._world.runtime
        is_reconciling = slot in self._reconciling.members
        known = self._reconciling.release(slot) if is_reconciling else self._as_known(member, group)
        if group.members[member.member_id].member_epoch != known.member_epoch:
            runtime.engine.replay(records.current_record(group, known))
        runtime.resume_timers(self._timers(slot, known))
        if not is_reconciling:
            self._write(slot)
            self._behind -= int(self.stage[slot] != UP_TO_DATE)
        self._is_unaffected[slot] = False
        self._known_ms = -np.inf

    def _write(self, slot: int) -> None:
        """Make it a scripted member again."""
        member, now_ms, stage = self.members[slot], self._world.now_ms, self.stage[slot]
        self._write_clients([slot])
        beat_ms, arrives_ms = float(self.beat_ms[slot]), float(self.arrives_ms[slot])
        if stage == UP_TO_DATE:
            member.resume_beating_at(float(self.due_ms[slot]))
        elif stage == BEHIND and beat_ms > now_ms:
            member.resume_beating_at(beat_ms)
        elif stage == BEHIND:
            member.chance.drawn += 1
            member.has_sent_heartbeat(beat_ms, arrives_ms)
        else:
            answer = heartbeat_response(member.member_id, int(self.answer[slot]), self._interval_ms)
            member.is_sent_answer(beat_ms, answer, float(self.replied_ms[slot]))

    # -- heartbeats

    def _extend_sessions(self, places: Ints, at_ms: Floats) -> None:
        """The sessions of these members are extended at these times. A member may be among them more than once."""
        order = np.argsort(at_ms, kind="stable")
        places, at_ms = places[order], at_ms[order]
        # If there are several values for one slot, numpy keeps the last.
        self.deadline_ms[places] = at_ms.astype(np.int64) + self._session_ms
        self.turn[places] = self._timer_order.at(at_ms)
        self._world.requests += len(places)
        self.heartbeats_applied += len(places)
        self.saved += len(places) - COST_OF_CATCHING_UP

    def _record(self, moved: Ints, moved_ms: Floats, group: ConsumerGroup) -> None:
        """The records that the coordinator would have written at these times."""
        slots: list[int] = moved.tolist()
        written = [records.current_record(group, self._as_known(self.members[slot], group)) for slot in slots]
        written += self._reconciling.written
        written_ms = np.concatenate([moved_ms, self._reconciling.written_ms])
        order = np.argsort(written_ms, kind="stable")
        self._timer_order.record([written[at] for at in order.tolist()], written_ms[order])

    # -- which heartbeat triggers the target assignment

    def _await_assignment(self, group: ConsumerGroup) -> None:
        """The group has no target assignment for its epoch yet. The first heartbeat that arrives once it is due
        triggers it."""
        epochs = group.group_epoch, group.assignment_epoch
        if self._assigning != epochs:
            self._assigning = epochs
            due_ms = self._assigned_from_ms(group)
            if due_ms > self._world.now_ms:
                self._world.clock.at(due_ms, self._release_first)
            else:
                self._release_first()

    def _release_first(self) -> None:
        """The member whose heartbeat arrives first from now on is played by events."""
        self.catch_up()
        group, places = self._group(), self._places()
        if not self.slots or group.group_epoch == group.assignment_epoch:
            return
        if self._world.now_ms < self._assigned_from_ms(group):
            return
        is_answered = self.stage[places] == ANSWERED
        waiting, answered = places[~is_answered], places[is_answered]
        # Members that wait for an answer send the next heartbeat later, but it may be before that first one arrives.
        next_ms = self.beat_ms[answered] + self.period_ms[answered]
        first_ms = float(self.arrives_ms[waiting].min(initial=np.inf))
        reconciling_ms, reconciling = self._reconciling.next_arrival()
        limit_ms = min(first_ms, float(next_ms.min(initial=np.inf)) + LONGEST_TRIP_MS, reconciling_ms)
        chosen, epochs = answered[next_ms <= limit_ms].tolist(), self._assigning
        chosen += waiting[self.arrives_ms[waiting] <= limit_ms].tolist()
        if reconciling is not None and reconciling_ms <= limit_ms:
            chosen.append(reconciling)
        for slot in chosen:
            self.release(self.members[slot])
        self._assigning = epochs

    # -- when all members know the epoch

    def _look_when_known(self) -> None:
        """Schedule an event for when the last answer arrives, because the group may be stable then."""
        if self._known_call is not None:
            self._known_call.cancel()
            self._known_call = None
        self._known_ms = self._settled_from_ms()
        if self._known_ms > self._world.clock.now_ms:
            self._known_call = self._world.clock.at(self._known_ms, self._look)

    def _last_answer_ms(self) -> float:
        """When the last of the answers arrives that members wait for, or will wait for."""
        places = self._places()
        return float(self.replied_ms[places[self.stage[places] != UP_TO_DATE]].max(initial=-np.inf))

    def _settled_from_ms(self) -> float:
        """The time until which, at least, some member is behind, or waits for an answer."""
        answered_ms = self._last_answer_ms() if self._behind else -np.inf
        if self._behind and answered_ms <= self._world.clock.now_ms:
            self.catch_up()
            answered_ms = self._last_answer_ms()
        self._reconciling.run(self._world.clock.now_ms)
        return max(answered_ms, self._reconciling.settled_from_ms())

    def _look(self) -> None:
        self._known_call = None
        self._look_when_known()


def _is_unaffected(member: ScriptedConsumerMember, group: ConsumerGroup) -> bool:
    """Whether all a member has to do is learn of epochs."""
    known = group.members.get(member.member_id)
    if (
        known is None
        or member.phase is not LifecyclePhase.STABLE
        or member.next_action is not None
        or member.next_heartbeat is None
        or member.unanswered
        or member.consumes_as != member.identity
        or member.target != member.owned
        or known.state is not MemberState.STABLE
        or known.pending_revocation
        or known.classic is not None
    ):
        return False
    wanted = group.target_of(member.member_id)
    return known.assigned.keys() == wanted.keys() and all(
        known.assigned[topic_id].keys() == set(partitions) for topic_id, partitions in wanted.items()
    )
