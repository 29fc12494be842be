"""A server in the foreground of a process, or in a thread of one that has something else to do."""

import asyncio
import gc
import signal
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import UsageError
from kgm.server.cluster.cluster import EmbeddedCluster, Storage
from kgm.server.cluster.shards import View
from kgm.server.contract.limits import Limits
from kgm.server.net.event_loop import Clock, Hub, Warn
from kgm.server.net.listener import Listener

T = TypeVar("T")
LOOPBACK = "127.0.0.1"
_START_TIMEOUT_S = 60.0
_HIGHEST_PORT = 65_535


def _ignore(_text: str) -> None:
    """The warnings of a server in a thread have no reader."""


class Server:
    """A cluster with its listeners, in the event loop in which it is started."""

    def __init__(self, cluster: EmbeddedCluster, clock: Clock, *, host: str, port: int, warn: Warn) -> None:
        brokers = len(cluster.brokers)
        if port and port + brokers - 1 > _HIGHEST_PORT:
            raise UsageError(f"{brokers} brokers from port {port} on would go beyond {_HIGHEST_PORT}")
        self.cluster = cluster
        self.hub = Hub(cluster, clock, warn=warn)
        self.addresses = {node_id: (host, port and port + node_id - 1) for node_id in cluster.brokers}
        self._listeners = {node_id: Listener(self.hub, broker) for node_id, broker in cluster.brokers.items()}

    async def start(self) -> None:
        """Accept connections on every broker. Raises KgmError when an address is not free."""
        self.hub.start()
        for node_id in self._listeners:
            await self._listen(node_id)

    async def _listen(self, node_id: int) -> None:
        address = await self._listeners[node_id].start(*self.addresses[node_id])
        self.addresses[node_id] = address
        self.cluster.nodes[node_id].port = address[1]

    async def close(self) -> None:
        """Close the listeners, then the logs."""
        for listener in self._listeners.values():
            await listener.close()
        self.hub.close()

    async def move(self, partition: int, leader: int) -> None:
        self.hub.deliver(self.cluster.move(partition, leader, self.hub.now()))

    async def stop_broker(self, node_id: int) -> None:
        """As a broker that is shut down in order: first it hands over what it leads, then it closes its connections."""
        self.hub.deliver(self.cluster.stop(node_id, self.hub.now()))
        self.hub.deliver(self.cluster.flush(self.hub.now()))
        await self._listeners[node_id].close()

    async def start_broker(self, node_id: int) -> None:
        await self._listen(node_id)
        self.hub.deliver(self.cluster.start(node_id, self.hub.now()))


def _cluster(
    *,
    topics: Mapping[str, int],
    settings: BrokerSettings | None,
    limits: Limits | None,
    brokers: int,
    data_dir: Path | None,
    clock: Clock,
    warn: Warn,
) -> EmbeddedCluster:
    storage: Storage | None = None
    if data_dir is not None:
        from kgm.server.logs.storage import Directory

        storage = Directory.open(data_dir, settings=settings or BrokerSettings(), limits=limits or Limits(), warn=warn)
    try:
        return EmbeddedCluster(
            topics=topics,
            settings=settings,
            limits=limits,
            brokers=brokers,
            storage=storage,
            now=clock.now(),
            warn=warn,
        )
    except BaseException:
        if storage is not None:
            storage.close()
        raise


