"""Decides whether what happened is what was predicted. A plan says how long a restart takes. A real one takes longer,
on a busy machine much longer: then what was done was not the plan, and needs another prediction. So a run in which a
process was late is compared with predictions for the plan as it was carried out, with the shortest and with the longest
restart that was measured; any other run is compared with the prediction for the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan
from kgm.simulation.play.client_profiles import LONGEST_START_MS
from kgm.simulation.report.prediction import Prediction, Range
from kgm.simulation.simulation import Simulation
from tests.simulation.reality.case import Case, Outcome

#: How often an exact prediction is played to see how much its times vary.
_DRAWS = 40
COUNTS = ("generations", "rebalances", "moved_partitions", "handovers")


def plans_carried_out(outcome: Outcome) -> tuple[Plan, Plan]:
    """The plan with the shortest and with the longest times that were measured."""
    plan = outcome.plan
    restarts_ms = outcome.restarts_ms or (plan.restart_time_ms,)
    retries_ms = outcome.retries_ms or (plan.retry_every_ms,)
    quick, slow = (
        replace(plan, restart_time_ms=pick(restarts_ms), retry_every_ms=pick(retries_ms)) for pick in (min, max)
    )
    return quick, slow


def was_on_time(outcome: Outcome) -> bool:
    """Whether every process was ready to join as soon as predictions assume."""
    plan = outcome.plan
    late_ms = [restart_ms - plan.restart_time_ms for restart_ms in outcome.restarts_ms]
    late_ms += [retry_ms - (plan.retry_every_ms or 0) for retry_ms in outcome.retries_ms]
    return max(late_ms, default=0) <= LONGEST_START_MS


def predictions_for(outcome: Outcome) -> list[Prediction]:
    """The predictions with which the run is compared."""
    if was_on_time(outcome):
        return [outcome.prediction]
    return [simulate(outcome.before, plan) for plan in plans_carried_out(outcome)]


def assert_counts(case: Case, outcome: Outcome, predictions: Sequence[Prediction]) -> None:
    """Counts and owners are equal where the predictions are exact, and otherwise within their ranges."""
    story = "\n".join(outcome.story)
    for name in COUNTS:
        least, most = _span(predictions, name)
        value = getattr(outcome, name)
        assert least <= value <= most, (f"{name}: {value}, predicted {least} to {most}", story)
    refused = [prediction.typical.refused_joins for prediction in predictions]
    spread = 0 if case.retry_ms is None else 1  # one more if the session ends just after a start
    assert min(refused) - spread <= outcome.refused <= max(refused) + spread, story
    finals = [prediction.typical.final_assignment for prediction in predictions]
    is_certain = all(one.exact and not one.typical.has_random_ids for one in predictions)
    if is_certain and all(final == finals[0] for final in finals):
        owned = {who: {t: tuple(p) for t, p in topics.items() if p} for who, topics in finals[0].items()}
        assert outcome.final == owned, story


def _span(predictions: Sequence[Prediction], name: str) -> tuple[int, int]:
    """The lowest and the highest value that any of them predicts."""
    ranges = [_range(prediction, name) for prediction in predictions]
    return min(one.min for one in ranges), max(one.max for one in ranges)


def _range(prediction: Prediction, name: str) -> Range:
    if prediction.ranges is None:
        value = getattr(prediction.typical, name)
        return Range(min=value, median=value, max=value)
    drawn: Range = getattr(prediction.ranges, name)
    return drawn


def assert_stopped(case: Case, outcome: Outcome, predictions: Sequence[Prediction], heartbeat_ms: int) -> None:
    """Partitions had no consumer for about as long as predicted."""
    least, most = stopped_span_ms(outcome, predictions)
    # A member learns what it gets with its next heartbeat, which may be due immediately.
    sooner_ms = 1_000 + outcome.prediction.typical.moved_partitions * heartbeat_ms / 2
    # Each partition may be stopped for longer where this machine is slow after a process is ready to join.
    later_ms = case.partitions * case.topics * 1_000 * len(case.batches or (1,))
    assert 0.9 * least - sooner_ms <= outcome.stopped_partition_ms <= most + later_ms, "\n".join(outcome.story)


def stopped_span_ms(outcome: Outcome, predictions: Sequence[Prediction]) -> tuple[int, int]:
    """The fewest and the most partition-milliseconds without a consumer. Times are never exact: even where a prediction
    is otherwise exact, the plan as it was carried out is played many times."""
    spans = []
    for plan, prediction in zip(plans_carried_out(outcome), [*predictions, predictions[0]], strict=False):
        if prediction.ranges is not None:
            spans += [prediction.ranges.stopped_partition_ms.min, prediction.ranges.stopped_partition_ms.max]
        else:
            simulation = Simulation.of(outcome.before, plan)
            spans += [simulation.runner(number).play().stopped_partition_ms for number in range(_DRAWS)]
    return min(spans), max(spans)
