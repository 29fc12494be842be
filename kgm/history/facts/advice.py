"""Which session timeout a group's restarts call for (a row of `gold_timeout_advice`), and what it costs.

A static member that is back before its session expires causes no rebalance (KIP-345). So the advice is a timeout that
would have covered nearly all observed restarts, with a margin; the price is that a member that really died is noticed
that much later. The known length of an absence is an upper bound (`restarts`), so the advice errs on the safe side."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from math import ceil

from kgm.history.causes.session_timeouts import SessionTimeout
from kgm.history.facts.restarts import RestartState
from kgm.history.row_parts import GroupKey
from kgm.history.rows import TimeoutAdviceRow

#: With fewer restarts, a p99 means nothing.
LEAST_RESTARTS = 20
_MARGIN = 1.5
_HEARTBEAT_MS = 3_000
#: What brokers allow by default: group.min.session.timeout.ms and group.max.session.timeout.ms, and for the consumer
#: protocol group.consumer.min.session.timeout.ms and group.consumer.max.session.timeout.ms.
_BOUNDS = {"classic": (6_000, 1_800_000), "consumer": (45_000, 60_000)}
#: The default of group.consumer.session.timeout.ms, from which advice starts if the log does not show another value.
_DEFAULT_SESSION_MS = 45_000
#: A smaller relative change than this is not worthwhile.
_WORTH_IT = 0.1


class AdviceVerdict(StrEnum):
    """The column `verdict`."""

    RAISE = "raise"
    LOWER = "lower"
    KEEP = "keep"
    TOO_FEW = "not enough data"


def consumer_timeout_advice(
    group: GroupKey, timestamp: int, known: SessionTimeout | None, sessions: Sequence[int | None],
    restarts: RestartState,
) -> TimeoutAdviceRow:  # fmt: skip
    """Advice for a group of the consumer protocol, whose session timeout the broker sets. known: None if the timeout is
    unknown. sessions: the members' session timeouts in ms; None where unknown."""
    default_ms = _DEFAULT_SESSION_MS if known is None else known.ms
    session_ms = max((ms or default_ms for ms in sessions), default=default_ms)
    row = timeout_advice(group, timestamp, session_ms, restarts)
    if known is not None or row.advised_ms is None:
        return row
    return replace(row, advice=f"{row.advice}; the session timeout is not known: Kafka's default is assumed")


def timeout_advice(group: GroupKey, timestamp: int, now_ms: int, known: RestartState) -> TimeoutAdviceRow:
    """now_ms: the members' current session timeout."""
    lengths = sorted(each[0] for each in known.absences)
    p50, p95, p99 = (_percentile(lengths, part) for part in (50, 95, 99))
    longest, restarts = lengths[-1] if lengths else None, len(lengths)
    if p99 is None or restarts < LEAST_RESTARTS:
        return TimeoutAdviceRow(
            **group.columns, timestamp=timestamp, now_ms=now_ms, restarts=restarts, p50_ms=p50, p95_ms=p95, p99_ms=p99,
            max_ms=longest, verdict=AdviceVerdict.TOO_FEW.value,
            advice=f"not enough data: {restarts} restarts, {LEAST_RESTARTS} are needed",
        )  # fmt: skip
    least, most = _BOUNDS[group.group_type]
    wanted = ceil(max(p99 * _MARGIN, 3 * _HEARTBEAT_MS, least) / 1_000) * 1_000
    advised = min(wanted, most)
    verdict = AdviceVerdict.KEEP
    if abs(advised - now_ms) > now_ms * _WORTH_IT:
        verdict = AdviceVerdict.RAISE if advised > now_ms else AdviceVerdict.LOWER
    saved = known.saved_by(advised) if verdict is AdviceVerdict.RAISE else 0
    lines = [f"99 of 100 restarts took at most {_s(p99)} s", *_because(verdict, now_ms, advised, saved)]
    if wanted > advised:
        lines.append(f"{_s(wanted)} s would be needed, and brokers allow {_s(advised)} s by default")
    if 2 * sum(static for _, _, static in known.absences) < restarts:
        lines.append(
            "most members have no group instance id: without one each restart causes rebalances, whatever the timeout"
        )
    return TimeoutAdviceRow(
        **group.columns, timestamp=timestamp, now_ms=now_ms, restarts=restarts, p50_ms=p50, p95_ms=p95, p99_ms=p99,
        max_ms=longest, advised_ms=advised, saved=saved, extra_stall_ms=advised - now_ms,
        within_broker_max=wanted <= most, verdict=verdict.value, advice="; ".join(lines),
    )  # fmt: skip


def _because(verdict: AdviceVerdict, now_ms: int, advised: int, saved: int) -> list[str]:
    match verdict:
        case AdviceVerdict.RAISE:
            return [
                f"{_s(advised)} s instead of {_s(now_ms)} s would have saved {saved} rebalances",
                f"a member that dies is noticed {_s(advised - now_ms)} s later",
            ]
        case AdviceVerdict.LOWER:
            return [f"{_s(advised)} s is enough; a member that dies is noticed {_s(now_ms - advised)} s sooner"]
        case _:
            return [f"{_s(now_ms)} s is enough"]


def _percentile(ordered: Sequence[int], part: int) -> int | None:
    """The smallest value that at least `part` percent of the values do not exceed."""
    return ordered[max(ceil(len(ordered) * part / 100) - 1, 0)] if ordered else None


def _s(ms: int) -> str:
    return f"{ms / 1_000:.1f}".removesuffix(".0")
