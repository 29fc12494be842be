"""`kgm scale-in`: which members leave when a StatefulSet is scaled in, the predicted effect, and the commands."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.group_names import GroupOption, named_group
from kgm.cli.options.plan_options import Draws, Seed, choice_of, plan_option
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.report import Column, Columns, Report, cluster_json, emit, object_table
from kgm.model.errors import RefusedError, UsageError
from kgm.text.wording import many, partitions_text

if TYPE_CHECKING:
    from kgm.client.transport.deadline import Deadline
    from kgm.model.snapshot import MemberSnapshot
    from kgm.operations.kubernetes.pods import Kubectl
    from kgm.operations.scale_in.scale_in import ScaleIn

SCHEMA = "kgm.scale-in/v1"
_COLUMNS: Columns = {
    "pod": "POD", "group_instance_id": "INSTANCE-ID", "member_id": Column(title="MEMBER-ID", wide=True),
    "client_host": "HOST", "assignment=owns": "OWNS",
}  # fmt: skip


@cluster_options
def scale_in(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="The group.")] = None,
    *,
    group_option: GroupOption = None,
    to: Annotated[int | None, typer.Option("--to", metavar="N", help="Number of replicas to keep.")] = None,
    statefulset: Annotated[
        str | None,
        typer.Option("--statefulset", metavar="NAME", help="The part of members' names before the replica number."),
    ] = None,
    first: Annotated[
        int | None,
        typer.Option(
            "--first", metavar="N", help="The number of the first replica. Default: 0, or the lowest number found."
        ),
    ] = None,
    unit: Annotated[str, plan_option("unit")] = "auto",
    kubernetes: Annotated[
        bool,
        typer.Option("--kubernetes", help="Ask kubectl for the pod of each member, instead of taking its instance id."),
    ] = False,
    namespace: Annotated[str | None, typer.Option("--namespace", metavar="NAME", help="Namespace of the pods.")] = None,
    selector: Annotated[
        str | None, typer.Option("--selector", metavar="LABELS", help="With --kubernetes: labels of the pods.")
    ] = None,
    kubectl: Annotated[
        str, typer.Option("--kubectl", metavar="CMD", help="The kubectl command, with any options.")
    ] = "kubectl",
    draws: Draws = 200,
    seed: Seed = 1,
    options: RunOptions,
) -> None:
    """Show which members leave when an application is scaled to N replicas, and the commands for it. Changes nothing.

    A StatefulSet stops the pods with the highest numbers. The static members in them stay in the group until their
    sessions time out, one rebalance after another. The last command removes them with one LeaveGroup after the pods
    have gone, so that the group rebalances once. It asks for confirmation and applies the guard, because the members
    are still alive when the line is printed. Each line runs only if the one before it has succeeded.

    The replica number is taken from the instance ids; the output shows which part was taken, and why. Thread numbers
    (app-1-0 in Spring, ID-THREAD and StreamThread-1 in Kafka Streams) are recognized from the client ids, the hosts and
    the pattern of all names. If that is not enough, kgm refuses; then give the part before the number with
    --statefulset, or say with --unit what the last number is. instance: it is a thread's. member: it is the replica's.
    host: it is a thread's if members share a host. Connect workers, and dynamic threads of Kafka Streams with an
    application.server, are identified by the host in their URL. Replicas begin at 0, or at the lowest number if none
    after it is missing, unless --first is given. With --kubernetes every pod of the StatefulSet is a replica, with or
    without a member; if none has number 0, kgm asks kubectl where the StatefulSet begins (.spec.ordinals.start)."""
    from kgm.cli.output.failures import print_warning, warn_of_unknown_offsets
    from kgm.operations.bounce.group import live_group
    from kgm.operations.bounce.sinks import with_live_sinks
    from kgm.operations.bounce.units import UnitKind
    from kgm.operations.kubernetes.pods import Kubectl
    from kgm.operations.scale_in.scale_in import plan_scale_in

    usage = "kgm scale-in GROUP --to 6"
    group_id = named_group(group, group_option, hint=usage)
    if to is None:
        raise UsageError("--to is missing: how many replicas stay", hint=usage)
    command = Kubectl.of(kubectl, namespace=namespace, selector=selector)
    with options.cluster(reads_only=True) as connected:
        live = with_live_sinks(connected, live_group(connected, group_id))
        warn_of_unknown_offsets(connected)
        pods = command.pods(os.environ, connected.deadline) if kubernetes else None

        def ask_first(name: str) -> int | None:
            return _first_ordinal(command, name, connected.deadline) if kubernetes else None

        planned = plan_scale_in(
            live, to, stateful_set=statefulset, pods=pods, first=first, ask_first=ask_first, kubectl=command.words,
            draws=draws, seed=seed, unit=choice_of(UnitKind, unit, "--unit"),
        )  # fmt: skip
        where = cluster_json(connected)
    if planned.without_member:
        print_warning(
            f"pods of StatefulSet {planned.stateful_set} without a member in group {group_id!r}: "
            f"{', '.join(planned.without_member)}; they count as replicas"
        )
    emit(_report(planned, where), options)


def _first_ordinal(command: Kubectl, name: str, deadline: Deadline) -> int | None:
    """Where a StatefulSet begins; None, with a warning, if kubectl does not tell, as without the right to get it."""
    from kgm.cli.output.failures import print_warning

    try:
        return command.first_ordinal(name, os.environ, deadline)
    except RefusedError as error:
        why = "; ".join([error.message.removeprefix("nothing was done: "), *error.facts])
        print_warning(f"where StatefulSet {name} begins is taken from the numbers of its pods: {why}")
        return None


def _owns(member: MemberSnapshot) -> str | None:
    """Partitions, or the tasks of a Connect worker, which has none."""
    tasks = () if member.work is None else member.work.active_tasks or ()
    return partitions_text(member.assignment) or " ".join(tasks) or None


def _chained(lines: list[str]) -> list[str]:
    """The lines joined with &&: they can be pasted as one command, and a failure stops the rest."""
    return [f"{line} &&" for line in lines[:-1]] + lines[-1:]


def _report(planned: ScaleIn, where: dict[str, str | None]) -> Report:
    from kgm.cli.invocation import with_cluster
    from kgm.cli.output.bounce_report import sink_tables
    from kgm.cli.output.contracts.planning.scale_in import scale_in_json

    typical = planned.prediction.typical
    data = scale_in_json(planned)
    rows = [{**item, "owns": _owns(one.member)} for item, one in zip(data["leaving"], planned.leaving, strict=True)]
    heading = (
        f"{planned.group.group_id}  {planned.stateful_set} to {many(planned.replicas, 'replica')}: "
        f"{len(planned.leaving)} of {many(len(planned.group.members), 'member')} will be removed"
    )
    predicted = (
        f"predicted: {many(typical.rebalances, 'rebalance')}, {many(typical.moved_partitions, 'partition')} moved"
        f"{'' if planned.prediction.exact else ' (typical)'}"
    )
    last = planned.leaving[0]
    taken = f"number {last.ordinal} of {last.member.identity}: {last.why}; the first replica is {planned.first}"
    return Report(
        schema=SCHEMA,
        data=data,
        tables=[
            object_table(
                _COLUMNS,
                rows,
                heading,
                [predicted, taken, "", *_chained([with_cluster(line) for line in planned.commands.lines])],
            ),
            *sink_tables(planned.prediction.sinks, planned.group.group_id),
        ],
        names=[one.member.identity for one in planned.leaving],
        items=data["leaving"],
        keys=[*_COLUMNS],
        rows=rows,
        cluster=where,
    )
