"""What the records of a group of the consumer protocol mean (KIP-848), in the order of their offsets.

A coordinator writes the changes from one request as one batch: first the member (its metadata, or tombstones for
everything it had), then the group's epoch if it rose, the target assignment (a record for each member, and then one for
the group), and the member's current assignment; see GroupMetadataManager and TargetAssignmentBuilder. So whatever
changed since the last epoch is why it rose, and what a member has is exact, to the record. A static member that stops
has the epoch -2 until it is back (another member id with the same instance id, no new epoch) or its session expires.

A leave and an expired session are the same tombstones. The session timeout of members of this protocol is set by the
broker and not in the log: see `session_timeouts`. What the log shows about it is used from the record that shows it."""

from collections.abc import Sequence
from dataclasses import replace

from kgm.history.causes.consumer_causes import EpochContext, ReturnedConsumer, consumer_departure, explain_epoch
from kgm.history.causes.session_timeouts import (
    SessionLookup,
    SessionSource,
    SessionTimeout,
    at_departure,
    no_session,
)
from kgm.history.causes.verdict import RETURN_WITHIN_MS, Cause, Confidence, Departure, GroupEventKind, who
from kgm.history.decode.framework_records import STREAMS
from kgm.history.facts.advice import consumer_timeout_advice
from kgm.history.facts.changes import change_row
from kgm.history.facts.commit_windows import CommitWindow
from kgm.history.facts.consumer_assignments import ConsumerAssignments
from kgm.history.facts.consumer_ownership import TopicNames
from kgm.history.facts.consumer_state import (
    ConsumerGroupState,
    EpochState,
    LeavingMember,
    LoggedMember,
    LoggedMemberState,
    PendingChanges,
)
from kgm.history.facts.daily_totals import DailyTotals
from kgm.history.facts.rebalance_rows import RecentRebalances, epoch_row
from kgm.history.facts.restarts import Absence, Restarts, Return
from kgm.history.facts.tenures import Tenures
from kgm.history.reconstruct.classic_snapshots import ChangeKind, MemberChange, SnapshotMember
from kgm.history.row_parts import GroupKey, GroupRecord, Involvement, Who
from kgm.history.row_tables import RowCollector
from kgm.history.rows import EventRow, MemberStateRow, RebalanceRow, TenureRow
from kgm.protocol.struct import Message
from kgm.records.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from kgm.records.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue as CurrentValue,
)
from kgm.records.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kgm.records.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from kgm.records.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kgm.records.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kgm.records.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kgm.records.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from kgm.records.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue as TargetValue,
)
from kgm.records.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kgm.records.messages.group_metadata_value import MemberMetadata
from kgm.records.record_types import RecordType

CONSUMER = "consumer"
#: Stands for a session timeout that is not known.
_UNKNOWN_MS = -1
#: The types of records about a group.
RECORD_TYPES = tuple(kind for kind in RecordType if kind.name.startswith("CONSUMER_GROUP_"))


