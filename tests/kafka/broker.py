"""Kafka brokers for tests: `KafkaCluster` (4.3, KRaft) and `OldKafka` (2.2.2, ZooKeeper).

A cluster listens on the loopback interface only, on free ports that it keeps over a restart. Its
folder (configuration, data, logs) is temporary. Timeouts are short so that tests are quick;
every broker setting can be overridden.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.kafka import class_archive
from tests.kafka import jars as _jars
from tests.kafka.jars import KAFKA_VERSION
from tests.kafka.java_tools import QUICK, drivers, java_command, kafka_class_path
from tests.kafka.process import Child
from tests.kafka.records import produce
from tests.selection import keeps_brokers
from tests.waiting import until

START_TIMEOUT_S: Final = 90
SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
# pytest-randomly gives the global generator the same seed in every worker; ports must differ.
_random = random.SystemRandom()

DEFAULTS: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # Otherwise groups without committed offsets that are empty at that moment are deleted, and generations start over.
    "offsets.retention.check.interval.ms": "86400000",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "broker.heartbeat.interval.ms": "500",
    # Otherwise a controller that has nothing to do writes a record every half second.
    "metadata.max.idle.interval.ms": "0",
    # To fit into a small heap and two cores.
    "log.cleaner.dedupe.buffer.size": "4194304",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "background.threads": "2",
    "num.partitions": "1",
}


#: A killed broker is noticed within 2 s instead of 9 s. Where there is no other broker to take over, a busy machine must
#: not make the only one look dead, and a heartbeat a second took a tenth of a core.
_NOTICED: Final = {"broker.session.timeout.ms": "2000"}
_NEVER_NOTICED: Final = {"broker.session.timeout.ms": "600000", "broker.heartbeat.interval.ms": "60000"}


def free_ports(count: int) -> list[int]:
    """Ports on which nothing listens, below the range used for outgoing connections."""
    ports: list[int] = []
    while len(ports) < count:
        port = _random.randrange(12_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


class _Cluster:
    """What both kinds of cluster share: topics, records, the context manager."""

    bootstrap: str
    folder: Path
    _is_guest = False

    @property
    def port(self) -> int:
        """The port of a cluster that has one broker."""
        (address,) = self.bootstrap.split(",")
        return int(address.rpartition(":")[2])

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    def create_topics(self, topics: Mapping[str, int], *, replication_factor: int = 1) -> None:
        """Create topics ({name: number of partitions}) and wait until every broker's metadata has them."""
        admin = self.admin()
        new = [NewTopic(name, count, replication_factor) for name, count in topics.items()]
        for future in admin.create_topics(new, operation_timeout=30).values():
            future.result(30)

        def have_leaders() -> bool:
            known = admin.list_topics(timeout=10).topics
            return all(
                name in known
                and len(known[name].partitions) == count
                and all(p.leader >= 0 and p.error is None for p in known[name].partitions.values())
                for name, count in topics.items()
            )

        until(have_leaders, f"topics {sorted(topics)} have no leaders", 30, every_s=0.02)

    def configure_group(self, group_id: str, settings: Mapping[str, object]) -> None:
        """Give a group settings of its own, in place of the broker's, and wait until the broker has them."""
        set_to = AlterConfigOpType.SET
        entries = [ConfigEntry(name, str(value), incremental_operation=set_to) for name, value in settings.items()]
        resource = ConfigResource(ResourceType.GROUP, group_id, incremental_configs=entries)
        admin = self.admin()  # the future stays unanswered if the client is dropped
        admin.incremental_alter_configs([resource])[resource].result(30)
        wanted = {name: str(value) for name, value in settings.items()}

        def has_them() -> bool:
            asked = ConfigResource(ResourceType.GROUP, group_id)
            stated = admin.describe_configs([asked])[asked].result(30)
            return all(stated[name].value == value for name, value in wanted.items())

        until(has_them, f"group {group_id} does not have {wanted}")

    def produce(self, topic: str, values: Iterable[bytes | str], *, partition: int | None = None) -> None:
        """Produce values (keyless) and wait until all are acknowledged."""
        produce(self.bootstrap, topic, values, None if partition is None else [partition])

    def __getstate__(self) -> dict[str, Any]:
        """The state for another process, which knows the brokers but does not own them: its `stop` leaves them
        alone."""
        return {**self.__dict__, "_child": None, "_children": {}, "_is_guest": True}

    def _leave_folder(self) -> None:
        """Delete the folder, or say where it is (`--keep-brokers`)."""
        if self.folder == Path() or self._is_guest:
            return
        if keeps_brokers():
            print(f"\nbroker's folder: {self.folder}", file=sys.__stderr__)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder = Path()

    def start(self) -> Self:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class KafkaCluster(_Cluster):
    """Kafka brokers in KRaft mode (of 4.3, or of another `version` from 3.3 on), ids from 1.

    With three or more brokers each is also a controller, so that any one of them may be killed;
    with fewer, broker 1 is the only controller and must stay.

    `properties` override any broker setting. `listeners` adds listeners ({"SASL_SSL": "SASL_SSL"},
    name to security protocol) in addition to the PLAINTEXT one that the brokers use; `bootstrap_of` gives their
    addresses. `scram_users` ({name: password}) get SCRAM-SHA-256 and -512 credentials. The default `jvm_options` are
    for a quick start; benchmarks pass those of Kafka's own scripts.
    """

    def __init__(
        self,
        n_brokers: int = 1,
        properties: Mapping[str, str] | None = None,
        *,
        listeners: Mapping[str, str] | None = None,
        scram_users: Mapping[str, str] | None = None,
        heap_mb: int = 400,
        jvm_options: Sequence[str] = QUICK,
        version: str = KAFKA_VERSION,
    ) -> None:
        self._version = version
        self.properties = dict(properties or {})
        self.broker_ids = list(range(1, n_brokers + 1))
        self._listeners = {"PLAINTEXT": "PLAINTEXT", **(listeners or {})}
        self._scram_users = dict(scram_users or {})
        self._heap_mb = heap_mb
        self._jvm_options = jvm_options
        self._cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "a")
        self._children: dict[int, Child] = {}
        self._ports: dict[tuple[int, str], int] = {}
        self.folder = Path()

    @property
    def bootstrap(self) -> str:  # type: ignore[override]
        return self.bootstrap_of("PLAINTEXT")

    def bootstrap_of(self, listener: str) -> str:
        """host:port,... of one listener on every broker."""
        return ",".join(self.address(broker_id, listener) for broker_id in self.broker_ids)

    def address(self, broker_id: int, listener: str = "PLAINTEXT") -> str:
        return f"127.0.0.1:{self._ports[broker_id, listener]}"

    def start(self) -> Self:
        """Start every broker; returns when the offsets topic's coordinators answer."""
        drivers()
        if self._version == KAFKA_VERSION:
            class_archive.ensure(kafka_class_path())
        self.folder = Path(tempfile.mkdtemp(prefix="kgm-kafka-"))
        names = [*self._listeners, "CONTROLLER"]
        places = [(broker_id, name) for broker_id in self.broker_ids for name in names]
        self._ports = dict(zip(places, free_ports(len(places)), strict=True))
        try:
            for broker_id in self.broker_ids:
                self._start_broker(broker_id)
            for broker_id in self.broker_ids:
                self._wait(broker_id, expected=len(self.broker_ids))
            _wait_for_coordinator(self._ports[self.broker_ids[0], "PLAINTEXT"])
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kill every broker and delete the folder."""
        for child in self._children.values():
            child.kill()
        self._children.clear()
        self._leave_folder()

    def kill(self, broker_id: int) -> None:
        """SIGKILL a broker (a crash)."""
        self._children.pop(broker_id).kill()

    @contextmanager
    def hanging(self, broker_id: int) -> Iterator[None]:
        """In this block a broker is suspended (SIGSTOP): it holds its connections, and answers nothing."""
        pid = self._children[broker_id].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def shut_down(self, broker_id: int) -> None:
        """Stop a broker cleanly; its partitions and coordinators move first."""
        self._children.pop(broker_id).terminate()

    def restart(self, broker_id: int) -> None:
        """Start a broker again (killing it first if it runs), on the same ports and data. Waits until it answers and its
        replicas are in sync, so that the next broker may be killed without losing records."""
        if broker_id in self._children:
            self.kill(broker_id)
        self._start_broker(broker_id)
        self._wait(broker_id, expected=len(self._children))
        self._wait_in_sync()

    def _wait_in_sync(self) -> None:
        """Wait until each replica on a broker that runs is in sync."""
        admin, running = self.admin(), set(self._children)

        def are_in_sync() -> bool:
            topics = admin.list_topics(timeout=10).topics.values()
            return all(running & set(p.replicas) <= set(p.isrs) for topic in topics for p in topic.partitions.values())

        until(are_in_sync, "replicas are not in sync", every_s=0.05)

    @property
    def away(self) -> list[int]:
        """The brokers that have been killed or shut down."""
        return [broker_id for broker_id in self.broker_ids if broker_id not in self._children]

    def pid(self, broker_id: int) -> int:
        return self._children[broker_id].pid

    def log_dir(self, broker_id: int = 1) -> Path:
        """The folder of a broker's partitions (`__consumer_offsets-0`, ...)."""
        return self.folder / f"data-{broker_id}"

    def log_tail(self, broker_id: int = 1, lines: int = 30) -> str:
        path = self.folder / f"broker-{broker_id}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])

    def _start_broker(self, broker_id: int) -> None:
        config = self.folder / f"broker-{broker_id}.properties"
        options = [*self._jvm_options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        is_new = not config.exists()
        # A restarted broker is admitted only when the session of its predecessor has ended.
        session = _NEVER_NOTICED if is_new and len(self.broker_ids) == 1 else _NOTICED
        settings = self._settings(broker_id) | session | self.properties
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        if is_new and self._ends_when_formatted:
            self._format(config)
        elif is_new:
            options.append(f"-Dkgm.format={self._format_arguments(config)}")
        command = java_command(
            "Leash",
            "kafka.Kafka",
            str(config),
            heap_mb=self._heap_mb,
            options=options,
            class_path=kafka_class_path(version=self._version),
        )
        self._children[broker_id] = Child(command, log=self.folder / f"broker-{broker_id}.log")

    @property
    def _ends_when_formatted(self) -> bool:
        """Before 3.9 StorageTool ends the JVM that it runs in."""
        return tuple(map(int, self._version.split(".")[:2])) < (3, 9)

    def _format(self, config: Path) -> None:
        arguments = self._format_arguments(config).split()
        path = kafka_class_path(version=self._version)
        command = java_command("kafka.tools.StorageTool", "format", *arguments, class_path=path)
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False)
        if done.returncode:
            raise RuntimeError(f"Kafka {self._version} cannot format its folder:\n{done.stdout}{done.stderr}")

    def _format_arguments(self, config: Path) -> str:
        arguments = f"-t {self._cluster_id} -c {config}"
        for name, password in self._scram_users.items():
            for mechanism in SCRAM_MECHANISMS:
                arguments += f" --add-scram {mechanism}=[name={name},password={password}]"
        return arguments

    def _settings(self, broker_id: int) -> dict[str, str]:
        count = len(self.broker_ids)
        controllers = self.broker_ids if count >= 3 else self.broker_ids[:1]
        names = [*self._listeners] + (["CONTROLLER"] if broker_id in controllers else [])
        protocols = {**self._listeners, "CONTROLLER": "PLAINTEXT"}
        copies = str(min(count, 3))
        return {
            **DEFAULTS,
            **self._scram_settings(),
            "process.roles": "broker,controller" if broker_id in controllers else "broker",
            "node.id": str(broker_id),
            "controller.quorum.voters": ",".join(f"{c}@{self.address(c, 'CONTROLLER')}" for c in controllers),
            "listeners": ",".join(f"{name}://{self.address(broker_id, name)}" for name in names),
            "listener.security.protocol.map": ",".join(f"{name}:{p}" for name, p in protocols.items()),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.folder / f"data-{broker_id}"),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": "1",
        }

    def _scram_settings(self) -> dict[str, str]:
        """The broker's side of SCRAM on every SASL listener, when there are users for it."""
        if not self._scram_users:
            return {}
        settings = {"sasl.enabled.mechanisms": ",".join(SCRAM_MECHANISMS)}
        for name, protocol in self._listeners.items():
            for mechanism in SCRAM_MECHANISMS if protocol.startswith("SASL") else ():
                key = f"listener.name.{name.lower()}.{mechanism.lower()}.sasl.jaas.config"
                settings[key] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return settings

    def _wait(self, broker_id: int, *, expected: int) -> None:
        child = self._children[broker_id]
        port = self._ports[broker_id, "PLAINTEXT"]
        _wait_for_brokers(port, child, expected=expected)


