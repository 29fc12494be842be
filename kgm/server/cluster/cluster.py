"""The cluster without its sockets: everything its brokers share, and what happens to it.

Like the coordinators in it, it never waits and reads no clock. Replies that depend on records not yet flushed are held
until `flush`."""

import contextlib
import itertools
from collections.abc import Callable, Mapping

from kgm.coordinator.contract.error_responses import refusal
from kgm.coordinator.contract.outcome import Producer, Request
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode, KgmError, UsageError
from kgm.server.cluster.group_memory import GroupMemory
from kgm.server.cluster.nodes import Nodes, Placement
from kgm.server.cluster.pending_responses import PendingResponses
from kgm.server.cluster.shards import GroupsView, Shards
from kgm.server.cluster.topic_records import TopicRecords
from kgm.server.cluster.topics import Topics, check_topic
from kgm.server.cluster.transaction_coordinator import Transactions
from kgm.server.contract.exchange import (
    ClientRequest,
    CloseConnection,
    ConnectionEvent,
    Millis,
    Replies,
    Reply,
    Ticket,
)
from kgm.server.contract.limits import Limits
from kgm.server.contract.offsets_topic import OFFSETS_TOPIC
from kgm.server.contract.saved_state import SavedState
from kgm.server.contract.transaction import TopicPartition
from kgm.server.logs.storage import MemoryStorage, Storage
from kgm.server.logs.topic_log import LEADER_EPOCH, ReadableLog


def _ignore(_warning: str) -> None:
    """Drop a warning."""


