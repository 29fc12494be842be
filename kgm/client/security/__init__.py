"""Getting in: TLS and SASL behind the `Security` seam of a connection.

Theory of operation: `make_security` reads the settings of a Kafka client (Java's names, and librdkafka's where people
know them) into one `Security` for all connections of a run, before any is opened: what is wrong with a setting is a
UsageError that names it. `tls` holds the context (`stores` reads certificates and keys), `sasl` drives the login
(`scram`, `oauth`, `jaas`), `probe` finds out what a port speaks that did not answer.
Nothing here is imported, nor `ssl`, until a cluster with security is asked.

A secret is in no `repr`, no message and no file that outlives its use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kgm.client.transport.connection import Plaintext, Security
from kgm.model.errors import KgmError, UsageError

if TYPE_CHECKING:
    import socket

    from kgm.client.security.sasl import Mechanism
    from kgm.client.security.tls import Tls
    from kgm.client.transport.connection import BrokerConnection
    from kgm.client.transport.deadline import Deadline

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Secured:
    """TLS, a login, or both."""

    def __init__(self, name: str, tls: Tls | None, mechanism: Mechanism | None) -> None:
        self.name, self.has_tls = name, tls is not None
        self._tls, self._mechanism = tls, mechanism

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism's name."""
        return None if self._mechanism is None else self._mechanism.name

    def wrap(self, sock: socket.socket, host: str, deadline: Deadline) -> socket.socket:
        """The socket after its TLS handshake; itself without TLS."""
        return sock if self._tls is None else self._tls.wrap(sock, host, deadline)

    def authenticate(self, connection: BrokerConnection, deadline: Deadline) -> int:
        """Log in; the session's lifetime in ms, 0 when it does not end."""
        if self._mechanism is None:
            return 0
        from kgm.client.security.sasl import log_in

        return log_in(connection, self._mechanism, deadline)

    def explain(self, error: BaseException | None, where: str) -> KgmError | None:
        """What ended a connection, when TLS knows better than the socket."""
        return self._tls.explain(error, where) if self._tls is not None and isinstance(error, OSError) else None


def make_security(settings: Mapping[str, str]) -> tuple[Security, tuple[str, ...]]:
    """(how to protect connections, warnings for the operator). Raises UsageError or NotFoundError."""
    name = settings.get("security.protocol", "PLAINTEXT").strip().upper() or "PLAINTEXT"
    if name not in PROTOCOLS:
        raise UsageError(f"security.protocol={name} is not one of {', '.join(PROTOCOLS)}")
    if name == "PLAINTEXT":
        return Plaintext(), _unused(settings)
    _check_literal(settings)
    tls, mechanism = None, None
    warnings: tuple[str, ...] = ()
    if name.startswith("SASL_"):
        from kgm.client.security.sasl import make_mechanism

        mechanism = make_mechanism(settings, encrypted=name == "SASL_SSL")
    if name.endswith("SSL"):
        from kgm.client.security.tls import make_tls

        tls, warnings = make_tls(settings)
    return Secured(name, tls, mechanism), warnings


def _unused(settings: Mapping[str, str]) -> tuple[str, ...]:
    """A login that is set and would not be used: Kafka's default is PLAINTEXT, and people forget the protocol."""
    idle = [key for key in ("sasl.jaas.config", "sasl.username", "ssl.truststore.location") if settings.get(key)]
    if not idle or settings.get("security.protocol"):
        return ()
    return (f"{idle[0]} is set, but security.protocol is not: kgm connects in plaintext, without a login",)


def _check_literal(settings: Mapping[str, str]) -> None:
    """Kafka's ConfigProviders (KIP-297) would put other values in; to send the placeholders helps nobody."""
    if not settings.get("config.providers"):
        return
    for key, value in settings.items():
        if "${" in value and key.startswith(("sasl.", "ssl.")):
            raise UsageError(
                f"{key} comes from a config provider (config.providers), which kgm runs for --command-config only",
                hint="write it into that file, or export its value under its KGM_ name",
            )


__all__ = ["PROTOCOLS", "Secured", "make_security"]
