"""The groups that a drain may affect: from a live cluster, read in bulk, or from a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kgm.client import AdminClient
from kgm.client.transport.brokers import BrokerNode
from kgm.model.errors import KgmError, NotFoundError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.group import BounceGroup, live_groups
from kgm.operations.bounce.sinks import with_live_sinks, with_recorded_sinks
from kgm.operations.drain.target import DrainTarget
from kgm.operations.groups.selection import select_groups
from kgm.text.wording import some


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainedFleet:
    """Groups as they are before the drain.

    described: every group that could be described. affected: those that have members to take away, with the settings of
    their brokers. unread: why other groups could not be described, by group id. errors: problems that are not about a
    single group, such as a broker that lists no groups. unseen: why there may be other groups."""

    described: tuple[GroupSnapshot, ...]
    affected: tuple[BounceGroup, ...]
    unread: Mapping[str, KgmError] = field(default_factory=dict)
    errors: tuple[KgmError, ...] = ()
    unseen: KgmError | None = None


def live_fleet(
    cluster: AdminClient, target: DrainTarget, names: Sequence[str] = (), *,
    on_group: Callable[[int, int], None] = lambda _done, _of: None,
) -> DrainedFleet:  # fmt: skip
    """The groups of a cluster, all of them unless names are given; they are only read.

    on_group: called with the number of affected groups read so far and the total. Raises KgmError if no broker
    answers."""
    selection = select_groups(cluster, names, all_groups=not names)
    answers = zip(selection.group_ids, cluster.describe_groups(selection.group_ids, with_ends=False), strict=True)
    described, unread = [], {}
    for group_id, answer in answers:
        if isinstance(answer, KgmError):
            unread[group_id] = answer
        else:
            described.append(answer)
    affected = [group for group in described if any(map(target.takes, group.members))]
    stopping = [broker for broker in cluster.brokers.brokers() if target.takes_broker(broker)]
    return DrainedFleet(
        described=tuple(described),
        affected=tuple(
            with_live_sinks(cluster, _beside(stopping, group)) for group in live_groups(cluster, affected, on_group)
        ),
        unread=unread,
        errors=selection.errors,
        unseen=selection.unseen,
    )


def _beside(brokers: Sequence[BrokerNode], group: BounceGroup) -> BounceGroup:
    """The group, with what it means that these brokers are in the place that is drained: consumers with `client.rack`
    join again when the racks of their partitions change (KIP-881), and the rack of a broker that is down is not
    known to them."""
    if not brokers or group.snapshot.type != "classic" or not any(member.rack for member in group.snapshot.members):
        return group
    names = some([str(broker.id) for broker in brokers])
    told = (
        f"broker {names} is in the place that is drained, and is assumed to keep running: if it stops too, members "
        "with client.rack join again, since the racks of replicas change"
    )
    return replace(group, caveats=(*group.caveats, told))


def recorded_fleet(
    snapshots: Sequence[GroupSnapshot], target: DrainTarget, names: Sequence[str] = (), *, path: str,
    errors: Sequence[KgmError] = (), unseen: KgmError | None = None,
) -> DrainedFleet:  # fmt: skip
    """The groups of a snapshot file. path: for error messages. errors: what the file says could not be read; unseen:
    why it may lack other groups."""
    recorded = {group.group_id: group for group in snapshots if not names or group.group_id in names}
    undescribed = {error.group_id: error for error in errors if error.group_id is not None}
    absent = names or undescribed
    unread: dict[str, KgmError] = {
        name: undescribed.get(name)
        or NotFoundError(f"the snapshot in file {path} has no group {name}", group_id=name)
        for name in absent if name not in recorded
    }  # fmt: skip
    groups = [BounceGroup(snapshot=group) for group in recorded.values()]
    return DrainedFleet(
        described=tuple(recorded.values()),
        affected=tuple(
            with_recorded_sinks(group, groups) for group in groups if any(map(target.takes, group.snapshot.members))
        ),
        unread=unread,
        errors=() if names else tuple(error for error in errors if error.group_id is None),
        unseen=None if names else unseen,
    )
