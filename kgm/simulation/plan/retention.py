"""What a broker does with a group that it finds empty: it keeps one that has committed offsets, and deletes any other.

Brokers check every `offsets.retention.check.interval.ms` (Kafka: GroupCoordinatorShard.cleanupGroupMetadata)."""

import math
import random

from kgm.coordinator.contract.outcome import EXPIRATION_KEY, Millis
from kgm.coordinator.runtime import Runtime
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record
from kgm.simulation.plan.starting_group import StartingGroup


def offset_record(group_id: str, topic: str, since_ms: int) -> Record:
    """A committed offset, which keeps a group until its retention has passed."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=0)
    return Record(key, OffsetCommitValue(commit_timestamp=since_ms))


class Retention:
    """A broker's timer for finding such groups.

    seed: determines when it checks. is_deleted_when_empty: whether the group has no committed offsets, and the broker
    checks as soon as the group is empty."""

    def __init__(self, group: StartingGroup, seed: str, *, is_deleted_when_empty: bool) -> None:
        self._group = group
        self._is_deleted_when_empty = is_deleted_when_empty
        self._has_offsets = group.has_offsets is not False and not is_deleted_when_empty
        self._seed = seed

    def records(self, since_ms: int) -> list[Record]:
        """The committed offset that keeps the group, if it has any. It does not matter which partition it is for."""
        if not self._has_offsets:
            return []
        return [offset_record(self._group.group_id, next(iter(self._group.topics), ""), since_ms)]

    def begin(self, runtime: Runtime, now_ms: float) -> None:
        """The group is loaded. The broker's timer has been running since it started, and it is not known when that
        was."""
        if not self._has_offsets:
            interval_ms = runtime.engine.settings.offsets_retention_check_interval_ms
            chance = random.Random(self._seed + "/retention")  # noqa: S311  (a simulation)
            self._look_at(runtime, now_ms + interval_ms * chance.random())

    def emptied(self, runtime: Runtime, now_ms: float) -> None:
        """The group has become empty."""
        if self._is_deleted_when_empty:
            self._look_at(runtime, now_ms)

    @staticmethod
    def _look_at(runtime: Runtime, at_ms: float) -> None:
        runtime.suspend_timers([EXPIRATION_KEY])
        runtime.resume_timers([(EXPIRATION_KEY, Millis(math.ceil(at_ms)), runtime.reserve_turns(1))])
