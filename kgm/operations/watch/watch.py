"""The loop of `kgm watch`: poll groups, report what happens to them, and end when the watch is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from kgm.client.failures import OtherClusterError
from kgm.client.offsets_topic.group_tail import RecordedGroup, RecordedTarget
from kgm.client.poller import PolledGroup
from kgm.model.errors import ConditionNotMet, KgmError, NotFoundError, PartialError
from kgm.operations.watch.events import EventKind, GroupEvent
from kgm.operations.watch.past_records import may_be_another, records_since
from kgm.operations.watch.rebalance_count import CountDoubt
from kgm.operations.watch.timekeeper import Timekeeper
from kgm.operations.watch.verdict import WatchVerdict
from kgm.operations.watch.watched_group import WatchedGroup
from kgm.text.durations import show_duration
from kgm.text.wording import typed

#: The maximum number of reasons given for groups that did not reach the goal.
_MOST_REASONS = 20


class Goal(StrEnum):
    """What `--until` waits for: stable, or stable after every member has been restarted."""

    STABLE = "stable"
    BOUNCED = "bounced"


class Poller(Protocol):
    """Describes all watched groups; a group that cannot be described has an error in its `PolledGroup`."""

    def poll(self) -> Mapping[str, PolledGroup]: ...

    def read_back(self) -> Mapping[str, Sequence[RecordedGroup | RecordedTarget]]:
        """What the coordinator's log has of each group, oldest first; nothing if it cannot be read."""
        ...


