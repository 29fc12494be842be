"""Members of a consumer group (KIP-848) that a new epoch does not concern: their target assignment stays as it is, and
all that they do is to learn of the epoch with their next heartbeat.

In a rolling bounce these are nearly all members each time. While members are bystanders, the arrays here say what they
know, and what the coordinator knows of them; no heartbeat of theirs is scheduled. `catch_up` carries out what they have
done by now, before an epoch changes and before anything depends on it. Its only trace in what happens meanwhile is the
order in which timers are set, and `turns` keep room for that. A member whose target assignment changes, or that is
about to stop, is released: it is played by events until it has reached its target, and the group begins another epoch.

What a bystander does, and what it draws for it, is in `scripted_member` and `consumer_member`."""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from kgm.coordinator.consumer import records, target
from kgm.coordinator.contract.outcome import Millis, TimerKey, session_key
from kgm.coordinator.contract.settings import BrokerSettings, heartbeat_interval_ms
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import ConsumerMember, MemberState
from kgm.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kgm.simulation.play.bulk.costs import COST_OF_CATCHING_UP, cost_of_epoch, cost_of_gathering
from kgm.simulation.play.bulk.streams import Floats, Ints, Words, network_ms, shares, words
from kgm.simulation.play.bulk.turns import FreeTurns
from kgm.simulation.play.consumer_member import ScriptedConsumerMember
from kgm.simulation.play.scripted_member import LifecyclePhase, ScriptedMember
from kgm.simulation.play.timing import HEARTBEAT_LATE_MS, NETWORK_MS, SLOW_MS
from kgm.simulation.play.virtual_clock import ScheduledCall
from kgm.simulation.play.world import World

#: A heartbeat is answered after so many ms at the latest.
_LONGEST_TRIP_MS: Final = 2 * (NETWORK_MS[1] + SLOW_MS[1])
#: How many numbers a member draws for a heartbeat: for the way there, the way back, and the time to the next one.
_DRAWN: Final = 3
#: For a session so many heartbeats have to be in time.
_BEATS_PER_SESSION: Final = 3


#: What happens to a bystander next, its *stage*: it hands in a heartbeat, and those before are left out
#: (`ScriptedMember`); or its heartbeat arrives, which tells it of the epoch, and which it may not have sent yet; or the
#: answer arrives.
_CALM, _BEHIND, _ANSWERED = range(3)


