"""Random numbers of many members at once, and times that are made of them: `random_stream` and `timing` in arrays."""

from typing import Final

import numpy as np
import numpy.typing as npt

from kgm.simulation.play.random_stream import FACTORS, INCREMENT, UNIT
from kgm.simulation.play.timing import NETWORK_MS, SLOW_BELOW, SLOW_BITS, SLOW_MS, USUAL_UNIT

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

_INCREMENT, _FIRST, _SECOND = np.uint64(INCREMENT), np.uint64(FACTORS[0]), np.uint64(FACTORS[1])
_SLOW_MASK: Final = np.uint64((1 << SLOW_BITS) - 1)
_BITS = {bits: np.uint64(bits) for bits in (11, SLOW_BITS, 27, 30, 31)}


def words(keys: Words, drawn: Words, count: int) -> Words:
    """The next numbers of each stream: one row for the first of all streams, one for the second, and so on."""
    ahead = np.arange(1, count + 1, dtype=np.uint64)
    mixed: Words = (ahead[:, None] + drawn) * _INCREMENT + keys
    mixed = (mixed ^ (mixed >> _BITS[30])) * _FIRST
    mixed = (mixed ^ (mixed >> _BITS[27])) * _SECOND
    return mixed ^ (mixed >> _BITS[31])


def network_ms(word: Words) -> Floats:
    """One way over the network (`timing.draw_ms`)."""
    least, most = NETWORK_MS
    value = least + (most - least) * ((word >> _BITS[SLOW_BITS]).astype(np.float64) * USUAL_UNIT)
    slow = word & _SLOW_MASK
    late = slow < SLOW_BELOW
    value[late] += SLOW_MS[0] + (SLOW_MS[1] - SLOW_MS[0]) * (slow[late].astype(np.float64) / SLOW_BELOW)
    return value


def shares(word: Words) -> Floats:
    """Shares from 0 up to but without 1 (`RandomStream.random`)."""
    return (word >> _BITS[11]).astype(np.float64) * UNIT


def reaction_ms(word: Words, least: Floats, span: Floats) -> Floats:
    """How long clients take (`timing.reaction_ms`). span: from the least to the most."""
    share = shares(word)
    square = share * share
    fourth = square * square
    return least + span * (fourth * fourth)
