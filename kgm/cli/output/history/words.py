"""The answers of a history in the words of tables and pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, assert_never

from kgm.cli.output.history.rows_json import BROKER_LOG, at, at_text
from kgm.cli.output.report import Cell, Column
from kgm.history.row_parts import Involvement
from kgm.text.durations import show_duration
from kgm.text.wording import in_words, many

if TYPE_CHECKING:
    from kgm.history.row_parts import CauseCount, Who
    from kgm.history.rows import RebalanceRow

_MOST_WHO = 4
_CAUSES_SHOWN = 3
#: The random end of a classic member id: eight of its digits are enough to tell members apart.
_UUID = re.compile(r"-([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def short(identity: str | None) -> str:
    """A member id with just enough of its random end to identify it; an instance id as it is."""
    return "?" if identity is None else _UUID.sub(r"-\1", identity)


def known(value: int | None) -> str:
    """The number, or ? if it is unknown."""
    return "?" if value is None else str(value)


def who_text(who: Sequence[Who], *, most: int = _MOST_WHO) -> str | None:
    """`+app-1 -app-2`: who joined, left, came back (`~`), took over what others gave up in the previous rebalance
    (`=`), or changed its subscription (`*`); without a sign: who stayed a member, such as one that joined again."""
    if not who:
        return None
    texts = [_sign(each.what) + short(each.seat or None) for each in who]
    rest = len(texts) - most
    return " ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")


def _sign(what: str) -> str:
    """The sign for what a member did. "" for a word that only a newer kgm knows."""
    try:
        known = Involvement(what)
    except ValueError:
        return ""
    # Without a default: the type checker finds the member of the enum that is missing here.
    match known:
        case Involvement.JOINED:
            return "+"
        case Involvement.RETURNED | Involvement.REPLACED:
            return "~"
        case Involvement.TOOK_OVER:
            return "="
        case Involvement.RESUBSCRIBED:
            return "*"
        case Involvement.JOINED_AGAIN | Involvement.PROBED | Involvement.AWAY | Involvement.MEMBER:
            return ""
        case (
            Involvement.LEFT
            | Involvement.LEAVE
            | Involvement.SESSION_EXPIRY
            | Involvement.MAX_POLL
            | Involvement.REMOVAL
            | Involvement.DEPARTURE
        ):
            return "-"
        case _:
            assert_never(known)


def why_text(row: RebalanceRow) -> str:
    """The cause in words, and any causes that came with it."""
    return " + ".join(in_words(each) for each in (row.cause, *row.also))


def sure_text(row: RebalanceRow) -> str:
    """How certain the cause is, and whether it is from a broker's log."""
    logged = f" ({BROKER_LOG})" if row.source == BROKER_LOG else ""
    return f"{row.confidence or '?'}{logged}"


def between_text(least: int | None, most: int | None) -> str | None:
    """`3ms-2.4s`, `>= 3ms`, `<= 2.4s`, for times in ms; None if neither is known."""
    if least is None and most is None:
        return None
    if least is None:
        return f"<= {show_duration(most)}"
    if most is None:
        return f">= {show_duration(least)}"
    return show_duration(least) if least == most else f"{show_duration(least)}-{show_duration(most)}"


def stopped_text(row: RebalanceRow) -> str | None:
    """How long the members were stopped; for a group with epochs, the exact total over partitions or tasks. None for a
    share group, where it is unknown."""
    if row.group_type == "share":
        return None
    if row.group_type != "classic":
        return None if row.unowned_ms is None else f"{show_duration(row.unowned_ms)} in total"
    return between_text(row.stopped_min_ms, row.stopped_max_ms)


def stopped_partitions_text(row: RebalanceRow) -> str | None:
    """The time without a consumer, total over partitions."""
    return between_text(row.stopped_partition_ms_min, row.stopped_partition_ms_max)


def moved_text(row: RebalanceRow) -> str | None:
    """`2/6`: partitions whose owner changed, out of those that had an owner before and after."""
    return None if row.moved is None else f"{row.moved}/{row.moved + (row.kept or 0)}"


def generation_text(row: RebalanceRow) -> str:
    """`3 -> 5 (1 incomplete rebalance)`."""
    rounds = f" ({many(row.lost_rounds, 'incomplete rebalance')})" if row.lost_rounds else ""
    return f"{row.from_generation} -> {row.to_generation}{rounds}"


def record_text(row: RebalanceRow) -> str:
    """When a rebalance was recorded, and where."""
    return f"{at_text(row.timestamp)}, in __consumer_offsets-{row.partition} at offset {row.offset}"


def causes_text(causes: Sequence[CauseCount]) -> str:
    """`12 join, 3 leave, 2 more`."""
    texts = count_texts(causes[:_CAUSES_SHOWN])
    rest = sum(each.count for each in causes[_CAUSES_SHOWN:])
    return ", ".join(texts) + (f", {rest} more" if rest else "")


def count_texts(causes: Iterable[CauseCount]) -> list[str]:
    """`3 join` for each cause."""
    return [f"{each.count} {in_words(each.cause)}" for each in causes]


def rebalance_cells(row: RebalanceRow) -> list[Cell]:
    """The cells under REBALANCE_TITLES."""
    gap = "" if row.complete else " ?"
    return [
        at(row.timestamp), row.group_id, generation_text(row) + gap, why_text(row), sure_text(row), who_text(row.who),
        stopped_text(row), moved_text(row),
    ]  # fmt: skip


def rebalance_columns(group: str | None) -> list[Column]:
    """The columns of `rebalance_cells`, in a table of one group or of all."""
    left_out = {"GROUP": None if group is None else 0, "MOVED": 1, "STOPPED": 2, "CONFIDENCE": 3}
    return [Column(title=title, left_out=left_out.get(title)) for title in REBALANCE_TITLES]


#: The columns of csv and tsv.
REBALANCE_KEYS = (
    "at", "group_id", "generation_before", "generation_after", "cause", "also", "confidence", "source", "who",
    "stopped_ms.min", "stopped_ms.max", "stopped_partition_ms.min", "stopped_partition_ms.max", "unowned_ms", "moved",
    "kept", "lost_rounds", "complete", "record.partition", "record.offset",
)  # fmt: skip
REBALANCE_TITLES = ("AT", "GROUP", "GENERATION", "WHY", "CONFIDENCE", "WHO", "STOPPED", "MOVED")
