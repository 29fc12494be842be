"""Warnings about what a history lacks: segments not read to their end, and records that compaction removed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kgm.cli.output.history.rows_json import at_text
from kgm.cli.output.notices import Notices
from kgm.text.wording import many, some, typed

if TYPE_CHECKING:
    from kgm.history.folders import Damage
    from kgm.operations.history.source import History


def warn_of(damages: Iterable[Damage]) -> None:
    """Write them to stderr. Torn tails are only noted: copies of a running broker's files usually have them."""
    notices = Notices()
    torn = 0
    for damage in damages:
        if damage.torn:
            torn += 1
            continue
        where = "" if damage.position is None else f" at byte {damage.position}"
        notices.warn(f"{damage.path}{where}: {damage.reason}; the rest of this file is not read")
    if torn:
        which = many(torn, "segment")
        notices.note(f"{which} ended in the middle of a batch, as copies of a running broker's files often do")


def warn_of_gaps(history: History, group_id: str | None = None, match: str | None = None) -> None:
    """Write to stderr which groups have a gap in the requested time. group_id: only this one, and also whether it is
    known to exist; match: only those whose id matches the pattern."""
    from kgm.operations.history.gaps import incomplete_groups
    from kgm.operations.history.unconfirmed import last_confirmed

    last_ms = None if group_id is None else last_confirmed(history, group_id)
    if group_id is not None and last_ms is not None:
        which = f"nothing is known of group {typed(group_id)} since {at_text(last_ms)}"
        Notices().warn(f"{which}: compaction has removed later records, so it may have been deleted")
    found = incomplete_groups(history, group_id, match)
    if not found:
        return
    if len(found) == 1:
        ((name, since),) = found.items()
        which = f"the history of group {typed(name)} is complete from {at_text(since)} on only"
    else:
        which = f"the history of {many(len(found), 'group')} ({some(map(typed, found))}) is not complete"
    Notices().warn(f"{which}: compaction has removed earlier records, and what they recorded is not counted here")


def no_rebalance_text(*, is_complete: bool) -> str:
    """What to say where no rebalance is listed."""
    return "no rebalance in this window" if is_complete else "no rebalance is known: earlier records are missing"
