"""`kgm simulate-bounce`: what a planned bounce would do, in virtual time. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.group_names import GroupOption, maybe_group
from kgm.cli.options.plan_options import (
    PLAN_OPTIONS,
    Draws,
    FromFile,
    ReportFile,
    Seed,
    duration_of,
    gate_options,
    plan_options,
)
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.options.snapshots import described_group
from kgm.model.errors import ConditionNotMet, UsageError
from kgm.operations.bounce.gates import Gates
from kgm.operations.bounce.request import BounceRequest

if TYPE_CHECKING:
    from kgm.model.snapshot import TopicSnapshot
    from kgm.operations.bounce.prediction import PredictedBounce


@cluster_options
@plan_options(*PLAN_OPTIONS)
@gate_options
def simulate_bounce(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="A live group; kgm only reads it.")] = None,
    *,
    group_option: GroupOption = None,
    from_file: FromFile = None,
    members: Annotated[
        int | None, typer.Option("--members", metavar="N", help="A synthetic group of N members.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME:PARTITIONS", help="A topic of the synthetic group; repeatable."),
    ] = None,
    request: BounceRequest,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Also simulate static members, dynamic members, the cooperative assignor and the consumer protocol.",
        ),
    ] = False,
    gates: Gates,
    report_file: ReportFile = None,
    draws: Draws = 200,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="DURATION",
            help="CPU-time budget for each scenario (10s, and at least 3 draws).",
        ),
    ] = None,
    seed: Seed = 1,
    common: RunOptions,
) -> None:
    """Predict what a bounce would do to a group: rebalances, moved partitions, time without a consumer.

    MOVED counts the partitions whose owner at the end differs from the one at the start. HANDOVERS counts each time a
    partition passes from one member to another: away and back again is two handovers and no move. --fail-if-moves
    counts handovers, and also fails if more than N partitions move, including those left without a consumer. For
    Connect workers, each group of their sink connectors must stay within the limits, too. If partition counts or
    subscriptions could not be read, limits that hold exit 7.

    Processes restart one after another, as with kgm rollout, unless --max-unavailable or --together is given.

    The group is live (GROUP; kgm only reads it), a snapshot (--from-file), or synthetic (--members N --topic
    NAME:PARTITIONS), with up to 200000 partitions.

    Random outcomes are simulated on all cores, --draws times or as often as --budget allows. The budget counts
    simulated requests, so it gives the same result on every machine, and goes further with the extra `simulation`.
    Extra draws cover rare outcomes: for 20 draws, 10 with unusual timing, one led by each client library, and up to 40
    more while any extreme has been drawn only once. With fewer than five draws, tables show no ranges. What reading the
    group leaves of --timeout (30s) limits them too: the draws then end early, which depends on the machine, and a note
    says so; if not even one is done by then, there is no prediction (exit code 5).

    With --target-size or --pre-registered, a second scenario, `standby`, shows the plan on a broker that makes new
    members wait until all planned ones have joined. Apache Kafka cannot do this; `kgm serve` can. Gates apply to the
    first scenario, which is Apache Kafka."""
    from kgm.operations.bounce.group import made_up_group
    from kgm.operations.bounce.prediction import predict_bounce

    started_s = time.monotonic()
    where = None
    group_id = _one_source(group, group_option, from_file, members, topic)
    if members is None:
        bounce_group, where, _ = described_group(group_id, from_file, common)
    else:
        what_if = request.what_if
        bounce_group = made_up_group(
            members, [_topic(text) for text in topic or ()],
            membership=what_if.membership, assignor=what_if.assignor, protocol=what_if.protocol,
            library=what_if.library,
        )  # fmt: skip
    played = partial(
        predict_bounce, bounce_group, request, compares=compare, draws=draws, seed=seed,
        gates=gates, keeps_holdings=report_file is not None,
        budget_ms=duration_of(budget, "--budget"),
    )  # fmt: skip
    _show(_predicted(played, common, started_s), where, report_file, common)


def _predicted(played: Callable[..., PredictedBounce], common: RunOptions, started_s: float) -> PredictedBounce:
    """Simulate on all cores, with a line of progress, in what reading the group has left of the time. started_s: when
    the command began, on the monotonic clock."""
    from kgm.cli.output.progress import progress
    from kgm.simulation.draws.executor import ParallelDrawExecutor

    with progress(common, "simulating the plan, draw") as line, ParallelDrawExecutor(on_draw=line.count) as executor:
        left_ms = common.timeout_ms - round((time.monotonic() - started_s) * 1000)
        return played(timeout_ms=max(0, left_ms), executor=executor)


def _show(
    predicted: PredictedBounce, where: dict[str, str | None] | None, report_file: str | None, common: RunOptions
) -> None:
    """Write the report and the page. Exits 8 if a gate has failed, 7 if it is not known whether one has."""
    from kgm.cli.output.bounce_report import in_words, report
    from kgm.cli.output.failures import exit_with, print_error
    from kgm.cli.output.report import emit

    if report_file is not None:
        from kgm.cli.output.pages import page
        from kgm.cli.output.pages.bounce_page import bounce_page

        page.write(report_file, bounce_page(predicted, in_words(predicted.plan), where))
    emit(report(predicted, where), common)
    for error in predicted.failed_gates:
        print_error(error)
    if predicted.failed_gates:
        raise typer.Exit(ConditionNotMet.exit_code)
    exit_with([predicted.unread] if predicted.unread is not None else [], done=len(predicted.predictions))


# -- the group


def _one_source(
    group: str | None, option: str | None, from_file: str | None, members: int | None, topics: list[str] | None
) -> str | None:
    """The group id, if one is given. Raises UsageError unless the group comes from exactly one source."""
    group_id = maybe_group(group, option)
    if members is not None and (group_id is not None or from_file is not None):
        raise UsageError("--members creates a synthetic group, and cannot be combined with a group or a file")
    if members is None and topics:
        raise UsageError("--topic is for a synthetic group", hint="add --members N")
    if group_id is None and from_file is None and members is None:
        raise UsageError(
            "no group is given",
            hint="name a group, or give --from-file SNAPSHOT, or --members N --topic NAME:PARTITIONS",
        )
    return group_id


def _topic(text: str) -> TopicSnapshot:
    from kgm.model.snapshot import TopicSnapshot

    name, colon, partitions = text.rpartition(":")
    if not colon or not name or not partitions.isdecimal():
        raise UsageError(f"--topic: {text!r} is not NAME:PARTITIONS", hint="--topic orders:12")
    return TopicSnapshot(name=name, partitions=int(partitions))
