"""What happened recently, according to what the group's coordinator wrote in `__consumer_offsets`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from kgm.client.offsets_topic.group_tail import RecordedGroup, RecordedTarget
from kgm.model.changes import by_identity
from kgm.model.snapshot import MemberSnapshot
from kgm.model.takeovers import ran_together
from kgm.model.work import STREAMS_ASSIGNOR
from kgm.operations.doctor.findings import Finding, Severity
from kgm.operations.doctor.group_facts import GroupFacts
from kgm.records.rebalances import EndedRebalances
from kgm.text.braces import as_list
from kgm.text.durations import show_duration
from kgm.text.names import in_order
from kgm.text.wording import many, some

#: This many takeovers of one instance id within this window mean that two processes fence each other, if they ran at
#: the same time.
_DUPLICATE_COUNT: Final = 3
_DUPLICATE_WINDOW_MS: Final = 120_000
#: Where that cannot be seen, as many with no more than this between two of them, or more of them, may be that as well.
#: Others are restarts.
_RESTLESS_MS: Final = 5_000
_RESTLESS_COUNT: Final = 5
_OFTEN_COUNT: Final = 6
_OFTEN_WINDOW_MS: Final = 600_000
#: With these assignors, those of Kafka Streams and Kafka Connect among them, a rebalance that moves something takes
#: several generations.
_IN_ROUNDS: Final = ("cooperative-sticky", STREAMS_ASSIGNOR, "compatible", "sessioned")
#: Older events are not recent.
_RECENT_MS: Final = 3_600_000
#: How far the coordinator's clock may be from that of the machine with the audit log.
_CLOCK_SKEW_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Takeover:
    """A process that joined under another member's instance id."""

    at_ms: int
    host: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Absence:
    """A static member whose session expired and that came back. duration_ms: approximate, counted from its last
    heartbeat."""

    duration_ms: int
    session_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _GoneMember:
    """A static member that is in one record and missing from the next, which was written at `at_ms`."""

    at_ms: int
    session_timeout_ms: int


