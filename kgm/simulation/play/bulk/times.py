"""When everything happens in one rebalance of a crowd, as arrays.

What each member does, and what it draws for it, is in `classic_member`. Arrays have an entry for each member that takes
part, its *place*."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kgm.simulation.plan.client_library import Library
from kgm.simulation.play.bulk.crowd import Crowd
from kgm.simulation.play.bulk.stragglers import join_late, sync_late
from kgm.simulation.play.bulk.streams import Floats, Ints, Words, network_ms, reaction_ms, words
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.random_stream import RandomStream
from kgm.simulation.play.timing import NETWORK_MS, draw_ms

#: How many numbers a member draws until its JoinGroup arrives: for its heartbeat there and back, its reaction, and the
#: JoinGroup. Then, until it consumes: for the reply, the time to think, and its SyncGroup there and back.
_DRAWN_TO_JOIN: Final = 4
_DRAWN_TO_THINK, _DRAWN_TO_SYNC, _DRAWN_TO_CONSUME = 2, 3, 4


@dataclass(slots=True, kw_only=True)
class RoundTimes:
    """When everything happens in a rebalance, in ms. Arrays are by place.

    slots: of the members. told: the places of those that a heartbeat tells of the rebalance. beat: the last heartbeat
    of these before they join. join: JoinGroup; arrives: when the broker has it. joined: the end of the join phase.
    told_end: when the reply to JoinGroup is there. last_beat: the last heartbeat of those that heartbeat while they
    sync. link: see `Crowd`. drawn: how many numbers have been drawn by then. quiet: when the last reply to a heartbeat
    arrives. late: places of members that heartbeat while they sync. counted: sessions that are extended by these
    heartbeats, by slot. requests: how many there are."""

    slots: Ints
    told: Ints
    beat_ms: Floats
    join_ms: Floats
    heard_ms: Floats
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
    late: list[int]
    counted: list[tuple[float, int]]

    @staticmethod
    def of(crowd: Crowd, slots: Ints, told: Ints, leader: int) -> "RoundTimes":
        """Before anything has happened. leader: its slot."""
        nothing = np.zeros(len(slots))
        return RoundTimes(
            slots=slots, told=told, beat_ms=nothing.copy(), join_ms=crowd.last_join_ms[slots], heard_ms=nothing.copy(),
            joined_ms=0.0, last_beat_ms=nothing, sync_ms=nothing, assigned_ms=0.0, done_ms=nothing,
            link_ms=crowd.link_busy_ms[slots], quiet_ms=nothing.copy(), drawn=crowd.drawn[slots], leader=leader,
            requests=len(slots), late=[], counted=[],
        )  # fmt: skip

    @property
    def end_ms(self) -> float:
        return float(max(self.done_ms.max(), self.quiet_ms.max()))


def slots_of(crowd: Crowd, waiting: Sequence[ScriptedClassicMember]) -> Ints:
    """Of the calm members, and of those whose JoinGroup waits already."""
    new: Ints = np.array([crowd.slot_of[member] for member in waiting], dtype=np.int64)
    return np.concatenate([crowd.places(), new])


def first_times(crowd: Crowd, slots: Ints, leader: int) -> RoundTimes | None:
    """Of a rebalance that has just begun. slots: see `slots_of`."""
    calm = len(crowd.slots)
    beat_ms = beats_after(crowd, slots[:calm], crowd.world.clock.now_ms)
    return completed(crowd, RoundTimes.of(crowd, slots, np.arange(calm), leader), beat_ms)


def completed(crowd: Crowd, found: RoundTimes, beat_ms: Floats) -> RoundTimes | None:
    """With all that happens from the first heartbeat of each member that is told of it. None if a member would do more
    than that."""
    session_ms = crowd.world.group.sessions_ms()[0]
    is_whole = _is_joined(crowd, found, beat_ms, session_ms) and _is_synced(crowd, found, session_ms)
    return found if is_whole else None


def _is_joined(crowd: Crowd, found: RoundTimes, beat_ms: Floats, session_ms: int) -> bool:
    """Members notice the rebalance, and join. beat_ms: the first heartbeat of each that is told of it. False if a
    session would end before it is noticed, or in the join phase."""
    places = found.told
    slots = found.slots[places]
    drawn, period_ms = found.drawn[places], crowd.period_ms[slots]
    first = words(crowd.keys[slots], drawn, _DRAWN_TO_JOIN)
    heard_ms = np.maximum(beat_ms + network_ms(first[0]), found.link_ms[places])
    react_ms = reaction_ms(first[2], crowd.react_least[slots], crowd.react_span[slots])
    earliest_ms = crowd.last_join_ms[slots] + crowd.gap_ms[slots]
    join_ms = np.maximum(heard_ms + network_ms(first[1]) + crowd.world.timing.pace * react_ms, earliest_ms)
    link_ms = np.maximum(join_ms + network_ms(first[3]), heard_ms)
    now_drawn = drawn + np.uint64(_DRAWN_TO_JOIN)
    quiet_ms = np.zeros(len(places))
    found.requests += 2 * len(places)
    for at in np.flatnonzero(beat_ms + period_ms <= join_ms).tolist():
        slot = int(slots[at])
        stream = stream_of(crowd, slot, int(drawn[at]))
        late = join_late(
            crowd.members[slot], stream, float(beat_ms[at]), float(found.link_ms[places[at]]), float(earliest_ms[at])
        )
        beat_ms[at], join_ms[at], link_ms[at] = late.beat_ms, late.join_ms, late.arrives_ms
        heard_ms[at], quiet_ms[at], now_drawn[at] = late.heard_ms, late.quiet_ms, stream.drawn
        found.requests += late.beats - 1
    found.beat_ms[places], found.join_ms[places], found.heard_ms[places] = beat_ms, join_ms, heard_ms
    found.link_ms[places], found.quiet_ms[places], found.drawn[places] = link_ms, quiet_ms, now_drawn
    found.joined_ms = max(found.joined_ms, float(link_ms.max(initial=0.0)))
    is_safe = bool((crowd.deadline_ms[slots] > heard_ms).all())
    return is_safe and found.joined_ms < float(heard_ms.min(initial=np.inf)) + session_ms - 1.0


def _is_synced(crowd: Crowd, found: RoundTimes, session_ms: int) -> bool:
    """Members are told the end of the join phase, and are assigned. False if that depends on more than times."""
    slots, pace = found.slots, crowd.world.timing.pace
    later = words(crowd.keys[slots], found.drawn, _DRAWN_TO_CONSUME)
    told_ms = found.joined_ms + network_ms(later[0])
    think_ms = pace * reaction_ms(later[1], crowd.think_least[slots], crowd.think_span[slots])
    travel_ms, back_ms = network_ms(later[2]), network_ms(later[3])
    drawn = found.drawn
    found.drawn = drawn + np.uint64(_DRAWN_TO_CONSUME)
    at, leader = int(np.flatnonzero(slots == found.leader)[0]), crowd.members[found.leader]
    if leader.profile.library is Library.LIBRDKAFKA:
        stream = stream_of(crowd, found.leader, int(drawn[at]) + _DRAWN_TO_THINK)
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
    found.late = np.flatnonzero(again_ms <= done_ms).tolist()
    for place in found.late:
        slot = int(slots[place])
        stream = stream_of(crowd, slot, int(drawn[place]) + _DRAWN_TO_SYNC)
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
    ends_in_time = found.end_ms < found.joined_ms + session_ms - 1.0
    return not is_told_twice and ends_in_time and int(np.count_nonzero(sync_ms == assigned_ms)) == 1


def next_beats(crowd: Crowd, slots: Ints, done_ms: Floats) -> Floats:
    """The first heartbeats of members after they were assigned at these times."""
    next_ms = crowd.last_beat_ms[slots] + crowd.period_ms[slots]
    first_ms = np.where(crowd.has_beaten[slots], np.maximum(done_ms, next_ms), done_ms)
    return np.where(crowd.beats_while_syncing[slots], np.maximum(done_ms, next_ms), first_ms)


def beats_after(crowd: Crowd, slots: Ints, now_ms: float) -> Floats:
    """The first heartbeats of calm members from now on (`ScriptedMember.resume_heartbeats`)."""
    last_ms, period_ms = crowd.last_beat_ms[slots], crowd.period_ms[slots]
    last_ms = last_ms + np.maximum((now_ms - last_ms) // period_ms, 0.0) * period_ms
    return np.maximum(last_ms + period_ms, now_ms)


def stream_of(crowd: Crowd, slot: int, drawn: int) -> RandomStream:
    """The stream of a member after so many numbers."""
    stream = RandomStream.of(crowd.members[slot].chance.key)
    stream.drawn = drawn
    return stream


def learn(crowd: Crowd, found: RoundTimes) -> None:
    """What the members know when they have synced."""
    slots, told = found.slots, found.slots[found.told]
    crowd.drawn[slots] = found.drawn
    crowd.last_beat_ms[told] = crowd.extended_ms[told] = found.beat_ms[found.told]
    crowd.has_beaten[told] = True
    crowd.last_join_ms[slots] = found.join_ms
    crowd.link_busy_ms[slots] = found.link_ms
    at_once = crowd.beats_while_syncing[slots]
    crowd.last_beat_ms[slots[at_once]] = found.last_beat_ms[at_once]
    crowd.has_beaten[slots[at_once]] = True
    for slot in {slot for _, slot in found.counted}:
        crowd.extended_ms[slot] = crowd.last_beat_ms[slot]
