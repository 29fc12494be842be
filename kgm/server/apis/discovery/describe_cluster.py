"""DescribeCluster v0-2: the live brokers. Not implemented: controllers (KIP-919); a request for them is refused."""

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kgm.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from kgm.server.apis.discovery.permissions import ALL_CLUSTER_OPERATIONS
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply

_BROKERS = 1


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, DescribeClusterRequest)
    if message.endpoint_type != _BROKERS:
        response = DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="This is a broker, not a controller.",
            endpoint_type=_BROKERS,
        )
        return (Reply(request.ticket, response),)
    ends = request.endpoints
    response = DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.nodes.controller,
        brokers=[
            DescribeClusterBroker(broker_id=node.node_id, host=ends.server_host, port=node.port or ends.server_port)
            for node in cluster.nodes.alive()
        ],
    )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    return (Reply(request.ticket, response),)
