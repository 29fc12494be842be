"""The order in which Scala's immutable `Set` iterates over strings (scala.collection.immutable.HashSet of 2.13)."""

from collections.abc import Sequence
from itertools import chain

from kgm.java.strings import INT_MASK, string_hash


def scala_set_order(keys: Sequence[str]) -> list[str]:
    """Distinct strings in the order of a set to which they are added one by one.

    Up to four keep their order; more are kept in a trie over the improved hash, five bits a level, whose nodes list
    their own keys before those of their children."""
    if len(keys) <= 4:
        return list(keys)
    return trie_order(keys)


def trie_order(keys: Sequence[str]) -> list[str]:
    """Distinct strings in the order of an immutable `HashSet` or `HashMap`, even if there are four or fewer."""
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
    value = (value + ~(value << 9)) & INT_MASK
    value ^= value >> 14
    value = (value + (value << 4)) & INT_MASK
    return value ^ (value >> 10)
