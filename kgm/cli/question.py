"""Asking at a terminal before something is changed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kgm.cli.output.streams import write_stderr
from kgm.model.errors import RefusedError
from kgm.text.sanitize import clean

#: The most lines shown above a question.
_MOST_LINES = 40


def refuse_unasked(group_id: str, *, yes: bool) -> None:
    """Raises RefusedError if kgm has to ask before it continues, but cannot."""
    if not yes and not sys.stdin.isatty():
        raise RefusedError(
            f"nothing was done to group {group_id!r}: stdin is not a terminal, so kgm cannot ask",
            hint="add --yes to continue without being asked, or --dry-run to preview", group_id=group_id,
        )  # fmt: skip


def ask(group_id: str, lines: Sequence[str], question: str) -> None:
    """Show what would be done, and ask. Raises RefusedError unless the answer is yes, including when the question
    cannot be shown."""
    shown = [*lines[:_MOST_LINES], *([f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else [])]
    text = "".join(f"  {clean(line)}\n" for line in shown)
    if not (write_stderr(f"{text}{question} [y/N] ") and is_yes()):
        raise RefusedError(f"declined: nothing was done to group {group_id!r}", group_id=group_id)


def is_yes() -> bool:
    """Whether the operator answers yes; False if stdin cannot be read."""
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        write_stderr("\n")
        raise
    except (OSError, ValueError):  # the terminal has gone, or the bytes are not text
        return False
    return answer.strip().lower() in ("y", "yes")
