"""The cluster without its sockets: everything that its brokers share, and what happens to it.

Like the coordinators in it, it never waits and reads no clock. Responses that rest on records which are not flushed
stay in the outbox until `flush`."""

import contextlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from kgm.coordinator.contract.error_responses import refusal
from kgm.coordinator.contract.outcome import Producer, Request
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode, KgmError, UsageError
from kgm.server.apis.configs import Values
from kgm.server.apis.produce_fetch import Data
from kgm.server.apis.transactions import verify_produce
from kgm.server.cluster.broker import Broker
from kgm.server.cluster.nodes import OFFSETS_TOPIC, Nodes, Placement
from kgm.server.cluster.shards import InMemory, Logs, Shards, View
from kgm.server.cluster.topics import Topics
from kgm.server.cluster.transaction_coordinator import NoLog, TopicPartition, TransactionLog, Transactions
from kgm.server.contract.exchange import Call, Event, Hangup, Millis, Reply, Response, Ticket
from kgm.server.contract.limits import Limits
from kgm.server.contract.outbox import Outbox
from kgm.server.contract.saved_state import Kept
from kgm.server.logs.topic_log import Logs as DataLogs

CLUSTER_ID = "kgm-embedded-cluster"


class Storage(Protocol):
    """What outlives the cluster."""

    @property
    def offsets(self) -> Logs: ...

    @property
    def where(self) -> str:
        """A path, or what stands for one."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def topics(self) -> Mapping[str, int]:
        """Partitions by topic, of an earlier run."""

    @property
    def topic_ids(self) -> Mapping[str, bytes]:
        """The ids of topics that do not have the usual one."""

    @property
    def deletions(self) -> Mapping[str, int]:
        """How often the topics of a name were deleted."""

    @property
    def group_configs(self) -> Values:
        """What is set for single groups."""

    @property
    def assigned(self) -> Mapping[int, list[int]]:
        """Replicas of the partitions of `__consumer_offsets` that were placed by hand."""

    @property
    def transactions(self) -> TransactionLog: ...

    def data_logs(self, topics: Topics, limits: Limits) -> DataLogs:
        """The records of the topics. Raises KgmError."""

    def save(self, kept: Kept) -> None:
        """Raises OSError."""

    def close(self) -> None: ...


@dataclass(slots=True)
class Nowhere:
    """A cluster that is forgotten when it ends."""

    offsets: Logs = field(default_factory=InMemory)
    transactions: TransactionLog = field(default_factory=NoLog)
    where: str = "memory"
    cluster_id: str = CLUSTER_ID
    topics: Mapping[str, int] = field(default_factory=dict)
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    deletions: Mapping[str, int] = field(default_factory=dict)
    group_configs: Values = field(default_factory=dict)
    assigned: Mapping[int, list[int]] = field(default_factory=dict)

    def data_logs(self, topics: Topics, limits: Limits) -> DataLogs:  # noqa: ARG002  (none has any yet)
        return DataLogs(topic_max_bytes=limits.topic_max_bytes, total_max_bytes=limits.total_max_bytes)

    def save(self, kept: Kept) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is held."""


def _silent(_text: str) -> None:
    """Nobody listens."""


