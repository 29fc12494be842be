"""What is on the pictures: a group of three static members on the embedded coordinator, and kgm at a terminal.

The members join and stop when they are told to and not before, and choose their own ids. So whatever is shown is the
same in every run, except the port and the times, which `disguised` makes the same."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Producer

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.server import EmbeddedServer, serve_in_thread
from kgm.server.cluster.topics import topic_id
from tests.cli.environment import bare
from tests.client.joiners import Joiner, form_group
from tests.kafka.heartbeat_group import HeartbeatGroup, java_member_id
from tests.server.wire_client import WireClient

GROUP, TOPIC, PARTITIONS = "payments", "transactions", 12
INSTANCE_IDS = ("payments-1", "payments-2", "payments-3")
#: However long a picture takes, no session ends.
_HEARTBEAT_EVERY_S = 5.0
_LIMIT_S = 300
_LEAVE_ALTERNATE_SCREEN = "\x1b[?1049l"


@dataclass(slots=True)
class Scene:
    """The running group. member_ids: those that its members have now, in the order of their instance ids."""

    server: EmbeddedServer
    group: HeartbeatGroup
    member_ids: list[str] = field(default_factory=list)
    _started: int = 0
    _one_request: threading.Lock = field(default_factory=threading.Lock)

    def start(self, instance_id: str) -> str:
        """A member joins; its member id."""
        self._started += 1
        named = uuid.uuid5(uuid.NAMESPACE_OID, f"kgm {self._started}")
        member_id = java_member_id(named.bytes)
        with self._one_request:
            self.group.join(member_id, instance_id)
            self.group.heartbeat_until_stable()
        return member_id

    def stop(self, number: int) -> None:
        """A process stops; its member is away."""
        with self._one_request:
            self.group.step_away(self.member_ids[number])

    def start_again(self, number: int) -> None:
        """Another process takes its place, with another member id."""
        self.member_ids[number] = self.start(INSTANCE_IDS[number])

    def keep_alive(self, ended: threading.Event) -> None:
        """Heartbeat for those that run, until it has ended."""
        while not ended.wait(_HEARTBEAT_EVERY_S):
            with self._one_request:
                self.group.heartbeat_until_stable()

    def commit(self, member_id: str, partitions: Sequence[int]) -> None:
        rows = [OffsetCommitRequestPartition(partition_index=one, committed_offset=0) for one in partitions]
        topics = [OffsetCommitRequestTopic(topic_id=topic_id(TOPIC), partitions=rows)]
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.group.epochs[member_id],
            member_id=member_id,
            topics=topics,
        )
        answer = self.group.wire.ask(request)
        assert all(row.error_code == 0 for row in answer.topics[0].partitions), answer  # type: ignore[attr-defined]


@contextmanager
def scene() -> Iterator[Scene]:
    """The group, stable, with offsets committed for every partition."""
    settings = BrokerSettings.from_overrides({"group.consumer.assignment.interval.ms": "0"})
    with serve_in_thread(topics={TOPIC: PARTITIONS}, settings=settings) as server:
        wire = WireClient(server.port)
        stage = Scene(server=server, group=HeartbeatGroup(wire, GROUP, [TOPIC], "uniform"))
        stage.member_ids += [stage.start(name) for name in INSTANCE_IDS]
        for member_id in stage.member_ids:
            stage.commit(member_id, stage.group.owned[member_id][topic_id(TOPIC)])
        ended = threading.Event()
        heartbeats = threading.Thread(target=stage.keep_alive, args=(ended,))
        heartbeats.start()
        try:
            yield stage
        finally:
            ended.set()
            heartbeats.join()
            wire.close()


#: The groups of the fleet: {group: (instance ids, age of its records in seconds, how many of them it has read)}.
FLEET = {
    "payments": (("payments-1", "payments-2", "payments-3"), 8_130, 2),
    "orders-eu": (("orders-eu-1", "orders-eu-2"), 754, 7),
    "orders-us": (("orders-us-1", "orders-us-2"), 754, 9),
    "invoices": (("invoices-1",), 0, 10),
    "clickstream": (("clicks-1", "clicks-2", "clicks-3", "clicks-4"), 0, 10),
    "mail": (("mail-1",), 0, 10),
}
_RECORDS = 10


@contextmanager
def fleet() -> Iterator[EmbeddedServer]:
    """Groups of the classic protocol, one topic each. Of two a member has left: one waits for the others, one is
    empty."""
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics=dict.fromkeys(FLEET, 4), settings=settings) as server:
        joiners: dict[str, list[Joiner]] = {}
        for name, (instance_ids, age_s, read) in FLEET.items():
            _produce(server.bootstrap, name, age_s)
            joiners[name] = form_group(server, name, instance_ids, name)
            for partition in range(4):
                assert joiners[name][0].commit(partition, read) == 0
        for name in ("clickstream", "mail"):
            _leave(joiners[name][-1])
        try:
            yield server
        finally:
            for joiner in (one for each in joiners.values() for one in each):
                joiner.close()


def _leave(joiner: Joiner) -> None:
    row = MemberIdentity(member_id=joiner.member_id, group_instance_id=joiner.instance_id)
    answer = joiner.wire.ask(LeaveGroupRequest(group_id=joiner.group, members=[row]), version=4)
    assert answer.error_code == 0, answer  # type: ignore[attr-defined]


def _produce(bootstrap: str, topic: str, age_s: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(4):
        for _ in range(_RECORDS):
            producer.produce(topic, b"record", partition=partition, timestamp=round((time.time() - age_s) * 1000))
    assert producer.flush(30) == 0


def at_terminal(
    *words: str, columns: int, rows: int, steps: Callable[[Callable[[str], None]], None] | None = None
) -> str:
    """What a terminal of this size received of kgm; of a screen that is redrawn only its last picture.

    steps: what happens meanwhile; it is given a function that waits until the terminal has received a text."""
    terminal, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "kgm", *words], stdin=other, stdout=other, stderr=other,
        env={
            **bare(), "TERM": "xterm-256color", "COLORTERM": "truecolor", "XDG_CACHE_HOME": "/dev/null",
            "KGM_TIMEOUT": f"{_LIMIT_S}s",  # a busy machine cuts no prediction short
        },
    )  # fmt: skip
    os.close(other)
    received = _Received(terminal)
    try:
        if steps is not None:
            steps(received.wait_for)
        received.read_all()
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    return received.text.rpartition(_LEAVE_ALTERNATE_SCREEN)[2].replace("\r\n", "\n")


@dataclass(slots=True)
class _Received:
    terminal: int
    data: bytes = b""
    end: float = field(default_factory=lambda: time.monotonic() + _LIMIT_S)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    def wait_for(self, text: str) -> None:
        """Raises TimeoutError."""
        while text not in self.text:
            if time.monotonic() > self.end or not self._read():
                raise TimeoutError(f"the terminal never received {text!r}")

    def read_all(self) -> None:
        while self._read():
            if time.monotonic() > self.end:
                raise TimeoutError("the command does not end")

    def _read(self) -> bool:
        try:
            more = os.read(self.terminal, 65536)
        except OSError:  # kgm has ended
            return False
        self.data += more
        return bool(more)


_WAITED = re.compile(r"\bfor \d+s\b")
_TIME = re.compile(r"(?<![\d.:-])\d\d:\d\d:\d\d(?![\d.:])")


def disguised(text: str, port: int) -> str:
    """With port 9092, a second between events (the first two times are the beginning and the end of a watch), and one
    second of waiting where it was more."""
    text = text.replace(f"127.0.0.1:{port}", "127.0.0.1:9092")
    count = len(_TIME.findall(text))
    seconds = iter([0, count - 3, *range(count - 2)])
    return _WAITED.sub("for 1s", _TIME.sub(lambda _: f"14:00:{next(seconds):02}", text))


def disguised_ages(text: str) -> str:
    """With the same seconds in lags of less than an hour, in the ages of commits, and in that of the readings."""
    text = re.sub(r"(\d+m)\d\ds", r"\g<1>34s", text)
    return re.sub(r"\d+s(?=\s+\d+\s+classic)|(?<=within )\d+s", "2s", text)
