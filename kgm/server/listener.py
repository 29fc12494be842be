"""Connections: frames in order, one request in work on each, everything bounded. The only real clock of the server."""

import asyncio
import ipaddress
import socket
import time
from collections.abc import Callable, Iterable

from kgm.model.errors import KgmError
from kgm.server.broker import Broker
from kgm.server.exchange import Answer, Event, Hangup, Millis, NoAnswer, Peer, Ticket

_LENGTH_SIZE = 4
#: While a connection cannot be served, reading stops at this many bytes, and at twice as many unwritten ones serving.
_ENOUGH = 64 * 1024
#: Requests of one connection that are served in one go before others get their turn.
_IN_ONE_GO = 64
_BACKLOG = 512
_TLS_ALERT_OR_HANDSHAKE = (b"\x15\x03", b"\x16\x03")
#: Warnings of one kind that are said; a hostile client cannot fill a disk with them.
_SAID = 5

Warn = Callable[[str], None]


class Clock:
    """Milliseconds since 1970 that never go back: the wall clock at the start, moved on by the monotonic one."""

    def __init__(self) -> None:
        self._start_ms = time.time() * 1000 - time.monotonic() * 1000

    def now(self) -> Millis:
        return Millis(int(self._start_ms + time.monotonic() * 1000))


