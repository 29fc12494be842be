"""Tables of groups: members, processes, offsets, and one row for each group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kgm.cli.output.groups.rows import (
    Trends,
    member_rows,
    node_text,
    offset_rows,
    partition_row,
    state_rows,
)
from kgm.cli.output.report import Cell, Column, MadeRows, Table, object_table
from kgm.clients.subscribed_topics import subscribed_topics
from kgm.frameworks.connect import sink_connector
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.work import CONNECT_PROTOCOL_TYPE, MemberWork
from kgm.operations.groups.partitions import PartitionOrder, PartitionRow
from kgm.operations.groups.trends import GroupTrends
from kgm.text.durations import show_duration
from kgm.text.names import in_order, visible
from kgm.text.wording import left_lag_text, lost_text, many, partitions_text, past_end_text, some, state_text

if TYPE_CHECKING:
    from kgm.operations.groups.sink_tasks import SinkTask

_LAG_TIME: Final = {"lag_time=lag_ms": Column(title="LAG-TIME", right=True)}
_TIMES: Final = {**_LAG_TIME, "commit_age=commit_age_ms": Column(title="COMMIT-AGE", right=True)}
#: How lag changes.
_TREND: Final = {"trend_text=trend": Column(title="TREND")}
#: What a member of Kafka Streams or Connect runs.
_THREAD: Final = {
    "process_id": Column(title="PROCESS", wide=True), "user_endpoint": Column(title="ENDPOINT", wide=True),
    "active_tasks": Column(title="ACTIVE-TASKS", wide=True), "standby_tasks": Column(title="STANDBY-TASKS", wide=True),
    "warmup_tasks": Column(title="WARMUP-TASKS", wide=True), "connectors": Column(title="CONNECTORS", wide=True),
}  # fmt: skip
_AT_ONCE: Final = "1970-01-01T00:00:00.000Z"


def heading(snapshot: GroupSnapshot) -> str:
    """One line that sums up a group."""
    epoch = session = coordinator = None
    if snapshot.group_epoch is not None:
        epoch = f"epoch {snapshot.group_epoch} (assignment {snapshot.assignment_epoch})"
    if snapshot.session_range_ms is not None:
        session = "session " + " to ".join(dict.fromkeys(map(show_duration, snapshot.session_range_ms)))
    if snapshot.coordinator is not None:
        coordinator = f"coordinator {node_text(snapshot.coordinator)}"
    parts = [visible(snapshot.group_id), state_text(snapshot, epoch, session), coordinator]
    return "  ".join(filter(None, parts))


def members_table(
    snapshot: GroupSnapshot, order: PartitionOrder = PartitionOrder.NAME, *, verbose: bool = False, times: bool = False,
    folds: bool = False, trends: Trends = None, sink_tasks: Collection[SinkTask] = (),
) -> Table:  # fmt: skip
    """One row for each member, by identity, including members without partitions. times: show lag in time, here and
    below. trends: show how lag changes. folds: one row for each process instead, if members are known to be threads or
    workers. sink_tasks: tasks whose workers or consumers are in the group."""
    notes = [*_notes(snapshot, sink_tasks), *_trend_notes(trends, snapshot.group_id)]
    has_work = _has_work(snapshot)
    if folds and not verbose and has_work:
        return _process_table(snapshot, sink_tasks, heading=heading(snapshot), notes=notes)
    extra = not verbose
    static = snapshot.static_members
    has_workers = any(one.sink_group == snapshot.group_id for one in sink_tasks)
    columns = {
        # One of the two ids is enough to tell members apart.
        "group_instance_id": Column(title="INSTANCE-ID", left_out=None if static else 4),
        "member_id": Column(title="MEMBER-ID", left_out=0 if static == len(snapshot.members) else None),
        "client_id": Column(title="CLIENT-ID", wide=extra),
        "client_host": Column(title="HOST", left_out=2),
        "status": Column(title="STATUS"),
        "member_epoch": Column(title="EPOCH", wide=extra, right=True),
        "protocol": Column(title="PROTOCOL", wide=extra),
        "rack": Column(title="RACK", wide=extra),
        "subscription": Column(title="SUBSCRIPTION", wide=extra),
        "partitions": Column(title="PARTITIONS", right=True, left_out=3),
        "lag": Column(title="LAG", right=True),
        **(_LAG_TIME if times else {}),
        **({} if trends is None else _TREND),
        "assignment": Column(title="ASSIGNMENT"),
        "target_assignment": Column(title="TARGET", wide=extra),
        "client_library": Column(title="CLIENT", wide=extra),
        **(_THREAD if has_work else {}),
        **({"worker": Column(title="WORKER")} if has_workers else {}),
    }
    return object_table(columns, member_rows(snapshot, order, trends, sink_tasks), heading(snapshot), notes)


def _has_work(snapshot: GroupSnapshot) -> bool:
    """Whether it is known what members run in addition to partitions, or instead of them."""
    return any(member.work is not None for member in snapshot.members)


def _process_table(
    snapshot: GroupSnapshot, sink_tasks: Iterable[SinkTask], *, heading: str, notes: Sequence[str]
) -> Table:
    """One row for each process, in order of its first member; members of unknown processes have a row of their own."""
    processes: dict[str, list[MemberSnapshot]] = {}
    for member in PartitionOrder.NAME.members(snapshot):
        process_id = None if member.work is None else member.work.process_id
        processes.setdefault(process_id or member.member_id, []).append(member)
    is_connect = snapshot.protocol_type == CONNECT_PROTOCOL_TYPE
    columns = [
        Column(title="WORKER" if is_connect else "PROCESS"),
        Column(title="INSTANCE-ID"),
        Column(title="THREADS", right=True, left_out=3),
        Column(title="HOST", left_out=1),
        Column(title="ENDPOINT", left_out=2),
        Column(title="STATUS", left_out=4),
        Column(title="CONNECTORS"),
        Column(title="TASKS" if is_connect else "ACTIVE"),
        Column(title="STANDBY"),
        Column(title="WARM-UP"),
        Column(title="LAG", right=True),
        Column(title="SINK-GROUPS"),
    ]
    sinks: dict[str, set[str]] = {}
    for one in sink_tasks:
        if one.workers == snapshot.group_id:
            sinks.setdefault(one.worker_id, set()).add(one.sink_group)
    rows = [
        [*_process_row(members, is_connect=is_connect), " ".join(in_order(sinks.get(members[0].member_id, ()))) or None]
        for members in processes.values()
    ]
    is_needed = [any(row[i] is not None for row in rows) and (i != 2 or not is_connect) for i in range(len(columns))]
    return Table(
        columns=[column for column, needed in zip(columns, is_needed, strict=True) if needed],
        rows=[[cell for cell, needed in zip(row, is_needed, strict=True) if needed] for row in rows],
        heading=heading,
        notes=notes,
    )


def _process_row(members: Sequence[MemberSnapshot], *, is_connect: bool) -> list[Cell]:
    first = members[0]
    work = first.work
    endpoint = None if work is None else work.user_endpoint
    process = endpoint if is_connect else None if work is None else work.process_id
    lags = [member.lag for member in members if member.lag is not None]
    return [
        process or first.member_id,
        ",".join(one.group_instance_id for one in members if one.group_instance_id is not None) or None,
        len(members),
        ",".join(dict.fromkeys(member.client_host for member in members)) or None,
        None if is_connect else endpoint,
        ",".join(dict.fromkeys(member.status for member in members)),
        _tasks(members, lambda work: work.connectors),
        _tasks(members, lambda work: work.active_tasks),
        _tasks(members, lambda work: work.standby_tasks),
        _tasks(members, lambda work: work.warmup_tasks),
        sum(lags) if lags else None,
    ]


def _tasks(members: Iterable[MemberSnapshot], of: Callable[[MemberWork], tuple[str, ...] | None]) -> str | None:
    lists = [of(member.work) for member in members if member.work is not None]
    return " ".join(task for tasks in lists if tasks is not None for task in tasks) or None


def _work_notes(snapshot: GroupSnapshot, sink_tasks: Iterable[SinkTask]) -> list[str]:
    """Notes on what members run, on the rebalances that are still to come, and on what cannot be decoded."""
    unread = sum(member.work is None for member in snapshot.members) if _has_work(snapshot) else 0
    sink = sink_connector(snapshot.group_id, [member.client_id for member in snapshot.members])
    workers = in_order({one.workers for one in sink_tasks if one.sink_group == snapshot.group_id})
    runs = f", which workers of group {some(workers)} run" if workers else ""
    of_sink = f"members are tasks of the sink connector {sink} of Kafka Connect{runs}, by their client ids"
    return [
        *([of_sink] if sink else []),
        *_leading_worker(snapshot),
        *([f"what {many(unread, 'member')} run cannot be decoded"] if unread else []),
        *([text] if (text := _next_rebalance(snapshot)) else []),
        *([text] if (text := _held_back(snapshot)) else []),
    ]


def _leading_worker(snapshot: GroupSnapshot) -> list[str]:
    """A note on the leader of Connect workers, because restarting the leader has a different effect."""
    is_connect = snapshot.protocol_type == CONNECT_PROTOCOL_TYPE
    leading = [one for one in snapshot.members if is_connect and one.member_id == snapshot.leader]
    return [f"leader: {(None if one.work is None else one.work.user_endpoint) or one.member_id}" for one in leading]


def _next_rebalance(snapshot: GroupSnapshot) -> str | None:
    if snapshot.next_rebalance_at is not None:
        is_at_once = snapshot.next_rebalance_at == _AT_ONCE
        when = "immediately" if is_at_once else f"at {snapshot.next_rebalance_at}"
        return f"not settled: a member starts the next rebalance {when}"
    if snapshot.is_settled is False and not snapshot.rebalance_delay_ms:
        return "not settled: a member starts another rebalance"
    return "settled: no rebalance is scheduled" if snapshot.is_settled else None


def _held_back(snapshot: GroupSnapshot) -> str | None:
    if not snapshot.rebalance_delay_ms:
        return None
    until = f", until {snapshot.unassigned_until}" if snapshot.unassigned_until else ""
    delay = show_duration(snapshot.rebalance_delay_ms)
    return f"what was lost with a worker stays unassigned for {delay} from the last rebalance{until}"


def _notes(snapshot: GroupSnapshot, sink_tasks: Iterable[SinkTask]) -> list[str]:
    return [*_work_notes(snapshot, sink_tasks), *_unowned_partitions(snapshot), *_odd_offsets(snapshot)]


def _odd_offsets(snapshot: GroupSnapshot) -> list[str]:
    """Notes on committed offsets that no member's lag includes, or from which the lag is not, or not fully, known."""
    beyond, deleted, lost, left = snapshot.past_end, snapshot.deleted_topics, snapshot.lost, snapshot.left_lag
    markers = partitions_text(snapshot.marker_ends)
    return [
        *([f"only markers of transactions are left, and nothing to read: {markers}"] if markers else []),
        *([f"lag {left_lag_text(left)}"] if left else []),
        *([lost_text(lost)] if lost else []),
        *([f"{past_end_text(beyond)}: {partitions_text(beyond)}"] if beyond else []),
        *([f"unknown lag, topic deleted: {', '.join(deleted)}"] if deleted else []),
    ]


