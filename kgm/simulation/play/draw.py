"""The outcome of playing a plan once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kgm.coordinator.contract.topic_image import TopicImage
from kgm.coordinator.groups.classic_group import ClassicGroup, ClassicMember
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.model.assignment import Move, Partitions
from kgm.simulation.play.holdings import Holding
from kgm.text.names import in_order
from kgm.text.wording import many

#: What happens when a dynamic librdkafka member without partitions is closed in a cooperative group.
SILENT_CLOSE = "shuts down without leaving the group: librdkafka does not leave when it has no partitions to give up"

#: What happens to a process whose instance id is taken until the session of a killed one ends: this ends it, or its
#: library keeps trying.
UNRELEASED = "the heartbeat to join is refused with UNRELEASED_INSTANCE_ID"
TRIES_AGAIN = f"{UNRELEASED}; it tries again on its own"
#: What happens to a process for which the group has no room before the session of a stopped process ends: what its
#: library does then, or that this ends it.
TRIES_UNTIL_THERE_IS_ROOM = "JoinGroup is refused with GROUP_MAX_SIZE_REACHED; it tries again on its own"
FULL_FOR_NOW = "it is refused with GROUP_MAX_SIZE_REACHED, although a session will end"


def stable_with(members: int) -> str:
    """What happens at the end, in words."""
    return f"the group is stable with {many(members, 'member')}"


def final_assignment(
    group: ClassicGroup | ConsumerGroup | None, pending: Mapping[str, Partitions], image: TopicImage,
    decode: Callable[[bytes], Partitions],
) -> dict[str, Partitions]:  # fmt: skip
    """What the members of a group have been assigned, by identity. pending: by member id, what the group does not
    contain yet. decode: decodes the assignment of a classic member."""
    final: dict[str, Partitions] = {}
    for member in () if group is None else group.members.values():
        owned = pending.get(member.member_id)
        if owned is None:
            owned = decode(member.assignment) if isinstance(member, ClassicMember) else named_partitions(member, image)
        identity = member.group_instance_id or member.member_id
        final[identity] = {topic: tuple(sorted(owned[topic])) for topic in sorted(owned) if owned[topic]}
    return final


def generation_of(group: ClassicGroup | ConsumerGroup) -> int:
    """The generation of a classic group, the epoch of a consumer group."""
    return group.generation if isinstance(group, ClassicGroup) else group.group_epoch


def named_partitions(member: ConsumerMember, image: TopicImage) -> Partitions:
    """What a member of a consumer group has been assigned, by topic name."""
    by_id, assigned = image.by_id, member.assigned
    return {by_id[topic_id].name: tuple(numbers) for topic_id, numbers in assigned.items() if topic_id in by_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedMove(Move):
    """A partition whose owner after the plan differs from its owner before. Owners are identities.

    at_ms: when it reached its new owner, or lost its last one, from the start of the plan."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """Something that happened, in ms since the start of the plan."""

    at_ms: int
    event: str
    detail: str
    member: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """The plan played once, with one choice for everything that cannot be known.

    generations: by how much the coordinator's counter rose. epoch_in_new_group: the counter's value if it was reset
    during the plan, which happens when a classic group is empty before its first member with the consumer protocol
    joins, and when the broker deletes the group while it is empty. rebalances: the generations (target assignments of a
    consumer group) that reached an assignment. handovers: how often a partition passed from one consumer to another,
    there and back being two; a partition that returns directly to its previous consumer is not counted. became_stable:
    whether the group was stable at the end; if not, the simulation hit a limit. has_random_ids: whether the final
    assignment names ids that cannot be known in advance. follows_map_order: whether who got what depended on the order
    of a Go map. was_empty: whether the group had no members for a while. took_ms: from the start of the plan to the
    end. requests: how many requests the coordinator handled. cost: what it took to play this, in requests of a classic
    group played one by one; lower than `requests` if some were played in bulk. newcomers_wait_ms: the longest time that
    a new member was without partitions, from its start; None if no new member got any. fewest_consumed: the lowest
    number of partitions that had a consumer at the same time; None if that was not counted. holdings: recorded only on
    request."""

    generations: int
    rebalances: int
    moves: tuple[TimedMove, ...]
    handovers: int
    stopped_partition_ms: int
    fenced: tuple[str, ...]
    refused_joins: int
    final_assignment: Mapping[str, Partitions]
    timeline: tuple[TimelineEvent, ...]
    became_stable: bool
    has_random_ids: bool
    was_empty: bool
    took_ms: int
    requests: int
    cost: int = field(compare=False)
    follows_map_order: bool = False
    newcomers_wait_ms: int | None = None
    fewest_consumed: int | None = None
    epoch_in_new_group: int | None = None
    holdings: tuple[Holding, ...] = ()

    @property
    def ended(self) -> tuple[str, ...]:
        """The processes that the broker refused and that do not try again on their own. `Plan.retry_every_ms` says
        whether something starts them again."""
        trying = (TRIES_AGAIN, TRIES_UNTIL_THERE_IS_ROOM)
        refused = (event for event in self.timeline if event.event == "refused" and event.detail not in trying)
        return tuple(in_order({event.member for event in refused if event.member is not None}))

    @property
    def left_out(self) -> int:
        """How many processes the broker refused, and ended so, that could have joined after a session had ended."""
        return sum(event.detail in (UNRELEASED, FULL_FOR_NOW) for event in self.timeline)

    @property
    def moved_partitions(self) -> int:
        return len(self.moves)

    @property
    def without_times(self) -> tuple[object, ...]:
        """The values that must be the same in every draw for a prediction to be exact."""
        return (
            self.generations,
            self.rebalances,
            tuple((move.topic, move.partition, move.owner_before, move.owner_after) for move in self.moves),
            self.handovers,
            self.fenced,
            self.refused_joins,
            self.became_stable,
            self.epoch_in_new_group,
        )
