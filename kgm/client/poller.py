"""Polls groups: each poll describes all of them and reads what was appended to their coordinators' logs since the
previous poll. A failed poll is data, not an exception: brokers come back."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kgm.client.admin_client import AdminClient
from kgm.client.in_parts import KeptGroups, in_parts
from kgm.client.offsets_topic.group_tail import (
    MAX_BYTES,
    GroupRecordTail,
    RawRecord,
    RecordedGroup,
    RecordedTarget,
    all_decoded,
)
from kgm.client.topic_log import partition_log
from kgm.model.errors import KgmError
from kgm.model.snapshot import GroupSnapshot

#: The time limit of one poll, for callers that poll again: a broker that takes longer counts as unreachable for now.
POLL_MS = 5_000
#: The share of a poll's time that reading the log can take.
_LOG_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledGroup:
    """What one poll shows of a group.

    seen: the group, completed from its last record, or why it cannot be described. recorded: what was written since the
    previous poll, oldest first; by the first poll that reads the log, the last record only. log_unreadable_because: why
    the log cannot be read; None if it can, and for groups of the consumer protocol, whose description includes the
    epochs. log_interrupted_because: why `recorded` may lack records that the next poll will have; None for those.
    targets_unread_because: why `recorded` may lack target assignments since the previous poll; None if it lacks none.
    skipped: the log had more to
    read than one poll does."""

    seen: GroupSnapshot | KgmError
    recorded: tuple[RecordedGroup | RecordedTarget, ...] = ()
    log_unreadable_because: str | None = None
    log_interrupted_because: str | None = None
    targets_unread_because: str | None = "the log was not read"
    skipped: bool = False

    @property
    def log_unread_because(self) -> str | None:
        """Why this poll did not read the log to its end."""
        return self.log_unreadable_because or self.log_interrupted_because

    @property
    def count_unread_because(self) -> str | None:
        """Why this poll did not read the records by which the group's rebalances are counted."""
        has_targets = not isinstance(self.seen, KgmError) and self.seen.type != "classic"
        return self.targets_unread_because if has_targets else self.log_unread_because


