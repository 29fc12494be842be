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
from kgm.coordinator.contract.outcome import Millis, SetTimer, TimerKey, TimerKind, session_key
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.protocol.subscription import NO_GENERATION
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.simulation.plan.client_library import Library
from kgm.simulation.play.bulk.costs import cost_of_gathering, cost_of_round
from kgm.simulation.play.bulk.crowd import Crowd
from kgm.simulation.play.bulk.ledger import NOBODY
from kgm.simulation.play.bulk.owners import CrowdAssignment
from kgm.simulation.play.bulk.stragglers import join_late, sync_late
from kgm.simulation.play.bulk.streams import Floats, Ints, Words, network_ms, reaction_ms, words
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.random_stream import RandomStream
from kgm.simulation.play.scripted_member import LifecyclePhase
from kgm.simulation.play.timing import NETWORK_MS, draw_ms
from kgm.simulation.play.world import World

#: How many numbers a member draws until its JoinGroup arrives: for its heartbeat there and back, its reaction, and the
#: JoinGroup. Then, until it consumes: for the reply, the time to think, and its SyncGroup there and back.
_DRAWN_TO_JOIN: Final = 4
_DRAWN_TO_THINK, _DRAWN_TO_SYNC, _DRAWN_TO_CONSUME = 2, 3, 4
#: Rounds are not tried any more when so many could not be played in bulk, and few could.
_MOST_FAILURES: Final = 8


@dataclass(slots=True, kw_only=True)
class _Round:
    """When everything happens in a rebalance, in ms. Arrays are by member: those of the crowd, then those that wait
    already.

    slots: of the members. calm: how many of them are of the crowd. beat, join: the last heartbeat before, and
    JoinGroup. link: see `Crowd`. drawn: how many numbers have been drawn by then. quiet: when the last reply to a
    heartbeat arrives. last_beat: the last heartbeat of those that heartbeat while they sync. counted: sessions that are
    extended by heartbeats while members sync, by slot. requests: how many there are."""

    slots: Ints
    calm: int
    beat_ms: Floats
    join_ms: Floats
    joined_ms: float
    last_beat_ms: Floats
    sync_ms: Floats
    assigned_ms: float
    done_ms: Floats
    link_ms: Floats
    quiet_ms: Floats
    drawn: Words
    leader: int
    requests: int
    counted: list[tuple[float, int]]

    @property
    def end_ms(self) -> float:
        return float(max(self.done_ms.max(), self.quiet_ms.max()))


