"""What a built history (`kgm history build`) says of the present: advice on session timeouts, and open alarms."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kgm.operations.doctor.findings import Finding, Severity
from kgm.text.durations import show_duration

if TYPE_CHECKING:
    from kgm.operations.doctor.group_facts import GroupFacts

_ADVICE_TABLE, _ALARM_TABLE = "gold_timeout_advice", "gold_alarm"
_ALARM_SEVERITY: Final = {
    "duplicate-instance-id": Severity.ERROR,
    "zombie-seat": Severity.ERROR,
    "timeout-flapping": Severity.WARNING,
    "seat-never-returns": Severity.WARNING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutAdvice:
    """What the history advises about a group's session timeout. verdict: raise, lower or keep."""

    group_id: str
    verdict: str
    session_timeout_ms: int
    advised_ms: int
    text: str | None
    restarts: int
    longest_restart_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAlarm:
    """An alarm. group_instance_id: None for one of the whole group; is_open: it has not been cleared."""

    group_id: str
    alarm: str
    group_instance_id: str | None
    evidence: tuple[str, ...]
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFacts:
    """The advice and the alarms in a folder."""

    folder: str
    advice: tuple[TimeoutAdvice, ...]
    alarms: tuple[HistoryAlarm, ...]


def read_history(folder: str) -> HistoryFacts:
    """Raises NotFoundError, UsageError; ImportError where the extra for histories is not installed."""
    from kgm.history.store.store import Asked, open_store

    store = open_store(pathlib.Path(folder))
    advice = tuple(
        TimeoutAdvice(
            group_id=row["group_id"],
            verdict=row["verdict"],
            session_timeout_ms=row["now_ms"],
            advised_ms=row["advised_ms"],
            text=row["advice"] or None,
            restarts=row["restarts"],
            longest_restart_ms=row["max_ms"],
        )
        for row in store.rows(_ADVICE_TABLE, Asked())
    )
    alarms = tuple(
        HistoryAlarm(
            group_id=row["group_id"],
            alarm=row["alarm"],
            group_instance_id=row["seat"] or None,
            evidence=tuple(map(str, row["evidence"] or ())),
            is_open=row["cleared_timestamp"] is None,
        )
        for row in store.rows(_ALARM_TABLE, Asked())
    )
    return HistoryFacts(folder=folder, advice=advice, alarms=alarms)


def timeout_advice(facts: GroupFacts) -> Iterator[Finding]:
    """A session timeout that the history advises to change."""
    for one in facts.advice:
        if one.verdict not in ("raise", "lower"):
            continue
        yield facts.finding(
            "session-timeout-advice", Severity.WARNING if one.verdict == "raise" else Severity.INFO,
            f"the history advises to {one.verdict} session.timeout.ms from {one.session_timeout_ms} "
            f"to {one.advised_ms}",
            *([one.text] if one.text else []),
            f"{one.restarts} restarts, the longest {show_duration(one.longest_restart_ms)}",
            run=("history timeouts", "--store", facts.history or "DIR"),
        )  # fmt: skip


def open_alarms(facts: GroupFacts) -> Iterator[Finding]:
    """Alarms that the history has raised and not cleared."""
    for one in facts.alarms:
        if not one.is_open:
            continue
        yield facts.finding(
            f"history-{one.alarm}", _ALARM_SEVERITY.get(one.alarm, Severity.WARNING),
            f"the history has an open alarm for {one.group_instance_id or 'the group'}: {one.alarm}",
            *one.evidence[:3],
            about=[one.group_instance_id] if one.group_instance_id else [],
            run=("history zombies", "--store", facts.history or "DIR"),
        )  # fmt: skip


CHECKS: Final = (timeout_advice, open_alarms)
