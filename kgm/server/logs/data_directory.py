"""A data directory: the storage of `kgm serve --data-dir`, which survives restarts and crashes.

    DIR/.lock                        locked by the process that uses the directory
    DIR/kgm.json                     cluster id, topics, reassigned replicas, group configurations: replaced as a whole
    DIR/__consumer_offsets-N/        Kafka's own log format, see kgm.records.log; kgm-segments.json: their sizes
    DIR/TOPIC-N/                     records of user topics, see topic_files
    DIR/kgm-transactions/            the last state of each transaction

A copy of a Kafka broker's `__consumer_offsets-N` folders is also a valid data directory: kgm.json is created if it is
missing. Topics whose folders are copied along keep their ids, by which consumer groups refer to them.

DIR itself may be a symbolic link. Links inside it are refused, so that nothing outside of it is ever changed."""

import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from kgm.coordinator.contract.outcome import Millis, Producer
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.loading import ReplayTarget
from kgm.model.errors import KgmError, RefusedError, UsageError
from kgm.model.uuids import uuid_text
from kgm.records.batch import ProducerInfo
from kgm.records.files import FILE_MODE, open_file, open_to_read
from kgm.records.log import OffsetsLog
from kgm.records.record import Record
from kgm.server.contract.limits import Limits
from kgm.server.contract.offsets_topic import OFFSETS_TOPIC
from kgm.server.contract.saved_state import GroupConfigs, SavedState
from kgm.server.contract.transaction import Transaction
from kgm.server.logs.append_warnings import AppendWarnings
from kgm.server.logs.shard_log import ShardLog, replayed
from kgm.server.logs.topic_files import TopicFiles, known_ids
from kgm.server.logs.topic_log import PartitionLog, ReadableLog, TopicLogs
from kgm.text.files import flush_folder, replace_file, try_lock

_FILE = "kgm.json"
_LOCK = ".lock"
TRANSACTIONS = "kgm-transactions"
_FORMAT = 1
_FOLDER = re.compile(re.escape(OFFSETS_TOPIC) + r"-(\d+)")
#: Closed segments are compacted once this fraction of them has never been compacted (Kafka:
#: log.cleaner.min.cleanable.ratio).
_DIRTY_RATIO = 0.5

Warn = Callable[[str], None]
Seconds = Callable[[], float]


def _opened(folder: Path, limits: Limits, warn: Warn) -> OffsetsLog:
    """Open a log, or create it if there is none. Raises KgmError and OSError."""
    log = OffsetsLog.open(folder, segment_bytes=limits.offsets_topic_segment_bytes)
    recovery = log.recovered
    if recovery.cut_bytes:
        warn(
            f"{recovery.file}: truncated at byte {recovery.position}, {recovery.cut_bytes} bytes of an incomplete "
            f"batch were removed: {recovery.reason}"
        )
    for path in recovery.finished_swaps:
        warn(f"{path}: the process ended while this segment was being compacted; the compacted segment is now in place")
    return log


def _compact_if_dirty(log: OffsetsLog, limits: Limits, now: Millis) -> None:
    """Compact the log if that is worthwhile. Raises KgmError and OSError."""
    if log.dirty_ratio >= _DIRTY_RATIO:
        log.compact(now_ms=now, delete_retention_ms=limits.log_cleaner_delete_retention_ms)


class _FolderLog:
    """A log in a folder that is created when the first record is written."""

    def __init__(self, folder: Path, limits: Limits, warn: Warn, seconds: Seconds) -> None:
        self._folder = folder
        self._limits = limits
        self._warn = warn
        self._log: OffsetsLog | None = None
        self._appending = AppendWarnings(str(folder), warn, seconds)

    def _open(self) -> OffsetsLog:
        if self._log is None:
            self._log = _opened(self._folder, self._limits, self._warn)
        return self._log

    def compact(self, now: Millis) -> None:
        if self._log is not None:
            _compact_if_dirty(self._log, self._limits, now)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None


