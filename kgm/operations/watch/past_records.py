"""What the coordinator's log has of a group since an earlier description of it."""

from __future__ import annotations

from collections.abc import Iterable

from kgm.client.offsets_topic.group_tail import RecordedGroup, RecordedTarget
from kgm.model.snapshot import GroupSnapshot


def records_since(
    before: GroupSnapshot, recorded: Iterable[RecordedGroup | RecordedTarget]
) -> list[RecordedGroup | RecordedTarget] | None:
    """The records of all rebalances after this description, oldest first; None if some may be missing, or if the group
    was deleted or changed its protocol since. recorded: what the log still has of the group, oldest first.

    Compaction keeps the newest records of a kind: that of the description's generation or assignment epoch proves that
    all later ones of its kind are there. A group that was deleted, and counts from 1 again, has other members in it."""
    is_classic = before.type == "classic"
    first = before.generation if is_classic else before.assignment_epoch
    kept, numbers, is_known = [], [], False
    for record in recorded:
        number = record.group.generation if isinstance(record, RecordedGroup) else record.epoch
        if isinstance(record, RecordedGroup) is is_classic:
            kept.append((number, record))
            numbers.append(-1 if number is None else number)
            is_known = is_known or (number == first and _has_members_of(record, before))
        elif number is not None and first is not None and number > first:
            return None
    if first is None or not is_known or -1 in numbers or numbers != sorted(numbers):
        return None
    return [record for number, record in kept if number is not None and number > first]


def _has_members_of(record: RecordedGroup | RecordedTarget, before: GroupSnapshot) -> bool:
    """Whether the record may be the one of this description, as far as it names members."""
    if isinstance(record, RecordedTarget):
        return True
    return {one.member_id for one in record.group.members} == {one.member_id for one in before.members}