class OldKafka(_Cluster):
    """One broker with its ZooKeeper in the same JVM; 2.2.2 by default, whose LeaveGroup and DescribeGroups stop at v2."""

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        version: str = "2.2.2",
        heap_mb: int = 300,
        listeners: Mapping[str, str] | None = None,
        logs_groups: bool = False,
    ) -> None:
        """listeners: those in addition to the PLAINTEXT one, name to security protocol. logs_groups: whether its log
        has what the group coordinator logs at level INFO."""
        self.properties = dict(properties or {})
        self._listeners = dict(listeners or {})
        self._ports: dict[str, int] = {}
        self._version = version
        self._heap_mb = heap_mb
        self._logs_groups = logs_groups
        self._child: Child | None = None
        self.folder = Path()
        #: host:port of ZooKeeper.
        self.zookeeper = ""

    def start(self) -> Self:
        drivers()
        self.folder = Path(tempfile.mkdtemp(prefix="kgm-old-kafka-"))
        port, zookeeper, *others = free_ports(2 + len(self._listeners))
        self.bootstrap = f"127.0.0.1:{port}"
        self.zookeeper = f"127.0.0.1:{zookeeper}"
        self._ports = {"PLAINTEXT": port, **dict(zip(self._listeners, others, strict=True))}
        protocols = {"PLAINTEXT": "PLAINTEXT", **self._listeners}
        zk_config = self.folder / "zookeeper.properties"
        zk_config.write_text(
            f"dataDir={self.folder / 'zookeeper'}\nclientPort={zookeeper}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\ntickTime=500\nmaxClientCnxns=0\n"
        )
        settings = {
            "broker.id": "1",
            "listeners": ",".join(f"{name}://{self.bootstrap_of(name)}" for name in self._ports),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "zookeeper.connect": f"127.0.0.1:{zookeeper}",
            "zookeeper.connection.timeout.ms": "30000",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": DEFAULTS["group.initial.rebalance.delay.ms"],
            "offsets.retention.check.interval.ms": DEFAULTS["offsets.retention.check.interval.ms"],
            "group.min.session.timeout.ms": "500",
            "auto.create.topics.enable": "false",
            "log.cleaner.dedupe.buffer.size": "4194304",
            **self.properties,
        }
        config = self.folder / "broker.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        log4j = self.folder / "log4j.properties"
        log4j.write_text(
            "log4j.rootLogger=WARN, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.out.layout.ConversionPattern=%d %p %c: %m%n\n"
            + ("log4j.logger.kafka.coordinator.group=INFO\n" if self._logs_groups else "")
        )
        command = java_command(
            "Leash",
            "kafka.Kafka",
            str(config),
            heap_mb=self._heap_mb,
            options=[
                *QUICK,
                f"-Dlog4j.configuration=file:{log4j}",
                "-Dzookeeper.jmx.log4j.disable=true",
                f"-Dkgm.zookeeper={zk_config}",
            ],
            class_path=_jars.classpath(f"kafka-{self._version}", drivers()),
        )
        self._child = Child(command, log=self.folder / "broker.log")
        try:
            _wait_for_brokers(port, self._child, expected=1)
            _wait_for_coordinator(port)
        except BaseException:
            self.stop()
            raise
        return self

    def bootstrap_of(self, listener: str) -> str:
        """host:port of one listener."""
        return f"127.0.0.1:{self._ports[listener]}"

    def log_dir(self) -> Path:
        """The folder of the partitions (`__consumer_offsets-0`, ...)."""
        return self.folder / "data"

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None
        self._leave_folder()


