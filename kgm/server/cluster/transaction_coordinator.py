"""The transaction coordinator, as small as it can be for producers that send offsets to their transactions.

It answers InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, and what Produce and TxnOffsetCommit ask of it.
Kafka: TransactionCoordinator, TransactionStateManager.

A transaction that ends is first *prepared*: that it commits, or not, is written and flushed, and told to the producer.
Then markers go to its partitions; one that has no coordinator at the moment, or a disk that is full, gets its marker
later. So a crash at any moment leaves a transaction that is committed everywhere, or will be.

Not done: expiry of transactional ids, and two-phase commit (KIP-939)."""

import enum
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from kgm.coordinator.contract.outcome import Millis, Producer
from kgm.model.errors import ErrorCode

#: Kafka's `transaction.max.timeout.ms`.
MAX_TIMEOUT_MS = 900_000
#: The highest epoch that is given out; above it a producer gets another id.
_LAST_EPOCH = 32_766
_RETRY_MS = 100
_NEVER = Millis(0)

TopicPartition = tuple[str, int]


class State(enum.Enum):
    """Kafka's TransactionState."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


_PREPARED = {State.PREPARE_COMMIT: State.COMPLETE_COMMIT, State.PREPARE_ABORT: State.COMPLETE_ABORT}


@dataclass(slots=True, kw_only=True)
class Transaction:
    """The transaction of one transactional id, or the last one it had. offsets: partitions of `__consumer_offsets`."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: State = State.EMPTY
    started_ms: Millis = _NEVER
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
            state=State(row["state"]),
            started_ms=Millis(row["started_ms"]),
            partitions={(topic, partition) for topic, partition in row["partitions"]},
            offsets=set(row["offsets"]),
        )


class TransactionLog(Protocol):
    """Where transactions are kept."""

    @property
    def is_dirty(self) -> bool: ...

    def load(self) -> Iterable[Transaction]:
        """The last state of each, of an earlier run. Raises KgmError and OSError."""

    def append(self, transaction: Transaction) -> None:
        """Raises OSError."""

    def flush(self) -> None:
        """Raises OSError."""

    def tidy(self, now: Millis) -> None:
        """Raises OSError."""

    def close(self) -> None: ...


class NoLog:
    """Transactions end with the process."""

    is_dirty = False

    def load(self) -> Iterable[Transaction]:
        return ()

    def append(self, transaction: Transaction) -> None:
        """Nothing is kept."""

    def flush(self) -> None:
        """There is nothing to wait for."""

    def tidy(self, now: Millis) -> None:
        """There is nothing to tidy."""

    def close(self) -> None:
        """Nothing is held."""


class Participants(Protocol):
    """Those who take part in transactions: they write a marker, or say by False that they cannot now."""

    def end_in_topic(self, at: TopicPartition, producer: Producer, *, commit: bool, now: Millis) -> bool: ...

    def end_in_offsets(self, partition: int, producer: Producer, *, commit: bool, now: Millis) -> bool: ...


