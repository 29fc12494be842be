"""Brokers of other versions than 4.3: from Maven, on loopback, one broker each.

    with broker_of("3.9.1") as kafka:
        ...

`VERSIONS` are the versions that kgm is tested with. Up to 2.8 a broker needs ZooKeeper, which runs in the same JVM;
from 3.3 on it runs in KRaft mode. 3.9 has both coordinators: `3.9.1+new` turns the new one on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.kafka.broker import KafkaCluster, OldKafka
from tests.kafka.jars import KAFKA_VERSION
from tests.kafka.java_tools import QUICK
from tests.kafka.shared import shared

#: Oldest first. The part before a `+` is the version of the jars.
VERSIONS: Final = (
    "2.4.1", "2.8.2", "3.3.2", "3.6.2", "3.9.1", "3.9.1+new", "4.0.1", "4.1.1", "4.2.0", "4.3.0", "4.4.0",
)  # fmt: skip
#: For a consumer group: longer than a busy machine makes a member wait for the processor.
LONG_CONSUMER_SESSION: Final = {"consumer.session.timeout.ms": 60_000}
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
    """A broker of one of `VERSIONS`, not started yet; use it as a context manager. listeners: additional ones, name to
    security protocol. logs_groups: whether its log has what group coordinators log at level INFO."""
    number, _, variant = version.partition("+")
    more = {**(_NEW_COORDINATOR if variant == "new" else {}), **(properties or {})}
    if _is_kraft(number):
        jvm_options = [*QUICK, *LOGS_GROUPS] if logs_groups else QUICK
        return KafkaCluster(properties=more, listeners=listeners, jvm_options=jvm_options, version=number)
    return OldKafka(more, version=number, listeners=listeners, logs_groups=logs_groups)


def shared_broker(
    version: str = KAFKA_VERSION, properties: Mapping[str, str] | None = None, *, logs_groups: bool = False
) -> Any:
    """A started broker of one of `VERSIONS`, shared by all tests of the run that ask for these properties."""
    return shared(_start, version, tuple(sorted((properties or {}).items())), logs_groups)


def _start(version: str, properties: tuple[tuple[str, str], ...], logs_groups: bool) -> KafkaCluster | OldKafka:
    return broker_of(version, dict(properties), logs_groups=logs_groups).start()


def _is_kraft(number: str) -> bool:
    return tuple(map(int, number.split(".")[:2])) >= (3, 3)
