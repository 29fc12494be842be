"""Turns the rows of a history into a group that can be replayed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from kgm.history.causes.verdict import Cause
from kgm.history.rows import MemberStateRow, OwnerRow, RebalanceRow, SnapshotRow, TableRow, TenureRow, TimeoutAdviceRow
from kgm.operations.history.advice.processes import Subscribed, processes, stalls
from kgm.operations.history.advice.window import NotReplayableError, Window, newest, untouched
from kgm.operations.history.source import History
from kgm.simulation.plan.bounce_plan import GroupProtocol
from kgm.simulation.plan.server_assignors import SERVER_ASSIGNORS
from kgm.simulation.plan.timeouts import SESSION_TIMEOUT_MS
from kgm.simulation.replay.recorded_group import ReplayedGroup

_MOST_PROCESSES = 200
_MOST_PARTITIONS = 20_000
_REBALANCE_TIMEOUT_MS = 300_000
#: The end of the year 9999.
_LAST_DATE_MS = 253_402_300_799_999
#: Partitions may be handed over until this long after the last epoch.
_HANDED_OVER_MS = 60_000
_OTHER_PARTITIONS = frozenset({Cause.PARTITIONS.value, Cause.METADATA.value, Cause.SUBSCRIPTION.value})
#: The session timeouts of this many of the newest members are used.
_MEMBERS_ASKED = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class _SubscribedRow(TableRow):
    table: ClassVar[str] = "silver_member"
    offset: int
    member_id: str
    rebalance_timeout_ms: int
    topics: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A group that can be replayed, and what is known about the time that is replayed.

    rebalances: all that were recorded; untouched: how many of them have causes other than processes that start and
    stop, and would happen whatever is changed. moves: recorded partition moves; untouched_moves: those of them in
    untouched rebalances. are_partitions_known: whether the topics kept the same partitions throughout."""

    group: ReplayedGroup
    rebalances: int
    untouched: int
    moves: int
    untouched_moves: int
    are_partitions_known: bool
    is_session_known: bool

    @property
    def has_unsure_stalls(self) -> bool:
        """Whether a member counted as not having polled in time may have left for another reason."""
        return any(run.is_stall and not run.is_stall_sure for each in self.group.processes for run in each.runs)


def record(history: History, group_id: str, rebalances: Sequence[RebalanceRow]) -> Recording:
    """Record the newest rebalances that are complete. Raises NotReplayableError."""
    rows = newest(rebalances)
    every = history.all_times(group_id)
    group_type = rows[0].group_type
    if group_type not in (GroupProtocol.CLASSIC.value, GroupProtocol.CONSUMER.value):
        raise NotReplayableError(f"{group_type} groups are not replayed")
    _require_times(rows)
    tenures = [row for row in history.tables.rows(TenureRow, every) if row.group_type == group_type]
    owners = [row for row in history.owners(every) if row.group_type == group_type]
    session_ms, is_session_known = _session_timeout(history, group_id, tenures)
    window = Window(rows, tenures, session_ms)
    subscriptions = _subscriptions(history, group_id, group_type)
    topics = _topics(owners, window)
    played = processes(tenures, window, owners, subscriptions, stalls(tenures, rows))
    if len(played) > _MOST_PROCESSES or sum(topics.values()) > _MOST_PARTITIONS:
        raise NotReplayableError("the group is too large to be replayed")
    group = ReplayedGroup(
        group_id=group_id, protocol=GroupProtocol(group_type), assignor=_assignor(rows, subscriptions),
        generation=max(rows[0].from_generation, 1), session_timeout_ms=session_ms, expired_after_ms=session_ms,
        rebalance_timeout_ms=_rebalance_timeout(subscriptions), topics=topics, processes=tuple(played),
        leader=_leader(history, group_id, rows[0]), from_ms=window.from_ms, to_ms=rows[-1].timestamp,
    )  # fmt: skip
    others = untouched(rows)
    moves = [row.from_offset for row in moved(owners) if _is_in(row, window)]
    return Recording(
        group=group, rebalances=len(rows), untouched=len(others), moves=len(moves),
        untouched_moves=len([offset for offset in moves if offset in {row.offset for row in others}]),
        are_partitions_known=not any(row.cause in _OTHER_PARTITIONS for row in rows),
        is_session_known=is_session_known,
    )  # fmt: skip


