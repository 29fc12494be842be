"""The topics that the server pretends to have: names, partition counts, and ids made from the names.

Ids are the same in every run, so that a client that kept an id across a restart of the server is not confused."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kgm.model.errors import UsageError

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ID_SIZE = 16
NO_ID = bytes(_ID_SIZE)
_MOST_PARTITIONS = 100_000


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; its partitions are 0 to `partitions` - 1."""

    name: str
    partitions: int
    topic_id: bytes

    def has(self, partition: int) -> bool:
        return 0 <= partition < self.partitions


def is_legal_name(name: str) -> bool:
    """Kafka's rule for topic names (org.apache.kafka.common.internals.Topic)."""
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")


def topic_id(name: str) -> bytes:
    """A topic's id. The first bit is 0, so that the text form never begins with a dash."""
    digest = bytearray(hashlib.sha256(b"kgm topic " + name.encode()).digest()[:_ID_SIZE])
    digest[0] &= 0x7F
    return bytes(digest)


class Topics(Mapping[str, int]):
    """Partition counts by topic name, in order of creation; topics can be added and looked up by id."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self.total_partitions = 0
        for name, count in partitions.items():
            if not is_legal_name(name):
                raise UsageError(f"{name!r} is no legal topic name", hint="letters, digits, '.', '_', '-'; up to 249")
            if not 1 <= count <= _MOST_PARTITIONS:
                raise UsageError(f"topic {name} can have 1 to {_MOST_PARTITIONS} partitions, not {count}")
            self.add(name, count)

    def add(self, name: str, partitions: int) -> Topic:
        """Add a topic that is not there yet; its name must be legal."""
        assert name not in self._by_name
        assert partitions > 0
        topic = Topic(name, partitions, topic_id(name))
        self._by_name[name] = self._by_id[topic.topic_id] = topic
        self.total_partitions += partitions
        return topic

    def remove(self, name: str) -> None:
        """Take back a topic that was just added."""
        topic = self._by_name.pop(name)
        del self._by_id[topic.topic_id]
        self.total_partitions -= topic.partitions

    def named(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def identified(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def all(self) -> list[Topic]:
        """Sorted by name."""
        return sorted(self._by_name.values(), key=lambda topic: topic.name)

    def __getitem__(self, name: str) -> int:
        return self._by_name[name].partitions

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)
