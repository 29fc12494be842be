"""Rebalances of a cooperative group, for all members at once, until none of them has anything to give up.

What each member does is in `classic_member`. Members keep their partitions while they join. Those that are assigned
less than they have give up the rest and join again at once, which begins the next rebalance while others may still wait
for their assignments. So the members of a round that follows are of four kinds:
 - it has been assigned by then: a heartbeat tells it of the rebalance;
 - its assignment is on its way: it comes, and a heartbeat tells the member then;
 - it has given up partitions: it joins;
 - its SyncGroup has not arrived: it is refused, so that the member does not learn what it was assigned, and joins.

The rounds are computed on the arrays of the crowd, and undone if one of them is not regular."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.simulation.play.bulk.claims import CooperativeAssignment
from kgm.simulation.play.bulk.coverage import MOST_IN_CHAIN
from kgm.simulation.play.bulk.crowd import Crowd
from kgm.simulation.play.bulk.ledger import NOBODY
from kgm.simulation.play.bulk.stragglers import LateRevocation, revoke_late
from kgm.simulation.play.bulk.streams import Flags, Floats, Ints, Words, network_ms, reaction_ms, words
from kgm.simulation.play.bulk.times import (
    RoundTimes,
    beats_after,
    completed,
    first_times,
    learn,
    next_beats,
    slots_of,
    stream_of,
)
from kgm.simulation.play.classic_member import ScriptedClassicMember

#: How many numbers a member draws that gives up partitions, until its JoinGroup arrives; and one that is refused.
_DRAWN_TO_REVOKE, _DRAWN_TO_RETRY = np.uint64(2), np.uint64(1)


@dataclass(slots=True, kw_only=True)
class ChainedRound:
    """One of the rounds. began_ms: when a member joined again; of the first one, when the rebalance began."""

    began_ms: float
    times: RoundTimes
    assignment: CooperativeAssignment


@dataclass(slots=True, kw_only=True)
class _Again:
    """What follows from a round. begins_ms: the next one; infinite if there is none. adopts: who learns what it was
    assigned, by place. revoking: the places of those that give up partitions; join, arrives: when they join again;
    drawn: how many numbers have been drawn by then. beats: those that send a heartbeat before, by place."""

    begins_ms: float
    adopts: Flags
    revoking: Ints
    join_ms: Floats
    arrives_ms: Floats
    drawn: Words
    beats: dict[int, LateRevocation]


class Chain:
    """slots: of the members, those that wait already last. waits_until: when each of these has its first
    assignment."""

    def __init__(
        self, crowd: Crowd, group: ClassicGroup, waiting: Sequence[ScriptedClassicMember], leader: int
    ) -> None:
        self.rounds: list[ChainedRound] = []
        self._crowd, self._group, self._leader = crowd, group, leader
        self.slots = slots_of(crowd, waiting)
        self._calm = len(crowd.slots)
        self._slot_of_id = crowd.slots | {member.member_id: crowd.slot_of[member] for member in waiting}
        self._by_id: Ints | None = None
        if crowd.is_alike:
            self._by_id = crowd.by_id_with(waiting)
        self.waits_until: Floats = np.full(len(waiting), np.inf)
        for member in waiting:
            crowd.identity[crowd.slot_of[member]] = crowd.ledger.number_of(member.identity)
        self._slot_of_identity = crowd.slot_of_identity(self.slots)
        self._place_of_slot: Ints = np.full(len(crowd.members) + 1, NOBODY, dtype=np.int64)
        self._place_of_slot[self.slots] = np.arange(len(self.slots))

    @property
    def end_ms(self) -> float:
        return self.rounds[-1].times.end_ms

    def is_regular(self, limit_ms: float) -> bool:
        """Compute the rounds. False if one of them would be over at limit_ms or later, or does not follow the rules
        above; then the arrays are as before."""
        saved = self._crowd.save()
        if self._compute(limit_ms):
            return True
        self._crowd.restore(saved)
        return False

    def _compute(self, limit_ms: float) -> bool:
        began_ms = self._crowd.world.clock.now_ms
        found = first_times(self._crowd, self.slots, self._leader)
        while found is not None and found.end_ms < limit_ms and len(self.rounds) < MOST_IN_CHAIN:
            again = self._assign(found, began_ms)
            if again is None:
                return False
            if again.begins_ms == np.inf:
                return True
            began_ms = again.begins_ms
            found = self._next(found, again)
        return False

    # -- joining

    def _next(self, before: RoundTimes, again: _Again) -> RoundTimes | None:
        """The round that follows. None if it is not regular."""
        crowd, slots = self._crowd, self.slots
        is_told = again.adopts.copy()
        is_told[again.revoking] = False
        told = np.flatnonzero(is_told)
        found = RoundTimes.of(crowd, slots, told, self._leader)
        found.join_ms[again.revoking], found.link_ms[again.revoking] = again.join_ms, again.arrives_ms
        found.drawn[again.revoking] = again.drawn
        self._beat_before_joining(found, again)
        refused = np.flatnonzero(~again.adopts)
        if not self._retry(found, refused, before.done_ms[refused]):
            return None
        others = np.flatnonzero(~is_told)
        found.requests += len(others)
        found.joined_ms = float(found.link_ms[others].max())
        who, done_ms = slots[told], before.done_ms[told]
        beat_ms = np.where(
            done_ms < again.begins_ms, beats_after(crowd, who, again.begins_ms), next_beats(crowd, who, done_ms)
        )
        synced = completed(crowd, found, beat_ms)
        is_late = found.joined_ms >= again.begins_ms + crowd.world.group.rebalance_timeout_ms - 1.0
        is_late |= found.joined_ms >= float(crowd.deadline_ms[slots[others]].min()) - 1.0
        return None if is_late else synced

    def _beat_before_joining(self, found: RoundTimes, again: _Again) -> None:
        """The heartbeats of members that give up partitions."""
        crowd = self._crowd
        for place, late in again.beats.items():
            slot = self.slots[place]
            crowd.last_beat_ms[slot] = crowd.extended_ms[slot] = late.beat_ms
            crowd.has_beaten[slot] = True
            found.quiet_ms[place] = late.quiet_ms
            found.requests += 1

    def _retry(self, found: RoundTimes, refused: Ints, done_ms: Floats) -> bool:
        """Members whose SyncGroup is refused join again. done_ms: when they have the reply. False if one sends a
        heartbeat before."""
        crowd, slots = self._crowd, self.slots[refused]
        if not len(refused):
            return True
        join_ms = np.maximum(done_ms, crowd.last_join_ms[slots] + crowd.gap_ms[slots])
        (travel,) = words(crowd.keys[slots], found.drawn[refused], 1)
        found.join_ms[refused] = join_ms
        found.link_ms[refused] = np.maximum(join_ms + network_ms(travel), found.link_ms[refused])
        found.drawn[refused] += _DRAWN_TO_RETRY
        beats = crowd.beats_while_syncing[slots]
        return not bool((beats & (crowd.last_beat_ms[slots] + crowd.period_ms[slots] <= join_ms)).any())

    # -- what is assigned

    def _assign(self, found: RoundTimes, began_ms: float) -> _Again | None:
        """Carry out what a round comes to, as far as arrays tell. None if it is not regular."""
        crowd, slots, ledger = self._crowd, self.slots, self._crowd.ledger
        crowd.sent[slots] = np.where(crowd.names_generation[slots], crowd.generation[slots], crowd.remembered[slots])
        before = self._slot_of_identity[ledger.consumer]
        assignment = CooperativeAssignment(
            crowd.world.group, self._leader, self._slot_of_id, crowd.specs,
            crowd.sent.copy(), ledger.starts, by_id=self._by_id, subscribed=crowd.subscribed, before=before,
        )  # fmt: skip
        after = assignment.owners()
        moves = after != before
        learn(crowd, found)
        again = self._again(found, np.unique(self._place_of_slot[before[moves & (before >= 0)]]))
        if again is None:
            return None
        adopting: Flags = np.zeros(len(crowd.members) + 1, dtype=np.bool_)
        adopting[slots[again.adopts]] = True
        lost, gained = moves & adopting[before], moves & adopting[after]
        if bool((gained & (before >= 0)).any()):
            return None  # it would be consumed twice
        at_ms = np.zeros(len(ledger.names))
        at_ms[crowd.identity[slots]] = found.done_ms
        ledger.exchange(lost, gained, crowd.identity[after], at_ms)
        crowd.generation[slots] = self._group.generation + len(self.rounds) + 1
        crowd.remembered[slots[again.adopts]] = crowd.generation[slots[again.adopts]]
        has_learnt = again.adopts[self._calm :] & (self.waits_until == np.inf)
        self.waits_until[has_learnt] = found.done_ms[self._calm :][has_learnt]
        self._beat(found, again)
        self.rounds.append(ChainedRound(began_ms=began_ms, times=found, assignment=assignment))
        return again

    def _again(self, found: RoundTimes, losing: Ints) -> _Again | None:
        """losing: the places of members that have more than they are assigned. None if a heartbeat comes between."""
        crowd, slots, done_ms = self._crowd, self.slots[losing], found.done_ms[losing]
        drawn = found.drawn[losing]
        numbers = words(crowd.keys[slots], drawn, int(_DRAWN_TO_REVOKE))
        revoke_ms = reaction_ms(numbers[0], crowd.revoke_least[slots], crowd.revoke_span[slots])
        join_ms = done_ms + crowd.world.timing.pace * revoke_ms
        arrives_ms = np.maximum(join_ms + network_ms(numbers[1]), found.link_ms[losing])
        beat_ms, drawn = next_beats(crowd, slots, done_ms), drawn + _DRAWN_TO_REVOKE
        beats: dict[int, LateRevocation] = {}
        for at in np.flatnonzero(beat_ms <= join_ms).tolist():
            place, slot = int(losing[at]), int(slots[at])
            stream = stream_of(crowd, slot, int(found.drawn[place]) + 1)
            link_ms = float(found.link_ms[place])
            late = beats[place] = revoke_late(stream, float(beat_ms[at]), float(join_ms[at]), link_ms)
            arrives_ms[at], drawn[at] = late.arrives_ms, stream.drawn
            if beat_ms[at] + crowd.period_ms[slot] <= join_ms[at]:
                return None
        begins_ms = float(arrives_ms.min(initial=np.inf))
        adopts = found.sync_ms < begins_ms
        if bool((found.quiet_ms >= begins_ms).any()) or any(found.done_ms[place] >= begins_ms for place in found.late):
            return None
        is_first = adopts[losing]
        return _Again(
            begins_ms=begins_ms, adopts=adopts, revoking=losing[is_first], join_ms=join_ms[is_first],
            arrives_ms=arrives_ms[is_first], drawn=drawn[is_first],
            beats={place: late for place, late in beats.items() if adopts[place]},
        )  # fmt: skip

    def _beat(self, found: RoundTimes, again: _Again) -> None:
        """Sessions begin again, and calm members send heartbeats, until the next round begins or this one ends."""
        crowd, slots = self._crowd, self.slots
        crowd.begin_sessions(found)
        until_ms = found.end_ms if again.begins_ms == np.inf else again.begins_ms
        is_calm = again.adopts & (found.done_ms < again.begins_ms)
        is_calm[again.revoking] = False
        calm = slots[is_calm]
        crowd.set_due(calm, next_beats(crowd, calm, found.done_ms[is_calm]))
        crowd.extend_by_heartbeats(until_ms, calm, found.counted)
