"""Which partitions the members of a streams group serve, by the endpoint where each member answers queries (Kafka:
EndpointToPartitionsManager)."""

from collections.abc import Mapping

from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.groups.streams_member import StreamsMember, Tasks
from kgm.coordinator.groups.streams_topology import ConfiguredSubtopology, ConfiguredTopology
from kgm.coordinator.streams import records
from kgm.protocol.messages.streams_group_heartbeat_response import Endpoint, EndpointToPartitions, TopicPartition


def partitions_by_endpoint(
    group: StreamsGroup, updated: StreamsMember, topology: ConfiguredTopology, image: TopicImage
) -> list[EndpointToPartitions] | None:
    """For each member that has an endpoint, the partitions of its tasks; the updated member comes last. None if this is
    unknown because the topics do not fit the topology (Kafka fails on that)."""
    members = [member for member in group.in_order() if member.member_id != updated.member_id]
    known = [(member.endpoint, member.assigned) for member in [*members, updated] if member.endpoint is not None]
    subtopologies = topology.subtopologies
    if not known or subtopologies is None:
        return None if known else []
    try:
        return [
            EndpointToPartitions(
                user_endpoint=Endpoint(host=host, port=port),
                active_partitions=_partitions(held.active, subtopologies, image),
                standby_partitions=_partitions(held.standby, subtopologies, image),
            )
            for (host, port), held in known
        ]
    except KeyError:
        return None


def _partitions(
    tasks: Tasks, subtopologies: Mapping[str, ConfiguredSubtopology], image: TopicImage
) -> list[TopicPartition]:
    """As in Kafka, only the number of tasks counts: if a topic has fewer partitions than there are tasks, the last
    tasks are left out. Raises KeyError for a topic that does not exist."""
    return [
        TopicPartition(topic=topic, partitions=partitions[: image.by_name[topic].partitions])
        for name, partitions in records.listed(tasks)
        for topic in sorted(subtopologies[name].source_topics | subtopologies[name].repartition_sources.keys())
    ]
