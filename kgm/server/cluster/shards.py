"""All shards of a cluster: which one a group belongs to, their timers, their moves between brokers, their flushes.

A group's shard is the partition of `__consumer_offsets` that its id hashes to. A shard is created by the first request
for one of its groups; shards that have a log from an earlier run are loaded at startup."""

import heapq
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from kgm.coordinator.admin.view import GroupView
from kgm.coordinator.contract.outcome import Millis, NewTopic, Producer, Reply, Ticket
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.offsets.store import CommittedOffset
from kgm.model.errors import KgmError
from kgm.model.uuids import uuid_text
from kgm.server.cluster.nodes import Placement
from kgm.server.cluster.shard import NO_BROKER, Shard, ShardAgenda, ShardState
from kgm.server.cluster.topics import Topics
from kgm.server.contract.limits import Limits
from kgm.server.contract.offsets_topic import OFFSETS_TOPIC
from kgm.server.contract.transaction import TopicPartition
from kgm.server.logs.flush import flush_all
from kgm.server.logs.shard_log import MemoryShardLog
from kgm.server.logs.storage import OffsetsLogs
from kgm.server.logs.topic_log import PartitionLog, ReadableLog


def new_member_id(prefix: str) -> str:
    """A member id in the form Kafka uses for classic groups."""
    return f"{prefix}-{uuid.uuid4()}"


def new_consumer_id(_prefix: str) -> str:
    """A member id in the form Kafka uses for consumer groups: Kafka's own encoding of a UUID, never with a leading
    dash."""
    while (text := uuid_text(uuid.uuid4().bytes)).startswith("-"):
        pass
    return text


