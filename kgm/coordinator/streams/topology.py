"""How many tasks a topology has, and which internal topics it needs, given the topics that exist (Kafka:
NewTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics).

The number of tasks in a subtopology is the partition count of the largest topic that it reads. A repartition topic
without a partition count of its own has as many partitions as the largest topic read by the subtopology that writes it,
and a changelog has as many as its subtopology has tasks. Topics that are joined (copartitioned) must have the same
partition count."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kgm.coordinator.contract.outcome import NewTopic
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.groups.streams_topology import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    StreamsTopology,
    TopologyProblem,
    input_topics,
)
from kgm.java.strings import utf16_key
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.streams_group_heartbeat_request import Subtopology as SentSubtopology
from kgm.protocol.messages.streams_group_heartbeat_request import TopicInfo as SentTopic
from kgm.protocol.messages.streams_group_heartbeat_request import Topology
from kgm.records.messages.streams_group_topology_value import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)

# Status codes of StreamsGroupHeartbeat.
STALE_TOPOLOGY: Final = 0
MISSING_SOURCE_TOPICS: Final = 1
INCORRECTLY_PARTITIONED_TOPICS: Final = 2
MISSING_INTERNAL_TOPICS: Final = 3
SHUTDOWN_APPLICATION: Final = 4
ASSIGNMENT_DELAYED: Final = 5

#: How many topics a message names.
_NAMED: Final = 3


class TopologyError(Exception):
    """A topology that is invalid regardless of which topics exist. error: what Kafka answers; UNKNOWN_SERVER_ERROR
    where Kafka fails with a Java exception."""

    def __init__(self, error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR, text: str | None = None) -> None:
        super().__init__(text)
        self.error, self.text = error, text


class _UnfitTopicsError(Exception):
    """The topics that exist do not fit the topology."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.problem = TopologyProblem(code, text)


# -- from a request


