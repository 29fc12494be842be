"""Producing records, and committing offsets, with librdkafka."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.waiting import until


def produce(
    bootstrap: str, topic: str, values: Iterable[bytes | str], partitions: Sequence[int] | None = None, *,
    timeout_s: float = 30, **config: Any,
) -> None:  # fmt: skip
    """Produce values without keys, to these partitions in turn if any are given; wait until all are acknowledged."""
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 2, **config})
    places = itertools.repeat({}) if partitions is None else ({"partition": one} for one in itertools.cycle(partitions))
    for value, place in zip(values, places, strict=False):
        producer.produce(topic, value, on_delivery=lambda error, _: error and failures.append(error), **place)
    if producer.flush(timeout_s):
        raise TimeoutError(f"records for {topic} were not acknowledged within {timeout_s:g} s")
    assert failures == [], failures


def commit(bootstrap: str, group: str, *places: tuple[str, int, int]) -> None:
    """Commit offsets (topic, partition, offset) as a consumer that assigns its partitions itself.

    The coordinator of a group learns of a new topic after clients do, so it is asked again until it takes all of them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    offsets = [TopicPartition(topic, number, offset) for topic, number, offset in places]

    def is_taken() -> bool:
        try:
            errors = [one.error for one in consumer.commit(offsets=offsets, asynchronous=False) if one.error]
        except KafkaException as error:
            errors = [error.args[0]]
        unexpected = [one for one in errors if one.code() != KafkaError.UNKNOWN_TOPIC_OR_PART]
        assert unexpected == [], unexpected
        return not errors

    try:
        until(is_taken, f"the coordinator of {group} does not know the topics")
    finally:
        consumer.close()


class Feed:
    """Produces a record to each partition of a topic, repeatedly, until `end`; continues after a broker did not answer
    for a while."""

    INTERVAL_S = 0.3

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        self._ended = threading.Event()
        #: When all partitions had got one more record, in seconds of `time.monotonic`.
        self.rounds_s: list[float] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 0, "log_level": 2})
        while not self._ended.wait(self.INTERVAL_S):
            for partition in range(self._partitions):
                producer.produce(self._topic, b"x", partition=partition)
            if not producer.flush(30):
                self.rounds_s.append(time.monotonic())

    def end(self) -> None:
        self._ended.set()
        self._thread.join(60)

    def longest_pause_s(self, since_s: float) -> float:
        """The longest time without a record since `since_s`, in seconds."""
        points = [since_s, *(point for point in tuple(self.rounds_s) if point > since_s), time.monotonic()]
        return max(later - earlier for earlier, later in itertools.pairwise(points))
