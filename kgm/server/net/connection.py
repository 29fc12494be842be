"""One client's connection: frames in order, one request at a time, everything bounded.

A frame is served only after the previous one has its response, as in Kafka, whose socket server mutes the connection in
the meantime. So responses are in the order of the requests even though a JoinGroup may wait for minutes, and a client
that does not read its responses, or that sends ahead, costs one request and one response of memory, after which its
socket fills up."""

import asyncio
import ipaddress
import socket
import struct
import time
from collections.abc import Callable

from kgm.server.broker import EmbeddedBroker
from kgm.server.contract.exchange import (
    CloseConnection,
    ConnectionEvent,
    Endpoints,
    NoResponse,
    ResponseFrame,
    Ticket,
)
from kgm.server.net.event_loop import ClusterDriver
from kgm.server.net.poller import READABLE, WRITABLE

_LENGTH = struct.Struct(">i")
_LENGTH_SIZE = _LENGTH.size
#: The most that is read from a socket at a time.
_READ_SIZE = 64 * 1024
#: While a connection cannot be served, reading stops at this many buffered bytes. Serving stops at this many bytes of
#: responses produced and not yet sent, and at twice this many that the socket does not accept, until it has accepted
#: three quarters of those.
_ENOUGH = 64 * 1024
_MOST_UNSENT, _FEW_UNSENT = 2 * _ENOUGH, _ENOUGH // 2
#: How long the requests of one connection are served before others get their turn.
_QUANTUM_S = 0.001
_TLS_ALERT_OR_HANDSHAKE = (b"\x15\x03", b"\x16\x03")


def java_address(host: str) -> str:
    """An address as Java's InetAddress prints it: with a leading slash, and IPv6 unabbreviated."""
    if ":" not in host:
        return f"/{host}"
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    return "/" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))


