"""`kgm plan`: search for the cheapest way to restart members of a group. Changes nothing."""

from __future__ import annotations

import pathlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.invocation import cluster_words
from kgm.cli.options.group_names import GroupOption, maybe_group
from kgm.cli.options.plan_options import (
    Draws,
    FromFile,
    Seed,
    choice_of,
    duration_of,
    plan_option,
    plan_options,
    words_of,
)
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options_with
from kgm.cli.options.snapshots import described_group
from kgm.model.errors import ConditionNotMet, KgmError, UsageError
from kgm.operations.bounce.request import BounceRequest
from kgm.text.durations import parse_duration
from kgm.text.shell import shell_line
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.cli.output.plan_report import PlanOutput
    from kgm.operations.bounce.group import BounceGroup
    from kgm.operations.plan.costs import Objective
    from kgm.operations.plan.search import FoundPlan, FoundPlans, PlanTask
    from kgm.operations.plan.session_advice import SessionAdvice


@cluster_options_with("Time limit for reading the group (30s), and, if given on the command line, for the search.")
@plan_options(
    "instance_ids",
    "member_ids",
    "patterns",
    "everyone",
    "restart_time_ms",
    "stop",
    "unit",
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "assignor",
    "library",
    "settings",
)
def plan(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="A live group; kgm only reads it.")] = None,
    *,
    group_option: GroupOption = None,
    from_file: FromFile = None,
    request: BounceRequest,
    restart_times: Annotated[
        str | None,
        typer.Option(
            "--restart-times", metavar="DURATION,...|FILE",
            help="Measured restart times, instead of --restart-time; also advises on the session timeout.",
        ),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(
            "--history", metavar="DIR", help="Like --restart-times, with the restarts of the group in a built history."
        ),
    ] = None,
    minimise: Annotated[
        str,
        typer.Option(
            "--minimize", "--minimise", metavar="WHAT",
            help="What to minimize: stopped | handovers | rebalances | duration.",
        ),
    ] = "handovers",
    max_duration: Annotated[
        str | None, typer.Option("--max-duration", metavar="DURATION", help="The maximum duration of a plan.")
    ] = None,
    max_unavailable: Annotated[int | None, plan_option("max_unavailable")] = None,
    keep_consuming: Annotated[
        str | None,
        typer.Option("--keep-consuming", metavar="PERCENT", help="Partitions that must always have a consumer."),
    ] = None,
    pause: Annotated[
        list[str] | None,
        typer.Option("--pause", metavar="DURATION", help="Pauses between batches to try; repeatable (0s, 30s, 60s)."),
    ] = None,
    command: Annotated[
        str, typer.Option("--exec", metavar="CMD", help="The command to put in the kgm rollout lines that are printed.")
    ] = "CMD",
    stop_command: Annotated[
        str, typer.Option("--exec-stop", metavar="CMD", help="The stop command to put in lines with --remove-first.")
    ] = "STOP-CMD",
    assume_stopped: Annotated[
        bool, typer.Option("--assume-stopped", help="Add this option to lines with --remove-first; see kgm rollout.")
    ] = False,
    budget: Annotated[
        str, typer.Option("--budget", metavar="DURATION", help="CPU-time budget for the search.")
    ] = "30s",
    draws: Draws = 20,
    seed: Seed = 1,
    common: RunOptions,
) -> None:  # fmt: skip
    """Search for the cheapest way to restart members: the size, order and pauses of batches, or all together.

    All members restart, unless some are named. They restart one by one, unless --max-unavailable allows more.

    Each plan is simulated as in kgm simulate-bounce. If members stay in the group when they stop (static, or killed),
    each plan is also tried with --remove-first, so that their partitions do not wait for the session timeout. kgm
    prints the plans that no other plan beats: no other is better in one of STOPPED, HANDOVERS, REBALANCES and DURATION
    without being worse in another (times that differ by 5% or less count as equal). If members can restart one by one
    without a handover, that plan is always among them. The plan with the lowest --minimize comes first, and each is
    printed with the kgm rollout line that runs it. What-ifs show the best plan if the group were configured
    differently, for example with a session timeout longer than the restart. Changes nothing.

    --max-duration and --keep-consuming must hold in every draw; if no plan meets them, the exit code is 8 and the
    closest plan is shown. If one meets them, but partition counts or subscriptions could not be read, the exit code is
    7. A classic group without cooperative members stops all partitions in every rebalance, however short.

    Each plan is simulated --draws times; the plans that are printed are simulated that many times again, with extra
    draws for rare outcomes. --budget counts simulated requests; --timeout, if it is given, ends the
    search early.

    --restart-times takes measured restart times, such as 20s,25s,90s or a file with one per line; --history takes the
    restart times found by kgm history build, and exits 6 if it is about another cluster. For static members, kgm also
    shows the shortest session timeout with which the plan moves nothing in 99 of 100 runs, and how long partitions
    would then be stopped if a member died."""
    from kgm.cli.output.plan_report import PlanOutput
    from kgm.operations.plan.costs import PlanLimits
    from kgm.operations.plan.search import PlanTask
    from kgm.operations.plan.session_advice import restart_times_of

    limit = _TimeLimit(common)
    _refuse_low({"--draws": draws, "--max-unavailable": max_unavailable})
    objective, budget_ms = _objective(minimise), parse_duration(budget, "--budget")
    longest_ms, percent = duration_of(max_duration, "--max-duration"), _percent(keep_consuming)
    pauses_ms, times_ms = _pauses(pause), _restart_times(restart_times, history)
    bounce_group, where, cluster_id = described_group(maybe_group(group, group_option), from_file, common)
    if history is not None:
        times_ms = restart_times_of(history, bounce_group.snapshot.group_id, cluster_id)
    request = replace(
        request,
        everyone=request.everyone or not (request.instance_ids or request.member_ids or request.patterns),
        restart_time_ms=max(times_ms, default=request.restart_time_ms),
        restart_times_ms=times_ms,
    )
    task = PlanTask(
        group=bounce_group, request=request, objective=objective, max_unavailable=max_unavailable or 1,
        pauses_ms=pauses_ms, limits=PlanLimits(duration_ms=longest_ms, consumed_percent=percent),
    )  # fmt: skip
    found, is_late = _searched(task, budget_ms, draws, seed, common, limit)
    _show(
        PlanOutput(
            found=found, where=where, draws=draws, seed=seed, budget_ms=budget_ms, failure=_failure(found, task),
            rollout=lambda one: _rollout(
                one, found, request, _commands(one, command, stop_command, assume_stopped=assume_stopped)
            ),
            advice=None if not times_ms or is_late else _advice(bounce_group, found, seed), is_out_of_time=is_late,
        ),
        common,
    )  # fmt: skip


