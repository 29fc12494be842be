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

    Compaction keeps the newest records of a kind: one that is as old as the description proves that all later ones of
    its kind are there."""
    is_classic = before.type == "classic"
    first = before.generation if is_classic else before.assignment_epoch
    kept, numbers = [], []
    for record in recorded:
        number = record.group.generation if isinstance(record, RecordedGroup) else record.epoch
        if isinstance(record, RecordedGroup) is is_classic:
            kept.append((number, record))
            numbers.append(-1 if number is None else number)
        elif number is not None and first is not None and number > first:
            return None
    if first is None or not numbers or -1 in numbers or numbers != sorted(numbers) or numbers[0] > first:
        return None
    return [record for number, record in kept if number is not None and number > first]
