"""SyncGroup v0-5: the leader sends the assignment, every member gets its part; the group's coordinator answers."""

from kgm.coordinator.contract.error_responses import sync_refusal
from kgm.coordinator.contract.outcome import Request
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.sync_group_request import SyncGroupRequest
from kgm.protocol.struct import Message
from kgm.server.apis.routing import ask_coordinator, refuse_named_group
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies

_NAMES_PROTOCOL_FROM = 5


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    return ask_coordinator(request, cluster, unavailable=_unavailable)


def _unavailable(group_request: Request, error: ErrorCode, cluster: EmbeddedCluster) -> Message:
    message = group_request.message
    assert isinstance(message, SyncGroupRequest)
    if group_request.version >= _NAMES_PROTOCOL_FROM and None in (message.protocol_type, message.protocol_name):
        return sync_refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return refuse_named_group(group_request, error, cluster)
