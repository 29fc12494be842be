"""The order in which a Go program goes through a map: another one in each run."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


class MapOrder:
    """One choice of these orders.

    shuffle: puts a list into another order; None: everything stays in the order in which it is named. decides: set by
    assignors where another order may have led to another answer."""

    def __init__(self, shuffle: Callable[[list[Any]], object] | None = None) -> None:
        self._shuffle = shuffle
        self.decides = False

    def of(self, items: Iterable[T]) -> list[T]:
        """The items in some order."""
        listed = list(items)
        if self._shuffle is not None and len(listed) > 1:
            self._shuffle(listed)
        return listed
