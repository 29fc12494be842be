"""The target assignments of a consumer group.

`range` gives each member consecutive partitions of each topic, and a member that leaves or joins changes those of half
of the group. So these targets are kept as spans, and made into mappings when they are read."""

from collections.abc import Iterator, Mapping, MutableMapping

from kgm.coordinator.groups.consumer_member import NO_TARGET, Target
from kgm.java.hash_map import uuid_map_order

#: The first partition and the end of what a member gets, for each of several topics in turn.
Spans = tuple[int, ...]


class Targets(MutableMapping[str, Target]):
    """By member id. _spans: those that are kept as spans, of these topics (ids); _rows: all others."""

    __slots__ = ("_rows", "_spans", "_topics")

    def __init__(self) -> None:
        self._rows: dict[str, Target] = {}
        self._spans: dict[str, Spans] = {}
        self._topics: tuple[bytes, ...] = ()

    def __getitem__(self, member_id: str) -> Target:
        spans = self._spans.get(member_id)
        return self._rows[member_id] if spans is None else spread(self._topics, spans)

    def __setitem__(self, member_id: str, target: Target) -> None:
        self._spans.pop(member_id, None)
        self._rows[member_id] = target

    def __delitem__(self, member_id: str) -> None:
        if self._spans.pop(member_id, None) is None:
            del self._rows[member_id]

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._spans or member_id in self._rows

    def __iter__(self) -> Iterator[str]:
        yield from self._rows
        yield from self._spans

    def __len__(self) -> int:
        return len(self._rows) + len(self._spans)

    def copy(self) -> "Targets":
        twin = Targets()
        twin._rows, twin._spans, twin._topics = self._rows.copy(), self._spans.copy(), self._topics
        return twin

    def differing(self, topics: tuple[bytes, ...], spans: Mapping[str, Spans]) -> set[str]:
        """The members whose targets are not these."""
        known = self._spans if topics == self._topics else dict[str, Spans]()
        differ = {member_id for member_id, those in spans.items() if known.get(member_id) != those}
        return differ - {each for each in differ - known.keys() if self.get(each) == spread(topics, spans[each])}

    def put_spans(self, topics: tuple[bytes, ...], spans: Mapping[str, Spans]) -> None:
        """The targets of these members have changed."""
        if topics != self._topics:
            self._rows.update({member_id: self[member_id] for member_id in self._spans})
            self._spans.clear()
            self._topics = topics
        for member_id in self._rows.keys() & spans.keys():
            del self._rows[member_id]
        self._spans.update(spans)


def spread(topics: tuple[bytes, ...], spans: Spans) -> Target:
    """A target, with its topics in Kafka's order (`consumer.target_order`)."""
    row = listed(topics, spans)
    if len(row) > 1:
        return {topic_id: row[topic_id] for topic_id in uuid_map_order([*row])}
    return row or NO_TARGET


def listed(topics: tuple[bytes, ...], spans: Spans) -> dict[bytes, tuple[int, ...]]:
    """The same with its topics in this order."""
    return {
        topic_id: tuple(range(first, end))
        for topic_id, first, end in zip(topics, spans[::2], spans[1::2], strict=True)
        if first < end
    }
