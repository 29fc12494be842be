"""Which members a rebalance waits for, for how long at most, and what happens then.

No Kafka API reports which members of a classic group have rejoined. What is known is who was in the last generation
(from the group's log) and who has joined since; a member of the last generation that is still listed may have rejoined
already. In a consumer group (KIP-848), each member's epoch and partitions show which members the others wait for; its
records show when it was asked to give up partitions, and how long it has for that."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kgm.client import AdminClient
from kgm.client.lag_times import latest_commits
from kgm.client.offsets_topic.member_activity import (
    ActivityRecord,
    GroupActivity,
    MemberRecord,
    RebalanceRecord,
)
from kgm.coordinator.contract.behavior import behavior_of
from kgm.model.assignment import Partitions, less
from kgm.model.changes import REBALANCING
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.groups.classic_only import NO_NEW_ASSIGNMENT, may_wait_for_a_join, run_only_classic
from kgm.text.durations import show_duration
from kgm.text.names import in_order, natural
from kgm.text.timestamps import rfc3339
from kgm.text.wording import many, partitions_text, some

_JOINING, _SYNCING = "PreparingRebalance", "CompletingRebalance"
_MOST_LINES = 5
#: The share of the remaining time that reading the log may take.
_SHARE = 0.3


class WaitPhase(StrEnum):
    """join: members must rejoin. sync: they must fetch their assignments. reconcile: partitions pass from member to
    member (KIP-848)."""

    JOIN = "join"
    SYNC = "sync"
    RECONCILE = "reconcile"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationMember:
    """A member according to the group's log: of the last generation, or of a consumer group. Timeouts are in ms.
    idle_ms: how long it has committed nothing; asked_at_ms: when it was asked to give up what it still holds.
    is_asked_again: another coordinator has taken over since, and gives it that time again, from asked_at_ms on at the
    latest. None: not known."""

    member_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    idle_ms: int | None = None
    asked_at_ms: int | None = None
    is_asked_again: bool = False

    @property
    def identity(self) -> str:
        return self.member_id if self.group_instance_id is None else self.group_instance_id


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedMember:
    """A member that the others may be waiting for. holds: partitions that it must give up. session_timeout_ms: it is
    removed after this long without a heartbeat; limit_ms: after this long at most the others go on without it, even if
    it sends heartbeats (in a classic group the limit of the wait, and not this member's own rebalance timeout);
    fenced_at_ms: the latest time of that, in ms since the epoch by the coordinator's clock. None: not known.
    is_asked_again: limit_ms began again when another coordinator took over."""

    identity: str
    member_id: str
    is_static: bool
    session_timeout_ms: int | None = None
    limit_ms: int | None = None
    idle_ms: int | None = None
    epoch: int | None = None
    holds: Partitions = field(default_factory=dict)
    fenced_at_ms: int | None = None
    is_asked_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceWait:
    """A rebalance in progress. seen_for_ms: how long it has been observed; None after a single look. limit_ms: how long
    this phase takes at most; None if not known. known_limit_ms: the longest rebalance timeout that is known of a
    classic group; those of `arrived` are not, and may be longer. may_begin_again: whether it is possible that none has
    rejoined: as long as there are only static members, the coordinator then begins to wait again. arrived, gone:
    identities that joined, and that left, since the last generation. unknown_because: why the last generation is not
    known. is_endless: whether the coordinator sets no limit (it has none for syncs before Kafka 2.8). away: static
    members that left and said they would be back (KIP-848). needs_join: whether the group gets a new assignment only
    once a member joins or rejoins (`classic_only`)."""

    group_id: str
    phase: WaitPhase
    awaited: tuple[AwaitedMember, ...]
    arrived: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    generation: int | None = None
    limit_ms: int | None = None
    known_limit_ms: int | None = None
    may_begin_again: bool = False
    seen_for_ms: int | None = None
    unknown_because: str | None = None
    is_endless: bool = False
    away: tuple[str, ...] = ()
    needs_join: bool = False

    @property
    def headline(self) -> str:
        """Which members it waits for, and for how long at most, on one line."""
        seen = "" if not self.seen_for_ms else f"; seen for {show_duration(self.seen_for_ms // 1000 * 1000)}"
        names = some(one.identity for one in self.awaited)
        match self.phase:
            case WaitPhase.JOIN if not self.awaited:
                whom = "waits for more members to join (group.initial.rebalance.delay.ms)"
            case WaitPhase.JOIN:
                whom = f"waits for members to rejoin (Kafka does not report which have): {names}"
            case _ if self.needs_join:
                returns = f", or the session of {some(self.away)} ends" if self.away else ""
                whom = f"waits until a member joins or rejoins{returns}: {NO_NEW_ASSIGNMENT}"
            case WaitPhase.SYNC:
                whom = f"all have joined; waits for the leader's assignment, and for each to fetch it: {names}"
            case _:
                away = f"waits until {some(self.away)} is back or its session ends" if self.away else None
                whom = f"waits for {names}" if names else away or "partitions are being handed over"
        return f"{whom}{self._at_most()}{seen}"

    def _at_most(self) -> str:
        ends_ms = [one.fenced_at_ms for one in self.awaited if one.fenced_at_ms is not None]
        if ends_ms and len(ends_ms) == len(self.awaited):
            return f", at most until {rfc3339(max(ends_ms))}"
        known_ms = self.known_limit_ms if self.limit_ms is None else self.limit_ms
        if known_ms is None:
            return ""
        limit = f", at most {show_duration(known_ms)} from its start"
        if self.limit_ms is None:
            return f"{limit}, or max.poll.interval.ms of {some(self.arrived)} if that is longer"
        return f"{limit} if any of them rejoins by then" if self.may_begin_again else limit

    def lines(self) -> list[str]:
        """Who joined and left, and each awaited member with its own limits."""
        lines = [] if self.unknown_because is None else [f"the last generation is not known: {self.unknown_because}"]
        if self.arrived:
            lines.append(f"joined since generation {self.generation}: {some(self.arrived)}")
        if self.gone:
            lines.append(f"gone since generation {self.generation}: {some(self.gone)}")
        if self.needs_join:
            lines.append("to have all partitions assigned: restart a member, or start another one")
        lines += [self._line(one) for one in self.awaited[:_MOST_LINES]]
        if len(self.awaited) > _MOST_LINES:
            lines.append(f"and {many(len(self.awaited) - _MOST_LINES, 'more member')}")
        return lines

    def _line(self, one: AwaitedMember) -> str:
        parts = []
        if one.epoch is not None:
            parts.append(f"at epoch {one.epoch}")
        if one.holds:
            parts.append(f"still holds {partitions_text(one.holds)}")
        if one.idle_ms is not None and one.idle_ms >= 1000:
            parts.append(f"no commit for {show_duration(one.idle_ms // 1000 * 1000)}")
        session = "its session timeout" if one.session_timeout_ms is None else show_duration(one.session_timeout_ms)
        stopped = f"if it has stopped, it is removed {session} after its last heartbeat"
        match self.phase:
            case WaitPhase.JOIN if one.is_static:
                parts += [stopped, f"{self._when_over()} the others continue without it, and it keeps its place"]
            case _ if self.is_endless:
                parts.append(f"{stopped}; if it is alive and does not sync, nothing ends the wait")
            case WaitPhase.JOIN | WaitPhase.SYNC:
                missing = "rejoin" if self.phase is WaitPhase.JOIN else "sync"
                over = f"if it does not {missing}, it is removed {self._when_over()}"
                parts.append(f"{over}; {stopped} if that is earlier")
            case _:
                parts += [stopped, _next_of_holder(one)]
        return f"{one.identity}: {'; '.join(parts)}"

    def _when_over(self) -> str:
        """When this phase of a classic group ends without those that are awaited: all members have one timer."""
        if self.limit_ms is not None:
            return f"after at most {show_duration(self.limit_ms)}"
        is_unknown = self.known_limit_ms is None
        return "after the longest max.poll.interval.ms of the group" if is_unknown else "when that time is over"


def _next_of_holder(one: AwaitedMember) -> str:
    """What comes next for a member of a group with epochs."""
    if not one.holds:
        return "it takes over its part of the new assignment with its next heartbeats"
    if one.fenced_at_ms is not None:
        at = "by" if one.is_asked_again else "at"
        return f"if it is alive and does not give them up, it is fenced {at} {rfc3339(one.fenced_at_ms)}"
    limit = "max.poll.interval.ms" if one.limit_ms is None else show_duration(one.limit_ms)
    since = "its coordinator took over" if one.is_asked_again else "it is asked to"
    return f"if it is alive and does not give them up, it is fenced {limit} after {since}"


def logged_members(record: GroupSnapshot | None) -> list[GenerationMember] | None:
    """The members of a generation, from the group's record; None if there is no record."""
    if record is None:
        return None
    return [
        GenerationMember(
            member_id=one.member_id,
            group_instance_id=one.group_instance_id,
            session_timeout_ms=record.session_of(one),
            rebalance_timeout_ms=record.rebalance_of(one),
        )
        for one in record.members
    ]


def rebalance_wait(
    group: GroupSnapshot, last: Sequence[GenerationMember] | None = None, *, generation: int | None = None,
    seen_for_ms: int | None = None, unknown_because: str | None = None,
) -> RebalanceWait | None:  # fmt: skip
    """What a group is waiting for; None if it is not rebalancing. last: from the log, the members of the last
    generation of a classic group, or the members of a consumer group; None if not known."""
    if group.type != "classic":
        return _reconciling(group, {one.member_id: one for one in last or ()}, seen_for_ms)
    if group.state not in REBALANCING:
        return None
    joining = group.state == _JOINING
    known = {one.member_id: one for one in last or ()}
    present = {one.member_id for one in group.members}
    arrived = [] if last is None else [one.identity for one in group.members if one.member_id not in known]
    # The coordinator sets one timer for all, to the longest timeout among the members that there are when the phase
    # begins; who joins later does not extend it (GroupMetadataManager.prepareRebalance). Those that are gone by now
    # may have been there when it waits for joins, and are removed before it waits for syncs.
    there = [one.rebalance_timeout_ms for one in known.values() if joining or one.member_id in present]
    is_endless = not joining and _has_no_sync_timer(group)
    known_limit_ms = max((one for one in there if one is not None and not is_endless), default=None)
    limit_ms = None if arrived or None in there else known_limit_ms
    awaited = [
        _awaited(one, known.get(one.member_id), limit_ms)
        for one in sorted(group.members, key=lambda one: natural(one.identity))
        if not joining or last is None or one.member_id in known
    ]
    identities = {one.identity for one in group.members}
    return RebalanceWait(
        group_id=group.group_id,
        phase=WaitPhase.JOIN if joining else WaitPhase.SYNC,
        awaited=tuple(awaited),
        arrived=tuple(in_order(arrived)),
        gone=tuple(in_order(one.identity for one in known.values() if one.identity not in identities)),
        generation=generation,
        limit_ms=limit_ms,
        known_limit_ms=known_limit_ms,
        may_begin_again=joining and not arrived and group.static_members > 0,
        seen_for_ms=seen_for_ms,
        unknown_because=unknown_because if last is None else None,
        is_endless=is_endless,
    )


def _has_no_sync_timer(group: GroupSnapshot) -> bool:
    """Whether the coordinator waits for syncs without a limit. False if its version is not known."""
    versions = group.kafka_versions or ()
    return bool(versions) and not any(behavior_of(version).has_sync_timer for version in versions)


def _awaited(member: MemberSnapshot, known: GenerationMember | None, limit_ms: int | None) -> AwaitedMember:
    return AwaitedMember(
        identity=member.identity,
        member_id=member.member_id,
        is_static=member.group_instance_id is not None,
        session_timeout_ms=None if known is None else known.session_timeout_ms,
        limit_ms=limit_ms,
        idle_ms=None if known is None else known.idle_ms,
    )


def _reconciling(
    group: GroupSnapshot, known: Mapping[str, GenerationMember], seen_for_ms: int | None
) -> RebalanceWait | None:
    """What a group with epochs is waiting for: the members that are behind, starting with those that hold partitions
    that another member will get. known: by member id."""
    if group.state not in ("Assigning", "Reconciling"):
        return None
    away = tuple(in_order(one.identity for one in group.members if one.status == "away"))
    lacks_assignment = group.assignment_epoch is not None and group.assignment_epoch != group.group_epoch
    if lacks_assignment and may_wait_for_a_join(group, group.members):
        return RebalanceWait(
            group_id=group.group_id, phase=WaitPhase.RECONCILE, awaited=(), generation=group.group_epoch,
            seen_for_ms=seen_for_ms, away=away, needs_join=True,
        )  # fmt: skip
    awaited = [_holder(one, known.get(one.member_id), group.session_timeout_ms) for one in behind(group)]
    awaited.sort(key=lambda one: (not one.holds, natural(one.identity)))
    holders = [one for one in awaited if one.holds]
    limits = [one.limit_ms for one in holders if one.limit_ms is not None and not one.is_asked_again]
    return RebalanceWait(
        group_id=group.group_id,
        phase=WaitPhase.RECONCILE,
        awaited=tuple(holders or awaited),
        generation=group.group_epoch,
        limit_ms=max(limits) if limits and len(limits) == len(holders) else None,
        seen_for_ms=seen_for_ms,
        away=away,
    )


def _holder(member: MemberSnapshot, known: GenerationMember | None, session_timeout_ms: int | None) -> AwaitedMember:
    limit_ms = None if known is None else known.rebalance_timeout_ms
    asked_at_ms = None if known is None else known.asked_at_ms
    return AwaitedMember(
        identity=member.identity,
        member_id=member.member_id,
        is_static=member.group_instance_id is not None,
        session_timeout_ms=session_timeout_ms,
        limit_ms=limit_ms,
        idle_ms=None if known is None else known.idle_ms,
        epoch=member.member_epoch,
        holds={} if member.target_assignment is None else less(member.assignment, member.target_assignment),
        fenced_at_ms=None if limit_ms is None or asked_at_ms is None else asked_at_ms + limit_ms,
        is_asked_again=known is not None and known.is_asked_again,
    )


def behind(group: GroupSnapshot) -> Iterator[MemberSnapshot]:
    """The members of a group with epochs that have not adopted their part of the newest epoch."""
    for one in group.members:
        is_old = one.member_epoch is not None and 0 <= one.member_epoch < (group.group_epoch or 0)
        if group.group_epoch is not None and (one.status == "reconciling" or is_old):
            yield one


def read_rebalance_wait(
    cluster: AdminClient, group: GroupSnapshot, *, seen_for_ms: int | None = None
) -> RebalanceWait | None:
    """What a live group is waiting for, given what its log has about its members and the commits since. Raises
    nothing."""
    depends_on_version = group.state == _SYNCING or run_only_classic(group, group.members)
    if group.kafka_versions is None and depends_on_version:  # on what it waits for, or for how long
        (group,) = cluster.with_kafka_versions([group])
    wait = rebalance_wait(group, seen_for_ms=seen_for_ms)
    if wait is None:
        return None
    activity = GroupActivity(cluster, group.group_id)
    deadline = cluster.deadline.part(_SHARE)
    if group.type != "classic":
        ids = {one.member_id for one in wait.awaited}
        records = activity.read_back(lambda read: ids <= {*_timeouts(read)}, deadline)
        return rebalance_wait(group, _reconciling_members(activity, records, ids), seen_for_ms=seen_for_ms)
    records = activity.read_back(lambda read: any(isinstance(one, RebalanceRecord) for one in read), deadline)
    latest = next((one for one in reversed(records) if isinstance(one, RebalanceRecord)), None)
    if latest is None:
        why = activity.unreadable_because or "its record is further back in the log than kgm reads"
        return rebalance_wait(group, seen_for_ms=seen_for_ms, unknown_because=why)
    now_ms = round(time.time() * 1000)
    commits = latest_commits(records)
    last = [
        GenerationMember(
            member_id=one.member_id,
            group_instance_id=one.group_instance_id,
            session_timeout_ms=one.session_timeout_ms,
            rebalance_timeout_ms=one.rebalance_timeout_ms,
            idle_ms=_idle_ms(one.assignment, commits, latest.at_ms, now_ms),
        )
        for one in latest.members.values()
    ]
    return rebalance_wait(group, last, generation=latest.generation, seen_for_ms=seen_for_ms)


def _timeouts(records: Sequence[ActivityRecord]) -> dict[str, int]:
    """The rebalance timeouts of the members of a consumer group, by member id, in ms."""
    return {
        one.member_id: one.rebalance_timeout_ms
        for one in records
        if isinstance(one, MemberRecord) and one.rebalance_timeout_ms is not None
    }


def _reconciling_members(
    activity: GroupActivity, records: Sequence[ActivityRecord], ids: Collection[str]
) -> list[GenerationMember]:
    """The members of a consumer group with these ids, with what its log has about them."""
    timeouts = _timeouts(records)
    epochs = {one.member_id: one for one in records if isinstance(one, MemberRecord) and one.member_epoch is not None}

    def known(member_id: str) -> GenerationMember:
        last = epochs.get(member_id)
        is_asked = last is not None and last.is_revoking
        is_again = last is not None and activity.is_of_earlier_epoch(last)
        asked_at_ms = None if last is None else activity.epoch_began_ms if is_again else last.at_ms
        return GenerationMember(
            member_id=member_id, rebalance_timeout_ms=timeouts.get(member_id),
            asked_at_ms=asked_at_ms if is_asked else None, is_asked_again=is_asked and is_again,
        )  # fmt: skip

    return [known(member_id) for member_id in ids]


def _idle_ms(owned: Partitions, commits: dict[tuple[str, int], int], since_ms: int, now_ms: int) -> int | None:
    """How long nothing has been committed for the partitions of a member, in ms, counted from the start of the
    generation at the earliest; None if it owned none."""
    pairs = [(topic, number) for topic, numbers in owned.items() for number in numbers]
    if not pairs:
        return None
    return max(now_ms - max([since_ms, *(commits.get(pair, 0) for pair in pairs)]), 0)
