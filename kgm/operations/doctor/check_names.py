"""The names of all checks, for `--check` and for settings that ignore checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kgm.model.errors import UsageError
from kgm.operations.doctor.history_findings import ALARM_CHECKS
from kgm.text.names import did_you_mean

#: Reported whichever checks were requested, because nothing else is known about that group.
UNAVAILABLE: Final = "coordinator-unavailable"
CHECK_NAMES: Final = (
    "away-members", "classic-protocol", "committed-beyond-end", "commits-refused", "commits-without-members",
    "confusable-instance-ids", UNAVAILABLE, "deleted-topics", "double-owners", "duplicate-instance-id",
    "empty-with-lag", "frequent-rebalances", "group-full", "growing-lag", "hidden-characters", "idle-group",
    "idle-members", "max-poll-exceeded", "missing-topics", "mixed-clients", "mixed-membership", "mixed-subscriptions",
    "more-members-than-partitions", "nothing-committed", "odd-state", "open-transaction", "offsets-expire-soon",
    "offsets-of-other-topics", "random-instance-id", "rebalancing", "records-lost", "refused-consumer",
    "rejoins-refused", "session-timeout-advice", "session-too-short", "stalled-owner", "stalled-partition",
    "uneven-assignment", "unassigned-tasks", "unfinished-migration", "unowned-partitions", "unreadable-members",
    "unsubscribed-owner",
    *ALARM_CHECKS,
)  # fmt: skip


def check_names(names: Iterable[str], where: str) -> tuple[str, ...]:
    """Return the names as a tuple. Raises UsageError for a name that is not a check. where: the option or setting that
    has the names, for the message."""
    taken = tuple(names)
    for name in taken:
        if name not in CHECK_NAMES:
            hint = did_you_mean(name, CHECK_NAMES) or f"known: {', '.join(sorted(CHECK_NAMES))}"
            raise UsageError(f"{where}: there is no check {name!r}", hint=hint)
    return taken
