"""Turns the owners of numbers into a result: partitions by member and topic.

A large result has a million entries, and most are alike: partition 7 of this topic and of all the others. So tuples are
cut once from one run of integers, and shared. Where most members have some partitions of most topics, the result is
stored as columns: one list per topic, with an entry for each member. Its `AnswerRow`s read like dictionaries, and
topics that are assigned in the same way share one column."""

from bisect import bisect_left, bisect_right
from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from functools import lru_cache
from itertools import chain, compress, repeat
from typing import Final

from kgm.assignors.contract import Assigned, MemberSpec
from kgm.assignors.partition_numbers import NO_OWNER, Layout

_Pieces = list[tuple[int, ...]]

# A result with fewer entries is made of dictionaries, which are faster to read.
_LARGE: Final = 20_000
_SMALLEST_RUN: Final = 256
_LARGEST_KEPT_RUN: Final = 1 << 16
# Up to this many partitions of one topic per member count as few.
_FEW: Final = 8
_NOTHING: Final[tuple[int, ...]] = ()


class AnswerRow(Mapping[str, tuple[int, ...]]):
    """What one member gets: its row in the columns, without topics of which it gets no partitions."""

    __slots__ = ("columns", "position")

    def __init__(self, columns: Mapping[str, Sequence[tuple[int, ...]]], position: int) -> None:
        self.columns = columns
        self.position = position

    def __getitem__(self, topic: str) -> tuple[int, ...]:
        partitions = self.columns[topic][self.position]
        if not partitions:
            raise KeyError(topic)
        return partitions

    def __iter__(self) -> Iterator[str]:
        return compress(self.columns, self._entries())

    def __len__(self) -> int:
        entries = self._entries()
        return len(entries) - entries.count(_NOTHING)

    def items(self) -> ItemsView[str, tuple[int, ...]]:
        return _Items(self)

    def values(self) -> ValuesView[tuple[int, ...]]:
        return _Values(self)

    def _entries(self) -> list[tuple[int, ...]]:
        """What the member gets from every topic, which may be nothing."""
        position = self.position
        return [column[position] for column in self.columns.values()]

    def pairs(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """(topic, partitions) for each topic of which the member gets any."""
        entries = self._entries()
        return zip(compress(self.columns, entries), filter(None, entries), strict=True)

    def parts(self) -> Iterator[tuple[int, ...]]:
        """The partitions of each topic of which the member gets any."""
        return filter(None, self._entries())

    def __repr__(self) -> str:
        return repr(dict(self.items()))


class _Items(ItemsView[str, tuple[int, ...]]):
    """The items of a row, without looking up each topic."""

    _mapping: AnswerRow

    def __iter__(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        return self._mapping.pairs()


class _Values(ValuesView[tuple[int, ...]]):
    """The values of a row, without looking up each topic."""

    _mapping: AnswerRow

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return self._mapping.parts()


def numbers_below(count: int) -> tuple[int, ...]:
    """At least `count` integers from 0 on, as one tuple to cut pieces from. Comparing pieces is fast, because their
    integers are the same objects."""
    size = _SMALLEST_RUN
    while size < count:
        size *= 2
    return _run(size) if size <= _LARGEST_KEPT_RUN else tuple(range(count))


@lru_cache(maxsize=4)
def _run(size: int) -> tuple[int, ...]:
    return tuple(range(size))


class _Answer:
    """A result that is being built. entries: approximately how many entries it will have."""

    def __init__(self, layout: Layout, members: Sequence[MemberSpec], entries: int) -> None:
        self._members = members
        self._member_count = len(members)
        self.is_dense = entries >= _LARGE and entries * 4 >= len(members) * len(layout.topics)
        self.columns: dict[str, Sequence[tuple[int, ...]]] = {}
        self.rows: list[dict[str, tuple[int, ...]]] = [] if self.is_dense else [{} for _ in members]
        self._filled: dict[int, _Pieces] = {}

    def deal(self, topic: str, subscribers: Sequence[int], first: int, pieces: _Pieces) -> None:
        """Assign one topic: the first piece to the subscriber at position `first`, and so on, wrapping around, until
        there are no more pieces.

        To deal the same pieces again, pass the same list object, which must be kept alive."""
        if not self.is_dense:
            rows = self.rows
            for position, piece in zip(chain(subscribers[first:], subscribers[:first]), pieces, strict=False):
                rows[position][topic] = piece
        elif len(subscribers) == self._member_count:
            column = self._filled.get(id(pieces))
            if column is None:
                column = self._filled[id(pieces)] = pieces + [_NOTHING] * (self._member_count - len(pieces))
            self.columns[topic] = column[-first:] + column[:-first] if first else column
        else:
            column = [_NOTHING] * self._member_count
            for position, piece in zip(chain(subscribers[first:], subscribers[:first]), pieces, strict=False):
                column[position] = piece
            self.columns[topic] = column

    def done(self) -> Assigned:
        if self.is_dense:
            ids = [member.member_id for member in self._members]
            return dict(zip(ids, map(AnswerRow, repeat(self.columns), range(len(ids))), strict=True))
        return {member.member_id: row for member, row in zip(self._members, self.rows, strict=True)}


def in_blocks(layout: Layout, members: Sequence[MemberSpec]) -> Assigned:
    """Assign each topic in contiguous blocks to its subscribers, in the order of the members; the first ones get one
    partition more."""
    numbers = _numbers(layout)
    subscribers_of = layout.subscribers(members)
    answer = _Answer(layout, members, _entries(layout, subscribers_of))
    cut: dict[tuple[int, int], _Pieces] = {}
    for topic, subscribers in zip(layout.topics, subscribers_of, strict=True):
        key = topic.partitions, len(subscribers)
        if key not in cut:
            cut[key] = _blocks(numbers, *key)
        if cut[key]:
            answer.deal(topic.name, subscribers, 0, cut[key])
    return answer.done()


def in_turn(layout: Layout, members: Sequence[MemberSpec], subscribers_of: Sequence[Sequence[int]]) -> Assigned:
    """Assign all partitions round robin, each to the next member that subscribes to the topic.

    subscribers_of: for each topic, the positions of its subscribers, ascending."""
    numbers = _numbers(layout)
    answer = _Answer(layout, members, _entries(layout, subscribers_of))
    dealt: dict[tuple[int, int], _Pieces] = {}
    turn = 0
    for topic, subscribers in zip(layout.topics, subscribers_of, strict=True):
        if not subscribers or not topic.partitions:
            continue
        count = len(subscribers)
        first = bisect_left(subscribers, turn) % count
        key = topic.partitions, count
        if key not in dealt:
            dealt[key] = [numbers[i : topic.partitions : count] for i in range(min(count, topic.partitions))]
        answer.deal(topic.name, subscribers, first, dealt[key])
        turn = subscribers[(first + topic.partitions - 1) % count] + 1
    return answer.done()


def by_owner(layout: Layout, members: Sequence[MemberSpec], owner: Sequence[int]) -> Assigned:
    """owner: for each number, the position of the member that gets it, or NO_OWNER."""
    answer = _Answer(layout, members, min(layout.total, len(members) * len(layout.topics)))
    singles = [(number,) for number in _numbers(layout)[: max((t.partitions for t in layout.topics), default=0)]]
    rows = [*answer.rows, {}]
    for topic, start, end in zip(layout.topics, layout.starts, layout.starts[1:], strict=False):
        owners = owner[start:end]
        if answer.is_dense:
            column = [_NOTHING] * (len(members) + 1)  # the last entry is for partitions without an owner
            different = len(set(owners))
            if different == len(owners):
                for position, single in zip(owners, singles, strict=False):
                    column[position] = single
            elif different * _FEW > len(owners):  # adding one by one is faster than gathering
                for position, single in zip(owners, singles, strict=False):
                    column[position] += single
            else:
                for position, partitions in _gathered(owners).items():
                    column[position] = tuple(partitions)
            del column[NO_OWNER]
            answer.columns[topic.name] = column
        else:
            for position, partitions in _gathered(owners).items():
                rows[position][topic.name] = singles[partitions[0]] if len(partitions) == 1 else tuple(partitions)
    return answer.done()


def lines_of(members: Sequence[MemberSpec]) -> tuple[Mapping[str, Sequence[tuple[int, ...]]], list[int]] | None:
    """If everything that these members own comes from rows of one earlier result in columns: its columns, and for each
    row, the position of the member that owns it (NO_OWNER: none). None otherwise."""
    columns: Mapping[str, Sequence[tuple[int, ...]]] | None = None
    lines: list[int] = []
    for position, member in enumerate(members):
        row = member.owned
        if type(row) is AnswerRow:
            if columns is None:
                columns = row.columns
                lines = [NO_OWNER] * max(map(len, columns.values()), default=0)
            if row.columns is not columns or lines[row.position] != NO_OWNER:
                return None
            lines[row.position] = position
        elif row:
            return None
    return None if columns is None else (columns, lines)


def with_changes(
    layout: Layout, members: Sequence[MemberSpec], owner: Sequence[int], changed: Mapping[int, int]
) -> Assigned:
    """The result of `by_owner` if the members keep what they own, which came from an earlier result, except for some
    changed partitions.

    changed: for each changed number, its previous owner (a position or NO_OWNER)."""
    gained: dict[tuple[int, int], set[int]] = {}
    lost: dict[tuple[int, int], set[int]] = {}
    for number, before in changed.items():
        topic = bisect_right(layout.starts, number) - 1
        partition = number - layout.starts[topic]
        lost.setdefault((before, topic), set()).add(partition)
        gained.setdefault((owner[number], topic), set()).add(partition)
    rows: dict[int, dict[str, tuple[int, ...]]] = {}
    for position, topic in sorted(gained.keys() | lost.keys()):
        if position != NO_OWNER:
            mine, name = members[position].owned, layout.topics[topic].name
            row = rows.get(position)
            if row is None:
                row = rows[position] = {topic: tuple(partitions) for topic, partitions in mine.items()}
            key = position, topic
            left = set(row.pop(name, ())).difference(lost.get(key, ())).union(gained.get(key, ()))
            if left:
                row[name] = tuple(sorted(left))
    unchanged: Assigned = {member.member_id: member.owned for member in members}  # type: ignore[misc]  # tuples
    return unchanged | {members[position].member_id: row for position, row in rows.items()}


def by_member(layout: Layout, members: Sequence[MemberSpec], numbers: Sequence[Sequence[int]]) -> Assigned:
    """numbers: for each member, the numbers that it gets, in any order; two members may get the same number."""
    rows: list[dict[str, tuple[int, ...]]] = [{} for _ in members]
    for row, mine in zip(rows, numbers, strict=True):
        ordered, done, topic = sorted(mine), 0, 0
        while done < len(ordered):
            topic = bisect_left(layout.starts, ordered[done] + 1, topic) - 1
            start = layout.starts[topic]
            end = bisect_left(ordered, layout.starts[topic + 1], done)
            row[layout.topics[topic].name] = tuple([number - start for number in ordered[done:end]])
            done = end
    return {member.member_id: row for member, row in zip(members, rows, strict=True)}


def _numbers(layout: Layout) -> tuple[int, ...]:
    """The partition numbers of the largest topic, which include those of every other topic."""
    return numbers_below(max((topic.partitions for topic in layout.topics), default=0))


def _entries(layout: Layout, subscribers_of: Sequence[Sequence[int]]) -> int:
    """The largest possible number of entries: for each topic, the members with some of its partitions, summed over all
    topics."""
    return sum(
        min(topic.partitions, len(subscribers))
        for topic, subscribers in zip(layout.topics, subscribers_of, strict=True)
    )


def _blocks(numbers: tuple[int, ...], partitions: int, subscribers: int) -> _Pieces:
    """A block for each subscriber, or for each partition if there are fewer."""
    if not subscribers:
        return []
    size, over = divmod(partitions, subscribers)
    wide = over * (size + 1)
    blocks = [numbers[first : first + size + 1] for first in range(0, wide, size + 1)]
    if size:
        blocks += [numbers[first : first + size] for first in range(wide, partitions, size)]
    return blocks


def _gathered(owners: Sequence[int]) -> dict[int, list[int]]:
    """The partitions of one topic by owner."""
    held: dict[int, list[int]] = {}
    for partition, position in enumerate(owners):
        if position in held:
            held[position].append(partition)
        else:
            held[position] = [partition]
    return held
