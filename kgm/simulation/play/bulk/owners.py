"""What the leader of a crowd assigns: an owner for each partition at once, and the assignments of the members when
somebody wants to see them."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from kgm.assignors import MemberSpec
from kgm.assignors.contract import Assigned
from kgm.java.hash_map import DEFAULT_CAPACITY
from kgm.model.assignment import Partitions
from kgm.model.client_library import PLAYED
from kgm.protocol.subscription import NO_GENERATION
from kgm.simulation.plan.starting_group import StartingGroup, StartingMember
from kgm.simulation.play.bulk.ledger import NOBODY
from kgm.simulation.play.bulk.streams import Ints
from kgm.simulation.play.leader import SubscriptionCache, assigned

#: Assignors whose answer follows from the order of the members alone, if all have the same topics and no racks.
_ORDERED: Final = frozenset({"range", "roundrobin"})


class LeaderAssignment:
    """What a leader assigns to members, by the answer of the assignor.

    slots: a number for each member, by member id, in the order in which the broker lists them. specs: members by slot.
    sent: by slot, the generation that each named in its subscription. starts: the number of the first partition of each
    topic; total: of partitions. leader: its slot; library: whose assignor it runs."""

    def __init__(
        self, group: StartingGroup, leader: int, slots: Mapping[str, int], specs: Sequence[StartingMember],
        sent: Ints, starts: Mapping[str, int], total: int,
    ) -> None:  # fmt: skip
        self.library = specs[leader].assigner(group.assignor)
        self._leader = leader
        self._group = group
        self._slots = slots
        self._specs = specs
        self._sent = sent
        self._starts = starts
        self._total = total

    @property
    @abstractmethod
    def is_dealt(self) -> bool:
        """Whether the assignor need not be asked."""

    @cached_property
    def by_member(self) -> Assigned:
        """By member id, as the leader's assignor answers."""
        return self._asked()

    def _asked(self) -> Assigned:
        group, sent = self._group, self._sent.tolist()
        members = [self._member(member_id, slot, sent[slot]) for member_id, slot in self._slots.items()]
        leader = next(member_id for member_id, slot in self._slots.items() if slot == self._leader)
        return assigned(group.assignor, members, group.topics, self.library, self._capacity, leader=leader)

    @property
    def _capacity(self) -> int:
        return self._group.listing_capacity or DEFAULT_CAPACITY

    def owners(self) -> Ints:
        """For each partition the slot of its owner, or NOBODY."""
        owner: Ints = np.full(self._total, NOBODY, dtype=np.int64)
        for member_id, partitions in self.by_member.items():
            for topic, numbers in partitions.items():
                owner[self._starts[topic] + np.array(numbers, dtype=np.int64)] = self._slots[member_id]
        return owner

    def subscriptions(self, cache: SubscriptionCache) -> dict[str, bytes]:
        """What the members sent, by member id (`ScriptedClassicMember._subscription`)."""
        found, sent = {}, self._sent.tolist()
        for member_id, slot in self._slots.items():
            spec, (owned, data) = self._specs[slot], self._said(member_id, slot)
            found[member_id] = cache.encode_subscription(spec.topics, owned, data, sent[slot], spec.rack)
        return found

    def _member(self, member_id: str, slot: int, sent: int) -> MemberSpec:
        """A member as the leader reads its subscription (`leader.SubscriptionCache.decode_member`)."""
        named, spec = None if sent == NO_GENERATION else sent, self._specs[slot]
        owned, generation = self._had(member_id, slot, named)
        return MemberSpec(
            member_id=member_id, group_instance_id=spec.group_instance_id, rack=spec.rack, topics=spec.topics,
            owned=owned, generation=generation, names_generation=named is not None,
        )  # fmt: skip

    @abstractmethod
    def _said(self, member_id: str, slot: int) -> tuple[Partitions, bytes | None]:
        """The partitions and the user data of a member's subscription."""

    @abstractmethod
    def _had(self, member_id: str, slot: int, named: int | None) -> tuple[Partitions, int | None]:
        """What the assignor reads from that: the partitions of a member, and since which generation."""


class CrowdAssignment(LeaderAssignment):
    """The same with an eager assignor to which members claim nothing. order: the slots in the order in which they are
    assigned partitions, if nothing else matters (`is_ordered`)."""

    def __init__(
        self, group: StartingGroup, leader: int, slots: Mapping[str, int], specs: Sequence[StartingMember],
        sent: Ints, starts: Mapping[str, int], total: int, *, order: Ints | None,
    ) -> None:  # fmt: skip
        super().__init__(group, leader, slots, specs, sent, starts, total)
        self._order = order

    @property
    def is_dealt(self) -> bool:
        return self._order is not None

    def _said(self, member_id: str, slot: int) -> tuple[Partitions, bytes | None]:
        del member_id, slot
        return {}, None

    def _had(self, member_id: str, slot: int, named: int | None) -> tuple[Partitions, int | None]:
        del member_id, slot
        return {}, named

    def owners(self) -> Ints:
        return super().owners() if self._order is None else self._dealt(self._order)

    def _dealt(self, order: Ints) -> Ints:
        owner: Ints = np.full(self._total, NOBODY, dtype=np.int64)
        members, turn = len(order), 0
        for topic in sorted(self._specs[order[0]].topics):
            first, count = self._starts[topic], self._group.topics[topic]
            if self._group.assignor == "range":
                size, over = divmod(count, members)
                shares = np.full(members, size)
                shares[:over] += 1
                owner[first : first + count] = np.repeat(order, shares)
            else:
                owner[first : first + count] = order[(np.arange(count) + turn) % members]
                turn += count
        return owner


def is_ordered(group: StartingGroup, members: Sequence[StartingMember]) -> bool:
    """Whether the assignment follows from the order of the member ids alone, and libraries agree on it."""
    return (
        group.assignor in _ORDERED
        and all(member.assigner(group.assignor) in PLAYED for member in members)
        and subscribe_alike(group, members)
        and all(member.group_instance_id is None and member.member_id.isascii() for member in members)
    )


def subscribe_alike(group: StartingGroup, members: Sequence[StartingMember]) -> bool:
    """Whether members subscribe to the same topics, which the group has, and name no racks; all names are ASCII."""
    topics = members[0].topics
    return (
        len(set(topics)) == len(topics)
        and all(topic in group.topics and topic.isascii() for topic in topics)
        and all(not member.rack and member.topics == topics and member.client_id.isascii() for member in members)
    )