def _require_times(rows: Sequence[RebalanceRow]) -> None:
    """Raises NotReplayableError if a replay, which runs by time, would not show what happened: the times are unknown,
    or a coordinator's clock was set back."""
    times = [row.timestamp for row in rows]
    if not all(0 <= at <= _LAST_DATE_MS for at in times):
        raise NotReplayableError("the times of its rebalances are unknown")
    if times != sorted(times):
        raise NotReplayableError("the times of its rebalances are not in their order: a coordinator's clock was wrong")


def _rebalance_timeout(subscriptions: Mapping[str, Subscribed]) -> int:
    # Records of Kafka 0.10.0 have none.
    known = [each.rebalance_timeout_ms for each in subscriptions.values() if each.rebalance_timeout_ms > 0]
    return max(known, default=_REBALANCE_TIMEOUT_MS)


def _subscriptions(history: History, group_id: str, group_type: str) -> dict[str, Subscribed]:
    """The newest subscription of each member id."""
    every = history.all_times(group_id)
    if group_type == GroupProtocol.CLASSIC.value:
        rows = sorted(history.tables.rows(_SubscribedRow, every), key=lambda row: row.offset)
        return {
            row.member_id: Subscribed(topics=tuple(row.topics or ()), rebalance_timeout_ms=row.rebalance_timeout_ms)
            for row in rows
        }
    states = sorted(history.tables.rows(MemberStateRow, every), key=lambda row: row.offset)
    return {
        row.member_id: Subscribed(
            topics=row.topics, rebalance_timeout_ms=row.rebalance_timeout_ms or _REBALANCE_TIMEOUT_MS,
            server_assignor=row.server_assignor,
        )
        for row in states
        if row.topics
    }  # fmt: skip


def _assignor(rows: Sequence[RebalanceRow], subscriptions: Mapping[str, Subscribed]) -> str:
    if rows[0].group_type == GroupProtocol.CONSUMER.value:
        named = Counter(each.server_assignor for each in subscriptions.values() if each.server_assignor)
        return named.most_common(1)[0][0] if named else SERVER_ASSIGNORS[0]
    name = next((row.protocol for row in reversed(rows) if row.protocol), None)
    if name is None:
        raise NotReplayableError("no record has the assignor")
    return name


def _session_timeout(history: History, group_id: str, tenures: Sequence[TenureRow]) -> tuple[int, bool]:
    """(session timeout in ms, whether it is known)."""
    seen = Counter(row.session_timeout_ms for row in tenures[-_MEMBERS_ASKED:] if row.session_timeout_ms)
    if seen:
        return seen.most_common(1)[0][0] or SESSION_TIMEOUT_MS, True
    advice = history.tables.rows(TimeoutAdviceRow, history.all_times(group_id))
    known = [row.now_ms for row in advice if row.now_ms > 0]
    return (known[0], True) if known else (SESSION_TIMEOUT_MS, False)


def _leader(history: History, group_id: str, first: RebalanceRow) -> str | None:
    rows = [row for row in history.tables.rows(SnapshotRow, history.all_times(group_id)) if row.offset < first.offset]
    return max(rows, key=lambda row: row.offset).leader if rows else None


def _topics(owners: Sequence[OwnerRow], window: Window) -> dict[str, int]:
    """Partition counts by topic, derived from the partitions that were assigned."""
    counts: dict[str, int] = {}
    for row in owners:
        if row.from_offset <= window.last or _is_in(row, window):
            name = row.topic or row.place
            counts[name] = max(counts.get(name, 0), row.topic_partition + 1)
    if not counts:
        raise NotReplayableError("no record shows which partitions were assigned")
    return counts


def _is_in(row: OwnerRow, window: Window) -> bool:
    """Whether one of these rebalances gave the partition to its owner. Members of a consumer group release and take
    partitions after the record of the epoch."""
    if window.is_consumer:
        return row.from_offset >= window.begin and row.from_timestamp <= window.rows[-1].timestamp + _HANDED_OVER_MS
    return window.begin <= row.from_offset <= window.last


def moved(owners: Iterable[OwnerRow]) -> list[OwnerRow]:
    """The rows in which a partition came from another identity."""
    ordered = sorted(owners, key=lambda row: (row.place, row.topic_partition, row.from_offset))
    return [
        row
        for before, row in pairwise(ordered)
        if (before.place, before.topic_partition) == (row.place, row.topic_partition) and before.seat != row.seat
    ]
