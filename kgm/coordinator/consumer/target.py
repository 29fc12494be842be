"""The target assignment of a consumer group (Kafka: TargetAssignmentBuilder).

It is computed when the group epoch is ahead of the assignment epoch and the last target is old enough. The targets of
members that have changed are written, and then the epoch. Members and topics are in the order of Kafka's hash maps,
because the assignors' results depend on that order."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import repeat

from kgm.assignors.contract import GroupSpec, MemberSpec, TopicSpec, identity_order
from kgm.assignors.server.broker_view import in_broker_order
from kgm.assignors.server.range import assign_server_range
from kgm.assignors.server.uniform import assign_uniform, reassign_uniform
from kgm.assignors.server.uniform_heterogeneous import Gain
from kgm.coordinator.consumer import records, target_order
from kgm.coordinator.contract.settings import BrokerSettings, GroupConfig, assignment_interval_ms
from kgm.coordinator.contract.topic_image import Topic, TopicImage
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import NO_TARGET, ConsumerMember, ListedTarget, Target
from kgm.coordinator.groups.event_draft import EventDraft
from kgm.coordinator.groups.target_tally import TargetTally
from kgm.coordinator.groups.targets import Spans, spread
from kgm.java.hash_map import DEFAULT_CAPACITY, first_in_map, map_order, table_of
from kgm.java.hash_set import copied_name_order
from kgm.model.errors import ErrorCode

#: The assignor that is not `uniform`.
RANGE = "range"
#: The group size from which keeping a tally of the targets pays off.
TALLIED_FROM = 16


class AssignorFailedError(Exception):
    """A broker's assignor would fail on this group."""


def is_due(group: ConsumerGroup, event: EventDraft) -> bool:
    """Whether the next target assignment may be computed now."""
    return event.now >= due_from_ms(group, event.settings, event.configs.get(group.group_id))


def due_from_ms(group: ConsumerGroup, settings: BrokerSettings, config: GroupConfig | None) -> int:
    """The earliest time at which the next target assignment may be computed; 0 for any time."""
    interval_ms, last_ms = assignment_interval_ms(settings, config), group.assignment_timestamp_ms
    return last_ms + interval_ms if last_ms and interval_ms else 0


def update(
    group: ConsumerGroup,
    group_epoch: int,
    before: ConsumerMember,
    after: ConsumerMember,
    event: EventDraft,
    *,
    is_homogeneous: bool,
    listed: Sequence[str] | None = None,
) -> tuple[int, Target] | ErrorCode:
    """The assignment epoch and the target of a member that changes from `before` to `after`, newly computed if due.
    UNKNOWN_SERVER_ERROR if a new target is due and the assignor fails.

    listed: the topics that the request names, in its order (the log has them sorted)."""
    if group.assignment_epoch >= group_epoch or not is_due(group, event):
        return group.assignment_epoch, group.target_of(after.member_id, after.group_instance_id)
    name = group.preferred_assignor(before, after) or event.settings.consumer_assignors[0]
    former_id = after.member_id
    if group.behavior.keeps_target_of_replaced_member and after.group_instance_id is not None:
        former_id = group.static_ids.get(after.group_instance_id, former_id)
    known_as = former_id if former_id in group.targets else after.member_id
    if is_homogeneous and name == RANGE:
        changed, aim = range_changes(group, after, known_as, event.image, listed)
        if len(changed):
            event.write(changed)
    else:
        targets = None
        if is_homogeneous and len(group.members) >= TALLIED_FROM:
            targets = compute_changed(group, after, event.image, listed=listed)
        if targets is None:
            try:
                targets = compute(group, after, name, event.image, is_homogeneous=is_homogeneous, listed=listed)
            except AssignorFailedError:
                return ErrorCode.UNKNOWN_SERVER_ERROR
        for member_id, (target, as_listed) in targets.items():
            if group.targets.get(known_as if member_id == after.member_id else member_id) != target:
                event.write(records.target_record(group.group_id, member_id, as_listed))
        aim = targets[after.member_id][0]
    computed_ms = event.now if group.behavior.has_assignment_interval else 0
    event.write(records.target_epoch_record(group.group_id, group_epoch, computed_ms))
    return group_epoch, aim


