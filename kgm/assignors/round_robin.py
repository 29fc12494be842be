"""`roundrobin`: deal all partitions in turn, skipping whoever does not subscribe (`RoundRobinAssignor`)."""

from kgm.assignors.layout import client_layout
from kgm.assignors.spec import Assigned, GroupSpec, by_identity
from kgm.assignors.subscribers import in_map_order


def assign_round_robin(group: GroupSpec) -> Assigned:
    """One walk in a circle over the members (static first), through the topics by name."""
    layout = client_layout(group)
    members = by_identity(in_map_order(group.members))
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
