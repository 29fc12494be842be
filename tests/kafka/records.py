"""Producing records with librdkafka."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import KafkaError, Producer


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
