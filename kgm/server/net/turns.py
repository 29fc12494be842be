"""Decides whose request is served next when more have arrived than can be served immediately.

Each connection has a time account: how much time its requests have cost. As long as the loop keeps up, requests are
served as they are read. Once requests have taken up a turn's time without the loop checking for others, later requests
wait, and the next connection served is the one whose account will be lowest afterwards, assuming its requests cost as
much as last time (weighted fair queueing). So a client that sends one cheap request waits for about one turn, no matter
how many requests others send and how expensive they are. An account never falls behind that of the connection served
last, so that no connection can save up time by being silent.

The clock is read once for each request served."""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable, Iterable
from typing import Protocol


def _nothing() -> None:
    """Do nothing."""


class Served(Protocol):
    """A connection with requests. spent_s: its account; cost_s: what was last added to it; waits_for_turn: whether it
    is queued here."""

    spent_s: float
    cost_s: float
    waits_for_turn: bool

    def serve(self) -> None:
        """Serve some of the requests that have arrived, and queue again for the rest."""


class Turns:
    """The queue of one event loop. turn_s: how long requests are served before the loop checks sockets and timers
    again; clock: returns seconds, to measure what requests cost; begin: called when a turn begins.

    The default clock is the CPU time of the thread: on a busy machine, another process may have the core for 50 ms in
    the middle of a request. If that time were charged to the connection's account, the connection would have to wait
    until every other one has been served for as long, which with 500 connections is seconds."""

    def __init__(
        self, turn_s: float, clock: Callable[[], float] = time.thread_time, *, begin: Callable[[], None] = _nothing
    ) -> None:
        self._turn_s, self._clock, self._begin_turn = turn_s, clock, begin
        self._queue: list[tuple[float, int, Served]] = []
        self._order = itertools.count()
        self._virtual_s = 0.0
        self._left_s = self._turn_s
        self._serving: Served | None = None
        self._is_scheduled = False
        #: When the clock was last read.
        self._read_at_s = 0.0

    def run_all(self, connections: Iterable[Served]) -> None:
        """Serve these connections immediately as far as there is time, and the others in turn."""
        self._read_at_s = self._clock()
        for connection in connections:
            if self._queue or self._left_s <= 0:
                self.queue(connection)
            else:
                connection.spent_s = max(connection.spent_s, self._virtual_s)
                self._serve(connection)

    def _serve(self, connection: Served) -> None:
        # The account may have fallen behind, if the connection had to wait.
        self._virtual_s = max(self._virtual_s, connection.spent_s)
        self._serving = connection
        try:
            connection.serve()
        finally:
            self._serving = None
            now_s = self._clock()
            took_s, self._read_at_s = now_s - self._read_at_s, now_s
            connection.spent_s += took_s
            connection.cost_s = took_s
            self._left_s -= took_s
            if self._left_s <= 0:
                self._schedule()
            if connection.waits_for_turn:  # now that its cost is known
                self._push(connection)

    def queue(self, connection: Served) -> None:
        """Queue a connection to be served in turn."""
        if connection.waits_for_turn:
            return
        connection.waits_for_turn = True
        if connection is not self._serving:
            self._push(connection)

    def _push(self, connection: Served) -> None:
        connection.spent_s = max(connection.spent_s, self._virtual_s)
        expected_s = connection.spent_s + connection.cost_s
        heapq.heappush(self._queue, (expected_s, next(self._order), connection))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_scheduled = False
        self._left_s = self._turn_s
        self._begin_turn()
        self._read_at_s = self._clock()
        while self._queue and self._left_s > 0:
            _, _, connection = heapq.heappop(self._queue)
            connection.waits_for_turn = False
            self._serve(connection)
        if self._queue:
            self._schedule()
