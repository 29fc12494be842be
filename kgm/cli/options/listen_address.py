"""The address of `--listen`: how it is parsed and shown, and who can reach it."""

from kgm.model.errors import UsageError

_HIGHEST_PORT = 65_535


def parse_listen(text: str) -> tuple[str, int]:
    """(host, port) from HOST:PORT, [IPV6]:PORT or :PORT (loopback). Raises UsageError."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > _HIGHEST_PORT:
        raise UsageError(f"--listen {text} is not HOST:PORT, with a port from 0 to {_HIGHEST_PORT}")
    if ":" in bare and bare == host:
        raise UsageError(f"--listen {text}: an IPv6 address needs brackets", hint="for example --listen [::1]:9092")
    return bare or "127.0.0.1", int(port)


def address_text(host: str, port: int) -> str:
    """HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    import ipaddress

    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"
