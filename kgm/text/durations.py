"""Durations as people type them: `500ms`, `5s`, `2m`, `1h`, `1m30s`. The unit is required, because Kafka's own settings
are in milliseconds and those of other tools in seconds; only zero is the same in both."""

from __future__ import annotations

import re
from typing import Final

from kgm.model.errors import UsageError

_MOST_DIGITS = 12
#: What `show_duration` writes of a minute or more: `1h30m`, `1m5s`.
_TOGETHER: Final = re.compile(
    r"(?=\d+[hm]\d)(?:(\d{1,12})h)?(?:(\d{1,12})m)?(?:(\d{1,12})s)?", re.IGNORECASE | re.ASCII
)
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


def parse_duration(text: str, option: str) -> int:
    """The duration in milliseconds. Raises UsageError, which names the option."""
    written = text.strip()
    together = _TOGETHER.fullmatch(written)
    if together is not None:
        return sum(int(number or 0) * _UNITS_MS[unit] for number, unit in zip(together.groups(), "hms", strict=True))
    digits = written.rstrip("mshMSH")
    unit, digits = written[len(digits) :].lower(), digits.rstrip()
    whole, dot, rest = digits.partition(".")
    if not _is_number(whole) or (dot and not _is_number(rest)) or unit not in ("", *_UNITS_MS):
        raise UsageError(f"{option}: {text[:60]!r} is not a valid duration", hint="write 500ms, 5s, 2m or 1h30m")
    number = float(digits)
    if number and not unit:
        raise UsageError(f"{option}: {written} has no unit", hint=f"write {digits}s or {digits}ms")
    return round(number * _UNITS_MS[unit]) if unit else 0


def _is_number(digits: str) -> bool:
    return digits.isdecimal() and len(digits) <= _MOST_DIGITS


def typed_duration(ms: int) -> str:
    """The exact duration, in the form that options accept: `90s` for 90000."""
    return f"{ms // 1000}s" if ms % 1000 == 0 else f"{ms}ms"


def show_duration(ms: int | None) -> str:
    """`1m30s` for 90000; `?` when it is unknown."""
    if ms is None:
        return "?"
    if ms < 1000:
        return f"{ms}ms"
    if ms < 60_000:
        return f"{ms / 1000:g}s" if ms % 1000 == 0 else f"{ms / 1000:.1f}s"
    minutes, rest = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "m"), (rest, "s")]
    return "".join(f"{n}{unit}" for n, unit in parts if n)


def show_age(ms: float) -> str:
    """How long ago, as people say it: `3 days`, `5 hours`, `20m`."""
    seconds = max(int(ms), 0) // 1000
    if seconds >= 2 * 86_400:
        return f"{seconds // 86_400} days"
    if seconds >= 2 * 3_600:
        return f"{seconds // 3_600} hours"
    return show_duration(seconds * 1000) if seconds else "0s"


def short_duration(ms: int, units: int = 2) -> str:
    """The largest units only, for narrow columns: `3d4h`, `1h2m`, `4m12s`, `45s`; `0s` for less than a second."""
    seconds = ms // 1000
    parts = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        number, seconds = divmod(seconds, size)
        parts.append((number, unit))
    first = next((at for at, (number, _) in enumerate(parts) if number), len(parts) - 1)
    return "".join(f"{number}{unit}" for number, unit in parts[first : first + units] if number or first == 3)
