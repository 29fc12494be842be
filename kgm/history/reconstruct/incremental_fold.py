"""One group from record to record, by what differs between them: the fold of `membership`, whose functions it uses,
without looking at members that stay as they are."""

from collections.abc import Mapping

from kgm.history.reconstruct.classic_snapshots import (
    Change,
    Difference,
    Header,
    History,
    Member,
    Partition,
    Rebalance,
    Snapshot,
    can_be_timed,
    changes_between,
    kind_of,
    rebalance_between,
    snapshot,
    timed,
    tombstone,
)
from kgm.history.reconstruct.member_sets import Roster

_FEW = 8
_NOBODY: Mapping[str, Member] = {}


class Steps:
    """What a group's records add to its history."""

    __slots__ = (
        "_irregular", "_members", "_numbers", "_owned", "_roster", "_seats", "changes", "previous", "rebalance",
        "rebalances", "snapshots",
    )  # fmt: skip

    def __init__(self, rebalance: Rebalance | None = None) -> None:
        """rebalance: the last one, if commits can tell more of it."""
        self.snapshots: list[Snapshot] = []
        self.changes: list[Change] = []
        self.rebalances: list[Rebalance] = []
        self.rebalance = rebalance
        self.previous: Snapshot | None = None
        self._roster: Roster | None = None
        self._members: set[int] = set()
        self._seats: set[str] = set()
        self._owned: set[int] = set()
        self._numbers = 0
        #: Whether some seat or partition is there twice, so that changes cannot be added up.
        self._irregular = False

    def begin(self, previous: Snapshot, roster: Roster) -> None:
        """Go on from a snapshot."""
        self.previous = previous
        self._from_scratch(roster)

    def history(self) -> History:
        return History(tuple(self.snapshots), tuple(self.changes), tuple(self.rebalances), self.previous)

    def tombstone(self, offset: int, timestamp: int, *, complete: bool) -> None:
        generation = -1 if self.previous is None else self.previous.generation
        self.snapshots.append(tombstone(offset, timestamp, generation, complete=complete))
        self.previous, self.rebalance, self._roster = None, None, None

    def value(self, offset: int, timestamp: int, header: Header, roster: Roster, *, complete: bool) -> None:
        previous = self.previous
        members = roster.seats
        difference = self._difference(roster, members)
        kind = kind_of(header, previous, difference, members=bool(members), complete=complete)
        found = snapshot(offset, timestamp, header, members, kind=kind, complete=complete)
        self.snapshots.append(found)
        self.previous = found
        if previous is None:
            return
        self.changes += changes_between(previous, found, difference)
        if header.generation != previous.generation:
            rebalance = rebalance_between(previous, found, difference)
            self.rebalances.append(rebalance)
            self.rebalance = rebalance if can_be_timed(found) else None

    def committed(self, place: Partition, number: int, gap: int) -> None:
        """The first commit of a partition after the last rebalance, so many ms after the one before. number: of the
        partition in the rosters."""
        if self.rebalance is None or self.previous is None:
            return
        if number not in self._owned or (self._irregular and place not in self.previous.owners):
            return
        longer = timed(self.rebalance, gap)
        if longer is not self.rebalance:
            if self.rebalances:
                self.rebalances[-1] = longer
            else:
                self.rebalances.append(longer)
            self.rebalance = longer

    # -- what differs

    def _difference(self, roster: Roster, members: Mapping[str, Member]) -> Difference:
        """From the members before to these."""
        before, self_members = self._roster, self._members
        comparable = (
            before is not None
            and before.different is roster.different
            and before.consumer == roster.consumer
            and not self._irregular
        )
        if not comparable:
            self._from_scratch(roster)
            return Difference(_NOBODY if self.previous is None else self.previous.members, members)
        assert before is not None
        now = set(roster.numbers)
        gone, new = self_members - now, now - self_members
        kept = self._exchange(before, roster, gone, new)
        self._roster, self._members = roster, now
        if self._irregular:
            assert self.previous is not None
            return Difference(self.previous.members, members)
        return Difference(_some(before, gone), _some(roster, new), kept)

    def _exchange(self, before: Roster, roster: Roster, gone: set[int], new: set[int]) -> int:
        """Update seats and partitions; returns how many of these the members have who stayed."""
        seats, owned = self._seats, self._owned
        different = roster.different
        for number in gone:
            seats.discard(different.seats[number])
            owned.difference_update(before.places(number))
        kept = assigned = len(owned)
        for number in new:
            seats.add(different.seats[number])
            places = roster.places(number)
            assigned += len(places)
            owned.update(places)
        if len(seats) != len(roster.numbers) or len(owned) != assigned:
            self._irregular = True
        return kept

    def _from_scratch(self, roster: Roster) -> None:
        self._roster, self._members = roster, set(roster.numbers)
        self._seats = {roster.different.seats[number] for number in roster.numbers}
        places = [place for number in roster.numbers for place in roster.places(number)]
        self._owned = set(places)
        self._irregular = len(self._seats) != len(roster.numbers) or len(self._owned) != len(places)


def _some(roster: Roster, numbers: set[int]) -> dict[str, Member]:
    """Some of the members by seat, in the order of the record."""
    if len(numbers) < _FEW:
        places = sorted(map(roster.numbers.index, numbers))
    else:
        places = [place for place, number in enumerate(roster.numbers) if number in numbers]
    exactly = roster.bytes_numbers
    members = [roster.different.member(int(exactly[place]), consumer=roster.consumer) for place in places]
    return {member.seat: member for member in members}
