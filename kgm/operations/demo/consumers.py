"""Real consumers for the demo: librdkafka, through confluent-kafka, one thread each."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kgm.model.distribution import install_command
from kgm.model.errors import KgmError, UsageError

#: librdkafka's default.
SESSION_TIMEOUT_MS: Final = 45_000
HEARTBEAT_INTERVAL_MS: Final = 500
_POLL_S: Final = 0.1
_STOP_S: Final = 10
_LOOK_S: Final = 0.05
_PATIENCE_S: Final = 12
_FEED_S: Final = 0.2


def check_installed() -> None:
    """Raises UsageError if confluent-kafka is not installed."""
    if importlib.util.find_spec("confluent_kafka") is None:
        raise UsageError("kgm demo needs confluent-kafka, which is not installed", hint=install_command("demo"))


@dataclass(slots=True)
class DemoConsumer:
    """One static consumer. `revoked` and `commits` count revoked partitions and commits over its lifetime; `owned` has
    the partitions that it owns now."""

    bootstrap: str
    group_id: str
    group_instance_id: str
    topic: str
    revoked: int = 0
    owned: set[int] = field(default_factory=set)
    consumed: int = 0
    commits: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Join the group, in a separate thread."""
        self._stop.clear()
        thread = threading.Thread(target=self._run, name=self.group_instance_id, daemon=True)
        thread.start()
        self._thread = thread  # not earlier: an interrupt before start() would leave a thread that cannot be joined

    def stop(self) -> None:
        """Close the consumer. A static member sends no LeaveGroup: it stays until its session expires (KIP-345)."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=_STOP_S)

    def _run(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group_id,
                "group.instance.id": self.group_instance_id,
                "client.id": self.group_id,
                "partition.assignment.strategy": "range",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "topic.metadata.refresh.interval.ms": -1,
                "on_commit": self._on_commit,
            }
        )
        consumer.subscribe([self.topic], on_assign=self._on_assign, on_revoke=self._on_revoke)
        try:
            while not self._stop.is_set():
                message = consumer.poll(_POLL_S)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    self.consumed += 1
                elif error.fatal():
                    return
        finally:
            consumer.close()
            self.owned.clear()

    def _on_assign(self, _consumer: Any, partitions: list[Any]) -> None:
        self.owned = {partition.partition for partition in partitions}

    def _on_commit(self, error: Any, _partitions: list[Any]) -> None:
        self.commits += error is None

    def _on_revoke(self, _consumer: Any, partitions: list[Any]) -> None:
        self.revoked += 0 if self._stop.is_set() else len(partitions)
        self.owned -= {partition.partition for partition in partitions}


@contextlib.contextmanager
def _interrupted_afterwards() -> Iterator[None]:
    """Ctrl-C takes effect at the end: while confluent-kafka is imported and makes a client, it would become another
    error, or end the process without its exit code."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _producer(settings: dict[str, Any]) -> Any:
    with _interrupted_afterwards():
        from confluent_kafka import Producer

        return Producer(settings)


def produce(bootstrap: str, topic: str, count: int) -> None:
    """Send `count` records, spread over the topic's partitions. Raises KgmError."""
    producer = _producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, value=f"payment {number}", key=str(number))
    if producer.flush(10):
        raise KgmError("the demo's producer could not deliver its records")


@contextlib.contextmanager
def feed(bootstrap: str, topic: str, partitions: int) -> Iterator[None]:
    """Send a record to each partition every 0.2 s, in a separate thread."""
    producer = _producer({"bootstrap.servers": bootstrap})
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(_FEED_S):
            for partition in range(partitions):
                producer.produce(topic, value="payment", partition=partition)
            producer.poll(0)

    thread = threading.Thread(target=run, name="feed", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        producer.flush(_STOP_S)


def wait_until(what: str, condition: Callable[[], bool]) -> None:
    """Check every 50 ms until the condition holds. Raises KgmError after 12 s."""
    end = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise KgmError(f"the demo gave up after {_PATIENCE_S} s: not reached: {what}")
        time.sleep(_LOOK_S)
