"""What happened to the committed offsets of a group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kgm.client.admin_client import AdminClient
from kgm.history.causes.verdict import GroupEventKind
from kgm.history.facts.offset_changes import BrokerView, GroupMoment, HeldOffset, OffsetChange, OffsetFold
from kgm.history.reconstruct.classic_snapshots import SnapshotKind
from kgm.history.rows import CONSUMER_EPOCHS, CommitRow, EventRow, GroupEpochRow, SnapshotRow
from kgm.operations.history.source import History
from kgm.text.whole_numbers import whole_number

_RETENTION: Final = "offsets.retention.minutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetHistory:
    """The committed offsets of a group over time. changes: by topic and partition, oldest first; held: the offsets that
    exist at the end. retention_ms: offsets.retention.minutes, in ms; None if unknown."""

    changes: tuple[OffsetChange, ...]
    held: tuple[HeldOffset, ...]
    retention_ms: int | None


def offset_history(
    history: History, group_id: str, view: BrokerView, *, topic: str | None = None, partition: int | None = None
) -> OffsetHistory:
    """The offset history of a group, optionally limited to a topic, or to a partition number. Raises NotFoundError for
    a group that does not exist."""
    commits = history.tables.rows(CommitRow, history.all_times(group_id))
    if not commits:
        history.require_group(group_id)
    owners = history.owners(history.all_times(group_id))
    limits = history.tables.origin.unconfirmed_until
    fold = OffsetFold(_moments(history, group_id), owners, view, unconfirmed_until=limits)
    fold.feed(commits)

    def is_wanted(one: OffsetChange | HeldOffset) -> bool:
        return topic in (None, one.topic) and partition in (None, one.topic_partition)

    since, until = history.since_ms, history.until_ms
    changes = [
        one
        for one in filter(is_wanted, fold.changes())
        if (since is None or one.last_ms >= since) and (until is None or one.first_ms < until)
    ]
    return OffsetHistory(
        changes=tuple(changes), held=tuple(filter(is_wanted, fold.held())), retention_ms=view.retention_ms
    )


def broker_view(cluster: AdminClient, history: History, group_id: str, retention_ms: int | None) -> BrokerView:
    """What the brokers currently report about a group's offsets. retention_ms: offsets.retention.minutes in ms; if
    None, it is read from the brokers. What cannot be read is left out."""
    if retention_ms is None:
        minutes = whole_number(cluster.broker_settings(group_id, [_RETENTION]).get(_RETENTION))
        retention_ms = None if minutes is None else minutes * 60_000
    fold = OffsetFold((), (), BrokerView())
    fold.feed(history.tables.rows(CommitRow, history.all_times(group_id)))
    names = sorted({one.topic for one in fold.changes()})
    committed = {(one.topic, one.topic_partition): one.committed for one in fold.held()}
    topics, ends, starts = cluster.offsets.topics_and_ends(names, set(committed), cluster.deadline, committed=committed)
    starts = {at: offset for at, offset in committed.items() if ends.get(at, offset + 1) <= offset} | starts
    known = {one.name: one.topic_id for one in topics}
    return BrokerView(
        retention_ms=retention_ms,
        topics=known,
        absent=cluster.offsets.missing_topics.intersection(names),
        starts=starts,
    )


def _moments(history: History, group_id: str) -> Iterator[GroupMoment]:
    """The group after each record that changes whether it has members."""
    wanted = history.all_times(group_id)
    for row in history.tables.rows(SnapshotRow, wanted):
        is_gone = row.kind == SnapshotKind.TOMBSTONE
        since = row.state_timestamp if row.protocol_type and not row.members else None
        yield GroupMoment(
            offset=row.offset, timestamp=row.timestamp, members=None if is_gone else row.members or 0,
            empty_ms=None if since is None or since < 0 else since, complete=bool(row.contiguous),
        )  # fmt: skip
    for epoch in history.tables.rows(GroupEpochRow, wanted):
        if epoch.members is None or epoch.group_type not in CONSUMER_EPOCHS:  # not known: as before it
            continue
        yield GroupMoment(
            offset=epoch.offset, timestamp=epoch.timestamp, members=epoch.members, complete=epoch.complete
        )
    for event in history.tables.rows(EventRow, wanted):
        if event.event == GroupEventKind.REMOVED and event.group_type == "consumer":
            yield GroupMoment(offset=event.offset, timestamp=event.timestamp, members=None, complete=event.complete)
