"""A member of a streams group (KIP-1071), as stored in the log (Kafka: StreamsGroupMember, TasksTuple).

A member is a thread of a process of Kafka Streams. A task is a subtopology and a partition. Member epochs are as in
consumer groups. There are no static members."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kgm.records.member_states import TaskState

#: Active tasks: for each subtopology, its partitions, each with the member epoch in which it was assigned.
ActiveTasks = Mapping[str, Mapping[int, int]]
#: Tasks of any kind: partitions by subtopology.
Tasks = Mapping[str, Collection[int]]
NO_ACTIVE: ActiveTasks = {}
NO_TASKS: Tasks = {}


class HeldTasks(NamedTuple):
    """The tasks that a member has, or must revoke. Every subtopology has partitions."""

    active: ActiveTasks = NO_ACTIVE
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def kinds(self) -> tuple[Tasks, Tasks, Tasks]:
        return self.active, self.standby, self.warmup


class TargetTasks(NamedTuple):
    """The target assignment of a member, or the tasks that it reports as owned."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


NOTHING_HELD = HeldTasks()
NO_TARGET_TASKS = TargetTasks()


class StreamsMember(NamedTuple):
    """A member. process_id: None until its metadata is known. endpoint: host and port for interactive queries. tags:
    (key, value), sorted. Immutable: members are replaced."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: TaskState = TaskState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str | None = None
    endpoint: tuple[str, int] | None = None
    tags: tuple[tuple[str, str], ...] = ()
    assigned: HeldTasks = NOTHING_HELD
    pending_revocation: HeldTasks = NOTHING_HELD

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is TaskState.STABLE and self.member_epoch == assignment_epoch

    def assignment_epoch(self, subtopology_id: str, partition: int) -> int | None:
        """The epoch in which the member got an active task that it has, or must revoke; None if it does not have it."""
        epoch = self.assigned.active.get(subtopology_id, {}).get(partition)
        return self.pending_revocation.active.get(subtopology_id, {}).get(partition) if epoch is None else epoch