class ConsumerGroupFacts:
    """Derives a group's facts, record by record. group_type: `streams` or `share` for a group whose records read
    alike."""

    def __init__(
        self, rows: RowCollector, partition: int, group_id: str, names: TopicNames, restarts: Restarts,
        state: ConsumerGroupState, *, session_of_group: SessionLookup = no_session, group_type: str = CONSUMER,
    ) -> None:  # fmt: skip
        self.is_consumer = group_type == CONSUMER
        # A group that has these rows is assumed to be one that can be simulated.
        rows = rows if self.is_consumer else rows.without(MemberStateRow)
        self.rows, self.restarts = rows, restarts
        self._session_of_group = session_of_group
        self.group = GroupKey(partition=partition, group_id=group_id, group_type=group_type)
        self._state = state
        self.tenures = Tenures(rows, state.tenures)
        self.days = DailyTotals(rows, self.group, state.days)
        self.recent = RecentRebalances(rows, state.recent, state.waiting)
        self.assignments = ConsumerAssignments(rows, self.group, names, state, self.days, self.recent)

    def state(self) -> ConsumerGroupState:
        """The state for the next run."""
        assignments = self.assignments
        return replace(
            self._state, owners=assignments.ownership.state(), tenures=self.tenures.open, days=self.days.state(),
            epochs=assignments.epochs.recent, recent=self.recent.rows, waiting=self.recent.waiting,
        )  # fmt: skip

    @property
    def removed_at(self) -> int | None:
        """When the group's record was deleted, in ms; None if it was not."""
        group = self._state.group
        return group.heard_at if group.epoch is None and group.heard_at else None

    def committed(self, windows: Sequence[CommitWindow]) -> None:
        """Add the commits since the last record."""
        for window in windows:
            self.assignments.ownership.commits.add(window)

    def record(self, record: GroupRecord, key: Message, value: Message | None, *, complete: bool) -> None:
        """The next record of the group. complete: no offset is missing since the previous one."""
        group, pending = self._state.group, self._state.pending
        pending.moved |= group.heard(record, complete=complete)
        pending.broken |= not complete
        if pending.leaving and pending.leaving[-1].record.timestamp != record.timestamp:
            self._left()
        if (named := getattr(key, "member_id", None)) is not None:
            self._state.named(named, record)
        match key, value:
            case ConsumerGroupMetadataKey(), None:
                self._removed(record)
            case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue() as metadata:
                self._epoch_record(record, metadata)
            case ConsumerGroupMemberMetadataKey(member_id=member_id), None:
                self._member_removed(record, member_id)
            case ConsumerGroupMemberMetadataKey(member_id=member_id), ConsumerGroupMemberMetadataValue() as metadata:
                self._member(record, member_id, metadata)
            case _, ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch):
                self._assigned(epoch)
                self._lost(record, self._state.superseded())
                self.assignments.planned(record, epoch)
            case ConsumerGroupTargetAssignmentMemberKey(member_id=name), (TargetValue() | None) as target:
                self.assignments.target(name, target)
            case ConsumerGroupCurrentMemberAssignmentKey(member_id=name), (CurrentValue() | None) as current:
                self._current(record, name, current)
            case ConsumerGroupRegularExpressionKey(), _:
                pending.regex = True
            case _:
                group.topics_written(key, value)

    def finish(self) -> None:
        """Put the rows that are still open at the end of the records."""
        self.days.finish()
        self.tenures.finish()
        self.assignments.ownership.finish()
        if self.is_consumer:
            sessions = [row.session_timeout_ms for row in self.tenures.open.values()]
            at = self._state.group.heard_at
            self.rows.put(consumer_timeout_advice(self.group, at, self._group_session(), sessions, self.restarts.state))

    # --- members

    def _member(self, record: GroupRecord, member_id: str, value: ConsumerGroupMemberMetadataValue) -> None:
        old = self._state.members.get(member_id)
        new = LoggedMember.of(record, value, old)
        is_listed_again = self._state.put_in_map(record, old, is_classic=new.classic_session_ms is not None)
        self._state.members[member_id] = new
        if is_listed_again:
            self.assignments.listed_again(record, member_id)
        if old is None:
            self._came(record, member_id, new)
        elif (old.topics, old.regex) != (new.topics, new.regex):
            change = self._change(record, ChangeKind.RESUBSCRIBED, member_id, new)
            self._state.pending.resubscribed.append((member_id, record, new))
            self._put_change(record, change, new, old)
        elif old.server_assignor != new.server_assignor:
            self._state.pending.assignor = True

    def _member_removed(self, record: GroupRecord, member_id: str) -> None:
        """A member's record was deleted: it left, unless the next record gives its instance id to another member id."""
        state = self._state
        old = state.members.pop(member_id, None)
        if old is None:
            state.pending.unseen_left_at = record.timestamp
        else:
            current, ownership = state.current.get(member_id), self.assignments.ownership
            owned = [] if current is None else current.owned()
            last, cadence = ownership.commits_of(owned, record.offset)
            state.pending.leaving.append(
                LeavingMember(
                    member_id=member_id, record=record, member=old, last_commit=last, cadence_ms=cadence,
                    partitions=len(owned), session=at_departure(self._session(old), state.sessions.session()),
                    led_since=state.group.led_since, in_lull=ownership.is_lull(owned, state.others(member_id), record),
                )
            )  # fmt: skip
            ownership.gone(member_id, record, state.generation)
        state.forget(member_id)

    def _lost(self, record: GroupRecord, member_ids: Sequence[str]) -> None:
        """Members are no longer there, as this record shows; the records that deleted theirs are missing."""
        state = self._state
        for member_id in member_ids:
            member, current = state.members.pop(member_id), state.current.get(member_id)
            change = replace(self._change(record, ChangeKind.LEFT, member_id, member), complete=False)
            self._put_change(record, change, None, member, 0 if current is None else len(current.owned()))
            tenure = self.tenures.open.get(change.identity)
            if tenure is not None and tenure.member_id == member_id:  # no other has the instance id by now
                self.tenures.end(
                    change.identity, record.offset, record.timestamp, state.generation, cause=Cause.UNKNOWN.value,
                    confidence=Confidence.UNKNOWN.value,
                )  # fmt: skip
            self.assignments.ownership.gone(member_id, record, state.generation)
            state.forget(member_id)

    def _left(self) -> None:
        """No other member took over the instance ids of the members that are leaving."""
        pending = self._state.pending
        # An admin's LeaveGroup, which groups of other types do not accept.
        if len(pending.leaving) > 1 and self.is_consumer:
            pending.leaving = [replace(each, together=True) for each in pending.leaving]
        for gone in pending.leaving:
            record, member = gone.record, gone.member
            change = self._change(record, ChangeKind.LEFT, gone.member_id, member)
            how = self._how(gone, change)
            self._put_change(record, change, None, member, gone.partitions)
            self.tenures.end(
                change.identity, record.offset, record.timestamp, self._state.generation, cause=how.cause.value,
                confidence=how.confidence.value,
            )  # fmt: skip
            self._learn(gone, change)
        pending.left += pending.leaving
        pending.leaving = []

    def _how(self, gone: LeavingMember, change: MemberChange) -> Departure:
        return consumer_departure(gone.missing(change), change.timestamp, gone.absence, gone.session)

    def _learn(self, gone: LeavingMember, change: MemberChange) -> None:
        """If the member's session expired, learn from it how long the session timeout is."""
        bounds = gone.absence.session_bounds(gone.missing(change), change.timestamp)
        if bounds is not None and self._complete and gone.member.classic_session_ms is None:
            self._state.sessions.add(*bounds)

    def _came(self, record: GroupRecord, member_id: str, new: LoggedMember) -> None:
        pending, instance_id = self._state.pending, new.instance_id
        before = pending.leaving_with(instance_id)
        if before is None:
            change = self._change(record, ChangeKind.JOINED, member_id, new)
            pending.came(member_id, record, new)
            self._put_change(record, change, new, None)
        else:
            pending.leaving.remove(before)
            change = self._change(record, ChangeKind.REPLACED, member_id, new, before.member_id)
            self._put_change(record, change, new, before.member, before.partitions)
            self._absorbed(record, change, before)
        row = TenureRow(
            **self.group.columns, seat=change.identity, member_id=member_id, group_instance_id=instance_id,
            client_id=new.client_id, client_host=new.client_host, session_timeout_ms=self._session_ms(new),
            from_offset=record.offset, from_timestamp=record.timestamp, from_generation=self._state.generation,
            known_from=self._state.group.whole,
        )  # fmt: skip
        self.tenures.begin(row, cause="replaced", confidence=Confidence.CERTAIN.value)

    def _absorbed(self, record: GroupRecord, change: MemberChange, before: LeavingMember) -> None:
        away = before.member.away_since
        low, high = (before.member.heard_at, record.timestamp) if away is None else (away, away)
        if away is not None and before.member.classic_session_ms is None and away >= self._state.group.led_since:
            self._state.sessions.survived(record.timestamp - away)
        back = Return(
            old_member_id=before.member_id, down_min=low, down_max=high, up_at=record.timestamp, absorbed=True,
            complete=self._complete, confidence=self._sure.value,
        )  # fmt: skip
        self.restarts.ended(record, change, back)
        line = f"{change.identity}: {change.member.record.member_id} replaced {before.member_id}"
        self._event(
            record,
            GroupEventKind.ABSORBED,
            [who(change, Involvement.RETURNED)],
            [line, "the group's epoch did not rise"],
        )
        self.days.add_absorbed(record.timestamp, 1)

    def _current(self, record: GroupRecord, member_id: str, value: CurrentValue | None) -> None:
        state, member = self.assignments.current(record, member_id, value), self._state.members.get(member_id)
        if member is None or state is LoggedMemberState.GONE:
            return
        member.heard_at = record.timestamp
        if state is not LoggedMemberState.UNREVOKED:
            member.unrevoked_since = None
        elif not member.unrevoked_since:
            member.unrevoked_since = record.timestamp
        if state is not LoggedMemberState.AWAY:
            member.away_since = None
        elif member.away_since is None:
            member.away_since = record.timestamp
            change = self._change(record, ChangeKind.LEFT, member_id, member)
            line = f"{change.identity}: it stopped, and keeps its partitions until it is back or its session expires"
            self._event(record, GroupEventKind.AWAY, [who(change, Involvement.AWAY)], [line])

    def _change(
        self, record: GroupRecord, kind: ChangeKind, member_id: str, member: LoggedMember, old: str | None = None
    ) -> MemberChange:
        session_ms = self._session_ms(member)
        metadata = MemberMetadata(
            member_id=member_id, group_instance_id=member.instance_id, client_id=member.client_id,
            client_host=member.client_host, rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=_UNKNOWN_MS if session_ms is None else session_ms,
        )  # fmt: skip
        return MemberChange(
            offset=record.offset, timestamp=record.timestamp, generation=self._state.generation, kind=kind,
            member=SnapshotMember(metadata, frozenset(member.topics), None), old_member_id=old,
            absorbed=True if old is not None else None, complete=self._complete, old_topics=member.old_topics,
        )  # fmt: skip

    def _session(self, member: LoggedMember) -> SessionTimeout | None:
        if member.classic_session_ms is not None:
            return SessionTimeout.exactly(member.classic_session_ms, SessionSource.MEMBER)
        return self._group_session()

    def _session_ms(self, member: LoggedMember) -> int | None:
        session = self._session(member)
        return None if session is None else session.ms

    def _group_session(self) -> SessionTimeout | None:
        """The session timeout of members that use the consumer protocol."""
        return self._session_of_group(self.group.group_id, self.group.group_type) or self._state.sessions.session()

    def _put_change(
        self, record: GroupRecord, change: MemberChange, new: LoggedMember | None, old: LoggedMember | None,
        partitions: int | None = None,
    ) -> None:  # fmt: skip
        if partitions is None:
            current = self._state.current.get(change.member.record.member_id)
            partitions = 0 if current is None else len(current.owned())
        before, after = (() if member is None else member.topics for member in (old, new))
        self.rows.put(change_row(record, change, (before, after), (partitions, partitions if new else 0)))

    # --- epochs

    @property
    def _sure(self) -> Confidence:
        return Confidence.CERTAIN if self._state.group.whole else Confidence.LIKELY

    @property
    def _complete(self) -> bool:
        """Whether no offset is missing since the last epoch."""
        return not self._state.pending.broken

    def _epoch_record(self, record: GroupRecord, value: ConsumerGroupMetadataValue) -> None:
        self._left()
        group, pending = self._state.group, self._state.pending
        old, new, hashes = group.epoch, value.epoch, group.next_hashes(value.metadata_hash)
        if old is not None and new < old:  # a new group with this id
            self._lost(record, self._state.unconfirmed)
        group.epoch = new
        new_members = pending.joined if group.whole else pending.joined_at(record.timestamp)
        joined = [self._change(at, ChangeKind.JOINED, name, member) for name, at, member in new_members]
        classic = all(member.classic_session_ms is not None for _, _, member in new_members)
        if old is None and joined and classic:
            line = "its members came from the classic protocol at the same moment"
            self._event(record, GroupEventKind.CONVERTED, [who(each, Involvement.MEMBER) for each in joined], [line])
            for each in joined:
                self.restarts.stays(each.member)
        elif new != old and (old is not None or not pending.broken):
            self._epoch(record, joined, hashes=hashes, old=new - 1 if old is None else old)
        self._remember(record)
        if not self._state.members:  # as far as the log shows, nobody is left to whom something is assigned
            self._assigned(new)
        self.assignments.epochs.raised(
            record, value.epoch, value.metadata_hash, self._state.member_count, complete=group.whole
        )

    def _epoch(
        self, record: GroupRecord, joined: Sequence[MemberChange], *, hashes: tuple[int | None, int], old: int
    ) -> None:
        pending = self._state.pending
        left = [
            (gone, self._change(gone.record, ChangeKind.LEFT, gone.member_id, gone.member)) for gone in pending.left
        ]
        back = self._returned(record, joined)
        returned = {change.identity for change, _ in back}
        verdict = explain_epoch(
            EpochContext(
                joined=joined,
                returned=[
                    ReturnedConsumer(
                        change=change, old_member_id=absence.member_id, down_ms=absence.down_max,
                        unique=self._is_unique(change, absence),
                    )
                    for change, absence in back
                ],
                returning=[
                    each.identity
                    for each in joined
                    if each.identity not in returned and self.restarts.was_member(each.member)
                ],
                departures=[self._how(gone, change) for gone, change in left],
                resubscribed=[
                    self._change(at, ChangeKind.RESUBSCRIBED, name, member) for name, at, member in pending.resubscribed
                ],
                hashes=hashes, regex=pending.regex, assignor=pending.assignor, empty=not self._state.members,
                known=self._state.group.whole, broken=pending.broken,
                unseen_left=pending.unseen_left_at == record.timestamp,
                has_topology=self.group.group_type == STREAMS, coordinator_moved=pending.moved,
                stayed=len(self._state.members) - len(joined),
            )
        )  # fmt: skip
        row = epoch_row(
            record, verdict, (old, self._state.generation), complete=self._complete,
            members=self._state.member_count, joined=len(joined), left=len(left),
        )  # fmt: skip
        if not row.complete:  # the target assignment of the epochs before it may be among the missing records
            self._assigned(old)
        self.recent.raised(row)
        self._restarted(record, back, row)
        if row.members_after is not None:
            self.days.add_members(record.timestamp, row.members_after)

    def _assigned(self, epoch: int) -> None:
        """The epochs until this one have their assignment, which is one rebalance."""
        row, offsets = self.recent.assigned(epoch)
        if row is not None:
            self.restarts.folded(offsets, row.offset)
            self.restarts.rebalanced(row)
            self.days.add_rebalance(row)
            self.days.close(self.recent.rows[0].timestamp)

    def _returned(self, record: GroupRecord, joined: Sequence[MemberChange]) -> list[tuple[MemberChange, Absence]]:
        """The members that joined and are back from an earlier absence."""
        returned = []
        for change in joined:
            absence = self.restarts.back(change, record.timestamp)
            if absence is not None and record.timestamp - absence.at <= RETURN_WITHIN_MS:
                returned.append((change, absence))
        return returned

    def _is_unique(self, change: MemberChange, absence: Absence) -> bool:
        """Whether a member that is back is the process that left, judging by its ids."""
        record = change.member.record
        if record.group_instance_id is not None or record.member_id == absence.member_id:
            return True
        others = any(
            (each.client_id, each.client_host) == (record.client_id, record.client_host)
            for name, each in self._state.members.items()
            if name != record.member_id and each.instance_id is None
        )
        return not others and not self.restarts.is_awaited(change.member)

    def _restarted(
        self, record: GroupRecord, returned: Sequence[tuple[MemberChange, Absence]], row: RebalanceRow
    ) -> None:
        for change, absence in returned:
            sure = Confidence.LIKELY if self._is_unique(change, absence) else Confidence.POSSIBLE
            back = Return(
                old_member_id=absence.member_id, down_min=absence.down_min, down_max=absence.down_max,
                up_at=change.timestamp, absorbed=False, complete=self._complete,
                confidence=sure.value,
                left_at=absence.offset, expired=absence.expired,
            )  # fmt: skip
            self.restarts.ended(record, change, back)
            line = f"{absence.member_id} came back as {change.member.record.member_id} in epoch {row.to_generation}"
            self.recent.came_back(absence.offset, line, sure)

    def _remember(self, record: GroupRecord) -> None:
        """The changes have been explained; remember the members that left, because they may come back."""
        for gone in self._state.pending.left:
            member, at = gone.member, gone.record.timestamp
            change = self._change(gone.record, ChangeKind.LEFT, gone.member_id, member)
            cause = self._how(gone, change).cause
            low, high = gone.down(cause)
            self.restarts.gone(change.member, at=at, offset=record.offset, down_min=low, down_max=high, cause=cause)
        self.restarts.forget(record.timestamp)
        self._state.pending = PendingChanges()

    def _removed(self, record: GroupRecord) -> None:
        """The group's record was deleted."""
        state = self._state
        if state.pending.leaving:
            # If a group has no members, its records are deleted alone, without member tombstones.
            left = state.pending.leaving
            changes = [self._change(record, ChangeKind.LEFT, each.member_id, each.member) for each in left]
            for change in changes:
                self.restarts.converted(change.member, record.timestamp, record.timestamp)
            line = "the group's records were deleted while it had members: it became a classic group"
            self._event(record, GroupEventKind.CONVERTED, [who(each, Involvement.MEMBER) for each in changes], [line])
        elif state.group.epoch is not None:
            line = "the group's records were deleted: by an admin, or because it was empty for long enough"
            self._event(record, GroupEventKind.REMOVED, [], [line])
        for identity in list(self.tenures.open):
            self.tenures.end(
                identity, record.offset, record.timestamp, state.generation, cause=GroupEventKind.REMOVED.value,
                confidence=self._sure.value,
            )  # fmt: skip
        state.members, state.current, state.target, state.planned, state.last_planned = {}, {}, {}, {}, {}
        state.pending, self.recent.waiting = PendingChanges(), []
        state.group = EpochState(heard_at=record.timestamp)

    def _event(
        self, record: GroupRecord, event: GroupEventKind, people: Sequence[Who], evidence: Sequence[str]
    ) -> None:
        sure = self._sure if self._complete else Confidence.UNKNOWN
        self.rows.put(
            EventRow(
                **record.columns, generation=self._state.generation, event=event.value, confidence=sure.value,
                who=tuple(people), evidence=tuple(evidence), complete=self._complete,
            )
        )  # fmt: skip
