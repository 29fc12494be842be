"""What Java's strings and hash maps (and one of Scala's) do, as far as an assignor's answer hangs on it.

A Java leader keeps the members of its group in a `HashMap` keyed by member id, and the sticky assignors walk that map:
who is visited first keeps an extra partition.  The order is not random, it follows from `String.hashCode`, the size of
the table and, inside one bucket, the order of insertion; so it can be computed.

Not modelled: bins that become trees (nine keys of one bucket in a table of 64 or more), where the order depends on
the shape of a red-black tree.  Member ids that end in a UUID do not get there.
"""

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Final, TypeVar

T = TypeVar("T")

_INTS: Final = struct.Struct(">IIII")
_LONGS: Final = struct.Struct(">qq")
_INT_MASK: Final = 0xFFFFFFFF
# The largest number that `spread` leaves alone.
_UNSPREAD: Final = 0xFFFF
# Member ids and topics of the groups at hand: a simulation assigns the same ones over and over.
_REMEMBERED: Final = 1 << 16
DEFAULT_CAPACITY: Final = 16
# HashMap.TREEIFY_THRESHOLD and HashMap.MIN_TREEIFY_CAPACITY: a bin of nine entries doubles a table smaller than 64
_CROWDED_BIN: Final = 9
_SMALLEST_TREE_TABLE: Final = 64
_LARGEST_TABLE: Final = 1 << 20


def utf16_key(text: str) -> bytes:
    """Sort key with which Python orders strings as `String.compareTo` does: by UTF-16 unit."""
    return text.encode("utf-16-be", "surrogatepass")


def java_order(texts: Sequence[str]) -> list[int]:
    """Positions of `texts` in the order of `String.compareTo`; equal ones stay as they are."""
    # Python compares by code point, which is the same below the surrogates.
    keys: Sequence[str | bytes] = texts if "".join(texts).isascii() else [utf16_key(text) for text in texts]
    return sorted(range(len(texts)), key=keys.__getitem__)


@lru_cache(maxsize=_REMEMBERED)
def string_hash(text: str) -> int:
    """`String.hashCode` as an unsigned 32-bit number (Java, too, works it out once for each string)."""
    units: Iterable[int]
    if text.isascii():
        units = text.encode("ascii")
    else:
        raw = utf16_key(text)
        units = (raw[i] << 8 | raw[i + 1] for i in range(0, len(raw), 2))
    value = 0
    for unit in units:
        value = (31 * value + unit) & _INT_MASK
    return value


def partition_hash(topic_hash: int, partition: int) -> int:
    """`TopicPartition.hashCode` as an unsigned 32-bit number."""
    return (31 * (31 + partition) + topic_hash) & _INT_MASK


def spread(value: int) -> int:
    """The bits of a hash that `HashMap` uses to pick a bucket."""
    return value ^ (value >> 16)


def map_order(keys: Sequence[str], least_capacity: int = DEFAULT_CAPACITY) -> list[int]:
    """Positions of `keys` in the order in which a `HashMap` iterates over them, put one by one into an empty map, or
    into one that already had a table of `least_capacity` buckets."""
    hashes = [spread(string_hash(key)) for key in keys]
    mask = max(_grown_capacity(hashes), least_capacity) - 1
    return sorted(range(len(keys)), key=lambda position: hashes[position] & mask)


def map_capacity(keys: Sequence[str]) -> int | None:
    """The smallest table of a `HashMap` that iterates over `keys` in this order; None if none does.

    A table never shrinks: it tells of more entries in the past."""
    hashes = [spread(string_hash(key)) for key in keys]
    capacity = _grown_capacity(hashes)
    while capacity <= _LARGEST_TABLE:
        buckets = [value & (capacity - 1) for value in hashes]
        if all(one <= next_one for one, next_one in pairwise(buckets)):
            return capacity
        capacity *= 2
    return None


def _grown_capacity(hashes: Sequence[int]) -> int:
    """Size of the table after one put for each hash."""
    capacity = DEFAULT_CAPACITY
    for size in range(1, len(hashes) + 1):
        if capacity < _SMALLEST_TREE_TABLE and size >= _CROWDED_BIN:
            mask = capacity - 1
            bucket = hashes[size - 1] & mask
            if sum((value & mask) == bucket for value in hashes[:size]) >= _CROWDED_BIN:
                capacity *= 2
        if size * 4 > capacity * 3:
            capacity *= 2
    while len(hashes) * 4 > capacity * 3:
        capacity *= 2
    return capacity


def copied_set_order(numbers: Iterable[int]) -> list[int]:
    """Non-negative numbers in the order in which `new HashSet<Integer>(numbers)` iterates over them."""
    listed = list(numbers)
    return _by_bucket(listed, _copied_capacity(len(listed)))


