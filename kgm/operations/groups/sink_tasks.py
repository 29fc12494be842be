"""Which Connect worker runs each member of a sink connector's consumer group.

A worker's assignment names connectors and their task numbers, and so does the client id of a task's consumer. That is
how the two groups of a sink connector can be matched, although neither names the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kgm.client import AdminClient
from kgm.client.group_listing import Listing
from kgm.frameworks.connect import SINK_GROUP, Work, sink_connector
from kgm.model.errors import KgmError, NotFoundError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.work import CONNECT_PROTOCOL_TYPE
from kgm.operations.groups.unread import Unread, UnreadKind, undescribed

_OPEN = "which worker runs which task of a sink connector is not known in full"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTask:
    """A task of a sink connector. task: `CONNECTOR-NUMBER`. worker_id, url: the worker that runs it, a member of group
    `workers`. member_id: the task's consumer, a member of `sink_group`."""

    task: str
    workers: str
    worker_id: str
    url: str | None
    sink_group: str
    member_id: str

    @property
    def work(self) -> Work:
        """The task as Connect's assignors represent it: (connector, number)."""
        name, _, number = self.task.rpartition("-")
        return name, int(number)


@dataclass(slots=True, kw_only=True)
class SinkTasks:
    """Finds the counterpart of each described group. listing: of all groups, if there is one. tasks: what was found so
    far, by (sink group, member id). groups: the groups that were described for this. unread: why some may be
    missing."""

    cluster: AdminClient
    listing: Listing | None = None
    tasks: dict[tuple[str, str], SinkTask] = field(default_factory=dict)
    groups: dict[str, GroupSnapshot] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    _workers: list[GroupSnapshot] | None = None

    def look(self, groups: Sequence[GroupSnapshot]) -> None:
        """Match the groups of sink connectors and of Connect workers among these with their counterparts."""
        known = {group.group_id: group for group in groups}
        workers = [group for group in groups if _is_of_workers(group)]
        names = {f"{SINK_GROUP}{name}" for group in workers for name in _connectors(group)}
        sinks = [group for group in groups if _connector(group) is not None and group.group_id not in names]
        if sinks:
            workers += [group for group in self._all_workers() if group.group_id not in known]
        sinks += [known[name] for name in names & known.keys()]
        sinks += self._described(sorted(names - known.keys()))
        self.tasks |= {(one.sink_group, one.member_id): one for one in sink_tasks(workers, sinks)}

    def _all_workers(self) -> list[GroupSnapshot]:
        if self._workers is None:
            try:
                listing = self.listing or self.cluster.list_groups()
            except KgmError as error:  # the requested groups are there regardless
                listing = Listing(groups=(), errors=(error,))
            for unlisted in listing.errors[:1]:
                text = f"not all groups could be listed ({unlisted.reason})"
                self.unread.append(Unread(kind=UnreadKind.GROUP, text=text, consequence=_OPEN))
            ids = [one.group_id for one in listing.groups if one.protocol_type == CONNECT_PROTOCOL_TYPE]
            self._workers = self._described(ids)
        return self._workers

    def _described(self, group_ids: Sequence[str]) -> list[GroupSnapshot]:
        if not group_ids:
            return []
        answers = dict(zip(group_ids, self.cluster.describe_groups(group_ids, offsets=False), strict=True))
        errors = {name: one for name, one in answers.items() if isinstance(one, KgmError)}
        # A source connector has no consumer group.
        self.unread += undescribed({name: e for name, e in errors.items() if not isinstance(e, NotFoundError)}, _OPEN)
        found = [one for one in answers.values() if not isinstance(one, KgmError)]
        self.groups |= {one.group_id: one for one in found}
        return found


def sink_tasks(workers: Iterable[GroupSnapshot], sinks: Iterable[GroupSnapshot]) -> Iterator[SinkTask]:
    """The tasks that appear in both. If several workers may run a task, or several consumers may be it, as in two
    Connect clusters that have a connector of the same name, the pair on the same host counts; if that is ambiguous,
    none does."""
    runs: dict[str, list[tuple[str, MemberSnapshot]]] = {}
    for group in workers:
        for member in group.members:
            for task in (member.work.active_tasks or ()) if member.work is not None else ():
                runs.setdefault(task, []).append((group.group_id, member))
    for sink in sinks:
        name, tasks = _connector(sink), Counter(consumer.client_id for consumer in sink.members)
        for consumer in sink.members if name is not None else ():
            task = f"{name}-{consumer.client_id.rpartition('-')[2]}"
            found = runs.get(task, [])
            if len(found) > 1 or tasks[consumer.client_id] > 1:
                found = [one for one in found if one[1].client_host == consumer.client_host]
            if len(found) == 1:
                ((group_id, worker),) = found
                yield SinkTask(
                    task=task, workers=group_id, worker_id=worker.member_id,
                    url=None if worker.work is None else worker.work.user_endpoint,
                    sink_group=sink.group_id, member_id=consumer.member_id,
                )  # fmt: skip


def tasks_of(group: GroupSnapshot, tasks: Iterable[SinkTask]) -> list[SinkTask]:
    """The tasks that involve the group, as workers or as sink group."""
    if not (_is_of_workers(group) or group.group_id.startswith(SINK_GROUP)):
        return []
    return [one for one in tasks if group.group_id in (one.workers, one.sink_group)]


def _is_of_workers(group: GroupSnapshot) -> bool:
    return group.protocol_type == CONNECT_PROTOCOL_TYPE


def _connector(group: GroupSnapshot) -> str | None:
    if not group.group_id.startswith(SINK_GROUP):
        return None
    return sink_connector(group.group_id, [member.client_id for member in group.members])


def _connectors(group: GroupSnapshot) -> set[str]:
    """The connectors that a worker of this group runs a task of."""
    tasks = (member.work.active_tasks or () for member in group.members if member.work is not None)
    return {task.rpartition("-")[0] for some in tasks for task in some}
