"""The same plan under other conditions, side by side."""

from dataclasses import dataclass, replace

from kgm.model.errors import KgmError, UnsupportedError
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.bounce import DRAWS, SEED, simulate
from kgm.simulation.plan import Membership, Plan, WhatIf
from kgm.simulation.report import Scenario

_COOPERATIVE = "cooperative-sticky"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The scenarios that could be played, the plan as it stands first; and why others could not."""

    scenarios: tuple[Scenario, ...]
    errors: tuple[KgmError, ...]


def compare(snapshot: GroupSnapshot, plan: Plan, *, draws: int = DRAWS, seed: int = SEED) -> Comparison:
    """`as-is`, and what it would be with static members, dynamic members, and the cooperative protocol.

    Raises what `simulate` raises for the plan as it stands; what goes wrong in another scenario is data."""
    scenarios = [simulate(snapshot, plan, draws=draws, seed=seed)]
    errors: list[KgmError] = []
    for name, what_if in _others(plan.what_if):
        try:
            scenarios.append(simulate(snapshot, replace(plan, what_if=what_if), name=name, draws=draws, seed=seed))
        except KgmError as error:
            errors.append(error)
    errors.append(
        UnsupportedError(
            "scenario `consumer` is left out: kgm cannot play groups of the KIP-848 protocol yet",
            group_id=snapshot.group_id,
        )
    )
    return Comparison(scenarios=tuple(scenarios), errors=tuple(errors))


def _others(what_if: WhatIf) -> list[tuple[str, WhatIf]]:
    return [
        ("static", replace(what_if, membership=Membership.STATIC)),
        ("dynamic", replace(what_if, membership=Membership.DYNAMIC)),
        ("cooperative", replace(what_if, assignor=_COOPERATIVE)),
    ]
