"""The live `__consumer_offsets`, fetched by kgm's own client as whole record batches from the partitions' leaders,
and decoded in columns.

As in a copy of segments, transaction markers and aborted records are included: kgm fetches the log up to the high
watermark. The client's settings reach Spark's workers inside pickled code, and are not in any option or plan of
Spark."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kgm.client import AdminClient, connect
from kgm.client.failures import OtherClusterError, is_temporary
from kgm.client.security import make_security
from kgm.client.topic_log import partition_log
from kgm.client.transport.brokers import BrokerNode
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.history.decode.log_bytes import log_records
from kgm.model.errors import KgmError, UsageError
from kgm.pipeline.parts import Part, Partitions

if TYPE_CHECKING:
    import pyarrow as pa

    from kgm.pipeline.options import Source

_FETCH_BYTES: Final = 8 << 20
#: How many fetches can wait while another one is decoded.
_AHEAD: Final = 2
_TIMEOUT_MS: Final = 30_000
#: How often the same offset is requested after a temporary error, such as a new leader.
_ATTEMPTS: Final = 6
_PAUSE_S: Final = 0.5

#: (requested offset, record batches); or what ended the fetching: an exception, or None at the end.
_Fetched = tuple[int, bytes] | BaseException | None


@dataclass(frozen=True)
class LiveTopic(Partitions):
    """How to reach the topic. properties: of a Java client, with `bootstrap.servers`. cluster: the id of the only
    cluster to read it from; None for whichever answers."""

    name: str
    properties: Mapping[str, str] = field(repr=False)
    cluster: str | None = None

    @classmethod
    def of(cls, source: Source) -> LiveTopic:
        """The topic of a source. Raises UsageError without bootstrap servers."""
        if not source.properties.get("bootstrap.servers"):
            raise UsageError(
                f"no bootstrap.servers for the source {source.kind}", hint="--bootstrap-server HOST:PORT, or a profile"
            )
        return cls(source.topic, dict(source.properties), source.cluster)

    @contextlib.contextmanager
    def connected(self) -> Iterator[AdminClient]:
        """A client of the cluster. Raises KgmError, OtherClusterError if another one answers now: its offsets count
        other records."""
        security, _ = make_security(self.properties)
        with connect(self.properties["bootstrap.servers"], timeout_ms=_TIMEOUT_MS, security=security) as cluster:
            if self.cluster is not None and cluster.cluster_id != self.cluster:
                raise OtherClusterError(cluster.bootstrap, expected=self.cluster, found=cluster.cluster_id)
            cluster.bind_to_cluster()
            yield cluster

    def cluster_id(self) -> str | None:
        """The id of the cluster. Raises KgmError."""
        with self.connected() as cluster:
            return cluster.cluster_id

    def bounds(self) -> Mapping[int, tuple[int, int]]:
        """(first offset, high watermark) of each partition."""
        for attempt in range(_ATTEMPTS):
            try:
                with self.connected() as cluster:
                    return self._bounds(cluster)
            except KgmError as error:
                if not is_temporary(error) or attempt == _ATTEMPTS - 1:
                    raise
            time.sleep(_PAUSE_S)
        raise AssertionError("unreachable")

    def _bounds(self, cluster: AdminClient) -> dict[int, tuple[int, int]]:
        topic = partition_log.look_up(cluster.brokers, cluster.deadline, name=self.name)
        led: dict[BrokerNode, list[int]] = {}
        for number in range(topic.partition_count):
            if number not in topic.leaders:
                raise partition_log.leaderless(number, self.name)
            led.setdefault(topic.leaders[number].broker, []).append(number)
        bounds: dict[int, tuple[int, int]] = {}
        for leader, numbers in led.items():

            def ask(connection: BrokerConnection, numbers: list[int] = numbers) -> dict[int, tuple[int, int]]:
                return partition_log.bounds(connection, numbers, cluster.deadline, name=self.name)

            bounds |= cluster.brokers.on_broker(leader, ask, cluster.deadline)
        return bounds

    def between(self, start: Mapping[int, int], end: Mapping[int, int]) -> Sequence[Part]:
        parts = [
            TopicPart(self, number, start.get(number, 0), end[number])
            for number in sorted(end)
            if end[number] > start.get(number, 0)
        ]
        return sorted(parts, key=lambda part: part.start - part.end)


@dataclass
class TopicPart(Part):
    """Offsets of a partition of the live topic."""

    topic: LiveTopic
    number: int
    start: int
    end: int
    path: str = ""

    def records(self) -> Iterator[pa.RecordBatch]:
        """The part's records by `schema.RAW`. Raises KgmError, after several attempts."""
        with self.topic.connected() as cluster:
            for first, data in _ahead(_Fetching(self, cluster)):
                for batch in log_records((self.number, first, data)):
                    yield self.within(batch)


