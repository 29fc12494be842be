"""Brokers of other versions than 4.3: from Maven, on loopback, one broker each.

    with broker_of("3.9.1") as kafka:
        ...

`VERSIONS` are those that kgm is held against. Up to 2.8 a broker needs ZooKeeper, which runs in the same JVM; from 3.3
on it runs in KRaft mode. 3.9 has both coordinators: `3.9.1+new` turns the new one on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.kafka import jars as _jars
from tests.kafka.broker import KafkaCluster, OldKafka
from tests.kafka.jars import KAFKA_VERSION
from tests.kafka.java_tools import QUICK, drivers, java_command
from tests.kafka.process import Child
from tests.kafka.shared import shared

#: Oldest first. What is in front of a `+` is the version of the jars.
VERSIONS: Final = (
    "2.4.1", "2.8.2", "3.3.2", "3.6.2", "3.9.1", "3.9.1+new", "4.0.1", "4.1.1", "4.2.0", "4.3.0", "4.4.0",
)  # fmt: skip
_FORMAT_TIMEOUT_S: Final = 60
LOGS_GROUPS: Final = tuple(
    f"-Dorg.slf4j.simpleLogger.log.{name}=info"
    for name in ("kafka.coordinator.group", "org.apache.kafka.coordinator.group")
)
_NEW_COORDINATOR: Final = {
    "group.coordinator.new.enable": "true",
    "group.coordinator.rebalance.protocols": "classic,consumer",
}


def broker_of(
    version: str, properties: Mapping[str, str] | None = None, *, listeners: Mapping[str, str] | None = None,
    logs_groups: bool = False,
) -> KafkaCluster | OldKafka:  # fmt: skip
    """A broker of one of `VERSIONS`, not started yet; use it as a context manager. listeners: more of them, name to
    security protocol. logs_groups: whether its log has what group coordinators log at level INFO."""
    number, _, variant = version.partition("+")
    more = {**(_NEW_COORDINATOR if variant == "new" else {}), **(properties or {})}
    if _is_kraft(number):
        jvm_options = [*QUICK, *LOGS_GROUPS] if logs_groups else QUICK
        return _KRaftBroker(number, more, listeners=listeners, jvm_options=jvm_options)
    return OldKafka(more, version=number, listeners=listeners, logs_groups=logs_groups)


def shared_broker(
    version: str = "4.3.0", properties: Mapping[str, str] | None = None, *, logs_groups: bool = False
) -> Any:
    """A broker of one of `VERSIONS` that all tests of the run which ask for these properties share; it is started."""
    return shared(_start, version, tuple(sorted((properties or {}).items())), logs_groups)


def _start(version: str, properties: tuple[tuple[str, str], ...], logs_groups: bool) -> KafkaCluster | OldKafka:
    if version == KAFKA_VERSION:
        options = [*QUICK, *LOGS_GROUPS] if logs_groups else QUICK
        return KafkaCluster(properties=dict(properties), jvm_options=options).start()
    return broker_of(version, dict(properties), logs_groups=logs_groups).start()


def _is_kraft(number: str) -> bool:
    return tuple(map(int, number.split(".")[:2])) >= (3, 3)


class _KRaftBroker(KafkaCluster):
    """One broker of another version in KRaft mode."""

    def __init__(
        self, version: str, properties: Mapping[str, str], *, n_brokers: int = 1,
        listeners: Mapping[str, str] | None = None, jvm_options: Sequence[str] = QUICK,
    ) -> None:  # fmt: skip
        super().__init__(n_brokers, properties, listeners=listeners, jvm_options=jvm_options)
        self._version = version

    def _start_broker(self, broker_id: int) -> None:
        config = self.folder / f"broker-{broker_id}.properties"
        path = class_path(self._version)
        if not config.exists():
            settings = self._settings(broker_id) | self.properties
            config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            # Before 3.9 StorageTool ends the JVM that it runs in.
            arguments = ["format", "-t", self._cluster_id, "-c", str(config)]
            command = java_command("kafka.tools.StorageTool", *arguments, class_path=path)
            done = subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_TIMEOUT_S, check=False)
            if done.returncode:
                raise RuntimeError(f"Kafka {self._version} cannot format its folder:\n{done.stdout}{done.stderr}")
        options = [*self._jvm_options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command = java_command(
            "Leash", "kafka.Kafka", str(config), heap_mb=400, options=options, class_path=path
        )  # fmt: skip
        self._children[broker_id] = Child(command, log=self.folder / f"broker-{broker_id}.log")


def class_path(version: str) -> str:
    """The jars of a version with slf4j-simple in the place of slf4j-nop, so that brokers have a log."""
    paths: list[Path] = sorted(_jars.jars(f"kafka-{version}").glob("*.jar"))
    kept = [str(path) for path in paths if not path.name.startswith("slf4j-nop")]
    return os.pathsep.join([str(drivers()), *kept, f"{_jars.jars('slf4j-simple')}/slf4j-simple-1.7.36.jar"])
