"""ListPartitionReassignments v0-0: always empty, since a reassignment is complete by the time it is answered."""

from kgm.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply


def handle(request: ClientRequest, _cluster: EmbeddedCluster) -> Replies:
    return (Reply(request.ticket, ListPartitionReassignmentsResponse(error_message=None)),)
