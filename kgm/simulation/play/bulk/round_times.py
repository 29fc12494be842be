"""When everything happens in one rebalance of a classic group, as arrays; and members that send more heartbeats than
others in it, because something is slow for them: each of these is played individually, event by event.

What each member does, and which random numbers it draws for that, is in `classic_member`. Arrays have an entry for each
member that takes part, its *place*."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

import numpy as np

from kgm.simulation.plan.client_library import Library
from kgm.simulation.play.bulk.arrays import Flags, Floats, Ints, RandomWords, network_ms, random_words, reaction_ms
from kgm.simulation.play.bulk.stable_members import StableMemberArrays
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.random_stream import RandomStream
from kgm.simulation.play.scripted_member import ScriptedMember
from kgm.simulation.play.timing import NETWORK_MS, draw_ms


class _Kind(Enum):
    """What happens to a member."""

    BEAT = auto()
    """It sends a heartbeat."""
    ARRIVAL = auto()
    """One of its heartbeats arrives."""
    REPLY = auto()
    """A reply to a heartbeat arrives."""
    JOIN = auto()
    """It sends JoinGroup."""
    ASSIGNMENT = auto()
    """The reply to its SyncGroup is sent."""


@dataclass(slots=True)
class _Events:
    """Upcoming events, in order; at equal times, what was scheduled first comes first."""

    heap: list[tuple[float, int, _Kind]] = field(default_factory=list)
    count: int = 0

    def put(self, at_ms: float, kind: _Kind) -> None:
        self.count += 1
        heapq.heappush(self.heap, (at_ms, self.count, kind))

    def next(self) -> tuple[float, _Kind]:
        at_ms, _, kind = heapq.heappop(self.heap)
        return at_ms, kind


@dataclass(slots=True, kw_only=True)
class LateJoin:
    """How a member joins that sends several heartbeats first. heard_ms: when the first of them arrives. beat_ms: when
    the last one is sent. arrives_ms: when its JoinGroup arrives. quiet_ms: when the last reply to a heartbeat arrives.
    beats: how many heartbeats it sends."""

    heard_ms: float
    beat_ms: float
    join_ms: float
    arrives_ms: float
    quiet_ms: float
    beats: int


def join_late(
    member: ScriptedMember, stream: RandomStream, beat_ms: float, link_ms: float, earliest_ms: float
) -> LateJoin:
    """What a member does from the first heartbeat after a rebalance has begun to the JoinGroup. link_ms: see
    `ScriptedMember.link_busy_until_ms`. earliest_ms: the earliest time at which it joins."""
    events = _Events()
    events.put(beat_ms, _Kind.BEAT)
    heard_ms = join_ms = 0.0
    arrives_ms = quiet_ms = last_ms = beat_ms
    beats, is_busy, has_joined = 0, False, False
    while events.heap:
        now_ms, kind = events.next()
        match kind:
            case _Kind.BEAT if not has_joined:
                last_ms, beats = now_ms, beats + 1
                link_ms = max(now_ms + draw_ms(stream, NETWORK_MS), link_ms)
                events.put(link_ms, _Kind.ARRIVAL)
                events.put(now_ms + member.period_ms, _Kind.BEAT)
            case _Kind.ARRIVAL:
                heard_ms = heard_ms or now_ms
                events.put(now_ms + draw_ms(stream, NETWORK_MS), _Kind.REPLY)
            case _Kind.REPLY:
                quiet_ms = now_ms
                if not is_busy:
                    is_busy = True
                    join_at_ms = now_ms + member.takes_ms_of(stream, member.profile.react)
                    events.put(max(join_at_ms, earliest_ms), _Kind.JOIN)
            case _Kind.JOIN:
                has_joined, join_ms = True, now_ms
                link_ms = arrives_ms = max(now_ms + draw_ms(stream, NETWORK_MS), link_ms)
            case _:
                pass
    return LateJoin(
        heard_ms=heard_ms, beat_ms=last_ms, join_ms=join_ms, arrives_ms=arrives_ms, quiet_ms=quiet_ms, beats=beats
    )


@dataclass(slots=True, kw_only=True)
class LateRevocation:
    """How a member joins that has given up partitions, and sends a heartbeat first. arrives_ms: when its JoinGroup
    arrives. quiet_ms: when the reply to the heartbeat arrives."""

    beat_ms: float
    arrives_ms: float
    quiet_ms: float


def revoke_late(stream: RandomStream, beat_ms: float, join_ms: float, link_ms: float) -> LateRevocation:
    """stream: the member's random numbers from the heartbeat on. join_ms: when it joins. link_ms: see
    `ScriptedMember.link_busy_until_ms`."""
    counted_ms = max(beat_ms + draw_ms(stream, NETWORK_MS), link_ms)
    if counted_ms < join_ms:
        quiet_ms = counted_ms + draw_ms(stream, NETWORK_MS)
        arrives_ms = join_ms + draw_ms(stream, NETWORK_MS)
    else:
        arrives_ms = max(join_ms + draw_ms(stream, NETWORK_MS), counted_ms)
        quiet_ms = counted_ms + draw_ms(stream, NETWORK_MS)
    return LateRevocation(beat_ms=beat_ms, arrives_ms=arrives_ms, quiet_ms=quiet_ms)


@dataclass(slots=True, kw_only=True)
class LateSync:
    """How a member gets its assignment that sends heartbeats meanwhile. done_ms: when it has its assignment. beat_ms:
    its last heartbeat. link_ms: see `ScriptedMember.link_busy_until_ms`. counted_ms: when heartbeats extended its
    session. quiet_ms: when the last reply arrives."""

    done_ms: float
    beat_ms: float
    link_ms: float
    counted_ms: list[float]
    quiet_ms: float


def sync_late(
    period_ms: float, stream: RandomStream, *, told_ms: float, sync_ms: float, assigned_ms: float
) -> LateSync:  # fmt: skip
    """What a member does from the reply to JoinGroup on if it sends heartbeats while it waits for its assignment.
    sync_ms: when its SyncGroup arrives. assigned_ms: when the leader's does; until then the broker reads nothing more
    from a member whose SyncGroup is waiting."""
    events = _Events()
    events.put(max(sync_ms, assigned_ms), _Kind.ASSIGNMENT)
    events.put(told_ms + period_ms, _Kind.BEAT)
    link_ms, last_ms, done_ms, quiet_ms, unread = sync_ms, told_ms, float("inf"), 0.0, 0
    counted_ms: list[float] = []
    while events.heap:
        now_ms, kind = events.next()
        match kind:
            case _Kind.BEAT if now_ms < done_ms:
                last_ms = now_ms
                link_ms = max(now_ms + draw_ms(stream, NETWORK_MS), link_ms)
                events.put(link_ms, _Kind.ARRIVAL)
                events.put(now_ms + period_ms, _Kind.BEAT)
            case _Kind.ARRIVAL if now_ms < assigned_ms:
                unread += 1
            case _Kind.ARRIVAL:
                counted_ms.append(now_ms)
                events.put(now_ms + draw_ms(stream, NETWORK_MS), _Kind.REPLY)
            case _Kind.REPLY:
                quiet_ms = now_ms
            case _Kind.ASSIGNMENT:
                done_ms = now_ms + draw_ms(stream, NETWORK_MS)
                if unread:
                    read_ms = now_ms + draw_ms(stream, NETWORK_MS)
                    for _ in range(unread):
                        events.put(read_ms, _Kind.ARRIVAL)
            case _:
                pass
    return LateSync(done_ms=done_ms, beat_ms=last_ms, link_ms=link_ms, counted_ms=counted_ms, quiet_ms=quiet_ms)


#: How many numbers a member that gives up partitions draws until its JoinGroup arrives; and how many a refused one
#: draws.
_DRAWN_TO_REVOKE, _DRAWN_TO_RETRY = np.uint64(2), np.uint64(1)
#: How many numbers a member draws until its JoinGroup arrives: for its heartbeat there and back, its reaction, and the
#: JoinGroup. Then, until it consumes: for the reply, its think time, and its SyncGroup there and back.
_DRAWN_TO_JOIN: Final = 4
_DRAWN_TO_THINK, _DRAWN_TO_SYNC, _DRAWN_TO_CONSUME = 2, 3, 4
#: Which of these numbers are for the network.
_NETWORK_TO_JOIN, _NETWORK_TO_CONSUME = [0, 1, 3], [0, 2, 3]


@dataclass(slots=True, kw_only=True)
class RoundTimes:
    """When everything happens in a rebalance, in ms. Arrays are indexed by place.

    slots: of the members. told: the places of the members that learn of the rebalance from a heartbeat. beat: the last
    heartbeat of these before they join. join: when JoinGroup is sent; arrives: when the broker receives it. joined: the
    end of the join phase. last_beat: the last heartbeat of the members that send heartbeats while they sync. link: see
    `ScriptedMember.link_busy_until_ms`. drawn: how many numbers have been drawn by then. quiet: when the last reply to
    a heartbeat arrives. late: the places of members that send heartbeats while they sync. counted: the sessions that
    these heartbeats extend, by slot. requests: the total number of requests."""

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
    drawn: RandomWords
    leader: int
    requests: int
    late: list[int]
    counted: list[tuple[float, int]]

    @staticmethod
    def of(arrays: StableMemberArrays, slots: Ints, told: Ints, leader: int) -> "RoundTimes":
        """The times before anything has happened. leader: its slot."""
        nothing = np.zeros(len(slots))
        return RoundTimes(
            slots=slots, told=told, beat_ms=nothing.copy(), join_ms=arrays.last_join_ms[slots], heard_ms=nothing.copy(),
            joined_ms=0.0, last_beat_ms=nothing, sync_ms=nothing, assigned_ms=0.0, done_ms=nothing,
            link_ms=arrays.link_busy_ms[slots], quiet_ms=nothing.copy(), drawn=arrays.drawn[slots], leader=leader,
            requests=len(slots), late=[], counted=[],
        )  # fmt: skip

    @property
    def end_ms(self) -> float:
        return float(max(self.done_ms.max(), self.quiet_ms.max()))

    def begin_sessions(self, arrays: StableMemberArrays) -> None:
        """Sessions are extended at the end of the join phase and, for members that have synced by then, when the leader
        has synced."""
        has_synced = self.sync_ms <= self.assigned_ms
        arrays.extend_sessions(self.slots, int(self.joined_ms))
        arrays.extend_sessions(self.slots[has_synced], int(self.assigned_ms))


def slots_of(arrays: StableMemberArrays, waiting: Sequence[ScriptedClassicMember]) -> Ints:
    """The slots of the stable members, and of the members whose JoinGroup is already waiting."""
    new: Ints = np.array([arrays.slot_of[member] for member in waiting], dtype=np.int64)
    return np.concatenate([arrays.places(), new])


def first_times(arrays: StableMemberArrays, slots: Ints, leader: int) -> RoundTimes | None:
    """The times of a rebalance that has just begun. slots: see `slots_of`."""
    stable = len(arrays.slots)
    beat_ms = arrays.beats_after(slots[:stable], arrays.world.clock.now_ms)
    return completed(arrays, RoundTimes.of(arrays, slots, np.arange(stable), leader), beat_ms)


def completed(arrays: StableMemberArrays, found: RoundTimes, beat_ms: Floats) -> RoundTimes | None:
    """The times completed with everything that happens after `beat_ms`, the first heartbeat of each member that learns
    of the rebalance. None if a member would do anything else."""
    session_ms = arrays.world.group.sessions_ms()[0]
    is_whole = _is_joined(arrays, found, beat_ms, session_ms) and _is_synced(arrays, found, session_ms)
    return found if is_whole else None


def _is_joined(arrays: StableMemberArrays, found: RoundTimes, beat_ms: Floats, session_ms: int) -> bool:
    """Members notice the rebalance, and join. beat_ms: the first heartbeat of each member that learns of it. False if a
    session would end before that, or in the join phase."""
    places = found.told
    slots = found.slots[places]
    drawn, period_ms = found.drawn[places], arrays.period_ms[slots]
    first = random_words(arrays.keys[slots], drawn, _DRAWN_TO_JOIN)
    to_hear_ms, back_ms, to_join_ms = network_ms(first[_NETWORK_TO_JOIN])
    heard_ms = np.maximum(beat_ms + to_hear_ms, found.link_ms[places])
    react_ms = reaction_ms(first[2], arrays.react_least[slots], arrays.react_span[slots])
    earliest_ms = arrays.last_join_ms[slots] + arrays.gap_ms[slots]
    join_ms = np.maximum(heard_ms + back_ms + arrays.world.timing.pace * react_ms, earliest_ms)
    link_ms = np.maximum(join_ms + to_join_ms, heard_ms)
    now_drawn = drawn + np.uint64(_DRAWN_TO_JOIN)
    quiet_ms = np.zeros(len(places))
    found.requests += 2 * len(places)
    for at in np.flatnonzero(beat_ms + period_ms <= join_ms).tolist():
        slot = int(slots[at])
        stream = stream_of(arrays, slot, int(drawn[at]))
        late = join_late(
            arrays.members[slot], stream, float(beat_ms[at]), float(found.link_ms[places[at]]), float(earliest_ms[at])
        )
        beat_ms[at], join_ms[at], link_ms[at] = late.beat_ms, late.join_ms, late.arrives_ms
        heard_ms[at], quiet_ms[at], now_drawn[at] = late.heard_ms, late.quiet_ms, stream.drawn
        found.requests += late.beats - 1
    found.beat_ms[places], found.join_ms[places], found.heard_ms[places] = beat_ms, join_ms, heard_ms
    found.link_ms[places], found.quiet_ms[places], found.drawn[places] = link_ms, quiet_ms, now_drawn
    found.joined_ms = max(found.joined_ms, float(link_ms.max(initial=0.0)))
    is_safe = bool((arrays.deadline_ms[slots] > heard_ms).all())
    return is_safe and found.joined_ms < float(heard_ms.min(initial=np.inf)) + session_ms - 1.0


def _is_synced(arrays: StableMemberArrays, found: RoundTimes, session_ms: int) -> bool:
    """Members learn that the join phase has ended, and get their assignments. False if that depends on more than
    times."""
    slots, pace = found.slots, arrays.world.timing.pace
    later = random_words(arrays.keys[slots], found.drawn, _DRAWN_TO_CONSUME)
    told_ms, travel_ms, back_ms = network_ms(later[_NETWORK_TO_CONSUME])
    told_ms += found.joined_ms
    think_ms = pace * reaction_ms(later[1], arrays.think_least[slots], arrays.think_span[slots])
    drawn = found.drawn
    found.drawn = drawn + np.uint64(_DRAWN_TO_CONSUME)
    at, leader = int(np.flatnonzero(slots == found.leader)[0]), arrays.members[found.leader]
    if leader.profile.library is Library.LIBRDKAFKA:
        stream = stream_of(arrays, found.leader, int(drawn[at]) + _DRAWN_TO_THINK)
        think_ms[at] += leader.takes_ms_of(stream, leader.profile.think)
        travel_ms[at], back_ms[at] = draw_ms(stream, NETWORK_MS), draw_ms(stream, NETWORK_MS)
        found.drawn[at] = stream.drawn
    sync_ms = np.maximum(told_ms + think_ms + travel_ms, found.link_ms)
    assigned_ms = float(sync_ms[at])
    done_ms = np.maximum(sync_ms, assigned_ms) + back_ms
    found.last_beat_ms, found.link_ms = told_ms.copy(), sync_ms.copy()
    period_ms, told_again_ms = arrays.period_ms[slots], found.quiet_ms.copy()
    again_ms = np.where(arrays.beats_while_syncing[slots], told_ms + period_ms, np.inf)
    if bool((again_ms <= told_ms + think_ms).any()):
        return False  # a heartbeat goes out before SyncGroup
    found.late = np.flatnonzero(again_ms <= done_ms).tolist()
    for place in found.late:
        slot = int(slots[place])
        stream = stream_of(arrays, slot, int(drawn[place]) + _DRAWN_TO_SYNC)
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
    is_told_twice = bool((told_again_ms >= done_ms).any())  # to join again, after it has joined
    ends_in_time = found.end_ms < found.joined_ms + session_ms - 1.0
    return not is_told_twice and ends_in_time and int(np.count_nonzero(sync_ms == assigned_ms)) == 1


def stream_of(arrays: StableMemberArrays, slot: int, drawn: int) -> RandomStream:
    """The stream of a member after `drawn` numbers."""
    stream = RandomStream.of(arrays.members[slot].chance.key)
    stream.drawn = drawn
    return stream


def learn(arrays: StableMemberArrays, found: RoundTimes) -> None:
    """Store what the members know when they have synced."""
    slots, told = found.slots, found.slots[found.told]
    arrays.drawn[slots] = found.drawn
    arrays.last_beat_ms[told] = arrays.extended_ms[told] = found.beat_ms[found.told]
    arrays.has_beaten[told] = True
    arrays.last_join_ms[slots] = found.join_ms
    arrays.link_busy_ms[slots] = found.link_ms
    at_once = arrays.beats_while_syncing[slots]
    arrays.last_beat_ms[slots[at_once]] = found.last_beat_ms[at_once]
    arrays.has_beaten[slots[at_once]] = True
    for slot in {slot for _, slot in found.counted}:
        arrays.extended_ms[slot] = arrays.last_beat_ms[slot]


# -- cooperative members join again


@dataclass(slots=True, kw_only=True)
class Rejoins:
    """What follows a round of a cooperative group. begins_ms: when the next round begins; infinite if there is none.
    adopts: whether each member learns what it was assigned, by place. revoking: the places of the members that give up
    partitions; join, arrives: when they join again; drawn: how many numbers have been drawn by then. beats: the members
    that send a heartbeat before that, by place."""

    begins_ms: float
    adopts: Flags
    revoking: Ints
    join_ms: Floats
    arrives_ms: Floats
    drawn: RandomWords
    beats: dict[int, LateRevocation]


def rejoins_after(arrays: StableMemberArrays, found: RoundTimes, losing: Ints) -> Rejoins | None:
    """losing: the places of members that have more than they are assigned. None if further heartbeats come in
    between."""
    slots, done_ms = found.slots[losing], found.done_ms[losing]
    drawn = found.drawn[losing]
    numbers = random_words(arrays.keys[slots], drawn, int(_DRAWN_TO_REVOKE))
    revoke_ms = reaction_ms(numbers[0], arrays.revoke_least[slots], arrays.revoke_span[slots])
    join_ms = done_ms + arrays.world.timing.pace * revoke_ms
    arrives_ms = np.maximum(join_ms + network_ms(numbers[1]), found.link_ms[losing])
    beat_ms, drawn = arrays.next_beats(slots, done_ms), drawn + _DRAWN_TO_REVOKE
    beats: dict[int, LateRevocation] = {}
    for at in np.flatnonzero(beat_ms <= join_ms).tolist():
        place, slot = int(losing[at]), int(slots[at])
        stream = stream_of(arrays, slot, int(found.drawn[place]) + 1)
        link_ms = float(found.link_ms[place])
        late = beats[place] = revoke_late(stream, float(beat_ms[at]), float(join_ms[at]), link_ms)
        arrives_ms[at], drawn[at] = late.arrives_ms, stream.drawn
        if beat_ms[at] + arrays.period_ms[slot] <= join_ms[at]:
            return None
    begins_ms = float(arrives_ms.min(initial=np.inf))
    adopts = found.sync_ms < begins_ms
    if bool((found.quiet_ms >= begins_ms).any()) or any(found.done_ms[place] >= begins_ms for place in found.late):
        return None
    is_first = adopts[losing]
    return Rejoins(
        begins_ms=begins_ms, adopts=adopts, revoking=losing[is_first], join_ms=join_ms[is_first],
        arrives_ms=arrives_ms[is_first], drawn=drawn[is_first],
        beats={place: late for place, late in beats.items() if adopts[place]},
    )  # fmt: skip


def times_after(
    arrays: StableMemberArrays, before: RoundTimes, rejoins: Rejoins, rebalance_timeout_ms: int
) -> RoundTimes | None:
    """The times of the round that follows. Its members are of four kinds:
    - it already has its assignment: a heartbeat informs it of the rebalance;
    - its assignment is on its way: it arrives, and then a heartbeat informs the member;
    - it has given up partitions: it joins;
    - its SyncGroup has not arrived: it is refused, so the member does not learn what it was assigned, and joins.

    None if the round is not regular."""
    slots = before.slots
    is_told = rejoins.adopts.copy()
    is_told[rejoins.revoking] = False
    told = np.flatnonzero(is_told)
    found = RoundTimes.of(arrays, slots, told, before.leader)
    found.join_ms[rejoins.revoking], found.link_ms[rejoins.revoking] = rejoins.join_ms, rejoins.arrives_ms
    found.drawn[rejoins.revoking] = rejoins.drawn
    _beat_before_joining(arrays, found, rejoins)
    refused = np.flatnonzero(~rejoins.adopts)
    if not _retry(arrays, found, refused, before.done_ms[refused]):
        return None
    others = np.flatnonzero(~is_told)
    found.requests += len(others)
    found.joined_ms = float(found.link_ms[others].max())
    who, done_ms = slots[told], before.done_ms[told]
    beat_ms = np.where(
        done_ms < rejoins.begins_ms, arrays.beats_after(who, rejoins.begins_ms), arrays.next_beats(who, done_ms)
    )
    synced = completed(arrays, found, beat_ms)
    is_late = found.joined_ms >= rejoins.begins_ms + rebalance_timeout_ms - 1.0
    is_late |= found.joined_ms >= float(arrays.deadline_ms[slots[others]].min()) - 1.0
    return None if is_late else synced


def _beat_before_joining(arrays: StableMemberArrays, found: RoundTimes, rejoins: Rejoins) -> None:
    """The heartbeats that members which give up partitions send before they join."""
    for place, late in rejoins.beats.items():
        slot = found.slots[place]
        arrays.last_beat_ms[slot] = arrays.extended_ms[slot] = late.beat_ms
        arrays.has_beaten[slot] = True
        found.quiet_ms[place] = late.quiet_ms
        found.requests += 1


def _retry(arrays: StableMemberArrays, found: RoundTimes, refused: Ints, done_ms: Floats) -> bool:
    """Members whose SyncGroup is refused join again. done_ms: when they have the reply. False if one of them sends a
    heartbeat first."""
    slots = found.slots[refused]
    if not len(refused):
        return True
    join_ms = np.maximum(done_ms, arrays.last_join_ms[slots] + arrays.gap_ms[slots])
    (travel,) = random_words(arrays.keys[slots], found.drawn[refused], 1)
    found.join_ms[refused] = join_ms
    found.link_ms[refused] = np.maximum(join_ms + network_ms(travel), found.link_ms[refused])
    found.drawn[refused] += _DRAWN_TO_RETRY
    beats = arrays.beats_while_syncing[slots]
    return not bool((beats & (arrays.last_beat_ms[slots] + arrays.period_ms[slots] <= join_ms)).any())
