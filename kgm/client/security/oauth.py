"""Where an OAUTHBEARER token comes from: an endpoint (client credentials, RFC 6749 section 4.4), a file, a command, or,
for tests, kgm itself (Kafka's unsecured tokens, only if Kafka's own option asks for one).

A token is fetched once and reused until shortly before it expires. Secrets and tokens never appear in an error.

The standard library is enough for the endpoint: it takes one POST, with the system's certificates, and without
redirects. HTTP libraries were considered; importing one takes several times as long as importing this module
(docs/figures.md)."""

from __future__ import annotations

import base64
import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kgm.client.failures import ConnectError
from kgm.client.security.jaas import Jaas
from kgm.client.transport.deadline import Deadline
from kgm.model.client_settings import ALLOW_PLAINTEXT, TOKEN_COMMAND, scrubbed
from kgm.model.errors import AuthenticationError, KgmError, UsageError

#: RFC 6750: the characters of a bearer token. Any others could forge the SASL message.
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_EXTENSION_NAME, _EXTENSION_VALUE = re.compile(r"[A-Za-z]+"), re.compile(r"[\x21-\x7e \t\r\n]+")
_MAX_ANSWER_BYTES = 1024 * 1024
#: A token is no longer used this many seconds before it expires.
_MARGIN_S = 30
_UNSECURED = re.compile(r"unsecuredLogin(String|Number|List)Claim_(\w+)")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token. expires_at: on time.monotonic()'s clock, None if not known."""

    value: str = field(repr=False)
    expires_at: float | None = None


class Tokens:
    """Fetches tokens with `fetch`, and reuses them."""

    def __init__(self, fetch: Callable[[Deadline], Token], extensions: Mapping[str, str], source: str) -> None:
        self.extensions = dict(extensions)
        self.source = source
        self._fetch = fetch
        self._token: Token | None = None

    def get(self, deadline: Deadline) -> Token:
        """A token that does not expire soon. Raises KgmError."""
        token = self._token
        if token is None or (token.expires_at is not None and time.monotonic() > token.expires_at - _MARGIN_S):
            token = self._token = self._fetch(deadline)
        return token


def exchange(token: str, extensions: Mapping[str, str]) -> Generator[bytes, bytes, None]:
    """The client's messages (RFC 7628): the token and, after a refusal, whose reason is JSON, the end of the exchange.
    The error code follows."""
    more = "".join(f"{name}={value}\x01" for name, value in sorted(extensions.items()))
    refusal = yield f"n,,\x01auth=Bearer {token}\x01{more}\x01".encode()
    if refusal:
        yield b"\x01"


def tokens_of(settings: Mapping[str, str], jaas: Jaas | None) -> Tokens:
    """The configured source of tokens. Raises UsageError."""
    options = {} if jaas is None else dict(jaas.options)
    extensions = _extensions(settings, options)
    command = settings.get(TOKEN_COMMAND)
    if command:
        return Tokens(lambda deadline: from_command(command, deadline), extensions, "the token command")
    url = settings.get("sasl.oauthbearer.token.endpoint.url") or options.get("sasl.oauthbearer.token.endpoint.url")
    if url and url.startswith("file:"):
        return Tokens(lambda _: _from_file(url), extensions, "the token file")
    if url:
        return Tokens(_endpoint(url, settings, options), extensions, "the token endpoint")
    if any(name.startswith("unsecuredLogin") for name in options):
        return Tokens(lambda _: unsecured(options, time.time()), extensions, "an unsecured token")
    raise UsageError(
        "OAUTHBEARER: no token source is configured",
        hint=f"set sasl.oauthbearer.token.endpoint.url with clientId and clientSecret, or {TOKEN_COMMAND} to a command "
        "that prints a token",
    )


