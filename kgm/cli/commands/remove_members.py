"""`kgm remove-members`: read the words, call the operation, show what it says, and ask."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from kgm.cli import invocation
from kgm.cli.options.group_names import named_group
from kgm.cli.options.plan_options import plan_option
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.options.words import listed_ids
from kgm.cli.output.notices import Notices
from kgm.cli.output.report import Cell, Column, Report, Table, cluster_json, rendered
from kgm.cli.output.streams import write_stderr
from kgm.model.errors import KgmError, OutputError, PartialError, RefusedError, error_name
from kgm.text.shell import shell_word
from kgm.text.wording import group_command, many

if TYPE_CHECKING:
    from kgm.client import AdminClient
    from kgm.model.assignment import Move
    from kgm.operations.removal.audit_log import AuditTrail
    from kgm.operations.removal.outcome import MemberResult
    from kgm.operations.removal.removal import PreparedRemoval, RemovalReport
    from kgm.operations.removal.request import RemovalRequest

SCHEMA = "kgm.remove-members/v1"


@cluster_options
def remove_members(
    group: Annotated[str | None, typer.Argument(metavar="GROUP", help="The group.")] = None,
    *,
    group_option: Annotated[str | None, typer.Option("-g", "--group", metavar="GROUP", help="The group.")] = None,
    instance_ids: Annotated[
        list[str] | None,
        typer.Option("--instance-ids", "-i", metavar="ID[,ID...]",
                     help="Group instance ids; repeatable; braces expand: app-{1..3}."),
    ] = None,
    member_ids: Annotated[
        list[str] | None,
        typer.Option("--member-ids", "-m", metavar="ID[,ID...]", help="Member ids, of dynamic members; repeatable."),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option("--unit", metavar="PROCESS", help="All threads of a Kafka Streams process, by id or thread."),
    ] = None,
    from_file: Annotated[
        str | None, typer.Option("--from-file", metavar="FILE", help="One id per line, # for comments; - is stdin.")
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option("--match-members", "--match", metavar="GLOB", help="Members whose id matches; repeatable."),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="For the broker's log; up to 255 characters.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Ask no confirmation. The guard still applies.")] = False,
    allow_live: Annotated[
        bool, typer.Option("--allow-live", help="Remove members that are alive, or have taken over instance ids.")
    ] = False,
    assume_stopped: Annotated[
        bool, typer.Option("--assume-stopped", help="Remove members whose liveness is unknown.")
    ] = False,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="Treat absent ids as success.")
    ] = False,
    guard_window: Annotated[
        str | None,
        typer.Option("--guard-window", metavar="DURATION",
                     help="How long to look for signs of life, up to the session timeout. Default: 6s, 30s at most."),
    ] = None,
    assignor: Annotated[str | None, plan_option("assignor")] = None,
    library: Annotated[str | None, plan_option("library")] = None,
    no_audit: Annotated[
        bool, typer.Option("--no-audit", help="Remove even if the audit log cannot be written; write nothing there.")
    ] = False,
    options: RunOptions,
) -> None:  # fmt: skip
    """Remove members from a group with one LeaveGroup request.

    The group rebalances once. For each member kgm shows whether it is alive, stopped or unknown, and why. Members that
    are alive are removed only with --allow-live, and unknown ones only with --assume-stopped: first make sure that the
    process is not running (systemctl is-active, kubectl get pod). One member that may not be removed stops the whole
    batch.

    With --guard-window as long as the session timeout, an idle member can be shown to be alive: if it is still in the
    group after its session timeout, it has sent heartbeats. The window is not part of --timeout."""
    from kgm.cli.options import removal_ids as ids
    from kgm.operations.removal.request import RemovalRequest
    from kgm.text.durations import parse_duration

    request = RemovalRequest(
        group_id=named_group(group, group_option, hint="kgm remove-members GROUP --instance-ids ID"),
        instance_ids=listed_ids(instance_ids, "--instance-ids"),
        member_ids=listed_ids(member_ids, "--member-ids"),
        identities=() if from_file is None else ids.read_ids(from_file),
        patterns=ids.patterns(match),
        processes=tuple(unit or ()),
        reason=ids.reason(reason),
        allow_live=allow_live,
        assume_stopped=assume_stopped,
        ignore_missing=ignore_missing,
        assignor=assignor,
        library=library,
        guard_window_ms=None if guard_window is None else parse_duration(guard_window, "--guard-window"),
    )
    if not dry_run and not yes and not sys.stdin.isatty():
        raise RefusedError(
            f"nothing was removed from group {request.group_id!r}: stdin is not a terminal, so kgm cannot ask",
            hint="add --yes to remove without being asked, or --dry-run to preview", group_id=request.group_id,
        )  # fmt: skip
    with options.cluster(reads_only=dry_run) as connected:
        _Run(connected, request, options, dry_run=dry_run, yes=yes, audit=not no_audit).run()


class _Run:
    """One run against a cluster: every way out ends in a report and an exit code."""

    def __init__(
        self,
        connected: AdminClient,
        request: RemovalRequest,
        options: RunOptions,
        *,
        dry_run: bool,
        yes: bool,
        audit: bool,
    ) -> None:
        self._cluster, self._request, self._options = connected, request, options
        self._dry_run, self._yes, self._audit = dry_run, yes, audit
        self._notices = Notices()

    @property
    def _where(self) -> str:
        return f"group {self._request.group_id!r} of cluster {self._cluster.cluster_id} at {self._cluster.bootstrap}"

    def run(self) -> NoReturn:
        try:
            self._run()
        except KeyboardInterrupt:
            if invocation.has_changed():
                self._notices.note(f"interrupted after members of {self._where} were removed{self._in_the_audit_log()}")
            else:
                self._notices.note(f"interrupted: nothing was removed from {self._where}")
            raise

    def _run(self) -> NoReturn:
        from kgm.cli.output.progress import progress
        from kgm.operations.removal import removal
        from kgm.operations.removal.outcome import exit_code

        prepared = removal.prepare(self._cluster, self._request, phase=lambda text: progress(self._options, text))
        for text in prepared.warnings:
            self._notices.warn(text)
        for text in prepared.moves.notes:
            self._notices.note(text)
        if prepared.refusal is not None:
            self._refuse(prepared, prepared.refusal)
        if self._dry_run:
            results = prepared.results
            code = exit_code(results, ignore_missing=self._request.ignore_missing)
            if prepared.errors:
                code = code or prepared.errors[0].exit_code
            self._finish(prepared, results, self._dry_run_error(prepared, results, code), code)
        audit = self._audit_trail() if self._audit and prepared.plan.present else None
        if prepared.plan.present:
            if not self._yes:
                self._ask(prepared)
                self._cluster.go_on()  # the time to think is not the cluster's
            else:
                self._notices.note(f"removing {many(len(prepared.plan.present), 'member')} from {self._where}")
        report = self._execute(prepared, audit)
        for text in report.warnings:
            self._notices.warn(text)
        if report.interrupted:
            self._notices.note("interrupted after the request was sent; this is what is known")
        code = 130 if report.interrupted else report.exit_code
        self._finish(prepared, report.results, report.error, code, warnings=report.warnings)

    def _audit_trail(self) -> AuditTrail:
        """The audit log; on a read-only file system, lines on stderr. Raises RefusedError."""
        from kgm.operations.removal.audit_log import AuditLines, AuditLog, ReadOnlyLogError, default_path

        log = AuditLog(default_path(os.environ))
        try:
            log.prepare()
        except ReadOnlyLogError:
            self._notices.warn(
                f"the audit log is on a read-only file system ({log.path}): its records are printed here instead; "
                "export XDG_STATE_HOME=/a/writable/folder to keep them"
            )
            self._audit = False
            return AuditLines(write_stderr)
        return log

    def _execute(self, prepared: PreparedRemoval, audit: AuditTrail | None) -> RemovalReport:
        """Raises KgmError: nothing was changed, or, if it is a PartialError, that is not known."""
        from kgm.cli.output.progress import progress
        from kgm.operations.removal import removal
        from kgm.operations.removal.operator import current_operator
        from kgm.operations.removal.verification.second_look import StaleVerdictError

        try:
            report = removal.execute(
                self._cluster, prepared, operator=current_operator(), audit=audit,
                phase=lambda text: progress(self._options, text),
            )  # fmt: skip
        except StaleVerdictError as error:
            self._refuse(prepared.with_verdicts(error.report, error), error)
        except KgmError:
            raise
        except Exception as error:
            invocation.mark_changed()
            raise PartialError(
                f"it is not known whether members of {self._where} were removed: kgm failed with "
                f"{type(error).__name__}: {error}",
                hint=f"{self._describe()}; run it again with --debug and report the output as a bug",
                group_id=self._request.group_id,
            ) from error
        if report.has_changed:
            invocation.mark_changed()
        return report

    def _describe(self) -> str:
        return group_command("describe", self._request.group_id)

    def _in_the_audit_log(self) -> str:
        if not self._audit:
            return ""
        return f"; the results are in the audit log: kgm audit {shell_word(f'--group={self._request.group_id}')}"

    def _dry_run_error(self, prepared: PreparedRemoval, results: Sequence[MemberResult], code: int) -> KgmError | None:
        from kgm.operations.removal.removal import summary

        if prepared.errors:
            return prepared.errors[0]
        return summary(self._request, results, code, is_dry_run=True) if code else None

    def _refuse(self, prepared: PreparedRemoval, refusal: RefusedError) -> NoReturn:
        """A member that may not be removed: say which, why, and what command would remove it."""
        from kgm.operations.removal.guard import missing_flags, proof_window_ms
        from kgm.text.durations import show_duration

        flags = missing_flags(self._request, prepared.plan, prepared.guard)
        command = invocation.again_with(*flags)
        if flags == ("--allow-live",):
            refusal.hint = f"stop the process first; to remove it although it is alive: {command}"
        else:
            window_ms = proof_window_ms(prepared.plan, prepared.guard)
            surer = (
                ""
                if window_ms is None
                else f", or watch longer: {invocation.again_with('--guard-window', show_duration(window_ms))}"
            )
            refusal.hint = (
                "make sure that the process does not run (systemctl is-active, kubectl get pod); "
                f"if you know that it has stopped: {command}{surer}"
            )
        self._finish(prepared, prepared.results, refusal, refusal.exit_code)

    def _ask(self, prepared: PreparedRemoval) -> None:
        """Show what will happen and ask. Raises RefusedError unless the answer is yes."""
        from kgm.text.sanitize import clean
        from kgm.text.wording import moves_text, partitions_text

        lines = [self._where]
        for target in prepared.plan.targets:
            if target.member is None:
                lines.append(f"  {target.id}: absent")
                continue
            one, liveness = target.member, prepared.liveness.get(target.member.member_id)
            owns = partitions_text(one.assignment) or "nothing"
            lines.append(f"  {one.identity}  member {one.member_id}  at {one.client_host}  owns {owns}")
            if liveness is not None:
                lines.append(f"    {liveness.verdict}: {liveness.why}")
        if prepared.moves.moves:
            moves = prepared.moves.moves
            lines.append(f"{many(len(moves), 'partition')} will move: {moves_text(moves)}")
        text = "".join(clean(line) + "\n" for line in lines)
        if not self._notices.write(f"{text}Remove {many(len(prepared.plan.present), 'member')}? [y/N] "):
            raise RefusedError(
                f"nothing was removed from group {self._request.group_id!r}: stderr cannot be written, so "
                "kgm cannot ask",
                hint="add --yes to remove without being asked, or --dry-run to preview",
                group_id=self._request.group_id,
            )
        try:
            answer = sys.stdin.readline()
        except KeyboardInterrupt:
            self._notices.write("\n")
            raise
        except (OSError, ValueError):  # a terminal that has gone, bytes that are no text
            answer = ""
        if answer.strip().lower() not in ("y", "yes"):
            raise RefusedError(
                f"declined: nothing was removed from group {self._request.group_id!r}", group_id=self._request.group_id
            )

    def _finish(
        self, prepared: PreparedRemoval, results: Sequence[MemberResult], error: KgmError | None, code: int, *,
        warnings: Sequence[str] = (),
    ) -> NoReturn:  # fmt: skip
        from kgm.cli.output.contracts.groups import moves_json
        from kgm.cli.output.contracts.remove_members import result_json

        if error is not None and error.hint is None:
            error.hint = self._describe()
        rows = [result_json(one) for one in results]
        moves = prepared.moves.moves
        data = {
            "group_id": self._request.group_id,
            "dry_run": self._dry_run,
            "reason": self._request.reason,
            "results": rows,
            "moves_expected": None if moves is None else moves_json(moves),
            "warnings": [*prepared.warnings, *prepared.moves.notes, *warnings],
        }
        report = Report(
            schema=SCHEMA,
            data=data,
            tables=[_table(results, moves)],
            names=[one.target.id for one in results],
            items=rows,
            cluster=cluster_json(self._cluster),
            errors=[] if error is None else [error],
        )
        raise typer.Exit(self._print(rendered(report, self._options), error, code))

    def _print(self, text: str, error: KgmError | None, code: int) -> int:
        """Print the result on stdout and the error on stderr, or on the other stream where one cannot be written.

        Returns the exit code: another one than given only when the result cannot be written where it belongs, or
        nowhere."""
        from kgm.cli.output.failures import error_text
        from kgm.cli.output.streams import write_stdout

        failure: OutputError | None = None
        try:
            is_read = write_stdout(text)
        except OutputError as problem:
            is_read, failure = False, problem
        # After a removal the result is shown even if its reader has gone; before, that is as in every command.
        is_shown = is_read or (failure is None and not invocation.has_changed()) or self._notices.write(text)
        if error is not None:
            self._notices.write(error_text(error))
        if failure is not None:
            failure.message += self._in_the_audit_log() if invocation.has_changed() else "; nothing was removed"
            self._notices.write(error_text(failure))
        if is_read and self._notices.unwritten and not self._options.is_data:
            with contextlib.suppress(OutputError):
                write_stdout("".join(self._notices.unwritten))
        if failure is None and is_shown:
            return code
        return PartialError.exit_code if invocation.has_changed() else OutputError.exit_code


def _note(one: MemberResult) -> str | None:
    """The note, unless it only repeats what the columns of the verdict say."""
    return None if one.note == f"{one.liveness.verdict}: {one.liveness.why}" else one.note


def _table(results: Sequence[MemberResult], moves: tuple[Move, ...] | None) -> Table:
    from kgm.text.wording import moves_text, partitions_text

    titles = ("INSTANCE-ID", "MEMBER-ID", "RESULT", "LIVENESS", "ERROR", "FREED", "NOTE", "EVIDENCE")
    rows: list[list[Cell]] = [
        [
            one.target.instance_id, one.target.member_id, str(one.result), str(one.liveness.verdict),
            error_name(one.error), partitions_text(one.partitions_freed) or None, _note(one), one.liveness.why,
        ]
        for one in results
    ]  # fmt: skip
    notes = [f"{many(len(moves), 'partition')} will move: {moves_text(moves)}"] if moves else []
    return Table(columns=[Column(title=title) for title in titles], rows=rows, notes=notes)
