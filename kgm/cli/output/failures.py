"""Errors and warnings on stderr, and how a command ends when part of its work failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kgm.cli.invocation import Ended, note_warning, with_cluster
from kgm.cli.output.streams import write_stderr
from kgm.client import AdminClient
from kgm.model.errors import KgmError
from kgm.operations.groups.unread import Unread
from kgm.text.sanitize import clean


def print_error(error: KgmError) -> None:
    """Print the error on stderr."""
    write_stderr(error_text(error))


def error_text(error: KgmError) -> str:
    """`error: ...`, its facts, and `hint: ...`."""
    lines = [f"error: {error.message}", *(f"  {fact}" for fact in error.facts)]
    if error.hint:
        lines.append(f"hint: {with_cluster(error.hint)}")
    return "".join(clean(line) + "\n" for line in lines)


def print_warning(text: str) -> None:
    """Print `warning: ...` on stderr."""
    text = with_cluster(text)
    note_warning(text)
    write_stderr(f"warning: {clean(text)}\n")


def warn_of_unseen_groups(unseen: KgmError | None) -> None:
    """Warn that there may be groups which the principal cannot see."""
    if unseen is not None:
        print_warning(unseen.message)


def warn_of_unknown_offsets(connected: AdminClient, *, shows_lag: bool = False) -> None:
    """Warn about topics that the brokers do not describe to this principal, whose partition counts and lag are unknown,
    groups whose committed offsets could not be read, and partitions whose end offsets could not be read. shows_lag:
    warn also that there may be lag in topics that no member names."""
    from kgm.operations.groups.unread import UnreadKind, unread

    warn_of_unread(one for one in unread(connected) if shows_lag or one.kind is not UnreadKind.OTHER_COMMITTED)


def warn_of_unread(every: Iterable[Unread]) -> None:
    for one in every:
        print_warning(one.warning)


def exit_with(errors: Sequence[KgmError], *, done: int) -> None:
    """Print each error and exit: with 7 if some of the work is done, otherwise with the code of the first error.

    Returns if there are no errors. Call it after printing the report, so that results are shown even if other parts
    failed."""
    for error in errors:
        print_error(error)
    if errors:
        raise Ended(7 if done else errors[0].exit_code)
