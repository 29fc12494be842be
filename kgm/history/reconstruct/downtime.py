"""How long rebalances stopped a group, according to its commits: for each partition the last commit before a rebalance
and the first one after it, found for all commits of a piece together.

A commit in a transaction counts from the marker on; if a rebalance or a tombstone is between the two, it shows nothing.
A tombstone discards all earlier commits."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
NEVER = -1


class Interruptions(NamedTuple):
    """Rebalances and tombstones (is_end) of groups, by the group's number, with ascending offsets within a group; and
    for each group, where the last earlier one of each kind was."""

    group: Positions
    offset: Positions
    is_end: npt.NDArray[np.bool_]
    rebalanced_at: Positions
    ended_at: Positions


class CountedCommits(NamedTuple):
    """Commits that count: the index of their place, their offset, the offset from which they count, and when they were
    written."""

    place: Positions
    offset: Positions
    visible: Positions
    timestamp: Positions


class LastCommits(NamedTuple):
    """For each place: its group, the offset from which its last commit counts, and when that was written; NEVER for
    none."""

    group: Positions
    visible: Positions
    timestamp: Positions


class FirstCommits(NamedTuple):
    """The first commits of places after a rebalance, in the order in which they count: the place, the offset from which
    the commit counts, and the ms since the previous one. last: the updated last commits of all places."""

    place: Positions
    visible: Positions
    gap: Positions
    last: LastCommits


def first_after_rebalances(commits: CountedCommits, last: LastCommits, interruptions: Interruptions) -> FirstCommits:
    """The commits that show how long a rebalance stopped their partition."""
    order = np.lexsort((commits.visible, commits.place))
    place, offset, visible, timestamp = (column[order] for column in commits)
    rebalanced_at, ended_at = _last_interruptions(last.group[place], visible, interruptions)
    counts = offset >= np.maximum(rebalanced_at, ended_at)
    if not counts.all():
        place, visible, timestamp = place[counts], visible[counts], timestamp[counts]
        rebalanced_at, ended_at = rebalanced_at[counts], ended_at[counts]
    first = np.append(True, place[1:] != place[:-1]) if len(place) else np.zeros(0, dtype=np.bool_)
    before = np.where(first, last.visible[place], np.roll(visible, 1))
    since = np.where(first, last.timestamp[place], np.roll(timestamp, 1))
    chosen = np.nonzero((before != NEVER) & (before > ended_at) & (before < rebalanced_at))[0]
    chosen = chosen[np.argsort(visible[chosen], kind="stable")]
    final = np.roll(first, -1)
    new = LastCommits(last.group, last.visible.copy(), last.timestamp.copy())
    new.visible[place[final]], new.timestamp[place[final]] = visible[final], timestamp[final]
    return FirstCommits(place[chosen], visible[chosen], timestamp[chosen] - since[chosen], new)


def _last_interruptions(
    group: Positions, visible: Positions, interruptions: Interruptions
) -> tuple[Positions, Positions]:
    """The offsets of the last rebalance and the last tombstone before each commit of a group."""
    rebalanced_at, ended_at = interruptions.rebalanced_at[group], interruptions.ended_at[group]
    if not len(interruptions.group):
        return rebalanced_at, ended_at
    is_interrupted = np.zeros(len(interruptions.rebalanced_at), dtype=np.bool_)
    is_interrupted[interruptions.group] = True
    mine = np.nonzero(is_interrupted[group])[0]
    for offsets, chosen in ((rebalanced_at, ~interruptions.is_end), (ended_at, interruptions.is_end)):
        of_group, at = interruptions.group[chosen], interruptions.offset[chosen]
        number = _last_before(group[mine], visible[mine], of_group, at)
        there = number >= 0
        offsets[mine[there]] = at[number[there]]
    return rebalanced_at, ended_at


def _last_before(group: Positions, visible: Positions, of_group: Positions, at: Positions) -> Positions:
    """For each commit the index of its group's last event before it; NEVER for none."""
    both_group, both_at = np.concatenate((of_group, group)), np.concatenate((at, visible))
    order = np.lexsort((both_at, both_group))
    event = np.where(order < len(at), order, NEVER)
    # Events are sorted by group and offset, so the last one met has the highest index.
    met = np.maximum.accumulate(event)
    last = np.empty(len(order), dtype=np.int64)
    last[order] = met
    number = last[len(at) :]
    known = np.nonzero(number >= 0)[0]
    number[known[of_group[number[known]] != group[known]]] = NEVER
    return number
