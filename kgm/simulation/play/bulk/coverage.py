"""Which draws may be played in bulk, and what plays them, as the runner of a plan sees it. This module does without
numpy."""

from collections.abc import Collection, Sequence
from typing import Protocol

from kgm.coordinator.contract.broker_version import REFERENCE_BEHAVIOR
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.simulation.plan.bounce_plan import GroupProtocol
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.consumer_member import ScriptedConsumerMember
from kgm.simulation.play.scripted_member import ScriptedMember
from kgm.simulation.play.world import CoordinatorWatcher, World

#: Groups of so many members are played in bulk: below, arrays cost more than they save.
BULK_FROM = {GroupProtocol.CLASSIC: 24, GroupProtocol.CONSUMER: 60}
#: In groups of so many members heartbeats are handed in together while static members restart.
CALM_FROM = 200
#: How many rebalances of a cooperative group are played in one step at most.
MOST_IN_CHAIN = 12


class Bulk(CoordinatorWatcher, Protocol):
    """Plays what members do in bulk, as long as they do what is expected of them.

    saved: how many requests more it has handled than it cost (`costs`)."""

    saved: int

    @property
    def is_settled(self) -> bool:
        """Whether the members that are played in bulk have nothing left to do."""

    def by_events(self, members: Sequence[ScriptedMember]) -> Collection[ScriptedMember]:
        """Those of these members that are played by events now."""

    def rebalance_began(self) -> None:
        """A rebalance began, or an epoch, with the event that is handled now."""

    def plays_next(self, until_ms: float, *, is_undisturbed: bool) -> bool:
        """Asked before each event: whether time has advanced in bulk, instead of to that event; before this time. If
        not, members have done what they do until that event, as far as others depend on it.

        is_undisturbed: whether the group has only members whose processes run."""

    def batch_begins(self) -> None:
        """The group is stable, and members are about to stop, one batch after the other."""

    def release(self, member: ScriptedMember) -> None:
        """The member is about to stop: play it by events."""

    def disperse(self) -> None:
        """Play all members by events."""


def bulk_of(world: World, members: Sequence[ScriptedMember], settings: BrokerSettings) -> Bulk | None:
    """What plays these members, all that there may be, in bulk. None without numpy, and for groups in which it
    cannot."""
    if world.held_newcomers.plan is not None:
        return None
    classic = [member for member in members if isinstance(member, ScriptedClassicMember)]
    consumers = [member for member in members if isinstance(member, ScriptedConsumerMember)]
    try:
        if len(consumers) == len(members):
            from kgm.simulation.play.bulk.bystanders import Bystanders

            return Bystanders(world, consumers, settings) if Bystanders.can_play(settings) else None
        if len(classic) == len(members) and world.behavior == REFERENCE_BEHAVIOR and world.ledger.holdings is None:
            from kgm.simulation.play.bulk.rounds import Rounds

            return Rounds(world, classic)
    except ImportError:
        pass
    return None
