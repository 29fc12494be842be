"""All shards of a cluster: which one a group belongs to, their alarms, their moves between brokers, their flushes.

A group's shard is the partition of `__consumer_offsets` that its id hashes to. Shards are made when they are first
asked for; those that have a log from an earlier run are loaded at the start."""

import heapq
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Protocol

from kgm.coordinator.admin.view import GroupView
from kgm.coordinator.contract.outcome import Millis, Producer, Reply, Request, Ticket
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.offsets.store import CommittedOffset, TopicPartition
from kgm.model.errors import KgmError
from kgm.model.ids import uuid_text
from kgm.server.cluster.nodes import OFFSETS_TOPIC, Placement
from kgm.server.cluster.shard import NOBODY, Phase, Shard
from kgm.server.cluster.topics import Topics
from kgm.server.contract.limits import Limits
from kgm.server.logs.flush import flush_all
from kgm.server.logs.memory_log import MemoryLog, ShardLog


def new_member_id(prefix: str) -> str:
    """A member id as Kafka makes them for classic groups."""
    return f"{prefix}-{uuid.uuid4()}"


def new_consumer_id(_prefix: str) -> str:
    """A member id as Kafka makes them for consumer groups: its own writing of a UUID, without a dash in front."""
    while (text := uuid_text(uuid.uuid4().bytes)).startswith("-"):
        pass
    return text


class Logs(Protocol):
    """Where the partitions of `__consumer_offsets` are kept."""

    def there_are(self) -> Iterable[int]:
        """The partitions that have a log from an earlier run."""

    def open(self, partition: int) -> ShardLog:
        """The partition's log, made when it is first written to. Raises KgmError or OSError."""


class InMemory:
    """Nothing is left of an earlier run."""

    def there_are(self) -> Iterable[int]:
        return ()

    def open(self, partition: int) -> ShardLog:  # noqa: ARG002  (all begin alike)
        return MemoryLog()


