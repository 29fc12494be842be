"""The topology of a streams group: as its members describe it, and as configured for the topics that exist (Kafka:
StreamsTopology, ConfiguredTopology)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kgm.coordinator.contract.outcome import NewTopic
from kgm.java.hash_map import map_order
from kgm.protocol.messages.streams_group_heartbeat_request import Subtopology as SentSubtopology
from kgm.records.messages.streams_group_topology_value import StreamsGroupTopologyValue, Subtopology


class StreamsTopology:
    """Subtopologies by id, in the order of Kafka's hash map; if an id occurs twice, only the first one counts."""

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        self.epoch: int = value.epoch
        listed = [row.subtopology_id for row in value.subtopologies]
        by_id: dict[str, Subtopology] = {row.subtopology_id: row for row in reversed(value.subtopologies)}
        names = list(dict.fromkeys(listed))
        self.subtopologies: Mapping[str, Subtopology] = {names[at]: by_id[names[at]] for at in map_order(names)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StreamsTopology):
            return NotImplemented
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def subtopology_of(self) -> Mapping[str, str]:
        """By topic, the id of the subtopology that reads it."""
        return {topic: row.subtopology_id for row in self.subtopologies.values() for topic in input_topics(row)}

    @cached_property
    def topics(self) -> frozenset[str]:
        """All topics that the topology needs: the topics it reads, and its changelogs."""
        changelogs = (topic.name for row in self.subtopologies.values() for topic in row.state_changelog_topics)
        return frozenset((*self.subtopology_of, *changelogs))


def input_topics(subtopology: Subtopology | SentSubtopology) -> list[str]:
    """The topics that a subtopology reads, repartition topics last."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology, with its number of tasks and the partition counts of its internal topics."""

    tasks: int
    source_topics: frozenset[str]
    repartition_sources: Mapping[str, NewTopic]
    repartition_sinks: frozenset[str]
    changelogs: Mapping[str, NewTopic]


class TopologyProblem(NamedTuple):
    """What is wrong with the topics: the status code for heartbeats, and a message."""

    code: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTopology:
    """subtopologies: by id, sorted; None if the topics do not fit. missing: internal topics that must be created."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None = None
    missing: tuple[NewTopic, ...] = ()
    problem: TopologyProblem | None = None
