"""Members that left because their applications did not poll: the client library leaves the group on its own after
max.poll.interval.ms, and rejoins with the next poll.

In a consumer group (KIP-848) a process keeps its member id when it rejoins; a new process gets a new one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from kgm.client.offsets_topic.group_tail import RecordedGroup
from kgm.client.offsets_topic.member_activity import ActivityRecord, DepartureRecord, MemberRecord
from kgm.history.causes.classic_causes import departure
from kgm.history.causes.verdict import Cause, Departure, MissingMember
from kgm.history.reconstruct.classic_snapshots import ChangeKind, MemberChange, SnapshotMember
from kgm.model.changes import by_identity
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.doctor.findings import Finding, Severity
from kgm.operations.doctor.group_facts import GroupFacts, MemberAbsence
from kgm.records.messages.group_metadata_value import MemberMetadata
from kgm.text.durations import show_duration
from kgm.text.timestamps import rfc3339
from kgm.text.wording import many

#: Older events are not recent.
RECENT_MS: Final = 3_600_000
_LEAST_COMMITS: Final = 3
_MOST_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _GoneMember:
    """A dynamic member that is in one record and not in the next one."""

    before: RecordedGroup
    after: RecordedGroup
    member: MemberSnapshot


def gone_members(recorded: Sequence[RecordedGroup], now_ms: int) -> Iterator[_GoneMember]:
    """Dynamic members that left in the last hour while others stayed, oldest first. Static members do not leave on
    their own."""
    for before, after in pairwise(recorded):
        new = by_identity(after.group)
        if now_ms - after.at_ms > RECENT_MS or not new:
            continue
        for name, member in by_identity(before.group).items():
            if name not in new and member.group_instance_id is None:
                yield _GoneMember(before=before, after=after, member=member)


def exceeded_poll_intervals(facts: GroupFacts) -> Iterator[Finding]:
    """Members that left after committing nothing for as long as their poll interval, with their sessions still
    alive."""
    departures = [(gone, _departure(facts, gone)) for gone in gone_members(facts.recorded, facts.now_ms)]
    late = [(gone, how) for gone, how in departures if how is not None and how.cause is Cause.MAX_POLL]
    if late:
        names = [gone.member.identity for gone, _ in late]
        yield facts.finding(
            "max-poll-exceeded", Severity.WARNING,
            f"{many(len(late), 'member')} left in the last hour, probably because the application did not poll within "
            "max.poll.interval.ms",
            *(
                f"{rfc3339(gone.after.at_ms)}: {how.evidence}{_return(facts, gone)}"
                for gone, how in late[-_MOST_SHOWN:]
            ),
            about=names, run=("history explain", "--generation", str(late[-1][0].after.group.generation)),
        )  # fmt: skip


def absences(records: Sequence[ActivityRecord], since_ms: int) -> list[MemberAbsence]:
    """Absences that ended at or after `since_ms`, oldest first. records: of a consumer group, oldest first."""
    left_ms: dict[str, int] = {}
    found = []
    for one in records:
        if isinstance(one, DepartureRecord):
            left_ms[one.member_id] = one.at_ms
        elif isinstance(one, MemberRecord) and one.member_id in left_ms:
            left = left_ms.pop(one.member_id)
            if one.at_ms >= since_ms:
                timeout_ms = one.rebalance_timeout_ms
                found.append(
                    MemberAbsence(
                        member_id=one.member_id, left_ms=left, back_ms=one.at_ms, rebalance_timeout_ms=timeout_ms
                    )
                )
    return found


def absent_consumers(facts: GroupFacts) -> Iterator[Finding]:
    """Members of a consumer group whose process kept running while they were out of the group."""
    if facts.absences:
        names = list(dict.fromkeys(one.member_id for one in facts.absences))
        were = "its process" if len(names) == 1 else "their processes"
        yield facts.finding(
            "max-poll-exceeded", Severity.WARNING,
            f"{many(len(names), 'member')} left in the last hour and came back with the same member id, so {were} ran "
            "on: probably because the application did not poll within max.poll.interval.ms",
            *(f"{rfc3339(one.left_ms)}: {_absence_text(facts, one)}" for one in facts.absences[-_MOST_SHOWN:]),
            "the log does not distinguish this from a process that was suspended for a session, or that unsubscribed",
            about=names, run=("history explain",),
        )  # fmt: skip


def _absence_text(facts: GroupFacts, one: MemberAbsence) -> str:
    member = next((member for member in facts.group.members if member.member_id == one.member_id), None)
    who = one.member_id if member is None else f"{one.member_id} ({member.client_id}, {member.client_host})"
    out_ms = one.back_ms - one.left_ms
    if one.rebalance_timeout_ms is None:
        return f"{who} was out of the group for {show_duration(out_ms)}"
    stall_ms = out_ms + one.rebalance_timeout_ms
    return (
        f"{who} was out of the group for {show_duration(out_ms)}; its max.poll.interval.ms is "
        f"{show_duration(one.rebalance_timeout_ms)}: if that had passed, it did not poll for {show_duration(stall_ms)}"
    )


def _departure(facts: GroupFacts, gone: _GoneMember) -> Departure | None:
    """How a member left; None if its timeouts or its commits are not known."""
    group, member, at_ms = gone.before.group, gone.member, gone.after.at_ms
    session_ms, poll_ms = group.session_of(member), group.rebalance_of(member)
    times = _commit_times(facts, gone)
    if session_ms is None or poll_ms is None or len(times) < _LEAST_COMMITS:
        return None
    record = MemberMetadata(
        member_id=member.member_id, client_id=member.client_id, client_host=member.client_host,
        session_timeout=session_ms, rebalance_timeout=poll_ms,
    )  # fmt: skip
    change = MemberChange(
        offset=0, timestamp=at_ms, generation=gone.after.group.generation or 0, kind=ChangeKind.LEFT,
        member=SnapshotMember(record, frozenset(member.known_topics), member.assignment), old_member_id=None,
        absorbed=None, complete=True,
    )  # fmt: skip
    cadence_ms = (times[-1] - times[0]) // (len(times) - 1)
    missing = MissingMember(change=change, last_commit=times[-1], cadence_ms=cadence_ms, joined=gone.before.at_ms)
    return departure(missing, at_ms)


def _commit_times(facts: GroupFacts, gone: _GoneMember) -> list[int]:
    """Commit times in ms of whichever of the member's partitions was committed most often while the member owned it."""
    since_ms, until_ms, owned = gone.before.at_ms, gone.after.at_ms, gone.member.assignment
    mine = [
        one for one in facts.commits if since_ms <= one.at_ms <= until_ms and one.partition in owned.get(one.topic, ())
    ]
    most = Counter((one.topic, one.partition) for one in mine).most_common(1)
    return [one.at_ms for one in mine if most and (one.topic, one.partition) == most[0][0]]


def _return(facts: GroupFacts, gone: _GoneMember) -> str:
    """A note if a member with the same client id and host has joined since, as a stalled application does; else
    empty."""
    present = by_identity(facts.group)
    known = by_identity(gone.before.group)
    for name, one in present.items():
        if name not in known and (one.client_id, one.client_host) == (gone.member.client_id, gone.member.client_host):
            return f"; {name} has joined since with the same client id, from the same host"
    return ""


def has_recent_departures(recorded: Sequence[RecordedGroup], now_ms: int) -> bool:
    """Whether reading the group's commits would help, because dynamic members left recently."""
    return any(True for _ in gone_members(recorded, now_ms))


def vanishing_topics(recorded: Sequence[RecordedGroup], group: GroupSnapshot) -> set[str]:
    """Topics that members used to subscribe to and that no current member subscribes to."""
    before = {topic for one in recorded for member in one.group.members for topic in member.known_topics}
    return before - {topic for member in group.members for topic in member.known_topics}


CHECKS: Final = (exceeded_poll_intervals, absent_consumers)
