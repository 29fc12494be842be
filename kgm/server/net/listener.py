"""Connections: frames in order, one request in work on each, everything bounded."""

import asyncio
import ipaddress
import socket
import struct
import time

from kgm.model.errors import KgmError
from kgm.server.cluster.broker import Broker
from kgm.server.contract.exchange import Answer, Event, Hangup, NoAnswer, Peer, Ticket
from kgm.server.net.event_loop import Hub

_LENGTH = struct.Struct(">i")
_LENGTH_SIZE = _LENGTH.size
#: While a connection cannot be served, reading stops at this many bytes, and at twice as many unwritten ones serving.
_ENOUGH = 64 * 1024
#: Requests of one connection that are served in one go before others get their turn.
_IN_ONE_GO = 64
_BACKLOG = 512
_TLS_ALERT_OR_HANDSHAKE = (b"\x15\x03", b"\x16\x03")


class Listener:
    """Accepts the connections of one broker, in the event loop in which it was started; can be closed and started
    again."""

    def __init__(self, hub: Hub, broker: Broker) -> None:
        self.hub = hub
        self.broker = broker
        self.connections: set[ClientConnection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address with the port that was picked. Raises KgmError when the address is not free."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: ClientConnection(self), host, port, backlog=_BACKLOG)
        except OSError as error:
            reason = error.strerror or str(error)
            raise KgmError(
                f"cannot listen on {host}:{port}: {reason}", hint="--listen 127.0.0.1:0 picks a free port"
            ) from None
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def close(self) -> None:
        """Stop listening and drop all connections."""
        if self._server is not None:
            server, self._server = self._server, None
            server.close()
            for connection in tuple(self.connections):
                connection.abort()
            await server.wait_closed()
            await asyncio.sleep(0)  # lets the transports close their sockets


def _as_kafka_shows(host: str) -> str:
    """An address as Java's InetAddress prints it: a slash, and IPv6 without abbreviation."""
    if ":" not in host:
        return f"/{host}"
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    return "/" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))


