"""The same plan under other conditions, side by side."""

from dataclasses import dataclass, replace

from kgm.model.errors import KgmError
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.bounce import DRAWS, SEED, simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, WhatIf
from kgm.simulation.report.report import Scenario

_COOPERATIVE = "cooperative-sticky"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The scenarios that could be played, the plan as it stands first; and why others could not."""

    scenarios: tuple[Scenario, ...]
    errors: tuple[KgmError, ...]


def compare(
    snapshot: GroupSnapshot, plan: Plan, *, draws: int = DRAWS, seed: int = SEED, keeps_holdings: bool = False
) -> Comparison:
    """What `side_by_side` shows, and what it would be with static members, dynamic members, the cooperative assignor,
    and the consumer protocol (KIP-848), or the classic one for a group that has that.

    Raises what `simulate` raises for the plan as it stands; what goes wrong in another scenario is data."""
    scenarios = side_by_side(snapshot, plan, draws=draws, seed=seed, keeps_holdings=keeps_holdings)
    errors: list[KgmError] = []
    for name, what_if in _others(plan.what_if, plan.what_if.protocol or GroupProtocol(snapshot.type)):
        try:
            other = replace(plan, what_if=what_if)
            scenarios.append(
                simulate(snapshot, other, name=name, draws=draws, seed=seed, keeps_holdings=keeps_holdings)
            )
        except KgmError as error:
            errors.append(error)
    return Comparison(scenarios=tuple(scenarios), errors=tuple(errors))


def side_by_side(
    snapshot: GroupSnapshot, plan: Plan, *, draws: int = DRAWS, seed: int = SEED, keeps_holdings: bool = False
) -> list[Scenario]:
    """`as-is`, as any Apache Kafka does it; `freed`, if the broker would refuse killed members that come back: what
    comes of it if each is removed first; and `standby`, with a broker that heeds the plan's target size and
    pre-registered ids, if it has any."""
    scenarios = [simulate(snapshot, plan, draws=draws, seed=seed, keeps_holdings=keeps_holdings)]
    if scenarios[0].protocol == GroupProtocol.CONSUMER.value and plan.bounce and scenarios[0].typical.refused_joins:
        freed = replace(plan, what_if=replace(plan.what_if, freed=True))
        scenarios.append(simulate(snapshot, freed, name="freed", draws=draws, seed=seed, keeps_holdings=keeps_holdings))
    if plan.plans_size:
        heeded = replace(plan, what_if=replace(plan.what_if, standby=True))
        scenarios.append(
            simulate(snapshot, heeded, name="standby", draws=draws, seed=seed, keeps_holdings=keeps_holdings)
        )
    return scenarios


def _others(what_if: WhatIf, protocol: GroupProtocol) -> list[tuple[str, WhatIf]]:
    classic, consumer = GroupProtocol.CLASSIC, GroupProtocol.CONSUMER
    other = consumer if protocol is classic else classic
    return [
        ("static", replace(what_if, membership=Membership.STATIC)),
        ("dynamic", replace(what_if, membership=Membership.DYNAMIC)),
        ("cooperative", replace(what_if, assignor=_COOPERATIVE, protocol=classic)),
        (other.value, replace(what_if, assignor=None, protocol=other)),
    ]