class Rounds:
    """Plays the rebalances of one draw in bulk, as far as nothing else happens in them.

    members: all that the draw may have. played, failed: how many rebalances it has played, and could not play. saved:
    how many requests more it has handled than it cost (`costs`)."""

    def __init__(self, world: World, members: Sequence[ScriptedClassicMember]) -> None:
        self.crowd = Crowd(world, members)
        self.played = self.failed = self.saved = 0
        self._world = world
        self._group_id = world.group.group_id
        self._join_key = TimerKey(TimerKind.JOIN, self._group_id)
        self._expiration_key = TimerKey(TimerKind.OFFSET_EXPIRATION)

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
        if not crowd.is_gathered:
            if not crowd.gather(group):
                return False
            self.saved -= cost_of_gathering(len(crowd.slots), crowd.ledger.total)
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
        others = [deadlines[self._join_key]] if self._join_key in deadlines else []
        has_expiration = self._expiration_key in deadlines
        if len(deadlines) != len(others) + has_expiration + len(group.soft.parked_joins):
            return 0.0
        if has_expiration and world.engine.offsets.of(self._group_id):
            others.append(deadlines[self._expiration_key])
        others += [deadlines[session_key(self._group_id, member_id)] for member_id in group.soft.parked_joins]
        next_at = world.clock.next_at()
        return min(others if next_at is None else [*others, next_at])

    # -- when everything happens

    def _times(self, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember]) -> _Round | None:
        """None if a member would do more than that."""
        crowd = self.crowd
        for member in waiting:
            crowd.read(member)
        new: Ints = np.array([crowd.slot_of[member] for member in waiting], dtype=np.int64)
        slots = np.concatenate([crowd.places(), new])
        leader = crowd.slots.get(group.leader or "")
        if leader is None:
            leader = next(crowd.slot_of[member] for member in waiting if member.member_id == group.leader)
        beats = np.zeros(len(slots))
        found = _Round(
            slots=slots, calm=len(crowd.slots), beat_ms=beats, join_ms=beats, joined_ms=0.0, last_beat_ms=beats,
            sync_ms=beats, assigned_ms=0.0, done_ms=beats, link_ms=crowd.link_busy_ms[slots], quiet_ms=beats,
            drawn=crowd.drawn[slots], leader=leader, requests=3 * len(crowd.slots) + len(new), counted=[],
        )  # fmt: skip
        return found if self._join(found) and self._sync(found) else None

    def _join(self, found: _Round) -> bool:
        """The join phase. False if a session would end in it."""
        crowd, now_ms, calm = self.crowd, self._world.clock.now_ms, found.slots[: found.calm]
        drawn, period_ms, last_ms = crowd.drawn[calm], crowd.period_ms[calm], crowd.last_beat_ms[calm]
        first = words(crowd.keys[calm], drawn, _DRAWN_TO_JOIN)
        last_ms = last_ms + np.maximum((now_ms - last_ms) // period_ms, 0.0) * period_ms
        beat_ms = np.maximum(last_ms + period_ms, now_ms)
        heard_ms = np.maximum(beat_ms + network_ms(first[0]), crowd.link_busy_ms[calm])
        react_ms = reaction_ms(first[2], crowd.react_least[calm], crowd.react_span[calm])
        join_ms = heard_ms + network_ms(first[1]) + self._world.timing.pace * react_ms
        link_ms = np.maximum(join_ms + network_ms(first[3]), heard_ms)
        found.drawn[: found.calm] += np.uint64(_DRAWN_TO_JOIN)
        found.quiet_ms = np.zeros(len(found.slots))
        for at in np.flatnonzero(beat_ms + period_ms <= join_ms).tolist():
            slot = int(calm[at])
            stream = self._stream(slot, int(drawn[at]))
            late = join_late(crowd.members[slot], stream, float(beat_ms[at]), float(crowd.link_busy_ms[slot]))
            beat_ms[at], join_ms[at], link_ms[at] = late.beat_ms, late.join_ms, late.arrives_ms
            heard_ms[at], found.quiet_ms[at], found.drawn[at] = late.heard_ms, late.quiet_ms, stream.drawn
            found.requests += late.beats - 1
        found.beat_ms, found.join_ms = beat_ms, join_ms
        found.link_ms[: found.calm] = link_ms
        found.joined_ms = float(link_ms.max())
        session_ms = self._world.group.session_timeout_ms
        is_safe = bool((crowd.deadline_ms[calm] > heard_ms).all())
        return is_safe and found.joined_ms < float(heard_ms.min()) + session_ms - 1.0

    def _sync(self, found: _Round) -> bool:
        """The sync phase. False if it depends on more than times."""
        crowd, slots, pace = self.crowd, found.slots, self._world.timing.pace
        later = words(crowd.keys[slots], found.drawn, _DRAWN_TO_CONSUME)
        told_ms = found.joined_ms + network_ms(later[0])
        think_ms = pace * reaction_ms(later[1], crowd.think_least[slots], crowd.think_span[slots])
        travel_ms, back_ms = network_ms(later[2]), network_ms(later[3])
        drawn = found.drawn
        found.drawn = drawn + np.uint64(_DRAWN_TO_CONSUME)
        at, leader = int(np.flatnonzero(slots == found.leader)[0]), crowd.members[found.leader]
        if leader.profile.library is Library.LIBRDKAFKA:
            stream = self._stream(found.leader, int(drawn[at]) + _DRAWN_TO_THINK)
            think_ms[at] += leader.takes_ms_of(stream, leader.profile.think)
            travel_ms[at], back_ms[at] = draw_ms(stream, NETWORK_MS), draw_ms(stream, NETWORK_MS)
            found.drawn[at] = stream.drawn
        sync_ms = np.maximum(told_ms + think_ms + travel_ms, found.link_ms)
        assigned_ms = float(sync_ms[at])
        done_ms = np.maximum(sync_ms, assigned_ms) + back_ms
        found.last_beat_ms, found.link_ms = told_ms.copy(), sync_ms.copy()
        period_ms, told_again_ms = crowd.period_ms[slots], found.quiet_ms.copy()
        again_ms = np.where(crowd.beats_while_syncing[slots], told_ms + period_ms, np.inf)
        if bool((again_ms <= told_ms + think_ms).any()):
            return False  # a heartbeat goes out before SyncGroup
        for place in np.flatnonzero(again_ms <= done_ms).tolist():
            slot = int(slots[place])
            stream = self._stream(slot, int(drawn[place]) + _DRAWN_TO_SYNC)
            late = sync_late(
                float(period_ms[place]), stream, told_ms=float(told_ms[place]), sync_ms=float(sync_ms[place]),
                assigned_ms=assigned_ms,
            )  # fmt: skip
            found.last_beat_ms[place], found.link_ms[place], done_ms[place] = late.beat_ms, late.link_ms, late.done_ms
            found.quiet_ms[place] = max(late.quiet_ms, found.quiet_ms[place])
            found.drawn[place] = stream.drawn
            found.requests += len(late.counted_ms)
            found.counted += [(counted_ms, slot) for counted_ms in late.counted_ms]
        found.sync_ms, found.assigned_ms, found.done_ms = sync_ms, assigned_ms, done_ms
        is_told_twice = bool((told_again_ms >= done_ms).any())  # to join, when it has joined
        ends_in_time = found.end_ms < found.joined_ms + self._world.group.session_timeout_ms - 1.0
        return not is_told_twice and ends_in_time and int(np.count_nonzero(sync_ms == assigned_ms)) == 1

    def _stream(self, slot: int, drawn: int) -> RandomStream:
        """The stream of a member after so many numbers."""
        stream = RandomStream.of(self.crowd.members[slot].chance.key)
        stream.drawn = drawn
        return stream

    # -- what comes of it

    def _carry_out(self, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember], found: _Round) -> None:
        world, crowd, ledger = self._world, self.crowd, self.crowd.ledger
        calm = found.slots[: found.calm]
        ledger.drop_all(self._by_identity(calm, found.join_ms))
        crowd.sent[calm] = np.where(crowd.names_generation[calm], group.generation, NO_GENERATION)
        world.requests += found.requests
        self.saved += found.requests - cost_of_round(len(found.slots), ledger.total, is_ordered=crowd.is_ordered)
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
        self._extend_by_heartbeats(found)
        world.clock.now_ms = found.end_ms
        self._expire_offsets(found.end_ms)
        crowd.schedule_due()

    def _expire_offsets(self, until_ms: float) -> None:
        """The broker looks for expired offsets now and then. This group has none, and so nothing comes of it."""
        runtime, deadlines, key = self._world.runtime, self._world.engine.deadlines, self._expiration_key
        while key in deadlines and deadlines[key] <= until_ms:
            runtime.fire(SetTimer(key, deadlines[key]))

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

    def _extend_by_heartbeats(self, found: _Round) -> None:
        """Those that arrived while members synced, and those of members that had been assigned."""
        slots, beats_ms = self.crowd.beat_until(found.end_ms, found.slots)
        counted: Ints = np.array([slot for _, slot in found.counted], dtype=np.int64)
        counted_ms: Floats = np.array([at_ms for at_ms, _ in found.counted], dtype=np.float64)
        if len(slots) or len(counted):
            self.crowd.extend_in_turn(np.concatenate([counted, slots]), np.concatenate([counted_ms, beats_ms]))

    def _update(self, calm: Ints, found: _Round) -> None:
        """What the members know when they have been assigned."""
        crowd, slots = self.crowd, found.slots
        crowd.drawn[slots] = found.drawn
        crowd.last_beat_ms[calm] = crowd.extended_ms[calm] = found.beat_ms
        crowd.has_beaten[calm] = True
        crowd.last_join_ms[calm] = found.join_ms
        crowd.link_busy_ms[slots] = found.link_ms
        at_once = crowd.beats_while_syncing[slots]
        crowd.last_beat_ms[slots[at_once]] = found.last_beat_ms[at_once]
        for slot in {slot for _, slot in found.counted}:
            crowd.extended_ms[slot] = crowd.last_beat_ms[slot]
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
