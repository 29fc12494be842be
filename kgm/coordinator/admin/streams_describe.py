"""StreamsGroupDescribe (v0): streams groups with their topology, and members with current and target assignments."""

from collections.abc import Iterable, Mapping

from kgm.coordinator.contract.outcome import NewTopic
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.groups.streams_member import StreamsMember, Tasks
from kgm.coordinator.streams.records import listed
from kgm.java.strings import utf16_key
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kgm.protocol.messages.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kgm.records.messages.streams_group_topology_value import TopicInfo as RecordedTopic


def handle_describe(
    message: StreamsGroupDescribeRequest, groups: Mapping[str, Group], event: EventDraft, *, operations: int
) -> None:
    """operations: the authorized operations to report for each group."""
    described = []
    for group_id in message.group_ids:
        group = groups.get(group_id)
        if not event.settings.has_streams_protocol:
            described.append(DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION))
        elif group_id == "":
            described.append(DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID))
        elif isinstance(group, StreamsGroup):
            described.append(_describe(group, operations))
        else:
            why = "not found" if group is None else "is not a streams group"
            described.append(
                DescribedGroup(
                    group_id=group_id,
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                    error_message=f"Group {group_id} {why}.",
                )
            )
    event.answer(StreamsGroupDescribeResponse(groups=described))


def _describe(group: StreamsGroup, operations: int) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.in_order()],
        authorized_operations=operations,
    )


def _topology(group: StreamsGroup) -> Topology | None:
    """The topology: with partition counts if the topics fit it, otherwise as the members sent it. None if there is
    none."""
    described, sent = group.described, group.topology
    if described is not None and described.problem is None and described.subtopologies is not None:
        return Topology(
            epoch=described.epoch,
            subtopologies=[
                Subtopology(
                    subtopology_id=name,
                    source_topics=_sorted(row.source_topics),
                    repartition_sink_topics=_sorted(row.repartition_sinks),
                    state_changelog_topics=_topics(row.changelogs.values()),
                    repartition_source_topics=_topics(row.repartition_sources.values()),
                )
                for name, row in described.subtopologies.items()
            ],
        )
    if sent is None:
        return None
    return Topology(
        epoch=sent.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=name,
                source_topics=_sorted(sent.subtopologies[name].source_topics),
                repartition_sink_topics=_sorted(sent.subtopologies[name].repartition_sink_topics),
                state_changelog_topics=_topics(map(_as_sent, sent.subtopologies[name].state_changelog_topics)),
                repartition_source_topics=_topics(map(_as_sent, sent.subtopologies[name].repartition_source_topics)),
            )
            for name in _sorted(sent.subtopologies)
        ],
    )


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(names, key=utf16_key)


def _as_sent(topic: RecordedTopic) -> NewTopic:
    configs = {row.key: row.value for row in topic.topic_configs}
    return NewTopic(topic.name, topic.partitions, topic.replication_factor, configs)


def _topics(topics: Iterable[NewTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=_pairs(topic.configs),
        )
        for topic in sorted(topics, key=lambda topic: utf16_key(topic.name))
    ]


def _pairs(texts: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=texts[key]) for key in _sorted(texts)]


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    endpoint = member.endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id or "",
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=_pairs(dict(member.tags)),
        assignment=_assignment(member.assigned.kinds),
        target_assignment=_assignment(group.target_of(member.member_id)),
    )


def _assignment(kinds: Iterable[Tasks]) -> Assignment:
    active, standby, warmup = (
        [TaskIds(subtopology_id=name, partitions=partitions) for name, partitions in listed(tasks)] for tasks in kinds
    )
    return Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
