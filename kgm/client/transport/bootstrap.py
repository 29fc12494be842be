"""Where the cluster is: the bootstrap list as people and properties files write it."""

from __future__ import annotations

from dataclasses import dataclass

from kgm.model.errors import UsageError

DEFAULT_PORT = 9092


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A host (a name, or a literal IPv4 or IPv6 address without brackets) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """`host:port[,host:port...]` with an optional `PROTOCOL://` prefix; IPv6 in brackets; the port defaults to 9092.

    Repeated addresses are removed. Raises UsageError, which names the invalid part."""
    if "@" in text:  # not shown: what precedes it may be a secret, as may what a comma in it splits off
        raise UsageError(
            "a bootstrap server must not contain a user or a password (...@HOST:PORT)",
            hint="write them into a --command-config file (mode 600)",
        )
    addresses = [_parse_one(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise UsageError(
            "the bootstrap server is empty", hint="name at least one broker: --bootstrap-server HOST:PORT[,HOST:PORT]"
        )
    return tuple(dict.fromkeys(addresses))


def _parse_one(part: str) -> Address:
    rest = part.rpartition("://")[2]
    if ";" in rest or any(map(str.isspace, rest)):
        raise _bad(part, "servers are separated by commas")
    if rest.startswith("["):
        host, bracket, tail = rest[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise _bad(part, "an IPv6 address is written [ADDRESS]:PORT")
        return Address(_host(part, host), _port(part, tail[1:] if tail else ""))
    if rest.count(":") > 1:
        raise _bad(part, "an IPv6 address needs brackets: [ADDRESS]:PORT")
    host, colon, port = rest.partition(":")
    if colon and not port:
        raise _bad(part, "the port is missing after the colon")
    return Address(_host(part, host), _port(part, port))


def _host(part: str, host: str) -> str:
    if not host or any(character.isspace() or character in "/?#@" for character in host):
        raise _bad(part, "that is not a host name")
    return host


def _port(part: str, text: str) -> int:
    if not text:
        return DEFAULT_PORT
    if not (text.isascii() and text.isdigit()) or len(text) > 5 or not 0 < int(text) < 65536:
        raise _bad(part, "a port is a number from 1 to 65535")
    return int(text)


def _bad(part: str, why: str) -> UsageError:
    return UsageError(f"bootstrap server {part!r}: {why}", hint="write --bootstrap-server HOST:PORT[,HOST:PORT...]")
