"""Reads whole partitions of `__consumer_offsets` in parallel from their leaders: first all records, then new ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kgm.client.admin_client import AdminClient
from kgm.client.failures import is_temporary
from kgm.client.topic_log import partition_log
from kgm.client.transport.brokers import BrokerNode
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.client.transport.parallel import run_parallel
from kgm.java.partitions import partition_for
from kgm.model.errors import ErrorCode, KgmError, RefusedError

_FETCH_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Whole record batches as they are in the log of a partition. first_offset: the offset requested; earlier records
    in the first batch do not count."""

    partition: int
    first_offset: int
    data: bytes


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One read of all partitions. parts, errors, positions (the next offset to read): by partition; shortened:
    partitions that are read only from a certain time on. done, total: offsets read, and offsets to read."""

    deadline: Deadline
    on_progress: Callable[[int, int], None]
    parts: dict[int, list[LogPart]] = field(default_factory=dict)
    errors: dict[int, KgmError] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    shortened: set[int] = field(default_factory=set)
    size_bytes: int = 0
    done: int = 0
    total: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, *, size_bytes: int = 0, done: int = 0, total: int = 0) -> None:
        with self.lock:
            self.size_bytes += size_bytes
            self.done += done
            self.total += total
            self.on_progress(self.done, self.total)


class TopicReader:
    """Reads the partition of one group, or all partitions. Each read continues where the last one ended.

    max_bytes: the limit for one read. since_ms: a partition that does not fit is read from this time on instead of from
    its beginning."""

    def __init__(
        self, cluster: AdminClient, *, group_id: str | None, max_bytes: int, since_ms: int | None = None
    ) -> None:
        self._cluster, self._group_id = cluster, group_id
        self._max_bytes, self._since_ms = max_bytes, since_ms
        #: The next offset to read, by partition.
        self._positions: dict[int, int] = {}
        #: Partitions from which only the records since `since_ms` were read.
        self.shortened: set[int] = set()

    def read(self, deadline: Deadline, on_progress: Callable[[int, int], None] = lambda *_: None) -> list[LogPart]:
        """What has not been read before, by partition and offset. on_progress: called with the offsets read so far and
        the total.

        Raises AuthorizationError without READ on the topic, RefusedError if there is more than `max_bytes` to read,
        UnreachableError if it cannot be read in time."""
        reading = _Reading(
            deadline=deadline, on_progress=on_progress, positions=dict(self._positions), shortened=set(self.shortened)
        )
        left: set[int] | None = None
        for attempt in range(partition_log.ATTEMPTS):
            leaders = self._leaders(deadline)
            left = set(leaders) if left is None else left
            reading.errors = {
                number: partition_log.leaderless(number) for number in left if leaders.get(number) is None
            }
            by_leader: dict[BrokerNode, list[int]] = {}
            for number in sorted(left):
                leader = leaders.get(number)
                if leader is not None:
                    by_leader.setdefault(leader, []).append(number)
            tasks = {leader: partial(self._read_led, leader, mine, reading) for leader, mine in by_leader.items()}
            for leader, result in run_parallel(tasks, deadline, "a broker").items():
                if isinstance(result, KgmError):
                    reading.errors |= dict.fromkeys(by_leader[leader], result)
            left = set(reading.errors)
            if not left:
                break
            error = next((one for one in reading.errors.values() if not is_temporary(one)), None)
            if error is not None or attempt == partition_log.ATTEMPTS - 1 or deadline.expired:
                raise error or next(iter(reading.errors.values()))
            deadline.sleep(partition_log.PAUSE_S)
        # Only now: a read that fails returns nothing, so the next one reads the same records again.
        self._positions, self.shortened = reading.positions, reading.shortened
        return [part for _, parts in sorted(reading.parts.items()) for part in parts]

    def _leaders(self, deadline: Deadline) -> Mapping[int, BrokerNode | None]:
        """The leader of each partition to read. Raises KgmError."""
        topic = partition_log.look_up(self._cluster.brokers, deadline)
        numbers: Iterable[int] = range(topic.partition_count)
        if self._group_id is not None:
            numbers = (partition_for(self._group_id, topic.partition_count),)
        return {number: topic.leaders[number].broker if number in topic.leaders else None for number in numbers}

    def _read_led(self, leader: BrokerNode, numbers: Iterable[int], reading: _Reading) -> None:
        """Read partitions of one leader one after the other."""
        for number in numbers:
            try:
                read = partial(self._read_partition, number, reading)
                self._cluster.brokers.on_broker(leader, read, reading.deadline)
            except KgmError as error:
                if error.kafka_error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    error = partition_log.unauthorized()
                reading.errors[number] = error

    def _read_partition(self, number: int, reading: _Reading, connection: BrokerConnection) -> None:
        deadline = reading.deadline
        start = partition_log.start_offset(connection, number, deadline)
        end = partition_log.end_offset(connection, number, deadline)
        position = max(reading.positions.get(number, start), start)
        if self._read_to(number, position, end, reading, connection):
            return
        if self._since_ms is None or number in reading.shortened:
            raise self._too_large()
        reading.shortened.add(number)
        given_up = reading.parts.pop(number, [])
        reading.count(size_bytes=-sum(len(part.data) for part in given_up))
        at = partition_log.offset_at(connection, number, self._since_ms, deadline)
        if not self._read_to(number, end if at < 0 else at, end, reading, connection):
            raise self._too_large()

    def _read_to(self, number: int, position: int, end: int, reading: _Reading, connection: BrokerConnection) -> bool:
        """Read up to `end`; returns whether the records fit into `max_bytes`."""
        reading.count(total=max(0, end - position))
        fetches = partition_log.fetch_log(connection, number, position, end, reading.deadline, fetch_bytes=_FETCH_BYTES)
        for data, next_offset in fetches:
            part = LogPart(partition=number, first_offset=position, data=data)
            reading.parts.setdefault(number, []).append(part)
            reading.count(size_bytes=len(data), done=min(next_offset, end) - position)
            position = next_offset
            if reading.size_bytes > self._max_bytes:
                return False
            reading.positions[number] = position
        reading.positions[number] = max(position, end)
        return True

    def _too_large(self) -> RefusedError:
        what = "all partitions hold" if self._group_id is None else f"the partition of group {self._group_id} holds"
        return RefusedError(
            f"{what} more than {self._max_bytes >> 20:,} MiB of records; kgm reads at most that from a live topic",
            hint="read less: --since 2h; or build a history on Spark: kgm history build --source kafka --out DIR",
        )
