"""A transaction as the transaction coordinator keeps it, and as its log stores it."""

import enum
from dataclasses import dataclass, field
from typing import Any

from kgm.coordinator.contract.outcome import Millis, Producer

TopicPartition = tuple[str, int]
_NOT_STARTED = Millis(0)


class TransactionState(enum.Enum):
    """Kafka's TransactionState."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


@dataclass(slots=True, kw_only=True)
class Transaction:
    """The current or last transaction of one transactional id. partitions: the partitions of user topics that take
    part; offsets: those of `__consumer_offsets`."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    started_ms: Millis = _NOT_STARTED
    partitions: set[TopicPartition] = field(default_factory=set)
    offsets: set[int] = field(default_factory=set)

    @property
    def producer(self) -> Producer:
        return Producer(self.producer_id, self.epoch)

    def as_json(self) -> dict[str, Any]:
        return {
            "producer_id": self.producer_id,
            "epoch": self.epoch,
            "timeout_ms": self.timeout_ms,
            "state": self.state.value,
            "started_ms": self.started_ms,
            "partitions": sorted(self.partitions),
            "offsets": sorted(self.offsets),
        }

    @classmethod
    def from_json(cls, transactional_id: str, row: dict[str, Any]) -> "Transaction":
        return cls(
            transactional_id=transactional_id,
            producer_id=row["producer_id"],
            epoch=row["epoch"],
            timeout_ms=row["timeout_ms"],
            state=TransactionState(row["state"]),
            started_ms=Millis(row["started_ms"]),
            partitions={(topic, partition) for topic, partition in row["partitions"]},
            offsets=set(row["offsets"]),
        )
