"""What a consumer group (KIP-848) is waiting for if a history ends during a rebalance, from its records alone.

A classic group writes nothing when a rebalance begins: only a live coordinator knows whether one is in progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from kgm.history.facts.consumer_state import LoggedMemberState
from kgm.history.row_parts import TopicIdPartitions
from kgm.history.rows import CommitRow, GroupEpochRow, MemberStateRow, TableRow, TenureRow
from kgm.model.assignment import Partitions
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.uuids import uuid_text
from kgm.operations.groups.rebalance_wait import GenerationMember, RebalanceWait, behind, rebalance_wait
from kgm.operations.history.source import History
from kgm.operations.history.unconfirmed import unconfirmed_members

_LEFT = (LoggedMemberState.AWAY, LoggedMemberState.GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit(TableRow):
    """The columns of a commit that show when another coordinator had taken over."""

    table: ClassVar[str] = CommitRow.table
    timestamp: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tenure(TableRow):
    """The columns of a tenure that show whether it has ended."""

    table: ClassVar[str] = TenureRow.table
    member_id: str
    from_offset: int
    to_offset: int | None


def logged_wait(history: History, group_id: str) -> RebalanceWait | None:
    """What the group is waiting for; None if all members reached its last epoch, if it has no epochs, or if it is not
    known whether those that are behind are still there."""
    rows = history.all_times(group_id)
    epochs = sorted(history.tables.rows(GroupEpochRow, rows), key=lambda row: row.offset)
    if not epochs or epochs[-1].settled_offset is not None:
        return None
    states = sorted(history.tables.rows(MemberStateRow, rows), key=lambda row: row.offset)
    latest = {row.member_id: row for row in states}
    gone = {row.member_id: row.to_offset is not None for row in sorted(history.tables.rows(_Tenure, rows), key=_from)}
    there = [row for row in latest.values() if row.state not in _LEFT and not gone.get(row.member_id, False)]
    unconfirmed = unconfirmed_members(history, group_id)
    present = [row for row in there if row.member_id not in unconfirmed]
    if not present:
        return None
    names = history.topic_names()
    assigned = (row.assignment_epoch for row in reversed(epochs) if row.assignment_epoch is not None)
    group = GroupSnapshot(
        group_id=group_id, type="consumer", state="Reconciling", group_epoch=epochs[-1].epoch,
        assignment_epoch=next(assigned, 0),
        members=tuple(_member(row, names, epochs[-1].epoch) for row in present),
    )  # fmt: skip
    since_ms = min((row.timestamp for row in present if row.pending), default=None)
    commits = () if since_ms is None else history.tables.rows(_Commit, replace(rows, since_ms=since_ms))
    records: list[_Commit | GroupEpochRow | MemberStateRow] = [*commits, *epochs, *states]
    newest = max((row.leader_epoch for row in records if row.leader_epoch is not None), default=-1)
    began_ms = min((row.timestamp for row in records if row.leader_epoch == newest), default=None)
    if len(present) < len(there) and not any(behind(group)):
        return None
    return rebalance_wait(group, [_known(row, newest, began_ms) for row in present])


def _member(row: MemberStateRow, names: Mapping[bytes, str], epoch: int) -> MemberSnapshot:
    assigned, pending = _partitions(row.assigned, names), _partitions(row.pending, names)
    owned = {topic: (*assigned.get(topic, ()), *pending.get(topic, ())) for topic in {**assigned, **pending}}
    target = assigned if row.target is None else _partitions(row.target, names)
    is_behind = bool(pending) or row.state == LoggedMemberState.UNRELEASED or (row.member_epoch or 0) < epoch
    return MemberSnapshot(
        member_id=row.member_id, group_instance_id=row.group_instance_id, member_epoch=row.member_epoch,
        status="reconciling" if is_behind else "stable", assignment=owned, target_assignment=target,
        protocol=None if row.classic is None else "classic" if row.classic else "consumer",
    )  # fmt: skip


def _partitions(rows: Iterable[TopicIdPartitions] | None, names: Mapping[bytes, str]) -> Partitions:
    return {names.get(one.topic_id, f"id {uuid_text(one.topic_id)}"): one.partitions for one in rows or ()}


def _from(row: _Tenure) -> int:
    return row.from_offset


def _known(row: MemberStateRow, newest: int, began_ms: int | None) -> GenerationMember:
    """newest: the leader epoch of the last coordinator; began_ms: when it first wrote something for the group."""
    is_again = bool(row.pending) and row.leader_epoch is not None and row.leader_epoch < newest
    return GenerationMember(
        member_id=row.member_id, group_instance_id=row.group_instance_id,
        rebalance_timeout_ms=row.rebalance_timeout_ms, is_asked_again=is_again,
        asked_at_ms=None if not row.pending else began_ms if is_again else row.timestamp,
    )  # fmt: skip
