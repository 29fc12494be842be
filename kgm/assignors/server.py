"""What the two assignors of the coordinator share."""

from kgm.assignors.layout import Layout, distinct_subscriptions
from kgm.assignors.spec import GroupSpec
from kgm.model.errors import UsageError


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