def duplicate_instance_ids(facts: GroupFacts) -> Iterator[Finding]:
    """One instance id that is taken over repeatedly without a rebalance, by processes that run at the same time and
    fence each other. A few restarts of a single process do not count; of many in a short time the log does not show
    whether it was one process that crashes or several, as a new process keeps the host of the first."""
    for name, takeovers in sorted(_takeovers(facts).items()):
        latest_ms = takeovers[-1].at_ms
        recent = [one for one in takeovers if latest_ms - one.at_ms <= _DUPLICATE_WINDOW_MS]
        if len(recent) < _DUPLICATE_COUNT or facts.now_ms - latest_ms > _RECENT_MS:
            continue
        is_certain = ran_together([(one.at_ms, one.host) for one in recent])
        is_quick = latest_ms - recent[0].at_ms <= (len(recent) - 1) * _RESTLESS_MS
        if not is_certain and not is_quick and len(recent) < _RESTLESS_COUNT:
            continue
        hosts = in_order({one.host for one in recent if one.host})
        span = show_duration(max(1, -(-(latest_ms - recent[0].at_ms) // 1000)) * 1000)  # whole seconds, rounded up
        yield facts.finding(
            "duplicate-instance-id", Severity.ERROR if is_certain else Severity.WARNING,
            f"several processes use group.instance.id {name}, and each fences the one before"
            if is_certain
            else f"group.instance.id {name} is taken over again and again: by several processes that use it, or by one "
            "that keeps restarting",
            f"{len(recent)} takeovers within {span}", f"from {some(hosts)}", about=[name],
            run=("watch", "--interval", "1s"),
        )  # fmt: skip


def _takeovers(facts: GroupFacts) -> dict[str, list[_Takeover]]:
    """The takeovers of each instance id, oldest first."""
    takeovers: dict[str, list[_Takeover]] = {}
    for before, after in pairwise(facts.recorded):
        old = by_identity(before.group)
        for name, member in by_identity(after.group).items():
            if member.group_instance_id is not None and name in old and old[name].member_id != member.member_id:
                takeovers.setdefault(name, []).append(_Takeover(at_ms=after.at_ms, host=member.client_host))
    return takeovers


def short_sessions(facts: GroupFacts) -> Iterator[Finding]:
    """Static members that left the group and came back under the same id: restarting takes them longer than a session
    timeout, unless an admin removed them, which no record shows."""
    absences = _longest_absences(facts)
    if not absences:
        return
    longest = max(absences.values())
    most_ms = facts.max_session_timeout_ms
    is_allowed = most_ms is None or longest.duration_ms < most_ms
    advice = (
        f"session.timeout.ms above {longest.duration_ms} would have avoided that"
        if is_allowed
        else f"the longest is more than group.max.session.timeout.ms ({most_ms}) allows"
    )
    tried_ms = longest.duration_ms + 10_000 if most_ms is None else min(longest.duration_ms + 10_000, most_ms)
    yield facts.finding(
        "session-too-short", Severity.WARNING,
        f"{many(len(absences), 'static member')} left the group and rejoined: each such restart costs two rebalances; "
        f"unless an admin removed them, their sessions expired, and {advice}",
        *(
            f"{name} was away for about {show_duration(absences[name].duration_ms // 1000 * 1000)}; "
            f"its session timeout is {show_duration(absences[name].session_timeout_ms)}"
            for name in in_order(absences)[:5]
        ),
        about=in_order(absences),
        run=("simulate-bounce", "--instance-ids", as_list(in_order(absences)[:1]),
             "--restart-time", f"{longest.duration_ms // 1000}s",
             "--session-timeout", f"{tried_ms // 1000}s"),
    )  # fmt: skip


def has_absences(recorded: Sequence[RecordedGroup]) -> bool:
    """Whether a static member is missing from one record and back in a later one."""
    gone: set[str] = set()
    for before, after in pairwise(recorded):
        old, new = by_identity(before.group), by_identity(after.group)
        if gone & new.keys():
            return True
        gone |= {name for name in old.keys() - new.keys() if old[name].group_instance_id is not None}
    return False


def _longest_absences(facts: GroupFacts) -> dict[str, _Absence]:
    """The longest absence of each static member that came back after its session had expired, by instance id.

    A member that showed a sign of life less than a session timeout before it disappeared did not expire: it left, or
    was removed. Nor did one that disappeared less than a session timeout after another coordinator had taken over,
    which starts all sessions again when it has read the log. If the commits of that time are not known, the member is
    left out. Any other member sent its last heartbeat one session timeout before it disappeared, unless an admin
    removed it from another machine."""
    gone: dict[str, _GoneMember] = {}
    last_signs_ms: dict[str, int] = {}
    longest: dict[str, _Absence] = {}
    for before, after in pairwise(facts.recorded):
        old, new = by_identity(before.group), by_identity(after.group)
        for name in sorted(old.keys() - new.keys()):
            session_timeout_ms = before.group.session_of(old[name])
            if old[name].group_instance_id is None or not session_timeout_ms:
                continue
            if facts.commits_since_ms is None or facts.commits_since_ms > after.at_ms - session_timeout_ms:
                continue
            began_ms = max(
                last_signs_ms.get(name, 0), _last_commit_ms(facts, old[name], until_ms=after.at_ms),
                *(at_ms for at_ms in facts.takeovers_ms if at_ms <= after.at_ms),
            )  # fmt: skip
            if after.at_ms - began_ms >= session_timeout_ms and not _was_removed(facts, name, before, after):
                gone[name] = _GoneMember(at_ms=after.at_ms, session_timeout_ms=session_timeout_ms)
        for name in sorted((new.keys() - old.keys()) & gone.keys()):
            since = gone.pop(name)
            absence = _Absence(
                duration_ms=after.at_ms - since.at_ms + since.session_timeout_ms,
                session_timeout_ms=since.session_timeout_ms,
            )
            if name not in longest or absence > longest[name]:
                longest[name] = absence
        for name, member in new.items():
            if name not in old or old[name].member_id != member.member_id:
                last_signs_ms[name] = after.at_ms  # it has joined
    return longest


def _last_commit_ms(facts: GroupFacts, member: MemberSnapshot, *, until_ms: int) -> int:
    """When an offset was last committed for one of the member's partitions, in ms; 0 if not known."""
    return max(
        (
            commit.at_ms
            for commit in facts.commits
            if commit.at_ms <= until_ms and commit.partition in member.assignment.get(commit.topic, ())
        ),
        default=0,
    )


def _was_removed(facts: GroupFacts, name: str, before: RecordedGroup, after: RecordedGroup) -> bool:
    """Whether this machine's audit log has a removal of the member between the two records."""
    return any(
        removal.group_instance_id == name
        and before.at_ms - _CLOCK_SKEW_MS <= removal.at_ms <= after.at_ms + _CLOCK_SKEW_MS
        for removal in facts.removals
    )


def rebalances_ms(logged: Sequence[RecordedGroup | RecordedTarget]) -> list[int]:
    """When the group's rebalances ended, in ms, by its records, oldest first. Of several whose records were compacted
    away, that is when the last of them ended."""
    ended, times_ms = EndedRebalances(), list[int]()
    for one in logged:
        if isinstance(one, RecordedGroup):
            count, _ = ended.generation(one.group.generation or 0, is_empty=not one.group.members)
        elif one.epoch is not None:
            count, _ = ended.target(one.epoch)
        else:
            ended.removed()
            continue
        times_ms += [one.at_ms] * count
    return times_ms


def frequent_rebalances(facts: GroupFacts) -> Iterator[Finding]:
    """A group that keeps rebalancing."""
    rebalances_ms = facts.rebalances_ms
    if not rebalances_ms or facts.now_ms - rebalances_ms[-1] > _RECENT_MS:
        return
    recent = [at_ms for at_ms in rebalances_ms if rebalances_ms[-1] - at_ms <= _OFTEN_WINDOW_MS]
    if len(recent) >= _OFTEN_COUNT:
        span = show_duration((recent[-1] - recent[0]) // 1000 * 1000)
        ago = show_duration(max(facts.now_ms - rebalances_ms[-1], 0) // 1000 * 1000)
        yield facts.finding(
            "frequent-rebalances", Severity.WARNING, f"{len(recent)} rebalances within {span}",
            f"the last one {ago} ago", *_rejoined(facts.recorded), *_most_restless(facts.recorded),
            run=("history explain",),
        )  # fmt: skip


def _rejoined(recorded: Sequence[RecordedGroup]) -> Iterator[str]:
    """A note on how many rebalances happened without a member joining or leaving."""
    ids = [{one.member_id for one in record.group.members} for record in recorded]
    generations = [record.group.generation for record in recorded]
    same = sum(
        bool(old) and old == new and before != after
        for (old, new), (before, after) in zip(pairwise(ids), pairwise(generations), strict=True)
    )
    if same:
        in_rounds = "a further round of a cooperative rebalance, " * (recorded[-1].group.assignor in _IN_ROUNDS)
        yield (
            f"in {same} of them no member came or left: {in_rounds}a member joined again by itself, or the topics have "
            "changed"
        )


def _most_restless(recorded: Sequence[RecordedGroup]) -> Iterator[str]:
    """A note on who joined and left most often. Dynamic members are counted by client id and host, because each start
    gets a new member id."""
    changes: Counter[str] = Counter()
    for before, after in pairwise(recorded):
        old, new = by_identity(before.group), by_identity(after.group)
        for name in old.keys() ^ new.keys():
            one = old.get(name) or new[name]
            changes[name if one.group_instance_id is not None else f"{one.client_id} ({one.client_host})"] += 1
    if changes:
        yield "joined or left most often: " + some(f"{name}: {many(n, 'time')}" for name, n in changes.most_common(3))


CHECKS: Final = (duplicate_instance_ids, short_sessions, frequent_rebalances)
