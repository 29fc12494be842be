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
#: Requests of one connection that are served before others have their turn.
_REQUESTS_IN_A_TURN = 64
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

    # -- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        driver = self._driver
        if len(driver.connections) >= driver.limits.max_connections:
            driver.warn("connections", f"connection refused: there are {driver.limits.max_connections} already")
            transport.abort()
            return
        driver.connections.add(self)
        self._listener.connections.add(self)
        here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        if not here or not there:  # the client has closed it already
            transport.abort()
            return
        self._endpoints = Endpoints(client_host=java_address(there[0]), server_host=here[0], server_port=here[1])
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=2 * _ENOUGH)
        self._last_active = time.monotonic()
        self._close_if_idle()

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._driver.inbox

    def buffer_updated(self, size: int) -> None:
        driver = self._driver
        self._last_active = time.monotonic()
        inbox = driver.inbox
        if not self._buffer and self._is_one_frame(inbox, size) and self._can_serve():
            driver.receive(self, bytes(inbox[_LENGTH_SIZE:size]), self._endpoints)
            return
        self._buffer += inbox[:size]
        driver.buffered_bytes += size
        self._serve_buffer()
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
        self._serve_buffer()

    def connection_lost(self, _error: Exception | None) -> None:
        self._listener.connections.discard(self)
        self._driver.connections.discard(self)
        self._driver.buffered_bytes -= len(self._buffer)
        self._buffer.clear()
        if self.ticket is not None:
            self._driver.disconnected(self.ticket)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
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
            asyncio.get_running_loop().call_soon(self._serve_buffer)

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

    def _serve_buffer(self) -> None:
        """Serve the frames in the buffer, as far as possible."""
        if self._serving_buffer or self._transport is None:
            return
        self._serving_buffer = True
        driver = self._driver
        served = 0
        try:
            while served < _REQUESTS_IN_A_TURN and self._unwritten_bytes < _ENOUGH:
                frame = self._next_frame() if self._can_serve() else None
                if frame is None:
                    break
                driver.receive(self, frame, self._endpoints)
                served += 1
            else:
                asyncio.get_running_loop().call_soon(self._serve_buffer)  # after the others
        finally:
            self._serving_buffer = False
            self._flush()
        self._pause_or_resume_reading()

    def _can_serve(self) -> bool:
        return (
            self.ticket is None and self._writable and self._transport is not None and not self._transport.is_closing()
        )

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
        return frame

    def _pause_or_resume_reading(self) -> None:
        """Leave further bytes in the socket while the client waits for a response and has sent enough ahead."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        blocked = self.ticket is not None or not self._writable
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
