"""What a built history (`kgm history build`) says about the present: session timeout advice and open alarms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kgm.history.rows import AlarmRow, TimeoutAdviceRow
from kgm.operations.doctor.findings import Finding, Severity
from kgm.operations.doctor.group_facts import GroupFacts
from kgm.text.durations import show_duration

_ALARM_SEVERITY: Final = {
    "duplicate-instance-id": Severity.ERROR,
    "zombie-seat": Severity.ERROR,
    "timeout-flapping": Severity.WARNING,
    "seat-never-returns": Severity.WARNING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFacts:
    """The advice and the alarms stored in a folder. cluster_id: of which cluster; None if the store does not say."""

    folder: str
    cluster_id: str | None
    advice: tuple[TimeoutAdviceRow, ...]
    alarms: tuple[AlarmRow, ...]


def read_history(folder: str) -> HistoryFacts:
    """Read the advice and alarms of a built history. Raises NotFoundError, UsageError; ImportError if the extra for
    histories is not installed."""
    from kgm.history.places.remote_path import place
    from kgm.history.store.query import RowFilter
    from kgm.history.store.tables import open_store

    store = open_store(place(folder))
    advice = tuple(store.rows(TimeoutAdviceRow, RowFilter()))
    alarms = tuple(store.rows(AlarmRow, RowFilter()))
    return HistoryFacts(folder=folder, cluster_id=store.origin.cluster, advice=advice, alarms=alarms)


def timeout_advice(facts: GroupFacts) -> Iterator[Finding]:
    """A session timeout that the history advises changing."""
    for one in facts.advice:
        if one.verdict not in ("raise", "lower"):
            continue
        yield facts.finding(
            "session-timeout-advice", Severity.WARNING if one.verdict == "raise" else Severity.INFO,
            f"the history advises to {one.verdict} session.timeout.ms from {one.now_ms} "
            f"to {one.advised_ms}",
            *([one.advice] if one.advice else []),
            f"{one.restarts} restarts, the longest {show_duration(one.max_ms or 0)}",
            run=("history timeouts", "--store", facts.history or "DIR"),
        )  # fmt: skip


def open_alarms(facts: GroupFacts) -> Iterator[Finding]:
    """Alarms that the history has raised and not cleared."""
    for one in facts.alarms:
        if one.cleared_timestamp is not None:
            continue
        yield facts.finding(
            f"history-{one.alarm}", _ALARM_SEVERITY.get(one.alarm, Severity.WARNING),
            f"the history has an open alarm for {one.seat or 'the group'}: {one.alarm}",
            *one.evidence[:3],
            about=[one.seat] if one.seat else [],
            run=("history zombies", "--store", facts.history or "DIR"),
        )  # fmt: skip


CHECKS: Final = (timeout_advice, open_alarms)
#: The checks that report a history's open alarms.
ALARM_CHECKS: Final = tuple(f"history-{alarm}" for alarm in _ALARM_SEVERITY)
