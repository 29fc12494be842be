"""The story of one group, look after look: what happened, how often it rebalanced, what moved, whether it has settled.

Who owned what before (the *baseline*) is what the first look showed, or a snapshot from a file. Where the log of the
coordinator can be read, it alone says what became of members and partitions, since nothing is missing in it; otherwise
two descriptions are compared, and what lies between them can be missed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from kgm.model.assignment import Move, as_ranges, moves, owners
from kgm.model.changes import REBALANCING, Changes, by_identity, changes, knows_owners, owned
from kgm.model.errors import KgmError, NotFoundError
from kgm.text.wording import many, moves_text, partitions_text

if TYPE_CHECKING:
    from kgm.client.offsets_topic_tail import Recorded
    from kgm.client.poller import Look
    from kgm.model.snapshot import GroupSnapshot, MemberSnapshot

STABLE = "Stable"
AWAY = "away"
#: Events that do not keep a group from being settled.
_HARMLESS: Final = frozenset({"lag", "coordinator", "reachable", "watching", "note", "stable", "breach", "ended"})
#: Lag is told again when it is this many times what was told last, or less than that part of it.
_LAG_FACTOR: Final = 2
#: Lag below this is noise.
_LAG_NOISE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a group. at_ms: when it was seen; written_at_ms: when the coordinator wrote it."""

    at_ms: int
    group_id: str
    kind: str
    text: str
    written_at_ms: int | None = None
    identity: str | None = None
    member_id: str | None = None
    member_id_before: str | None = None
    before: str | int | None = None
    after: str | int | None = None
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is expected of a group. bounced: every member of the baseline has to be replaced before it counts as stable.

    members: how many there have to be; None: those of the baseline. max_rebalances None: any number."""

    settle_ms: int = 5_000
    bounced: bool = False
    members: int | None = None
    expect_no_moves: bool = False
    max_rebalances: int | None = None


@dataclass(slots=True)
class Story:
    """One group. `see` takes a look and returns what is new in it."""

    group_id: str
    goal: Goal = field(default_factory=Goal)
    #: The group as everything is compared with it.
    baseline: GroupSnapshot | None = None
    #: The group as it was seen last; None before that, and while it does not exist.
    view: GroupSnapshot | None = None
    #: Why it could not be seen at the last look.
    error: KgmError | None = None
    looks: int = 0
    rebalances: int = 0
    #: Why the number of rebalances may be another; None while it is certain.
    doubt: str | None = None
    #: Partitions that were seen with another owner than in the baseline, ever since.
    moved: dict[tuple[str, int], Move] = field(default_factory=dict)
    settled_since_ms: int | None = None
    replaced: set[str] = field(default_factory=set)
    generation: int | None = None
    #: When something was told of a member last, for a screen.
    touched: dict[str, Event] = field(default_factory=dict)
    _members: GroupSnapshot | None = None
    _owners: GroupSnapshot | None = None
    _in_round: bool = False
    _told_lag: int | None = None
    _now_ms: int = 0

    def __post_init__(self) -> None:
        if self.baseline is not None:
            self.generation = self.baseline.generation
            self._members = self._owners = self.baseline

    # -- looking

    def see(self, look: Look, now_ms: int) -> list[Event]:
        """What is new. now_ms: the time; it never goes back."""
        self._now_ms = now_ms
        self.looks += 1
        events: list[Event] = []
        if look.log_silent_because is not None and self.doubt is None:
            events.append(self._unwatched_log(look.log_silent_because))
        if look.skipped:
            self.doubt = "at least: the coordinator wrote more than could be read"
        for record in look.recorded:
            events += self._record(record)
        if isinstance(look.seen, KgmError):
            events += self._unseen(look.seen)
        else:
            events += self._seen(look.seen, logged=bool(look.recorded), silent=look.log_silent_because is not None)
        for event in events:
            if event.identity is not None:
                self.touched[event.identity] = event
        self._settle(events)
        return events

    def _event(self, kind: str, text: str, **more: Any) -> Event:
        return Event(at_ms=self._now_ms, group_id=self.group_id, kind=kind, text=text, **more)

    def _unwatched_log(self, why: str) -> Event:
        self.doubt = f"at least: {why}, so rebalances between two looks can go unseen"
        return self._event("note", f"{why}: rebalances and moves between two looks can go unseen")

    def _unseen(self, error: KgmError) -> list[Event]:
        before, self.error = self.error, error
        if isinstance(error, NotFoundError):
            if self.view is None and before is not None and isinstance(before, NotFoundError):
                return []
            gone = self.view is not None
            self.view = None
            return [self._event("gone" if gone else "absent", f"the group does not exist{' any more' if gone else ''}")]
        if before is not None and not isinstance(before, NotFoundError):
            return []
        return [self._event("unreachable", error.message)]

    def _seen(self, now: GroupSnapshot, *, logged: bool, silent: bool) -> list[Event]:
        events: list[Event] = []
        if self.error is not None and not isinstance(self.error, NotFoundError):
            events.append(self._event("reachable", "it can be seen again"))
        self.error = None
        before, self.view = self.view, now
        if before is None:
            events.append(self._event("watching", _state_of(now), after=now.state))
            self._told_lag = now.lag
            if self.generation is None:
                self.generation = now.generation
        else:
            events += self._values(before, now)
        if self._members is None:
            self._members, self._in_round = now, now.state in REBALANCING
        elif not logged:
            events += self._compare(now, counting=silent and now.type == "classic")
        if self._owners is None and knows_owners(now):
            self._owners = now
        if self.baseline is None and now.state == STABLE:
            self.baseline = now
        return events

    def _values(self, before: GroupSnapshot, now: GroupSnapshot) -> list[Event]:
        found = changes(before, now)
        events = []
        for one in found.values:
            match one.name:
                case "group_epoch" | "generation" | "protocol_type":
                    continue  # told with the assignment epoch, by the log, and with the type
                case "assignment_epoch":
                    events.append(self._epoch(int(one.before or 0), int(one.after or 0)))
                case name:
                    events.append(self._event(name, f"{one.before} -> {one.after}", before=one.before, after=one.after))
        if found.coordinator is not None:
            at = now.coordinator
            assert at is not None
            text = f"broker {found.coordinator.before} -> {found.coordinator.after} ({at.host}:{at.port})"
            events.append(
                self._event("coordinator", text, before=found.coordinator.before, after=found.coordinator.after)
            )
        return events + self._lag(now)

    def _lag(self, now: GroupSnapshot) -> list[Event]:
        """When it starts, ends, doubles or halves; a little of it is always there."""
        lag, told = now.lag, self._told_lag
        if lag is None:
            return []
        if told is not None:
            small, large = sorted((lag, told))
            if large < _LAG_NOISE or (small >= _LAG_NOISE and large < small * _LAG_FACTOR):
                return []
        self._told_lag = lag
        return [self._event("lag", f"{'?' if told is None else told} -> {lag}", before=told, after=lag)]

    # -- rebalances

    def _record(self, record: Recorded) -> list[Event]:
        """The log: everything that became of members and partitions."""
        group = record.group
        events = []
        if group.generation is not None and self.generation is not None and group.generation != self.generation:
            events.append(self._generation(self.generation, group.generation))
        is_first = self.generation is None and self.looks > 1
        if is_first:
            self.doubt = self.doubt or "at least: the generation from before was not found"
        if self.looks > 1 or self.baseline is not None or events:
            events += self._compare(group, counting=is_first)
        self.generation = group.generation
        return [replace(event, written_at_ms=record.at_ms) for event in events]

    def _generation(self, before: int, after: int) -> Event:
        count = after - before if after > before else 1  # a group that was deleted and made anew counts from 1
        self.rebalances += count
        more = f": {many(count, 'rebalance')}" if count > 1 else ""
        return self._event("generation", f"{before} -> {after}{more}", before=before, after=after)

    def _epoch(self, before: int, after: int) -> Event:
        count = max(after - before, 1)
        self.rebalances += count
        if count > 1:
            self.doubt = "at most: several epochs went by between two looks, not each of them with an assignment"
        more = f": up to {many(count, 'rebalance')}" if count > 1 else ""
        return self._event("epoch", f"{before} -> {after}{more}", before=before, after=after)

    def _compare(self, now: GroupSnapshot, *, counting: bool) -> list[Event]:
        """Members and owners against what was known of them. counting: rebalances are told from that alone."""
        before = self._members or now
        found = changes(before, now)
        events = [self._member_event("joined", one, "") for one in found.joined]
        events += [self._member_event("left", one, _why_it_matters(one)) for one in found.left]
        for one in found.replaced:
            self.replaced.add(one.identity)
            events.append(
                self._event(
                    "replaced", f"{one.identity}  {one.member_id_before} -> {one.member_id_after}",
                    identity=one.identity, member_id=one.member_id_after, member_id_before=one.member_id_before,
                )
            )  # fmt: skip
        events += [
            self._event(AWAY if one.after == AWAY else "back", one.name, identity=one.name)
            for one in found.statuses
            if AWAY in (one.before, one.after)
        ]
        owning = changes(self._owners or now, now) if knows_owners(now) else Changes()
        events += [
            self._event("subscription", f"{one.identity}  {', '.join(one.topics_after)}", identity=one.identity)
            for one in owning.resubscribed
        ]
        if owning.moves:
            events.append(self._event("moved", moves_text(owning.moves), moves=owning.moves))
        if counting:
            self._count(now, found, owning)
        self._members = now
        if knows_owners(now):
            self._owners = now
            self._note_moves(now)
        return events

    def _member_event(self, kind: str, member: MemberSnapshot, text: str) -> Event:
        known_as = "" if member.group_instance_id is None else f"  {member.member_id}"
        more = f"  {text}" if text else ""
        return self._event(
            kind, f"{member.identity}{known_as}{more}", identity=member.identity, member_id=member.member_id
        )

    def _count(self, now: GroupSnapshot, found: Changes, owning: Changes) -> None:
        """Rebalances by what can be seen of them."""
        if now.state in REBALANCING:
            if not self._in_round:
                self.rebalances += 1
            self._in_round = True
            return
        evidence = found.joined or found.left or owning.moves or owning.resubscribed
        if evidence and not self._in_round:
            self.rebalances += 1
        self._in_round = False

    def _note_moves(self, now: GroupSnapshot) -> None:
        if self.baseline is None:
            return
        for move in moves(owned(self.baseline), owned(now)):
            self.moved.setdefault((move.topic, move.partition), move)

    # -- the verdict

    @property
    def moves_now(self) -> tuple[Move, ...]:
        """From the owners of the baseline to those that were seen last."""
        if self.baseline is None or self._owners is None:
            return ()
        return moves(owned(self.baseline), owned(self._owners))

    def breach(self) -> str | None:
        """Which expectation is broken, and by what."""
        if self.goal.expect_no_moves and self.moved:
            return f"{many(len(self.moved), 'partition')} moved: {moves_text(sorted(self.moved.values()))}"
        most = self.goal.max_rebalances
        if most is not None and self.rebalances > most:
            doubt = f" ({self.doubt})" if self.doubt else ""
            return f"{many(self.rebalances, 'rebalance')}, more than {most}{doubt}"
        return None

    def unsettled_because(self) -> list[str]:
        """What is missing for the group to be stable."""
        if self.error is not None or self.view is None:
            return ["the group does not exist" if isinstance(self.error, NotFoundError) else "it cannot be seen"]
        if self.view.state != STABLE:
            return [f"its state is {self.view.state}"]
        there = by_identity(self.view)
        reasons = [f"{one.identity} is {one.status}" for one in there.values() if one.status in (AWAY, "reconciling")]
        return reasons + self._missing(there)

    def _missing(self, there: Any) -> list[str]:
        base = by_identity(self.baseline) if self.baseline is not None else {}
        reasons = []
        if self.goal.members is not None:
            if len(there) != self.goal.members:
                reasons.append(f"it has {many(len(there), 'member')}, not {self.goal.members}")
        else:
            static = sorted(name for name, member in base.items() if member.group_instance_id is not None)
            reasons += [f"{name} is not back" for name in static if name not in there]
            if len(there) < len(base) and not reasons:
                reasons.append(f"{len(there)} of {many(len(base), 'member')} are there")
        if self.goal.bounced:
            same = sorted(
                name for name, one in base.items() if name in there and there[name].member_id == one.member_id
            )
            reasons += [f"{name} was not restarted" for name in same]
        if self.baseline is not None and self._owners is not None:
            free: dict[str, list[int]] = {}
            for topic, partition in sorted(owners(owned(self.baseline)).keys() - owners(owned(self._owners)).keys()):
                free.setdefault(topic, []).append(partition)
            reasons += [f"nobody owns {topic}[{as_ranges(numbers)}]" for topic, numbers in free.items()]
        return reasons

    def _settle(self, events: Iterable[Event]) -> None:
        if self.unsettled_because() or any(event.kind not in _HARMLESS for event in events):
            self.settled_since_ms = None
        elif self.settled_since_ms is None:
            self.settled_since_ms = self._now_ms

    def settled(self) -> bool:
        """Whether nothing is missing, and nothing has happened for the settle time."""
        return self.settled_since_ms is not None and self._now_ms - self.settled_since_ms >= self.goal.settle_ms


def _state_of(snapshot: GroupSnapshot) -> str:
    parts = [snapshot.type, snapshot.state]
    if snapshot.assignor:
        parts.append(snapshot.assignor)
    if snapshot.generation is not None:
        parts.append(f"generation {snapshot.generation}")
    if snapshot.assignment_epoch is not None:
        parts.append(f"epoch {snapshot.assignment_epoch}")
    static = sum(member.group_instance_id is not None for member in snapshot.members)
    parts.append(f"{many(len(snapshot.members), 'member')}, {static} static")
    lag = snapshot.lag
    if lag is not None:
        parts.append(f"lag {lag}")
    return "  ".join(parts)


def _why_it_matters(member: MemberSnapshot) -> str:
    """What it leaves behind."""
    return f"it owned {partitions_text(member.assignment)}" if member.assignment else ""


def story_json(story: Story, *, reached: bool | None) -> dict[str, Any]:
    """One of `data.groups` of a watch. reached: whether it became what was waited for; None: nothing was."""
    from kgm.cli.commands.diff import moves_json

    view = story.view
    return {
        "group_id": story.group_id,
        "reached": reached,
        "breach": story.breach(),
        "missing": story.unsettled_because(),
        "looks": story.looks,
        "rebalances": story.rebalances,
        "rebalances_exact": story.doubt is None,
        "rebalances_doubt": story.doubt,
        "moved_partitions": len(story.moved),
        "moves": moves_json(story.moves_now),
        "replaced": sorted(story.replaced),
        "type": None if view is None else view.type,
        "state": None if view is None else view.state,
        "generation": story.generation,
        "group_epoch": None if view is None else view.group_epoch,
        "members": None if view is None else len(view.members),
        "lag": None if view is None else view.lag,
    }


def summary(story: Story) -> str:
    """`2 rebalances, 0 partitions moved, 3 members replaced`."""
    least = "at least " if story.doubt is not None and story.doubt.startswith("at least") else ""
    parts = [f"{least}{many(story.rebalances, 'rebalance')}", f"{many(len(story.moved), 'partition')} moved"]
    parts.append(f"{many(len(story.replaced), 'member')} replaced")
    return ", ".join(parts)


def totals(stories: Sequence[Story]) -> tuple[int, int]:
    """(rebalances, moved partitions) of all groups."""
    return sum(story.rebalances for story in stories), sum(len(story.moved) for story in stories)
