"""A request to delete groups or committed offsets, before it is compared with a cluster."""

from dataclasses import dataclass
from typing import Final

from kgm.model.errors import UsageError
from kgm.operations.change.reason import check_reason

DEFAULT_REASON: Final = "empty and idle"
#: A group that has committed within this time is not idle, unless the operator sets a different time.
IDLE_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRequest:
    """Which groups, or which of their committed offsets, to delete, and what must be known about them.

    pattern: a glob on group ids. topics: delete only the offsets of these topics; is_stale: delete only the offsets of
    topics to which no member subscribes. idle_ms: how long ago the last commit must be. assume_idle: the operator
    vouches for groups whose last commit is not known. window_ms: how long to watch for commits if a group's log does
    not show them, and the longest wait for commits after a group was deleted on that assumption; None for the defaults.

    Raises UsageError if nothing is named: an empty list never means all groups."""

    group_ids: tuple[str, ...] = ()
    pattern: str | None = None
    topics: tuple[str, ...] = ()
    is_stale: bool = False
    idle_ms: int = IDLE_MS
    assume_idle: bool = False
    ignore_missing: bool = False
    window_ms: int | None = None
    reason: str = DEFAULT_REASON

    def __post_init__(self) -> None:
        if not self.group_ids and self.pattern is None:
            hint = "name groups, or give --from-file or --match; an empty list never means all groups"
            raise UsageError("no groups are named", hint=hint)
        if self.topics and self.is_stale:
            raise UsageError("--topic and --stale-topics exclude each other")
        # Kafka allows groups with blank ids, but no such topics; the command line refuses both where they may be a
        # shell variable that is not set.
        if not all(self.group_ids) or any(not one.strip() for one in self.topics):
            raise UsageError("an empty name is given", hint="an empty name never means all")
        check_reason(self.reason)

    @property
    def is_of_offsets(self) -> bool:
        """Whether only committed offsets are deleted, and the groups stay."""
        return bool(self.topics) or self.is_stale