class EmbeddedCluster:
    """Brokers 1 to `brokers`, their topics with records, and the coordinators of all groups.

    warn: called with messages for the operator. Raises UsageError for topics that cannot be created, and KgmError if
    the storage cannot be used."""

    def __init__(
        self,
        *,
        topics: Mapping[str, int],
        settings: BrokerSettings | None = None,
        limits: Limits | None = None,
        brokers: int = 1,
        storage: Storage | None = None,
        now: Millis,
        warn: Callable[[str], None] = _ignore,
    ) -> None:
        self.settings = BrokerSettings() if settings is None else settings
        self.limits = Limits() if limits is None else limits
        self.storage: Storage = MemoryStorage() if storage is None else storage
        self.cluster_id = self.storage.cluster_id
        self.nodes = Nodes(brokers)
        self.topics = Topics(
            _merged(self.storage.topics, topics),
            internal={OFFSETS_TOPIC: self.settings.offsets_topic_num_partitions},
            deletions=self.storage.deletions,
            ids=self.storage.topic_ids,
            version=now,
        )
        self.group_configs = self.storage.group_configs
        self.placement = Placement(self.nodes, self.settings.offsets_topic_num_partitions, self.storage.reassigned)
        self.transactions = Transactions(
            self.storage.transactions,
            new_producer_id=self.new_producer_id,
            limit=self.limits.max_transactional_ids,
            most_partitions=self.limits.max_transaction_partitions,
        )
        # Ids that no earlier run has handed out.
        self._producer_ids = itertools.count(max(now, self.transactions.highest_producer_id + 1))
        self.records = TopicRecords(self.topics, self.storage.topic_logs(self.topics.of_users(), self.limits))
        self.shards = Shards(
            settings=self.settings,
            topics=self.topics,
            limits=self.limits,
            placement=self.placement,
            logs=self.storage.offsets,
            group_configs=self.group_configs,
            warn=warn,
        )
        self.group_memory = GroupMemory(self.shards.held_bytes, self.limits.group_members_max_bytes)
        self.offset_memory = GroupMemory(self.shards.offset_bytes, self.limits.committed_offsets_max_bytes)
        self.pending = PendingResponses()
        self.view = GroupsView(self.shards)
        self._on_transaction_log: set[Ticket] = set()
        self.save()
        self.shards.start(now)

    def save(self) -> None:
        """Save topics, placement and group configurations. Raises OSError."""
        self.storage.save(
            SavedState(
                topics=self.topics.of_users(),
                deletions=self.topics.deletions,
                reassigned=self.placement.reassigned(),
                group_configs=self.group_configs,
            )
        )

    def close(self) -> None:
        """Close the storage. Everything acknowledged is in it."""
        self.shards.close()
        self.transactions.close()
        self.storage.close()

    # -- requests and time

    def respond(self, replies: Replies) -> tuple[ConnectionEvent, ...]:
        """The events for replies, and for fetches that can be answered now. Returns none before the next `flush` if
        there are unflushed records, since a reply may depend on them."""
        if self.shards.has_changed:
            replies = (*replies, *self.records.wake(self.shards.take_changed()))
            longest = self.shards.longest_open(self.limits.open_transactions_max_bytes)
            if longest is not None:
                self.transactions.expire(longest)
        if self.is_dirty:
            self.pending.hold(replies)
            return ()
        return self.pending.events(replies)

    def disconnected(self, ticket: Ticket) -> None:
        """The connection of a request is closed, so no reply to it will make an event."""
        self.pending.disconnected(ticket)
        self.records.disconnected(ticket)
        self.shards.disconnected(ticket)

    def advance(self, now: Millis) -> tuple[ConnectionEvent, ...]:
        """Fire the timers that are due."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return ()
        with contextlib.suppress(OSError):  # retried with the next timer
            self.transactions.advance(now)
        return self.respond((*self.shards.advance(now), *self.records.advance(now), *self.end_transactions(now)))

    def next_deadline(self) -> Millis | None:
        """When the next timer fires, or some time before that; None if none is set."""
        nearest = self.shards.next_deadline()
        for other in (self.records.next_deadline(), self.transactions.next_deadline()):
            if other is not None and (nearest is None or other < nearest):
                nearest = other
        return nearest

    # -- logs

    def log(self, topic: str, partition: int) -> ReadableLog:
        """The records of a partition, for reading."""
        return self.shards.log(partition) if topic == OFFSETS_TOPIC else self.records.log(topic, partition)

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The epoch of a partition's leader."""
        return self.placement[partition].epoch if topic == OFFSETS_TOPIC else LEADER_EPOCH

    def refusal_at(self, topic: str, partition: int, node_id: int, epoch: int) -> ErrorCode:
        """The error if a broker refuses to read a partition that exists, or NONE. Every broker has the records of user
        topics. epoch: the leader epoch that the client knows; below 0 if it does not send one."""
        if topic == OFFSETS_TOPIC:
            return self.placement.refusal_at(partition, node_id, epoch)
        return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > LEADER_EPOCH else ErrorCode.NONE

    @property
    def is_dirty(self) -> bool:
        """Whether there are records to flush."""
        return self.shards.is_dirty or self.records.is_dirty or self.transactions.is_dirty

    def flush(self, now: Millis) -> tuple[ConnectionEvent, ...]:
        """Make everything appended durable, and release the replies that were held. Requests whose log could not be
        flushed are refused."""
        replies, lost, shards_flushed = self.shards.flush(now)
        lost_records, records_flushed = self.records.flush()
        lost |= lost_records
        on_transaction_log, self._on_transaction_log = self._on_transaction_log, set()
        try:
            self.transactions.note_markers(durable=shards_flushed and records_flushed)
            self.transactions.flush()
        except OSError:
            lost |= on_transaction_log
        self.pending.hold(replies)
        return self.pending.release(lost, _refuse_lost) + self.respond(self.end_transactions(now))

    def compact(self, now: Millis) -> tuple[ConnectionEvent, ...]:
        """Compact the logs that are worth compacting."""
        if not self.transactions.is_dirty:
            with contextlib.suppress(KgmError, OSError):  # the log stays as it was
                self.transactions.compact(now)
        return self.respond(self.shards.compact(now))

    # -- topics

    def topics_changed(self, now: Millis) -> Replies:
        """Topics were created, deleted, or given more partitions."""
        return self.shards.topics_changed(now)

    def create_topic(self, name: str, partitions: int, now: Millis) -> tuple[ConnectionEvent, ...]:
        """Create a topic. Raises UsageError if that is not possible, and OSError if the topic cannot be saved."""
        if name in self.topics:
            raise UsageError(f"topic {name} already exists")
        check_topic(name, partitions)
        self.topics.add(name, partitions)
        try:
            self.save()
        except OSError:
            self.topics.remove(name)
            raise
        return self.respond(self.topics_changed(now))

    def has_room(self, *, topics: int = 0, partitions: int = 0) -> bool:
        """Whether there is room for this many more topics or partitions."""
        return (
            self.topics.number_of_user_topics + topics <= self.limits.max_topics
            and self.topics.total_partitions + partitions <= self.limits.max_partitions
        )

    def create_internal_topics(self, now: Millis) -> tuple[Replies, list[str]]:
        """Create the topics that streams groups have just asked for, unless they exist. Returns replies, and the
        reasons why some topics cannot be created."""
        wanted = {topic.name: topic for topic in self.shards.take_new_topics() if topic.name not in self.topics}
        created, failures = [], []
        for topic in wanted.values():
            try:
                check_topic(topic.name, topic.partitions)
            except UsageError as error:
                failures.append(error.message)
                continue
            brokers = len(self.nodes.ids)
            if topic.replication_factor > brokers:
                failures.append(f"{topic.name}: the replication factor can be 1 to {brokers}")
            elif not self.has_room(topics=1, partitions=topic.partitions):
                failures.append(f"{topic.name}: there is no room for more topics")
            else:
                self.topics.add(topic.name, topic.partitions)
                created.append(topic.name)
        if not created:
            return (), failures
        try:
            self.save()
        except OSError as error:
            for name in created:
                self.topics.remove(name)
            return (), [*failures, f"topics could not be saved: {error.strerror or error}"]
        return self.topics_changed(now), failures

    # -- transactions

    def new_producer_id(self) -> int:
        return next(self._producer_ids)

    def depends_on_transaction_log(self, ticket: Ticket) -> None:
        """Record that the reply to this request depends on what was appended to the transaction log."""
        if self.transactions.is_dirty:
            self._on_transaction_log.add(ticket)

    def end_transactions(self, now: Millis) -> Replies:
        """Write the markers of prepared transactions, once their prepared state is on disk."""
        if not self.transactions.is_prepared or self.transactions.is_dirty:
            return ()
        markers = _Markers(self)
        self.transactions.complete(markers, now)
        return markers.replies

    # -- leaders

    def leader_changed(self, partition: int, now: Millis) -> Replies:
        """A partition of `__consumer_offsets` has another leader."""
        return self.shards.leader_changed(partition, now)

    @property
    def is_loading(self) -> bool:
        return self.shards.is_loading

    def load_piece(self, now: Millis) -> tuple[ConnectionEvent, ...]:
        """Load a bounded piece of the partitions that are loading."""
        return self.respond(self.shards.load_piece(now))

    def move_coordinator(self, partition: int, leader: int, now: Millis) -> tuple[ConnectionEvent, ...]:
        """Make a live broker the leader of a partition of `__consumer_offsets`; it coordinates the partition's groups
        once it has loaded them."""
        replicas = self.placement[partition].replicas
        if leader not in replicas:
            self.placement.assign(partition, (leader, *replicas))
        if not self.placement.lead(partition, leader):
            return ()
        return self.respond(self.leader_changed(partition, now))

    def stop_broker(self, node_id: int, now: Millis) -> tuple[ConnectionEvent, ...]:
        """A broker stops: others take over what it leads. Requests waiting on it are refused."""
        self.nodes[node_id].alive = False
        return self._elect(now)

    def start_broker(self, node_id: int, now: Millis) -> tuple[ConnectionEvent, ...]:
        """A broker starts again. It leads only partitions that had no leader; logs that failed are retried."""
        self.nodes[node_id].alive = True
        self.placement.retry()
        return self._elect(now)

    def _elect(self, now: Millis) -> tuple[ConnectionEvent, ...]:
        replies: Replies = ()
        for partition in range(len(self.placement)):
            if self.placement.elect(partition):
                replies += self.leader_changed(partition, now)
        return self.respond(replies)


