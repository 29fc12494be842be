"""What the leader assigns if its assignor heeds what members claim: an owner for each partition at once, if it is one
of the sticky assignors and the members are alike (`deals`); otherwise the assignor itself is asked."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from kgm.assignors.client.librdkafka_alike import sums_fit
from kgm.assignors.contract import Assigned
from kgm.java.hash_map import map_order
from kgm.java.scala_set import scala_set_order
from kgm.model.assignment import Partitions
from kgm.model.client_library import JAVA, PLAYED
from kgm.simulation.plan.starting_group import StartingGroup, StartingMember
from kgm.simulation.play.bulk.deals import JavaDeal, LibrdkafkaDeal
from kgm.simulation.play.bulk.ledger import NOBODY
from kgm.simulation.play.bulk.owners import LeaderAssignment, subscribe_alike
from kgm.simulation.play.bulk.streams import Ints
from kgm.simulation.play.leader import encode_sticky_data

_NOTHING: Final[dict[str, tuple[int, ...]]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribedPartitions:
    """The partitions that alike members subscribe to, in the order of topics and partitions. places: in the ledger.
    numbers: in their topics. last_first: their order for librdkafka, see `LibrdkafkaDeal`."""

    places: Ints
    numbers: Ints
    last_first: Ints

    @staticmethod
    def of(topics: Sequence[str], starts: Mapping[str, int], counts: Mapping[str, int]) -> "SubscribedPartitions":
        """topics: as each of the members names them."""
        numbers = {topic: np.arange(counts[topic]) for topic in sorted(topics)}
        first_at, total = {}, 0
        for topic, row in numbers.items():
            first_at[topic], total = total, total + len(row)
        in_metadata = [first_at[topic] + numbers[topic] for topic in scala_set_order(topics)]
        return SubscribedPartitions(
            places=np.concatenate([starts[topic] + row for topic, row in numbers.items()]),
            numbers=np.concatenate([*numbers.values()]),
            last_first=np.concatenate(in_metadata)[::-1],
        )


class ClaimsAssignment(LeaderAssignment):
    """The same with an assignor that heeds claims. by_id, subscribed: the slots in the order of member ids, and the
    partitions that are assigned, if the members are alike (`are_alike`). before: for each partition the slot of the
    member that claims it, or NOBODY."""

    def __init__(
        self, group: StartingGroup, leader: int, slots: Mapping[str, int], specs: Sequence[StartingMember],
        sent: Ints, starts: Mapping[str, int], *, by_id: Ints | None, subscribed: SubscribedPartitions | None,
        before: Ints,
    ) -> None:  # fmt: skip
        super().__init__(group, leader, slots, specs, sent, starts, len(before))
        self._before = before
        self._by_id = by_id
        self._subscribed = subscribed

    @cached_property
    def is_dealt(self) -> bool:
        if self._by_id is None or self._subscribed is None or not self._has_rules or self.library not in PLAYED:
            return False
        claimed = np.count_nonzero(self._before != NOBODY)
        if self.library == JAVA or not claimed:
            return bool(claimed)
        # Members keep what they claim of topics that they do not subscribe to.
        places = self._subscribed.places
        is_usual = len(places) == self._total or claimed == np.count_nonzero(self._before[places] != NOBODY)
        return bool(is_usual) and sums_fit(len(self._by_id), self._total)

    @cached_property
    def _claimed(self) -> dict[int, dict[str, tuple[int, ...]]]:
        return rows_of(self._before, self._starts, self._group.topics)

    @cached_property
    def by_member(self) -> Assigned:
        """By member id, as the leader's assignor answers."""
        if not self.is_dealt:
            return self._asked()
        rows = rows_of(self.owners(), self._starts, self._group.topics)
        return {member_id: rows.get(slot, _NOTHING) for member_id, slot in self._slots.items()}

    def owners(self) -> Ints:
        if not self.is_dealt:
            return super().owners()
        assert self._by_id is not None
        assert self._subscribed is not None
        owner: Ints = np.full(self._total, NOBODY, dtype=np.int64)
        owner[self._subscribed.places] = self._dealt(self._by_id, self._subscribed)
        return owner

    @property
    @abstractmethod
    def _has_rules(self) -> bool:
        """Whether `_dealt` has the rules of this assignor for such claims."""

    @abstractmethod
    def _dealt(self, by_id: Ints, subscribed: SubscribedPartitions) -> Ints:
        """For each partition in the order of topics and partitions the slot of its owner, or NOBODY."""

    def _java_deal(self, by_id: Ints, subscribed: SubscribedPartitions) -> JavaDeal:
        return JavaDeal(by_id, self._before[subscribed.places], subscribed.numbers, self._in_map_order)

    def _in_map_order(self) -> Ints:
        """The slots in the order of the leader's hash map."""
        ids = [*self._slots]
        listed = [ids[place] for place in map_order(ids, self._capacity)]
        return np.array([self._slots[listed[place]] for place in map_order(listed)], dtype=np.int64)


