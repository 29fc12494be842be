"""What groups of both protocols need to play many members together: their random numbers (`random_stream`, `timing`),
who consumes what (`OwnershipLedger`), and the order of timers, all in arrays.

Also what that costs, in requests: how many requests the plain path would handle in the same time
(`kgm.simulation.draws.budget`). The cost is derived from sizes, not from a clock, so it is the same on every machine;
`bench/rounds.py` shows what draws cost by this count next to the time that they take."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kgm.model.assignment import Partitions
from kgm.records.record import Record
from kgm.simulation.play.ownership_ledger import OwnershipLedger
from kgm.simulation.play.random_stream import FACTORS, INCREMENT, UNIT
from kgm.simulation.play.timing import NETWORK_MS, SLOW_BELOW, SLOW_BITS, SLOW_MS, USUAL_UNIT
from kgm.simulation.play.world import World

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
RandomWords = npt.NDArray[np.uint64]

_INCREMENT, _FIRST, _SECOND = np.uint64(INCREMENT), np.uint64(FACTORS[0]), np.uint64(FACTORS[1])
_SLOW_MASK: Final = np.uint64((1 << SLOW_BITS) - 1)
_BITS = {bits: np.uint64(bits) for bits in (11, SLOW_BITS, 27, 30, 31)}


def random_words(keys: RandomWords, drawn: RandomWords, count: int) -> RandomWords:
    """The next numbers of each stream: one row for the first of all streams, one for the second, and so on."""
    ahead = np.arange(1, count + 1, dtype=np.uint64)
    mixed: RandomWords = (ahead[:, None] + drawn) * _INCREMENT + keys
    mixed = (mixed ^ (mixed >> _BITS[30])) * _FIRST
    mixed = (mixed ^ (mixed >> _BITS[27])) * _SECOND
    return mixed ^ (mixed >> _BITS[31])


def network_ms(word: RandomWords) -> Floats:
    """One way over the network (`timing.draw_ms`)."""
    least, most = NETWORK_MS
    value = (word >> _BITS[SLOW_BITS]).astype(np.float64)
    value *= USUAL_UNIT
    value *= most - least
    value += least
    slow = word & _SLOW_MASK
    late = slow < SLOW_BELOW
    if late.any():
        value[late] += SLOW_MS[0] + (SLOW_MS[1] - SLOW_MS[0]) * (slow[late].astype(np.float64) / SLOW_BELOW)
    return value


def shares(word: RandomWords) -> Floats:
    """Shares from 0 inclusive to 1 exclusive (`RandomStream.random`)."""
    return (word >> _BITS[11]).astype(np.float64) * UNIT


def reaction_ms(word: RandomWords, least: Floats, span: Floats) -> Floats:
    """How long clients take (`timing.reaction_ms`). span: from the least to the most."""
    share = shares(word)
    square = share * share
    fourth = square * square
    return least + span * (fourth * fourth)


def run_sizes(first: Ints, end: int) -> Ints:
    """The sizes of runs that begin at these places, one after the other."""
    places = np.empty(len(first) + 1, dtype=np.int64)
    places[:-1], places[-1] = first, end
    sizes: Ints = places[1:] - places[:-1]
    return sizes


#: What `ArrayLedger.save` returns.
LedgerState = tuple[tuple[npt.NDArray[Any], ...], tuple[int, int, int]]

#: No consumer, or no owner yet.
NO_MEMBER = -1


class ArrayLedger(OwnershipLedger):
    """The ledger that it is created from, as arrays with an entry for each partition, until `written`. Identities
    are numbers (`number_of`).

    consumer: who consumes a partition; latest: its latest owner. before_use: called before a member that is played by
    events stops or begins to consume, to carry out what others have done by then."""

    def __init__(self, before: OwnershipLedger, before_use: Callable[[], None] = lambda: None) -> None:
        self._ledger = before
        self._before_use = before_use
        self.holdings = before.holdings
        self.handovers, self.consumed, self.fewest_consumed = before.handovers, before.consumed, before.fewest_consumed
        self.starts: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []
        self.total = 0
        for topic, states in before.states.items():
            self.starts[topic], self.counts[topic] = self.total, len(states)
            self.total += len(states)
        states = [state for states in before.states.values() for state in states]
        number_of = self.number_of
        consumers = [NO_MEMBER if not state.consumers else number_of(next(iter(state.consumers))) for state in states]
        self.consumer: Ints = np.array(consumers, dtype=np.int64)
        #: Who else consumes a partition, while a fenced member has not noticed yet.
        self._others: dict[int, set[int]] = {
            at: {*map(number_of, state.consumers)} - {consumers[at]}
            for at, state in enumerate(states)
            if len(state.consumers) > 1
        }
        #: Times at which partitions lost their consumers, or got one, that are not counted yet.
        self._ended_ms: list[Floats] = []
        self._begun_ms: list[Floats] = []
        latest = [NO_MEMBER if state.last is None else number_of(state.last) for state in states]
        self.latest: Ints = np.array(latest, dtype=np.int64)
        self._idle_since_ms: Floats = np.array([state.idle_since_ms for state in states], dtype=np.float64)
        self._changed_ms: Floats = np.array([state.changed_ms for state in states], dtype=np.float64)
        self._stopped_ms: Floats = np.array([state.stopped_ms for state in states], dtype=np.float64)

    @staticmethod
    def can_hold(ledger: OwnershipLedger) -> bool:
        """Whether rounds can be played with the arrays: no partition has two consumers, and holdings are not
        recorded."""
        return ledger.holdings is None and all(
            len(state.consumers) < 2 for states in ledger.states.values() for state in states
        )

    def number_of(self, identity: str) -> int:
        number = self._numbers.get(identity)
        if number is None:
            number = self._numbers[identity] = len(self.names)
            self.names.append(identity)
        return number

    def written(self) -> OwnershipLedger:
        """The ledger that this was created from, updated to its present state."""
        ledger, names = self._ledger, self.names
        ledger.handovers, ledger.consumed, ledger.fewest_consumed = self.handovers, self.consumed, self.fewest_consumed
        states = [state for states in ledger.states.values() for state in states]
        columns = (self.consumer, self.latest, self._idle_since_ms, self._changed_ms, self._stopped_ms)
        for state, consumer, latest, idle_since_ms, changed_ms, stopped_ms in zip(
            states, *(column.tolist() for column in columns), strict=True
        ):
            state.consumers = set() if consumer == NO_MEMBER else {names[consumer]}
            state.last = None if latest == NO_MEMBER else names[latest]
            state.idle_since_ms, state.changed_ms, state.stopped_ms = idle_since_ms, changed_ms, stopped_ms
        for at, others in self._others.items():
            states[at].consumers |= {names[number] for number in others}
        return ledger

    def consumed_by(self, identity: str, among: Ints | None = None) -> dict[str, tuple[int, ...]]:
        """What a member consumes. among: the only partitions that it may consume, if that is known."""
        number = self.number_of(identity)
        mine = np.flatnonzero(self.consumer == number) if among is None else among[self.consumer[among] == number]
        return self._by_topic([*mine.tolist(), *self._as_another(number)])

    def _by_topic(self, places: Iterable[int]) -> dict[str, tuple[int, ...]]:
        """The partitions with these entries, by topic, ascending."""
        found: dict[str, tuple[int, ...]] = {}
        mine = np.sort(np.array([*places], dtype=np.int64))
        for topic, start in self.starts.items():
            numbers = mine[(mine >= start) & (mine < start + self.counts[topic])] - start
            if len(numbers):
                found[topic] = tuple(numbers.tolist())
        return found

    def _as_another(self, number: int) -> list[int]:
        return [at for at, others in self._others.items() if number in others]

    def drop(self, identity: str, partitions: Partitions, now_ms: float) -> None:
        """One member stops consuming."""
        self._before_use()
        if self.holdings is not None:
            self.holdings.drop(identity, partitions, now_ms)
        number = self.number_of(identity)
        self.consumed -= sum(self._drop_one(at, number, now_ms) for at in self._places_of(partitions))
        self.fewest_consumed = min(self.fewest_consumed, self.consumed)

    def _drop_one(self, at: int, number: int, now_ms: float) -> bool:
        """Returns whether the partition has lost its last consumer."""
        others = self._others.get(at)
        if others is not None:
            if self.consumer[at] == number:
                self.consumer[at] = others.pop()
            others.discard(number)
            if not others:
                del self._others[at]
        elif self.consumer[at] == number:
            self.consumer[at] = NO_MEMBER
            self._idle_since_ms[at] = now_ms
            return True
        return False

    def take(self, identity: str, partitions: Partitions, now_ms: float) -> None:
        """One member begins to consume."""
        self._before_use()
        if self.holdings is not None:
            self.holdings.take(identity, partitions, now_ms)
        number = self.number_of(identity)
        self.consumed += sum(self._take_one(at, number, now_ms) for at in self._places_of(partitions))

    def _take_one(self, at: int, number: int, now_ms: float) -> bool:
        """Returns whether the partition had no consumer."""
        latest, consumer = self.latest[at], int(self.consumer[at])
        if consumer == NO_MEMBER:
            if latest != NO_MEMBER:
                self._stopped_ms[at] += now_ms - self._idle_since_ms[at]
        elif consumer != number:
            self._others[at] = (self._others.get(at, set()) | {consumer}) - {number}
        if latest != number:
            self.handovers += bool(latest != NO_MEMBER)
            self.latest[at] = number
            self._changed_ms[at] = now_ms
        self.consumer[at] = number
        return consumer == NO_MEMBER

    def _places_of(self, partitions: Partitions) -> list[int]:
        return [
            self.starts[topic] + number
            for topic, numbers in partitions.items()
            for number in numbers
            if number < self.counts.get(topic, 0)
        ]

    def drop_all(self, at_ms: Floats) -> None:
        """All members stop consuming, each at its time. at_ms: by identity number."""
        taken = self.consumer >= 0
        np.copyto(self._idle_since_ms, at_ms[self.consumer], where=taken)
        self.consumer = np.full(self.total, NO_MEMBER, dtype=np.int64)
        self.consumed = 0
        self.fewest_consumed = min(self.fewest_consumed, 0)

    def take_all(self, owner: Ints, at_ms: Floats) -> None:
        """All members begin to consume, each at its time. owner: for each partition the number of an identity, or
        NO_MEMBER. at_ms: by identity number. No partition has a consumer before."""
        taken = owner >= 0
        self._begin(taken, owner, at_ms[owner])
        self.consumed += int(np.count_nonzero(taken))

    def exchange(self, lost: Flags, gained: Flags, taker: Ints, at_ms: Floats) -> None:
        """Members stop consuming some partitions, and begin to consume others, each at its time. taker: for each gained
        partition, which has no consumer, the number of an identity. at_ms: by identity number."""
        until_ms, from_ms = at_ms[self.consumer], at_ms[taker]
        self._count(until_ms[lost], from_ms[gained])
        np.copyto(self._idle_since_ms, until_ms, where=lost)
        self.consumer = np.where(lost, NO_MEMBER, self.consumer)
        self._begin(gained, taker, from_ms)

    def end(self, places: Ints, until_ms: Floats) -> None:
        """Consumers stop consuming these partitions, each at its time; `count` comes after all of them."""
        self._hold("drop", places, self.consumer[places], until_ms)
        if self._others:
            is_shared = np.isin(places, [*self._others])
            for at, at_ms in zip(places[is_shared].tolist(), until_ms[is_shared].tolist(), strict=True):
                self._drop_one(at, int(self.consumer[at]), at_ms)
            places, until_ms = places[~is_shared], until_ms[~is_shared]
        self.consumer[places] = NO_MEMBER
        self._idle_since_ms[places] = until_ms
        self._ended_ms.append(until_ms)

    def begin(self, places: Ints, takers: Ints, from_ms: Floats) -> None:
        """Members begin to consume these partitions, each at its time; `count` comes after all of them. takers: numbers
        of identities."""
        self._hold("take", places, takers, from_ms)
        is_shared = self.consumer[places] != NO_MEMBER
        if is_shared.any():
            rows = (column[is_shared].tolist() for column in (places, takers, from_ms))
            for at, taker, at_ms in zip(*rows, strict=True):
                self._take_one(at, taker, at_ms)
            places, takers, from_ms = places[~is_shared], takers[~is_shared], from_ms[~is_shared]
        latest = self.latest[places]
        had_one, differs = latest != NO_MEMBER, latest != takers
        had = places[had_one]
        self._stopped_ms[had] += from_ms[had_one] - self._idle_since_ms[had]
        self.handovers += int(np.count_nonzero(differs & had_one))
        self._changed_ms[places[differs]] = from_ms[differs]
        self.latest[places] = self.consumer[places] = takers
        self._begun_ms.append(from_ms)

    def _hold(self, what: str, places: Ints, numbers: Ints, at_ms: Floats) -> None:
        """Record holdings, if they are recorded."""
        if self.holdings is not None:
            for place, number, each_ms in zip(places.tolist(), numbers.tolist(), at_ms.tolist(), strict=True):
                getattr(self.holdings, what)(self.names[number], self._by_topic([place]), each_ms)

    def count(self) -> None:
        """Update how many partitions are consumed, after members have stopped (`end`) or begun."""
        if self._ended_ms or self._begun_ms:
            self._count(np.concatenate([*self._ended_ms, []]), np.concatenate([*self._begun_ms, []]))
            self._ended_ms.clear()
            self._begun_ms.clear()

    def _begin(self, gained: Flags, taker: Ints, from_ms: Floats) -> None:
        """Partitions without a consumer get one. taker, from_ms: the consumer and the time, for each gained
        partition."""
        had_one = gained & (self.latest >= 0)
        np.add(self._stopped_ms, from_ms - self._idle_since_ms, out=self._stopped_ms, where=had_one)
        differs = gained & (self.latest != taker)
        self.handovers += int(np.count_nonzero(differs & had_one))
        np.copyto(self._changed_ms, from_ms, where=differs)
        np.copyto(self.latest, taker, where=gained)
        np.copyto(self.consumer, taker, where=gained)

    def _count(self, until_ms: Floats, from_ms: Floats) -> None:
        """Update how many partitions are consumed, and the lowest number so far, with the times at which partitions
        lost their consumers, and at which others got one. What stops at the same time comes first."""
        at_ms = np.concatenate([until_ms, from_ms])
        begins = np.ones(len(at_ms), dtype=np.bool_)  # of times that are equal
        begins[1:] = at_ms[1:] != at_ms[:-1]
        begins[len(until_ms) : len(until_ms) + 1] = True
        first = np.flatnonzero(begins)
        changes = run_sizes(first, len(at_ms)) * np.where(first < len(until_ms), -1, 1)
        order = np.argsort(at_ms[first], kind="stable")
        fewest = (self.consumed + np.cumsum(changes[order])).min(initial=self.fewest_consumed)
        self.fewest_consumed = min(self.fewest_consumed, int(fewest))
        self.consumed += len(from_ms) - len(until_ms)

    def save(self) -> LedgerState:
        """Save the state that `exchange` changes."""
        arrays = self.consumer, self.latest, self._idle_since_ms, self._changed_ms, self._stopped_ms
        return tuple(array.copy() for array in arrays), (self.handovers, self.consumed, self.fewest_consumed)

    def restore(self, state: LedgerState) -> None:
        arrays, (self.handovers, self.consumed, self.fewest_consumed) = state
        self.consumer, self.latest, self._idle_since_ms, self._changed_ms, self._stopped_ms = arrays


#: This many turns are left free each time, which is more than the sessions that can be extended in the meantime.
_FREE: Final = 1 << 30


class ReservedTimerOrder:
    """Orders the timers of members in bulk among those that the coordinator set meanwhile, because it only learns of
    them later. Of timers with equal deadlines the one that was set first fires first: each has a turn. So whenever the
    coordinator is about to act, turns are left free for the sessions that these members have extended by then.

    times_ms: when the coordinator has acted. first: the first of the turns left free before each of these. recorded:
    how many records were kept by then."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._times_ms: list[float] = []
        self._first: list[int] = []
        self._recorded: list[int] = []

    def reserve(self) -> None:
        """The coordinator is about to act. What members in bulk do at the same time comes first."""
        kept = self._world.kept_records
        self._times_ms.append(self._world.clock.now_ms)
        self._first.append(self._world.runtime.reserve_turns(_FREE))
        self._recorded.append(0 if kept is None else len(kept))

    def clear(self) -> None:
        """Members in bulk have done everything that is due by now."""
        self._times_ms.clear()
        self._first.clear()
        self._recorded.clear()

    def at(self, at_ms: Floats) -> Ints:
        """A turn for each session that is extended at these times, in ascending order. The turn before it is free too,
        for a timer that is set together with it."""
        first = np.array([*self._first, self._world.runtime.reserve_turns(_FREE)])
        turns: Ints = first[np.searchsorted(self._times_ms, at_ms)] + 2 * np.arange(len(at_ms)) + 1
        return turns

    def record(self, records: Sequence[Record], at_ms: Floats) -> None:
        """Keep records that the coordinator would have written at these times, in ascending order."""
        kept = self._world.kept_records
        assert kept is not None
        recorded = [*self._recorded, len(kept)]
        places: list[int] = np.searchsorted(self._times_ms, at_ms).tolist()
        for record, place in reversed([*zip(records, places, strict=True)]):
            kept.insert(recorded[place], record)