class Bystanders:
    """members: all that the draw may have. Arrays have an entry for each of them, its *slot*. Names are those of
    `ScriptedMember`; times in ms.

    slots: of the members that are bystanders, by member id. due: when the next thing happens, by its stage. beat: when
    the heartbeat is sent that is due or on its way; arrives, replied: when it arrives, and its answer. next_period:
    from then on. answer: the epoch in the answer. epoch, previous: the epochs of the member in the coordinator, whose
    own data are old. caught_up: how many heartbeats were played in bulk. saved: see `Bulk`."""

    def __init__(self, world: World, members: Sequence[ScriptedConsumerMember], settings: BrokerSettings) -> None:
        self.members = members
        self.slots: dict[str, int] = {}
        self.saved = self.caught_up = 0
        self._world = world
        self._settings = settings
        self._slot_of = {member: slot for slot, member in enumerate(members)}
        self._has_begun = self._is_closed = False
        self._concerned: list[str] = []
        self._known: dict[str, ConsumerMember] = {}
        self._next_ms = self._overdue_ms = np.inf
        #: Some member is behind until then at least.
        self._known_ms = -np.inf
        self._is_changed = False
        self._turns = FreeTurns(world)
        self._behind = 0
        self._known_call: ScheduledCall | None = None
        self._assigning: tuple[int, int] | None = None
        size = len(members)
        self._stands_by = np.zeros(size, dtype=bool)
        self.keys: Words = np.array([member.chance.key for member in members], dtype=np.uint64)
        self.drawn: Words = np.zeros(size, dtype=np.uint64)
        self.stage: Ints = np.zeros(size, dtype=np.int64)
        self.due_ms, self.beat_ms, self.arrives_ms, self.replied_ms = (np.zeros(size) for _ in range(4))
        self.period_ms, self.next_period_ms = np.zeros(size), np.zeros(size)
        self.last_beat_ms, self.extended_ms, self.link_busy_ms = np.zeros(size), np.zeros(size), np.zeros(size)
        self.generation, self.answer, self.epoch, self.previous, self.deadline_ms, self.turn = (
            np.zeros(size, dtype=np.int64) for _ in range(6)
        )

    @staticmethod
    def can_play(settings: BrokerSettings) -> bool:
        """Whether heartbeats are so far apart that one is answered before the next, and sessions do not end by
        accident."""
        interval_ms = settings.group_consumer_heartbeat_interval_ms
        session_ms = settings.group_consumer_session_timeout_ms
        return interval_ms > _LONGEST_TRIP_MS and session_ms > _BEATS_PER_SESSION * (interval_ms + _LONGEST_TRIP_MS)

    # -- as the runner of a plan sees it (`coverage.Bulk`)

    @property
    def is_settled(self) -> bool:
        if self._behind and self._world.clock.now_ms >= self._known_ms:
            self.catch_up()
            self._known_ms = self._last_answer_ms()
        return not self._behind

    def by_events(self, members: Sequence[ScriptedMember]) -> Collection[ScriptedMember]:
        return [self.members[slot] for slot in self._outside()] if self.slots else members

    def rebalance_began(self) -> None:
        self._has_begun = self._is_changed = True

    def plays_next(self, until_ms: float, *, is_undisturbed: bool) -> bool:  # noqa: ARG002
        if self._is_changed:
            self._is_changed = False
            self._react()
        if self.slots and self._world.clock.now_ms > until_ms - 2 * self._session_ms:
            # Somebody is about to give up. When, that depends on events.
            self.disperse()
            self._is_closed = True
        return False

    def batch_begins(self) -> None: ...

    def coordinator_acts(self) -> None:
        now_ms = self._world.clock.now_ms
        if now_ms >= self._next_ms:
            self._turns.coordinator_acts()
            if now_ms >= self._overdue_ms:
                self.catch_up()

    def epoch_changes(self) -> None:
        # What these heartbeats do depends on the epochs of the group, which has not got the new ones yet.
        self.catch_up()
        self._is_changed = True

    def target_changed(self, member_id: str) -> None:
        # The coordinator is in the middle of an outcome, and must not be told anything else.
        self._concerned.append(member_id)
        self._is_changed = True

    def disperse(self) -> None:
        self.catch_up()
        for slot in [*self.slots.values()]:
            self._write(slot)
        self.slots.clear()
        self._stands_by[:] = False
        self._saw()

    def release(self, member: ScriptedMember) -> None:
        self._assigning = None  # it may be the one whose heartbeat was to have the target assignment computed
        self._is_changed = True
        slot = self.slots.get(member.member_id)
        if slot is not None:
            self.catch_up()
            del self.slots[member.member_id]
            self._stands_by[slot] = False
            self._behind -= int(self.stage[slot] != _CALM)
            self._known_ms = -np.inf
            self._write(slot)

    def catch_up(self) -> None:
        """Carry out what bystanders have done by now."""
        now_ms = self._world.clock.now_ms
        if now_ms < self._next_ms:
            return
        due_ms, group = self.due_ms, self._group()
        places = self._places()
        who = places[due_ms[places] <= now_ms]
        touched, touched_ms, moved, moved_ms = [who[:0]], [due_ms[:0]], [who[:0]], [due_ms[:0]]
        while len(who):
            stage = self.stage[who]
            if len(calm := who[stage == _CALM]):
                touched.append(calm)
                touched_ms.append(due_ms[calm])
                self._hand_in(calm)
            if len(arriving := who[stage == _BEHIND]):
                touched.append(arriving)
                touched_ms.append(due_ms[arriving])
                moved.append(self._arrive(arriving, group))
                moved_ms.append(self.arrives_ms[moved[-1]])
            if len(answered := who[stage == _ANSWERED]):
                self._hear(answered)
            who = who[due_ms[who] <= now_ms]
        if len(touched) > 1:
            self._extend_sessions(np.concatenate(touched), np.concatenate(touched_ms))
        if self._world.kept_records is not None:
            self._record(np.concatenate(moved), np.concatenate(moved_ms), group)
        self._turns.clear()
        self._overdue_ms = now_ms + self._session_ms
        self._next_ms = float(due_ms[places].min(initial=np.inf))

    # -- in and out

    def _react(self) -> None:
        """To changes of epochs and targets, and to members that are bystanders no longer."""
        if self._concerned:
            concerned, self._concerned = [self.slots.get(member_id) for member_id in self._concerned], []
            for slot in concerned:
                if slot is not None:
                    self.release(self.members[slot])
        if self._has_begun:
            self._has_begun = False
            self._learn_of_epoch()
        if self.slots:
            group = self._group()
            if group.group_epoch > group.assignment_epoch:
                self._await_assignment(group)

    def _group(self) -> ConsumerGroup:
        group = self._world.engine.consumer_group(self._world.group.group_id)
        assert group is not None
        return group

    @property
    def _session_ms(self) -> int:
        return self._world.consumer_session_ms

    def _learn_of_epoch(self) -> None:
        """The group has another epoch: heartbeats that were left out are sent again."""
        self.catch_up()
        group = self._group()
        if not (self._is_closed or group.regexes or group.metadata_expired(Millis(int(self._world.now_ms)))):
            self._gather(group)
        for member in self.by_events(self.members):
            member.resume_heartbeats()
        if not self.slots:
            return
        self.saved -= cost_of_epoch(len(self.slots))
        now_ms, places = self._world.now_ms, self._places()
        is_sent = (self.stage[places] == _ANSWERED) | (
            (self.stage[places] == _BEHIND) & (self.beat_ms[places] <= now_ms)
        )
        places = places[~is_sent]
        period_ms = self.period_ms[places]
        missed = np.maximum((now_ms - self.last_beat_ms[places]) // period_ms, 0)
        self.last_beat_ms[places] += missed * period_ms
        self._send_at(places, np.maximum(self.last_beat_ms[places] + period_ms, now_ms))
        self._saw()
        self._look_when_known()

    def _gather(self, group: ConsumerGroup) -> None:
        found = [slot for slot in self._outside() if _stands_by(self.members[slot], group)]
        if found:
            for slot in found:
                self._read(self.members[slot], group)
            self._stands_by[found] = True
            self.saved -= cost_of_gathering(len(found), 0)
            self._saw()

    def _places(self) -> Ints:
        """The slots of bystanders."""
        return np.flatnonzero(self._stands_by)

    def _outside(self) -> list[int]:
        """The slots of all others."""
        others: list[int] = np.flatnonzero(~self._stands_by).tolist()
        return others

    def _saw(self) -> None:
        """See what is next."""
        places = self._places()
        self._next_ms = float(self.due_ms[places].min(initial=np.inf))
        self._behind = int(np.count_nonzero(self.stage[places]))
        self._known_ms = -np.inf

    def _session_key(self, member: ScriptedConsumerMember) -> TimerKey:
        return session_key(self._world.group.group_id, member.member_id)

    def _read(self, member: ScriptedConsumerMember, group: ConsumerGroup) -> None:
        """Take over a member, which is told of an epoch next."""
        known = group.members[member.member_id]
        # When a member comes to another epoch, its topics are in the order of the target assignment.
        assigned = {topic_id: known.assigned[topic_id] for topic_id in group.target_of(member.member_id)}
        self._known[member.member_id] = known._replace(assigned=assigned)
        runtime, key, slot = self._world.runtime, self._session_key(member), self._slot_of[member]
        self.slots[member.member_id] = slot
        self.drawn[slot], self.link_busy_ms[slot] = member.chance.drawn, member.link_busy_until_ms
        self.period_ms[slot], self.generation[slot] = member.period_ms, member.generation
        self.last_beat_ms[slot], self.extended_ms[slot] = member.last_beat_ms, member.extended_ms
        self.epoch[slot], self.previous[slot] = known.member_epoch, known.previous_member_epoch
        self.deadline_ms[slot], self.turn[slot] = runtime.engine.deadlines[key], runtime.turn_of(key)
        self.stage[slot] = _CALM
        runtime.suspend_timers([key])
        assert member.next_heartbeat is not None
        self.due_ms[slot] = member.next_heartbeat.at_ms
        member.next_heartbeat.cancel()
        member.next_heartbeat = None

    def _write(self, slot: int) -> None:
        """Make a scripted member of it again, and tell the coordinator what it would know of it."""
        world, member, group = self._world, self.members[slot], self._group()
        runtime, now_ms, stage = world.runtime, world.now_ms, self.stage[slot]
        if group.members[member.member_id].member_epoch != self.epoch[slot]:
            runtime.engine.replay(records.current_record(group, self._as_known(member)))
        timer = self._session_key(member), Millis(int(self.deadline_ms[slot])), int(self.turn[slot])
        runtime.resume_timers([timer])
        member.generation, member.period_ms = int(self.generation[slot]), float(self.period_ms[slot])
        member.last_beat_ms, member.extended_ms = float(self.last_beat_ms[slot]), float(self.extended_ms[slot])
        member.chance.drawn, member.link_busy_until_ms = int(self.drawn[slot]), float(self.link_busy_ms[slot])
        beat_ms, arrives_ms = float(self.beat_ms[slot]), float(self.arrives_ms[slot])
        if stage == _CALM:
            member.resume_beating_at(float(self.due_ms[slot]))
        elif stage == _BEHIND and beat_ms > now_ms:
            member.resume_beating_at(beat_ms)
        elif stage == _BEHIND:
            member.chance.drawn += 1
            member.has_sent_heartbeat(beat_ms, arrives_ms)
        else:
            answer = self._answer(member, int(self.answer[slot]))
            member.is_sent_answer(beat_ms, answer, float(self.replied_ms[slot]))

    def _answer(self, member: ScriptedConsumerMember, epoch: int) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=epoch, heartbeat_interval_ms=self._interval_ms
        )

    @property
    def _interval_ms(self) -> int:
        return heartbeat_interval_ms(self._settings, None)

    def _as_known(self, member: ScriptedConsumerMember) -> ConsumerMember:
        """As the coordinator would know it."""
        slot = self._slot_of[member]
        return self._known[member.member_id]._replace(
            member_epoch=int(self.epoch[slot]), previous_member_epoch=int(self.previous[slot])
        )

    # -- heartbeats

    def _send_at(self, places: Ints, beat_ms: Floats) -> None:
        """Heartbeats over the network at these times, and when they arrive and are answered."""
        drawn = words(self.keys[places], self.drawn[places], _DRAWN)
        arrives_ms = np.maximum(beat_ms + network_ms(drawn[0]), self.link_busy_ms[places])
        self.beat_ms[places], self.arrives_ms[places] = beat_ms, arrives_ms
        self.replied_ms[places] = arrives_ms + network_ms(drawn[1])
        self.next_period_ms[places] = self._interval_ms + HEARTBEAT_LATE_MS * shares(drawn[2])
        self.stage[places], self.due_ms[places] = _BEHIND, arrives_ms

    def _hand_in(self, places: Ints) -> None:
        """Heartbeats that change nothing but the session's deadline (`ScriptedMember._beat_at`)."""
        at_ms, period_ms = self.due_ms[places], self.period_ms[places]
        self.last_beat_ms[places] = self.extended_ms[places] = at_ms
        next_ms = at_ms + period_ms
        spare_ms = at_ms + self._session_ms - period_ms - next_ms
        self.due_ms[places] = next_ms + (spare_ms // period_ms) * period_ms

    def _arrive(self, places: Ints, group: ConsumerGroup) -> Ints:
        """Heartbeats arrive. Returns the members that come to another epoch by it."""
        aim = group.assignment_epoch
        is_due = group.group_epoch > aim and (self.arrives_ms[places] >= self._assigned_from_ms(group)).any()
        assert not is_due, "one of these heartbeats has the target assignment computed"
        self.last_beat_ms[places] = self.extended_ms[places] = self.beat_ms[places]
        self.link_busy_ms[places] = self.arrives_ms[places]
        self.drawn[places] += np.uint64(2)
        moved: Ints = places[self.epoch[places] != aim]
        self.previous[moved] = self.epoch[moved]
        self.epoch[moved] = self.answer[places] = aim
        self.stage[places], self.due_ms[places] = _ANSWERED, self.replied_ms[places]
        return moved

    def _hear(self, places: Ints) -> None:
        """Answers arrive. A member that is still behind says so with its next heartbeat."""
        self.drawn[places] += np.uint64(1)
        self.generation[places] = self.answer[places]
        next_ms = self.beat_ms[places] + self.period_ms[places]
        self.period_ms[places] = self.next_period_ms[places]
        self.stage[places], self.due_ms[places] = _CALM, next_ms
        is_behind = self.generation[places] != self._world.generation
        behind = int(np.count_nonzero(is_behind))
        if behind:
            self._send_at(places[is_behind], next_ms[is_behind])
        self._behind -= len(places) - behind

    def _extend_sessions(self, places: Ints, at_ms: Floats) -> None:
        """The sessions of these members begin again at these times. A member may be among them more than once."""
        order = np.argsort(at_ms, kind="stable")
        places, at_ms = places[order], at_ms[order]
        # Of several values for one slot numpy keeps the last.
        self.deadline_ms[places] = at_ms.astype(np.int64) + self._session_ms
        self.turn[places] = self._turns.at(at_ms)
        self._world.requests += len(places)
        self.caught_up += len(places)
        self.saved += len(places) - COST_OF_CATCHING_UP

    def _record(self, moved: Ints, moved_ms: Floats, group: ConsumerGroup) -> None:
        """The records that the coordinator would have written at these times."""
        order = np.argsort(moved_ms, kind="stable")
        slots: list[int] = moved[order].tolist()
        written = [records.current_record(group, self._as_known(self.members[slot])) for slot in slots]
        self._turns.record(written, moved_ms[order])

    # -- who has the target assignment computed

    def _assigned_from_ms(self, group: ConsumerGroup) -> float:
        return target.due_from_ms(group, self._settings, None)

    def _await_assignment(self, group: ConsumerGroup) -> None:
        """The group has no target assignment of its epoch yet. The first heartbeat that arrives when it is due has it
        computed."""
        epochs = group.group_epoch, group.assignment_epoch
        if self._assigning != epochs:
            self._assigning = epochs
            due_ms = self._assigned_from_ms(group)
            if due_ms > self._world.now_ms:
                self._world.clock.at(due_ms, self._release_first)
            else:
                self._release_first()

    def _release_first(self) -> None:
        """The bystander whose heartbeat arrives first from now on is played by events."""
        self.catch_up()
        group, places = self._group(), self._places()
        if not self.slots or group.group_epoch == group.assignment_epoch:
            return
        if self._world.now_ms < self._assigned_from_ms(group):
            return
        is_answered = self.stage[places] == _ANSWERED
        waiting, answered = places[~is_answered], places[is_answered]
        first = waiting[self.arrives_ms[waiting] == self.arrives_ms[waiting].min(initial=np.inf)]
        # Those that wait for an answer send the next heartbeat later, but maybe before that one arrives.
        next_ms = self.beat_ms[answered] + self.period_ms[answered]
        limit_ms = float(self.arrives_ms[first[0]]) if len(first) else float(next_ms.min()) + _LONGEST_TRIP_MS
        chosen, epochs = [*first.tolist(), *answered[next_ms <= limit_ms].tolist()], self._assigning
        for slot in chosen:
            self.release(self.members[slot])
        self._assigning = epochs

    # -- when all know the epoch

    def _look_when_known(self) -> None:
        """See to it that there is an event when the last answer arrives, because the group may be stable then."""
        if self._known_call is not None:
            self._known_call.cancel()
            self._known_call = None
        if self._behind:
            self._known_call = self._world.clock.at(self._last_answer_ms(), self._look)

    def _last_answer_ms(self) -> float:
        """When the last answer arrives of those that members wait for, or will wait for."""
        places = self._places()
        return float(self.replied_ms[places[self.stage[places] != _CALM]].max(initial=-np.inf))

    def _look(self) -> None:
        self._known_call = None
        self.catch_up()
        self._look_when_known()


def _stands_by(member: ScriptedConsumerMember, group: ConsumerGroup) -> bool:
    """Whether all that a member has to do is to learn of epochs."""
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
