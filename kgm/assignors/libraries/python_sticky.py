"""The sticky assignors of both Python libraries (`StickyAssignmentExecutor`): KIP-54's algorithm, as in Java before
Kafka 2.4.

Members keep what they claim; what is left goes to the member with the fewest partitions; then partitions move until the
group is even. Partitions are considered for moving one at a time from the member that has the most, if all members
subscribe to the same topics and name them in the same order; otherwise topic by topic, with the fewest subscribers
first. (If any of several moved partitions could go back in place of another one, the libraries take whichever comes
first in their process's hash order; here it is the one that moved first.)"""

from collections.abc import Callable, Container, Sequence

from kgm.assignors.client.sticky_claims import NO_GENERATION, Racks
from kgm.assignors.client.sticky_general import GeneralBuilder, fewest_subscribers_first, largest_first
from kgm.assignors.client.sticky_moves import Movements
from kgm.assignors.contract import GroupSpec, MemberSpec
from kgm.assignors.libraries.order import utf8_key
from kgm.assignors.partition_numbers import NO_OWNER, Layout, client_layout


def sticky_owners(
    group: GroupSpec, generation_of: Callable[[MemberSpec], int], *, gives_back: bool = False
) -> tuple[Layout, list[int]]:
    """The layout, and for each partition, the position of the member that gets it. generation_of: returns the
    generation in which a member says it got its partitions. gives_back: see `GeneralBuilder`."""
    layout, members = client_layout(group, utf8_key), group.members
    claimed = claimants(members, layout, generation_of)
    owner = [NO_OWNER if not those else those[0][1] for those in claimed]
    older = {number: those[1][1] for number, those in enumerate(claimed) if len(those) > 1}
    subscribed = layout.subscribed(members)
    builder = GeneralBuilder(
        layout=layout,
        subscribed=subscribed,
        owner=owner,
        older_claims=older,
        racks=Racks((), layout),
        ids=[utf8_key(member.member_id) for member in members],
        order=_order(members, layout, subscribed, owner, older),
        movements=Movements(layout, oldest_first=True),
        slack=0,
        gives_back=gives_back,
    )
    return layout, builder.build()


def claimants(
    members: Sequence[MemberSpec], layout: Layout, generation_of: Callable[[MemberSpec], int]
) -> list[list[tuple[int, int]]]:
    """For each partition, its claims, newest first: (generation, position). Of several claims in the same generation,
    the first one counts."""
    claims: list[dict[int, int]] = [{} for _ in range(layout.total)]
    for position, member in enumerate(members):
        for number in layout.owned(member):
            claims[number].setdefault(generation_of(member), position)
    return [sorted(those.items(), reverse=True) for those in claims]


def _order(
    members: Sequence[MemberSpec], layout: Layout, subscribed: Sequence[Sequence[int]], owner: Sequence[int],
    older: dict[int, int],
) -> list[int]:  # fmt: skip
    """The order in which partitions are assigned and considered for moving."""
    by_topic = fewest_subscribers_first(layout, subscribed)
    known = [tuple(name for name in member.topics if name in layout.index) for member in members]
    is_new = not any(member.owned for member in members)
    if is_new or any(len(topics) < len(layout.topics) for topics in subscribed) or len({*known}) > 1:
        return by_topic
    order = from_fullest(members, owner, older, range(layout.total))
    taken = set(order)
    return [*order, *(number for number in by_topic if number not in taken)]


def from_fullest(
    members: Sequence[MemberSpec], owner: Sequence[int], older: Container[int], places: Sequence[int]
) -> list[int]:
    """The partitions that have an owner, one at a time from the member that has the most: each member gives partitions
    with an older claim first, and otherwise those with the highest places first."""
    queues: list[list[int]] = [[] for _ in members]
    for number, position in enumerate(owner):
        if position != NO_OWNER:
            queues[position].append(number)
    for queue in queues:
        queue.sort(key=lambda number: (number in older, places[number]))
    ids = sorted(range(len(members)), key=lambda position: utf8_key(members[position].member_id), reverse=True)
    return largest_first(queues, {position: place for place, position in enumerate(ids)})


def no_generation(member: MemberSpec) -> int:
    """NO_GENERATION, for libraries whose members do not report a generation."""
    del member
    return NO_GENERATION
