"""A consumer group (KIP-848) as data: what the log says, and what follows from it (Kafka: ConsumerGroup).

Only `consumer.records.replay` writes to a group, one record at a time. The rules that handle a request read the group
and write records, so there are no drafts here. Derived data is kept up to date with each record, so the cost of an
event depends only on what it changes: which member has a partition, how many members subscribe to a topic, how many
have reached the target epoch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

from kgm.coordinator.contract.behavior import REFERENCE_BEHAVIOR, CoordinatorBehavior
from kgm.coordinator.contract.outcome import Millis
from kgm.coordinator.groups.consumer_member import (
    NO_TARGET,
    Assigned,
    ConsumerMember,
    ListedTarget,
    Target,
)
from kgm.coordinator.groups.member_map_order import MemberMapOrder
from kgm.coordinator.groups.target_tally import TargetTally
from kgm.coordinator.groups.targets import Spans, Targets
from kgm.java.timeline_hash_map import TimelineOrder
from kgm.model.errors import ErrorCode
from kgm.protocol.subscription import PROTOCOL_TYPE
from kgm.records.member_states import MemberState

K = TypeVar("K")

CONSUMER = "consumer"


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matches. version: the topic image's version; timestamp_ms: when it was
    resolved."""

    topics: frozenset[str]
    version: int
    timestamp_ms: Millis


class MetadataRefresh(NamedTuple):
    """The time until which the metadata hash need not be recomputed, provided the group has reached this epoch. (If it
    has not, the record with the last hash was lost.)"""

    deadline_ms: int = 0
    epoch: int = 0


NOT_REFRESHED = MetadataRefresh()


