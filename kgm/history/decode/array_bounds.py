"""Where the elements of arrays begin and end, found for many records together by their common layout.

Walking an array takes one step for each length in it, and a step touches all records. But a group's records differ
little: a member comes back under another id of the same length. So one record of each size is walked, and every length
in it is noted with its position. A record with the same lengths at the same positions has the same layout, and checking
that takes no step. The other records are walked."""

from collections.abc import Callable

import numpy as np

from kgm.history.decode.vector_cursor import Cursor, Mask, Positions, Read

#: Fewer records or elements than these are walked.
_WORTH_RECORDS, _WORTH_ELEMENTS = 32, 4
#: How many records of one size make it worthwhile to walk one of them as a model.
_WORTH_CLASS = 4
_ROUNDS = 4


class Bounds:
    """The elements of one array in each of many records: those of record i are numbered from offsets[i] on."""

    def __init__(self, counts: Positions) -> None:
        self.counts = counts
        self.offsets = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(counts, out=self.offsets[1:])
        self.start = np.zeros(self.offsets[-1], dtype=np.int64)
        self.end = np.zeros(self.offsets[-1], dtype=np.int64)

    def find(self, cursor: Cursor, skip: Callable[[Cursor], None], *, alike: bool) -> None:
        """Skip the arrays; `skip` skips one element. alike: whether looking for a common layout is worthwhile; if set,
        `skip` must read nothing but lengths."""
        left = np.nonzero(self.counts > 0)[0]
        if alike and int(self.counts.sum()) >= _WORTH_ELEMENTS * len(left):
            for _ in range(_ROUNDS):
                before = len(left)
                if before < _WORTH_RECORDS:
                    break
                left = self._by_layout(cursor, left, skip)
                if len(left) * 4 > before * 3:
                    break
        self._walk(cursor, left, skip)

    def _walk(self, cursor: Cursor, rows: Positions, skip: Callable[[Cursor], None]) -> None:
        sub = cursor.select(rows)
        first = self.offsets[rows]

        def note(active: Positions, place: int, each: Cursor) -> None:
            number = first[active] + place
            self.start[number] = each.at
            skip(each)
            self.end[number] = each.at

        sub.lockstep(self.counts[rows], note)
        cursor.at[rows] = sub.at
        cursor.catch_up()

    def _by_layout(self, cursor: Cursor, rows: Positions, skip: Callable[[Cursor], None]) -> Positions:
        """Find the bounds in all records with the layout of the first record of their size; returns the other
        records."""
        size = cursor.end[rows] - cursor.at[rows]
        kind = size * (int(self.counts.max()) + 1) + self.counts[rows]
        _, first, of, alike = np.unique(kind, return_index=True, return_inverse=True, return_counts=True)
        if not (alike >= _WORTH_CLASS).any():
            return rows
        models = rows[first]
        began = cursor.at[models].copy()
        cursor.reads = []
        self._walk(cursor, models, skip)
        reads, cursor.reads = _by_record(cursor.reads), None
        done = np.zeros(len(rows), dtype=np.bool_)
        done[first] = True
        order = np.argsort(of, kind="stable")
        stops = np.cumsum(alike)
        for number in np.nonzero(alike >= _WORTH_CLASS)[0].tolist():
            model = int(models[number])
            if cursor.end[model] < 0:
                continue
            here = order[stops[number] - alike[number] : stops[number]]
            fitting = here[_fits(cursor, rows[here], int(began[number]), model, reads)]
            fitting = fitting[fitting != first[number]]
            self._copy(cursor, rows[fitting], int(began[number]), model)
            done[fitting] = True
        return rows[~done]

    def _copy(self, cursor: Cursor, rows: Positions, began: int, model: int) -> None:
        """Set the bounds of rows that have the layout of a model that has been walked."""
        mine = slice(int(self.offsets[model]), int(self.offsets[model + 1]))
        number = self.offsets[rows][:, None] + np.arange(self.counts[model])
        at = cursor.at[rows][:, None]
        self.start[number] = at + (self.start[mine] - began)
        self.end[number] = at + (self.end[mine] - began)
        cursor.at[rows] += cursor.at[model] - began


def _by_record(reads: list[Read]) -> dict[str, tuple[Positions, Positions, Positions]]:
    """The reads by the type's letters: (record, position, value), sorted by record."""
    by_letters = {}
    for letters in {letters for _, _, letters, _ in reads}:
        mine = [(row, at, value) for row, at, other, value in reads if other == letters]
        row, at, value = (np.concatenate(column) for column in zip(*mine, strict=True))
        order = np.argsort(row, kind="stable")
        by_letters[letters] = row[order], at[order], value[order]
    return by_letters


def _fits(
    cursor: Cursor, rows: Positions, began: int, model: int, reads: dict[str, tuple[Positions, Positions, Positions]]
) -> Mask:
    """Which rows have the same lengths as the model at the same places."""
    fit = np.ones(len(rows), dtype=np.bool_)
    record = cursor.row[model]
    for letters, (row, at, value) in reads.items():
        mine = slice(*np.searchsorted(row, (record, record + 1)))
        places = cursor.at[rows][:, None] + (at[mine] - began)
        fit &= (cursor.buffer.view(letters)[places] == value[mine]).all(axis=1)
    return fit
