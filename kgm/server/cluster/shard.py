"""One partition of `__consumer_offsets`: its log and, on the broker that leads it, the coordinator of its groups."""

import enum
import heapq
from collections.abc import Callable, Iterator, Sequence

from kgm.coordinator.contract.outcome import Millis, NewTopic, Producer, Reply, Request, Ticket
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.runtime import Runtime
from kgm.model.errors import ErrorCode, KgmError
from kgm.records.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from kgm.records.record import Record
from kgm.server.logs.shard_log import ShardLog

NO_BROKER = 0


class ShardState(enum.Enum):
    """Kafka: CoordinatorRuntime.CoordinatorState."""

    ACTIVE = "active"
    LOADING = "loading"
    CLOSED = "closed"
    """No broker leads the partition, or its log has failed."""


class ShardAgenda:
    """What the shards of a cluster have to do next. dirty: shards with records to flush. changed: the partitions whose
    log or leader has changed since waiting consumers were last woken. alarms: a heap of (time, partition); an entry
    that is no longer its shard's alarm is ignored. new_topics: the topics that streams groups need."""

    def __init__(self) -> None:
        self.dirty: list[Shard] = []
        self.changed: set[int] = set()
        self.alarms: list[tuple[Millis, int]] = []
        self.new_topics: list[NewTopic] = []


