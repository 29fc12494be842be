"""When a line of a broker's log was written, and in which time zone.

Kafka's loggers write the broker's local time without its zone. If a line is about a rebalance that the records also
have, the difference between both times shows the zone: zones differ by quarters of an hour, and the record of a
rebalance follows the line within minutes. A line with a zone (ISO 8601, as journald prints it) needs none of that."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

_STAMP = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?(?![\d:])"
)
#: A timestamp is at the beginning of a line, after no more than the names of a host and a process.
_STAMP_WITHIN = 300
_QUARTER_MS = 900_000
_HOUR_MS = 3_600_000
#: The largest difference between brokers' clocks.
_SKEW_MS = 60_000
#: From the line to the record: a rebalance may take as long as max.poll.interval.ms, several times.
_LONGEST_MS = _HOUR_MS
#: The range of UTC offsets in the world, in ms ahead of UTC.
_LEAST_OFFSET_MS, _MOST_OFFSET_MS = -12 * _HOUR_MS, 14 * _HOUR_MS
#: An offset that at least this share of the lines shows counts as a zone. There are two where the clocks change.
_LEAST_PART = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTime:
    """ms: since 1970, in UTC if `is_utc`, and otherwise as if the local time were UTC."""

    ms: int
    is_utc: bool


def log_time(line: str) -> LogTime | None:
    """The first time in a line, None if it has none."""
    match = _STAMP.search(line, 0, _STAMP_WITHIN)
    if match is None:
        return None
    zone = (match["zone"] or "").replace("Z", "+00:00")
    try:
        at = datetime.fromisoformat(f"{match['day']}T{match['time']}{zone}")
    except ValueError:
        return None
    whole = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    fraction = int((match["fraction"] or "0").ljust(3, "0")[:3])
    return LogTime(ms=int(whole.timestamp()) * 1_000 + fraction, is_utc=bool(zone))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogClock:
    """The local times of one broker. offsets_ms: how far they are ahead of UTC; empty if nothing shows it. shown_by:
    how many rebalances show it."""

    offsets_ms: tuple[int, ...] = ()
    shown_by: int = 0

    def may_be(self, logged: LogTime, recorded_ms: int) -> bool:
        """Whether a line logged at this time can be about a rebalance recorded at `recorded_ms`."""
        if logged.is_utc:
            return _follows(recorded_ms - logged.ms)
        if self.offsets_ms:
            return any(_follows(recorded_ms - (logged.ms - offset_ms)) for offset_ms in self.offsets_ms)
        after_ms = recorded_ms - logged.ms
        return -_MOST_OFFSET_MS - _SKEW_MS <= after_ms <= _LONGEST_MS - _LEAST_OFFSET_MS

    def offset_of(self, logged: LogTime, recorded_ms: int) -> int | None:
        """The UTC offset of a line for which `may_be` holds; None if it is not known."""
        return next(
            (offset_ms for offset_ms in self.offsets_ms if _follows(recorded_ms - (logged.ms - offset_ms))), None
        )


def _follows(after_ms: int) -> bool:
    return -_SKEW_MS <= after_ms <= _LONGEST_MS


def clocks(pairs: Iterable[tuple[str, LogTime, int]]) -> Mapping[str, LogClock]:
    """The clock of each broker, from lines without a zone that match exactly one rebalance: (broker, time of the line,
    time of the record)."""
    votes: dict[str, Counter[int]] = {}
    for broker, logged, recorded_ms in pairs:
        ahead_ms = logged.ms - recorded_ms - _SKEW_MS
        offset_ms = -(-ahead_ms // _QUARTER_MS) * _QUARTER_MS
        if not logged.is_utc and _LEAST_OFFSET_MS <= offset_ms <= _MOST_OFFSET_MS:
            votes.setdefault(broker, Counter())[offset_ms] += 1
    return {
        broker: LogClock(
            offsets_ms=tuple(ms for ms, count in counts.most_common() if count >= _LEAST_PART * counts.total()),
            shown_by=counts.total(),
        )
        for broker, counts in votes.items()
    }


def logged_text(logged: LogTime, offset_ms: int | None) -> str:
    """`2026-11-21 06:03:24.639 UTC+02:00`; if the zone is not known, a remark instead of it."""
    text = datetime.fromtimestamp(logged.ms / 1_000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
    if logged.is_utc:
        return f"{text} UTC"
    if offset_ms is None:
        return f"{text} in an unknown time zone"
    sign, minutes = "-" if offset_ms < 0 else "+", abs(offset_ms) // 60_000
    return f"{text} UTC{sign}{minutes // 60:02}:{minutes % 60:02}"
