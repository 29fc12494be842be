"""The login: SaslHandshake v1, then SaslAuthenticate until the exchange completes (KIP-43, KIP-152, KIP-368).

A mechanism is a generator that yields the client's messages and is sent the broker's. It ends when the exchange is
complete, which for SCRAM means that the broker has authenticated itself as well."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Protocol

from kgm.client.failures import ConnectError, LostError, from_code
from kgm.client.security.jaas import Jaas, parse_jaas
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.client_settings import ALLOW_PLAINTEXT, MSK_HANDLERS, scrubbed
from kgm.model.errors import AuthenticationError, ErrorCode, KgmError, UnsupportedError, UsageError
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kgm.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kgm.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kgm.protocol.messages.sasl_handshake_response import SaslHandshakeResponse

_MODULES = {
    "PLAIN": "PlainLoginModule", "SCRAM-SHA-256": "ScramLoginModule", "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule", "GSSAPI": "Krb5LoginModule", "AWS_MSK_IAM": "IAMLoginModule",
}  # fmt: skip
#: Kafka: SaslConfigs.DEFAULT_SASL_MECHANISM.
_DEFAULT = "GSSAPI"
#: More rounds than any mechanism needs.
_MAX_ROUNDS = 8


class Mechanism(Protocol):
    """One way to log in."""

    name: str
    #: How errors name the principal.
    who: str
    secrets: tuple[str, ...]

    def exchange(self, deadline: Deadline, host: str) -> Generator[bytes, bytes, None]:
        """host: the broker's host as kgm connected to it."""


class PasswordLogin:
    """PLAIN or SCRAM."""

    def __init__(self, name: str, username: str, password: str, *, token_auth: bool = False) -> None:
        self.name, self.who = name, f"user {username!r}"
        self.secrets: tuple[str, ...] = (password,)
        self._username, self._password, self._token_auth = username, password, token_auth

    def exchange(self, deadline: Deadline, host: str) -> Generator[bytes, bytes, None]:  # noqa: ARG002
        if self.name == "PLAIN":
            yield f"\0{self._username}\0{self._password}".encode()
            return
        import secrets

        from kgm.client.security import scram

        nonce = secrets.token_urlsafe(24)
        yield from scram.exchange(self.name, self._username, self._password, nonce, token_auth=self._token_auth)


class BearerLogin:
    """OAUTHBEARER (RFC 7628, KIP-255)."""

    name = "OAUTHBEARER"
    who = "the bearer token"

    def __init__(self, settings: Mapping[str, str], jaas: Jaas | None) -> None:
        from kgm.client.security.oauth import tokens_of

        self._tokens = tokens_of(settings, jaas)
        self.secrets: tuple[str, ...] = ()

    def exchange(self, deadline: Deadline, host: str) -> Generator[bytes, bytes, None]:  # noqa: ARG002
        from kgm.client.security import oauth

        token = self._tokens.get(deadline).value
        self.secrets = (token,)
        yield from oauth.exchange(token, self._tokens.extensions)


def make_mechanism(settings: Mapping[str, str], *, encrypted: bool) -> Mechanism:
    """The configured mechanism. Raises UsageError, which shows no secret."""
    configured = (settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or "").strip().upper()
    name = configured or _DEFAULT
    if name not in _MODULES:
        raise UsageError(f"sasl.mechanism={name}: kgm supports {', '.join(_MODULES)}")
    jaas = None
    if settings.get("sasl.jaas.config"):
        jaas = parse_jaas(settings["sasl.jaas.config"])
        if jaas.short_name != _MODULES[name]:
            raise UsageError(
                f"sasl.jaas.config names {jaas.short_name}, but sasl.mechanism is {name}, which needs {_MODULES[name]}"
            )
    if name == "AWS_MSK_IAM" or settings.get("sasl.login.callback.handler.class") in MSK_HANDLERS:
        from kgm.client.security.msk_iam import MskLogin

        _check_encrypted(settings, name, encrypted=encrypted)
        return MskLogin(jaas)
    if name == "GSSAPI":
        return _kerberos(settings, jaas, is_default=not configured)
    if name == "OAUTHBEARER":
        bearer = BearerLogin(settings, jaas)
        is_secret = bearer._tokens.source != "an unsecured token"  # noqa: SLF001
        _check_encrypted(settings, name, encrypted=encrypted or not is_secret)
        return bearer
    _check_encrypted(settings, name, encrypted=encrypted or name != "PLAIN")
    return _password(settings, name, jaas)


def _kerberos(settings: Mapping[str, str], jaas: Jaas | None, *, is_default: bool) -> Mechanism:
    from kgm.client.security.kerberos import KerberosLogin

    try:
        return KerberosLogin(settings, jaas)
    except UsageError as error:
        if not is_default:
            raise
        raise UsageError(
            "sasl.mechanism is not set, and Kafka's default is GSSAPI (Kerberos)", facts=(error.message, *error.facts),
            hint=f"set it to one of {', '.join(_MODULES)}",
        ) from None  # fmt: skip


def _check_encrypted(settings: Mapping[str, str], name: str, *, encrypted: bool) -> None:
    if not encrypted and settings.get(ALLOW_PLAINTEXT, "").strip().lower() != "true":
        raise UsageError(
            f"{name} over SASL_PLAINTEXT sends {'the password' if name == 'PLAIN' else 'the token'} in plaintext",
            hint=f"use security.protocol=SASL_SSL or a SCRAM mechanism; -X {ALLOW_PLAINTEXT}=true allows it",
        )