@dataclass(slots=True, kw_only=True)
class ConsumerGroup:
    """A consumer group. Members are in the order in which they were first written.

    Hard state, from the log: everything up to partition_metadata. targets: target assignments by member id;
    unusual_orders: by member id and topic, the partitions of a target in Kafka's order, where that is not the usual
    order (`consumer.target_order`). resolved: resolved regular expressions. partition_metadata: the name, id and
    partition count of each topic that the group subscribes to, which Kafka 4.0 keeps instead of a hash.

    Derived from it: partition_epochs: for each partition that a member has, or must give up, the epoch of that member.
    names, regexes: how many members subscribe to a topic by name, and to a regular expression. matched: how many
    resolved expressions match a topic. server_assignors: how many members prefer an assignor. stable_at: how many
    Stable members are at an epoch. classic_members, classic_protocols: how many members use the classic protocol, and
    how many of them offer an assignor. order, resolved_order: Kafka's order of members and of expressions.
    _homogeneous: what `is_homogeneous` was when a member was last written, if an expression has been resolved since.

    Soft state: refresh, the only thing that a request writes immediately; tally, a tally of the targets once it has
    been computed; assignors_order, the order of members in an assignor. is_shared: a fork has the same object, so it is
    copied before it is changed."""

    group_type: ClassVar[str] = CONSUMER
    group_id: str
    group_epoch: int = REFERENCE_BEHAVIOR.first_epoch
    metadata_hash: int = 0
    assignment_epoch: int = REFERENCE_BEHAVIOR.first_epoch
    assignment_timestamp_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_ids: dict[str, str] = field(default_factory=dict)
    targets: Targets = field(default_factory=Targets)
    unusual_orders: dict[str, Mapping[bytes, tuple[int, ...]]] = field(default_factory=dict)
    resolved: dict[str, ResolvedRegex] = field(default_factory=dict)
    has_partition_metadata: bool = False
    partition_metadata: frozenset[tuple[str, bytes, int]] = frozenset()
    partition_epochs: dict[bytes, dict[int, int]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    matched: dict[str, int] = field(default_factory=dict)
    regexes: dict[str, int] = field(default_factory=dict)
    server_assignors: dict[str, int] = field(default_factory=dict)
    stable_at: dict[int, int] = field(default_factory=dict)
    classic_members: int = 0
    classic_protocols: dict[str, int] = field(default_factory=dict)
    order: TimelineOrder = field(default_factory=TimelineOrder)
    resolved_order: TimelineOrder = field(default_factory=TimelineOrder)
    refresh: MetadataRefresh = NOT_REFRESHED
    tally: TargetTally | None = None
    assignors_order: MemberMapOrder = field(default_factory=MemberMapOrder, compare=False)
    is_shared: bool = False
    behavior: CoordinatorBehavior = REFERENCE_BEHAVIOR
    _homogeneous: bool | None = None

    @classmethod
    def new(cls, group_id: str, behavior: CoordinatorBehavior) -> "ConsumerGroup":
        """A group that no member has joined yet."""
        epoch = behavior.first_epoch
        return cls(group_id=group_id, group_epoch=epoch, assignment_epoch=epoch, behavior=behavior)

    def copy(self) -> "ConsumerGroup":
        """A group like this one that shares nothing mutable with it."""
        twin = ConsumerGroup(group_id=self.group_id)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(twin, name, value.copy() if isinstance(value, dict | Targets) else value)
        twin.partition_epochs = {topic_id: epochs.copy() for topic_id, epochs in self.partition_epochs.items()}
        twin.order = TimelineOrder(self.order.capacity)
        twin.resolved_order = TimelineOrder(self.resolved_order.capacity)
        twin.tally = None
        twin.assignors_order = MemberMapOrder()
        twin.is_shared = False
        return twin

    # -- questions

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def state(self) -> str:
        """Empty, Assigning (a new target assignment is due), Reconciling, or Stable."""
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        return "Stable" if self.stable_at.get(self.assignment_epoch) == len(self.members) else "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def in_order(self) -> list[ConsumerMember]:
        """The members in the order in which Kafka iterates over them."""
        return [self.members[member_id] for member_id in self.order.sorted(self.members)]

    def last_resolved(self) -> ResolvedRegex | None:
        """The resolution that Kafka treats as the latest: the first one that it iterates over. (The resolution of an
        expression can remain when no member subscribes to it anymore.)"""
        return next((self.resolved[regex] for regex in self.resolved_order.sorted(self.resolved)), None)

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with an instance id; None if there is none, or if the id `lost_its_member`."""
        member_id = None if instance_id is None else self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def lost_its_member(self, instance_id: str) -> bool:
        """Whether an instance id belongs to a member that is gone. A member that rejoins with another instance id has
        both ids, and only the last one is removed with it. From then on, Kafka finds no member for the first id."""
        return instance_id in self.static_ids and self.static_ids[instance_id] not in self.members

    def find(self, member_id: str, instance_id: str | None) -> ConsumerMember | ErrorCode:
        """The member with this id. If an instance id is given, it must belong to this member."""
        if instance_id is None:
            return self.members.get(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.static_member(instance_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return member if member.member_id == member_id else ErrorCode.FENCED_INSTANCE_ID

    def target_of(self, member_id: str, instance_id: str | None = None) -> Target:
        """The target assignment of a member, or, if an instance id is given, of the member that has it."""
        return self.targets.get(member_id if instance_id is None else self.static_ids.get(instance_id, ""), NO_TARGET)

    def listed_target(self, member_id: str) -> ListedTarget:
        """The target assignment of a member, with topics and partitions in Kafka's order."""
        target = self.targets.get(member_id, NO_TARGET)
        unusual = self.unusual_orders.get(member_id)
        return target if unusual is None else {t: unusual.get(t, partitions) for t, partitions in target.items()}

    def owner_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch of the member that has a partition; None if no member has it."""
        epochs = self.partition_epochs.get(topic_id)
        return None if epochs is None else epochs.get(partition)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.names or topic in self.matched

    def metadata_expired(self, now: Millis) -> bool:
        """Whether the metadata hash must be recomputed: the topics have changed, or a record was lost."""
        return now >= self.refresh.deadline_ms or self.group_epoch < self.refresh.epoch

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics, in Kafka's view, which changes when a member is written but
        not when a regular expression is resolved."""
        if self._homogeneous is not None:
            return self._homogeneous
        return homogeneous(self.names, self.matched, self.regexes, len(self.members))

    def counts_with(
        self, before: ConsumerMember | None, after: ConsumerMember
    ) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """(names, matched, regexes) after a member has changed from `before` to `after`."""
        names, matched, regexes = self.names, self.matched, self.regexes
        old_names = frozenset[str]() if before is None else before.subscribed_topic_names
        if old_names != after.subscribed_topic_names:
            names = counted(counted(names, old_names, -1), after.subscribed_topic_names, +1)
        old_regex = (before.subscribed_topic_regex if before else None) or None
        new_regex = after.subscribed_topic_regex or None
        if old_regex != new_regex:
            if old_regex is not None:
                regexes = counted(regexes, [old_regex], -1)
                if self.regexes.get(old_regex) == 1 and old_regex in self.resolved:
                    matched = counted(matched, self.resolved[old_regex].topics, -1)
            if new_regex is not None:
                regexes = counted(regexes, [new_regex], +1)
        return names, matched, regexes

    def preferred_assignor(
        self, before: ConsumerMember | None = None, after: ConsumerMember | None = None
    ) -> str | None:
        """The server assignor that most members prefer, after a member has changed from `before` to `after`; None if no
        member prefers one."""
        order, counts = TimelineOrder().sorted(self.server_assignors), self.server_assignors
        for member, by in ((before, -1), (after, +1)):
            if member is not None and member.server_assignor is not None:
                counts = counted(counts, [member.server_assignor], by)
                # Both names share a bucket of Kafka's hash map, and a name that is added again comes first in it.
                order = [*(counts.keys() - order), *(name for name in order if name in counts)]
        most = max(counts.values(), default=0)
        return next((name for name in order if counts[name] == most), None)

    def only_classic_without(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Whether all members but these use the classic protocol."""
        gone = list(leaving)
        return self.classic_members - sum(m.classic is not None for m in gone) == len(self.members) - len(gone)

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member that uses the classic protocol with these protocols can be in the group."""
        counts = self.classic_protocols
        return protocol_type == PROTOCOL_TYPE and any(counts.get(name, 0) == self.classic_members for name in names)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still has a partition of this member's target assignment."""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            partition not in member.assigned.get(topic_id, {}) and self.owner_epoch(topic_id, partition) is not None
            for topic_id, partitions in self.target_of(member.member_id).items()
            for partition in partitions
        )

    # -- changes: only by replay

    def put_target(self, member_id: str, target: Target | None, unusual: Mapping[bytes, tuple[int, ...]]) -> None:
        """A member's target has changed; None: it has no target."""
        if self.tally is not None:
            self.tally.change(member_id, self.targets.get(member_id), target)
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target
        if unusual:
            self.unusual_orders[member_id] = unusual
        else:
            self.unusual_orders.pop(member_id, None)

    def put_spans(self, topics: tuple[bytes, ...], spans: Mapping[str, Spans]) -> None:
        """The targets of many members have changed, each to consecutive partitions of these topics (`Targets`)."""
        self.tally = None
        self.targets.put_spans(topics, spans)
        for member_id in self.unusual_orders.keys() & spans.keys():
            del self.unusual_orders[member_id]

    def put(self, member: ConsumerMember) -> None:
        """Add a member, or replace the one with its id."""
        before = self.members.get(member.member_id)
        self._homogeneous = None
        self.order.put(len(self.members))
        self.members[member.member_id] = member
        if before is not None and member.says_the_same_as(before):
            self._count_stable(before, -1)
            self._count_stable(member, +1)
        else:
            self._count(before, -1)
            self._count(member, +1)
        if before is None or not self._owns_later(before, member):
            if before is not None:
                self._disown_all(before)
            self._own(member)
        if before is not None and before.group_instance_id is not None and self.behavior.forgets_former_instance_ids:
            self.static_ids.pop(before.group_instance_id, None)
        if member.group_instance_id is not None:
            self.static_ids[member.group_instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._homogeneous = None
        self._count(member, -1)
        self._disown_all(member)
        if member.group_instance_id is not None:
            self.static_ids.pop(member.group_instance_id, None)

    def resolve(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """A regular expression was resolved; None: no member subscribes to it anymore."""
        self._homogeneous = self.is_homogeneous
        if resolved is not None:
            self.resolved_order.put(len(self.resolved))
        before = self.resolved.pop(regex, None)
        if before is not None:
            _count_all(self.matched, before.topics, -1)
        if resolved is not None:
            self.resolved[regex] = resolved
            _count_all(self.matched, resolved.topics, +1)

    def _count(self, member: ConsumerMember | None, by: int) -> None:
        if member is None:
            return
        _count_all(self.names, member.subscribed_topic_names, by)
        if member.subscribed_topic_regex:
            _count_all(self.regexes, (member.subscribed_topic_regex,), by)
        if member.server_assignor is not None:
            _count_all(self.server_assignors, (member.server_assignor,), by)
        if member.classic is not None:
            self.classic_members += by
            _count_all(self.classic_protocols, [name for name, _ in member.classic.protocols], by)
        self._count_stable(member, by)

    def _count_stable(self, member: ConsumerMember, by: int) -> None:
        if member.state is MemberState.STABLE:
            _count_all(self.stable_at, (member.member_epoch,), by)

    def _owns_later(self, before: ConsumerMember, member: ConsumerMember) -> bool:
        """Move the partitions of a member to its epoch, if they are the same as before and no other member has one of
        them. Otherwise, return False and change nothing."""
        if before.pending_revocation or member.pending_revocation or before.assigned.keys() != member.assigned.keys():
            return False
        rows = []
        for topic_id, partitions in member.assigned.items():
            epochs = self.partition_epochs.get(topic_id)
            if epochs is None or partitions.keys() != before.assigned[topic_id].keys():
                return False
            if [*map(epochs.get, partitions)].count(before.member_epoch) != len(partitions):
                return False
            rows.append((epochs, partitions))
        for epochs, partitions in rows:
            epochs.update(dict.fromkeys(partitions, member.member_epoch))
        return True

    def _own(self, member: ConsumerMember) -> None:
        epoch = member.member_epoch
        for topic_id, partitions in (*member.assigned.items(), *member.pending_revocation.items()):
            epochs = self.partition_epochs.setdefault(topic_id, {})
            if epochs.keys().isdisjoint(partitions):
                epochs.update(dict.fromkeys(partitions, epoch))
            else:
                for partition in partitions:
                    known = epochs.get(partition)
                    # In a partly cleaned log, an older record of another member can come later.
                    if known is None or known < epoch:
                        epochs[partition] = epoch
            if not epochs:
                del self.partition_epochs[topic_id]

    def _disown_all(self, member: ConsumerMember) -> None:
        self._disown(member.assigned, member.member_epoch)
        self._disown(member.pending_revocation, member.member_epoch)

    def _disown(self, assigned: Assigned, epoch: int) -> None:
        """The member of this epoch no longer has these partitions."""
        for topic_id, partitions in assigned.items():
            epochs = self.partition_epochs.get(topic_id)
            if epochs is None:
                continue
            for partition in partitions:
                if epochs.get(partition) == epoch:
                    del epochs[partition]
            if not epochs:
                del self.partition_epochs[topic_id]


def _count_all(counts: dict[K, int], keys: Iterable[K], by: int) -> None:
    for key in keys:
        count = counts.get(key, 0) + by
        if count:
            counts[key] = count
        else:
            counts.pop(key, None)


def counted(counts: Mapping[K, int], keys: Iterable[K], by: int) -> dict[K, int]:
    """A copy of the counts with `by` added for each key."""
    changed: dict[Any, int] = dict(counts)
    _count_all(changed, keys, by)
    return changed


def homogeneous(names: Mapping[str, int], matched: Mapping[str, int], regexes: Mapping[str, int], members: int) -> bool:
    """Whether all members subscribe to the same topics in Kafka's view (ConsumerGroup.subscriptionType): through the
    same names, or through one regular expression and no names."""
    if not regexes:
        return all(count == members for count in names.values()) and (not members or matched.keys() <= names.keys())
    if next(iter(regexes.values())) != members:
        return False
    return not names and all(count == 1 for count in matched.values())
