"""Which worker runs which connectors and tasks: the assignors of a Connect group's leader as pure functions.

Source: IncrementalCooperativeAssignor (protocols `compatible` and `sessioned`) and EagerAssignor (`eager`) of Kafka
Connect 4.3. Connectors and tasks are distributed by the same rules, each kind on its own."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, cycle
from typing import Final

from kgm.frameworks.connect import CONNECTOR, Work
from kgm.java.hash_map import map_order
from kgm.java.strings import utf16_key

#: When workers have to give up work in consecutive rounds, the pauses grow, in ms: 1, 40, 1600, ...
_FIRST_PAUSE_MS: Final = 1
_PAUSE_GROWTH: Final = 40
_NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderState:
    """What a leader remembers from one rebalance to the next; a new leader remembers nothing.

    assigned: everything that it meant to be running somewhere. revoked: what it took away in the last round.
    waiting_since_empty: the workers that had nothing during the delay, which get the lost work. scheduled_ms: the end
    of the delay, 0 for none. has_revoked, successive: whether the last round took work away, and in how many successive
    rounds that happened. generation: the last one that it assigned."""

    assigned: frozenset[Work] = frozenset()
    revoked: frozenset[Work] = frozenset()
    waiting_since_empty: tuple[str, ...] = ()
    scheduled_ms: int = 0
    delay_ms: int = 0
    has_revoked: bool = False
    successive: int = 0
    generation: int = _NO_GENERATION
    members: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one rebalance gives to and takes from each worker. delay_ms: the time until all join again."""

    assigned: Mapping[str, tuple[Work, ...]] = field(default_factory=dict)
    revoked: Mapping[str, tuple[Work, ...]] = field(default_factory=dict)
    delay_ms: int = 0


def assign_incrementally(
    state: LeaderState, configured: Collection[Work], running: Mapping[str, Sequence[Work]], *, now_ms: int,
    max_delay_ms: int, last_generation: int, generation: int,
) -> tuple[Round, LeaderState]:  # fmt: skip
    """running: by member id, in the order in which the broker lists the members, what each worker runs when it joins.

    max_delay_ms: `scheduled.rebalance.max.delay.ms` of the leader. last_generation: the last one in which the leader
    got an assignment. generation: the one of this rebalance. now_ms: the time on the leader's clock, more than 0."""
    # Ties between workers are broken by the order of a hash map.
    names = list(running)
    loads = {names[place]: list(running[names[place]]) for place in map_order(names)}
    active = frozenset(chain.from_iterable(loads.values()))
    before = state.assigned if state.generation == last_generation else frozenset()
    if state.revoked & active:  # the revocation has not reached a worker
        before = active
    deleted = before - frozenset(configured)
    lost = before - active - deleted
    created = frozenset(configured) - before - active
    everything = list(chain.from_iterable(loads.values()))
    is_double = {one for one in active if everything.count(one) > 1} if len(everything) > len(active) else frozenset()
    revoked = {name: [one for one in has if one in deleted or one in is_double] for name, has in loads.items()}
    current = {name: [one for one in has if one not in deleted] for name, has in loads.items()}
    upcoming = {name: [one for one in has if one not in revoked[name]] for name, has in loads.items()}
    state, returned = _with_delay(state, lost, upcoming, now_ms=now_ms, max_delay_ms=max_delay_ms)
    state = _balanced(state, configured, upcoming, revoked, now_ms=now_ms, max_delay_ms=max_delay_ms)
    to_assign = (*_in_order(created), *(one for one in _in_order(returned) if one not in created))
    for is_connector in (True, False):
        _spread(
            upcoming, [one for one in to_assign if (one[1] == CONNECTOR) == is_connector], is_connector=is_connector
        )
    taken = frozenset(chain.from_iterable(revoked.values()))
    after = replace(
        state,
        assigned=frozenset(chain.from_iterable(upcoming.values())) - taken | lost,
        revoked=taken,
        generation=generation,
        members=frozenset(loads),
    )
    given = {name: tuple(one for one in has if one not in {*current[name]}) for name, has in upcoming.items()}
    return Round(assigned=given, revoked={n: tuple(r) for n, r in revoked.items()}, delay_ms=state.delay_ms), after


def assign_eagerly(configured: Iterable[Work], members: Iterable[str]) -> dict[str, tuple[Work, ...]]:
    """Assigns everything from scratch, round robin over the workers in the order of their ids: connectors first, then
    tasks."""
    shares: dict[str, list[Work]] = {name: [] for name in sorted(members, key=utf16_key)}
    work = sorted(_in_order(configured), key=lambda one: one[1] != CONNECTOR)
    for one, name in zip(work, cycle(shares), strict=False):
        shares[name].append(one)
    return {name: tuple(share) for name, share in shares.items()}


def as_joined(work: Iterable[Work]) -> tuple[Work, ...]:
    """What a worker runs, in the order in which it reports it, which is also the order in which it has to give work up:
    by connector, with the connectors that it runs itself first (ConnectProtocol.Assignment.asMap)."""
    every = [*work]
    own = [name for name, number in every if number == CONNECTOR]
    names = dict.fromkeys([*(own[place] for place in map_order(own)), *(name for name, _ in every)])
    return tuple(one for name in names for one in every if one[0] == name)


