"""The coordinator of one shard: dispatch of requests, alarms and records. The rules are in the other modules.

Not here yet: groups of KIP-848. A ConsumerGroupHeartbeat is answered with UNSUPPORTED_VERSION, as a broker answers
whose `group.coordinator.rebalance.protocols` leaves `consumer` out, and records of such groups are skipped."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from kgm.coordinator import admin, classic_join, classic_requests, offset_requests, standby, transactions
from kgm.coordinator import classic_round as rounds
from kgm.coordinator.classic_group import ClassicGroup, Parked
from kgm.coordinator.classic_records import group_from_record
from kgm.coordinator.classic_state import ClassicState
from kgm.coordinator.offsets import Offsets, expired, from_legacy, tombstone
from kgm.coordinator.outcome import Millis, Outcome, Producer, Request, Ticket, TimerKey, TimerKind
from kgm.coordinator.planned import NO_PLANS
from kgm.coordinator.refusals import append_error, refusal
from kgm.coordinator.settings import BrokerSettings
from kgm.coordinator.step import OnAppendFailure, Step
from kgm.coordinator.view import GroupView, view_of
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.offset_commit_request import OffsetCommitRequest
from kgm.protocol.messages.offset_delete_request import OffsetDeleteRequest
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from kgm.records.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record

_EXPIRATION = TimerKey(TimerKind.OFFSET_EXPIRATION)


class Coordinator:
    """A group coordinator. Not safe for threads: one event at a time.

    new_member_id: given a prefix (the group instance id, or else the client id), gives a new, never used member id;
    Kafka's is the prefix, a dash and a random UUID. topics: partitions by topic that exist, read at each request and
    never changed; None when everything exists."""

    def __init__(
        self,
        *,
        settings: BrokerSettings | None = None,
        new_member_id: Callable[[str], str],
        topics: Mapping[str, int] | None = None,
    ) -> None:
        self.settings = BrokerSettings() if settings is None else settings
        self._new_member_id = new_member_id
        self._topics = topics
        self._groups: dict[str, ClassicGroup] = {}
        self._offsets = Offsets()
        self._deadlines: dict[TimerKey, Millis] = {}
        self._in_flight: Step | None = None
        self._replayed = 0

    # -- events

    def handle(self, request: Request, *, ticket: Ticket, now: Millis) -> Outcome:
        """A request came in. If the outcome has records, `replay` each of them, or `abort`, before anything else.

        Raises TypeError for a message that is no request to a group coordinator."""
        step = Step(now=now, settings=self.settings, live=self._deadlines, request=request, ticket=ticket)
        self._dispatch(request, step)
        return self._finish(step)

    def expire(self, key: TimerKey, *, now: Millis) -> Outcome:
        """An alarm went off. One that was moved, cancelled or never set is ignored."""
        deadline = self._deadlines.get(key)
        step = Step(now=now, settings=self.settings, live=self._deadlines, alarm=key)
        if deadline is None or now < deadline:
            return step.outcome()
        step.cancel_timer(key)
        self._alarm(key, step)
        return self._finish(step)

    def hung_up(self, ticket: Ticket, *, now: Millis) -> Outcome:
        """The connection of a request that waits for its reply is gone, which matters to who is held back only: a
        member that waits in a rebalance has a session for that. Its ticket is answered all the same."""
        step = Step(now=now, settings=self.settings, live=self._deadlines)
        for installed in self._groups.values() if self.settings.plans else ():
            if any(held.parked.ticket == ticket for held in installed.held.values()):
                standby.hung_up(step.draft(installed), step, ticket)
                break
        return self._finish(step)

    def replay(self, record: Record, producer: Producer | tuple[int, int] | None = None) -> None:
        """A record is in the log: one of the last outcome, in order, or, on loading, whatever is in the log.

        producer: who wrote it, when it is in a transactional batch. Records that are no business of this coordinator
        are skipped."""
        match record.key, record.value:
            case OffsetCommitKey() as key, (OffsetCommitValue() | None) as value:
                self._offsets.replay(key, value, None if producer is None else producer[0])
                if value is not None and key.group not in self._groups:
                    self._groups[key.group] = ClassicGroup(group_id=key.group)
            case LegacyOffsetCommitKey() as key, (LegacyOffsetCommitValue() | None) as value:
                self.replay(from_legacy(key, value), producer)
            case GroupMetadataKey() as key, None:
                self._groups.pop(key.group, None)
            case GroupMetadataKey() as key, GroupMetadataValue() as value:
                if self._in_flight is None:
                    self._groups[key.group] = group_from_record(key.group, value)
            case _:
                pass
        self._count_replayed(record, producer)

    def replay_end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,  # noqa: ARG002  (as in Kafka, it is the log that compares epochs)
        *,
        commit: bool,
    ) -> None:
        """A transaction marker is in the log: the offsets that the producer has pending are committed, or forgotten.

        A marker of a producer that has nothing here means nothing."""
        assert self._in_flight is None, "the last outcome is neither replayed nor aborted"
        self._offsets.end_transaction(producer_id, commit=commit)

    def abort(self, error: ErrorCode, *, now: Millis) -> Outcome:
        """The records of the last outcome could not be appended, because of this. The outcome is void: this one, which
        has no records unless a round ends in it, takes its place."""
        step = self._in_flight
        assert step is not None, "nothing is in flight"
        assert self._replayed == 0, "some of it is in the log"
        self._in_flight = None
        undo = Step(now=now, settings=self.settings, live=self._deadlines, request=step.request, ticket=step.ticket)
        if step.on_append_failure is OnAppendFailure.REBALANCE:
            self._rebalance(step, undo, append_error(error))
        elif step.on_append_failure is OnAppendFailure.KEEP:
            self._keep(step, undo, append_error(error))
        elif step.on_append_failure is OnAppendFailure.WITHOUT_PLANS:
            self._again_without_plans(step, undo)
        else:
            self._revert(step, undo, append_error(error))
        return self._finish(undo)

    def loaded(self, *, now: Millis, group_ids: Iterable[str] | None = None) -> Outcome:
        """The log has been replayed: give every member a whole session, shrink groups that are over the limit, and
        begin to look for expired offsets.

        group_ids: only these groups. So it can be done in parts, which have to come to all groups; before the last of
        them nothing else may happen."""
        step = Step(now=now, settings=self.settings, live=self._deadlines)
        chosen = self._groups if group_ids is None else group_ids
        for installed in [self._groups[group_id] for group_id in chosen]:
            for member in installed.members.values():
                rounds.extend_session(installed, step, member)
            if len(installed.members) > self.settings.group_max_size:
                rounds.prepare_rebalance(step.draft(installed), step)
        step.set_timer(_EXPIRATION, self.settings.offsets_retention_check_interval_ms)
        return self._finish(step)

    def unloaded(self, *, now: Millis) -> Outcome:
        """The shard goes to another broker: whoever waits is sent there with NOT_COORDINATOR, and groups are Dead."""
        step = Step(now=now, settings=self.settings, live=self._deadlines)
        for installed in self._groups.values():
            group = step.draft(installed)
            parked = [
                member_id for member_id in (*group.parked_joins, *group.parked_syncs) if member_id in group.members
            ]
            for member_id in parked:
                rounds.answer_join(group, step, member_id, ErrorCode.NOT_COORDINATOR, echo=member_id)
                rounds.answer_sync(group, step, member_id, ErrorCode.NOT_COORDINATOR)
            standby.dismiss_all(group, step, ErrorCode.NOT_COORDINATOR)
            group.move_to(ClassicState.DEAD, now)
        for key in self._deadlines:
            step.cancel_timer(key)
        return self._finish(step)

    # -- questions

    def group_ids(self) -> tuple[str, ...]:
        """The ids of all groups."""
        return tuple(self._groups)

    def groups(self) -> tuple[GroupView, ...]:
        """All groups, by group id."""
        return tuple(view_of(group, self._deadlines) for _, group in sorted(self._groups.items()))

    def group(self, group_id: str) -> GroupView | None:
        """One group, or None if there is no such group."""
        group = self._groups.get(group_id)
        return None if group is None else view_of(group, self._deadlines)

    def deadline(self, key: TimerKey) -> Millis | None:
        """When a timer fires, or None if it is not set."""
        return self._deadlines.get(key)

    @property
    def deadlines(self) -> Mapping[TimerKey, Millis]:
        """All live timers, in the order in which they were last set."""
        return self._deadlines

    @property
    def offsets(self) -> Offsets:
        """All committed offsets; only to be read."""
        return self._offsets

    def fork(self) -> "Coordinator":
        """An independent copy, timers and parked requests included. A group is copied when one of the two changes it.

        It asks the same function for member ids."""
        assert self._in_flight is None, "an outcome is neither replayed nor aborted"
        twin = Coordinator(settings=self.settings, new_member_id=self._new_member_id, topics=self._topics)
        for group in self._groups.values():
            group.is_shared = True
        twin._groups = self._groups.copy()
        twin._offsets = self._offsets.fork()
        twin._deadlines = self._deadlines.copy()
        return twin

    # -- inside

    def _dispatch(self, request: Request, step: Step) -> None:
        match request.message:
            case HeartbeatRequest() as message:
                classic_requests.handle_heartbeat(message, self._groups.get(message.group_id), step)
            case JoinGroupRequest() as message:
                classic_join.handle_join(message, self._groups.get(message.group_id), step, self._new_member_id)
            case SyncGroupRequest() as message:
                classic_requests.handle_sync(message, self._groups.get(message.group_id), step)
            case LeaveGroupRequest() as message:
                classic_requests.handle_leave(message, self._groups.get(message.group_id), step)
            case OffsetCommitRequest() as message:
                offset_requests.handle_commit(message, self._groups.get(message.group_id), step, self._topics)
            case TxnOffsetCommitRequest() as message:
                transactions.handle_commit(message, self._groups.get(message.group_id), step, self._topics)
            case OffsetFetchRequest() as message:
                offset_requests.handle_fetch(message, self._groups, self._offsets, step)
            case OffsetDeleteRequest() as message:
                group = self._groups.get(message.group_id)
                offset_requests.handle_delete(message, group, self._offsets, step, self._topics)
            case DescribeGroupsRequest() as message:
                admin.handle_describe(message, self._groups, step)
            case ListGroupsRequest() as message:
                admin.handle_list(message, self._groups, step)
            case DeleteGroupsRequest() as message:
                admin.handle_delete(message, self._groups, self._offsets, step)
            case ConsumerGroupDescribeRequest() as message:
                admin.handle_consumer_group_describe(message, self._groups, step)
            case ConsumerGroupHeartbeatRequest():
                step.answer(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
            case other:
                raise TypeError(f"{type(other).__name__} is no request to a group coordinator")

    def _alarm(self, key: TimerKey, step: Step) -> None:
        if key.kind is TimerKind.OFFSET_EXPIRATION:
            self._expire_offsets(step)
            return
        group = step.draft(self._groups[key.group_id])
        if key.kind is TimerKind.SESSION:
            rounds.session_expired(group, step, key.member_id)
        elif key.kind is TimerKind.JOIN:
            rounds.join_phase_expired(group, step)
        elif key.kind is TimerKind.HOLD:
            if standby.wait_expired(group, step):
                rounds.rebalance_or_complete(group, step)
        else:
            rounds.sync_phase_expired(group, step)

    def _expire_offsets(self, step: Step) -> None:
        """Delete offsets past their retention, and groups that are Empty and have none left."""
        retention_minutes = self.settings.offsets_retention_minutes
        for group_id, group in sorted(self._groups.items()):
            gone = expired(group, self._offsets, now=step.now, retention_minutes=retention_minutes)
            all_gone = len(gone) == len(self._offsets.of(group_id)) and not self._offsets.unstable_of(group_id)
            if all_gone and group.is_in(ClassicState.EMPTY):
                admin.write_deletion(group, self._offsets, step)
            else:
                for at in gone:
                    step.write(tombstone(group_id, at))
        step.set_timer(_EXPIRATION, self.settings.offsets_retention_check_interval_ms)

    def _finish(self, step: Step) -> Outcome:
        """Let a step without records take effect; hold one with records until they are replayed."""
        assert self._in_flight is None, "the outcome before this one is neither replayed nor aborted"
        if step.records:
            self._in_flight, self._replayed = step, 0
        else:
            self._take_effect(step)
        return step.outcome()

    def _take_effect(self, step: Step) -> None:
        if step.groups:
            for group_id, draft in step.groups.items():
                self._groups[group_id] = draft.settled()
        deadlines = self._deadlines
        for key, deadline in step.timers.items():
            if key in deadlines:
                del deadlines[key]
            if deadline is not None:
                deadlines[key] = deadline

    def _count_replayed(self, record: Record, producer: Producer | tuple[int, int] | None) -> None:
        step = self._in_flight
        if step is None:
            return
        assert record == step.records[self._replayed], "not the record that was to be appended"
        assert producer == step.producer, "not in the transaction that it was to be part of"
        self._replayed += 1
        if self._replayed == len(step.records):
            self._in_flight = None
            self._take_effect(step)

    # -- when records could not be appended

    def _revert(self, step: Step, undo: Step, error: ErrorCode) -> None:
        """The request was never made; an alarm is set again. What has been told or shown without the log still holds:
        that a newcomer has to come back with an id, and that a committing member is alive."""
        message = None if step.request is None else step.request.message
        if message is None or isinstance(message, OffsetCommitRequest):
            undo.timers = {key: deadline for key, deadline in step.timers.items() if deadline is not None}
        if step.request is None:
            return
        group = self._groups.get(message.group_id) if isinstance(message, JoinGroupRequest) else None
        if group is not None:
            self._keep_static(group, undo, error)
        elif isinstance(message, JoinGroupRequest) and step.replies:
            undo.replies = step.replies
        else:
            undo.answer(refusal(step.request, error))

    def _keep_static(self, group: ClassicGroup, undo: Step, error: ErrorCode) -> None:
        """A static member was to be replaced: the old id stays, and gets a new session."""
        assert undo.request is not None
        message = undo.request.message
        assert isinstance(message, JoinGroupRequest)
        assert message.group_instance_id is not None
        rounds.extend_session(group, undo, group.members[group.static_ids[message.group_instance_id]])
        reply = rounds.joined_reply(group, "", undo.request.version, for_leader=False)
        reply.error_code = error
        undo.answer(reply)

    def _keep(self, step: Step, undo: Step, error: ErrorCode) -> None:
        """A group became Empty, which is not in the log: after a restart its last members will time out."""
        undo.groups, undo.timers = step.groups, step.timers
        undo.replies = [reply for reply in step.replies if reply.ticket != step.ticket]
        if step.request is not None:
            undo.answer(refusal(step.request, error))

    def _again_without_plans(self, step: Step, undo: Step) -> None:
        """A spare could not be put in the place of a member that goes: that one goes all the same, with a rebalance."""
        undo.settings = replace(undo.settings, plans=NO_PLANS)
        if step.alarm is not None:
            undo.cancel_timer(step.alarm)
            self._alarm(step.alarm, undo)
        else:
            assert step.request is not None
            self._dispatch(step.request, undo)

    def _rebalance(self, step: Step, undo: Step, error: ErrorCode) -> None:
        """The leader's assignment is lost: all that wait for it hear of the error, and have to join again."""
        assert step.request is not None
        assert step.ticket is not None
        message = step.request.message
        assert isinstance(message, SyncGroupRequest)
        group = undo.draft(self._groups[message.group_id])
        group.parked_syncs[message.member_id] = Parked(step.ticket, step.request.version)
        rounds.fail_sync(group, undo, error)
