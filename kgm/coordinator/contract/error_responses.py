"""The error form of each response, and how log errors map to response errors."""

from typing import NamedTuple

from kgm.coordinator.contract.api_versions import (
    FETCH_HAS_ERROR,
    FETCH_HAS_GROUPS,
    JOIN_PROTOCOL_NAME_IS_NULLABLE,
    TXN_COMMIT_KNOWS_LOADING,
)
from kgm.coordinator.contract.outcome import Request
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from kgm.protocol.messages.consumer_group_describe_response import DescribedGroup as DescribedConsumerGroup
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.messages.join_group_response import JoinGroupResponse
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.list_groups_response import ListGroupsResponse
from kgm.protocol.messages.offset_commit_request import OffsetCommitRequest
from kgm.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kgm.protocol.messages.offset_delete_request import OffsetDeleteRequest
from kgm.protocol.messages.offset_delete_response import OffsetDeleteResponse
from kgm.protocol.messages.offset_fetch_request import OffsetFetchRequest
from kgm.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kgm.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kgm.protocol.messages.streams_group_describe_response import DescribedGroup as DescribedStreamsGroup
from kgm.protocol.messages.streams_group_describe_response import StreamsGroupDescribeResponse
from kgm.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kgm.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.protocol.messages.sync_group_response import SyncGroupResponse
from kgm.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kgm.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kgm.protocol.struct import Message

UNKNOWN_MEMBER_ID = ""

_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    # From the transaction coordinator, which must be asked before a transactional batch is appended.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


class Refusal(NamedTuple):
    """Why a request is refused: the error, and a message if the response has one (None: the default message)."""

    error: ErrorCode
    message: str | None = None


def append_error(error: ErrorCode) -> ErrorCode:
    """The error that a client gets when this error kept records from being appended (Kafka:
    appendGroupMetadataErrorToResponseError)."""
    return _APPEND_ERRORS.get(error, error)


def protocol_name(name: str | None, version: int) -> str | None:
    """The protocol name of a JoinGroup reply: no name is "" before version 7, and null from then on."""
    return (name or "") if version < JOIN_PROTOCOL_NAME_IS_NULLABLE else (name or None)


def join_refusal(error: ErrorCode, version: int, member_id: str = UNKNOWN_MEMBER_ID) -> JoinGroupResponse:
    """A JoinGroup reply with an error. member_id: the id that Kafka echoes with that error."""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=protocol_name(None, version))


def sync_refusal(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)


def commit_refusal(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The error for every partition of the request: OffsetCommit has no error of its own."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error)
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def txn_commit_refusal(request: TxnOffsetCommitRequest, error: ErrorCode, version: int) -> TxnOffsetCommitResponse:
    """The error for every partition of the request: TxnOffsetCommit has no error of its own.

    Producers before 2.0 break on the error that a loading coordinator returns, so they get the error that makes them
    look up the coordinator again (KAFKA-7296)."""
    if version < TXN_COMMIT_KNOWS_LOADING and error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error)
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def fetch_refusal(request: OffsetFetchRequest, error: ErrorCode, version: int) -> OffsetFetchResponse:
    """The error, in the field that this version has for it: in each group from v8 on, in the response from v2 on, and
    in each partition in v1 (Kafka: OffsetFetchResponse.groupError)."""
    if version >= FETCH_HAS_GROUPS:
        groups = [OffsetFetchResponseGroup(group_id=group.group_id, error_code=error) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    if version >= FETCH_HAS_ERROR:
        return OffsetFetchResponse(error_code=error)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=error)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )


def refusal(request: Request, error: ErrorCode) -> Message:
    """The response to a request that is refused as a whole. Raises TypeError for a message that is not a request to a
    group coordinator."""
    match request.message:
        case JoinGroupRequest():
            return join_refusal(error, request.version)
        case SyncGroupRequest():
            return sync_refusal(error)
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=error)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=error)
        case OffsetCommitRequest() as commit:
            return commit_refusal(commit, error)
        case TxnOffsetCommitRequest() as commit_in_transaction:
            return txn_commit_refusal(commit_in_transaction, error, request.version)
        case OffsetFetchRequest() as fetch:
            return fetch_refusal(fetch, error, request.version)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=error)
        case ListGroupsRequest():
            return ListGroupsResponse(error_code=error)
        case DescribeGroupsRequest(groups=group_ids):
            return DescribeGroupsResponse(groups=[DescribedGroup(group_id=g, error_code=error) for g in group_ids])
        case DeleteGroupsRequest(groups_names=names):
            return DeleteGroupsResponse(
                results=[DeletableGroupResult(group_id=name, error_code=error) for name in names]
            )
        case ConsumerGroupDescribeRequest(group_ids=group_ids):
            return ConsumerGroupDescribeResponse(
                groups=[DescribedConsumerGroup(group_id=group_id, error_code=error) for group_id in group_ids]
            )
        case ConsumerGroupHeartbeatRequest():
            return ConsumerGroupHeartbeatResponse(error_code=error)
        case StreamsGroupHeartbeatRequest():
            return StreamsGroupHeartbeatResponse(error_code=error)
        case StreamsGroupDescribeRequest(group_ids=group_ids):
            return StreamsGroupDescribeResponse(
                groups=[DescribedStreamsGroup(group_id=group_id, error_code=error) for group_id in group_ids]
            )
        case other:
            raise TypeError(f"{type(other).__name__} is not a request to a group coordinator")