class WatchObserver(Protocol):
    """Receives what happens, poll after poll."""

    def show(self, events: Sequence[GroupEvent], now_ms: int) -> None:
        """Show the events since the last call; also called when there are none."""
        ...

    def has_left(self) -> bool:
        """Whether output no longer reaches anyone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLimits:
    """The limits of a watch. goal: None to watch without one. duration_ms, looks: None for no limit."""

    interval_ms: int
    goal: Goal | None = None
    duration_ms: int | None = None
    looks: int | None = None


class Watch:
    """A watch of one or more groups. Once it is over, `error` has the expectation that was not met, or why it is not
    known whether it was."""

    def __init__(
        self, poller: Poller, groups: Sequence[WatchedGroup], limits: WatchLimits, timekeeper: Timekeeper,
        *, is_ended: Callable[[], bool] = lambda: False, unseen: KgmError | None = None,
        taken_ms: int | None = None,
    ) -> None:  # fmt: skip
        """is_ended: whether the operator has ended the watch, which has the same effect as reaching a limit. unseen:
        why there may be groups that should be watched too. taken_ms: when the baselines were described, in ms since the
        epoch; None if that is not known."""
        self._is_ended, self._unseen_groups = is_ended, unseen
        self._taken_ms = taken_ms
        self.groups = tuple(groups)
        self.error: KgmError | None = None
        self._poller, self._limits, self._timekeeper = poller, limits, timekeeper
        self._started_ms = timekeeper.now_ms()
        self._first_events: list[GroupEvent] = []

    def begin(self) -> None:
        """The first poll, with what the log has since the baselines. Raises KgmError if a group cannot be described."""
        past = self._poller.read_back() if any(one.baseline is not None for one in self.groups) else {}
        looks, now_ms = self._poller.poll(), self._now_ms()
        for group in self.groups:
            look = self._since_baseline(group, looks[group.group_id], past.get(group.group_id, ()))
            self._first_events += group.observe(look, now_ms)
            if group.error is not None:
                raise group.error

    def _since_baseline(
        self, group: WatchedGroup, look: PolledGroup, past: Sequence[RecordedGroup | RecordedTarget]
    ) -> PolledGroup:
        """The first poll of a group with all records since its baseline, if that is from a file and the log still has
        them. past: what the log has of the group, oldest first."""
        baseline = group.baseline
        if baseline is None or isinstance(look.seen, KgmError):
            return look
        since = records_since(baseline, past, taken_ms=self._taken_ms)
        if since is None and look.count_unread_because is None and may_be_another(baseline, look.seen):
            group.doubt = CountDoubt(why="the log no longer has the record of the baseline, or has another group since")
        return replace(look, recorded=(*(since or ()), *look.recorded))

    def run(self, observer: WatchObserver) -> None:
        """Report what happens until the goal is reached, an expectation is broken, a limit is reached, another cluster
        answers, or the observer has left. If the watch is interrupted, its end is reported, too."""
        observer.show(self._first_events, self._now_ms())
        try:
            while not self._is_over(observer):
                self._timekeeper.sleep_ms(self._pause_ms())
                observer.show(self._poll(), self._now_ms())
        except KeyboardInterrupt:
            self._show_end(observer)
            raise

    def verdicts(self) -> list[WatchVerdict]:
        """The verdict on each group, also after an interrupted watch."""
        return [
            group.verdict(reached=None if self._limits.goal is None else group.is_quiet() and group.breach() is None)
            for group in self.groups
        ]

    def _now_ms(self) -> int:
        return self._timekeeper.now_ms()

    def _poll(self) -> list[GroupEvent]:
        looks = self._poller.poll()
        now_ms = self._now_ms()
        return [event for group in self.groups for event in group.observe(looks[group.group_id], now_ms)]

    def _pause_ms(self) -> int:
        if self._limits.duration_ms is None:
            return self._limits.interval_ms
        left_ms = self._limits.duration_ms - (self._now_ms() - self._started_ms)
        return min(self._limits.interval_ms, max(0, left_ms))

    def _is_over(self, observer: WatchObserver) -> bool:
        goal, now_ms = self._limits.goal, self._now_ms()
        broken = [(group, reason) for group in self.groups if (reason := group.breach()) is not None]
        if broken:
            self.error = _breach(*broken[0])
            observer.show([self._final(group, EventKind.BREACH, reason) for group, reason in broken], now_ms)
            return True
        elsewhere = next((one.error for one in self.groups if isinstance(one.error, OtherClusterError)), None)
        if elsewhere is not None:  # that cluster may have other groups of these names: there is no more to see
            self.error = elsewhere
            self._show_end(observer)
            return True
        is_at_limit = self._is_at_limit(now_ms)
        # What is counted may be in records that the next poll will read.
        is_behind = any(one.expectations.are_counted and one.log_interrupted_because for one in self.groups)
        if goal is not None and all(group.is_quiet() for group in self.groups) and (is_at_limit or not is_behind):
            self.error = self._unseen()
            observer.show([self._final(one, EventKind.STABLE, _reached(one)) for one in self.groups], now_ms)
            return True
        if observer.has_left():
            return True
        if not is_at_limit:
            return False
        broken = [(group, reason) for group in self.groups if (reason := group.breach(is_over=True)) is not None]
        if goal is not None:
            self.error = self._not_reached(goal, now_ms)
        else:
            self.error = _breach(*broken[0]) if broken else self._unseen()
        self._show_end(observer)
        return True

    def _unseen(self) -> KgmError | None:
        """Why it is not known whether the expectations were met; None if they were."""
        for group in self.groups:
            if not group.expectations.are_counted:
                continue
            if group.error is not None:
                return group.error
            if (why := group.unseen()) is not None:
                return PartialError(
                    f"group {group.group_id!r}: it is not known whether the expectations were met", facts=(why,),
                    group_id=group.group_id,
                )  # fmt: skip
        is_asked = self._limits.goal is not None or any(group.expectations.are_counted for group in self.groups)
        return self._unseen_groups if is_asked else None

    def _show_end(self, observer: WatchObserver) -> None:
        ends = [self._final(group, EventKind.ENDED, group.summary()) for group in self.groups]
        observer.show(ends, self._now_ms())

    def _is_at_limit(self, now_ms: int) -> bool:
        if self._is_ended():
            return True
        duration_ms, looks = self._limits.duration_ms, self._limits.looks
        if duration_ms is not None and now_ms - self._started_ms >= duration_ms:
            return True
        return looks is not None and self.groups[0].looks >= looks

    def _not_reached(self, goal: Goal, now_ms: int) -> KgmError:
        """The error of a watch that has not reached its goal: if no group is known to be late, why it is not known."""
        late = [group for group in self.groups if not group.is_quiet()]
        errors = [None if isinstance(group.error, NotFoundError) else group.error for group in late]
        if all(errors) and errors[0] is not None:
            return errors[0]
        facts = [
            f"{group.group_id}: {reason}"
            for group in late
            for reason in group.missing() or [f"not quiet for {show_duration(group.expectations.quiet_ms)} yet"]
        ]
        names = ", ".join(repr(group.group_id) for group in late)
        waited_ms = now_ms - self._started_ms
        step_ms = next((step for step in (1000, 100) if waited_ms >= step), 1)
        waited = show_duration(waited_ms // step_ms * step_ms)
        return ConditionNotMet(
            f"group {names}: not {goal} within {waited}",
            facts=facts[:_MOST_REASONS],
            hint=" ".join(["kgm describe", *(typed(group.group_id) for group in late)]),
        )

    def _final(self, group: WatchedGroup, kind: EventKind, text: str) -> GroupEvent:
        return GroupEvent(at_ms=self._now_ms(), group_id=group.group_id, kind=kind, text=text)


def _breach(group: WatchedGroup, reason: str) -> ConditionNotMet:
    return ConditionNotMet(
        f"group {group.group_id!r}: {reason}", hint=f"kgm describe {typed(group.group_id)}", group_id=group.group_id
    )


def _reached(group: WatchedGroup) -> str:
    return f"for {show_duration(group.expectations.quiet_ms)}: {group.summary()}"
