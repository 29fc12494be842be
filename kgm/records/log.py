"""A partition of `__consumer_offsets` on disk, in Kafka's own format: segments of record batches.

Each `append` is one batch: either all of its records are in the log, or none. So a batch is one whole outcome of the
coordinator. `append` writes the batch to the operating system; `flush` makes everything appended so far durable. A
server appends for many requests and flushes once before it sends the replies.

A killed process may leave part of a batch at the end. `open` cuts it off and reports it in `recovered`. Corruption
anywhere else is an error that names the file and the offset, and nothing is cut off.

Only one process at a time can open the directory, which is locked with its file `.lock`. Kafka's brokers and tools can
read the segments, and build the indexes themselves. `compact` (see `compaction`) can run while the log is open, between
two appends.

There is no clock in here: the caller provides the time."""

import errno
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from kgm.model.errors import DecodeError, ErrorCode, KgmError
from kgm.records import compaction, segment_sizes
from kgm.records.batch import Batch, Marker, ProducerInfo, marker_batch, new_batch, parse_batch
from kgm.records.compaction import DELETE_RETENTION_MS, CompactionReport
from kgm.records.files import check_folder, open_file, open_to_read
from kgm.records.log_reader import LogReader
from kgm.records.record import Record, encode_record
from kgm.records.segment import (
    BadBatch,
    CorruptLogError,
    Ending,
    Segment,
    base_offset_of,
    batches,
    ending,
    file_name,
    unreadable,
)
from kgm.records.transactions import LogTransactions
from kgm.text.files import flush_folder, try_lock

#: Kafka's `offsets.topic.segment.bytes`.
SEGMENT_BYTES: Final = 104_857_600
_LOCK = ".lock"
_DIRECTORY_MODE = 0o700


class LogLockedError(KgmError):
    """Another process has the directory open."""

    code = "LOG_LOCKED"


