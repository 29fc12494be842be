"""How a command ends when part of what it was asked for failed."""

import sys
from collections.abc import Sequence

from kgm.cli.sanitize import clean
from kgm.model.errors import KgmError


def tell(error: KgmError) -> None:
    """One error for people, on stderr."""
    lines = [f"error: {error.message}", *(f"  {fact}" for fact in error.facts)]
    if error.hint:
        lines.append(f"hint: {error.hint}")
    sys.stderr.write("".join(clean(line) + "\n" for line in lines))


def finish(errors: Sequence[KgmError], *, done: int) -> None:
    """Tell each error, and leave with 0 when there was none, 7 when some of it was done, else the first error's code.

    The report has been printed before: what was found out is never withheld because something else failed."""
    import typer

    for error in errors:
        tell(error)
    if errors:
        raise typer.Exit(7 if done else errors[0].exit_code)