class EmbeddedCluster:
    """Brokers 1 to `brokers`, their topics with records, and the coordinators of all groups.

    warn: is told what an operator should know. Raises KgmError for topics that cannot be, and for a storage that cannot
    be used."""

    def __init__(
        self,
        *,
        topics: Mapping[str, int],
        settings: BrokerSettings | None = None,
        limits: Limits | None = None,
        brokers: int = 1,
        storage: Storage | None = None,
        now: Millis,
        warn: Callable[[str], None] = _silent,
    ) -> None:
        settings = BrokerSettings() if settings is None else settings
        self.limits = Limits() if limits is None else limits
        self.storage: Storage = Nowhere() if storage is None else storage
        self.cluster_id = self.storage.cluster_id
        self.nodes = Nodes(brokers)
        self.topics = Topics(
            _merged(self.storage.topics, topics),
            deletions=self.storage.deletions,
            ids=self.storage.topic_ids,
            version=now,
        )
        self.group_configs: Values = self.storage.group_configs
        self.placement = Placement(self.nodes, settings.offsets_topic_num_partitions, self.storage.assigned)
        self.transactions = Transactions(
            self.storage.transactions, new_producer_id=self.new_producer_id, limit=self.limits.max_transactional_ids
        )
        # No earlier run has given out these.
        self._producer_ids = itertools.count(max(now, self.transactions.highest_producer_id + 1))
        self.data = Data(
            self.topics,
            self.limits,
            self.storage.data_logs(self.topics, self.limits),
            partial(verify_produce, self.transactions),
        )
        self.shards = Shards(
            settings=settings,
            topics=self.topics,
            limits=self.limits,
            placement=self.placement,
            logs=self.storage.offsets,
            configs=self.group_configs,
            warn=warn,
        )
        self._unflushed: set[Ticket] = set()
        self.outbox = Outbox()
        self.view = View(self.shards)
        self.brokers = {node_id: Broker(node_id, self) for node_id in self.nodes.ids}
        self.save()
        self.shards.start(now)

    def save(self) -> None:
        """Keep topics, placement and what is set for groups. Raises OSError."""
        self.storage.save(
            Kept(
                topics=dict(self.topics),
                deletions=self.topics.deletions,
                assigned=self.placement.assigned(),
                group_configs=self.group_configs,
            )
        )

    def close(self) -> None:
        """Give back what the storage holds; what was acknowledged is in it."""
        self.shards.close()
        self.transactions.close()
        self.storage.close()

    # -- events

    def answer(self, response: Response) -> tuple[Event, ...]:
        """The events of a response: now, or from `flush` if it may rest on what is not flushed."""
        if self.is_dirty:
            self.outbox.hold(response)
            return ()
        return self.outbox.events(response)

    def advance(self, now: Millis) -> tuple[Event, ...]:
        """Do what is due by now."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return ()
        with contextlib.suppress(OSError):  # it is tried again, when the disk will do it
            self.transactions.advance(now)
        return self.answer((*self.shards.advance(now), *self.data.advance(now), *self.end_transactions(now)))

    def next_deadline(self) -> Millis | None:
        """When `advance` has something to do, if nothing happens before; never later than that."""
        nearest = self.shards.next_deadline()
        for other in (self.data.next_deadline(), self.transactions.next_deadline()):
            if other is not None and (nearest is None or other < nearest):
                nearest = other
        return nearest

    def forget(self, ticket: Ticket) -> None:
        """The connection is gone; whatever answers the ticket later leads to no event."""
        self.outbox.forget(ticket)
        self.data.forget(ticket)
        self.shards.forget(ticket)

    # -- the log

    def size_of(self, topic: str, partition: int) -> int:
        """The bytes of a partition's log, on disk where there is one."""
        if topic == OFFSETS_TOPIC:
            shard = self.shards.find(partition)
            return 0 if shard is None else shard.log.size
        return self.data.size_of(topic, partition)

    @property
    def is_dirty(self) -> bool:
        """Whether something has to be flushed before anything more is said."""
        return bool(self.shards.dirty) or self.data.dirty or self.transactions.is_dirty

    def flush(self, now: Millis) -> tuple[Event, ...]:
        """Make durable what is not, and then say what rests on it. Whose log fails is refused instead."""
        replies, void, done = self.shards.flush(now)
        lost, kept = self.data.flush()
        void |= lost
        unflushed, self._unflushed = self._unflushed, set()
        try:
            self.transactions.note_markers(durable=done and kept)
            self.transactions.flush()
        except OSError:
            void |= unflushed
        self.outbox.hold(replies)
        return self.outbox.release(void, _refuse) + self.answer(self.end_transactions(now))

    def tidy(self, now: Millis) -> tuple[Event, ...]:
        """Look for logs to compact."""
        if not self.transactions.is_dirty:
            with contextlib.suppress(KgmError, OSError):  # the log is as it was
                self.transactions.tidy(now)
        return self.answer(self.shards.tidy(now))

    # -- transactions

    def new_producer_id(self) -> int:
        return next(self._producer_ids)

    def hold_for_transactions(self, ticket: Ticket) -> None:
        """The reply to this ticket rests on the log of transactions."""
        if self.transactions.is_dirty:
            self._unflushed.add(ticket)

    def end_transactions(self, now: Millis) -> Response:
        """Write the markers of transactions whose end is decided, and on the disk."""
        if not self.transactions.is_prepared or self.transactions.is_dirty:
            return ()
        markers = _Markers(self)
        self.transactions.complete(markers, now)
        return markers.woken

    # -- who leads what

    def follow(self, partition: int, now: Millis) -> Response:
        """A partition of `__consumer_offsets` has another leader."""
        return self.shards.follow(partition, now)

    @property
    def is_loading(self) -> bool:
        return self.shards.is_loading

    def load_piece(self, now: Millis) -> tuple[Event, ...]:
        """A bounded piece of what there is to load."""
        return self.answer(self.shards.load_piece(now))

    def move(self, partition: int, leader: int, now: Millis) -> tuple[Event, ...]:
        """Make a broker that is alive the coordinator of a partition of `__consumer_offsets`, once it has loaded it."""
        replicas = self.placement[partition].replicas
        if leader not in replicas:
            self.placement.assign(partition, (leader, *replicas))
        if not self.placement.lead(partition, leader):
            return ()
        return self.answer(self.follow(partition, now))

    def stop(self, node_id: int, now: Millis) -> tuple[Event, ...]:
        """A broker stops: others take over what it leads. Whoever waits on it is told so."""
        self.nodes[node_id].alive = False
        return self._elect(now)

    def start(self, node_id: int, now: Millis) -> tuple[Event, ...]:
        """A broker is back. It leads only what nobody else could lead, for which logs that failed are tried again."""
        self.nodes[node_id].alive = True
        self.placement.retry()
        return self._elect(now)

    def _elect(self, now: Millis) -> tuple[Event, ...]:
        response: Response = ()
        for partition in range(len(self.placement)):
            if self.placement.elect(partition):
                response += self.follow(partition, now)
        return self.answer(response)


