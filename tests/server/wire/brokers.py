"""The two configurations on which stories are played, as a real broker and as `kgm serve`."""

import contextlib
import json
import subprocess
from collections.abc import Iterator

from tests import KGM
from tests.kafka.broker import KafkaCluster
from tests.kafka.versions import broker_of
from tests.server.wire.play import TOPICS

#: There is one partition of __consumer_offsets, so that one broker coordinates every group. quick: the first member of
#: a group forms it alone, immediately. slow: time for several to join at the start, room for two members, targets of
#: consumer groups six seconds apart, a broker that looks for expired offsets every second (and drops Empty groups that
#: have none), and a second broker (`at=other`).
BROKERS = {"quick": 1, "slow": 2}
SETTINGS = {
    "quick": {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "200",
        "offset.metadata.max.bytes": "16",
        "offsets.topic.num.partitions": "1",
        "group.consumer.session.timeout.ms": "40000",
        "group.consumer.heartbeat.interval.ms": "4000",
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.assignment.interval.ms": "0",
    },
    "slow": {
        "group.initial.rebalance.delay.ms": "3000",
        "group.min.session.timeout.ms": "200",
        "group.max.size": "2",
        "group.consumer.session.timeout.ms": "40000",
        "group.consumer.heartbeat.interval.ms": "4000",
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.max.size": "2",
        "group.consumer.assignment.interval.ms": "6000",
        "offsets.retention.check.interval.ms": "1000",
        "offsets.topic.num.partitions": "1",
    },
}
#: With one thread of each kind, a real broker processes requests in the order in which it has read them.
IN_ORDER = {
    "num.network.threads": "1",
    "num.io.threads": "1",
    "group.coordinator.threads": "1",
}


@contextlib.contextmanager
def real(kind: str) -> Iterator[str]:
    """A Kafka 4.3.0 cluster; gives the address of one broker."""
    with KafkaCluster(BROKERS[kind], properties={**SETTINGS[kind], **IN_ORDER}) as cluster:
        cluster.create_topics(TOPICS)
        yield cluster.bootstrap.partition(",")[0]


@contextlib.contextmanager
def real_of(version: str) -> Iterator[str]:
    """A broker of another version, configured like the quick one as far as that version allows; gives its address."""
    settings = {name: value for name, value in SETTINGS["quick"].items() if "consumer" not in name}
    in_order = {name: value for name, value in IN_ORDER.items() if "coordinator" not in name}
    with broker_of(version, {**settings, **in_order}) as cluster:
        cluster.create_topics(TOPICS)
        yield cluster.bootstrap.partition(",")[0]


@contextlib.contextmanager
def served(kind: str, *options: str) -> Iterator[str]:
    """A `kgm serve`; gives its address."""
    command = [*KGM, "serve", "--listen", "127.0.0.1:0", *options]
    command += ["--brokers", str(BROKERS[kind])]
    command += [word for name, count in TOPICS.items() for word in ("--topic", f"{name}:{count}")]
    command += [word for name, value in SETTINGS[kind].items() for word in ("--set", f"{name}={value}")]
    command += ["--set", "turn.max.ms=60000"]  # in the order of arrival, as on the real one
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["listening"]
    finally:
        process.kill()
        process.communicate()