class ClientConnection(asyncio.BufferedProtocol):
    """One client's connection.

    What comes in is read into the hub's `inbox`, one buffer for all connections, and taken out at once: the event loop
    reads from one socket at a time. A read that is one whole frame, as nearly all are, is served without another stop;
    of others the rest waits in `_buffer`."""

    def __init__(self, listener: Listener) -> None:
        self.ticket: Ticket | None = None
        self.broker = listener.broker
        self._listener = listener
        self._hub = listener.hub
        self._transport: asyncio.Transport | None = None
        self._peer = Peer(client_host="", host="", port=0)
        self._buffer = bytearray()
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
        self._writable = True
        self._reading = True
        self._pumping = False
        self._last_sign_of_life = 0.0
        self._idle_alarm: asyncio.TimerHandle | None = None

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        hub = self._hub
        if len(hub.connections) >= hub.limits.max_connections:
            hub.warn("connections", f"more than {hub.limits.max_connections} connections; one was refused")
            transport.abort()
            return
        hub.connections.add(self)
        self._listener.connections.add(self)
        here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        if not here or not there:  # the client is gone already
            transport.abort()
            return
        self._peer = Peer(client_host=_as_kafka_shows(there[0]), host=here[0], port=here[1])
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=2 * _ENOUGH)
        self._last_sign_of_life = time.monotonic()
        self._watch_idleness()

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._hub.inbox

    def buffer_updated(self, size: int) -> None:
        hub = self._hub
        self._last_sign_of_life = time.monotonic()
        inbox = hub.inbox
        if not self._buffer and self._is_frame(inbox, size) and self._can_serve():
            hub.receive(self, bytes(inbox[_LENGTH_SIZE:size]), self._peer)
            return
        self._buffer += inbox[:size]
        hub.buffered += size
        self._pump()
        hub.make_room()

    def _is_frame(self, inbox: memoryview, size: int) -> bool:
        """Whether so many bytes are one whole frame, and a legal one."""
        if not _LENGTH_SIZE < size <= self._hub.limits.socket_request_max_bytes:
            return False
        (length,) = _LENGTH.unpack_from(inbox)
        return bool(length == size - _LENGTH_SIZE)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._last_sign_of_life = time.monotonic()
        self._pump()

    def connection_lost(self, _error: Exception | None) -> None:
        self._listener.connections.discard(self)
        self._hub.connections.discard(self)
        self._hub.buffered -= len(self._buffer)
        self._buffer.clear()
        if self.ticket is not None:
            self._hub.forget(self.ticket)
        if self._idle_alarm is not None:
            self._idle_alarm.cancel()
        self._transport = None

    # -- the hub calls these

    def settle(self, event: Event) -> None:
        """The request in work is done."""
        assert event.ticket == self.ticket
        self.ticket = None
        self._last_sign_of_life = time.monotonic()
        match event:
            case Answer(frame=frame):
                self._write(_LENGTH.pack(len(frame)) + frame)
            case Hangup(reason=reason):
                self.hang_up(reason)
            case NoAnswer():
                pass
        if self._buffer and not self._pumping:
            asyncio.get_running_loop().call_soon(self._pump)

    def _write(self, data: bytes) -> None:
        """Write, or keep it for the one write at the end of the pump."""
        if not self._pumping:
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

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def buffered(self) -> int:
        """Bytes that came in and are not served yet."""
        return len(self._buffer)

    def hang_up(self, reason: str) -> None:
        """Close, after what is already written has gone out."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            self._hub.warn("hangup", f"connection from {self._peer.client_host[1:]} closed: {reason}")
            self._hub.buffered -= len(self._buffer)
            self._buffer.clear()
            self._flush()
            transport.close()

    # -- inside

    def _pump(self) -> None:
        """Serve what is in the buffer, as far as it goes."""
        if self._pumping or self._transport is None:
            return
        self._pumping = True
        hub = self._hub
        served = 0
        try:
            while served < _IN_ONE_GO and self._unwritten_bytes < _ENOUGH:
                frame = self._next_frame() if self._can_serve() else None
                if frame is None:
                    break
                hub.receive(self, frame, self._peer)
                served += 1
            else:
                asyncio.get_running_loop().call_soon(self._pump)  # the others first
        finally:
            self._pumping = False
            self._flush()
        self._read_or_not()

    def _can_serve(self) -> bool:
        return (
            self.ticket is None and self._writable and self._transport is not None and not self._transport.is_closing()
        )

    def _next_frame(self) -> bytes | None:
        """The next whole frame; None if it is not there yet, or if there will never be one."""
        buffer = self._buffer
        if len(buffer) < _LENGTH_SIZE:
            return None
        (length,) = _LENGTH.unpack_from(buffer)
        if not 0 < length <= self._hub.limits.socket_request_max_bytes:
            speaks_tls = bytes(buffer[:2]) in _TLS_ALERT_OR_HANDSHAKE
            self.hang_up("it speaks TLS, which this port does not" if speaks_tls else f"a frame of {length} bytes")
            return None
        end = _LENGTH_SIZE + length
        if len(buffer) < end:
            return None
        frame = bytes(memoryview(buffer)[_LENGTH_SIZE:end])
        del buffer[:end]
        self._hub.buffered -= end
        return frame

    def _read_or_not(self) -> None:
        """Leave the rest in the socket while the client is owed something and has already sent ahead."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        blocked = self.ticket is not None or not self._writable
        wanted = not (blocked and len(self._buffer) >= _ENOUGH)
        if wanted != self._reading:
            self._reading = wanted
            (transport.resume_reading if wanted else transport.pause_reading)()

    def _watch_idleness(self) -> None:
        """Close a connection on which nothing has happened for long; one that is owed a response is not idle."""
        limit = self._hub.limits.connections_max_idle_ms / 1000
        idle = 0.0 if self.ticket is not None else time.monotonic() - self._last_sign_of_life
        if idle >= limit:
            self.abort()
            return
        self._idle_alarm = asyncio.get_running_loop().call_later(limit - idle, self._watch_idleness)
