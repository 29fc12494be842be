"""The target assignment of a consumer group: who is to have what (Kafka: TargetAssignmentBuilder).

It is computed when the group's epoch is ahead of the assignment's and the last one is old enough; what changed is
written, member by member, and then the epoch. The order of members and topics is that of Kafka's hash maps, since the
assignors' answers hang on it."""

from collections.abc import Collection, Mapping, Sequence

from kgm.assignors.java import copied_name_order, map_order
from kgm.assignors.server import in_broker_order
from kgm.assignors.server_range import assign_server_range
from kgm.assignors.spec import GroupSpec, MemberSpec, TopicSpec, by_identity
from kgm.assignors.uniform import assign_uniform
from kgm.coordinator import consumer_records as records
from kgm.coordinator.consumer_group import ConsumerGroup
from kgm.coordinator.consumer_member import NO_TARGET, ConsumerMember, Target
from kgm.coordinator.settings import assignment_interval_ms
from kgm.coordinator.step import Step
from kgm.coordinator.topics import TopicImage


def is_due(group: ConsumerGroup, step: Step) -> bool:
    """Whether the next target assignment may be computed now."""
    interval_ms = assignment_interval_ms(step.settings, step.configs.get(group.group_id))
    last_ms = group.assignment_timestamp_ms
    return not last_ms or not interval_ms or step.now >= last_ms + interval_ms


def update(
    group: ConsumerGroup,
    group_epoch: int,
    before: ConsumerMember,
    after: ConsumerMember,
    step: Step,
    *,
    is_homogeneous: bool,
) -> tuple[int, Target]:
    """The assignment epoch and the target of a member that is changed like this: new ones if they are due."""
    if group.assignment_epoch >= group_epoch or not is_due(group, step):
        return group.assignment_epoch, group.target_of(after.member_id, after.group_instance_id)
    name = group.preferred_assignor(before, after) or step.settings.consumer_assignors[0]
    targets = compute(group, after, name, step.image, is_homogeneous=is_homogeneous)
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            step.write(records.target_record(group.group_id, member_id, target))
    step.write(records.target_epoch_record(group.group_id, group_epoch, step.now))
    return group_epoch, targets[after.member_id]


def compute(
    group: ConsumerGroup, updated: ConsumerMember, assignor: str, image: TopicImage, *, is_homogeneous: bool
) -> dict[str, Target]:
    """The targets of all members, one of them updated or new, in the order of Kafka's hash map."""
    replaced = None if updated.group_instance_id is None else group.static_ids.get(updated.group_instance_id)
    members = {member.member_id: member for member in group.in_order()}
    members[updated.member_id] = updated
    ids = [*members]
    order = [ids[at] for at in map_order(ids) if ids[at] == updated.member_id or ids[at] != replaced]
    names_of = _Subscriptions(group, image)
    specs = [
        MemberSpec(
            member_id=member_id,
            group_instance_id=members[member_id].group_instance_id,
            rack=members[member_id].rack_id,
            topics=names_of(members[member_id]),
            owned=_by_name(
                group.target_of(replaced if replaced is not None and member_id == updated.member_id else member_id),
                image,
            ),
        )
        for member_id in order
    ]
    return _assign(assignor, specs, image, is_homogeneous=is_homogeneous)


def _assign(
    assignor: str, specs: Sequence[MemberSpec], image: TopicImage, *, is_homogeneous: bool
) -> dict[str, Target]:
    """One assignor's answer, by topic id."""
    is_range = assignor == "range"
    if is_homogeneous:
        # Kafka looks at one member only.
        first = by_identity(specs)[0] if is_range else specs[0]
        if any(spec.topics != first.topics for spec in specs):
            specs = [_wanting(spec, first.topics) for spec in specs]
        names: Collection[str] = first.topics
    else:
        names = {name for topics in {spec.topics for spec in specs} for name in topics}
    topics = in_broker_order(
        [image.by_name[name] for name in names], lambda topic: topic.topic_id, is_homogeneous=is_homogeneous
    )
    group = GroupSpec(
        members=tuple(specs), topics=tuple(TopicSpec(name=t.name, partitions=t.partitions) for t in topics)
    )
    answer = assign_server_range(group) if is_range else assign_uniform(group, is_homogeneous=is_homogeneous)
    ids = {topic.name: topic.topic_id for topic in topics}
    return {
        spec.member_id: {ids[name]: partitions for name, partitions in answer[spec.member_id].items()} or NO_TARGET
        for spec in specs
    }


def _wanting(spec: MemberSpec, topics: tuple[str, ...]) -> MemberSpec:
    return MemberSpec(
        member_id=spec.member_id,
        group_instance_id=spec.group_instance_id,
        rack=spec.rack,
        topics=topics,
        owned=spec.owned,
    )


class _Subscriptions:
    """The topics that members subscribe to and that exist: one tuple for all members that want the same."""

    def __init__(self, group: ConsumerGroup, image: TopicImage) -> None:
        self._group = group
        self._image = image
        self._known: dict[tuple[frozenset[str], str | None], tuple[str, ...]] = {}

    def __call__(self, member: ConsumerMember) -> tuple[str, ...]:
        key = member.subscribed_topic_names, member.subscribed_topic_regex
        if key not in self._known:
            listed = subscription(self._group, member)
            self._known[key] = tuple(name for name in copied_name_order(listed) if name in self._image.by_name)
        return self._known[key]


def subscription(group: ConsumerGroup, member: ConsumerMember) -> frozenset[str]:
    """The topics that a member subscribes to, by name or by an expression that is resolved."""
    resolved = group.resolved.get(member.subscribed_topic_regex or "")
    if resolved is None:
        return member.subscribed_topic_names
    return member.subscribed_topic_names | resolved.topics


def _by_name(target: Target, image: TopicImage) -> Mapping[str, Sequence[int]]:
    """A target with names; topics that are gone are left out."""
    by_id = image.by_id
    return {by_id[topic_id].name: partitions for topic_id, partitions in target.items() if topic_id in by_id}
