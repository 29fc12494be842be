"""The order of the members of a consumer group in Kafka's assignors."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, KeysView
from typing import Final

from kgm.java.hash_map import map_buckets, map_order, table_of_many
from kgm.java.timeline_hash_map import TimelineOrder, slot_of

_POSITION_BITS: Final = 22
_LAST: Final = (1 << _POSITION_BITS) - 1


class MemberMapOrder:
    """The order of members in a hash map (with `_table` buckets) that is filled in the order of a `TimelineHashMap`
    (with `_capacity` slots): by bucket, and within a bucket by slot. It is kept up to date as members come and go,
    because looking at all of them costs more than most target assignments.

    A place is a bucket and a slot; few members share one."""

    def __init__(self) -> None:
        self._table = self._capacity = 0
        self._place_of: dict[str, int] = {}
        self._places: list[int] = []
        self._ids: list[str] = []
        self._sharing: dict[int, set[str]] = {}

    def of(self, member_ids: KeysView[str], newcomer: str | None, capacity: int) -> list[str]:
        """All members in map order; the newcomer is put into the map last. member_ids: in the order in which they were
        put into a `TimelineHashMap` of this capacity."""
        table = table_of_many(len(member_ids) + (newcomer is not None))
        if table is None:
            listed = TimelineOrder(capacity).sorted(member_ids)
            if newcomer is not None:
                listed.append(newcomer)
            return [listed[at] for at in map_order(listed)]
        if (self._table, self._capacity) != (table, capacity):
            self._table, self._capacity = table, capacity
            for known_before in (self._place_of, self._places, self._ids, self._sharing):
                known_before.clear()
        known = self._place_of.keys()
        if member_ids != known:
            self._forget(known - member_ids)
            self._meet(member_ids - known)
        if self._sharing:
            self._sort_sharing(member_ids)
        if newcomer is None:
            return [*self._ids]
        (bucket,) = map_buckets([newcomer], self._table)
        at = bisect_right(self._places, bucket << _POSITION_BITS | _LAST)
        return [*self._ids[:at], newcomer, *self._ids[at:]]

    def _sort_sharing(self, member_ids: Collection[str]) -> None:
        """Sort the members that share a place: the one that was put in last comes first."""
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
        for member_id, bucket in zip(member_ids, map_buckets(member_ids, self._table), strict=True):
            place = bucket << _POSITION_BITS | slot_of(member_id, self._capacity)
            at = bisect_left(self._places, place)
            if self._places[at : at + 1] == [place]:
                self._sharing.setdefault(place, {self._ids[at]}).add(member_id)
            self._places.insert(at, place)
            self._ids.insert(at, member_id)
            self._place_of[member_id] = place
