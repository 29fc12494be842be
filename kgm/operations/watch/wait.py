"""The loop of `kgm wait`: describe a group until it meets all conditions, or time runs out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from kgm.client.failures import OtherClusterError
from kgm.client.poller import POLL_MS
from kgm.client.transport.brokers import TAKEOVER_S
from kgm.model.errors import (
    AuthenticationError,
    AuthorizationError,
    ConditionNotMet,
    KgmError,
    NotFoundError,
    PartialError,
    UnreachableError,
)
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.groups.trends import Trend, TrendKind, group_trends
from kgm.operations.watch.conditions import Condition, ConditionState
from kgm.operations.watch.timekeeper import Timekeeper
from kgm.text.durations import show_duration
from kgm.text.wording import partitions_text, typed

_SHORTEST_POLL_MS: Final = 100
#: How many descriptions in a row must show that a condition cannot be met.
_FINAL_POLLS: Final = 2
#: The trend of lag is computed over the polls of this period.
_TREND_MS: Final = 10_000
#: The time reserved for the last poll.
_LAST_POLL_MS: Final = 500
#: A broker that has not answered for this long counts as unreachable, even at the end.
_ENOUGH_MS: Final = 1_000


class GroupSource(Protocol):
    """Something that describes groups, such as `kgm.client.AdminClient`."""

    def renew(self, timeout_ms: int) -> None:
        """Start a new time limit for the requests that follow."""
        ...

    def describe_group(self, group_id: str, *, offsets: bool) -> GroupSnapshot:
        """Raises KgmError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLimits:
    """The limits of a wait. hold_ms: how long the conditions must hold. must_exist: a group that does not exist at the
    start is an error."""

    timeout_ms: int
    hold_ms: int
    interval_ms: int
    must_exist: bool = False

    @property
    def last_poll_ms(self) -> int:
        """How long before the timeout the last poll begins, whatever the interval."""
        return min(_LAST_POLL_MS, self.timeout_ms // 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionResult:
    """A condition, and whether it was met in the last poll."""

    condition: Condition
    met: bool
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitResult:
    """How a wait ended. group: the last description; None if there was none. error: None if all conditions are met;
    ConditionNotMet if one is not, and another error if the last poll could not read what it takes to know (a poll that
    the end of the wait cut off does not count).
    trend: the latest trend of lag, if a condition is about lag."""

    group_id: str
    waited_ms: int
    conditions: tuple[ConditionResult, ...]
    group: GroupSnapshot | None
    error: KgmError | None
    trend: Trend | None = None

    @property
    def met(self) -> bool:
        return self.error is None


def wait_for(
    source: GroupSource, group_id: str, conditions: Sequence[Condition], limits: WaitLimits, timekeeper: Timekeeper,
    *, with_lag_time: Callable[[GroupSnapshot], GroupSnapshot] = lambda group: group,
    unread: Callable[[], Sequence[str]] = tuple,
) -> WaitResult:  # fmt: skip
    """Poll until all conditions hold, or time runs out. with_lag_time: adds lag in time to a group if a condition needs
    it. unread: returns what the last description lacks because it could not be read, in words.

    A missing group and unreachable brokers are waited for. Raises AuthenticationError, AuthorizationError and
    OtherClusterError, and NotFoundError with `must_exist`."""
    state = _WaitState(
        group_id=group_id, conditions=conditions, limits=limits, started_ms=timekeeper.now_ms(), unread=unread
    )
    needs_offsets = any(condition.needs_offsets for condition in conditions)
    needs_times = any(condition.needs_times for condition in conditions)
    while True:
        waited_ms = timekeeper.now_ms() - state.started_ms
        source.renew(max(min(POLL_MS, limits.timeout_ms - waited_ms), _SHORTEST_POLL_MS))
        try:
            group = source.describe_group(group_id, offsets=needs_offsets)
            counts = state.take(with_lag_time(group) if needs_times else group, timekeeper.now_ms())
        except KgmError as error:
            counts = state.take_failure(error, timekeeper.now_ms())
        now_ms = timekeeper.now_ms()
        if counts and state.has_held(now_ms):
            return state.result(now_ms, met=True)
        if state.is_hopeless:
            return state.result(now_ms, met=False)
        left_ms = limits.timeout_ms - (now_ms - state.started_ms) - limits.last_poll_ms
        if left_ms <= 0:
            state.look_for_markers(with_lag_time)
            return state.result(now_ms, met=False)
        timekeeper.sleep_ms(min(limits.interval_ms, left_ms))


@dataclass(slots=True, kw_only=True)
class _WaitState:
    """What is known after some polls."""

    group_id: str
    conditions: Sequence[Condition]
    limits: WaitLimits
    started_ms: int
    unread: Callable[[], Sequence[str]]
    #: Since when all conditions have been met.
    met_since_ms: int | None = None
    states: list[ConditionState] = field(default_factory=list)
    group: GroupSnapshot | None = None
    #: When the group was described last.
    described_ms: float = float("-inf")
    #: (time in ms, group) of the latest descriptions, oldest first.
    polled: deque[tuple[int, GroupSnapshot]] = field(default_factory=deque)
    #: Why the last poll has no description.
    error: KgmError | None = None
    #: How many descriptions in a row have shown that a condition cannot be met.
    final_polls: int = 0

    @property
    def is_hopeless(self) -> bool:
        """Whether waiting will not help. Two brokers may briefly disagree, so it takes two descriptions."""
        return self.final_polls >= _FINAL_POLLS

    def take(self, group: GroupSnapshot, now_ms: int) -> bool:
        """Record a description. Returns whether it counts: see `_is_cut_off`."""
        states = [condition.check(group) for condition in self.conditions]
        was_known = not any(state.is_unknown for state in self.states)
        if self._is_cut_off(now_ms) and was_known and any(state.is_unknown for state in states):
            return False
        self.group, self.error, self.described_ms = group, None, now_ms
        if any(condition.needs_offsets for condition in self.conditions):
            self.polled.append((now_ms, group))
            while now_ms - self.polled[0][0] > _TREND_MS:
                self.polled.popleft()
        self.states = states
        self.final_polls = self.final_polls + 1 if any(state.is_final for state in self.states) else 0
        return True

    def _is_cut_off(self, now_ms: int) -> bool:
        """Whether the end of the wait may have kept the last poll from an answer. What it did not learn does not count
        then, and what the poll before it described does: a broker that takes a moment is not unreachable."""
        is_over = now_ms - self.started_ms >= self.limits.timeout_ms
        return is_over and now_ms - self.described_ms < _ENOUGH_MS and self.error is None

    def look_for_markers(self, with_lag_time: Callable[[GroupSnapshot], GroupSnapshot]) -> None:
        """If nothing is left to read in a lag that is too high, report that: it will not shrink."""
        if self.group is None or not any(state.is_of_lag for state in self.states):
            return
        try:
            markers = with_lag_time(self.group).marker_ends
        except KgmError:
            return  # report the lag as it is
        if markers:
            where = f": {partitions_text(markers)} has nothing left to read but markers of transactions (lag-time<=0s)"
            self.states = [
                replace(state, seen=f"{state.seen}{where}", is_of_lag=False) if state.is_of_lag else state
                for state in self.states
            ]

    def take_failure(self, error: KgmError, now_ms: int) -> bool:
        """Record a failed poll. Returns whether it counts: see `_is_cut_off`. Raises the error if waiting will not
        help."""
        if isinstance(error, AuthenticationError | AuthorizationError | OtherClusterError):
            raise error
        if isinstance(error, UnreachableError) and self._is_cut_off(now_ms):
            return False
        is_missing = isinstance(error, NotFoundError)
        if is_missing and self.limits.must_exist and self.group is None:
            raise error
        self.error = error
        if is_missing:
            existed = self.group is not None
            self.states = [
                ConditionState(met=existed and condition.is_met_by_deletion, seen="the group does not exist")
                for condition in self.conditions
            ]
        else:
            self.states = [ConditionState(met=False, seen=error.message) for _ in self.conditions]
        return True

    def has_held(self, now_ms: int) -> bool:
        """Whether all conditions have been met for long enough."""
        if not all(state.met for state in self.states):
            self.met_since_ms = None
            return False
        self.met_since_ms = now_ms if self.met_since_ms is None else self.met_since_ms
        return now_ms - self.met_since_ms >= self._hold_ms

    @property
    def _hold_ms(self) -> int:
        """How long the conditions must hold. A coordinator that has just taken over may describe a group as it was
        before its members joined, so a group without members must stay that way for a moment."""
        if self.group is not None and self.error is None and self.group.members:
            return self.limits.hold_ms
        return max(self.limits.hold_ms, min(round(TAKEOVER_S * 1000), self.limits.timeout_ms // 2))

    def result(self, now_ms: int, *, met: bool) -> WaitResult:
        trend = self._trend()
        is_told = trend is not None and trend.kind is not TrendKind.UNKNOWN
        results = tuple(
            ConditionResult(
                condition=condition, met=state.met,
                seen=f"{state.seen}, {trend.text}" if trend and is_told and state.is_of_lag else state.seen,
            )
            for condition, state in zip(self.conditions, self.states, strict=True)
        )  # fmt: skip
        return WaitResult(
            group_id=self.group_id,
            waited_ms=now_ms - self.started_ms,
            conditions=results,
            group=self.group,
            error=None if met else self._not_met([one for one in results if not one.met]),
            trend=trend,
        )

    def _trend(self) -> Trend | None:
        """The trend over the last polls; None if no condition is about lag, or if no description has it."""
        if not self.polled:
            return None
        (then_ms, then), (now_ms, now) = self.polled[0], self.polled[-1]
        return group_trends(then, now, then_ms=then_ms, now_ms=now_ms).total

    def _is_unread(self) -> bool:
        """Whether the group was described, and all that is not met is something that is unknown."""
        unmet = [state for state in self.states if not state.met]
        return self.error is None and bool(unmet) and all(state.is_unknown for state in unmet)

    def _not_met(self, unmet: Sequence[ConditionResult]) -> KgmError:
        names = ", ".join(one.condition.text for one in unmet or [])
        facts = [f"{one.condition.text}: {one.seen}" for one in unmet]
        if not unmet:
            names = ", ".join(condition.text for condition in self.conditions)
            facts = [f"met at the last poll, but not for {show_duration(self._hold_ms)}"]
        kind: type[KgmError] = ConditionNotMet
        hint, code = f"kgm describe {typed(self.group_id)}", 0
        unread = self.unread() if self._is_unread() else ()
        if self.error is not None:
            facts += self.error.facts
            if not isinstance(self.error, NotFoundError):
                hint, kind, code = self.error.hint or hint, type(self.error), self.error.kafka_error
        elif unread:
            facts += unread
            kind = PartialError
        return kind(
            f"group {self.group_id!r}: cannot be met: {names}"
            if self.is_hopeless
            else f"group {self.group_id!r}: not met within {show_duration(self.limits.timeout_ms)}: {names}",
            facts=facts,
            hint=hint,
            group_id=self.group_id,
            kafka_error=code,
        )
