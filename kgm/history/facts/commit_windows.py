"""Offset commits between a group's records: for each partition the first, the last and the count, without a Python
object for each commit."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.reconstruct.classic_snapshots import TopicPartition

_Integers = npt.NDArray[np.int64]
#: With fewer commits than this, the time between them means nothing.
_LEAST_FOR_CADENCE = 3
#: Members that stop for want of records commit for the last time within two of their commits, and this time.
_TOGETHER_MS = 2_000


@dataclass(frozen=True, slots=True)
class CommitWindow:
    """Commits of one partition between two records of its group, or after the last one. first, last: their times;
    in_transaction: whether the last one was part of a transaction."""

    place: TopicPartition
    first: int
    last: int
    count: int
    in_transaction: bool = False


@dataclass(frozen=True, slots=True)
class GroupCommits:
    """The commits of a group that count. at: the offset from which each one counts; place: its index in `places`;
    in_transaction: whether it was part of a transaction."""

    at: _Integers
    place: _Integers
    timestamp: _Integers
    places: Sequence[TopicPartition]
    in_transaction: npt.NDArray[np.bool_]

    def windows(self, cuts: Sequence[int]) -> list[list[CommitWindow]]:
        """The commits before each of these offsets, and after the last one: one more list than there are offsets."""
        windows: list[list[CommitWindow]] = [[] for _ in range(len(cuts) + 1)]
        if not len(self.at):
            return windows
        window = np.searchsorted(np.array(cuts, dtype=np.int64), self.at)
        order = np.lexsort((self.at, self.place, window))
        key = window[order] * len(self.places) + self.place[order]
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        ends = np.append(starts[1:], len(order)) - 1
        rows = zip(
            window[order][starts].tolist(), self.place[order][starts].tolist(),
            self.timestamp[order][starts].tolist(), self.timestamp[order][ends].tolist(),
            (ends - starts + 1).tolist(), self.in_transaction[order][ends].tolist(), strict=True,
        )  # fmt: skip
        for number, place, first, last, count, in_transaction in rows:
            windows[number].append(CommitWindow(self.places[place], first, last, count, in_transaction))
        return windows


def commit_windows(commits: pa.Table, group_ids: Collection[str]) -> dict[str, GroupCommits]:
    """The commits of these groups from a `schema.SILVER_COMMIT` table of one partition, by group: plain commits at
    their own offset, those in a transaction at its marker; without tombstones, pending commits, and commits that have
    no timestamp."""
    commits = commits.filter(pc.is_in(commits.column("group_id"), pa.array(group_ids, type=pa.string())))
    counts = pc.and_(pc.invert(commits.column("tombstone")), pc.is_valid(commits.column("visible_offset")))
    table = commits.filter(pc.and_(counts, pc.greater_equal(commits.column("timestamp"), 0))).combine_chunks()
    if not len(table):
        return {}
    (group, groups), (topic, topics) = (_coded(table.column(name)) for name in ("group_id", "topic"))
    number = table.column("topic_partition").to_numpy().astype(np.int64)
    at, when = table.column("visible_offset").to_numpy(), table.column("timestamp").to_numpy()
    in_transaction = pc.is_valid(table.column("txn")).to_numpy(zero_copy_only=False)
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    by_group = {}
    for chosen in np.split(order, cuts):
        pair = topic[chosen] * (np.int64(1) << 32) + number[chosen]
        different, place = np.unique(pair, return_inverse=True)
        places = [(topics[each >> 32], each & 0xFFFFFFFF) for each in different.tolist()]
        by_group[groups[group[chosen[0]]]] = GroupCommits(
            at[chosen], place.astype(np.int64), when[chosen], places, in_transaction[chosen]
        )
    return by_group


def _coded(column: pa.ChunkedArray) -> tuple[_Integers, list[Any]]:
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


#: When a partition was committed by its current owner: [first, last, count, 1 if the last one was in a transaction]; an
#: older store does not have the last number.
Times = list[int]


class CommitTimes:
    """For each partition the times of the current owner's first and last commit, and how many there were."""

    def __init__(self, times: Iterable[tuple[str, int, Times]]) -> None:
        self._times = {(topic, partition): seen for topic, partition, seen in times}

    def state(self) -> list[tuple[str, int, Times]]:
        """The state for the next run."""
        return [(topic, partition, seen) for (topic, partition), seen in self._times.items()]

    def add(self, window: CommitWindow) -> None:
        """Add commits of a partition, all by its current owner."""
        seen = self._times.get(window.place)
        if seen is None:
            self._times[window.place] = [window.first, window.last, window.count, int(window.in_transaction)]
        else:
            seen[1:] = [window.last, seen[2] + window.count, int(window.in_transaction)]

    def forget(self, place: TopicPartition) -> int | None:
        """The partition now has another owner; returns the time of the last commit, None if there was none."""
        seen = self._times.pop(place, None)
        return None if seen is None else seen[1]

    def last(self, places: Iterable[TopicPartition]) -> int | None:
        """When any of the partitions was last committed."""
        return max((self._times[place][1] for place in places if place in self._times), default=None)

    def last_is_in_transaction(self, places: Iterable[TopicPartition]) -> bool:
        """Whether the last commit of the partitions was part of a transaction."""
        newest = max((self._times[place] for place in places if place in self._times), key=_last, default=[0, 0, 0, 0])
        return newest[3:] == [1]

    def is_lull(self, mine: Collection[TopicPartition], others: Collection[TopicPartition], at: int) -> bool:
        """Whether the other partitions, too, were not committed any more since about the last commit of `mine`, until
        the time `at` in ms, although commits of them were due: as if there was nothing to consume."""
        last, others_last, cadence = self.last(mine), self.last(others), self.cadence(others)
        if last is None or others_last is None or cadence is None:
            return False
        due = 2 * cadence + _TOGETHER_MS
        return at - others_last > due and others_last - last <= due

    def cadence(self, places: Iterable[TopicPartition]) -> int | None:
        """The average time between commits, in ms, for the partition with the most commits."""
        seen = max((self._times[place] for place in places if place in self._times), key=_count, default=None)
        if seen is None or _count(seen) < _LEAST_FOR_CADENCE:
            return None
        first, last, count = seen[:3]
        return (last - first) // (count - 1)


def _last(seen: Times) -> int:
    return seen[1]


def _count(seen: Times) -> int:
    return seen[2]
