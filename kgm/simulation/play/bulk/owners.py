"""What the leader of a crowd assigns: an owner for each partition at once, and the assignments of the members when
somebody wants to see them."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from kgm.assignors import MemberSpec
from kgm.assignors.contract import Assigned
from kgm.java.hash_map import DEFAULT_CAPACITY
from kgm.model.assignment import Partitions
from kgm.protocol.subscription import NO_GENERATION
from kgm.simulation.plan.client_library import Library
from kgm.simulation.plan.starting_group import StartingGroup, StartingMember
from kgm.simulation.play.bulk.ledger import NOBODY
from kgm.simulation.play.bulk.streams import Ints
from kgm.simulation.play.leader import (
    STICKY,
    SubscriptionCache,
    assigned,
    encode_sticky_data,
)

#: Assignors whose answer follows from the order of the members alone, if all have the same topics and no racks.
_ORDERED: Final = frozenset({"range", "roundrobin"})
_NO_DATA: Final[tuple[Partitions, int | None]] = {}, None


class CrowdAssignment:
    """What a leader assigns to members.

    slots: a number for each member, by member id, in the order in which the broker lists them. specs: members by slot.
    sent: by slot, the generation that each named in its subscription. data: what StickyAssignor's members say that they
    had, and since which generation, by member id; new ones are not there. order: the slots in the order in which they
    are assigned partitions, if nothing else matters (`is_ordered`)."""

    def __init__(
        self, group: StartingGroup, library: Library, slots: Mapping[str, int], specs: Sequence[StartingMember],
        sent: Ints, data: Mapping[str, tuple[Partitions, int]], order: Ints | None,
    ) -> None:  # fmt: skip
        self.library = library
        self._group = group
        self._slots = slots
        self._specs = specs
        self._sent = sent
        self._data = data
        self._order = order

    @cached_property
    def by_member(self) -> Assigned:
        """By member id, as the leader's assignor answers."""
        group, sent = self._group, self._sent.tolist()
        members = [self._member(member_id, self._specs[slot], sent[slot]) for member_id, slot in self._slots.items()]
        capacity = group.listing_capacity or DEFAULT_CAPACITY
        return assigned(group.assignor, members, group.topics, self.library, capacity)

    def subscriptions(self, cache: SubscriptionCache) -> dict[str, bytes]:
        """What the members sent, by member id (`ScriptedClassicMember._subscription`)."""
        found, sent = {}, self._sent.tolist()
        for member_id, slot in self._slots.items():
            data, spec = self._data.get(member_id), self._specs[slot]
            blob = None if data is None else encode_sticky_data(*data)
            found[member_id] = cache.encode_subscription(spec.topics, {}, blob, sent[slot], spec.rack)
        return found

    def _member(self, member_id: str, spec: StartingMember, sent: int) -> MemberSpec:
        """A member as the leader reads its subscription (`leader.SubscriptionCache.decode_member`)."""
        named = None if sent == NO_GENERATION else sent
        owned, generation = self._data.get(member_id, _NO_DATA)
        if self._group.assignor != STICKY:
            generation = named
        return MemberSpec(
            member_id=member_id, group_instance_id=spec.group_instance_id, rack=spec.rack, topics=spec.topics,
            owned={topic: tuple(owned[topic]) for topic in sorted(owned)}, generation=generation,
            names_generation=named is not None,
        )  # fmt: skip

    def owners(self, starts: Mapping[str, int], total: int) -> Ints:
        """For each partition the slot of its owner, or NOBODY. starts: the number of the first
        partition of each topic."""
        owner: Ints = np.full(total, NOBODY, dtype=np.int64)
        if self._order is not None:
            self._deal(owner, starts, self._order)
            return owner
        for member_id, partitions in self.by_member.items():
            for topic, numbers in partitions.items():
                owner[starts[topic] + np.array(numbers)] = self._slots[member_id]
        return owner

    def _deal(self, owner: Ints, starts: Mapping[str, int], order: Ints) -> None:
        members, turn = len(order), 0
        for topic in sorted(self._specs[order[0]].topics):
            first, count = starts[topic], self._group.topics[topic]
            if self._group.assignor == "range":
                size, over = divmod(count, members)
                shares = np.full(members, size)
                shares[:over] += 1
                owner[first : first + count] = np.repeat(order, shares)
            else:
                owner[first : first + count] = order[(np.arange(count) + turn) % members]
                turn += count


def is_ordered(group: StartingGroup, members: Sequence[StartingMember]) -> bool:
    """Whether the assignment follows from the order of the member ids alone, and libraries agree on it."""
    topics = members[0].topics
    return (
        group.assignor in _ORDERED
        and len(set(topics)) == len(topics)
        and all(topic in group.topics and topic.isascii() for topic in topics)
        and all(
            not member.rack
            and member.group_instance_id is None
            and member.topics == topics
            and member.client_id.isascii()
            and member.member_id.isascii()
            for member in members
        )
    )