def _unowned_partitions(snapshot: GroupSnapshot) -> list[str]:
    """A note on partitions of subscribed topics that no member owns, which are easily overlooked."""
    if not snapshot.members:
        return []
    unreadable = in_order(member.identity for member in snapshot.members if not member.is_readable)
    if unreadable:
        return [f"the assignment cannot be decoded, so it is not known what they own: {some(unreadable)}"]
    owned = {(t, p) for member in snapshot.members for t, partitions in member.assignment.items() for p in partitions}
    subscribed = subscribed_topics(snapshot.members, snapshot.topics)
    free = {
        topic.name: [p for p in range(topic.partitions) if (topic.name, p) not in owned]
        for topic in snapshot.topics
        if topic.name in subscribed
    }
    text = partitions_text({topic: partitions for topic, partitions in free.items() if partitions})
    return [f"no consumer: {text}"] if text else []


def offsets_table(
    snapshot: GroupSnapshot, order: PartitionOrder = PartitionOrder.NAME, *, times: bool = False,
    trends: Trends = None,
) -> Table:  # fmt: skip
    """One row for each partition."""
    static = snapshot.static_members
    columns = {
        "topic": Column(title="TOPIC"),
        "partition": Column(title="PARTITION", right=True),
        "committed": Column(title="COMMITTED", right=True, left_out=4),
        "end": Column(title="END", right=True, left_out=3),
        "lag": Column(title="LAG", right=True),
        **(_TIMES if times else {}),
        **({} if trends is None else _TREND),
        "group_instance_id": Column(title="INSTANCE-ID", left_out=None if static else 2),
        "member_id": Column(title="MEMBER-ID", left_out=0 if static == len(snapshot.members) else None),
    }
    notes = [*_odd_offsets(snapshot), *_trend_notes(trends, snapshot.group_id)]
    return object_table(columns, offset_rows(snapshot, order, trends), heading(snapshot), notes)


