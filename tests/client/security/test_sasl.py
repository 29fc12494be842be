"""Logins at brokers that cheat, refuse, break off, are too old, or never come to an end."""

from __future__ import annotations

import struct
import time

import pytest

from kgm.client import connect
from kgm.client.failures import ConnectError
from kgm.client.security import make_security
from kgm.client.transport.connection import BrokerConnection, ConnectStep
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import AuthenticationError, BrokerError, UnsupportedError
from kgm.protocol import wire
from kgm.protocol.apis import API, ApiKey
from kgm.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.list_groups_response import ListGroupsResponse
from kgm.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kgm.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse as Answer
from kgm.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kgm.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from tests.client.faults import Listener
from tests.kafka.secured import CANARY
from tests.protocol.request_frames import decode_request

PASSWORD = f"pa,ss={CANARY}"
MECHANISMS = ["PLAIN", "SCRAM-SHA-256"]


class Broker(Listener):
    """Tells its versions, then gives the answers of a script, one a request; None breaks off."""

    def __init__(self, *answers, old=False):
        self.answers, self.seen = list(answers), []
        keys = [key for key in ApiKey if not (old and key is ApiKey.SASL_AUTHENTICATE)]
        rows = [ApiVersion(api_key=key, min_version=0, max_version=API[key].max_version) for key in keys]
        self.versions = ApiVersionsResponse(api_keys=rows)

    def talk(self, client):
        with client.makefile("rb") as stream:
            while head := stream.read(4):
                request = decode_request(stream.read(struct.unpack(">i", head)[0]))
                answer = self.versions
                if request.api_key != ApiKey.API_VERSIONS:
                    self.seen.append(request.message)
                    answer = self.answers.pop(0) if self.answers else None
                if answer is None:
                    break
                answer = answer(request.message) if callable(answer) else answer
                number = request.correlation_id
                client.sendall(
                    wire.framed(wire.encode_response(answer, version=request.version, correlation_id=number))
                )


SETTINGS = {
    "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "kgm.allow.plaintext.password": "true",
    "sasl.username": "alice", "sasl.password": PASSWORD,
}  # fmt: skip


def ask(connection):
    version = connection.version(ApiKey.LIST_GROUPS)
    connection.call(ListGroupsRequest(), ListGroupsResponse, version=version, deadline=Deadline.after(10_000))


def log_in(broker, mechanism="PLAIN", on_step=lambda step: None):
    security, _ = make_security({**SETTINGS, "sasl.mechanism": mechanism})
    connection = BrokerConnection.connect(broker.address, Deadline.after(10_000), security, on_step=on_step)
    connection.close()
    return connection


OK = SaslHandshakeResponse(mechanisms=MECHANISMS)


def refused(error):
    assert CANARY not in error.message + repr(error.facts) + (error.hint or "")
    return error.message + " | " + " | ".join(error.facts)


def test_a_login_in_order():
    with Broker(OK, Answer()) as broker:
        steps = []
        log_in(broker, on_step=steps.append)
    assert [one.mechanism for one in broker.seen[:1]] == ["PLAIN"]
    assert broker.seen[1].auth_bytes == f"\0alice\0{PASSWORD}".encode()
    assert steps == [ConnectStep.NAME, ConnectStep.CONNECT, ConnectStep.TLS, ConnectStep.VERSIONS, ConnectStep.SASL]


def test_a_mechanism_that_is_not_offered():
    answer = SaslHandshakeResponse(error_code=33, mechanisms=["GSSAPI", "SCRAM-SHA-512"])
    with Broker(answer) as broker, pytest.raises(AuthenticationError, match="does not offer PLAIN") as caught:
        log_in(broker)
    assert "it offers: GSSAPI, SCRAM-SHA-512" in refused(caught.value)


def test_a_broker_that_repeats_the_password_is_not_repeated():
    answer = Answer(error_code=58, error_message=f"no: {PASSWORD}")
    with (
        Broker(OK, answer) as broker,
        pytest.raises(AuthenticationError, match="does not accept user 'alice'") as caught,
    ):
        log_in(broker)
    assert "the broker says: no: ***" in refused(caught.value)
    assert caught.value.exit_code == 4
    assert caught.value.json_code == "SASL_AUTHENTICATION_FAILED"


def test_another_error_of_the_handshake():
    with (
        Broker(SaslHandshakeResponse(error_code=42)) as broker,
        pytest.raises(BrokerError, match="refuses the SASL handshake"),
    ):
        log_in(broker)


def test_a_broker_without_saslauthenticate():
    with Broker(old=True) as broker, pytest.raises(UnsupportedError, match="does not support SaslAuthenticate"):
        log_in(broker)


@pytest.mark.parametrize("script", [(None,), (OK, None)])
def test_a_connection_that_breaks_during_the_login(script):
    with Broker(*script) as broker, pytest.raises(ConnectError, match=r"during the login \(PLAIN\)") as caught:
        log_in(broker)
    refused(caught.value)


def scram_first(request):
    nonce = request.auth_bytes.decode().partition(",r=")[2]
    return Answer(auth_bytes=f"r={nonce}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ((Answer(auth_bytes=b"r=stolen,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"),), "nonce does not extend the client's"),
        ((scram_first, Answer(auth_bytes=b"v=AAAA")), "signature is wrong"),
        ((scram_first, Answer(auth_bytes=b"")), "final message is not valid SCRAM"),
        ((Answer(auth_bytes=b""),), "first message is not valid SCRAM"),
        ((scram_first, Answer(auth_bytes=b"e=other-error")), "refuses the login: other-error"),
    ],
)
def test_a_false_broker_is_no_broker(script, says):
    """It says yes (error 0) without knowing the password."""
    with Broker(OK, *script) as broker, pytest.raises(AuthenticationError, match=says) as caught:
        log_in(broker, "SCRAM-SHA-256")
    refused(caught.value)


def test_a_session_that_ends_is_renewed_on_the_same_connection():
    """KIP-368: the login comes again before the request that would be too late, and the request after it."""
    with Broker(
        OK, Answer(session_lifetime_ms=100_000), ListGroupsResponse(), OK, Answer(), ListGroupsResponse()
    ) as broker:
        security, _ = make_security(SETTINGS)
        connection = BrokerConnection.connect(broker.address, Deadline.after(20_000), security)
        assert 0 < connection._log_in_at - time.monotonic() <= 85
        ask(connection)
        connection._log_in_at = 0.0  # the time has come
        ask(connection)
        assert connection._log_in_at == float("inf")  # this time the broker set no end
        connection.close()
    handshake, login, listing = SaslHandshakeRequest, SaslAuthenticateRequest, ListGroupsRequest
    assert [type(one) for one in broker.seen] == [handshake, login, listing] * 2


@pytest.mark.slow
def test_who_comes_without_a_login_is_told(server):
    """The embedded server takes no login; a broker that wants one closes after the first request without."""
    mechanisms = SaslHandshakeResponse(error_code=33, mechanisms=MECHANISMS)
    with Broker(*[None] * 5, mechanisms) as broker, pytest.raises(AuthenticationError, match="requires SASL") as caught:
        connect(f"127.0.0.1:{broker.address.port}", timeout_ms=20_000)
    assert "it offers PLAIN, SCRAM-SHA-256" in refused(caught.value)
    security, _ = make_security(SETTINGS)
    with pytest.raises(AuthenticationError):
        connect(f"{server.host}:{server.port}", timeout_ms=20_000, security=security)
