"""Who owned what before, as far as a sticky leader believes it (`AbstractStickyAssignor.allSubscriptionsEqual`).

Members claim partitions at a generation. When two claim the same one the newer generation wins, and at the same
generation neither has it. The claim looked at counts with the member's own generation, the claim on record with the
one in that member's subscription only: among members that do not name it there, who comes later in the hash map wins.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kgm.assignors.layout import Layout
from kgm.assignors.racks import racks_count
from kgm.assignors.spec import MemberSpec

#: A member that never was in a generation.
NO_GENERATION = -1


@dataclass(slots=True)
class Claims:
    """owned: for each member the partitions left to it, as keys in the order claimed. disputed: partitions claimed by
    several members of one generation. max_generation: the newest that anybody claims."""

    owned: list[dict[int, None]]
    disputed: set[int]
    max_generation: int


def settle(members: Sequence[MemberSpec], layout: Layout) -> Claims:
    """Go through the members in the order given."""
    claims = Claims(owned=[{} for _ in members], disputed=set(), max_generation=NO_GENERATION)
    on_record: dict[int, int] = {}
    for position, member in enumerate(members):
        generation = generation_of(member)
        claims.max_generation = max(claims.max_generation, generation)
        mine = claims.owned[position]
        for number in layout.owned(member):
            other = on_record.get(number)
            if other is None:
                mine[number] = None
                on_record[number] = position
                continue
            rival = members[other]
            other_generation = generation_of(rival) if rival.names_generation else NO_GENERATION
            if generation < other_generation:
                continue
            if generation == other_generation:
                claims.disputed.add(number)
            else:
                mine[number] = None
            claims.owned[other].pop(number, None)
            on_record[number] = position
    return claims


def generation_of(member: MemberSpec) -> int:
    """The generation at which a member claims its partitions."""
    return NO_GENERATION if member.generation is None else member.generation


def older_claims(members: Sequence[MemberSpec], layout: Layout, newest: int) -> dict[int, int]:
    """For each partition who claimed it last, before the newest generation."""
    latest: dict[int, tuple[int, int]] = {}
    for position, member in enumerate(members):
        generation = generation_of(member)
        if generation < newest:
            for number in layout.owned(member):
                if number not in latest or generation > latest[number][0]:
                    latest[number] = generation, position
    return {number: position for number, (_, position) in latest.items()}


def subscribe_alike(members: Sequence[MemberSpec]) -> bool:
    """Whether a sticky leader takes all subscriptions for equal.

    Members without any topic are passed over until the first with one, as Kafka does; such a leader then hands
    partitions to members that did not ask for them, who have to rejoin."""
    first: frozenset[str] = frozenset()
    for member in members:
        if not first:
            first = frozenset(member.topics)
        elif first != frozenset(member.topics):
            return False
    return True


class Racks:
    """Where members and partitions are, when that counts (KIP-881); all empty otherwise."""

    __slots__ = ("consumers", "in_use", "partitions", "rivals")

    def __init__(self, members: Sequence[MemberSpec], layout: Layout) -> None:
        racks = [member.rack or None for member in members]
        self.in_use = False
        self.consumers: list[str | None] = [None] * len(members)
        self.partitions: list[frozenset[str]] = []
        # For each partition how many consumers are in the racks of its replicas.
        self.rivals: list[int] = []
        if not any(racks):
            return
        partitions = [
            frozenset(rack)
            for topic in layout.topics
            for rack in (topic.racks if topic.racks is not None else ((),) * topic.partitions)
        ]
        self.in_use = racks_count([rack for rack in racks if rack], partitions)
        consumers_in = Counter(racks)
        self.rivals = [sum(consumers_in[rack] for rack in there) for there in partitions]
        if self.in_use:
            self.consumers, self.partitions = racks, partitions

    def mismatch(self, consumer: int, number: int) -> bool:
        """Whether a consumer has a rack and the partition no replica there."""
        rack = self.consumers[consumer]
        return rack is not None and rack not in self.partitions[number]
