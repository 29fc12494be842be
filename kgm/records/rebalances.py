"""What one rebalance is, for everything that counts rebalances: one that reached an assignment.

In a group of the classic protocol, each generation with members is one. In a group of the consumer protocol (KIP-848),
and in a streams or share group, each target assignment is one, whatever the number of group epochs since the previous
one: changes that follow each other closely raise the epoch several times and get one target assignment, from Kafka 4.3
on all those within group.consumer.assignment.interval.ms (KIP-1263). So the records of target assignments are
counted, and not the epochs in them; where only two assignment epochs are known, their difference is the most
rebalances that there can have been between them. Where only two generations are known, those in between can have been
without members."""

from dataclasses import dataclass


def generations_between(before: int, after: int, *, is_empty: bool = False) -> int:
    """The number of rebalances between two generations that differ. A group that was deleted and created again counts
    from 1. is_empty: nobody is in the latter generation: nothing is assigned in it, so it is no rebalance."""
    return (after - before if after > before else max(after, 1)) - is_empty


def most_between(before: int, after: int) -> int:
    """The most rebalances between two assignment epochs that differ; at least one there was. An epoch that is lower
    than the one before is that of a group that was deleted and created again."""
    return after - before if after > before else max(after, 1)


@dataclass(slots=True)
class EndedRebalances:
    """The rebalances of one group, by the records that end them in the order of its log. number: the last generation or
    assignment epoch, None if it is not known. is_target: whether it is an assignment epoch; is_empty: whether the group
    had no members in that generation; is_removed: whether the target assignment was deleted since.

    Each record is taken with how many rebalances ended with it and since the previous one, at least and at most.
    follows_gap: whether records between the two may be missing, because compaction has removed them or they were not
    read; without that, both numbers are the same.

    A group that changes its protocol keeps the number, and that alone is no rebalance: the members have what they
    had. One that changes it without members counts from 1 again."""

    number: int | None = None
    is_target: bool = False
    is_empty: bool = False
    is_removed: bool = False

    def generation(
        self, number: int, *, is_empty: bool, counts_empty: bool = False, follows_gap: bool = False
    ) -> tuple[int, int]:
        """Take a record of a classic group. counts_empty: whether a generation without members counts."""
        before, was_target = self.number, self.is_target
        self.number, self.is_target, self.is_empty, self.is_removed = number, False, is_empty, False
        if before is None or number == before:
            return 0, 0
        if was_target and number > before:  # epochs that had no target assignment yet, unless their records are missing
            return 0, number if follows_gap else 0
        most = generations_between(before, number, is_empty=is_empty and not counts_empty)
        return (0 if is_empty else 1) if follows_gap and not counts_empty else most, most

    def target(self, epoch: int, *, follows_gap: bool = False) -> tuple[int, int]:
        """Take a record of a target assignment: it is one rebalance, unless it is the same as before."""
        before, is_new = self.number, self.is_removed or (not self.is_target and self.is_empty)
        counts_from = self.number if self.is_target else 0
        self.number, self.is_target, self.is_empty, self.is_removed = epoch, True, False, False
        if before is None or (epoch == before and not is_new):
            return 0, 0
        return 1, most_between(counts_from or 0, epoch) if follows_gap else 1

    def removed(self) -> None:
        """The target assignment was deleted: the group was, or it changed to the classic protocol."""
        self.is_removed = self.is_target
