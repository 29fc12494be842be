"""The coordinator's `uniform` (KIP-848), for groups in which all members subscribe to the same topics.

There are two passes over the members in the order given: first each keeps what it owns up to its quota, then members
below their quota are filled. Some members may have one partition more than the others. A member that already owns that
many keeps them, first come, first served; any other member gets the extra partition only if too few members follow.
(`UniformHomogeneousAssignmentBuilder`; for different subscriptions see `uniform_heterogeneous`.)
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat

from kgm.assignors.contract import Assigned, GroupSpec
from kgm.assignors.partition_numbers import NO_OWNER
from kgm.assignors.result import numbers_below
from kgm.assignors.server.broker_view import server_layout
from kgm.assignors.server.uniform_heterogeneous import Gain, HeterogeneousBuilder
from kgm.java.hash_set import copied_run_order, copied_set_order

_Row = Mapping[str, tuple[int, ...]]
#: A range of partitions without an owner: topic name, first partition, and end (exclusive).
_Run = tuple[str, int, int]


def assign_uniform(group: GroupSpec, *, is_homogeneous: bool = True, gains: list[Gain] | None = None) -> Assigned:
    """The assignment. Racks are ignored (KAFKA-19909). Raises UsageError if a member subscribes to a topic that does
    not exist.

    is_homogeneous: False if the coordinator treats equal subscriptions as different, which it does if they name topics
    that do not exist, or come from different regular expressions. gains: filled with the partitions that move, in
    order; a partition may occur more than once."""
    layout, members = server_layout(group), group.members
    subscribed = layout.subscribed(members)
    if not any(subscribed):
        return {member.member_id: {} for member in members}
    if not is_homogeneous or subscribed.count(subscribed[0]) < len(subscribed):
        return HeterogeneousBuilder(layout, subscribed, members, gains).build()
    sizes = {layout.topics[topic].name: layout.topics[topic].partitions for topic in subscribed[0]}
    owned = [member.owned for member in members]
    walk = partial(_Walk, sizes, is_listed=group.is_listed, gains=gains)
    if not any(owned) and not group.withheld:
        rows = _new(sizes, len(members))
        if gains is not None:
            gains += [(t, p[0], p[-1] + 1, NO_OWNER, at) for at, row in enumerate(rows) for t, p in row.items()]
    elif not group.withheld and (plain := _plain(owned, sizes)) is not None:
        rows, loads, free = plain
        walk(rows, loads, free, set_order=copied_run_order).build()
    else:
        rows, loads, free = _cleaned(owned, sizes, group.withheld)
        walk(rows, loads, free, set_order=copied_set_order).build()
        rows = [{name: tuple(sorted(partitions)) for name, partitions in row.items()} for row in rows]
    return {member.member_id: row for member, row in zip(members, rows, strict=True)}


def reassign_uniform(
    loads: list[int],
    row_of: Callable[[int], _Row],
    sizes: Mapping[str, int],
    free: list[_Run],
    gains: list[Gain],
    *,
    always: int,
) -> dict[int, _Row]:
    """The new partitions of members whose partitions change, by position; for groups where members own at least one
    partition, and each owned partition exists and has only one owner. Gives the same as `assign_uniform` for a listed
    group, without looking at the other members. always: a position that is always in the result.

    loads: how many partitions each member owns. row_of: what the member at a position owns, called only if that
    changes. sizes: the partition count of each topic. free: partitions without an owner, in the order of `sizes`."""
    rows = _Rows(row_of)
    walk = _Walk(sizes, rows, loads, free, set_order=copied_set_order, is_listed=True, gains=gains)
    walk.build()
    return {at: {name: tuple(sorted(mine)) for name, mine in rows[at].items()} for at in sorted({*rows, always})}


class _Rows(dict[int, _Row]):
    """What members own, fetched on demand."""

    def __init__(self, row_of: Callable[[int], _Row]) -> None:
        super().__init__()
        self._row_of = row_of

    def __missing__(self, position: int) -> _Row:
        row = self[position] = self._row_of(position)
        return row


def _new(sizes: Mapping[str, int], members: int) -> list[_Row]:
    """The assignment if no member owns anything: partitions in order, and the last members get one more."""
    least, extras = divmod(sum(sizes.values()), members)
    numbers = numbers_below(max(sizes.values()))
    rows: list[_Row] = []
    left = iter(sizes.items())
    name, first, size = "", 0, 0
    for quota in (*repeat(least, members - extras), *repeat(least + 1, extras)):
        row = {}
        room = quota
        while room:
            while first == size:
                name, size = next(left)
                first = 0
            after = min(first + room, size)
            row[name] = numbers[first:after]
            room -= after - first
            first = after
        rows.append(row)
    return rows


def _plain(
    owned: Sequence[Mapping[str, Sequence[int]]], sizes: Mapping[str, int]
) -> tuple[list[_Row], list[int], list[_Run]] | None:
    """What members own, how many partitions that is for each, and what is free, if an assignor could have produced
    this: ascending runs without gaps, only of subscribed topics, and no partition twice. None otherwise."""
    pieces: dict[str, list[Sequence[int]]] = {name: [] for name in sizes}
    loads = []
    try:
        for mine in owned:
            load = 0
            for name, partitions in mine.items():
                pieces[name].append(partitions)
                load += len(partitions)
            loads.append(load)
        for those in pieces.values():
            those.sort()  # type: ignore[call-arg]  # tuples; otherwise this is not plain
    except (KeyError, TypeError):
        return None
    numbers = numbers_below(max(sizes.values()))
    free: list[_Run] = []
    for name, size in sizes.items():
        done = 0
        if pieces[name] and not pieces[name][0]:
            return None
        for piece in pieces[name]:
            first = piece[0]
            after = first + len(piece)
            if first != done:
                if first < done:
                    return None
                free.append((name, done, first))
            if piece != numbers[first:after]:
                return None
            done = after
        if done > size:
            return None
        if done < size:
            free.append((name, done, size))
    return list(owned), loads, free  # type: ignore[arg-type]  # tuples, as checked above


def _cleaned(
    owned: Sequence[Mapping[str, Sequence[int]]], sizes: Mapping[str, int], withheld: Mapping[str, Sequence[int]]
) -> tuple[list[_Row], list[int], list[_Run]]:
    """The same as `_plain` returns, for any claims, leaving out partitions that do not exist, are not subscribed to, or
    are already claimed by an earlier member. withheld: partitions that are not free either."""
    taken = {name: bytearray(size) for name, size in sizes.items()}
    rows: list[_Row] = []
    for mine in owned:
        row = {}
        for name in filter(sizes.__contains__, mine):
            marks, valid = taken[name], []
            for partition in mine[name]:
                if 0 <= partition < len(marks) and not marks[partition]:
                    marks[partition] = 1
                    valid.append(partition)
            if valid:
                row[name] = tuple(valid)
        rows.append(row)
    for name in filter(sizes.__contains__, withheld):
        for partition in filter(range(sizes[name]).__contains__, withheld[name]):
            taken[name][partition] = 1
    free = [(name, p, p + 1) for name, marks in taken.items() for p, mark in enumerate(marks) if not mark]
    return rows, [sum(map(len, row.values())) for row in rows], free


class _Walk:
    """One computation. sizes: the partition count of each topic. rows, loads: what each member owns, and how many
    partitions that is. free: partitions without an owner. set_order: puts the partitions of one topic in the order of
    the Java set that holds them. is_listed: rows have their topics in the coordinator's order. gains: filled with the
    partitions that move."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        rows: list[_Row] | _Rows,
        loads: list[int],
        free: list[_Run],
        *,
        set_order: Callable[[Sequence[int]], Sequence[int]],
        is_listed: bool,
        gains: list[Gain] | None,
    ) -> None:
        self._set_order = set_order
        self._is_listed = is_listed
        self._gains = gains
        self._sizes = sizes
        self._rows = rows
        self._loads = loads
        self._free = free

    def build(self) -> None:
        """Update the rows to what each member gets."""
        members = len(self._loads)
        least, extras = divmod(sum(self._sizes.values()), members)
        unfilled: list[tuple[int, int]] = []
        # In a group that was balanced before, nearly all members already have what they should get.
        unusual = {position for position, load in enumerate(self._loads) if load != least}
        for position in sorted(unusual.union(range(members - extras, members))):
            load = self._loads[position]
            if load == least and (not extras or position < members - extras):
                continue
            has_extra = extras > 0
            quota = least + has_extra
            if load > quota:
                self._trim(position, quota)
            elif load < quota:
                if has_extra and position < members - extras:
                    # A later member may already own the extra partition.
                    quota -= 1
                    has_extra = False
                if load < quota:
                    unfilled.append((position, quota - load))
            extras -= has_extra
        self._fill(unfilled)

    def _trim(self, position: int, quota: int) -> None:
        """Topic by topic, a member keeps the first partitions in the order of the Java set that holds them."""
        row, trimmed = self._rows[position], {}
        is_listed = self._is_listed or len(row) < 2
        for name in row if is_listed else [name for name in self._sizes if name in row]:
            partitions = row[name]
            if len(partitions) > quota:
                ordered = self._set_order(partitions)
                self._free += [(name, partition, partition + 1) for partition in ordered[quota:]]
                if self._gains is not None:
                    self._gains += [(name, p, p + 1, position, NO_OWNER) for p in ordered[quota:]]
                partitions = tuple(sorted(ordered[:quota]))
            if partitions:
                trimmed[name] = partitions
            quota -= len(partitions)
        self._rows[position] = trimmed

    def _fill(self, unfilled: Sequence[tuple[int, int]]) -> None:
        numbers = numbers_below(max(self._sizes.values()))
        supply = iter(self._free)
        name, first, after = "", 0, 0
        for position, room in unfilled:
            row = dict(self._rows[position])
            left = room
            while left:
                if first == after:
                    name, first, after = next(supply, ("", 0, 0))
                if first == after:
                    break  # the rest is withheld
                taken = min(left, after - first)
                piece = numbers[first : first + taken]
                row[name] = tuple(sorted(row[name] + piece)) if name in row else piece
                if self._gains is not None:
                    self._gains.append((name, first, first + taken, NO_OWNER, position))
                first += taken
                left -= taken
            self._rows[position] = row