class GroupPoller:
    """Groups of a cluster. budget_ms: how long one poll can take. is_packed: whether what is kept of many groups is
    packed, for callers that poll only now and then and look at one group at a time (`poll_in_turn`)."""

    def __init__(
        self, cluster: AdminClient, group_ids: Iterable[str], *, budget_ms: int, offsets: bool = True,
        is_packed: bool = False,
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self.group_ids = tuple(dict.fromkeys(group_ids))
        self._budget_ms = budget_ms
        self._offsets = offsets
        self._is_packed = is_packed
        self._tail = GroupRecordTail(cluster, self.group_ids, has_targets=True)
        #: The last record of each group that has one.
        self._last: KeptGroups[RecordedGroup] = self._keeper()

    def follow(self, group_ids: Iterable[str]) -> None:
        """Poll these groups from now on. Records of a new group since the last poll are read by the next one."""
        self.group_ids = tuple(dict.fromkeys(group_ids))
        self._tail.follow(self.group_ids)

    def poll(self) -> dict[str, PolledGroup]:
        """All groups as they are now, by id."""
        return dict(self.poll_in_turn())

    def poll_in_turn(self) -> Iterator[tuple[str, PolledGroup]]:
        """Yields one group at a time. All are described before the log is read, so that the log is never behind."""
        self._cluster.renew(self._budget_ms)
        answers: KeptGroups[GroupSnapshot | KgmError] = self._keeper()
        try:
            for group_id, seen in zip(self.group_ids, self._described(), strict=True):
                answers.put(group_id, seen)
        except KgmError as error:
            lost = PolledGroup(seen=error, log_interrupted_because=partition_log.why_unreadable(error))
            yield from ((group_id, lost) for group_id in self.group_ids)
            return
        records = self._tail.read(self._cluster.deadline.part(_LOG_SHARE))
        before, self._last = self._last, self._keeper()
        for group_id in self.group_ids:
            seen_now = answers.take(group_id)
            assert seen_now is not None  # every group has an answer
            recorded = _recorded(group_id, records)
            last = _last_group(recorded) or before.take(group_id)
            if last is not None:
                self._last.put(group_id, last)
            yield group_id, self._of(group_id, seen_now, recorded, last)

    def poll_once(self) -> Iterator[tuple[str, PolledGroup]]:
        """The same if there is no second poll: nothing is kept. The log is read after the first groups are described,
        so it may be behind for the others. Raises KgmError if no broker answers."""
        self._cluster.renew(self._budget_ms)
        records: KeptGroups[Sequence[RawRecord]] | None = None

        def describe(part: Sequence[str]) -> list[GroupSnapshot | KgmError]:
            nonlocal records
            answers = self._cluster.describe_groups(part, offsets=self._offsets)
            if records is None and any(map(_is_classic, answers)):
                records = self._tail.read(self._cluster.deadline.part(_LOG_SHARE))
            return answers

        for group_id, seen in zip(self.group_ids, in_parts(self._cluster, self.group_ids, describe), strict=True):
            recorded = _recorded(group_id, records)
            yield group_id, self._of(group_id, seen, recorded, _last_group(recorded))

    def read_back(self) -> dict[str, list[RecordedGroup | RecordedTarget]]:
        """The records of the groups from before now, oldest first, as far back as one poll reads; none of a group whose
        log cannot be read. What the next poll returns does not change."""
        self._cluster.renew(self._budget_ms)
        tail = GroupRecordTail(self._cluster, self.group_ids, has_targets=True)
        read = tail.read_back(self._cluster.deadline, MAX_BYTES)
        return {group_id: all_decoded(group_id, records) for group_id, records in read.items()}

    def _keeper(self) -> KeptGroups[Any]:
        return KeptGroups(is_packed=self._is_packed)

    def _described(self) -> Iterator[GroupSnapshot | KgmError]:
        describe = partial(self._cluster.describe_groups, offsets=self._offsets)
        return in_parts(self._cluster, self.group_ids, describe)

    def _of(
        self, group_id: str, seen: GroupSnapshot | KgmError, recorded: tuple[RecordedGroup | RecordedTarget, ...],
        last: RecordedGroup | None,
    ) -> PolledGroup:  # fmt: skip
        unreadable, interrupted = self._tail.unreadable_because, self._tail.interrupted(group_id)
        skipped = group_id in self._tail.skipped
        if not isinstance(seen, KgmError):
            if seen.type != "classic":
                return PolledGroup(
                    seen=seen, recorded=recorded, targets_unread_because=unreadable or interrupted, skipped=skipped
                )
            seen = seen if last is None else completed_from_record(seen, last.group)
        return PolledGroup(
            seen=seen,
            recorded=recorded,
            log_unreadable_because=unreadable,
            log_interrupted_because=interrupted,
            targets_unread_because=unreadable or interrupted,
            skipped=skipped,
        )


def _recorded(
    group_id: str, records: KeptGroups[Sequence[RawRecord]] | None
) -> tuple[RecordedGroup | RecordedTarget, ...]:
    """The records of a group, which are not kept any longer."""
    return tuple(all_decoded(group_id, (None if records is None else records.take(group_id)) or ()))


def _last_group(recorded: Sequence[RecordedGroup | RecordedTarget]) -> RecordedGroup | None:
    return next((one for one in reversed(recorded) if isinstance(one, RecordedGroup)), None)


def completed_from_record(seen: GroupSnapshot, recorded: GroupSnapshot) -> GroupSnapshot:
    """A description completed with the generation and timeouts from the group's last record, if both have the same
    members."""
    if seen.type != "classic" or seen.state != "Stable":
        return seen
    if {member.member_id for member in seen.members} != {member.member_id for member in recorded.members}:
        return seen
    return replace(seen.with_member_timeouts(recorded.member_timeouts_ms), generation=recorded.generation)


def _is_classic(seen: GroupSnapshot | KgmError) -> bool:
    """Whether the log may have anything to add to the description; also true while a group does not exist, because it
    may be created."""
    return isinstance(seen, KgmError) or seen.type == "classic"
