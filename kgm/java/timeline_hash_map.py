"""The order in which Kafka's `TimelineHashMap` iterates over string keys (org.apache.kafka.timeline,
SnapshottableHashTable and BaseHashTable)."""

from collections.abc import Iterable, Sequence
from typing import Final

from kgm.java.strings import signed_string_hash

# A map is assumed to have had at most this many times as many entries as it has now.
_MOST_SHRINKING: Final = 64
_LONG_MASK: Final = (1 << 64) - 1
_FIBONACCI: Final = -7046029254386353131


class TimelineOrder:
    """The size of a `TimelineHashMap`'s table, and the order that follows from it.

    The table grows on a put, even one that replaces a key, and never shrinks. Keys in one slot are iterated in the
    reverse order of their puts. The caller keeps the keys in the order of their puts, as a dictionary does, and reports
    every put."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: int = 2) -> None:
        self.capacity = capacity

    def put(self, size: int) -> None:
        """Report a put into a table that has `size` keys."""
        if (size + 1) * 0.75 > self.capacity:
            self.capacity *= 2

    def sorted(self, keys: Iterable[str]) -> list[str]:
        """The keys, given in the order of their puts, in the order in which the map iterates over them."""
        listed = list(keys)
        slots = (slot_of(key, self.capacity) for key in listed)
        ranks = zip(slots, range(0, -len(listed), -1), listed, strict=True)
        return [key for _, _, key in sorted(ranks)]


def slot_of(key: str, capacity: int) -> int:
    """The slot of a key in a table with `capacity` slots."""
    return (signed_string_hash(key) * _FIBONACCI & _LONG_MASK) >> (65 - capacity.bit_length())


def timeline_capacity(keys: Sequence[str]) -> int | None:
    """The smallest table with which a `TimelineHashMap` iterates over `keys` in the order given; None if no table does.

    A table never shrinks, so it may be larger than today's keys need."""
    order = TimelineOrder()
    for size in range(len(keys)):
        order.put(size)
    listed = [*keys]
    most = order.capacity * _MOST_SHRINKING
    while order.capacity <= most:
        if order.sorted(reversed(listed)) == listed:
            return order.capacity
        order.capacity *= 2
    return None