class CooperativeAssignment(ClaimsAssignment):
    """The same with a cooperative assignor: members claim what they consume, in their subscriptions."""

    @property
    def _has_rules(self) -> bool:
        return self._group.assignor == "cooperative-sticky"

    def _dealt(self, by_id: Ints, subscribed: SubscribedPartitions) -> Ints:
        if self.library == JAVA:
            return self._java_deal(by_id, subscribed).owners(is_cooperative=True)
        return LibrdkafkaDeal(by_id, self._before[subscribed.places], subscribed.last_first).owners()

    def _said(self, member_id: str, slot: int) -> tuple[Partitions, bytes | None]:
        del member_id
        return self._claimed.get(slot, {}), None

    def _had(self, member_id: str, slot: int, named: int | None) -> tuple[Partitions, int | None]:
        del member_id
        return self._claimed.get(slot, {}), named


class StickyAssignment(ClaimsAssignment):
    """The same with `sticky`: members claim in their user data what they were assigned last, and in which generation.

    generation: that of the claims before. waited: what members claim that waited for the round before it was played, by
    slot; None if they are new."""

    def __init__(
        self, group: StartingGroup, leader: int, slots: Mapping[str, int], specs: Sequence[StartingMember],
        sent: Ints, starts: Mapping[str, int], *, by_id: Ints | None, subscribed: SubscribedPartitions | None,
        before: Ints, generation: int, waited: Mapping[int, tuple[Partitions, int] | None],
    ) -> None:  # fmt: skip
        super().__init__(
            group, leader, slots, specs, sent, starts, by_id=by_id, subscribed=subscribed, before=before
        )  # fmt: skip
        self._generation = generation
        self._waited = waited

    @property
    def _has_rules(self) -> bool:
        are_new = all(claims is None for claims in self._waited.values())
        return are_new and self.library == JAVA

    def _dealt(self, by_id: Ints, subscribed: SubscribedPartitions) -> Ints:
        return self._java_deal(by_id, subscribed).owners(is_cooperative=False)

    def _said(self, member_id: str, slot: int) -> tuple[Partitions, bytes | None]:
        del member_id
        data = self._data(slot)
        return {}, None if data is None else encode_sticky_data(*data)

    def _had(self, member_id: str, slot: int, named: int | None) -> tuple[Partitions, int | None]:
        del member_id, named
        owned, generation = self._data(slot) or (_NOTHING, None)
        return {topic: tuple(owned[topic]) for topic in sorted(owned)}, generation

    def _data(self, slot: int) -> tuple[Partitions, int] | None:
        if slot in self._waited:
            return self._waited[slot]
        return self._claimed.get(slot, _NOTHING), self._generation


def are_alike(group: StartingGroup, members: Sequence[StartingMember]) -> bool:
    """Whether sticky assignors need not be asked: see `deals`."""
    return (
        bool(members[0].topics)
        and subscribe_alike(group, members)
        and all(member.identity.isascii() for member in members)
    )


def rows_of(owner: Ints, starts: Mapping[str, int], counts: Mapping[str, int]) -> dict[int, dict[str, tuple[int, ...]]]:
    """The partitions of each slot, by topic in alphabetical order. Slots without any are left out."""
    rows: dict[int, dict[str, tuple[int, ...]]] = {}
    for topic in sorted(starts):
        mine = owner[starts[topic] : starts[topic] + counts[topic]]
        order = np.argsort(mine, kind="stable")
        slots, firsts = np.unique(mine[order], return_index=True)
        numbers, ends = order.tolist(), [*firsts[1:].tolist(), len(order)]
        for slot, first, end in zip(slots.tolist(), firsts.tolist(), ends, strict=True):
            if slot != NOBODY:
                rows.setdefault(slot, {})[topic] = tuple(numbers[first:end])
    return rows
