"""What the coordinator's log has of a group since an earlier description of it."""

from __future__ import annotations

from collections.abc import Sequence

from kgm.client.offsets_topic.group_tail import RecordedGroup, RecordedTarget
from kgm.model.snapshot import GroupSnapshot


def records_since(
    before: GroupSnapshot, recorded: Sequence[RecordedGroup | RecordedTarget], *, taken_ms: int | None = None
) -> Sequence[RecordedGroup | RecordedTarget] | None:
    """The records of all rebalances after this description, oldest first; None if some may be missing, or if the group
    was deleted since. recorded: what the log still has of the group, oldest first. taken_ms: when the description was
    made, in ms since the epoch; None if that is not known.

    Compaction keeps the newest records: that of the description's generation or assignment epoch proves that all later
    ones are there. A group that was deleted, or became empty and changed its protocol, counts from 1 again: the record
    then has other members, if it has any, is written after the description, or is followed by lower numbers."""
    number = before.generation if before.type == "classic" else before.assignment_epoch
    for place, record in enumerate(recorded):
        if number is not None and _number(record) == number and _may_be_of(record, before, taken_ms):
            since = recorded[place:]
            numbers = [-1 if (one := _number(record)) is None else one for record in since]
            return [one for one in since if _number(one) != number] if numbers == sorted(numbers) else None
    return None


def may_be_another(before: GroupSnapshot, now: GroupSnapshot) -> bool:
    """Whether the group may have been deleted and created again between two descriptions: a group that is deleted has
    no members, so one that has a member of before is the same."""
    return bool(before.members) and not member_ids(before) & member_ids(now)


def member_ids(group: GroupSnapshot) -> set[str]:
    return {one.member_id for one in group.members}


def _number(record: RecordedGroup | RecordedTarget) -> int | None:
    return record.group.generation if isinstance(record, RecordedGroup) else record.epoch


def _may_be_of(record: RecordedGroup | RecordedTarget, before: GroupSnapshot, taken_ms: int | None) -> bool:
    """Whether the record, which has the number of the description, may be that of the description."""
    if taken_ms is not None and record.at_ms > taken_ms:
        return False
    if isinstance(record, RecordedTarget):
        return before.type != "classic"
    return before.type == "classic" and member_ids(record.group) == member_ids(before)
