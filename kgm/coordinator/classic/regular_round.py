"""A rebalance of a classic group in which every member has joined and synced, as one step: what becomes of the group
without a request for each (`kgm.simulation.play.bulk`).

The rules are those of `rebalance`. Requests, replies and timers are the caller's."""

from collections.abc import Iterable, Mapping

from kgm.coordinator.contract.outcome import Millis
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState


def may_be_regular(group: ClassicGroup) -> bool:
    """Whether the join phase of the group ends as soon as its members have joined, with the same protocol."""
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
    """A member of a Stable group has joined with another subscription."""
    group.soft.pending_syncs.clear()
    group.move_to(ClassicState.PREPARING_REBALANCE, began_ms)


def end_round(group: ClassicGroup, newcomers: Iterable[str], *, joined_ms: Millis, assigned_ms: Millis) -> None:
    """End the join phase and the sync phase. newcomers: the members that were new. Protocols and assignments of the
    members stay what they were (`update_members`)."""
    group.generation += 1
    group.soft.parked_joins = {}
    group.move_to(ClassicState.COMPLETING_REBALANCE, joined_ms)
    group.move_to(ClassicState.STABLE, assigned_ms)
    for member_id in newcomers:
        group.members[member_id] = group.members[member_id]._replace(is_new=False)


def update_members(group: ClassicGroup, subscriptions: Mapping[str, bytes], assignments: Mapping[str, bytes]) -> None:
    """What the members have sent, and what the leader has assigned, in rounds that have ended."""
    for member_id, subscription in subscriptions.items():
        member = group.members[member_id]
        protocols = (member.protocols[0]._replace(metadata=subscription),)
        group.members[member_id] = member._replace(protocols=protocols, assignment=assignments[member_id])
    group.subscribed_topics = group.read_subscribed_topics()
    group.logged_members = None
