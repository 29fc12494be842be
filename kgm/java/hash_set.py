"""The order in which a `java.util.HashSet` iterates over numbers, strings, ids and partitions.

A *copied* set is one created from a collection, `new HashSet<>(collection)`: its table is sized for the collection from
the start, while a set filled one element at a time grows. Not modelled: nine elements in one bucket."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from kgm.java.hash_map import DEFAULT_CAPACITY, spread, table_size_for
from kgm.java.strings import string_hash, utf16_key
from kgm.java.uuids import uuid_hash

T = TypeVar("T")

# The largest number that `spread` leaves unchanged.
_LARGEST_UNSPREAD: Final = 0xFFFF


def copied_set_order(numbers: Iterable[int]) -> list[int]:
    """Non-negative numbers in the order of `new HashSet<Integer>(numbers)`."""
    listed = list(numbers)
    return _by_bucket(listed, _copied_capacity(len(listed)))


def copied_run_order(run: Sequence[int]) -> Sequence[int]:
    """`copied_set_order` for an ascending run without gaps: the table is larger than the run, so the run is split in
    two at most."""
    if not run or run[-1] > _LARGEST_UNSPREAD:
        return copied_set_order(run)
    capacity = _copied_capacity(len(run))
    cut = capacity - run[0] % capacity
    return run if cut >= len(run) else [*run[cut:], *run[:cut]]


def copied_name_order(names: Iterable[str], *, is_listed: bool = False) -> list[str]:
    """Strings in the order of `new HashSet<String>(names)`. is_listed: whether they are inserted in the order given;
    otherwise they are sorted first."""
    return copied_order(list(names) if is_listed else sorted(names, key=utf16_key), string_hash)


def copied_uuid_order(items: Sequence[T], uuid_of: Callable[[T], bytes], size: int | None = None) -> list[T]:
    """Items in the order of a `HashSet<Uuid>` made from their 16-byte ids. size: the size that the collection of ids
    reports, if that is not the number of items."""
    return copied_order(items, lambda item: uuid_hash(uuid_of(item)), size)


def copied_order(items: Sequence[T], hash_of: Callable[[T], int], size: int | None = None) -> list[T]:
    """Items in the order of a copied set of anything that has a hash code (`hash_of`, as an unsigned number). size: the
    size that the collection reports, if that is not the number of items."""
    mask = _copied_capacity(len(items) if size is None else size) - 1
    return sorted(items, key=lambda item: spread(hash_of(item)) & mask)


def _copied_capacity(size: int) -> int:
    """Buckets of a set made from a collection of this size."""
    capacity = DEFAULT_CAPACITY
    while capacity < size * 4 // 3 + 1:
        capacity *= 2
    return capacity


def _by_bucket(numbers: Collection[int], capacity: int) -> list[int]:
    mask = capacity - 1
    if max(numbers, default=0) <= _LARGEST_UNSPREAD:
        return sorted(numbers, key=mask.__and__)
    return sorted(numbers, key=lambda number: spread(number) & mask)


class NumberSetOrder:
    """The elements of a `HashSet<Integer>` of non-negative numbers, created with room for `room` of them; iterates in
    the order of that set."""

    __slots__ = ("_capacity", "_numbers")

    def __init__(self, room: int = DEFAULT_CAPACITY) -> None:
        self._capacity = table_size_for(room)
        self._numbers: dict[int, None] = {}  # the numbers of one bucket are in their order

    @classmethod
    def copied(cls, numbers: Sequence[int]) -> "NumberSetOrder":
        """`new HashSet<>(numbers)`"""
        copy = cls(_copied_capacity(len(numbers)))
        copy._numbers = dict.fromkeys(numbers)
        return copy

    def add(self, number: int) -> None:
        """Add a new number, which becomes the last one in its bucket."""
        self._numbers[number] = None
        if len(self._numbers) * 4 > self._capacity * 3:
            self._capacity *= 2

    def remove(self, number: int) -> None:
        """Remove a number; the table keeps its size."""
        del self._numbers[number]

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(_by_bucket(self._numbers, self._capacity))


class PartitionHashSet:
    """A `HashSet<TopicPartition>` of which only the first element of an iteration is needed."""

    __slots__ = ("_capacity", "_hashes")

    def __init__(self) -> None:
        self._hashes: dict[int, int] = {}
        self._capacity = DEFAULT_CAPACITY

    def __len__(self) -> int:
        return len(self._hashes)

    def __iter__(self) -> Iterator[int]:
        """The partitions in the order in which they were added."""
        return iter(self._hashes)

    def add(self, partition: int, hash_value: int) -> None:
        """Add a (dense) partition number with its `topic_partition_hash`."""
        self._hashes[partition] = spread(hash_value)
        if len(self._hashes) * 4 > self._capacity * 3:
            self._capacity *= 2

    def remove(self, partition: int) -> None:
        """Remove a partition; the table keeps its size."""
        del self._hashes[partition]

    def first(self) -> int:
        """The partition that an iterator returns first."""
        hashes, mask = self._hashes, self._capacity - 1
        return min(hashes, key=lambda partition: hashes[partition] & mask)
