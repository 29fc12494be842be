"""The last step of franz-go's sticky assignors if subscriptions differ (`internal/sticky/repair.go`): as many
partitions as possible stay where they were, while every member gets the same number of partitions as without this step,
or one member gets one more and another one less.

Partitions of topics with the same subscribers are interchangeable: they form a row. A cell is what one member has of a
row; each partition beyond what it had before costs one. The cost is minimal if there is no cycle of members, rows and
loads, in which each passes on one partition, that lowers the cost. Such cycles are found with the Bellman-Ford
algorithm, and followed until none is left."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kgm.assignors.partition_numbers import NO_OWNER

_NONE: Final = -1
#: More than any cycle costs: the price of giving what a cell does not have.
_IMPOSSIBLE: Final = 1 << 62
_UNLIMITED: Final = 1 << 31


@dataclass(slots=True)
class _Cell:
    """count: how many of the row's partitions the member has; had: how many of them it had before."""

    row: int
    member: int
    count: int = 0
    had: int = 0

    @property
    def cost_of_more(self) -> int:
        return int(self.count >= self.had)

    @property
    def cost_of_less(self) -> int:
        if not self.count:
            return _IMPOSSIBLE
        return -int(self.count > self.had)

    def room(self, step: int) -> int:
        """How many partitions can come (step 1) or go (step -1) before the cost per partition changes."""
        if step > 0:
            return self.had - self.count if self.count < self.had else _UNLIMITED
        return self.count - self.had if self.count > self.had else self.count


@dataclass(frozen=True, slots=True)
class _Circle:
    """A cycle. steps: cells, and whether each gets a partition (1) or gives one (-1). shifts_load: whether one member
    has more afterwards, and another one less."""

    steps: list[tuple[_Cell, int]]
    shifts_load: bool


def repaired(
    topic_of: Sequence[int], subscribers: Sequence[Sequence[int]], held: Sequence[Sequence[int]], before: Sequence[int]
) -> list[int] | None:
    """The new owners; None if nothing changes.

    subscribers: the positions of each topic's subscribers. held: the partitions of each member. before: the owner of
    each partition before anything was assigned, or NO_OWNER."""
    rows: dict[tuple[int, ...], int] = {}
    row_of_topic = [rows.setdefault(tuple(those), len(rows)) for those in subscribers]
    row_of = [row_of_topic[topic] for topic in topic_of]
    classes: list[set[int]] = [set() for _ in held]
    for topic, those in enumerate(subscribers):
        for position in those:
            classes[position].add(row_of_topic[topic])
    cells = {(row, position): _Cell(row, position) for position, those in enumerate(classes) for row in sorted(those)}
    has_moved = False
    for position, numbers in enumerate(held):
        for number in numbers:
            cells[row_of[number], position].count += 1
            has_moved |= before[number] not in (NO_OWNER, position)
    for number, position in enumerate(before):
        if position != NO_OWNER:
            cells[row_of[number], position].had += 1
    loads, every = [len(numbers) for numbers in held], list(cells.values())
    while circles := _circles(every, loads, len(rows)):
        has_moved = True
        for circle in circles:
            _follow(circle, loads)
    return _dealt(cells, row_of, held, before) if has_moved else None


def _follow(circle: _Circle, loads: list[int]) -> None:
    count = 1 if circle.shifts_load else min(cell.room(step) for cell, step in circle.steps)
    for cell, step in circle.steps:
        cell.count += step * count
        loads[cell.member] += step * count


def _circles(cells: Sequence[_Cell], loads: Sequence[int], rows: int) -> list[_Circle]:
    """Disjoint cycles that lower the cost. Nodes are rows, members, and loads that members have."""
    levels: dict[int, int] = {}
    for load in loads:
        if load:
            levels.setdefault(load, rows + len(loads) + len(levels))
    nodes = rows + len(loads) + len(levels)
    distance, reached_from = [0] * nodes, [_NONE] * nodes
    by_cell: list[_Cell | None] = [None] * nodes

    def reach(node: int, start: int, cost: int, cell: _Cell | None = None) -> bool:
        if distance[start] + cost >= distance[node]:
            return False
        distance[node], reached_from[node], by_cell[node] = distance[start] + cost, start, cell
        return True

    for _ in range(nodes):
        is_nearer = False
        for cell in cells:
            row, member = cell.row, rows + cell.member
            is_nearer |= reach(member, row, cell.cost_of_more, cell)
            is_nearer |= reach(row, member, cell.cost_of_less, cell)
        for position, load in enumerate(loads):
            if load + 1 in levels:
                is_nearer |= reach(levels[load + 1], rows + position, 0)
            if load:
                is_nearer |= reach(rows + position, levels[load], 0)
        if not is_nearer:
            break
        starts = _starts_of_circles(reached_from)
        if starts:
            return [_circle_from(start, reached_from, by_cell, rows, rows + len(loads)) for start in starts]
    return []


def _starts_of_circles(reached_from: Sequence[int]) -> list[int]:
    """One node from each cycle."""
    starts, seen = [], [_NONE] * len(reached_from)
    for start in range(len(reached_from)):
        node = start
        while node != _NONE and seen[node] == _NONE:
            seen[node] = start
            node = reached_from[node]
        if node != _NONE and seen[node] == start:
            starts.append(node)
    return starts


def _circle_from(
    start: int, reached_from: Sequence[int], by_cell: Sequence[_Cell | None], rows: int, first_level: int
) -> _Circle:
    steps, shifts_load, node = [], False, start
    while True:
        cell = by_cell[node]
        if node >= first_level:
            shifts_load = True
        elif cell is not None:
            steps.append((cell, 1 if node >= rows else -1))
        node = reached_from[node]
        if node == start:
            return _Circle(steps, shifts_load)


def _dealt(
    cells: dict[tuple[int, int], _Cell], row_of: Sequence[int], held: Sequence[Sequence[int]], before: Sequence[int]
) -> list[int]:
    """The owners: each member first takes back what it had, up to its count for the row, and then takes from what is
    left."""
    owner = [NO_OWNER] * len(row_of)
    missing = {key: cell.count for key, cell in cells.items()}
    left: dict[int, list[int]] = {}
    for number in (number for numbers in held for number in numbers):
        key = row_of[number], before[number]
        if missing.get(key, 0):
            missing[key] -= 1
            owner[number] = before[number]
        else:
            left.setdefault(row_of[number], []).append(number)
    rest = {row: iter(numbers) for row, numbers in left.items()}
    for (row, position), count in missing.items():
        for _ in range(count):
            owner[next(rest[row])] = position
    return owner
