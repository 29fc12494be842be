"""Is a member alive? Kafka does not tell: no API shows the last heartbeat. What can be seen is whether it commits.

Two signs are certain: a KIP-848 member at epoch -2 has left and is away, and a member whose committed offsets move is
alive. A member that commits nothing while records wait for it is *silent*: stopped, stuck, or slower than the window
(clients commit every 5 s by default). Everything else is *unknown*, and said to be."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from kgm.client.asking import Offsets
from kgm.client.coordinator_client import Cluster
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
    cluster: Cluster, group: GroupSnapshot, member_ids: Iterable[str], *, window_ms: int = WINDOW_MS,
    stop_at_first: bool = False,
) -> dict[str, Sign]:  # fmt: skip
    """A sign for each of these members, by member id, from committed offsets over at most `window_ms`.

    Ends early when nothing more can be learnt, and with `stop_at_first` as soon as one is seen alive (the others are
    then unknown). Reads only. Raises KgmError when the offsets cannot be read."""
    wanted = set(member_ids)
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
    if watched:
        _look(cluster, group.group_id, watched, window_ms, stop_at_first=stop_at_first)
    for one in watched:
        signs[one.member.member_id] = one.sign or _verdict(one, window_ms)
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


def _look(cluster: Cluster, group_id: str, watched: list[_Watched], window_ms: int, *, stop_at_first: bool) -> None:
    window = cluster.deadline.within(window_ms / 1000)
    idle = cluster.deadline.within(min(_IDLE_MS, window_ms) / 1000)
    every_partition = {pair for one in watched for pair in one.partitions}
    while True:
        committed = cluster.committed_offsets(group_id)
        ends = cluster.end_offsets(every_partition)
        for one in watched:
            if one.sign is None:
                _judge(one, committed, ends)
        open_ones = [one for one in watched if one.sign is None]
        if not open_ones or (stop_at_first and len(open_ones) < len(watched)) or window.expired:
            return
        if idle.expired and not any(one.waiting or one.moving_ends for one in open_ones):
            return
        window.sleep(_POLL_S)


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


def _verdict(one: _Watched, window_ms: int) -> Sign:
    if one.waiting:
        why = f"it committed nothing for {window_ms / 1000:g} s while records wait for it"
        return Sign(liveness=Liveness.SILENT, why=why)
    return Sign(liveness=Liveness.UNKNOWN, why="it has read everything there is, so no commit is due")


def _pairs(partitions: Partitions) -> list[tuple[str, int]]:
    return [(topic, partition) for topic in sorted(partitions) for partition in partitions[topic]]