class _Markers:
    """Writes the markers of a transaction to its partitions."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self.replies: Replies = ()

    def end_in_topic(self, at: TopicPartition, producer: Producer, *, commit: bool, now: Millis) -> bool:
        try:
            self.replies += self._cluster.records.end_transaction(at, producer, commit=commit, now=now)
        except OSError:
            return False
        return True

    def end_in_offsets(self, partition: int, producer: Producer, *, commit: bool, now: Millis) -> bool:
        return self._cluster.shards.end_transaction(partition, producer, commit=commit, now=now)


def _merged(saved: Mapping[str, int], wanted: Mapping[str, int]) -> Mapping[str, int]:
    """The topics of an earlier run merged with those requested now, which can only be larger. Raises UsageError."""
    if OFFSETS_TOPIC in wanted:
        raise UsageError(f"{OFFSETS_TOPIC} always exists", hint="--set offsets.topic.num.partitions=N")
    for name, partitions in wanted.items():
        if partitions < saved.get(name, 0):
            raise UsageError(f"topic {name} has {saved[name]} partitions already and cannot have {partitions}")
    return {**saved, **wanted}


def _refuse_lost(request: ClientRequest) -> Reply | CloseConnection:
    """The reply to a request whose records may be lost: as if the broker had gone away."""
    to_coordinator = Request(message=request.message, version=request.version)
    try:
        return Reply(request.ticket, refusal(to_coordinator, ErrorCode.NOT_COORDINATOR))
    except TypeError:  # not a request to a group coordinator
        return CloseConnection(request.ticket, "the records could not be stored")
