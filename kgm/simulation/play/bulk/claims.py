"""What the leader of a cooperative crowd assigns: an owner for each partition at once, where Java's sticky assignor
leads a group of members that are alike; otherwise the assignor itself is asked.

The rules are those of `assignors.client.sticky_constrained`, for claims that are not disputed, without racks."""

from collections.abc import Mapping, Sequence
from functools import cached_property

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
from kgm.simulation.play.leader import SubscriptionCache, assigned


class CooperativeAssignment:
    """slots: a number for each member, by member id, in the order in which the broker lists them. specs: members by
    slot. sent: by slot, the generation that each named in its subscription. before: for each partition the slot of the
    member that claims it, or NOBODY. starts: the number of the first partition of each topic."""

    def __init__(
        self, group: StartingGroup, library: Library, slots: Mapping[str, int], specs: Sequence[StartingMember],
        sent: Ints, before: Ints, starts: Mapping[str, int],
    ) -> None:  # fmt: skip
        self.library = library
        self._group = group
        self._slots = slots
        self._specs = specs
        self._sent = sent
        self._before = before
        self._starts = starts

    @property
    def is_dealt(self) -> bool:
        """Whether the assignor need not be asked."""
        return False

    @cached_property
    def _claimed(self) -> dict[int, Partitions]:
        return rows_of(self._before, self._starts, self._group.topics)

    @cached_property
    def by_member(self) -> Assigned:
        """By member id, as the leader's assignor answers."""
        group, sent = self._group, self._sent.tolist()
        members = [self._member(member_id, slot, sent[slot]) for member_id, slot in self._slots.items()]
        capacity = group.listing_capacity or DEFAULT_CAPACITY
        return assigned(group.assignor, members, group.topics, self.library, capacity)

    def owners(self) -> Ints:
        """For each partition the slot of its owner, or NOBODY."""
        owner: Ints = np.full(len(self._before), NOBODY, dtype=np.int64)
        for member_id, partitions in self.by_member.items():
            for topic, numbers in partitions.items():
                owner[self._starts[topic] + np.array(numbers, dtype=np.int64)] = self._slots[member_id]
        return owner

    def subscriptions(self, cache: SubscriptionCache) -> dict[str, bytes]:
        """What the members sent, by member id (`ScriptedClassicMember._subscription`)."""
        found, sent = {}, self._sent.tolist()
        for member_id, slot in self._slots.items():
            spec, claimed = self._specs[slot], self._claimed.get(slot, {})
            found[member_id] = cache.encode_subscription(spec.topics, claimed, None, sent[slot], spec.rack)
        return found

    def _member(self, member_id: str, slot: int, sent: int) -> MemberSpec:
        """A member as the leader reads its subscription (`leader.SubscriptionCache.decode_member`)."""
        named, spec = None if sent == NO_GENERATION else sent, self._specs[slot]
        return MemberSpec(
            member_id=member_id, group_instance_id=spec.group_instance_id, rack=spec.rack, topics=spec.topics,
            owned=self._claimed.get(slot, {}), generation=named, names_generation=named is not None,
        )  # fmt: skip


def rows_of(owner: Ints, starts: Mapping[str, int], counts: Mapping[str, int]) -> dict[int, Partitions]:
    """The partitions of each slot, by topic in alphabetical order. Slots without any are left out."""
    rows: dict[int, dict[str, list[int]]] = {}
    for topic in sorted(starts):
        for number, slot in enumerate(owner[starts[topic] : starts[topic] + counts[topic]].tolist()):
            if slot != NOBODY:
                rows.setdefault(slot, {}).setdefault(topic, []).append(number)
    return {slot: {topic: tuple(numbers) for topic, numbers in row.items()} for slot, row in rows.items()}
