"""One watched group, poll after poll: what happened, how often it rebalanced, what moved, and whether it is quiet.

The owners that everything is compared with (the *baseline*) are those of the first poll in which the group is stable,
or of a snapshot from a file. If the coordinator's log can be read, rebalances are counted by it alone, and members and
owners of a classic group are taken from it, since it is complete; otherwise successive descriptions are compared, and
what happens between them may be missed. Once the log can be read again, it is counted from where it was left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kgm.client.offsets_topic.group_tail import RecordedGroup, RecordedTarget
from kgm.client.poller import PolledGroup
from kgm.model.assignment import Move, moves, owners
from kgm.model.changes import REBALANCING, Changes, by_identity, changes, knows_owners, owned
from kgm.model.errors import KgmError, NotFoundError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.groups.rebalance_wait import logged_members, rebalance_wait
from kgm.operations.watch.events import HARMLESS, EventKind, GroupEvent, watching_text
from kgm.operations.watch.expectations import Expectations
from kgm.operations.watch.log_gap import LogGap, LogState
from kgm.operations.watch.missing import has_targets, missing_members, missing_owners, offset_notes
from kgm.operations.watch.past_records import may_be_another
from kgm.operations.watch.rebalance_count import CountDoubt, RebalanceCount, ended_text, rebalances_text
from kgm.operations.watch.verdict import WatchVerdict
from kgm.text.wording import many, moves_text, partitions_text

STABLE: Final = "Stable"
AWAY: Final = "away"
RECONCILING: Final = "reconciling"
#: Lag is reported again when it has grown, or shrunk, by this factor since it was last reported.
_LAG_FACTOR: Final = 2
#: Lag below this is noise.
_LAG_NOISE: Final = 100


@dataclass(slots=True)
class WatchedGroup:
    """A watched group. `observe` takes a poll and returns what is new in it."""

    group_id: str
    expectations: Expectations = field(default_factory=Expectations)
    #: The group that every later state is compared with.
    baseline: GroupSnapshot | None = None
    #: The latest description; None before the first one, and while the group does not exist.
    latest: GroupSnapshot | None = None
    #: Why the group could not be described in the last poll.
    error: KgmError | None = None
    #: Why the last poll may lack records that the next one will have.
    log_interrupted_because: str | None = None
    looks: int = 0
    count: RebalanceCount = field(default_factory=RebalanceCount)
    doubt: CountDoubt | None = None
    #: Partitions that had a different owner than in the baseline at any time, with the first such move.
    moved: dict[tuple[str, int], Move] = field(default_factory=dict)
    #: The latest consumer of each partition since the baseline, kept while it has none.
    consumers: dict[tuple[str, int], str] = field(default_factory=dict)
    #: How often a partition passed from one consumer to another since the baseline.
    handovers: int = 0
    #: Since when nothing has been missing or happened.
    quiet_since_ms: int | None = None
    replaced: set[str] = field(default_factory=set)
    generation: int | None = None
    #: The last event of each member, by identity.
    last_events: dict[str, GroupEvent] = field(default_factory=dict)
    _members: GroupSnapshot | None = None
    _owners: GroupSnapshot | None = None
    #: The first handover of each partition.
    _first_handovers: dict[tuple[str, int], Move] = field(default_factory=dict)
    #: Whether partitions may have been handed over and back between two polls.
    _may_miss_handovers: bool = False
    #: Target assignments of the log that descriptions may not have yet.
    _new_targets: int = 0
    _count_unread_because: str | None = None
    #: Set while the log cannot be read, and until what it then tells has been taken.
    _gap: LogGap | None = None
    _is_read: bool = False
    _is_rebalancing: bool = False
    _reported_lag: int | None = None
    #: The group's last record, and since when the group has not been stable.
    _logged: GroupSnapshot | None = None
    _changing_since_ms: int | None = None
    _now_ms: int = 0

    def __post_init__(self) -> None:
        if self.baseline is not None:
            self.generation = self.baseline.generation
            self.count.begin(self.baseline)
            self._members = self._owners = self.baseline

    # -- polls

    def observe(self, look: PolledGroup, now_ms: int) -> list[GroupEvent]:
        """What is new, as events. now_ms: the current time, which never goes back."""
        self._now_ms = now_ms
        self.looks += 1
        events = self._log_state(look)
        counted = self.rebalances, self.handovers
        self._count_unread_because = look.count_unread_because
        is_counted = self._count_unread_because is None
        if is_counted:
            self.count.go_back()
        if self._is_read and self._gap is not None:
            self._go_back(self._gap)
        for record in look.recorded:
            events += self._record(record) if isinstance(record, RecordedGroup) else self._target(record)
        if isinstance(look.seen, KgmError):
            events += self._failure(look.seen)
        else:
            is_logged = look.seen.type == "classic" and any(isinstance(one, RecordedGroup) for one in look.recorded)
            is_unlogged = look.log_unreadable_because is not None
            events += self._epoch(look.seen, is_log_read=is_counted)
            events += self._description(look.seen, is_logged=is_logged, is_unlogged=is_unlogged)
        if is_counted:
            self.count.keep()
        is_compared = isinstance(look.seen, GroupSnapshot) and not look.recorded
        events = self._untold(events, is_over=is_compared and self._is_read)
        self.count.keep_at_least(counted[0])
        self.handovers = max(self.handovers, counted[1])
        for event in events:
            if event.identity is not None:
                self.last_events[event.identity] = event
        self._update_quiet_time(events)
        return events

    def _event(self, kind: EventKind, text: str, **more: Any) -> GroupEvent:
        return GroupEvent(at_ms=self._now_ms, group_id=self.group_id, kind=kind, text=text, **more)

    def _log_state(self, look: PolledGroup) -> list[GroupEvent]:
        """Note whether the log was read."""
        events = []
        why, interrupted = look.log_unreadable_because, look.log_interrupted_because
        if why is not None and self.doubt is None:
            self.doubt = CountDoubt(why=f"{why}, so rebalances between two polls may be missed")
            events.append(self._event(EventKind.NOTE, f"{why}: rebalances and moves between two polls may be missed"))
        if interrupted is not None and self.looks == 1 and self.generation is None:  # there is nothing to count from
            self.doubt = self.doubt or CountDoubt(why=f"{interrupted} when the watch began")
        if look.skipped:
            self.doubt = CountDoubt(why="the coordinator wrote more records than could be read")
        was_read, self._is_read = self._is_read, look.log_unread_because is None
        if was_read and not self._is_read:
            told = [] if self._gap is None else self._gap.told
            before = LogState(
                members=self._members, owners=self._owners, consumers=dict(self.consumers),
                handovers=self.handovers,
            )  # fmt: skip
            self._gap = LogGap(before=before, told=told)
            if why is None and not isinstance(look.seen, KgmError):
                text = f"{interrupted}: rebalances, and moves between two polls, are counted once it can be"
                events.append(self._event(EventKind.NOTE, text))
        self.log_interrupted_because = interrupted
        return events

    def _go_back(self, gap: LogGap) -> None:
        """The log can be read again: what it tells follows what was known when it could be read last."""
        if (known := gap.before) is not None:
            self._members, self._owners, self.consumers = known.members, known.owners, dict(known.consumers)
            self.handovers = known.handovers
        gap.before = None

    def _untold(self, events: list[GroupEvent], *, is_over: bool) -> list[GroupEvent]:
        """The events without those that were told while the log could not be read. is_over: the log has nothing more
        to tell about that time."""
        gap = self._gap
        if gap is None:
            return events
        if not self._is_read:
            gap.tell(events)
            return events
        self._gap = None if is_over else gap
        return gap.untold(events)

    def _failure(self, error: KgmError) -> list[GroupEvent]:
        before, self.error = self.error, error
        if isinstance(error, NotFoundError):
            if self.latest is None and before is not None and isinstance(before, NotFoundError):
                return []
            existed = self.latest is not None
            self.latest = None
            if existed:
                return [self._event(EventKind.GONE, "the group no longer exists")]
            return [self._event(EventKind.ABSENT, "the group does not exist")]
        if before is not None and not isinstance(before, NotFoundError):
            return []
        return [self._event(EventKind.UNREACHABLE, error.message)]

    def _description(self, now: GroupSnapshot, *, is_logged: bool, is_unlogged: bool) -> list[GroupEvent]:
        """Take a description. is_logged: records of the log have already been applied; is_unlogged: the log cannot be
        read."""
        events: list[GroupEvent] = []
        if self.error is not None and not isinstance(self.error, NotFoundError):
            events.append(self._event(EventKind.REACHABLE, "the group can be described again"))
        self.error = None
        before, self.latest = self.latest, now
        self._changing_since_ms = None if now.state == STABLE else self._changing_since_ms or self._now_ms
        if before is None:
            events.append(self._event(EventKind.WATCHING, watching_text(now), after=now.state))
            self._reported_lag = now.lag
            events += self._notes(offset_notes(None, now))
            if self.generation is None:
                self.generation = now.generation
            self.count.begin(now)
            if self.baseline is not None and now.assignment_epoch is not None:
                self._note_unseen_handovers(self.baseline, now)
        else:
            events += self._changed_values(before, now)
        if self._members is None:
            self._members, self._is_rebalancing = now, now.state in REBALANCING
        elif not is_logged:
            events += self._compare(now, counting=is_unlogged and now.type == "classic")
        if self._owners is None and knows_owners(now):
            self._owners = now
        if self.baseline is None and now.state == STABLE:
            self.baseline = now
        return events

    def _changed_values(self, before: GroupSnapshot, now: GroupSnapshot) -> list[GroupEvent]:
        changed = changes(before, now)
        self._note_unseen_handovers(before, now)
        events = []
        for one in changed.values:
            match one.name:
                case "group_epoch" | "generation" | "protocol_type" | "assignment_epoch":
                    continue  # reported with the assignment epoch, by the log, with the type, by `_epoch` and `_target`
                case name:
                    text = f"{one.before} -> {one.after}"
                    events.append(self._event(EventKind(name), text, before=one.before, after=one.after))
        if changed.coordinator is not None:
            at = now.coordinator
            assert at is not None
            moved = changed.coordinator
            text = f"broker {moved.before} -> {moved.after} ({at.host}:{at.port})"
            events.append(self._event(EventKind.COORDINATOR, text, before=moved.before, after=moved.after))
        return [*events, *self._lag(now), *self._notes(offset_notes(before, now))]

    def _note_unseen_handovers(self, before: GroupSnapshot, now: GroupSnapshot) -> None:
        """Note whether partitions may have been handed over and back between two descriptions."""
        is_same_type = before.type == now.type
        if is_same_type and before.assignment_epoch == now.assignment_epoch:
            return
        # A group without members can change its type; all partitions then have no owner for a while.
        is_known = has_targets(before) if is_same_type else not may_be_another(before, now)
        self._may_miss_handovers |= not is_known or self._new_targets > 1
        self._new_targets = 0

    def _notes(self, texts: Iterable[str]) -> list[GroupEvent]:
        return [self._event(EventKind.NOTE, text) for text in texts]

    def _lag(self, now: GroupSnapshot) -> list[GroupEvent]:
        """An event when lag starts, ends, doubles or halves; a little lag is always there."""
        lag, before = now.lag, self._reported_lag
        if lag is None:
            return []
        if before is not None:
            small, large = sorted((lag, before))
            if large < _LAG_NOISE or (small >= _LAG_NOISE and large < small * _LAG_FACTOR):
                return []
        self._reported_lag = lag
        return [self._event(EventKind.LAG, f"{'?' if before is None else before} -> {lag}", before=before, after=lag)]

    # -- rebalances

    def _record(self, record: RecordedGroup) -> list[GroupEvent]:
        """Take a record of the log, which has every change of members and partitions."""
        group = self._logged = record.group
        events = []
        before, number = self.count.ended.number, group.generation
        is_first = before is None and self.looks > 1
        if number is not None:
            is_empty, counts_empty, follows_gap = not group.members, self.expectations.counts_empty, record.follows_gap
            counted = self.count.generation(
                number, is_empty=is_empty, counts_empty=counts_empty, follows_gap=follows_gap
            )  # fmt: skip
            if before is not None and number != before:
                self._may_miss_handovers |= follows_gap and number != before + 1
                text = f"{before} -> {number}{ended_text(*counted)}"
                events.append(self._event(EventKind.GENERATION, text, before=before, after=number))
        if is_first:
            self.doubt = self.doubt or CountDoubt(why="the previous generation is unknown")
        if self.looks > 1 or self.baseline is not None or events:
            events += self._compare(group, counting=is_first)
        self.generation = group.generation
        return [replace(event, written_at_ms=record.at_ms) for event in events]

    def _target(self, record: RecordedTarget) -> list[GroupEvent]:
        """Take a record of a target assignment."""
        if record.epoch is None:
            self.count.ended.removed()
            return []
        before = self.count.ended.number
        counted = self.count.target(record.epoch, follows_gap=record.follows_gap)
        self._new_targets += counted[1]
        return [replace(event, written_at_ms=record.at_ms) for event in self._assigned(before, record.epoch, counted)]

    def _epoch(self, now: GroupSnapshot, *, is_log_read: bool) -> Iterable[GroupEvent]:
        """Take the assignment epoch of a description."""
        if now.assignment_epoch is None:
            return ()
        before = self.count.ended.number
        counted = self.count.described(now.assignment_epoch, is_log_read=is_log_read)
        return self._assigned(before, now.assignment_epoch, counted)

    def _assigned(self, before: int | None, after: int, counted: tuple[int, int]) -> Iterable[GroupEvent]:
        if before is not None and counted[0]:
            text = f"{before} -> {after}{ended_text(*counted)}"
            yield self._event(EventKind.EPOCH, text, before=before, after=after)

    def _compare(self, now: GroupSnapshot, *, counting: bool) -> list[GroupEvent]:
        """Compare members and owners with those known before. counting: count rebalances by these changes alone."""
        before = self._members or now
        changed = changes(before, now)
        owning = changes(self._owners or now, now) if knows_owners(now) else Changes()
        events = [*self._member_events(changed), *self._owner_events(owning)]
        if counting:
            self._count(now, changed, owning)
        self._members = now
        if knows_owners(now):
            self._owners = now
            self._note_moves(now)
        return events

    def _member_events(self, changed: Changes) -> Iterable[GroupEvent]:
        for one in changed.joined:
            yield self._member_event(EventKind.JOINED, one, "")
        for one in changed.left:
            owned_text = f"it owned {partitions_text(one.assignment)}" if one.assignment else ""
            yield self._member_event(EventKind.LEFT, one, owned_text)
        for replaced in changed.replaced:
            self.replaced.add(replaced.identity)
            yield self._event(
                EventKind.REPLACED,
                f"{replaced.identity}  {replaced.member_id_before} -> {replaced.member_id_after}",
                identity=replaced.identity,
                member_id=replaced.member_id_after,
                member_id_before=replaced.member_id_before,
            )
        for status in changed.statuses:
            if AWAY in (status.before, status.after):
                kind = EventKind.AWAY if status.after == AWAY else EventKind.BACK
                yield self._event(kind, status.name, identity=status.name)

    def _owner_events(self, changed: Changes) -> Iterable[GroupEvent]:
        for one in changed.resubscribed:
            text = f"{one.identity}  {', '.join(one.topics_after)}"
            yield self._event(EventKind.SUBSCRIPTION, text, identity=one.identity)
        if changed.moves:
            yield self._event(EventKind.MOVED, moves_text(changed.moves), moves=changed.moves)

    def _member_event(self, kind: EventKind, member: MemberSnapshot, text: str) -> GroupEvent:
        member_id = "" if member.group_instance_id is None else f"  {member.member_id}"
        more = f"  {text}" if text else ""
        return self._event(
            kind, f"{member.identity}{member_id}{more}", identity=member.identity, member_id=member.member_id
        )

    def _count(self, now: GroupSnapshot, changed: Changes, owning: Changes) -> None:
        """Count a rebalance by its visible effects."""
        if now.state in REBALANCING:
            if not self._is_rebalancing:
                self.count.least += 1
            self._is_rebalancing = True
            return
        evidence = changed.joined or changed.left or owning.moves or owning.resubscribed
        if evidence and not self._is_rebalancing:
            self.count.least += 1
        self._is_rebalancing = False

    def _note_moves(self, now: GroupSnapshot) -> None:
        if self.baseline is None:
            return
        for move in moves(owned(self.baseline), owned(now)):
            if move.owner_after is not None:  # without an owner it may go back to its own
                self.moved.setdefault((move.topic, move.partition), move)
        self.consumers = self.consumers or owners(owned(self.baseline))
        for (topic, partition), owner in owners(owned(now)).items():
            before = self.consumers.get((topic, partition), owner)
            self.consumers[topic, partition] = owner
            if before != owner:
                self.handovers += 1
                move = Move(topic=topic, partition=partition, owner_before=before, owner_after=owner)
                self._first_handovers.setdefault((topic, partition), move)

    # -- the verdict

    @property
    def rebalances(self) -> int:
        """How many rebalances there were at least."""
        return self.count.least

    @property
    def moves_now(self) -> tuple[Move, ...]:
        """The moves from the owners of the baseline to the latest owners."""
        if self.baseline is None or self._owners is None:
            return ()
        return moves(owned(self.baseline), owned(self._owners))

    @property
    def _moved_partitions(self) -> int:
        """How many partitions had another owner than in the baseline at any time, or have none in the end."""
        return len(self.moved.keys() | {(move.topic, move.partition) for move in self.moves_now})

    @property
    def rebalances_doubt(self) -> CountDoubt | None:
        """Why the number of rebalances may be wrong; None if it is certain."""
        if self.doubt is not None:
            return self.doubt
        if self.error is not None and not isinstance(self.error, NotFoundError):
            return CountDoubt(why="the group cannot be described")
        if self.log_interrupted_because is not None:
            return CountDoubt(why=f"{self.log_interrupted_because}, so the latest may be missing")
        return self.count.doubt(self._count_unread_because)

    @property
    def handovers_exact(self) -> bool:
        """Whether every handover was seen."""
        return self.rebalances_doubt is None and not self._may_miss_handovers

    def unseen(self) -> str | None:
        """Why an expectation may have been broken without being noticed; None if everything that matters was seen."""
        doubt, most = self.rebalances_doubt, self.expectations.max_rebalances
        if most is not None and doubt is not None:
            if doubt.more is None:
                return doubt.why
            if self.rebalances + doubt.more > most:
                return f"{rebalances_text(self.rebalances, doubt)}, at most {most} expected: {doubt.why}"
        if self.expectations.expect_no_moves and not self.handovers_exact:
            return "partitions may have moved away and back between two polls" if doubt is None else doubt.why
        return None

    def breach(self, *, is_over: bool = False) -> str | None:
        """Which expectation is broken, and how. is_over: the watch is over, so a partition without a consumer will not
        get one."""
        if self.expectations.expect_no_moves:
            if self.handovers:
                return f"{many(self.handovers, 'handover')}: {moves_text(sorted(self._first_handovers.values()))}"
            is_final = is_over or (self.latest is not None and self.latest.state == STABLE)
            moved = [move for move in self.moves_now if move.owner_before is not None]  # not first owners
            if is_final and moved:
                return f"{many(len(moved), 'partition')} moved: {moves_text(moved)}"
        most = self.expectations.max_rebalances
        if most is not None and self.rebalances > most:
            doubt = self.doubt or (self.rebalances_doubt if self.count.more else None)
            why = "" if doubt is None else f" ({doubt})"
            return f"{many(self.rebalances, 'rebalance')}, more than {most}{why}"
        return None

    def missing(self) -> list[str]:
        """What keeps the group from being stable."""
        if self.error is not None or self.latest is None:
            exists = not isinstance(self.error, NotFoundError)
            return ["the group cannot be described" if exists else "the group does not exist"]
        if self.latest.state != STABLE:
            return [f"its state is {self.latest.state}{self._waiting(self.latest)}"]
        unready = [one for one in by_identity(self.latest).values() if one.status in (AWAY, RECONCILING)]
        return [
            *(f"{one.identity} is {one.status}" for one in unready),
            *missing_members(self.baseline, self.latest, self.expectations),
            *missing_owners(self.baseline, self._owners),
        ]

    def _waiting(self, now: GroupSnapshot) -> str:
        """Which members a rebalancing group waits for, and for how long that has been observed."""
        seen_for_ms = self._now_ms - (self._changing_since_ms or self._now_ms)
        wait = rebalance_wait(now, logged_members(self._logged), generation=self.generation, seen_for_ms=seen_for_ms)
        return "" if wait is None else f": {wait.headline}"

    def _update_quiet_time(self, events: Iterable[GroupEvent]) -> None:
        if self.missing() or any(event.kind not in HARMLESS for event in events):
            self.quiet_since_ms = None
        elif self.quiet_since_ms is None:
            self.quiet_since_ms = self._now_ms

    def is_quiet(self) -> bool:
        """Whether nothing is missing, and nothing has happened for the expected time."""
        return self.quiet_since_ms is not None and self._now_ms - self.quiet_since_ms >= self.expectations.quiet_ms

    def verdict(self, *, reached: bool | None) -> WatchVerdict:
        """The verdict on the group. reached: whether it reached the goal; None if there was none."""
        return WatchVerdict(
            group_id=self.group_id,
            reached=reached,
            breach=self.breach(is_over=True),
            missing=tuple(self.missing()),
            looks=self.looks,
            rebalances=self.rebalances,
            rebalances_doubt=self.rebalances_doubt,
            moved_partitions=self._moved_partitions,
            handovers=self.handovers,
            handovers_exact=self.handovers_exact,
            moves=self.moves_now,
            replaced=tuple(sorted(self.replaced)),
            generation=self.generation,
            latest=self.latest,
        )

    def summary(self) -> str:
        """What has happened so far, in words."""
        return self.verdict(reached=None).summary
