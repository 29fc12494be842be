"""The transaction coordinator: what producers need to send offsets to their transactions, and no more. Kafka:
TransactionCoordinator, TransactionStateManager.

A transaction that ends is first *prepared*: the decision to commit or abort is written to the log, flushed, and then
answered. After that its partitions get their markers; a partition that has no coordinator at the moment, or whose disk
is full, gets its marker later. So after a crash at any moment, a transaction is committed everywhere, or will be.

Not implemented: expiration of transactional ids, and two-phase commit (KIP-939)."""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from kgm.coordinator.contract.outcome import Millis, Producer
from kgm.model.errors import ErrorCode
from kgm.server.contract.transaction import TopicPartition, Transaction, TransactionState
from kgm.server.logs.storage import TransactionLog

#: Kafka's `transaction.max.timeout.ms`.
MAX_TIMEOUT_MS = 900_000
#: The highest epoch of a producer id; after that, the producer gets a new id.
_LAST_EPOCH = 32_766
_RETRY_MS = 100
_AT_ONCE = Millis(0)

#: The final state that follows each prepared state.
_PREPARED = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


class Participants(Protocol):
    """The partitions of a transaction. Each method writes a marker and returns False if that is not possible now."""

    def end_in_topic(self, at: TopicPartition, producer: Producer, *, commit: bool, now: Millis) -> bool: ...

    def end_in_offsets(self, partition: int, producer: Producer, *, commit: bool, now: Millis) -> bool: ...


