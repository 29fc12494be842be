"""Finds out which protocol a port expects, on a separate connection after the configured one has failed."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable
from typing import TypeAlias

from kgm.client.transport.deadline import Deadline
from kgm.model.errors import KgmError

#: `Security.wrap`: the socket after its TLS handshake.
Wrap: TypeAlias = Callable[[socket.socket, str, Deadline], socket.socket]

#: Seconds; the probe only improves an error message.
_PATIENCE_S = 2.0
_LATE_S = 0.5
_API_VERSIONS = 18


def accepts_plaintext_kafka(peer: tuple[str, int], deadline: Deadline) -> bool:
    """Whether ApiVersions v0 without TLS gets an answer."""
    correlation_id = 0x6B676D00  # "kgm"; the response repeats it
    answer = _exchange(peer, struct.pack(">hhih", _API_VERSIONS, 0, correlation_id, -1), deadline)
    return answer[:4] == struct.pack(">i", correlation_id)


def accepts_tls(peer: tuple[str, int], deadline: Deadline) -> bool:
    """Whether a TLS ClientHello gets a TLS record."""
    import ssl

    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # only the first bytes of the response matter
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    try:
        with _connected(peer, deadline) as sock:
            sock.sendall(outgoing.read())
            head = sock.recv(3)
    except OSError:
        return False
    return len(head) == 3 and head[0] in (0x15, 0x16) and head[1] == 3


def late_alert(wrap: Wrap, host: str, peer: tuple[str, int], deadline: Deadline) -> OSError | None:
    """The error that ends a connection after its TLS handshake while kgm sends nothing: in TLS 1.3, this is how a
    broker rejects the client certificate."""
    try:
        with wrap(_connected(peer, deadline), host, deadline.within(_PATIENCE_S)) as sock:
            sock.settimeout(max(deadline.within(_LATE_S).remaining(), 0.001))
            sock.recv(1)
    except OSError as error:
        return error
    except KgmError:
        pass
    return None


def _connected(peer: tuple[str, int], deadline: Deadline) -> socket.socket:
    return socket.create_connection(peer[:2], timeout=max(deadline.within(_PATIENCE_S).remaining(), 0.001))


def _exchange(peer: tuple[str, int], request: bytes, deadline: Deadline) -> bytes:
    """The answer's frame, up to 64 KiB; empty if there is none."""
    limit = 64 * 1024
    try:
        with _connected(peer, deadline) as sock, sock.makefile("rb") as stream:
            sock.sendall(struct.pack(">i", len(request)) + request)
            head = stream.read(4)
            length = int.from_bytes(head, "big") if len(head) == 4 else 0
            return stream.read(length) if 0 < length <= limit else b""
    except OSError:
        return b""


__all__ = ["accepts_plaintext_kafka", "accepts_tls", "late_alert"]
