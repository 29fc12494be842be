"""kafka-python's consumer and admin client on the embedded server."""

import contextlib
import threading
import warnings

import pytest

from tests.server.clients.served_group import group
from tests.waiting import until

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its way of reading its own resources
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from kafka.admin import MemberToRemove

pytestmark = [
    pytest.mark.shows("client kafka-python"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@contextlib.contextmanager
def static_consumers(server, *names):
    """Consumers that poll, each in a thread of its own, until the block ends; the values and partitions of each."""
    values: dict[str, list[bytes]] = {name: [] for name in names}
    owned: dict[str, int] = dict.fromkeys(names, 0)
    stop = threading.Event()

    def run(name):
        consumer = KafkaConsumer(
            "t",
            bootstrap_servers=server.bootstrap,
            group_id="g",
            group_instance_id=name,
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=300,
        )
        try:
            # With neither metadata nor patience this client can hang for good while it joins twice in a row: its
            # leader assigns nothing at first, and a poll that times out amid a JoinGroup loses the SyncGroup's answer.
            consumer.partitions_for_topic("t")
            while not stop.is_set():
                for records in consumer.poll(timeout_ms=1000).values():
                    values[name] += [record.value for record in records]
                owned[name] = len(consumer.assignment())
            consumer.commit()
        finally:
            consumer.close(autocommit=False)

    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    try:
        yield values, owned
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_static_consumers_read_stay_and_are_removed_together(cluster):
    server = cluster()
    with static_consumers(server, "a", "b") as (values, owned):
        until(lambda: owned == {"a": 3, "b": 3} and group(server).state == "Stable", "the group is not stable", 20)
        generation = group(server).generation
        producer = KafkaProducer(bootstrap_servers=server.bootstrap)
        for n in range(30):
            producer.send("t", b"%d" % n, partition=n % 6)
        producer.close()
        until(lambda: len(values["a"]) == len(values["b"]) == 15, "not all records were read", 20)
        assert {int(v) for v in values["a"] + values["b"]} == set(range(30))
    assert {m.group_instance_id for m in group(server).members} == {"a", "b"}
    assert group(server).generation == generation

    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap)
    try:
        described = admin.describe_groups(["g"])["g"]
        assert described["group_state"] == "Stable"
        assert {m["group_instance_id"] for m in described["members"]} == {"a", "b"}
        offsets = admin.list_group_offsets("g")["g"]
        assert {partition.partition: row.offset for partition, row in offsets.items()} == dict.fromkeys(range(6), 5)
        removed = admin.remove_group_members("g", [MemberToRemove(group_instance_id=n) for n in ("a", "b", "nobody")])
        assert [getattr(e, "__name__", type(e).__name__) for e in removed.values()] == [
            "NoError",
            "NoError",
            "UnknownMemberIdError",
        ]
        assert (group(server).state, group(server).members) == ("Empty", ())
        assert group(server).generation == generation + 1
        assert [row["group_id"] for row in admin.list_groups()] == ["g"]
        admin.delete_groups(["g"])
        assert group(server) is None
    finally:
        admin.close()
