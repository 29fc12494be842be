"""A request to remove members, before it is resolved against a cluster."""

from dataclasses import dataclass

from kgm.model.errors import UsageError
from kgm.operations.change.reason import check_reason

#: The reason that Kafka's own admin client gives.
DEFAULT_REASON = "member was removed by an admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRequest:
    """Which members of a group to remove, and which verdicts allow it.

    identities: instance ids, or member ids of members. patterns: globs on identities. processes: Kafka Streams process
    ids, or the identity of one thread of a process; either stands for all of its threads.
    allow_live: members whose verdict is `alive` may be removed, and so may any member that has the instance id when the
    request arrives. assume_stopped: the operator vouches for members whose verdict is `unknown`.
    guard_window_ms: how long to watch for signs of life; None for the default of `guard`.
    assignor, library: what the operator knows about the group, for the preview of moves; None: what kgm sees.

    Raises UsageError if nothing is named: an empty list never means all members."""

    group_id: str
    instance_ids: tuple[str, ...] = ()
    member_ids: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    reason: str = DEFAULT_REASON
    allow_live: bool = False
    assume_stopped: bool = False
    ignore_missing: bool = False
    guard_window_ms: int | None = None
    assignor: str | None = None
    library: str | None = None

    def __post_init__(self) -> None:
        # Kafka allows blank ids; the command line refuses them where they may be a shell variable that is not set.
        if not self.group_id:
            raise UsageError("no group is given", hint="kgm remove-members GROUP --instance-ids ID")
        named = (*self.instance_ids, *self.member_ids, *self.identities, *self.patterns, *self.processes)
        if not named:
            hint = (
                "give --instance-ids, --member-ids, --unit, --from-file or --match-members; an empty list never means "
                "all members"
            )
            raise UsageError("no members are named", hint=hint)
        if not all(named) or any(not one.strip() for one in (*self.patterns, *self.processes)):
            raise UsageError("an empty id or pattern is given", hint="an empty id never means all members")
        check_reason(self.reason)
