"""`kgm drain`: what removing the members on a host does to each group of a cluster. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.group_names import GroupsOption
from kgm.cli.options.plan_options import (
    FromFile,
    ReportFile,
    Seed,
    duration_of,
    gate_options,
    plan_option,
    plan_options,
    words_of,
)
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options_with
from kgm.cli.options.words import listed_ids
from kgm.model.errors import ConditionNotMet, UsageError
from kgm.operations.bounce.gates import Gates
from kgm.operations.bounce.request import BounceRequest
from kgm.text.wording import group_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgm.operations.drain.fleet import DrainedFleet
    from kgm.operations.drain.forecast import Drain, DrainedGroup, DrainForecast, UnpredictedGroup
    from kgm.operations.drain.target import DrainTarget

Where = dict[str, str | None] | None


@cluster_options_with("Time limit for reading groups (30s), and, if given on the command line, for their simulation.")
@plan_options("stop", "session_timeout_ms", "assignor", "library", "settings")
@gate_options
def drain(
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="[GROUP]...", help="Only these groups; all by default.")
    ] = None,
    *,
    group: GroupsOption = None,
    from_file: FromFile = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host", metavar="HOST", help="Members on this host: a name, an address, a glob, 10.0.3.0/24; or a,b."
        ),
    ] = None,
    client_id: Annotated[
        list[str] | None,
        typer.Option("--client-id", metavar="GLOB", help="Members whose client id matches; repeatable."),
    ] = None,
    rack: Annotated[list[str] | None, typer.Option("--rack", metavar="RACK", help="Members in this rack.")] = None,
    match_members: Annotated[
        list[str] | None,
        typer.Option(
            "--match-members",
            "--match",
            metavar="GLOB",
            help="Members whose instance id (or member id) matches; repeatable.",
        ),
    ] = None,
    for_good: Annotated[bool, typer.Option("--for-good", help="The members do not come back (the default).")] = False,
    restart_time: Annotated[str | None, plan_option("restart_time_ms")] = None,
    request: BounceRequest,
    gates: Gates,
    report_file: ReportFile = None,
    draws: Annotated[
        int | None,
        typer.Option("--draws", metavar="N", help="Random runs of each group (20; 200 to see if it keeps the limits)."),
    ] = None,
    seed: Seed = 1,
    common: RunOptions,
) -> None:  # fmt: skip
    """Forecast what draining hosts does to every group: rebalances, handovers, time without a consumer.

    The members on the hosts stop at the same time, for good or for --restart-time. Each group with members there is
    simulated as in kgm simulate-bounce, the group of a sink connector along with its Connect workers, but in 20
    draws instead of 200: rare outcomes can be missing. A group that keeps the limits (--fail-if-...) in 20 draws is
    simulated in 200 to see whether it really does, unless --draws is given. The groups
    with the highest cost come first: those whose partitions have no owner left, then by STOPPED, the total time
    that partitions have no consumer. A group is `empty` when no member is left, and `thin` when at most half of the
    members that can have partitions are left. A group that cannot be simulated or described, or is not reached
    before --timeout (if it is given), is listed with the reason. With -o ndjson, each group is printed as soon as
    it is predicted, not ranked. Brokers on the hosts or in the racks are assumed to keep running; a note says so
    where that matters (client.rack).
    Changes nothing.

    Repeating an option selects more members; different options narrow the selection: --host A --host B --client-id
    'app-*' selects the members on A or B whose client id matches. Exits 3 if no group has such a member, and 7 if a
    group cannot be described or one of the values matches no member. A group that cannot be simulated fails all gates
    (exit 8); one that cannot be described fails none, and exits 7 unless another group fails one. Gates that hold exit
    7 if groups may be invisible, because none is named and this login has no DESCRIBE on the cluster, or if partition
    counts or subscriptions could not be read. With --from-file, what the login could not read that took the snapshot
    counts in the same way."""
    from kgm.operations.drain.forecast import Drain
    from kgm.operations.drain.target import DrainTarget, with_addresses

    if for_good and restart_time is not None:
        raise UsageError("--for-good and --restart-time exclude each other")
    if draws is not None and draws < 1:
        raise UsageError(f"--draws is {draws}; the minimum is 1")
    target = DrainTarget(
        hosts=with_addresses(listed_ids(host, "--host")), client_ids=tuple(client_id or ()), racks=tuple(rack or ()),
        identities=tuple(match_members or ()),
    )  # fmt: skip
    planned = Drain(
        target=target, stop=request.stop, restart_time_ms=duration_of(restart_time, "--restart-time"),
        what_if=request.what_if, settings=request.settings,
    )  # fmt: skip
    names = list(dict.fromkeys([*(groups or ()), *(group or ())]))
    fleet, where = _fleet(target, names, from_file, common)
    foreseen = _forecast(
        fleet, planned, gates, draws=draws, seed=seed, keeps_holdings=report_file is not None, common=common
    )
    _show(foreseen, where, from_file, report_file, common)


def _fleet(
    target: DrainTarget, names: list[str], from_file: str | None, common: RunOptions
) -> tuple[DrainedFleet, Where]:
    """The groups, and the `cluster` of the envelope if they are live."""
    from kgm.cli.output.failures import warn_of_unknown_offsets, warn_of_unseen_groups
    from kgm.operations.drain.fleet import live_fleet, recorded_fleet

    if from_file is not None:
        from kgm.cli.options.snapshots import read_snapshot_file

        recorded = read_snapshot_file(from_file)
        fleet = recorded_fleet(
            recorded.snapshots, target, names, path=from_file, errors=recorded.errors, unseen=recorded.unseen
        )
        warn_of_unseen_groups(fleet.unseen)
        return fleet, None
    from kgm.cli.output.progress import progress
    from kgm.cli.output.report import cluster_json

    with common.cluster(reads_only=True) as connected, progress(common, "reading groups") as line:
        fleet = live_fleet(connected, target, names, on_group=line.count)
        warn_of_unseen_groups(fleet.unseen)
        warn_of_unknown_offsets(connected)
        return fleet, cluster_json(connected)


def _forecast(
    fleet: DrainedFleet, planned: Drain, gates: Gates, *, draws: int | None, seed: int, keeps_holdings: bool,
    common: RunOptions,
) -> DrainForecast:  # fmt: skip
    from kgm.cli.output.progress import progress
    from kgm.operations.drain.forecast import forecast
    from kgm.simulation.draws.executor import ParallelDrawExecutor

    with progress(common, "simulating groups") as line, ParallelDrawExecutor() as executor:
        return forecast(
            fleet, planned, gates=gates, draws=draws, seed=seed, keeps_holdings=keeps_holdings,
            timeout_ms=common.given_timeout_ms, on_group=line.count, on_result=_streamed(common), executor=executor,
        )  # fmt: skip


def _streamed(common: RunOptions) -> Callable[[DrainedGroup | UnpredictedGroup], None]:
    """A callback that writes each group as soon as it is predicted, with -o ndjson."""
    if common.output != "ndjson":
        return lambda _result: None
    from kgm.cli.output.drain_report import item_json
    from kgm.cli.output.progress import hide
    from kgm.cli.output.report import emit_item

    def write(result: DrainedGroup | UnpredictedGroup) -> None:
        hide()
        emit_item(item_json(result))

    return write


def _show(
    foreseen: DrainForecast, where: Where, from_file: str | None, report_file: str | None, common: RunOptions
) -> None:
    """Write the report and the page. Exits 8 if a gate has failed, 7 if something could not be read."""
    from kgm.cli.output.drain_report import report
    from kgm.cli.output.failures import exit_with, print_error
    from kgm.cli.output.report import emit

    if report_file is not None:
        from kgm.cli.output.pages import page
        from kgm.cli.output.pages.drain_page import drain_page

        page.write(report_file, drain_page(foreseen, where))
    if common.output != "ndjson":
        emit(report(foreseen, where, lambda one: _next_command(one, foreseen.drain, from_file)), common)
    if foreseen.failed_gates:
        for error in (*foreseen.failed_gates, *foreseen.errors):
            print_error(error)
        raise typer.Exit(ConditionNotMet.exit_code)
    exit_with(foreseen.errors, done=foreseen.examined)


def _next_command(one: DrainedGroup, drain: Drain, from_file: str | None) -> str:
    """The command that simulates the same plan for this group alone, with its moves and its timeline."""
    words = words_of(drain.request_for(one.group))
    if drain.restart_time_ms is not None:
        words.append("--together")  # simulate-bounce restarts members one by one otherwise
    if from_file is not None:
        words += ["--from-file", from_file]
    return group_command("simulate-bounce", one.group.group_id, *words)
