"""Real Kafka Streams applications that a test can close, or crash all at the same time.

with StreamsApps(kafka.bootstrap, group, topic) as apps:
    apps.start("wr-1", threads=2, standbys=1)
    until(lambda: apps.is_running("wr-1"), ...)
"""

from __future__ import annotations

import json
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.frameworks.kafkas_classes import SOURCES
from tests.kafka.jars import KAFKA_VERSION, classpath
from tests.kafka.java_tools import compiled, java_command
from tests.kafka.process import Child

#: Threads learn of a rebalance within this time, ten times as soon as by default.
HEARTBEAT_MS = 300


@dataclass(frozen=True, slots=True)
class Thread:
    """What Streams reports about one of its threads. process_id: taken from its client id, after the name of the
    application."""

    process_id: str
    number: int
    active: tuple[str, ...]
    standby: tuple[str, ...]


class StreamsApps:
    """Applications of one group, in one JVM, each with a folder of its own as processes have."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._folder = tempfile.TemporaryDirectory(prefix="kgm-streams-")
        path = classpath(f"streams-{KAFKA_VERSION}")
        path = f"{compiled([SOURCES / 'StreamsApp.java'], path)}:{path}"
        command = java_command("StreamsApp", heap_mb=256, class_path=path)
        self._child = Child(command, log=Path(self._folder.name) / "log", pipe_stdout=True)
        self._lock = threading.Lock()

    def start(
        self,
        name: str,
        *,
        threads: int = 2,
        standbys: int = 0,
        is_static: bool = True,
        config: dict[str, str] | None = None,
    ) -> None:
        """Start one, without waiting for its tasks. A static one has instance ids NAME-1, NAME-2, …"""
        settings = {
            "application.id": self._group,
            "bootstrap.servers": self._bootstrap,
            "num.stream.threads": str(threads),
            "num.standby.replicas": str(standbys),
            "state.dir": f"{self._folder.name}/{name}",
            "statestore.cache.max.bytes": "0",
            "commit.interval.ms": "200",
            "consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
            "consumer.session.timeout.ms": "30000",
            "replication.factor": "1",
            "auto.offset.reset": "earliest",
            **({"group.instance.id": name} if is_static else {}),
            **(config or {}),
        }
        self._ask({"cmd": "start", "name": name, "topic": self._topic, "config": settings})

    def close(self, name: str) -> None:
        self._ask({"cmd": "close", "name": name})

    def crash(self) -> None:
        """Crash all of them at the same time; none leaves its group."""
        self._child.kill()

    def threads(self, name: str) -> list[Thread]:
        """Its threads, by number; none unless it is running."""
        answer = self._ask({"cmd": "threads", "name": name})
        if answer["state"] != "RUNNING":
            return []
        found = []
        for each in answer["threads"]:
            client, _, number = each["thread"].rpartition("-StreamThread-")
            process_id = client.removeprefix(f"{self._group}-")
            found.append(Thread(process_id, int(number), tuple(each["active"]), tuple(each["standby"])))
        return sorted(found, key=lambda thread: thread.number)

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._child.stdin.write(json.dumps(command) + "\n")
            line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the applications have ended: {self._child.log_tail()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.kill()
        self._child.stdout.close()
        self._folder.cleanup()
