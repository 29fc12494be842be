"""How much data from clients a group keeps for its members, including members whose connection is gone."""

from collections.abc import Iterable

from kgm.coordinator.groups.classic_group import ClassicGroup, ClassicMember
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import Assigned, ConsumerMember
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.groups.streams_member import StreamsMember
from kgm.records.messages.streams_group_topology_value import Subtopology

#: Bytes per partition of an assignment.
_PARTITION = 8


def held_bytes(group: Group) -> int:
    """The size of the ids, subscriptions and assignments of a group's members, and of pending ids, in bytes as sent."""
    match group:
        case ClassicGroup():
            held = (newcomer.member for newcomer in group.soft.held.values())
            names = len(group.group_id) + _lengths(group.soft.pending_joins)
            return names + sum(map(_classic_member, group.members.values())) + sum(map(_classic_member, held))
        case ConsumerGroup():
            return len(group.group_id) + sum(map(_consumer_member, group.members.values()))
        case StreamsGroup():
            topology = 0 if group.topology is None else sum(map(_subtopology, group.topology.subtopologies.values()))
            return len(group.group_id) + topology + sum(map(_streams_member, group.members.values()))
        case _:
            return 0


def _lengths(texts: Iterable[str | None]) -> int:
    return sum(len(text) for text in texts if text)


def _classic_member(member: ClassicMember) -> int:
    offered = sum(len(one.name) + len(one.metadata) for one in member.protocols)
    return offered + len(member.assignment) + _lengths((member.member_id, member.group_instance_id, member.client_id))


def _consumer_member(member: ConsumerMember) -> int:
    names = (member.member_id, member.group_instance_id, member.client_id, member.rack_id)
    texts = _lengths((*names, member.subscribed_topic_regex, member.server_assignor, *member.subscribed_topic_names))
    classic = member.classic.protocols if member.classic is not None else ()
    offered = sum(len(name) + len(metadata) for name, metadata in classic)
    return texts + offered + _partitions(member.assigned) + _partitions(member.pending_revocation)


def _streams_member(member: StreamsMember) -> int:
    names = (member.member_id, member.client_id, member.rack_id, member.process_id, *(member.endpoint or ())[:1])
    texts = _lengths((*names, *(text for tag in member.tags for text in tag)))
    held = (kind for tasks in (member.assigned, member.pending_revocation) for kind in tasks.kinds)
    return texts + _PARTITION * sum(len(partitions) for kind in held for partitions in kind.values())


def _subtopology(row: Subtopology) -> int:
    topics = [*row.state_changelog_topics, *row.repartition_source_topics]
    configs = sum(len(each.key) + len(each.value) for topic in topics for each in topic.topic_configs)
    names = (row.subtopology_id, *row.source_topics, *row.repartition_sink_topics, *(topic.name for topic in topics))
    joined = sum(len(one.source_topics) + len(one.repartition_source_topics) for one in row.copartition_groups)
    return configs + _lengths(names) + _PARTITION * joined


def _partitions(assigned: Assigned) -> int:
    return _PARTITION * sum(map(len, assigned.values()))
