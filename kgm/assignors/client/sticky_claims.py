"""Which member previously owned which partition, from the point of view of a sticky leader
(`AbstractStickyAssignor.allSubscriptionsEqual`).

Members claim partitions at a generation. If two members claim the same partition, the newer generation wins; if the
generations are equal, neither gets it. When a new claim is compared with an earlier one, the new one counts with its
member's generation, but the earlier one only with the generation in that member's subscription. So among members whose
subscription has no generation, the one that comes later in the hash map wins.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kgm.assignors.client.racks import racks_count
from kgm.assignors.contract import MemberSpec
from kgm.assignors.partition_numbers import NO_OWNER, Layout

#: The generation of a member that has not been in one.
NO_GENERATION = -1


@dataclass(slots=True)
class Claims:
    """owner: for each partition, the position of the member whose claim counts, or NO_OWNER. loads: how many partitions
    each member therefore has. disputed: partitions that several members claim at the same generation. max_generation:
    the newest generation of any member."""

    owner: list[int]
    loads: list[int]
    disputed: set[int]
    max_generation: int


def resolve_claims(members: Sequence[MemberSpec], layout: Layout) -> Claims:
    """Decide which claims count, with the members in the order given."""
    owner, contested = [NO_OWNER] * layout.total, []
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
                    if owner[number] == NO_OWNER:
                        owner[number] = position
                        load += 1
                    elif owner[number] != position:
                        contested.append((position, number))
        loads.append(load)
    generations = [generation_of(member) for member in members]
    claims = Claims(owner=owner, loads=loads, disputed=set(), max_generation=max(generations, default=NO_GENERATION))
    if contested:
        _resolve(contested, members, generations, claims)
    return claims


def _resolve(
    contested: Sequence[tuple[int, int]], members: Sequence[MemberSpec], generations: Sequence[int], claims: Claims
) -> None:
    """contested: (member, partition) for each claim after the first one on its partition, in order."""
    owner = claims.owner
    earlier: dict[int, int] = {}
    for position, number in contested:
        other = earlier.get(number, owner[number])
        if other == position:
            continue
        rival = named_generation_of(members[other])
        if generations[position] < rival:
            continue
        earlier[number] = position
        if owner[number] != NO_OWNER:
            claims.loads[owner[number]] -= 1
        if generations[position] == rival:
            claims.disputed.add(number)
            owner[number] = NO_OWNER
        else:
            owner[number] = position
            claims.loads[position] += 1


def generation_of(member: MemberSpec) -> int:
    """The generation at which a member claims its partitions."""
    return NO_GENERATION if member.generation is None else member.generation


def named_generation_of(member: MemberSpec) -> int:
    """The generation in the member's subscription."""
    return generation_of(member) if member.names_generation else NO_GENERATION


def older_claims(members: Sequence[MemberSpec], layout: Layout, newest: int) -> dict[int, int]:
    """For each partition, the member with the latest claim before the newest generation."""
    latest: dict[int, tuple[int, int]] = {}
    for position, member in enumerate(members):
        generation = generation_of(member)
        if generation < newest:
            for number in layout.owned(member):
                if number not in latest or generation > latest[number][0]:
                    latest[number] = generation, position
    return {number: position for number, (_, position) in latest.items()}


def subscribe_alike(members: Sequence[MemberSpec]) -> bool:
    """Whether all subscriptions are equal from a sticky leader's point of view.

    As in Kafka, members without topics are skipped until the first one with topics. The leader then assigns partitions
    to members that do not subscribe to them, and these must rejoin."""
    first: tuple[str, ...] = ()
    for member in members:
        if not first:
            first = member.topics
        elif first != member.topics and frozenset(first) != frozenset(member.topics):
            return False
    return True


class Racks:
    """The racks of members and partitions (KIP-881); empty if racks do not matter."""

    __slots__ = ("consumers", "in_use", "partitions", "rivals")

    def __init__(self, members: Sequence[MemberSpec], layout: Layout) -> None:
        racks = [member.rack or None for member in members]
        self.in_use = False
        self.consumers: list[str | None] = [None] * len(members)
        self.partitions: list[frozenset[str]] = []
        # For each partition, how many consumers are in the racks of its replicas.
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
        """Whether a consumer has a rack and the partition has no replica in it."""
        rack = self.consumers[consumer]
        return rack is not None and rack not in self.partitions[number]
