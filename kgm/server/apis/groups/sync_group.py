"""SyncGroup v0-5: the leader sends the assignment, and every member gets its part; the group's coordinator answers.

Stricter than Kafka: a request is refused if its group would need more memory than the server allows."""

from kgm.coordinator.contract.error_responses import sync_refusal
from kgm.coordinator.contract.outcome import Request
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.protocol.struct import Message
from kgm.server.apis.routing import ask_coordinator, refuse_growth, refuse_named_group
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies

_NAMES_PROTOCOL_FROM = 5


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, SyncGroupRequest)
    size = sum(len(row.assignment) for row in message.assignments)
    # The member then joins again, and the JoinGroup response gives the reason.
    refused = refuse_growth(request, cluster, size, error=ErrorCode.REBALANCE_IN_PROGRESS)
    return refused or ask_coordinator(request, cluster, unavailable=_unavailable)


def _unavailable(group_request: Request, error: ErrorCode, cluster: EmbeddedCluster) -> Message:
    message = group_request.message
    assert isinstance(message, SyncGroupRequest)
    if group_request.version >= _NAMES_PROTOCOL_FROM and None in (message.protocol_type, message.protocol_name):
        return sync_refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return refuse_named_group(group_request, error, cluster)
