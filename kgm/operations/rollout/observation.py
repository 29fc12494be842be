"""Polls the group: what happened in a step, and what is missing until it is over.

One `WatchedGroup` sees the whole rollout, so that nothing is missed between two steps. A step is judged by what has
been counted since it began, and by the members at its beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from kgm.clients.table import CLIENTS, left_when_closed
from kgm.model.assignment import as_ranges
from kgm.model.changes import by_identity, disowned, knows_owners
from kgm.model.client_library import ClientLibrary, stated_library
from kgm.model.errors import KgmError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.rollout.expectation import StepCounts
from kgm.operations.rollout.missed import Acknowledgement, MissedTime, missed_between
from kgm.operations.rollout.spec import RolloutStep, StepKind
from kgm.operations.watch.conditions import Condition, Subject, parse_condition
from kgm.operations.watch.events import EventKind, GroupEvent
from kgm.operations.watch.expectations import Expectations
from kgm.operations.watch.timekeeper import Timekeeper
from kgm.operations.watch.watch import Poller
from kgm.operations.watch.watched_group import (
    AWAY,
    RECONCILING,
    STABLE,
    WatchedGroup,
)  # fmt: skip
from kgm.text.names import in_order
from kgm.text.wording import many

#: Whether Kafka Streams or Connect is settled, as its members report it.
SETTLED: Final = parse_condition("settled")
#: The longest time to wait for a rebalance that a group will start on its own.
_LATEST_MS: Final = 3_600_000
#: A member sends heartbeats at least this often in each session timeout, as Kafka recommends.
_HEARTBEATS_IN_SESSION: Final = 3
_NOTHING: Final = StepCounts(rebalances=0, handovers=0)
#: The events to report while a step runs.
_TOLD = (
    EventKind.UNREACHABLE, EventKind.REACHABLE, EventKind.COORDINATOR, EventKind.GONE, EventKind.NOTE, EventKind.JOINED,
    EventKind.LEFT, EventKind.REPLACED, EventKind.GENERATION, EventKind.EPOCH, EventKind.MOVED, EventKind.TYPE,
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class StepView:
    """The group before the step, and what has happened to its members since.

    base: the group before the step, or as an operator has acknowledged it since then. bystanders: the member ids of
    members that are not part of the step, by identity. wanted_members: how many members the group should have at the
    end; None: that is no longer known. began_ms: since when kgm has watched the step, in ms since the epoch. is_away:
    whether the members of the step should be gone now, although they will be back. replacements: how often each static
    member got a new member id. missed: what happened since `base` while kgm was not running; acknowledged: what had
    happened in the step before that."""

    step: RolloutStep
    before: GroupSnapshot
    base: GroupSnapshot
    bystanders: Mapping[str, str]
    wanted_members: int | None
    counts_before: StepCounts
    began_ms: int
    is_away: bool = False
    replacements: dict[str, int] = field(default_factory=dict)
    missed: StepCounts = _NOTHING
    acknowledged: StepCounts = _NOTHING


class GroupObservation:
    """Polls one group. `begin` starts a step; `counts`, `intruders` and `missing` are about that step. library: the
    client library of all members, if an operator has stated it."""

    def __init__(
        self, group_id: str, poller: Poller, timekeeper: Timekeeper, *, library: str | None = None
    ) -> None:  # fmt: skip
        self._poller, self._timekeeper, self._library = poller, timekeeper, library
        self.watched = WatchedGroup(group_id, expectations=Expectations(quiet_ms=0, counts_empty=True))
        self._last_event_ms = 0
        self.view: StepView | None = None

    # -- polls

    def poll(self) -> list[GroupEvent]:
        """Poll once. Returns the events that matter to an operator; that the group cannot be described is one too."""
        look = self._poller.poll()[self.watched.group_id]
        now_ms = self._timekeeper.now_ms()
        events = self.watched.observe(look, now_ms)
        if any(event.kind is not EventKind.LAG for event in events) or self.watched.error is not None:
            self._last_event_ms = now_ms
        view = self.view
        for event in events if view is not None else ():
            if view is not None and event.kind is EventKind.REPLACED and event.identity is not None:
                view.replacements[event.identity] = view.replacements.get(event.identity, 0) + 1
        return [self._told(event) for event in events if event.kind in _TOLD]

    def _told(self, event: GroupEvent) -> GroupEvent:
        if self.view is None or event.kind is not EventKind.LEFT or event.identity not in self.view.step.members:
            return event
        return replace(event, text=f"{event.text}{self._why_gone(event.identity)}")

    def _why_gone(self, identity: str) -> str:
        """Why a member of the step has left, in words; empty for one that stays a member while it is closed."""
        member = by_identity(self._view().before)[identity]
        client = self._client_of(member)
        name = None if client is None else client.name
        if member.group_instance_id is None or name not in CLIENTS or not CLIENTS[name].leaves_when_static:
            return ""
        return f"; a static member of {name} leaves when it is closed"

    def _client_of(self, member: MemberSnapshot) -> ClientLibrary | None:
        return stated_library(self._library, "the operator") or member.client_library

    @property
    def latest(self) -> GroupSnapshot | None:
        """The group as it was last described; None if the last poll got no description."""
        return self.watched.latest if self.watched.error is None else None

    @property
    def error(self) -> KgmError | None:
        return self.watched.error

    def quiet_ms(self) -> int:
        """How long nothing has happened."""
        return self._timekeeper.now_ms() - self._last_event_ms

    def restart_quiet_time(self) -> None:
        self._last_event_ms = self._timekeeper.now_ms()

    # -- steps

    def begin(self, step: RolloutStep, timeouts_ms: Mapping[str, tuple[int, int]]) -> GroupSnapshot:
        """Begin a step with the group as it was last described, with these timeouts of its members, in the form of
        `member_timeouts_ms`; there must be a description."""
        assert self.latest is not None
        before = self.latest.with_member_timeouts(timeouts_ms) if timeouts_ms else self.latest
        self.view = StepView(
            step=step,
            before=before,
            base=before,
            bystanders=_bystanders(before, step),
            wanted_members=_wanted_members(before, step),
            counts_before=self._totals(),
            began_ms=self._timekeeper.now_ms(),
        )
        return before

    def resume(
        self, step: RolloutStep, before: GroupSnapshot, acknowledged: Acknowledgement | None = None, *,
        is_acknowledged: bool,
    ) -> Acknowledgement | None:  # fmt: skip
        """Resume a step that an earlier run has begun: what has happened since is taken from the descriptions before
        and now, and from the log, as far as they show it. acknowledged: what the operator has acknowledged of the step
        before. is_acknowledged: the operator has seen that it failed or deviated, so what has happened until now is
        reported, but no longer compared with the prediction. Returns what is acknowledged now; None: nothing."""
        latest = self.latest
        assert latest is not None
        since = before if acknowledged is None else acknowledged.group
        between = self._missed_since(since)
        # A partition without a consumer now is handed over when it gets another one than it had.
        self.watched.baseline = self.watched.baseline or since
        self.watched.consumers = {**between.consumers}
        old, new = by_identity(before), by_identity(latest)
        view = self.view = StepView(
            step=step,
            before=before,
            base=since,
            bystanders=_bystanders(since, step),
            wanted_members=None if acknowledged is not None else _wanted_members(before, step),
            counts_before=self._totals(),
            began_ms=self._timekeeper.now_ms(),
            replacements={name: 1 for name in old.keys() & new.keys() if old[name].member_id != new[name].member_id},
            missed=between.counts,
            acknowledged=_NOTHING if acknowledged is None else acknowledged.counts,
        )
        if is_acknowledged:
            acknowledged = Acknowledgement(
                group=latest, counts=view.acknowledged.plus(view.missed),
                deviations=(*self.protocol_changes(), *self.intruders()),
            )  # fmt: skip
            view.base, view.bystanders, view.wanted_members = latest, _bystanders(latest, step), None
            view.missed, view.acknowledged = _NOTHING, acknowledged.counts
        return acknowledged

    def happened_since(self, left: GroupSnapshot) -> StepCounts | None:
        """What has happened since the group was left like this, as far as the descriptions then and now and the log
        show it; None if it is as it was left."""
        latest = self.latest
        assert latest is not None
        return self._missed_since(left).counts if changed_since(left, latest) else None

    def _missed_since(self, since: GroupSnapshot) -> MissedTime:
        assert self.latest is not None
        recorded = self._poller.read_back().get(self.watched.group_id, ())
        return missed_between(since, self.latest, recorded)

    def _totals(self) -> StepCounts:
        watched = self.watched
        return StepCounts(
            rebalances=watched.rebalances,
            handovers=watched.handovers,
            rebalances_doubt=watched.rebalances_doubt,
            handovers_exact=watched.handovers_exact,
        )

    def counts(self) -> StepCounts:
        """What has happened since the step began, without what an operator has acknowledged."""
        view = self._view()
        return self._totals().since(view.counts_before).plus(view.missed)

    def all_counts(self) -> StepCounts:
        """What has happened since the step began."""
        return self._view().acknowledged.plus(self.counts())

    def _view(self) -> StepView:
        assert self.view is not None
        return self.view

    def expect_away(self, *, is_away: bool) -> None:
        """Set whether the members of the step should be gone from now on."""
        self._view().is_away = is_away

    def has_restarted(self, identity: str) -> bool:
        """Whether a member of the step, if it is to come back, has a new member id. For a dynamic member: whether it is
        gone, in a step whose one command restarts or stops it, because kgm cannot see whether a dynamic member was
        started."""
        latest, before = self.latest, by_identity(self._view().before).get(identity)
        if latest is None or before is None:
            return False
        now = by_identity(latest).get(identity)
        if before.group_instance_id is None:
            return now is None and self._view().step.kind is not StepKind.REPLACE
        return self._view().step.comes_back and now is not None and now.member_id != before.member_id

    def with_present(self, before: GroupSnapshot) -> GroupSnapshot:
        """The group before the step, with its members as they are now, as far as they are there."""
        latest = self.latest
        now = {} if latest is None else by_identity(latest)
        return replace(before, members=tuple(now.get(one.identity, one) for one in before.members))

    def protocol_changes(self) -> list[str]:
        """How the group's protocol has changed, in words. A prediction holds for one protocol: each counts rebalances
        in its own way."""
        base, latest = self._view().base, self.latest
        if latest is None:
            return []
        found = [] if latest.type == base.type else [f"its type has changed from {base.type} to {latest.type}"]
        if latest.classic_members and not base.classic_members:
            classic = ", ".join(latest.classic_members)
            found.append(f"members of the classic protocol, to be migrated before the rollout can continue: {classic}")
        return found

    def intruders(self) -> list[str]:
        """What has happened to members that must never happen, in words."""
        view, latest = self._view(), self.latest
        found = [
            f"{name} has come back {times} times: two processes may have its instance id"
            for name, times in sorted(view.replacements.items())
            if times > 1
        ]
        if latest is None:
            return found
        now = by_identity(latest)
        for name, member_id in sorted(view.bystanders.items()):
            if name not in now:
                found.append(f"{name}, which is not part of the step, has left the group{self._last_words(name)}")
            elif now[name].member_id != member_id:
                found.append(f"{name}, which is not part of the step, has been restarted, or joined again by itself")
        return found

    def expired(self) -> list[str]:
        """Static members of the step that are gone and did not come back in time, in words, with why as far as that is
        known; without those that leave the group when they are closed."""
        view, latest = self._view(), self.latest
        if latest is None or view.step.kind is not StepKind.BOUNCE:
            return []
        now = by_identity(latest)
        return [
            f"the session of {name} has timed out before it came back"
            if self._can_have_expired(member)
            else f"{name} was removed from the group before it came back, or its session timed out, or "
            f"{left_when_closed(self._client_of(member), is_classic=view.before.type == 'classic')}"
            for name, member in sorted(by_identity(view.before).items())
            if name in view.step.members and member.group_instance_id is not None and name not in now
            if not self._why_gone(name)
        ]

    def _can_have_expired(self, member: MemberSnapshot) -> bool:
        """Whether a member that is gone can have been silent for a session timeout: its last heartbeat may be as much
        older than the step as the next one was away."""
        view, event = self._view(), self.watched.last_events.get(member.identity)
        session_ms = view.before.session_of(member)
        if event is None or event.kind is not EventKind.LEFT or session_ms is None:
            return False  # it was gone when kgm resumed the step, or nobody knows how long its sessions are
        # The record has the broker's clock: of the two times, neither of them too late.
        gone_ms = event.at_ms if event.written_at_ms is None else min(event.at_ms, event.written_at_ms)
        return gone_ms - view.began_ms >= session_ms - session_ms // _HEARTBEATS_IN_SESSION

    def _last_words(self, name: str) -> str:
        event = self.watched.last_events.get(name)
        return "" if event is None or event.kind is not EventKind.LEFT else f" ({event.text})"

    def unrest(self) -> list[str]:
        """Why no step can begin now, in words; there must be a description."""
        latest = self.latest
        assert latest is not None
        found = [] if latest.state == STABLE else [f"it is {latest.state}"]
        if latest.is_settled is False:
            found.append(SETTLED.check(latest).seen)
        return found + [
            f"{one.identity} is {one.status}" for one in latest.members if one.status in (AWAY, RECONCILING)
        ]

    def missing(self, *, most_lag: int | None = None) -> list[str]:
        """What is missing until the step is over, in words. most_lag: the most lag of the whole group, in records."""
        latest = self.latest
        if latest is None:
            return ["the group cannot be described" if self.error is None else self.error.message]
        reasons = [] if latest.state == STABLE else [f"the group is {latest.state}"]
        view = self._view()
        if latest.state == "Empty" and not view.bystanders and (view.is_away or not view.step.comes_back):
            reasons = []
        reasons += [
            f"{one.identity} is {one.status}"
            for one in sorted(latest.members, key=lambda one: one.identity)
            if one.status in (AWAY, RECONCILING)
        ]
        reasons += self._missing_members(latest)
        reasons += self._missing_owners(latest)
        if latest.rebalance_delay_ms:
            reasons.append("the leader of the Connect workers is holding back the work of a worker that left")
        elif latest.is_settled is False and latest.state == STABLE and not view.is_away:
            reasons.append(SETTLED.check(latest).seen)
        if most_lag is not None:
            lag = Condition(text="", subject=Subject.LAG, sign="<=", limit=most_lag).check(latest)
            reasons += [] if lag.met else [f"its lag is not at most {most_lag}: {lag.seen}"]
        return reasons

    def _missing_members(self, latest: GroupSnapshot) -> list[str]:
        view, now = self._view(), by_identity(latest)
        if view.is_away or not view.step.comes_back:
            reasons = [f"{name} is still a member" for name in view.step.members if name in now]
        else:
            reasons = [text for name in view.step.members if (text := self._not_back(name, now)) is not None]
        wanted = self._wanted()
        if wanted is not None and len(latest.members) != wanted and not reasons:
            reasons.append(f"the group has {many(len(latest.members), 'member')}, not {wanted}")
        return reasons

    def _wanted(self) -> int | None:
        """How many members the group should have now; None if that is not known."""
        view = self._view()
        if view.wanted_members is None or not view.is_away:
            return view.wanted_members
        return view.wanted_members - len(view.step.members)

    def _not_back(self, name: str, now: Mapping[str, MemberSnapshot]) -> str | None:
        before = by_identity(self._view().before)[name]
        if before.group_instance_id is None:
            return f"{name} has not left the group" if name in now else None
        if name not in now:
            return f"{name} has not come back{self._why_gone(name)}"
        return f"{name} has not been restarted" if now[name].member_id == before.member_id else None

    def _missing_owners(self, latest: GroupSnapshot) -> list[str]:
        if not knows_owners(latest) or not latest.members:
            return []
        free = disowned(self._view().before, latest)
        return [f"no consumer owns {topic}[{as_ranges(numbers)}]" for topic, numbers in free.items()]


def next_rebalance_ms(group: GroupSnapshot | None, now_ms: int) -> int | None:
    """When a group will rebalance on its own, in ms since the epoch; None if it will not, if that is not known, or if
    it is too late to wait for."""
    due = None if group is None or group.is_settled is not False else group.next_rebalance_at or group.unassigned_until
    due_ms = 0 if due is None else round(datetime.fromisoformat(due).timestamp() * 1000)
    return due_ms if now_ms < due_ms <= now_ms + _LATEST_MS else None


def _bystanders(group: GroupSnapshot, step: RolloutStep) -> dict[str, str]:
    return {one.identity: one.member_id for one in group.members if one.identity not in step.members}


def _wanted_members(before: GroupSnapshot, step: RolloutStep) -> int:
    return len(before.members) - (0 if step.comes_back else len(step.members))


def changed_since(before: GroupSnapshot, now: GroupSnapshot, stopped: Sequence[str] = ()) -> list[str]:
    """How the group differs from how it was left, in words. stopped: members that are expected to be gone."""
    old, new = by_identity(before), by_identity(now)
    reasons = [] if before.type == now.type else [f"its type has changed from {before.type} to {now.type}"]
    reasons += [f"{name} has left" for name in in_order(old.keys() - new.keys()) if name not in stopped]
    reasons += [f"{name} has joined" for name in in_order(new.keys() - old.keys())]
    reasons += [
        f"{name} has been restarted, or joined again by itself"
        for name in in_order(old.keys() & new.keys())
        if old[name].member_id != new[name].member_id
    ]
    generations = (before.generation, now.generation)
    epochs = (before.assignment_epoch, now.assignment_epoch)
    for what, (first, last) in (("generation", generations), ("assignment epoch", epochs)):
        if first is not None and last is not None and first != last:
            reasons.append(f"{what} {first} -> {last}")
    return reasons