def _extensions(settings: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """SASL extensions (KIP-342): JAAS options `extension_NAME`, or librdkafka's `a=b,c=d`."""
    extensions = {
        name.partition("_")[2]: value
        for name, value in options.items()
        if name.startswith(("extension_", "unsecuredLoginExtension_"))
    }
    for part in settings.get("sasl.oauthbearer.extensions", "").split(","):
        name, equals, value = part.strip().partition("=")
        if equals:
            extensions[name] = value
    for name, value in extensions.items():
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
            raise UsageError(
                f"OAUTHBEARER: {name!r} is not a valid extension (name: letters; value: printable characters)"
            )
    return extensions


def _checked(value: str, source: str) -> str:
    if not _TOKEN.fullmatch(value):
        raise AuthenticationError(f"{source} did not return a bearer token (RFC 6750)")
    return value


# -- a command, a file -------------------------------------------------------------------------------------------------


def from_command(command: str, deadline: Deadline) -> Token:
    """The output of a program: a token, or the JSON of a token endpoint. No shell. Raises AuthenticationError.

    Its stderr is not shown, because it may contain a secret."""
    try:
        words = shlex.split(command)
        done = subprocess.run(  # noqa: S603  (the operator's own command, without a shell)
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=max(deadline.remaining(), 0.001)
        )
    except subprocess.TimeoutExpired:
        raise AuthenticationError(
            f"the token command did not finish within the time allowed ({deadline.budget_ms} ms)"
        ) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not a valid command line"
        raise AuthenticationError(f"the token command cannot be run: {why}", hint=f"see {TOKEN_COMMAND}") from None
    if done.returncode:
        raise AuthenticationError(
            f"the token command exited with code {done.returncode}",
            hint=f"run it manually to see why: {TOKEN_COMMAND}; kgm config view --show-origin shows where it is set",
        )
    text = done.stdout.decode("utf-8", "replace").strip()
    return _from_json(text, "the token command") if text.startswith("{") else _plain(text, "the token command")


def _plain(text: str, source: str) -> Token:
    return Token(value=_checked(text, source))


def _from_file(url: str) -> Token:
    import urllib.parse
    import urllib.request

    from kgm.client.security.stores import read_text

    path = urllib.request.url2pathname(urllib.parse.urlsplit(url).path)
    return _plain(read_text("sasl.oauthbearer.token.endpoint.url", path).strip(), "the token file")


def _from_json(text: str, source: str) -> Token:
    try:
        answer: Any = json.loads(text)
        value = answer["access_token"]
        seconds = answer.get("expires_in")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AuthenticationError(f"{source} did not return JSON with an access_token") from None
    if not isinstance(value, str):
        raise AuthenticationError(f"{source} did not return JSON with an access_token")
    lasts = isinstance(seconds, int | float) and 0 < seconds < 1e9
    return Token(value=_checked(value, source), expires_at=time.monotonic() + seconds if lasts else None)


# -- an endpoint -------------------------------------------------------------------------------------------------------


def _endpoint(url: str, settings: Mapping[str, str], options: Mapping[str, str]) -> Callable[[Deadline], Token]:
    """Client credentials from the settings (KIP-1139), the JAAS options (KIP-768) or librdkafka's names."""
    import urllib.parse

    try:
        where = urllib.parse.urlsplit(url)
        _ = where.port
    except ValueError:  # an unclosed bracket, or a port that is not a number
        raise UsageError("sasl.oauthbearer.token.endpoint.url is not a valid URL") from None
    if where.scheme not in ("https", "http") or not where.hostname:
        raise UsageError("sasl.oauthbearer.token.endpoint.url is not an http(s) or file URL")
    if where.username or where.password:
        raise UsageError(
            "sasl.oauthbearer.token.endpoint.url contains credentials: use clientId and clientSecret instead"
        )
    in_the_clear = where.scheme == "http" and where.hostname not in _LOOPBACK
    if in_the_clear and settings.get(ALLOW_PLAINTEXT, "").lower() != "true":
        raise UsageError(
            f"sasl.oauthbearer.token.endpoint.url: the client secret would be sent to {where.hostname} in plaintext",
            hint=f"use https, or set -X {ALLOW_PLAINTEXT}=true",
        )

    def first(*names: str) -> str | None:
        return next((v for name in names if (v := settings.get(name) or options.get(name)) is not None), None)

    client_id = first("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id", "clientId")
    secret = first(
        "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret", "clientSecret"
    )
    scope = first("sasl.oauthbearer.scope", "scope")
    if not client_id or secret is None:
        raise UsageError("OAUTHBEARER: the token endpoint needs a client id and a client secret",
                         hint="clientId and clientSecret of sasl.jaas.config, or "
                         "sasl.oauthbearer.client.credentials.client.id and .client.secret")  # fmt: skip
    quoted = first("sasl.oauthbearer.header.urlencode") == "true"
    # The endpoint is not the cluster: Kafka takes its TLS settings from the JAAS options, librdkafka from https.ca.*.
    trust = {name: value for name, value in options.items() if name.startswith("ssl.")}
    for name in ("location", "pem"):
        if settings.get(f"https.ca.{name}"):
            trust[f"ssl.ca.{name}"] = settings[f"https.ca.{name}"]
    return lambda deadline: client_credentials(
        url, client_id, secret, scope=scope, quoted=quoted, trust=trust, deadline=deadline
    )


def client_credentials(
    url: str, client_id: str, secret: str, *, scope: str | None, quoted: bool, trust: Mapping[str, str],
    deadline: Deadline,
) -> Token:  # fmt: skip
    """Ask a token endpoint once; redirects are not followed (the secret is for this address only).

    Raises AuthenticationError if it refuses, ConnectError if it does not answer."""
    import http.client
    import urllib.error
    import urllib.parse
    import urllib.request

    if quoted:
        client_id, secret = urllib.parse.quote_plus(client_id), urllib.parse.quote_plus(secret)
    login = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    request = urllib.request.Request(  # noqa: S310  (the scheme was checked)
        url, data=urllib.parse.urlencode(form).encode(), method="POST",
        headers={"Authorization": f"Basic {login}", "Accept": "application/json"},
    )  # fmt: skip
    where = urllib.parse.urlsplit(url).netloc
    try:
        with _opener(url, trust).open(request, timeout=max(deadline.remaining(), 0.001)) as answer:
            body = answer.read(_MAX_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(where, error.code, error.read(_MAX_ANSWER_BYTES), (secret, login)) from None
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        raise ConnectError(
            f"the token endpoint {where} does not answer", facts=(str(why) or type(why).__name__,),
            hint="check sasl.oauthbearer.token.endpoint.url; no broker was contacted",
        ) from None  # fmt: skip
    return _from_json(body.decode("utf-8", "replace"), f"the token endpoint {where}")


def _opener(url: str, trust: Mapping[str, str]) -> Any:
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    handlers: list[Any] = [NoRedirect()]
    if url.startswith("https:"):
        from kgm.client.security.tls import make_tls

        handlers.append(urllib.request.HTTPSHandler(context=make_tls(trust)[0].context))
    return urllib.request.build_opener(*handlers)


def _refused(where: str, status: int, body: bytes, secrets: tuple[str, ...]) -> KgmError:
    """RFC 6749 section 5.2: `error` and `error_description`; anything else in the answer is not shown."""
    facts = [f"HTTP {status}"]
    try:
        answer = json.loads(body)
        names = [name for name in ("error", "error_description") if isinstance(answer.get(name), str)]
        facts += [f"{name}: {scrubbed(answer[name][:200], secrets)}" for name in names]
    except (ValueError, AttributeError, RecursionError):
        pass  # show only the status
    return AuthenticationError(
        f"the token endpoint {where} refused to issue a token",
        facts=facts,
        hint="check client id, client secret and scope",
    )


# -- unsecured ---------------------------------------------------------------------------------------------------------


def unsecured(options: Mapping[str, str], now: float) -> Token:
    """An unsigned token, as Kafka's OAuthBearerUnsecuredLoginCallbackHandler makes it. now: seconds since 1970."""
    claims: dict[str, Any] = {}
    for name, value in options.items():
        claim = _UNSECURED.fullmatch(name)
        if claim is None:
            continue
        try:
            claims[claim[2]] = (
                value if claim[1] == "String" else float(value) if claim[1] == "Number" else value[1:].split(value[0])
            )
        except (ValueError, IndexError):
            raise UsageError(f"sasl.jaas.config: the value of {name} is not a {claim[1].lower()}") from None
    principal = options.get("unsecuredLoginPrincipalClaimName", "sub")
    if principal not in claims:
        raise UsageError(f"sasl.jaas.config: an unsecured token needs unsecuredLoginStringClaim_{principal}")
    try:
        lifetime_s = float(options.get("unsecuredLoginLifetimeSeconds", "3600"))
    except ValueError:
        raise UsageError("sasl.jaas.config: unsecuredLoginLifetimeSeconds is not a number") from None
    now = int(now * 1000) / 1000  # the broker has whole milliseconds, and refuses tokens issued in the future
    claims = {"iat": now, "exp": now + lifetime_s, **claims}

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return Token(value=f"{part({'alg': 'none'})}.{part(claims)}.", expires_at=time.monotonic() + lifetime_s)
