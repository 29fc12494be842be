"""Random numbers of one client in one draw, each computed from the client's key and the count of numbers drawn before.

So what a client draws does not depend on what others do meanwhile, and the numbers of many clients can be computed
together (`splitmix64`; Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)."""

import hashlib
import random
from typing import Final

_MASK: Final = (1 << 64) - 1
#: The increment and the factors of splitmix64.
INCREMENT: Final = 0x9E3779B97F4A7C15
FACTORS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
#: Scales a 53-bit number to a share from 0 to 1.
UNIT: Final = 2.0**-53


class RandomStream:
    """drawn: how many numbers it has returned."""

    __slots__ = ("drawn", "key")

    def __init__(self, seed: str, name: str) -> None:
        self.key = int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest())
        self.drawn = 0

    @classmethod
    def of(cls, key: int) -> "RandomStream":
        """The stream of a key."""
        stream = object.__new__(cls)
        stream.key, stream.drawn = key, 0
        return stream

    def word(self) -> int:
        """The next number, of 64 bits."""
        self.drawn += 1
        mixed = (self.key + self.drawn * INCREMENT) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * FACTORS[0]) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * FACTORS[1]) & _MASK
        return mixed ^ (mixed >> 31)

    def random(self) -> float:
        """The next number as a share, from 0 inclusive to 1 exclusive."""
        return (self.word() >> 11) * UNIT


class LateRandom:
    """Returns a `random.Random`, always the same one, and seeds it only when it is first asked for: most draws need few
    of them, and seeding takes long."""

    __slots__ = ("_chance", "_seed")

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._chance: random.Random | None = None

    def __call__(self) -> random.Random:
        if self._chance is None:
            self._chance = random.Random(self._seed)  # noqa: S311  (a simulation)
        return self._chance