class Listener:
    """Accepts connections and runs the broker on them, in the event loop in which it was started."""

    def __init__(self, broker: Broker, clock: Clock, *, warn: Warn) -> None:
        self.broker = broker
        self.limits = broker.limits
        self.connections: set[Connection] = set()
        self.buffered = 0
        self._clock = clock
        self._warn = warn
        self._warned: dict[str, int] = {}
        self._owners: dict[Ticket, Connection] = {}
        self._last_ticket = 0
        self._server: asyncio.Server | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at: Millis | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address with the port that was picked. Raises KgmError when the address is not free."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)
        try:
            self._server = await loop.create_server(lambda: Connection(self), host, port, backlog=_BACKLOG)
        except OSError as error:
            reason = error.strerror or str(error)
            raise KgmError(
                f"cannot listen on {host}:{port}: {reason}", hint="--listen 127.0.0.1:0 picks a free port"
            ) from None
        self._rearm()
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def close(self) -> None:
        """Stop listening and drop all connections."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self._server is not None:
            self._server.close()
            for connection in tuple(self.connections):
                connection.abort()
            await self._server.wait_closed()
            await asyncio.sleep(0)  # lets the transports close their sockets

    # -- for connections

    def receive(self, connection: "Connection", frame: bytes, peer: Peer) -> None:
        """Give a frame to the broker; the connection is settled now or later."""
        self._last_ticket += 1
        ticket = Ticket(self._last_ticket)
        self._owners[ticket] = connection
        connection.ticket = ticket
        try:
            events = self.broker.receive(frame, ticket=ticket, peer=peer, now=self._clock.now())
        except Exception as error:  # noqa: BLE001  (a bug must not cost more than the connection that met it)
            self.warn("bug", f"kgm serve failed inside: {error!r}")
            events = (Hangup(ticket, "the request could not be served"),)
        self._deliver(events)

    def forget(self, ticket: Ticket) -> None:
        self._owners.pop(ticket, None)
        self.broker.forget(ticket)

    def make_room(self) -> None:
        """If too much is buffered, drop the connection that holds most of it."""
        if self.buffered > self.limits.queued_max_request_bytes:
            largest = max(self.connections, key=lambda connection: connection.buffered)
            largest.hang_up("too many bytes of unfinished requests are buffered")

    def warn(self, kind: str, text: str) -> None:
        """Say something about a client, but not for ever."""
        count = self._warned[kind] = self._warned.get(kind, 0) + 1
        if count <= _SAID:
            self._warn(text if count < _SAID else f"{text} (more of this kind will not be reported)")

    # -- inside

    def _deliver(self, events: Iterable[Event]) -> None:
        for event in events:
            connection = self._owners.pop(event.ticket, None)
            if connection is not None:
                connection.settle(event)
        self._rearm()

    def _rearm(self) -> None:
        """One alarm for the broker's next deadline; it is touched only when the deadline has come closer."""
        deadline = self.broker.next_deadline()
        if deadline is None or (self._alarm_at is not None and self._alarm_at <= deadline):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        delay = max(deadline - self._clock.now(), 0) / 1000
        self._alarm_at = deadline
        self._alarm = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        self._alarm = self._alarm_at = None
        try:
            self._deliver(self.broker.advance(self._clock.now()))
        finally:
            self._rearm()

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Something raised in a callback: a bug. The loop goes on; asyncio has closed the connection if it was one."""
        self.warn("bug", f"kgm serve failed inside: {context.get('message')}: {context.get('exception')!r}")


def _as_kafka_shows(host: str) -> str:
    """An address as Java's InetAddress prints it: a slash, and IPv6 without abbreviation."""
    if ":" not in host:
        return f"/{host}"
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    return "/" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, listener: Listener) -> None:
        self.ticket: Ticket | None = None
        self._listener = listener
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
        listener = self._listener
        if len(listener.connections) >= listener.limits.max_connections:
            listener.warn("connections", f"more than {listener.limits.max_connections} connections; one was refused")
            transport.abort()
            return
        listener.connections.add(self)
        here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        if not here or not there:  # the client is gone already
            transport.abort()
            return
        self._peer = Peer(client_host=_as_kafka_shows(there[0]), host=here[0], port=here[1])
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=2 * _ENOUGH)
        self._last_sign_of_life = time.monotonic()
        self._watch_idleness()

    def data_received(self, data: bytes) -> None:
        self._last_sign_of_life = time.monotonic()
        self._buffer += data
        self._listener.buffered += len(data)
        self._pump()
        self._listener.make_room()

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._last_sign_of_life = time.monotonic()
        self._pump()

    def connection_lost(self, _error: Exception | None) -> None:
        self._listener.connections.discard(self)
        self._listener.buffered -= len(self._buffer)
        self._buffer.clear()
        if self.ticket is not None:
            self._listener.forget(self.ticket)
        if self._idle_alarm is not None:
            self._idle_alarm.cancel()
        self._transport = None

    # -- the listener calls these

    def settle(self, event: Event) -> None:
        """The request in work is done."""
        assert event.ticket == self.ticket
        self.ticket = None
        self._last_sign_of_life = time.monotonic()
        match event:
            case Answer(frame=frame):
                self._write(len(frame).to_bytes(_LENGTH_SIZE, "big") + frame)
            case Hangup(reason=reason):
                self.hang_up(reason)
            case NoAnswer():
                pass
        if not self._pumping:
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
            self._listener.warn("hangup", f"connection from {self._peer.client_host[1:]} closed: {reason}")
            self._listener.buffered -= len(self._buffer)
            self._buffer.clear()
            self._flush()
            transport.close()

    # -- inside

    def _pump(self) -> None:
        """Serve what is in the buffer, as far as it goes."""
        if self._pumping or self._transport is None:
            return
        self._pumping = True
        served = 0
        try:
            while served < _IN_ONE_GO and self._unwritten_bytes < _ENOUGH:
                frame = self._next_frame() if self._can_serve() else None
                if frame is None:
                    break
                self._listener.receive(self, frame, self._peer)
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
        length = int.from_bytes(buffer[:_LENGTH_SIZE], "big", signed=True)
        if not 0 < length <= self._listener.limits.socket_request_max_bytes:
            speaks_tls = bytes(buffer[:2]) in _TLS_ALERT_OR_HANDSHAKE
            self.hang_up("it speaks TLS, which this port does not" if speaks_tls else f"a frame of {length} bytes")
            return None
        end = _LENGTH_SIZE + length
        if len(buffer) < end:
            return None
        frame = bytes(memoryview(buffer)[_LENGTH_SIZE:end])
        del buffer[:end]
        self._listener.buffered -= end
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
        limit = self._listener.limits.connections_max_idle_ms / 1000
        idle = 0.0 if self.ticket is not None else time.monotonic() - self._last_sign_of_life
        if idle >= limit:
            self.abort()
            return
        self._idle_alarm = asyncio.get_running_loop().call_later(limit - idle, self._watch_idleness)
