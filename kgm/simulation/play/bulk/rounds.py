"""Rebalances of a classic group, played for all members together.

What each member does, and which random numbers it draws for that, is in `classic_member`: a heartbeat informs it of the
rebalance; it gives up its partitions if the assignor is eager, and joins; it is notified at the end of the join phase,
and syncs; and it gets its assignment when the leader has synced.

Members of a cooperative group keep their partitions while they join. Members that are assigned less than they have give
up the rest and join again immediately, which begins the next rebalance while others may still be waiting for their
assignments. `CooperativeRounds` plays rebalances until no member has anything to give up."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kgm.coordinator.classic.records import current_record
from kgm.coordinator.classic.regular_round import begin_round, end_round, may_be_regular
from kgm.coordinator.contract.outcome import EXPIRATION_KEY, Millis, SetTimer, TimerKey, TimerKind, session_key
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.model.assignment import Partitions
from kgm.model.client_library import LIBRDKAFKA
from kgm.protocol.struct import Message
from kgm.protocol.subscription import NO_GENERATION
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.record import Record
from kgm.simulation.play.bulk.arrays import (
    COST_OF_CATCHING_UP,
    MOST_ROUNDS_AT_ONCE,
    NO_MEMBER,
    Flags,
    Floats,
    Ints,
    cost_of_gathering,
    cost_of_restart,
    cost_of_round,
)
from kgm.simulation.play.bulk.assignments import (
    CooperativeAssignment,
    EagerAssignment,
    LeaderAssignment,
    StickyAssignment,
)
from kgm.simulation.play.bulk.round_times import (
    Rejoins,
    RoundTimes,
    first_times,
    learn,
    rejoins_after,
    slots_of,
    times_after,
)
from kgm.simulation.play.bulk.stable_members import StableMemberArrays
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.scripted_member import LifecyclePhase, ScriptedMember
from kgm.simulation.play.world import World

_MS_PER_MINUTE: Final = 60_000
#: Rounds are no longer tried after this many could not be played in bulk while few could.
_MOST_FAILURES: Final = 8
#: Times this close to each other may be the same time, computed in two ways.
_SAME_TIME_MS: Final = 1e-3


@dataclass(slots=True, kw_only=True)
class CooperativeRound:
    """One of the rounds. began_ms: when a member joined again; for the first round, when the rebalance began."""

    began_ms: float
    times: RoundTimes
    assignment: CooperativeAssignment


class CooperativeRounds:
    """Consecutive rounds. They are computed on the arrays, and undone if one of them is not regular.

    slots: of the members, with those that are already waiting last. waits_until: when each of the waiting ones has its
    first assignment."""

    def __init__(
        self, arrays: StableMemberArrays, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember], leader: int
    ) -> None:
        self.rounds: list[CooperativeRound] = []
        self._arrays, self._group, self._leader = arrays, group, leader
        self.slots = slots_of(arrays, waiting)
        self._stable = len(arrays.slots)
        self._slot_of_id = arrays.slots | {member.member_id: arrays.slot_of[member] for member in waiting}
        self._by_id: Ints | None = None
        if arrays.is_alike:
            self._by_id = arrays.by_id_with(waiting)
        self.waits_until: Floats = np.full(len(waiting), np.inf)
        for member in waiting:
            arrays.identity[arrays.slot_of[member]] = arrays.ledger.number_of(member.identity)
        self._slot_of_identity = arrays.slot_of_identity(self.slots)
        self._place_of_slot: Ints = np.full(len(arrays.members) + 1, NO_MEMBER, dtype=np.int64)
        self._place_of_slot[self.slots] = np.arange(len(self.slots))

    @property
    def end_ms(self) -> float:
        return self.rounds[-1].times.end_ms

    def is_regular(self, limit_ms: float) -> bool:
        """Compute the rounds. False if one of them would be over at limit_ms or later, or does not follow the rules
        above; then the arrays are as before."""
        saved = self._arrays.save()
        if self._compute(limit_ms):
            return True
        self._arrays.restore(saved)
        return False

    def _compute(self, limit_ms: float) -> bool:
        began_ms = self._arrays.world.clock.now_ms
        found = first_times(self._arrays, self.slots, self._leader)
        while found is not None and found.end_ms < limit_ms and len(self.rounds) < MOST_ROUNDS_AT_ONCE:
            rejoins = self._assign(found, began_ms)
            if rejoins is None:
                return False
            if rejoins.begins_ms == np.inf:
                return True
            began_ms = rejoins.begins_ms
            found = times_after(self._arrays, found, rejoins, self._group.rebalance_timeout_ms)
        return False

    # -- what is assigned

    def _assign(self, found: RoundTimes, began_ms: float) -> Rejoins | None:
        """Carry out the result of a round in the arrays. None if it is not regular."""
        arrays, slots, ledger = self._arrays, self.slots, self._arrays.ledger
        arrays.sent[slots] = np.where(
            arrays.names_generation[slots], arrays.generation[slots], arrays.remembered[slots]
        )
        before = self._slot_of_identity[ledger.consumer]
        assignment = CooperativeAssignment(
            arrays.world.group, self._leader, self._slot_of_id, arrays.specs,
            arrays.sent.copy(), ledger.starts, by_id=self._by_id, subscribed=arrays.subscribed, before=before,
        )  # fmt: skip
        after = assignment.owners()
        moves = after != before
        learn(arrays, found)
        rejoins = rejoins_after(arrays, found, np.unique(self._place_of_slot[before[moves & (before >= 0)]]))
        if rejoins is None:
            return None
        adopting: Flags = np.zeros(len(arrays.members) + 1, dtype=np.bool_)
        adopting[slots[rejoins.adopts]] = True
        lost, gained = moves & adopting[before], moves & adopting[after]
        if bool((gained & (before >= 0)).any()):
            return None  # a partition would have two consumers
        at_ms = np.zeros(len(ledger.names))
        at_ms[arrays.identity[slots]] = found.done_ms
        ledger.exchange(lost, gained, arrays.identity[after], at_ms)
        arrays.generation[slots] = self._group.generation + len(self.rounds) + 1
        arrays.remembered[slots[rejoins.adopts]] = arrays.generation[slots[rejoins.adopts]]
        has_learnt = rejoins.adopts[self._stable :] & (self.waits_until == np.inf)
        self.waits_until[has_learnt] = found.done_ms[self._stable :][has_learnt]
        self._beat(found, rejoins)
        self.rounds.append(CooperativeRound(began_ms=began_ms, times=found, assignment=assignment))
        return rejoins

    def _beat(self, found: RoundTimes, rejoins: Rejoins) -> None:
        """Sessions are extended, and stable members send heartbeats, until the next round begins or this one ends."""
        arrays, slots = self._arrays, self.slots
        found.begin_sessions(arrays)
        until_ms = found.end_ms if rejoins.begins_ms == np.inf else rejoins.begins_ms
        is_stable = rejoins.adopts & (found.done_ms < rejoins.begins_ms)
        is_stable[rejoins.revoking] = False
        stable = slots[is_stable]
        arrays.set_due(stable, arrays.next_beats(stable, found.done_ms[is_stable]))
        arrays.extend_by_heartbeats(until_ms, stable, found.counted)


class Rounds:
    """Plays the rebalances of one draw in bulk, as long as nothing else happens during them.

    members: all that the draw may have. played, failed: how many rebalances it has played, and how many it could not
    play. heartbeats_applied, saved, most_rebalances: see `BulkPlayer`."""

    most_rebalances = MOST_ROUNDS_AT_ONCE

    def __init__(self, world: World, members: Sequence[ScriptedClassicMember]) -> None:
        self.arrays = StableMemberArrays(world, members)
        self.played = self.failed = self.heartbeats_applied = self.saved = 0
        self._has_begun = False
        self._world = world
        self._group_id = world.group.group_id
        self._join_key = TimerKey(TimerKind.JOIN, self._group_id)

    def play(self, until_ms: float) -> bool:
        """A rebalance has just begun: play it to its end. until_ms: when it must be over. False if it must be played by
        events; then all members are scripted members again."""
        if self._is_hopeless:
            self.arrays.to_scripted_members()
            return False
        group = self._world.engine.classic_group(self._group_id)
        if group is not None and may_be_regular(group) and not self._world.in_flight and self._play(group, until_ms):
            self.played += 1
            return True
        self.failed += 1
        self.arrays.to_scripted_members()
        return False

    @property
    def _is_hopeless(self) -> bool:
        return self.failed > _MOST_FAILURES + self.played

    def _gather(self, group: ClassicGroup) -> bool:
        arrays = self.arrays
        if not arrays.is_gathered:
            if not arrays.gather(group):
                return False
            self.saved -= cost_of_gathering(len(arrays.slots), arrays.ledger.total)
        return True

    def _play(self, group: ClassicGroup, until_ms: float) -> bool:
        arrays = self.arrays
        if not self._gather(group):
            return False
        waiting = self._waiting(group)
        if waiting is None or not arrays.slots or not self._is_consumed_by_stable():
            return False
        limit_ms = min(until_ms, self._quiet_until(group))
        for member in waiting:
            arrays.read(member)
        leader = arrays.slots.get(group.leader or "")
        if leader is None:
            leader = next(arrays.slot_of[member] for member in waiting if member.member_id == group.leader)
        if len(arrays.members[leader].known_topics) < len(self._world.group.topics):
            return False  # it leaves some out
        if arrays.is_cooperative:
            cooperative = CooperativeRounds(arrays, group, waiting, leader)
            if not cooperative.is_regular(limit_ms):
                return False
            self._carry_out_cooperative(group, waiting, cooperative)
            return True
        found = first_times(arrays, slots_of(arrays, waiting), leader)
        if found is None or found.end_ms >= limit_ms:
            return False
        self._carry_out(group, waiting, found)
        return True

    # -- as the runner of a plan sees it (`bulk.BulkPlayer`)

    @property
    def is_settled(self) -> bool:
        return True

    def by_events(self, members: Sequence[ScriptedMember]) -> Collection[ScriptedMember]:
        return self.arrays.outside if self.arrays.is_gathered else members

    def rebalance_began(self) -> None:
        self._has_begun = True

    def plays_next(self, until_ms: float, *, is_undisturbed: bool) -> bool:
        if not self._has_begun or (is_undisturbed and self._no_member_notices_before_next()):
            return False
        self._has_begun = False
        if is_undisturbed and self.play(until_ms):
            return True
        self.to_scripted_members()
        for member in self.arrays.members:
            member.resume_heartbeats()
        return False

    def _no_member_notices_before_next(self) -> bool:
        """Whether something else happens (others stop or join) before one of the stable members can notice the
        rebalance. If so, the rebalance is played after that."""
        arrays, world = self.arrays, self._world
        group, next_at = world.engine.classic_group(self._group_id), world.clock.next_at()
        if next_at is None or group is None or self._is_hopeless:
            return False
        if not arrays.is_gathered and (world.in_flight or not arrays.is_complete(group)):
            return False
        if not self._gather(group) or not arrays.slots:
            return False
        return bool(next_at < arrays.beats_after(arrays.places(), world.now_ms).min() - _SAME_TIME_MS)

    def batch_begins(self) -> None:
        arrays, world = self.arrays, self._world
        group = world.engine.classic_group(self._group_id)
        if group is None or group.state is not ClassicState.STABLE or world.in_flight or self._is_hopeless:
            return
        if arrays.is_gathered:
            arrays.admit_stable(group)
        elif arrays.is_complete(group):
            self._gather(group)

    def coordinator_acts(self, message: Message | None) -> None:  # noqa: ARG002
        self.catch_up()

    def coordinator_writes(self, records: Sequence[Record]) -> None: ...

    def catch_up(self) -> None:
        """Apply the heartbeats of stable members that are due by now."""
        if self.arrays.next_due_ms < self._world.clock.now_ms:
            count = self.arrays.apply_due_heartbeats()
            self.heartbeats_applied += count
            self.saved += count - COST_OF_CATCHING_UP

    def release(self, member: ScriptedMember) -> None:
        assert isinstance(member, ScriptedClassicMember)
        self.catch_up()
        if member.spec.group_instance_id is not None and self.arrays.is_gathered:
            # When the member starts again, the coordinator reads its data of all members.
            self.arrays.write_assignment()
            self.saved -= cost_of_restart(len(self.arrays.slots))
        self.arrays.release(member)

    def pending_assignments(self) -> Mapping[str, Partitions]:
        self.catch_up()
        return self.arrays.pending_assignments()

    def to_scripted_members(self) -> None:
        self.catch_up()
        self.arrays.to_scripted_members()

    # -- whether it is regular

    def _waiting(self, group: ClassicGroup) -> list[ScriptedClassicMember] | None:
        """The members whose JoinGroup is already waiting; None if a member is neither stable nor waiting."""
        world, arrays, found = self._world, self.arrays, []
        parked = group.soft.parked_joins
        if len(parked) + len(arrays.slots) != len(group.members):
            return None
        for member_id, request in parked.items():
            member = world.waits_for(request.ticket)
            if not isinstance(member, ScriptedClassicMember) or member.member_id != member_id or member.owned:
                return None
            if member.phase is not LifecyclePhase.JOINING or member not in arrays.slot_of or member_id in arrays.slots:
                return None
            found.append(member)
        if [*arrays.slots, *parked] != list(group.members):
            return None
        return found

    def _is_consumed_by_stable(self) -> bool:
        arrays, consumer = self.arrays, self.arrays.ledger.consumer
        inside = np.zeros(len(arrays.ledger.names) + 1, dtype=np.bool_)
        inside[arrays.identity[arrays.places()]] = inside[NO_MEMBER] = True
        return bool(inside[consumer].all())

    def _quiet_until(self, group: ClassicGroup) -> float:
        """The time until which nothing happens except what the members of the round do."""
        world = self._world
        deadlines = world.engine.deadlines
        others = [deadlines[self._join_key]] if self._join_key in deadlines else []
        has_expiration = EXPIRATION_KEY in deadlines
        if len(deadlines) != len(others) + has_expiration + len(group.soft.parked_joins):
            return 0.0
        if has_expiration and self._have_offsets_expired(deadlines[EXPIRATION_KEY]):
            others.append(deadlines[EXPIRATION_KEY])
        others += [deadlines[session_key(self._group_id, member_id)] for member_id in group.soft.parked_joins]
        next_at = world.clock.next_at()
        return min(others if next_at is None else [*others, next_at])

    def _have_offsets_expired(self, at_ms: Millis) -> bool:
        """Whether an offset may have passed its retention by then."""
        engine = self._world.engine
        retention_ms = engine.settings.offsets_retention_minutes * _MS_PER_MINUTE
        offsets = engine.offsets.of(self._group_id).values()
        return any(at_ms - row.commit_timestamp_ms >= retention_ms for row in offsets)

    # -- the result

    def _carry_out(self, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember], found: RoundTimes) -> None:
        world, arrays, ledger = self._world, self.arrays, self.arrays.ledger
        before = arrays.slot_of_identity(arrays.places())[ledger.consumer]
        stable, new = found.slots[found.told], found.slots[len(found.told) :]
        ledger.drop_all(self._by_identity(stable, found.join_ms[found.told]))
        arrays.sent[stable] = np.where(arrays.names_generation[stable], group.generation, NO_GENERATION)
        arrays.sent[new] = np.where(arrays.names_generation[new], arrays.generation[new], NO_GENERATION)
        world.requests += found.requests
        self._admit_all(group, waiting, found.done_ms[len(stable) :])
        assignment = self._assignment(group, waiting, found.leader, before)
        self.saved += found.requests - cost_of_round(len(found.slots), ledger.total, is_computed=assignment.is_computed)
        owner = assignment.owners()
        ledger.take_all(
            np.where(owner == NO_MEMBER, NO_MEMBER, arrays.identity[owner]),
            self._by_identity(found.slots, found.done_ms),
        )
        world.runtime.suspend_timers([self._join_key])
        found.begin_sessions(arrays)
        learn(arrays, found)
        arrays.set_due(found.slots, arrays.next_beats(found.slots, found.done_ms))
        self._end_round(group, waiting, found, assignment)
        arrays.extend_by_heartbeats(found.end_ms, found.slots, found.counted)
        self._go_on(found.end_ms)

    def _assignment(
        self, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember], leader: int, before: Ints
    ) -> LeaderAssignment:
        """before: for each partition the slot of the member that consumed it."""
        world, arrays, ledger = self._world, self.arrays, self.arrays.ledger
        slots, sent = arrays.slots.copy(), arrays.sent.copy()
        if not arrays.is_sticky:
            return EagerAssignment(
                world.group, leader, slots, arrays.specs, sent, ledger.starts, ledger.total, order=arrays.order()
            )
        return StickyAssignment(
            world.group, leader, slots, arrays.specs, sent, ledger.starts, by_id=arrays.order(),
            subscribed=arrays.subscribed, before=before, generation=group.generation,
            waited={arrays.slot_of[member]: member.claims for member in waiting},
        )  # fmt: skip

    def _carry_out_cooperative(
        self, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember], cooperative: CooperativeRounds
    ) -> None:
        world, arrays = self._world, self.arrays
        world.requests += sum(each.times.requests for each in cooperative.rounds)
        self._admit_all(group, waiting, cooperative.waits_until)
        world.runtime.suspend_timers([self._join_key])
        for number, each in enumerate(cooperative.rounds):
            found = each.times
            if number:
                world.clock.now_ms = each.began_ms
                world.round_begins()
                begin_round(group, began_ms=Millis(int(each.began_ms)))
            self._end_round(group, waiting, found, each.assignment)
            self.saved += found.requests - cost_of_round(
                len(found.slots), arrays.ledger.total, is_computed=each.assignment.is_computed,
                asks_librdkafka=each.assignment.library == LIBRDKAFKA,
            )  # fmt: skip
        self.played += len(cooperative.rounds) - 1
        self._go_on(cooperative.end_ms)

    def _end_round(
        self,
        group: ClassicGroup,
        waiting: Sequence[ScriptedClassicMember],
        found: RoundTimes,
        assignment: LeaderAssignment,
    ) -> None:
        """End the round in the coordinator, and in the draw's timeline and counts."""
        world, joined_ms = self._world, Millis(int(found.joined_ms))
        newcomers = [member.member_id for member in waiting]
        end_round(group, newcomers, joined_ms=joined_ms, assigned_ms=Millis(int(found.assigned_ms)))
        world.clock.now_ms = found.assigned_ms
        world.round_ended(group.generation, len(group.members))
        self.arrays.remember(assignment)
        if world.kept_records is not None:
            self._record(group, joined_ms)

    def _go_on(self, now_ms: float) -> None:
        """Continue by events from `now_ms` on. The broker looks for expired offsets now and then; the group has none,
        so that has no effect."""
        self._world.clock.now_ms = now_ms
        runtime, deadlines, key = self._world.runtime, self._world.engine.deadlines, EXPIRATION_KEY
        while key in deadlines and deadlines[key] <= now_ms:
            runtime.fire(SetTimer(key, deadlines[key]))
        self.arrays.look_for_next_due()

    def _by_identity(self, slots: Ints, at_ms: Floats) -> Floats:
        times = np.zeros(len(self.arrays.ledger.names))
        times[self.arrays.identity[slots]] = at_ms
        return times

    def _admit_all(self, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember], done_ms: Floats) -> None:
        """Members that were waiting are played in bulk from now on. done_ms: when each has its first assignment."""
        for member, at_ms in zip(waiting, done_ms.tolist(), strict=True):
            self._admit(member, at_ms)
        self._world.answered([request.ticket for request in group.soft.parked_joins.values()])

    def _admit(self, member: ScriptedClassicMember, done_ms: float) -> None:
        self._world.unfinished.discard(member)
        if member.waited_ms is None:
            member.waited_ms = done_ms - member.started_ms
        self.arrays.admit(member)

    def _record(self, group: ClassicGroup, joined_ms: Millis) -> None:
        """The record that the coordinator would have written."""
        self.arrays.update_coordinator()
        record, _ = current_record(group, group.members.values())
        assert isinstance(record.value, GroupMetadataValue)
        record.value.current_state_timestamp = joined_ms
        assert self._world.kept_records is not None
        self._world.kept_records.append(record)
