"""How many rebalances a watched group had: by the log as far as that is read, else by what descriptions show."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kgm.model.snapshot import GroupSnapshot
from kgm.records.rebalances import EndedRebalances, most_between
from kgm.text.wording import many


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDoubt:
    """Why there may have been more rebalances than were counted. more: at most how many more; None: any number."""

    why: str
    more: int | None = None

    def __str__(self) -> str:
        return f"at least: {self.why}" if self.more is None else f"up to {self.more} more: {self.why}"


def most_rebalances(least: int, doubt: CountDoubt | None) -> int | None:
    """At most how many rebalances there were; None if that is not known."""
    if doubt is None:
        return least
    return None if doubt.more is None else least + doubt.more


def rebalances_text(least: int, doubt: CountDoubt | None) -> str:
    """`2 rebalances`, `at least 2 rebalances` or `2 to 5 rebalances`."""
    if doubt is None or doubt.more is None:
        return f"{'' if doubt is None else 'at least '}{many(least, 'rebalance')}"
    return f"{least} to {least + doubt.more} rebalances"


def ended_text(least: int, most: int) -> str:
    """How many rebalances ended, at least and at most, after a generation or epoch; empty for one."""
    if least == most <= 1:
        return ""
    return f": {many(most, 'rebalance')}" if least == most else f": {least} to {most} rebalances"


@dataclass(slots=True)
class RebalanceCount:
    """least: how many there were at least; more: how many more there may have been because only two assignment epochs,
    or generations, are known. misses_records: whether some of these are because records of the log are missing. ended:
    the last one."""

    least: int = 0
    more: int = 0
    misses_records: bool = False
    ended: EndedRebalances = field(default_factory=EndedRebalances)
    _logged: tuple[int, int, EndedRebalances] | None = None

    def begin(self, group: GroupSnapshot) -> None:
        """Count from this group on, unless the count has begun."""
        number = group.generation if group.type == "classic" else group.assignment_epoch
        if self.ended.number is None and number is not None:
            self.ended = EndedRebalances(number=number, is_target=group.type != "classic")

    def go_back(self) -> None:
        """The log is read again: what it tells follows what was known when it was read last."""
        if self._logged is not None:
            self.least, self.more, self.ended = *self._logged[:2], replace(self._logged[2])

    def keep(self) -> None:
        """The log has been read until now."""
        self._logged = self.least, self.more, replace(self.ended)

    def keep_at_least(self, least: int) -> None:
        """So many were reported before."""
        if least > self.least:
            self.more = max(0, self.more - (least - self.least))
            self.least = least

    def generation(self, number: int, *, is_empty: bool, counts_empty: bool, follows_gap: bool) -> tuple[int, int]:
        """Take a record of a classic group, as `EndedRebalances.generation`."""
        counted = self.ended.generation(
            number, is_empty=is_empty, counts_empty=counts_empty, follows_gap=follows_gap
        )  # fmt: skip
        return self._add_logged(*counted)

    def target(self, epoch: int, *, follows_gap: bool) -> tuple[int, int]:
        """Take a record of a target assignment, as `EndedRebalances.target`."""
        return self._add_logged(*self.ended.target(epoch, follows_gap=follows_gap))

    def doubt(self, unread: str | None) -> CountDoubt | None:
        """Why there may have been more than `least`. unread: why the records that tell are not read now."""
        if not self.more:
            return None
        why = "several epochs passed between two polls, and they can have one assignment in common"
        if self.misses_records:
            why = "some of its records in __consumer_offsets were not read, or compaction has removed them"
        return CountDoubt(why=why if unread is None else f"{unread}: {why}", more=self.more)

    def described(self, epoch: int, *, is_log_read: bool) -> tuple[int, int]:
        """Take a description with this assignment epoch. Returns how many rebalances it shows, at least and at most; is
        the log read, it has those that ended before the description."""
        before = self.ended.number
        is_told = is_log_read and before is not None and (epoch < before or not self.ended.is_target)
        if is_told or epoch == before:
            return 0, 0
        least = most = 0
        if before is not None:
            least, most = 1, most_between(before, epoch)
        self.ended = EndedRebalances(number=epoch, is_target=True)
        self._add(least, most)
        return least, most

    def _add_logged(self, least: int, most: int) -> tuple[int, int]:
        self._add(least, most)
        self.misses_records |= most > least
        return least, most

    def _add(self, least: int, most: int) -> None:
        self.least += least
        self.more += most - least
