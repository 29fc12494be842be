"""The output of `kgm simulate-bounce`: a row for each scenario, the moves, and the timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kgm.cli.output.report import Cell, Column, Report, Table, with_range
from kgm.text.durations import show_duration
from kgm.text.wording import many, partitions_text

if TYPE_CHECKING:
    from kgm.operations.bounce.prediction import PredictedBounce
    from kgm.simulation.plan.bounce_plan import Plan
    from kgm.simulation.report.prediction import Prediction, Range, SinkForecast

SCHEMA = "kgm.simulate-bounce/v1"
_MOVES_SHOWN = 40
_EVENTS_SHOWN = 40
_STOPPED_NOTE = "STOPPED: partition-seconds without a consumer; 2 (1-3) is typical (min-max)"
_HANDOVERS_NOTE = (
    "MOVED: partitions with another owner at the end; HANDOVERS: how often one passes to another consumer along the way"
)
_WAIT_NOTE = "NEW WAIT: the longest time from the start of a new member to its first partitions"
_REFUSED_NOTE = "REFUSED: starts that the broker refused"
_CONSUMER_NOTE = (
    "With the consumer protocol, REBALANCES counts target assignments and GENERATIONS counts group epochs; only "
    "partitions that move stop"
)
_SINKS_NOTE = (
    "STOP: tasks of workers that stop; UNOWNED: partitions without a consumer for a while; LONGEST: the longest such "
    "time; UNTIL: when all have a consumer for good; which task gets a partition is never certain"
)
_ORDERS = {
    "named": "in the order named",
    "id": "in the order of their ids",
    "host": "in the order of their hosts",
    "client-id": "in the order of their client ids",
    "partitions": "fewest partitions first",
    "leader-last": "leader last",
}


def report(predicted: PredictedBounce, where: dict[str, str | None] | None) -> Report:
    """The report. where: the `cluster` of the envelope."""
    predictions = predicted.predictions
    jsons = [prediction.to_json() for prediction in predictions]
    keys = _keys(predicted)
    data = {"group_id": predicted.group.group_id, "plan": predicted.plan.to_json(), "scenarios": jsons}
    return Report(
        schema=SCHEMA,
        data=data,
        tables=[
            _summary(predicted, keys),
            *sink_tables(predictions[0].sinks, predicted.group.group_id),
            *_moves(predictions[0]),
            *(_timeline(prediction) for prediction in (predictions[0], *_standby(predictions))),
        ],
        keys=keys,
        names=[prediction.name for prediction in predictions],
        items=jsons,
        rows=map(row, predictions, jsons),
        cluster=where,
        errors=predicted.all_errors,
    )


def _keys(predicted: PredictedBounce) -> list[str]:
    """The columns of csv and tsv."""
    predictions = predicted.predictions
    is_mixed = len({prediction.protocol for prediction in predictions}) > 1
    has_refused = any(prediction.typical.refused_joins for prediction in predictions)
    return [
        "name", *(["protocol"] if is_mixed else []), "assignor",
        *spread_keys("rebalances", "generations", "moved_partitions", "handovers"),
        *(["newcomers_wait_ms"] if predicted.plan.scale_out else []), *(["refused_joins"] if has_refused else []),
        "exact", "draws",
    ]  # fmt: skip


def spread_keys(*names: str) -> list[str]:
    """The columns of these numbers, and of the time without a consumer, with their ranges."""
    spreads = {name: f"ranges.{name}" for name in names} | {"stopped_partition_ms": "stopped_partition_range_ms"}
    return [
        key for name, of in spreads.items() for key in (name, f"{name}_min={of}.min", f"{name}_max={of}.max")
    ]  # fmt: skip


def row(prediction: Prediction, item: dict[str, Any]) -> dict[str, Any]:
    """The row of a prediction: its object without ranges that say too little."""
    return item if prediction.meaningful_ranges else {**item, "ranges": None}


def sink_tables(sinks: Sequence[SinkForecast], group_id: str | None = None) -> list[Table]:
    """What happens to the groups of sink connectors. group_id: the group of their Connect workers, for a heading."""
    if not sinks:
        return []
    columns = [
        Column(title="SINK GROUP"),
        Column(title="TASKS", right=True),
        Column(title="STOP", right=True),
        Column(title="REBALANCES", right=True),
        Column(title="GENERATIONS", right=True, wide=True),
        Column(title="MOVED", right=True),
        Column(title="HANDOVERS", right=True),
        Column(title="STOPPED", right=True),
        Column(title="UNOWNED", right=True),
        Column(title="LONGEST", right=True),
        Column(title="UNTIL", right=True),
        Column(title="PARTITIONS", wide=True),
    ]
    rows: list[list[Cell]] = [
        [
            one.group_id,
            one.tasks,
            len(one.stopping_tasks),
            with_range(one.rebalances.median, one.rebalances),
            with_range(one.generations.median, one.generations),
            with_range(one.moved_partitions.median, one.moved_partitions),
            with_range(one.handovers.median, one.handovers),
            _span(one.stopped_partition_ms),
            len(one.unowned_partitions),
            _span(one.longest_ms) if one.unowned_partitions else None,
            None if not one.unowned_partitions else "no owner left" if one.until_ms is None else _span(one.until_ms),
            partitions_text(one.unowned_by_topic) or None,
        ]
        for one in sinks
    ]
    notes = [f"note ({one.group_id}): {caveat}" for one in sinks for caveat in one.caveats]
    heading = None if group_id is None else f"sink groups of {group_id}"
    return [Table(columns=columns, rows=rows, heading=heading, notes=[_SINKS_NOTE, *notes])]


def _span(span_ms: Range) -> str:
    least, usual, most = (f"{each / 1000:.1f}" for each in (span_ms.min, span_ms.median, span_ms.max))
    return f"{usual}s ({least}-{most})" if least != most else f"{usual}s"


def _summary(predicted: PredictedBounce, keys: Sequence[str]) -> Table:
    predictions = predicted.predictions
    is_mixed, has_new, has_refused = (key in keys for key in ("protocol", "newcomers_wait_ms", "refused_joins"))
    counts = ("REBALANCES", "GENERATIONS", "MOVED", "HANDOVERS", "STOPPED")
    columns = [
        Column(title="SCENARIO"),
        *([Column(title="PROTOCOL")] if is_mixed else []),
        Column(title="ASSIGNOR"),
        *(Column(title=title, right=True) for title in counts),
        *([Column(title="NEW WAIT", right=True)] if has_new else []),
        *([Column(title="REFUSED", right=True)] if has_refused else []),
        Column(title="EXACT"),
        Column(title="DRAWS", wide=True, right=True),
    ]
    rows: list[list[Cell]] = []
    for prediction in predictions:
        typical, ranges = prediction.typical, prediction.meaningful_ranges
        rows.append(
            [
                prediction.name,
                *([prediction.protocol] if is_mixed else []),
                prediction.assignor,
                with_range(typical.rebalances, ranges.rebalances if ranges else None),
                with_range(typical.generations, ranges.generations if ranges else None),
                with_range(typical.moved_partitions, ranges.moved_partitions if ranges else None),
                with_range(typical.handovers, ranges.handovers if ranges else None),
                stopped_text(prediction),
                *([_seconds(typical.newcomers_wait_ms)] if has_new else []),
                *([typical.refused_joins] if has_refused else []),
                exact_text(prediction),
                prediction.draws,
            ]
        )
    has_handovers = any(_most_handovers(prediction) for prediction in predictions)
    notes = [*([_HANDOVERS_NOTE] if has_handovers else []), _STOPPED_NOTE]
    notes += [_WAIT_NOTE] if has_new else []
    notes += [_CONSUMER_NOTE] if any(prediction.protocol == "consumer" for prediction in predictions) else []
    notes += [_REFUSED_NOTE] if has_refused else []
    notes += [f"note: {caveat}" for caveat in predictions[0].caveats]
    notes += [
        f"note ({prediction.name}): {caveat}"
        for prediction in _standby(predictions)
        for caveat in prediction.caveats
        if caveat not in predictions[0].caveats
    ]
    notes += [f"not compared: {message}" for message in dict.fromkeys(one.message for one in predicted.errors)]
    heading = f"{predicted.group.group_id}  {in_words(predicted.plan)}"
    return Table(columns=columns, rows=rows, heading=heading, notes=notes)


def _most_handovers(prediction: Prediction) -> int:
    return prediction.typical.handovers if prediction.ranges is None else prediction.ranges.handovers.max


def _standby(predictions: Sequence[Prediction]) -> list[Prediction]:
    return [prediction for prediction in predictions if prediction.name == "standby"]


def _seconds(span_ms: int | None) -> str | None:
    return None if span_ms is None else f"{span_ms / 1000:.1f}s"


def stopped_text(prediction: Prediction) -> str:
    """The time without a consumer, with its range."""
    typical, drawn = prediction.typical.stopped_partition_ms, prediction.stopped_partition_range_ms
    shown, least, most = (f"{span_ms / 1000:.1f}" for span_ms in (typical, drawn.min, drawn.max))
    if drawn.is_open:
        return f"{shown}s ({least}-?)"
    return f"{shown}s ({least}-{most})" if drawn.is_meaningful and least != most else f"{shown}s"


def exact_text(prediction: Prediction) -> str:
    """Whether the prediction is exact; if not, the number of draws that it is based on."""
    return "yes" if prediction.exact else f"no, {many(prediction.draws, 'draw')}"


def in_words(plan: Plan) -> str:
    """The plan as one line: `3 members restart (...), 2 join, 2 leave for good, 1 is removed`."""
    every = f" (one every {show_duration(plan.scale_out_every_ms)})" if plan.scale_out_every_ms else ""
    parts = [
        (len(plan.bounce), "restarts", "restart", f" ({_how(plan)})"),
        (plan.scale_out, "joins", "join", every),
        (len(plan.scale_in), "leaves for good", "leave for good", ""),
        (len(plan.remove), "is removed", "are removed", ""),
    ]
    texts: list[str] = []
    for count, singular, plural, detail in parts:
        if count:
            noun = "" if texts else " member" if count == 1 else " members"
            texts.append(f"{count}{noun} {singular if count == 1 else plural}{detail}")
    return ", ".join(texts)


def _how(plan: Plan) -> str:
    """How members restart, in words."""
    parts = ["together"] if len(plan.bounce) > 1 else []
    if plan.rolling is not None and len(plan.bounce) > 1:
        at_once = plan.rolling.max_unavailable
        what = "" if not plan.units else " process" if at_once == 1 else " processes"
        parts = ["rolling", f"{at_once}{what} at a time", _ORDERS[plan.order.value]]
    parts += [f"{plan.stop.value} stop", f"back after {show_duration(plan.restart_time_ms)}"]
    if plan.remove_first:
        parts.insert(-1, "removed by one LeaveGroup")
    if plan.migrate:
        parts[-1] += " with the consumer protocol"
    if plan.retry_every_ms is not None:
        parts.append(f"refused ones retry every {show_duration(plan.retry_every_ms)}")
    return ", ".join(parts)


def _moves(prediction: Prediction) -> list[Table]:
    columns = [
        Column(title="TOPIC"),
        Column(title="PARTITION", right=True),
        Column(title="FROM"),
        Column(title="TO"),
        Column(title="AT", right=True),
    ]
    moves = prediction.typical.moves
    rows: list[list[Cell]] = [
        [move.topic, move.partition, move.owner_before, move.owner_after, f"{move.at_ms / 1000:.1f}s"]
        for move in moves[:_MOVES_SHOWN]
    ]
    return [Table(columns=columns, rows=rows, heading="moves", notes=_more(moves, _MOVES_SHOWN))] if moves else []


def _timeline(prediction: Prediction) -> Table:
    columns = [Column(title="AT", right=True), Column(title="EVENT"), Column(title="MEMBER"), Column(title="DETAIL")]
    events = prediction.typical.timeline
    rows: list[list[Cell]] = [
        [f"{event.at_ms / 1000:.1f}s", event.event, event.member, event.detail] for event in events[:_EVENTS_SHOWN]
    ]
    heading = "timeline" if prediction.name == "as-is" else f"timeline of {prediction.name}"
    return Table(columns=columns, rows=rows, heading=heading, notes=_more(events, _EVENTS_SHOWN))


def _more(rows: Sequence[object], shown: int) -> list[str]:
    return [f"and {len(rows) - shown} more; -o json shows all"] if len(rows) > shown else []
