"""Members of a consumer group (KIP-848), in arrays: between two changes of the group, all that they do follows from
their own random numbers and from when others give up partitions.

As long as a member is one of them, the arrays hold what it knows, and what the coordinator knows of it, and none of its
heartbeats is scheduled. `catch_up` carries out what these members have done by now, before an epoch or a target
assignment changes and before anything depends on it: the coordinator is about to act, or a member that is played by
events begins to consume. What they do affects everything else only through that, and through the order in which timers
are set, for which `ReservedTimerOrder` keeps room. A member that is about to stop, or to do anything unusual, is
released and played by events.

What a member does, and which random numbers it draws for that, is in `scripted_member` and `consumer_member`."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, repeat
from typing import Final

import numpy as np

from kgm.coordinator.consumer import records
from kgm.coordinator.contract.outcome import Millis, TimerKey, runs_of
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import NO_TARGET, ConsumerMember, Target
from kgm.model.assignment import Partitions
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.struct import Message
from kgm.records.member_states import MemberState
from kgm.records.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey as CurrentKey,
)
from kgm.records.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kgm.records.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kgm.records.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey as TargetKey,
)
from kgm.records.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kgm.records.record import Record
from kgm.simulation.play.bulk.arrays import (
    MOST_ROUNDS_AT_ONCE,
    ArrayLedger,
    Ints,
    cost_of_epoch,
    cost_of_gathering,
    cost_of_targets,
)
from kgm.simulation.play.bulk.consumer_heartbeats import (
    ANSWERED,
    BEHIND,
    LONGEST_REACTION_MS,
    REACTING,
    UP_TO_DATE,
    HeartbeatArrays,
)
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
_NO_SLOT: Final = -1


class ConsumerMembers(HeartbeatArrays):
    """slots: of the members that are played in bulk, by member id; _is_here: the same, by slot. heartbeats_applied,
    saved, most_rebalances: see `BulkPlayer`."""

    most_rebalances = MOST_ROUNDS_AT_ONCE

    def __init__(self, world: World, members: Sequence[ScriptedConsumerMember], settings: BrokerSettings) -> None:
        super().__init__(world, members, settings)
        self.slots: dict[str, int] = {}
        self._has_begun = self._is_closed = False
        #: Members whose targets have changed, and runs of them.
        self._affected: list[str | records.TargetRecords] = []
        self._next_ms = self._overdue_ms = np.inf
        #: Until then, at least, some member is behind.
        self._known_ms = -np.inf
        self._is_changed = False
        self._is_here = np.zeros(len(members), dtype=bool)
        #: Whether the target of a member in the arrays may change.
        self._may_aim = np.zeros(len(members), dtype=bool)
        self._known_call: ScheduledCall | None = None
        self._assigning: tuple[int, int] | None = None
        self._is_catching_up = False
        #: Whether a client has reacted to the answer to one heartbeat before it sends the next.
        self._can_react = self._interval_ms > LONGEST_TRIP_MS + LONGEST_REACTION_MS
        #: The ids of the topics that members subscribe to, by their names.
        self._subscribed: dict[frozenset[str], frozenset[bytes]] = {}

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
        self._react_to_changes()
        now_ms = self._world.clock.now_ms
        if now_ms >= self._known_ms:
            self._known_ms = self._settled_from_ms()
        return now_ms >= self._known_ms

    def by_events(self, members: Sequence[ScriptedMember]) -> Collection[ScriptedMember]:
        return [self.members[slot] for slot in self._outside()] if self.slots else members

    def rebalance_began(self) -> None:
        self._has_begun = self._is_changed = True

    def plays_next(self, until_ms: float, *, is_undisturbed: bool) -> bool:  # noqa: ARG002
        self._react_to_changes()
        if self.slots and self._world.clock.now_ms > until_ms - 2 * self._session_ms:
            # The operator is about to give up waiting. When that happens depends on events.
            self.to_scripted_members()
            self._is_closed = True
        return False

    def batch_begins(self) -> None: ...

    def coordinator_acts(self, message: Message | None) -> None:
        now_ms = self._world.clock.now_ms
        if now_ms >= self._next_ms:
            self._timer_order.reserve()
        if not self.slots:
            return
        wanted = self._wanted_by(message)
        if now_ms >= self._overdue_ms or (wanted != {} and self.moves.is_busy):
            self.catch_up()
        self.moves.publish(self._group(), wanted)

    def _wanted_by(self, message: Message | None) -> Target | None:
        """The partitions of which the coordinator may want to know whether they are free, to handle this. None: any,
        because there may be another target assignment."""
        group = self._group()
        if (
            not isinstance(message, ConsumerGroupHeartbeatRequest)
            or message.member_epoch <= 0
            or group.group_epoch > group.assignment_epoch
            or group.metadata_expired(Millis(int(self._world.now_ms)))
        ):
            return None
        known = group.members.get(message.member_id)
        if known is None or known.is_reconciled_to(group.assignment_epoch):
            return NO_TARGET
        return group.target_of(known.member_id, known.group_instance_id)

    def suspended_timers(self) -> list[tuple[TimerKey, Millis, int]]:
        """The timers that the coordinator would have for the members that are played in bulk, with their turns."""
        self.catch_up()
        group = self._group()
        return [timer for slot in self.slots.values() for timer in self._timers(self._known(slot, group), slot)]

    def coordinator_writes(self, written: Sequence[Record]) -> None:
        single = [run for run in runs_of(written) if isinstance(run, Record)]
        if any(isinstance(record.value, _EPOCHS) for record in single):
            # What these heartbeats do depends on the group's epochs, and the new ones are not in effect yet.
            self.catch_up()
            self._is_changed = True
        affected: list[str | records.TargetRecords] = []
        affected += [record.key.member_id for record in single if isinstance(record.key, TargetKey)]
        affected += [run for run in runs_of(written) if isinstance(run, records.TargetRecords)]
        self._affected += affected
        self._is_changed |= bool(affected)
        if self.slots:
            self._change_outside({r.key.member_id: r.value for r in single if isinstance(r.key, CurrentKey)})

    def pending_assignments(self) -> Mapping[str, Partitions]:
        self.catch_up()
        group, image = self._group(), self._world.image
        return {member_id: named_partitions(self._known(slot, group), image) for member_id, slot in self.slots.items()}

    def to_scripted_members(self) -> None:
        self.catch_up()
        for slot in [*self.slots.values()]:
            self._play_by_events(slot)
        self.slots.clear()
        ledger = self._world.ledger
        if isinstance(ledger, ArrayLedger):
            self._world.ledger = ledger.written()
        self._saw()

    def release(self, member: ScriptedMember) -> None:
        self._assigning = None  # its heartbeat may have been the one that triggers the target assignment
        self._is_changed = True
        slot = self.slots.get(member.member_id)
        if slot is not None:
            self.catch_up()
            self._play_by_events(slot)
            del self.slots[member.member_id]

    def catch_up(self) -> None:
        """Carry out what members have done by now."""
        now_ms, due_ms = self._world.clock.now_ms, self.due_ms
        if now_ms < self._next_ms or self._is_catching_up:
            return
        self._is_catching_up = True
        group, touched, touched_ms = self._group(), [], []
        while len(who := (due_ms <= now_ms).nonzero()[0]):
            stage = self.stage[who]
            if len(up_to_date := who[stage == UP_TO_DATE]):
                touched.append(up_to_date)
                touched_ms.append(due_ms[up_to_date])
                self._hand_in(up_to_date)
            if len(arriving := who[stage == BEHIND]):
                gets_some = self.moves.gets_some(arriving)
                if not gets_some.all() or len(arriving) < len(who):
                    arriving = arriving[~gets_some]  # the others come when all of these have done what they do by now
            if len(arriving):
                touched.append(arriving)
                touched_ms.append(due_ms[arriving])
                self._arrive(arriving, group)
            if len(answered := who[(self.stage[who] == ANSWERED) & (due_ms[who] <= now_ms)]):
                self._hear(answered)
            if len(reacting := who[(self.stage[who] == REACTING) & (due_ms[who] <= now_ms)]):
                self._react(reacting)
        if touched:
            self._extend_sessions(np.concatenate(touched), np.concatenate(touched_ms))
        self._ledger.count()
        self._record()
        self._timer_order.clear()
        self._overdue_ms = now_ms + self._session_ms
        self._next_ms = float(due_ms.min(initial=np.inf))
        self._is_catching_up = False

    # -- in and out

    def _react_to_changes(self) -> None:
        """React to changed epochs and targets, and to the members that they affect."""
        if not self._is_changed:
            return
        self._is_changed = False
        if self._affected:
            affected, self._affected = self._affected, []
            self.catch_up()
            for each in affected:
                if not isinstance(each, str):
                    self._aim_at_spans(each)
            self._aim([self.slots[each] for each in affected if isinstance(each, str) and each in self.slots])
        if self._has_begun:
            self._has_begun = False
            self._learn_of_epoch()
        if self.slots:
            group = self._group()
            if group.group_epoch > group.assignment_epoch:
                self._await_assignment(group)
        self._known_ms = -np.inf
        self._look_when_known()

    def _aim(self, slots: Sequence[int]) -> None:
        """The targets of these members have changed."""
        group, aimed, targets = self._group(), [], []
        for slot in slots:
            member = self.members[slot]
            known = group.members[member.member_id]
            target = group.target_of(member.member_id, known.group_instance_id)
            if self._may_aim_at(target, known):
                aimed.append(slot)
                targets.append(target)
            else:
                self.release(member)
        if aimed:
            self.moves.aim(aimed, targets)
            self.saved -= cost_of_targets(len(aimed))

    def _aim_at_spans(self, run: records.TargetRecords) -> None:
        """The targets of these members have changed. All members subscribe to the same topics."""
        slots = np.array([*map(self.slots.get, run.spans, repeat(_NO_SLOT))], dtype=np.int64)
        flat = np.fromiter(chain.from_iterable(run.spans.values()), dtype=np.int64)
        spans = flat.reshape(len(slots), 2 * len(run.topics))
        is_here = slots != _NO_SLOT
        may_aim = is_here & self._may_aim[slots]
        for slot in slots[is_here & ~may_aim].tolist():
            self.release(self.members[slot])
        self.moves.aim_at_spans(slots[may_aim], run.topics, spans[may_aim])
        self.saved -= cost_of_targets(int(np.count_nonzero(may_aim)))

    def _may_aim_at(self, target: Target, known: ConsumerMember) -> bool:
        """Whether nothing unusual can happen to a member on its way to this target: its rebalance timeout does not
        expire, and it subscribes to all of these topics."""
        names = known.subscribed_topic_names
        ids = self._subscribed.get(names)
        if ids is None:
            by_name = self._world.image.by_name
            ids = self._subscribed[names] = frozenset(by_name[name].topic_id for name in names if name in by_name)
        return (
            self._can_react
            and target.keys() <= ids
            and known.rebalance_timeout_ms > LONGEST_TRIP_MS + LONGEST_REACTION_MS
            and known.classic is None
            and not known.subscribed_topic_regex
        )

    def _change_outside(self, written: Mapping[str, object]) -> None:
        """The coordinator writes what members have that are played by events: the last record of each, of which there
        may be several in a batch."""
        if not written:
            return
        self.catch_up()
        members, after = self._group().members, list[dict[bytes, list[int]]]()
        for value in written.values():
            if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
                for row in (*value.assigned_partitions, *value.partitions_pending_revocation):
                    after.append({row.topic_id: row.partitions})
        self.moves.change_outside([members[each] for each in written if each in members], after)

    def _learn_of_epoch(self) -> None:
        """The group has a new epoch: heartbeats that were left out are sent again."""
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
        is_sent = (self.stage[places] == ANSWERED) | ((self.stage[places] == BEHIND) & (self.beat_ms[places] <= now_ms))
        sent, places = places[is_sent], places[~is_sent & (self.stage[places] != REACTING)]
        self.next_beat_ms[sent] = self.beat_ms[sent] + self.period_ms[sent]
        period_ms = self.period_ms[places]
        missed = np.maximum((now_ms - self.last_beat_ms[places]) // period_ms, 0)
        self.last_beat_ms[places] += missed * period_ms
        self._send_at(places, np.maximum(self.last_beat_ms[places] + period_ms, now_ms))
        self._saw()

    def _gather(self, group: ConsumerGroup) -> None:
        """Play members in arrays that are at rest, apart from the new epoch."""
        found = [slot for slot in self._outside() if self._may_gather(self.members[slot], group)]
        if not found:
            return
        if not self.slots:
            self.moves.begin(group)
        if not isinstance(self._world.ledger, ArrayLedger):
            self._world.ledger = ArrayLedger(self._world.ledger, self.catch_up)
        self._read_clients(found)
        for slot in found:
            known = group.members[self.members[slot].member_id]
            target = group.target_of(known.member_id)
            self.moves.add(slot, known, target)
            self._may_aim[slot] = self._may_aim_at(target, known)
            self._read(self.members[slot])
        self._is_here[found] = True
        self.saved -= cost_of_gathering(len(found), 0)
        self._saw()

    def _may_gather(self, member: ScriptedConsumerMember, group: ConsumerGroup) -> bool:
        known = group.members.get(member.member_id)
        if known is None or not _is_at_rest(member, known):
            return False
        target = group.target_of(member.member_id)
        return self._may_aim_at(target, known) or (
            known.assigned.keys() == target.keys()
            and all(known.assigned[topic_id].keys() == set(partitions) for topic_id, partitions in target.items())
        )

    def _places(self) -> Ints:
        """The slots of the members that are played in bulk."""
        return np.flatnonzero(self._is_here)

    def _outside(self) -> list[int]:
        """The slots of all other members."""
        others: list[int] = np.flatnonzero(~self._is_here).tolist()
        return others

    def _saw(self) -> None:
        """Update when the next thing is due."""
        self._next_ms = float(self.due_ms.min(initial=np.inf))
        self._behind = int(np.count_nonzero(self.stage[self._places()]))
        self._known_ms = -np.inf

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
        member, group, world = self.members[slot], self._group(), self._world
        known = self._known(slot, group)
        before = group.members[member.member_id]
        if known != before:
            self.moves.publish(group, None, before)
            world.runtime.engine.replay(records.current_record(group, known))
        (world.unreconciled.add if known.state else world.unreconciled.discard)(known.member_id)
        world.runtime.resume_timers(self._timers(known, slot))
        self._write(slot, known)
        self.moves.remove(slot)
        self._behind -= int(self.stage[slot] != UP_TO_DATE)
        self._is_here[slot], self.due_ms[slot] = False, np.inf
        self._known_ms = -np.inf

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
        is_waiting = self.stage[places] == BEHIND
        waiting, others = places[is_waiting], places[~is_waiting]
        # The others send the next heartbeat later, but it may be before that first one arrives.
        next_ms = np.where(self.is_assigned[others], self.reacts_ms[others], self.next_beat_ms[others])
        first_ms = float(self.arrives_ms[waiting].min(initial=np.inf))
        limit_ms = min(first_ms, float(next_ms.min(initial=np.inf)) + LONGEST_TRIP_MS)
        chosen, epochs = others[next_ms <= limit_ms].tolist(), self._assigning
        chosen += waiting[self.arrives_ms[waiting] <= limit_ms].tolist()
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

    def _settled_from_ms(self) -> float:
        """The time until which, at least, some member is behind, or waits for an answer."""
        answered_ms = self._last_answer_ms()
        if answered_ms <= self._world.clock.now_ms and self._behind:
            self.catch_up()
            answered_ms = self._last_answer_ms()
        return answered_ms

    def _last_answer_ms(self) -> float:
        """When the last of the answers arrives that members wait for, or will wait for, as far as that is known."""
        if not self._behind:
            return -np.inf
        places = self._places()
        places = places[self.stage[places] != UP_TO_DATE]
        return float(
            np.where(self.is_assigned[places], self.settles_ms[places], self.replied_ms[places]).max(initial=-np.inf)
        )

    def _look(self) -> None:
        self._known_call = None
        self._look_when_known()


def _is_at_rest(member: ScriptedConsumerMember, known: ConsumerMember) -> bool:
    """Whether all a member has to do is learn of epochs. known: as the coordinator knows it."""
    return (
        member.phase is LifecyclePhase.STABLE
        and member.next_action is None
        and member.next_heartbeat is not None
        and not member.unanswered
        and member.consumes_as == member.identity
        and member.target == member.owned
        and known.state is MemberState.STABLE
        and not known.pending_revocation
        and known.classic is None
    )
