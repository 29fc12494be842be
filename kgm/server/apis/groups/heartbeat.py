"""Heartbeat v0-4: a member of a classic-protocol group reports that it is alive; the group's coordinator answers."""

from kgm.coordinator.contract.outcome import Request
from kgm.model.errors import ErrorCode
from kgm.protocol.struct import Message
from kgm.server.apis.routing import ask_coordinator, refuse_named_group
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    return ask_coordinator(request, cluster, unavailable=_unavailable)


def _unavailable(group_request: Request, error: ErrorCode, cluster: EmbeddedCluster) -> Message:
    """While the group is loading, the heartbeat succeeds, as in Kafka: the member must not conclude that it was
    fenced."""
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return refuse_named_group(group_request, ErrorCode.NONE if is_loading else error, cluster)