def _searched(
    task: PlanTask, budget_ms: int, draws: int, seed: int, common: RunOptions, limit: _TimeLimit
) -> tuple[FoundPlans, bool]:  # fmt: skip
    """What was found, and whether --timeout ended the search."""
    from kgm.cli.output.progress import progress
    from kgm.operations.plan.search import find_plans
    from kgm.simulation.draws.executor import ParallelDrawExecutor

    with progress(common, "trying plans") as line, ParallelDrawExecutor() as executor:
        found = find_plans(
            task, budget_ms=budget_ms, draws=draws, seed=seed, is_out_of_time=limit.has_passed,
            on_shape=line.count, executor=executor,
        )  # fmt: skip
    return found, limit.has_ended_something


class _TimeLimit:
    """--timeout, counted from here on. has_ended_something: whether it has passed, or the share of it, when asked."""

    def __init__(self, common: RunOptions) -> None:
        self._started_s, self._limit_ms = time.monotonic(), common.given_timeout_ms
        self.has_ended_something = False

    def has_passed(self, share: float) -> bool:
        spent_ms = (time.monotonic() - self._started_s) * 1000
        is_over = self._limit_ms is not None and spent_ms >= self._limit_ms * share
        self.has_ended_something = self.has_ended_something or is_over
        return is_over


def _advice(group: BounceGroup, found: FoundPlans, seed: int) -> SessionAdvice | None:
    """Advice on the session timeout; for a group with only dynamic members, None and a warning that says why."""
    from kgm.cli.output.failures import print_warning
    from kgm.operations.plan.session_advice import advise

    best = found.plans[0] if found.plans else found.closest
    assert best is not None
    try:
        return advise(group, replace(found.base, rolling=best.shape.rolling, bounce=best.shape.bounce), seed=seed)
    except UsageError as error:
        print_warning(error.message)
        return None


