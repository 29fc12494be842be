"""The coordinator of one shard: dispatch of requests, alarms and records. The rules are in the other modules."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from kgm.coordinator import append_failure
from kgm.coordinator.admin import consumer_describe, describe_list_delete
from kgm.coordinator.admin.describe_list_delete import Group
from kgm.coordinator.admin.view import GroupView, view_of
from kgm.coordinator.classic import join, standby, sync_heartbeat_leave
from kgm.coordinator.classic import rebalance as rounds
from kgm.coordinator.classic.group import ClassicGroup
from kgm.coordinator.classic.records import group_from_record
from kgm.coordinator.classic.state import ClassicState
from kgm.coordinator.consumer import classic_protocol, fencing, heartbeat, records, regexes, timers
from kgm.coordinator.consumer.group import ConsumerGroup, Refresh
from kgm.coordinator.contract.error_responses import append_error, join_refusal
from kgm.coordinator.contract.event_draft import EventDraft, OnAppendFailure
from kgm.coordinator.contract.foreign_group import STREAMS, ForeignGroup, foreign_type, replayed
from kgm.coordinator.contract.outcome import Millis, Outcome, Producer, Request, Ticket, TimerKey, TimerKind
from kgm.coordinator.contract.scale_out_plan import NO_PLANS
from kgm.coordinator.contract.settings import BrokerSettings, GroupConfig
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.offsets import requests, txn_commit
from kgm.coordinator.offsets.store import Offsets, expired, from_legacy, tombstone
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
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
    Kafka's is the prefix, a dash and a random UUID. new_consumer_id: likewise for members of consumer groups, always
    with prefix "" (Kafka: its own Uuid); if None, the former. topics: partitions by topic that exist, read at each
    request; None when everything exists, and then there is nothing for consumer groups to assign. They, and topic ids,
    go by an image: the one given, or one made from `topics`; whoever changes the topics says `topics_changed`."""

    def __init__(
        self,
        *,
        settings: BrokerSettings | None = None,
        new_member_id: Callable[[str], str],
        new_consumer_id: Callable[[str], str] | None = None,
        topics: Mapping[str, int] | None = None,
        image: TopicImage | None = None,
    ) -> None:
        self.settings = BrokerSettings() if settings is None else settings
        self._new_member_id = new_member_id
        self._new_consumer_id = new_consumer_id or new_member_id
        self._topics = topics
        self._image = TopicImage.counted(topics or {}) if image is None else image
        #: What is set for single groups; whoever changes it calls `configure`.
        self._configs: dict[str, GroupConfig] = {}
        self._groups: dict[str, Group] = {}
        self._offsets = Offsets()
        self._deadlines: dict[TimerKey, Millis] = {}
        self._in_flight: EventDraft | None = None
        self._replayed = 0

    # -- events

    def handle(self, request: Request, *, ticket: Ticket, now: Millis) -> Outcome:
        """A request came in. If the outcome has records, `replay` each of them, or `abort`, before anything else.

        Raises TypeError for a message that is no request to a group coordinator."""
        step = self._step(now, request=request, ticket=ticket)
        self._dispatch(request, step)
        return self._finish(step)

    def expire(self, key: TimerKey, *, now: Millis) -> Outcome:
        """An alarm went off. One that was moved, cancelled or never set is ignored."""
        deadline = self._deadlines.get(key)
        step = self._step(now, alarm=key)
        if deadline is None or now < deadline:
            return step.outcome()
        step.cancel_timer(key)
        self._alarm(key, step)
        return self._finish(step)

    def disconnected(self, ticket: Ticket, *, now: Millis) -> Outcome:
        """The connection of a request that waits for its reply is gone, which matters to who is held back only: a
        member that waits in a rebalance has a session for that. Its ticket is answered all the same."""
        step = self._step(now)
        for installed in self._groups.values() if self.settings.plans else ():
            if isinstance(installed, ClassicGroup) and any(
                held.parked.ticket == ticket for held in installed.held.values()
            ):
                standby.disconnected(step.draft(installed), step, ticket)
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
            case key, _ if isinstance(key, records.KEYS):
                self._replay_consumer_group(record)
            case _:
                self._replay_foreign_group(record)
        self._count_replayed(record, producer)

    def _replay_consumer_group(self, record: Record) -> None:
        group_id: str = record.key.group_id  # type: ignore[attr-defined]  # all of these keys have one
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup) and group.protocol_type is None and group.is_in(ClassicState.EMPTY):
            # A simple group is not in the log: it stood for the offsets of this one.
            group = None
            if record.value is None:
                self._groups.pop(group_id)
        if records.ends_group(record):
            if isinstance(group, ConsumerGroup):
                self._groups.pop(group_id)
            return
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            group = ConsumerGroup(group_id=group_id)
        elif group.is_shared:
            group = group.copy()
        self._groups[group_id] = group
        records.replay(group, record.key, record.value)

    def _replay_foreign_group(self, record: Record) -> None:
        group_type, group_id = foreign_type(record.key), getattr(record.key, "group_id", "")
        is_known = isinstance(self._groups.get(group_id), ForeignGroup)
        if group_type is not None and (is_known or record.value is not None):
            group = replayed(self._groups, record, group_type)
            self._groups.pop(group_id, None)
            if group is not None:
                self._groups[group_id] = group

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
        undo = self._step(now, request=step.request, ticket=step.ticket, alarm=step.alarm)
        if step.on_append_failure is OnAppendFailure.REBALANCE:
            append_failure.rebalance(self._groups, step, undo, append_error(error))
        elif step.on_append_failure is OnAppendFailure.KEEP:
            append_failure.keep(step, undo, append_error(error))
        elif step.on_append_failure is OnAppendFailure.WITHOUT_PLANS:
            self._again_without_plans(step, undo)
        else:
            append_failure.revert(self._groups, step, undo, append_error(error))
        return self._finish(undo)

    def loaded(self, *, now: Millis, group_ids: Iterable[str] | None = None) -> Outcome:
        """The log has been replayed: give every member a whole session, shrink groups that are over the limit, and
        begin to look for expired offsets.

        group_ids: only these groups. So it can be done in parts, which have to come to all groups; before the last of
        them nothing else may happen."""
        step = self._step(now)
        chosen = self._groups if group_ids is None else group_ids
        for installed in [self._groups[group_id] for group_id in chosen]:
            if isinstance(installed, ConsumerGroup):
                timers.arm(installed, step)
            if not isinstance(installed, ClassicGroup):
                continue
            for member in installed.members.values():
                rounds.extend_session(installed, step, member)
            if len(installed.members) > self.settings.group_max_size:
                rounds.prepare_rebalance(step.draft(installed), step)
        step.set_timer(_EXPIRATION, self.settings.offsets_retention_check_interval_ms)
        return self._finish(step)

    def unloaded(self, *, now: Millis) -> Outcome:
        """The shard goes to another broker: whoever waits is sent there with NOT_COORDINATOR, and groups are Dead."""
        step = self._step(now)
        for installed in self._groups.values():
            if not isinstance(installed, ClassicGroup):
                continue
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

    def topics_changed(self, image: TopicImage | None = None, *, now: Millis) -> Outcome:
        """There are other topics than before: this image, or what `topics` now says. Groups that subscribe to what has
        changed look at it with their next heartbeat; offsets of topics that are gone are deleted."""
        before = self._image
        if image is None:
            image = TopicImage.counted(self._topics or {}, version=before.version + 1)
        self._image = image.after(before)
        changed = image.changed_since(before)
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup) and any(map(group.is_subscribed_to, changed)):
                self._own(group).refresh = Refresh()
        step = self._step(now)
        gone = {topic.name: topic.topic_id for topic in before.by_name.values() if topic.topic_id not in image.by_id}
        for record in self._offsets.tombstones_of(gone):
            step.write(record)
        return self._finish(step)

    def configure(self, group_id: str, values: Mapping[str, str | int]) -> None:
        """Set what Kafka's config resource GROUP has for one group, instead of what was set before. Raises UsageError
        for an unknown name or no number."""
        self._configs.pop(group_id, None)
        if values:
            self._configs[group_id] = GroupConfig.of(values, self.settings)

    # -- questions

    @property
    def image(self) -> TopicImage:
        """The topics that there are."""
        return self._image

    def group_ids(self) -> tuple[str, ...]:
        """The ids of all groups."""
        return tuple(self._groups)

    def groups(self) -> tuple[GroupView, ...]:
        """All groups, by group id."""
        return tuple(view_of(group, self._deadlines, self._image) for _, group in sorted(self._groups.items()))

    def group(self, group_id: str) -> GroupView | None:
        """One group, or None if there is no such group."""
        group = self._groups.get(group_id)
        return None if group is None else view_of(group, self._deadlines, self._image)

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
        """An independent copy, with all timers and parked requests, that asks the same functions for member ids."""
        assert self._in_flight is None, "an outcome is neither replayed nor aborted"
        twin = Coordinator(
            settings=self.settings, new_member_id=self._new_member_id, topics=self._topics, image=self._image
        )
        twin._new_consumer_id, twin._configs = self._new_consumer_id, self._configs.copy()
        for group in self._groups.values():
            group.is_shared = True
        twin._groups = self._groups.copy()
        twin._offsets = self._offsets.fork()
        twin._deadlines = self._deadlines.copy()
        return twin

    # -- inside

    def _step(
        self,
        now: Millis,
        *,
        request: Request | None = None,
        ticket: Ticket | None = None,
        alarm: TimerKey | None = None,
    ) -> EventDraft:
        return EventDraft(
            now=now,
            settings=self.settings,
            live=self._deadlines,
            image=self._image,
            configs=self._configs,
            request=request,
            ticket=ticket,
            alarm=alarm,
        )

    def _own(self, group: ConsumerGroup) -> ConsumerGroup:
        """The group as this coordinator may change it."""
        if group.is_shared:
            group = self._groups[group.group_id] = group.copy()
        return group

    def _dispatch(self, request: Request, step: EventDraft) -> None:
        match request.message:
            case HeartbeatRequest() as message:
                self._heartbeat(message, step)
            case ConsumerGroupHeartbeatRequest() as message:
                group = self._groups.get(message.group_id)
                installed = self._own(group) if isinstance(group, ConsumerGroup) else group
                heartbeat.handle_heartbeat(message, installed, step, self._new_consumer_id)
            case JoinGroupRequest() as message:
                self._join(message, step)
            case SyncGroupRequest() as message:
                self._sync(message, step)
            case LeaveGroupRequest() as message:
                self._leave(message, step)
            case OffsetCommitRequest() as message:
                requests.handle_commit(message, self._groups.get(message.group_id), step, self._topics)
            case TxnOffsetCommitRequest() as message:
                txn_commit.handle_commit(message, self._groups.get(message.group_id), step, self._topics)
            case OffsetFetchRequest() as message:
                requests.handle_fetch(message, self._groups, self._offsets, step)
            case OffsetDeleteRequest() as message:
                group = self._groups.get(message.group_id)
                requests.handle_delete(message, group, self._offsets, step, self._topics)
            case DescribeGroupsRequest() as message:
                describe_list_delete.handle_describe(message, self._groups, step)
            case ListGroupsRequest() as message:
                describe_list_delete.handle_list(message, self._groups, step)
            case DeleteGroupsRequest() as message:
                describe_list_delete.handle_delete(message, self._groups, self._offsets, step)
            case ConsumerGroupDescribeRequest() as message:
                shown = describe_list_delete.operations_shown(message.include_authorized_operations)
                consumer_describe.handle_describe(message, self._groups, step, operations=shown)
            case other:
                raise TypeError(f"{type(other).__name__} is no request to a group coordinator")

    # What follows dispatches by the type of the group. To requests of the classic protocol, groups of other types than
    # classic and consumer do not exist, but their ids are taken.

    def _heartbeat(self, message: HeartbeatRequest, step: EventDraft) -> None:
        group = self._groups.get(message.group_id)
        if isinstance(group, ConsumerGroup):
            classic_protocol.handle_heartbeat(message, group, step)
        else:
            sync_heartbeat_leave.handle_heartbeat(message, _classic(group), step)

    def _join(self, message: JoinGroupRequest, step: EventDraft) -> None:
        group = self._groups.get(message.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            classic_protocol.handle_join(message, self._own(group), step, self._new_consumer_id)
            return
        if isinstance(group, ForeignGroup) and not (group.group_type == STREAMS and group.is_empty):
            assert step.request is not None
            step.answer(join_refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, step.request.version))
            return
        if isinstance(group, ConsumerGroup | ForeignGroup) and join.makes_group(message, step.settings):
            describe_list_delete.write_group_deletion(group, step)
        join.handle_join(message, _classic(group), step, self._new_member_id)

    def _sync(self, message: SyncGroupRequest, step: EventDraft) -> None:
        group = self._groups.get(message.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            classic_protocol.handle_sync(message, group, step)
        else:
            sync_heartbeat_leave.handle_sync(message, _classic(group), step)

    def _leave(self, message: LeaveGroupRequest, step: EventDraft) -> None:
        group = self._groups.get(message.group_id)
        if isinstance(group, ConsumerGroup):
            classic_protocol.handle_leave(message, group, step)
        else:
            sync_heartbeat_leave.handle_leave(message, _classic(group), step)

    def _alarm(self, key: TimerKey, step: EventDraft) -> None:
        if key.kind is TimerKind.OFFSET_EXPIRATION:
            self._expire_offsets(step)
            return
        installed = self._groups[key.group_id]
        if isinstance(installed, ConsumerGroup):
            if key.kind is TimerKind.REGEX:
                regexes.resolve(self._own(installed), step)
            else:
                fencing.expired(installed, key, step)
            return
        assert isinstance(installed, ClassicGroup)
        group = step.draft(installed)
        if key.kind is TimerKind.SESSION:
            rounds.session_expired(group, step, key.member_id)
        elif key.kind is TimerKind.JOIN:
            rounds.join_phase_expired(group, step)
        elif key.kind is TimerKind.HOLD:
            if standby.wait_expired(group, step):
                rounds.rebalance_or_complete(group, step)
        else:
            rounds.sync_phase_expired(group, step)

    def _expire_offsets(self, step: EventDraft) -> None:
        """Delete offsets past their retention, and groups that are Empty and have none left."""
        retention_minutes = self.settings.offsets_retention_minutes
        for group_id, group in sorted(self._groups.items()):
            gone = expired(group, self._offsets, now=step.now, retention_minutes=retention_minutes)
            all_gone = len(gone) == len(self._offsets.of(group_id)) and not self._offsets.unstable_of(group_id)
            if isinstance(group, ForeignGroup):
                continue
            if all_gone and describe_list_delete.is_empty(group):
                describe_list_delete.write_deletion(group, self._offsets, step)
            else:
                for at in gone:
                    step.write(tombstone(group_id, at))
        step.set_timer(_EXPIRATION, self.settings.offsets_retention_check_interval_ms)

    def _finish(self, step: EventDraft) -> Outcome:
        """Let a step without records take effect; hold one with records until they are replayed."""
        assert self._in_flight is None, "the outcome before this one is neither replayed nor aborted"
        if step.records:
            self._in_flight, self._replayed = step, 0
        else:
            self._take_effect(step)
        return step.outcome()

    def _take_effect(self, step: EventDraft) -> None:
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

    def _again_without_plans(self, step: EventDraft, undo: EventDraft) -> None:
        """A spare could not be put in the place of a member that goes: that one goes all the same, with a rebalance."""
        undo.settings = replace(undo.settings, plans=NO_PLANS)
        if step.alarm is not None:
            undo.cancel_timer(step.alarm)
            self._alarm(step.alarm, undo)
        else:
            assert step.request is not None
            self._dispatch(step.request, undo)


def _classic(group: Group | None) -> ClassicGroup | None:
    return group if isinstance(group, ClassicGroup) else None
