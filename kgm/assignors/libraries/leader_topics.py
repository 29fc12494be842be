"""What the assignors of both JavaScript libraries have in common: they deal the leader's topics to all members."""

from collections.abc import Sequence

from kgm.assignors.contract import Assigned, GroupSpec, MemberSpec
from kgm.assignors.partition_numbers import NO_OWNER, Layout
from kgm.assignors.result import by_owner


def deal_topics_of_leader(group: GroupSpec, members: Sequence[MemberSpec]) -> Assigned:
    """All partitions of the leader's topics, in the order in which it names them, to the members in turn, whether they
    have subscribed or not."""
    known = {topic.name: topic for topic in group.topics if topic.partitions}
    leader = group.leading
    topics = [] if leader is None else [known[name] for name in dict.fromkeys(leader.topics) if name in known]
    layout = Layout(topics)
    owner = [number % len(members) for number in range(layout.total)] if members else [NO_OWNER] * layout.total
    return by_owner(layout, members, owner)
