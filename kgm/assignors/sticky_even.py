"""The sticky assignment of a group whose members all subscribe to the same topics (`ConstrainedAssignmentBuilder`).

With P partitions and M members everybody gets floor(P/M) partitions, and P mod M members, the big ones, one more.
 1. In the order of the hash map each member keeps what it owned: all of it below the floor; one above the floor if it
    has that many and there is still room for a big member; else the floor.
 2. With racks in play, free partitions go round robin to members in a rack with a replica, within these sizes.
 3. What is left goes round robin to members below the floor, by member id, then one each to members at the floor.
"""

from collections import Counter, deque
from collections.abc import Sequence

from kgm.assignors.java import utf16_key
from kgm.assignors.layout import Layout
from kgm.assignors.spec import MemberSpec
from kgm.assignors.sticky_claims import Claims, Racks


class EvenBuilder:
    """One computation; members are positions in the order of the leader's hash map, partitions numbers."""

    def __init__(self, members: Sequence[MemberSpec], layout: Layout, claims: Claims, racks: Racks) -> None:
        self._members = members
        self._layout = layout
        self._claims = claims
        self._racks = racks
        self._floor, self._big_allowed = divmod(layout.total, len(members))
        self._ceiling = self._floor + (self._big_allowed > 0)
        self._big = 0
        self._below: list[int] = []
        self._at_floor: deque[int] = deque()
        self._revoked_from: dict[int, int] = {}
        self.given: list[list[int]] = [[] for _ in members]
        #: Partitions that go from one member to another, with the new owner (for the cooperative protocol).
        self.transferring: dict[int, int] = {}

    def build(self) -> list[list[int]]:
        """For each member the partitions that it gets."""
        self._keep_owned()
        ids = [utf16_key(member.member_id) for member in self._members]
        self._below.sort(key=ids.__getitem__)
        self._at_floor = deque(sorted(self._at_floor, key=ids.__getitem__))
        free = self._free()
        if self._racks.rivals:
            free.sort(key=self._racks.rivals.__getitem__)
        if self._racks.in_use:
            free = self._deal_within_racks(free)
        self._deal(free)
        return self.given

    def _keep_owned(self) -> None:
        topic_of = self._layout.topic_of()
        starts = self._layout.starts
        for position in range(len(self._members)):
            near = []
            for number in self._claims.owned[position]:
                if self._racks.in_use and self._racks.mismatch(position, number):
                    self._revoked_from[number] = position
                elif number not in self._claims.disputed:
                    near.append(number)
            # By partition, then topic: what is cut off is taken evenly from all topics.
            near.sort(key=lambda number: (number - starts[topic_of[number]], number))
            keep = len(near)
            if keep < self._floor:
                self._below.append(position)
            elif keep >= self._ceiling and self._big < self._big_allowed:
                keep = self._ceiling
                self._big += 1
                if self._big == self._big_allowed:
                    self._at_floor.clear()
            else:
                keep = self._floor
                if self._big < self._big_allowed:
                    self._at_floor.append(position)
            self.given[position] = near[:keep]
            for number in near[keep:]:
                self._revoked_from[number] = position

    def _free(self) -> list[int]:
        taken = bytearray(self._layout.total)
        for numbers in self.given:
            for number in numbers:
                taken[number] = 1
        return [number for number, is_taken in enumerate(taken) if not is_taken]

    def _give(self, number: int, consumer: int) -> int:
        """Hand a partition out; returns how many its new owner has."""
        mine = self.given[consumer]
        mine.append(number)
        if self._revoked_from.get(number, consumer) != consumer or number in self._claims.disputed:
            self.transferring[number] = consumer
        return len(mine)

    def _deal_within_racks(self, free: list[int]) -> list[int]:
        """Hand out partitions to members in one of their racks; returns the partitions that are left."""
        left, turn = [], 0
        waiting = Counter(self._racks.consumers[consumer] for consumer in self._below)
        for number in free:
            racks = self._racks.partitions[number]
            if any(waiting[rack] for rack in racks):
                turn = self._next_below(racks, turn)
                consumer = self._below[turn]
                count = self._give(number, consumer)
                if count >= self._floor:
                    del self._below[turn]
                    waiting[self._racks.consumers[consumer]] -= 1
                    if count < self._ceiling and self._big < self._big_allowed:
                        self._at_floor.append(consumer)
                else:
                    turn += 1
                turn = turn % len(self._below) if self._below else 0
            elif (at_floor := self._first_at_floor(racks)) is not None:
                self._give(number, at_floor)
                self._at_floor.remove(at_floor)
                self._big += 1
                if self._big == self._big_allowed:
                    self._at_floor.clear()
            else:
                left.append(number)
        return left

    def _next_below(self, racks: frozenset[str], turn: int) -> int:
        """Where in the list of members below the floor the next one in one of the racks is."""
        count = len(self._below)
        while self._racks.consumers[self._below[turn]] not in racks:
            turn = (turn + 1) % count
        return turn

    def _first_at_floor(self, racks: frozenset[str]) -> int | None:
        return next((consumer for consumer in self._at_floor if self._racks.consumers[consumer] in racks), None)

    def _deal(self, free: list[int]) -> None:
        """Hand out the rest regardless of racks."""
        below = deque(self._below)
        # Java's iterator starts over at the front after each lap; a rotating queue visits the same members.
        for number in free:
            consumer = below[0] if below else self._at_floor.popleft()
            if self._give(number, consumer) == self._floor:
                below.popleft()
                self._at_floor.append(consumer)
            elif below:
                below.rotate(-1)
