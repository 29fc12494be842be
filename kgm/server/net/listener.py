"""Connections: frames in order, one request at a time on each, everything bounded.

The next frame of a connection is served when the one before has its response, as in Kafka, whose socket server mutes a
connection meanwhile. So responses are in the order of requests although a JoinGroup may wait for minutes; and a client
that does not read, or that sends ahead, costs one request and one response of memory, after which its socket fills
up."""

import asyncio
import ipaddress
import socket
import struct
import time

from kgm.model.errors import KgmError
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

_LENGTH = struct.Struct(">i")
_LENGTH_SIZE = _LENGTH.size
#: While a connection cannot be served, reading stops at this many buffered bytes; serving stops at twice as many that
#: were not sent yet.
_ENOUGH = 64 * 1024
#: How long the requests of one connection are served before others have their turn.
_QUANTUM_S = 0.001
_BACKLOG = 512
_TLS_ALERT_OR_HANDSHAKE = (b"\x15\x03", b"\x16\x03")


class Listener:
    """Accepts the connections of one broker, in the event loop in which it was started. It can be closed and started
    again."""

    def __init__(self, driver: ClusterDriver, broker: EmbeddedBroker) -> None:
        self.driver = driver
        self.broker = broker
        self.connections: set[ClientConnection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address, with the port that was chosen. Raises KgmError when the address is in use."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: ClientConnection(self), host, port, backlog=_BACKLOG)
        except OSError as error:
            reason = error.strerror or str(error)
            raise KgmError(
                f"cannot listen on {host}:{port}: {reason}", hint="--listen 127.0.0.1:0 chooses a free port"
            ) from None
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            server, self._server = self._server, None
            server.close()
            for connection in tuple(self.connections):
                connection.abort()
            await server.wait_closed()
            await asyncio.sleep(0)  # lets the transports close their sockets


def java_address(host: str) -> str:
    """An address as Java's InetAddress prints it: with a slash in front, and IPv6 without abbreviation."""
    if ":" not in host:
        return f"/{host}"
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    return "/" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))


