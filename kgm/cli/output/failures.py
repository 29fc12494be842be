"""How a command ends when part of what it was asked for failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgm.cli.output.streams import say
from kgm.model.errors import KgmError
from kgm.text.sanitize import clean

if TYPE_CHECKING:
    from kgm.client import AdminClient, Listing


def tell(error: KgmError) -> None:
    """One error for people, on stderr."""
    lines = [f"error: {error.message}", *(f"  {fact}" for fact in error.facts)]
    if error.hint:
        lines.append(f"hint: {error.hint}")
    say("".join(clean(line) + "\n" for line in lines))


def warn(text: str) -> None:
    """One warning, on stderr."""
    say(f"warning: {clean(text)}\n")


def warn_of_unseen_groups(connected: AdminClient, listing: Listing) -> None:
    """Kafka leaves out of a listing what the principal may not see, and says nothing; an empty one gives it away."""
    if not listing.groups and not listing.errors and not connected.may_list_all():
        warn(
            "no group is visible to us: without DESCRIBE on Cluster 'kafka-cluster' a listing leaves out every group "
            "on which we have no DESCRIBE"
        )


def warn_of_unseen_topics(connected: AdminClient) -> None:
    """Topics that the brokers do not describe to us: their partition counts, offsets and lag stay unknown."""
    if connected.denied_topics:
        names = ", ".join(repr(name) for name in sorted(connected.denied_topics))
        warn(f"no DESCRIBE on Topic {names}: partition counts, offsets and lag of it are unknown")


def finish(errors: Sequence[KgmError], *, done: int) -> None:
    """Tell each error, and leave with 0 when there was none, 7 when some of it was done, else the first error's code.

    The report has been printed before: what was found out is never withheld because something else failed."""
    import typer

    for error in errors:
        tell(error)
    if errors:
        raise typer.Exit(7 if done else errors[0].exit_code)
