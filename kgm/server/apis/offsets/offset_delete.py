"""OffsetDelete v0-0: the group's coordinator answers."""

from kgm.server.apis.routing import ask_coordinator, refuse_named_group
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    return ask_coordinator(request, cluster, unavailable=refuse_named_group)
