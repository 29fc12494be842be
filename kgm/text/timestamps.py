"""Times as text."""

from datetime import UTC, datetime


def rfc3339(at_ms: int) -> str:
    """`2026-11-21T12:00:00.000Z` for milliseconds since the epoch."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
