"""Finds out whether a listener requires SASL, after it has closed a connection without credentials."""

from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import ErrorCode
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kgm.protocol.messages.sasl_handshake_response import SaslHandshakeResponse


def offered_mechanisms(connection: BrokerConnection, deadline: Deadline) -> list[str]:
    """The mechanisms that this listener offers; none if it does not use SASL. Raises KgmError.

    The connection cannot be used for other requests afterwards."""
    version = connection.version(ApiKey.SASL_HANDSHAKE)
    request = SaslHandshakeRequest(mechanism="NONE-OF-THEM")
    answer = connection.call(request, SaslHandshakeResponse, version=version, deadline=deadline)
    return answer.mechanisms if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM else []