class ClientConnection:
    """An accepted connection. forget: called when it has ended.

    The socket is read when it is the connection's turn. If a read yields exactly one frame, as nearly all do, it is
    served directly; otherwise what is left waits in `_buffer`. While a request waits for its response, what the client
    sends ahead is read too, up to a limit: there is no other way to notice that the client has gone."""

    __slots__ = (
        "_buffer", "_driver", "_endpoints", "_fd", "_forget", "_idle_timer", "_incomplete_since", "_incomplete_timer",
        "_is_closing", "_is_serving_buffer", "_is_writable", "_max_frame", "_socket", "_unsent", "_unwritten",
        "_unwritten_bytes", "_wanted", "address", "broker", "cost_s", "has_sent_request", "last_active_s", "spent_s",
        "ticket", "waits_for_turn",
    )  # fmt: skip

    def __init__(
        self,
        accepted: socket.socket,
        driver: ClusterDriver,
        broker: EmbeddedBroker,
        *,
        address: str,
        forget: Callable[["ClientConnection"], None],
    ) -> None:
        self.ticket: Ticket | None = None
        self.address = address
        self.broker = broker
        self.has_sent_request = False
        self.spent_s = self.cost_s = 0.0
        self.waits_for_turn = False
        self._driver = driver
        self._forget = forget
        self._socket: socket.socket | None = accepted
        self._fd = accepted.fileno()
        self._endpoints = Endpoints(client_host=java_address(address), server_host="", server_port=0)
        self._max_frame = driver.limits.socket_request_max_bytes
        self._buffer = bytearray()
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
        self._unsent = bytearray()
        self._is_writable = True
        self._is_closing = False
        self._is_serving_buffer = False
        self._wanted = 0
        self.last_active_s = time.monotonic()
        self._incomplete_since: float | None = self.last_active_s
        self._idle_timer: asyncio.TimerHandle | None = None
        self._incomplete_timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to read. Raises OSError if the client is already gone."""
        assert self._socket is not None
        self._socket.settimeout(0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        here = self._socket.getsockname()
        self._endpoints = Endpoints(client_host=self._endpoints.client_host, server_host=here[0], server_port=here[1])
        self._wanted = READABLE
        self._driver.watch(self._fd, self)
        self._close_if_idle()
        self._close_if_incomplete()

    # -- called by the driver

    @property
    def buffered_bytes(self) -> int:
        """Bytes received and not yet served."""
        return len(self._buffer)

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that the socket has not accepted yet."""
        return len(self._unsent)

    @property
    def can_serve(self) -> bool:
        """Whether a request can be served now."""
        return self.ticket is None and self._is_writable and not self._is_closing

    def deliver(self, event: ConnectionEvent) -> None:
        """Take the event of the request in progress: send the response, if any, or close the connection."""
        assert event.ticket == self.ticket
        self.ticket = None
        self.last_active_s = time.monotonic()
        match event:
            case ResponseFrame(frame=frame):
                self._write(_LENGTH.pack(len(frame)) + frame)
            case CloseConnection(reason=reason):
                self.close(reason)
            case NoResponse():
                pass
        if not self._is_serving_buffer and (self._buffer or not self._wanted & READABLE):
            self._wait_for_turn()

    def close(self, reason: str) -> None:
        """Close the connection after everything written has been sent."""
        if not self._is_closing:
            self._driver.warn("close", f"connection from {self._endpoints.client_host[1:]} closed: {reason}")
            self._end()

    def abort(self) -> None:
        """Close the connection immediately."""
        accepted, self._socket = self._socket, None
        if accepted is None:
            return
        self._is_closing = True
        self._driver.unwatch(self._fd)
        accepted.close()
        self._drop_buffer()
        self._unwritten.clear()
        self._driver.unsent_bytes -= len(self._unsent)
        self._unsent.clear()
        self._forget(self)
        self._driver.connections.pop(self, None)
        for timer in (self._idle_timer, self._incomplete_timer):
            if timer is not None:
                timer.cancel()
        if self.ticket is not None:
            self._driver.disconnected(self.ticket)

    def read_ahead(self) -> None:
        """Read while no request can be served."""
        data = self._receive()
        if data:
            self._keep(data)
            self._want()
            self._driver.bound_buffers()

    def send_rest(self) -> None:
        """The socket can take more data: send what was left."""
        assert self._socket is not None
        try:
            sent = self._socket.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.abort()
            return
        del self._unsent[:sent]
        self._driver.unsent_bytes -= sent
        if self._is_closing and not self._unsent:
            self.abort()
            return
        self.last_active_s = time.monotonic()
        if not self._is_writable and len(self._unsent) <= _FEW_UNSENT:
            self._is_writable = True
            self._wait_for_turn()
        self._want()

    def serve(self) -> None:
        """It is the connection's turn: read, unless the buffer already has a whole frame, and serve frames for a short
        time. What is left waits for the next turn, along with the other connections."""
        try:
            if not (self._buffer and self._has_frame()) and self.can_serve:
                data = self._receive()
                if not data:
                    return
                size = len(data) - _LENGTH_SIZE
                if not self._buffer and 0 < size <= self._max_frame and _LENGTH.unpack_from(data)[0] == size:
                    self._serve_frame(data)
                    return
                self._keep(data)
            self._serve_buffer()
            self._driver.bound_buffers()
        except Exception as error:  # noqa: BLE001  (a bug must cost no more than the connection that hit it)
            self._driver.warn("bug", f"internal error in kgm serve: {error!r}")
            self.abort()

    # -- inside

    def _receive(self) -> bytes:
        """Read once. Empty if there is nothing to read, or the connection has ended."""
        if self._socket is None or self._is_closing:
            return b""
        try:
            data = self._socket.recv(_READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:
            self.abort()
            return b""
        if data:
            self.last_active_s = self._driver.turn_began_s
        else:  # what is still waiting in the buffer is no longer served
            self._end()
        return data

    def _serve_frame(self, data: bytes) -> None:
        """Serve a frame that was read on its own, with its length prefix."""
        self.has_sent_request, self._incomplete_since = True, None
        self._driver.receive(self, data[_LENGTH_SIZE:], self._endpoints)

    def _serve_buffer(self) -> None:
        self._is_serving_buffer = True
        until = time.perf_counter() + _QUANTUM_S
        try:
            while self._unwritten_bytes < _ENOUGH and self.can_serve:
                frame = self._next_frame()
                if frame is None:
                    break
                self._driver.receive(self, frame, self._endpoints)
                if not self._buffer or time.perf_counter() >= until:
                    break
        finally:
            self._is_serving_buffer = False
            self._flush()
        self._wait_for_turn()

    def _keep(self, data: bytes) -> None:
        """Append received data to the buffer."""
        self._buffer += data
        self._driver.buffered_bytes += len(data)
        if self._incomplete_since is None:
            self._incomplete_since = self.last_active_s
            if self._incomplete_timer is None:
                self._close_if_incomplete()

    def _drop_buffer(self) -> None:
        self._driver.buffered_bytes -= len(self._buffer)
        self._buffer.clear()

    def _write(self, data: bytes) -> None:
        """Send a response. While the buffer is being served, responses are collected and sent together at the end."""
        if not self._is_serving_buffer:
            self._send(data)
            return
        self._unwritten.append(data)
        self._unwritten_bytes += len(data)

    def _flush(self) -> None:
        if self._unwritten:
            data = b"".join(self._unwritten)
            self._unwritten.clear()
            self._unwritten_bytes = 0
            self._send(data)

    def _send(self, data: bytes) -> None:
        """Send as much as the socket accepts now; the rest later."""
        if self._socket is None:
            return
        sent = 0
        if not self._unsent:
            try:
                sent = self._socket.send(data)
            except (BlockingIOError, InterruptedError):
                pass
            except OSError:
                self.abort()
                return
            if sent == len(data):
                return
        self._unsent += data[sent:]
        self._driver.unsent_bytes += len(data) - sent
        if len(self._unsent) > _MOST_UNSENT:
            self._is_writable = False
        self._want()
        self._driver.bound_unsent()

    def _end(self) -> None:
        """Send what was written, then close. Nothing more is read or served."""
        self._is_closing = True
        self._drop_buffer()
        self._flush()
        if self._unsent:
            self._want()
        else:
            self.abort()

    def _wait_for_turn(self) -> None:
        if self._has_frame() and self.can_serve:
            self._driver.turns.queue(self)
        self._want()

    def _has_frame(self) -> bool:
        """Whether `_next_frame` would return a frame or close the connection."""
        if len(self._buffer) < _LENGTH_SIZE:
            return False
        (length,) = _LENGTH.unpack_from(self._buffer)
        return not 0 < length <= self._max_frame or len(self._buffer) >= _LENGTH_SIZE + length

    def _next_frame(self) -> bytes | None:
        """The next frame; None if it is incomplete. A frame of illegal size closes the connection."""
        buffer = self._buffer
        if len(buffer) < _LENGTH_SIZE:
            return None
        (length,) = _LENGTH.unpack_from(buffer)
        if not 0 < length <= self._max_frame:
            is_tls = bytes(buffer[:2]) in _TLS_ALERT_OR_HANDSHAKE
            self.close("the client uses TLS, this port expects plaintext" if is_tls else f"a frame of {length} bytes")
            return None
        end = _LENGTH_SIZE + length
        if len(buffer) < end:
            return None
        frame = bytes(memoryview(buffer)[_LENGTH_SIZE:end])
        del buffer[:end]
        self._driver.buffered_bytes -= end
        self.has_sent_request = True
        self._incomplete_since = self.last_active_s if buffer else None
        return frame

    def _want(self) -> None:
        """Tell the poll which events are wanted. While a request waits, for its response or for its turn, and the
        client has sent enough ahead, further bytes are left in the socket."""
        if self._socket is None:
            return
        wanted = WRITABLE if self._unsent else 0
        if not self._is_closing and (
            len(self._buffer) < _ENOUGH or not (self.ticket is not None or not self._is_writable or self.waits_for_turn)
        ):
            wanted |= READABLE
        if wanted != self._wanted:
            self._wanted = wanted
            self._driver.want(self._fd, wanted)

    def _close_if_idle(self) -> None:
        """Close a connection without traffic for `connections.max.idle.ms`. One that is waiting for a response is not
        idle."""
        limit = self._driver.limits.connections_max_idle_ms / 1000
        idle = 0.0 if self.ticket is not None else time.monotonic() - self.last_active_s
        if idle >= limit:
            self.abort()
            return
        self._idle_timer = asyncio.get_running_loop().call_later(limit - idle, self._close_if_idle)

    def _close_if_incomplete(self) -> None:
        """Close a connection that has not sent its first request, or the rest of one, for `incomplete.request.max.ms`.
        A request that is waiting here for its turn, or for the previous response, is not late."""
        self._incomplete_timer = None
        if self._incomplete_since is None:
            return
        if self.waits_for_turn:  # the rest may have arrived
            self.read_ahead()
        if self._is_closing:
            return
        limit = self._driver.limits.incomplete_request_max_ms / 1000
        if self.ticket is not None or self._has_frame():
            self._incomplete_since = time.monotonic()
        late = time.monotonic() - self._incomplete_since
        if late >= limit:
            self.close("its request did not arrive in time")
            return
        self._incomplete_timer = asyncio.get_running_loop().call_later(limit - late, self._close_if_incomplete)