#: The most rebalances of a cooperative group that are played in one step.
MOST_ROUNDS_AT_ONCE: Final = 12

#: What a round costs regardless of its size: about 150 numpy calls.
_ROUND = 8
#: It costs one more request per this many members, and per this many partitions.
_MEMBERS_PER_REQUEST, _PARTITIONS_PER_REQUEST = 90, 2_200
#: The same if the assignor itself has to run, on objects.
_ASKED_MEMBERS_PER_REQUEST, _ASKED_PARTITIONS_PER_REQUEST = 3, 40
#: The same if it is librdkafka's cooperative-sticky, which has one algorithm for all groups.
_LIBRDKAFKA_PARTITIONS_PER_REQUEST = 3
#: The same for converting scripted members to arrays and back.
_GATHERED_MEMBERS_PER_REQUEST, _GATHERED_PARTITIONS_PER_REQUEST = 2, 50
#: What it costs to apply the heartbeats of stable members since the last event, however many there are.
COST_OF_CATCHING_UP = 2
#: What it costs to take a static member out of the arrays, and to put it back when it has returned; one more request
#: per this many members.
_RESTART, _RESTART_MEMBERS_PER_REQUEST = 10, 500
#: What an epoch costs regardless of its size, and how many of its members cost one more request.
_EPOCH, _EPOCH_MEMBERS_PER_REQUEST = 12, 100
#: This many changed targets cost as much as one request, including what their members do then.
_TARGETS_PER_REQUEST = 16


