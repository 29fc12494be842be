"""Handshakes with servers of every kind, on loopback."""

from __future__ import annotations

import contextlib
import socket
import ssl

import pytest

from kgm.client.failures import ConnectError, WrongProtocolError
from kgm.client.security import make_security
from kgm.client.transport import port_probe
from kgm.client.transport.bootstrap import Address
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import AuthenticationError
from tests.client.faults import Listener, Scripted

pytestmark = pytest.mark.slow  # certificates and handshakes
PATIENCE_MS = 60_000


class TlsServer(Listener):
    """Shakes hands and hangs up, as often as somebody comes."""

    def __init__(self, pair, *, client_ca=None, versions=(None, None)):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pair.both_file)
        if client_ca is not None:
            self.context.load_verify_locations(client_ca)
            self.context.verify_mode = ssl.CERT_REQUIRED
        if versions[0]:
            self.context.minimum_version, self.context.maximum_version = versions
        self.seen = []

    def talk(self, client):
        with self.context.wrap_socket(client, server_side=True, do_handshake_on_connect=False) as wrapped:
            try:
                wrapped.do_handshake()
                self.seen.append((wrapped.version(), wrapped.getpeercert()))
                wrapped.recv(1)
            except OSError:  # as Kafka does, let the alert arrive before the end
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(wrapped, socket.SHUT_WR)
                    while socket.socket.recv(wrapped, 4096):
                        pass


def shake(address, settings, ms=PATIENCE_MS):
    """The handshake alone; the TLS version that was agreed on."""
    security, _ = make_security({"security.protocol": "SSL", **settings})
    sock = socket.create_connection((address.host, address.port))
    with security.wrap(sock, address.host, Deadline.after(ms)) as wrapped:
        return wrapped.version()


@pytest.fixture
def trust(certificates):
    return {"ssl.truststore.location": str(certificates.ca_file)}


def test_a_trusted_broker(certificates, trust):
    with TlsServer(certificates.broker) as server:
        assert shake(server.address, trust) == "TLSv1.3"
        assert shake(server.address, trust | {"ssl.enabled.protocols": "TLSv1.2"}) == "TLSv1.2"
        assert shake(server.address, trust | {"ssl.enabled.protocols": "TLSv1.3, TLSv1.2"}) == "TLSv1.3"


def test_a_broker_that_nobody_vouches_for(certificates):
    with TlsServer(certificates.broker) as server:
        for settings in ({}, {"ssl.ca.location": str(certificates.other_ca_file)}):
            with pytest.raises(AuthenticationError, match="certificate is not trusted") as caught:
                shake(server.address, settings)
            assert "issuer certificate" in caught.value.facts[0]
            assert "ssl.truststore.location" in caught.value.hint
            assert caught.value.exit_code == 4


def test_an_expired_certificate(certificates, trust):
    with TlsServer(certificates.issue("old", "127.0.0.1", expired=True)) as server:
        with pytest.raises(AuthenticationError, match="is not trusted") as caught:
            shake(server.address, trust)
        assert "expired" in caught.value.facts[0]
        assert "clock" in caught.value.hint


def test_a_certificate_for_somebody_else(certificates, trust):
    with TlsServer(certificates.issue("other", "other.example")) as server:
        with pytest.raises(AuthenticationError, match=r"certificate is not for 127\.0\.0\.1"):
            shake(server.address, trust)
        for algorithm in ("", "none"):
            assert shake(server.address, trust | {"ssl.endpoint.identification.algorithm": algorithm})
        with pytest.raises(AuthenticationError, match="is not trusted"):  # the chain is checked all the same
            shake(server.address, {"ssl.endpoint.identification.algorithm": ""})


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broker_that_wants_a_certificate(certificates, trust, version):
    """With TLS 1.3 the client is through before the server has looked: the alert comes in place of the first answer."""
    with TlsServer(certificates.broker, client_ca=certificates.ca_file, versions=(version, version)) as server:

        def connect(settings):
            security, _ = make_security({"security.protocol": "SSL", **trust, **settings})
            BrokerConnection.connect(server.address, Deadline.after(PATIENCE_MS), security)

        with pytest.raises(AuthenticationError, match="may require a client certificate") as caught:
            connect({})
        assert "ssl.keystore.location" in caught.value.hint
        with pytest.raises(AuthenticationError, match="does not accept the client certificate"):
            connect({"ssl.keystore.location": str(certificates.stranger.both_file)})
        with pytest.raises(ConnectError):  # it hangs up, but it knows us
            connect({"ssl.keystore.location": str(certificates.client.both_file)})
        assert dict(sum(server.seen[-1][1]["subject"], ()))["commonName"] == "mtls-user"


def test_a_broker_of_yesterday(certificates, trust):
    versions = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    only_new = trust | {"ssl.enabled.protocols": "TLSv1.3"}
    common = "no TLS version in common"
    with TlsServer(certificates.broker, versions=versions) as server, pytest.raises(AuthenticationError, match=common):
        shake(server.address, only_new)


def test_a_port_that_speaks_kafka_in_the_clear(server, trust):
    with pytest.raises(WrongProtocolError, match="expects plaintext; kgm connected with TLS") as caught:
        shake(Address(server.host, server.port), trust)
    assert caught.value.exit_code == 5
    assert "security.protocol=PLAINTEXT" in caught.value.hint


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x16"])
def test_a_port_that_speaks_something_else(trust, answer):
    with Scripted(answer) as listener, pytest.raises(ConnectError, match="TLS handshake"):
        shake(Address("127.0.0.1", listener.port), trust)


def test_silence_ends_at_the_deadline(trust):
    says = "no TLS handshake within the time allowed"
    with Scripted(b"", hold=True) as listener, pytest.raises(ConnectError, match=says):
        shake(Address("127.0.0.1", listener.port), trust, ms=200)


def test_a_tls_port_is_known_even_when_it_just_hangs_up(certificates):
    """Not every server answers plaintext with an alert."""
    security, _ = make_security({})
    with TlsServer(certificates.broker) as server, pytest.raises(WrongProtocolError, match="this port expects TLS"):
        BrokerConnection.connect(server.address, Deadline.after(PATIENCE_MS), security)


def test_what_a_port_speaks(server, certificates):
    deadline = Deadline.after(PATIENCE_MS)
    plain = (server.host, server.port)
    assert port_probe.accepts_plaintext_kafka(plain, deadline)
    assert not port_probe.accepts_tls(plain, deadline)
    with TlsServer(certificates.broker) as tls:
        where = (tls.address.host, tls.address.port)
        assert port_probe.accepts_tls(where, deadline)
        assert not port_probe.accepts_plaintext_kafka(where, deadline)
    assert not port_probe.accepts_tls(where, deadline)
    assert not port_probe.accepts_plaintext_kafka(where, deadline)
