"""What the target assignment of a consumer group adds up to: how many partitions each member has, and which are free.

`uniform` needs no more than that to find the members whose targets change (`consumer.target.compute_changed`). Adding
it up costs as much as computing a target assignment, so a group has a tally only once it has computed one, and keeps it
up to date from then on."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, KeysView, Mapping, Sequence
from typing import Final

from kgm.coordinator.groups.consumer_member import NO_TARGET, Target
from kgm.java.hash_map import map_buckets, map_order, table_of_many
from kgm.java.timeline_hash_map import TimelineOrder, slot_of

_POSITION_BITS: Final = 22
_LAST: Final = (1 << _POSITION_BITS) - 1
#: No topic has partitions so far apart from one another, and none has this end.
_TOO_WIDE: Final = 1 << 22
_NO_PARTITIONS: Final = 1 << 62


class TargetTally:
    """loads: how many partitions the target of each member has. repeated: how many partitions are in more than one
    target. counts: by topic id and partition, in how many targets it is. ends: for each topic a number above all of its
    partitions that have ever been in a target. gaps: the partitions below that which are in none."""

    __slots__ = ("_order", "counts", "ends", "gaps", "loads", "repeated")

    def __init__(self, targets: Mapping[str, Target]) -> None:
        self.loads: dict[str, int] = {}
        self.counts: dict[bytes, dict[int, int]] = {}
        self.ends: dict[bytes, int] = {}
        self.gaps: dict[bytes, set[int]] = {}
        self.repeated = 0
        self._order = _MapOrder(0, 0)
        for member_id, target in targets.items():
            self.change(member_id, None, target)

    def change(self, member_id: str, before: Target | None, after: Target | None) -> None:
        """A member has another target; None: no target at all."""
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
        """Take the partitions of a target into the end of the topic, and those below it that were not before into its
        gaps."""
        gaps, before = self.gaps.setdefault(topic_id, set()), self.ends.get(topic_id, 0)
        end = max(before, partitions[-1] + 1)
        if partitions[0] < 0 or end - before > _TOO_WIDE:
            end = _NO_PARTITIONS
        self.ends[topic_id] = end
        if before < end < _NO_PARTITIONS:
            gaps.update(range(before, end))

    def is_of(self, member_ids: KeysView[str], partitions: Mapping[bytes, int]) -> bool:
        """Whether exactly these members have targets; of partitions of these topics, each of which is in no
        more than one target; and whether there is one that is. partitions: how many each topic has, which may not be
        fewer than it had."""
        return (
            not self.repeated
            and bool(self.counts)
            and member_ids == self.loads.keys()
            and self.counts.keys() <= partitions.keys()
            and all(self.ends.get(topic_id, 0) <= size for topic_id, size in partitions.items())
        )

    def free(self, topic_id: bytes, partitions: int) -> Sequence[int]:
        """The partitions of a topic that no member has, if `is_of` holds with so many."""
        return [*sorted(self.gaps.get(topic_id, ())), *range(self.ends.get(topic_id, 0), partitions)]

    def in_map_order(self, member_ids: KeysView[str], newcomer: str | None, capacity: int) -> list[str]:
        """Members in the order in which Kafka's assignors iterate over them: of a hash map that is filled in the order
        of a `TimelineHashMap` of this capacity, the newcomer last. member_ids: as they were put into the latter."""
        table = table_of_many(len(member_ids) + (newcomer is not None))
        if table is None:
            listed = TimelineOrder(capacity).sorted(member_ids)
            if newcomer is not None:
                listed.append(newcomer)
            return [listed[at] for at in map_order(listed)]
        if (self._order.table, self._order.capacity) != (table, capacity):
            self._order = _MapOrder(table, capacity)
        return self._order.of(member_ids, newcomer)


def _differences(before: Sequence[int], after: Sequence[int]) -> tuple[Collection[int], Collection[int]]:
    """The partitions of a topic that a target has lost, and those that it has gained. If one of them is in it twice,
    which no broker writes, that is all of them."""
    old, new = {*before}, {*after}
    if len(old) < len(before) or len(new) < len(after):
        return before, after
    return old - new, new - old


class _MapOrder:
    """The order of members in a hash map with so many buckets (table), which is filled in the order of a
    `TimelineHashMap` with so many slots (capacity): by bucket, and in a bucket by slot.

    A place is a bucket and a slot; few members share one."""

    def __init__(self, table: int, capacity: int) -> None:
        self.table = table
        self.capacity = capacity
        self._place_of: dict[str, int] = {}
        self._places: list[int] = []
        self._ids: list[str] = []
        self._sharing: dict[int, set[str]] = {}

    def of(self, member_ids: KeysView[str], newcomer: str | None) -> list[str]:
        known = self._place_of.keys()
        if member_ids != known:
            self._forget(known - member_ids)
            self._meet(member_ids - known)
        if self._sharing:
            self._sort_sharing(member_ids)
        if newcomer is None:
            return [*self._ids]
        (bucket,) = map_buckets([newcomer], self.table)
        at = bisect_right(self._places, bucket << _POSITION_BITS | _LAST)
        return [*self._ids[:at], newcomer, *self._ids[at:]]

    def _sort_sharing(self, member_ids: Collection[str]) -> None:
        """Of members that share a place, the one that was put in last comes first."""
        sharing = set[str]().union(*self._sharing.values())
        position = {each: at for at, each in enumerate(filter(sharing.__contains__, member_ids))}
        for place, those in self._sharing.items():
            at = bisect_left(self._places, place)
            self._ids[at : at + len(those)] = sorted(those, key=position.__getitem__, reverse=True)

    def _forget(self, member_ids: Iterable[str]) -> None:
        for member_id in member_ids:
            place = self._place_of.pop(member_id)
            at = self._ids.index(member_id, bisect_left(self._places, place))
            del self._places[at], self._ids[at]
            those = self._sharing.get(place, set())
            those.discard(member_id)
            if len(those) == 1:
                del self._sharing[place]

    def _meet(self, member_ids: Collection[str]) -> None:
        for member_id, bucket in zip(member_ids, map_buckets(member_ids, self.table), strict=True):
            place = bucket << _POSITION_BITS | slot_of(member_id, self.capacity)
            at = bisect_left(self._places, place)
            if self._places[at : at + 1] == [place]:
                self._sharing.setdefault(place, {self._ids[at]}).add(member_id)
            self._places.insert(at, place)
            self._ids.insert(at, member_id)
            self._place_of[member_id] = place
