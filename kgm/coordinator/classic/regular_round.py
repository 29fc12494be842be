"""A rebalance of a classic group in which every member has joined and synced, as one step: changes the group without
handling each request (`kgm.simulation.play.bulk`).

The rules are the same as in `rebalance`. The caller takes care of requests, replies and timers."""

from collections.abc import Iterable, Mapping

from kgm.coordinator.contract.outcome import Millis
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState


def may_be_regular(group: ClassicGroup) -> bool:
    """Whether the join phase ends as soon as all members have joined, and the same protocol is selected again."""
    soft = group.soft
    return (
        group.state is ClassicState.PREPARING_REBALANCE
        and not group.is_shared
        and soft.initial_delay is None
        and soft.previous_state is not ClassicState.EMPTY
        and not soft.pending_joins
        and not soft.held
        and len(group.offers) == 1
        and next(iter(group.offers)) == (group.protocol,)
    )


def begin_round(group: ClassicGroup, *, began_ms: Millis) -> None:
    """A member of a Stable group has joined with a changed subscription."""
    group.soft.pending_syncs.clear()
    group.move_to(ClassicState.PREPARING_REBALANCE, began_ms)


def end_round(group: ClassicGroup, newcomers: Iterable[str], *, joined_ms: Millis, assigned_ms: Millis) -> None:
    """End the join phase and the sync phase. newcomers: the members that were new. The members' protocols and
    assignments do not change here (see `update_members`)."""
    group.generation += 1
    group.soft.parked_joins = {}
    group.move_to(ClassicState.COMPLETING_REBALANCE, joined_ms)
    group.move_to(ClassicState.STABLE, assigned_ms)
    for member_id in newcomers:
        group.members[member_id] = group.members[member_id]._replace(is_new=False)


def update_members(group: ClassicGroup, subscriptions: Mapping[str, bytes], assignments: Mapping[str, bytes]) -> None:
    """Store the subscriptions that members have sent, and the assignments from the leader, by member id, after rounds
    have ended."""
    for member_id, subscription in subscriptions.items():
        member = group.members[member_id]
        protocols = (member.protocols[0]._replace(metadata=subscription),)
        group.members[member_id] = member._replace(protocols=protocols, assignment=assignments[member_id])
    group.subscribed_topics = group.read_subscribed_topics()
    group.logged_members = None
