"""What the two assignors of the coordinator share."""

from collections.abc import Sequence

from kgm.assignors.layout import Layout
from kgm.assignors.spec import GroupSpec, MemberSpec
from kgm.model.errors import UsageError


def server_layout(group: GroupSpec) -> Layout:
    """All topics in the order given, which stands for the order of their ids."""
    return Layout(group.topics)


def subscriptions(members: Sequence[MemberSpec], layout: Layout) -> list[list[int]]:
    """For each member the positions of the topics that it subscribes to, ascending.

    Raises UsageError for a topic that is not there, where Kafka's classes throw PartitionAssignorException. A broker
    never gets that far: it drops such names beforehand (`TopicIds`), and so must whoever calls in its place."""
    result = []
    for member in members:
        missing = [name for name in member.topics if name not in layout.index]
        if missing:
            raise UsageError(f"member {member.member_id} subscribes to {missing[0]}, a topic that does not exist")
        result.append(sorted({layout.index[name] for name in member.topics}))
    return result
