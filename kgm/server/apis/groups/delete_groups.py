"""DeleteGroups v0-2: the coordinator of each group answers for it.

A repeated group id is answered once, as in Kafka."""

from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.server.apis.routing import ask_coordinators
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, DeleteGroupsRequest)
    message.groups_names = list(dict.fromkeys(message.groups_names))
    return ask_coordinators(request, cluster, request_field="groups_names", response_field="results")