def slice_records(topic: LiveTopic, row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """The records of a slice (`taking.slices`). Raises KgmError."""
    return TopicPart(topic, row["partition"], row["start"], row["end"]).records()


class _Fetching:
    """Fetches the batches of a part, one fetch after another; after a temporary error it retries, with a new leader."""

    def __init__(self, part: TopicPart, cluster: AdminClient) -> None:
        self._part, self._cluster = part, cluster
        self._leader: BrokerNode | None = None

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """(requested offset, whole record batches). Raises KgmError."""
        position, failures = self._part.start, 0
        while position < self._part.end:
            try:
                first, data, following = self._once(position)
            except KgmError as error:
                failures += 1
                if not is_temporary(error) or failures == _ATTEMPTS:
                    raise
                self._leader = None
                time.sleep(_PAUSE_S)
                continue
            if data:
                yield first, data
            position, failures = following, 0

    def _once(self, position: int) -> tuple[int, bytes, int]:
        """(requested offset, its record batches, the offset after them)."""
        part, cluster, deadline = self._part, self._cluster, Deadline.after(_TIMEOUT_MS)
        if self._leader is None:
            self._leader = self._led_by(deadline)
            first = cluster.brokers.on_broker(self._leader, self._first_left(deadline), deadline)
            position = max(position, first)
            if position >= part.end:  # deleted in the meantime
                return position, b"", position

        def ask(connection: BrokerConnection) -> tuple[bytes, int]:
            fetches = partition_log.fetch_log(
                connection, part.number, position, part.end, deadline, fetch_bytes=_FETCH_BYTES, name=part.topic.name
            )
            return next(fetches)

        data, following = cluster.brokers.on_broker(self._leader, ask, deadline)
        return position, data, following

    def _led_by(self, deadline: Deadline) -> BrokerNode:
        name, number = self._part.topic.name, self._part.number
        leader = partition_log.look_up(self._cluster.brokers, deadline, name=name).leaders.get(number)
        if leader is None:
            raise partition_log.leaderless(number, name)
        return leader.broker

    def _first_left(self, deadline: Deadline) -> Any:
        name, number = self._part.topic.name, self._part.number
        return lambda connection: partition_log.bounds(connection, [number], deadline, name=name)[number][0]


def _ahead(fetching: _Fetching) -> Iterator[tuple[int, bytes]]:
    """The same pairs, fetched in a thread while the previous one is decoded. Raises the errors of fetching."""
    waiting: queue.Queue[_Fetched] = queue.Queue(_AHEAD)
    abandoned = threading.Event()

    def put(what: _Fetched) -> bool:
        while not abandoned.is_set():
            with contextlib.suppress(queue.Full):
                waiting.put(what, timeout=0.2)
                return True
        return False

    def work() -> None:
        try:
            for fetched in fetching:
                if not put(fetched):
                    return
            put(None)
        except BaseException as error:  # noqa: BLE001  (raised again where it is waited for)
            put(error)

    thread = threading.Thread(target=work, daemon=True, name="kgm fetch")
    thread.start()
    try:
        while (fetched := waiting.get()) is not None:
            if isinstance(fetched, BaseException):
                raise fetched
            yield fetched
    finally:
        abandoned.set()
