"""What a broker answers that is asked for a group which it does not coordinate, or not yet.

What is wrong with the request itself is said first, as in Kafka, where GroupCoordinatorService looks at it before the
request goes to a shard. Then each API says the error in its own way (its `handleOperationException`)."""

from collections.abc import Mapping

from kgm.coordinator.classic.join import join_error
from kgm.coordinator.consumer.heartbeat import request_error
from kgm.coordinator.contract.error_responses import join_refusal, refusal
from kgm.coordinator.contract.outcome import Request
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest
from kgm.protocol.messages.offset_commit_response import OffsetCommitResponse
from kgm.protocol.messages.offset_delete_request import OffsetDeleteRequest
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kgm.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from kgm.protocol.struct import Message

_SYNC_NAMES_PROTOCOL_FROM = 5


def unavailable(request: Request, error: ErrorCode, *, settings: BrokerSettings, topics: Mapping[str, int]) -> Message:
    """The answer. error: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS or COORDINATOR_NOT_AVAILABLE."""
    match request.message:
        case JoinGroupRequest() as join if wrong := join_error(join, settings):
            return join_refusal(wrong, request.version, join.member_id)
        case SyncGroupRequest() as sync if request.version >= _SYNC_NAMES_PROTOCOL_FROM and (
            sync.protocol_type is None or sync.protocol_name is None
        ):
            return refusal(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        case (
            SyncGroupRequest(group_id="")
            | HeartbeatRequest(group_id="")
            | LeaveGroupRequest(group_id="")
            | OffsetDeleteRequest(group_id="")
            | TxnOffsetCommitRequest(group_id="")
        ):
            return refusal(request, ErrorCode.INVALID_GROUP_ID)
        case ConsumerGroupHeartbeatRequest() as beat:
            if not settings.has_consumer_protocol:
                return refusal(request, ErrorCode.UNSUPPORTED_VERSION)
            wrong, why = request_error(beat, request.version, settings)
            if wrong:
                return ConsumerGroupHeartbeatResponse(error_code=wrong, error_message=why)
            return refusal(request, error)
        case HeartbeatRequest() if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return refusal(request, ErrorCode.NONE)  # so that a member does not take the loading for a fencing
        case _:
            return _unknown_topics_first(refusal(request, error), topics)


def _unknown_topics_first(response: Message, topics: Mapping[str, int]) -> Message:
    """The brokers know by themselves that a partition does not exist."""
    if isinstance(response, OffsetCommitResponse | TxnOffsetCommitResponse):
        for topic in response.topics:
            for row in topic.partitions:
                if not 0 <= row.partition_index < topics.get(topic.name, 0):
                    row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return response
