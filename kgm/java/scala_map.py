"""The orders in which Scala's hash maps iterate over strings (scala.collection of 2.13; the maps of 2.12 iterate
differently).

Brokers with the coordinator in Scala, up to 3.9, keep the members of a group in a mutable `HashMap`, and count votes in
an immutable one (`groupBy`)."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from kgm.java.hash_map import spread
from kgm.java.scala_set import trie_order
from kgm.java.strings import string_hash

#: Buckets of a map that is created without a size (mutable.HashMap.defaultInitialCapacity).
DEFAULT_CAPACITY: Final = 16
_LARGEST_TABLE: Final = 1 << 20
_SIGN: Final = 1 << 31


def grown_scala_capacity(entries: int) -> int:
    """Buckets of a mutable map that has had at most this many entries. It grows one entry earlier than Java's map, and
    never shrinks."""
    capacity = DEFAULT_CAPACITY
    while entries * 4 >= capacity * 3:
        capacity *= 2
    return capacity


def scala_map_order(keys: Sequence[str], capacity: int) -> list[int]:
    """Positions of `keys` in the order in which a mutable map with this many buckets iterates over them; keys are given
    in the order of insertion.

    The keys within one bucket are in the order of their signed hash codes, not of insertion."""
    ranks = [_rank(key, capacity - 1) for key in keys]
    return sorted(range(len(keys)), key=ranks.__getitem__)


def first_in_scala_map(keys: Iterable[str], capacity: int) -> str | None:
    """The key that a mutable map with this many buckets returns first, for keys given in the order of insertion; None
    without keys."""
    mask = capacity - 1
    return min(keys, key=lambda key: _rank(key, mask), default=None)


def scala_map_capacity(keys: Sequence[str]) -> int | None:
    """The fewest buckets with which a mutable map iterates over `keys` in the order given; None if no number of buckets
    does."""
    capacity = grown_scala_capacity(len(keys))
    while capacity <= _LARGEST_TABLE:
        ranks = [_rank(key, capacity - 1) for key in keys]
        if all(one <= next_one for one, next_one in pairwise(ranks)):
            return capacity
        capacity *= 2
    return None


def grouped_order(keys: Sequence[str]) -> list[str]:
    """Distinct strings in the order of the immutable map that `groupBy` returns."""
    return trie_order(keys)


def _rank(key: str, mask: int) -> tuple[int, int]:
    hashed = spread(string_hash(key))
    return hashed & mask, hashed - (_SIGN << 1) if hashed & _SIGN else hashed
