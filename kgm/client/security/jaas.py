"""`sasl.jaas.config`: a login module, a control flag, options, a semicolon.

Read as Kafka reads it (`org.apache.kafka.common.security.JaasConfig`, a `java.io.StreamTokenizer`): values in single or
double quotes with C escapes, `//` and `/* */` comments. Unlike there, an unquoted number is a value. Errors never
show a value, because it may be a password."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kgm.model.errors import UsageError

_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
#: Options of Kafka's login modules. Other words may be a piece of a password that lacks its quotes.
_OPTIONS = frozenset({
    "username", "password", "tokenauth", "clientId", "clientSecret", "scope", "serviceName", "useKeyTab", "storeKey",
    "keyTab", "principal", "useTicketCache", "ticketCache", "renewTGT", "doNotPrompt",
    "refreshKrb5Config", "isInitiator",
    "awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsStsRegion", "awsDebugCreds",
})  # fmt: skip
_ESCAPES = {"a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      | "(?P<double>(?:\\.|[^"\\\n])*)"
      | '(?P<single>(?:\\.|[^'\\\n])*)'
      | (?P<word>[\w.$\-\u00a0-\U0010ffff]+)
      | (?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jaas:
    """One login module. Options may contain secrets, so they are not in `repr`."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def short_name(self) -> str:
        """`ScramLoginModule`, without its package."""
        return self.module.rpartition(".")[2]


def parse_jaas(text: str) -> Jaas:
    """The one login module of a `sasl.jaas.config`. Raises UsageError that shows no value."""
    tokens = _tokens(text)
    module = _word(tokens, "names no login module")
    if _word(tokens, "has no control flag after the login module").lower() not in _FLAGS:
        raise _bad("has no control flag after the login module")
    options: dict[str, str] = {}
    for kind, key in tokens:
        if (kind, key) == ("sign", ";"):
            break
        if kind == "sign" or next(tokens, None) != ("sign", "="):
            raise _bad(_no_value(key))
        what, value = next(tokens, ("sign", ""))
        if what == "sign":
            raise _bad(_no_value(key))
        options[key] = value
    else:
        raise _bad("does not end in a semicolon")
    if next(tokens, None) is not None:
        raise _bad("names more than one login module")
    return Jaas(module=module, options=options)


def is_option(key: str) -> bool:
    """Whether this is the name of an option, which may be shown."""
    return key in _OPTIONS or key.startswith(("unsecuredLogin", "extension_"))


def _no_value(key: str) -> str:
    return f"has no value for option {key!r}" if is_option(key) else "has an option without a name or a value"


def _word(tokens: Iterator[tuple[str, str]], problem: str) -> str:
    kind, value = next(tokens, ("sign", ""))
    if kind == "sign":
        raise _bad(problem)
    return value


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            quote = "an unclosed quote" if text[at] in "\"'" else "a value that must be quoted"
            raise _bad(f"has {quote} at character {at}")
        at = token.end()
        kind = token.lastgroup or "skip"
        if kind in ("single", "double"):
            yield "text", _unescaped(token[kind])
        elif kind != "skip":
            yield kind, token[kind]


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 8))
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:([0-3]?[0-7]{1,2})|(.))", one, text, flags=re.DOTALL)


def _bad(problem: str) -> UsageError:
    return UsageError(
        f"sasl.jaas.config {problem}",
        hint="""use MODULE required username="NAME" password="..."; with every value in quotes""",
    )