def _doubt(best: FoundPlan, task: PlanTask) -> KgmError | None:
    """Why the plan may not meet the limits after all."""
    unread = task.group.unread(best.prediction)
    if unread is None and best.prediction.stopped_partition_range_ms.is_open:
        return ConditionNotMet(
            "the plan may not meet the limits: processes may join later than in all draws",
            facts=best.prediction.caveats, group_id=task.group.snapshot.group_id,
        )  # fmt: skip
    return unread


def _failure(found: FoundPlans, task: PlanTask) -> KgmError | None:
    """Why no plan meets the limits, or why it is not known whether one does."""
    if found.plans:
        return _doubt(found.plans[0], task) if task.limits.are_set else None
    tried = f"{many(found.tried, 'way')} tried" + ("" if found.is_complete else f", of {found.ways}")
    others = [f"with {one.change}: {' '.join(one.best.shape.words)}" for one in found.what_ifs if not one.exceeded]
    return ConditionNotMet(
        f"no plan meets the limits: {', '.join(found.closest_exceeds)}",
        facts=[tried, *others],
        group_id=found.group.group_id,
    )


def _show(output: PlanOutput, common: RunOptions) -> None:
    from kgm.cli.output.failures import print_error
    from kgm.cli.output.plan_report import report
    from kgm.cli.output.report import emit

    emit(report(output), common)
    if output.failure is not None:
        print_error(output.failure)
        raise typer.Exit(output.failure.exit_code)


def _commands(one: FoundPlan, command: str, stop_command: str, *, assume_stopped: bool) -> list[str]:
    if not one.shape.removes_first:
        return ["--exec", command]
    return ["--exec-stop", stop_command, "--exec", command, *(["--assume-stopped"] if assume_stopped else [])]


def _rollout(one: FoundPlan, found: FoundPlans, request: BounceRequest, commands: list[str]) -> str:
    """The command that runs a plan."""
    group_id = found.group.group_id
    words = ["kgm", "rollout", *([f"--group={group_id}"] if group_id.startswith("-") else [group_id])]
    return shell_line([*words, *words_of(request), *one.shape.words, *commands, *cluster_words()])


# -- options parsed into values


def _refuse_low(numbers: dict[str, int | None]) -> None:
    for option, number in numbers.items():
        if number is not None and number < 1:
            raise UsageError(f"{option} is {number}; the minimum is 1")


def _objective(text: str) -> Objective:
    from kgm.operations.plan.costs import Objective

    return choice_of(Objective, "handovers" if text == "moves" else text, "--minimize")


def _percent(text: str | None) -> int | None:
    """The number in `90%` or `90`; None if not given. Raises UsageError."""
    if text is None:
        return None
    digits = text.strip().removesuffix("%")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 3 and int(digits) <= 100):
        raise UsageError(f"--keep-consuming: {text!r} is not a percentage", hint="--keep-consuming 90%")
    return int(digits)


def _pauses(texts: list[str] | None) -> tuple[int, ...]:
    """The pauses to try, in ms: the given ones and no pause, or the defaults."""
    from kgm.operations.plan.shapes import PAUSES_MS

    return PAUSES_MS if texts is None else (0, *(parse_duration(text, "--pause") for text in texts))


def _restart_times(text: str | None, history: str | None) -> tuple[int, ...]:
    """Restart times in ms, from a list or a file; empty if neither is given. Raises UsageError."""
    from kgm.operations.plan.session_advice import read_restart_times
    from kgm.text.input_files import MOST_SETTINGS_BYTES, read_input

    if text is not None and history is not None:
        raise UsageError("--restart-times and --history exclude each other")
    if text is None:
        return ()
    try:
        if pathlib.Path(text).exists():
            return read_restart_times(read_input(text, MOST_SETTINGS_BYTES).decode("utf-8"), "--restart-times")
    except (OSError, UnicodeDecodeError) as error:
        facts = (error.strerror,) if isinstance(error, OSError) and error.strerror else ()
        raise UsageError(f"--restart-times: file {text} cannot be read", facts=facts) from error
    return read_restart_times(text, "--restart-times")
