"""A rollout from the command line's point of view: plan it, run it with its lock and its journal, resume it."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from kgm.assignors import is_known
from kgm.client.admin_client import AdminClient
from kgm.client.poller import POLL_MS, GroupPoller
from kgm.clients.table import SAME_ASSIGNOR
from kgm.model.errors import RefusedError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.audit.audit_log import AuditTrail
from kgm.operations.bounce.gates import Gates
from kgm.operations.bounce.group import BounceGroup, live_group
from kgm.operations.bounce.prediction import PredictedBounce, predict_bounce
from kgm.operations.bounce.request import BounceRequest
from kgm.operations.change.operator import HumanOperator
from kgm.operations.rollout.commands.template import CommandTarget
from kgm.operations.rollout.events import RolloutObserver
from kgm.operations.rollout.expectation import StepExpectation
from kgm.operations.rollout.journal import JournalKind, PlanMark, RolloutJournal, UnwrittenLineError, read_journal
from kgm.operations.rollout.lock import rollout_lock, state_folder
from kgm.operations.rollout.observation import SETTLED, GroupObservation, next_rebalance_ms
from kgm.operations.rollout.progress import (
    RecordedRollout,
    RolloutProgress,
    RolloutReport,
    recorded_rollout,
    without_offsets,
)  # fmt: skip
from kgm.operations.rollout.record import RolloutTrail
from kgm.operations.rollout.rollout import Rollout
from kgm.operations.rollout.spec import OnFailure, RolloutCommands, RolloutLimits, RolloutSpec, steps_of
from kgm.operations.rollout.targets import check_commands
from kgm.operations.rollout.tools import RolloutTools
from kgm.operations.watch.timekeeper import Timekeeper
from kgm.operations.watch.wait import WaitLimits, wait_for
from kgm.simulation.bounce import DRAWS
from kgm.simulation.simulation import SEED
from kgm.text.wording import group_command, some

#: Kafka's default rebalance timeout, used if the group's cannot be read; and the most rebalances to wait for before a
#: rollout.
_REBALANCE_MS, _MOST_REBALANCES = 300_000, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeChanges:
    """What an operator changes when resuming a rollout. It applies to that run, whatever the journal says.

    commands: the commands to run in place of all of the journal's; None: the journal's."""

    commands: RolloutCommands | None = None
    accept_unseen: bool = False
    assume_stopped: bool = False
    allows_any_value: bool = False

    def apply(self, spec: RolloutSpec) -> RolloutSpec:
        """The spec with these changes. Raises UsageError if a command in the journal has no replacement, or if a
        command is not valid."""
        if self.accept_unseen:
            spec = replace(spec, limits=replace(spec.limits, accept_unseen=True))
        if self.assume_stopped:
            spec = replace(spec, assume_stopped=True)
        if self.allows_any_value:
            spec = replace(spec, allows_any_value=True)
        given = self.commands
        if given is None:
            return spec
        for option, before, now in (
            ("--exec", spec.command, given.command), ("--exec-stop", spec.stop_command, given.stop_command),
            ("--on-failure", spec.failure_command, given.failure_command),
        ):  # fmt: skip
            if before is not None and now is None:
                raise UsageError(f"{option} is missing: with --resume, commands replace all those of the journal")
        on_failure = spec.on_failure if given.on_failure is OnFailure.PAUSE else given.on_failure
        spec = replace(spec, **asdict(replace(given, on_failure=on_failure)))
        spec.check()
        return spec


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRollout:
    """What would be done. commands: every command, with its member; predicted: the prediction for the whole rollout."""

    spec: RolloutSpec
    group: GroupSnapshot
    predicted: PredictedBounce
    expected: StepExpectation
    commands: tuple[tuple[CommandTarget, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutContext:
    """Who runs a rollout, and where. folder: for locks, and for the marks of first runs. interrupted_code:
    returns what kgm exits with after an interruption."""

    cluster: AdminClient
    observer: RolloutObserver
    operator: HumanOperator
    audit: AuditTrail | None
    folder: pathlib.Path
    environment: Mapping[str, str]
    timeout_ms: int
    timekeeper: Timekeeper
    interrupted_code: Callable[[], int]


def settled_group(
    cluster: AdminClient, group: BounceGroup, limits: RolloutLimits, timekeeper: Timekeeper,
    tell: Callable[[str], None],
) -> BounceGroup:  # fmt: skip
    """The group once it no longer rebalances on its own, as Kafka Streams does until tasks are where they should be: no
    step can begin before that. tell: called for each rebalance that kgm waits for, with a text.

    Raises RefusedError if no rebalance is due but the group is not settled, or after --step-timeout."""
    if group.snapshot.is_settled is not False:
        return group
    group_id, began_ms, seen = group.snapshot.group_id, timekeeper.now_ms(), group.snapshot
    for _ in range(_MOST_REBALANCES):
        now_ms = timekeeper.now_ms()
        spare_ms = (next_rebalance_ms(seen, now_ms) or now_ms) - now_ms + (seen.rebalance_timeout_ms or _REBALANCE_MS)
        if limits.step_timeout_ms is not None:
            spare_ms = max(limits.step_timeout_ms - (now_ms - began_ms), 1)
        tell(SETTLED.check(seen).seen)
        waits = WaitLimits(timeout_ms=spare_ms, hold_ms=limits.settle_ms, interval_ms=limits.interval_ms)
        result = wait_for(cluster, group_id, [SETTLED], waits, timekeeper)
        seen = result.group or seen
        is_due = next_rebalance_ms(seen, timekeeper.now_ms()) is not None and limits.step_timeout_ms is None
        if result.met or not is_due:
            break
    if not SETTLED.check(seen).met:
        raise RefusedError(
            f"nothing was done: group {group_id!r} does not come to rest: {SETTLED.check(seen).seen}",
            hint=group_command("wait", group_id, "--for", "settled", "--timeout", "30m"), group_id=group_id,
        )  # fmt: skip
    cluster.renew()
    return live_group(cluster, group_id)


def plan_rollout(
    group: BounceGroup, request: BounceRequest, commands: RolloutCommands, limits: RolloutLimits, *,
    gates: Gates | None = None, pods: Mapping[str, str] | None = None, assume_stopped: bool = False,
    draws: int = DRAWS, seed: int = SEED,
) -> PlannedRollout:  # fmt: skip
    """The steps of a plan, the prediction for them, and the commands. Changes nothing.

    Raises what `predict_bounce` raises, RefusedError if the prediction exceeds a gate or a command is not safe, and
    UsageError for a plan without a command."""
    what_if, present = request.what_if, group.snapshot.assignor
    if request.migrate or replace(what_if, assignor=None).changes_assignment:
        raise UsageError("kgm rollout restarts members as they are configured: it does not accept what-ifs")
    if what_if.assignor is not None and present is not None and is_known(SAME_ASSIGNOR.get(present, present)):
        raise UsageError(
            f"kgm rollout restarts members as they are configured, with {present}",
            hint="--assignor is for an assignor that kgm does not know, and names one that assigns in the same way",
        )
    predicted = predict_bounce(group, request, gates=gates, draws=draws, seed=seed)
    plan, prediction = predicted.plan, predicted.predictions[0]
    spec = RolloutSpec(
        group_id=group.snapshot.group_id,
        steps=steps_of(plan),
        **asdict(commands),
        limits=limits,
        assume_stopped=assume_stopped,
        pods=dict(pods or {}),
        units=plan.units,
        restart_time_ms=plan.restart_time_ms,
        pause_ms=0 if plan.rolling is None else plan.rolling.pause_ms,
        stop=plan.stop,
        retry_every_ms=plan.retry_every_ms,
        session_timeout_ms=plan.what_if.session_timeout_ms,
        rebalance_timeout_ms=plan.what_if.rebalance_timeout_ms,
        heartbeat_interval_ms=plan.heartbeat_interval_ms,
        assignor=plan.what_if.assignor,
        library=plan.what_if.library,
        settings=request.settings,
        kafka_version=request.kafka_version,
        draws=draws,
        seed=seed,
    )
    checked = check_commands(spec, group.snapshot)
    return PlannedRollout(
        spec=spec,
        group=group.snapshot,
        predicted=predicted,
        expected=StepExpectation.of(prediction, group.snapshot),
        commands=tuple((target, tuple(argv)) for target, argv in checked),
    )


def refuse_failed_gates(planned: PlannedRollout) -> None:
    """Raises RefusedError if the prediction exceeds the gates or may exceed them, or if the group is not predicted to
    become stable, or a member that is restarted not to come back: the rollout waits for it, which the prediction of the
    whole plan does not."""
    group_id = planned.group.group_id
    for failure in planned.predicted.failed_gates:
        raise RefusedError(f"nothing was done: {failure.message}", group_id=group_id)
    if (unread := planned.predicted.unread) is not None:
        raise RefusedError(
            f"nothing was done: {unread.message}", facts=unread.facts, hint=unread.hint, group_id=group_id
        )
    if not planned.expected.becomes_stable:
        raise RefusedError(
            f"nothing was done: group {group_id!r} would not become stable", facts=planned.expected.caveats,
            group_id=group_id,
        )  # fmt: skip
    ended = planned.predicted.predictions[0].typical.ended
    if ended and planned.spec.retry_every_ms is None:
        raise RefusedError(
            f"nothing was done: the broker would refuse {some(ended)}, and nothing starts "
            f"{'it' if len(ended) == 1 else 'them'} again",
            facts=planned.expected.caveats,
            hint="--retry-every, if something starts a process again that ended; or --remove-first",
            group_id=group_id,
        )


def run_rollout(planned: PlannedRollout, context: RolloutContext, journal_path: pathlib.Path) -> RolloutReport:
    """Run a planned rollout. Raises RefusedError, with nothing done, because of the gates, a lock, or a journal that
    cannot be written."""
    refuse_failed_gates(planned)
    spec, cluster = planned.spec, context.cluster
    with rollout_lock(context.folder, cluster.cluster_id, spec.group_id, _owner(context, journal_path)):
        journal = RolloutJournal.create(journal_path)
        try:
            run = os.urandom(8).hex()
            plan = {
                "run": run, "spec": spec.to_json(), "cluster_id": cluster.cluster_id, "bootstrap": cluster.bootstrap,
                "operator": str(context.operator), "group": without_offsets(planned.group),
                "foretold": planned.expected.to_json(),
            }  # fmt: skip
            try:
                PlanMark.of(plan, spec.commands).keep(context.folder, run)
                journal.write(JournalKind.PLAN, **plan)
            except BaseException as error:
                journal.discard()
                PlanMark.drop(context.folder, run)
                if isinstance(error, UnwrittenLineError):
                    raise error.as_refusal(then=", then start it again", group_id=spec.group_id) from None
                raise
            report = _run(spec, RolloutProgress(left=planned.group, overall=planned.expected), context, journal)
            if report.error is None:
                PlanMark.drop(context.folder, run)
            return report
        finally:
            journal.close()


def open_journal(path: pathlib.Path, folder: pathlib.Path, changes: ResumeChanges) -> RecordedRollout:
    """The rollout in a journal, with the operator's changes. folder: where the marks of first runs are kept.

    Raises UsageError; RefusedError if there is nothing left to do, if others may have written the journal, or if its
    commands may differ from those of the first run and the operator has not given them."""
    recorded = recorded_rollout(read_journal(path))
    if recorded.progress.is_over:
        raise RefusedError(
            f"nothing was done: the rollout of {path} is over", hint="start another one: kgm rollout GROUP --exec ...",
            group_id=recorded.spec.group_id,
        )  # fmt: skip
    recorded = replace(recorded, spec=changes.apply(recorded.spec))
    _refuse_changed(path, recorded, PlanMark.kept(folder, recorded.run), changes)
    return recorded


def _refuse_changed(
    path: pathlib.Path, recorded: RecordedRollout, kept: PlanMark | None, changes: ResumeChanges
) -> None:
    """Raises RefusedError unless the journal has the plan and the commands of the first run."""
    now, group_id = recorded.mark, recorded.spec.group_id
    if kept is not None and kept.plan != now.plan:
        raise RefusedError(
            f"nothing was done: the plan in the journal {path} is not that of the first run: the file was changed",
            hint="start a new rollout: kgm rollout GROUP --exec ...", group_id=group_id,
        )  # fmt: skip
    if changes.commands is not None or (kept is not None and kept.commands == now.commands):
        return
    shown = [f"the journal has {text}" for text in _shown(now)]
    if kept is None:
        raise RefusedError(
            f"nothing was done: it is not known whether the commands in the journal {path} are those of the first run",
            facts=(*shown, "kgm keeps them in its state folder, on the machine and for the user of the first run"),
            hint="give the commands: kgm rollout --resume FILE --exec ...", group_id=group_id,
        )  # fmt: skip
    raise RefusedError(
        f"nothing was done: the commands in the journal {path} are not those of the first run",
        facts=(*shown, *(f"the first run had {text}" for text in _shown(kept))),
        hint="give the commands to run: kgm rollout --resume FILE --exec ...", group_id=group_id,
    )  # fmt: skip


def _shown(mark: PlanMark) -> list[str]:
    names = {"command": "--exec", "stop_command": "--exec-stop", "failure_command": "--on-failure run"}
    flags = {"is_shell": "--shell", "allows_any_value": "--allow-any-value"}
    found = [f"{option} {text!r}" for name, option in names.items() if (text := mark.commands.get(name)) is not None]
    return found + [option for name, option in flags.items() if mark.commands.get(name)]


def resume_rollout(path: pathlib.Path, context: RolloutContext, changes: ResumeChanges) -> RolloutReport:
    """Continue where the journal ends. Raises what `open_journal` raises, and RefusedError for another cluster."""
    group_id = open_journal(path, context.folder, changes).spec.group_id
    with rollout_lock(context.folder, context.cluster.cluster_id, group_id, _owner(context, path)):
        recorded = open_journal(path, context.folder, changes)  # by now no other process writes to it
        if recorded.cluster_id != context.cluster.cluster_id:
            raise RefusedError(
                f"nothing was done: the journal is about cluster {recorded.cluster_id}, and this is "
                f"{context.cluster.cluster_id}",
                hint="check --bootstrap-server and --profile",
                group_id=group_id,
            )
        journal = RolloutJournal.reopen(path)
        try:
            try:
                journal.write(JournalKind.RESUME, operator=str(context.operator), commands=recorded.spec.commands)
            except UnwrittenLineError as error:
                raise error.as_refusal(then=", then resume it again", group_id=group_id) from None
            report = _run(recorded.spec, recorded.progress, context, journal)
            if report.error is None:
                PlanMark.drop(context.folder, recorded.run)
            return report
        finally:
            journal.close()


def _run(
    spec: RolloutSpec, progress: RolloutProgress, context: RolloutContext, journal: RolloutJournal
) -> RolloutReport:
    poller = GroupPoller(context.cluster, [spec.group_id], budget_ms=min(POLL_MS, context.timeout_ms))
    tools = RolloutTools(
        cluster=context.cluster,
        observation=GroupObservation(spec.group_id, poller, context.timekeeper, library=spec.library),
        journal=journal,
        observer=context.observer,
        timekeeper=context.timekeeper,
        operator=context.operator,
        audit=None if context.audit is None else RolloutTrail(context.audit),
        timeout_ms=context.timeout_ms,
        environment=context.environment,
        interrupted_code=context.interrupted_code,
    )
    return Rollout(spec, progress, tools).run()


def _owner(context: RolloutContext, journal_path: pathlib.Path) -> str:
    return f"{context.operator}, process {os.getpid()}, journal {journal_path}"


def default_journal(environment: Mapping[str, str], group_id: str, now: str) -> pathlib.Path:
    """A file in the state directory, named after the group and the time. now: RFC 3339."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", group_id)[:80].lstrip(".") or "group"
    return state_folder(environment) / f"{name}-{re.sub('[^0-9TZ]', '', now)}-{os.getpid()}.ndjson"
