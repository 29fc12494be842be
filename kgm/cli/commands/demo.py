"""`kgm demo`: the main workflow, end to end, with nothing but kgm installed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import output_options
from kgm.cli.output.streams import write_stdout
from kgm.model.errors import KgmError
from kgm.text.sanitize import clean
from kgm.text.wording import many, moves_text

if TYPE_CHECKING:
    from kgm.model.snapshot import GroupSnapshot
    from kgm.operations.demo.demo import BouncePredicted, DemoStep, Effect, PredictionCheck
    from kgm.operations.history.explanation import Explanation
    from kgm.operations.removal.outcome import MemberResult
    from kgm.simulation.report.prediction import Prediction

SCHEMA = "kgm.demo/v1"
#: The columns of csv, tsv and Markdown: a row for each check.
_COLUMNS = {
    "name": "CHECK", "predicted.rebalances": "REBALANCES PREDICTED", "predicted.moves": "MOVES PREDICTED",
    "actual.rebalances": "REBALANCES", "actual.moves": "MOVES", "holds": "HOLDS",
}  # fmt: skip


@output_options
def demo(*, options: RunOptions) -> None:
    """Demonstrate kgm end to end on the embedded coordinator.

    Real librdkafka consumers form a static group. kgm describes it, predicts a bounce, bounces a consumer and compares;
    refuses to remove a member that is alive; removes one that has stopped, again with a prediction; and explains the
    group's last rebalance. Takes about half a minute and changes nothing on any cluster. The consumers need an extra:
    pip install 'kafka-kgm[demo]'."""
    from kgm.operations.demo.demo import BounceDone, GroupFormed, RemovalDone, run_demo

    checks: list[PredictionCheck] = []
    snapshots: list[GroupSnapshot] = []
    with closing(run_demo()) as steps:  # type: ignore[type-var]
        for step in steps:
            if not options.is_data:
                _print(_text_of(step, options))
            if isinstance(step, GroupFormed | BounceDone | RemovalDone):
                snapshots.append(step.snapshot)
            if isinstance(step, BounceDone | RemovalDone):
                checks.append(step.check)
    if options.is_data:
        _emit(checks, snapshots, options)
    wrong = [check.name for check in checks if not check.holds]
    if wrong:  # the worst bug that kgm can have
        raise KgmError(f"the demo's prediction was wrong for: {', '.join(wrong)}", hint="please report this as a bug")
    if not options.is_data:
        _print("Everything happened as predicted. Next: kgm serve, or kgm list -b HOST:PORT on your own cluster.")


def _emit(checks: list[PredictionCheck], snapshots: list[GroupSnapshot], options: RunOptions) -> None:
    from kgm.cli.output.contracts.demo import check_json
    from kgm.cli.output.contracts.groups import snapshot_json
    from kgm.cli.output.report import Report, emit, object_table

    items = [check_json(check) for check in checks]
    data = {"checks": items, "groups": [snapshot_json(snapshot) for snapshot in snapshots]}
    emit(
        Report(
            schema=SCHEMA, data=data, tables=[object_table(_COLUMNS, items)], keys=[*_COLUMNS], items=items,
            names=[check.name for check in checks],
        ),
        options,
    )  # fmt: skip


# -- what is printed for people


def _print(text: str) -> None:
    write_stdout("".join(clean(line) + "\n" for line in text.split("\n")))


def _text_of(step: DemoStep, options: RunOptions) -> str:
    from kgm.operations.demo.demo import (
        GROUP,
        GUARD_WINDOW_MS,
        BounceDone,
        BouncePredicted,
        CoordinatorStarted,
        GroupFormed,
        HistoryAsked,
        MemberRemoved,
        MemberStopped,
        RemovalDone,
        RemovalRefused,
    )

    remove = f"kgm remove-members {GROUP} --instance-ids"

    match step:
        case CoordinatorStarted():
            return (
                f"1. An embedded coordinator listens on {step.bootstrap}; three consumers (librdkafka) join group\n"
                f"   {GROUP!r} as static members: each has a group.instance.id.\n"
            )
        case GroupFormed():
            return f"   $ kgm describe {GROUP}\n{_members(step.snapshot, options)}"
        case BouncePredicted():
            return _prediction(step, GROUP)
        case BounceDone():
            return f"{_comparison(step.check)}\n   The other members had to give up {step.lost_by_others} partitions.\n"
        case RemovalRefused():
            return (
                "4. No member is removed by mistake: kgm first looks for signs of life, in committed offsets and in\n"
                "   the group's records in __consumer_offsets.\n\n"
                f"   $ {remove} {step.instance_id} --yes\n{_results(step.results)}"
            )
        case MemberStopped():
            return (
                f"5. {step.instance_id} stops for good. It would stay in the group until its session expires;\n"
                "   a removal frees its partitions immediately. kgm watches until its silence is proof: records\n"
                "   arrive, and it has missed the commits that the group's records show it used to make.\n\n"
                f"   $ {remove} {step.instance_id} --guard-window {GUARD_WINDOW_MS // 1000}s --yes"
            )
        case MemberRemoved():
            return _results(step.results)
        case RemovalDone():
            return f"{_comparison(step.check)}\n\n   $ kgm describe {GROUP}\n{_members(step.snapshot, options)}"
        case HistoryAsked():
            return f"6. Why did the group last rebalance? Its records say.\n\n{_history(step.explanation, options)}"


def _results(results: Sequence[MemberResult]) -> str:
    return "".join(
        f"   {one.target.id}  {one.result.value}  {one.liveness.verdict.value}: {one.liveness.why}\n" for one in results
    )


def _history(explanation: Explanation | None, options: RunOptions) -> str:
    from kgm.cli.output.history.rebalance_detail import rebalance_detail
    from kgm.cli.output.report import Report, rendered
    from kgm.model.distribution import install_command
    from kgm.operations.demo.demo import GROUP

    if explanation is None or explanation.rebalance is None:
        return f"   kgm history explain {GROUP}  needs an extra: {install_command('history')}\n"
    table = rebalance_detail(explanation.rebalance, explanation.moves)
    return f"   $ kgm history explain {GROUP}\n{rendered(Report(schema=SCHEMA, data={}, tables=[table]), options)}"


def _prediction(step: BouncePredicted, group_id: str) -> str:
    seconds = step.restart_time_ms / 1000
    return (
        f"2. What would a restart of {step.instance_id} do, if it is back within its session timeout?\n\n"
        f"   $ kgm simulate-bounce {group_id} --instance-ids {step.instance_id} --restart-time {seconds:g}s --compare\n"
        f"   {'as is (static)':<16} {_summary(step.static)}\n"
        f"   {'if dynamic':<16} {_summary(step.dynamic)}\n\n"
        "3. Now the real bounce.\n"
    )


def _summary(prediction: Prediction) -> str:
    typical = prediction.typical
    seconds = typical.stopped_partition_ms / 1000
    certainty = "exact" if prediction.exact else "typical of many draws"
    return (
        f"{many(typical.rebalances, 'rebalance')}, {many(typical.moved_partitions, 'move')}, "
        f"{seconds:.1f} partition-seconds without a consumer ({certainty})"
    )


def _comparison(check: PredictionCheck) -> str:
    return (
        f"   predicted  {_effect(check.predicted)}\n"
        f"   happened   {_effect(check.actual)}\n"
        f"   -> {'the prediction held' if check.holds else 'THE PREDICTION WAS WRONG'}"
    )


def _effect(effect: Effect) -> str:
    shown = f": {moves_text(effect.moves)}" if effect.moves else ""
    return f"{many(effect.rebalances, 'rebalance')}, {many(len(effect.moves), 'move')}{shown}"


def _members(snapshot: GroupSnapshot, options: RunOptions) -> str:
    from kgm.cli.output.groups.tables import members_table
    from kgm.cli.output.report import Report, rendered

    return rendered(Report(schema=SCHEMA, data={}, tables=[members_table(snapshot)]), options)
