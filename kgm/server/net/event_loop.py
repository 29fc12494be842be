"""Drives a cluster in an event loop: tickets, the clock, the timer, and the turns of the loop.

All frames read in one turn of the loop are served first. What they made the cluster append is flushed once, at the
start of the next turn, and then the responses that depend on it are sent (group commit). Loading a partition takes
long, so it is done in pieces between turns."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from kgm.server.broker import EmbeddedBroker
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.exchange import CloseConnection, ConnectionEvent, Endpoints, Millis, Ticket
from kgm.server.net.poller import READABLE, WRITABLE, Poll, new_poll
from kgm.server.net.turns import Turns

#: How many warnings of one kind are reported: a hostile client must not be able to fill a disk with them.
_MAX_WARNINGS = 5
#: How long loading continues before connections get their turn.
_LOADING_S = 0.005

Warn = Callable[[str], None]


class WallClock:
    """Milliseconds since 1970 that never go backward: the wall-clock time at the start, advanced by the monotonic
    clock."""

    def __init__(self) -> None:
        self._start_ms = time.time() * 1000 - time.monotonic() * 1000

    def now(self) -> Millis:
        return Millis(int(self._start_ms + time.monotonic() * 1000))


class DrivenConnection(Protocol):
    """What the driver needs from a connection. ticket: of the request that has no event yet; None if there is none.
    address: the client's. has_sent_request: whether a whole request has arrived. last_active_s: when there was last
    traffic, on the monotonic clock. The other attributes: see `Turns`."""

    ticket: Ticket | None
    address: str
    has_sent_request: bool
    last_active_s: float
    spent_s: float
    cost_s: float
    waits_for_turn: bool

    @property
    def broker(self) -> EmbeddedBroker: ...

    @property
    def can_serve(self) -> bool:
        """Whether a request can be served now."""

    def serve(self) -> None:
        """It is the connection's turn: read, and serve what has arrived."""

    def read_ahead(self) -> None:
        """There is something to read, but it cannot be served yet."""

    def send_rest(self) -> None:
        """The socket can take more data: send what was left."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes received and not yet served."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that the socket has not accepted yet."""

    def deliver(self, event: ConnectionEvent) -> None:
        """Take the event of the request in progress."""

    def close(self, reason: str) -> None:
        """Close the connection after everything written has been sent."""

    def abort(self) -> None:
        """Close the connection immediately."""


