"""SaslHandshake v0-1: refused, as on a PLAINTEXT listener of Kafka."""

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply


def handle(request: ClientRequest, _cluster: EmbeddedCluster) -> Replies:
    return (Reply(request.ticket, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)),)
