"""A cluster with its listeners, in an event loop."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import UsageError
from kgm.server.broker import brokers_of
from kgm.server.cluster.cluster import EmbeddedCluster
from kgm.server.contract.limits import Limits
from kgm.server.logs.data_directory import DataDirectory
from kgm.server.logs.storage import MemoryStorage, Storage
from kgm.server.net.event_loop import ClusterDriver, WallClock, Warn
from kgm.server.net.listener import Listener

LOOPBACK = "127.0.0.1"
_HIGHEST_PORT = 65_535


def ignore(_warning: str) -> None:
    """Drop a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """topics: partition counts by name. data_dir: where everything is stored; None: in memory. port: of the first
    broker, the others use the next ones; 0: free ports. warn: called with messages for the operator."""

    topics: Mapping[str, int]
    settings: BrokerSettings = field(default_factory=BrokerSettings)
    limits: Limits = field(default_factory=Limits)
    brokers: int = 1
    data_dir: Path | None = None
    host: str = LOOPBACK
    port: int = 0
    warn: Warn = ignore


class Server:
    """A cluster that accepts connections once it is started, in the event loop that starts it.

    Raises UsageError for invalid topics and ports, and KgmError for a data directory that cannot be used."""

    def __init__(self, options: ServerOptions) -> None:
        brokers, port = options.brokers, options.port
        if port and port + brokers - 1 > _HIGHEST_PORT:
            raise UsageError(f"{brokers} brokers from port {port} on would need ports above {_HIGHEST_PORT}")
        clock = WallClock()
        storage = _open_storage(options)
        try:
            self.cluster = EmbeddedCluster(
                topics=options.topics,
                settings=options.settings,
                limits=options.limits,
                brokers=brokers,
                storage=storage,
                now=clock.now(),
                warn=options.warn,
            )
        except BaseException:
            storage.close()
            raise
        self.driver = ClusterDriver(self.cluster, clock, warn=options.warn)
        self.brokers = brokers_of(self.cluster)
        #: Where each broker listens; before it listens, the port may be 0.
        self.addresses = {node_id: (options.host, port and port + node_id - 1) for node_id in self.brokers}
        self._listeners = {node_id: Listener(self.driver, broker) for node_id, broker in self.brokers.items()}

    async def start(self) -> None:
        """Accept connections on every broker. Raises KgmError if an address is in use."""
        self.driver.start()
        for node_id in self._listeners:
            await self._listen(node_id)

    async def _listen(self, node_id: int) -> None:
        address = await self._listeners[node_id].start(*self.addresses[node_id])
        self.addresses[node_id] = address
        self.cluster.nodes[node_id].port = address[1]

    async def close(self) -> None:
        """Close the listeners, then the cluster."""
        for listener in self._listeners.values():
            await listener.close()
        self.driver.close()

    async def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic. Raises UsageError if it exists, or has an illegal name or partition count."""
        self.driver.deliver(self.cluster.create_topic(name, partitions, self.driver.now()))

    async def move_coordinator(self, partition: int, leader: int) -> None:
        """Make another broker the leader of a partition of `__consumer_offsets`."""
        self.driver.deliver(self.cluster.move_coordinator(partition, leader, self.driver.now()))

    async def stop_broker(self, node_id: int) -> None:
        """Controlled shutdown: the broker hands over what it leads, then closes its connections."""
        self.driver.deliver(self.cluster.stop_broker(node_id, self.driver.now()))
        self.driver.deliver(self.cluster.flush(self.driver.now()))
        await self._listeners[node_id].close()

    async def start_broker(self, node_id: int) -> None:
        """Start a broker again, at its previous address."""
        await self._listen(node_id)
        self.driver.deliver(self.cluster.start_broker(node_id, self.driver.now()))


def _open_storage(options: ServerOptions) -> Storage:
    if options.data_dir is None:
        return MemoryStorage()

    return DataDirectory.open(
        options.data_dir, settings=options.settings, limits=options.limits, warn=options.warn, seconds=time.monotonic
    )
