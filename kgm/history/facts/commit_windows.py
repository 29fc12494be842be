"""Offset commits between the records of their group: of each partition the first, the last and how many, without a
Python object for each commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.facts.ownership import Place

_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """Commits of one partition between two records of its group, or behind the last one. first, last: when."""

    place: Place
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class Commits:
    """The commits of a group that count, by where they begin to. place: which of `places`."""

    at: _Integers
    place: _Integers
    timestamp: _Integers
    places: Sequence[Place]

    def windows(self, cuts: Sequence[int]) -> list[list[Window]]:
        """What lies before each of these offsets, and behind the last: one list more than there are offsets."""
        found: list[list[Window]] = [[] for _ in range(len(cuts) + 1)]
        if not len(self.at):
            return found
        window = np.searchsorted(np.array(cuts, dtype=np.int64), self.at)
        order = np.lexsort((self.at, self.place, window))
        key = window[order] * len(self.places) + self.place[order]
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        ends = np.append(starts[1:], len(order)) - 1
        rows = zip(
            window[order][starts].tolist(), self.place[order][starts].tolist(),
            self.timestamp[order][starts].tolist(), self.timestamp[order][ends].tolist(),
            (ends - starts + 1).tolist(), strict=True,
        )  # fmt: skip
        for number, place, first, last, count in rows:
            found[number].append(Window(self.places[place], first, last, count))
        return found


def commit_windows(commits: pa.Table) -> dict[tuple[int, str], Commits]:
    """Of a table by `schema.SILVER_COMMIT`, by partition and group: plain commits at their own offset, those of a
    transaction at its marker; without tombstones, what is pending, and what has no time."""
    counts = pc.and_(pc.invert(commits.column("tombstone")), pc.is_valid(commits.column("visible_offset")))
    table = commits.filter(pc.and_(counts, pc.greater_equal(commits.column("timestamp"), 0))).combine_chunks()
    if not len(table):
        return {}
    columns = [_coded(table.column(name)) for name in ("partition", "group_id", "topic")]
    (partition, partitions), (group, groups), (topic, topics) = columns
    number = table.column("topic_partition").to_numpy().astype(np.int64)
    at, when = table.column("visible_offset").to_numpy(), table.column("timestamp").to_numpy()
    owner = partition * len(groups) + group
    order = np.argsort(owner, kind="stable")
    cuts = np.flatnonzero(np.diff(owner[order])) + 1
    found = {}
    for chosen in np.split(order, cuts):
        pair = topic[chosen] * (np.int64(1) << 32) + number[chosen]
        different, place = np.unique(pair, return_inverse=True)
        names = [(topics[each >> 32], each & 0xFFFFFFFF) for each in different.tolist()]
        key = partitions[partition[chosen[0]]], groups[group[chosen[0]]]
        found[key] = Commits(at[chosen], place.astype(np.int64), when[chosen], names)
    return found


def _coded(column: pa.ChunkedArray) -> tuple[_Integers, list[Any]]:
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()
