"""How often owners commit that committed nothing between two descriptions: by the log of their group, as the guard of
removals tells it. A member that commits every 30 seconds is not stalled because nothing came from it in 6.

The guard asks for signs of life, and takes what a transaction wrote for one, even if it was aborted. Here only what
moved the offsets counts: an owner whose transactions all fail is stalled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from kgm.client import AdminClient
from kgm.client.offsets_topic.member_activity import ActivityRecord, CommitRecord, GroupActivity
from kgm.model.assignment import Partitions
from kgm.model.snapshot import GroupSnapshot, OffsetSnapshot
from kgm.model.work import STREAMS_ASSIGNOR
from kgm.operations.doctor.coordinator_records import LOG_SHARE
from kgm.operations.doctor.findings import SkippedChecks
from kgm.operations.removal.liveness import ENOUGH_COMMITS, SILENT_INTERVALS, CommitInterval, commit_interval
from kgm.text.durations import show_duration

#: The logs of at most this many groups are read back, because each one takes time and bytes.
_MOST_LOGS: Final = 10
#: commit.interval.ms of Kafka Streams, by default. Applications with processing.guarantee=exactly_once_v2 commit more
#: often.
_STREAMS_INTERVAL_MS: Final = 30_000

#: The partitions of each owner, by its instance id or member id.
OwnedRows = Mapping[str, Sequence[OffsetSnapshot]]


class OwnCommits(NamedTuple):
    """interval: None if it is not known; last_ms: the time of the last commit, None if it is not known."""

    interval: CommitInterval | None = None
    last_ms: int | None = None

    def are_overdue(self, group: GroupSnapshot, window_ms: int, now_ms: int) -> bool:
        """Whether the owner has missed its commits, if it committed nothing during the last `window_ms`. A plain
        consumer of which nothing else is known has, whatever the window."""
        if self.interval is not None:
            interval_ms = self.interval.longest_ms
        elif is_streams(group):
            interval_ms = _STREAMS_INTERVAL_MS
        else:
            return True
        silent_ms = window_ms if self.last_ms is None else max(window_ms, now_ms - self.last_ms)
        return silent_ms >= SILENT_INTERVALS * interval_ms


def is_streams(group: GroupSnapshot) -> bool:
    """Whether its members are threads of Kafka Streams, with either protocol."""
    return group.type == "streams" or group.assignor == STREAMS_ASSIGNOR


@dataclass(slots=True)
class OwnCommitsQueries:
    """Reads the logs of groups with silent owners. skipped: what could not be judged, and why."""

    cluster: AdminClient
    skipped: list[SkippedChecks] = field(default_factory=list)
    _logs_read: int = 0

    def of(self, group: GroupSnapshot, silent: OwnedRows, window_ms: int, now_ms: int) -> Mapping[str, OwnCommits]:
        """By owner. silent: the owners that committed nothing during the last `window_ms`."""
        if not silent:
            return {}
        found, why = self._read(group, silent)
        unknown = [one for one in silent if found.get(one, OwnCommits()) == OwnCommits()]
        untold = [one for one in unknown if not OwnCommits().are_overdue(group, window_ms, now_ms)]
        if untold:
            usual, least = show_duration(_STREAMS_INTERVAL_MS), show_duration(SILENT_INTERVALS * _STREAMS_INTERVAL_MS)
            why = (
                f"group {group.group_id}: {why}; Kafka Streams commits every {usual} by default, so that a window of "
                f"{show_duration(window_ms)} shows nothing (--window {least})"
            )
            self.skipped.append(SkippedChecks(checks=("stalled-owner",), why=why, is_optional=True))
        return found

    def _read(self, group: GroupSnapshot, silent: OwnedRows) -> tuple[Mapping[str, OwnCommits], str]:
        """(commits by owner, why they are unknown if they are)."""
        if self._logs_read == _MOST_LOGS:
            return {}, f"the logs of more than {_MOST_LOGS} groups are not read"
        self._logs_read += 1
        activity = GroupActivity(self.cluster, group.group_id)

        def told(records: Sequence[ActivityRecord]) -> dict[str, OwnCommits]:
            committed = [*_committed(records)]
            return {owner: OwnCommits(*_interval(rows, committed)) for owner, rows in silent.items()}

        def is_enough(records: Sequence[ActivityRecord]) -> bool:
            intervals = [one.interval for one in told(records).values()]
            return all(interval is not None and interval.commits >= ENOUGH_COMMITS for interval in intervals)

        records = activity.read_back(is_enough, self.cluster.deadline.part(LOG_SHARE))
        found = told(records)
        if is_streams(group):  # no default of theirs says how often transactions are tried that are never committed
            for owner, one in found.items():
                if one.interval is None:
                    found[owner] = one._replace(interval=_interval(silent[owner], records)[0])
        return found, activity.unreadable_because or "the group's log does not show how often it commits"


def _committed(records: Sequence[ActivityRecord]) -> Iterator[ActivityRecord]:
    """The records, without offsets of transactions that are open or were aborted; those of committed transactions at
    the time of the marker, from which on they count."""
    for record in records:
        if not isinstance(record, CommitRecord):
            yield record
        elif record.committed_ms is not None:
            yield replace(record, at_ms=record.committed_ms)


def _interval(
    rows: Sequence[OffsetSnapshot], records: Sequence[ActivityRecord]
) -> tuple[CommitInterval | None, int | None]:
    """See `commit_interval`. rows: the partitions of one owner."""
    return commit_interval(rows[0].member_id or "", _partitions(rows), records)


def _partitions(rows: Sequence[OffsetSnapshot]) -> Partitions:
    by_topic: dict[str, list[int]] = {}
    for row in rows:
        by_topic.setdefault(row.topic, []).append(row.partition)
    return by_topic
