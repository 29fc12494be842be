"""`roundrobin`: deal all partitions in turn, skipping whoever does not subscribe (`RoundRobinAssignor`)."""

from collections.abc import Sequence

from kgm.assignors.layout import Layout, client_layout
from kgm.assignors.spec import Assigned, GroupSpec, MemberSpec, by_identity
from kgm.assignors.subscribers import in_map_order


def assign_round_robin(group: GroupSpec) -> Assigned:
    """One walk in a circle over the members (static first), through the topics by name."""
    return deal_round(client_layout(group), by_identity(in_map_order(group.members)))


def deal_round(layout: Layout, members: Sequence[MemberSpec]) -> Assigned:
    """Deal the partitions of a layout to members in the order given."""
    subscribed = [frozenset(member.topics) for member in members]
    dealt: list[list[int]] = [[] for _ in members]
    turn, count = 0, len(members)
    for position, topic in enumerate(layout.topics):
        for number in layout.range(position):
            while topic.name not in subscribed[turn]:
                turn = (turn + 1) % count
            dealt[turn].append(number)
            turn = (turn + 1) % count
    return layout.answer(members, dealt)
