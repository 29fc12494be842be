"""The order in which a `java.util.HashMap` iterates over its keys.

Not modelled: bins that become trees (nine keys in one bucket of a table with 64 buckets or more), where the order
depends on the shape of a red-black tree. Member ids that end in a random UUID do not get there."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from kgm.java.strings import string_hash
from kgm.java.uuids import uuid_hash

#: Buckets of a map that is created without a size (HashMap.DEFAULT_INITIAL_CAPACITY).
DEFAULT_CAPACITY: Final = 16
# HashMap.TREEIFY_THRESHOLD and MIN_TREEIFY_CAPACITY: a bin of nine entries doubles a table smaller than 64.
_CROWDED_BIN: Final = 9
_SMALLEST_TREE_TABLE: Final = 64
_LARGEST_TABLE: Final = 1 << 20


def spread(value: int) -> int:
    """The bits of an unsigned hash code from which the bucket is taken (HashMap.hash)."""
    return value ^ (value >> 16)


def table_size_for(room: int) -> int:
    """Buckets of a map that is created with this initial capacity (HashMap.tableSizeFor)."""
    return 1 << max(room - 1, 0).bit_length()


def grown_capacity(entries: int) -> int:
    """Buckets of a map that has had at most this many entries. A table never shrinks."""
    capacity = DEFAULT_CAPACITY
    while entries * 4 > capacity * 3:
        capacity *= 2
    return capacity


def table_of(keys: Iterable[str]) -> int:
    """Buckets of a map into which these keys were put one by one."""
    return _capacity_after([spread(string_hash(key)) for key in keys])


def map_order(keys: Sequence[str], least_capacity: int = DEFAULT_CAPACITY) -> list[int]:
    """Positions of `keys` in the order in which a map iterates over them, after they are put one by one into an empty
    map with at least `least_capacity` buckets."""
    return order_of_hashes(list(map(string_hash, keys)), least_capacity)


def order_of_hashes(codes: Sequence[int], least_capacity: int = DEFAULT_CAPACITY) -> list[int]:
    """Like `map_order`, from the unsigned hash codes of the keys."""
    hashes = list(map(spread, codes))
    mask = max(_capacity_after(hashes), least_capacity) - 1
    buckets = [value & mask for value in hashes]
    return sorted(range(len(codes)), key=buckets.__getitem__)


def sized_map_order(keys: Sequence[str], room: int) -> list[int]:
    """`map_order` in a map that is created with this initial capacity, which can be less than the default."""
    capacity = table_size_for(room)
    while len(keys) > capacity * 3 // 4:
        capacity *= 2
    buckets = map_buckets(keys, capacity)
    return sorted(range(len(keys)), key=buckets.__getitem__)


def table_of_many(keys: int) -> int | None:
    """Buckets of a map into which this many keys were put one by one; None if that depends on the keys."""
    capacity = grown_capacity(keys)
    return capacity if capacity > _SMALLEST_TREE_TABLE else None


def map_buckets(keys: Iterable[str], table: int) -> list[int]:
    """The bucket of each key in a map with `table` buckets."""
    return [spread(string_hash(key)) & (table - 1) for key in keys]


def first_in_map(keys: Iterable[str], capacity: int) -> str | None:
    """The key that a map with this many buckets returns first, for keys given in the order of insertion; None without
    keys."""
    mask = capacity - 1
    return min(keys, key=lambda key: spread(string_hash(key)) & mask, default=None)


def map_capacity(keys: Sequence[str]) -> int | None:
    """The fewest buckets with which a map iterates over `keys` in the order given; None if no number of buckets does.

    A table never shrinks, so it may be larger than today's keys need."""
    hashes = [spread(string_hash(key)) for key in keys]
    capacity = _capacity_after(hashes)
    while capacity <= _LARGEST_TABLE:
        buckets = [value & (capacity - 1) for value in hashes]
        if all(one <= next_one for one, next_one in pairwise(buckets)):
            return capacity
        capacity *= 2
    return None


def _capacity_after(hashes: Sequence[int]) -> int:
    """Buckets after one put for each spread hash."""
    many = table_of_many(len(hashes))
    if many is not None:
        return many
    capacity = DEFAULT_CAPACITY
    for size in range(1, len(hashes) + 1):
        if capacity < _SMALLEST_TREE_TABLE and size >= _CROWDED_BIN:
            mask = capacity - 1
            bucket = hashes[size - 1] & mask
            if sum((value & mask) == bucket for value in hashes[:size]) >= _CROWDED_BIN:
                capacity *= 2
        if size * 4 > capacity * 3:
            capacity *= 2
    return max(capacity, grown_capacity(len(hashes)))


def uuid_bucket(uuid: bytes) -> int:
    """The bucket of an id in a map with DEFAULT_CAPACITY buckets. Two ids that do not share a bucket here do not share
    one in a larger table either."""
    return spread(uuid_hash(uuid)) % DEFAULT_CAPACITY


def uuid_map_order(keys: Sequence[bytes]) -> Sequence[bytes]:
    """Ids in the order in which a `HashMap<Uuid, …>` iterates over them, after they are put one by one into an empty
    one."""
    if len(keys) < 2:
        return keys
    order = UuidMapOrder()
    for key in keys:
        order.put(key)
    return [*order]


class UuidMapOrder:
    """The keys of a `HashMap<Uuid, …>` with room for this many entries; iterates in the order of that map."""

    __slots__ = ("_capacity", "_hashes", "_keys", "_sizes")

    def __init__(self, room: int = DEFAULT_CAPACITY) -> None:
        self._capacity = table_size_for(room)
        self._keys: list[bytes] = []  # the keys of one bucket are in their order
        self._hashes: dict[bytes, int] = {}
        self._sizes: dict[int, int] = {}  # number of keys by bucket

    @property
    def _threshold(self) -> int:
        return self._capacity * 3 // 4

    def put(self, key: bytes) -> None:
        """Add a new key, which becomes the last one in its bucket."""
        self._keys.append(key)
        self._enter(key, _CROWDED_BIN)
        if len(self._keys) > self._threshold:
            self._grow()

    def compute_if_absent(self, key: bytes) -> None:
        """Add a key if it is new. It becomes the first one in its bucket, and the table does not grow until the next
        call, whether or not that call's key is new; but a bucket counts as crowded with one key less."""
        if len(self._keys) > self._threshold:
            self._grow()
        if key not in self._hashes:
            self._keys.insert(0, key)
            self._enter(key, _CROWDED_BIN - 1)

    def remove(self, key: bytes) -> None:
        """Remove a key; the table keeps its size."""
        self._keys.remove(key)
        self._sizes[self._hashes.pop(key) & (self._capacity - 1)] -= 1

    def _enter(self, key: bytes, crowded: int) -> None:
        """Store the hash of a new key. A small table grows when `crowded` keys share a bucket (HashMap.treeifyBin)."""
        found = self._hashes[key] = spread(uuid_hash(key))
        bucket = found & (self._capacity - 1)
        size = self._sizes[bucket] = self._sizes.get(bucket, 0) + 1
        if size >= crowded and self._capacity < _SMALLEST_TREE_TABLE:
            self._grow()

    def _grow(self) -> None:
        self._capacity *= 2
        self._sizes = Counter(found & (self._capacity - 1) for found in self._hashes.values())

    def __iter__(self) -> Iterator[bytes]:
        hashes, mask = self._hashes, self._capacity - 1
        return iter(sorted(self._keys, key=lambda key: hashes[key] & mask))
