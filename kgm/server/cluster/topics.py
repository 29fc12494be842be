"""The topics of the cluster: names, partition counts, and ids derived from the names.

Ids are the same in every run, so that a client that remembers an id across a restart of the server is not confused. A
topic that is deleted and created again gets a different id."""

import re
from collections.abc import Iterator, Mapping

from kgm.coordinator.contract.topic_image import NO_ID, Topic, TopicImage, topic_id
from kgm.model.errors import UsageError

__all__ = ["NO_ID", "Topic", "Topics", "check_topic", "has_partition", "is_legal_name", "topic_id"]

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_MAX_PARTITIONS = 100_000
#: Separates a topic's name from the number of times it was deleted; not legal in a name.
_DELETIONS = "#"


def has_partition(topic: Topic, partition: int) -> bool:
    """Whether a topic has a partition of this number."""
    return 0 <= partition < topic.partitions


def is_legal_name(name: str) -> bool:
    """Kafka's rule for topic names (org.apache.kafka.common.internals.Topic)."""
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")


def check_topic(name: str, partitions: int) -> None:
    """Raises UsageError for a name or a number of partitions that no topic can have."""
    if not is_legal_name(name):
        raise UsageError(f"{name!r} is not a legal topic name", hint="1 to 249 letters, digits, '.', '_' and '-'")
    if not 1 <= partitions <= _MAX_PARTITIONS:
        raise UsageError(f"topic {name} can have 1 to {_MAX_PARTITIONS} partitions, not {partitions}")


class Topics(Mapping[str, int]):
    """Partition counts by topic name, in order of creation. Topics can be added, grown, deleted, and looked up by id.

    internal: the cluster's own topics, which cannot be changed. deletions: how often a topic of each name was deleted.
    ids: for topics whose id is not derived from their name, because it came with a data directory. version: lower than
    that of every image to come; the log has versions of earlier runs."""

    def __init__(
        self,
        partitions: Mapping[str, int],
        *,
        internal: Mapping[str, int] | None = None,
        deletions: Mapping[str, int] | None = None,
        ids: Mapping[str, bytes] | None = None,
        version: int = 0,
    ) -> None:
        self.deletions = dict(deletions or {})
        self.total_partitions = 0
        self._internal = frozenset(internal or ())
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._image = TopicImage()
        self._version = version + 1
        for name, count in {**partitions, **(internal or {})}.items():
            check_topic(name, count)
            self._put(self._topic(name, count, (ids or {}).get(name) or self.next_id(name)))

    @property
    def image(self) -> TopicImage:
        """The topics as the coordinators see them; a new object after each change."""
        if self._image.version != self._version:
            self._image = TopicImage.of(self.all(), version=self._version).after(self._image)
        return self._image

    def is_internal(self, name: str) -> bool:
        return name in self._internal

    def of_users(self) -> dict[str, int]:
        """Partition counts of the topics that are not internal."""
        return {name: count for name, count in self.items() if name not in self._internal}

    @property
    def number_of_user_topics(self) -> int:
        """The size of `of_users`, without looking at each topic: one request can create thousands."""
        return len(self._by_name) - len(self._internal)

    def add(self, name: str, partitions: int) -> Topic:
        """Add a topic. Its name must be legal and not in use."""
        assert name not in self._by_name
        assert partitions > 0
        return self._put(self._topic(name, partitions, self.next_id(name)))

    def resize(self, name: str, partitions: int) -> Topic:
        """Give a topic more partitions, or undo that."""
        known = self._by_name[name]
        self.total_partitions -= known.partitions
        return self._put(self._topic(name, partitions, known.topic_id))

    def remove(self, name: str) -> Topic:
        """Undo `add`."""
        topic = self._by_name.pop(name)
        del self._by_id[topic.topic_id]
        self.total_partitions -= topic.partitions
        self._version += 1
        return topic

    def delete(self, name: str) -> Topic:
        """Delete a topic. A later one of the same name gets another id."""
        self.deletions[name] = self.deletions.get(name, 0) + 1
        return self.remove(name)

    def undelete(self, topic: Topic) -> None:
        """Undo `delete`; the topic becomes the last one."""
        self.deletions[topic.name] -= 1
        self._put(topic)

    @staticmethod
    def _topic(name: str, partitions: int, topic_id: bytes) -> Topic:
        return Topic(name=name, topic_id=topic_id, partitions=partitions)

    def _put(self, topic: Topic) -> Topic:
        self._by_name[topic.name] = self._by_id[topic.topic_id] = topic
        self.total_partitions += 0 if self.is_internal(topic.name) else topic.partitions
        self._version += 1
        return topic

    def next_id(self, name: str) -> bytes:
        """The id that a topic gets if it is created now."""
        deletions = self.deletions.get(name, 0)
        return topic_id(f"{name}{_DELETIONS}{deletions}" if deletions else name)

    def by_name(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def all(self) -> list[Topic]:
        """All topics, sorted by name."""
        return sorted(self._by_name.values(), key=lambda topic: topic.name)

    def __getitem__(self, name: str) -> int:
        return self._by_name[name].partitions

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)
