"""`kgm drain`: what taking away the members on a host does to each group of a cluster. Nothing is changed anywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.plan_words import Draws, FromFile, Library, StopHow
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.model.errors import ConditionNotMet, UsageError
from kgm.text.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgm.operations.drain.fleet import DrainedFleet
    from kgm.operations.drain.forecast import Drain, DrainedGroup, DrainForecast, DrainGates, UnpredictedGroup
    from kgm.operations.drain.target import DrainTarget
    from kgm.simulation.plan.bounce_plan import Stop

Where = dict[str, str | None] | None


@cluster_options
def drain(
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="[GROUP]...", help="Only these groups; all by default.")
    ] = None,
    *,
    group: Annotated[list[str] | None, typer.Option("-g", "--group", help="A group; repeatable.")] = None,
    from_file: FromFile = None,
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="HOST", help="Members on this host: a name, an address, 10.0.3.0/24; or a,b."),
    ] = None,
    client_id: Annotated[
        list[str] | None,
        typer.Option("--client-id", metavar="GLOB", help="Members whose client id matches; repeatable."),
    ] = None,
    rack: Annotated[list[str] | None, typer.Option("--rack", metavar="RACK", help="Members in this rack.")] = None,
    match: Annotated[
        list[str] | None,
        typer.Option("--match", metavar="GLOB", help="Members whose instance id (or member id) matches; repeatable."),
    ] = None,
    for_good: Annotated[bool, typer.Option("--for-good", help="They stay away (the default).")] = False,
    restart_time: Annotated[
        str | None,
        typer.Option("--restart-time", metavar="DURATION", help="They start again, this long after their stop."),
    ] = None,
    stop: StopHow = "clean",
    session_timeout: Annotated[
        str | None,
        typer.Option("--session-timeout", metavar="DURATION", help="Of classic groups whose own cannot be read (45s)."),
    ] = None,
    fail_if_moves: Annotated[
        int | None,
        typer.Option(
            "--fail-if-moves", "--fail-if-handovers", metavar="N",
            help="Exit 8 if there may be more than N handovers in a group.",
        ),
    ] = None,
    fail_if_stopped: Annotated[
        str | None,
        typer.Option(
            "--fail-if-stopped", metavar="DURATION",
            help="Exit 8 if the partitions of a group may be stopped for longer, added up.",
        ),
    ] = None,
    report_file: Annotated[
        str | None,
        typer.Option("--report", metavar="FILE.html", help="Also write a page for a change ticket; one HTML file."),
    ] = None,
    library: Library = None,
    draws: Draws = 20,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same forecast.")] = 1,
    common: RunOptions,
) -> None:  # fmt: skip
    """Forecast what a drain of hosts does to every group: rebalances, handovers, time without a consumer.

    The members on the hosts stop at the same time, for good or for --restart-time; each group that has members there is
    simulated as kgm simulate-bounce does it. The groups that cost most are first: those with partitions that are left
    without an owner, then by STOPPED, the time without a consumer, added up over partitions. A group is `empty` when no
    member is left, and `thin` when half of those that can have partitions are left, or fewer. A group that cannot be
    simulated or described, or is left when --timeout has passed, is listed with the reason. With -o ndjson groups come
    as they are predicted, not ranked. Changes nothing.

    Options of one kind add up; several kinds narrow down: --host A --host B --client-id 'app-*' are the members on A or
    B whose client id matches. Exits 3 if no group has such a member, and 7 if a group cannot be described, or one of
    the values matches no member. A group that is not predicted fails both gates (exit 8)."""
    from kgm.operations.bounce.group import of_library
    from kgm.operations.drain.forecast import Drain, DrainGates
    from kgm.operations.drain.target import DrainTarget, with_addresses
    from kgm.text.braces import expand_list

    if for_good and restart_time is not None:
        raise UsageError("--for-good and --restart-time exclude each other")
    if draws < 1:
        raise UsageError(f"--draws is {draws}, the lowest is 1")
    hosts = [name for text in host or () for name in expand_list(text, "--host")]
    target = DrainTarget(
        hosts=with_addresses(hosts), client_ids=tuple(client_id or ()), racks=tuple(rack or ()),
        identities=tuple(match or ()),
    )  # fmt: skip
    planned = Drain(
        target=target, stop=_stop(stop), restart_time_ms=_duration(restart_time, "--restart-time"),
        session_timeout_ms=_duration(session_timeout, "--session-timeout"),
    )  # fmt: skip
    gates = DrainGates(handovers=fail_if_moves, stopped_ms=_duration(fail_if_stopped, "--fail-if-stopped"))
    names = list(dict.fromkeys([*(groups or ()), *(group or ())]))
    fleet, where = _fleet(target, names, from_file, common)
    fleet = replace(fleet, affected=tuple(of_library(one, library) for one in fleet.affected))
    foreseen = _forecast(
        fleet, planned, gates, draws=draws, seed=seed, keeps_holdings=report_file is not None, common=common
    )
    _show(foreseen, where, report_file, common)


def _stop(text: str) -> Stop:
    from kgm.simulation.plan.bounce_plan import Stop

    try:
        return Stop(text)
    except ValueError:
        raise UsageError(f"--stop: {text!r} is not one of {', '.join(each.value for each in Stop)}") from None


def _duration(text: str | None, option: str) -> int | None:
    return None if text is None else parse_duration(text, option)


def _fleet(
    target: DrainTarget, names: list[str], from_file: str | None, common: RunOptions
) -> tuple[DrainedFleet, Where]:
    """The groups, and the `cluster` of the envelope if they are live."""
    from kgm.operations.drain.fleet import live_fleet, recorded_fleet

    if from_file is not None:
        from kgm.cli.options.snapshots import read_snapshots

        return recorded_fleet(read_snapshots(from_file), target, names, path=from_file), None
    from kgm.cli.output.failures import warn_of_unknown_offsets, warn_of_unseen_groups
    from kgm.cli.output.progress import progress
    from kgm.cli.output.report import cluster_json

    with common.cluster(reads_only=True) as connected, progress(common, "reading groups") as line:
        fleet = live_fleet(connected, target, names, on_group=line.count)
        if fleet.listing is not None:
            warn_of_unseen_groups(connected, fleet.listing)
        warn_of_unknown_offsets(connected)
        return fleet, cluster_json(connected)


def _forecast(
    fleet: DrainedFleet, planned: Drain, gates: DrainGates, *, draws: int, seed: int, keeps_holdings: bool,
    common: RunOptions,
) -> DrainForecast:  # fmt: skip
    from kgm.cli.output.progress import progress
    from kgm.operations.drain.forecast import forecast
    from kgm.simulation.draws.executor import ParallelDrawExecutor

    # Without --timeout there is no limit: the same seed is to give the same forecast everywhere.
    timeout_ms = common.timeout_ms if common.origins.get("timeout") == "flag" else None
    with progress(common, "simulating groups") as line, ParallelDrawExecutor() as executor:
        return forecast(
            fleet, planned, gates=gates, draws=draws, seed=seed, keeps_holdings=keeps_holdings,
            timeout_ms=timeout_ms, on_group=line.count, on_result=_streamed(common), executor=executor,
        )  # fmt: skip


def _streamed(common: RunOptions) -> Callable[[DrainedGroup | UnpredictedGroup], None]:
    """Writes each group as soon as it is predicted, with -o ndjson."""
    if common.output != "ndjson":
        return lambda _result: None
    from kgm.cli.output.drain_report import item_json
    from kgm.cli.output.progress import hide
    from kgm.cli.output.report import emit_item

    def write(result: DrainedGroup | UnpredictedGroup) -> None:
        hide()
        emit_item(item_json(result))

    return write


def _show(foreseen: DrainForecast, where: Where, report_file: str | None, common: RunOptions) -> None:
    """Write the report and the page. Exits 8 if a gate has failed, 7 if something could not be read."""
    from kgm.cli.output.drain_report import report
    from kgm.cli.output.failures import exit_with, print_error
    from kgm.cli.output.report import emit

    if report_file is not None:
        from kgm.cli.output.pages import page
        from kgm.cli.output.pages.drain_page import drain_page

        page.write(report_file, drain_page(foreseen, where))
    if common.output != "ndjson":
        emit(report(foreseen, where), common)
    if foreseen.failed_gates:
        for error in (*foreseen.failed_gates, *foreseen.errors):
            print_error(error)
        raise typer.Exit(ConditionNotMet.exit_code)
    exit_with(foreseen.errors, done=foreseen.examined)
