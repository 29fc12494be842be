"""The heartbeats of members of a consumer group (KIP-848) without a request for each, in arrays. What a member does,
and which random numbers it draws for that, is in `scripted_member` and `consumer_member`; what the coordinator does
with partitions is in `partition_moves`."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from kgm.coordinator.consumer import records, target
from kgm.coordinator.contract.outcome import Millis, TimerKey, TimerKind, session_key
from kgm.coordinator.contract.settings import BrokerSettings, heartbeat_interval_ms
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import Assigned, ConsumerMember
from kgm.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kgm.records.member_states import MemberState
from kgm.records.record import Record
from kgm.simulation.play.bulk.arrays import (
    COST_OF_CATCHING_UP,
    ArrayLedger,
    Flags,
    Floats,
    Ints,
    RandomWords,
    ReservedTimerOrder,
    network_ms,
    random_words,
    reaction_ms,
    shares,
)
from kgm.simulation.play.bulk.partition_moves import PartitionMoves
from kgm.simulation.play.client_profiles import PROFILES
from kgm.simulation.play.consumer_member import ScriptedConsumerMember
from kgm.simulation.play.timing import HEARTBEAT_LATE_MS
from kgm.simulation.play.world import World

#: A client has reacted to an answer after this many ms at the latest.
LONGEST_REACTION_MS: Final = max(profile.react[1] + profile.revoke[1] for profile in PROFILES.values())

#: How many numbers a member draws for a heartbeat: for the trip there, the trip back, and the time to the next one; and
#: how many for a reaction to the answer.
_DRAWN: Final = 3
_REACTION: Final = 2

#: What happens to a member next, its *stage*: it hands in a heartbeat, with the ones before left out
#: (`ScriptedMember`); or its heartbeat, which it may not have sent yet, arrives; or the answer arrives; or the client
#: has given up or taken partitions, and reports it.
UP_TO_DATE, BEHIND, ANSWERED, REACTING = range(4)

_STABLE: Final = MemberState.STABLE.value


def consumer_group_of(world: World) -> ConsumerGroup:
    """The group as the coordinator sees it."""
    group = world.engine.consumer_group(world.group.group_id)
    assert group is not None
    return group


class HeartbeatArrays:
    """members: all that the draw may have. Arrays have an entry for each of them, its *slot*. Names are the same as in
    `ScriptedMember`; times are in ms.

    due: when the next thing happens, according to the stage; infinite for members that are played by events. beat: when
    the heartbeat is sent that is due or on its way; arrives, replied: when it arrives, and when its answer does;
    reports: whether it follows a reaction. next_beat: when the one after it is sent, unless the member reacts to the
    answer (is_assigned), and reports that at `reacts`, which is answered at `settles`. next_period: the period from
    then on. answer: the epoch in the answer. moves: what the coordinator knows of these members, whose data in the
    coordinator itself is outdated. deadline, turn: of its session. _behind: how many of the members that are played
    with these arrays are not up to date. _waits: whether a member has not consumed anything yet. _number: of its
    identity in the ledger."""

    def __init__(self, world: World, members: Sequence[ScriptedConsumerMember], settings: BrokerSettings) -> None:
        self.members = members
        self._world = world
        self._settings = settings
        self._interval_ms, self._session_ms = heartbeat_interval_ms(settings, None), world.consumer_session_ms
        self._slot_of = {member: slot for slot, member in enumerate(members)}
        self._behind = 0
        size = len(members)
        self.keys: RandomWords = np.array([member.chance.key for member in members], dtype=np.uint64)
        self.drawn: RandomWords = np.zeros(size, dtype=np.uint64)
        self.stage: Ints = np.zeros(size, dtype=np.int64)
        self.due_ms = np.full(size, np.inf)
        self.beat_ms, self.arrives_ms, self.replied_ms = (np.zeros(size) for _ in range(3))
        self.next_beat_ms, self.reacts_ms, self.settles_ms = (np.zeros(size) for _ in range(3))
        self.period_ms, self.next_period_ms = np.zeros(size), np.zeros(size)
        self.last_beat_ms, self.extended_ms, self.link_busy_ms = np.zeros(size), np.zeros(size), np.zeros(size)
        self.generation, self.answer, self.deadline_ms, self.turn = (np.zeros(size, dtype=np.int64) for _ in range(4))
        self.reports, self.is_assigned, self._waits = (np.zeros(size, dtype=np.bool_) for _ in range(3))
        self._least_ms, self._span_ms = (
            np.array(
                [
                    [span[0], span[1] - span[0]]
                    for member in members
                    for span in (member.profile.react, member.profile.revoke)
                ]
            )
            .reshape(size, 2, 2)
            .T
        )
        self._number: Ints = np.zeros(size, dtype=np.int64)
        topics, first = dict[bytes, tuple[int, int]](), 0
        for name, states in world.ledger.states.items():
            topics[world.image.by_name[name].topic_id] = first, len(states)
            first += len(states)
        self.moves = PartitionMoves(size, topics, world.behavior)
        self.saved = self.heartbeats_applied = 0
        self._timer_order = ReservedTimerOrder(world)
        #: The records that the coordinator would have written, and when, if records are kept.
        self._written: list[Record] = []
        self._written_ms: list[float] = []

    def _group(self) -> ConsumerGroup:
        return consumer_group_of(self._world)

    @property
    def _ledger(self) -> ArrayLedger:
        ledger = self._world.ledger
        assert isinstance(ledger, ArrayLedger)
        return ledger

    def _assigned_from_ms(self, group: ConsumerGroup) -> float:
        return target.due_from_ms(group, self._settings, None)

    # -- from scripted members, and back

    def _read_clients(self, slots: Sequence[int]) -> None:
        """Load what members know that have heard all answers."""
        members = [self.members[slot] for slot in slots]
        self.drawn[slots] = [member.chance.drawn for member in members]
        self.link_busy_ms[slots] = [member.link_busy_until_ms for member in members]
        self.period_ms[slots] = [member.period_ms for member in members]
        self.generation[slots] = [member.generation for member in members]
        self.last_beat_ms[slots] = [member.last_beat_ms for member in members]
        self.extended_ms[slots] = [member.extended_ms for member in members]
        self._waits[slots] = [member.waited_ms is None for member in members]
        self._number[slots] = [self._ledger.number_of(member.identity) for member in members]
        self.stage[slots] = UP_TO_DATE

    def _write(self, slot: int, known: ConsumerMember) -> None:
        """Make it a scripted member again. known: as the coordinator would know it."""
        member, now_ms, stage = self.members[slot], self._world.now_ms, self.stage[slot]
        member.chance.drawn, member.link_busy_until_ms = int(self.drawn[slot]), float(self.link_busy_ms[slot])
        member.generation, member.period_ms = int(self.generation[slot]), float(self.period_ms[slot])
        member.last_beat_ms, member.extended_ms = float(self.last_beat_ms[slot]), float(self.extended_ms[slot])
        member.owned = member.target = self._ledger.consumed_by(member.identity, self.moves.held_by(slot))
        beat_ms, arrives_ms = float(self.beat_ms[slot]), float(self.arrives_ms[slot])
        next_ms = float(self.next_beat_ms[slot])
        if stage == UP_TO_DATE:
            next_ms = float(self.due_ms[slot])
        elif stage == BEHIND and beat_ms > now_ms:
            next_ms = beat_ms
        elif stage == BEHIND:
            member.chance.drawn += 1
            member.has_sent_heartbeat(beat_ms, arrives_ms, owns=bool(self.reports[slot]))
        elif stage == ANSWERED:
            assigned = known.assigned if self.is_assigned[slot] else None
            answer = heartbeat_response(member.member_id, int(self.answer[slot]), self._interval_ms, assigned)
            member.is_sent_answer(beat_ms, answer, float(self.replied_ms[slot]))
        else:
            names = self._world.image.by_id
            target = {names[topic_id].name: tuple(sorted(those)) for topic_id, those in known.assigned.items() if those}
            member.reacts_at(float(self.due_ms[slot]), target)
        member.resume_beating_at(next_ms)

    def _known(self, slot: int, group: ConsumerGroup) -> ConsumerMember:
        """The member as the coordinator would know it."""
        return self.moves.known(slot, group.members[self.members[slot].member_id])

    # -- heartbeats

    def _send_at(self, places: Ints, beat_ms: Floats) -> None:
        """Send heartbeats over the network at these times, and compute when they arrive and are answered."""
        drawn = random_words(self.keys[places], self.drawn[places], _DRAWN)
        arrives_ms = np.maximum(beat_ms + network_ms(drawn[0]), self.link_busy_ms[places])
        self.beat_ms[places], self.arrives_ms[places] = beat_ms, arrives_ms
        self.replied_ms[places] = arrives_ms + network_ms(drawn[1])
        self.next_period_ms[places] = self._interval_ms + HEARTBEAT_LATE_MS * shares(drawn[2])
        self.next_beat_ms[places] = beat_ms + self.period_ms[places]
        self.reports[places] = self.is_assigned[places] = False
        self.stage[places], self.due_ms[places] = BEHIND, arrives_ms

    def _hand_in(self, places: Ints) -> None:
        """Heartbeats that change nothing but the session's deadline (`ScriptedMember._beat_at`)."""
        at_ms = self.due_ms[places]
        self.last_beat_ms[places] = self.extended_ms[places] = at_ms
        self.due_ms[places] = self._last_in_time_ms(places, at_ms)

    def _last_in_time_ms(self, places: Ints, beat_ms: Floats) -> Floats:
        """When members that are up to date send the next heartbeats after these (`ScriptedMember._beat_at`)."""
        period_ms = self.period_ms[places]
        next_ms: Floats = beat_ms + period_ms
        spare_ms = beat_ms + self._session_ms - period_ms - next_ms
        return next_ms + (spare_ms // period_ms) * period_ms

    def _arrive(self, places: Ints, group: ConsumerGroup) -> None:
        """Heartbeats arrive."""
        aim = group.assignment_epoch
        is_due = group.group_epoch > aim and (self.arrives_ms[places] >= self._assigned_from_ms(group)).any()
        assert not is_due, "one of these heartbeats has the target assignment computed"
        self.last_beat_ms[places] = self.extended_ms[places] = self.beat_ms[places]
        self.link_busy_ms[places] = self.arrives_ms[places]
        self.drawn[places] += np.uint64(2)
        changes, is_assigned = self.moves.step(places, self.arrives_ms, aim)
        self.answer[places] = self.moves.epoch[places]
        self.stage[places], self.due_ms[places] = ANSWERED, self.replied_ms[places]
        assigned = places[is_assigned]
        if len(assigned):
            self.is_assigned[assigned] = True
            words = random_words(self.keys[assigned], self.drawn[assigned] + np.uint64(1), _REACTION + 2)
            spans = self._least_ms[:, assigned], self._span_ms[:, assigned]
            react_ms, revoke_ms = reaction_ms(words[:_REACTION], *spans)
            pace, there_ms, back_ms = self._world.timing.pace, *network_ms(words[_REACTION:])
            self.reacts_ms[assigned] = reacts_ms = self.replied_ms[assigned] + (pace * react_ms + pace * revoke_ms)
            self.settles_ms[assigned] = np.maximum(reacts_ms + there_ms, self.arrives_ms[assigned]) + back_ms
        if self._world.kept_records is not None:
            changed = places[changes]
            self._written += [records.current_record(group, self._known(slot, group)) for slot in changed.tolist()]
            self._written_ms += self.arrives_ms[changed].tolist()

    def _hear(self, places: Ints) -> None:
        """Answers arrive. Members that are assigned other partitions react. A member that is still behind reports it
        with its next heartbeat."""
        self.drawn[places] += np.uint64(1)
        self.generation[places] = self.answer[places]
        self.period_ms[places] = self.next_period_ms[places]
        is_assigned = self.is_assigned[places]
        reacting, others = places[is_assigned], places[~is_assigned]
        self.drawn[reacting] += np.uint64(_REACTION)
        self.stage[reacting], self.due_ms[reacting] = REACTING, self.reacts_ms[reacting]
        next_ms, is_stable = self.next_beat_ms[others], self._are_stable(others)
        up_to_date, behind = others[is_stable], others[~is_stable]
        self.stage[up_to_date], self.due_ms[up_to_date] = UP_TO_DATE, next_ms[is_stable]
        self._behind -= len(up_to_date)
        if len(behind):
            self._send_at(behind, next_ms[~is_stable])

    def _are_stable(self, places: Ints) -> Flags:
        """Whether members have reached the epoch and the target."""
        are_stable: Flags = (self.generation[places] == self._world.generation) & (self.moves.state[places] == _STABLE)
        return are_stable

    def _react(self, places: Ints) -> None:
        """Clients give up partitions, or take them, and report it (`ScriptedConsumerMember._reconcile`)."""
        reacts_ms = self.due_ms[places]
        ledger, holder = self._ledger, self.moves.holder
        left, taken = self.moves.hand_over(places)
        if len(left):
            ledger.end(left, self.due_ms[holder[left]])
        if len(taken):
            ledger.begin(taken, self._number[holder[taken]], self.due_ms[holder[taken]])
        waiting = places[self._waits[places]]
        for slot in waiting[np.isin(waiting, holder[taken])].tolist() if len(waiting) else ():
            member = self.members[slot]
            member.waited_ms, self._waits[slot] = float(self.due_ms[slot]) - member.started_ms, False
        is_stable = self._are_stable(places)
        self._send_at(places, reacts_ms)
        self.reports[places] = True
        stable = places[is_stable]
        self.next_beat_ms[stable] = self._last_in_time_ms(stable, reacts_ms[is_stable])

    # -- their sessions, and their records

    def _session_key(self, member: ScriptedConsumerMember) -> TimerKey:
        return session_key(self._world.group.group_id, member.member_id)

    def _timers(self, known: ConsumerMember, slot: int) -> list[tuple[TimerKey, Millis, int]]:
        """The coordinator's timers for a member, with their turns."""
        deadline_ms, turn = int(self.deadline_ms[slot]), int(self.turn[slot])
        timers = [(self._session_key(self.members[slot]), Millis(deadline_ms), turn)]
        if known.state is MemberState.UNREVOKED_PARTITIONS:
            # It has been revoking since its last heartbeat.
            key = TimerKey(TimerKind.REBALANCE, self._world.group.group_id, known.member_id)
            until_ms = deadline_ms - self._session_ms + known.rebalance_timeout_ms
            timers.append((key, Millis(until_ms), turn - 1))
        return timers

    def _extend_sessions(self, places: Ints, at_ms: Floats) -> None:
        """The sessions of these members are extended at these times. A member may be among them more than once."""
        order = np.argsort(at_ms, kind="stable")
        places, at_ms = places[order], at_ms[order]
        # If there are several values for one slot, numpy keeps the last.
        self.deadline_ms[places] = at_ms.astype(np.int64) + self._session_ms
        self.turn[places] = self._timer_order.at(at_ms)
        self._world.requests += len(places)
        self.heartbeats_applied += len(places)
        self.saved += len(places) - COST_OF_CATCHING_UP

    def _record(self) -> None:
        """The records that the coordinator would have written, if they are kept."""
        if self._written:
            written_ms = np.array(self._written_ms)
            order = np.argsort(written_ms, kind="stable")
            self._timer_order.record([self._written[at] for at in order.tolist()], written_ms[order])
            self._written.clear()
            self._written_ms.clear()


def heartbeat_response(
    member_id: str, epoch: int, interval_ms: int, assigned: Assigned | None = None
) -> ConsumerGroupHeartbeatResponse:
    """The answer to a heartbeat. assigned: the assignment, if it is in the answer."""
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms
    )
    if assigned is not None:
        rows = [TopicPartitions(topic_id=topic_id, partitions=list(those)) for topic_id, those in assigned.items()]
        response.assignment = Assignment(topic_partitions=rows)
    return response
