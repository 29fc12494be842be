"""A streams group (KIP-1071) as data: what the log says, and what follows from it (Kafka: StreamsGroup).

Only `streams.records.replay` writes hard state. The rules that handle a request read the group and write records."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from kgm.coordinator.contract.behavior import REFERENCE_BEHAVIOR, CoordinatorBehavior
from kgm.coordinator.contract.outcome import Millis
from kgm.coordinator.groups.consumer_group import NOT_REFRESHED, MetadataRefresh
from kgm.coordinator.groups.member_map_order import MemberMapOrder
from kgm.coordinator.groups.streams_member import NO_TARGET_TASKS, HeldTasks, StreamsMember, TargetTasks
from kgm.coordinator.groups.streams_topology import ConfiguredTopology, StreamsTopology
from kgm.java.timeline_hash_map import TimelineOrder

STREAMS = "streams"
NOT_READY = "NotReady"
_NOBODY: frozenset[str] = frozenset()

#: For each task, the processes that have it, or must give it up.
Processes = dict[tuple[str, int], set[str]]


@dataclass(slots=True, kw_only=True)
class StreamsGroup:
    """A streams group. Members are in the order in which they were first written.

    Hard state: everything up to configs, the assignment configs with which the last epoch was written. targets: target
    assignments by member id. Derived from it: active: the process that has an active task; standby, warmup: the
    processes that have a copy. order: Kafka's order of members.

    Soft state: configured, the topology as configured for the topics that exist; described, the same as of the last
    record of the shard, which is what others see; refresh, as in a consumer group; shutdown_by, the member that asked
    to shut down the application; endpoint_epoch, which increases when the reported endpoints change; assignors_order,
    the order of members in the assignor. is_shared: a fork has the same object, so it is copied before it is
    changed."""

    group_type: ClassVar[str] = STREAMS
    protocol_type: ClassVar[str] = STREAMS
    group_id: str
    group_epoch: int = REFERENCE_BEHAVIOR.first_epoch
    metadata_hash: int = 0
    validated_epoch: int = 0
    assignment_epoch: int = REFERENCE_BEHAVIOR.first_epoch
    assignment_timestamp_ms: int = 0
    members: dict[str, StreamsMember] = field(default_factory=dict)
    targets: dict[str, TargetTasks] = field(default_factory=dict)
    topology: StreamsTopology | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    active: dict[tuple[str, int], str] = field(default_factory=dict)
    standby: Processes = field(default_factory=dict)
    warmup: Processes = field(default_factory=dict)
    order: TimelineOrder = field(default_factory=TimelineOrder)
    configured: ConfiguredTopology | None = None
    described: ConfiguredTopology | None = None
    refresh: MetadataRefresh = NOT_REFRESHED
    shutdown_by: str | None = None
    endpoint_epoch: int = 0
    assignors_order: MemberMapOrder = field(default_factory=MemberMapOrder, compare=False)
    is_shared: bool = False

    @classmethod
    def new(cls, group_id: str, behavior: CoordinatorBehavior) -> "StreamsGroup":
        """A group that no member has joined yet."""
        return cls(group_id=group_id, group_epoch=behavior.first_epoch, assignment_epoch=behavior.first_epoch)

    def copy(self) -> "StreamsGroup":
        """A group like this one that shares nothing mutable with it."""
        twin = StreamsGroup(group_id=self.group_id)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(twin, name, value.copy() if isinstance(value, dict) else value)
        twin.standby = {task: held.copy() for task, held in self.standby.items()}
        twin.warmup = {task: held.copy() for task, held in self.warmup.items()}
        twin.order = TimelineOrder(self.order.capacity)
        twin.assignors_order = MemberMapOrder()
        twin.is_shared = False
        return twin

    # -- questions

    @property
    def state(self) -> str:
        """Empty, NotReady (the topics do not fit the topology), Assigning (a new target assignment is due), Reconciling
        or Stable."""
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return NOT_READY
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        is_stable = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if is_stable else "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def in_order(self) -> list[StreamsMember]:
        """The members in the order in which Kafka iterates over them."""
        return [self.members[member_id] for member_id in self.order.sorted(self.members)]

    def target_of(self, member_id: str) -> TargetTasks:
        return self.targets.get(member_id, NO_TARGET_TASKS)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the group reads a topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of

    def metadata_expired(self, now: Millis) -> bool:
        """Whether the metadata hash must be recomputed: the topics have changed, or a record was lost."""
        return now >= self.refresh.deadline_ms or self.group_epoch < self.refresh.epoch

    def has_copy(self, process_id: str | None, task: tuple[str, int]) -> bool:
        """Whether a process has a standby or warm-up task."""
        return process_id in self.standby.get(task, _NOBODY) or process_id in self.warmup.get(task, _NOBODY)

    @property
    def rows(self) -> int:
        """How many rows a list of the group has: members, their current and target tasks, topics and subtopologies."""
        topics = 0 if self.topology is None else len(self.topology.topics) + len(self.topology.subtopologies)
        held = [kind for member in self.members.values() for kind in member.assigned.kinds]
        held += [kind for target in self.targets.values() for kind in target]
        return len(self.members) + topics + sum(len(partitions) for kind in held for partitions in kind.values())

    # -- changes: only by replay

    def put(self, member: StreamsMember) -> None:
        """Add a member, or replace the one with its id."""
        before = self.members.get(member.member_id)
        self.order.put(len(self.members))
        self.members[member.member_id] = member
        if before is not None:
            self._release(before)
        if member.process_id is not None:
            self._hold(member.assigned, member.process_id)
            self._hold(member.pending_revocation, member.process_id)

    def remove(self, member_id: str) -> None:
        self._release(self.members.pop(member_id))

    def _hold(self, tasks: HeldTasks, process_id: str) -> None:
        self.active.update(dict.fromkeys(_listed(tasks.active), process_id))
        for held, copies in ((self.standby, tasks.standby), (self.warmup, tasks.warmup)):
            for task in _listed(copies):
                held.setdefault(task, set()).add(process_id)

    def _release(self, member: StreamsMember) -> None:
        if member.process_id is None:
            return
        for tasks in (member.assigned, member.pending_revocation):
            for task in _listed(tasks.active):
                if self.active.get(task) == member.process_id:
                    del self.active[task]
            for held, copies in ((self.standby, tasks.standby), (self.warmup, tasks.warmup)):
                for task in _listed(copies):
                    if task in held:
                        held[task].discard(member.process_id)
                        if not held[task]:
                            del held[task]


def _listed(tasks: Mapping[str, Collection[int]]) -> list[tuple[str, int]]:
    return [(subtopology_id, partition) for subtopology_id, partitions in tasks.items() for partition in partitions]
