"""Durations as people type them: `500ms`, `5s`, `2m`, `1h`; a number without a unit is seconds."""

import re

from kgm.model.errors import UsageError

_UNITS_MS = {"ms": 1, "s": 1000, "": 1000, "m": 60_000, "h": 3_600_000}
_FORM = re.compile(r"\s*(\d{1,12}(?:\.\d{1,12})?)\s*(ms|s|m|h|)\s*", re.IGNORECASE)


def parse_duration(text: str, option: str) -> int:
    """Milliseconds. Raises UsageError that names the option."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(f"{option}: {text[:60]!r} is not a valid duration", hint="write 500ms, 5s, 2m or 1h")
    return round(float(match[1]) * _UNITS_MS[match[2].lower()])


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
