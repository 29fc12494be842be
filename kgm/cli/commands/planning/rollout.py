"""`kgm rollout`: run a planned restart step by step, and stop when the group deviates from the prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.group_names import GroupOption, named_group
from kgm.cli.options.plan_options import (
    STEP_OPTIONS,
    Draws,
    Seed,
    choice_of,
    duration_of,
    gate_options,
    plan_options,
)
from kgm.cli.options.run_options import RunOptions, refuse_empty
from kgm.cli.options.shared_options import cluster_options_with
from kgm.model.errors import UsageError
from kgm.operations.bounce.gates import Gates
from kgm.operations.bounce.request import BounceRequest

if TYPE_CHECKING:
    from kgm.operations.kubernetes.pods import Kubectl
    from kgm.operations.rollout.session import ResumeChanges
    from kgm.operations.rollout.spec import RolloutCommands, RolloutLimits

_SHORTEST_INTERVAL_MS = 100
_RUN = "run "


@cluster_options_with("Time limit for connecting and for each look at the group (30s), not for the rollout.")
@plan_options(*STEP_OPTIONS)
@gate_options
def rollout(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="The group.")] = None,
    *,
    group_option: GroupOption = None,
    command: Annotated[
        str | None,
        typer.Option("--exec", metavar="CMD",
                     help="Restarts a member (--remove-first: starts it) and exits when that is done. {instance_id} "
                     "{member_id} {client_id} {host} {pod} {index} are filled in."),
    ] = None,
    stop_command: Annotated[
        str | None,
        typer.Option("--exec-stop", metavar="CMD", help="Stops a member; with --scale-in and --remove, for good."),
    ] = None,
    shell: Annotated[
        bool, typer.Option("--shell", help="Run commands with /bin/sh, with values in $KGM_INSTANCE_ID etc.")
    ] = False,
    allow_any_value: Annotated[
        bool,
        typer.Option("--allow-any-value",
                     help="Also fill in values with characters other than A-Z a-z 0-9 . _ : @ -. Clients choose their "
                     "ids: use it only with commands that do not interpret their arguments."),
    ] = False,
    request: BounceRequest,
    assume_stopped: Annotated[
        bool, typer.Option("--assume-stopped", help="Trust --exec-stop to exit 0 only if the process has stopped: "
                           "remove members whose liveness is otherwise unknown.")
    ] = False,
    gates: Gates,
    draws: Draws = 200,
    seed: Seed = 1,
    settle: Annotated[
        str, typer.Option("--settle", metavar="DURATION", help="How long the group must be quiet at the end of a step.")
    ] = "5s",
    step_timeout: Annotated[
        str | None,
        typer.Option("--step-timeout", metavar="DURATION",
                     help="How long a step may take after its commands end. Default: restart time, session and "
                     "rebalance timeout, and a minute."),
    ] = None,
    command_timeout: Annotated[
        str, typer.Option("--command-timeout", metavar="DURATION", help="How long a command may run.")
    ] = "10m",
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="Polling interval.")] = "500ms",
    max_lag: Annotated[
        int | None, typer.Option("--max-lag", metavar="N", help="A step is over when the group's lag is at most N.")
    ] = None,
    accept_unseen: Annotated[
        bool, typer.Option("--accept-unseen", help="Continue even if rebalances or handovers may have been missed.")
    ] = False,
    on_failure: Annotated[
        str, typer.Option("--on-failure", metavar="WHAT",
                          help="pause (can be resumed) | abort | 'run CMD' for each member of the step, then pause.")
    ] = "pause",
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="Find the pod of each member, for {pod}; --exec deletes it by default.")
    ] = False,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NAME", help="With --kubernetes: namespace of the pods.")
    ] = None,
    selector: Annotated[
        str | None, typer.Option("--selector", metavar="LABELS", help="With --kubernetes: labels of the pods.")
    ] = None,
    kubectl: Annotated[
        str, typer.Option("--kubectl", metavar="CMD", help="With --kubernetes: the kubectl command, with any options.")
    ] = "kubectl",
    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="FILE", help="New journal. Default: a file in $XDG_STATE_HOME/kgm/rollouts."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="FILE", help="Continue the rollout in this journal.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show every command; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask for confirmation.")] = False,
    no_audit: Annotated[
        bool, typer.Option("--no-audit", help="Do not write to the audit log.")
    ] = False,
    options: RunOptions,
) -> None:  # fmt: skip
    """Run a planned restart: run a command for each member, step by step, and watch the group.

    Processes restart one after another, unless --max-unavailable or --together allows more at a time. kgm shows the
    steps and asks for confirmation; if stdin is not a terminal, it needs --yes. Before each step it describes the group
    and predicts the step, as in kgm simulate-bounce. It runs the commands, waits until the members are back and the
    group has been quiet for the --settle time, and compares. Kafka Streams and Connect groups must also be settled,
    even before the first step: kgm waits for the rebalances that they have scheduled. It stops if there are more
    rebalances or handovers than predicted, a member does not come back, another member leaves, a command fails, or the
    outcome is unknown. If there are fewer rebalances than predicted, it reports that and continues.

    A command is split into words as a shell would, but no shell runs it. It also gets its member's values in its
    environment, and as a line of JSON on stdin. Clients choose their ids, and the program may itself start a shell
    (ssh, ansible, sh -c), so values may contain only A-Z a-z 0-9 . _ : @ - and must not begin with -, unless
    --allow-any-value is given.

    Each action is written to a journal before and after it is done, so --resume can continue after a stop, even if kgm
    itself was killed. It accepts only a journal that you own and no other user can write to, and uses the plan and the
    commands of the first run; --exec with --resume replaces the commands. A command whose end is not in the journal
    runs again unless its member has come back; one that stops a member before its removal runs again if it has. So
    commands must be idempotent.

    --remove-first is for restarts that take longer than the session timeout: the members of a batch are stopped
    (--exec-stop), removed as in kgm remove-members, and started (--exec) when the group is stable without them.

    Exit 0: done as predicted; 8: the group deviated from the prediction; 7: a step failed or its outcome is unknown; 6:
    refused before the first step. --resume after 7 or 8 acknowledges what has happened: exit 0 is then possible, and
    the last line says which step was not as predicted. After a signal, a kill, or a run that could not describe the
    group, it acknowledges nothing. Only one rollout of a group can run at a time on one machine; kgm does not see
    rollouts on other machines."""
    from kgm.cli.commands.planning import rollout_run
    from kgm.cli.output.rollout_report import RolloutPrinter
    from kgm.operations.kubernetes.pods import Kubectl

    refuse_empty({"journal": journal, "resume": resume}, "journal", "resume")
    if resume is not None:
        _refuse_other_options(options, dry_run=dry_run)
        changes = _changes(
            command, stop_command, on_failure, is_shell=shell, allows_any_value=allow_any_value,
            accept_unseen=accept_unseen, assume_stopped=assume_stopped,
        )  # fmt: skip
        rollout_run.resume(resume, options, changes, has_audit=not no_audit, yes=yes)
    group_id = named_group(group, group_option, hint="kgm rollout GROUP --all --exec CMD")
    limits = _limits(
        settle, step_timeout, command_timeout, interval, most_lag=max_lag, accept_unseen=accept_unseen
    )  # fmt: skip
    cluster_of_pods = Kubectl.of(kubectl, namespace=namespace, selector=selector) if kubernetes else None
    commands = _commands(
        command, stop_command, on_failure, None if request.remove_first else cluster_of_pods, is_shell=shell,
        allows_any_value=allow_any_value,
    )  # fmt: skip
    rollout_run.start(
        group_id, request, commands, limits, gates, options,
        cluster_of_pods=cluster_of_pods, journal=journal, dry_run=dry_run, yes=yes, has_audit=not no_audit,
        assume_stopped=assume_stopped, draws=draws, seed=seed, printer=RolloutPrinter(options, group_id),
    )  # fmt: skip


def _changes(
    command: str | None, stop_command: str | None, on_failure: str, *, is_shell: bool, allows_any_value: bool,
    accept_unseen: bool, assume_stopped: bool,
) -> ResumeChanges:  # fmt: skip
    """What the options given with --resume change. Raises UsageError for command options without a command."""
    from kgm.operations.rollout.session import ResumeChanges

    commands = None
    if command is not None or stop_command is not None:
        commands = _commands(
            command, stop_command, on_failure, None, is_shell=is_shell, allows_any_value=allows_any_value
        )  # fmt: skip
    elif is_shell or on_failure != "pause":
        raise UsageError("--resume takes --shell and --on-failure only with the commands", hint="add --exec CMD")
    return ResumeChanges(
        commands=commands, accept_unseen=accept_unseen, assume_stopped=assume_stopped,
        allows_any_value=allows_any_value,
    )  # fmt: skip


def _limits(
    settle: str, step_timeout: str | None, command_timeout: str, interval: str, *, most_lag: int | None,
    accept_unseen: bool,
) -> RolloutLimits:  # fmt: skip
    from kgm.operations.rollout.spec import RolloutLimits

    return RolloutLimits(
        settle_ms=duration_of(settle, "--settle") or 0,
        step_timeout_ms=duration_of(step_timeout, "--step-timeout"),
        command_timeout_ms=duration_of(command_timeout, "--command-timeout") or 0,
        interval_ms=max(duration_of(interval, "--interval") or 0, _SHORTEST_INTERVAL_MS),
        most_lag=most_lag,
        accept_unseen=accept_unseen,
    )


def _refuse_other_options(options: RunOptions, *, dry_run: bool) -> None:
    """Raises UsageError for plan options given with --resume, because the journal has the plan."""
    if dry_run:
        raise UsageError("--dry-run shows the commands of a new rollout; --resume continues an old one")
    import click
    from click.core import ParameterSource

    context = click.get_current_context()
    allowed = {
        "resume",
        "no_audit",
        "dry_run",
        "accept_unseen",
        "assume_stopped",
        "allow_any_value",
        "yes",
        "command",
        "stop_command",
        "shell",
        "on_failure",
        *options.origins,
        "output",
        "no_headers",
        "color",
        "debug",
    }
    cluster = {"bootstrap_server", "brokers", "command_config", "extra", "profile", "timeout"}
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in allowed | cluster or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        raise UsageError(f"--resume takes the plan from its journal, so it does not accept {parameter.opts[0]}")


def _commands(
    command: str | None, stop_command: str | None, on_failure: str, cluster_of_pods: Kubectl | None, *, is_shell: bool,
    allows_any_value: bool,
) -> RolloutCommands:  # fmt: skip
    from kgm.operations.rollout.spec import OnFailure, RolloutCommands

    if command is None and cluster_of_pods is not None:
        command = cluster_of_pods.delete_command(is_shell=is_shell)
    if command is None and stop_command is None:
        raise UsageError("no command is given", hint="--exec 'systemctl restart app@{instance_id}'")
    failure_command = None
    if on_failure.startswith(_RUN):
        on_failure, failure_command = OnFailure.RUN, on_failure.removeprefix(_RUN)
    elif on_failure == OnFailure.RUN:
        raise UsageError(
            "--on-failure run needs a command", hint="--on-failure 'run systemctl start app@{instance_id}'"
        )
    return RolloutCommands(
        command=command,
        stop_command=stop_command,
        is_shell=is_shell,
        on_failure=choice_of(OnFailure, on_failure, "--on-failure"),
        failure_command=failure_command,
        allows_any_value=allows_any_value,
    )
