"""A server in a thread of a process that does something else, such as a test."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self, TypeVar

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ConditionNotMet, KgmError
from kgm.model.snapshot import GroupSnapshot
from kgm.server.cluster.shards import GroupsView
from kgm.server.contract.limits import Limits, settings_from_overrides
from kgm.server.embedded.group_snapshot import group_snapshot
from kgm.server.embedded.group_watch import Condition, GroupWatch, is_stable
from kgm.server.embedded.server import LOOPBACK, Server, ServerOptions, ignore
from kgm.server.net.event_loop import Warn

T = TypeVar("T")
_START_TIMEOUT_S = 60.0


class EmbeddedServer:
    """A running server: brokers 1 to N, which real clients connect to. A context manager; `close` stops it.

    Methods can be called from any thread but the server's own."""

    def __init__(self, options: ServerOptions) -> None:
        self._server = Server(options)
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
        #: Where broker 1 listens.
        self.host, self.port = self._server.addresses[1]

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of all brokers, separated by commas: the client setting `bootstrap.servers`."""
        return ",".join(self.address(node_id) for node_id in self._server.addresses)

    def address(self, node_id: int) -> str:
        """HOST:PORT of a broker."""
        host, port = self._server.addresses[node_id]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.driver.connections)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of requests that are incomplete, or are waiting for the request before them."""
        return self._server.driver.buffered_bytes

    # -- topics and groups

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic. Raises UsageError if it exists, or has an illegal name."""
        self._do(self._server.create_topic(name, partitions))

    def inspect(self, question: Callable[[GroupsView], T]) -> T:
        """Call a function with the state of all groups, in the server's thread: `inspect(lambda view:
        view.group("g"))`."""

        async def ask() -> T:
            return question(self._server.cluster.view)

        return self._do(ask())

    def group(self, group_id: str) -> GroupSnapshot | None:
        """The group as it is now; None if it does not exist."""

        async def ask() -> GroupSnapshot | None:
            return self._snapshot(group_id)

        return self._do(ask())

    def wait_for_group(
        self,
        group_id: str,
        condition: Condition,
        *,
        what: str = "as expected",
        timeout_s: float = 30.0,
        meanwhile: Callable[[], object] | None = None,
    ) -> GroupSnapshot:
        """Wait until a group exists and meets a condition; returns the group as it was at that moment.

        condition: called in the server's thread after each event, so that no state of the group is missed. what:
        describes the condition in the error message. meanwhile: called repeatedly in the caller's thread, for consumers
        that the caller has to poll; it should block for a short time, as `consumer.poll(0.1)` does.

        Raises ConditionNotMet after `timeout_s`, and whatever `condition` or `meanwhile` raises."""
        result: Future[GroupSnapshot] = Future()

        def see(group: GroupSnapshot | None) -> None:
            if result.done() or group is None:
                return
            try:
                if condition(group):
                    result.set_result(group)
            except Exception as error:  # noqa: BLE001  (raised again in the caller's thread)
                result.set_exception(error)

        deadline = time.monotonic() + timeout_s
        stop = self.observe(group_id, see)
        try:
            if meanwhile is not None:
                while not result.done() and time.monotonic() < deadline:
                    meanwhile()
            return result.result(max(deadline - time.monotonic(), 0))
        except TimeoutError:
            if result.done():  # just now, or the error is the condition's own
                return result.result()
            raise self._not_met(group_id, what, timeout_s) from None
        finally:
            stop()

    def _not_met(self, group_id: str, what: str, timeout_s: float) -> KgmError:
        group = self.group(group_id)
        seen = "it does not exist" if group is None else f"it is {group.state}, with {len(group.members)} members"
        return ConditionNotMet(f"group {group_id} was not {what} within {timeout_s:g} s: {seen}", group_id=group_id)

    def wait_until_stable(
        self,
        group_id: str,
        *,
        members: int | None = None,
        timeout_s: float = 30.0,
        meanwhile: Callable[[], object] | None = None,
    ) -> GroupSnapshot:
        """Wait until a group is stable: it has members (exactly this many, if `members` is given), and each has its
        assignment.

        timeout_s, meanwhile: see `wait_for_group`. Raises ConditionNotMet."""

        def condition(group: GroupSnapshot) -> bool:
            return is_stable(group) and members in (None, len(group.members))

        what = "stable" if members is None else f"stable with {members} members"
        return self.wait_for_group(group_id, condition, what=what, timeout_s=timeout_s, meanwhile=meanwhile)

    def watch_group(self, group_id: str) -> GroupWatch:
        """From now on, count a group's rebalances and record which partitions move. A context manager."""
        return GroupWatch(self, group_id)

    def observe(self, group_id: str, see: Callable[[GroupSnapshot | None], None]) -> Callable[[], None]:
        """Call a function with a group's snapshot, now and after each event, in the server's thread; returns a function
        that stops this."""

        def poll() -> None:
            see(self._snapshot(group_id))

        async def start() -> None:
            poll()
            self._server.driver.observers.append(poll)

        async def stop() -> None:
            if poll in self._server.driver.observers:
                self._server.driver.observers.remove(poll)

        def stop_if_running() -> None:
            if self._thread.is_alive():
                self._do(stop())

        self._do(start())
        return stop_if_running

    def _snapshot(self, group_id: str) -> GroupSnapshot | None:
        return group_snapshot(self._server.cluster, group_id, self.host)

    # -- failover

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that has the group's records."""
        return self._server.cluster.placement.partition_for(group_id)

    def coordinator_of(self, group_id: str) -> int | None:
        """The broker that coordinates the group; None if there is none at the moment."""

        async def ask() -> int | None:
            return self._server.cluster.placement.coordinator_of(group_id)

        return self._do(ask())

    def move_coordinator(self, group_id: str, to_broker: int) -> None:
        """Make another broker the coordinator of the group, and of all groups in its partition of
        `__consumer_offsets`."""
        self._do(self._server.move_coordinator(self.partition_of(group_id), to_broker))

    def stop_broker(self, node_id: int) -> None:
        """Shut a broker down. The others coordinate its groups from then on."""
        self._do(self._server.stop_broker(node_id))

    def start_broker(self, node_id: int) -> None:
        """Start a broker again, at its previous address."""
        self._do(self._server.start_broker(node_id))

    def _do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine in the server's thread. Raises KgmError if the server is closed."""
        if not self._thread.is_alive():
            coroutine.close()
            raise KgmError("the embedded server is closed")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    # -- the end

    def close(self) -> None:
        """Stop the server. Calling this again does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop)
            self._thread.join()

    def _stop(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        try:
            await self._server.start()
        except BaseException as error:  # noqa: BLE001  (raised again in the waiting thread)
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
    topics: Mapping[str, int] | None = None,
    settings: BrokerSettings | Mapping[str, str | int] | None = None,
    limits: Limits | None = None,
    brokers: int = 1,
    data_dir: Path | None = None,
    host: str = LOOPBACK,
    port: int = 0,
    warn: Warn = ignore,
) -> EmbeddedServer:
    """Start a server in a thread; returns when it accepts connections.

    topics: partition counts by name; more can be created later. settings: values by Kafka's names, such as
    `{"group.initial.rebalance.delay.ms": 0}`, or a BrokerSettings. data_dir: where everything is kept across restarts;
    None: in memory. port: of the first broker, the others use the next ones; 0: free ports. warn: called with messages
    for the operator.

    Raises UsageError for invalid topics, settings and ports, and KgmError if an address is in use or the data directory
    cannot be used."""
    limits = limits or Limits()
    if isinstance(settings, Mapping):
        settings, limits = settings_from_overrides({name: str(value) for name, value in settings.items()}, limits)
    options = ServerOptions(
        topics=topics or {},
        settings=settings or BrokerSettings(),
        limits=limits,
        brokers=brokers,
        data_dir=data_dir,
        host=host,
        port=port,
        warn=warn,
    )
    return EmbeddedServer(options)
