"""For which topics groups have committed offsets, according to their log, also for topics that the login may not
describe.

OffsetFetch silently leaves out topics on which the principal has no DESCRIBE, and no API says whether there are any.
The log in `__consumer_offsets` has every commit that is still valid: compaction keeps the last record of each
partition, and what has expired or was deleted has a tombstone. Reading requires READ on the topic."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kgm.client.topic_log import partition_log
from kgm.client.transport.brokers import Brokers
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.java.partitions import partition_for
from kgm.model.errors import AuthorizationError, KgmError
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.record import decode_record
from kgm.records.record_types import RecordType

#: The logs of at most this many groups are read, because each one takes time and bytes.
MOST_GROUPS: Final = 20
#: The most bytes of a partition that are read to reach its end, plus one fetch. What a longer one says is not known.
MAX_BYTES: Final = 16 << 20
_KEY_HEAD: Final = struct.Struct(">hh")
_COMMITS: Final = (RecordType.OFFSET_COMMIT, RecordType.LEGACY_OFFSET_COMMIT)


@dataclass(slots=True, kw_only=True)
class _GroupLog:
    """What was read of the log of one group. position: the next offset to read, None before the first read.
    partitions: (topic, partition) with a committed offset. size: how many bytes were read since its end was last
    reached."""

    heads: frozenset[bytes]
    position: int | None = None
    partitions: set[tuple[str, int]] = field(default_factory=set)
    size: int = 0

    @classmethod
    def of(cls, group_id: str) -> _GroupLog:
        name = group_id.encode()
        return cls(heads=frozenset(_KEY_HEAD.pack(kind, len(name)) + name for kind in _COMMITS))


class CommittedTopics:
    """Reads the logs of groups: first all of it, later what is new."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._logs: dict[str, _GroupLog] = {}
        self._is_denied = False

    def of(self, group_ids: Iterable[str], deadline: Deadline) -> dict[str, set[str]]:
        """The topics by group; groups whose log could not be read in full are left out. Raises nothing."""
        found: dict[str, set[str]] = {}
        for group_id in group_ids:
            if self._is_denied or (group_id not in self._logs and len(self._logs) == MOST_GROUPS):
                continue
            log = self._logs.setdefault(group_id, _GroupLog.of(group_id))
            try:
                is_whole = self._read(group_id, log, deadline)
            except AuthorizationError:
                self._is_denied = True
            except KgmError:
                continue  # the next call goes on from here
            else:
                if is_whole:
                    found[group_id] = {topic for topic, _ in log.partitions}
        return found

    def _read(self, group_id: str, log: _GroupLog, deadline: Deadline) -> bool:
        """Read to the end; returns whether all of the log is known. Raises KgmError."""
        if log.size > MAX_BYTES:
            return False
        topic = partition_log.look_up(self._brokers, deadline)
        number = partition_for(group_id, topic.partition_count)
        leader = topic.leaders.get(number)
        if leader is None:
            raise partition_log.leaderless(number)
        return self._brokers.on_broker(leader.broker, partial(_read_on, log, number, deadline), deadline)


def _read_on(log: _GroupLog, number: int, deadline: Deadline, connection: BrokerConnection) -> bool:
    end = partition_log.end_offset(connection, number, deadline)
    if log.position is None or end < log.position:  # the topic was deleted and created again
        log.position, log.size = partition_log.start_offset(connection, number, deadline), 0
        log.partitions.clear()
    for fetched in partition_log.fetch_batches(connection, number, log.position, end, deadline):
        log.size += sum(len(batch.data) for batch in fetched)
        for batch in fetched:
            for row in () if batch.is_control else batch.records:
                if row.key is not None and log.position <= row.offset < end:
                    _note(log, row.key, row.value)
        log.position = min(fetched[-1].last_offset + 1, end)
        if log.size > MAX_BYTES and log.position < end:
            return False
    log.size = 0
    return True


def _note(log: _GroupLog, key: bytes, value: bytes | None) -> None:
    """Raises DecodeError."""
    if not any(key.startswith(head) for head in log.heads):
        return
    commit = decode_record(key, value).key
    if isinstance(commit, OffsetCommitKey):
        change = log.partitions.discard if value is None else log.partitions.add
        change((commit.topic, commit.partition))