class DiskShardLog(_FolderLog):
    """A partition of `__consumer_offsets` on disk."""

    is_durable = True
    held_bytes = 0

    def measure_held(self) -> int:
        return 0

    def __init__(self, folder: Path, limits: Limits, warn: Warn, seconds: Seconds) -> None:
        super().__init__(folder, limits, warn, seconds)
        self._epoch = 0
        if os.path.lexists(folder):
            self._epoch = self._open().leader_epoch

    @property
    def leader_epoch(self) -> int:
        return self._epoch

    @leader_epoch.setter
    def leader_epoch(self, epoch: int) -> None:
        self._epoch = epoch
        if self._log is not None:
            self._log.leader_epoch = epoch

    @property
    def records(self) -> ReadableLog:
        return PartitionLog() if self._log is None else self._log.reader

    def append(self, records: Iterable[Record], *, now: Millis, producer: Producer | None) -> None:
        info = None if producer is None else ProducerInfo(producer[0], producer[1])
        with self._appending:
            self._writable().append(tuple(records), now_ms=now, producer=info)

    def append_marker(self, producer: Producer, *, commit: bool, now: Millis) -> None:
        with self._appending:
            self._writable().append_marker(ProducerInfo(producer[0], producer[1]), commit=commit, now_ms=now)

    def _writable(self) -> OffsetsLog:
        log = self._open()
        log.leader_epoch = self._epoch
        return log

    def flush(self) -> None:
        if self._log is not None:
            self._log.flush()

    def replay(self, into: ReplayTarget) -> Iterator[None]:
        if self._log is None:
            return
        unreadable = yield from replayed(self._log.read(), into)
        for offset, why in unreadable:
            self._warn(f"{self._folder.name}, offset {offset}: record skipped: {why}")


class _OffsetsFolders:
    """The partitions of `__consumer_offsets` in a data directory."""

    def __init__(self, folder: Path, limits: Limits, warn: Warn, seconds: Seconds) -> None:
        self._folder = folder
        self._limits = limits
        self._warn = warn
        self._seconds = seconds

    def partitions(self) -> Iterable[int]:
        return [int(name[1]) for path in self._folder.iterdir() if (name := _FOLDER.fullmatch(path.name))]

    def open(self, partition: int) -> ShardLog:
        return DiskShardLog(self._folder / f"{OFFSETS_TOPIC}-{partition}", self._limits, self._warn, self._seconds)


class _TransactionFolder(_FolderLog):
    """The last state of each transaction, in the same log format: keys are transactional ids, values are JSON."""

    def __init__(self, folder: Path, limits: Limits, warn: Warn, seconds: Seconds) -> None:
        super().__init__(folder, limits, warn, seconds)
        self.is_dirty = False

    def load(self) -> Iterable[Transaction]:
        if not os.path.lexists(self._folder):
            return ()
        rows = [row for batch in self._open().read() for row in batch.records]
        try:
            last = {(row.key or b"").decode(): json.loads(row.value or b"{}") for row in rows}
            return [Transaction.from_json(transactional_id, row) for transactional_id, row in last.items()]
        except (ValueError, TypeError, KeyError) as error:
            raise KgmError(f"{self._folder} is damaged: {error!r}") from None

    def append(self, transaction: Transaction) -> None:
        pair = transaction.transactional_id.encode(), json.dumps(transaction.as_json()).encode()
        with self._appending:
            self._open().append_raw([pair], now_ms=transaction.started_ms)
        self.is_dirty = True

    def flush(self) -> None:
        self.is_dirty = False
        if self._log is not None:
            try:
                self._log.flush()
            except OSError as error:
                self._appending.failed(error)
                raise


