"""aiokafka's consumer, producer and admin client on the embedded server."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

pytestmark = [pytest.mark.shows("client aiokafka"), pytest.mark.slow]
PATIENCE_S = 30


async def static_consumer(server, name):
    consumer = AIOKafkaConsumer(
        "t",
        bootstrap_servers=server.bootstrap,
        group_id="g",
        group_instance_id=name,
        auto_offset_reset="earliest",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=300,
    )
    await consumer.start()
    return consumer


async def story(server):
    producer = AIOKafkaProducer(bootstrap_servers=server.bootstrap, enable_idempotence=True)
    await producer.start()
    for n in range(30):
        await producer.send_and_wait("t", b"%d" % n, partition=n % 6)
    await producer.stop()

    a, b = await asyncio.gather(static_consumer(server, "a"), static_consumer(server, "b"))
    values = set()
    while len(values) < 30:
        for consumer in (a, b):
            for records in (await consumer.getmany(timeout_ms=50)).values():
                values |= {int(record.value) for record in records}
    assert values == set(range(30))
    await a.commit()
    await b.commit()
    group = server.inspect(lambda coordinator: coordinator.group("g"))
    assert {m.group_instance_id for m in group.members} == {"a", "b"}

    admin = AIOKafkaAdminClient(bootstrap_servers=server.bootstrap)
    await admin.start()
    offsets = await admin.list_consumer_group_offsets("g")
    assert {at.partition: row.offset for at, row in offsets.items()} == dict.fromkeys(range(6), 5)
    assert await admin.list_consumer_groups() == [("g", "consumer")]
    await admin.close()

    owned = a.assignment()
    await a.stop()
    again = await static_consumer(server, "a")
    assert again.assignment() == owned
    assert server.inspect(lambda coordinator: coordinator.group("g")).generation == group.generation
    await again.stop()
    await b.stop()


def test_static_consumers_read_commit_and_come_back(cluster):
    server = cluster()
    asyncio.run(asyncio.wait_for(story(server), PATIENCE_S))
