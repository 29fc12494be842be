"""Between the connections and the cluster: tickets, the clock, the alarm, and the turns of the event loop.

The frames that are read in one turn of the loop are handed over first; what they made the cluster append is flushed
once, at the beginning of the next turn, and then the answers that wait for it go out (group commit). Whatever takes
long, which is the loading of a partition, is done in pieces between the turns."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import Event, Hangup, Millis, Peer, Ticket

if TYPE_CHECKING:
    from kgm.server.net.listener import ClientConnection

#: Warnings of one kind that are said; a hostile client cannot fill a disk with them.
_SAID = 5
#: The most that is read from a socket in one go.
_INBOX_SIZE = 64 * 1024
#: Loading goes on for this long before the connections have another turn.
_PIECE_S = 0.005

Warn = Callable[[str], None]


class Clock:
    """Milliseconds since 1970 that never go back: the wall clock at the start, moved on by the monotonic one."""

    def __init__(self) -> None:
        self._start_ms = time.time() * 1000 - time.monotonic() * 1000

    def now(self) -> Millis:
        return Millis(int(self._start_ms + time.monotonic() * 1000))


class Hub:
    """Runs a cluster in an event loop. The only real clock of the server."""

    def __init__(self, cluster: EmbeddedCluster, clock: Clock, *, warn: Warn) -> None:
        self.cluster = cluster
        self.limits = cluster.limits
        self.connections: set[ClientConnection] = set()
        self.buffered = 0
        self.inbox = memoryview(bytearray(_INBOX_SIZE))
        self.now = clock.now
        self._say = warn
        self._warned: dict[str, int] = {}
        self._owners: dict[Ticket, ClientConnection] = {}
        self._last_ticket = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at: Millis | None = None
        self._tidying: asyncio.TimerHandle | None = None
        self._flushing = False
        self._loading = False

    def start(self) -> None:
        """Begin, in the loop that is running."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)
        self._tidying = loop.call_later(self.limits.log_cleaner_backoff_ms / 1000, self._tidy)
        self.deliver(())

    def close(self) -> None:
        """Make durable what is not; nobody is answered any more."""
        for handle in (self._alarm, self._tidying):
            if handle is not None:
                handle.cancel()
        self.cluster.flush(self.now())
        self.cluster.close()

    # -- for connections

    def receive(self, connection: "ClientConnection", frame: bytes, peer: Peer) -> None:
        """Give a frame to the connection's broker; the connection is settled now or later."""
        self._last_ticket += 1
        ticket = Ticket(self._last_ticket)
        self._owners[ticket] = connection
        connection.ticket = ticket
        try:
            events = connection.broker.receive(frame, ticket=ticket, peer=peer, now=self.now())
        except Exception as error:  # noqa: BLE001  (a bug must not cost more than the connection that met it)
            self.warn("bug", f"kgm serve failed inside: {error!r}")
            events = (Hangup(ticket, "the request could not be served"),)
        self.deliver(events)

    def forget(self, ticket: Ticket) -> None:
        self._owners.pop(ticket, None)
        self.cluster.forget(ticket)

    def make_room(self) -> None:
        """If too much is buffered, drop the connection that holds most of it."""
        if self.buffered > self.limits.queued_max_request_bytes:
            largest = max(self.connections, key=lambda connection: connection.buffered)
            largest.hang_up("too many bytes of unfinished requests are buffered")

    def warn(self, kind: str, text: str) -> None:
        """Say something about a client, but not for ever."""
        count = self._warned[kind] = self._warned.get(kind, 0) + 1
        if count <= _SAID:
            self._say(text if count < _SAID else f"{text} (more of this kind will not be reported)")

    # -- events

    def deliver(self, events: Iterable[Event]) -> None:
        """Hand out events, and see to what the cluster has to do next."""
        for event in events:
            connection = self._owners.pop(event.ticket, None)
            if connection is not None:
                connection.settle(event)
        cluster = self.cluster
        if cluster.is_dirty and not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)
        if cluster.is_loading and not self._loading:
            self._loading = True
            asyncio.get_running_loop().call_soon(self._load)
        self._rearm()

    def _rearm(self) -> None:
        """One alarm for the cluster's next deadline; it is touched only when the deadline has come closer."""
        deadline = self.cluster.next_deadline()
        at = self._alarm_at
        if deadline is None or (at is not None and at <= deadline):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        delay = max(deadline - self.now(), 0) / 1000
        self._alarm_at = deadline
        self._alarm = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        self._alarm = self._alarm_at = None
        try:
            self.deliver(self.cluster.advance(self.now()))
        finally:
            self._rearm()

    def _flush(self) -> None:
        self._flushing = False
        self.deliver(self.cluster.flush(self.now()))

    def _load(self) -> None:
        """Some of what there is to load, without keeping the connections waiting."""
        self._loading = False
        until = time.monotonic() + _PIECE_S
        events: tuple[Event, ...] = ()
        while self.cluster.is_loading and time.monotonic() < until:
            events += self.cluster.load_piece(self.now())
        self.deliver(events)

    def _tidy(self) -> None:
        self._tidying = asyncio.get_running_loop().call_later(self.limits.log_cleaner_backoff_ms / 1000, self._tidy)
        self.deliver(self.cluster.tidy(self.now()))

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Something raised in a callback: a bug. The loop goes on; asyncio has closed the connection if it was one."""
        self.warn("bug", f"kgm serve failed inside: {context.get('message')}: {context.get('exception')!r}")
