"""One rebalance of a classic group with an eager assignor, for all members at once.

What each member does, and what it draws for it, is in `classic_member`: a heartbeat tells it of the rebalance, it gives
up its partitions and joins; at the end of the join phase it is told so, it syncs, and it is assigned when the leader
has synced."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kgm.coordinator.classic.records import current_record
from kgm.coordinator.classic.regular_round import end_round, may_be_regular
from kgm.coordinator.contract.outcome import Millis, TimerKey, TimerKind, session_key
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.protocol.subscription import NO_GENERATION
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.simulation.plan.client_library import Library
from kgm.simulation.play.bulk.crowd import Crowd
from kgm.simulation.play.bulk.ledger import NOBODY
from kgm.simulation.play.bulk.owners import CrowdAssignment
from kgm.simulation.play.bulk.streams import Floats, Ints, network_ms, reaction_ms, words
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.random_stream import RandomStream
from kgm.simulation.play.scripted_member import LifecyclePhase
from kgm.simulation.play.timing import NETWORK_MS, draw_ms
from kgm.simulation.play.world import World

#: How many numbers a member draws in a round: for its heartbeat there and back, its reaction, and its JoinGroup; then
#: for the reply, the time to think, and its SyncGroup there and back. One that waits already draws only the latter.
_DRAWN: Final = 8
_DRAWN_LATER: Final = 4
#: Rounds are not tried any more when so many could not be played in bulk, and few could.
_MOST_FAILURES: Final = 8


@dataclass(slots=True, kw_only=True)
class _Round:
    """When everything happens in a rebalance, in ms. Arrays are by member: those of the crowd, then those that wait
    already.

    slots: of the members. waiting: how many wait already. beat, join: of the crowd only. more_drawn: what the leader
    draws more than others."""

    slots: Ints
    waiting: int
    beat_ms: Floats
    join_ms: Floats
    joined_ms: float
    told_ms: Floats
    sync_ms: Floats
    assigned_ms: float
    done_ms: Floats
    leader: int
    more_drawn: int

    @property
    def end_ms(self) -> float:
        return float(self.done_ms.max())


class Rounds:
    """Plays the rebalances of one draw in bulk, as far as nothing else happens in them.

    members: all that the draw may have."""

    def __init__(self, world: World, members: Sequence[ScriptedClassicMember]) -> None:
        self.crowd = Crowd(world, members)
        self.played = self.failed = 0
        self._world = world
        self._group_id = world.group.group_id
        self._join_key = TimerKey(TimerKind.JOIN, self._group_id)
        self._other_keys = (self._join_key, TimerKey(TimerKind.OFFSET_EXPIRATION))

    def play(self, until_ms: float) -> bool:
        """A rebalance has just begun: play it to its end. until_ms: when it has to be over. False if it has to be
        played by events; then all members are scripted members again."""
        if self.failed > _MOST_FAILURES + self.played:
            self.crowd.disperse()
            return False
        group = self._world.engine.classic_group(self._group_id)
        if group is not None and may_be_regular(group) and not self._world.in_flight and self._play(group, until_ms):
            self.played += 1
            return True
        self.failed += 1
        self.crowd.disperse()
        return False

    def _play(self, group: ClassicGroup, until_ms: float) -> bool:
        crowd = self.crowd
        if not crowd.is_gathered and not crowd.gather(group):
            return False
        waiting = self._waiting(group)
        if waiting is None or not crowd.slots or not self._is_consumed_by_crowd():
            return False
        found = self._times(group, waiting)
        if found is None or found.end_ms >= min(until_ms, self._quiet_until(group)):
            return False
        self._carry_out(group, waiting, found)
        return True

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
        world, crowd = self._world, self.crowd
        crowd.stop_calls()
        deadlines = world.engine.deadlines
        others = [deadlines[key] for key in self._other_keys if key in deadlines]
        if len(deadlines) != len(others) + len(group.soft.parked_joins):
            return 0.0
        others += [deadlines[session_key(self._group_id, member_id)] for member_id in group.soft.parked_joins]
        next_at = world.clock.next_at()
        return min(others if next_at is None else [*others, next_at])

    # -- when everything happens

    def _times(self, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember]) -> _Round | None:
        """None if a member would do more than that."""
        crowd, now_ms, pace = self.crowd, self._world.clock.now_ms, self._world.timing.pace
        calm = crowd.places()
        for member in waiting:
            crowd.read(member)
        new: Ints = np.array([crowd.slot_of[member] for member in waiting], dtype=np.int64)
        slots = np.concatenate([calm, new])
        first = words(crowd.keys[calm], crowd.drawn[calm], _DRAWN)
        later = np.concatenate([first[4:], words(crowd.keys[new], crowd.drawn[new], _DRAWN_LATER)], axis=1)
        period_ms, last_ms = crowd.period_ms[calm], crowd.last_beat_ms[calm]
        last_ms = last_ms + np.maximum((now_ms - last_ms) // period_ms, 0.0) * period_ms
        beat_ms = np.maximum(last_ms + period_ms, now_ms)
        heard_ms = np.maximum(beat_ms + network_ms(first[0]), crowd.link_busy_ms[calm])
        react_ms = pace * reaction_ms(first[2], crowd.react_least[calm], crowd.react_span[calm])
        join_ms = heard_ms + network_ms(first[1]) + react_ms
        link_ms = crowd.link_busy_ms[slots]
        link_ms[: len(calm)] = np.maximum(join_ms + network_ms(first[3]), heard_ms)
        joined_ms = float(link_ms[: len(calm)].max())
        told_ms = joined_ms + network_ms(later[0])
        sync_ms = told_ms + pace * reaction_ms(later[1], crowd.think_least[slots], crowd.think_span[slots])
        travel_ms, back_ms = network_ms(later[2]), network_ms(later[3])
        leader = crowd.slots.get(group.leader or "")
        if leader is None:
            leader = next(crowd.slot_of[member] for member in waiting if member.member_id == group.leader)
        at = int(np.flatnonzero(slots == leader)[0])
        more_drawn = 0
        if crowd.members[leader].profile.library is Library.LIBRDKAFKA:
            more_drawn = 1
            stream = self._stream(leader, _DRAWN - 2 if at < len(calm) else _DRAWN_LATER - 2)
            member = crowd.members[leader]
            before_ms = pace * float(reaction_ms(later[1, at : at + 1], *crowd.think(leader))[0])
            sync_ms[at] = told_ms[at] + (before_ms + member.takes_ms_of(stream, member.profile.think))
            travel_ms[at], back_ms[at] = draw_ms(stream, NETWORK_MS), draw_ms(stream, NETWORK_MS)
        sync_ms = np.maximum(sync_ms + travel_ms, link_ms)
        assigned_ms = float(sync_ms[at])
        done_ms = np.maximum(sync_ms, assigned_ms) + back_ms
        session_ms = self._world.group.session_timeout_ms
        beats_again_ms = np.where(crowd.beats_while_syncing[slots], told_ms + crowd.period_ms[slots], np.inf)
        is_regular = (
            bool((beat_ms + period_ms > join_ms).all())
            and bool((beats_again_ms > done_ms).all())
            and bool((crowd.deadline_ms[calm] > heard_ms).all())
            and float(done_ms.max()) < float(heard_ms.min()) + session_ms - 1.0
            and int(np.count_nonzero(sync_ms == assigned_ms)) == 1
        )
        if not is_regular:
            return None
        return _Round(
            slots=slots, waiting=len(new), beat_ms=beat_ms, join_ms=join_ms, joined_ms=joined_ms, told_ms=told_ms,
            sync_ms=sync_ms, assigned_ms=assigned_ms, done_ms=done_ms, leader=leader, more_drawn=more_drawn,
        )  # fmt: skip

    def _stream(self, slot: int, ahead: int) -> RandomStream:
        """The stream of a member after so many more numbers."""
        stream = RandomStream.of(self.crowd.members[slot].chance.key)
        stream.drawn = int(self.crowd.drawn[slot]) + ahead
        return stream

    # -- what comes of it

    def _carry_out(self, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember], found: _Round) -> None:
        world, crowd, ledger = self._world, self.crowd, self.crowd.ledger
        calm = found.slots[: len(found.slots) - found.waiting]
        ledger.drop_all(self._by_identity(calm, found.join_ms))
        crowd.sent[calm] = np.where(crowd.names_generation[calm], group.generation, NO_GENERATION)
        world.requests += 3 * len(calm) + len(waiting)
        for member, done_ms in zip(waiting, found.done_ms[len(calm) :].tolist(), strict=True):
            self._admit(member, done_ms)
        world.answered([request.ticket for request in group.soft.parked_joins.values()])
        library = crowd.members[found.leader].profile.library
        assignment = CrowdAssignment(
            world.group, library, crowd.slots.copy(), crowd.specs, crowd.sent.copy(), crowd.sticky_data(), crowd.order()
        )
        owner = assignment.owners(ledger.starts, ledger.total)
        ledger.take_all(
            np.where(owner == NOBODY, NOBODY, crowd.identity[owner]), self._by_identity(found.slots, found.done_ms)
        )
        joined_ms, assigned_ms = Millis(int(found.joined_ms)), Millis(int(found.assigned_ms))
        newcomers = [member.member_id for member in waiting]
        end_round(group, newcomers, joined_ms=joined_ms, assigned_ms=assigned_ms)
        self._extend_sessions(found)
        self._update(calm, found)
        world.clock.now_ms = found.assigned_ms
        world.round_ended(group.generation, len(group.members))
        crowd.remember(assignment)
        if world.kept_records is not None:
            self._record(group, joined_ms)
        while len(due := found.slots[crowd.due_ms[found.slots] < found.end_ms]):
            crowd.hand_in(due)
        world.clock.now_ms = found.end_ms
        crowd.schedule_due()

    def _by_identity(self, slots: Ints, at_ms: Floats) -> Floats:
        times = np.zeros(len(self.crowd.ledger.names))
        times[self.crowd.identity[slots]] = at_ms
        return times

    def _admit(self, member: ScriptedClassicMember, done_ms: float) -> None:
        crowd, slot = self.crowd, self.crowd.slot_of[member]
        crowd.sent[slot] = member.generation if crowd.names_generation[slot] else NO_GENERATION
        self._world.unfinished.discard(member)
        if member.waited_ms is None:
            member.waited_ms = done_ms - member.started_ms
        crowd.admit(member)

    def _extend_sessions(self, found: _Round) -> None:
        """Sessions begin again at the end of the join phase, and of those that have synced by then when the leader
        has."""
        self._world.runtime.suspend_timers([self._join_key])
        has_synced = found.sync_ms <= found.assigned_ms
        self.crowd.extend_sessions(found.slots, int(found.joined_ms))
        self.crowd.extend_sessions(found.slots[has_synced], int(found.assigned_ms))

    def _update(self, calm: Ints, found: _Round) -> None:
        """What the members know when they have been assigned."""
        crowd, slots = self.crowd, found.slots
        crowd.drawn[calm] += np.uint64(_DRAWN)
        crowd.drawn[slots[len(calm) :]] += np.uint64(_DRAWN_LATER)
        crowd.drawn[found.leader] += np.uint64(found.more_drawn)
        crowd.last_beat_ms[calm] = crowd.extended_ms[calm] = found.beat_ms
        crowd.has_beaten[calm] = True
        crowd.last_join_ms[calm] = found.join_ms
        crowd.link_busy_ms[slots] = found.sync_ms
        at_once = crowd.beats_while_syncing[slots]
        crowd.last_beat_ms[slots[at_once]] = found.told_ms[at_once]
        crowd.has_beaten[slots[at_once]] = True
        next_ms = crowd.last_beat_ms[slots] + crowd.period_ms[slots]
        first_ms = np.where(crowd.has_beaten[slots], np.maximum(found.done_ms, next_ms), found.done_ms)
        crowd.set_due(slots, np.where(at_once, next_ms, first_ms))

    def _record(self, group: ClassicGroup, joined_ms: Millis) -> None:
        """The record that the coordinator would have written."""
        self.crowd.update_coordinator()
        record, _ = current_record(group, group.members.values())
        assert isinstance(record.value, GroupMetadataValue)
        record.value.current_state_timestamp = joined_ms
        assert self._world.kept_records is not None
        self._world.kept_records.append(record)
