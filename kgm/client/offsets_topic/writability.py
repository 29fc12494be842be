"""Whether coordinators can write to a partition of `__consumer_offsets`. While they cannot, they refuse every commit,
but still answer heartbeats, descriptions and reads.

A coordinator writes with acks=all. So its partition takes records only while `min.insync.replicas` of its replicas are
in sync, or all of them if it has no more (Partition.effectiveMinIsr of Kafka 3.9 and later). Metadata shows which
replicas are in sync; the topic's setting requires DESCRIBE_CONFIGS on it.

A replica that hangs is in sync until replica.lag.time.max.ms (30 s) is over, or until its broker's session is. All that
time commits are in the leader's log only, where nobody sees them, and time out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kgm.client import requests
from kgm.client.topic_log.partition_log import OFFSETS_TOPIC, OffsetsTopic, Replicas
from kgm.client.transport.brokers import Brokers
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import KgmError
from kgm.protocol.apis import ApiKey
from kgm.text.whole_numbers import whole_number
from kgm.text.wording import many

_MIN_IN_SYNC: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Writability:
    """Whether one partition takes records. least: the topic's `min.insync.replicas`; None if it is not known, which
    matters only while replicas are not in sync. is_replicated: whether all in-sync replicas have what the leader has;
    None if it is not known."""

    partition: int
    replicas: Replicas
    least: int | None = None
    is_replicated: bool | None = True

    @property
    def takes_records(self) -> bool | None:
        """None if it is not known."""
        if not self._has_enough:
            return self._has_enough
        return True if self.is_replicated else None

    @property
    def _has_enough(self) -> bool | None:
        """Whether enough replicas are in sync; None if it is not known how many that is."""
        if self.replicas.in_sync >= self.replicas.count:
            return True
        return None if self.least is None else self.replicas.in_sync >= min(self.least, self.replicas.count)

    @property
    def why_not(self) -> str:
        """Why it takes no records, or may take none."""
        partition = f"partition {self.partition} of {OFFSETS_TOPIC}"
        in_sync = many(self.replicas.in_sync, "in-sync replica")
        if self._has_enough is False:
            return f"commits cannot be written: {partition} has {in_sync} and {_MIN_IN_SYNC} {self.least}"
        if self._has_enough is None:
            why = f"{partition} has {in_sync} of {self.replicas.count}, and {_MIN_IN_SYNC} cannot be read"
        elif self.is_replicated is None:
            why = f"the end of the log of {partition} cannot be read"
        else:
            why = f"an in-sync replica of {partition} lacks records that its leader has"
        return f"it is not known whether commits can be written: {why}"


def writability(
    brokers: Brokers, topic: OffsetsTopic, partitions: Iterable[int], deadline: Deadline
) -> Mapping[int, Writability]:
    """By partition. The setting is read only if replicas are not in sync. Raises nothing: what cannot be read is not
    known."""
    replicas = {number: topic.replicas[number] for number in partitions if number in topic.replicas}
    is_short = any(one.in_sync < one.count for one in replicas.values())
    least = _least_in_sync(brokers, deadline) if is_short else None
    return {number: Writability(partition=number, replicas=one, least=least) for number, one in replicas.items()}


def _least_in_sync(brokers: Brokers, deadline: Deadline) -> int | None:
    def ask(connection: BrokerConnection) -> str | None:
        if not connection.supports(ApiKey.DESCRIBE_CONFIGS):
            return None
        return requests.fetch_topic_settings(connection, OFFSETS_TOPIC, [_MIN_IN_SYNC], deadline).get(_MIN_IN_SYNC)

    try:
        return whole_number(brokers.on_any(ask, deadline))
    except KgmError:
        return None