class DataDirectory:
    """An open data directory."""

    def __init__(
        self, folder: Path, lock: int, saved: Mapping[str, Any], *, limits: Limits, warn: Warn, seconds: Seconds
    ) -> None:
        self._folder = folder
        self._lock = lock
        self._warn = warn
        self._seconds = seconds
        self.path = str(folder.absolute())
        self._partitions: int = saved["offsets_partitions"]
        self.cluster_id: str = saved["cluster_id"]
        self.topics: dict[str, int] = saved["topics"]
        self.topic_ids = known_ids(folder)
        self.deletions: dict[str, int] = saved.get("deletions", {})
        self.group_configs: GroupConfigs = saved.get("group_configs", {})
        self.reassigned = {int(partition): replicas for partition, replicas in saved["assigned"].items()}
        self.offsets = _OffsetsFolders(folder, limits, warn, seconds)
        self.transactions = _TransactionFolder(folder / TRANSACTIONS, limits, warn, seconds)

    @classmethod
    def open(cls, folder: Path, *, settings: BrokerSettings, limits: Limits, warn: Warn, seconds: Seconds) -> Self:
        """Open a directory, or create it. Raises RefusedError if another process uses it, UsageError if it was created
        with a different number of partitions of `__consumer_offsets` or is not a directory, and KgmError if it cannot
        be used.

        seconds: a clock that never goes backward, by which warnings are rare."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = open_file(folder / _LOCK, os.O_RDWR | os.O_CREAT)
        except FileExistsError:
            raise UsageError(f"--data-dir {folder} is not a directory") from None
        except OSError as error:
            raise KgmError(f"--data-dir {folder}: cannot be used: {error.strerror}") from None
        try:
            _lock(lock, folder)
            return cls(folder, lock, _read(folder, settings), limits=limits, warn=warn, seconds=seconds)
        except OSError as error:
            os.close(lock)
            raise KgmError(f"--data-dir {folder}: cannot be used: {error.strerror}") from None
        except BaseException:
            os.close(lock)
            raise

    def topic_logs(self, topics: Mapping[str, int], limits: Limits) -> TopicLogs:
        files = TopicFiles(
            self._folder,
            self._warn,
            self._seconds,
            topic_max_bytes=limits.topic_max_bytes,
            total_max_bytes=limits.total_max_bytes,
        )
        try:
            files.load(topics)
        except OSError as error:
            raise KgmError(f"--data-dir {self._folder}: cannot read {error.filename}: {error.strerror}") from None
        return files

    def save(self, state: SavedState) -> None:
        content = {
            "format": _FORMAT,
            "cluster_id": self.cluster_id,
            "offsets_partitions": self._partitions,
            "topics": dict(state.topics),
            "deletions": dict(state.deletions),
            "assigned": {str(partition): replicas for partition, replicas in state.reassigned.items()},
            "group_configs": state.group_configs,
        }
        replace_file(self._folder / _FILE, json.dumps(content, indent=1).encode(), mode=FILE_MODE)
        flush_folder(self._folder)

    def close(self) -> None:
        if self._lock != -1:
            os.close(self._lock)
            self._lock = -1


def _lock(lock: int, folder: Path) -> None:
    if not try_lock(lock):
        raise RefusedError(
            f"--data-dir {folder} is in use by another process",
            hint="stop the other kgm serve, or use another directory",
        )


def _read(folder: Path, settings: BrokerSettings) -> Mapping[str, Any]:
    """The content of kgm.json, or the initial content if the file does not exist yet."""
    partitions = settings.offsets_topic_num_partitions
    path = folder / _FILE
    try:
        with open_to_read(path) as file:
            text = file.read().decode()
    except FileNotFoundError:
        cluster_id = uuid_text(uuid.uuid4().bytes)
        return {"cluster_id": cluster_id, "offsets_partitions": partitions, "topics": {}, "assigned": {}}
    except OSError as error:
        raise KgmError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeError as error:
        raise KgmError(f"{path}: cannot be read: {error}") from None
    saved = _checked(text, path)
    if saved["offsets_partitions"] != partitions:
        created_with = saved["offsets_partitions"]
        raise UsageError(
            f"--data-dir {folder} was created with offsets.topic.num.partitions={created_with}, not {partitions}",
            hint=f"--set offsets.topic.num.partitions={created_with}",
        )
    return saved


def _checked(text: str, path: Path) -> Mapping[str, Any]:
    try:
        saved = json.loads(text)
    except ValueError as error:
        raise KgmError(f"{path} is damaged: {error}") from None
    shapes = {"cluster_id": str, "offsets_partitions": int, "topics": dict, "assigned": dict}
    if not isinstance(saved, dict) or saved.get("format") != _FORMAT:
        raise KgmError(f"{path} has a format that this version of kgm does not support")
    is_valid = all(isinstance(saved.get(key), shape) for key, shape in shapes.items())
    later = {key: saved.get(key, {}) for key in ("deletions", "group_configs")}
    is_valid = is_valid and all(isinstance(value, dict) for value in later.values())
    is_valid = is_valid and all(isinstance(values, dict) for values in later["group_configs"].values())
    if not is_valid or not all(
        isinstance(count, int) for count in (*saved["topics"].values(), *later["deletions"].values())
    ):
        raise KgmError(f"{path} is damaged: a key is missing or has a value of the wrong type")
    return saved
