"""`kgm rollout`: carry a planned bounce out, step by step, and stop when reality leaves the prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.group_names import named_group
from kgm.cli.options.plan_options import (
    STEP_OPTIONS,
    Draws,
    GroupOption,
    Seed,
    choice_of,
    duration_of,
    plan_options,
)
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.model.errors import UsageError
from kgm.operations.bounce.request import BounceRequest

if TYPE_CHECKING:
    from kgm.operations.kubernetes.pods import Kubectl
    from kgm.operations.rollout.session import ResumeChanges, RolloutCommands
    from kgm.operations.rollout.spec import RolloutLimits

_SHORTEST_INTERVAL_MS = 100
_RUN = "run "


@cluster_options
@plan_options(*STEP_OPTIONS)
def rollout(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="The group.")] = None,
    *,
    group_option: GroupOption = None,
    command: Annotated[
        str | None,
        typer.Option("--exec", metavar="CMD",
                     help="Restarts a member (--remove-first: starts it), and ends when it has. {instance_id} "
                     "{member_id} {client_id} {host} {pod} {index} are filled in."),
    ] = None,
    stop_command: Annotated[
        str | None,
        typer.Option("--exec-stop", metavar="CMD", help="Stops a member, of --scale-in and --remove for good."),
    ] = None,
    shell: Annotated[
        bool, typer.Option("--shell", help="Commands are for /bin/sh, with values in $KGM_INSTANCE_ID and the like.")
    ] = False,
    allow_any_value: Annotated[
        bool,
        typer.Option("--allow-any-value",
                     help="Fill in values with other characters than A-Z a-z 0-9 . _ : @ - too. Clients choose their "
                     "ids: only for commands that take their arguments as they are."),
    ] = False,
    request: BounceRequest,
    assume_stopped: Annotated[
        bool, typer.Option("--assume-stopped", help="--exec-stop ends with 0 only if the process has stopped: remove "
                           "members that nothing else shows to be alive or stopped.")
    ] = False,
    fail_if_moves: Annotated[
        int | None, typer.Option("--fail-if-moves", metavar="N", help="Refuse if there may be more than N handovers.")
    ] = None,
    fail_if_rebalances: Annotated[
        int | None,
        typer.Option("--fail-if-rebalances", metavar="N", help="Refuse if there may be more than N rebalances."),
    ] = None,
    draws: Draws = 200,
    seed: Seed = 1,
    settle: Annotated[
        str, typer.Option("--settle", metavar="DURATION", help="How long nothing may happen until a step is over.")
    ] = "5s",
    step_timeout: Annotated[
        str | None,
        typer.Option("--step-timeout", metavar="DURATION",
                     help="From the end of a step's commands until it has failed. Default: restart time, session and "
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
        bool, typer.Option("--accept-unseen", help="Go on where rebalances or handovers may have been missed.")
    ] = False,
    on_failure: Annotated[
        str, typer.Option("--on-failure", metavar="WHAT",
                          help="pause (can be resumed) | abort | 'run CMD' for each member of the step, then pause.")
    ] = "pause",
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="Resolve members to pods, for {pod}; --exec deletes it by default.")
    ] = False,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NAME", help="With --kubernetes: of the pods.")
    ] = None,
    selector: Annotated[
        str | None, typer.Option("--selector", metavar="LABELS", help="With --kubernetes: labels of the pods.")
    ] = None,
    kubectl: Annotated[
        str, typer.Option("--kubectl", metavar="CMD", help="With --kubernetes: the command; its options may follow.")
    ] = "kubectl",
    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="FILE", help="A new file. Default: one in $XDG_STATE_HOME/kgm/rollouts."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="FILE", help="Go on where this journal ends; no other plan.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show every command; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    no_audit: Annotated[
        bool, typer.Option("--no-audit", help="Write no entries in the audit log.")
    ] = False,
    options: RunOptions,
) -> None:  # fmt: skip
    """Carry a planned bounce out: run a command for each member, step by step, and watch the group.

    Processes bounce one after another, unless --max-unavailable or --together says more. kgm shows the steps and asks;
    where stdin is not a terminal it needs --yes. Before each step it looks at the group and predicts the step, as kgm
    simulate-bounce does. It runs the commands, waits until the members are back and nothing has happened for the
    --settle time, and compares. It stops when there are more rebalances or handovers than foretold, a member does not
    come back, another one leaves, a command fails, or what happened is not known. Fewer rebalances than foretold are
    reported and do not stop it.

    A command is split into words as by a shell, but none is involved; it has the values of its member in the
    environment too, and as a line of JSON on stdin. Clients choose their ids, and the program that is called may be a
    shell again (ssh, ansible, sh -c): a value that is filled in has A-Z a-z 0-9 . _ : @ - only and does not begin with
    -, unless --allow-any-value is given.

    Everything is written into a journal before and after it is done: --resume goes on after a stop, and after kgm
    itself was killed. It takes up only a journal of yours that nobody else may write, with the plan and the commands of
    the first run; --exec beside --resume runs instead. A command whose end is not in the journal runs again unless its
    member has come back, so it has to be one that may run twice.

    --remove-first is for restarts that take longer than the session timeout: the members of a batch are stopped
    (--exec-stop), removed as by kgm remove-members, and started (--exec) when the group is stable without them.

    Exit 0: done as foretold; 8: reality has left the prediction; 7: a step has failed or its outcome is not known; 6:
    refused before the first step. One rollout of a group runs at a time on one machine; kgm does not see those of other
    machines."""
    from kgm.cli.commands.planning import rollout_run
    from kgm.cli.output.rollout_report import RolloutPrinter
    from kgm.operations.bounce.prediction import Gates
    from kgm.operations.kubernetes.pods import Kubectl

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
        group_id, request, commands, limits, Gates(handovers=fail_if_moves, rebalances=fail_if_rebalances), options,
        cluster_of_pods=cluster_of_pods, journal=journal, dry_run=dry_run, yes=yes, has_audit=not no_audit,
        assume_stopped=assume_stopped, draws=draws, seed=seed, printer=RolloutPrinter(options, group_id),
    )  # fmt: skip


def _changes(
    command: str | None, stop_command: str | None, on_failure: str, *, is_shell: bool, allows_any_value: bool,
    accept_unseen: bool, assume_stopped: bool,
) -> ResumeChanges:  # fmt: skip
    """What is said beside --resume. Raises UsageError for options of commands without a command."""
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
    """Raises UsageError for a plan beside --resume: the journal has it."""
    if dry_run:
        raise UsageError("--dry-run shows the commands of a new rollout; --resume goes on with one")
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
        raise UsageError(f"--resume takes the plan from its journal, and no {parameter.opts[0]}")


def _commands(
    command: str | None, stop_command: str | None, on_failure: str, cluster_of_pods: Kubectl | None, *, is_shell: bool,
    allows_any_value: bool,
) -> RolloutCommands:  # fmt: skip
    from kgm.operations.rollout.session import RolloutCommands
    from kgm.operations.rollout.spec import OnFailure

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