def _trend_notes(every: Trends, group_id: str) -> list[str]:
    """The trend of the whole group, and why the trends of partitions are as they are."""
    trends = None if every is None else every.get(group_id)
    if trends is None:
        return []
    reasons: dict[str, dict[str, list[int]]] = {}
    for (topic, number), trend in sorted(trends.partitions.items()):
        if trend.because is not None:
            reasons.setdefault(f"{trend.text.partition(' ')[0]}, because {trend.because}", {}).setdefault(
                topic, []
            ).append(number)
    return [_total_trend(trends), *(f"{partitions_text(where)}: {why}" for why, where in reasons.items())]


def _total_trend(trends: GroupTrends) -> str:
    total = trends.total
    why = "" if total.because is None else f" ({total.because})"
    return f"trend over {show_duration(trends.window_ms // 1000 * 1000)}: {total.text}{why}"


def partitions_table(rows: Iterable[PartitionRow], *, times: bool = False, trends: Trends = None) -> Table:
    """One row for each partition of each group, with its owner, made when it is printed. rows: can be iterated again
    and again."""
    kinds = {bool(row.offset.group_instance_id) for row in rows if row.offset.member_id is not None}
    columns = {
        "group_id": Column(title="GROUP"),
        "topic": Column(title="TOPIC"),
        "partition": Column(title="PARTITION", right=True),
        "committed": Column(title="COMMITTED", right=True, left_out=5),
        "end": Column(title="END", right=True, left_out=4),
        "lag": Column(title="LAG", right=True),
        **(_TIMES if times else {}),
        **({} if trends is None else _TREND),
        "group_instance_id": Column(title="INSTANCE-ID", left_out=None if True in kinds else 3),
        "member_id": Column(title="MEMBER-ID", left_out=None if False in kinds else 0),
        "client_id": Column(title="CLIENT-ID", wide=True),
        "client_host": Column(title="HOST", left_out=2),
    }
    made = MadeRows(lambda: (partition_row(row, trends) for row in rows))
    return object_table(columns, made, notes=_no_consumer(rows))


