"""Warnings about segments that could not be read to their end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kgm.cli.output.notices import Notices
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.history.folders import Damage


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
