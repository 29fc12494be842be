"""Where a cluster stores what must survive: the interface, and the in-memory storage (the one on disk is
`data_directory`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kgm.coordinator.contract.outcome import Millis
from kgm.server.contract.limits import Limits
from kgm.server.contract.saved_state import GroupConfigs, SavedState
from kgm.server.contract.transaction import Transaction
from kgm.server.logs.shard_log import MemoryShardLog, ShardLog
from kgm.server.logs.topic_log import TopicLogs

CLUSTER_ID = "kgm-embedded-cluster"


class OffsetsLogs(Protocol):
    """The logs of the partitions of `__consumer_offsets`."""

    def partitions(self) -> Iterable[int]:
        """The partitions that have a log from an earlier run."""

    def open(self, partition: int) -> ShardLog:
        """The partition's log, created by the first write. Raises KgmError or OSError."""


class TransactionLog(Protocol):
    """The last state of each transaction."""

    @property
    def is_dirty(self) -> bool:
        """Whether anything was appended and not flushed."""

    def load(self) -> Iterable[Transaction]:
        """The transactions of an earlier run. Raises KgmError and OSError."""

    def append(self, transaction: Transaction) -> None:
        """Raises OSError."""

    def flush(self) -> None:
        """Raises OSError."""

    def compact(self, now: Millis) -> None:
        """Compact the log if that is worthwhile. Raises KgmError and OSError."""

    def close(self) -> None: ...


class Storage(Protocol):
    """Everything that a cluster stores."""

    @property
    def path(self) -> str:
        """The log directory that DescribeLogDirs names."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def topics(self) -> Mapping[str, int]:
        """The partition counts of an earlier run, by topic."""

    @property
    def topic_ids(self) -> Mapping[str, bytes]:
        """The ids of topics whose id is not derived from their name."""

    @property
    def deletions(self) -> Mapping[str, int]:
        """How often a topic of each name was deleted."""

    @property
    def group_configs(self) -> GroupConfigs: ...

    @property
    def reassigned(self) -> Mapping[int, list[int]]:
        """The replicas of the partitions of `__consumer_offsets` that were reassigned."""

    @property
    def offsets(self) -> OffsetsLogs: ...

    @property
    def transactions(self) -> TransactionLog: ...

    def topic_logs(self, topics: Mapping[str, int], limits: Limits) -> TopicLogs:
        """Open the records of these topics. Raises KgmError."""

    def save(self, state: SavedState) -> None:
        """Raises OSError."""

    def close(self) -> None: ...


class MemoryOffsetsLogs:
    """Logs that are empty at the start of each run."""

    def partitions(self) -> Iterable[int]:
        return ()

    def open(self, partition: int) -> ShardLog:  # noqa: ARG002  (all start empty)
        return MemoryShardLog()


class MemoryTransactionLog:
    """Transactions are lost when the process ends."""

    is_dirty = False

    def load(self) -> Iterable[Transaction]:
        return ()

    def append(self, transaction: Transaction) -> None:
        """Nothing is stored."""

    def flush(self) -> None:
        """There is nothing to flush."""

    def compact(self, now: Millis) -> None:
        """There is nothing to compact."""

    def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class MemoryStorage:
    """Storage whose content is lost when the process ends."""

    path: str = "memory"
    cluster_id: str = CLUSTER_ID
    topics: Mapping[str, int] = field(default_factory=dict)
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    deletions: Mapping[str, int] = field(default_factory=dict)
    group_configs: GroupConfigs = field(default_factory=dict)
    reassigned: Mapping[int, list[int]] = field(default_factory=dict)
    offsets: OffsetsLogs = field(default_factory=MemoryOffsetsLogs)
    transactions: TransactionLog = field(default_factory=MemoryTransactionLog)

    def topic_logs(self, topics: Mapping[str, int], limits: Limits) -> TopicLogs:  # noqa: ARG002  (all start empty)
        return TopicLogs(topic_max_bytes=limits.topic_max_bytes, total_max_bytes=limits.total_max_bytes)

    def save(self, state: SavedState) -> None:
        """Nothing is stored."""

    def close(self) -> None:
        """Nothing is open."""
