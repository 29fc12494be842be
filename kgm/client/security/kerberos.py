"""SASL/GSSAPI: a login with a Kerberos ticket or a keytab (RFC 4752; Kafka: SaslClientAuthenticator), through the
system's Kerberos library, which the `kerberos` extra makes available.

Which ticket: JAAS options as for Java's Krb5LoginModule (`useKeyTab` with `keyTab` and `principal`; `ticketCache`),
otherwise what `klist` shows. Realms, KDCs and whether host names are canonicalized: `/etc/krb5.conf` (KRB5_CONFIG)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from kgm.client.security.jaas import Jaas
from kgm.client.transport.deadline import Deadline
from kgm.model.distribution import install_command
from kgm.model.errors import AuthenticationError, UsageError

#: RFC 4752 section 3.1: no security layer, and therefore no maximum message size.
_NO_LAYER = 1
_NO_LAYER_ANSWER = bytes((_NO_LAYER, 0, 0, 0))
_OFFER_BYTES = 4


class KerberosLogin:
    """GSSAPI."""

    name = "GSSAPI"
    secrets: tuple[str, ...] = ()

    def __init__(self, settings: Mapping[str, str], jaas: Jaas | None) -> None:
        """Raises UsageError without a service name, or without the library."""
        self._options = {} if jaas is None else dict(jaas.options)
        named = {settings.get("sasl.kerberos.service.name"), self._options.get("serviceName")} - {None, ""}
        if len(named) != 1:
            what = "no service name is set" if not named else "two service names are set"
            raise UsageError(
                f"GSSAPI: {what}",
                hint="sasl.kerberos.service.name=kafka, if the brokers' principals are kafka/HOST@REALM",
            )
        (self._service,) = named
        self._keytab = self._options.get("keyTab") if _is_true(self._options, "useKeyTab") else None
        self._principal = self._options.get("principal")
        self._cache = self._options.get("ticketCache")
        if self._keytab is not None and not self._principal:
            raise UsageError("GSSAPI: sasl.jaas.config has a keyTab and no principal")
        self.who = f"principal {self._principal!r}" if self._principal else "the Kerberos ticket"
        _library()

    def exchange(self, deadline: Deadline, host: str) -> Generator[bytes, bytes, None]:  # noqa: ARG002
        """Raises AuthenticationError: no ticket, a KDC that does not know the broker, a broker that does not answer as
        it should."""
        gssapi = _library()
        try:
            context = self._context(gssapi, host)
            token = context.step()
            while not context.complete:
                token = context.step((yield token or b""))
            # The broker offers security layers, and Kafka's brokers offer only "none".
            offer = context.unwrap((yield token or b"")).message
            if len(offer) != _OFFER_BYTES or not offer[0] & _NO_LAYER:
                raise AuthenticationError("the broker asks for a security layer inside SASL, which Kafka does not have")
            yield context.wrap(_NO_LAYER_ANSWER, False).message  # noqa: FBT003  (not encrypted)
        except gssapi.exceptions.GSSError as error:
            raise self._failure(error, host) from None

    def _context(self, gssapi: Any, host: str) -> Any:
        service = gssapi.Name(f"{self._service}@{host}", gssapi.NameType.hostbased_service)
        flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
        return gssapi.SecurityContext(name=service, creds=self._credentials(gssapi), usage="initiate", flags=flags)

    def _credentials(self, gssapi: Any) -> Any:
        name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal) if self._principal else None
        store = {}
        if self._keytab is not None:
            # A separate cache: the operator's tickets belong to someone else.
            store = {"client_keytab": f"FILE:{self._keytab}", "ccache": "MEMORY:kgm"}
        elif self._cache:
            store = {"ccache": f"FILE:{self._cache}"}
        return gssapi.Credentials(name=name, usage="initiate", store=store or None)

    def _failure(self, error: Any, host: str) -> AuthenticationError:
        text = " ".join(str(error).split())
        return AuthenticationError(
            f"the Kerberos login of {self.who} to {self._service}/{host} failed",
            facts=(text,),
            hint="klist shows the tickets, kinit gets one; the principal of the broker is "
            f"{self._service}/{host}, unless krb5.conf canonicalizes the host's name",
        )


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _library() -> Any:
    try:
        import gssapi
    except ImportError as error:
        raise UsageError(
            "Kerberos (sasl.mechanism=GSSAPI) needs an extra",
            facts=(str(error),),
            hint=f"{install_command('kerberos')}, with the system's Kerberos library (apt install libkrb5-dev gcc)",
        ) from None
    return gssapi