def _with_delay(
    state: LeaderState, lost: frozenset[Work], upcoming: dict[str, list[Work]], *, now_ms: int, max_delay_ms: int
) -> tuple[LeaderState, frozenset[Work]]:
    """Holds lost work back for a while, so that a worker that restarts gets it again. Returns the work that will be
    spread over all workers in this round; work for the workers that waited is already in `upcoming`."""
    reset = replace(state, waiting_since_empty=(), scheduled_ms=0, delay_ms=0)
    if not lost and not state.has_revoked:
        return reset, frozenset()
    if (state.scheduled_ms <= 0 and state.members <= upcoming.keys()) or max_delay_ms == 0:
        return state, lost
    if 0 < state.scheduled_ms <= now_ms:
        reset = replace(reset, has_revoked=False)
        waiting = [name for name in state.waiting_since_empty if name in upcoming]
        if not waiting:
            return reset, lost
        for is_connector in (True, False):
            kind = [one for one in _in_order(lost) if (one[1] == CONNECTOR) == is_connector]
            for one, name in zip(kind, cycle(waiting), strict=False):
                upcoming[name].append(one)
        return reset, frozenset()
    empty = [name for name, has in upcoming.items() if not has]
    waiting = [empty[place] for place in map_order(empty)]
    delay_ms = min(state.scheduled_ms - now_ms, max_delay_ms) if now_ms < state.scheduled_ms else max_delay_ms
    held = replace(
        state,
        waiting_since_empty=tuple(dict.fromkeys((*state.waiting_since_empty, *waiting))),
        delay_ms=delay_ms,
        scheduled_ms=now_ms + delay_ms,
    )
    return held, frozenset()


def _balanced(
    state: LeaderState, configured: Collection[Work], upcoming: dict[str, list[Work]],
    revoked: dict[str, list[Work]], *, now_ms: int, max_delay_ms: int,
) -> LeaderState:  # fmt: skip
    """Takes work from workers that have more than their share. Not during a delay; in consecutive rounds only after a
    pause."""
    if state.delay_ms:
        return replace(state, has_revoked=False)
    surplus = _surplus(configured, upcoming)
    if not surplus:
        return replace(state, has_revoked=False, successive=0) if state.has_revoked else state
    if state.has_revoked:
        state = replace(state, successive=state.successive + 1)
        pause_ms = _pause_ms(state.successive, max_delay_ms)
        if pause_ms:
            return replace(state, delay_ms=pause_ms, scheduled_ms=now_ms + pause_ms)
    for name, some in surplus.items():
        revoked[name] += [one for one in some if one not in revoked[name]]
        upcoming[name][:] = [one for one in upcoming[name] if one not in some]
    return replace(state, has_revoked=True)


def _surplus(configured: Collection[Work], loads: Mapping[str, Sequence[Work]]) -> dict[str, set[Work]]:
    """The work that each worker has beyond its share, taken from the front of its list."""
    surplus: dict[str, set[Work]] = {}
    if not configured or not any(loads.values()):
        return surplus
    for is_connector in (True, False):
        total = sum((one[1] == CONNECTOR) == is_connector for one in configured)
        share, extras = divmod(total, len(loads))
        of_kind = {n: [one for one in has if (one[1] == CONNECTOR) == is_connector] for n, has in loads.items()}
        sizes = [len(has) for has in of_kind.values()]
        if sizes.count(share + 1) == extras and sizes.count(share) + extras == len(loads):
            continue
        for name, has in of_kind.items():
            if len(has) <= share:
                continue
            most = share
            if extras:
                extras -= 1
                most += 1
            if len(has) > most:
                surplus.setdefault(name, set()).update(has[: len(has) - most])
    return surplus


def _spread(loads: dict[str, list[Work]], work: Sequence[Work], *, is_connector: bool) -> None:
    """Gives one item at a time to each of the workers with the fewest, until nothing is left."""

    def size(name: str) -> int:
        return sum((one[1] == CONNECTOR) == is_connector for one in loads[name])

    names = sorted(loads, key=lambda name: (size(name), utf16_key(name)))
    left = list(reversed(work))
    while left:
        least = size(names[0])
        for name in list(names[: next((i for i, each in enumerate(names) if size(each) > least), len(names))]):
            if not left:
                break
            loads[name].append(left.pop())


def _pause_ms(successive: int, max_delay_ms: int) -> int:
    """Source: ExponentialBackoff of Kafka's clients, without jitter."""
    first_ms = _FIRST_PAUSE_MS if max_delay_ms else 0
    if max_delay_ms <= first_ms:
        return first_ms
    most = math.log(max_delay_ms / max(first_ms, 1)) / math.log(_PAUSE_GROWTH)
    return min(int(first_ms * math.pow(_PAUSE_GROWTH, min(successive, most))), max_delay_ms)


def _in_order(work: Iterable[Work]) -> list[Work]:
    return sorted(work, key=lambda one: (utf16_key(one[0]), one[1]))