class Transactions:
    """All transactional ids. limit: how many there can be; most_partitions: how many partitions all of them
    together."""

    def __init__(
        self, log: TransactionLog, *, new_producer_id: Callable[[], int], limit: int, most_partitions: int
    ) -> None:
        self._log = log
        self._new_producer_id = new_producer_id
        self._limit, self._most_partitions = limit, most_partitions
        self._by_id = {row.transactional_id: row for row in log.load()}
        self._alarms: list[tuple[Millis, str]] = []
        self._completed: list[Transaction] = []
        self._has_failed = False
        self._prepared = [row for row in self._by_id.values() if row.state in _PREPARED]
        self._retry_at: Millis | None = _AT_ONCE if self._prepared else None
        for row in self._by_id.values():
            if row.state is TransactionState.ONGOING:
                self._watch(row)

    @property
    def highest_producer_id(self) -> int:
        """The highest producer id of all transactions; -1 if there are none."""
        return max((row.producer_id for row in self._by_id.values()), default=-1)

    def find(self, transactional_id: str) -> Transaction | None:
        return self._by_id.get(transactional_id)

    # -- requests

    def init(self, transactional_id: str, timeout_ms: int, current: Producer) -> Transaction | ErrorCode:
        """A producer starts. Earlier ones with this transactional id are fenced, and their open transaction is aborted.

        current: the id and epoch that the producer has (KIP-360), or (-1, -1). Raises OSError."""
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
        if current.producer_id != -1 and current != known.producer:
            return ErrorCode.PRODUCER_FENCED
        if known.state is TransactionState.ONGOING:
            self._fence(known)
            self._prepare(known, TransactionState.PREPARE_ABORT)
        if known.state in _PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        fresh = replace(known, timeout_ms=timeout_ms, state=TransactionState.EMPTY, partitions=set(), offsets=set())
        if known.epoch < _LAST_EPOCH:
            self._fence(fresh)
        else:
            fresh.producer_id, fresh.epoch = self._new_producer_id(), 0
        self._log.append(fresh)
        self._by_id[transactional_id] = fresh
        return fresh

    def _fence(self, row: Transaction) -> None:
        """Raise the epoch of the producer id: from now on, a producer with the old epoch is refused."""
        row.epoch = min(row.epoch + 1, _LAST_EPOCH + 1)

    def check(self, transactional_id: str, producer: Producer) -> Transaction | ErrorCode:
        """The transaction of a producer, or the error if its request is refused."""
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
        """Add partitions to the producer's transaction, which begins with the first of them. Raises OSError."""
        row = self.check(transactional_id, producer)
        if isinstance(row, ErrorCode):
            return row
        begins = row.state is not TransactionState.ONGOING
        partitions, offsets = set(partitions), set(offsets)
        others = sum(len(one.partitions) + len(one.offsets) for one in self._by_id.values() if one is not row)
        own = set() if begins else row.partitions, set() if begins else row.offsets
        if others + len(own[0] | partitions) + len(own[1] | offsets) > self._most_partitions:
            return ErrorCode.INVALID_REQUEST
        if begins:
            row.state, row.started_ms = TransactionState.ONGOING, now
            row.partitions, row.offsets = set(), set()
        before = len(row.partitions) + len(row.offsets)
        row.partitions.update(partitions)
        row.offsets.update(offsets)
        if begins:
            self._watch(row)
        if begins or len(row.partitions) + len(row.offsets) > before:
            self._log.append(row)
        return ErrorCode.NONE

    def verify(
        self, transactional_id: str, producer: Producer, *, at: TopicPartition | None = None, offsets: int | None = None
    ) -> ErrorCode:
        """Whether a partition is part of the producer's transaction: NONE, or the error that refuses a write."""
        row = self.check(transactional_id, producer)
        if isinstance(row, ErrorCode):
            return ErrorCode.INVALID_PRODUCER_EPOCH if row is ErrorCode.PRODUCER_FENCED else row
        if row.state is not TransactionState.ONGOING:
            return ErrorCode.INVALID_TXN_STATE
        is_in = at in row.partitions if at is not None else offsets in row.offsets
        return ErrorCode.NONE if is_in else ErrorCode.INVALID_TXN_STATE

    def end(self, transactional_id: str, producer: Producer, *, commit: bool, bump: bool) -> Transaction | ErrorCode:
        """End the transaction. It is not an error if it has already ended the same way: the response may have been
        lost.

        bump: the producer gets a new epoch for its next transaction (KIP-890). Raises OSError."""
        row = self.check(transactional_id, producer)
        if isinstance(row, ErrorCode):
            return row
        if row.state is TransactionState.ONGOING:
            if bump:
                self._fence(row)
            self._prepare(row, TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT)
            return row
        done = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
        return row if row.state is done else ErrorCode.INVALID_TXN_STATE

    # -- the end of transactions

    def _prepare(self, row: Transaction, state: TransactionState) -> None:
        self._log.append(replace(row, state=state))
        row.state = state
        self._prepared.append(row)

    def complete(self, participants: Participants, now: Millis) -> None:
        """Write the markers of prepared transactions. Partitions that cannot take one now are retried later. The log
        must be flushed."""
        assert not self._log.is_dirty
        waiting = []
        for row in self._prepared:
            commit = row.state is TransactionState.PREPARE_COMMIT
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
        """Whether there are markers to write now."""
        return bool(self._prepared) and self._retry_at is None and not self._has_failed

    def note_markers(self, *, durable: bool) -> None:
        """Record in the log which transactions are complete, once their markers are durable. The others get their
        markers again after a restart, which is harmless. Raises OSError."""
        completed, self._completed = self._completed, []
        for row in completed if durable else ():
            if row.state in _PREPARED.values():
                self._log.append(row)

    def _watch(self, row: Transaction) -> None:
        heapq.heappush(self._alarms, (Millis(row.started_ms + row.timeout_ms), row.transactional_id))

    def expire(self, producer_id: int) -> None:
        """Time out the open transaction of a producer id: the next `advance` aborts it."""
        for row in self._by_id.values():
            if row.producer_id == producer_id and row.state is TransactionState.ONGOING and row.timeout_ms:
                row.timeout_ms = 0
                self._watch(row)

    def advance(self, now: Millis) -> None:
        """Abort transactions that exceed their timeout, and fence their producers. Raises OSError."""
        while self._alarms and self._alarms[0][0] <= now:
            _, transactional_id = heapq.heappop(self._alarms)
            row = self._by_id[transactional_id]
            if row.state is TransactionState.ONGOING and row.started_ms + row.timeout_ms <= now:
                self._fence(row)
                self._prepare(row, TransactionState.PREPARE_ABORT)
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
        """Raises OSError. Prepared transactions then stay prepared until the server restarts and reads the log."""
        try:
            self._log.flush()
        except OSError:
            self._has_failed = True
            raise

    def compact(self, now: Millis) -> None:
        """Raises KgmError and OSError."""
        self._log.compact(now)

    def close(self) -> None:
        self._log.close()