def serve_forever(
    *,
    topics: Mapping[str, int],
    settings: BrokerSettings | None = None,
    limits: Limits | None = None,
    brokers: int = 1,
    data_dir: Path | None = None,
    host: str = LOOPBACK,
    port: int = 0,
    on_listening: Callable[[Mapping[int, tuple[str, int]]], None],
    warn: Warn = _ignore,
) -> signal.Signals:
    """Serve until SIGTERM or SIGINT; returns which it was. `on_listening` gets the address of each broker once all
    accept.

    Raises KgmError when an address is not free or the data directory cannot be used. To be called in the main
    thread."""

    async def main() -> signal.Signals:
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[signal.Signals] = loop.create_future()

        def stop(by: signal.Signals) -> None:
            if not stopped.done():
                stopped.set_result(by)

        for one in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(one, stop, one)
        clock = Clock()
        cluster = _cluster(
            topics=topics,
            settings=settings,
            limits=limits,
            brokers=brokers,
            data_dir=data_dir,
            clock=clock,
            warn=warn,
        )
        server = Server(cluster, clock, host=host, port=port, warn=warn)
        gc.freeze()  # what was loaded stays: collections need not go through it again and again
        try:
            await server.start()
            on_listening(server.addresses)
            return await stopped
        finally:
            await server.close()

    return asyncio.run(main())


class EmbeddedServer:
    """A running server in a thread of its own. A context manager; `close` ends it."""

    def __init__(self, *, cluster: EmbeddedCluster, clock: Clock, host: str, port: int, warn: Warn) -> None:
        self._server = Server(cluster, clock, host=host, port=port, warn=warn)
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="kgm-server", daemon=True)
        self._thread.start()
        assert self._ready.wait(_START_TIMEOUT_S), "the server's thread did not start"
        if self._error is not None:
            self._thread.join()
            raise self._error
        self.host, self.port = self._server.addresses[1]

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of the first broker, for `bootstrap.servers`."""
        return self.address(1)

    @property
    def bootstraps(self) -> str:
        """All brokers, for clients that have to find one that is alive."""
        return ",".join(self.address(node_id) for node_id in self._server.addresses)

    def address(self, node_id: int) -> str:
        """HOST:PORT of a broker."""
        host, port = self._server.addresses[node_id]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.hub.connections)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of requests that are not whole yet, or wait for one before them."""
        return self._server.hub.buffered

    def inspect(self, question: Callable[[View], T]) -> T:
        """Ask something about the groups in the server's own thread: `server.inspect(lambda c: c.group("g"))`."""

        async def ask() -> T:
            return question(self._server.cluster.view)

        return self._do(ask())

    # -- failover

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that the group's records are in."""
        return self._server.cluster.placement.of_group(group_id)

    def coordinator_of(self, group_id: str) -> int | None:
        """The broker that coordinates the group."""

        async def ask() -> int | None:
            return self._server.cluster.placement[self.partition_of(group_id)].leader

        return self._do(ask())

    def move_coordinator(self, partition: int, to_broker: int) -> None:
        """Have another broker load a partition of `__consumer_offsets` and coordinate its groups."""
        self._do(self._server.move(partition, to_broker))

    def stop_broker(self, node_id: int) -> None:
        """Shut one broker down; others coordinate its groups from then on."""
        self._do(self._server.stop_broker(node_id))

    def start_broker(self, node_id: int) -> None:
        """Start it again at the same address."""
        self._do(self._server.start_broker(node_id))

    def _do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    # -- the end

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
            await self._server.start()
        except BaseException as error:  # noqa: BLE001  (it is raised again, in the thread that is waiting)
            self._error = error
            await self._server.close()
            return
        finally:
            self._ready.set()
        try:
            await self._stopped
        finally:
            await self._server.close()


def serve_in_thread(
    *,
    topics: Mapping[str, int],
    settings: BrokerSettings | None = None,
    limits: Limits | None = None,
    brokers: int = 1,
    data_dir: Path | None = None,
    host: str = LOOPBACK,
    port: int = 0,
    warn: Warn = _ignore,
) -> EmbeddedServer:
    """Start a server and return it once it accepts connections. Raises KgmError when an address is not free, or the
    data directory cannot be used."""
    clock = Clock()
    cluster = _cluster(
        topics=topics, settings=settings, limits=limits, brokers=brokers, data_dir=data_dir, clock=clock, warn=warn
    )
    return EmbeddedServer(cluster=cluster, clock=clock, host=host, port=port, warn=warn)
