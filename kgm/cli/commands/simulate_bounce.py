"""`kgm simulate-bounce`: what a planned bounce would do, in virtual time. Nothing is changed anywhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.broker_settings import KafkaVersion, parse_settings, parse_version
from kgm.cli.options.plan_words import (
    Draws,
    Everyone,
    FromFile,
    GroupOption,
    HeartbeatInterval,
    InstanceIds,
    Library,
    Match,
    MaxUnavailable,
    MemberIds,
    Remove,
    RestartTime,
    RollingFlag,
    ScaleIn,
    Seed,
    StopHow,
    Together,
    Unit,
    choice_of,
    duration_of,
    member_ids_of,
    members_of,
    rolling_of,
    unit_of,
)
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.model.errors import ConditionNotMet, UsageError

if TYPE_CHECKING:
    from kgm.model.snapshot import TopicSnapshot
    from kgm.operations.bounce.group import BounceGroup
    from kgm.operations.bounce.prediction import PredictedBounce
    from kgm.simulation.plan.bounce_plan import WhatIf


@cluster_options
def simulate_bounce(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="A live group, which is only read.")] = None,
    *,
    group_option: GroupOption = None,
    from_file: FromFile = None,
    members: Annotated[int | None, typer.Option("--members", metavar="N", help="Make up a group of N members.")] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME:PARTITIONS", help="A topic of the made-up group; repeatable."),
    ] = None,
    instance_ids: InstanceIds = None,
    member_ids: MemberIds = None,
    match: Match = None,
    everyone: Everyone = False,
    together: Together = False,
    rolling: RollingFlag = False,
    max_unavailable: MaxUnavailable = None,
    unit: Unit = "auto",
    pause: Annotated[
        str | None,
        typer.Option(
            "--pause", metavar="DURATION", help="Wait before the next batch, once the group is stable again (0s)."
        ),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            "--order",
            metavar="ORDER",
            help="id | host | client-id | partitions | leader-last: who bounces first. Default: ids as named; --all and"
            " --match by id, which is random for dynamic members.",
        ),
    ] = None,
    restart_time: RestartTime = "10s",
    stop: StopHow = "clean",
    retry_every: Annotated[
        str | None,
        typer.Option(
            "--retry-every",
            metavar="DURATION",
            help="Time until a process that a consumer group has refused is started again (never).",
        ),
    ] = None,
    migrate: Annotated[
        bool, typer.Option("--migrate", help="Members of a classic group return with the consumer protocol.")
    ] = False,
    remove_first: Annotated[
        bool,
        typer.Option(
            "--remove-first",
            help="Members that bounce are removed by one LeaveGroup request for each batch once they have stopped.",
        ),
    ] = False,
    scale_in: ScaleIn = None,
    scale_out: Annotated[
        int | None, typer.Option("--scale-out", metavar="N", help="How many new members join.")
    ] = None,
    scale_out_every: Annotated[
        str, typer.Option("--scale-out-every", metavar="DURATION", help="Time from one new member to the next (0s).")
    ] = "0s",
    target_size: Annotated[
        int | None,
        typer.Option(
            "--target-size",
            metavar="N",
            help="Also: what if new members waited until there are N, and others were spares. Not in Apache Kafka.",
        ),
    ] = None,
    pre_registered: Annotated[
        list[str] | None,
        typer.Option(
            "--pre-registered",
            metavar="ID[,ID...]",
            help="Also: what if these instance ids waited for each other. Not in Apache Kafka.",
        ),
    ] = None,
    remove: Remove = None,
    session_timeout: Annotated[
        str | None,
        typer.Option("--session-timeout", metavar="DURATION", help="What if the session timeout were this."),
    ] = None,
    rebalance_timeout: Annotated[
        str | None,
        typer.Option("--rebalance-timeout", metavar="DURATION", help="What if the rebalance timeout were this."),
    ] = None,
    heartbeat_interval: HeartbeatInterval = None,
    assignor: Annotated[
        str | None, typer.Option("--assignor", metavar="NAME", help="What if the group used this assignor.")
    ] = None,
    library: Library = None,
    membership: Annotated[
        str | None, typer.Option("--as", metavar="KIND", help="What if all members were static | dynamic.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", metavar="KIND", help="What if the group used classic | consumer.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="BROKER.KEY=VALUE",
            help="A broker setting, or scheduled.rebalance.max.delay.ms of Connect workers; repeatable.",
        ),
    ] = None,
    kafka_version: KafkaVersion = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", help="Also with static and dynamic members, the cooperative assignor, the consumer protocol."
        ),
    ] = False,
    fail_if_moves: Annotated[
        int | None, typer.Option("--fail-if-moves", metavar="N", help="Exit 8 if there may be more than N handovers.")
    ] = None,
    fail_if_rebalances: Annotated[
        int | None,
        typer.Option("--fail-if-rebalances", metavar="N", help="Exit 8 if there may be more than N rebalances."),
    ] = None,
    report_file: Annotated[
        str | None,
        typer.Option("--report", metavar="FILE.html", help="Also write a page for a change ticket; one HTML file."),
    ] = None,
    draws: Draws = 200,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="DURATION",
            help="How long one core of a usual machine may simulate a scenario (10s, and at least 3 draws).",
        ),
    ] = None,
    seed: Seed = 1,
    common: RunOptions,
) -> None:
    """Predict what a bounce would do to a group: rebalances, moved partitions, time without a consumer.

    MOVED counts the partitions that another member owns in the end than at the start. HANDOVERS counts each time that a
    partition passes from one member to another: away and back again is two handovers and no move. --fail-if-moves
    counts handovers, and fails also if more than N partitions are moved, such as those left without a consumer.

    Processes bounce one after another, as with kgm rollout, unless --max-unavailable or --together says more.

    The group is live (GROUP, which is only read), a snapshot (--from-file), or made up (--members N --topic
    NAME:PARTITIONS), with up to 200000 partitions.

    What is left to chance is simulated on all cores, --draws times or as often as --budget allows. It counts simulated
    requests, so that it buys the same everywhere, and more with the extra `simulation`. Draws of what is rare come on
    top, and count in the answer: for 20 draws 10 with unusual timing, one led by each client library, and up to 40 more
    while an extreme was drawn only once. With one draw there are no ranges. --timeout ends the draws early.

    With --target-size or --pre-registered a second scenario, `standby`, shows the same plan on a broker that lets new
    members wait until all planned ones have joined. Apache Kafka cannot do this; `kgm serve --set
    kgm.group.target.size.GROUP=N` and `kgm.group.pre.registered.instance.ids.GROUP=ID,ID` can. Gates apply to the first
    scenario, which is Apache Kafka."""
    from kgm.operations.bounce.group import of_library
    from kgm.operations.bounce.prediction import Gates, predict_bounce
    from kgm.operations.bounce.request import BounceRequest
    from kgm.simulation.plan.bounce_plan import GroupProtocol, MemberOrder, Membership, Stop, WhatIf

    group_id = _one_source(group, group_option, from_file, members, topic)
    what_if = WhatIf(
        session_timeout_ms=duration_of(session_timeout, "--session-timeout"),
        rebalance_timeout_ms=duration_of(rebalance_timeout, "--rebalance-timeout"),
        assignor=assignor, membership=choice_of(Membership, membership, "--as"),
        protocol=choice_of(GroupProtocol, protocol, "--protocol"),
    )  # fmt: skip
    named = members_of(instance_ids, member_ids, match, everyone=everyone, scale_in=scale_in, remove=remove)
    request = BounceRequest(
        **named,
        scale_out=scale_out,
        scale_out_every_ms=duration_of(scale_out_every, "--scale-out-every") or 0,
        target_size=target_size,
        pre_registered=member_ids_of(pre_registered, "--pre-registered"),
        rolling=rolling_of(
            named, rolling=rolling, together=together, max_unavailable=max_unavailable, pause=pause, order=order
        ),
        order=choice_of(MemberOrder, order, "--order") or MemberOrder.NAMED,
        unit=unit_of(unit),
        restart_time_ms=duration_of(restart_time, "--restart-time") or 0,
        retry_every_ms=duration_of(retry_every, "--retry-every"),
        migrate=migrate,
        remove_first=remove_first,
        stop=choice_of(Stop, stop, "--stop") or Stop.CLEAN,
        what_if=what_if,
        settings=parse_settings(settings or ()), kafka_version=parse_version(kafka_version),
        heartbeat_interval_ms=duration_of(heartbeat_interval, "--heartbeat-interval"),
    )  # fmt: skip
    bounce_group, where = _group(group_id, from_file, members, topic, what_if, common)
    played = partial(
        predict_bounce, of_library(bounce_group, library), request, compares=compare, draws=draws, seed=seed,
        gates=Gates(handovers=fail_if_moves, rebalances=fail_if_rebalances), keeps_holdings=report_file is not None,
        budget_ms=duration_of(budget, "--budget"),
    )  # fmt: skip
    _show(_predicted(played, common), where, report_file, common)


def _predicted(played: Callable[..., PredictedBounce], common: RunOptions) -> PredictedBounce:
    """Simulate on all cores, with a line of progress."""
    from kgm.cli.output.progress import progress
    from kgm.simulation.draws.executor import ParallelDrawExecutor

    with progress(common, "simulating the plan, draw") as line, ParallelDrawExecutor(on_draw=line.count) as executor:
        return played(timeout_ms=_time_limit_ms(common), executor=executor)


def _show(
    predicted: PredictedBounce, where: dict[str, str | None] | None, report_file: str | None, common: RunOptions
) -> None:
    """Write the report and the page. Exits 8 if a gate has failed."""
    from kgm.cli.output.bounce_report import in_words, report
    from kgm.cli.output.failures import print_error
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


# -- the group


def _one_source(
    group: str | None, option: str | None, from_file: str | None, members: int | None, topics: list[str] | None
) -> str | None:
    """The group id, if one is given. Raises UsageError unless the group comes from exactly one source."""
    if group is not None and option is not None and group != option:
        raise UsageError(f"two groups are given: {group} and {option}")
    group_id = group if group is not None else option
    if members is not None and (group_id is not None or from_file is not None):
        raise UsageError("--members makes up a group, and cannot be combined with a group or a file")
    if members is None and topics:
        raise UsageError("--topic is for a made-up group", hint="add --members N")
    if group_id is None and from_file is None and members is None:
        raise UsageError(
            "no group is given",
            hint="name a group, or give --from-file SNAPSHOT, or --members N --topic NAME:PARTITIONS",
        )
    return group_id


def _group(
    group_id: str | None,
    from_file: str | None,
    members: int | None,
    topics: list[str] | None,
    what_if: WhatIf,
    common: RunOptions,
) -> tuple[BounceGroup, dict[str, str | None] | None]:
    """The group, and the `cluster` of the envelope if it is live."""
    from kgm.operations.bounce.group import live_group, made_up_group, recorded_group

    if members is not None:
        made_up = made_up_group(
            members,
            [_topic(text) for text in topics or ()],
            membership=what_if.membership,
            assignor=what_if.assignor,
            protocol=what_if.protocol,
        )
        return made_up, None
    if from_file is not None:
        from kgm.cli.options.snapshots import read_snapshots

        return recorded_group(read_snapshots(from_file), group_id, path=from_file), None
    assert group_id is not None
    from kgm.cli.output.failures import warn_of_unknown_offsets
    from kgm.cli.output.report import cluster_json

    with common.cluster(reads_only=True) as connected:
        live = live_group(connected, group_id)
        warn_of_unknown_offsets(connected)
        return live, cluster_json(connected)


# -- words into values


def _time_limit_ms(common: RunOptions) -> int | None:
    """That of the simulation, which has none by default: the same seed is to give the same prediction everywhere."""
    return common.timeout_ms if common.origins.get("timeout") == "flag" else None


def _topic(text: str) -> TopicSnapshot:
    from kgm.model.snapshot import TopicSnapshot

    name, colon, partitions = text.rpartition(":")
    if not colon or not name or not partitions.isdecimal():
        raise UsageError(f"--topic: {text!r} is not NAME:PARTITIONS", hint="--topic orders:12")
    return TopicSnapshot(name=name, partitions=int(partitions))
