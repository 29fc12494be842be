"""What the two assignors of the coordinator share."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from kgm.assignors.java import copied_uuid_order, uuid_key
from kgm.assignors.layout import Layout, distinct_subscriptions
from kgm.assignors.spec import GroupSpec
from kgm.model.errors import UsageError

T = TypeVar("T")


def in_broker_order(
    topics: Sequence[T], id_of: Callable[[T], bytes], *, is_homogeneous: bool, named: int | None = None
) -> list[T]:
    """Topics that somebody subscribes to, each once, as the coordinator's assignors go through them.

    Where all members subscribe to the same ones (UniformHomogeneousAssignmentBuilder) that is the order of a hash set
    of their ids, filled in the order given, which has to be that of the names in a subscription (`copied_name_order`);
    else the order of the ids. named: how many a subscription names, if some of them do not exist."""
    if is_homogeneous:
        return copied_uuid_order(topics, id_of, named)
    return sorted(topics, key=lambda topic: uuid_key(id_of(topic)))


def server_layout(group: GroupSpec) -> Layout:
    """All topics in the order given, which stands for the order of their ids.

    Raises UsageError when a member subscribes to a topic that is not there, where Kafka's classes throw
    PartitionAssignorException. A broker never gets that far: it drops such names beforehand (`TopicIds`), and so must
    whoever calls in its place."""
    layout = Layout(group.topics)
    if not all(layout.index.keys() >= set(topics) for topics in set(distinct_subscriptions(group.members))):
        member, missing = next((m, name) for m in group.members for name in m.topics if name not in layout.index)
        raise UsageError(f"member {member.member_id} subscribes to {missing}, a topic that does not exist")
    return layout
