"""The sticky assignors of IBM/sarama 1.61.1 (`balance_strategy.go`, `balance_strategy_cooperative_sticky.go`): KIP-54's
algorithm, as in Java before Kafka 2.4, in the order of Go maps.

Members keep what they claim; of several claims at the same generation, any may win. Free partitions go, in any order,
to the member with the fewest partitions. Then partitions move until the group is even: in any order from the member
that has the most, if all members subscribe to the same topics and any member claims something; otherwise topic by
topic, with the fewest subscribers first. So it is known how many partitions each member gets, but not which of the free
or moving ones."""

from collections.abc import Sequence

from kgm.assignors.client.sticky_claims import Racks, generation_of
from kgm.assignors.client.sticky_general import GeneralBuilder, fewest_subscribers_first
from kgm.assignors.client.sticky_moves import Movements
from kgm.assignors.contract import Assigned, GroupSpec, MemberSpec
from kgm.assignors.libraries.cooperative import without_transfers
from kgm.assignors.libraries.order import utf8_key
from kgm.assignors.libraries.python_sticky import claimants, from_fullest
from kgm.assignors.map_order import MapOrder
from kgm.assignors.partition_numbers import NO_OWNER, Layout, client_layout
from kgm.assignors.result import by_owner
from kgm.java.hash_set import PartitionHashSet


def assign_sticky(group: GroupSpec) -> Assigned:
    """`NewBalanceStrategySticky`."""
    layout, members, owner = _owners(group)
    return by_owner(layout, members, owner)


def assign_cooperative_sticky(group: GroupSpec) -> Assigned:
    """`NewBalanceStrategyCooperativeSticky`: leaves out partitions that another member must give up first."""
    layout, members, owner = _owners(group)
    return by_owner(layout, members, without_transfers(layout, members, owner))


def _owners(group: GroupSpec) -> tuple[Layout, list[MemberSpec], list[int]]:
    map_order = group.map_order or MapOrder()
    members, layout = list(group.members), client_layout(group, utf8_key)
    if _has_rivals(members, layout):
        members, map_order.decides = map_order.of(members), True
    return layout, members, _Builder(members, layout, map_order).build()


def _has_rivals(members: Sequence[MemberSpec], layout: Layout) -> bool:
    """Whether several members claim a partition at the same generation."""
    claims = [(generation_of(member), number) for member in members for number in layout.owned(member)]
    return len({*claims}) < len(claims)


class _Movements(Movements):
    """Movements in which any of several partitions that could go back does."""

    def __init__(self, layout: Layout, map_order: MapOrder) -> None:
        super().__init__(layout)
        self._map_order = map_order

    def _first(self, moved: PartitionHashSet) -> int:
        return self._map_order.of(moved)[0]


class _Builder(GeneralBuilder):
    """What sarama does differently from Java."""

    def __init__(self, members: Sequence[MemberSpec], layout: Layout, map_order: MapOrder) -> None:
        claimed = claimants(members, layout, generation_of)
        self._members = members
        self._map_order = map_order
        self._subscribed = layout.subscribed(members)
        super().__init__(
            layout=layout,
            subscribed=self._subscribed,
            owner=[those[0][1] if those else NO_OWNER for those in claimed],
            older_claims={number: those[1][1] for number, those in enumerate(claimed) if len(those) > 1},
            racks=Racks((), layout),
            ids=[utf8_key(member.member_id) for member in members],
            order=(),
            movements=_Movements(layout, map_order),
            slack=0,
        )

    def build(self) -> list[int]:
        """For each partition, its owner."""
        self._keep_owned()
        is_new, before = 0 in self._loads, [*self._owner]
        free = [number for number, position in enumerate(before) if position == NO_OWNER]
        rivals = max((len(self._subscribers[self._topic_of[number]]) for number in free), default=0)
        self._assign_free(self._map_order.of(free), within_racks=False)
        movable = [len(subscribers) >= 2 for subscribers in self._subscribers]
        fixed, loads_before = self._fixed(movable), [*self._loads]
        older = {number: position for number, position in self._claims.items() if position not in fixed}
        balancing = self.balancing(movable, older)
        moved = not balancing.is_balanced() and balancing.move(
            [number for number in self._in_order(before) if movable[self._topic_of[number]]]
        )
        self._map_order.decides |= moved or (len(free) > 1 and rivals > 1)
        if moved and not is_new and not self._is_better_than(loads_before, fixed):
            # sarama tries to undo this, but only undoes it in a copy, and loses members that nothing can change for.
            self._owner = [NO_OWNER if position in fixed else position for position in self._owner]
        return self._owner

    def _in_order(self, before: Sequence[int]) -> list[int]:
        """The order in which partitions are considered for moving. before: the owners before free ones were
        assigned."""
        is_new = not any(numbers for member in self._members for numbers in member.owned.values())
        if is_new or any(len(topics) < len(self._layout.topics) for topics in self._subscribed):
            return fewest_subscribers_first(self._layout, self._subscribed)
        places = [0] * self._layout.total
        for position in range(len(self._members)):
            mine = [number for number, owner in enumerate(before) if owner == position]
            for place, number in enumerate(self._map_order.of(mine)):
                places[number] = place
        free = [number for number, position in enumerate(before) if position == NO_OWNER]
        return [*from_fullest(self._members, before, self._claims, places), *self._map_order.of(free)]
