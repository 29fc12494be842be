"""Is a member alive? Kafka does not tell: no API shows the last heartbeat. What can be seen is whether it commits.

Two signs are certain: a KIP-848 member at epoch -2 has left and is away, and a member whose committed offsets move is
alive. A member that commits nothing while records wait for it is *silent*: stopped, stuck, or slower than the window
(clients commit every 5 s by default). Everything else is *unknown*, and said to be."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from kgm.client.admin_client import AdminClient
from kgm.client.requests import Offsets
from kgm.model.assignment import Partitions, count
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot

#: A little more than the 5 s between the automatic commits of Java and librdkafka consumers.
WINDOW_MS = 6_000
_POLL_S = 0.4
#: A member that has read everything and gets nothing new shows no more in a long window than in a short one.
_IDLE_MS = 1_200


class Liveness(enum.StrEnum):
    """What is known of a member's process."""

    ALIVE = "alive"
    AWAY = "away"
    SILENT = "silent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """What was seen of one member, and in words why."""

    liveness: Liveness
    why: str


@dataclass(slots=True, kw_only=True)
class _Watched:
    """A member whose partitions are looked at over the window."""

    member: MemberSnapshot
    first: Offsets
    first_ends: Offsets
    waiting: bool = False
    moving_ends: bool = False
    sign: Sign | None = None
    partitions: list[tuple[str, int]] = field(default_factory=list)


def watch(
    cluster: AdminClient, group: GroupSnapshot, member_ids: Iterable[str], *, also: Iterable[str] = (),
    window_ms: int = WINDOW_MS,
) -> dict[str, Sign]:  # fmt: skip
    """A sign for each of these members, by member id, from committed offsets over at most `window_ms`.

    Ends as soon as one of them is seen alive, or nothing more can be learnt of them. `also`: members to look at on the
    way, for whom nobody waits. Reads only. Raises KgmError when the offsets cannot be read."""
    asked = set(member_ids)
    wanted = asked | set(also)
    signs: dict[str, Sign] = {}
    watched: list[_Watched] = []
    first = {(row.topic, row.partition): row.committed for row in group.offsets if row.committed is not None}
    ends = {(row.topic, row.partition): row.end for row in group.offsets if row.end is not None}
    for member in group.members:
        if member.member_id not in wanted:
            continue
        known = _without_watching(member, first)
        if known is not None:
            signs[member.member_id] = known
            continue
        partitions = [pair for pair in _pairs(member.assignment) if pair in first]
        watched.append(_Watched(member=member, first=first, first_ends=ends, partitions=partitions))
    seen_s = _look(cluster, group.group_id, watched, asked, window_ms)
    for one in watched:
        signs[one.member.member_id] = one.sign or _verdict(one, seen_s, window_ms)
    return signs


def _without_watching(member: MemberSnapshot, committed: Offsets) -> Sign | None:
    """What needs no window."""
    if member.status == "away":
        return Sign(liveness=Liveness.AWAY, why="it left with the intention to come back (member epoch -2)")
    if not count(member.assignment):
        return Sign(liveness=Liveness.UNKNOWN, why="it owns no partitions, so it commits nothing")
    if not any(pair in committed for pair in _pairs(member.assignment)):
        return Sign(liveness=Liveness.UNKNOWN, why="nothing was ever committed for its partitions")
    return None


def _look(cluster: AdminClient, group_id: str, watched: list[_Watched], asked: set[str], window_ms: int) -> float:
    """Poll until it is decided; returns for how many seconds it looked."""
    window = cluster.deadline.within(window_ms / 1000)
    idle = cluster.deadline.within(min(_IDLE_MS, window_ms) / 1000)
    begun = window.remaining()
    every_partition = {pair for one in watched for pair in one.partitions}
    targets = [one for one in watched if one.member.member_id in asked]
    while targets:
        committed = cluster.committed_offsets(group_id)
        ends = cluster.end_offsets(every_partition)
        for one in watched:
            if one.sign is None:
                _judge(one, committed, ends)
        open_ones = [one for one in targets if one.sign is None]
        is_idle = idle.expired and not any(one.waiting or one.moving_ends for one in open_ones)
        if len(open_ones) < len(targets) or is_idle or window.expired:
            break
        window.sleep(_POLL_S)
    return begun - window.remaining()


def _judge(one: _Watched, committed: Offsets, ends: Offsets) -> None:
    for pair in one.partitions:
        now = committed.get(pair)
        if now is not None and now != one.first[pair]:
            topic, partition = pair
            why = f"its committed offset of {topic}-{partition} went from {one.first[pair]} to {now} just now"
            one.sign = Sign(liveness=Liveness.ALIVE, why=why)
            return
        end = ends.get(pair)
        if now is not None and end is not None and end > now:
            one.waiting = True
        if end is not None and end != one.first_ends.get(pair, end):
            one.moving_ends = True


def _verdict(one: _Watched, seen_s: float, window_ms: int) -> Sign:
    if one.waiting and seen_s * 1000 < window_ms * 0.9:
        return Sign(liveness=Liveness.UNKNOWN, why=f"{seen_s:.1f} s were too short to see it commit")
    if one.waiting:
        why = f"it committed nothing for {seen_s:.1f} s while records wait for it"
        return Sign(liveness=Liveness.SILENT, why=why)
    return Sign(liveness=Liveness.UNKNOWN, why="it has read everything there is, so no commit is due")


def _pairs(partitions: Partitions) -> list[tuple[str, int]]:
    return [(topic, partition) for topic in sorted(partitions) for partition in partitions[topic]]
