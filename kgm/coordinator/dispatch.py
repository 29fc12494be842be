"""Which rule handles which request and which alarm, by group type."""

from collections.abc import Callable, Mapping

from kgm.coordinator.admin import consumer_describe, describe_list_delete, streams_describe
from kgm.coordinator.classic import heartbeat as classic_heartbeat
from kgm.coordinator.classic import join, leave, rebalance, standby, sync
from kgm.coordinator.consumer import classic_protocol, fencing, regexes
from kgm.coordinator.consumer import heartbeat as consumer_heartbeat
from kgm.coordinator.contract.error_responses import join_refusal
from kgm.coordinator.contract.outcome import EXPIRATION_KEY, Request, TimerKey, TimerKind
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.foreign_group import ForeignGroup
from kgm.coordinator.groups.group import Group
from kgm.coordinator.groups.streams_group import StreamsGroup
from kgm.coordinator.offsets import commit, delete, fetch, txn_commit
from kgm.coordinator.offsets.store import expired_offsets, tombstone
from kgm.coordinator.state import CoordinatorState
from kgm.coordinator.streams import fencing as streams_fencing
from kgm.coordinator.streams import heartbeat as streams_heartbeat
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
from kgm.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kgm.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest


class Dispatcher:
    """Passes requests and alarms to the rules, with what they need from the coordinator. Parameters are the same as for
    `Coordinator`."""

    __slots__ = ("new_consumer_id", "new_member_id", "state", "topics")

    def __init__(
        self,
        state: CoordinatorState,
        *,
        new_member_id: Callable[[str], str],
        new_consumer_id: Callable[[str], str],
        topics: Mapping[str, int] | None,
    ) -> None:
        self.state = state
        self.new_member_id = new_member_id
        self.new_consumer_id = new_consumer_id
        self.topics = topics

    def with_state(self, state: CoordinatorState) -> "Dispatcher":
        """A dispatcher with the same parameters for another state."""
        return Dispatcher(
            state, new_member_id=self.new_member_id, new_consumer_id=self.new_consumer_id, topics=self.topics
        )

    # -- requests

    def handle(self, request: Request, event: EventDraft) -> None:
        """Raises TypeError for a message that is not a request to a group coordinator."""
        groups, offsets = self.state.groups, self.state.offsets
        match request.message:
            case HeartbeatRequest() as message:
                self._heartbeat(message, event)
            case ConsumerGroupHeartbeatRequest() as message:
                group = groups.get(message.group_id)
                installed = self.state.own(group) if isinstance(group, ConsumerGroup) else group
                consumer_heartbeat.handle_heartbeat(message, installed, event, self.new_consumer_id)
            case StreamsGroupHeartbeatRequest() as message:
                group = groups.get(message.group_id)
                owned = self.state.own(group) if isinstance(group, StreamsGroup) else group
                streams_heartbeat.handle_heartbeat(message, owned, event)
            case JoinGroupRequest() as message:
                self._join(message, event)
            case SyncGroupRequest() as message:
                self._sync(message, event)
            case LeaveGroupRequest() as message:
                self._leave(message, event)
            case OffsetCommitRequest() as message:
                commit.handle_commit(message, groups.get(message.group_id), event, self.topics)
            case TxnOffsetCommitRequest() as message:
                txn_commit.handle_commit(message, groups.get(message.group_id), event, self.topics)
            case OffsetFetchRequest() as message:
                fetch.handle_fetch(message, groups, offsets, event)
            case OffsetDeleteRequest() as message:
                delete.handle_delete(message, groups.get(message.group_id), offsets, event, self.topics)
            case DescribeGroupsRequest() as message:
                describe_list_delete.handle_describe(message, groups, event)
            case ListGroupsRequest() as message:
                describe_list_delete.handle_list(message, groups, event)
            case DeleteGroupsRequest() as message:
                describe_list_delete.handle_delete(message, groups, offsets, event)
            case ConsumerGroupDescribeRequest() as message:
                operations = describe_list_delete.authorized_operations(
                    message.include_authorized_operations, event.behavior
                )
                consumer_describe.handle_describe(message, groups, event, operations=operations)
            case StreamsGroupDescribeRequest() as message:
                operations = describe_list_delete.authorized_operations(
                    message.include_authorized_operations, event.behavior
                )
                streams_describe.handle_describe(message, groups, event, operations=operations)
            case other:
                raise TypeError(f"{type(other).__name__} is not a request to a group coordinator")

    # For classic protocol requests, groups that are neither classic nor consumer groups do not exist, but their ids are
    # taken.

    def _heartbeat(self, message: HeartbeatRequest, event: EventDraft) -> None:
        group = self.state.groups.get(message.group_id)
        if isinstance(group, ConsumerGroup):
            classic_protocol.handle_heartbeat(message, group, event)
        else:
            classic_heartbeat.handle_heartbeat(message, _classic(group), event)

    def _join(self, message: JoinGroupRequest, event: EventDraft) -> None:
        group = self.state.groups.get(message.group_id)
        match group:
            case ClassicGroup() | None:
                pass
            case ConsumerGroup(is_empty=False):
                classic_protocol.handle_join(message, self.state.own(group), event, self.new_consumer_id)
                return
            case ForeignGroup() | StreamsGroup(is_empty=False):
                event.answer(join_refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, event.version))
                return
            case ConsumerGroup() | StreamsGroup():
                if join.creates_group(message, event.settings):
                    describe_list_delete.write_group_deletion(group, event)
        join.handle_join(message, _classic(group), event, self.new_member_id)

    def _sync(self, message: SyncGroupRequest, event: EventDraft) -> None:
        group = self.state.groups.get(message.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            classic_protocol.handle_sync(message, group, event)
        else:
            sync.handle_sync(message, _classic(group), event)

    def _leave(self, message: LeaveGroupRequest, event: EventDraft) -> None:
        group = self.state.groups.get(message.group_id)
        if isinstance(group, ConsumerGroup):
            classic_protocol.handle_leave(message, group, event)
        else:
            leave.handle_leave(message, _classic(group), event)

    # -- alarms

    def expire(self, key: TimerKey, event: EventDraft) -> None:
        """A timer that was set has fired."""
        if key.kind is TimerKind.OFFSET_EXPIRATION:
            self._expire_offsets(event)
            return
        match self.state.groups[key.group_id]:
            case ClassicGroup() as installed:
                _expire_classic(event.draft(installed), key, event)
            case ConsumerGroup() as group if key.kind is TimerKind.REGEX:
                regexes.resolve(self.state.own(group), event)
            case ConsumerGroup() as group:
                fencing.expired(group, key, event)
            case StreamsGroup() as group:
                streams_fencing.expired(group, key, event)
            case ForeignGroup():
                raise AssertionError(f"{key}: groups of other types have no timers")

    def _expire_offsets(self, event: EventDraft) -> None:
        """Delete offsets past their retention, and groups that are Empty and have no offset left."""
        offsets, retention_minutes = self.state.offsets, event.settings.offsets_retention_minutes
        for group_id, group in sorted(self.state.groups.items()):
            if isinstance(group, ForeignGroup):
                continue
            expired = expired_offsets(group, offsets, now=event.now, retention_minutes=retention_minutes)
            has_none_left = len(expired) == len(offsets.of(group_id)) and not offsets.unstable_of(group_id)
            if has_none_left and group.is_empty:
                describe_list_delete.write_deletion(group, offsets, event)
            else:
                for at in expired:
                    event.write(tombstone(group_id, at))
        event.set_timer(EXPIRATION_KEY, event.settings.offsets_retention_check_interval_ms)


def _expire_classic(group: ClassicGroup, key: TimerKey, event: EventDraft) -> None:
    if key.kind is TimerKind.SESSION:
        rebalance.session_expired(group, key.member_id, event)
    elif key.kind is TimerKind.JOIN:
        rebalance.join_phase_expired(group, event)
    elif key.kind is TimerKind.HOLD:
        if standby.wait_expired(group, event):
            rebalance.rebalance_or_complete(group, event)
    else:
        assert key.kind is TimerKind.SYNC
        rebalance.sync_phase_expired(group, event)


def _classic(group: Group | None) -> ClassicGroup | None:
    return group if isinstance(group, ClassicGroup) else None
