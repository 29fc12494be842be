"""Try ways to restart members within a budget, and keep those that no other beats.

The budget is counted in simulated requests (`kgm.simulation.draws.budget`), so the same seed and budget give the same
answer on every machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kgm.frameworks.task_copies import freed_tasks
from kgm.model.errors import KgmError, RefusedError, TimedOutError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.bounce.prediction import simulate
from kgm.operations.bounce.request import BounceRequest, plan_for
from kgm.operations.plan.costs import Objective, PlanCosts, PlanLimits, unbeaten
from kgm.operations.plan.session_advice import (
    DeathCosts,
    death_costs,
    longest_session_ms,
    only_timeouts,
    quiet_session_ms,
)  # fmt: skip
from kgm.operations.plan.shapes import PAUSES_MS, PlanShape, shapes_of
from kgm.simulation.bounce import play
from kgm.simulation.connect.group import is_connect
from kgm.simulation.draws.budget import affordable, cost_of
from kgm.simulation.draws.executor import HERE, DrawExecutor
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, Stop, WhatIf
from kgm.simulation.plan.starting_group import starting_group_of
from kgm.simulation.report.prediction import Prediction
from kgm.simulation.simulation import SEED
from kgm.simulation.streams.coordinated_group import is_streams_group
from kgm.simulation.streams.group import is_streams

DRAWS = 20
BUDGET_MS = 30_000
#: The share of a time limit within which ways are tried.
_SEARCH_SHARE = 0.6
_COOPERATIVE = "cooperative-sticky"
_SESSION = "session-timeout"
_STATIC = "a different group.instance.id for each member"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTask:
    """What to plan.

    request: the members that restart, and how; the search decides their order and batches. max_unavailable: the most
    members that may be away at the same time."""

    group: BounceGroup
    request: BounceRequest
    objective: Objective = Objective.STOPPED
    limits: PlanLimits = field(default_factory=PlanLimits)
    max_unavailable: int | None = None
    pauses_ms: tuple[int, ...] = PAUSES_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPlan:
    """One plan. prediction: what `kgm simulate-bounce` predicts with the same options."""

    shape: PlanShape
    costs: PlanCosts
    prediction: Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfPlan:
    """The best plan found for the group with a different configuration.

    change: what would have to be configured. exceeded: the limits that the plan exceeds. death: what the death of a
    member costs with the change, if the change makes it more expensive."""

    name: str
    change: str
    best: FoundPlan
    exceeded: tuple[str, ...] = ()
    death: DeathCosts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPlans:
    """plans: those that keep the limits and that no other beats, the best by the objective first; they include one that
    restarts members one by one without a handover, if there is such a plan. closest: the plan that comes closest to the
    limits, if none keeps them. tried: how many of the `ways` were simulated. not_played: why what-ifs were not played,
    by name. unpredicted: ways that no other beats, but that there was no time left to predict."""

    task: PlanTask
    base: Plan
    plans: tuple[FoundPlan, ...]
    closest: FoundPlan | None
    closest_exceeds: tuple[str, ...]
    what_ifs: tuple[WhatIfPlan, ...]
    not_played: dict[str, KgmError]
    tried: int
    ways: int
    unpredicted: tuple[PlanShape, ...] = ()

    @property
    def group(self) -> GroupSnapshot:
        return self.task.group.snapshot

    @property
    def is_complete(self) -> bool:
        """Whether every way was tried."""
        return self.tried == self.ways


def find_plans(
    task: PlanTask, *, budget_ms: int = BUDGET_MS, draws: int = DRAWS, seed: int = SEED,
    is_out_of_time: Callable[[float], bool] = lambda _share: False,
    on_shape: Callable[[int, int], None] = lambda _done, _of: None,
    executor: DrawExecutor = HERE,
) -> FoundPlans:  # fmt: skip
    """Search for plans. on_shape: called with the number of ways done and the total. executor: plays the draws; the
    answer does not depend on it.

    is_out_of_time: called with a share of the time (0 to 1): whether it has passed, which ends the search early, and
    the answer then depends on the machine. The rest of the time is for predicting what was found. A way that cannot be
    predicted is not a plan: for a Kafka Streams application, a restart without a rebalance can be predicted, but no
    other. Raises what `plan_for` and `simulate` raise if no way can be predicted, and TimedOutError if there is not
    enough time for one."""
    base = plan_for(task.request, task.group)
    shapes = shapes_of(
        task.group.snapshot, base.bounce, max_unavailable=task.max_unavailable, pauses_ms=task.pauses_ms,
        may_remove=_stay_members(task.group.snapshot, base), units=base.units,
    )  # fmt: skip
    trial = _Trial(task=task, base=base, draws=draws, seed=seed, is_out_of_time=is_out_of_time, executor=executor)
    tried: list[tuple[PlanShape, PlanCosts]] = []
    refused: list[RefusedError] = []
    for number, shape in enumerate(shapes):
        on_shape(number, len(shapes))
        if tried and (trial.cost >= affordable(budget_ms) or is_out_of_time(_SEARCH_SHARE)):
            break
        try:
            tried.append((shape, trial.costs_of(shape, base.what_if)))
        except RefusedError as error:
            refused.append(error)
        except TimedOutError:
            if not tried:
                raise
            break
    if refused and not tried:
        raise refused[0]
    kept = [(shape, costs) for shape, costs in tried if not task.limits.exceeded(costs)]
    front = sorted(_with_quiet(unbeaten(kept), kept), key=lambda one: one[1].rank(task.objective))
    closest = None if front else min(tried, key=lambda one: _distance(task, one[1]))
    plans = [trial.found(*one, base.what_if, is_needed=True) for one in front[:1]]
    with contextlib.suppress(TimedOutError):
        for one in front[1:]:
            plans.append(trial.found(*one, base.what_if))  # noqa: PERF401  (keep those found before the time is up)
    what_ifs, not_played = _what_ifs(trial, [shape for shape, _ in front or tried])
    return FoundPlans(
        task=task,
        base=base,
        plans=tuple(plans),
        closest=None if closest is None else trial.found(*closest, base.what_if, is_needed=True),
        closest_exceeds=() if closest is None else task.limits.exceeded(closest[1]),
        what_ifs=what_ifs,
        not_played=not_played,
        tried=len(tried) + len(refused),
        ways=len(shapes),
        unpredicted=tuple(shape for shape, _ in front[len(plans) :]),
    )


def _with_quiet(
    front: list[tuple[PlanShape, PlanCosts]], kept: Sequence[tuple[PlanShape, PlanCosts]]
) -> list[tuple[PlanShape, PlanCosts]]:
    """The plans that no other beats. If there are plans that go one by one and move nothing, the shortest of them is
    always included: a plan that costs no more by these figures may still stop more members at a time."""
    quiet = [
        one for one in kept
        if not one[1].handovers and one[0].rolling is not None and one[0].rolling.max_unavailable == 1
    ]  # fmt: skip
    if not quiet or any(one in front for one in quiet):
        return front
    return [*front, min(quiet, key=lambda one: one[1].rank(Objective.DURATION))]


@dataclass(slots=True, kw_only=True)
class _Trial:
    """Simulates ways, and adds up the cost of simulating them."""

    task: PlanTask
    base: Plan
    draws: int
    seed: int
    is_out_of_time: Callable[[float], bool]
    executor: DrawExecutor
    cost: int = 0

    def costs_of(self, shape: PlanShape, what_if: WhatIf) -> PlanCosts:
        """Play one way, and return its costs. Raises KgmError."""
        snapshot, plan = self.task.group.snapshot, self._plan(shape, what_if)
        drawn, consumed = play(
            snapshot, plan, draws=self.draws, seed=self.seed, executor=self.executor,
            is_out_of_time=lambda: self.is_out_of_time(_SEARCH_SHARE),
        )  # fmt: skip
        self.cost += cost_of(drawn)
        batches = plan.batches() if is_streams(snapshot) or is_streams_group(snapshot) else ()
        alone = max((len(freed_tasks(snapshot, batch).alone) for batch in batches), default=0)
        return PlanCosts.of(drawn, consumed, tasks_without_copy=alone)

    def found(self, shape: PlanShape, costs: PlanCosts, what_if: WhatIf, *, is_needed: bool = False) -> FoundPlan:
        """is_needed: play one draw even if the time is up. For other plans, TimedOutError is raised then."""
        plan, group = self._plan(shape, what_if), self.task.group
        try:
            prediction = simulate(
                group, plan, draws=self.draws, seed=self.seed, executor=self.executor,
                is_out_of_time=lambda: self.is_out_of_time(1),
            )  # fmt: skip
        except TimedOutError:
            if not is_needed:
                raise
            prediction = simulate(group, plan, draws=1, seed=self.seed)
        return FoundPlan(shape=shape, costs=costs, prediction=prediction)

    def death(self, what_if: WhatIf) -> DeathCosts:
        """What the death of a member costs with a what-if, and now. Raises KgmError."""
        if self.is_out_of_time(1):
            raise TimedOutError("the time limit has passed before the death of a member was simulated")
        base = self.base
        return death_costs(self.task.group.snapshot, base, base.bounce, base.what_if, what_if, self.seed)

    def _plan(self, shape: PlanShape, what_if: WhatIf) -> Plan:
        return replace(
            self.base, bounce=shape.bounce, rolling=shape.rolling, order=shape.order, remove_first=shape.removes_first,
            what_if=what_if,
        )  # fmt: skip


def _stay_members(snapshot: GroupSnapshot, base: Plan) -> bool:
    """Whether a process that has stopped is still a member, so that removing it makes a difference: static members do
    not leave when they are closed, and no member leaves when it is killed. Members of a streams group cannot be
    removed."""
    if is_streams_group(snapshot):
        return False
    static = {member.identity for member in snapshot.members if member.group_instance_id is not None}
    return base.stop is Stop.CRASH or (base.stop is Stop.CLEAN and not static.isdisjoint(base.bounce))


def _distance(task: PlanTask, costs: PlanCosts) -> tuple[int, ...]:
    """A sort key: how far a plan is from keeping the limits, then its rank by the objective."""
    limits = task.limits
    late_ms = 0 if limits.duration_ms is None else max(costs.most_ms - limits.duration_ms, 0)
    missing = 0 if limits.consumed_percent is None else max(limits.consumed_percent - costs.fewest_consumed_percent, 0)
    return len(limits.exceeded(costs)), missing, late_ms, *costs.rank(task.objective)


# -- what-ifs


def _what_ifs(trial: _Trial, shapes: Sequence[PlanShape]) -> tuple[tuple[WhatIfPlan, ...], dict[str, KgmError]]:
    """Plans for the group with a different configuration: each what-if is played in the way that is best for the group
    as it is, all together, and one by one; the best of these is kept. Also the errors of what-ifs, by name."""
    task = trial.task
    together = [shape for shape in shapes if shape.rolling is None][:1]
    alone = [shape for shape in shapes if shape.rolling is not None and shape.rolling.max_unavailable == 1][:1]
    candidates = list(dict.fromkeys([*shapes[:1], *alone, *together]))
    played: list[WhatIfPlan] = []
    errors: dict[str, KgmError] = {}
    for name, change, what_if in _changes(task.group.snapshot, trial.base):
        try:
            ways = [replace(one, removes_first=False) for one in candidates] if name == _SESSION else candidates
            tried = [(shape, trial.costs_of(shape, what_if)) for shape in dict.fromkeys(ways)]
            shape, costs = min(tried, key=lambda one: _distance(task, one[1]))
            best = trial.found(shape, costs, what_if)
            death = trial.death(what_if) if name == _SESSION else None
        except KgmError as error:
            errors[name] = error
            continue
        played.append(
            WhatIfPlan(name=name, change=change, best=best, exceeded=task.limits.exceeded(costs), death=death)
        )
    played.sort(key=lambda one: _distance(task, one.best.costs))
    return tuple(played), errors


def _changes(snapshot: GroupSnapshot, base: Plan) -> list[tuple[str, str, WhatIf]]:
    """(name, what would have to be configured, what-if) for each change that the group does not have yet."""
    if is_connect(snapshot) or is_streams_group(snapshot):  # none of this applies to their members
        return []
    what_if, classic = base.what_if, snapshot.type == GroupProtocol.CLASSIC.value
    changes = []
    if any(member.group_instance_id is None for member in snapshot.members):
        static = replace(what_if, membership=Membership.STATIC)
        changes.append(("static", f"{_STATIC} (KIP-345)", static))
    changes += _longer_session(snapshot, base)
    if classic and not (snapshot.assignor or "").startswith("cooperative"):
        cooperative = replace(what_if, assignor=_COOPERATIVE)
        changes.append(("cooperative", "partition.assignment.strategy=cooperative-sticky in all members", cooperative))
    if classic:
        consumer = replace(what_if, assignor=None, protocol=GroupProtocol.CONSUMER)
        changes.append(("consumer", "group.protocol=consumer in all members (KIP-848)", consumer))
    return changes


def _longer_session(snapshot: GroupSnapshot, base: Plan) -> list[tuple[str, str, WhatIf]]:
    """The change to static members with a session timeout that outlasts the restart, unless they have that already."""
    now_ms, _ = starting_group_of(snapshot, only_timeouts(base)).sessions_ms(base.bounce)
    needed_ms = quiet_session_ms(snapshot, base, len(base.bounce))
    if needed_ms <= now_ms or needed_ms > longest_session_ms(snapshot, base) or base.stop is not Stop.CLEAN:
        return []
    is_static = all(member.group_instance_id is not None for member in snapshot.members)
    setting = "session.timeout.ms" if snapshot.type == GroupProtocol.CLASSIC.value else "consumer.session.timeout.ms"
    change = f"{'' if is_static else f'{_STATIC} and '}{setting}={needed_ms}"
    membership = base.what_if.membership if is_static else Membership.STATIC
    return [(_SESSION, change, replace(base.what_if, membership=membership, session_timeout_ms=needed_ms))]
