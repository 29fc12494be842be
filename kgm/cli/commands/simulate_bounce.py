"""`kgm simulate-bounce`: what a planned bounce would do, played in virtual time. Nothing is changed anywhere."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kgm.cli.options.broker_settings import parse_settings
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.bounce_report import in_words, report
from kgm.cli.output.report import cluster_json, emit
from kgm.model.errors import ConditionNotMet, KgmError, NotFoundError, UsageError

if TYPE_CHECKING:
    from kgm.model.snapshot import GroupSnapshot, TopicSnapshot
    from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, Rolling
    from kgm.simulation.report.report import Scenario

_BROKER_SETTINGS = (
    "group.consumer.migration.policy",
    "group.initial.rebalance.delay.ms",
    "group.max.size",
    "group.max.session.timeout.ms",
    "group.min.session.timeout.ms",
)
#: Of a consumer group; the broker's own settings have the same names after `group.`.
GROUP_SETTINGS = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")
E = TypeVar("E", bound=enum.Enum)


@cluster_options
def simulate_bounce(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="A live group; only read.")] = None,
    *,
    group_option: Annotated[str | None, typer.Option("-g", "--group", metavar="GROUP", help="The group.")] = None,
    from_file: Annotated[
        str | None,
        typer.Option("--from-file", metavar="SNAPSHOT", help="What `kgm describe -o json` printed; - is stdin."),
    ] = None,
    members: Annotated[int | None, typer.Option("--members", metavar="N", help="A made-up group of N members.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME:PARTITIONS", help="A topic of it; repeatable.")
    ] = None,
    instance_ids: Annotated[
        list[str] | None,
        typer.Option("--instance-ids", "-i", metavar="ID[,ID...]", help="Who bounces, by group instance id."),
    ] = None,
    member_ids: Annotated[
        list[str] | None, typer.Option("--member-ids", "-m", metavar="ID[,ID...]", help="Who bounces, by member id.")
    ] = None,
    match: Annotated[
        list[str] | None, typer.Option("--match", metavar="GLOB", help="Who bounces: ids that match; repeatable.")
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="All members bounce.")] = False,
    together: Annotated[bool, typer.Option("--together", help="All at once (the default).")] = False,
    rolling: Annotated[bool, typer.Option("--rolling", help="In batches, one after another.")] = False,
    max_unavailable: Annotated[
        int | None, typer.Option("--max-unavailable", metavar="N", help="Size of a batch (1).")
    ] = None,
    pause: Annotated[
        str | None, typer.Option("--pause", metavar="DURATION", help="From stable again to the next batch (0s).")
    ] = None,
    restart_time: Annotated[
        str, typer.Option("--restart-time", metavar="DURATION", help="From a member's stop to its start.")
    ] = "10s",
    stop: Annotated[str, typer.Option("--stop", metavar="HOW", help="clean | crash")] = "clean",
    retry_every: Annotated[
        str | None,
        typer.Option(
            "--retry-every",
            metavar="DURATION",
            help="Until a process starts again that a consumer group has refused (it stays away).",
        ),
    ] = None,
    migrate: Annotated[
        bool, typer.Option("--migrate", help="Who bounces in a classic group comes back with the consumer protocol.")
    ] = False,
    scale_in: Annotated[
        list[str] | None, typer.Option("--scale-in", metavar="ID[,ID...]", help="Who stops and stays away.")
    ] = None,
    scale_out: Annotated[
        int | None, typer.Option("--scale-out", metavar="N", help="How many new members come.")
    ] = None,
    scale_out_every: Annotated[
        str, typer.Option("--scale-out-every", metavar="DURATION", help="From one new member to the next (0s).")
    ] = "0s",
    target_size: Annotated[
        int | None,
        typer.Option(
            "--target-size",
            metavar="N",
            help="Also what if new members waited until there are N, and more were spares. Apache Kafka cannot do it.",
        ),
    ] = None,
    pre_registered: Annotated[
        list[str] | None,
        typer.Option(
            "--pre-registered",
            metavar="ID[,ID...]",
            help="Also what if these instance ids waited for each other. Apache Kafka cannot do it.",
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="ID[,ID...]", help="Who stops and is then removed by one LeaveGroup."),
    ] = None,
    session_timeout: Annotated[
        str | None, typer.Option("--session-timeout", metavar="DURATION", help="What if it were this.")
    ] = None,
    rebalance_timeout: Annotated[
        str | None, typer.Option("--rebalance-timeout", metavar="DURATION", help="What if it were this.")
    ] = None,
    heartbeat_interval: Annotated[
        str | None, typer.Option("--heartbeat-interval", metavar="DURATION", help="Of the clients; most have 3s.")
    ] = None,
    assignor: Annotated[
        str | None, typer.Option("--assignor", metavar="NAME", help="What if the group used this one.")
    ] = None,
    membership: Annotated[
        str | None, typer.Option("--as", metavar="KIND", help="What if all members were static | dynamic.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", metavar="KIND", help="What if the group spoke classic | consumer.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="BROKER.KEY=VALUE", help="A broker setting; repeatable.")
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Also as static, dynamic, cooperative, consumer.")] = False,
    fail_if_moves: Annotated[
        int | None, typer.Option("--fail-if-moves", metavar="N", help="Exit 8 if more than N partitions may move.")
    ] = None,
    fail_if_rebalances: Annotated[
        int | None,
        typer.Option("--fail-if-rebalances", metavar="N", help="Exit 8 if there may be more than N rebalances."),
    ] = None,
    report_file: Annotated[
        str | None,
        typer.Option("--report", metavar="FILE.html", help="Also write a page for the change ticket; one file."),
    ] = None,
    draws: Annotated[int, typer.Option("--draws", metavar="N", help="How often to play what is left to chance.")] = 200,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed, the same answer.")] = 1,
    common: RunOptions,
) -> None:  # fmt: skip
    """Predict what a bounce would do to a group: rebalances, moved partitions, time without a consumer.

    The group is live (GROUP, only read), a snapshot (--from-file), or made up (--members N --topic NAME:PARTITIONS).

    With --target-size or --pre-registered a second scenario, `standby`, shows the same plan on a broker that lets new
    members wait until the planned ones are there. No Apache Kafka does; `kgm serve --set kgm.group.target.size.GROUP=N`
    and `kgm.group.pre.registered.instance.ids.GROUP=ID,ID` do. Gates look at the first scenario, which is Kafka."""
    from kgm.cli.output.progress import progress
    from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, Stop, WhatIf, without
    from kgm.text.durations import parse_duration

    source = _source(group, group_option, from_file, members, topic)
    membership_of = _choice(Membership, membership, "--as")
    protocol_of = _choice(GroupProtocol, protocol, "--protocol")
    snapshot, where, broker = _snapshot(source, common, assignor, membership_of, protocol_of)
    made_up = members is not None
    left = without(_listed(scale_in, "--scale-in", snapshot), _listed(remove, "--remove", snapshot))
    removed = _listed(remove, "--remove", snapshot)
    registered = _ids(pre_registered, "--pre-registered")
    if scale_out is None:
        scale_out = len(without(registered, [member.identity for member in snapshot.members]))
    chosen = _chosen(snapshot, instance_ids, member_ids, match, everyone=everyone)
    plan = Plan(
        bounce=without(chosen, (*left, *removed)) if everyone or match else chosen,
        scale_in=left,
        remove=removed,
        scale_out=scale_out,
        scale_out_every_ms=parse_duration(scale_out_every, "--scale-out-every"),
        target_size=target_size,
        pre_registered=registered,
        rolling=_rolling(rolling=rolling, together=together, max_unavailable=max_unavailable, pause=pause),
        restart_time_ms=parse_duration(restart_time, "--restart-time"),
        retry_every_ms=_duration(retry_every, "--retry-every"),
        migrate=migrate,
        stop=_choice(Stop, stop, "--stop") or Stop.CLEAN,
        what_if=WhatIf(
            session_timeout_ms=_duration(session_timeout, "--session-timeout"),
            rebalance_timeout_ms=_duration(rebalance_timeout, "--rebalance-timeout"),
            assignor=None if made_up else assignor,
            membership=None if made_up else membership_of,
            protocol=None if made_up or protocol == snapshot.type else protocol_of,
        ),
        settings={**broker, **parse_settings(settings or ())},
        heartbeat_interval_ms=_duration(heartbeat_interval, "--heartbeat-interval"),
    )
    with progress(common, "playing the plan"):
        scenarios, errors = _play(
            snapshot, plan, compare=compare, draws=draws, seed=seed, keeps_holdings=report_file is not None
        )
    failed = _gates(scenarios[0], fail_if_moves, fail_if_rebalances)
    if report_file is not None:
        _write_page(report_file, snapshot, plan, scenarios, [*errors, *failed], where)
    emit(report(snapshot, plan, scenarios, [*errors, *failed], where), common)
    if failed:
        from kgm.cli.output.failures import print_error

        for error in failed:
            print_error(error)
        raise typer.Exit(ConditionNotMet.exit_code)


def _play(
    snapshot: GroupSnapshot, plan: Plan, *, compare: bool, draws: int, seed: int, keeps_holdings: bool
) -> tuple[Sequence[Scenario], Sequence[KgmError]]:
    from kgm.simulation.compare import compare as compare_all
    from kgm.simulation.compare import side_by_side

    if draws < 1:
        raise UsageError(f"--draws is {draws}, the lowest is 1")
    if compare:
        comparison = compare_all(snapshot, plan, draws=draws, seed=seed, keeps_holdings=keeps_holdings)
        return comparison.scenarios, comparison.errors
    return side_by_side(snapshot, plan, draws=draws, seed=seed, keeps_holdings=keeps_holdings), []


def _write_page(
    path: str,
    snapshot: GroupSnapshot,
    plan: Plan,
    scenarios: Sequence[Scenario],
    errors: Sequence[KgmError],
    where: dict[str, str | None] | None,
) -> None:
    from kgm.cli.output.pages import page
    from kgm.cli.output.pages.bounce_page import bounce_page

    page.write(path, bounce_page(snapshot, in_words(plan), scenarios, errors, where))


def _gates(scenario: Scenario, moves: int | None, rebalances: int | None) -> list[ConditionNotMet]:
    """The plan as it stands must not move more partitions, nor rebalance more often, than that; in any draw."""
    typical, ranges = scenario.typical, scenario.ranges
    failed = []
    for most, seen, what in (
        (moves, ranges.moved_partitions.max if ranges else typical.moved_partitions, "moved partitions"),
        (rebalances, ranges.rebalances.max if ranges else typical.rebalances, "rebalances"),
    ):
        if most is not None and seen > most:
            limit = "up to " if ranges else ""
            failed.append(ConditionNotMet(f"{limit}{seen} {what} are predicted, more than {most}"))
    return failed


# -- what is asked for


def _source(
    group: str | None, option: str | None, from_file: str | None, members: int | None, topics: list[str] | None
) -> tuple[str | None, str | None, int | None, list[TopicSnapshot]]:
    """(group id, file, number of made-up members, their topics), of which one way is given."""
    if group is not None and option is not None and group != option:
        raise UsageError(f"two groups are given: {group} and {option}")
    name = group if group is not None else option
    hint = "name a group, or give --from-file SNAPSHOT, or --members N --topic NAME:PARTITIONS"
    if members is not None and (name is not None or from_file is not None):
        raise UsageError("--members makes a group up; it does not go with a group or a file")
    if members is None and topics:
        raise UsageError("--topic belongs to a made-up group", hint="add --members N")
    if name is None and from_file is None and members is None:
        raise UsageError("no group is given", hint=hint)
    return name, from_file, members, [_topic(text) for text in topics or ()]


def _topic(text: str) -> TopicSnapshot:
    from kgm.model.snapshot import TopicSnapshot

    name, colon, partitions = text.rpartition(":")
    if not colon or not name or not partitions.isdecimal():
        raise UsageError(f"--topic: {text!r} is not NAME:PARTITIONS", hint="--topic orders:12")
    return TopicSnapshot(name=name, partitions=int(partitions))


def _snapshot(
    source: tuple[str | None, str | None, int | None, list[TopicSnapshot]],
    common: RunOptions,
    assignor: str | None,
    membership: Membership | None,
    protocol: GroupProtocol | None,
) -> tuple[GroupSnapshot, dict[str, str | None] | None, dict[str, str]]:
    """The group, the cluster that it is from, and how its broker is set."""
    name, from_file, members, topics = source
    if members is not None:
        from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership
        from kgm.simulation.plan.starting_group import synthetic

        kind = membership or Membership.STATIC
        return synthetic(members, topics, kind, assignor, protocol or GroupProtocol.CLASSIC), None, {}
    if from_file is not None:
        return _from_file(from_file, name), None, {}
    assert name is not None
    from kgm.cli.output.failures import warn_of_unseen_topics
    from kgm.client.group_record import completed_from_log

    with common.cluster(reads_only=True) as connected:
        settings = connected.broker_settings(name, _BROKER_SETTINGS)
        settings |= in_force(connected.group_settings(name, GROUP_SETTINGS))
        found = completed_from_log(connected, connected.describe_group(name, offsets=False))
        warn_of_unseen_topics(connected)
        return found, cluster_json(connected), settings


def in_force(settings: dict[str, str]) -> dict[str, str]:
    """What is set for the group as if the broker were set so, with bounds that allow it: the real broker does."""
    found = {}
    for name, value in settings.items():
        for bound in ("", "min.", "max."):
            found["group." + name.replace("consumer.", f"consumer.{bound}", 1)] = value
    return found


def _from_file(path: str, name: str | None) -> GroupSnapshot:
    """One group of a describe: the whole output, its data, or one of its groups."""
    from kgm.cli.options.snapshots import read_snapshots

    found = [each for each in read_snapshots(path) if name in (None, each.group_id)]
    if not found:
        what = "is empty" if name is None else f"has no group {name}"
        raise NotFoundError(f"the snapshot in file {path} {what}", group_id=name)
    if len(found) > 1:
        ids = ", ".join(each.group_id for each in found)
        raise UsageError(f"file {path} holds {len(found)} groups", facts=[f"groups: {ids}"], hint="name one of them")
    return found[0]


def _ids(texts: list[str] | None, option: str) -> tuple[str, ...]:
    """Ids in the order given, each once."""
    from kgm.text.braces import expand_list

    return tuple(dict.fromkeys(name for text in texts or () for name in expand_list(text, option)))


def _listed(texts: list[str] | None, option: str, snapshot: GroupSnapshot) -> tuple[str, ...]:
    """Identities in the order given, each once; a member id of a static member counts as its instance id."""
    identity = {member.member_id: member.identity for member in snapshot.members}
    return tuple(dict.fromkeys(identity.get(name, name) for name in _ids(texts, option)))


def _chosen(
    snapshot: GroupSnapshot,
    instance_ids: list[str] | None,
    member_ids: list[str] | None,
    patterns: list[str] | None,
    *,
    everyone: bool,
) -> tuple[str, ...]:
    """Who bounces."""
    import fnmatch

    named = [*_listed(instance_ids, "--instance-ids", snapshot), *_listed(member_ids, "--member-ids", snapshot)]
    there = sorted(member.identity for member in snapshot.members)
    for pattern in patterns or ():
        found = [name for name in there if fnmatch.fnmatchcase(name, pattern)]
        if not found:
            raise NotFoundError(
                f"no member of group {snapshot.group_id} matches {pattern}", facts=[f"members: {', '.join(there)}"],
                group_id=snapshot.group_id,
            )  # fmt: skip
        named += found
    if everyone:
        if not there:
            raise NotFoundError(f"group {snapshot.group_id} has no members", group_id=snapshot.group_id)
        named += there
    return tuple(dict.fromkeys(named))


def _rolling(*, rolling: bool, together: bool, max_unavailable: int | None, pause: str | None) -> Rolling | None:
    from kgm.simulation.plan.bounce_plan import Rolling
    from kgm.text.durations import parse_duration

    if rolling and together:
        raise UsageError("--rolling and --together exclude each other")
    if not rolling:
        if max_unavailable is not None or pause is not None:
            raise UsageError("--max-unavailable and --pause belong to --rolling")
        return None
    return Rolling(
        max_unavailable=1 if max_unavailable is None else max_unavailable,
        pause_ms=0 if pause is None else parse_duration(pause, "--pause"),
    )


def _choice(kind: type[E], text: str | None, option: str) -> E | None:
    if text is None:
        return None
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is not one of {', '.join(each.value for each in kind)}") from None


def _duration(text: str | None, option: str) -> int | None:
    from kgm.text.durations import parse_duration

    return None if text is None else parse_duration(text, option)