def _no_consumer(rows: Iterable[PartitionRow]) -> Iterator[str]:
    """Notes on the partitions without an owner, by group, and on the groups whose owners are unknown."""
    free: dict[str, dict[str, list[int]]] = {}
    for row in rows:
        if row.has_owner is False:
            free.setdefault(row.group_id, {}).setdefault(row.offset.topic, []).append(row.offset.partition)
    for group_id, partitions in free.items():
        yield f"no consumer in group {group_id}: {partitions_text(partitions)}"
    unknown = dict.fromkeys(row.group_id for row in rows if row.has_owner is None)
    if unknown:
        yield f"owners are unknown while a group rebalances or if a member cannot be decoded: {some(unknown)}"


def state_table(
    snapshots: Iterable[GroupSnapshot], order: PartitionOrder = PartitionOrder.NAME, *, times: bool = False,
    trends: Trends = None,
) -> Table:  # fmt: skip
    """One row for each group; keeps nothing else of the snapshots, which are iterated once."""
    columns = {
        "group_id": Column(title="GROUP"),
        "type": Column(title="TYPE", left_out=4),
        "state": Column(title="STATE"),
        "assignor": Column(title="ASSIGNOR", left_out=5),
        "members": Column(title="MEMBERS", right=True),
        "static_members": Column(title="STATIC", right=True, left_out=2),
        "epoch": Column(title="EPOCH", right=True, left_out=3),
        "lag": Column(title="LAG", right=True),
        **(_LAG_TIME if times else {}),
        **({} if trends is None else _TREND),
        "coordinator": Column(title="COORDINATOR", left_out=1),
    }
    odd: dict[str, list[str]] = {}

    def noted() -> Iterator[GroupSnapshot]:
        for one in snapshots:
            odd[one.group_id] = _odd_offsets(one)
            yield one

    rows = [*state_rows(noted(), order, trends)]
    notes = [f"{row['group_id']}: {note}" for row in rows for note in odd[row["group_id"]]]
    notes += [f"{one.group_id}: {_total_trend(one)}" for one in (trends or {}).values() if one.total.because]
    return object_table(columns, rows, notes=notes)