def as_record(topology: Topology) -> StreamsGroupTopologyValue:
    """The topology from a request, as written to the log."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch, subtopologies=[_subtopology(row) for row in topology.subtopologies]
    )


def _subtopology(row: SentSubtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=row.subtopology_id,
        source_topics=row.source_topics,
        source_topic_regex=row.source_topic_regex,
        state_changelog_topics=[_topic(topic) for topic in row.state_changelog_topics],
        repartition_sink_topics=row.repartition_sink_topics,
        repartition_source_topics=[_topic(topic) for topic in row.repartition_source_topics],
        copartition_groups=[
            CopartitionGroup(
                source_topics=group.source_topics,
                source_topic_regex=group.source_topic_regex,
                repartition_source_topics=group.repartition_source_topics,
            )
            for group in row.copartition_groups
        ],
    )


def _topic(topic: SentTopic) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[TopicConfig(key=row.key, value=row.value) for row in topic.topic_configs],
    )


def check(topology: Topology) -> None:
    """Raises TopologyError for a topology with a negative epoch or a repeated subtopology id."""
    names = [row.subtopology_id for row in topology.subtopologies]
    if topology.epoch < 0 or len({*names}) < len(names):
        raise TopologyError


# -- with the topics that exist


def configure(topology: StreamsTopology, image: TopicImage) -> ConfiguredTopology:
    """The topology as configured for the topics that exist. Raises TopologyError."""
    groups = [
        _copartition_group(row, group) for row in topology.subtopologies.values() for group in row.copartition_groups
    ]
    try:
        return _configure(topology, groups, image)
    except _UnfitTopicsError as unfit:
        return ConfiguredTopology(epoch=topology.epoch, problem=unfit.problem)


def _copartition_group(row: Subtopology, group: CopartitionGroup) -> frozenset[str]:
    """The names of topics that must have the same number of partitions."""
    repartition = [topic.name for topic in row.repartition_source_topics]
    named = [(row.source_topics, at) for at in group.source_topics]
    named += [(repartition, at) for at in group.repartition_source_topics]
    if not all(0 <= at < len(names) for names, at in named):
        raise TopologyError
    return frozenset(names[at] for names, at in named)


def _configure(
    topology: StreamsTopology, copartition_groups: Sequence[frozenset[str]], image: TopicImage
) -> ConfiguredTopology:
    rows = topology.subtopologies.values()
    absent = {name for row in rows for name in row.source_topics if name not in image.by_name}
    if absent:
        raise _UnfitTopicsError(MISSING_SOURCE_TOPICS, f"Source topics do not exist: {_summary(absent)}.")
    counts = _Partitions(image)
    counts.decided.update(_repartition_counts(rows, image))
    fixed = {t.name for row in rows for t in row.repartition_source_topics if t.partitions != 0}
    flexible = {t.name for row in rows for t in row.repartition_source_topics if t.partitions == 0}
    for names in copartition_groups:
        if names:
            counts.decided.update(_copartitioned(names, fixed, flexible, counts))
    changelogs = {}
    for row in rows:
        tasks = max(map(counts.of, input_topics(row)), default=0)
        if not input_topics(row):
            raise TopologyError(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Subtopology {row.subtopology_id} reads no topic.")
        changelogs.update({topic.name: tasks for topic in row.state_changelog_topics})
    counts.decided.update(changelogs)
    subtopologies = {
        name: _configured(topology.subtopologies[name], counts)
        for name in sorted(topology.subtopologies, key=utf16_key)
    }
    missing = _missing(subtopologies.values(), image)
    problem = None
    if missing:
        problem = TopologyProblem(
            MISSING_INTERNAL_TOPICS, f"Internal topics do not exist yet: {_summary(topic.name for topic in missing)}."
        )
    return ConfiguredTopology(
        epoch=topology.epoch, subtopologies=subtopologies, missing=tuple(missing), problem=problem
    )


class _Partitions:
    """How many partitions a topic has or will have."""

    def __init__(self, image: TopicImage) -> None:
        self._existing = image.by_name
        self.decided: dict[str, int] = {}

    def of(self, name: str) -> int:
        known = self._existing.get(name)
        if known is not None:
            return known.partitions
        if name not in self.decided:
            raise TopologyError
        return self.decided[name]


def _repartition_counts(rows: Iterable[Subtopology], image: TopicImage) -> dict[str, int]:
    """The partition counts of repartition topics: as given in the topology, or else the count of the largest topic read
    by the subtopology that writes the repartition topic."""
    listed = list(rows)
    counts = {t.name: t.partitions for row in listed for t in row.repartition_source_topics if t.partitions != 0}
    is_known = False
    while not is_known:
        is_known, has_progress = True, False
        for row in listed:
            for name in row.repartition_sink_topics:
                if name in counts:
                    continue
                read = [counts[t.name] for t in row.repartition_source_topics if t.name in counts]
                read += [image.by_name[topic].partitions for topic in row.source_topics]
                if read:
                    counts[name] = max(read)
                    has_progress = True
                else:
                    is_known = False
        if not is_known and not has_progress:
            raise TopologyError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY, "The sizes of some repartition topics depend on each other."
            )
    if any(topic.name not in counts for row in listed for topic in row.repartition_source_topics):
        raise TopologyError(ErrorCode.STREAMS_INVALID_TOPOLOGY, "A repartition topic is written by no subtopology.")
    return counts


def _copartitioned(
    names: frozenset[str], fixed: set[str], flexible: set[str], counts: _Partitions
) -> Mapping[str, int]:
    """The partition counts of the repartition topics among topics that must all have the same count."""
    inner = {name: counts.of(name) for name in names if name in fixed or name in flexible}
    outer = {name: counts.of(name) for name in names if name not in inner}
    if outer:
        wanted = _same(outer)
    elif fixed:
        # As in Kafka, this includes the topics of all joins in the topology.
        wanted = _same({name: counts.of(name) for name in fixed})
    else:
        wanted = max(inner.values())
        if wanted <= 0:
            raise TopologyError(ErrorCode.STREAMS_INVALID_TOPOLOGY, "The size of a repartition topic is not known.")
    for name, partitions in inner.items():
        if name in fixed and partitions != wanted:
            text = f"Repartition topic {name} has {partitions} partitions, but the topics joined with it have {wanted}."
            raise _UnfitTopicsError(INCORRECTLY_PARTITIONED_TOPICS, text)
    return dict.fromkeys(inner, wanted)


def _same(counts: Mapping[str, int]) -> int:
    if len({*counts.values()}) > 1:
        sizes = ", ".join(f"{name} {counts[name]}" for name in sorted(counts))
        text = f"Joined topics must have the same number of partitions: {sizes}."
        raise _UnfitTopicsError(INCORRECTLY_PARTITIONED_TOPICS, text)
    return next(iter(counts.values()))


def _configured(row: Subtopology, counts: _Partitions) -> ConfiguredSubtopology:
    tasks = max(map(counts.of, input_topics(row)))
    sources = _internal(row.repartition_source_topics, counts)
    changelogs = _internal(row.state_changelog_topics, counts)
    if tasks <= 0:
        raise TopologyError
    return ConfiguredSubtopology(
        tasks=tasks,
        source_topics=frozenset(row.source_topics),
        repartition_sources=sources,
        repartition_sinks=frozenset(row.repartition_sink_topics),
        changelogs=changelogs,
    )


def _internal(topics: Sequence[TopicInfo], counts: _Partitions) -> dict[str, NewTopic]:
    made: dict[str, NewTopic] = {}
    for topic in topics:
        partitions = topic.partitions or counts.decided.get(topic.name, 0)
        configs = {row.key: row.value for row in topic.topic_configs}
        if partitions < 1 or topic.name in made or len(configs) < len(topic.topic_configs):
            raise TopologyError
        made[topic.name] = NewTopic(topic.name, partitions, topic.replication_factor, configs)
    return made


def _missing(rows: Iterable[ConfiguredSubtopology], image: TopicImage) -> list[NewTopic]:
    """The internal topics that do not exist, sorted by name. Existing ones must have the right number of partitions."""
    wanted = {
        topic.name: topic
        for row in rows
        for some in (row.repartition_sources, row.changelogs)
        for topic in some.values()
    }
    missing = []
    for name in sorted(wanted, key=utf16_key):
        topic, existing = wanted[name], image.by_name.get(name)
        if existing is None:
            missing.append(topic)
        elif existing.partitions != topic.partitions:
            text = f"Topic {name} has {existing.partitions} partitions, but the topology needs {topic.partitions}."
            raise _UnfitTopicsError(INCORRECTLY_PARTITIONED_TOPICS, text)
    return missing


def _summary(names: Iterable[str]) -> str:
    """Some of the names, and how many more there are."""
    listed = sorted(names)
    rest = len(listed) - _NAMED
    return ", ".join(listed[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
