"""A dictionary that can be changed without changing the one it is made from, at a cost that depends only on what
changes.

A draft of a group (`classic_group`) may change one member in a thousand, and a copy would cost a thousand. An overlay
records what is different and reads everything else from its base. Iterating over it costs one copy, the first time."""

from collections.abc import ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from typing import Any, Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: Up to this size a copy is cheaper.
SMALL: Final = 32
_NOTHING: Final[Any] = object()
_NONE: Final[frozenset[Any]] = frozenset()


def overlaid(base: "Table[K, V]") -> "Table[K, V]":
    """A table equal to `base` that is changed in its place until it is merged."""
    return base.copy() if len(base) <= SMALL else Overlay(base)


def copied(base: "Table[K, V]") -> "Table[K, V]":
    """A table equal to `base` that is never merged into it."""
    return base.copy()


class Overlay(MutableMapping[K, V]):
    """What is different from a base. The order is that of a dictionary: a key that is removed and added again comes
    last."""

    __slots__ = ("_base", "_changed", "_gone", "_is_whole", "_size")

    def __init__(self, base: "Table[K, V]") -> None:
        self._base: Table[K, V] = base
        self._changed: dict[K, V] = {}
        self._gone: set[K] | frozenset[K] = _NONE
        self._size = len(base)
        self._is_whole = False

    def flatten(self) -> dict[K, V]:
        """Everything, in order. From now on the overlay is independent of the base, and changes with this
        dictionary."""
        if not self._is_whole:
            self._is_whole = True
            everything = dict(self._base)
            for key in self._gone:
                del everything[key]
            everything.update(self._changed)
            self._base, self._changed, self._gone = {}, everything, _NONE
        return self._changed

    def merge(self) -> "Table[K, V]":
        """The base with the changes made to it; if the overlay was flattened, its own dictionary. The overlay must not
        be used afterwards."""
        if self._is_whole:
            return self._changed
        for key in self._gone:
            del self._base[key]
        self._base.update(self._changed)
        return self._base

    def copy(self) -> dict[K, V]:
        return self.flatten().copy()

    def __getitem__(self, key: K) -> V:
        if key in self._changed:
            return self._changed[key]
        if key in self._gone:
            raise KeyError(key)
        return self._base[key]

    def get(self, key: K, default: Any = None) -> Any:
        value = self._changed.get(key, _NOTHING)
        if value is not _NOTHING:
            return value
        return default if key in self._gone else self._base.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._changed or (key in self._base and key not in self._gone)

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self._changed and (key not in self._base or key in self._gone):
            self._size += 1
        self._changed[key] = value

    def __delitem__(self, key: K) -> None:
        if self.pop(key, _NOTHING) is _NOTHING:
            raise KeyError(key)

    def pop(self, key: K, default: Any = _NOTHING) -> Any:
        value = self._changed.pop(key, _NOTHING)
        if key in self._base and key not in self._gone:
            if isinstance(self._gone, set):
                self._gone.add(key)
            else:
                self._gone = {key}
            if value is _NOTHING:
                value = self._base[key]
        if value is not _NOTHING:
            self._size -= 1
            return value
        if default is _NOTHING:
            raise KeyError(key)
        return default

    def clear(self) -> None:
        self._base, self._changed, self._gone = {}, {}, _NONE
        self._is_whole, self._size = True, 0

    def __len__(self) -> int:
        return len(self._changed) if self._is_whole else self._size

    def __iter__(self) -> Iterator[K]:
        return iter(self.flatten())

    def keys(self) -> KeysView[K]:
        return self.flatten().keys()

    def values(self) -> ValuesView[V]:
        return self.flatten().values()

    def items(self) -> ItemsView[K, V]:
        return self.flatten().items()


#: A dictionary, or an overlay of one.
Table = dict[K, V] | Overlay[K, V]


def whole(table: Table[K, V]) -> dict[K, V]:
    """A table as a dictionary, for iterating over it. Changes to either one also change the other."""
    return table if isinstance(table, dict) else table.flatten()
