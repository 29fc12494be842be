"""TLS 1.2 or newer, with the broker's certificate and host name checked. `ssl` is imported only if it is needed."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kgm.client.failures import ConnectError, WrongProtocolError
from kgm.client.security.stores import KeyPair, key_pair, trusted
from kgm.client.transport import port_probe
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import AuthenticationError, KgmError, UsageError

if TYPE_CHECKING:
    import ssl

_VERSIONS = ("TLSv1.2", "TLSv1.3")
#: OpenSSL's reasons for a response that is not TLS.
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "UNEXPECTED_EOF_WHILE_READING"})
#: OpenSSL's reasons for a missing or rejected client certificate.
_NO_CERTIFICATE = frozenset({
    "TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE", "SSLV3_ALERT_BAD_CERTIFICATE",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_CERTIFICATE_REVOKED", "TLSV1_ALERT_ACCESS_DENIED",
})  # fmt: skip
_NO_COMMON = frozenset({"TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"})
#: X509_V_ERR_*: expired or not yet valid; unknown issuer; host name or address mismatch.
_EXPIRED, _UNKNOWN_ISSUER, _WRONG_HOST = (9, 10), (2, 18, 19, 20, 21), (62, 64)


class Tls:
    """One SSL context for all connections of a run."""

    def __init__(self, context: ssl.SSLContext, *, has_certificate: bool) -> None:
        self.context = context
        self.has_certificate = has_certificate

    def wrap(self, sock: socket.socket, host: str, deadline: Deadline) -> socket.socket:
        """The socket after the TLS handshake.

        Raises AuthenticationError, WrongProtocolError, ConnectError, after closing the socket."""
        peer = sock.getpeername()
        wrapped = self.context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        try:
            wrapped.settimeout(max(deadline.remaining(), 0.001))
            wrapped.do_handshake()
        except OSError as error:
            wrapped.close()
            raise self._failed(error, f"{host}:{peer[1]}", peer, deadline) from None
        return wrapped

    def _failed(self, error: OSError, where: str, peer: tuple[str, int], deadline: Deadline) -> KgmError:
        known = self.explain(error, where)
        if known is not None:
            return known
        reason = getattr(error, "reason", None)
        if isinstance(error, TimeoutError):
            return ConnectError(
                f"{where}: no TLS handshake within the time allowed ({deadline.budget_ms} ms)",
                hint="is this a TLS listener? try -X security.protocol=PLAINTEXT, or a longer --timeout",
            )
        if reason in _NOT_TLS or reason is None:
            if port_probe.accepts_plaintext_kafka(peer, deadline):
                return WrongProtocolError(
                    f"{where}: this port expects plaintext; kgm connected with TLS",
                    facts=("an ApiVersions request without TLS was answered",),
                    hint="use the port of an SSL or SASL_SSL listener, or set -X security.protocol=PLAINTEXT "
                    "(SASL_PLAINTEXT with credentials)",
                )
            return ConnectError(
                f"{where}: the TLS handshake was aborted", facts=(_reason(error),),
                hint="is this the port of a TLS listener?",
            )  # fmt: skip
        return ConnectError(f"{where}: the TLS handshake failed", facts=(_reason(error),))

    def explain(self, error: OSError, where: str) -> KgmError | None:
        """The error for problems with TLS certificates or versions, None for others.

        In TLS 1.3, alerts about the client certificate arrive after the handshake."""
        import ssl

        if isinstance(error, ssl.SSLCertVerificationError):
            return _untrusted(error, where)
        reason = getattr(error, "reason", None)
        if reason in _NO_CERTIFICATE:
            return _certificate_refused(error, where, has_certificate=self.has_certificate)
        if reason in _NO_COMMON:
            return AuthenticationError(
                f"{where}: kgm and the broker have no TLS version in common", facts=(_reason(error),),
                hint="kgm supports TLS 1.2 and 1.3; see ssl.enabled.protocols on both sides",
            )  # fmt: skip
        return None


def _certificate_refused(error: OSError, where: str, *, has_certificate: bool) -> AuthenticationError:
    if has_certificate:
        return AuthenticationError(
            f"{where}: the broker does not accept the client certificate", facts=(_reason(error),),
            hint="check that its issuer is in the broker's ssl.truststore and that it has not expired: "
            "openssl x509 -noout -subject -issuer -enddate -in CERTIFICATE.pem",
        )  # fmt: skip
    return AuthenticationError(
        f"{where}: the broker aborted the TLS handshake; it may require a client certificate", facts=(_reason(error),),
        hint="set ssl.keystore.location (PEM with key and certificate), or ssl.certificate.location and "
        "ssl.key.location",
    )  # fmt: skip


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", None)
    return f"OpenSSL says: {reason}" if reason else error.strerror or type(error).__name__


def _untrusted(error: ssl.SSLCertVerificationError, where: str) -> AuthenticationError:
    code, says = error.verify_code, error.verify_message
    if code in _WRONG_HOST:
        host = where.rpartition(":")[0]
        return AuthenticationError(
            f"{where}: the broker's certificate is not for {host}", facts=(f"OpenSSL says: {says}",),
            hint="connect by a name that is in the certificate; ssl.endpoint.identification.algorithm= disables the "
            "check",
        )  # fmt: skip
    if code in _EXPIRED:
        hint = "the broker needs a new certificate; is this machine's clock right?"
    elif code in _UNKNOWN_ISSUER:
        hint = (
            f"set ssl.truststore.location (PEM) to the certificate of its issuer; see it: "
            f"openssl s_client -connect {where} -showcerts </dev/null"
        )
    else:
        hint = f"see the certificate: openssl s_client -connect {where} -showcerts </dev/null"
    return AuthenticationError(
        f"{where}: the broker's certificate is not trusted", facts=(f"OpenSSL says: {says}",), hint=hint
    )


def make_tls(settings: Mapping[str, str]) -> tuple[Tls, tuple[str, ...]]:
    """(TLS as configured, warnings). Raises UsageError or NotFoundError, which name the setting."""
    import ssl

    if settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        raise UsageError(
            "enable.ssl.certificate.verification=false: kgm always verifies the broker's certificate",
            hint="set ssl.truststore.location or ssl.ca.location to the certificate of its issuer (PEM)",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks certificate chain and host name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _limit_versions(context, settings)
    load_trust(context, trusted(settings))
    pair = key_pair(settings)
    if pair is not None:
        _load_pair(context, pair)
    warnings = []
    algorithm = settings.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm in ("", "none"):
        context.check_hostname = False
        warnings.append(
            "ssl.endpoint.identification.algorithm is empty: any holder of a trusted certificate can pose as the broker"
        )
    elif algorithm != "https":
        raise UsageError("ssl.endpoint.identification.algorithm is https, or empty to disable the check")
    return Tls(context, has_certificate=pair is not None), tuple(warnings)


def load_trust(context: ssl.SSLContext, certificates: str | None) -> None:
    """Trust these certificates, or the system's if there are none. Raises UsageError."""
    import ssl

    if certificates is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=certificates)
    except ssl.SSLError as error:
        raise UsageError(f"a certificate of the trust store cannot be read: {_reason(error)}") from None


