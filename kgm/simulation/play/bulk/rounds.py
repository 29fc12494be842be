"""One rebalance of a classic group, for all members at once; with a cooperative assignor also those that follow.

What each member does, and what it draws for it, is in `classic_member`: a heartbeat tells it of the rebalance, it
joins, and gives up its partitions before if the assignor is eager; at the end of the join phase it is told so, it
syncs, and it is assigned when the leader has synced. `chain` has what follows with a cooperative assignor."""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from kgm.coordinator.classic.records import current_record
from kgm.coordinator.classic.regular_round import begin_round, end_round, may_be_regular
from kgm.coordinator.contract.outcome import EXPIRATION_KEY, Millis, SetTimer, TimerKey, TimerKind, session_key
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.model.client_library import LIBRDKAFKA
from kgm.protocol.subscription import NO_GENERATION
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.simulation.play.bulk.chain import Chain
from kgm.simulation.play.bulk.claims import StickyAssignment
from kgm.simulation.play.bulk.costs import COST_OF_CATCHING_UP, cost_of_gathering, cost_of_restart, cost_of_round
from kgm.simulation.play.bulk.crowd import Crowd
from kgm.simulation.play.bulk.ledger import NOBODY
from kgm.simulation.play.bulk.owners import CrowdAssignment, LeaderAssignment
from kgm.simulation.play.bulk.streams import Floats, Ints
from kgm.simulation.play.bulk.times import RoundTimes, beats_after, first_times, learn, next_beats, slots_of
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.scripted_member import LifecyclePhase, ScriptedMember
from kgm.simulation.play.world import World

_MS_PER_MINUTE: Final = 60_000
#: Rounds are not tried any more when so many could not be played in bulk, and few could.
_MOST_FAILURES: Final = 8


#: Times that are so close to each other may be the same, worked out in two ways.
_SAME_TIME_MS: Final = 1e-3