class ClusterDriver:
    """Runs a cluster in an event loop. It has the only real clock in the server.

    observers: called after each event, when the cluster may have changed."""

    def __init__(self, cluster: EmbeddedCluster, clock: WallClock, *, warn: Warn) -> None:
        self.cluster = cluster
        self.limits = cluster.limits
        self.connections: dict[DrivenConnection, None] = {}  # in the order in which they were accepted
        self.turns = Turns(cluster.limits.turn_max_ms / 1000, begin=self._begin_turn)
        self.buffered_bytes = self.unsent_bytes = 0
        self.now = clock.now
        self.turn_began_s = time.monotonic()
        self.observers: list[Callable[[], None]] = []
        self._warn = warn
        self._warnings: dict[str, int] = {}
        self._waiting: dict[Ticket, DrivenConnection] = {}
        self._last_ticket = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: Millis | None = None
        self._compaction: asyncio.TimerHandle | None = None
        self._flushing = False
        self._loading = False
        self._poll: Poll | None = None
        self._by_fd: dict[int, DrivenConnection] = {}

    def start(self) -> None:
        """Start, in the running event loop."""
        asyncio.get_running_loop().set_exception_handler(self._report_exception)
        self._poll = new_poll()
        asyncio.get_running_loop().add_reader(self._poll.fileno(), self._serve_ready)
        self._schedule_compaction()
        self.deliver(())

    def close(self) -> None:
        """Flush and close the cluster. No more responses are sent."""
        for handle in (self._timer, self._compaction):
            if handle is not None:
                handle.cancel()
        if self._poll is not None:
            asyncio.get_running_loop().remove_reader(self._poll.fileno())
            self._poll.close()
        self.cluster.flush(self.now())
        self.cluster.close()

    @property
    def requests(self) -> int:
        """How many requests have been received."""
        return self._last_ticket

    # -- for connections

    def admit(self, connection: DrivenConnection) -> bool:
        """Whether a new connection may stay. If there is no room, the oldest connection that has not sent a request is
        closed to make room or, if all have, the one that has been idle the longest: connections that ask for nothing
        must not keep out those that do. A connection waiting for a response stays, unless all are waiting: then the one
        that has waited the longest is closed."""
        most, most_per_ip = self.limits.max_connections, self.limits.max_connections_per_ip
        if most_per_ip < most:
            alike = sum(other.address == connection.address for other in self.connections)
            if alike >= most_per_ip:
                self.warn("connections", f"connection refused: {connection.address} has {most_per_ip} already")
                return False
        if len(self.connections) >= most:
            idle = [other for other in self.connections if other.ticket is None]
            leaves = next((other for other in self.connections if not other.has_sent_request), None)
            why = "has sent no request"
            if leaves is None:
                leaves = min(idle or self.connections, key=lambda other: other.last_active_s)
                why = "has been idle for longest" if idle else "has waited for longest"
            self.warn("connections", f"there are {most} connections: one that {why} is closed")
            self.connections.pop(leaves)
            leaves.abort()
        self.connections[connection] = None
        return True

    def receive(self, connection: DrivenConnection, frame: bytes, endpoints: Endpoints) -> None:
        """Have the connection's broker serve a frame. The connection gets its event now or later."""
        self._last_ticket += 1
        ticket = Ticket(self._last_ticket)
        self._waiting[ticket] = connection
        connection.ticket = ticket
        events: tuple[ConnectionEvent, ...]
        try:
            events = connection.broker.receive(frame, ticket=ticket, endpoints=endpoints, now=self.now())
        except Exception as error:  # noqa: BLE001  (a bug must cost no more than the connection that hit it)
            self.warn("bug", f"internal error in kgm serve: {error!r}")
            events = (CloseConnection(ticket, "its request failed with an internal error"),)
        self.deliver(events)

    def disconnected(self, ticket: Ticket) -> None:
        """The connection of a request that has no event yet is closed."""
        self._waiting.pop(ticket, None)
        self.cluster.disconnected(ticket)

    def watch(self, fd: int, connection: DrivenConnection) -> None:
        """Watch a connection's socket, and have the connection serve what arrives."""
        assert self._poll is not None
        self._poll.register(fd, READABLE)
        self._by_fd[fd] = connection

    def want(self, fd: int, mask: int) -> None:
        """Set what a connection waits for: READABLE, WRITABLE, both or nothing."""
        assert self._poll is not None
        self._poll.modify(fd, mask)

    def unwatch(self, fd: int) -> None:
        """Stop watching a socket that is about to be closed."""
        if self._by_fd.pop(fd, None) is not None and self._poll is not None:
            self._poll.unregister(fd)

    def bound_buffers(self) -> None:
        """If too many bytes are buffered on all connections, close the one with the most."""
        if self.buffered_bytes > self.limits.queued_max_request_bytes:
            largest = max(self.connections, key=lambda connection: connection.buffered_bytes)
            largest.close("too many bytes of incomplete requests are buffered")

    def bound_unsent(self) -> None:
        """If too many response bytes are unread on all connections, close the one with the most."""
        if self.unsent_bytes > self.limits.queued_max_response_bytes:
            largest = max(self.connections, key=lambda connection: connection.unsent_bytes)
            self.warn("unread", f"connection from {largest.address} closed: it does not read its responses")
            largest.abort()

    def warn(self, kind: str, text: str) -> None:
        """Report something to the operator, a bounded number of times for each kind."""
        count = self._warnings[kind] = self._warnings.get(kind, 0) + 1
        if count <= _MAX_WARNINGS:
            self._warn(text if count < _MAX_WARNINGS else f"{text} (further warnings of this kind are suppressed)")

    # -- events

    def _serve_ready(self) -> None:
        """Some connections have something to read, or room to write."""
        assert self._poll is not None
        self._begin_turn()
        ready: list[DrivenConnection] = []
        by_fd = self._by_fd
        for fd, mask in self._poll.poll(0):
            connection = by_fd.get(fd)
            if connection is None:  # closed in the meantime
                continue
            if mask & WRITABLE:
                connection.send_rest()
            if mask & ~WRITABLE and not connection.waits_for_turn:
                if connection.can_serve:
                    ready.append(connection)
                else:
                    connection.read_ahead()
        self.turns.run_all(ready)

    def _begin_turn(self) -> None:
        self.turn_began_s = time.monotonic()

    def deliver(self, events: Iterable[ConnectionEvent]) -> None:
        """Deliver events to their connections, and schedule what the cluster has to do next."""
        for event in events:
            connection = self._waiting.pop(event.ticket, None)
            if connection is not None:
                connection.deliver(event)
        cluster = self.cluster
        if cluster.is_dirty and not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)
        if cluster.is_loading and not self._loading:
            self._loading = True
            asyncio.get_running_loop().call_soon(self._load)
        self._set_timer()
        if self.observers:
            for observe in tuple(self.observers):
                observe()

    def _set_timer(self) -> None:
        """Keep one timer for the cluster's next deadline; it is moved only if the deadline is now earlier."""
        deadline = self.cluster.next_deadline()
        at = self._timer_at
        if deadline is None or (at is not None and at <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay = max(deadline - self.now(), 0) / 1000
        self._timer_at = deadline
        self._timer = asyncio.get_running_loop().call_later(delay, self._advance)

    def _advance(self) -> None:
        self._timer = self._timer_at = None
        try:
            self.deliver(self.cluster.advance(self.now()))
        finally:
            self._set_timer()

    def _flush(self) -> None:
        self._flushing = False
        self.deliver(self.cluster.flush(self.now()))

    def _load(self) -> None:
        """Load partitions for a bounded time."""
        self._loading = False
        until = time.monotonic() + _LOADING_S
        events: tuple[ConnectionEvent, ...] = ()
        while self.cluster.is_loading and time.monotonic() < until:
            events += self.cluster.load_piece(self.now())
        self.deliver(events)

    def _schedule_compaction(self) -> None:
        delay = self.limits.log_cleaner_backoff_ms / 1000
        self._compaction = asyncio.get_running_loop().call_later(delay, self._compact)

    def _compact(self) -> None:
        self._schedule_compaction()
        self.deliver(self.cluster.compact(self.now()))

    def _report_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """A callback raised, which is a bug. The loop goes on; if it was a connection's callback, asyncio has closed
        that connection."""
        self.warn("bug", f"internal error in kgm serve: {context.get('message')}: {context.get('exception')!r}")
