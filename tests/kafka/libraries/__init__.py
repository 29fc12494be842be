"""Consumers of any client library in processes of their own, all with the same interface:

    with LibraryMembers(kafka.bootstrap) as members:
        a = members.start("sarama", group="g", topics=["t"], instance_id="a", assignor="range", ...)
        a.close()  # or a.crash()

Java and librdkafka have `tests.kafka.members`; the others are programs in this folder, which get their options as JSON:
library, bootstrap, group, topics, instance_id, client_id, assignor, protocol, session_ms, heartbeat_ms, rebalance_ms.
What a member owns is not known here: ask the broker."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.assignors.libraries.oracle import go_program, node_packages, python_packages
from tests.kafka.members import JavaMembers, RdMembers
from tests.kafka.process import Child
from tests.needs import needs

_FOLDER = Path(__file__).parent
GO, NODE, PYTHON = ("sarama", "franz-go", "kafka-go"), ("kafkajs", "platformatic"), ("kafka-python", "aiokafka")
LIBRARIES = ("java", "librdkafka", *GO, *NODE, *PYTHON)
#: A library that kgm was never taught.
TENTH = "tenth"
#: A process that has not closed after this time is considered hung.
_CLOSE_S = 60.0


class LibraryProcess:
    """A consumer in a process of its own. started_at_s: when it reported its start, by the monotonic clock; None
    before."""

    def __init__(self, library: str, options: dict[str, Any], log: Path) -> None:
        self.started_at_s: float | None = None
        self._child = Child([*_command(library), json.dumps(options)], log=log, pipe_stdout=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with self._child.stdout as lines:
            for line in lines:
                if line == "started\n":
                    self.started_at_s = time.monotonic()

    def close(self) -> None:
        """A clean stop, as the library does by default."""
        self._child.stdin.write("close\n")
        self._child.wait(_CLOSE_S)
        self._reader.join()

    def crash(self) -> None:
        """End without telling the broker."""
        self._child.kill()
        self._reader.join()

    @property
    def running(self) -> bool:
        return self._child.running

    def log_tail(self) -> str:
        return self._child.log_tail()


class KnownProcess:
    """The same interface for a member of `tests.kafka.members`."""

    def __init__(self, member: Any) -> None:
        self._member = member

    @property
    def started_at_s(self) -> float | None:
        return next((event.at_s for event in self._member.of_kind("started")), None)

    def close(self) -> None:
        self._member.close()

    def crash(self) -> None:
        self._member.crash()

    @property
    def running(self) -> bool:
        return not self._member.of_kind("closed", "fatal")

    def log_tail(self) -> str:
        text: str = self._member.story()
        return text


class LibraryMembers:
    """Starts members, and crashes those that are left when the `with` block ends."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._folder = tempfile.TemporaryDirectory(prefix="kgm-libraries-")
        self._java, self._librdkafka = JavaMembers(bootstrap), RdMembers(bootstrap)
        self._alone: list[JavaMembers] = []
        self._processes: list[LibraryProcess] = []
        self._lock = threading.Lock()

    def start(
        self, library: str, *, group: str, topics: list[str], instance_id: str | None, assignor: str, session_ms: int,
        heartbeat_ms: int, rebalance_ms: int, client_id: str | None = None, protocol: str = "classic",
    ) -> LibraryProcess | KnownProcess:  # fmt: skip
        """Start a member. Returns immediately."""
        with self._lock:
            if library in ("java", "librdkafka"):
                if library == "java" and not self._java.members:
                    # It will be the only one left: otherwise a killed member would take down its JVM.
                    self._java.start(group="first-of-its-jvm", topics=topics)
                pool = self._java if library == "java" else self._librdkafka
                if library == "java" and protocol == "consumer":
                    pool = JavaMembers(self.bootstrap)  # a killed member takes down its JVM
                    self._alone.append(pool)
                member = pool.start(
                    group=group, topics=topics, instance_id=instance_id, client_id=client_id, assignor=assignor,
                    protocol=protocol, session_timeout_ms=session_ms, heartbeat_interval_ms=heartbeat_ms,
                    max_poll_interval_ms=rebalance_ms,
                )  # fmt: skip
                return KnownProcess(member)
            options = {
                "library": library, "bootstrap": self.bootstrap, "group": group, "topics": topics,
                "instance_id": instance_id, "client_id": client_id, "assignor": assignor, "protocol": protocol, "session_ms": session_ms,
                "heartbeat_ms": heartbeat_ms, "rebalance_ms": rebalance_ms,
            }  # fmt: skip
            log = Path(self._folder.name) / f"{len(self._processes)}.log"
            process = LibraryProcess(library, options, log)
            self._processes.append(process)
            return process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.crash()
        for pool in (self._java, self._librdkafka, *self._alone):
            pool.stop()
        self._folder.cleanup()


def _command(library: str) -> list[str]:
    if library in GO:
        return [str(go_program(_FOLDER / "go"))]
    if library in NODE:
        return [needs("node"), str(_FOLDER / "node" / "member.mjs"), str(node_packages())]
    if library == TENTH:
        return [needs("env"), f"PYTHONPATH={_FOLDER.parents[2]}", sys.executable, str(_FOLDER / "python" / "tenth.py")]
    return [*python_packages(), str(_FOLDER / "python" / "member.py")]
