"""The order in which a `java.util.PriorityQueue` gives out elements, some of which are equal in its order."""

from collections.abc import Sequence
from typing import Any


def poll_order(keys: Sequence[Any]) -> list[int]:
    """Positions of `keys` in the order in which a queue gives them out, after they were added one by one."""
    heap: list[int] = []
    for place in range(len(keys)):
        heap.append(place)
        at = len(heap) - 1
        while at and keys[place] < keys[heap[(at - 1) // 2]]:
            heap[at], at = heap[(at - 1) // 2], (at - 1) // 2
        heap[at] = place
    return [_polled(heap, keys) for _ in keys]


def _polled(heap: list[int], keys: Sequence[Any]) -> int:
    """Take the first one; the last one goes down from there."""
    first, last = heap[0], heap.pop()
    if not heap:
        return first
    at = 0
    while (child := 2 * at + 1) < len(heap):
        if child + 1 < len(heap) and keys[heap[child + 1]] < keys[heap[child]]:
            child += 1
        if not keys[heap[child]] < keys[last]:
            break
        heap[at], at = heap[child], child
    heap[at] = last
    return first