def _ask(port: int, api_key: int, version: int, body: bytes, *, timeout_s: float = 5) -> bytes:
    """Send one request on a new connection; returns the response after its correlation id. OSError without an answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        connection.settimeout(timeout_s)
        frame = struct.pack(">hhih", api_key, version, 7, -1) + body
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        with connection.makefile("rb") as stream:
            (length,) = struct.unpack(">i", stream.read(4).ljust(4, b"\xff"))
            answer = stream.read(max(length, 0))
    if len(answer) < 4:
        message = "the connection was closed"
        raise ConnectionError(message)
    return answer[4:]


def _metadata(port: int) -> tuple[int, int]:
    """(number of live brokers, controller id or -1), from Metadata v1 without topics."""
    answer = _ask(port, 3, 1, struct.pack(">i", 0))
    (count,) = struct.unpack_from(">i", answer, 0)
    at = 4
    for _ in range(count):
        (host,) = struct.unpack_from(">h", answer, at + 4)
        at += 4 + 2 + host + 4
        (rack,) = struct.unpack_from(">h", answer, at)
        at += 2 + max(rack, 0)
    (controller,) = struct.unpack_from(">i", answer, at)
    return count, controller


def _wait_for_brokers(port: int, child: Child, *, expected: int) -> None:
    def answers() -> bool:
        if not child.running:
            message = f"the broker ended while it started; its log:\n{child.log_tail()}"
            raise RuntimeError(message)
        try:
            count, controller = _metadata(port)
        except OSError:
            return False
        return count >= expected and controller >= 0

    until(answers, lambda: f"the broker does not answer; its log:\n{child.log_tail()}", START_TIMEOUT_S, every_s=0.05)


def _wait_for_coordinator(port: int) -> None:
    """Wait until FindCoordinator v0 answers without error: the first request makes Kafka create the offsets topic."""
    group = b"warm-up"

    def error_code() -> int:
        answer = _ask(port, 10, 0, struct.pack(">h", len(group)) + group, timeout_s=30)
        return int(struct.unpack_from(">h", answer, 0)[0])

    until(error_code, "there is no group coordinator", START_TIMEOUT_S, accept=lambda code: code == 0, every_s=0.05)
