"""Rebalances and heartbeats in bulk: what many members do is played in one step, as long as each does what is expected
of it. This module has the interface that the runner of a plan uses, and decides which draws can be played this way. It
works without numpy.

Most of a rolling bounce is like that: a thousand members notice a rebalance with their next heartbeats, join, sync, and
begin to consume. What each of them does depends on the others only through the end of the join phase and the leader's
SyncGroup. So their times are computed in arrays (numpy), and the coordinator is updated with the outcome. The random
numbers are the same as when each message is a separate event, and so is the outcome, to the last bit
(tests/simulation/play/bulk). Anything else is played by events.

arrays  random numbers of many members, who consumes what, the order of timers; and what bulk play costs, for a budget

In a group of the classic protocol:

rounds          one rebalance; with a cooperative assignor also the ones that follow from it
round_times     when everything happens in a rebalance, and members that are slow in it
stable_members  members as arrays, converted from scripted members and back; their heartbeats
assignments     what the leader assigns, as an array

In a consumer group (KIP-848) there are no rounds. Members learn of each epoch with their next heartbeats, and those
whose target assignment has changed give up partitions, wait for those of others, and take them:

consumer_members     members as arrays, converted from scripted members and back; when they have to catch up
consumer_heartbeats  what their heartbeats do
partition_moves      who has which partition, and what heartbeats change about that"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from kgm.coordinator.contract.behavior import REFERENCE_BEHAVIOR
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.assignment import Partitions
from kgm.model.client_library import FRANZ_GO
from kgm.simulation.plan.bounce_plan import GroupProtocol
from kgm.simulation.plan.client_library import STICKY
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.consumer_member import ScriptedConsumerMember
from kgm.simulation.play.scripted_member import ScriptedMember
from kgm.simulation.play.world import CoordinatorWatcher, World

#: Groups of at least this many members are played in bulk; below that, arrays cost more than they save.
BULK_FROM: Final = {GroupProtocol.CLASSIC: 8, GroupProtocol.CONSUMER: 12}
#: In groups of at least this many members heartbeats are applied together while static members restart.
HEARTBEATS_FROM: Final = 200


class BulkPlayer(CoordinatorWatcher, Protocol):
    """Plays what members do in bulk, as long as they do what is expected of them.

    heartbeats_applied: how many heartbeats it has played without a request for each, not counting those in rebalances.
    saved: how many more requests it has handled than it cost (`arrays`). most_rebalances: the most rebalances that it
    plays in one step."""

    heartbeats_applied: int
    saved: int
    most_rebalances: int

    @property
    def is_settled(self) -> bool:
        """Whether the members that are played in bulk have nothing left to do."""

    def by_events(self, members: Sequence[ScriptedMember]) -> Collection[ScriptedMember]:
        """The ones among these members that are currently played by events."""

    def rebalance_began(self) -> None:
        """A rebalance or an epoch began with the event that is being handled."""

    def plays_next(self, until_ms: float, *, is_undisturbed: bool) -> bool:
        """Asked before each event. Returns whether time has advanced in bulk instead of to that event, to a point
        before `until_ms`. If not, members have done what they do until that event, as far as others depend on it.

        is_undisturbed: whether the processes of all members of the group are running."""

    def batch_begins(self) -> None:
        """The group is stable, and members are about to stop, one batch after the other."""

    def release(self, member: ScriptedMember) -> None:
        """The member is about to stop: play it by events."""

    def pending_assignments(self) -> Mapping[str, Partitions]:
        """What members were assigned that the coordinator does not know yet, by member id. It knows everything else
        afterwards, apart from timers."""

    def to_scripted_members(self) -> None:
        """Play all members by events."""


def bulk_player_of(world: World, members: Sequence[ScriptedMember], settings: BrokerSettings) -> BulkPlayer | None:
    """The player that plays these members in bulk; they must be all that the draw may have. None without numpy, and for
    groups that cannot be played in bulk."""
    if world.held_newcomers.plan is not None or not _has_numpy():
        return None
    group = world.group
    forget = group.giving_up or (
        group.may_forget and group.assignor == STICKY and any(one.spec.assigner(STICKY) == FRANZ_GO for one in members)
    )
    if forget or any(member.profile.fetch_ms for member in members):
        return None  # the arrays hold neither waits for fetches nor which members forget what they had
    # Only here, because these modules import numpy, which is an extra.
    classic = [member for member in members if isinstance(member, ScriptedClassicMember)]
    if len(classic) == len(members):
        if world.behavior != REFERENCE_BEHAVIOR or world.ledger.holdings is not None:
            return None
        from kgm.simulation.play.bulk.rounds import Rounds

        return Rounds(world, classic)
    consumers = [member for member in members if isinstance(member, ScriptedConsumerMember)]
    if len(consumers) == len(members):
        from kgm.simulation.play.bulk.consumer_members import ConsumerMembers

        return ConsumerMembers(world, consumers, settings) if ConsumerMembers.can_play(settings) else None
    return None


def _has_numpy() -> bool:
    try:
        import numpy  # noqa: F401, ICN001  (whether it is installed)
    except ImportError:
        return False
    return True
