"""Looking at groups again and again: each look is one describe of all of them, and what their coordinators' logs have
got since the look before. A look that fails is data, not an exception: brokers come back."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kgm.client.admin_client import AdminClient
from kgm.client.offsets_topic.group_tail import GroupTail, Recorded
from kgm.model.errors import KgmError
from kgm.model.snapshot import GroupSnapshot

#: Of the time of a look, the part that reading the log may take.
_LOG_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen of one group.

    seen: the group, completed with what its last record tells, or why it could not be seen. recorded: what was written
    since the last look, oldest first. log_silent_because: why the log tells nothing; None when it is read, and for
    groups of the consumer protocol, whose epochs every description has. skipped: the log had more than is read."""

    seen: GroupSnapshot | KgmError
    recorded: tuple[Recorded, ...] = ()
    log_silent_because: str | None = None
    skipped: bool = False


class Lookout:
    """Groups of a cluster. budget_ms: how long one look may take."""

    def __init__(self, cluster: AdminClient, group_ids: Iterable[str], *, budget_ms: int, offsets: bool = True) -> None:
        self._cluster = cluster
        self.group_ids = tuple(dict.fromkeys(group_ids))
        self._budget_ms = budget_ms
        self._offsets = offsets
        self._tail = GroupTail(cluster, self.group_ids)

    def look(self) -> dict[str, Look]:
        """All of them now, by group id. Describes first and reads the log then, so that the log is never behind."""
        self._cluster.renew(self._budget_ms)
        try:
            answers = self._cluster.describe_groups(self.group_ids, offsets=self._offsets)
        except KgmError as error:
            return {group_id: Look(seen=error) for group_id in self.group_ids}
        recorded = self._tail.read(self._cluster.deadline.part(_LOG_SHARE)) if _any_classic(answers) else {}
        return {
            group_id: self._of(group_id, seen, tuple(recorded.get(group_id, ())))
            for group_id, seen in zip(self.group_ids, answers, strict=True)
        }

    def _of(self, group_id: str, seen: GroupSnapshot | KgmError, recorded: tuple[Recorded, ...]) -> Look:
        last = self._tail.last.get(group_id)
        if not isinstance(seen, KgmError):
            if seen.type != "classic":
                return Look(seen=seen)
            seen = seen if last is None else completed(seen, last.group)
        return Look(
            seen=seen,
            recorded=recorded,
            log_silent_because=self._tail.silent_because,
            skipped=group_id in self._tail.skipped,
        )


def completed(seen: GroupSnapshot, recorded: GroupSnapshot) -> GroupSnapshot:
    """A description with generation and timeouts of the group's last record, if that has the very same members."""
    if seen.type != "classic" or seen.state != "Stable":
        return seen
    if {member.member_id for member in seen.members} != {member.member_id for member in recorded.members}:
        return seen
    return replace(
        seen,
        generation=recorded.generation,
        session_timeout_ms=recorded.session_timeout_ms,
        rebalance_timeout_ms=recorded.rebalance_timeout_ms,
    )


def _any_classic(answers: Iterable[GroupSnapshot | KgmError]) -> bool:
    """Whether the log has anything to add; also while a group is not there, because it may be one soon."""
    return any(isinstance(one, KgmError) or one.type == "classic" for one in answers)
