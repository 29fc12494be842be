"""The target assignment of a streams group (Kafka: TargetAssignmentBuilder of streams groups).

It is computed when the group epoch is ahead of the assignment epoch and the last target is old enough, or when the
initial delay ends. The targets of members that have changed are written, and then the epoch."""

from collections.abc import Mapping
from typing import Final

from kgm.assignors.server.streams_tasks import TaskMember, TasksOfSubtopology, assign_tasks
from kgm.coordinator.contract.settings import BrokerSettings, GroupConfig, streams_setting
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.groups.streams_member import NO_TARGET_TASKS, NO_TASKS, StreamsMember, TargetTasks
from kgm.coordinator.groups.streams_topology import ConfiguredTopology
from kgm.coordinator.streams import records
from kgm.text.whole_numbers import whole_number

#: The only config that assignments depend on.
STANDBYS: Final = "num.standby.replicas"


def configs_of(settings: BrokerSettings, config: GroupConfig | None) -> Mapping[str, str]:
    """The assignment configs of a group, as stored in its epoch record."""
    return {STANDBYS: str(streams_setting("num_standby_replicas", settings, config))}


def is_due(group: StreamsGroup, event: EventDraft) -> bool:
    """Whether the next target assignment may be computed now."""
    interval_ms = streams_setting("assignment_interval_ms", event.settings, event.configs.get(group.group_id))
    last_ms = group.assignment_timestamp_ms
    return not (last_ms and interval_ms) or event.now >= last_ms + interval_ms


def write(
    group: StreamsGroup,
    group_epoch: int,
    updated: StreamsMember | None,
    topology: ConfiguredTopology,
    configs: Mapping[str, str],
    event: EventDraft,
) -> dict[str, TargetTasks]:
    """Compute and write the targets of all members, one of which may be updated or new."""
    newcomer = updated.member_id if updated is not None and updated.member_id not in group.members else None
    order = group.assignors_order.of(group.members.keys(), newcomer, group.order.capacity)
    members = group.members if updated is None else {**group.members, updated.member_id: updated}
    targets = _assign(group, [members[each] for each in order], topology, configs)
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            event.write(records.target_record(group.group_id, member_id, target))
    computed_ms = event.now if event.settings.behavior.has_assignment_interval else 0
    event.write(records.target_epoch_record(group.group_id, group_epoch, computed_ms))
    return targets


def _assign(
    group: StreamsGroup, members: list[StreamsMember], topology: ConfiguredTopology, configs: Mapping[str, str]
) -> dict[str, TargetTasks]:
    """The targets by member id, in the same order. If the topics do not fit the topology, members get nothing."""
    if topology.problem is not None or topology.subtopologies is None:
        return {member.member_id: NO_TARGET_TASKS for member in members}
    before = [(member, group.target_of(member.member_id)) for member in members]
    made = assign_tasks(
        [TaskMember(each.member_id, each.process_id or "", has.active, has.standby) for each, has in before],
        [
            TasksOfSubtopology(name, row.tasks, is_stateful=bool(row.changelogs))
            for name, row in topology.subtopologies.items()
        ],
        _standbys(configs),
    )
    return {
        member_id: TargetTasks(_as_sets(tasks.active), _as_sets(tasks.standby), NO_TASKS)
        for member_id, tasks in made.items()
    }


def _standbys(configs: Mapping[str, str]) -> int:
    return whole_number(configs.get(STANDBYS)) or 0


def _as_sets(tasks: Mapping[str, tuple[int, ...]]) -> dict[str, frozenset[int]]:
    return {name: frozenset(partitions) for name, partitions in tasks.items()}
