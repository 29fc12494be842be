"""What the snapshots, changes and rebalances of a classic group and its commits mean: one step for each of its records,
in the order of their offsets. Whatever is still open is part of the state."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kgm.history.causes.classic_causes import RebalanceContext, departure, explain_rebalance
from kgm.history.causes.libraries import libraries_of
from kgm.history.causes.verdict import (
    Cause,
    Confidence,
    Departure,
    GroupEventKind,
    MissingMember,
    ReturnedMember,
    Verdict,
    member_who,
    who,
)
from kgm.history.facts.advice import timeout_advice
from kgm.history.facts.alarms import Alarms, AlarmState
from kgm.history.facts.changes import classic_change_row
from kgm.history.facts.classic_ownership import ClassicOwnership
from kgm.history.facts.commit_windows import CommitTimes, CommitWindow, Times
from kgm.history.facts.daily_totals import DailyTotals, DayTotals
from kgm.history.facts.rebalance_rows import RecentRebalances
from kgm.history.facts.restarts import Absence, Restarts, Return, process_key, returns
from kgm.history.facts.tenures import Tenures
from kgm.history.reconstruct.classic_snapshots import (
    ChangeKind,
    MemberChange,
    Rebalance,
    Snapshot,
    SnapshotKind,
    SnapshotMember,
    TopicPartition,
)
from kgm.history.row_parts import GroupKey, GroupRecord, Involvement, Who
from kgm.history.row_tables import RowCollector
from kgm.history.rows import EventRow, OwnerRow, RebalanceRow, TenureRow
from kgm.history.state_json import json_name
from kgm.model.client_library import ClientLibrary
from kgm.protocol.subscription import PROTOCOL_TYPE

CLASSIC = "classic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupState:
    """The state of a group between two runs; its last snapshot is in `partition_replay`. session_timeout_ms: the
    longest of its members'. last_owners: as in `ClassicOwnership`. unassigned: partitions that a rebalance took from a
    member and has not yet given to another; unassigned_known: whether these are all of them, because no earlier record
    is missing. converted: whether the last record turned a group of the consumer protocol into a classic one.
    writes_replacements: whether the coordinator has been seen to write a record when a static member is replaced
    without a rebalance, as all do from Kafka 2.6.1 on (KAFKA-10284). whole: no record is missing since the group was
    created."""

    leader_epoch: int | None = None
    timestamp: int = 0
    session_timeout_ms: int = field(default=0, metadata=json_name("session"))
    tenures: dict[str, TenureRow] = field(default_factory=dict, metadata=json_name("seats"))
    owners: list[OwnerRow] = field(default_factory=list)
    last_owners: list[tuple[str, int, str]] = field(default_factory=list)
    commits: list[tuple[str, int, Times]] = field(default_factory=list)
    alarms: AlarmState = field(default_factory=AlarmState)
    days: dict[str, DayTotals] = field(default_factory=dict)
    unassigned: list[TopicPartition] = field(default_factory=list, metadata=json_name("holes"))
    recent: list[RebalanceRow] = field(default_factory=list)
    converted: bool = False
    unassigned_known: bool = True
    writes_replacements: bool = False
    whole: bool = True


class ClassicGroupFacts:
    """Derives the facts of a group, record by record."""

    def __init__(
        self, rows: RowCollector, partition: int, group_id: str, restarts: Restarts, state: ClassicGroupState
    ) -> None:
        self.rows, self.restarts = rows, restarts
        self.group = GroupKey(partition=partition, group_id=group_id, group_type=CLASSIC)
        self.previous: Snapshot | None = None
        self.converted, self.unassigned_known = state.converted, state.unassigned_known
        self.writes_replacements, self.whole = state.writes_replacements, state.whole
        self.leader_epoch, self.timestamp, self.session = state.leader_epoch, state.timestamp, state.session_timeout_ms
        self.tenures = Tenures(rows, state.tenures)
        self.commits = CommitTimes(state.commits)
        self.ownership = ClassicOwnership(rows, self.group, state.owners, state.last_owners, self.commits)
        self.alarms = Alarms(rows, state.alarms)
        self.days = DailyTotals(rows, self.group, state.days)
        self.unassigned: dict[TopicPartition, None] = dict.fromkeys(state.unassigned)
        self.recent = RecentRebalances(rows, state.recent)

    def state(self) -> ClassicGroupState:
        """The state for the next run."""
        return ClassicGroupState(
            leader_epoch=self.leader_epoch, timestamp=self.timestamp, session_timeout_ms=self.session,
            tenures=self.tenures.open, owners=list(self.ownership.open.values()),
            last_owners=[(*place, identity) for place, identity in self.ownership.last_owners.items()],
            commits=self.commits.state(),
            alarms=self.alarms.state, days=self.days.state(), unassigned=list(self.unassigned),
            recent=self.recent.rows, converted=self.converted, unassigned_known=self.unassigned_known,
            writes_replacements=self.writes_replacements, whole=self.whole,
        )  # fmt: skip

    def committed(self, windows: Sequence[CommitWindow]) -> None:
        """Add the commits since the last record."""
        for window in windows:
            self.commits.add(window)

    def snapshot(
        self, snapshot: Snapshot, changes: Sequence[MemberChange], rebalance: Rebalance | None,
        leader_epoch: int | None, *, converted: bool = False,
    ) -> None:  # fmt: skip
        """The next record of the group; changes and rebalance: since the previous record. converted: the record turned
        a group of the consumer protocol into a classic one."""
        record = self.group.record(snapshot.offset, snapshot.timestamp, leader_epoch)
        moved = record.is_led_otherwise(self.leader_epoch)
        for change in changes:
            self.rows.put(classic_change_row(record, change, self.previous))
        if snapshot.kind is SnapshotKind.TOMBSTONE:
            self._removed(record, snapshot)
        elif self.previous is None:
            self._appeared(snapshot)
        elif rebalance is None:
            self._absorbed(record, snapshot, changes)
        else:
            self._rebalanced(record, snapshot, changes, rebalance, coordinator_moved=moved)
        self._assigned(snapshot)
        if self.previous is None or rebalance is not None:
            self.unassigned_known = snapshot.complete
        self.whole = self.whole and snapshot.complete
        self.timestamp = snapshot.timestamp
        self.session = max((each.record.session_timeout for each in snapshot.members.values()), default=self.session)
        if snapshot.kind is not SnapshotKind.TOMBSTONE:
            self.days.add_members(snapshot.timestamp, len(snapshot.members))
            self.days.close(self.recent.rows[-1].timestamp if self.recent.rows else None)
        self.leader_epoch = leader_epoch if leader_epoch is not None else self.leader_epoch
        self.converted = converted
        self.previous = None if snapshot.kind is SnapshotKind.TOMBSTONE else snapshot

    def timed(self, rebalances: Sequence[Rebalance]) -> None:
        """Add what later commits show about how long rebalances stopped the group."""
        by_offset = {each.offset: each for each in rebalances}

        def with_bounds(row: RebalanceRow) -> RebalanceRow:
            rebalance = by_offset.get(row.offset)
            if rebalance is None or rebalance.stopped_max_ms == row.stopped_max_ms:
                return row
            new = _with_stopped(row, rebalance)
            self.days.stopped(row, new)
            return new

        self.recent.update(with_bounds)

    def finish(self) -> None:
        """Put the rows that are still open at the end of the records."""
        self.days.finish()
        self.tenures.finish()
        if self.session:
            self.rows.put(timeout_advice(self.group, self.timestamp, self.session, self.restarts.state))
        self.ownership.finish()

    # -- a record without a rebalance

    def _removed(self, record: GroupRecord, snapshot: Snapshot) -> None:
        for identity in list(self.tenures.open):
            self.tenures.end(
                identity, snapshot.offset, snapshot.timestamp, snapshot.generation, cause=GroupEventKind.REMOVED.value,
                confidence=_sure(snapshot),
            )  # fmt: skip
        members = () if self.previous is None else tuple(self.previous.members.values())
        for member in members:
            since = self.commits.last(_partitions(self.previous, member.identity))
            self.restarts.converted(member, snapshot.timestamp, snapshot.timestamp if since is None else since)
        if members:
            evidence = "the group's record was deleted while it had members: the group became one of another type"
            people = [member_who(member, Involvement.MEMBER) for member in members]
            self._event(record, snapshot, GroupEventKind.CONVERTED, people, [evidence])
        else:
            evidence = "the group's record was deleted: by an admin, or when its last offset had expired"
            self._event(record, snapshot, GroupEventKind.REMOVED, [], [evidence])

    def _event(
        self,
        record: GroupRecord,
        snapshot: Snapshot,
        event: GroupEventKind,
        people: Sequence[Who],
        evidence: Sequence[str],
    ) -> None:
        self.rows.put(
            EventRow(
                **record.columns, generation=snapshot.generation, event=event.value, confidence=_sure(snapshot),
                who=tuple(people), evidence=tuple(evidence), complete=snapshot.complete,
            )
        )  # fmt: skip

    def _appeared(self, snapshot: Snapshot) -> None:
        # Only Kafka 4's coordinator writes a record when a group is created, without members.
        self.writes_replacements = self.writes_replacements or (
            snapshot.kind is SnapshotKind.EMPTY and snapshot.complete
        )
        for member in snapshot.members.values():
            self.restarts.stays(member)
            self._begin_tenure(snapshot, member)

    def _begin_tenure(
        self, snapshot: Snapshot, member: SnapshotMember, cause: str = "replaced", confidence: str = "certain"
    ) -> None:
        """cause, confidence: why the previous tenure ended, if there was one."""
        record = member.record
        row = TenureRow(
            **self.group.columns, seat=member.identity, member_id=record.member_id,
            group_instance_id=record.group_instance_id, client_id=record.client_id, client_host=record.client_host,
            session_timeout_ms=record.session_timeout, from_offset=snapshot.offset, from_timestamp=snapshot.timestamp,
            from_generation=snapshot.generation, known_from=snapshot.complete,
        )  # fmt: skip
        self.tenures.begin(row, cause=cause, confidence=confidence)

    def _absorbed(self, record: GroupRecord, snapshot: Snapshot, changes: Sequence[MemberChange]) -> None:
        replaced = [each for each in changes if each.kind is ChangeKind.REPLACED]
        for change in replaced:
            back = Return(
                old_member_id=change.old_member_id, down_min=self._last_sign(change), down_max=snapshot.timestamp,
                up_at=snapshot.timestamp, absorbed=change.absorbed, complete=snapshot.complete,
                confidence=_sure(snapshot),
            )  # fmt: skip
            self.restarts.ended(record, change, back)
            self.alarms.replaced(record, change)
        self._change_tenures(snapshot, changes, {}, "replaced")
        self.writes_replacements = self.writes_replacements or bool(replaced)
        if replaced and snapshot.complete:
            evidence = ["the generation did not change", *(
                f"{each.identity}: {each.member.record.member_id} replaced {each.old_member_id}" for each in replaced
            )]  # fmt: skip
            self._event(
                record,
                snapshot,
                GroupEventKind.ABSORBED,
                [who(each, Involvement.RETURNED) for each in replaced],
                evidence,
            )
            self.days.add_absorbed(snapshot.timestamp, len(replaced))

    def _last_sign(self, change: MemberChange) -> int | None:
        """The last time at which the replaced process was certainly alive: its last commit, or its first record."""
        row = self.tenures.open.get(change.identity)
        since = None if row is None else row.from_timestamp
        last = self.commits.last(_partitions(self.previous, change.identity))
        return last if since is None or (last is not None and last >= since) else since

    # -- a rebalance

    def _rebalanced(
        self, record: GroupRecord, snapshot: Snapshot, changes: Sequence[MemberChange], rebalance: Rebalance,
        *, coordinator_moved: bool,
    ) -> None:  # fmt: skip
        assert self.previous is not None
        at = snapshot.joined_at
        returned_at = self._leader_returned_at()
        left = [each for each in changes if each.kind is ChangeKind.LEFT]
        is_asked = returned_at is not None or any(each.member.record.group_instance_id is not None for each in left)
        libraries = libraries_of(self.group.group_id, self.previous) if is_asked else {}
        departures = [
            departure(self._missing(each, at, libraries.get(each.identity), coordinator_moved=coordinator_moved), at)
            for each in left
        ]
        back, final = self._returned(changes, departures, at)
        context = RebalanceContext(
            previous=self.previous, snapshot=snapshot, rebalance=rebalance, changes=changes, departures=departures,
            returned=tuple(each for each, _ in back), unassigned=frozenset(self.unassigned),
            unassigned_known=self.unassigned_known, whole=self.whole, converted=self.converted,
            coordinator_moved=coordinator_moved, leader_returned_at=returned_at, libraries=libraries,
            returning=[
                each.identity
                for each in changes
                if each.kind is ChangeKind.JOINED and self.restarts.was_member(each.member)
            ],
        )  # fmt: skip
        row = _rebalance_row(record, context, explain_rebalance(context), self.ownership.regained(snapshot))
        self._restarted(record, snapshot, back, row)
        departure_of = {each.missing.change.identity: each for each in departures}
        taken_over = Cause.BOUNCE.value if self.writes_replacements else "replaced"
        self._change_tenures(snapshot, changes, departure_of, taken_over)
        for each in final:
            if rebalance.complete:
                self.restarts.went(each, at, snapshot.offset, self.previous.timestamp)
            else:
                self.restarts.saw(each.missing.change.member)
        self.recent.add(row)
        self.restarts.rebalanced(row)
        self.restarts.forget(at)
        self.alarms.rebalanced(record, context)
        self.days.add_rebalance(row)

    def _leader_returned_at(self) -> int | None:
        """When another process took the static leader's place, since the last rebalance; None if none has."""
        leader = None if self.previous is None else self.previous.leading
        if leader is None or not self.recent.rows:
            return None
        row = self.tenures.open.get(leader.identity)
        has_returned = row is not None and row.from_offset > self.recent.rows[-1].offset
        return row.from_timestamp if row is not None and has_returned else None

    def _missing(
        self, change: MemberChange, at: int, library: ClientLibrary | None, *, coordinator_moved: bool
    ) -> MissingMember:
        places = _partitions(self.previous, change.identity)
        owned = {} if self.previous is None else self.previous.owners
        others = [place for place, identity in owned.items() if identity != change.identity]
        joined = None if self.previous is None else self.previous.state_timestamp
        return MissingMember(
            change=change, last_commit=self.commits.last(places), cadence_ms=self.commits.cadence(places),
            joined=None if joined is None or joined < 0 else joined,
            in_transaction=self.commits.last_is_in_transaction(places), coordinator_moved=coordinator_moved,
            in_lull=self.commits.is_lull(places, others, at), library=library,
        )  # fmt: skip

    def _returned(
        self, changes: Sequence[MemberChange], departures: Sequence[Departure], at: int
    ) -> tuple[list[tuple[ReturnedMember, Absence]], list[Departure]]:
        assert self.previous is not None
        counts = Counter(process_key(member) for member in self.previous.members.values())
        joined = [each for each in changes if each.kind is ChangeKind.JOINED]
        returned, final = returns(joined, departures, self.restarts, counts, at)
        for change in changes:
            if change.kind is ChangeKind.REPLACED:
                last, old = self._last_sign(change), change.old_member_id or ""
                absence = Absence(member_id=old, at=at, offset=None, down_min=last, down_max=at, expired=True)
                absent = None if last is None else max(at - last, 0)
                back = ReturnedMember(
                    change=change, old_member_id=old, absent_ms=absent, unique=True, dated=self.writes_replacements
                )  # fmt: skip
                returned.append((back, absence))
        return returned, final

    def _restarted(
        self, record: GroupRecord, snapshot: Snapshot, back: Sequence[tuple[ReturnedMember, Absence]], row: RebalanceRow
    ) -> None:
        for each, absence in back:
            sure = Confidence.LIKELY if each.unique else Confidence.POSSIBLE
            ended = Return(
                old_member_id=each.old_member_id, down_min=absence.down_min, down_max=absence.down_max,
                up_at=snapshot.joined_at, absorbed=False, complete=snapshot.complete,
                confidence=sure.value,
                left_at=absence.offset, expired=absence.expired,
            )  # fmt: skip
            self.restarts.ended(record, each.change, ended)
            new = each.change.member.record.member_id
            line = f"{each.old_member_id} came back as {new} in generation {row.to_generation}"
            self.recent.came_back(absence.offset, line, sure)

    def _change_tenures(
        self, snapshot: Snapshot, changes: Sequence[MemberChange], departures: Mapping[str, Departure], cause: str
    ) -> None:
        """cause: why a tenure ended if another one begins. departures: by identity."""
        for change in changes:
            if change.kind is ChangeKind.LEFT:
                how = departures.get(change.identity) if snapshot.complete else None
                self.tenures.end(
                    change.identity, snapshot.offset, snapshot.timestamp, snapshot.generation,
                    cause=Cause.UNKNOWN.value if how is None else how.cause.value,
                    confidence=Confidence.UNKNOWN.value if how is None else how.confidence.value,
                )  # fmt: skip
            elif change.kind in {ChangeKind.JOINED, ChangeKind.REPLACED}:
                self._begin_tenure(snapshot, change.member, cause, _sure(snapshot))

    def _assigned(self, snapshot: Snapshot) -> None:
        if self.previous is not None and snapshot.kind not in {SnapshotKind.REPLACED, SnapshotKind.REPEATED}:
            before, after = self.previous.owners, snapshot.owners
            topics = {topic for member in snapshot.members.values() for topic in member.topics or ()}
            self.unassigned = {
                place: None for place in (*self.unassigned, *before) if place not in after and place[0] in topics
            }
        self.ownership.assigned(snapshot)
        if snapshot.kind is SnapshotKind.TOMBSTONE:
            self.ownership.forget_last_owners()


