"""Who consumes which partition, as arrays with an entry for each partition: `OwnershipLedger` while a crowd is calm."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kgm.model.assignment import Partitions
from kgm.simulation.play.bulk.streams import Flags, Floats, Ints
from kgm.simulation.play.ownership_ledger import OwnershipLedger

#: What `ArrayLedger.save` returns.
LedgerState = tuple[tuple[npt.NDArray[Any], ...], tuple[int, int, int]]

#: No consumer, or no owner yet.
NOBODY = -1


class ArrayLedger(OwnershipLedger):
    """The ledger that it is made of, until `write_back`. Identities are numbers (`number_of`).

    consumer: who consumes a partition; at most one does. latest: its latest owner."""

    def __init__(self, before: OwnershipLedger) -> None:
        self._ledger = before
        self.holdings = None
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
        consumers = [NOBODY if not state.consumers else number_of(next(iter(state.consumers))) for state in states]
        self.consumer: Ints = np.array(consumers, dtype=np.int64)
        latest = [NOBODY if state.last is None else number_of(state.last) for state in states]
        self.latest: Ints = np.array(latest, dtype=np.int64)
        self._idle_since_ms: Floats = np.array([state.idle_since_ms for state in states], dtype=np.float64)
        self._changed_ms: Floats = np.array([state.changed_ms for state in states], dtype=np.float64)
        self._stopped_ms: Floats = np.array([state.stopped_ms for state in states], dtype=np.float64)

    @staticmethod
    def can_hold(ledger: OwnershipLedger) -> bool:
        """Whether no partition has two consumers, and nothing else is recorded."""
        return ledger.holdings is None and all(
            len(state.consumers) < 2 for states in ledger.states.values() for state in states
        )

    def number_of(self, identity: str) -> int:
        number = self._numbers.get(identity)
        if number is None:
            number = self._numbers[identity] = len(self.names)
            self.names.append(identity)
        return number

    def write_back(self) -> OwnershipLedger:
        """The ledger of before, as it is now."""
        ledger, names = self._ledger, self.names
        ledger.handovers, ledger.consumed, ledger.fewest_consumed = self.handovers, self.consumed, self.fewest_consumed
        states = [state for states in ledger.states.values() for state in states]
        columns = (self.consumer, self.latest, self._idle_since_ms, self._changed_ms, self._stopped_ms)
        for state, consumer, latest, idle_since_ms, changed_ms, stopped_ms in zip(
            states, *(column.tolist() for column in columns), strict=True
        ):
            state.consumers = set() if consumer == NOBODY else {names[consumer]}
            state.last = None if latest == NOBODY else names[latest]
            state.idle_since_ms, state.changed_ms, state.stopped_ms = idle_since_ms, changed_ms, stopped_ms
        return ledger

    def consumed_by(self, identity: str) -> dict[str, tuple[int, ...]]:
        """What a member consumes."""
        mine = np.flatnonzero(self.consumer == self.number_of(identity))
        found: dict[str, tuple[int, ...]] = {}
        for topic, start in self.starts.items():
            numbers = mine[(mine >= start) & (mine < start + self.counts[topic])] - start
            if len(numbers):
                found[topic] = tuple(numbers.tolist())
        return found

    def drop(self, identity: str, partitions: Partitions, now_ms: float) -> None:
        """One member stops consuming."""
        number = self.number_of(identity)
        for at in self._places_of(partitions):
            if self.consumer[at] == number:
                self.consumer[at] = NOBODY
                self._idle_since_ms[at] = now_ms
                self.consumed -= 1
        self.fewest_consumed = min(self.fewest_consumed, self.consumed)

    def take(self, identity: str, partitions: Partitions, now_ms: float) -> None:
        """One member begins to consume what has no consumer, as a static member does that is back: in a rebalance by
        events, where partitions may have two of them, the arrays are written back first."""
        number = self.number_of(identity)
        for at in self._places_of(partitions):
            assert self.consumer[at] == NOBODY, f"{identity} begins to consume what has a consumer"
            latest = self.latest[at]
            if latest != NOBODY:
                self._stopped_ms[at] += now_ms - self._idle_since_ms[at]
            if latest != number:
                self.handovers += bool(latest != NOBODY)
                self.latest[at] = number
                self._changed_ms[at] = now_ms
            self.consumer[at] = number
            self.consumed += 1

    def _places_of(self, partitions: Partitions) -> list[int]:
        return [
            self.starts[topic] + number
            for topic, numbers in partitions.items()
            for number in numbers
            if number < self.counts.get(topic, 0)
        ]

    def drop_all(self, at_ms: Floats) -> None:
        """All members stop consuming, each at its time. at_ms: by number of the identity."""
        taken = self.consumer >= 0
        np.copyto(self._idle_since_ms, at_ms[self.consumer], where=taken)
        self.consumer = np.full(self.total, NOBODY, dtype=np.int64)
        self.consumed = 0
        self.fewest_consumed = min(self.fewest_consumed, 0)

    def take_all(self, owner: Ints, at_ms: Floats) -> None:
        """All members begin to consume, each at its time. owner: for each partition the number of an identity, or
        NOBODY. at_ms: by number of the identity. No partition has a consumer before."""
        taken = owner >= 0
        self._begin(taken, owner, at_ms[owner])
        self.consumed += int(np.count_nonzero(taken))

    def exchange(self, lost: Flags, gained: Flags, taker: Ints, at_ms: Floats) -> None:
        """Members stop consuming some partitions, and begin to consume others, each at its time. taker: for each
        partition that is gained, which has no consumer, the number of an identity. at_ms: by number of the identity."""
        until_ms, from_ms = at_ms[self.consumer], at_ms[taker]
        self._count_down(until_ms[lost], from_ms[gained])
        np.copyto(self._idle_since_ms, until_ms, where=lost)
        self.consumer = np.where(lost, NOBODY, self.consumer)
        self._begin(gained, taker, from_ms)

    def _begin(self, gained: Flags, taker: Ints, from_ms: Floats) -> None:
        """Partitions without a consumer get one. taker, from_ms: who, and since when, for each that is gained."""
        had_one = gained & (self.latest >= 0)
        np.add(self._stopped_ms, from_ms - self._idle_since_ms, out=self._stopped_ms, where=had_one)
        differs = gained & (self.latest != taker)
        self.handovers += int(np.count_nonzero(differs & had_one))
        np.copyto(self._changed_ms, from_ms, where=differs)
        np.copyto(self.latest, taker, where=gained)
        np.copyto(self.consumer, taker, where=gained)

    def _count_down(self, until_ms: Floats, from_ms: Floats) -> None:
        """Count how many partitions are consumed, and how few there were. A member stops before it begins."""
        times, at = np.unique(np.concatenate([until_ms, from_ms]), return_inverse=True)
        stops = np.bincount(at[: len(until_ms)], minlength=len(times))
        starts = np.bincount(at[len(until_ms) :], minlength=len(times))
        left = self.consumed + np.cumsum(starts - stops) - starts
        self.fewest_consumed = min(self.fewest_consumed, int(left.min(initial=self.fewest_consumed)))
        self.consumed += len(from_ms) - len(until_ms)

    def save(self) -> LedgerState:
        """What `exchange` changes."""
        arrays = self.consumer, self.latest, self._idle_since_ms, self._changed_ms, self._stopped_ms
        return tuple(array.copy() for array in arrays), (self.handovers, self.consumed, self.fewest_consumed)

    def restore(self, state: LedgerState) -> None:
        arrays, (self.handovers, self.consumed, self.fewest_consumed) = state
        self.consumer, self.latest, self._idle_since_ms, self._changed_ms, self._stopped_ms = arrays