def compute(
    group: ConsumerGroup,
    updated: ConsumerMember,
    assignor: str,
    image: TopicImage,
    *,
    is_homogeneous: bool,
    listed: Sequence[str] | None = None,
) -> dict[str, tuple[Target, ListedTarget]]:
    """The targets of all members, one of which is updated or new, in the order of Kafka's hash map. Raises
    AssignorFailedError."""
    replaced = None if updated.group_instance_id is None else group.static_ids.get(updated.group_instance_id)
    order = _in_map_order(group, updated.member_id, replaced)
    members = {**group.members, updated.member_id: updated}
    names_of = _Subscriptions(group, image)
    before = [
        group.listed_target(replaced if replaced is not None and member_id == updated.member_id else member_id)
        for member_id in order
    ]
    specs = [
        MemberSpec(
            member_id=member_id,
            group_instance_id=members[member_id].group_instance_id,
            rack=members[member_id].rack_id,
            topics=names_of(members[member_id], listed if member_id == updated.member_id else None),
            owned=_by_name(target, image),
        )
        for member_id, target in zip(order, before, strict=True)
    ]
    if assignor != RANGE:
        _check_owned(specs, image)
    named = [names_of.count(members[member_id]) for member_id in order]
    dropped: ListedTarget = NO_TARGET
    if replaced not in (None, updated.member_id):
        dropped = group.targets.get(updated.member_id, NO_TARGET)
    return _assign(
        specs, before, image, named, is_range=assignor == RANGE, is_homogeneous=is_homogeneous,
        withheld=_by_name(dropped, image),
    )  # fmt: skip


def _check_owned(specs: Sequence[MemberSpec], image: TopicImage) -> None:
    """Raises AssignorFailedError if a target has a nonexistent partition of an existing topic that the member
    subscribes to: then Kafka's `uniform` fails every time. This happens if the group used to be a classic group, which
    goes by topic names, and the topic was deleted and created again with fewer partitions."""
    for spec in specs:
        for name, partitions in spec.owned.items():
            if max(partitions, default=-1) >= image.by_name[name].partitions and name in spec.topics:
                raise AssignorFailedError


def _in_map_order(group: ConsumerGroup, updated: str, replaced: str | None) -> list[str]:
    """The members in the order of the map into which Kafka puts all of them, and then the updated one. The member that
    the updated one replaces leaves that map before or after the updated one is added; which comes first depends on the
    order of another map that holds the two. If it leaves before, the map may stay smaller."""
    if replaced is None or replaced == updated:
        newcomer = None if updated in group.members else updated
        return group.assignors_order.of(group.members.keys(), newcomer, group.order.capacity)
    members = group.order.sorted(group.members)
    after = members if updated in group.members else [*members, updated]
    if first_in_map([updated, replaced], DEFAULT_CAPACITY) == updated:
        return [after[at] for at in map_order(after) if after[at] != replaced]
    kept = [member_id for member_id in after if member_id != replaced]
    return [kept[at] for at in map_order(kept, table_of(members))]


def range_changes(
    group: ConsumerGroup, updated: ConsumerMember, known_as: str, image: TopicImage, listed: Sequence[str] | None
) -> tuple[records.TargetRecords, Target]:
    """The targets that `range` changes if all members subscribe to the same topics: those of the first member. And the
    target of the updated member, whose target before is that of the member `known_as`."""
    replaced = None if updated.group_instance_id is None else group.static_ids.get(updated.group_instance_id)
    order = _in_map_order(group, updated.member_id, replaced)
    members = {**group.members, updated.member_id: updated}
    has_static = group.static_ids or updated.group_instance_id is not None
    instance_ids = [members[each].group_instance_id for each in order] if has_static else repeat(None)
    by_identity = [order[at] for at in identity_order([*zip(instance_ids, order, strict=False)])]
    names_of, first = _Subscriptions(group, image), members[by_identity[0]]
    names = names_of(first, listed if first is updated else None)
    named = names_of.count(members[order[0]])
    topics = in_broker_order([image.by_name[name] for name in names], _id_of, is_homogeneous=True, named=named)
    counts = {topic.topic_id: topic.partitions for topic in topics}
    ids = (*counts,)
    if target_order.share_buckets(ids):
        ids = (*target_order.of_range(dict.fromkeys(ids, ()), [image.by_name[n].topic_id for n in names], len(names)),)
    spans = dict(zip(by_identity, _spans(tuple([counts[topic_id] for topic_id in ids]), len(order)), strict=True))
    aim = spread(ids, spans[updated.member_id])
    differ = group.targets.differing(ids, spans)
    (differ.discard if group.targets.get(known_as) == aim else differ.add)(updated.member_id)
    changed = {member_id: spans[member_id] for member_id in order if member_id in differ}
    return records.TargetRecords(group.group_id, ids, changed), aim


