"""ConsumerGroupHeartbeat v0-1: a member of a consumer group (KIP-848) joins, reports that it is alive, gives up
partitions, or leaves; the group's coordinator answers.

Stricter than Kafka: a request is refused if it would create more groups, or need more memory for its group, than the
server allows, or if it has a regular expression and kgm is installed without RE2."""

from kgm.coordinator.consumer.heartbeat import request_error
from kgm.coordinator.contract.error_responses import refusal
from kgm.coordinator.contract.outcome import Request
from kgm.java import re2j
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kgm.protocol.struct import Message
from kgm.server.apis.routing import ask_coordinator, refuse_growth, refuse_new_group, size_of_names
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    if message.subscribed_topic_regex and not re2j.is_installed():
        text = "The coordinator does not support regular expressions: it was installed without google-re2."
        code = ErrorCode.INVALID_REGULAR_EXPRESSION
        return (Reply(request.ticket, ConsumerGroupHeartbeatResponse(error_code=code, error_message=text)),)
    size = sum(map(len, message.subscribed_topic_names or ())) + len(message.subscribed_topic_regex or "")
    if message.member_epoch == 0:
        size += size_of_names(request, message.instance_id, message.rack_id)
    return (
        refuse_new_group(request, cluster)
        or refuse_growth(request, cluster, size)
        or ask_coordinator(request, cluster, unavailable=_unavailable)
    )


def _unavailable(group_request: Request, error: ErrorCode, cluster: EmbeddedCluster) -> Message:
    message = group_request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    if not cluster.settings.has_consumer_protocol:
        return refusal(group_request, ErrorCode.UNSUPPORTED_VERSION)
    wrong, text = request_error(message, group_request.version, cluster.settings)
    return (
        ConsumerGroupHeartbeatResponse(error_code=wrong, error_message=text) if wrong else refusal(group_request, error)
    )
