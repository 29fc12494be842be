"""Versions of Kafka, and which of its coordinators a broker runs.

Up to 3.9 the coordinator is the one in Scala (`kafka.coordinator.group`), unless a 3.7 to 3.9 broker was configured to
use the new one; from 4.0 on there is only the one in Java (`org.apache.kafka.coordinator.group`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kgm.model.errors import UsageError

#: 3.7 to 3.9 have both coordinators.
LAST_WITH_SCALA = (3, 9)
FIRST_WITH_JAVA = (3, 7)


class BrokerVersion(NamedTuple):
    """A minor version of Kafka, and which of its coordinators it runs."""

    major: int
    minor: int
    has_java_coordinator: bool

    @classmethod
    def parse(cls, text: str) -> BrokerVersion:
        """`3.9`, `3.9.1` (the last number does not matter), or `3.9+new` for a 3.7 to 3.9 broker with the new
        coordinator.

        Raises UsageError."""
        number, _, variant = text.partition("+")
        parts = number.split(".")
        if not (2 <= len(parts) <= 3 and all(part.isascii() and part.isdigit() for part in parts)):
            raise UsageError(f"not a version of Kafka: {text!r}", facts=("expected: 2.8, 3.9, 3.9+new, 4.3",))
        release = int(parts[0]), int(parts[1])
        if variant and (variant != "new" or not FIRST_WITH_JAVA <= release <= LAST_WITH_SCALA):
            raise UsageError(
                f"not a version of Kafka: {text!r}", facts=("only 3.7, 3.8 and 3.9 can run the new coordinator: +new",)
            )
        if not OLDEST.release <= release <= NEWEST.release:
            raise UsageError(
                f"Kafka {text} is not known to kgm", facts=(f"known: {OLDEST} to {NEWEST}",),
            )  # fmt: skip
        return cls(*release, has_java_coordinator=release > LAST_WITH_SCALA or variant == "new")

    @classmethod
    def of_level(cls, level: int) -> BrokerVersion:
        """The version of a `level`."""
        return cls(level // 1000, level % 1000 // 10, has_java_coordinator=bool(level % 10))

    @property
    def level(self) -> int:
        """The version as a number: `kgm serve` reports the version that it plays as the level of a feature."""
        return self.major * 1000 + self.minor * 10 + self.has_java_coordinator

    @property
    def release(self) -> tuple[int, int]:
        return self.major, self.minor

    def __str__(self) -> str:
        is_variant = self.has_java_coordinator and self.release <= LAST_WITH_SCALA
        return f"{self.major}.{self.minor}{'+new' if is_variant else ''}"


OLDEST = BrokerVersion(2, 4, has_java_coordinator=False)
NEWEST = BrokerVersion(4, 4, has_java_coordinator=True)
#: The version whose rules the engine implements natively, and the one assumed for a broker about which nothing is
#: known.
REFERENCE = BrokerVersion(4, 3, has_java_coordinator=True)


#: The feature by which `kgm serve` reports the version that it plays.
PLAYED_VERSION_FEATURE = "kgm.kafka.version"


def releases_in_words(versions: Sequence[BrokerVersion]) -> str:
    """`3.9`, or `3.0 to 3.2` for a broker that may run any of them."""
    oldest, newest = min(versions), max(versions)
    first = f"{oldest.major}.{oldest.minor}"
    return first if oldest.release == newest.release else f"{first} to {newest.major}.{newest.minor}"