@lru_cache(maxsize=4)
def _spans(counts: tuple[int, ...], members: int) -> list[Spans]:
    """What each member gets of topics with so many partitions: blocks, the first of which have one partition more. No
    partition is always the same span, so that spans differ only if targets do."""
    columns: list[list[int]] = []
    for count in counts:
        size, over = divmod(count, members)
        firsts = [at * size + min(at, over) for at in range(members)]
        ends = [*firsts[1:], count]
        if not size:
            firsts[over:] = ends[over:] = [0] * (members - over)
        columns += firsts, ends
    return [*zip(*columns, strict=True)] if columns else [()] * members


def compute_changed(
    group: ConsumerGroup, updated: ConsumerMember, image: TopicImage, *, listed: Sequence[str] | None = None
) -> dict[str, tuple[Target, ListedTarget]] | None:
    """What `compute` returns for the updated or new member, and for members whose targets change, in the same order,
    without looking at the others. The assignor is `uniform`, and all members subscribe to the same topics. None if this
    shortcut cannot be used, for example because a partition is in two targets, which no broker writes."""
    names = updated.subscribed_topic_names
    replaced = None if updated.group_instance_id is None else group.static_ids.get(updated.group_instance_id)
    if replaced not in (None, updated.member_id) or group.regexes or updated.subscribed_topic_regex:
        return None
    if not names or names - image.by_name.keys():
        return None
    if group.tally is None:
        group.tally = TargetTally(group.targets)
    tally, sizes = group.tally, {image.by_name[name].topic_id: image.by_name[name].partitions for name in names}
    if not tally.is_of(group.members.keys(), sizes):
        return None
    order = _in_map_order(group, updated.member_id, replaced)
    first = copied_name_order(names)
    if listed is not None and order[0] == updated.member_id:
        first = copied_name_order(dict.fromkeys(listed), is_listed=True)
    topics = in_broker_order([image.by_name[name] for name in first], _id_of, is_homogeneous=True, named=len(first))
    ids, gains = {topic.name: topic.topic_id for topic in topics}, list[Gain]()
    rows = reassign_uniform(
        [*map(tally.loads.get, order, repeat(0))],
        lambda at: _tuples(_by_name(group.listed_target(order[at]), image)),
        {topic.name: topic.partitions for topic in topics},
        [(t.name, p, p + 1) for t in topics for p in tally.free(t.topic_id, t.partitions)],
        gains,
        always=order.index(updated.member_id),
    )  # fmt: skip
    place = {at: number for number, at in enumerate(rows)}
    after: list[Target] = [{ids[name]: p for name, p in row.items()} or NO_TARGET for row in rows.values()]
    as_listed = target_order.of_uniform(
        [group.listed_target(order[at]) for at in rows],
        after,
        [[*ids.values()]] * len(rows),
        [(name, p, end, place.get(loser, loser), place.get(winner, winner)) for name, p, end, loser, winner in gains],
        ids,
        {},
    )
    return {order[at]: pair for at, pair in zip(rows, zip(after, as_listed, strict=True), strict=True)}


def _id_of(topic: Topic) -> bytes:
    return topic.topic_id


def _tuples(rows: Mapping[str, Sequence[int]]) -> Mapping[str, tuple[int, ...]]:
    return {name: tuple(partitions) for name, partitions in rows.items() if partitions}


