"""One partition of `__consumer_offsets`: its log, and, on the broker that leads it, the coordinator of its groups."""

import enum
from collections.abc import Callable, Iterator, Sequence

from kgm.coordinator.contract.outcome import Millis, Producer, Reply, Request, Ticket
from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.runtime import Runtime
from kgm.model.errors import ErrorCode, KgmError
from kgm.records.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.record import Record
from kgm.server.logs.memory_log import ShardLog

NOBODY = 0


class Phase(enum.Enum):
    """What a shard is doing (Kafka: CoordinatorState)."""

    ACTIVE = "active"
    LOADING = "loading"
    CLOSED = "closed"
    """Nobody leads it, or its log has failed."""


class Shard:
    """A coordinator that comes and goes with the leadership of its partition; the log stays.

    serving: the id of the broker on which it is active, or NOBODY: all that a request has to look at. group_ids: of the
    groups that the log has. failure: why the log cannot be used; nothing that was not flushed before counts. unflushed:
    the tickets whose replies rest on what is not flushed."""

    def __init__(
        self,
        partition: int,
        log: ShardLog,
        *,
        new_engine: Callable[[], Coordinator],
        image: Callable[[], TopicImage],
        group_ids: set[str],
    ) -> None:
        self.partition = partition
        self.log = log
        self.leader = NOBODY
        self.serving = NOBODY
        self.phase = Phase.CLOSED
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
        self._now = Millis(0)

    @property
    def engine(self) -> Coordinator | None:
        """The coordinator, once it is active."""
        return self.runtime.engine if self.runtime is not None and self.phase is Phase.ACTIVE else None

    def refusal_at(self, node_id: int) -> ErrorCode:
        """What a broker answers that is asked for a group of this shard (CoordinatorRuntime.withActiveContext)."""
        if self.serving == node_id:
            return ErrorCode.NONE
        if self.phase is Phase.LOADING and self.leader == node_id:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    # -- leadership

    def load(self, leader: int) -> None:
        """Begin to be loaded on a broker. The shard must be closed."""
        assert self.phase is Phase.CLOSED
        engine = self._new_engine()
        self.runtime = Runtime(engine, append=self._append)
        self._loading = self.log.replay(_Loader(engine, self._group_ids))
        self.leader = leader
        self.phase = Phase.LOADING

    def load_piece(self, now: Millis) -> tuple[Reply, ...]:
        """Replay some more, then arm the timers of one group after the other; at the end the shard is active. Raises
        what the log raises."""
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
        self.phase = Phase.ACTIVE
        self.serving = self.leader
        return runtime.loaded(now=now, group_ids=()) + self.topics_changed(now)

    def unload(self, now: Millis) -> tuple[Reply, ...]:
        """Stop; whoever waits is told to look for the coordinator elsewhere."""
        runtime, phase = self.runtime, self.phase
        self.runtime = self._loading = self.alarm = None
        self.leader = self.serving = NOBODY
        self.phase = Phase.CLOSED
        return runtime.unload(now=now) if runtime is not None and phase is Phase.ACTIVE else ()

    # -- work

    def submit(self, request: Request, *, ticket: Ticket, now: Millis) -> tuple[Reply, ...]:
        assert self.runtime is not None
        self._now = now
        return self.runtime.submit(request, ticket=ticket, now=now)

    def advance(self, now: Millis) -> tuple[Reply, ...]:
        if self.phase is not Phase.ACTIVE:
            return ()
        assert self.runtime is not None
        self._now = now
        return self.runtime.advance(now)

    def topics_changed(self, now: Millis) -> tuple[Reply, ...]:
        """There may be other topics than the coordinator knows. One that is being loaded is told at the end."""
        image = self._image()
        if self.phase is not Phase.ACTIVE:
            return ()
        assert self.runtime is not None
        self._now = now
        return () if self.runtime.engine.image is image else self.runtime.topics_changed(image, now=now)

    def hung_up(self, ticket: Ticket) -> tuple[Reply, ...]:
        """The connection of a request that may be waiting is gone."""
        if self.phase is not Phase.ACTIVE:
            return ()
        assert self.runtime is not None
        return self.runtime.hung_up(ticket, now=self._now)

    def next_deadline(self) -> Millis | None:
        return None if self.phase is not Phase.ACTIVE or self.runtime is None else self.runtime.next_deadline()

    def end_transaction(self, producer: Producer, *, commit: bool, now: Millis) -> None:
        """Write a marker. Raises OSError. The shard must be active."""
        assert self.runtime is not None
        self.log.append_marker(producer, commit=commit, now=now)
        self.is_dirty = self.log.is_durable
        self.runtime.engine.replay_end_transaction(producer[0], producer[1], commit=commit)

    def _append(self, records: Sequence[Record], producer: Producer | None = None, /) -> None:
        self.log.append(records, now=self._now, producer=producer)
        self.is_dirty = self.log.is_durable
        for record in records:
            note_group(record, self._group_ids)


def note_group(record: Record, group_ids: set[str]) -> None:
    """Keep count of the groups there are."""
    match record.key:
        case OffsetCommitKey(group=group_id) if record.value is not None:
            group_ids.add(group_id)
        case GroupMetadataKey(group=group_id) | ConsumerGroupMetadataKey(group_id=group_id):
            if record.value is not None:
                group_ids.add(group_id)
            else:
                group_ids.discard(group_id)
        case _:
            pass


class _Loader:
    """Takes what is replayed on to the engine, and counts groups."""

    def __init__(self, engine: Coordinator, group_ids: set[str]) -> None:
        self._engine = engine
        self._group_ids = group_ids

    def replay(self, record: Record, producer: tuple[int, int] | None = None) -> None:
        self._engine.replay(record, producer)
        note_group(record, self._group_ids)

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, commit: bool) -> None:  # noqa: FBT001
        self._engine.replay_end_transaction(producer_id, producer_epoch, commit=commit)
