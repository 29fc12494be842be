"""DescribeGroups v0-6: groups of the classic protocol; the coordinator of each answers for it.

A repeated group id is answered each time, as in Kafka, up to a limit."""

from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.server.apis.routing import ask_coordinators, refuse_repeated_groups
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, DescribeGroupsRequest)
    return refuse_repeated_groups(request, cluster, message.groups) or ask_coordinators(
        request, cluster, request_field="groups", response_field="groups"
    )
