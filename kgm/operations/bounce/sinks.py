"""The groups of sink connectors that depend on a group of Connect workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kgm.client import AdminClient
from kgm.model.errors import ConditionNotMet
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.group import BounceGroup, live_groups
from kgm.operations.groups.sink_tasks import SinkTask, SinkTasks, sink_tasks
from kgm.simulation.connect.group import is_connect
from kgm.simulation.sinks import SinkGroup

_NONE = (
    "sink groups are not part of the prediction: no group connect-CONNECTOR {where} has members that are tasks of "
    "these workers. The tasks of a sink connector are consumers, which stop and start with them"
)


def with_live_sinks(cluster: AdminClient, group: BounceGroup) -> BounceGroup:
    """The workers' group with the groups of its sink connectors, which are only read; any other group unchanged."""
    if not is_connect(group.snapshot):
        return group
    tasks = SinkTasks(cluster=cluster)
    tasks.look([group.snapshot])
    names = sorted({one.sink_group for one in tasks.tasks.values()})
    known = live_groups(cluster, [tasks.groups[name] for name in names])
    missing = [
        ConditionNotMet(f"sink groups may be missing from the prediction: {one.warning}") for one in tasks.unread
    ]
    return _with(group, _sinks(group.snapshot, known), missing, "of this cluster")


def with_recorded_sinks(group: BounceGroup, others: Iterable[BounceGroup]) -> BounceGroup:
    """As `with_live_sinks`, with `others`, the groups of a snapshot, in place of the cluster's groups."""
    if not is_connect(group.snapshot):
        return group
    return _with(group, _sinks(group.snapshot, [*others]), (), "in the snapshot")


def _sinks(workers: GroupSnapshot, groups: Sequence[BounceGroup]) -> tuple[SinkGroup, ...]:
    found: dict[str, list[SinkTask]] = {}
    for one in sink_tasks([workers], [group.snapshot for group in groups]):
        found.setdefault(one.sink_group, []).append(one)
    by_name = {group.snapshot.group_id: group for group in groups}
    return tuple(_sink(by_name[name], tasks) for name, tasks in sorted(found.items()))


def _sink(group: BounceGroup, tasks: Sequence[SinkTask]) -> SinkGroup:
    identities = {member.member_id: member.identity for member in group.snapshot.members}
    return SinkGroup(
        snapshot=group.snapshot, settings=group.broker_settings, caveats=group.caveats,
        consumers={one.work: identities[one.member_id] for one in tasks},
    )  # fmt: skip


def _with(
    group: BounceGroup, sinks: tuple[SinkGroup, ...], missing: Sequence[ConditionNotMet], where: str
) -> BounceGroup:
    caveats = () if sinks or missing else (_NONE.format(where=where),)
    return replace(group, sinks=sinks, missing_sinks=tuple(missing), caveats=(*group.caveats, *caveats))
