"""StreamsGroupDescribe v0-0: streams groups (KIP-1071); the coordinator of each answers for it.

A repeated group id is answered each time, as in Kafka, up to a limit."""

from kgm.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kgm.server.apis.routing import ask_coordinators, refuse_repeated_groups
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, StreamsGroupDescribeRequest)
    return refuse_repeated_groups(request, cluster, message.group_ids) or ask_coordinators(
        request, cluster, request_field="group_ids", response_field="groups"
    )
