"""ListGroups v0-5: the groups that this broker coordinates, or an error while any of them is loading."""

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.list_groups_response import ListGroupsResponse
from kgm.server.apis.routing import ask_coordinator
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    joined = ListGroupsResponse()
    others: tuple[Reply, ...] = ()
    for shard in cluster.shards.all():
        if shard.refusal_at(request.node_id) is ErrorCode.NOT_COORDINATOR:
            continue
        for reply in ask_coordinator(request, cluster, shard=shard):
            if reply.ticket != request.ticket:
                others += (reply,)
                continue
            assert isinstance(reply.message, ListGroupsResponse)
            joined.error_code = joined.error_code or reply.message.error_code
            joined.groups += reply.message.groups
    joined.groups.sort(key=lambda group: group.group_id)
    if joined.error_code:
        joined.groups = []
    return (*others, Reply(request.ticket, joined))