class Shards:
    """The coordinators of all groups, wherever they are."""

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        topics: Topics,
        limits: Limits,
        placement: Placement,
        logs: Logs,
        configs: Mapping[str, Mapping[str, str]],
        warn: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.placement = placement
        self.group_ids: set[str] = set()
        self.dirty: list[Shard] = []
        self._topics = topics
        self._most_known = 2 * limits.max_groups
        self._logs = logs
        self._configs = configs
        self._warn = warn
        self._shards: dict[int, Shard] = {}
        self._by_group: dict[str, Shard] = {}
        self._alarms: list[tuple[Millis, int]] = []
        self._loading: deque[Shard] = deque()

    def start(self, now: Millis) -> None:
        """Load what there is, at once: nobody is connected yet."""
        for partition in sorted(self._logs.there_are()):
            if partition in self.placement:
                self.at(partition, now)

    # -- which

    def of(self, group_id: str, now: Millis) -> Shard:
        """The shard of a group."""
        shard = self._by_group.get(group_id)
        if shard is None:
            if len(self._by_group) >= self._most_known:  # clients may ask for any id
                self._by_group.clear()
            shard = self._by_group[group_id] = self.at(self.placement.of_group(group_id), now)
        return shard

    def find(self, partition: int) -> Shard | None:
        """The shard of a partition if it has been asked for before."""
        return self._shards.get(partition)

    def at(self, partition: int, now: Millis) -> Shard:
        """The shard of a partition. The first time it is loaded at once: either its log is empty, or nobody is
        connected yet."""
        shard = self._shards.get(partition)
        if shard is None:
            shard = self._shards[partition] = Shard(
                partition,
                MemoryLog(),
                new_engine=partial(self._new_engine, partition),
                image=lambda: self._topics.image,
                group_ids=self.group_ids,
            )
            self._open(shard)
            while self._loading and self._loading[-1] is shard:
                self._load_piece(shard, now)
        return shard

    def all(self) -> Iterator[Shard]:
        """Those that have been asked for, by partition."""
        return (shard for _, shard in sorted(self._shards.items()))

    def _new_engine(self, partition: int) -> Coordinator:
        engine = Coordinator(
            settings=self.settings,
            new_member_id=new_member_id,
            new_consumer_id=new_consumer_id,
            topics=self._topics,
            image=self._topics.image,
        )
        for group_id, values in self._configs.items():
            if self.placement.of_group(group_id) == partition:
                engine.configure(group_id, values)
        return engine

    def _open(self, shard: Shard) -> None:
        """Take up a log, and have it loaded by the leader."""
        try:
            shard.log = self._logs.open(shard.partition)
        except (KgmError, OSError) as error:
            self._fail(shard, error)
            return
        shard.failure = None
        self._lead(shard)

    def _lead(self, shard: Shard) -> None:
        leader = self.placement[shard.partition].leader
        if leader is not None and shard.failure is None:
            shard.load(leader)
            self._loading.append(shard)

    # -- work

    def submit(self, shard: Shard, request: Request, *, ticket: Ticket, now: Millis) -> tuple[Reply, ...]:
        """Hand a request to a shard that is active."""
        return self._settle(shard, shard.submit(request, ticket=ticket, now=now))

    def configure(self, group_id: str) -> None:
        """Something else is set for a group than before. What is loading or to be loaded finds it anyway."""
        shard = self._shards.get(self.placement.of_group(group_id))
        if shard is not None and shard.runtime is not None:
            shard.runtime.engine.configure(group_id, self._configs.get(group_id, {}))

    def topics_changed(self, now: Millis) -> tuple[Reply, ...]:
        """There are other topics than before."""
        replies: tuple[Reply, ...] = ()
        for shard in self.all():
            replies += self._settle(shard, shard.topics_changed(now))
        return replies

    def forget(self, ticket: Ticket) -> None:
        """The connection of a request that may be waiting is gone."""
        if self.settings.plans:  # it matters to none but those who are held back for a plan
            for shard in self.all():
                self._settle(shard, shard.hung_up(ticket))

    def advance(self, now: Millis) -> tuple[Reply, ...]:
        """Fire the timers that are due."""
        replies: tuple[Reply, ...] = ()
        while self._alarms and self._alarms[0][0] <= now:
            at, partition = heapq.heappop(self._alarms)
            shard = self._shards[partition]
            if shard.alarm == at:
                shard.alarm = None
                replies += self._settle(shard, shard.advance(now))
        return replies

    def next_deadline(self) -> Millis | None:
        """When there may be a timer to fire; never later than the first that is due."""
        return self._alarms[0][0] if self._alarms else None

    def _settle(self, shard: Shard, replies: tuple[Reply, ...]) -> tuple[Reply, ...]:
        """After an event in a shard: note what has to be flushed, and its next alarm."""
        if shard.is_dirty:
            if not shard.unflushed and shard not in self.dirty:
                self.dirty.append(shard)
            shard.unflushed += [reply.ticket for reply in replies]
        deadline = shard.next_deadline()
        if deadline is not None and (shard.alarm is None or deadline < shard.alarm):
            shard.alarm = deadline
            heapq.heappush(self._alarms, (deadline, shard.partition))
        return replies

    def end_transaction(self, partition: int, producer: Producer, *, commit: bool, now: Millis) -> bool:
        """Write a marker. False: not now, as the partition is not led, not loaded, or its disk will not do it."""
        shard = self.at(partition, now)
        if shard.phase is not Phase.ACTIVE:
            return False
        try:
            shard.end_transaction(producer, commit=commit, now=now)
        except OSError:
            return False
        self._settle(shard, ())
        return True

    # -- moving

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    def load_piece(self, now: Millis) -> tuple[Reply, ...]:
        """A bounded piece of what is to be loaded."""
        return self._load_piece(self._loading[0], now)

    def _load_piece(self, shard: Shard, now: Millis) -> tuple[Reply, ...]:
        try:
            replies = shard.load_piece(now)
        except (KgmError, OSError) as error:
            replies = self._fail(shard, error, now)
        if shard.phase is not Phase.LOADING:
            self._loading.remove(shard)
            return self._settle(shard, replies)
        return replies

    def follow(self, partition: int, now: Millis) -> tuple[Reply, ...]:
        """The partition's leader has changed: stop on the old one, load on the new one. A log that has failed is
        tried again."""
        shard = self._shards.get(partition)
        if shard is None:
            return ()
        if shard.phase is Phase.LOADING:
            self._loading.remove(shard)
        replies = shard.unload(now)
        if shard.failure is not None:
            self._open(shard)
        else:
            self._lead(shard)
        return replies

    # -- the log

    def flush(self, now: Millis) -> tuple[tuple[Reply, ...], set[Ticket], bool]:
        """Make durable what was appended. Returns replies to whoever waited in a shard whose log has failed, the
        tickets whose replies must not go out, and whether there was no failure."""
        replies: tuple[Reply, ...] = ()
        void: set[Ticket] = set()
        done = True
        dirty = [shard for shard in self.dirty if shard.failure is None]
        for shard, error in zip(dirty, flush_all([shard.log.flush for shard in dirty]), strict=True):
            if error is not None:
                done = False
                void.update(shard.unflushed)
                replies += self._fail(shard, error, now)
        for shard in self.dirty:
            shard.unflushed = []
            shard.is_dirty = False
        self.dirty = []
        return replies, void, done

    def _fail(self, shard: Shard, error: KgmError | OSError, now: Millis | None = None) -> tuple[Reply, ...]:
        """A log cannot be used: its groups have no coordinator until another broker leads, or the server restarts."""
        shard.failure = error
        replies = () if now is None else shard.unload(now)
        shard.leader = shard.serving = NOBODY
        shard.log.close()
        self.placement.fail(shard.partition)
        why = error.message if isinstance(error, KgmError) else error.strerror or str(error)
        self._warn(f"{OFFSETS_TOPIC}-{shard.partition} is offline, its groups have no coordinator: {why}")
        return replies

    def tidy(self, now: Millis) -> tuple[Reply, ...]:
        """Compact the logs that are worth it."""
        replies: tuple[Reply, ...] = ()
        for shard in self.all():
            if shard.phase is Phase.ACTIVE and not shard.is_dirty:
                try:
                    shard.log.tidy(now)
                except (KgmError, OSError) as error:
                    replies += self._fail(shard, error, now)
        return replies

    def close(self) -> None:
        for shard in self._shards.values():
            if shard.failure is None:
                shard.log.close()


class View:
    """All groups as if one coordinator had them; only to be looked at. Groups that are not loaded are not there."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def group(self, group_id: str) -> GroupView | None:
        engine = self._engine(group_id)
        return None if engine is None else engine.group(group_id)

    def groups(self) -> tuple[GroupView, ...]:
        """By group id."""
        engines = (shard.engine for shard in self._shards.all())
        found = [group for engine in engines if engine is not None for group in engine.groups()]
        return tuple(sorted(found, key=lambda group: group.group_id))

    @property
    def offsets(self) -> "View":
        return self

    def of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """A group's committed offsets."""
        engine = self._engine(group_id)
        return {} if engine is None else engine.offsets.of(group_id)

    def _engine(self, group_id: str) -> Coordinator | None:
        shard = self._shards.find(self._shards.placement.of_group(group_id))
        return None if shard is None else shard.engine
