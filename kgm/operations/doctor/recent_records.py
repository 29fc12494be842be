"""What happened lately, from what the group's coordinator wrote down, and from a built history."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kgm.model.changes import by_identity
from kgm.operations.doctor.case import Case, Finding, some
from kgm.text.durations import show_duration
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.client.offsets_topic_tail import Recorded

#: So many takeovers of a seat within the window below are two processes that fence each other.
_DUPLICATE_COUNT: Final = 3
_DUPLICATE_WINDOW_MS: Final = 120_000
_OFTEN_COUNT: Final = 6
_OFTEN_WINDOW_MS: Final = 600_000
#: What is longer ago than this is not "lately".
_LATELY_MS: Final = 3_600_000
_ALARM_SEVERITY: Final = {
    "duplicate-instance-id": "error", "timeout-flapping": "warning", "seat-never-returns": "warning",
    "zombie-seat": "error",
}  # fmt: skip


def duplicate_instance_ids(case: Case) -> Iterator[Finding]:
    """One seat, taken over again and again without a rebalance: processes with the same id fence each other."""
    taken: dict[str, list[tuple[int, str, str]]] = {}
    for before, after in pairwise(case.past):
        old = by_identity(before.group)
        for name, member in by_identity(after.group).items():
            if member.group_instance_id is not None and name in old and old[name].member_id != member.member_id:
                taken.setdefault(name, []).append((after.at_ms, member.member_id, member.client_host))
    for name, times in sorted(taken.items()):
        latest = times[-1][0]
        within = [each for each in times if latest - each[0] <= _DUPLICATE_WINDOW_MS]
        if len(within) < _DUPLICATE_COUNT or case.now_ms - latest > _LATELY_MS:
            continue
        hosts = sorted({host for _, _, host in within if host})
        span = show_duration(max(1, -(-(latest - within[0][0]) // 1000)) * 1000)  # whole seconds, rounded up
        yield case.finding(
            "duplicate-instance-id", "error",
            f"several processes use the group.instance.id {name}, each fencing the one before",
            f"{len(within)} takeovers within {span}", f"from {some(hosts)}", about=[name],
            run=("kgm", "watch", case.group.group_id, "--interval", "1s"),
        )  # fmt: skip


def short_sessions(case: Case) -> Iterator[Finding]:
    """Static members that were dropped and came back to the same seat: their restarts outlast their sessions."""
    gone: dict[str, tuple[int, int]] = {}
    longest: dict[str, tuple[int, int]] = {}
    for before, after in pairwise(case.past):
        old, new = by_identity(before.group), by_identity(after.group)
        session_ms = before.group.session_timeout_ms
        for name in sorted(old.keys() - new.keys()):
            if old[name].group_instance_id is not None and session_ms:
                gone[name] = (after.at_ms, session_ms)
        for name in sorted((new.keys() - old.keys()) & gone.keys()):
            left_ms, session = gone.pop(name)
            took = after.at_ms - left_ms + session
            if took > longest.get(name, (0, 0))[0]:
                longest[name] = (took, session)
    if longest:
        most, session = max(longest.values())
        yield case.finding(
            "session-too-short", "warning",
            f"{many(len(longest), 'static member')} came back after the session had ended: each such restart costs two "
            f"rebalances. With session.timeout.ms above {most} it would have cost none",
            *(
                f"{name} was away for about {show_duration(took // 1000 * 1000)}, its session is {show_duration(s)}"
                for name, (took, s) in sorted(longest.items())[:5]
            ),
            about=sorted(longest),
            run=("kgm", "simulate-bounce", case.group.group_id, "--instance-ids", min(longest),
                 "--restart-time", f"{most // 1000}s", "--session-timeout", f"{most // 1000 + 10}s"),
        )  # fmt: skip


def frequent_rebalances(case: Case) -> Iterator[Finding]:
    """A group that does not come to rest."""
    rounds = [after.at_ms for before, after in pairwise(case.past) if _generation(before) != _generation(after)]
    if not rounds or case.now_ms - rounds[-1] > _LATELY_MS:
        return
    within = [at_ms for at_ms in rounds if rounds[-1] - at_ms <= _OFTEN_WINDOW_MS]
    if len(within) >= _OFTEN_COUNT:
        span = show_duration((within[-1] - within[0]) // 1000 * 1000)
        yield case.finding(
            "frequent-rebalances", "warning", f"{len(within)} rebalances within {span}",
            f"the last one {show_duration(max(case.now_ms - rounds[-1], 0) // 1000 * 1000) or '0s'} ago",
            run=("kgm", "watch", case.group.group_id, "--interval", "1s"),
        )  # fmt: skip


def _generation(record: Recorded) -> int | None:
    return record.group.generation


def advice(case: Case) -> Iterator[Finding]:
    """What a built history says of the group's session timeout."""
    for row in case.advice:
        if row["verdict"] not in ("raise", "lower"):
            continue
        yield case.finding(
            "session-timeout-advice", "warning" if row["verdict"] == "raise" else "info",
            f"its history says: {row['verdict']} session.timeout.ms from {row['now_ms']} to {row['advised_ms']}",
            *([str(row["advice"])] if row["advice"] else []),
            f"{row['restarts']} restarts, the longest {show_duration(row['max_ms'])}",
            run=("kgm", "history", "timeouts", case.group.group_id, "--store", case.history or "DIR"),
        )  # fmt: skip


def alarms(case: Case) -> Iterator[Finding]:
    """What a built history has raised and not cleared."""
    for row in case.alarms:
        if row["cleared_timestamp"] is not None:
            continue
        seat = row["seat"] or "the group"
        yield case.finding(
            f"history-{row['alarm']}", _ALARM_SEVERITY.get(row["alarm"], "warning"),
            f"its history has an alarm for {seat}: {row['alarm']}",
            *(str(line) for line in (row["evidence"] or [])[:3]),
            about=[row["seat"]] if row["seat"] else [],
            run=("kgm", "history", "zombies", case.group.group_id, "--store", case.history or "DIR"),
        )  # fmt: skip


CHECKS: Final = (duplicate_instance_ids, short_sessions, frequent_rebalances, advice, alarms)