class BatchTooLargeError(KgmError):
    """A batch is larger than `max_batch_bytes`; nothing was written."""

    code = "MESSAGE_TOO_LARGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What `open` had to repair.

    cut_bytes: the size of the torn tail that was cut off `file` at byte `position`; cut_batches: how many batches were
    cut off, 1 or 0. reason: what was wrong with the tail. finished_swaps: compacted segments that had been completely
    written, and have now replaced the old ones."""

    cut_bytes: int = 0
    cut_batches: int = 0
    file: Path | None = None
    position: int = 0
    reason: str = ""
    finished_swaps: tuple[Path, ...] = ()

    @property
    def clean(self) -> bool:
        return self.cut_bytes == 0 and not self.finished_swaps


class OffsetsLog:
    """An open log. Not thread-safe. Create it with `OffsetsLog.open`; as a context manager, it closes itself."""

    def __init__(
        self, directory: Path, lock: int, *, segment_bytes: int, leader_epoch: int, max_batch_bytes: int | None
    ) -> None:
        self.directory = directory
        self.recovered = Recovery()
        #: Written into every batch; at least that of the last batch in the log.
        self.leader_epoch = leader_epoch
        self._lock = lock
        self._segment_bytes = segment_bytes
        self._max_batch_bytes = max_batch_bytes
        self._segments: list[Segment] = []
        self._transactions = LogTransactions()
        #: The log as consumers read it.
        self.reader = LogReader(self._segments, self._transactions)
        self._active = -1
        self._unflushed = False
        self._new_files = False
        self._sizes_known = True
        self._broken: OSError | None = None
        self._compacted_until = 0

    @classmethod
    def open(
        cls, directory: Path, *, segment_bytes: int = SEGMENT_BYTES, leader_epoch: int = 0,
        max_batch_bytes: int | None = None,
    ) -> "OffsetsLog":  # fmt: skip
        """Open a log; create it if there is none. Every batch is checked.

        leader_epoch: the current leader epoch of the partition (or the last one in the log, if that is higher).
        max_batch_bytes: larger batches are refused (Kafka's `max.message.bytes`); None: no limit. Raises
        LogLockedError, CorruptLogError, OSError."""
        is_new = not os.path.lexists(directory)
        if is_new:
            directory.mkdir(mode=_DIRECTORY_MODE, parents=True)
            flush_folder(directory.parent)
        check_folder(directory)
        lock = _lock(directory)
        log = cls(
            directory, lock, segment_bytes=segment_bytes, leader_epoch=leader_epoch, max_batch_bytes=max_batch_bytes
        )
        try:
            log._recover()
        except BaseException:
            log.close()
            raise
        return log

    # -- what is in it

    @property
    def next_offset(self) -> int:
        """The offset that the next record will get."""
        return self._segments[-1].next_offset

    @property
    def start_offset(self) -> int:
        """The lowest offset that the log can contain."""
        return self._segments[0].base_offset

    @property
    def size(self) -> int:
        """The size of all segments, in bytes."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Path, ...]:
        """The files, oldest first; the last one is appended to."""
        return tuple(segment.path for segment in self._segments)

    @property
    def dirty_ratio(self) -> float:
        """The fraction of the closed segments, by size, that were closed since the last compaction, or since `open`:
        from 0 to 1, and 0 if there are none. Kafka compacts from 0.5 on (`min.cleanable.dirty.ratio`)."""
        closed = self._segments[:-1]
        dirty = sum(segment.size for segment in closed if segment.next_offset > self._compacted_until)
        return dirty / sum(segment.size for segment in closed) if dirty else 0.0

    def read(self) -> Iterator[Batch]:
        """Every batch that is in the log when the iteration starts, in order, no matter what is appended or compacted
        meanwhile. Raises OSError, and CorruptLogError if the files were changed by something else."""
        with ExitStack() as files:
            views = [
                (segment, segment.size, files.enter_context(open_to_read(segment.path))) for segment in self._segments
            ]
            for segment, size, file in views:
                offset = segment.base_offset
                try:
                    for _, batch in batches(file, size):
                        yield batch
                        offset = batch.last_offset + 1
                except BadBatch as bad:
                    raise _corrupt(segment.path, bad, offset) from bad

    # -- writing

    def append(self, records: Sequence[Record], *, now_ms: int, producer: ProducerInfo | None = None) -> int:
        """Append records as one batch, for a transactional producer if one is given. Returns the offset of the first
        record.

        Raises OSError (such as ENOSPC) and BatchTooLargeError, leaving the log unchanged."""
        return self.append_raw([encode_record(record) for record in records], now_ms=now_ms, producer=producer)

    def append_raw(
        self, pairs: Sequence[tuple[bytes, bytes | None]], *, now_ms: int, producer: ProducerInfo | None = None
    ) -> int:
        """`append` for records as (key bytes, value bytes)."""
        base_offset = self.next_offset
        if pairs:
            data = new_batch(
                pairs, base_offset=base_offset, timestamp_ms=now_ms, leader_epoch=self.leader_epoch, producer=producer
            )
            self._write(data)
        return base_offset

    def append_marker(self, producer: ProducerInfo, *, commit: bool, now_ms: int, coordinator_epoch: int = 0) -> int:
        """End the producer's transaction. Returns the offset of the marker. Raises OSError."""
        base_offset = self.next_offset
        data = marker_batch(
            producer,
            Marker(commit, coordinator_epoch),
            base_offset=base_offset,
            timestamp_ms=now_ms,
            leader_epoch=self.leader_epoch,
        )
        self._write(data)
        return base_offset

    def flush(self) -> None:
        """Make everything appended so far durable (fsync).

        Raises OSError. It is then unknown what is on disk, and the log accepts no more appends."""
        self._check()
        try:
            if self._unflushed:
                os.fsync(self._active)
                self._unflushed = False
            if self._new_files:
                flush_folder(self.directory)
                self._new_files = False
        except OSError as error:
            self._broken = error
            raise

    def roll(self) -> None:
        """Close the active segment and begin a new one, unless the active one is empty. Raises OSError."""
        self._check()
        if self._segments[-1].size == 0:
            return
        self.flush()
        self._begin(self.next_offset)
        self._save_sizes()

    def compact(self, *, now_ms: int, delete_retention_ms: int = DELETE_RETENTION_MS) -> CompactionReport:
        """Keep the last record of each key in the closed segments, as Kafka's log cleaner does. Call `roll` first to
        compact all records. Raises CorruptLogError or OSError, leaving the log unchanged; or IncompleteSwapError, after
        which the log accepts no more appends."""
        self.flush()
        segment_sizes.forget(self.directory)
        self._sizes_known = False
        try:
            report = compaction.compact(
                self.directory,
                self._segments,
                self._transactions,
                now_ms=now_ms,
                delete_retention_ms=delete_retention_ms,
                segment_bytes=self._segment_bytes,
            )
        except compaction.IncompleteSwapError as error:
            self._broken = error
            raise
        self._sizes_known = True
        self._save_sizes()
        self._compacted_until = self._segments[-1].base_offset
        self._transactions.forget_below(report.clean_until)
        return report

    def close(self) -> None:
        """Close and unlock the directory. Unflushed batches may be lost if the machine fails, but not if only the
        process does."""
        if self._active != -1 and not self._unflushed:
            self._save_sizes()
        for fd in (self._active, self._lock):
            if fd != -1:
                os.close(fd)
        self._active = self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside

    def _check(self) -> None:
        if self._active == -1:
            raise OSError(errno.EBADF, "the log is closed", str(self.directory))
        if self._broken is not None:
            raise OSError(errno.EIO, f"the log is out of use since: {self._broken}", str(self.directory))

    def _write(self, data: bytes) -> None:
        if self._max_batch_bytes is not None and len(data) > self._max_batch_bytes:
            text = f"a batch of {len(data)} bytes is larger than the {self._max_batch_bytes} allowed"
            raise BatchTooLargeError(text, kafka_error=ErrorCode.MESSAGE_TOO_LARGE)
        self._check()
        if self._segments[-1].size and self._segments[-1].size + len(data) > self._segment_bytes:
            self.roll()
        active, batch = self._segments[-1], parse_batch(data)
        try:
            _write_all(self._active, data, active.size)
        except OSError:
            self._take_back(active.size)
            raise
        self._unflushed = True
        self._see(active, batch)

    def _see(self, segment: Segment, batch: Batch) -> None:
        """Take note of a batch that is in the file, after the previous ones."""
        segment.add(batch)
        try:
            self._transactions.see(batch)
        except DecodeError as error:
            raise unreadable(segment, batch, error) from error

    def _save_sizes(self) -> None:
        """Save the segments' sizes; everything is flushed. Not after a failed compaction: the files may differ from
        memory."""
        if self._sizes_known and self._broken is None:
            segment_sizes.save(self.directory, self._segments)

    def _take_back(self, size: int) -> None:
        """Cut off what a failed write may have left. If that fails too, the log becomes unusable, and the next `open`
        finds a torn tail."""
        try:
            os.ftruncate(self._active, size)
        except OSError as error:
            self._broken = error

    def _begin(self, base_offset: int) -> None:
        path = self.directory / file_name(base_offset)
        fd = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        if self._active != -1:
            os.close(self._active)
        self._active = fd
        self._segments.append(Segment(base_offset, path, 0, base_offset))
        self._new_files = True

    def _recover(self) -> None:
        finished = compaction.finish_swaps(self.directory)
        paths = sorted(path for path in self.directory.iterdir() if base_offset_of(path.name) is not None)
        cut = Recovery()
        for path in paths:
            cut = self._load(path, is_last=path == paths[-1])
        self.recovered = Recovery(
            cut_bytes=cut.cut_bytes, cut_batches=cut.cut_batches, file=cut.file, position=cut.position,
            reason=cut.reason, finished_swaps=finished,
        )  # fmt: skip
        if not self._segments:
            segment_sizes.compare(self.directory, ())
            self._begin(0)
            self.flush()
            return
        if not finished:
            segment_sizes.compare(self.directory, self._segments)
        self._active = open_file(self._segments[-1].path, os.O_WRONLY)
        if cut.cut_bytes:
            os.ftruncate(self._active, cut.position)
            os.fsync(self._active)

    def _load(self, path: Path, *, is_last: bool) -> Recovery:
        """Check a segment and add it. Returns what has to be cut off its end, which is allowed only for the last
        segment."""
        base_offset = base_offset_of(path.name)
        assert base_offset is not None
        if self._segments and base_offset < self._segments[-1].next_offset:
            text = f"{path} begins at offset {base_offset}, but offsets up to {self.next_offset - 1} come before it"
            raise CorruptLogError(text)
        cut = Recovery()
        with open_to_read(path) as file:
            size = os.fstat(file.fileno()).st_size
            segment = Segment(base_offset, path, 0, base_offset)
            try:
                for _, batch in batches(file, size, from_offset=base_offset):
                    self._see(segment, batch)
                    self.leader_epoch = max(self.leader_epoch, batch.leader_epoch)
            except BadBatch as bad:
                next_offset = segment.next_offset
                found = ending(file, bad, size, base_offset=base_offset, next_offset=next_offset, is_last=is_last)
                if found is Ending.NO_SEGMENT:
                    raise _not_a_segment(path) from bad
                if found is Ending.DAMAGED:
                    raise _corrupt(path, bad, next_offset) from bad
                cut = Recovery(
                    cut_bytes=size - bad.position, cut_batches=1, file=path, position=bad.position, reason=bad.message
                )
        self._segments.append(segment)
        return cut


def _corrupt(path: Path, bad: BadBatch, offset: int) -> CorruptLogError:
    return CorruptLogError(
        f"{path} is damaged at byte {bad.position}, offset {offset}: {bad.message}",
        facts=("nothing was cut off: whole batches or files follow",),
        hint="restore it from a copy, or give up everything from that offset on: "
        f"truncate -s {bad.position} {shlex.quote(str(path))}, and remove the files that come after it, and "
        f"{segment_sizes.FILE_NAME}",
    )


def _not_a_segment(path: Path) -> CorruptLogError:
    return CorruptLogError(
        f"{path} does not begin as a segment of a log",
        facts=("nothing was cut off: it may be another file",),
        hint=f"if it is not needed: rm {shlex.quote(str(path))}",
    )


def _lock(directory: Path) -> int:
    fd = open_file(directory / _LOCK, os.O_RDWR | os.O_CREAT)
    is_ours = False
    try:
        is_ours = try_lock(fd)
    finally:
        if not is_ours:
            os.close(fd)
    if not is_ours:
        raise LogLockedError(
            f"{directory} is in use by another process", hint="one `kgm serve` at a time can have a data directory"
        )
    return fd


def _write_all(fd: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, position)
        view, position = view[written:], position + written
