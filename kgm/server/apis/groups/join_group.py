"""JoinGroup v0-9: a member joins a classic-protocol group; the group's coordinator answers, often much later.

Stricter than Kafka: a request is refused if it would create more groups, or need more memory for its group, than the
server allows."""

from kgm.coordinator.classic.join import join_error
from kgm.coordinator.contract.error_responses import join_refusal
from kgm.coordinator.contract.outcome import Request
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.struct import Message
from kgm.server.apis.routing import ask_coordinator, refuse_growth, refuse_new_group, size_of_names
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, JoinGroupRequest)
    size = sum(len(offered.name) + len(offered.metadata) for offered in message.protocols)
    size += size_of_names(request, message.group_instance_id)
    return (
        refuse_new_group(request, cluster)
        or refuse_growth(request, cluster, size)
        or ask_coordinator(request, cluster, unavailable=_unavailable)
    )


def _unavailable(group_request: Request, error: ErrorCode, cluster: EmbeddedCluster) -> Message:
    message = group_request.message
    assert isinstance(message, JoinGroupRequest)
    if wrong := join_error(message, cluster.settings):
        return join_refusal(wrong, group_request.version, message.member_id)
    return join_refusal(error, group_request.version)
