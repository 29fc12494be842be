"""What goes into an assignor, and what comes out: members with subscriptions and owned partitions, topics,
assignments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kgm.assignors.map_order import MapOrder
from kgm.java.strings import string_order
from kgm.model.errors import UsageError

#: The maximum number of partitions in all topics of a group: what Kafka's brokers can manage in a whole cluster without
#: special tuning.
MOST_PARTITIONS = 200_000
#: The result of an assignor: partitions by member id and topic, sorted; with every member, and no empty topics. Members
#: may share parts of it with each other, and with what they own, so it must not be changed.
Assigned = dict[str, Mapping[str, tuple[int, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """A member as seen by the leader, or, for `consumer-*`, by the coordinator.

    topics: the topics that it subscribes to, with a regular expression already resolved. owned: the partitions that it
    claims to own; for `consumer-*`, its target assignment. generation: the generation in which it got them; None if it
    has not been in one. names_generation: whether the generation is in its subscription (version 2 and later, KIP-792),
    and not only in its user data, as with Java clients before 3.5 or just after a member was fenced. says_owned: False
    for a version 1 subscription that ends before the owned partitions, which some libraries cannot read.
    """

    member_id: str
    group_instance_id: str | None = None
    rack: str | None = None
    topics: tuple[str, ...] = ()
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    generation: int | None = None
    names_generation: bool = True
    says_owned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic. racks: for each partition, the racks of its replicas; None if they are not known."""

    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A group to assign. The order of members and topics matters for `consumer-*` and, among members whose ids share a
    bucket of a Java hash map, for the sticky assignors. Raises UsageError for an impossible group.

    is_listed: owned topics and partitions are in the order in which the coordinator iterates over them, which matters
    for `consumer-uniform`: a member that must revoke partitions revokes the last ones. Where two partitions share a
    bucket of a hash map, the order does not follow from the partitions (`kgm.coordinator.consumer.target_order`).

    leader: the id of the member that assigns, which matters for libraries that assign only its topics; None: the first
    member. withheld: if all members subscribe to the same topics, partitions that `consumer-uniform` gives to no member
    although no member owns them. map_order: matters for libraries that follow the order of Go maps; None: topics by
    name, and members in the order given."""

    members: tuple[MemberSpec, ...]
    topics: tuple[TopicSpec, ...]
    is_listed: bool = False
    leader: str | None = None
    withheld: Mapping[str, Sequence[int]] = field(default_factory=dict)
    map_order: MapOrder | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _refuse_repeats("member id", [member.member_id for member in self.members])
        _refuse_repeats("topic", [topic.name for topic in self.topics])
        for topic in self.topics:
            if topic.partitions < 0:
                raise UsageError(f"topic {topic.name} has {topic.partitions} partitions")
            if topic.racks is not None and len(topic.racks) != topic.partitions:
                raise UsageError(
                    f"topic {topic.name} has {topic.partitions} partitions, but racks for {len(topic.racks)}"
                )

    @property
    def leading(self) -> MemberSpec | None:
        """The member that assigns."""
        first = self.members[0] if self.members else None
        return next((member for member in self.members if member.member_id == self.leader), first)


def _refuse_repeats(what: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        repeated = next(name for i, name in enumerate(names) if name in names[:i])
        raise UsageError(f"{what} {repeated} is given twice")


def by_identity(members: Sequence[MemberSpec]) -> list[MemberSpec]:
    """Static members by instance id, then dynamic members by member id: the order of Java's `MemberInfo`, and of the
    coordinator's range assignor. Two members with the same instance id keep their order."""
    return [members[at] for at in identity_order([(member.group_instance_id, member.member_id) for member in members])]


def identity_order(members: Sequence[tuple[str | None, str]]) -> list[int]:
    """The order of `by_identity` as positions, for members given as (instance id, member id)."""
    static = [at for at, (instance_id, _) in enumerate(members) if instance_id is not None]
    if not static:
        return string_order([member_id for _, member_id in members])
    dynamic = [at for at, (instance_id, _) in enumerate(members) if instance_id is None]
    static_order = string_order([members[at][0] or "" for at in static])
    dynamic_order = string_order([members[at][1] for at in dynamic])
    return [*(static[at] for at in static_order), *(dynamic[at] for at in dynamic_order)]


def by_member_id(members: Sequence[MemberSpec]) -> list[MemberSpec]:
    """Members by member id, whether static or not."""
    return [members[position] for position in string_order([member.member_id for member in members])]


def refuse_too_many_partitions(topics: Iterable[TopicSpec]) -> None:
    """Raises UsageError for a group that would take gigabytes of memory."""
    partitions = sum(topic.partitions for topic in topics)
    if partitions > MOST_PARTITIONS:
        raise UsageError(f"the topics of the group have {partitions} partitions, more than {MOST_PARTITIONS}")
