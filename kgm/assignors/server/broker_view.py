"""Members and topics in the order in which the coordinator passes them to its assignors, and the resulting layout."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kgm.assignors.contract import GroupSpec, MemberSpec, TopicSpec
from kgm.assignors.partition_numbers import Layout, distinct_subscriptions
from kgm.java.hash_map import map_order
from kgm.java.hash_set import copied_name_order, copied_uuid_order
from kgm.java.uuids import uuid_key
from kgm.model.errors import UsageError

T = TypeVar("T")


def in_broker_order(
    topics: Sequence[T], id_of: Callable[[T], bytes], *, is_homogeneous: bool, named: int | None = None
) -> list[T]:
    """The topics that members subscribe to, each once, in the order in which the coordinator's assignors iterate over
    them.

    If all members subscribe to the same topics (UniformHomogeneousAssignmentBuilder), that is the order of a hash set
    of their ids, filled in the order given, which must be the order of the names in a subscription
    (`copied_name_order`). Otherwise it is the order of the ids. named: how many topics a subscription names, if some of
    them do not exist."""
    if is_homogeneous:
        return copied_uuid_order(topics, id_of, named)
    return sorted(topics, key=lambda topic: uuid_key(id_of(topic)))


def as_the_broker_sees(
    members: Sequence[MemberSpec],
    topics: Iterable[TopicSpec],
    ids: Mapping[str, bytes],
    *,
    is_homogeneous: bool,
    is_listed: bool,
) -> GroupSpec:
    """A described consumer group, with members and topics in the order in which the coordinator's assignors iterate
    over them. members: in the order in which the broker lists them. ids: topic ids by name; if one is missing, the
    order is not known. is_homogeneous, is_listed: see `assign_uniform` and `GroupSpec`."""
    known = {topic.name: topic for topic in topics}
    names = copied_name_order({name for member in members for name in member.topics})
    listed = [known[name] for name in names if name in known]
    if all(topic.name in ids for topic in listed):
        listed = in_broker_order(listed, lambda topic: ids[topic.name], is_homogeneous=is_homogeneous, named=len(names))
    order = map_order([member.member_id for member in members])
    return GroupSpec(members=tuple(members[at] for at in order), topics=tuple(listed), is_listed=is_listed)


def server_layout(group: GroupSpec) -> Layout:
    """The layout of all topics in the order given, which stands for the order of their ids.

    Raises UsageError if a member subscribes to a topic that does not exist, where Kafka's classes throw
    PartitionAssignorException. This does not happen in a broker: it drops such names first (`TopicIds`), and other
    callers must do the same."""
    layout = Layout(group.topics)
    if not all(layout.index.keys() >= set(topics) for topics in set(distinct_subscriptions(group.members))):
        member, missing = next((m, name) for m in group.members for name in m.topics if name not in layout.index)
        raise UsageError(f"member {member.member_id} subscribes to {missing}, a topic that does not exist")
    return layout
