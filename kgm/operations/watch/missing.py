"""What a watched group lacks, compared with how it was, and what its offsets lack, in words."""

from __future__ import annotations

from collections.abc import Iterator

from kgm.model.assignment import as_ranges, less
from kgm.model.changes import by_identity, disowned
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.watch.expectations import Expectations
from kgm.text.names import in_order
from kgm.text.wording import lost_text, many, partitions_text, past_end_text


def missing_members(baseline: GroupSnapshot | None, now: GroupSnapshot, expectations: Expectations) -> list[str]:
    """Which members are missing until the group has all of them again."""
    base = by_identity(baseline) if baseline is not None else {}
    present = by_identity(now)
    reasons = []
    if expectations.members is not None:
        if len(present) != expectations.members:
            reasons.append(f"the group has {many(len(present), 'member')}, not {expectations.members}")
    else:
        static = in_order(name for name, member in base.items() if member.group_instance_id is not None)
        reasons += [f"{name} has not rejoined" for name in static if name not in present]
        if len(present) < len(base) and not reasons:
            reasons.append(f"{len(present)} of {many(len(base), 'member')} have joined")
    if expectations.bounced:
        same = in_order(
            name for name, one in base.items() if name in present and present[name].member_id == one.member_id
        )
        reasons += [f"{name} has not been restarted" for name in same]
    return reasons


def has_targets(group: GroupSnapshot) -> bool:
    """Whether each member of a group with epochs has what the last target assignment gives it, also where the next one
    is due (Assigning)."""
    is_due = group.state == "Assigning"
    return group.state == "Stable" or (is_due and all(one.status == "stable" for one in group.members))


def missing_owners(baseline: GroupSnapshot | None, owners: GroupSnapshot | None) -> list[str]:
    """Which partitions have no owner any longer. owners: the group when its owners were known last."""
    if baseline is None or owners is None:
        return []
    free = disowned(baseline, owners)
    return [f"no consumer owns {topic}[{as_ranges(numbers)}]" for topic, numbers in free.items()]


def offset_notes(before: GroupSnapshot | None, now: GroupSnapshot) -> Iterator[str]:
    """Committed offsets that are newly past the end, and partitions where retention has newly overtaken the group.
    before: None if the group is seen for the first time."""
    if new := less(now.past_end, {} if before is None else before.past_end):
        yield f"{past_end_text(new)} ({partitions_text(new)}); the lag there is unknown"
    known = {} if before is None else before.lost
    if lost := {pair: number for pair, number in now.lost.items() if pair not in known}:
        yield lost_text(lost)
