"""What `kgm wait --for` waits for, and whether a group is it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kgm.model.errors import UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.watch.story import AWAY, STABLE
from kgm.text.wording import many

_FORM: Final = re.compile(r"(members|lag)\s*(<=|>=|==|=)\s*(\d+)")
_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "<=": operator.le, ">=": operator.ge, "=": operator.eq, "==": operator.eq,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """seen: what the group is instead, or now, in words."""

    met: bool
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """text: as it was typed. what: stable, empty, members or lag; limit and how to compare with it for the latter."""

    text: str
    what: str
    sign: str = "="
    limit: int = 0

    @property
    def takes_offsets(self) -> bool:
        return self.what == "lag"

    @property
    def is_met_by_nothing(self) -> bool:
        """Whether a group that does not exist any more is it."""
        return self.what == "empty" or (self.what == "members" and _COMPARE[self.sign](0, self.limit))

    def ask(self, group: GroupSnapshot) -> Answer:
        """Whether the group is it now."""
        match self.what:
            case "stable":
                return _stable(group)
            case "empty":
                gone = not group.members
                return Answer(met=gone, seen="no members" if gone else many(len(group.members), "member"))
            case "members":
                count = len(group.members)
                return Answer(met=_COMPARE[self.sign](count, self.limit), seen=many(count, "member"))
            case _:
                return _lag(group, self)


def parse_condition(text: str) -> Condition:
    """`stable`, `empty`, `members=N`, `members>=N`, `members<=N`, `lag<=N`. Raises UsageError."""
    plain = text.strip().lower()
    if plain in ("stable", "empty"):
        return Condition(text=plain, what=plain)
    found = _FORM.fullmatch(plain)
    if found is None or (found[1] == "lag" and found[2] == ">="):
        raise UsageError(
            f"--for: {text!r} is no condition", hint="stable, empty, members=N, members>=N, members<=N or lag<=N"
        )
    return Condition(text=plain.replace(" ", ""), what=found[1], sign=found[2], limit=int(found[3]))


def _stable(group: GroupSnapshot) -> Answer:
    if group.state != STABLE:
        return Answer(met=False, seen=group.state)
    unsettled = sorted(one.identity for one in group.members if one.status in (AWAY, "reconciling"))
    if unsettled:
        return Answer(met=False, seen=f"{group.state}, but not yet: {', '.join(unsettled[:3])}")
    return Answer(met=True, seen=group.state)


def _lag(group: GroupSnapshot, condition: Condition) -> Answer:
    """Of all partitions that the group owns or has committed for. One that is not known keeps it from being met: it
    may be any number. An empty partition for which nothing was committed yet lags by nothing."""
    rows = group.offsets
    unknown = [row for row in rows if row.lag is None and not (row.committed is None and row.end == 0)]
    known = sum(row.lag for row in rows if row.lag is not None)
    if unknown:
        row = unknown[0]
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        why = "nothing is committed for" if row.committed is None else "the end is not known of"
        return Answer(met=False, seen=f"lag {known}, but {why} {row.topic}[{row.partition}]{more}")
    if not rows:
        return Answer(met=False, seen="no lag: the group neither owns nor has committed anything")
    return Answer(met=_COMPARE[condition.sign](known, condition.limit), seen=f"lag {known}")
