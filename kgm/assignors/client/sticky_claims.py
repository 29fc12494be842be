"""Who owned what before, as far as a sticky leader believes it (`AbstractStickyAssignor.allSubscriptionsEqual`).

Members claim partitions at a generation. When two claim the same one the newer generation wins, and at the same
generation neither has it. The claim looked at counts with the member's own generation, the claim on record with the
one in that member's subscription only: among members that do not name it there, who comes later in the hash map wins.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kgm.assignors.client.racks import racks_count
from kgm.assignors.contract import MemberSpec
from kgm.assignors.partition_numbers import NOBODY, Layout

#: A member that never was in a generation.
NO_GENERATION = -1


@dataclass(slots=True)
class Claims:
    """owner: for each partition the position of the member that it is left to, or NOBODY. loads: how many are left to
    each member. disputed: partitions claimed by several members of one generation. max_generation: the newest that
    anybody claims."""

    owner: list[int]
    loads: list[int]
    disputed: set[int]
    max_generation: int


def settle(members: Sequence[MemberSpec], layout: Layout) -> Claims:
    """Go through the members in the order given."""
    owner, contested = [NOBODY] * layout.total, []
    find, starts, sizes = layout.index.get, layout.starts, [topic.partitions for topic in layout.topics]
    loads = []
    for position, member in enumerate(members):
        load = 0
        for name, partitions in member.owned.items():
            topic = find(name)
            if topic is None:
                continue
            start, count = starts[topic], sizes[topic]
            for partition in partitions:
                if 0 <= partition < count:
                    number = start + partition
                    if owner[number] == NOBODY:
                        owner[number] = position
                        load += 1
                    elif owner[number] != position:
                        contested.append((position, number))
        loads.append(load)
    generations = [generation_of(member) for member in members]
    claims = Claims(owner=owner, loads=loads, disputed=set(), max_generation=max(generations, default=NO_GENERATION))
    if contested:
        _judge(contested, members, generations, claims)
    return claims


def _judge(
    contested: Sequence[tuple[int, int]], members: Sequence[MemberSpec], generations: Sequence[int], claims: Claims
) -> None:
    """contested: (member, partition) of each claim that was not the first on its partition, in order."""
    owner = claims.owner
    on_record: dict[int, int] = {}
    for position, number in contested:
        other = on_record.get(number, owner[number])
        if other == position:
            continue
        rival = generations[other] if members[other].names_generation else NO_GENERATION
        if generations[position] < rival:
            continue
        on_record[number] = position
        if owner[number] != NOBODY:
            claims.loads[owner[number]] -= 1
        if generations[position] == rival:
            claims.disputed.add(number)
            owner[number] = NOBODY
        else:
            owner[number] = position
            claims.loads[position] += 1


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
    first: tuple[str, ...] = ()
    for member in members:
        if not first:
            first = member.topics
        elif first != member.topics and frozenset(first) != frozenset(member.topics):
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