def cost_of_round(members: int, partitions: int, *, is_computed: bool, asks_librdkafka: bool = False) -> int:
    """A round in bulk. is_computed: whether the assignor itself does not have to run. asks_librdkafka: whether it is
    librdkafka's cooperative-sticky, if it does."""
    cost = _ROUND + members // _MEMBERS_PER_REQUEST + partitions // _PARTITIONS_PER_REQUEST
    if not is_computed:
        cost += members // _ASKED_MEMBERS_PER_REQUEST + partitions // _ASKED_PARTITIONS_PER_REQUEST
        if asks_librdkafka:
            cost += partitions // _LIBRDKAFKA_PARTITIONS_PER_REQUEST
    return cost


def cost_of_gathering(members: int, partitions: int) -> int:
    """Converting members to arrays and back."""
    return 1 + members // _GATHERED_MEMBERS_PER_REQUEST + partitions // _GATHERED_PARTITIONS_PER_REQUEST


def cost_of_restart(members: int) -> int:
    """The restart of one of this many static members."""
    return _RESTART + members // _RESTART_MEMBERS_PER_REQUEST


def cost_of_epoch(members: int) -> int:
    """An epoch of a consumer group, for this many members in arrays."""
    return _EPOCH + members // _EPOCH_MEMBERS_PER_REQUEST


def cost_of_targets(changed: int) -> int:
    """The cost of this many changed targets."""
    return changed // _TARGETS_PER_REQUEST
