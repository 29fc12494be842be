"""How partitions move between members of a consumer group (KIP-848), in arrays: who has each partition, whose target
assignment it is in, and what the next heartbeats of many members change about that.

The rules are those of `coordinator.consumer.reconciliation`. What makes them simple for many members at a time: until
the next target assignment, when a member revokes partitions and reports it depends on no other member. What it gets
depends on others only through the times at which they have reported. So the caller first plays all heartbeats that get
nothing (`gets_some`), and then all others, each of which gets what was released before it arrives (`step`).

Partitions that move together are one *move*: a run of consecutive partitions from one member, or from nobody, to
another, or to nobody. With `range` a member has one or two runs, so there are about as many moves as members that an
epoch affects, and the arrays of moves are short. Only what becomes of a move is written to the arrays of partitions."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, compress, repeat
from typing import Final, NamedTuple

import numpy as np

from kgm.coordinator.contract.behavior import CoordinatorBehavior
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import Assigned, ConsumerMember, Target
from kgm.java.hash_map import uuid_map_order
from kgm.records.member_states import MemberState
from kgm.simulation.play.bulk.arrays import Flags, Floats, Ints, run_sizes

#: Instead of a slot: no member has a partition, or wants it; or a member has it that is played by events.
NOBODY, OUTSIDE = -1, -2
#: What becomes of a move: somebody has it; its member has to give it up; nobody has it; its new member has it.
_HELD, _REVOKED, _FREE, _TAKEN = range(4)
_NOWHERE: Final = 1 << 30

_STABLE: Final = MemberState.STABLE.value
_UNREVOKED: Final = MemberState.UNREVOKED_PARTITIONS.value
_UNRELEASED: Final = MemberState.UNRELEASED_PARTITIONS.value


class Moves(NamedTuple):
    """Runs of partitions: first and size, the slots `source` and `taker`, what becomes of them, and since when they are
    free."""

    first: Ints
    size: Ints
    source: Ints
    taker: Ints
    stage: Ints
    free_ms: Floats


_NONE: Final[Ints] = np.zeros(0, dtype=np.int64)
_NO_MOVES: Final = Moves(_NONE, _NONE, _NONE, _NONE, _NONE, np.zeros(0))


class PartitionMoves:
    """By slot: state, epoch, previous: of a member in the coordinator. By partition, in the order of the ledger:
    holder: the slot of the member that has it, or has to give it up (is_revoked); wanted_by: in whose target it is, if
    that member is in these arrays; since: the epoch in which it was assigned; rank: orders the partitions of a member
    by when it got them.

    size: how many slots there are. topics: for each topic id, the first of its partitions and how many there are."""

    def __init__(self, size: int, topics: Mapping[bytes, tuple[int, int]], behavior: CoordinatorBehavior) -> None:
        self._size = size
        self._topics = topics
        self._behavior = behavior
        counts = [count for _, count in topics.values()]
        total, width = sum(counts), len(topics)
        self.state, self.epoch, self.previous = (np.zeros(size, dtype=np.int64) for _ in range(3))
        self.holder, self.wanted_by = (np.full(total, NOBODY, dtype=np.int64) for _ in range(2))
        self.is_revoked: Flags = np.zeros(total, dtype=np.bool_)
        self.since: Ints = np.zeros(total, dtype=np.int64)
        self.rank: Floats = np.zeros(total)
        self._number_of = {topic_id: number for number, topic_id in enumerate(topics)}
        self._topic_of: Ints = np.repeat(np.arange(width), counts)
        #: The order of the topics of a member: of those it has, of those it has to give up, and of those in its target.
        self._order, self._revoked_order, self._target_order = (np.zeros((size, width), dtype=np.int64) for _ in "012")
        self._is_old = True
        self._moves = _NO_MOVES
        # With entries for OUTSIDE and NOBODY, which come last.
        self._must_revoke: Flags = np.zeros(size + 2, dtype=np.bool_)
        self._missing: Ints = np.zeros(size + 2, dtype=np.int64)
        #: Whether the coordinator knows that a partition is held; and partitions that may not be as it knows.
        self._is_held: Flags = np.zeros(total, dtype=np.bool_)
        self._moved: list[Ints] = []
        #: Partitions that clients are about to stop or begin to consume, when they react to answers.
        self._handed: Ints = _NONE

    # -- which members are in the arrays

    def begin(self, group: ConsumerGroup) -> None:
        """No member is in the arrays yet."""
        self.holder[:] = self.wanted_by[:] = NOBODY
        self.is_revoked[:] = False
        self._moved.clear()
        self._handed = _NONE
        self.holder[self._at(group.partition_epochs)] = OUTSIDE
        self._is_held = self.holder == OUTSIDE
        self._is_old = True

    def add(self, slot: int, known: ConsumerMember, target: Target) -> None:
        """Add a Stable member."""
        assigned, at = known.assigned, self._at(known.assigned)
        self.state[slot], self.epoch[slot], self.previous[slot] = (
            _STABLE,
            known.member_epoch,
            known.previous_member_epoch,
        )
        self.holder[at] = slot
        self.since[at] = [epoch for epochs in assigned.values() for epoch in epochs.values()]
        self.rank[at] = np.arange(-len(at), 0)
        self._order[slot, [self._number_of[topic_id] for topic_id in assigned]] = range(len(assigned))
        wanted = self._at(target)
        self.wanted_by[wanted] = slot
        self._is_old |= len(wanted) != len(at) or bool((self.holder[wanted] != slot).any())
        self._sort_targets([slot], [target])

    def remove(self, slot: int) -> None:
        """A member continues by events."""
        mine, wanted = self.held_by(slot), _where(self.wanted_by == slot)
        self._is_old |= bool(self.is_revoked[mine].any()) or not np.array_equal(mine, wanted)
        self._handed = self._handed[self.holder[self._handed] != slot]
        self.holder[mine] = OUTSIDE
        self.is_revoked[mine] = False
        self.wanted_by[wanted] = NOBODY

    def held_by(self, slot: int) -> Ints:
        """The partitions that a member has, or has to give up."""
        return _where(self.holder == slot)

    def aim(self, slots: Sequence[int], targets: Sequence[Target]) -> None:
        """These members have these targets from now on."""
        self._is_old = True
        self.wanted_by[self._flags(np.array(slots))[self.wanted_by]] = NOBODY
        for topic_id, (first, _) in self._topics.items():
            rows = [target.get(topic_id, ()) for target in targets]
            at = first + np.fromiter(chain.from_iterable(rows), dtype=np.int64)
            self.wanted_by[at] = np.repeat(slots, [*map(len, rows)])
        self._sort_targets(slots, targets)

    def _sort_targets(self, slots: Sequence[int], targets: Sequence[Target]) -> None:
        if len(self._topics) > 1:
            self._target_order[slots] = [[_place(topic_id, target) for topic_id in self._topics] for target in targets]

    def aim_at_spans(self, slots: Ints, topics: Sequence[bytes], spans: Ints) -> None:
        """The same with a row of `Spans` for each of them."""
        self._is_old = True
        self.wanted_by[self._flags(slots)[self.wanted_by]] = NOBODY
        sizes = spans[:, 1::2] - spans[:, ::2]
        for topic_id, begins, size in zip(topics, spans[:, ::2].T, sizes.T, strict=True):
            self.wanted_by[_each(self._topics[topic_id][0] + begins, size)] = np.repeat(slots, size)
        if len(self._topics) > 1 and topics and len(slots):
            which, pattern = np.unique(sizes > 0, axis=0, return_inverse=True)
            targets = [dict.fromkeys(uuid_map_order(list(compress(topics, has))), ()) for has in which]
            orders = np.array([[_place(topic_id, target) for topic_id in self._topics] for target in targets])
            self._target_order[slots] = orders[pattern.reshape(-1)]

    def change_outside(
        self, before: Sequence[ConsumerMember], after: Sequence[Mapping[bytes, Collection[int]]]
    ) -> None:
        """Members that are played by events have, or have to give up, other partitions from now on."""
        for assigned in [each for member in before for each in (member.assigned, member.pending_revocation)]:
            at = self._at(assigned)
            self._hold(at[self.holder[at] == OUTSIDE], NOBODY)
        for rows in after:
            self._hold(self._at(rows), OUTSIDE)

    def _hold(self, at: Ints, holder: int) -> None:
        self.holder[at], self._is_held[at] = holder, holder != NOBODY
        self._is_old |= bool((self.wanted_by[at] != NOBODY).any())

    def publish(self, group: ConsumerGroup, wanted: Target | None, stale: ConsumerMember | None = None) -> None:
        """Tell the coordinator which of the wanted partitions are held (None: of all), because members that are played
        by events depend on it; by members of which epochs matters only for the partitions that it takes for those of a
        member that is about to be replaced (stale)."""
        if not self._moved and stale is None:
            return
        if wanted is None:
            at = np.concatenate([*self._moved, _NONE])
            self._moved.clear()
        else:
            at = self._at(wanted)
        at = at[self._is_held[at] != (self.holder[at] != NOBODY)]
        if stale is not None:
            at = np.concatenate([at, self._at(stale.assigned), self._at(stale.pending_revocation)])
        if not len(at):
            return
        self._is_held[at] = self.holder[at] != NOBODY
        for topic_id, (first, count) in self._topics.items():
            mine = at[(at >= first) & (at < first + count)]
            epochs, holders = group.partition_epochs.setdefault(topic_id, {}), self.holder[mine]
            held = holders >= 0
            epochs.update(zip((mine[held] - first).tolist(), self.epoch[holders[held]].tolist(), strict=True))
            deque(map(epochs.pop, (mine[holders == NOBODY] - first).tolist(), repeat(None)), maxlen=0)

    def known(self, slot: int, before: ConsumerMember) -> ConsumerMember:
        """A member as the coordinator would know it. before: with the same metadata."""
        state, epoch = MemberState(int(self.state[slot])), int(self.epoch[slot])
        mine = self.held_by(slot)
        mine = mine[np.lexsort((mine, self.rank[mine]))]
        is_revoked = self.is_revoked[mine]
        return before.moved(
            state,
            epoch,
            int(self.previous[slot]),
            self._assigned(mine[~is_revoked], self._order[slot], epoch),
            self._assigned(mine[is_revoked], self._revoked_order[slot], epoch),
        )

    def _assigned(self, at: Ints, order: Ints, epoch: int) -> Assigned:
        found: dict[bytes, dict[int, int]] = {}
        topics, ids = self._topic_of[at], [*self._topics]
        for number in sorted(set(topics.tolist()), key=order.__getitem__):
            topic_id = ids[number]
            those = at[topics == number]
            partitions = (those - self._topics[topic_id][0]).tolist()
            if self._behavior.has_assignment_epochs:
                found[topic_id] = dict(zip(partitions, self.since[those].tolist(), strict=True))
            else:
                found[topic_id] = dict.fromkeys(partitions, max(epoch, 0))
        return found

    # -- heartbeats

    @property
    def is_busy(self) -> bool:
        """Whether partitions are about to move between members."""
        self._find()
        return bool(self._must_revoke.any() or self._missing.any() or (self._moves.stage == _REVOKED).any())

    def gets_some(self, places: Ints) -> Flags:
        """Whether these members get, with their next heartbeats, what others have given up by then."""
        self._find()
        return (self._missing[places] > 0) & ~self._must_revoke[places]

    def step(self, places: Ints, arrives_ms: Floats, aim: int) -> tuple[Flags, Flags]:
        """Heartbeats of these members arrive at these times (by slot). aim: the epoch of the target assignment. Returns
        which of these members change, and which are answered with another assignment."""
        self._find()
        state, epoch, previous = self.state[places], self.epoch[places], self.previous[places]
        revokes, gets = self._must_revoke[places], np.zeros(len(places), dtype=np.bool_)
        has = self._topics_of(places) if len(self._topics) > 1 else None
        if revokes.any() or (state == _UNREVOKED).any() or self._missing[places].any():
            gets = self._move(places, revokes, arrives_ms, aim)
        has_reached = (state == _STABLE) & (epoch == aim)
        again = int(self._behavior.increments_epoch_of_revocation) * (state == _UNREVOKED)
        next_epoch = np.where(revokes, epoch + again, aim)
        next_state = np.where(self._missing[places] > 0, _UNRELEASED, _STABLE)
        next_state[revokes] = _UNREVOKED
        changes = (state != next_state) | (epoch != next_epoch) | (previous != next_epoch) | gets | revokes
        changes &= ~has_reached
        self.state[places], self.epoch[places] = next_state, next_epoch
        self.previous[places] = np.where(has_reached, previous, epoch)
        if has is not None:
            self._sort_topics(places[changes], revokes[changes], has[changes])
        return changes, gets | revokes

    def _move(self, places: Ints, revokes: Flags, arrives_ms: Floats, aim: int) -> Flags:
        """Carry out what these heartbeats do with partitions. Returns which members get some."""
        moves, is_here = self._moves, self._flags(places)
        is_revoking = self._flags(places[revokes])
        freed = _where((moves.stage == _REVOKED) & is_here[moves.source])
        if len(freed):
            moves.stage[freed] = _FREE
            moves.free_ms[freed] = arrives_ms[moves.source[freed]]
            if self._behavior.frees_own_revocations:
                moves.free_ms[freed[moves.source[freed] == moves.taker[freed]]] = -np.inf
            at = self._partitions(freed)
            self.holder[at], self.is_revoked[at] = NOBODY, False
            self._moved.append(at)
        is_got = (moves.stage == _FREE) & (is_here & ~is_revoking)[moves.taker]
        got = _where(is_got & (moves.free_ms < arrives_ms[moves.taker]))
        takers = moves.taker[got]
        if len(got):
            moves.stage[got] = _TAKEN
            at = self._partitions(got)
            self.holder[at] = holders = np.repeat(takers, moves.size[got])
            self.since[at], self.rank[at] = aim, arrives_ms[holders]
            self._missing -= np.bincount(takers, minlength=self._size + 2)
            self._moved.append(at)
            self._handed = np.concatenate([self._handed, at])
        given = _where((moves.stage == _HELD) & is_revoking[moves.source])
        if len(given):
            moves.stage[given] = _REVOKED
            at = self._partitions(given)
            self.is_revoked[at] = True
            self._handed = np.concatenate([self._handed, at])
            self._must_revoke[places] = False
        return self._flags(takers)[places]

    def _topics_of(self, places: Ints) -> Flags:
        """Which topics each of these members has."""
        has = np.zeros((self._size + 2, len(self._topics)), dtype=np.bool_)
        at = _where(self._flags(places)[self.holder] & ~self.is_revoked)
        has[self.holder[at], self._topic_of[at]] = True
        found: Flags = has[places]
        return found

    def _sort_topics(self, places: Ints, revokes: Flags, has: Flags) -> None:
        """A step puts the topics that a member had before in the order of its target, and before those that are new to
        it. What is not in its target comes last."""
        wanted, width = self._target_order[places], len(self._topics)
        self._revoked_order[places[revokes]] = np.where(wanted < width, wanted, width + self._order[places])[revokes]
        self._order[places] = np.where(has, wanted, width + wanted)

    def hand_over(self, places: Ints) -> tuple[Ints, Ints]:
        """The partitions that these members stop consuming, and those that they begin to consume, when they react to
        their last answers."""
        is_mine = self._flags(places)[self.holder[self._handed]]
        mine, self._handed = self._handed[is_mine], self._handed[~is_mine]
        is_left = self.is_revoked[mine]
        return mine[is_left], mine[~is_left]

    # -- moves

    def _find(self) -> None:
        """Find the moves, if a holder or a target has changed. All heartbeats that have arrived by now have been
        played, so whatever is free now is free for the next one."""
        if not self._is_old:
            return
        self._is_old = False
        differs = (self.holder != self.wanted_by) & (np.maximum(self.holder, self.wanted_by) >= 0)
        at = _where(differs | self.is_revoked)
        source, taker, is_revoked = self.holder[at], self.wanted_by[at], self.is_revoked[at]
        begins = np.ones(len(at), dtype=np.bool_)
        begins[1:] = at[1:] != at[:-1] + 1
        for column in (source, taker, is_revoked):
            begins[1:] |= column[1:] != column[:-1]
        first = _where(begins)
        source, taker = source[first], taker[first]
        stage = np.where(is_revoked[first], _REVOKED, np.where(source == NOBODY, _FREE, _HELD))
        size = run_sizes(first, len(at))
        self._moves = Moves(at[first], size, source, taker, stage, np.where(stage == _FREE, -np.inf, np.inf))
        self._must_revoke = self._flags(source[(stage == _HELD) & (source >= 0)])
        self._missing = np.bincount(taker[taker >= 0], minlength=self._size + 2)

    def _partitions(self, which: Ints) -> Ints:
        """The partitions of these moves."""
        return _each(self._moves.first[which], self._moves.size[which])

    def _flags(self, slots: Ints) -> Flags:
        flags = np.zeros(self._size + 2, dtype=np.bool_)
        flags[slots] = True
        return flags

    def _at(self, rows: Mapping[bytes, Collection[int]]) -> Ints:
        """The partitions as numbers, without those that do not exist."""
        found = [
            first + number
            for topic_id, partitions in rows.items()
            if topic_id in self._topics
            for first, count in (self._topics[topic_id],)
            for number in partitions
            if number < count
        ]
        return np.array(found, dtype=np.int64)


def _where(flags: Flags) -> Ints:
    """Like `np.flatnonzero`, which takes twice as long."""
    found: Ints = flags.nonzero()[0]
    return found


def _each(first: Ints, size: Ints) -> Ints:
    """All numbers of these runs."""
    ends = np.cumsum(size)
    found: Ints = np.arange(int(size.sum())) + np.repeat(first - ends + size, size)
    return found


def _place(topic_id: bytes, target: Target) -> int:
    """Where a topic is in a target; after all others if it is not."""
    return [*target].index(topic_id) if topic_id in target else _NOWHERE
