"""The ways to restart members of a group: all together, or in batches of some size, order and pause, with or without
removing them before they start again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kgm.model.errors import KgmError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.request import ordered
from kgm.simulation.plan.bounce_plan import MemberOrder, Rolling, batches_of, units_of
from kgm.text.durations import typed_duration

#: The pauses between batches to try, in ms. They matter where a stopped process stays a member for a while.
PAUSES_MS = (0, 30_000, 60_000)
_ORDERS = (MemberOrder.ID, MemberOrder.LEADER_LAST, MemberOrder.HOST, MemberOrder.CLIENT_ID, MemberOrder.PARTITIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanShape:
    """One way to restart. rolling: None means all members together. bounce: the members, in order. units: the members
    of each process with several. removes_first: whether a batch that has stopped is removed before it starts again."""

    rolling: Rolling | None
    order: MemberOrder
    bounce: tuple[str, ...]
    units: tuple[tuple[str, ...], ...] = ()
    removes_first: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The way as options of `kgm simulate-bounce` and `kgm rollout`."""
        last = ("--remove-first",) if self.removes_first else ()
        if self.rolling is None:
            return ("--together", *last)
        words = ["--rolling", "--max-unavailable", str(self.rolling.max_unavailable)]
        if self.rolling.pause_ms:
            words += ["--pause", typed_duration(self.rolling.pause_ms)]
        if self.order is not MemberOrder.ID:
            words += ["--order", self.order.value]
        return (*words, *last)

    @property
    def batches(self) -> tuple[frozenset[str], ...]:
        size = None if self.rolling is None else self.rolling.max_unavailable
        return tuple(map(frozenset, batches_of(self.bounce, self.units, size)))


def shapes_of(
    snapshot: GroupSnapshot, bouncing: Sequence[str], *, max_unavailable: int | None = None,
    pauses_ms: Sequence[int] = PAUSES_MS, may_remove: bool = False, units: tuple[tuple[str, ...], ...] = (),
) -> tuple[PlanShape, ...]:  # fmt: skip
    """Every way to restart these members, starting with the ones that differ most, so that a search that ends early has
    seen some of each kind.

    Two ways with the same sequence of batches count as one. units: the members of each process with several.
    max_unavailable: the most processes that may be away at the same time. may_remove: whether to add each way with
    `removes_first` too. An order that does not apply to the group, or needs a leader that is not known, is left out."""
    processes = len(units_of(bouncing, units))
    most = min(max_unavailable or processes, processes)
    coarse = _coarse(most)
    others = [size for size in range(1, most + 1) if size not in coarse]
    orders = list(_orders(snapshot, bouncing))
    shapes: dict[tuple[object, ...], PlanShape] = {}
    for pause_ms in dict.fromkeys(pauses_ms):
        for sizes in (coarse, others):
            for order, members in orders:
                for size, removes_first in itertools.product(sizes, (False, True) if may_remove else (False,)):
                    shape = replace(_shape(members, units, size, order, pause_ms), removes_first=removes_first)
                    pause = 0 if shape.rolling is None else pause_ms
                    shapes.setdefault((pause, shape.batches, removes_first), shape)
    return tuple(shapes.values())


def _shape(
    members: tuple[str, ...], units: tuple[tuple[str, ...], ...], size: int, order: MemberOrder, pause_ms: int
) -> PlanShape:
    is_everyone = size == len(units_of(members, units))
    rolling = None if is_everyone else Rolling(max_unavailable=size, pause_ms=pause_ms)
    return PlanShape(rolling=rolling, order=order, bounce=members, units=units)


def _coarse(most: int) -> tuple[int, ...]:
    """1, the maximum, and the powers of two in between."""
    powers = (1 << exponent for exponent in range(1, most.bit_length()))
    return tuple(dict.fromkeys((1, most, *(size for size in powers if size < most))))


def _orders(snapshot: GroupSnapshot, bouncing: Iterable[str]) -> Iterator[tuple[MemberOrder, tuple[str, ...]]]:
    members = tuple(bouncing)
    for order in _ORDERS:
        try:
            yield order, ordered(members, snapshot, order)
        except KgmError:
            continue