def _by_bucket(numbers: Collection[int], capacity: int) -> list[int]:
    mask = capacity - 1
    if max(numbers, default=0) <= _UNSPREAD:
        return sorted(numbers, key=mask.__and__)
    return sorted(numbers, key=lambda number: spread(number) & mask)


def copied_run_order(run: Sequence[int]) -> Sequence[int]:
    """Likewise for an ascending run without gaps: in a table larger than the run it is at most cut in two."""
    if not run or run[-1] > _UNSPREAD:
        return copied_set_order(run)
    capacity = _copied_capacity(len(run))
    cut = capacity - run[0] % capacity
    return run if cut >= len(run) else [*run[cut:], *run[:cut]]


def copied_name_order(names: Iterable[str], *, is_listed: bool = False) -> list[str]:
    """Strings in the order in which `new HashSet<String>(names)` iterates over them, sorted before unless the order in
    which they are given counts."""
    return _copied_order(list(names) if is_listed else sorted(names, key=utf16_key), string_hash)


def copied_uuid_order(items: Sequence[T], uuid_of: Callable[[T], bytes], size: int | None = None) -> list[T]:
    """Items in the order in which a `HashSet<Uuid>` made from their 16-byte ids iterates over those. size: what the
    collection of the ids says that it has, if that is not how many there are."""
    return _copied_order(items, lambda item: uuid_hash(uuid_of(item)), size)


def _copied_order(items: Sequence[T], hash_of: Callable[[T], int], size: int | None = None) -> list[T]:
    mask = _copied_capacity(len(items) if size is None else size) - 1
    return sorted(items, key=lambda item: spread(hash_of(item)) & mask)


def uuid_hash(uuid: bytes) -> int:
    """`Uuid.hashCode` as an unsigned 32-bit number."""
    one, two, three, four = _INTS.unpack(uuid)
    found: int = one ^ two ^ three ^ four
    return found


def uuid_bucket(uuid: bytes) -> int:
    """The bucket of an id in a `HashMap` of the usual size. Two that share none share none in a larger one."""
    return spread(uuid_hash(uuid)) % DEFAULT_CAPACITY


def uuid_key(uuid: bytes) -> tuple[int, int]:
    """Sort key of `Uuid.compareTo`: two signed numbers."""
    high, low = _LONGS.unpack(uuid)
    return high, low


class UuidMapOrder:
    """The order in which a `HashMap<Uuid, …>` iterates over its keys, made with room for so many entries.

    Not modelled: nine keys in one bucket."""

    __slots__ = ("_capacity", "_keys")

    def __init__(self, room: int = DEFAULT_CAPACITY) -> None:
        self._capacity = _table_size(room)
        self._keys: list[bytes] = []  # those of one bucket in their order

    @property
    def _threshold(self) -> int:
        return self._capacity * 3 // 4

    def put(self, key: bytes) -> None:
        """A new key comes last in its bucket."""
        self._keys.append(key)
        if len(self._keys) > self._threshold:
            self._capacity *= 2

    def compute_if_absent(self, key: bytes) -> None:
        """A new key comes first in its bucket, and the table grows only with the next call, be its key new or not."""
        if len(self._keys) > self._threshold:
            self._capacity *= 2
        if key not in self._keys:
            self._keys.insert(0, key)

    def remove(self, key: bytes) -> None:
        """A key goes; the table keeps its size."""
        self._keys.remove(key)

    def __iter__(self) -> Iterator[bytes]:
        mask = self._capacity - 1
        return iter(sorted(self._keys, key=lambda key: spread(uuid_hash(key)) & mask))


class NumberSetOrder:
    """The order in which a `HashSet<Integer>` iterates over non-negative numbers, made with room for so many."""

    __slots__ = ("_capacity", "_numbers")

    def __init__(self, room: int = DEFAULT_CAPACITY) -> None:
        self._capacity = _table_size(room)
        self._numbers: dict[int, None] = {}  # those of one bucket in their order

    @classmethod
    def copied(cls, numbers: Sequence[int]) -> "NumberSetOrder":
        """`new HashSet<>(numbers)`"""
        found = cls(_copied_capacity(len(numbers)))
        found._numbers = dict.fromkeys(numbers)
        return found

    def add(self, number: int) -> None:
        """A new number comes last in its bucket."""
        self._numbers[number] = None
        if len(self._numbers) * 4 > self._capacity * 3:
            self._capacity *= 2

    def remove(self, number: int) -> None:
        """A number goes; the table keeps its size."""
        del self._numbers[number]

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(_by_bucket(self._numbers, self._capacity))


