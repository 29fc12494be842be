"""Carry out a change, from the intent in the audit log to the outcome, whatever ends the run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeAlias, TypeVar

from kgm.model.errors import KgmError, PartialError, RefusedError
from kgm.operations.change.record import ChangeRecord

T = TypeVar("T")
#: Shows progress: called with the name of a phase; the context lasts as long as the phase.
Phase: TypeAlias = Callable[[str], AbstractContextManager[object]]
#: The minimum time for checking the group after a request was sent, whatever is left of the budget.
LOOK_MS: Final = 5_000
#: The same after Ctrl-C, when the operator is waiting for the shell prompt.
INTERRUPTED_LOOK_MS: Final = 2_000
#: How often to check whether what was removed has come back.
RETURN_POLL_S: Final = 0.25


def no_phase(_text: str) -> AbstractContextManager[object]:
    """A phase that shows nothing."""
    return nullcontext()


class StaleVerdictError(RefusedError):
    """The group has changed since the change was decided on, so nothing was sent."""

    def __init__(self, refusal: RefusedError) -> None:
        super().__init__(
            refusal.message, facts=(*refusal.facts, "seen immediately before the request would have been sent"),
            hint=refusal.hint, group_id=refusal.group_id,
        )  # fmt: skip


class InterruptedChangeError(PartialError):
    """kgm was interrupted after a request was sent, before it knew what the request had changed."""


def carried_out(
    run: Callable[[], T], was_sent: Callable[[], bool], record: ChangeRecord, *, unknown: str, hint: str,
    group_id: str | None,
) -> T:  # fmt: skip
    """Write the intent, call `run` and return its result. `run` checks again, sends, checks afterwards, and writes the
    results to the record. unknown: what is not known if `run` is interrupted; hint: the command that shows it.

    Raises PartialError if something may have changed (InterruptedChangeError after an interruption), any other KgmError
    only if nothing can have."""
    try:
        record.write_intent()  # Ctrl-C may end it after the intent is on disk: that needs an outcome, too
        return run()
    except StaleVerdictError as error:
        record.write_refusal(error)
        raise
    except KgmError as error:
        record.write_failure(error)
        raise
    except KeyboardInterrupt:
        if not was_sent():
            record.write_failure(KgmError("interrupted before a request was sent"))
            raise
        record.write_unknown("kgm was interrupted")
        raise InterruptedChangeError(
            f"interrupted after the request was sent: it is not known {unknown}", hint=hint, group_id=group_id
        ) from None
    except BaseException as error:
        record.write_unknown(f"kgm ended with {type(error).__name__}")
        raise
