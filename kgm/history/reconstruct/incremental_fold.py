"""Processes one group record by record, based on the differences between records: the fold of `classic_snapshots`,
whose functions it uses, without looking at members that stay as they are."""

from collections.abc import Mapping

from kgm.history.reconstruct.classic_snapshots import (
    Difference,
    GroupHistory,
    Header,
    MemberChange,
    Rebalance,
    Snapshot,
    SnapshotMember,
    TopicPartition,
    can_be_timed,
    changes_between,
    kind_of,
    rebalance_between,
    snapshot,
    timed,
    tombstone,
)
from kgm.history.reconstruct.member_sets import MemberSet

_FEW = 8
_NO_MEMBERS: Mapping[str, SnapshotMember] = {}


class IncrementalFold:
    """What a group's records add to its history."""

    __slots__ = (
        "_assigned", "_identities", "_irregular", "_members", "_numbers", "changes", "previous", "rebalance",
        "rebalances", "snapshots",
    )  # fmt: skip

    def __init__(self, rebalance: Rebalance | None = None) -> None:
        """rebalance: the last one, if commits can still narrow it down."""
        self.snapshots: list[Snapshot] = []
        self.changes: list[MemberChange] = []
        self.rebalances: list[Rebalance] = []
        self.rebalance = rebalance
        self.previous: Snapshot | None = None
        self._members: MemberSet | None = None
        self._numbers: set[int] = set()
        self._identities: set[str] = set()
        self._assigned: set[int] = set()
        #: Whether an identity or partition occurs twice, so that changes cannot be added up.
        self._irregular = False

    def begin(self, previous: Snapshot, members: MemberSet) -> None:
        """Continue from a snapshot."""
        self.previous = previous
        self._from_scratch(members)

    def history(self) -> GroupHistory:
        """The history so far."""
        return GroupHistory(tuple(self.snapshots), tuple(self.changes), tuple(self.rebalances), self.previous)

    def tombstone(self, offset: int, timestamp: int, *, complete: bool) -> None:
        """The group's record was deleted."""
        generation = -1 if self.previous is None else self.previous.generation
        self.snapshots.append(tombstone(offset, timestamp, generation, complete=complete))
        self.previous, self.rebalance, self._members = None, None, None

    def value(self, offset: int, timestamp: int, header: Header, members: MemberSet, *, complete: bool) -> None:
        """Process the group's next record."""
        previous = self.previous
        by_identity = members.by_identity
        difference = self._difference(members, by_identity)
        kind = kind_of(header, previous, difference, members=bool(by_identity), complete=complete)
        now = snapshot(offset, timestamp, header, by_identity, kind=kind, complete=complete)
        self.snapshots.append(now)
        self.previous = now
        if previous is None:
            return
        self.changes += changes_between(previous, now, difference)
        if header.generation != previous.generation:
            rebalance = rebalance_between(previous, now, difference)
            self.rebalances.append(rebalance)
            self.rebalance = rebalance if can_be_timed(now) else None

    def committed(self, place: TopicPartition, number: int, gap: int) -> None:
        """The first commit of a partition after the last rebalance, `gap` ms after the previous one. number: the
        partition's number in the member sets."""
        if self.rebalance is None or self.previous is None:
            return
        if number not in self._assigned or (self._irregular and place not in self.previous.owners):
            return
        longer = timed(self.rebalance, gap)
        if longer is not self.rebalance:
            if self.rebalances:
                self.rebalances[-1] = longer
            else:
                self.rebalances.append(longer)
            self.rebalance = longer

    # -- what differs

    def _difference(self, members: MemberSet, by_identity: Mapping[str, SnapshotMember]) -> Difference:
        """The difference from the previous members to these."""
        before, numbers_before = self._members, self._numbers
        comparable = (
            before is not None
            and before.distinct is members.distinct
            and before.consumer == members.consumer
            and not self._irregular
        )
        if not comparable:
            self._from_scratch(members)
            return Difference(_NO_MEMBERS if self.previous is None else self.previous.members, by_identity)
        assert before is not None
        now = set(members.numbers)
        gone, new = numbers_before - now, now - numbers_before
        kept = self._exchange(before, members, gone, new)
        self._members, self._numbers = members, now
        if self._irregular:
            assert self.previous is not None
            return Difference(self.previous.members, by_identity)
        return Difference(_some(before, gone), _some(members, new), kept)

    def _exchange(self, before: MemberSet, members: MemberSet, gone: set[int], new: set[int]) -> int:
        """Update identities and partitions; returns how many partitions the members that stayed have."""
        identities, owned = self._identities, self._assigned
        names = members.distinct.identities
        for number in gone:
            identities.discard(names[number])
            owned.difference_update(before.assigned(number))
        kept = count = len(owned)
        for number in new:
            identities.add(names[number])
            assigned = members.assigned(number)
            count += len(assigned)
            owned.update(assigned)
        if len(identities) != len(members.numbers) or len(owned) != count:
            self._irregular = True
        return kept

    def _from_scratch(self, members: MemberSet) -> None:
        self._members, self._numbers = members, set(members.numbers)
        self._identities = {members.distinct.identities[number] for number in members.numbers}
        assigned = [place for number in members.numbers for place in members.assigned(number)]
        self._assigned = set(assigned)
        self._irregular = len(self._identities) != len(members.numbers) or len(self._assigned) != len(assigned)


def _some(members: MemberSet, numbers: set[int]) -> dict[str, SnapshotMember]:
    """Some of the members by identity, in the order of the record."""
    if len(numbers) < _FEW:
        places = sorted(map(members.numbers.index, numbers))
    else:
        places = [place for place, number in enumerate(members.numbers) if number in numbers]
    exactly = members.exact_numbers
    chosen = [members.distinct.member(int(exactly[place]), consumer=members.consumer) for place in places]
    return {member.identity: member for member in chosen}
