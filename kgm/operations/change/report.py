"""A prepared change, and the outcome of a change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from kgm.model.errors import KgmError, NotFoundError, PartialError, RefusedError
from kgm.operations.change.result import OneResult, Result, exit_code, has_changed

R = TypeVar("R", bound=OneResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport(Generic[R]):
    """results: one for each id, in the order of the request. error: one for the run, None if all succeeded. exit_code:
    what the command exits with. interrupted: by Ctrl-C after a request was sent. unrecorded_because: why the outcome is
    not in the audit log, which is also a warning; None if it is, or if no log is kept. prepared: the change as it was
    when it was checked last, immediately before a request was sent."""

    results: tuple[R, ...]
    exit_code: int
    error: KgmError | None = None
    warnings: tuple[str, ...] = ()
    interrupted: bool = False
    unrecorded_because: str | None = None
    prepared: PreparedChange[R] | None = field(default=None, repr=False, compare=False)

    @property
    def has_changed(self) -> bool:
        """Whether the cluster was changed, or may have been."""
        return has_changed(self.results)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedChange(ABC, Generic[R]):
    """What a change would do, and whether it is allowed.

    warnings: what else will happen. errors: what was named and does not exist. refusal: why a guard forbids it; None if
    it is allowed."""

    request: Any
    warnings: tuple[str, ...] = ()
    errors: tuple[KgmError, ...] = ()
    refusal: RefusedError | None = None

    @property
    @abstractmethod
    def results(self) -> list[R]:
        """The result for each id, in the order of the request: planned, absent, or refused."""

    def results_after(self, error: KgmError) -> list[R]:
        """The results of a run that ended with this error instead of a report: a PartialError means that something may
        have been changed, any other error that nothing was."""
        kind = Result.UNKNOWN if isinstance(error, PartialError) else Result.FAILED
        if isinstance(error, RefusedError):
            kind = Result.REFUSED
        return [
            replace(one, result=kind, error=error.kafka_error, note=error.message)
            if one.result is Result.PLANNED
            else one
            for one in self.results
        ]

    @abstractmethod
    def summary(self, results: Sequence[R], code: int, *, is_dry_run: bool) -> KgmError:
        """One error for the whole run; its facts list what was not done, and why, and what does not exist."""

    def report(
        self, results: Sequence[R], warnings: Sequence[str] = (), *, is_dry_run: bool = False,
        interrupted: bool = False, unrecorded_because: str | None = None,
    ) -> ChangeReport[R]:  # fmt: skip
        """The outcome of a run. Its error is the first of `errors` if the exit code is that one's."""
        code = exit_code(results, ignore_missing=self.request.ignore_missing)
        if self.errors and not code:
            is_done = has_changed(results) or any(one.result is Result.PLANNED for one in results)
            code = PartialError.exit_code if is_done else self.errors[0].exit_code
        error = next((one for one in self.errors[:1] if one.exit_code == code), None)
        if code and error is None:
            error = self.summary(results, code, is_dry_run=is_dry_run)
        if unrecorded_because is not None:
            warnings = (f"the outcome is not in the audit log: {unrecorded_because}", *warnings)
        return ChangeReport(
            results=tuple(results), exit_code=code, error=error, warnings=tuple(warnings), interrupted=interrupted,
            unrecorded_because=unrecorded_because, prepared=self,
        )  # fmt: skip


def summary_of(
    message: str, code: int, rest: Sequence[Any], missing: Sequence[KgmError], group_id: str | None
) -> KgmError:
    """The error for a whole run with this exit code. rest: the results of what was not done."""
    facts = [f"{one.target.id}: {one.result}{f', {one.note}' if one.note else ''}" for one in rest]
    kind = {3: NotFoundError, 6: RefusedError, 7: PartialError}.get(code, KgmError)
    return kind(message, facts=[*facts, *(one.message for one in missing)], group_id=group_id)
