"""How lag changes, from two polls: rising, falling (and done when), steady, caught up, or unknown.

Arrivals are how far the log ends moved. Commits are measured from commit to commit if their ages are known; otherwise
they are measured from poll to poll, where one commit more or less, however large, is not a trend. Nothing here reads a
clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kgm.model.snapshot import GroupSnapshot, OffsetSnapshot
from kgm.text.durations import show_duration

#: The assumed time between commits: Kafka's default of auto.commit.interval.ms.
_COMMIT_INTERVAL_MS: Final = 5_000
#: Lag is steady if it changes by less than this share of what arrives or is committed, whichever is more.
_STEADY: Final = 0.05
#: A lag that takes longer than this (ten years) to clear gets no estimate.
_LONGEST_MS: Final = 315_360_000_000
SEEN_ONCE: Final = "it was seen once"
OPEN_TRANSACTION: Final = "all that a read_committed consumer may read is committed: a transaction is open"
_Place = tuple[str, int]


class TrendKind(StrEnum):
    """What lag does; the values appear in JSON."""

    RISING = "rising"
    FALLING = "falling"
    STEADY = "steady"
    CAUGHT_UP = "caught-up"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How the lag of one or more partitions changes. Rates are in records per second, and None if not known.
    done_in_ms: when everything is committed at this rate, in ms after the second poll; None unless the lag falls in
    every partition that has any. because: why the kind or the estimate is not known, or another remark."""

    kind: TrendKind
    arrived_per_s: float | None = None
    committed_per_s: float | None = None
    done_in_ms: int | None = None
    because: str | None = None

    @property
    def change_per_s(self) -> float | None:
        """How fast the lag changes, in records per second; negative while it falls; None if not known."""
        if self.arrived_per_s is None or self.committed_per_s is None:
            return None
        return self.arrived_per_s - self.committed_per_s

    @property
    def text(self) -> str:
        """`rising 12/s`, `falling 12/s, done in 2m`, `steady`, `caught up`, `unknown`."""
        kind, change = str(self.kind).replace("-", " "), self.change_per_s
        if self.kind not in (TrendKind.RISING, TrendKind.FALLING) or change is None:
            return kind
        done = "" if self.done_in_ms is None else f", done in {show_duration(max(round(self.done_in_ms, -3), 1000))}"
        return f"{kind} {abs(change):.3g}/s{done}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTrends:
    """The trends of one group, and of its partitions by (topic, partition). window_ms: the time between the two polls;
    at_ms: the time of the second one, in ms since the epoch."""

    group_id: str
    window_ms: int
    at_ms: int
    total: Trend
    partitions: Mapping[_Place, Trend] = field(default_factory=dict)

    def of(self, rows: Iterable[OffsetSnapshot]) -> Trend:
        """The trend over some partitions of the group: those of one member, or all."""
        return total_trend([(row, self.partitions.get((row.topic, row.partition), _UNSEEN)) for row in rows])


_UNSEEN: Final = Trend(kind=TrendKind.UNKNOWN, because=SEEN_ONCE)


def group_trends(
    then: GroupSnapshot, now: GroupSnapshot, *, then_ms: int, now_ms: int,
    stable_ends: Mapping[_Place, int] | None = None,
) -> GroupTrends:  # fmt: skip
    """The trends of a group from two descriptions of it, and when they were made. stable_ends: the last stable offsets
    (KIP-98), where known."""
    before = {(row.topic, row.partition): row for row in then.offsets}
    trends = {
        (row.topic, row.partition): partition_trend(
            before.get((row.topic, row.partition)), row, then_ms=then_ms, now_ms=now_ms,
            stable_end=(stable_ends or {}).get((row.topic, row.partition)),
        )
        for row in now.offsets
    }  # fmt: skip
    total = total_trend([(row, trends[row.topic, row.partition]) for row in now.offsets])
    return GroupTrends(group_id=now.group_id, window_ms=now_ms - then_ms, at_ms=now_ms, total=total, partitions=trends)


