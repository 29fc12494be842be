"""Plans whose draws can differ only in times, by a rule. For these a few draws are enough, and the rest are not played.

The random parts of a draw are times, the member ids of processes that start, which member leads, and orders that are
not known: of members, of topics, of Go maps. The rule excludes all of these except times."""

from kgm.assignors import NAMES
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.client_library import PLAYED
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, Stop
from kgm.simulation.plan.starting_group import StartingGroup

#: Assignors that sort members, so that the order in which the broker lists them does not matter.
_SORTING = frozenset(("range", "roundrobin"))


def size_limit_name(protocol: str) -> str:
    """The broker's setting for it. protocol: classic | consumer, or another type of a group."""
    return "group.max.size" if protocol == "classic" else f"group.{protocol}.max.size"


def size_limit(group: StartingGroup, settings: BrokerSettings) -> int:
    """How many members the broker lets into the group."""
    is_consumer = group.protocol is GroupProtocol.CONSUMER
    return settings.group_consumer_max_size if is_consumer else settings.group_max_size


def has_room_for_restarts(group: StartingGroup, settings: BrokerSettings) -> bool:
    """Whether static members that restart are let in. The next process of one has another member id, so that it counts
    as one more member until it has replaced the last one (`acceptJoiningMember` and `throwIfConsumerGroupIsFull` in
    GroupMetadataManager)."""
    counts_once = group.protocol is GroupProtocol.CONSUMER and settings.behavior.counts_static_members_once
    return counts_once or len(group.members) < size_limit(group, settings)


def may_lack_room(group: StartingGroup, plan: Plan, settings: BrokerSettings) -> bool:
    """Whether processes start for which the group may have no room, because the broker's limit is not known: as long as
    the last process of a member is one, the next counts as one more."""
    if plan.knows_size_limit or plan.remove_first:
        return False
    counts_once = group.protocol is GroupProtocol.CONSUMER and settings.behavior.counts_static_members_once
    static_ones_count = not counts_once and plan.stop is not Stop.LEAVE
    dynamic_ones_count = plan.stop is Stop.CRASH
    are_static = [one.group_instance_id is not None for one in group.members if one.identity in plan.bounce]
    return bool(
        plan.scale_out or (static_ones_count and any(are_static)) or (dynamic_ones_count and not all(are_static))
    )


def only_loses_one(group: StartingGroup, plan: Plan, settings: BrokerSettings, *, notices_within_ms: int) -> bool:
    """Whether all that happens is that one member goes, and the others learn of it and are assigned once. (A draw in
    which they are assigned more often does not qualify.) All have the same assignor, whichever member leads, and see
    the same order.

    notices_within_ms: how long the others take to notice a rebalance and join it, at most."""
    gone = plan.scale_in
    others = [member for member in group.members if member.identity not in gone]
    is_alone = not (plan.bounce or plan.remove or plan.scale_out or plan.migrate or settings.plans.of(group.group_id))
    in_time = all(notices_within_ms < min(one.session_timeout_ms, one.rebalance_timeout_ms) for one in others)
    if len(gone) != 1 or not others or not is_alone or not in_time or group.unknown_assignor is not None:
        return False
    if len(others) > size_limit(group, settings):  # the limit was lowered
        return False
    if group.protocol is GroupProtocol.CONSUMER:
        are_listed = all(member.listed is not None for member in group.members) and group.listing_capacity is not None
        return group.assignor == "range" or (are_listed and group.topics.keys() <= group.topic_ids.keys())
    libraries = {name for member in group.members for name in member.possible_assigners(group.assignor)}
    is_known = group.assignor in _SORTING or group.listing_capacity is not None
    return len(libraries) == 1 and libraries <= PLAYED and group.assignor in NAMES and is_known
