"""The topics that exist: names, ids, partition counts, racks (Kafka: CoordinatorMetadataImage).

An image is immutable. When topics are created, changed or deleted, the coordinator gets a new one with a higher version
(`Coordinator.topics_changed`). A consumer group uses a hash to notice that its subscribed topics have changed (Kafka:
Utils.computeTopicHash, Utils.computeGroupHash)."""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import xxhash

from kgm.java.strings import string_length

_ID_SIZE = 16
NO_ID = bytes(_ID_SIZE)
_MAGIC = b"\0"
_INT = struct.Struct("<i")
_LONGS = struct.Struct("<qq")
_JAVAS_LONGS = struct.Struct(">qq")
_SIGN = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic. racks: for each partition, the racks of its replicas; empty if they are not known."""

    name: str
    topic_id: bytes
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()

    def hash(self) -> int:
        """The hash that Kafka uses to notice changes to a topic: a signed 64-bit number."""
        high, low = _JAVAS_LONGS.unpack(self.topic_id)
        parts = [_MAGIC, _LONGS.pack(high, low), _text(self.name), _INT.pack(self.partitions)]
        for partition in range(self.partitions):
            parts.append(_INT.pack(partition))
            for rack in sorted(self.racks[partition]) if self.racks else ():
                parts += (_INT.pack(string_length(rack)), _text(rack))
        return _hash(b"".join(parts))


def topic_id(name: str) -> bytes:
    """An id made from a name, the same in every run. The first bit is 0, so that its text never starts with a dash."""
    digest = bytearray(hashlib.sha256(b"kgm topic " + name.encode()).digest()[:_ID_SIZE])
    digest[0] &= 0x7F
    return bytes(digest)


@dataclass(frozen=True, slots=True)
class TopicImage:
    """All topics at one point in time. version: increases with each image. new_topics_version: the version of the last
    image with a new topic."""

    version: int = 0
    new_topics_version: int = 0
    by_name: Mapping[str, Topic] = field(default_factory=dict)
    by_id: Mapping[bytes, Topic] = field(default_factory=dict)
    _hashes: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, topics: Iterable[Topic], *, version: int = 0) -> "TopicImage":
        listed = list(topics)
        by_name = {topic.name: topic for topic in listed}
        return cls(version, version, by_name, {topic.topic_id: topic for topic in listed})

    @classmethod
    def counted(cls, partitions: Mapping[str, int], *, version: int = 0) -> "TopicImage":
        """Topics for which only partition counts are known; their ids are made from the names."""
        return cls.of(
            (Topic(name=name, topic_id=topic_id(name), partitions=count) for name, count in partitions.items()),
            version=version,
        )

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def hash_of(self, names: Iterable[str]) -> int:
        """The metadata hash of a group that subscribes to these topics; 0 if none of them exists."""
        known = sorted(name for name in names if name in self.by_name)
        if not known:
            return 0
        hashes = self._hashes
        for name in known:
            if name not in hashes:
                hashes[name] = self.by_name[name].hash()
        return _hash(b"".join([hashes[name].to_bytes(8, "little", signed=True) for name in known]))

    def described(self, names: Iterable[str]) -> frozenset[tuple[str, bytes, int]]:
        """Name, id and partition count of each of these topics that exists."""
        existing = (self.by_name[name] for name in names if name in self.by_name)
        return frozenset((topic.name, topic.topic_id, topic.partitions) for topic in existing)

    def after(self, before: "TopicImage") -> "TopicImage":
        """The image as the successor of another one, which determines new_topics_version."""
        is_new = not self.by_id.keys() <= before.by_id.keys()
        return replace(self, new_topics_version=self.version if is_new else before.new_topics_version)

    def changed_since(self, before: "TopicImage") -> frozenset[str]:
        """The names of topics that were created, changed or deleted."""
        names = self.by_name.keys() | before.by_name.keys()
        return frozenset(name for name in names if self.by_name.get(name) != before.by_name.get(name))


def _text(text: str) -> bytes:
    """A string as hash4j writes it to a stream: its UTF-16 code units, and then their number."""
    return text.encode("utf-16-le", "surrogatepass") + _INT.pack(string_length(text))


def _hash(data: bytes) -> int:
    value: int = xxhash.xxh3_64_intdigest(data)
    return value - 2 * _SIGN if value >= _SIGN else value
