"""Which changes may avoid rebalances of a group, given how its processes started and stopped."""

from collections.abc import Iterator
from math import ceil

from kgm.clients.table import EAGER
from kgm.simulation.plan.bounce_plan import GroupProtocol
from kgm.simulation.replay.changes import (
    GroupChange,
    GroupChangeKind,
    restarts,
    restless_processes,
    rollouts,
    stall_lengths_ms,
)
from kgm.simulation.replay.recorded_group import ReplayedGroup

_COOPERATIVE = "cooperative-sticky"
#: A longer session timeout is never advised: a dead member would go unnoticed for that long.
_LONGEST_SESSION_MS = 600_000
#: The brokers' default limit for members of consumer groups (group.consumer.max.session.timeout.ms).
_LONGEST_CONSUMER_SESSION_MS = 60_000
_MARGIN = 1.2
_HEARTBEAT_MS = 3_000
_ROUND_MS = 5_000
#: A longer max.poll.interval.ms is never advised.
_LONGEST_POLL_MS = 3_600_000
_POLL_ROUND_MS = 30_000


def suggested_changes(group: ReplayedGroup) -> Iterator[GroupChange]:
    """The changes that may avoid rebalances, simplest first."""
    again = [process for process in group.processes if len(process.runs) > 1]
    has_dynamic = any(process.group_instance_id is None for process in again)
    session_ms = _advised_session(group)
    if has_dynamic:
        yield GroupChange(kind=GroupChangeKind.STATIC_MEMBERSHIP)
    if session_ms is not None and any(process.group_instance_id is not None for process in again):
        yield GroupChange(kind=GroupChangeKind.SESSION_TIMEOUT, session_timeout_ms=session_ms)
    if session_ms is not None and has_dynamic:
        yield GroupChange(kind=GroupChangeKind.STATIC_AND_SESSION, session_timeout_ms=session_ms)
    poll_ms = _advised_max_poll_interval(group)
    if poll_ms is not None:
        yield GroupChange(kind=GroupChangeKind.MAX_POLL_INTERVAL, max_poll_interval_ms=poll_ms)
    restless = restless_processes(group)
    if restless:
        yield GroupChange(kind=GroupChangeKind.KEEP_RUNNING, processes=restless)
    if rollouts(group):
        yield GroupChange(kind=GroupChangeKind.TOGETHER)
        yield GroupChange(kind=GroupChangeKind.ONE_AT_A_TIME)
    if group.protocol is GroupProtocol.CLASSIC and group.assignor in EAGER and len(group.processes) > 1:
        yield GroupChange(kind=GroupChangeKind.ASSIGNOR, assignor=_COOPERATIVE)


def _advised_session(group: ReplayedGroup) -> int | None:
    """A session timeout long enough for restarts that do not fit into the current one; None if no sensible one would
    help."""
    longest_ms = _LONGEST_CONSUMER_SESSION_MS if group.protocol is GroupProtocol.CONSUMER else _LONGEST_SESSION_MS
    needed = sorted(
        ceil((max(each.up.latest_ms - each.down.latest_ms, 0) * _MARGIN + _HEARTBEAT_MS) / _ROUND_MS) * _ROUND_MS
        for each in restarts(group)
    )
    fitting = [ms for ms in needed if group.session_timeout_ms < ms <= longest_ms]
    return fitting[-1] if fitting else None


def _advised_max_poll_interval(group: ReplayedGroup) -> int | None:
    """A max.poll.interval.ms within which applications that stalled would have polled again; None if none stalled, or
    if no sensible value would help."""
    needed = [ceil(ms * _MARGIN / _POLL_ROUND_MS) * _POLL_ROUND_MS for ms in stall_lengths_ms(group)]
    fitting = [ms for ms in needed if group.rebalance_timeout_ms < ms <= _LONGEST_POLL_MS]
    return fitting[-1] if fitting else None
