"""The order in which a `java.util.PriorityQueue` returns elements, some of which compare as equal."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """A queue whose elements are ordered by a key. The key of an element in the queue must not change."""

    __slots__ = ("_heap", "_key")

    def __init__(self, key: Callable[[T], Any], elements: Iterable[T] = ()) -> None:
        self._key = key
        self._heap: list[T] = []
        for element in elements:
            self.add(element)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, element: T) -> None:
        heap, key = self._heap, self._key
        at, rank = len(heap), key(element)
        heap.append(element)
        while at and rank < key(heap[(at - 1) // 2]):
            heap[at], at = heap[(at - 1) // 2], (at - 1) // 2
        heap[at] = element

    def poll(self) -> T:
        """Take the first element; the last one moves to the top and sifts down. Raises IndexError if there is none."""
        heap, key = self._heap, self._key
        last = heap.pop()
        if not heap:
            return last
        first, at, rank = heap[0], 0, key(last)
        while (child := 2 * at + 1) < len(heap):
            if child + 1 < len(heap) and key(heap[child + 1]) < key(heap[child]):
                child += 1
            if not key(heap[child]) < rank:
                break
            heap[at], at = heap[child], child
        heap[at] = last
        return first


def poll_order(keys: Sequence[Any]) -> list[int]:
    """Positions of `keys` in the order in which a queue returns them, after they were added one by one."""
    queue = PriorityQueue(keys.__getitem__, range(len(keys)))
    return [queue.poll() for _ in keys]