def _partitions(snapshot: Snapshot | None, identity: str) -> list[TopicPartition]:
    """The partitions assigned to a member in a snapshot."""
    if snapshot is None or identity not in snapshot.members:
        return []
    assigned = snapshot.members[identity].assigned or {}
    return [(topic, number) for topic, numbers in assigned.items() for number in numbers]


def _sure(snapshot: Snapshot) -> str:
    return (Confidence.CERTAIN if snapshot.complete else Confidence.UNKNOWN).value


def _rebalance_row(
    record: GroupRecord, context: RebalanceContext, verdict: Verdict, regained: tuple[int, int]
) -> RebalanceRow:
    """regained: see `ClassicOwnership.regained`."""
    rebalance, snapshot, previous = context.rebalance, context.snapshot, context.previous
    kinds = Counter(each.kind for each in context.changes)
    # What workers of Connect own, and members of any other client, is not known as partitions.
    readable = {previous.protocol_type, snapshot.protocol_type} <= {PROTOCOL_TYPE, ""}
    row = RebalanceRow(
        **record.columns, from_generation=rebalance.from_generation, to_generation=rebalance.to_generation,
        lost_rounds=rebalance.lost_rounds,
        moved=rebalance.moved + regained[0] if readable else None,
        kept=rebalance.kept + regained[1] if readable else None, complete=rebalance.complete,
        cause=verdict.cause.value, confidence=verdict.confidence.value,
        also=tuple(each.value for each in verdict.also), who=verdict.who, evidence=verdict.evidence, source="log",
        inferred_cause=verdict.cause.value, inferred_confidence=verdict.confidence.value, sync_ms=snapshot.sync_ms,
        protocol=snapshot.protocol, members_before=len(previous.members), members_after=len(snapshot.members),
        joined=kinds[ChangeKind.JOINED], left=kinds[ChangeKind.LEFT], replaced=kinds[ChangeKind.REPLACED],
        assigned=len(snapshot.owners) if readable else None,
    )  # fmt: skip
    return _with_stopped(row, rebalance)


def _with_stopped(row: RebalanceRow, rebalance: Rebalance) -> RebalanceRow:
    low, assigned = rebalance.stopped_min_ms, row.assigned
    return replace(
        row, stopped_min_ms=low, stopped_max_ms=rebalance.stopped_max_ms,
        stopped_partition_ms_min=None if low is None or assigned is None else low * assigned,
        stopped_partition_ms_max=None if assigned is None else rebalance.stopped_partition_max_ms,
    )  # fmt: skip