class Shards:
    """The coordinators of all groups."""

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        topics: Topics,
        limits: Limits,
        placement: Placement,
        logs: OffsetsLogs,
        group_configs: Mapping[str, Mapping[str, str]],
        warn: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.placement = placement
        self.group_ids: set[str] = set()
        self._topics = topics
        self._max_remembered = 2 * limits.max_groups
        self._logs = logs
        self._group_configs = group_configs
        self._warn = warn
        self._agenda = ShardAgenda()
        self._shards: dict[int, Shard] = {}
        self._by_group: dict[str, Shard] = {}
        self._loading: deque[Shard] = deque()

    def start(self, now: Millis) -> None:
        """Load the logs of an earlier run, all in one go: no client is connected yet."""
        for partition in sorted(self._logs.partitions()):
            if partition in self.placement:
                self.at(partition, now)

    # -- which shard

    def of(self, group_id: str, now: Millis) -> Shard:
        """The shard of a group."""
        shard = self._by_group.get(group_id)
        if shard is None:
            if len(self._by_group) >= self._max_remembered:  # clients can ask for any id
                self._by_group.clear()
            shard = self._by_group[group_id] = self.at(self.placement.partition_for(group_id), now)
        return shard

    def find(self, partition: int) -> Shard | None:
        """The shard of a partition; None if it has not been created yet."""
        return self._shards.get(partition)

    def at(self, partition: int, now: Millis) -> Shard:
        """The shard of a partition. The first call loads it immediately: either its log is empty, or no client is
        connected yet."""
        shard = self._shards.get(partition)
        if shard is None:
            shard = self._shards[partition] = Shard(
                partition,
                MemoryShardLog(),
                new_engine=partial(self._new_engine, partition),
                image=lambda: self._topics.image,
                group_ids=self.group_ids,
                agenda=self._agenda,
            )
            self._open(shard)
            while self._loading and self._loading[-1] is shard:
                self._load_piece(shard, now)
        return shard

    def all(self) -> Iterator[Shard]:
        """The shards created so far, by partition."""
        return (shard for _, shard in sorted(self._shards.items()))

    def held_bytes(self) -> int:
        """How many bytes all groups use for their members."""
        return sum(shard.engine.held_bytes() for shard in self._shards.values() if shard.engine is not None)

    def offset_bytes(self) -> int:
        """How many bytes the offsets of all groups take."""
        return sum(shard.engine.offset_bytes() for shard in self._shards.values() if shard.engine is not None)

    def _new_engine(self, partition: int) -> Coordinator:
        engine = Coordinator(
            settings=self.settings,
            new_member_id=new_member_id,
            new_consumer_id=new_consumer_id,
            topics=self._topics,
            image=self._topics.image,
        )
        for group_id, values in self._group_configs.items():
            if self.placement.partition_for(group_id) == partition:
                engine.configure(group_id, values)
        return engine

    def _open(self, shard: Shard) -> None:
        """Open the log of a shard and have its leader load it."""
        try:
            shard.log = self._logs.open(shard.partition)
        except (KgmError, OSError) as error:
            self._fail(shard, error)
            return
        shard.failure = None
        self.placement.seen_epoch(shard.partition, shard.log.leader_epoch)
        self._load(shard)

    def _load(self, shard: Shard) -> None:
        leader = self.placement[shard.partition].leader
        if leader is not None and shard.failure is None:
            shard.log.leader_epoch = self.placement[shard.partition].epoch
            shard.load(leader)
            self._loading.append(shard)

    # -- events

    def configure(self, group_id: str) -> None:
        """The configuration of a group has changed. A shard that is not loaded reads it when it is loaded."""
        shard = self._shards.get(self.placement.partition_for(group_id))
        if shard is not None and shard.runtime is not None:
            shard.runtime.engine.configure(group_id, self._group_configs.get(group_id, {}))

    def topics_changed(self, now: Millis) -> tuple[Reply, ...]:
        """Topics were created, deleted, or given more partitions."""
        replies: tuple[Reply, ...] = ()
        for shard in self.all():
            replies += shard.topics_changed(now)
        return replies

    def disconnected(self, ticket: Ticket) -> None:
        """The connection of a request is closed. This matters only to a new member that is held for a scale-out
        plan."""
        if self.settings.plans:
            for shard in self.all():
                shard.disconnected(ticket)

    def advance(self, now: Millis) -> tuple[Reply, ...]:
        """Fire the timers that are due."""
        replies: tuple[Reply, ...] = ()
        alarms = self._agenda.alarms
        while alarms and alarms[0][0] <= now:
            at, partition = heapq.heappop(alarms)
            shard = self._shards[partition]
            if shard.alarm == at:
                shard.alarm = None
                replies += shard.advance(now)
        return replies

    def next_deadline(self) -> Millis | None:
        """When there may be a timer to fire: when the first one is due, or earlier."""
        alarms = self._agenda.alarms
        return alarms[0][0] if alarms else None

    def end_transaction(self, partition: int, producer: Producer, *, commit: bool, now: Millis) -> bool:
        """Write a marker. False if that is not possible now: the partition has no leader, is loading, or its disk is
        failing."""
        shard = self.at(partition, now)
        if shard.state is not ShardState.ACTIVE:
            return False
        try:
            shard.end_transaction(producer, commit=commit, now=now)
        except OSError:
            return False
        return True

    # -- moves between brokers

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    def load_piece(self, now: Millis) -> tuple[Reply, ...]:
        """Load a bounded piece of the shards that are loading."""
        return self._load_piece(self._loading[0], now)

    def _load_piece(self, shard: Shard, now: Millis) -> tuple[Reply, ...]:
        try:
            replies = shard.load_piece(now)
        except (KgmError, OSError) as error:
            replies = self._fail(shard, error, now)
        if shard.state is not ShardState.LOADING:
            self._loading.remove(shard)
        return replies

    def leader_changed(self, partition: int, now: Millis) -> tuple[Reply, ...]:
        """Unload the partition's shard from the former leader and load it on the new one. If its log has failed, it is
        opened again."""
        self._agenda.changed.add(partition)
        shard = self._shards.get(partition)
        if shard is None:
            return ()
        if shard.state is ShardState.LOADING:
            self._loading.remove(shard)
        replies = shard.unload(now)
        if shard.failure is not None:
            self._open(shard)
        else:
            self._load(shard)
        return replies

    # -- logs

    def log(self, partition: int) -> ReadableLog:
        """The records of a partition, for reading."""
        shard = self._shards.get(partition)
        return PartitionLog() if shard is None else shard.log.records

    @property
    def has_changed(self) -> bool:
        """Whether there are changes that `take_changed` has not returned."""
        return bool(self._agenda.changed)

    def take_changed(self) -> set[TopicPartition]:
        """The partitions whose log or leader has changed since the last call."""
        changed, self._agenda.changed = self._agenda.changed, set()
        return {(OFFSETS_TOPIC, partition) for partition in changed}

    def take_new_topics(self) -> list[NewTopic]:
        """The topics that streams groups have asked for since the last call."""
        topics = [*self._agenda.new_topics]
        self._agenda.new_topics.clear()
        return topics

    def longest_open(self, limit: int) -> int | None:
        """If open transactions hold more than `limit` bytes in all: the producer id of the transaction that has been
        open the longest in the partition where they hold the most. None otherwise."""
        held = [shard for shard in self._shards.values() if shard.log.held_bytes]
        if sum(shard.log.held_bytes for shard in held) <= limit:
            return None
        if sum(shard.log.measure_held() for shard in held) <= limit:
            return None
        opened = max(held, key=lambda shard: shard.log.held_bytes).log.records.transactions.open
        return min(opened, key=opened.__getitem__, default=None)

    @property
    def is_dirty(self) -> bool:
        """Whether there are records to flush."""
        return bool(self._agenda.dirty)

    def flush(self, now: Millis) -> tuple[tuple[Reply, ...], set[Ticket], bool]:
        """Make everything appended durable. Returns the replies of shards whose log failed, the tickets whose records
        may be lost, and whether all logs were flushed."""
        replies: tuple[Reply, ...] = ()
        lost: set[Ticket] = set()
        flushed = True
        dirty, self._agenda.dirty = self._agenda.dirty, []
        usable = [shard for shard in dirty if shard.failure is None]
        for shard, error in zip(usable, flush_all([shard.log.flush for shard in usable]), strict=True):
            if error is not None:
                flushed = False
                lost.update(shard.unflushed)
                replies += self._fail(shard, error, now)
        for shard in dirty:
            shard.unflushed = []
            shard.is_dirty = False
        return replies, lost, flushed

    def _fail(self, shard: Shard, error: KgmError | OSError, now: Millis | None = None) -> tuple[Reply, ...]:
        """A log cannot be used: its groups have no coordinator until another broker leads, or the server restarts."""
        shard.failure = error
        replies = () if now is None else shard.unload(now)
        shard.leader = shard.active_on = NO_BROKER
        shard.log.close()
        self.placement.fail(shard.partition)
        self._agenda.changed.add(shard.partition)
        if isinstance(error, KgmError):
            why = error.message + (f" ({error.hint})" if error.hint else "")
        else:
            why = error.strerror or str(error)
        self._warn(f"{OFFSETS_TOPIC}-{shard.partition} is offline, its groups have no coordinator: {why}")
        return replies

    def compact(self, now: Millis) -> tuple[Reply, ...]:
        """Compact the logs that are worth compacting. Returns the replies of shards whose log failed."""
        replies: tuple[Reply, ...] = ()
        for shard in self.all():
            if shard.state is ShardState.ACTIVE and not shard.is_dirty:
                try:
                    shard.log.compact(now)
                except (KgmError, OSError) as error:
                    replies += self._fail(shard, error, now)
        return replies

    def close(self) -> None:
        for shard in self._shards.values():
            if shard.failure is None:
                shard.log.close()


class GroupsView:
    """All groups, read-only, as if one coordinator had them. Groups of shards that are not active are missing."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def group(self, group_id: str) -> GroupView | None:
        engine = self._engine(group_id)
        return None if engine is None else engine.group(group_id)

    def groups(self) -> tuple[GroupView, ...]:
        """All groups, sorted by group id."""
        engines = (shard.engine for shard in self._shards.all())
        views = [group for engine in engines if engine is not None for group in engine.groups()]
        return tuple(sorted(views, key=lambda group: group.group_id))

    def offsets(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """A group's committed offsets."""
        engine = self._engine(group_id)
        return {} if engine is None else engine.offsets.of(group_id)

    def _engine(self, group_id: str) -> Coordinator | None:
        shard = self._shards.find(self._shards.placement.partition_for(group_id))
        return None if shard is None else shard.engine
