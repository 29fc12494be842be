"""The sticky assignment for a group whose members all subscribe to the same topics (`ConstrainedAssignmentBuilder`).

With P partitions and M members, each member gets floor(P/M) partitions, and P mod M "big" members get one more.
 1. In the order of the hash map, each member keeps what it owned: everything up to the floor; one more if it owned that
   many and another big member is allowed; otherwise only the floor.
 2. If racks matter, free partitions are assigned round robin to members in a rack with a replica, within these sizes.
 3. The rest are assigned round robin to members below the floor, by member id, and then one each to members at the
   floor.
"""

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Sequence
from heapq import nlargest

from kgm.assignors.client.sticky_claims import Claims, Racks
from kgm.assignors.contract import MemberSpec
from kgm.assignors.partition_numbers import NO_OWNER, Layout
from kgm.java.strings import utf16_key


class ConstrainedBuilder:
    """One computation. Members are positions in the order of the leader's hash map, partitions are numbers."""

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
        self._owner = claims.owner
        self._loads = claims.loads

    def build(self) -> list[int]:
        """For each partition, its owner."""
        for number in self._claims.disputed:
            if self._owner[number] != NO_OWNER:
                self._loads[self._owner[number]] -= 1
                self._owner[number] = NO_OWNER
        for position in range(len(self._members)):
            self._keep_owned(position)
        ids = [utf16_key(member.member_id) for member in self._members]
        self._below.sort(key=ids.__getitem__)
        self._at_floor = deque(sorted(self._at_floor, key=ids.__getitem__))
        free = [number for number, owner in enumerate(self._owner) if owner == NO_OWNER]
        if self._racks.rivals:
            free.sort(key=self._racks.rivals.__getitem__)
        if self._racks.in_use:
            free = self._deal_within_racks(free)
        self._deal(free)
        return self._owner

    def transferring(self) -> list[int]:
        """After `build`: partitions that go from one member to another (for the cooperative protocol)."""
        moved = [number for number, owner in self._revoked_from.items() if self._owner[number] != owner]
        return [*moved, *self._claims.disputed]

    def _keep_owned(self, position: int) -> None:
        if self._racks.in_use:
            self._revoke_far(position)
        keep = self._loads[position]
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
        if keep < self._loads[position]:
            self._cut(position, keep)

    def _revoke_far(self, position: int) -> None:
        """Revoke the partitions without a replica in the member's rack."""
        for number in self._layout.owned(self._members[position]):
            if self._owner[number] == position and self._racks.mismatch(position, number):
                self._take(number, position)

    def _cut(self, position: int, keep: int) -> None:
        """Revoke the surplus, highest partition numbers first, then last topics, so that all topics lose evenly."""
        starts = self._layout.starts
        mine = [
            (number - starts[bisect_right(starts, number) - 1], number)
            for number in self._layout.owned(self._members[position])
            if self._owner[number] == position
        ]
        for _, number in nlargest(len(mine) - keep, mine):
            self._take(number, position)

    def _take(self, number: int, position: int) -> None:
        self._owner[number] = NO_OWNER
        self._loads[position] -= 1
        self._revoked_from[number] = position

    def _give(self, number: int, consumer: int) -> int:
        """Assign a partition. Returns how many partitions its new owner has."""
        self._owner[number] = consumer
        self._loads[consumer] += 1
        return self._loads[consumer]

    def _deal_within_racks(self, free: list[int]) -> list[int]:
        """Assign partitions to members in one of the partition's racks. Returns the partitions that are left."""
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
        """The position, in the list of members below the floor, of the next member in one of these racks."""
        count = len(self._below)
        while self._racks.consumers[self._below[turn]] not in racks:
            turn = (turn + 1) % count
        return turn

    def _first_at_floor(self, racks: frozenset[str]) -> int | None:
        return next((consumer for consumer in self._at_floor if self._racks.consumers[consumer] in racks), None)

    def _deal(self, free: Sequence[int]) -> None:
        """Assign the rest regardless of racks: lap after lap to the members below the floor, until they reach it."""
        takers: list[int] = []
        below, at_floor, lap = self._below, list(self._at_floor), 0
        while below:
            needs = [self._floor - self._loads[position] - lap for position in below]
            laps = min(needs)
            takers += below * laps
            lap += laps
            at_floor += [position for position, need in zip(below, needs, strict=True) if need == laps]
            below = [position for position, need in zip(below, needs, strict=True) if need > laps]
        takers += at_floor
        assert len(takers) >= len(free), "quotas add up to all partitions"
        owner = self._owner
        for number, consumer in zip(free, takers, strict=False):
            owner[number] = consumer
