"""How often inferred causes are right, where the broker's own log has the cause."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from kgm.history.causes import broker_log
from kgm.history.causes.verdict import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseGrade:
    """How often an inferred cause of a given confidence was what the broker logged (`right`), one of several causes
    that coincided (`also`), or a different one (`wrong`)."""

    cause: str
    confidence: str
    right: int
    also: int
    wrong: int


def grades(rows, reasons):
    """The grades of the causes that the broker's log has. rows: as they are before `explained`."""
    counts = defaultdict(Counter)
    rows = list(rows)
    logs = broker_log._BrokerLogs(rows, reasons)
    for row in rows:
        meant = [each for each in broker_log._meant(row, logs.of(row)) if each.cause is not Cause.UNKNOWN]
        if meant and row.inferred_cause is not None and row.inferred_cause != Cause.UNKNOWN.value:
            counts[row.inferred_cause, row.inferred_confidence or ""][_grade(row, meant)] += 1
    return [
        CauseGrade(cause=cause, confidence=sure, right=seen["right"], also=seen["also"], wrong=seen["wrong"])
        for (cause, sure), seen in sorted(counts.items())
    ]


def _grade(row, reasons):
    same = {cause for each in reasons for cause in broker_log._same(each.cause)}
    if row.inferred_cause in same:
        return "right"
    if row.inferred_cause == Cause.ALL_GONE.value:
        return "right" if row.members_after == 0 else "wrong"
    return "also" if same & set(row.also) else "wrong"
