"""Which draws may be played in bulk. This module does without numpy."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgm.coordinator.contract.broker_version import REFERENCE_BEHAVIOR
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.scripted_member import ScriptedMember
from kgm.simulation.play.world import World

if TYPE_CHECKING:
    from kgm.simulation.play.bulk.rounds import Rounds

#: Rounds of groups of so many members are played in bulk: below, arrays cost more than they save.
BULK_FROM = 24
#: How many rebalances of a cooperative group are played in one step at most.
MOST_IN_CHAIN = 12


def rounds_of(world: World, members: Sequence[ScriptedMember]) -> "Rounds | None":
    """What plays the rounds of these members, all that there may be, in bulk. None without numpy, and for groups in
    which it cannot."""
    classic = [member for member in members if isinstance(member, ScriptedClassicMember)]
    is_classic = len(classic) == len(members)
    is_plain = world.held_newcomers.plan is None and world.behavior == REFERENCE_BEHAVIOR
    if not is_classic or not is_plain or world.ledger.holdings is not None:
        return None
    try:
        from kgm.simulation.play.bulk.rounds import Rounds
    except ImportError:
        return None
    return Rounds(world, classic)