class Transactions:
    """All transactional ids."""

    def __init__(self, log: TransactionLog, *, new_producer_id: Callable[[], int], limit: int) -> None:
        self._log = log
        self._new_producer_id = new_producer_id
        self._limit = limit
        self._by_id = {row.transactional_id: row for row in log.load()}
        self._alarms: list[tuple[Millis, str]] = []
        self._completed: list[Transaction] = []
        self._has_failed = False
        self._prepared = [row for row in self._by_id.values() if row.state in _PREPARED]
        self._retry_at: Millis | None = _NEVER if self._prepared else None  # at once
        for row in self._by_id.values():
            if row.state is State.ONGOING:
                self._watch(row)

    @property
    def highest_producer_id(self) -> int:
        """Of those known; -1 if none is."""
        return max((row.producer_id for row in self._by_id.values()), default=-1)

    def named(self, transactional_id: str) -> Transaction | None:
        return self._by_id.get(transactional_id)

    # -- requests

    def init(self, transactional_id: str, timeout_ms: int, said: Producer) -> Transaction | ErrorCode:
        """A producer begins, or begins again: those before it with this id are fenced, what they left open is aborted.

        said: the id and epoch that it has, if it has some (KIP-360), else (-1, -1). Raises OSError."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not 0 < timeout_ms <= MAX_TIMEOUT_MS:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        known = self._by_id.get(transactional_id)
        if known is None:
            if len(self._by_id) >= self._limit:
                return ErrorCode.INVALID_REQUEST
            known = Transaction(
                transactional_id=transactional_id, producer_id=self._new_producer_id(), epoch=0, timeout_ms=timeout_ms
            )
            self._log.append(known)
            self._by_id[transactional_id] = known
            return known
        if said.producer_id != -1 and said != known.producer:
            return ErrorCode.PRODUCER_FENCED
        if known.state is State.ONGOING:
            self._fence(known)
            self._prepare(known, State.PREPARE_ABORT)
        if known.state in _PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        fresh = replace(known, timeout_ms=timeout_ms, state=State.EMPTY, partitions=set(), offsets=set())
        if known.epoch < _LAST_EPOCH:
            self._fence(fresh)
        else:
            fresh.producer_id, fresh.epoch = self._new_producer_id(), 0
        self._log.append(fresh)
        self._by_id[transactional_id] = fresh
        return fresh

    def _fence(self, row: Transaction) -> None:
        """Give the producer id another epoch: who has the old one may do nothing any more."""
        row.epoch = min(row.epoch + 1, _LAST_EPOCH + 1)

    def check(self, transactional_id: str, producer: Producer) -> Transaction | ErrorCode:
        """The transaction of a producer that may act in it."""
        row = self._by_id.get(transactional_id)
        if row is None or row.producer_id != producer.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if row.epoch != producer.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if row.state in _PREPARED else row

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        now: Millis,
        *,
        partitions: Iterable[TopicPartition] = (),
        offsets: Iterable[int] = (),
    ) -> ErrorCode:
        """Let partitions take part in the producer's transaction, which begins if it has not. Raises OSError."""
        row = self.check(transactional_id, producer)
        if isinstance(row, ErrorCode):
            return row
        begins = row.state is not State.ONGOING
        if begins:
            row.state, row.started_ms = State.ONGOING, now
            row.partitions, row.offsets = set(), set()
        before = len(row.partitions) + len(row.offsets)
        row.partitions.update(partitions)
        row.offsets.update(offsets)
        if begins:
            self._watch(row)
        if begins or len(row.partitions) + len(row.offsets) > before:
            self._log.append(row)
        return ErrorCode.NONE

    def takes_part(
        self, transactional_id: str, producer: Producer, *, at: TopicPartition | None = None, offsets: int | None = None
    ) -> ErrorCode:
        """Whether a producer may write to a partition in its transaction."""
        row = self.check(transactional_id, producer)
        if isinstance(row, ErrorCode):
            return ErrorCode.INVALID_PRODUCER_EPOCH if row is ErrorCode.PRODUCER_FENCED else row
        if row.state is not State.ONGOING:
            return ErrorCode.INVALID_TXN_STATE
        is_in = at in row.partitions if at is not None else offsets in row.offsets
        return ErrorCode.NONE if is_in else ErrorCode.INVALID_TXN_STATE

    def end(self, transactional_id: str, producer: Producer, *, commit: bool, bump: bool) -> Transaction | ErrorCode:
        """End the transaction. One that has ended in this way already is no error, as the answer may have been lost.

        bump: the producer gets a new epoch for the next one (KIP-890). Raises OSError."""
        row = self.check(transactional_id, producer)
        if isinstance(row, ErrorCode):
            return row
        if row.state is State.ONGOING:
            if bump:
                self._fence(row)
            self._prepare(row, State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
            return row
        done = State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT
        return row if row.state is done else ErrorCode.INVALID_TXN_STATE

    # -- the end of transactions

    def _prepare(self, row: Transaction, state: State) -> None:
        self._log.append(replace(row, state=state))
        row.state = state
        self._prepared.append(row)

    def complete(self, participants: Participants, now: Millis) -> None:
        """Write the markers of what is prepared, and flushed. Who cannot take one now is asked again later."""
        assert not self._log.is_dirty
        waiting = []
        for row in self._prepared:
            commit = row.state is State.PREPARE_COMMIT
            row.partitions = {
                at for at in row.partitions if not participants.end_in_topic(at, row.producer, commit=commit, now=now)
            }
            row.offsets = {
                at for at in row.offsets if not participants.end_in_offsets(at, row.producer, commit=commit, now=now)
            }
            if row.partitions or row.offsets:
                waiting.append(row)
            else:
                row.state = _PREPARED[row.state]
                self._completed.append(row)
        self._prepared = waiting
        self._retry_at = Millis(now + _RETRY_MS) if waiting else None

    @property
    def is_prepared(self) -> bool:
        """Whether there are markers to write, which has not been tried yet."""
        return bool(self._prepared) and self._retry_at is None and not self._has_failed

    def note_markers(self, *, durable: bool) -> None:
        """The markers were flushed, or may be lost: note in the log what is complete. What is not noted gets its
        markers again after a restart, which changes nothing where they are. Raises OSError."""
        completed, self._completed = self._completed, []
        for row in completed if durable else ():
            if row.state in _PREPARED.values():
                self._log.append(row)

    def _watch(self, row: Transaction) -> None:
        heapq.heappush(self._alarms, (Millis(row.started_ms + row.timeout_ms), row.transactional_id))

    def advance(self, now: Millis) -> None:
        """Abort what takes too long, and fence its producer. Raises OSError."""
        while self._alarms and self._alarms[0][0] <= now:
            _, transactional_id = heapq.heappop(self._alarms)
            row = self._by_id[transactional_id]
            if row.state is State.ONGOING and row.started_ms + row.timeout_ms <= now:
                self._fence(row)
                self._prepare(row, State.PREPARE_ABORT)
        if self._retry_at is not None and self._retry_at <= now:
            self._retry_at = None

    def next_deadline(self) -> Millis | None:
        alarm = self._alarms[0][0] if self._alarms else None
        if alarm is None or self._retry_at is None:
            return self._retry_at if alarm is None else alarm
        return min(alarm, self._retry_at)

    # -- the log

    @property
    def is_dirty(self) -> bool:
        return self._log.is_dirty

    def flush(self) -> None:
        """Raises OSError; what is prepared then stays so until the process ends, and its log is read again."""
        try:
            self._log.flush()
        except OSError:
            self._has_failed = True
            raise

    def tidy(self, now: Millis) -> None:
        self._log.tidy(now)

    def close(self) -> None:
        self._log.close()