def _password(settings: Mapping[str, str], name: str, jaas: Jaas | None) -> PasswordLogin:
    options = {} if jaas is None else jaas.options
    username = options.get("username", settings.get("sasl.username"))
    password = options.get("password", settings.get("sasl.password"))
    for what, value in (("username", username), ("password", password)):
        if not value:
            raise UsageError(
                f"{name}: no {what} is set",
                hint=f"sasl.jaas.config=org.apache.kafka.common.security.{'plain' if name == 'PLAIN' else 'scram'}."
                f'{_MODULES[name]} required username="..." password="..."; in a file (mode 600) for --command-config',
            )
        if "\0" in value:
            raise UsageError(f"{name}: the {what} contains a NUL character")
    assert username is not None
    assert password is not None
    return PasswordLogin(name, username, password, token_auth=options.get("tokenauth", "").lower() == "true")


def log_in(connection: BrokerConnection, mechanism: Mechanism, deadline: Deadline) -> int:
    """Log in on an open connection; returns the session's lifetime in ms, 0 for no limit.

    Raises AuthenticationError, and ConnectError if the connection breaks during the login."""
    try:
        _handshake(connection, mechanism, deadline)
        return _authenticate(connection, mechanism, deadline)
    except LostError as error:
        hint = "see the broker's log, and each step: kgm config test"
        raise ConnectError(
            f"{error.message}, during the login ({mechanism.name})", facts=error.facts, hint=hint
        ) from None


def _handshake(connection: BrokerConnection, mechanism: Mechanism, deadline: Deadline) -> None:
    if not connection.supports(ApiKey.SASL_HANDSHAKE, 1) or not connection.supports(ApiKey.SASL_AUTHENTICATE):
        raise UnsupportedError(
            f"broker {connection.address} does not support SaslAuthenticate (Kafka 1.0)",
            kafka_error=ErrorCode.UNSUPPORTED_VERSION,
        )
    version = connection.version(ApiKey.SASL_HANDSHAKE)
    request = SaslHandshakeRequest(mechanism=mechanism.name)
    answer = connection.call(request, SaslHandshakeResponse, version=version, deadline=deadline)
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        raise AuthenticationError(
            f"broker {connection.address} does not offer {mechanism.name} on this listener",
            facts=(f"SaslHandshake answered UNSUPPORTED_SASL_MECHANISM; it offers: {offered}",),
            hint=f"set sasl.mechanism to one of: {offered}", kafka_error=answer.error_code,
        )  # fmt: skip
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationError(
            f"broker {connection.address} does not use SASL on this listener",
            facts=("SaslHandshake answered ILLEGAL_SASL_STATE",),
            hint="use security.protocol=PLAINTEXT or SSL here, or the port of a SASL listener",
            kafka_error=answer.error_code,
        )  # fmt: skip
    if answer.error_code:
        raise from_code(
            answer.error_code, f"broker {connection.address} refuses the SASL handshake",
            broker=str(connection.address), api="SaslHandshake",
        )  # fmt: skip


def _authenticate(connection: BrokerConnection, mechanism: Mechanism, deadline: Deadline) -> int:
    from kgm.client.security.scram import ScramError

    version = connection.version(ApiKey.SASL_AUTHENTICATE)
    exchange = mechanism.exchange(deadline, connection.address.host)
    data = next(exchange)
    reason = ""
    for _ in range(_MAX_ROUNDS):
        request = SaslAuthenticateRequest(auth_bytes=data)
        answer = connection.call(request, SaslAuthenticateResponse, version=version, deadline=deadline)
        if answer.error_code:
            raise _refused(connection, mechanism, answer, reason)
        reason = answer.auth_bytes.decode("utf-8", "replace") if mechanism.name == "OAUTHBEARER" else ""
        try:
            data = exchange.send(answer.auth_bytes)
        except StopIteration:
            return max(answer.session_lifetime_ms, 0)
        except ScramError as error:
            raise AuthenticationError(
                f"broker {connection.address}: the login of {mechanism.who} failed ({mechanism.name}): {error}"
            ) from None
    raise AuthenticationError(f"broker {connection.address} does not complete the login ({mechanism.name})")


def _refused(
    connection: BrokerConnection, mechanism: Mechanism, answer: SaslAuthenticateResponse, reason: str
) -> KgmError:
    reasons = dict.fromkeys(text for text in (answer.error_message, reason) if text)
    hints = {
        "PLAIN": "check username and password, and that the user is known to this listener",
        "OAUTHBEARER": "check the token's issuer, audience, scope and expiry, and this machine's clock",
        "GSSAPI": "see the broker's log: its keytab, its principal, sasl.kerberos.principal.to.local.rules",
    }
    return from_code(
        answer.error_code, f"broker {connection.address} does not accept {mechanism.who} ({mechanism.name})",
        api="SaslAuthenticate", text=scrubbed("; ".join(reasons), mechanism.secrets) or None,
        hint=hints.get(mechanism.name, f"check username and password, and that the user has {mechanism.name} "
                       "credentials: kafka-configs --describe --entity-type users"),
    )  # fmt: skip
