"""The commits that tell how long rebalances stopped a group: of each partition the last one before and the first one
after a rebalance, found for all commits of a chunk at once.

A commit of a transaction counts from the marker on. If a rebalance or a tombstone lies between the two it tells
nothing. A tombstone forgets all commits before it."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
NEVER = -1


class Turns(NamedTuple):
    """Rebalances and tombstones of groups (by number), offsets rising within a group; and of each group, where the last
    of both kinds was before all of them."""

    group: Positions
    offset: Positions
    is_end: npt.NDArray[np.bool_]
    rebalanced_at: Positions
    ended_at: Positions


class Commits(NamedTuple):
    """Commits that count: of which place, where they stand and where they count from, and when they were written."""

    place: Positions
    offset: Positions
    visible: Positions
    timestamp: Positions


class Last(NamedTuple):
    """Of each place: its group, and where its last commit counts from and when it was written; NEVER for none."""

    group: Positions
    visible: Positions
    timestamp: Positions


class Found(NamedTuple):
    """Commits that are the first of a place after a rebalance, in the order in which they count: the place, where it
    counts from, ms since the one before. last: of the places, brought up to date."""

    place: Positions
    visible: Positions
    gap: Positions
    last: Last


def straddling(commits: Commits, last: Last, turns: Turns) -> Found:
    """Pairs of commits with a rebalance in between, and nothing else that matters."""
    order = np.lexsort((commits.visible, commits.place))
    place, offset, visible, timestamp = (column[order] for column in commits)
    rebalanced_at, ended_at = _turned(last.group[place], visible, turns)
    counts = offset >= np.maximum(rebalanced_at, ended_at)
    if not counts.all():
        place, visible, timestamp = place[counts], visible[counts], timestamp[counts]
        rebalanced_at, ended_at = rebalanced_at[counts], ended_at[counts]
    first = np.append(True, place[1:] != place[:-1]) if len(place) else np.zeros(0, dtype=np.bool_)
    before = np.where(first, last.visible[place], np.roll(visible, 1))
    since = np.where(first, last.timestamp[place], np.roll(timestamp, 1))
    found = np.nonzero((before != NEVER) & (before > ended_at) & (before < rebalanced_at))[0]
    found = found[np.argsort(visible[found], kind="stable")]
    final = np.roll(first, -1)
    new = Last(last.group, last.visible.copy(), last.timestamp.copy())
    new.visible[place[final]], new.timestamp[place[final]] = visible[final], timestamp[final]
    return Found(place[found], visible[found], timestamp[found] - since[found], new)


def _turned(group: Positions, visible: Positions, turns: Turns) -> tuple[Positions, Positions]:
    """Where the last rebalance and the last tombstone before each commit of a group are."""
    rebalanced_at, ended_at = turns.rebalanced_at[group], turns.ended_at[group]
    if not len(turns.group):
        return rebalanced_at, ended_at
    turning = np.zeros(len(turns.rebalanced_at), dtype=np.bool_)
    turning[turns.group] = True
    mine = np.nonzero(turning[group])[0]
    for offsets, chosen in ((rebalanced_at, ~turns.is_end), (ended_at, turns.is_end)):
        of_group, at = turns.group[chosen], turns.offset[chosen]
        number = _last_before(group[mine], visible[mine], of_group, at)
        there = number >= 0
        offsets[mine[there]] = at[number[there]]
    return rebalanced_at, ended_at


def _last_before(group: Positions, visible: Positions, of_group: Positions, at: Positions) -> Positions:
    """For each commit the number of the last event of its group before it; NEVER for none."""
    both_group, both_at = np.concatenate((of_group, group)), np.concatenate((at, visible))
    order = np.lexsort((both_at, both_group))
    event = np.where(order < len(at), order, NEVER)
    # Events are in order of group and offset, so that the last one met has the greatest number.
    met = np.maximum.accumulate(event)
    found = np.empty(len(order), dtype=np.int64)
    found[order] = met
    number = found[len(at) :]
    known = np.nonzero(number >= 0)[0]
    number[known[of_group[number[known]] != group[known]]] = NEVER
    return number
