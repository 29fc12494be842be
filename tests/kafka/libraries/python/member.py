"""A consumer of kafka-python or aiokafka. Its only argument is a JSON object, see libraries/__init__.py. It prints
"started" before it joins; a line of input closes it, after which it prints "closed". When its input ends, it exits
without telling the broker."""

import asyncio
import json
import os
import sys
import threading

options = json.loads(sys.argv[1])
closing = threading.Event()
common = {
    "bootstrap_servers": options["bootstrap"], "group_id": options["group"], "session_timeout_ms": options["session_ms"],
    "heartbeat_interval_ms": options["heartbeat_ms"],
    **({"client_id": options["client_id"]} if options["client_id"] else {}),
    **({"group_instance_id": options["instance_id"]} if options["instance_id"] else {}),
}  # fmt: skip


def listen():
    if not sys.stdin.readline():
        os._exit(143)
    closing.set()


def of_kafka_python():
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    kinds = {
        "range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }  # fmt: skip
    consumer = KafkaConsumer(
        *options["topics"], **common, max_poll_interval_ms=options["rebalance_ms"], enable_auto_commit=False,
        partition_assignment_strategy=[kinds[options["assignor"]]],
    )  # fmt: skip
    print("started", flush=True)
    while not closing.is_set():
        consumer.poll(timeout_ms=50)
    consumer.close()


async def of_aiokafka():
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    kinds = {
        "range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor,
    }  # fmt: skip
    consumer = AIOKafkaConsumer(
        *options["topics"], **common, rebalance_timeout_ms=options["rebalance_ms"], enable_auto_commit=False,
        partition_assignment_strategy=[kinds[options["assignor"]]],
    )  # fmt: skip
    print("started", flush=True)
    await consumer.start()
    while not closing.is_set():
        await consumer.getmany(timeout_ms=50)
    await consumer.stop()


threading.Thread(target=listen, daemon=True).start()
if options["library"] == "aiokafka":
    asyncio.run(of_aiokafka())
else:
    of_kafka_python()
print("closed", flush=True)
