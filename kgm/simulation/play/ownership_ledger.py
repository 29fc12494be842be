"""Who consumes which partition over virtual time: what moved, how often, and how long it had no consumer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kgm.model.assignment import Assignment, Partitions, moves, owners
from kgm.simulation.play.draw import TimedMove
from kgm.simulation.play.holdings import Holdings


@dataclass(slots=True)
class _PartitionState:
    """consumers: the members that consume it now; two of them while a fenced member has not noticed yet. last: the
    latest owner, None if it never had one. idle_since_ms: since when it has had no consumer. changed_ms: when it moved
    to another owner, or the last one stopped."""

    consumers: set[str]
    last: str | None
    idle_since_ms: float
    changed_ms: float
    stopped_ms: float = 0.0


class OwnershipLedger:
    """Consumers are named by identity; times are in ms of the caller's clock.

    A partition that never had an owner does not count as stopped. keeps_holdings: record `holdings` too."""

    def __init__(
        self, topics: Mapping[str, int], assignment: Assignment, now_ms: float, *, keeps_holdings: bool = False
    ) -> None:
        self._before = assignment
        self.holdings = Holdings(assignment, now_ms) if keeps_holdings else None
        self._start_ms = now_ms
        self.handovers = 0
        owner_of = owners(assignment)
        self.states = {
            topic: [
                _PartitionState(
                    set() if (owner := owner_of.get((topic, number))) is None else {owner}, owner, now_ms, now_ms
                )
                for number in range(count)
            ]
            for topic, count in topics.items()
        }
        #: How many partitions have a consumer, and the lowest number that did at any time.
        self.consumed = self.fewest_consumed = sum(
            bool(state.consumers) for states in self.states.values() for state in states
        )

    def written(self) -> "OwnershipLedger":
        """The ledger with an object for each partition."""
        return self

    def take(self, identity: str, partitions: Partitions, now_ms: float) -> None:
        """A member begins to consume."""
        if self.holdings is not None:
            self.holdings.take(identity, partitions, now_ms)
        for state in self._states_of(partitions):
            if not state.consumers:
                self.consumed += 1
                if state.last is not None:
                    state.stopped_ms += now_ms - state.idle_since_ms
            if state.last != identity:
                self.handovers += state.last is not None
                state.last = identity
                state.changed_ms = now_ms
            state.consumers.add(identity)

    def drop(self, identity: str, partitions: Partitions, now_ms: float) -> None:
        """A member stops consuming."""
        if self.holdings is not None:
            self.holdings.drop(identity, partitions, now_ms)
        for state in self._states_of(partitions):
            if identity in state.consumers:
                state.consumers.remove(identity)
                if not state.consumers:
                    state.idle_since_ms = now_ms
                    self.consumed -= 1
        self.fewest_consumed = min(self.fewest_consumed, self.consumed)

    def stopped_ms(self, now_ms: float) -> int:
        """The time without a consumer until now, added up over the partitions."""
        states = [state for states in self.states.values() for state in states]
        idle = sum(now_ms - state.idle_since_ms for state in states if not state.consumers and state.last is not None)
        return round(idle + sum(state.stopped_ms for state in states))

    def moves(self, after: Assignment) -> tuple[TimedMove, ...]:
        """The partitions whose owner differs from the one at the start."""
        return tuple(
            TimedMove(
                topic=move.topic,
                partition=move.partition,
                owner_before=move.owner_before,
                owner_after=move.owner_after,
                at_ms=self._changed_at(move.topic, move.partition, has_owner=move.owner_after is not None),
            )
            for move in moves(self._before, after)
        )

    def _changed_at(self, topic: str, partition: int, *, has_owner: bool) -> int:
        states = self.states.get(topic, ())
        if partition >= len(states):
            return 0
        state = states[partition]
        return round((state.changed_ms if has_owner else state.idle_since_ms) - self._start_ms)

    def _states_of(self, partitions: Partitions) -> Iterable[_PartitionState]:
        states: list[_PartitionState] = []
        for topic, numbers in partitions.items():
            of_topic = self.states.get(topic)
            if of_topic is not None:
                count = len(of_topic)
                states += [of_topic[number] for number in numbers if number < count]
        return states
