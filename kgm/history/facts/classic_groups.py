"""What a classic group's snapshots, changes and rebalances (`membership`) and its commits mean: causes, seats, owners,
restarts and days. One step for each of its records, in the order of their offsets; whatever is still open is kept."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from kgm.history.causes.classic_causes import (
    RETURN_WITHIN_MS,
    Cause,
    Confidence,
    Departed,
    Event,
    Gone,
    Return,
    Step,
    Verdict,
    departure,
    explain,
    who,
)
from kgm.history.facts.advice import advice
from kgm.history.facts.alarms import Alarms
from kgm.history.facts.changes import classic_change_row
from kgm.history.facts.commit_windows import Window
from kgm.history.facts.daily_totals import Days
from kgm.history.facts.ownership import Owners, Place
from kgm.history.facts.restarts import Restarts, identity, returns
from kgm.history.facts.tenures import Seats
from kgm.history.reconstruct.classic_snapshots import Change, ChangeKind, Kind, Member, Rebalance, Snapshot
from kgm.history.rows import Row, Rows, position

TYPE = "classic"


class ClassicGroup:
    """A group on its way through its records. `state()` is all that `ClassicGroup(..., state=...)` needs to go on."""

    def __init__(self, rows: Rows, partition: int, group_id: str, restarts: Restarts, state: Row | None = None) -> None:
        state = state or {}
        self.rows, self.partition, self.group_id = rows, partition, group_id
        self.previous: Snapshot | None = None
        self.leader_epoch: int | None = state.get("leader_epoch")
        self.timestamp, self.session = state.get("timestamp", 0), state.get("session", 0)
        self.seats = Seats(state.get("seats"))
        self.owners = Owners(state.get("owners", ()), state.get("commits", ()))
        self.restarts = restarts
        self.alarms = Alarms(state.get("alarms"))
        self.days = Days(state.get("days"))
        self.holes: dict[Place, None] = dict.fromkeys((topic, number) for topic, number in state.get("holes", ()))
        self.recent: list[Row] = state.get("recent", [])

    def state(self) -> Row:
        """What has to be kept, as JSON has it; the last snapshot is kept elsewhere."""
        return {
            "leader_epoch": self.leader_epoch, "timestamp": self.timestamp, "session": self.session,
            "seats": self.seats.open, "owners": list(self.owners.open.values()),
            "commits": [[topic, number, seen] for (topic, number), seen in self.owners.commits.items()],
            "alarms": self.alarms.state(), "days": self.days.days, "holes": [list(place) for place in self.holes],
            "recent": self.recent,
        }  # fmt: skip

    def commits(self, windows: Sequence[Window]) -> None:
        """Commits since the last record."""
        for window in windows:
            self.owners.committed(window.place, window.first, window.last, window.count)

    def record(
        self, snapshot: Snapshot, changes: Sequence[Change], rebalance: Rebalance | None, leader_epoch: int | None
    ) -> None:
        """The next record of the group: changes and rebalance since the one before it."""
        base = position(self.partition, snapshot.offset, snapshot.timestamp, leader_epoch)
        base |= self._base
        moved = None not in (self.leader_epoch, leader_epoch) and self.leader_epoch != leader_epoch
        for change in changes:
            self.rows.put("silver_member_change", classic_change_row(base, change, self.previous))
        if snapshot.kind is Kind.TOMBSTONE:
            self._removed(base, snapshot)
        elif self.previous is None:
            self._appeared(snapshot)
        elif rebalance is None:
            self._absorbed(base, snapshot, changes)
        else:
            self._rebalanced(base, snapshot, changes, rebalance, coordinator_moved=moved)
        self._owners(snapshot)
        self.timestamp = snapshot.timestamp
        self.session = max((each.record.session_timeout for each in snapshot.members.values()), default=self.session)
        if snapshot.kind is not Kind.TOMBSTONE:
            self.days.add(snapshot.timestamp, members=len(snapshot.members))
            self.days.close(self.rows, self._base, self.recent[-1]["timestamp"] if self.recent else None)
        self.leader_epoch = leader_epoch if leader_epoch is not None else self.leader_epoch
        self.previous = None if snapshot.kind is Kind.TOMBSTONE else snapshot

    def timed(self, rebalances: Sequence[Rebalance]) -> None:
        """What later commits tell of how long rebalances stopped the group."""
        bounds = {each.offset: each for each in rebalances}
        for row in self.recent:
            found = bounds.get(row["offset"])
            if found is not None and found.stopped_max_ms != row["stopped_max_ms"]:
                before = row["stopped_partition_ms_max"] or 0
                row.update(_stopped(found, row["assigned"]))
                self.days.add(row["timestamp"], stopped_partition_ms_max=row["stopped_partition_ms_max"] - before)
                self.rows.put("gold_rebalance", row)

    def finish(self) -> None:
        """Put what is open at the end of the records."""
        self.days.put(self.rows, self._base)
        for row in self.seats.open.values():
            self.rows.put("silver_seat", row)
        if self.session:
            found = advice(self._base, self.timestamp, self.session, self.restarts.absences)
            self.rows.put("gold_timeout_advice", found)
        for row in self.owners.open.values():
            self.rows.put("silver_owner", row)

    @property
    def _base(self) -> Row:
        return {"partition": self.partition, "group_id": self.group_id, "group_type": TYPE}

    def _removed(self, base: Row, snapshot: Snapshot) -> None:
        for seat in list(self.seats.open):
            self.seats.leave(
                self.rows, seat, snapshot.offset, snapshot.timestamp, snapshot.generation, cause=Event.REMOVED,
                confidence=_sure(snapshot),
            )  # fmt: skip
        members = () if self.previous is None else tuple(self.previous.members.items())
        for seat, member in members:
            since = self.owners.last_commit(_places(self.previous, seat))
            self.restarts.converted(member, snapshot.timestamp, snapshot.timestamp if since is None else since)
        evidence = ["the group's record was deleted: by an admin, or when its last offset had expired"]
        if members:
            evidence = ["the group's record was deleted while it had members: it became one of another type"]
        self._event(
            base, snapshot, Event.CONVERTED if members else Event.REMOVED,
            [_member_row(seat, member) for seat, member in members], evidence,
        )  # fmt: skip

    def _event(self, base: Row, snapshot: Snapshot, event: Event, people: list[Row], evidence: list[str]) -> None:
        self.rows.put("gold_event", {
            **base, "generation": snapshot.generation, "event": event.value,
            "confidence": _sure(snapshot), "who": people, "evidence": evidence, "complete": snapshot.complete,
        })  # fmt: skip

    def _appeared(self, snapshot: Snapshot) -> None:
        for seat, member in snapshot.members.items():
            self.restarts.stays(member)
            self._sit(snapshot, seat, member)

    def _sit(
        self, snapshot: Snapshot, seat: str, member: Member, cause: str = "replaced", sure: str = "certain"
    ) -> None:
        record = member.record
        self.seats.take(self.rows, {
            **self._base, "seat": seat, "member_id": record.member_id,
            "group_instance_id": record.group_instance_id, "client_id": record.client_id,
            "client_host": record.client_host, "session_timeout_ms": record.session_timeout,
            "from_offset": snapshot.offset, "from_timestamp": snapshot.timestamp,
            "from_generation": snapshot.generation, "known_from": snapshot.complete, "to_offset": None,
        }, cause=cause, confidence=sure)  # fmt: skip

    def _absorbed(self, base: Row, snapshot: Snapshot, changes: Sequence[Change]) -> None:
        replaced = [each for each in changes if each.kind is ChangeKind.REPLACED]
        for change in replaced:
            self.restarts.note(
                self.rows, base, change, down_at_min=self._last_sign(change), down_at_max=snapshot.timestamp,
                up_at=snapshot.timestamp, absorbed=change.absorbed, old_member_id=change.old_member_id,
                complete=snapshot.complete, confidence=_sure(snapshot),
            )  # fmt: skip
            self.alarms.replaced(self.rows, base, change)
        self._reseat(snapshot, changes, {}, "replaced")
        if replaced and snapshot.complete:
            evidence = ["the generation is the same as before", *(
                f"{each.seat}: {each.member.record.member_id} took the place of {each.old_member_id}"
                for each in replaced
            )]  # fmt: skip
            self._event(base, snapshot, Event.ABSORBED, [who(each, "returned") for each in replaced], evidence)
            self.days.add(snapshot.timestamp, absorbed=len(replaced), replaced=len(replaced))

    def _last_sign(self, change: Change) -> int | None:
        """When the member before the change was alive for sure: its last commit, or the first record that has it."""
        row = self.seats.open.get(change.seat)
        since = row["from_timestamp"] if row is not None else None
        last = self.owners.last_commit(_places(self.previous, change.seat))
        return last if since is None or (last is not None and last >= since) else since

    def _rebalanced(
        self, base: Row, snapshot: Snapshot, changes: Sequence[Change], rebalance: Rebalance, *, coordinator_moved: bool
    ) -> None:
        assert self.previous is not None
        at = snapshot.state_timestamp if snapshot.state_timestamp >= 0 else snapshot.timestamp
        departed = [departure(self._gone(each), at) for each in changes if each.kind is ChangeKind.LEFT]
        back, final = self._returned(changes, departed, at)
        returned = tuple(each for each, _ in back)
        step = Step(
            previous=self.previous, snapshot=snapshot, rebalance=rebalance, changes=changes, departed=departed,
            returned=returned, holes=frozenset(self.holes), coordinator_moved=coordinator_moved,
        )  # fmt: skip
        verdict = explain(step)
        row = self._row(base, step, verdict)
        self._restarted(base, snapshot, back, row)
        self._reseat(snapshot, changes, {each.gone.change.seat: each for each in departed}, Cause.BOUNCE.value)
        for each in final:
            since = self.previous.timestamp
            if rebalance.complete:
                self.restarts.went(each, at, snapshot.offset, since)
        self.rows.put("gold_rebalance", row)
        since = snapshot.timestamp - RETURN_WITHIN_MS
        self.recent = [each for each in self.recent[-_RECENT:] if each["timestamp"] > since]
        self.recent.append(row)
        self.restarts.forget(at)
        self.alarms.rebalanced(self.rows, base, step)
        self._count(row)

    def _gone(self, change: Change) -> Gone:
        places = _places(self.previous, change.seat)
        joined = None if self.previous is None else self.previous.state_timestamp
        return Gone(
            change=change, last_commit=self.owners.last_commit(places), cadence_ms=self.owners.cadence(places),
            joined=None if joined is None or joined < 0 else joined,
        )  # fmt: skip

    def _returned(
        self, changes: Sequence[Change], departed: Sequence[Departed], at: int
    ) -> tuple[list[tuple[Return, Row]], list[Departed]]:
        assert self.previous is not None
        everybody = Counter(identity(member) for member in self.previous.members.values())
        joined = [each for each in changes if each.kind is ChangeKind.JOINED]
        found, final = returns(joined, departed, self.restarts, everybody, at)
        for change in changes:
            if change.kind is ChangeKind.REPLACED:
                last = self._last_sign(change)
                row = {"member_id": change.old_member_id, "at": at, "offset": None, "down_min": last, "down_max": at}
                absent = None if last is None else max(at - last, 0)
                old = change.old_member_id or ""
                found.append((Return(change=change, old_member_id=old, absent_ms=absent, unique=True), row))
        return found, final

    def _restarted(self, base: Row, snapshot: Snapshot, back: Sequence[tuple[Return, Row]], row: Row) -> None:
        at = snapshot.state_timestamp if snapshot.state_timestamp >= 0 else snapshot.timestamp
        for each, known in back:
            self.restarts.note(
                self.rows, base, each.change, down_at_min=known["down_min"], down_at_max=known["down_max"], up_at=at,
                absorbed=False, old_member_id=each.old_member_id, complete=snapshot.complete,
                confidence=(Confidence.LIKELY if each.unique else Confidence.POSSIBLE).value,
            )  # fmt: skip
            for earlier in self.recent:
                if earlier["offset"] == known["offset"] and Cause.BOUNCE.value not in (
                    earlier["cause"],
                    *earlier["also"],
                ):
                    earlier["also"] = [*earlier["also"], Cause.BOUNCE.value]
                    line = f"{each.old_member_id} came back as {each.change.member.record.member_id}"
                    earlier["evidence"] = [*earlier["evidence"], f"{line} in generation {row['to_generation']}"]
                    self.rows.put("gold_rebalance", earlier)

    def _reseat(
        self, snapshot: Snapshot, changes: Sequence[Change], departed: Mapping[str, Departed], instead: str
    ) -> None:
        """instead: why somebody sits no more where somebody else does."""
        for change in changes:
            if change.kind is ChangeKind.LEFT:
                how = departed.get(change.seat) if snapshot.complete else None
                self.seats.leave(
                    self.rows, change.seat, snapshot.offset, snapshot.timestamp, snapshot.generation,
                    cause="unknown" if how is None else how.cause.value,
                    confidence="unknown" if how is None else how.confidence.value,
                )  # fmt: skip
            elif change.kind in {ChangeKind.JOINED, ChangeKind.REPLACED}:
                self._sit(snapshot, change.seat, change.member, instead, _sure(snapshot))

    def _row(self, base: Row, step: Step, verdict: Verdict) -> Row:
        rebalance, snapshot, previous = step.rebalance, step.snapshot, step.previous
        kinds = Counter(each.kind for each in step.changes)
        row = {
            **base, "from_generation": rebalance.from_generation, "to_generation": rebalance.to_generation,
            "lost_rounds": rebalance.lost_rounds, "moved": rebalance.moved, "kept": rebalance.kept,
            "complete": rebalance.complete, "cause": verdict.cause.value,
            "confidence": verdict.confidence.value, "also": [each.value for each in verdict.also],
            "who": list(verdict.who), "evidence": list(verdict.evidence), "source": "log", "reason": None,
            "inferred_cause": verdict.cause.value, "inferred_confidence": verdict.confidence.value,
            "sync_ms": snapshot.sync_ms, "protocol": snapshot.protocol, "members_before": len(previous.members),
            "members_after": len(snapshot.members), "joined": kinds[ChangeKind.JOINED],
            "left": kinds[ChangeKind.LEFT], "replaced": kinds[ChangeKind.REPLACED], "assigned": len(snapshot.owners),
        }  # fmt: skip
        return row | _stopped(rebalance, row["assigned"])

    def _count(self, row: Row) -> None:
        self.days.add(
            row["timestamp"], cause=row["cause"], rebalances=1, lost_rounds=row["lost_rounds"], moved=row["moved"],
            joined=row["joined"], left=row["left"], replaced=row["replaced"],
            stopped_partition_ms_min=row["stopped_partition_ms_min"],
            stopped_partition_ms_max=row["stopped_partition_ms_max"],
        )  # fmt: skip

    def _owners(self, snapshot: Snapshot) -> None:
        at = snapshot.state_timestamp if snapshot.state_timestamp >= 0 else snapshot.timestamp
        end = {
            "to_offset": snapshot.offset, "to_timestamp": min(at, snapshot.timestamp),
            "to_generation": snapshot.generation,
        }  # fmt: skip
        if self.previous is not None and snapshot.kind not in {Kind.REPLACED, Kind.REPEATED}:
            before, after = self.previous.owners, snapshot.owners
            kept_topics = {topic for member in snapshot.members.values() for topic in member.topics or ()}
            self.holes = {
                place: None for place in (*self.holes, *before) if place not in after and place[0] in kept_topics
            }  # fmt: skip
        self.owners.now(self.rows, snapshot.owners, partial(self._owner_row, snapshot), end)

    def _owner_row(self, snapshot: Snapshot, place: Place, seat: str) -> Row:
        return {
            **self._base, "topic": place[0], "topic_id": None, "topic_partition": place[1], "place": place[0],
            "seat": seat, "member_id": snapshot.members[seat].record.member_id, "from_offset": snapshot.offset,
            "from_timestamp": snapshot.timestamp, "from_generation": snapshot.generation,
            "known_from": snapshot.complete, "exact": False,
        }  # fmt: skip


#: So many rebalances may still be told more of: whose members come back.
_RECENT = 50


def _places(snapshot: Snapshot | None, seat: str) -> list[Place]:
    if snapshot is None or seat not in snapshot.members:
        return []
    assigned = snapshot.members[seat].assigned or {}
    return [(topic, number) for topic, numbers in assigned.items() for number in numbers]


def _sure(snapshot: Snapshot) -> str:
    return (Confidence.CERTAIN if snapshot.complete else Confidence.UNKNOWN).value


def _member_row(seat: str, member: Member) -> Row:
    record = member.record
    return {
        "seat": seat, "what": "member", "member_id": record.member_id, "client_id": record.client_id,
        "client_host": record.client_host,
    }  # fmt: skip


def _stopped(rebalance: Rebalance, assigned: int) -> Row:
    low, high = rebalance.stopped_min_ms, rebalance.stopped_max_ms
    return {
        "stopped_min_ms": low, "stopped_max_ms": high,
        "stopped_partition_ms_min": None if low is None else low * assigned,
        "stopped_partition_ms_max": None if high is None else high * assigned,
    }  # fmt: skip