class _Markers:
    """Takes the markers to the partitions."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self.woken: Response = ()

    def end_in_topic(self, at: TopicPartition, producer: Producer, *, commit: bool, now: Millis) -> bool:
        try:
            self.woken += self._cluster.data.end_transaction(at, producer, commit=commit, now=now)
        except OSError:
            return False
        return True

    def end_in_offsets(self, partition: int, producer: Producer, *, commit: bool, now: Millis) -> bool:
        return self._cluster.shards.end_transaction(partition, producer, commit=commit, now=now)


def _merged(kept: Mapping[str, int], wanted: Mapping[str, int]) -> Mapping[str, int]:
    """The topics of an earlier run and those asked for now, which may only be larger. Raises UsageError."""
    if OFFSETS_TOPIC in wanted:
        raise UsageError(f"{OFFSETS_TOPIC} is there by itself", hint="--set offsets.topic.num.partitions=N")
    for name, partitions in wanted.items():
        if partitions < kept.get(name, 0):
            raise UsageError(f"topic {name} has {kept[name]} partitions already, and cannot have {partitions}")
    return {**kept, **wanted}


def _refuse(call: Call) -> Reply | Hangup:
    """What becomes of a request whose records may be lost: as if the broker had gone."""
    request = Request(message=call.message, version=call.version)
    try:
        return Reply(call.ticket, refusal(request, ErrorCode.NOT_COORDINATOR))
    except TypeError:  # no request to a coordinator
        return Hangup(call.ticket, "the records could not be stored")
