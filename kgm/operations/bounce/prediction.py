"""Predict a bounce: `simulate` takes a plan, `predict_bounce` takes an operator's request."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from kgm.model.errors import ConditionNotMet, KgmError, PartialError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.gates import Gates
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.bounce.request import BounceRequest, plan_for
from kgm.simulation import bounce
from kgm.simulation.bounce import DRAWS
from kgm.simulation.compare import PlayOptions, compare, side_by_side
from kgm.simulation.draws.executor import HERE, DrawExecutor
from kgm.simulation.plan.bounce_plan import Plan
from kgm.simulation.report.prediction import Prediction
from kgm.simulation.shape import PlayedShapes
from kgm.simulation.simulation import SEED
from kgm.simulation.sinks import simulate_sinks


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedBounce:
    """What a bounce would do.

    predictions: one for each scenario, starting with the plan as it stands. errors: why scenarios of a comparison could
    not be simulated. failed_gates: the limits that the first prediction exceeds. unread: why those that it keeps prove
    nothing; None if there are no limits, too."""

    group: GroupSnapshot
    plan: Plan
    predictions: tuple[Prediction, ...]
    errors: tuple[KgmError, ...]
    failed_gates: tuple[ConditionNotMet, ...]
    unread: PartialError | None = None

    @property
    def all_errors(self) -> tuple[KgmError, ...]:
        """What a report of the bounce lists."""
        unread = () if self.unread is None else (self.unread,)
        return (*self.errors, *self.failed_gates, *unread)


def simulate(
    group: GroupSnapshot | BounceGroup, plan: Plan, *, draws: int = DRAWS, seed: int = SEED,
    keeps_holdings: bool = False, executor: DrawExecutor = HERE, is_out_of_time: Callable[[], bool] = lambda: False,
) -> Prediction:  # fmt: skip
    """Predict what a plan would do to a group. Settings and version in the plan override those of the group's
    broker.

    draws: the most random draws to play. The same seed gives the same prediction. keeps_holdings: record in
    `typical.holdings` who consumes what when. executor: plays the draws. is_out_of_time: called now and then; once it
    returns true, no more draws are played. Raises what `kgm.simulation.bounce.simulate` raises."""
    _refuse_no_draws(draws)
    how: PlayOptions = {
        "draws": draws, "seed": seed, "keeps_holdings": keeps_holdings, "is_out_of_time": is_out_of_time,
        "executor": executor,
    }  # fmt: skip
    if not isinstance(group, BounceGroup):
        return bounce.simulate(group, plan, **how)
    plan = group.with_settings(plan)
    return _completed(bounce.simulate(group.snapshot, plan, **how), group, plan, how)


def predict_bounce(
    group: BounceGroup, request: BounceRequest, *, compares: bool = False, gates: Gates | None = None,
    draws: int = DRAWS, seed: int = SEED, keeps_holdings: bool = False, timeout_ms: int | None = None,
    budget_ms: int | None = None, executor: DrawExecutor = HERE, shapes: PlayedShapes | None = None,
) -> PredictedBounce:  # fmt: skip
    """Predict what an operator asks for, in the scenarios of `side_by_side`, or of `compare` if `compares`.

    timeout_ms: after this time, no more draws are played. budget_ms: how much time of one core of a typical machine the
    random draws of one scenario may take; for None, and for executor and shapes, see `kgm.simulation.bounce.simulate`.
    Raises what `plan_for` and `simulate` raise, and TimedOutError if the time is too short for one draw of the plan as
    it stands."""
    is_out_of_time = _time_limit(timeout_ms)
    plan, snapshot = plan_for(request, group), group.snapshot
    _refuse_no_draws(draws)
    if budget_ms is not None and budget_ms < 1:
        raise UsageError("the budget is 0; the minimum is 1 ms")
    how: PlayOptions = {
        "draws": draws, "seed": seed, "keeps_holdings": keeps_holdings, "is_out_of_time": is_out_of_time,
        "budget_ms": budget_ms, "executor": executor, "shapes": shapes,
    }  # fmt: skip
    compared = (compare if compares else side_by_side)(snapshot, plan, **how)
    predictions = tuple(_completed(prediction, group, plan, how) for prediction in compared.predictions)
    gates = gates or Gates()
    return PredictedBounce(
        group=snapshot,
        plan=plan,
        predictions=predictions,
        errors=compared.errors,
        failed_gates=gates.failures(predictions[0]),
        unread=group.unread(predictions[0]) if gates.are_set else None,
    )


def _completed(prediction: Prediction, group: BounceGroup, plan: Plan, how: PlayOptions) -> Prediction:
    """The prediction with the sink groups that depend on the group, and with all caveats about it."""
    sinks, missing = simulate_sinks(
        group.snapshot, plan, group.sinks, draws=how["draws"], seed=how["seed"], is_out_of_time=how["is_out_of_time"]
    )
    missing = (*group.missing_sinks, *missing)
    caveats = (*prediction.caveats, *group.caveats, *(one.message for one in missing))
    return replace(prediction, caveats=caveats, sinks=sinks, missing_sinks=missing)


def _time_limit(timeout_ms: int | None) -> Callable[[], bool]:
    """A function that returns whether this time has passed since now."""
    started_s = time.monotonic()
    return lambda: timeout_ms is not None and (time.monotonic() - started_s) * 1000 >= timeout_ms


def _refuse_no_draws(draws: int) -> None:
    if draws < 1:
        raise UsageError(f"the number of draws is {draws}; the minimum is 1")
