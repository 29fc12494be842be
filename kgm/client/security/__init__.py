"""TLS and SASL: the implementations of `Security`, which a connection uses.

`make_security` reads the settings of a Kafka client (Java's names, and common ones of librdkafka) into one `Security`
for all connections of a run, before any is opened: an invalid setting is a UsageError that names it. `tls` has the TLS
context (`stores` reads certificates and keys), `sasl` the login (`scram`, `oauth`, `jaas`).

Neither this package nor `ssl` is imported until a cluster with security is contacted.

Secrets never appear in a `repr`, in a message, or in a file that is kept.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from kgm.client.security.sasl import Mechanism
from kgm.client.security.tls import Tls
from kgm.client.transport.connection import BrokerConnection, Plaintext, Security
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import KgmError, UsageError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Secured:
    """TLS, SASL, or both."""

    def __init__(self, name: str, tls: Tls | None, mechanism: Mechanism | None) -> None:
        self.name = name
        self._tls, self._mechanism = tls, mechanism

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism's name."""
        return None if self._mechanism is None else self._mechanism.name

    def wrap(self, sock: socket.socket, host: str, deadline: Deadline) -> socket.socket:
        """The socket after its TLS handshake; itself without TLS."""
        return sock if self._tls is None else self._tls.wrap(sock, host, deadline)

    def authenticate(self, connection: BrokerConnection, deadline: Deadline) -> int:
        """Log in; returns the session's lifetime in ms, 0 for no limit."""
        if self._mechanism is None:
            return 0
        from kgm.client.security.sasl import log_in

        return log_in(connection, self._mechanism, deadline)

    def explain(self, error: BaseException | None, where: str) -> KgmError | None:
        """A more precise error for a connection that was closed because of TLS; None for other errors."""
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
    """A warning about credentials that are set but not used: Kafka's default protocol is PLAINTEXT, and it is easy to
    forget to set another."""
    unused = [key for key in ("sasl.jaas.config", "sasl.username", "ssl.truststore.location") if settings.get(key)]
    if not unused or settings.get("security.protocol"):
        return ()
    return (f"{unused[0]} is set, but security.protocol is not: kgm connects in plaintext, without credentials",)


def _check_literal(settings: Mapping[str, str]) -> None:
    """Refuse placeholders of Kafka's ConfigProviders (KIP-297) that were not replaced: a broker cannot use them."""
    if not settings.get("config.providers"):
        return
    for key, value in settings.items():
        if "${" in value and key.startswith(("sasl.", "ssl.")):
            raise UsageError(
                f"{key} comes from a config provider (config.providers), which kgm runs in --command-config files only",
                hint="set it in such a file, or export its value under its KGM_ name",
            )


__all__ = ["PROTOCOLS", "Secured", "make_security"]