class Rounds:
    """Plays the rebalances of one draw in bulk, as far as nothing else happens in them.

    members: all that the draw may have. played, failed: how many rebalances it has played, and could not play.
    handed_in: how many heartbeats between them. saved: how many requests more it has handled than it cost (`costs`)."""

    def __init__(self, world: World, members: Sequence[ScriptedClassicMember]) -> None:
        self.crowd = Crowd(world, members)
        self.played = self.failed = self.handed_in = self.saved = 0
        self._has_begun = False
        self._world = world
        self._group_id = world.group.group_id
        self._join_key = TimerKey(TimerKind.JOIN, self._group_id)

    def play(self, until_ms: float) -> bool:
        """A rebalance has just begun: play it to its end. until_ms: when it has to be over. False if it has to be
        played by events; then all members are scripted members again."""
        if self._is_hopeless:
            self.crowd.disperse()
            return False
        group = self._world.engine.classic_group(self._group_id)
        if group is not None and may_be_regular(group) and not self._world.in_flight and self._play(group, until_ms):
            self.played += 1
            return True
        self.failed += 1
        self.crowd.disperse()
        return False

    @property
    def _is_hopeless(self) -> bool:
        return self.failed > _MOST_FAILURES + self.played

    def _gather(self, group: ClassicGroup) -> bool:
        crowd = self.crowd
        if not crowd.is_gathered:
            if not crowd.gather(group):
                return False
            self.saved -= cost_of_gathering(len(crowd.slots), crowd.ledger.total)
        return True

    def _play(self, group: ClassicGroup, until_ms: float) -> bool:
        crowd = self.crowd
        if not self._gather(group):
            return False
        waiting = self._waiting(group)
        if waiting is None or not crowd.slots or not self._is_consumed_by_crowd():
            return False
        limit_ms = min(until_ms, self._quiet_until(group))
        for member in waiting:
            crowd.read(member)
        leader = crowd.slots.get(group.leader or "")
        if leader is None:
            leader = next(crowd.slot_of[member] for member in waiting if member.member_id == group.leader)
        if crowd.is_cooperative:
            chain = Chain(crowd, group, waiting, leader)
            if not chain.is_regular(limit_ms):
                return False
            self._carry_out_chain(group, waiting, chain)
            return True
        found = first_times(crowd, slots_of(crowd, waiting), leader)
        if found is None or found.end_ms >= limit_ms:
            return False
        self._carry_out(group, waiting, found)
        return True

    # -- as the runner of a plan sees it (`coverage.Bulk`)

    @property
    def is_settled(self) -> bool:
        return True

    def by_events(self, members: Sequence[ScriptedMember]) -> Collection[ScriptedMember]:
        return self.crowd.outside if self.crowd.is_gathered else members

    def rebalance_began(self) -> None:
        self._has_begun = True

    def plays_next(self, until_ms: float, *, is_undisturbed: bool) -> bool:
        if not self._has_begun or (is_undisturbed and self._nobody_notices_before_next()):
            return False
        self._has_begun = False
        if is_undisturbed and self.play(until_ms):
            return True
        self.disperse()
        for member in self.crowd.members:
            member.resume_heartbeats()
        return False

    def _nobody_notices_before_next(self) -> bool:
        """Whether something else happens before a member of the crowd can notice the rebalance: others stop, or join.
        Then the rebalance is played when that has happened."""
        crowd, world = self.crowd, self._world
        group, next_at = world.engine.classic_group(self._group_id), world.clock.next_at()
        if next_at is None or group is None or self._is_hopeless:
            return False
        if not crowd.is_gathered and (world.in_flight or not crowd.is_complete(group)):
            return False
        if not self._gather(group) or not crowd.slots:
            return False
        return bool(next_at < beats_after(crowd, crowd.places(), world.now_ms).min() - _SAME_TIME_MS)

    def target_changed(self, member_id: str) -> None: ...

    def ownership_changes(self) -> None: ...

    def batch_begins(self) -> None:
        crowd, world = self.crowd, self._world
        group = world.engine.classic_group(self._group_id)
        if group is None or group.state is not ClassicState.STABLE or world.in_flight or self._is_hopeless:
            return
        if crowd.is_gathered:
            crowd.admit_calm(group)
        elif crowd.is_complete(group):
            self._gather(group)

    def coordinator_acts(self) -> None:
        self.catch_up()

    def epoch_changes(self) -> None: ...

    def catch_up(self) -> None:
        """Hand in the heartbeats of calm members that are due by now."""
        if self.crowd.next_due_ms < self._world.clock.now_ms:
            count = self.crowd.hand_in_due()
            self.handed_in += count
            self.saved += count - COST_OF_CATCHING_UP

    def release(self, member: ScriptedMember) -> None:
        assert isinstance(member, ScriptedClassicMember)
        self.catch_up()
        if member.spec.group_instance_id is not None and self.crowd.is_gathered:
            # When it starts again, the coordinator looks at what it knows of all members.
            self.crowd.write_assignment()
            self.saved -= cost_of_restart(len(self.crowd.slots))
        self.crowd.release(member)

    def disperse(self) -> None:
        self.catch_up()
        self.crowd.disperse()

    # -- whether it is regular

    def _waiting(self, group: ClassicGroup) -> list[ScriptedClassicMember] | None:
        """The members whose JoinGroup waits already; None if a member is neither calm nor one of them."""
        world, crowd, found = self._world, self.crowd, []
        parked = group.soft.parked_joins
        if len(parked) + len(crowd.slots) != len(group.members):
            return None
        for member_id, request in parked.items():
            member = world.waits_for(request.ticket)
            if not isinstance(member, ScriptedClassicMember) or member.member_id != member_id or member.owned:
                return None
            if member.phase is not LifecyclePhase.JOINING or member not in crowd.slot_of or member_id in crowd.slots:
                return None
            found.append(member)
        if [*crowd.slots, *parked] != list(group.members):
            return None
        return found

    def _is_consumed_by_crowd(self) -> bool:
        crowd, consumer = self.crowd, self.crowd.ledger.consumer
        inside = np.zeros(len(crowd.ledger.names) + 1, dtype=np.bool_)
        inside[crowd.identity[crowd.places()]] = inside[NOBODY] = True
        return bool(inside[consumer].all())

    def _quiet_until(self, group: ClassicGroup) -> float:
        """Until when nothing happens but what members of the round do."""
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
        """Whether an offset may be past its retention by then."""
        engine = self._world.engine
        retention_ms = engine.settings.offsets_retention_minutes * _MS_PER_MINUTE
        offsets = engine.offsets.of(self._group_id).values()
        return any(at_ms - row.commit_timestamp_ms >= retention_ms for row in offsets)

    # -- what comes of it

    def _carry_out(self, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember], found: RoundTimes) -> None:
        world, crowd, ledger = self._world, self.crowd, self.crowd.ledger
        before = crowd.slot_of_identity(crowd.places())[ledger.consumer]
        calm, new = found.slots[found.told], found.slots[len(found.told) :]
        ledger.drop_all(self._by_identity(calm, found.join_ms[found.told]))
        crowd.sent[calm] = np.where(crowd.names_generation[calm], group.generation, NO_GENERATION)
        crowd.sent[new] = np.where(crowd.names_generation[new], crowd.generation[new], NO_GENERATION)
        world.requests += found.requests
        self._admit_all(group, waiting, found.done_ms[len(calm) :])
        assignment = self._assignment(group, waiting, found.leader, before)
        self.saved += found.requests - cost_of_round(len(found.slots), ledger.total, is_dealt=assignment.is_dealt)
        owner = assignment.owners()
        ledger.take_all(
            np.where(owner == NOBODY, NOBODY, crowd.identity[owner]), self._by_identity(found.slots, found.done_ms)
        )
        world.runtime.suspend_timers([self._join_key])
        crowd.begin_sessions(found)
        learn(crowd, found)
        crowd.set_due(found.slots, next_beats(crowd, found.slots, found.done_ms))
        self._end_round(group, waiting, found, assignment)
        crowd.extend_by_heartbeats(found.end_ms, found.slots, found.counted)
        self._go_on(found.end_ms)

    def _assignment(
        self, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember], leader: int, before: Ints
    ) -> LeaderAssignment:
        """before: for each partition the slot of the member that consumed it."""
        world, crowd, ledger = self._world, self.crowd, self.crowd.ledger
        slots, sent = crowd.slots.copy(), crowd.sent.copy()
        if not crowd.is_sticky:
            return CrowdAssignment(
                world.group, leader, slots, crowd.specs, sent, ledger.starts, ledger.total, order=crowd.order()
            )
        return StickyAssignment(
            world.group, leader, slots, crowd.specs, sent, ledger.starts, by_id=crowd.order(),
            subscribed=crowd.subscribed, before=before, generation=group.generation,
            waited={crowd.slot_of[member]: member.claims for member in waiting},
        )  # fmt: skip

    def _carry_out_chain(self, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember], chain: Chain) -> None:
        world, crowd = self._world, self.crowd
        world.requests += sum(each.times.requests for each in chain.rounds)
        self._admit_all(group, waiting, chain.waits_until)
        world.runtime.suspend_timers([self._join_key])
        for number, each in enumerate(chain.rounds):
            found = each.times
            if number:
                world.clock.now_ms = each.began_ms
                world.round_begins()
                begin_round(group, began_ms=Millis(int(each.began_ms)))
            self._end_round(group, waiting, found, each.assignment)
            self.saved += found.requests - cost_of_round(
                len(found.slots), crowd.ledger.total, is_dealt=each.assignment.is_dealt,
                asks_librdkafka=each.assignment.library == LIBRDKAFKA,
            )  # fmt: skip
        self.played += len(chain.rounds) - 1
        self._go_on(chain.end_ms)

    def _end_round(
        self,
        group: ClassicGroup,
        waiting: Sequence[ScriptedClassicMember],
        found: RoundTimes,
        assignment: LeaderAssignment,
    ) -> None:
        """In the coordinator, and in what is told of the draw."""
        world, joined_ms = self._world, Millis(int(found.joined_ms))
        newcomers = [member.member_id for member in waiting]
        end_round(group, newcomers, joined_ms=joined_ms, assigned_ms=Millis(int(found.assigned_ms)))
        world.clock.now_ms = found.assigned_ms
        world.round_ended(group.generation, len(group.members))
        self.crowd.remember(assignment)
        if world.kept_records is not None:
            self._record(group, joined_ms)

    def _go_on(self, now_ms: float) -> None:
        """By events. The broker looks for expired offsets now and then; the group has none, so nothing comes of it."""
        self._world.clock.now_ms = now_ms
        runtime, deadlines, key = self._world.runtime, self._world.engine.deadlines, EXPIRATION_KEY
        while key in deadlines and deadlines[key] <= now_ms:
            runtime.fire(SetTimer(key, deadlines[key]))
        self.crowd.look_for_next_due()

    def _by_identity(self, slots: Ints, at_ms: Floats) -> Floats:
        times = np.zeros(len(self.crowd.ledger.names))
        times[self.crowd.identity[slots]] = at_ms
        return times

    def _admit_all(self, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember], done_ms: Floats) -> None:
        """Members that wait already are played in bulk from now on. done_ms: when each has its first assignment."""
        for member, at_ms in zip(waiting, done_ms.tolist(), strict=True):
            self._admit(member, at_ms)
        self._world.answered([request.ticket for request in group.soft.parked_joins.values()])

    def _admit(self, member: ScriptedClassicMember, done_ms: float) -> None:
        self._world.unfinished.discard(member)
        if member.waited_ms is None:
            member.waited_ms = done_ms - member.started_ms
        self.crowd.admit(member)

    def _record(self, group: ClassicGroup, joined_ms: Millis) -> None:
        """The record that the coordinator would have written."""
        self.crowd.update_coordinator()
        record, _ = current_record(group, group.members.values())
        assert isinstance(record.value, GroupMetadataValue)
        record.value.current_state_timestamp = joined_ms
        assert self._world.kept_records is not None
        self._world.kept_records.append(record)