def _assign(
    specs: Sequence[MemberSpec],
    before: Sequence[ListedTarget],
    image: TopicImage,
    named: Sequence[int],
    *,
    is_range: bool,
    is_homogeneous: bool,
    withheld: Mapping[str, Sequence[int]],
) -> dict[str, tuple[Target, ListedTarget]]:
    """The result of an assignor, by topic id; `range` is used here only if subscriptions differ (`range_changes`).
    named: how many topics each member subscribes to, including nonexistent ones. withheld: the partitions that the
    updated member drops because it takes over another member's: to Kafka they are still assigned
    (GroupSpec.isPartitionAssigned)."""
    if is_homogeneous:
        first = specs[0]  # Kafka uses one member's subscription for all
        if any(spec.topics != first.topics for spec in specs):
            specs = [_subscribed_to(spec, first.topics) for spec in specs]
        names: Collection[str] = first.topics
    else:
        names = {name for topics in {spec.topics for spec in specs} for name in topics}
    topics = in_broker_order(
        [image.by_name[name] for name in names],
        lambda topic: topic.topic_id,
        is_homogeneous=is_homogeneous,
        named=named[0],
    )
    group = GroupSpec(
        members=tuple(specs),
        topics=tuple(TopicSpec(name=t.name, partitions=t.partitions) for t in topics),
        is_listed=True,
        withheld=withheld,
    )
    ids = {topic.name: topic.topic_id for topic in topics}
    gains: list[Gain] = []
    answer = (
        assign_server_range(group) if is_range else assign_uniform(group, is_homogeneous=is_homogeneous, gains=gains)
    )
    after: list[Target] = [
        {ids[name]: partitions for name, partitions in answer[spec.member_id].items()} or NO_TARGET for spec in specs
    ]
    subscribed = [[ids[name] for name in spec.topics] for spec in specs]
    listed: Sequence[ListedTarget] = after
    if not is_range:
        room_of = {} if is_homogeneous else target_order.rooms(topics, subscribed)
        listed = target_order.of_uniform(before, after, subscribed, gains, ids, room_of)
    elif target_order.share_buckets(ids.values()):
        listed = [target_order.of_range(*row) for row in zip(after, subscribed, named, strict=True)]
    return {spec.member_id: pair for spec, pair in zip(specs, zip(after, listed, strict=True), strict=True)}


def _subscribed_to(spec: MemberSpec, topics: tuple[str, ...]) -> MemberSpec:
    return MemberSpec(
        member_id=spec.member_id,
        group_instance_id=spec.group_instance_id,
        rack=spec.rack,
        topics=topics,
        owned=spec.owned,
    )


class _Subscriptions:
    """The existing topics that members subscribe to: one tuple for all members with the same subscription."""

    def __init__(self, group: ConsumerGroup, image: TopicImage) -> None:
        self._group = group
        self._image = image
        self._known: dict[tuple[frozenset[str], str | None], tuple[str, ...]] = {}
        self._counts: dict[tuple[frozenset[str], str | None], int] = {}

    def __call__(self, member: ConsumerMember, listed: Sequence[str] | None) -> tuple[str, ...]:
        names = member.subscribed_topic_names
        if listed is not None:
            return self._existing(member, copied_name_order(dict.fromkeys(listed), is_listed=True))
        key = names, member.subscribed_topic_regex
        if key not in self._known:
            self._known[key] = self._existing(member, copied_name_order(names))
        return self._known[key]

    def count(self, member: ConsumerMember) -> int:
        """How many topics a member subscribes to, including nonexistent ones."""
        key = member.subscribed_topic_names, member.subscribed_topic_regex
        if key not in self._counts:
            self._counts[key] = len(subscription(self._group, member))
        return self._counts[key]

    def _existing(self, member: ConsumerMember, names: list[str]) -> tuple[str, ...]:
        by_name = self._image.by_name
        return tuple(name for name in _union(names, copied_name_order(matched(self._group, member))) if name in by_name)


def _union(names: list[str], others: list[str]) -> list[str]:
    """The union of two sets, the larger one first, in the order of Kafka's UnionSet."""
    large, small = (names, others) if len(names) > len(others) else (others, names)
    return [*large, *(name for name in small if name not in large)]


def subscription(group: ConsumerGroup, member: ConsumerMember) -> frozenset[str]:
    """The topics that a member subscribes to, by name or through a resolved expression."""
    topics = matched(group, member)
    return member.subscribed_topic_names | topics if topics else member.subscribed_topic_names


def matched(group: ConsumerGroup, member: ConsumerMember) -> frozenset[str]:
    """The topics that the expression of a member matches, if it is resolved."""
    resolved = group.resolved.get(member.subscribed_topic_regex or "")
    return frozenset() if resolved is None else resolved.topics


def _by_name(target: ListedTarget, image: TopicImage) -> Mapping[str, Sequence[int]]:
    """A target with topic names, without deleted topics."""
    by_id = image.by_id
    return {by_id[topic_id].name: partitions for topic_id, partitions in target.items() if topic_id in by_id}
