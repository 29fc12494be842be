"""The order in which a Go program iterates over a map: a different one in each run."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


class MapOrder:
    """One choice of such an order.

    shuffle: shuffles a list in place; None: everything stays in its given order. decides: set by assignors if a
    different order might have led to a different result."""

    def __init__(self, shuffle: Callable[[list[Any]], object] | None = None) -> None:
        self._shuffle = shuffle
        self.decides = False

    def of(self, items: Iterable[T]) -> list[T]:
        """The items in some order."""
        listed = list(items)
        if self._shuffle is not None and len(listed) > 1:
            self._shuffle(listed)
        return listed
