"""A request to delete groups or committed offsets, before it is compared with a cluster."""

from dataclasses import dataclass
from typing import Final

from kgm.model.errors import UsageError
from kgm.operations.change.reason import check_reason

DEFAULT_REASON: Final = "empty and idle"
#: A group that has committed within this time is not idle, unless the operator says another one.
IDLE_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRequest:
    """Which groups to delete, or which of their committed offsets, and what must be known of them.

    pattern: a glob over group ids. topics: delete only the offsets of these; is_stale: only those of topics to which no
    member subscribes. idle_ms: how long ago the last commit must be. assume_idle: the operator vouches for groups of
    which that is not known. window_ms: how long to look for commits where the log of a group does not
    tell, and at most for those that come after a deletion that was only assumed to be right; None for the defaults.

    Raises UsageError when nothing is named: an empty list never means all groups."""

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
        if any(not one.strip() for one in (*self.group_ids, *self.topics)):
            raise UsageError("an empty name is given", hint="an empty name never means all")
        check_reason(self.reason)

    @property
    def is_of_offsets(self) -> bool:
        """Whether only committed offsets are deleted, and the groups stay."""
        return bool(self.topics) or self.is_stale