def uuid_map_order(keys: Sequence[bytes]) -> Sequence[bytes]:
    """Ids in the order in which a `HashMap<Uuid, …>` iterates over them, put one by one into an empty one."""
    if len(keys) < 2:
        return keys
    order = UuidMapOrder()
    for key in keys:
        order.put(key)
    return [*order]


def _table_size(room: int) -> int:
    """`HashMap.tableSizeFor`"""
    return 1 << max(room - 1, 0).bit_length()


def _copied_capacity(size: int) -> int:
    """Size of the table of a `HashSet` made from a collection."""
    capacity = DEFAULT_CAPACITY
    while capacity < size * 4 // 3 + 1:
        capacity *= 2
    return capacity


def scala_set_order(keys: Sequence[str]) -> list[str]:
    """Distinct strings in the order in which Scala's immutable `Set` iterates over them, added one by one.

    Up to four keep their order; more live in a trie over the improved hash, five bits a level, whose nodes list their
    own keys before those of their children (`scala.collection.immutable.HashSet` of 2.13)."""
    if len(keys) <= 4:
        return list(keys)
    return _trie_order([(_improved(string_hash(key)), key) for key in keys], 0)


def _trie_order(entries: list[tuple[int, str]], shift: int) -> list[str]:
    if shift >= 32:
        return [key for _, key in entries]
    slots: dict[int, list[tuple[int, str]]] = {}
    for entry in entries:
        slots.setdefault(entry[0] >> shift & 31, []).append(entry)
    filled = [slots[slot] for slot in sorted(slots)]
    own = [entries[0][1] for entries in filled if len(entries) == 1]
    below = (_trie_order(entries, shift + 5) for entries in filled if len(entries) > 1)
    return [*own, *chain.from_iterable(below)]


def _improved(value: int) -> int:
    """`scala.collection.Hashing.improve`."""
    value = (value + ~(value << 9)) & _INT_MASK
    value ^= value >> 14
    value = (value + (value << 4)) & _INT_MASK
    return value ^ (value >> 10)


class PartitionHashSet:
    """A `HashSet<TopicPartition>` of which only the first element of an iteration is ever asked."""

    __slots__ = ("_capacity", "_hashes")

    def __init__(self) -> None:
        self._hashes: dict[int, int] = {}
        self._capacity = DEFAULT_CAPACITY

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, partition: int, hash_value: int) -> None:
        """Add a (dense) partition number with the `hashCode` of its `TopicPartition`."""
        self._hashes[partition] = spread(hash_value)
        if len(self._hashes) * 4 > self._capacity * 3:
            self._capacity *= 2

    def remove(self, partition: int) -> None:
        """Remove a partition; the table keeps its size, as Java's does."""
        del self._hashes[partition]

    def first(self) -> int:
        """The partition that an iterator would return first."""
        hashes, mask = self._hashes, self._capacity - 1
        return min(hashes, key=lambda partition: hashes[partition] & mask)


class TimelineOrder:
    """The order in which Kafka's `TimelineHashMap` (SnapshottableHashTable) iterates over string keys.

    The table grows when something is put, also in the place of what is there, and never shrinks. Keys of one slot come
    in the reverse order of having been put. Whoever keeps the keys in the order of having been put (a dictionary does)
    has to tell of every put."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: int = 2) -> None:
        self.capacity = capacity

    def put(self, size: int) -> None:
        """Something is put into a table of so many keys."""
        if (size + 1) * 0.75 > self.capacity:
            self.capacity *= 2

    def sorted(self, keys: Iterable[str]) -> list[str]:
        """The keys, given in the order of having been put, as the table iterates over them."""
        shift = 65 - self.capacity.bit_length()
        listed = list(keys)
        slots = ((_signed(string_hash(key)) * _FIBONACCI & _LONG_MASK) >> shift for key in listed)
        ranks = zip(slots, range(0, -len(listed), -1), listed, strict=True)
        return [key for _, _, key in sorted(ranks)]


def timeline_capacity(keys: Sequence[str]) -> int | None:
    """The smallest table of a `TimelineHashMap` that iterates over `keys` in this order; None if none does.

    A table never shrinks: it tells of more entries in the past."""
    order = TimelineOrder()
    for size in range(len(keys)):
        order.put(size)
    listed = [*keys]
    most = order.capacity * _MOST_ONCE
    while order.capacity <= most:
        if order.sorted(reversed(listed)) == listed:
            return order.capacity
        order.capacity *= 2
    return None


# How many times as many entries as now there may have been.
_MOST_ONCE: Final = 64
_LONG_MASK: Final = (1 << 64) - 1
_FIBONACCI: Final = -7046029254386353131


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value
