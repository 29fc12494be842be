"""The group for which a bounce is predicted: from a live cluster, from a snapshot, or made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kgm.coordinator.contract.broker_version import BrokerVersion
from kgm.model.errors import NotFoundError, UsageError
from kgm.model.snapshot import GroupSnapshot, TopicSnapshot
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership
from kgm.simulation.plan.synthetic_group import synthetic_group

if TYPE_CHECKING:
    from kgm.client import AdminClient

#: The settings of the coordinator's broker that matter to a bounce.
BROKER_SETTINGS = (
    "group.consumer.migration.policy",
    "group.initial.rebalance.delay.ms",
    "group.max.size",
    "group.max.session.timeout.ms",
    "group.min.session.timeout.ms",
)
#: Settings of one consumer group. The broker's defaults for them have the same names after `group.`.
GROUP_SETTINGS = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class BounceGroup:
    """A group, and the settings of its broker as far as they are known, by name.

    kafka_version: of its broker; None if it is not known. is_made_up: the group has the assignor, the membership and
    the protocol of the plan's what-ifs already."""

    snapshot: GroupSnapshot
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    kafka_version: BrokerVersion | None = None
    is_made_up: bool = False


def live_group(cluster: AdminClient, group_id: str) -> BounceGroup:
    """A group of a cluster, which is only read. Its session timeout comes from the coordinator's log, if that may be
    read.

    Raises KgmError if the group cannot be described."""
    from kgm.client.offsets_topic.last_rebalance import with_logged_timeouts

    settings = cluster.broker_settings(group_id, BROKER_SETTINGS)
    settings |= as_broker_settings(cluster.group_settings(group_id, GROUP_SETTINGS))
    snapshot = with_logged_timeouts(cluster, cluster.describe_group(group_id, offsets=False))
    return BounceGroup(snapshot=snapshot, broker_settings=settings)


def as_broker_settings(group_settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of one group as settings of a broker, with bounds that allow them: the real broker has accepted them."""
    return {
        "group." + name.replace("consumer.", f"consumer.{bound}", 1): value
        for name, value in group_settings.items()
        for bound in ("", "min.", "max.")
    }


def recorded_group(snapshots: Sequence[GroupSnapshot], group_id: str | None, *, path: str) -> BounceGroup:
    """The group of a snapshot file. group_id: needed if the file has several groups. path: of the file, for errors.

    Raises NotFoundError if the group is not there, UsageError if several are and none is named."""
    groups = [each for each in snapshots if group_id in (None, each.group_id)]
    if not groups:
        what = "is empty" if group_id is None else f"has no group {group_id}"
        raise NotFoundError(f"the snapshot in file {path} {what}", group_id=group_id)
    if len(groups) > 1:
        ids = ", ".join(each.group_id for each in groups)
        raise UsageError(
            f"file {path} contains {len(groups)} groups", facts=[f"groups: {ids}"], hint="name one of them"
        )
    return BounceGroup(snapshot=groups[0])


def made_up_group(
    members: int,
    topics: Sequence[TopicSnapshot],
    *,
    membership: Membership | None = None,
    assignor: str | None = None,
    protocol: GroupProtocol | None = None,
) -> BounceGroup:
    """A Stable group that does not exist; see `synthetic_group`, which also says what it raises."""
    snapshot = synthetic_group(
        members, topics, membership or Membership.STATIC, assignor, protocol or GroupProtocol.CLASSIC
    )
    return BounceGroup(snapshot=snapshot, is_made_up=True)
