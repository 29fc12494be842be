"""Isolation levels of Fetch and ListOffsets (KIP-98)."""

from kgm.server.logs.topic_log import ReadableLog

_READ_COMMITTED = 1


def end_for(isolation_level: int, log: ReadableLog) -> int | None:
    """The offset up to which a consumer may read, exclusive: the last stable offset for READ_COMMITTED; None for no
    limit."""
    return log.stable_offset if isolation_level == _READ_COMMITTED else None
