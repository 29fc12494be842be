"""FindCoordinator v0-6: for a group, the leader of its partition of `__consumer_offsets`; for a transactional id, the
broker that it hashes to.

Not implemented: share groups. They are refused with INVALID_REQUEST, which makes clients give up; with
COORDINATOR_NOT_AVAILABLE they would keep asking forever."""

from enum import IntEnum

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply

_SEVERAL_KEYS_FROM = 4


class CoordinatorType(IntEnum):
    """Kafka: FindCoordinatorRequest.CoordinatorType."""

    GROUP = 0
    TRANSACTION = 1


def handle(request: ClientRequest, cluster: EmbeddedCluster) -> Replies:
    message = request.message
    assert isinstance(message, FindCoordinatorRequest)
    if request.version >= _SEVERAL_KEYS_FROM:
        rows = [_coordinator(request, cluster, message.key_type, key) for key in message.coordinator_keys]
        return (Reply(request.ticket, FindCoordinatorResponse(coordinators=rows)),)
    row = _coordinator(request, cluster, message.key_type, message.key)
    single = FindCoordinatorResponse(
        error_code=row.error_code,
        # On success the error message is "NONE" in v1 to v3, and empty from v4 on, as in Kafka.
        error_message=row.error_message or "NONE",
        node_id=row.node_id,
        host=row.host,
        port=row.port,
    )
    return (Reply(request.ticket, single),)


def _coordinator(request: ClientRequest, cluster: EmbeddedCluster, key_type: int, key: str) -> Coordinator:
    match key_type:
        case CoordinatorType.GROUP:
            node_id = cluster.placement.coordinator_of(key)
        case CoordinatorType.TRANSACTION:
            node_id = cluster.nodes.transaction_coordinator(key)
        case _:
            return _refused(key, ErrorCode.INVALID_REQUEST, "kgm serve coordinates no share groups.")
    if node_id is None:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    ends = request.endpoints
    port = cluster.nodes[node_id].port or ends.server_port
    return Coordinator(key=key, node_id=node_id, host=ends.server_host, port=port, error_message="")


def _refused(key: str, error: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=text)