class Shard:
    """A coordinator that is loaded and unloaded as the leadership of its partition moves; the log stays.

    active_on: the broker on which it is active, or NO_BROKER. group_ids: of all groups in the cluster. failure: why the
    log cannot be used. unflushed: the tickets whose replies depend on records not yet flushed."""

    def __init__(
        self,
        partition: int,
        log: ShardLog,
        *,
        new_engine: Callable[[], Coordinator],
        image: Callable[[], TopicImage],
        group_ids: set[str],
        agenda: ShardAgenda,
    ) -> None:
        self.partition = partition
        self.log = log
        self.leader = NO_BROKER
        self.active_on = NO_BROKER
        self.state = ShardState.CLOSED
        self.failure: KgmError | OSError | None = None
        self.is_dirty = False
        self.unflushed: list[Ticket] = []
        self.alarm: Millis | None = None
        self.runtime: Runtime | None = None
        self._loading: Iterator[None] | None = None
        self._to_arm: list[str] = []
        self._new_engine = new_engine
        self._image = image
        self._group_ids = group_ids
        self._agenda = agenda
        self._now = Millis(0)

    @property
    def engine(self) -> Coordinator | None:
        """The coordinator; None unless the shard is active."""
        return self.runtime.engine if self.runtime is not None and self.state is ShardState.ACTIVE else None

    def refusal_at(self, node_id: int) -> ErrorCode:
        """The error if a broker refuses a request to a group of this shard, or NONE (Kafka:
        CoordinatorRuntime.withActiveContext)."""
        if self.active_on == node_id:
            return ErrorCode.NONE
        if self.state is ShardState.LOADING and self.leader == node_id:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    # -- leadership

    def load(self, leader: int) -> None:
        """Start loading on a broker. The shard must be closed."""
        assert self.state is ShardState.CLOSED
        engine = self._new_engine()
        self.runtime = Runtime(
            engine, append=self._append, has_real_clock=True, create_topics=self._agenda.new_topics.extend
        )
        self._loading = self.log.replay(_Loader(engine, self._group_ids))
        self.leader = leader
        self.state = ShardState.LOADING

    def load_piece(self, now: Millis) -> tuple[Reply, ...]:
        """Replay the next piece of the log or, when all is replayed, arm the timers of the next group; after the last
        group the shard is active. Raises what the log raises."""
        runtime = self.runtime
        assert runtime is not None
        self._now = now
        if self._loading is not None:
            for _ in self._loading:
                return ()
            self._loading = None
            self._to_arm = list(runtime.engine.group_ids())
        if self._to_arm:
            return runtime.loaded(now=now, group_ids=(self._to_arm.pop(),))
        self.state = ShardState.ACTIVE
        self.active_on = self.leader
        return self._noted(runtime.loaded(now=now, group_ids=())) + self.topics_changed(now)

    def unload(self, now: Millis) -> tuple[Reply, ...]:
        """Stop. Waiting requests are answered with NOT_COORDINATOR."""
        runtime, state = self.runtime, self.state
        self.runtime = self._loading = self.alarm = None
        self.leader = self.active_on = NO_BROKER
        self.state = ShardState.CLOSED
        return runtime.unload(now=now) if runtime is not None and state is ShardState.ACTIVE else ()

    # -- events

    def handle(self, request: Request, *, ticket: Ticket, now: Millis) -> tuple[Reply, ...]:
        """A request came in. The shard must be active."""
        assert self.runtime is not None
        self._now = now
        return self._noted(self.runtime.handle(request, ticket=ticket, now=now))

    def advance(self, now: Millis) -> tuple[Reply, ...]:
        """Fire the timers that are due."""
        if self.state is not ShardState.ACTIVE:
            return ()
        assert self.runtime is not None
        self._now = now
        return self._noted(self.runtime.advance(now))

    def topics_changed(self, now: Millis) -> tuple[Reply, ...]:
        """The topics may have changed. A shard that is loading picks them up when it is done."""
        image = self._image()
        if self.state is not ShardState.ACTIVE:
            return ()
        assert self.runtime is not None
        self._now = now
        if self.runtime.engine.image is image:
            return ()
        return self._noted(self.runtime.topics_changed(image, now=now))

    def disconnected(self, ticket: Ticket) -> tuple[Reply, ...]:
        """The connection of a request, which may be waiting here, is closed."""
        if self.state is not ShardState.ACTIVE:
            return ()
        assert self.runtime is not None
        return self._noted(self.runtime.disconnected(ticket, now=self._now))

    def end_transaction(self, producer: Producer, *, commit: bool, now: Millis) -> None:
        """Write a marker. Raises OSError. The shard must be active."""
        assert self.runtime is not None
        self.log.append_marker(producer, commit=commit, now=now)
        self._written()
        self.runtime.engine.replay_end_transaction(producer[0], producer[1], commit=commit)
        self._noted(())

    def next_deadline(self) -> Millis | None:
        """When the next timer fires; None if none is set."""
        return None if self.state is not ShardState.ACTIVE or self.runtime is None else self.runtime.next_deadline()

    def _append(self, records: Sequence[Record], producer: Producer | None = None, /) -> None:
        self.log.append(records, now=self._now, producer=producer)
        self._written()
        for record in records:
            count_group(record, self._group_ids)

    def _written(self) -> None:
        self.is_dirty = self.log.is_durable
        self._agenda.changed.add(self.partition)

    def _noted(self, replies: tuple[Reply, ...]) -> tuple[Reply, ...]:
        """Return the replies of an event, after adding what the event leaves to do to the agenda."""
        if self.is_dirty:
            if not self.unflushed and self not in self._agenda.dirty:
                self._agenda.dirty.append(self)
            self.unflushed += [reply.ticket for reply in replies]
        runtime = self.runtime
        if runtime is not None and self.alarm is not None and self.alarm <= runtime.quiet_until():
            return replies  # no timer is due before the alarm; when it goes off, the next one is looked up
        deadline = self.next_deadline()
        if deadline is not None and (self.alarm is None or deadline < self.alarm):
            self.alarm = deadline
            heapq.heappush(self._agenda.alarms, (deadline, self.partition))
        return replies


def count_group(record: Record, group_ids: set[str]) -> None:
    """Add or remove the group that a record creates or deletes."""
    match record.key:
        case OffsetCommitKey(group=group_id) if record.value is not None:
            group_ids.add(group_id)
        case (
            GroupMetadataKey(group=group_id)
            | ConsumerGroupMetadataKey(group_id=group_id)
            | StreamsGroupMetadataKey(group_id=group_id)
        ):
            if record.value is not None:
                group_ids.add(group_id)
            else:
                group_ids.discard(group_id)
        case _:
            pass


class _Loader:
    """Replays a log into an engine, and counts groups."""

    def __init__(self, engine: Coordinator, group_ids: set[str]) -> None:
        self._engine = engine
        self._group_ids = group_ids

    def replay(self, record: Record, producer: tuple[int, int] | None = None) -> None:
        self._engine.replay(record, producer)
        count_group(record, self._group_ids)

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        self._engine.replay_end_transaction(producer_id, producer_epoch, commit=commit)
