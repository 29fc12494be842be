"""The same plan in several scenarios, side by side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from kgm.coordinator.contract.behavior import behavior_of
from kgm.model.broker_version import REFERENCE
from kgm.model.errors import KgmError, TimedOutError
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.bounce import simulate
from kgm.simulation.draws.executor import DrawExecutor
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, WhatIf, with_versions_of
from kgm.simulation.report.prediction import Prediction
from kgm.simulation.shape import PlayedShapes

_COOPERATIVE = "cooperative-sticky"


class PlayOptions(TypedDict, total=False):
    """How scenarios are played: parameters of `simulate`."""

    draws: int
    seed: int
    keeps_holdings: bool
    is_out_of_time: Callable[[], bool]
    budget_ms: int | None
    executor: DrawExecutor
    shapes: PlayedShapes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """errors: why some scenarios could not be played. The first prediction is for the plan as it stands."""

    predictions: tuple[Prediction, ...]
    errors: tuple[KgmError, ...]


def compare(snapshot: GroupSnapshot, plan: Plan, **how: Unpack[PlayOptions]) -> Comparison:
    """The scenarios of `side_by_side`, and the plan with static members, dynamic members, the cooperative assignor, and
    the consumer protocol (KIP-848), or the classic protocol for a group that already uses KIP-848.

    Raises what `simulate` raises for the plan as it stands; an error in another scenario goes into `errors`."""
    found = side_by_side(snapshot, plan, **how)
    others = dict(_others(plan.what_if, plan.what_if.protocol or _protocol_of(snapshot)))
    more = _each(snapshot, plan, others, KgmError, **how)
    return Comparison(predictions=found.predictions + more.predictions, errors=found.errors + more.errors)


def _each(
    snapshot: GroupSnapshot, plan: Plan, what_ifs: Mapping[str, WhatIf], may_fail: type[KgmError],
    **how: Unpack[PlayOptions],
) -> Comparison:  # fmt: skip
    """may_fail: the errors that do not keep the other scenarios from being played."""
    predictions: list[Prediction] = []
    errors: list[KgmError] = []
    for name, what_if in what_ifs.items():
        try:
            predictions.append(simulate(snapshot, replace(plan, what_if=what_if), name=name, **how))
        except may_fail as error:
            errors.append(error)
    return Comparison(predictions=tuple(predictions), errors=tuple(errors))


def side_by_side(snapshot: GroupSnapshot, plan: Plan, **how: Unpack[PlayOptions]) -> Comparison:
    """The scenario `as-is`, which is the plan with Apache Kafka. Also `freed`, if the broker would refuse killed
    members that return: each is removed before it starts again. And `standby`, if the plan has a target size or
    pre-registered ids: it supposes a broker that honors them.

    Raises what `simulate` raises; but a scenario for which no time is left goes into `errors`."""
    as_is = simulate(snapshot, plan, **how)
    what_ifs: dict[str, WhatIf] = {}
    version = with_versions_of(snapshot, plan).kafka_version or REFERENCE
    can_remove = behavior_of(version).removes_consumer_members
    if as_is.protocol == GroupProtocol.CONSUMER.value and plan.bounce and as_is.typical.refused_joins and can_remove:
        what_ifs["freed"] = replace(plan.what_if, freed=True)
    if plan.has_standby_plan:
        what_ifs["standby"] = replace(plan.what_if, standby=True)
    others = _each(snapshot, plan, what_ifs, TimedOutError, **how)
    return replace(others, predictions=(as_is, *others.predictions))


def _protocol_of(snapshot: GroupSnapshot) -> GroupProtocol:
    """The protocol of its members. A streams group (KIP-1071) has neither of the two, and no scenario with another one
    can be played: `simulate` refuses them all."""
    return GroupProtocol.CLASSIC if snapshot.type == GroupProtocol.CLASSIC.value else GroupProtocol.CONSUMER


def _others(what_if: WhatIf, protocol: GroupProtocol) -> list[tuple[str, WhatIf]]:
    classic, consumer = GroupProtocol.CLASSIC, GroupProtocol.CONSUMER
    other = consumer if protocol is classic else classic
    return [
        ("static", replace(what_if, membership=Membership.STATIC)),
        ("dynamic", replace(what_if, membership=Membership.DYNAMIC)),
        ("cooperative", replace(what_if, assignor=_COOPERATIVE, protocol=classic)),
        (other.value, replace(what_if, assignor=None, protocol=other)),
    ]
