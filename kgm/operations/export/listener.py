"""Metrics over HTTP, for Prometheus to scrape.

A scrape gets the latest collection and asks nothing of the cluster, so scrapers cannot put load on it. A client can
only tie up the port within limits: MOST_CONNECTIONS at a time, where a new one replaces the oldest, MOST_REQUEST_BYTES
for a request, and LONGEST_EXCHANGE_S for request and response.

The Host header must be one that a legitimate client of this machine would send. Otherwise a web page whose name was
made to resolve to a loopback address (DNS rebinding) could read groups and lag."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import ipaddress
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from collections.abc import Collection as AnyCollection
from http import HTTPStatus
from typing import Any, BinaryIO, Final, Self, cast
from urllib.parse import urlsplit

from prometheus_client.exposition import choose_encoder

from kgm.model.errors import UsageError
from kgm.operations.export.collector import Collection
from kgm.operations.export.families import exposition

MOST_CONNECTIONS: Final = 16
MOST_REQUEST_BYTES: Final = 16 * 1024
LONGEST_EXCHANGE_S: Final = 10.0
#: How often connections are checked, in seconds.
_LOOK_S: Final = 0.2
_PATH: Final = "/metrics"
_TEXT: Final = "text/plain; charset=utf-8"


class MetricsListener:
    """Serves /metrics until the end of the `with` block. `latest` is the collection it serves; nothing before the
    first.

    allowed_hosts: names accepted in Host headers in addition to loopback's, `host`, and the address the client
    connected to."""

    def __init__(self, host: str, port: int, *, allowed_hosts: AnyCollection[str] = ()) -> None:
        self.latest: Collection | None = None
        self._host, self._port = host, port
        self._names = frozenset(name.lower() for name in ("localhost", host, *allowed_hosts))

    @property
    def address(self) -> tuple[str, int]:
        """The (host, port) it listens on."""
        return self._host, self._port

    def __enter__(self) -> Self:
        """Raises UsageError for an address that cannot be listened on."""
        try:
            self._server = _Server((self._host, self._port), lambda: self.latest, self._names)
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(f"--listen {self._host}:{self._port}: {reason}") from error
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_LOOK_S,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """One thread per connection; there are few."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(
        self, address: tuple[str, int], latest: Callable[[], Collection | None], names: frozenset[str]
    ) -> None:  # fmt: skip
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        self.latest, self.names = latest, names
        #: When each connection was accepted, in order.
        self._since: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(cast("tuple[str, int]", found[0][4]), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            for oldest in list(self._since)[: len(self._since) - MOST_CONNECTIONS + 1]:
                self._end(oldest)
            self._since[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._since.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called periodically: ends connections that take too long."""
        before = time.monotonic() - LONGEST_EXCHANGE_S
        with self._lock:
            for request in [one for one, since in self._since.items() if since < before]:
                self._end(request)

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            for request in list(self._since):
                self._end(request)

    def _end(self, request: socket.socket) -> None:
        """End a connection: wherever its thread is blocked, it reads or writes nothing more, and closes the connection.
        The caller holds the lock."""
        del self._since[request]
        with contextlib.suppress(OSError):  # the peer has already closed it
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore it: a scraper that went away is not of interest."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    server_version = "kgm"
    sys_version = ""
    timeout = LONGEST_EXCHANGE_S

    def setup(self) -> None:
        super().setup()
        self.rfile = cast("Any", _Limited(self.rfile))

    def do_GET(self) -> None:
        if not self._is_allowed_host():
            self._answer(HTTPStatus.FORBIDDEN, "this Host is not allowed: kgm export --allow-host NAME allows it\n")
            return
        match urlsplit(self.path).path:
            case "/metrics":
                self._answer_metrics()
            case "/":
                self._answer(HTTPStatus.OK, f"kgm export: metrics are at {_PATH}\n")
            case _:
                self._answer(HTTPStatus.NOT_FOUND, f"metrics are at {_PATH}\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer_metrics(self) -> None:
        encode, kind = choose_encoder(self.headers.get("Accept", ""))
        body = b"".join(exposition(self.server.latest(), encode))
        is_packed = "gzip" in self.headers.get("Accept-Encoding", "")
        self._answer(HTTPStatus.OK, gzip.compress(body) if is_packed else body, kind, is_packed=is_packed)

    def _answer(self, status: HTTPStatus, body: bytes | str, kind: str = _TEXT, *, is_packed: bool = False) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if is_packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _is_allowed_host(self) -> bool:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1:
            return False
        name = _host_of(hosts[0])
        if name in self.server.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or address == _plain(ipaddress.ip_address(self.connection.getsockname()[0]))

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Limited:
    """Reads at most MOST_REQUEST_BYTES of a request, then reports end of file."""

    def __init__(self, file: BinaryIO | Any) -> None:
        self._file, self._left = file, MOST_REQUEST_BYTES

    def readline(self, size: int = -1) -> bytes:
        line: bytes = self._file.readline(self._left if size < 0 else min(size, self._left))
        self._left -= len(line)
        return line

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)


def _host_of(header: str) -> str:
    """The name or address in a Host header, without the port and the trailing dot."""
    try:
        return (urlsplit(f"//{header.strip()}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _plain(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address if a dual-stack socket shows it as IPv6; else the address itself."""
    return getattr(address, "ipv4_mapped", None) or address