def partition_trend(
    then: OffsetSnapshot | None, now: OffsetSnapshot, *, then_ms: int, now_ms: int, stable_end: int | None = None
) -> Trend:
    """The trend of one partition. stable_end: its last stable offset at the second poll; None if not known."""
    window_ms = now_ms - then_ms
    if then is None or window_ms <= 0:
        return _UNSEEN
    if now.known_lag is None or then.known_lag is None:
        return Trend(kind=TrendKind.UNKNOWN, because="its lag is not known")
    committed, moved = now.committed or 0, (now.committed or 0) - (then.committed or 0)
    arrived = (now.end or 0) - (then.end or 0)
    if arrived < 0:
        return Trend(kind=TrendKind.UNKNOWN, because="the end of the log went back: the topic was created again")
    if moved < 0:
        return Trend(kind=TrendKind.UNKNOWN, because="the committed offset was set back")
    if now.lost and now.lost != then.lost:
        return Trend(kind=TrendKind.UNKNOWN, because="retention deletes records before they are read")
    arrived_per_s, committed_per_s, is_exact = arrived * 1000 / window_ms, moved * 1000 / window_ms, not moved
    if moved and (span_ms := _between_commits(then, now, window_ms)) is not None:
        committed_per_s, is_exact = moved * 1000 / span_ms, True
    rates = Trend(kind=TrendKind.UNKNOWN, arrived_per_s=arrived_per_s, committed_per_s=committed_per_s)
    if now.known_lag == 0:
        return _as(rates, TrendKind.CAUGHT_UP)
    if stable_end is not None and now.end is not None and stable_end < now.end and committed >= stable_end:
        why = f"{OPEN_TRANSACTION} from {stable_end}"
        return Trend(kind=TrendKind.UNKNOWN, arrived_per_s=arrived_per_s, because=why)
    if not moved and not arrived:
        return _as(rates, TrendKind.UNKNOWN, "nothing arrived, and nothing was committed")
    between_commits = arrived * min(1, _COMMIT_INTERVAL_MS / window_ms)
    if moved and max(now.known_lag, then.known_lag) <= 2 * between_commits:
        return _as(rates, TrendKind.STEADY)
    if not is_exact and abs(now.known_lag - then.known_lag) <= between_commits:
        return Trend(
            kind=TrendKind.UNKNOWN, arrived_per_s=arrived_per_s,
            because="the lag changed by less than one commit may change it: watch for longer",
        )  # fmt: skip
    return _judged(rates, now.known_lag)


def _between_commits(then: OffsetSnapshot, now: OffsetSnapshot, window_ms: int) -> int | None:
    """The time between the last commits that the two polls saw, in ms; None if not known."""
    if then.commit_age_ms is None or now.commit_age_ms is None:
        return None
    span_ms = window_ms + then.commit_age_ms - now.commit_age_ms
    return span_ms if span_ms > 0 else None


def _judged(rates: Trend, lag: int) -> Trend:
    change = rates.change_per_s
    assert change is not None
    arrived, committed = rates.arrived_per_s or 0.0, rates.committed_per_s or 0.0
    if abs(change) <= _STEADY * max(arrived, committed):
        return _as(rates, TrendKind.STEADY)
    if change > 0:
        return _as(rates, TrendKind.RISING, None if committed else "nothing was committed")
    done_in_ms = round(lag * 1000 / -change)
    return _as(rates, TrendKind.FALLING, done_in_ms=done_in_ms if done_in_ms <= _LONGEST_MS else None)


def _as(rates: Trend, kind: TrendKind, because: str | None = None, *, done_in_ms: int | None = None) -> Trend:
    return Trend(
        kind=kind, arrived_per_s=rates.arrived_per_s, committed_per_s=rates.committed_per_s, because=because,
        done_in_ms=done_in_ms,
    )  # fmt: skip


def total_trend(parts: Sequence[tuple[OffsetSnapshot, Trend]]) -> Trend:
    """The trend over several partitions. The total is done when the last partition is; a single partition that does not
    fall means there is no estimate."""
    for row, trend in parts:
        if trend.change_per_s is None:
            return Trend(kind=TrendKind.UNKNOWN, because=f"{row.topic}[{row.partition}]: {trend.because}")
    if not parts:
        return Trend(kind=TrendKind.UNKNOWN, because="no partition has a committed offset")
    rates = Trend(
        kind=TrendKind.UNKNOWN,
        arrived_per_s=sum(trend.arrived_per_s or 0.0 for _, trend in parts),
        committed_per_s=sum(trend.committed_per_s or 0.0 for _, trend in parts),
    )
    lagging = [(row, trend) for row, trend in parts if row.known_lag]
    if not lagging:
        return _as(rates, TrendKind.CAUGHT_UP)
    if all(trend.kind is TrendKind.UNKNOWN for _, trend in lagging):
        return _as(rates, TrendKind.UNKNOWN, lagging[0][1].because)
    total = _judged(rates, sum(row.known_lag or 0 for row, _ in lagging))
    if total.kind is not TrendKind.FALLING:
        return total
    held_up = next((row for row, trend in lagging if trend.kind is not TrendKind.FALLING), None)
    if held_up is not None:
        return _as(rates, TrendKind.FALLING, f"{held_up.topic}[{held_up.partition}] does not fall")
    ends_ms = [trend.done_in_ms for _, trend in lagging if trend.done_in_ms is not None]
    return _as(rates, TrendKind.FALLING, done_in_ms=max(ends_ms) if len(ends_ms) == len(lagging) else None)
