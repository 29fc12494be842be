"""SaslAuthenticate v0-2: refused, as on a PLAINTEXT listener of Kafka."""

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import ClientRequest, Replies, Reply


def handle(request: ClientRequest, _cluster: EmbeddedCluster) -> Replies:
    response = SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="This listener has no authentication."
    )
    return (Reply(request.ticket, response),)
