"""A server in the foreground of a process, or in a thread of one that has something else to do."""

import asyncio
import signal
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from kgm.coordinator.engine import Coordinator
from kgm.coordinator.settings import BrokerSettings
from kgm.server.broker import Broker
from kgm.server.limits import Limits
from kgm.server.listener import Clock, Listener, Warn

T = TypeVar("T")
LOOPBACK = "127.0.0.1"
_START_TIMEOUT_S = 30.0


def _ignore(_text: str) -> None:
    """The warnings of a server in a thread have no reader."""


def serve_forever(
    *,
    topics: Mapping[str, int],
    settings: BrokerSettings | None = None,
    limits: Limits | None = None,
    host: str = LOOPBACK,
    port: int = 0,
    on_listening: Callable[[str, int], None],
    warn: Warn = _ignore,
) -> signal.Signals:
    """Serve until SIGTERM or SIGINT; returns which it was. `on_listening` gets the address once it accepts.

    Raises KgmError when the address is not free. To be called in the main thread."""

    async def main() -> signal.Signals:
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[signal.Signals] = loop.create_future()

        def stop(by: signal.Signals) -> None:
            if not stopped.done():
                stopped.set_result(by)

        for one in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(one, stop, one)
        clock = Clock()
        broker = Broker(topics=topics, settings=settings, limits=limits, now=clock.now())
        listener = Listener(broker, clock, warn=warn)
        try:
            on_listening(*await listener.start(host, port))
            return await stopped
        finally:
            await listener.close()

    return asyncio.run(main())


class EmbeddedServer:
    """A running server in a thread of its own. A context manager; `close` ends it."""

    def __init__(self, *, broker: Broker, clock: Clock, host: str, port: int, warn: Warn) -> None:
        self._broker = broker
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._listener = Listener(broker, clock, warn=warn)
        self.host = host
        self.port = port
        self._thread = threading.Thread(target=self._run, name="kgm-server", daemon=True)
        self._thread.start()
        assert self._ready.wait(_START_TIMEOUT_S), "the server's thread did not start"
        if self._error is not None:
            self._thread.join()
            raise self._error

    @property
    def bootstrap(self) -> str:
        """HOST:PORT for `bootstrap.servers`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._listener.connections)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of requests that are not whole yet, or wait for one before them."""
        return self._listener.buffered

    def inspect(self, question: Callable[[Coordinator], T]) -> T:
        """Ask the coordinator something in the server's own thread: `server.inspect(lambda c: c.group("g"))`."""

        async def ask() -> T:
            return question(self._broker.coordinator)

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result()

    def close(self) -> None:
        """Stop the server; again is no error."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop)
            self._thread.join()

    def _stop(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        try:
            self.host, self.port = await self._listener.start(self.host, self.port)
        except BaseException as error:  # noqa: BLE001  (it is raised again, in the thread that is waiting)
            self._error = error
            return
        finally:
            self._ready.set()
        try:
            await self._stopped
        finally:
            await self._listener.close()


def serve_in_thread(
    *,
    topics: Mapping[str, int],
    settings: BrokerSettings | None = None,
    limits: Limits | None = None,
    host: str = LOOPBACK,
    port: int = 0,
    warn: Warn = _ignore,
) -> EmbeddedServer:
    """Start a server and return it once it accepts connections. Raises KgmError when the address is not free."""
    clock = Clock()
    broker = Broker(topics=topics, settings=settings, limits=limits, now=clock.now())
    return EmbeddedServer(broker=broker, clock=clock, host=host, port=port, warn=warn)
