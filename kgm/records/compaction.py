"""Compaction: keeps the last record of every key (Kafka: org.apache.kafka.storage.internals.log.Cleaner).

What is retained. Offsets never change; removed records leave gaps. A tombstone is kept until the delete retention has
passed since the first compaction that saw it; that time is written into its batch (KAFKA-8522). Records of aborted
transactions are removed immediately. A marker is kept as long as there are records of its transaction, and after that
as long as a tombstone. The active segment is not changed, nor is any segment from the first open transaction on. The
last batch of the compacted segments is kept, without records if necessary. Unlike Kafka's cleaner, this one does not
keep batches for the sequence numbers of known producers, which the coordinator's batches do not have; it works only on
whole segments; and when it rewrites a batch, it writes it uncompressed.

How it survives a crash. Small adjacent segments are merged: a group of segments becomes one file, `.log.cleaned`, which
is made durable and renamed to `.log.swap`. From then on it is valid: the next time the log is opened, `finish_swaps`
does the rest, which is to remove the old segments and to rename the new file to the name of the first of them. Old
segments are removed in ascending order, so that a crash never leaves behind a record whose successor was removed: no
deleted key comes back."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from kgm.model.errors import DecodeError
from kgm.records.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Batch,
    RawRecord,
    encode_batch,
    parse_batch,
)
from kgm.records.files import open_file, open_to_read
from kgm.records.segment import (
    CLEANED,
    INDEXES,
    LOG,
    SWAP,
    BadBatch,
    CorruptLogError,
    Segment,
    base_offset_of,
    batches,
    file_name,
    unreadable,
)
from kgm.records.transactions import LogTransactions
from kgm.text.files import flush_folder

#: Kafka's `log.cleaner.delete.retention.ms`: 24 h.
DELETE_RETENTION_MS: Final = 86_400_000
_MAX_OFFSETS = (1 << 31) - 1


class IncompleteSwapError(OSError):
    """The old segments are only partly replaced. The next opening of the log completes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """What a compaction did, for the segments that it compacted. clean_until: the offset after the last of them."""

    clean_until: int = 0
    records_before: int = 0
    records_after: int = 0


@dataclass(slots=True)
class _Cleaning:
    """One compaction: what it knows about the log, and its counters."""

    now_ms: int
    delete_retention_ms: int
    transactions: LogTransactions
    latest: dict[bytes, int]
    #: The last offset of the last batch to compact. That batch is kept, so that the end of the log does not change.
    last_offset: int
    #: Producers with a batch since their last marker.
    with_batches: set[int] = field(default_factory=set)
    records_before: int = 0
    records_after: int = 0

    def cleaned(self, batch: Batch) -> bytes | None:
        """The batch after compaction; None if nothing is left."""
        self.records_before += batch.record_count
        data = self._control(batch) if batch.is_control else self._data(batch)
        return _empty(batch) if data is None and batch.last_offset == self.last_offset else data

    def _control(self, batch: Batch) -> bytes | None:
        ends_something = batch.producer_id in self.with_batches
        self.with_batches.discard(batch.producer_id)
        horizon = batch.delete_horizon_ms
        if batch.record_count == 0:
            return None
        if ends_something or batch.marker is None:
            return self._rewrite(batch, batch.records, horizon)
        if horizon is None:
            return self._rewrite(batch, batch.records, self.now_ms + self.delete_retention_ms)
        return None if horizon <= self.now_ms else self._rewrite(batch, batch.records, horizon)

    def _data(self, batch: Batch) -> bytes | None:
        if batch.transactional:
            self.with_batches.add(batch.producer_id)
        if self.transactions.is_aborted(batch):
            return None
        horizon = batch.delete_horizon_ms
        tombstones_stay = horizon is None or self.now_ms < horizon
        retained = [
            record
            for record in batch.records
            if record.key is not None
            and record.offset >= self.latest[record.key]
            and (record.value is not None or tombstones_stay)
        ]
        if horizon is None and any(record.value is None for record in retained):
            horizon = self.now_ms + self.delete_retention_ms
        return self._rewrite(batch, retained, horizon) if retained else None

    def _rewrite(self, batch: Batch, retained: Sequence[RawRecord], horizon: int | None) -> bytes:
        self.records_after += len(retained)
        if len(retained) == batch.record_count and horizon == batch.delete_horizon_ms:
            return batch.data
        by_append_time = batch.attributes & LOG_APPEND_TIME
        return encode_batch(
            retained,
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            base_timestamp=retained[0].timestamp if horizon is None else horizon,
            max_timestamp=batch.max_timestamp if by_append_time else max(record.timestamp for record in retained),
            attributes=batch.attributes & ~CODEC_MASK | (0 if horizon is None else DELETE_HORIZON),
            leader_epoch=batch.leader_epoch,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )


def _empty(batch: Batch) -> bytes:
    """A batch that is kept without its records (Kafka: DefaultRecordBatch.writeEmptyHeader)."""
    return encode_batch(
        (),
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=batch.max_timestamp,
        attributes=batch.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL),
        leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )


def compact(
    directory: Path, segments: list[Segment], transactions: LogTransactions, *, now_ms: int, delete_retention_ms: int,
    segment_bytes: int,
) -> CompactionReport:  # fmt: skip
    """Compact all but the last of `segments`; the list is updated along with the files. transactions: of the whole log.
    Raises OSError, CorruptLogError."""
    stable = transactions.stable_offset(segments[-1].base_offset)
    cleanable = [segment for segment in segments[:-1] if segment.next_offset <= stable]
    if not cleanable:
        return CompactionReport()
    clean_until = cleanable[-1].next_offset
    latest: dict[bytes, int] = {}
    for segment in cleanable:
        latest |= _latest_offsets(_read(segment), transactions, partial(_records, segment))
    cleaning = _Cleaning(now_ms, delete_retention_ms, transactions, latest, last_offset=clean_until - 1)
    for group in list(_groups(cleanable, segment_bytes)):
        _clean_group(directory, group, segments, cleaning)
    return CompactionReport(
        clean_until=clean_until, records_before=cleaning.records_before, records_after=cleaning.records_after
    )


