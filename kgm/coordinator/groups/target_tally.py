"""A tally of the target assignment of a consumer group: how many partitions each member has, and which are free.

`uniform` needs only this to find the members whose targets change (`consumer.target.compute_changed`). Adding it up
costs as much as computing a target assignment, so a group has no tally until it computes a target assignment, and then
keeps it up to date."""

from collections.abc import Collection, Iterable, KeysView, Mapping, Sequence
from typing import Final

from kgm.coordinator.groups.consumer_member import NO_TARGET, Target

#: No real topic has partitions this far apart, and no real topic has this end.
_TOO_WIDE: Final = 1 << 22
_NO_PARTITIONS: Final = 1 << 62


class TargetTally:
    """loads: how many partitions the target of each member has. repeated: how many times partitions occur in targets
    beyond their first occurrence. counts: by topic id and partition, how many targets it is in. ends: for each topic, a
    number above all of its partitions that have ever been in a target. gaps: the partitions below that number that are
    in no target."""

    __slots__ = ("counts", "ends", "gaps", "loads", "repeated")

    def __init__(self, targets: Mapping[str, Target]) -> None:
        self.loads: dict[str, int] = {}
        self.counts: dict[bytes, dict[int, int]] = {}
        self.ends: dict[bytes, int] = {}
        self.gaps: dict[bytes, set[int]] = {}
        self.repeated = 0
        for member_id, target in targets.items():
            self.change(member_id, None, target)
        # A set that has shrunk still takes as long to iterate over as at its largest, so replace each one with a copy.
        self.gaps = {topic_id: gaps.copy() for topic_id, gaps in self.gaps.items()}

    def change(self, member_id: str, before: Target | None, after: Target | None) -> None:
        """A member's target has changed; None: it has no target."""
        had, has = before or NO_TARGET, after or NO_TARGET
        for topic_id in {**had, **has}:
            lost, gained = _differences(had.get(topic_id, ()), has.get(topic_id, ()))
            if lost:
                self._lose(topic_id, lost)
            if gained:
                self._raise_end(topic_id, has[topic_id])
                self._gain(topic_id, gained)
        if after is None:
            self.loads.pop(member_id, None)
        else:
            self.loads[member_id] = sum(map(len, after.values()))

    def _lose(self, topic_id: bytes, partitions: Iterable[int]) -> None:
        counts = self.counts[topic_id]
        for partition in partitions:
            count = counts[partition] - 1
            self.repeated -= count > 0
            if count:
                counts[partition] = count
            else:
                del counts[partition]
                self.gaps[topic_id].add(partition)
        if not counts:
            del self.counts[topic_id]

    def _gain(self, topic_id: bytes, partitions: Collection[int]) -> None:
        counts = self.counts.setdefault(topic_id, {})
        for partition in partitions:
            count = counts.get(partition, 0)
            self.repeated += count > 0
            counts[partition] = count + 1
        self.gaps[topic_id].difference_update(partitions)

    def _raise_end(self, topic_id: bytes, partitions: Sequence[int]) -> None:
        """Raise the end of the topic above the partitions of a target, and add the newly covered partitions to its
        gaps."""
        gaps, before = self.gaps.setdefault(topic_id, set()), self.ends.get(topic_id, 0)
        end = max(before, partitions[-1] + 1)
        if partitions[0] < 0 or end - before > _TOO_WIDE:
            end = _NO_PARTITIONS
        self.ends[topic_id] = end
        if before < end < _NO_PARTITIONS:
            gaps.update(range(before, end))

    def is_of(self, member_ids: KeysView[str], partitions: Mapping[bytes, int]) -> bool:
        """Whether exactly these members have targets, the targets have only partitions of these topics, at least one of
        them, and none in more than one target. partitions: how many each topic has; the result is False if a target has
        ever had a partition beyond that."""
        return (
            not self.repeated
            and bool(self.counts)
            and member_ids == self.loads.keys()
            and self.counts.keys() <= partitions.keys()
            and all(self.ends.get(topic_id, 0) <= size for topic_id, size in partitions.items())
        )

    def free(self, topic_id: bytes, partitions: int) -> Sequence[int]:
        """The partitions of a topic that no member has, if `is_of` holds with this partition count."""
        return [*sorted(self.gaps.get(topic_id, ())), *range(self.ends.get(topic_id, 0), partitions)]


def _differences(before: Sequence[int], after: Sequence[int]) -> tuple[Collection[int], Collection[int]]:
    """The partitions of a topic that a target has lost, and those that it has gained. If a partition is in a target
    twice, which no broker writes, these are all of the old and all of the new partitions."""
    old, new = {*before}, {*after}
    if len(old) < len(before) or len(new) < len(after):
        return before, after
    return old - new, new - old