def _limit_versions(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    import ssl

    enabled = settings.get("ssl.enabled.protocols") or ",".join(_VERSIONS)
    versions = [name for name in _VERSIONS if name in [part.strip() for part in enabled.split(",")]]
    if not versions:
        raise UsageError(f"ssl.enabled.protocols={enabled}: kgm supports TLSv1.2 and TLSv1.3")
    numbers = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
    context.minimum_version, context.maximum_version = numbers[versions[0]], numbers[versions[-1]]


def _load_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Load a key pair. OpenSSL needs a file: one in memory that only this process can open, or else a temporary one
    with mode 0600."""
    import ssl

    prompts = []

    def password() -> str:  # without this, OpenSSL prompts on the terminal
        prompts.append(True)
        return pair.password or ""

    try:
        with _in_a_file(pair.key + pair.chain) as path:
            context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        if prompts:
            problem = "is wrong" if pair.password else "is not set, and the key is encrypted"
            raise UsageError(f"ssl.key.password {problem}", facts=(_reason(error),)) from None
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            raise UsageError("the key and the certificate of the key store do not match") from None
        raise UsageError(f"the key store's key or certificate cannot be read: {_reason(error)}") from None


@contextlib.contextmanager
def _in_a_file(text: str) -> Iterator[str]:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("kgm")
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp(prefix="kgm-")  # mode 0600
    try:
        os.write(descriptor, text.encode())
        os.close(descriptor)
        yield path
    finally:
        pathlib.Path(path).unlink()