class ClientConnection(asyncio.BufferedProtocol):
    """One client's connection.

    Bytes are read into the driver's `inbox`, one buffer for all connections, and taken out at once: the event loop
    reads from one socket at a time. A read that is exactly one frame, as nearly all are, is served directly; of others
    the rest waits in `_buffer`."""

    def __init__(self, listener: Listener) -> None:
        self.ticket: Ticket | None = None
        self.address = ""
        self.has_sent_request = False
        self.spent_s = self.cost_s = 0.0
        self.waits_for_turn = False
        self.broker = listener.broker
        self._listener = listener
        self._driver = listener.driver
        self._transport: asyncio.Transport | None = None
        self._endpoints = Endpoints(client_host="", server_host="", server_port=0)
        self._buffer = bytearray()
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
        self._writable = True
        self._reading = True
        self._serving_buffer = False
        self._last_active = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._incomplete_timer: asyncio.TimerHandle | None = None
        self._incomplete_since: float | None = None

    # -- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        driver = self._driver
        here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        if not here or not there:  # the client has closed it already
            transport.abort()
            return
        self.address = there[0]
        if not driver.admit(self):
            transport.abort()
            return
        self._listener.connections.add(self)
        self._endpoints = Endpoints(client_host=java_address(there[0]), server_host=here[0], server_port=here[1])
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=2 * _ENOUGH)
        self._last_active = self._incomplete_since = time.monotonic()
        self._close_if_idle()
        self._close_if_incomplete()

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._driver.inbox

    def buffer_updated(self, size: int) -> None:
        driver = self._driver
        self._last_active = time.monotonic()
        inbox = driver.inbox
        if not self._buffer and driver.turns.is_free and self._is_one_frame(inbox, size) and self._can_serve():
            self.has_sent_request, self._incomplete_since = True, None
            driver.turns.run(self, driver.receive, self, bytes(inbox[_LENGTH_SIZE:size]), self._endpoints)
            return
        self._buffer += inbox[:size]
        driver.buffered_bytes += size
        if self._incomplete_since is None:
            self._incomplete_since = self._last_active
            if self._incomplete_timer is None:
                self._close_if_incomplete()
        self._serve_or_wait()
        driver.bound_buffers()

    def _is_one_frame(self, inbox: memoryview, size: int) -> bool:
        """Whether so many bytes are exactly one frame of a legal size."""
        if not _LENGTH_SIZE < size <= self._driver.limits.socket_request_max_bytes:
            return False
        (length,) = _LENGTH.unpack_from(inbox)
        return bool(length == size - _LENGTH_SIZE)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._last_active = time.monotonic()
        self._serve_or_wait()

    def connection_lost(self, _error: Exception | None) -> None:
        self._listener.connections.discard(self)
        self._driver.connections.pop(self, None)
        self._driver.buffered_bytes -= len(self._buffer)
        self._buffer.clear()
        if self.ticket is not None:
            self._driver.disconnected(self.ticket)
        for timer in (self._idle_timer, self._incomplete_timer):
            if timer is not None:
                timer.cancel()
        self._transport = None

    # -- called by the driver

    @property
    def buffered_bytes(self) -> int:
        """Bytes that were received and not served yet."""
        return len(self._buffer)

    def deliver(self, event: ConnectionEvent) -> None:
        """The request is done."""
        assert event.ticket == self.ticket
        self.ticket = None
        self._last_active = time.monotonic()
        match event:
            case ResponseFrame(frame=frame):
                self._write(_LENGTH.pack(len(frame)) + frame)
            case CloseConnection(reason=reason):
                self.close(reason)
            case NoResponse():
                pass
        if self._buffer and not self._serving_buffer:
            self._wait_for_turn()

    def close(self, reason: str) -> None:
        """Close it, after what was written has been sent."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            self._driver.warn("close", f"connection from {self._endpoints.client_host[1:]} closed: {reason}")
            self._driver.buffered_bytes -= len(self._buffer)
            self._buffer.clear()
            self._flush()
            transport.close()

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    # -- inside

    def _write(self, data: bytes) -> None:
        """Write; while the buffer is being served, only when that is done, all at once."""
        if not self._serving_buffer:
            assert self._transport is not None
            self._transport.write(data)
            return
        self._unwritten.append(data)
        self._unwritten_bytes += len(data)

    def _flush(self) -> None:
        if self._unwritten and self._transport is not None:
            self._transport.write(b"".join(self._unwritten))
        self._unwritten.clear()
        self._unwritten_bytes = 0

    def _serve_or_wait(self) -> None:
        """Serve what is in the buffer at once if nobody waits, or else in its turn."""
        turns = self._driver.turns
        if turns.is_free and self._can_serve() and self._has_frame():
            turns.run(self, self.serve)
        else:
            self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        if self._can_serve() and self._has_frame():
            self._driver.turns.queue(self)
        self._pause_or_resume_reading()

    def serve(self) -> None:
        """Serve frames in the buffer for a short time, and wait for the next turn with the others."""
        if self._transport is None:
            return
        self._serving_buffer = True
        driver = self._driver
        until = time.perf_counter() + _QUANTUM_S
        try:
            while self._unwritten_bytes < _ENOUGH and self._can_serve():
                frame = self._next_frame()
                if frame is None:
                    break
                driver.receive(self, frame, self._endpoints)
                if not self._buffer or time.perf_counter() >= until:
                    break
        finally:
            self._serving_buffer = False
            self._flush()
        if self._buffer or not self._reading:
            self._wait_for_turn()

    def _can_serve(self) -> bool:
        return (
            self.ticket is None and self._writable and self._transport is not None and not self._transport.is_closing()
        )

    def _has_frame(self) -> bool:
        """Whether `_next_frame` has something to do."""
        if len(self._buffer) < _LENGTH_SIZE:
            return False
        (length,) = _LENGTH.unpack_from(self._buffer)
        is_legal = 0 < length <= self._driver.limits.socket_request_max_bytes
        return not is_legal or len(self._buffer) >= _LENGTH_SIZE + length

    def _next_frame(self) -> bytes | None:
        """The next frame; None if it is not complete. A frame of an illegal size closes the connection."""
        buffer = self._buffer
        if len(buffer) < _LENGTH_SIZE:
            return None
        (length,) = _LENGTH.unpack_from(buffer)
        if not 0 < length <= self._driver.limits.socket_request_max_bytes:
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
        self._incomplete_since = self._last_active if buffer else None
        return frame

    def _pause_or_resume_reading(self) -> None:
        """Leave further bytes in the socket while a request waits, for its response or for its turn, and the client has
        sent enough ahead."""
        transport = self._transport
        if (self._reading and len(self._buffer) < _ENOUGH) or transport is None or transport.is_closing():
            return
        blocked = self.ticket is not None or not self._writable or self.waits_for_turn
        wanted = not (blocked and len(self._buffer) >= _ENOUGH)
        if wanted != self._reading:
            self._reading = wanted
            (transport.resume_reading if wanted else transport.pause_reading)()

    def _close_if_idle(self) -> None:
        """Close a connection without traffic for `connections.max.idle.ms`. One that waits for a response is not
        idle."""
        limit = self._driver.limits.connections_max_idle_ms / 1000
        idle = 0.0 if self.ticket is not None else time.monotonic() - self._last_active
        if idle >= limit:
            self.abort()
            return
        self._idle_timer = asyncio.get_running_loop().call_later(limit - idle, self._close_if_idle)

    def _close_if_incomplete(self) -> None:
        """Close a connection that has not sent its first request, or the rest of one, for `incomplete.request.max.ms`.
        What waits here for its turn, or for the response to the request before, is not late."""
        self._incomplete_timer = None
        if self._incomplete_since is None:
            return
        limit = self._driver.limits.incomplete_request_max_ms / 1000
        if self.ticket is not None or self._has_frame():
            self._incomplete_since = time.monotonic()
        late = time.monotonic() - self._incomplete_since
        if late >= limit:
            self.close("its request did not arrive in time")
            return
        self._incomplete_timer = asyncio.get_running_loop().call_later(limit - late, self._close_if_incomplete)
