"""The topics that the server pretends to have: names, partition counts, and ids made from the names.

Ids are the same in every run, so that a client that kept an id across a restart of the server is not confused. A topic
that is made again after it was deleted has another id than before."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kgm.coordinator.contract import topic_image as images
from kgm.coordinator.contract.topic_image import NO_ID, TopicImage, topic_id
from kgm.model.errors import UsageError

__all__ = ["NO_ID", "Topic", "Topics", "is_legal_name", "topic_id"]

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_MOST_PARTITIONS = 100_000
#: Stands between a topic's name and how often it was deleted; in no name.
_AGAIN = "#"


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


class Topics(Mapping[str, int]):
    """Partition counts by topic name, in order of creation; topics can be added, grown, deleted, and looked up by id.

    deletions: how often the topics of each name have been deleted. ids: of topics that are not to have the usual one;
    they come with a data directory. The image says the same to the coordinators; version: what it has to be above, as
    the log has versions of earlier runs."""

    def __init__(
        self,
        partitions: Mapping[str, int],
        *,
        deletions: Mapping[str, int] | None = None,
        ids: Mapping[str, bytes] | None = None,
        version: int = 0,
    ) -> None:
        self.deletions = dict(deletions or {})
        self.total_partitions = 0
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._image = TopicImage()
        self._version = version + 1
        for name, count in partitions.items():
            if not is_legal_name(name):
                raise UsageError(f"{name!r} is no legal topic name", hint="letters, digits, '.', '_', '-'; up to 249")
            if not 1 <= count <= _MOST_PARTITIONS:
                raise UsageError(f"topic {name} can have 1 to {_MOST_PARTITIONS} partitions, not {count}")
            self._put(Topic(name, count, (ids or {}).get(name) or self.id_of_new(name)))

    @property
    def image(self) -> TopicImage:
        """The topics as the coordinators see them; another one after each change."""
        if self._image.version != self._version:
            there = (images.Topic(name=t.name, topic_id=t.topic_id, partitions=t.partitions) for t in self.all())
            self._image = TopicImage.of(there, version=self._version).after(self._image)
        return self._image

    def add(self, name: str, partitions: int) -> Topic:
        """Add a topic that is not there yet; its name must be legal."""
        assert name not in self._by_name
        assert partitions > 0
        return self._put(Topic(name, partitions, self.id_of_new(name)))

    def resize(self, name: str, partitions: int) -> Topic:
        """Give a topic more partitions, or take back those that it was just given."""
        known = self._by_name[name]
        self.total_partitions -= known.partitions
        return self._put(Topic(name, partitions, known.topic_id))

    def remove(self, name: str) -> Topic:
        """Take a topic out: one that was just added, or that is deleted."""
        topic = self._by_name.pop(name)
        del self._by_id[topic.topic_id]
        self.total_partitions -= topic.partitions
        self._version += 1
        return topic

    def delete(self, name: str) -> Topic:
        """Take a topic out for good: one of the same name is another one."""
        self.deletions[name] = self.deletions.get(name, 0) + 1
        return self.remove(name)

    def undelete(self, topic: Topic) -> None:
        """Put back a topic that was just deleted; it is the last one then."""
        self.deletions[topic.name] -= 1
        self._put(topic)

    def _put(self, topic: Topic) -> Topic:
        self._by_name[topic.name] = self._by_id[topic.topic_id] = topic
        self.total_partitions += topic.partitions
        self._version += 1
        return topic

    def id_of_new(self, name: str) -> bytes:
        """The id of a topic that is made now."""
        times = self.deletions.get(name, 0)
        return topic_id(f"{name}{_AGAIN}{times}" if times else name)

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
