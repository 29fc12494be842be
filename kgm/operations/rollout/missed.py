"""What happened to a group while kgm was not running, as far as two descriptions and the coordinator's log tell.

Between two generations, or assignment epochs, that follow each other, every partition has one owner before and one
after, so two descriptions show all handovers. Between others the log of a classic group does, if it still has all
records since the first description: the log is compacted from its beginning, so an older record proves that no later
one is missing. The log of another group has each of its target assignments in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgm.client.offsets_topic.group_tail import RecordedGroup, RecordedTarget
from kgm.model.assignment import owners
from kgm.model.changes import knows_owners, owned
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.rollout.expectation import StepCounts
from kgm.operations.watch.past_records import may_be_another, member_ids, records_since
from kgm.operations.watch.rebalance_count import CountDoubt
from kgm.records.rebalances import EndedRebalances, most_between


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedTime:
    """counts: what happened; consumers: the latest consumer of each partition, also of one that has none now."""

    counts: StepCounts
    consumers: Mapping[tuple[str, int], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """What an operator has acknowledged of a step by resuming it after kgm had reported that it failed or deviated.

    group: as it was then; counts: what had happened in the step until then, as far as it is known; deviations: what had
    happened to members of other steps, and to the group's protocol, in words, which no count shows."""

    group: GroupSnapshot
    counts: StepCounts
    deviations: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join([str(self.counts), *self.deviations])


def missed_between(
    before: GroupSnapshot, now: GroupSnapshot, recorded: Sequence[RecordedGroup | RecordedTarget]
) -> MissedTime:
    """What happened between two descriptions. recorded: what the log has of the group, oldest first."""
    is_classic = now.type == "classic"
    first, last = (before.generation, now.generation) if is_classic else (before.assignment_epoch, now.assignment_epoch)
    groups = [one.group for one in recorded if isinstance(one, RecordedGroup)]
    if is_classic and last is None and groups and member_ids(groups[-1]) == member_ids(now):
        last = groups[-1].generation  # no API has the generation of an empty group
    since = records_since(before, recorded)
    between = _all_between(since, last) if is_classic else None
    consumers, handovers = owners(owned(before)), 0
    for group in [*(between or ()), now]:
        for partition, owner in owners(owned(group)).items() if knows_owners(group) else ():
            handovers += consumers.get(partition, owner) != owner
            consumers[partition] = owner
    doubt, rebalances = None, 0
    if first is None or last is None:
        doubt = CountDoubt(why="the generation before or now is not known")
    elif last < first or (last == first and recorded and since is None and may_be_another(before, now)):
        doubt = CountDoubt(why="the group was deleted meanwhile and counts from 1 again")
        rebalances = last if is_classic else 1
    elif is_classic:
        rebalances = last - first
    elif last > first:
        rebalances, doubt = _targets_between(first, last, since)
    is_exact = doubt is None and (rebalances <= 1 or between is not None)
    counts = StepCounts(
        rebalances=rebalances, handovers=handovers, rebalances_doubt=doubt, handovers_exact=is_exact
    )  # fmt: skip
    return MissedTime(counts=counts, consumers=consumers)


def _targets_between(
    first: int, last: int, since: Sequence[RecordedGroup | RecordedTarget] | None
) -> tuple[int, CountDoubt | None]:
    """How many target assignments there were after the one of epoch `first`, up to that of `last`."""
    epochs = [one.epoch for one in since or () if isinstance(one, RecordedTarget) and one.epoch is not None]
    if last in epochs:
        ended = EndedRebalances(number=first, is_target=True)
        return sum(ended.target(epoch)[0] for epoch in epochs[: epochs.index(last) + 1]), None
    more = most_between(first, last) - 1
    why = "the log no longer has all target assignments, and several epochs can have one in common"
    return 1, CountDoubt(why=why, more=more) if more else None


def _all_between(
    since: Sequence[RecordedGroup | RecordedTarget] | None, last: int | None
) -> Sequence[GroupSnapshot] | None:
    """The records of the generations up to `last`; None if some may be missing."""
    groups = [one.group for one in since or () if isinstance(one, RecordedGroup)]
    generations = [one.generation or 0 for one in groups]
    if last is None or not generations or generations[-1] < last:
        return None
    return [one for one, generation in zip(groups, generations, strict=True) if generation <= last]