def compacted(
    log: Sequence[Batch], transactions: LogTransactions, *, now_ms: int, delete_retention_ms: int
) -> tuple[list[bytes], int]:
    """Compact a log in memory: (what is left of the batches below an offset; this offset, below which all transactions
    have ended). Raises DecodeError."""
    end = transactions.stable_offset(log[-1].last_offset + 1)
    closed = [batch for batch in log if batch.last_offset < end]
    latest = _latest_offsets(closed, transactions, lambda batch: batch.records)
    cleaning = _Cleaning(now_ms, delete_retention_ms, transactions, latest, last_offset=end - 1)
    return [data for batch in closed if (data := cleaning.cleaned(batch)) is not None], end


def finish_swaps(directory: Path) -> tuple[Path, ...]:
    """Complete compactions that were interrupted by a crash. Returns the new segments.

    Raises OSError, and CorruptLogError if a compacted file is damaged."""
    for path in directory.glob(f"*{LOG}{CLEANED}"):
        path.unlink()
    finished = []
    for path in sorted(directory.glob(f"*{LOG}{SWAP}")):
        base_offset = base_offset_of(path.name, LOG + SWAP)
        if base_offset is None:
            continue
        swap = Segment(base_offset, path, path.lstat().st_size, base_offset)
        for batch in _read(swap):
            swap.next_offset = batch.last_offset + 1
        old = [
            other
            for other in sorted(directory.iterdir())
            if (start := base_offset_of(other.name)) is not None and base_offset <= start < swap.next_offset
        ]
        finished.append(_put_in_place(directory, path, base_offset, old))
    return tuple(finished)


def _latest_offsets(
    batches: Iterable[Batch], transactions: LogTransactions, records_of: Callable[[Batch], Sequence[RawRecord]]
) -> dict[bytes, int]:
    """The last offset of every key, ignoring records of aborted transactions, which supersede nothing."""
    return {
        record.key: record.offset
        for batch in batches
        if not batch.is_control and not transactions.is_aborted(batch)
        for record in records_of(batch)
        if record.key is not None
    }


def _groups(segments: Sequence[Segment], segment_bytes: int) -> Iterator[list[Segment]]:
    """Adjacent segments that fit together into one segment, by their size before compaction."""
    group: list[Segment] = []
    for segment in segments:
        if group and (
            sum(member.size for member in group) + segment.size > segment_bytes
            or segment.next_offset - group[0].base_offset > _MAX_OFFSETS
        ):
            yield group
            group = []
        group.append(segment)
    yield group


def _clean_group(directory: Path, group: list[Segment], segments: list[Segment], cleaning: _Cleaning) -> None:
    """Write what is retained from a group into one segment, which replaces the group."""
    first = group[0]
    path = directory / file_name(first.base_offset, LOG + CLEANED)
    try:
        cleaned = _write_cleaned(path, group, cleaning)
        if len(group) == 1 and cleaned.size == first.size and _content(path) == _content(first.path):
            path.unlink()
            return
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    swap = directory / file_name(first.base_offset, LOG + SWAP)
    path.rename(swap)
    try:
        flush_folder(directory)
        _put_in_place(directory, swap, first.base_offset, [segment.path for segment in group])
    except OSError as error:
        raise IncompleteSwapError(error.errno, error.strerror, str(swap)) from error
    at = segments.index(first)
    segments[at : at + len(group)] = [cleaned]


def _write_cleaned(path: Path, group: list[Segment], cleaning: _Cleaning) -> Segment:
    """Write a file at `path`; returns the segment that it becomes once it is in place."""
    first = group[0]
    cleaned = Segment(first.base_offset, first.path, 0, first.base_offset)
    fd = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(fd, "wb", buffering=1 << 20) as out:
        for segment in group:
            for batch in _read(segment):
                data = cleaning.cleaned(batch)
                if data is not None:
                    out.write(data)
                    cleaned.add(batch if data is batch.data else parse_batch(data))
        out.flush()
        os.fsync(out.fileno())
    cleaned.next_offset = group[-1].next_offset
    return cleaned


def _put_in_place(directory: Path, swap: Path, base_offset: int, old: Sequence[Path]) -> Path:
    """Remove the old segments, in ascending order, and rename the new one."""
    target = directory / file_name(base_offset)
    for path in old:
        for suffix in INDEXES:
            path.with_suffix(suffix).unlink(missing_ok=True)
        if path != target:
            path.unlink()
    swap.rename(target)
    flush_folder(directory)
    return target


def _content(path: Path) -> bytes:
    with open_to_read(path) as file:
        return file.read()


def _read(segment: Segment) -> Iterator[Batch]:
    with open_to_read(segment.path) as file:
        try:
            for _, batch in batches(file, segment.size):
                yield batch
        except BadBatch as bad:
            raise CorruptLogError(f"{segment.path} is damaged at byte {bad.position}: {bad.message}") from bad


def _records(segment: Segment, batch: Batch) -> tuple[RawRecord, ...]:
    try:
        return batch.records
    except DecodeError as error:
        raise unreadable(segment, batch, error) from error
