"""A run of `kgm rollout`: plan it, show it, ask, run or resume it, and report."""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from kgm.cli.stop_signal import interrupted_by_signals, interrupted_code
from kgm.model.errors import KgmError, RefusedError
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.cli.options.run_options import RunOptions
    from kgm.cli.output.rollout_report import RolloutPrinter
    from kgm.client import AdminClient
    from kgm.operations.audit.audit_log import AuditTrail
    from kgm.operations.bounce.gates import Gates
    from kgm.operations.bounce.request import BounceRequest
    from kgm.operations.kubernetes.pods import Kubectl
    from kgm.operations.rollout.session import PlannedRollout, ResumeChanges, RolloutContext
    from kgm.operations.rollout.spec import RolloutCommands, RolloutLimits


def start(
    group_id: str, request: BounceRequest, commands: RolloutCommands, limits: RolloutLimits, gates: Gates,
    options: RunOptions, *, cluster_of_pods: Kubectl | None, journal: str | None, dry_run: bool, yes: bool,
    has_audit: bool, assume_stopped: bool, draws: int, seed: int, printer: RolloutPrinter,
) -> NoReturn:  # fmt: skip
    from kgm.cli.output.bounce_report import in_words
    from kgm.cli.output.failures import warn_of_unknown_offsets
    from kgm.cli.output.progress import progress
    from kgm.cli.output.rollout_report import steps_text
    from kgm.cli.question import ask, refuse_unasked
    from kgm.operations.bounce.group import live_group
    from kgm.operations.bounce.request import plan_for
    from kgm.operations.bounce.sinks import with_live_sinks
    from kgm.operations.rollout.session import (
        default_journal,
        plan_rollout,
        refuse_failed_gates,
        run_rollout,
        settled_group,
    )
    from kgm.operations.watch.timekeeper import SystemTimekeeper
    from kgm.text.timestamps import rfc3339

    refuse_unasked(group_id, yes=yes or dry_run)
    with interrupted_by_signals(), options.cluster(reads_only=dry_run) as connected:
        live = live_group(connected, group_id)
        if not dry_run:
            with progress(options, "waiting until the group is settled"):
                live = settled_group(connected, live, limits, SystemTimekeeper(), printer.note)
        live = with_live_sinks(connected, live)
        warn_of_unknown_offsets(connected)
        pods = {}
        if cluster_of_pods is not None:
            named = plan_for(request, live).named
            pods = cluster_of_pods.pods(os.environ, connected.deadline).of_members(live.snapshot, named)
        with progress(options, "simulating the plan"):
            planned = plan_rollout(
                live, request, commands, limits, gates=gates, pods=pods, assume_stopped=assume_stopped, draws=draws,
                seed=seed,
            )  # fmt: skip
        printer.plan(planned, in_words(planned.predicted.plan))
        if dry_run:
            printer.planned(planned)
            _end_dry_run(printer, planned, connected)
        refuse_failed_gates(planned)
        if not yes:
            lines = steps_text(planned)
            ask(group_id, lines, f"Carry out {many(len(lines), 'step')}?")
            connected.renew()  # the operator's time to think does not count toward --timeout
        now = rfc3339(round(time.time() * 1000))
        path = pathlib.Path(journal) if journal is not None else default_journal(os.environ, group_id, now)
        context = _context(connected, printer, options, has_audit=has_audit)
        with _journalled(printer, path):
            report = run_rollout(planned, context, path)
        printer.finish(report, connected)


def _end_dry_run(printer: RolloutPrinter, planned: PlannedRollout, connected: AdminClient) -> NoReturn:
    from kgm.operations.rollout.session import refuse_failed_gates

    error: KgmError | None = None
    try:
        refuse_failed_gates(planned)
    except RefusedError as refusal:
        error = refusal
    printer.finish_dry_run(error, connected)


def resume(journal: str, options: RunOptions, changes: ResumeChanges, *, has_audit: bool, yes: bool) -> NoReturn:
    """Continue where a journal ends."""
    from kgm.cli.output.rollout_report import RolloutPrinter, rest_text
    from kgm.cli.question import ask, refuse_unasked
    from kgm.operations.rollout.lock import state_folder
    from kgm.operations.rollout.session import open_journal, resume_rollout

    path = pathlib.Path(journal)
    recorded = open_journal(path, state_folder(os.environ), changes)
    refuse_unasked(recorded.spec.group_id, yes=yes)
    printer = RolloutPrinter(options, recorded.spec.group_id)
    with interrupted_by_signals(), options.cluster(reads_only=False) as connected:
        context = _context(connected, printer, options, has_audit=has_audit, is_resumed=True)
        printer.resumed(recorded)
        if not yes:
            left = len(recorded.spec.steps) - recorded.progress.steps_done
            ask(recorded.spec.group_id, rest_text(recorded), f"Continue with {many(left, 'step')}?")
            connected.renew()
        with _journalled(printer, path):
            report = resume_rollout(path, context, changes)
        printer.finish(report, connected)


@contextlib.contextmanager
def _journalled(printer: RolloutPrinter, path: pathlib.Path) -> Iterator[None]:
    printer.journal = str(path)
    try:
        yield
    except KeyboardInterrupt:
        printer.interrupted()
        raise


def _context(
    connected: AdminClient, printer: RolloutPrinter, options: RunOptions, *, has_audit: bool, is_resumed: bool = False
) -> RolloutContext:
    from kgm.operations.change.operator import current_operator
    from kgm.operations.rollout.lock import state_folder
    from kgm.operations.rollout.session import RolloutContext
    from kgm.operations.watch.timekeeper import SystemTimekeeper

    return RolloutContext(
        cluster=connected,
        observer=printer,
        operator=current_operator(),
        audit=_audit_trail(is_resumed=is_resumed) if has_audit else None,
        folder=state_folder(os.environ),
        environment=os.environ,
        timeout_ms=options.timeout_ms,
        timekeeper=SystemTimekeeper(),
        interrupted_code=interrupted_code,
    )


def _audit_trail(*, is_resumed: bool) -> AuditTrail:
    """The audit log. Raises RefusedError if it cannot be written."""
    from kgm.operations.audit.audit_log import AuditLog, default_path
    from kgm.operations.rollout.record import UNWRITABLE_HINT

    log = AuditLog(default_path(os.environ))
    try:
        log.prepare()
    except RefusedError as error:
        error.hint = UNWRITABLE_HINT if is_resumed else error.hint
        raise
    return log
