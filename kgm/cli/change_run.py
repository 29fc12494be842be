"""One run of a command that changes something: preview, question, audit log, exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import typer

from kgm.cli import invocation
from kgm.cli.options.run_options import RunOptions
from kgm.cli.output.notices import Notices
from kgm.cli.output.report import Report, rendered
from kgm.cli.output.streams import write_stderr
from kgm.cli.question import is_yes
from kgm.cli.stop_signal import interrupted_code
from kgm.model.errors import KgmError, OutputError, PartialError, RefusedError
from kgm.text.shell import shell_word

if TYPE_CHECKING:
    from kgm.client import AdminClient
    from kgm.operations.audit.audit_log import AuditTrail
    from kgm.operations.change.carrying_out import StaleVerdictError
    from kgm.operations.change.report import ChangeReport, PreparedChange

#: The result for one id.
R = TypeVar("R", bound=Any)
P = TypeVar("P", bound="PreparedChange[Any]")


def refuse_without_terminal(nothing: str, *, dry_run: bool, yes: bool, group_id: str | None) -> None:
    """Raises RefusedError if kgm has to ask before it continues, but cannot. nothing: what was not done."""
    if not dry_run and not yes and not sys.stdin.isatty():
        raise RefusedError(
            f"{nothing}: stdin is not a terminal, so kgm cannot ask", hint=_UNASKED, group_id=group_id
        )  # fmt: skip


_UNASKED = "add --yes to do it without being asked, or --dry-run to preview"


class ChangeRun(ABC, Generic[P, R]):
    """One run against a cluster. However it ends, it prints a report and returns an exit code."""

    def __init__(
        self, connected: AdminClient, options: RunOptions, *, group_ids: Sequence[str],
        dry_run: bool, yes: bool, audit: bool,
    ) -> None:  # fmt: skip
        self._cluster, self._options = connected, options
        self._group_ids = group_ids
        self._dry_run, self._yes, self._audit = dry_run, yes, audit
        self._notices = Notices()
        #: The result as text, once there is one.
        self._text = ""

    # -- what each command defines

    @abstractmethod
    def _prepare(self) -> P:
        """Work out what would be done. Raises KgmError."""

    def _notes(self, _prepared: P) -> Sequence[str]:
        """Notes to print along with the warnings."""
        return ()

    def _as_sent(self, prepared: P, _report: ChangeReport[R]) -> P:
        """The prepared change as it was checked last, if more than its verdicts may have changed since."""
        return prepared

    @abstractmethod
    def _number(self, prepared: P) -> int:
        """How many members, groups or offsets would be removed."""

    @abstractmethod
    def _lines(self, prepared: P) -> list[str]:
        """The lines to show before the question."""

    @abstractmethod
    def _execute(self, prepared: P, audit: AuditTrail | None) -> ChangeReport[R]:
        """Make the change. A KgmError means that nothing was changed; a PartialError, that the outcome is unknown."""

    @abstractmethod
    def _outdated(self, prepared: P, error: StaleVerdictError) -> P:
        """The prepared change, updated with what was seen just before the request would have been sent."""

    @abstractmethod
    def _hint(self, prepared: P) -> str:
        """A command that would do it despite the refusal."""

    @abstractmethod
    def _report(self, prepared: P, results: Sequence[R], warnings: Sequence[str]) -> Report: ...

    @property
    @abstractmethod
    def _where(self) -> str:
        """The groups, or the cluster, in words."""

    @property
    @abstractmethod
    def _nothing(self) -> str:
        """A clause that says that nothing was changed."""

    @property
    @abstractmethod
    def _changed(self) -> str:
        """A clause that says that something was changed."""

    @abstractmethod
    def _doing(self, number: int) -> str:
        """What is being done, in words."""

    @abstractmethod
    def _question(self, number: int) -> str: ...

    @property
    @abstractmethod
    def _look(self) -> str:
        """The command that shows the current state."""

    # -- the run

    @property
    def _place(self) -> str:
        return f"cluster {self._cluster.cluster_id} at {self._cluster.bootstrap}"

    def run(self) -> NoReturn:
        try:
            self._run()
        except KeyboardInterrupt:
            if invocation.has_changed():
                self._notices.note(f"interrupted after {self._changed}{self._in_the_audit_log()}")
                if not self._audit:
                    self._notices.write(self._text)
            else:
                self._notices.note(f"interrupted: {self._nothing} of {self._place}")
            raise

    def _run(self) -> NoReturn:
        prepared = self._prepare()
        for text in prepared.warnings:
            self._notices.warn(text)
        for text in self._notes(prepared):
            self._notices.note(text)
        if prepared.refusal is not None:
            self._refuse(prepared, prepared.refusal)
        if self._dry_run:
            self._end_dry_run(prepared)
        number = self._number(prepared)
        audit = self._audit_trail() if self._audit and number else None
        if number and not self._yes:
            self._ask(prepared)
            self._cluster.go_on()  # the operator's time to think does not count toward --timeout
        elif number:
            self._notices.note(self._doing(number))
        report = self._change(prepared, audit)
        told, prepared = self._notes(prepared), self._as_sent(prepared, report)
        for text in self._notes(prepared):
            if text not in told:
                self._notices.note(text)
        for text in report.warnings:
            self._notices.warn(text)
        if report.interrupted:
            self._notices.note("interrupted after the request was sent; this is what is known")
        code = interrupted_code() if report.interrupted else report.exit_code
        self._finish(prepared, report.results, report.error, code, warnings=report.warnings)

    def _end_dry_run(self, prepared: P) -> NoReturn:
        report = prepared.report(prepared.results, is_dry_run=True)
        self._finish(prepared, report.results, report.error, report.exit_code)

    def _audit_trail(self) -> AuditTrail:
        """The audit log; on a read-only file system, lines on stderr. Raises RefusedError."""
        from kgm.operations.audit.audit_log import AuditLines, AuditLog, ReadOnlyLogError, default_path

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

    def _change(self, prepared: P, audit: AuditTrail | None) -> ChangeReport[R]:
        from kgm.operations.change.carrying_out import StaleVerdictError

        try:
            report = self._execute(prepared, audit)
        except StaleVerdictError as error:
            self._refuse(self._outdated(prepared, error), error)
        except KgmError as error:
            if isinstance(error, PartialError):
                invocation.mark_changed()
            self._finish(prepared, prepared.results_after(error), error, error.exit_code)
        except Exception as error:
            invocation.mark_changed()
            raise PartialError(
                f"it is not known whether {self._changed}: kgm failed with {type(error).__name__}: {error}",
                hint=f"{self._look}; run it again with --debug and report the output as a bug",
                group_id=self._group_ids[0] if self._group_ids else None,
            ) from error
        if report.has_changed:
            invocation.mark_changed()
        if report.unrecorded_because is not None:
            self._audit = False
        return report

    def _phase(self) -> Callable[[str], AbstractContextManager[object]]:
        from kgm.cli.output.progress import progress

        return lambda text: progress(self._options, text)

    def _in_the_audit_log(self) -> str:
        """A clause that says where the results are; empty if they are not in the audit log."""
        if not self._audit:
            return ""
        groups = " ".join(shell_word(f"--group={group_id}") for group_id in self._group_ids)
        return f"; the results are in the audit log: kgm audit {groups}".rstrip()

    def _refuse(self, prepared: P, refusal: RefusedError) -> NoReturn:
        """Report what kgm refuses to remove, why, and which command would remove it."""
        refusal.hint = self._hint(prepared)
        self._finish(prepared, prepared.results, refusal, refusal.exit_code)

    def _ask(self, prepared: P) -> None:
        """Show what will happen and ask. Raises RefusedError unless the answer is yes."""
        from kgm.text.sanitize import clean

        group_id = self._group_ids[0] if self._group_ids else None
        text = "".join(clean(line) + "\n" for line in [self._where, *self._lines(prepared)])
        if not self._notices.write(f"{text}{self._question(self._number(prepared))} [y/N] "):
            raise RefusedError(
                f"{self._nothing}: stderr cannot be written, so kgm cannot ask", hint=_UNASKED, group_id=group_id
            )  # fmt: skip
        if not is_yes():
            raise RefusedError(f"declined: {self._nothing}", group_id=group_id)

    def _finish(
        self, prepared: P, results: Sequence[R], error: KgmError | None, code: int, *, warnings: Sequence[str] = ()
    ) -> NoReturn:
        if error is not None and error.hint is None:
            error.hint = self._look
        report = self._report(prepared, results, [*prepared.warnings, *warnings])
        report = replace(report, errors=[] if error is None else [error])
        raise typer.Exit(self._print(rendered(report, self._options), error, code))

    def _print(self, text: str, error: KgmError | None, code: int) -> int:
        """Print the result on stdout and the error on stderr, or on the other stream if one cannot be written.

        Returns the given exit code, unless stdout fails or the result cannot be written anywhere."""
        from kgm.cli.output.failures import error_text
        from kgm.cli.output.streams import write_stdout

        failure: OutputError | None = None
        self._text = text
        try:
            is_read = write_stdout(text)
        except OutputError as problem:
            is_read, failure = False, problem
        # After a removal, the result is shown even if its reader has gone; before it, kgm acts as any other command.
        is_shown = is_read or (failure is None and not invocation.has_changed()) or self._notices.write(text)
        if error is not None:
            self._notices.write(error_text(error))
        if failure is not None:
            failure.message += self._in_the_audit_log() if invocation.has_changed() else f"; {self._nothing}"
            self._notices.write(error_text(failure))
        if is_read and self._notices.unwritten and not self._options.is_data:
            with contextlib.suppress(OutputError):
                write_stdout("".join(self._notices.unwritten))
        if failure is None and is_shown:
            return code
        return PartialError.exit_code if invocation.has_changed() else OutputError.exit_code
