"""Members that send more heartbeats than others in a round, because something is slow for them: each is played alone,
event by event."""

import heapq
from dataclasses import dataclass, field
from enum import Enum, auto

from kgm.simulation.play.random_stream import RandomStream
from kgm.simulation.play.scripted_member import ScriptedMember
from kgm.simulation.play.timing import NETWORK_MS, draw_ms


class _Kind(Enum):
    """What happens to a member."""

    BEAT = auto()
    """It sends a heartbeat."""
    ARRIVAL = auto()
    """A heartbeat of its arrives."""
    REPLY = auto()
    """A reply to a heartbeat arrives."""
    JOIN = auto()
    """It sends JoinGroup."""
    ASSIGNMENT = auto()
    """The reply to its SyncGroup is sent."""


@dataclass(slots=True)
class _Events:
    """What is to come, in order; of equal times what was scheduled first comes first."""

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
    """How a member joins that sends several heartbeats before. heard_ms: when the first of them arrives. beat_ms: the
    last one. arrives_ms: of its JoinGroup. quiet_ms: when the last reply to a heartbeat arrives. beats: how many."""

    heard_ms: float
    beat_ms: float
    join_ms: float
    arrives_ms: float
    quiet_ms: float
    beats: int


def join_late(
    member: ScriptedMember, stream: RandomStream, beat_ms: float, link_ms: float, earliest_ms: float
) -> LateJoin:
    """From the first heartbeat after a rebalance has begun to the JoinGroup. link_ms: see
    `ScriptedMember.link_busy_until_ms`. earliest_ms: before which it does not join."""
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
    """How a member joins that has given up partitions, and sends a heartbeat before. arrives_ms: of its JoinGroup.
    quiet_ms: when the reply to the heartbeat arrives."""

    beat_ms: float
    arrives_ms: float
    quiet_ms: float


def revoke_late(stream: RandomStream, beat_ms: float, join_ms: float, link_ms: float) -> LateRevocation:
    """stream: what is drawn from the heartbeat on. join_ms: when it joins. link_ms: see
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
    """How a member is assigned that sends heartbeats meanwhile. done_ms: when it has its assignment. beat_ms: its last
    heartbeat. link_ms: see `ScriptedMember.link_busy_until_ms`. counted_ms: when heartbeats extended its session.
    quiet_ms: when the last reply arrives."""

    done_ms: float
    beat_ms: float
    link_ms: float
    counted_ms: list[float]
    quiet_ms: float


def sync_late(
    period_ms: float, stream: RandomStream, *, told_ms: float, sync_ms: float, assigned_ms: float
) -> LateSync:  # fmt: skip
    """From the reply to JoinGroup on, of a member that heartbeats while it waits for its assignment. sync_ms: when its
    SyncGroup arrives. assigned_ms: when the leader's does; until then the broker reads nothing more from a member whose
    SyncGroup waits."""
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
