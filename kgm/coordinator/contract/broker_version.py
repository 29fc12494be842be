"""What coordinators of other Kafka versions do differently, as data. The rules themselves are those of Kafka 4.3.

Up to 3.9 the coordinator is the one in Scala (`kafka.coordinator.group`), unless 3.7 to 3.9 were told to use the new
one; from 4.0 on there is only the one in Java (`org.apache.kafka.coordinator.group`)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from kgm.model.errors import UsageError

_LAST_WITH_SCALA = (3, 9)
_FIRST_WITH_JAVA = (3, 7)


class BrokerVersion(NamedTuple):
    """A minor version of Kafka, and which of its coordinators it runs."""

    major: int
    minor: int
    has_java_coordinator: bool

    @classmethod
    def parse(cls, text: str) -> "BrokerVersion":
        """`3.9`, `3.9.1` (the last number does not matter), or `3.9+new` for a 3.7 to 3.9 with the new coordinator.

        Raises UsageError."""
        number, _, variant = text.partition("+")
        parts = number.split(".")
        if not (2 <= len(parts) <= 3 and all(part.isascii() and part.isdigit() for part in parts)):
            raise UsageError(f"not a version of Kafka: {text!r}", facts=("expected: 2.8, 3.9, 3.9+new, 4.3",))
        release = int(parts[0]), int(parts[1])
        if variant and (variant != "new" or not _FIRST_WITH_JAVA <= release <= _LAST_WITH_SCALA):
            raise UsageError(
                f"not a version of Kafka: {text!r}", facts=("only 3.7, 3.8 and 3.9 can run the new coordinator: +new",)
            )
        if not OLDEST.release <= release <= NEWEST.release:
            raise UsageError(
                f"Kafka {text} is not known to kgm", facts=(f"known: {OLDEST} to {NEWEST}",),
            )  # fmt: skip
        return cls(*release, has_java_coordinator=release > _LAST_WITH_SCALA or variant == "new")

    @property
    def release(self) -> tuple[int, int]:
        return self.major, self.minor

    def __str__(self) -> str:
        is_variant = self.has_java_coordinator and self.release <= _LAST_WITH_SCALA
        return f"{self.major}.{self.minor}{'+new' if is_variant else ''}"


OLDEST = BrokerVersion(2, 4, has_java_coordinator=False)
NEWEST = BrokerVersion(4, 4, has_java_coordinator=True)
#: The version whose rules are the engine's own, and what is assumed of a broker that nothing is known about.
REFERENCE = BrokerVersion(4, 3, has_java_coordinator=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorBehavior:
    """Where coordinators differ. The defaults are those of `REFERENCE`."""

    is_scala: bool = False


@lru_cache
def behavior_of(version: BrokerVersion) -> CoordinatorBehavior:
    """How the coordinator of that version behaves."""
    return CoordinatorBehavior(is_scala=not version.has_java_coordinator)
