"""Members of a consumer group (KIP-848) whose target assignment an epoch changes, played one by one without messages.

They give up partitions, wait for the partitions of others, take them, and report it; the coordinator learns of it
through `coordinator.consumer.regular_step`. They depend on each other in only one respect: whether a partition is free
when a heartbeat arrives. And nothing that a member does between two such arrivals depends on what happens meanwhile,
unless an epoch begins. So there are two kinds of events, in one heap of plain numbers: a heartbeat arrives, and a
client reacts to the answer. All times from one of them to the next are computed in one step. The random numbers that
members draw are computed ahead, for all members together."""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kgm.coordinator.consumer import records
from kgm.coordinator.consumer.regular_step import next_step, take_step
from kgm.coordinator.contract.settings import BrokerSettings, heartbeat_interval_ms
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import Assigned, ConsumerMember, Target
from kgm.model.assignment import less
from kgm.records.member_states import MemberState
from kgm.records.record import Record
from kgm.simulation.play.bulk.arrays import network_ms, random_words, shares
from kgm.simulation.play.bulk.consumer_heartbeats import UP_TO_DATE, consumer_group_of, heartbeat_response
from kgm.simulation.play.client_profiles import PROFILES
from kgm.simulation.play.consumer_member import ScriptedConsumerMember
from kgm.simulation.play.timing import HEARTBEAT_LATE_MS, LONGEST_TRIP_MS, promptly
from kgm.simulation.play.world import World

#: A client has reacted to an answer after this many ms at the latest.
LONGEST_REACTION_MS: Final = max(profile.react[1] + profile.revoke[1] for profile in PROFILES.values())

#: The stages of a reconciling member, besides UP_TO_DATE: its heartbeat arrives, which it may not have sent yet; or it
#: reacts to an answer, which it may not have received yet.
_HEARTBEATING, _REACTING = 1, 2
_STABLE: Final = MemberState.STABLE
#: How many numbers are drawn ahead, which is more than most members need to reach a target; and how many must be left
#: when a heartbeat arrives: for the answer, the period, two for the reaction, and the trip of the next heartbeat.
_AHEAD: Final = 32
_PER_ARRIVAL: Final = 5


@dataclass(slots=True, eq=False)
class ReconcilingMember:
    """One member. Its own state stays in `ScriptedMember`, as it is when the last answer is received.

    known: as the coordinator sees it. target: its target assignment. is_affected: whether the target has changed since
    the member last reached it. stage, due_ms: what happens next, and when. beat_ms: when the heartbeat that arrives
    last or next was sent, or will be sent. reports: whether that heartbeat follows a reaction. next_beat_ms: when the
    one after it is sent, unless the member reacts to the answer. heard_ms: when the last answer is received.
    before_epoch, before_period_ms, heard_words: the epoch and the period of the client until then, and how many numbers
    it draws at that moment.

    trips_ms, shares: the numbers of its stream from `drawn_from` on, converted to network trips and to shares. at: the
    position of the next one; the stream itself is not updated until the member is taken out."""

    slot: int
    member: ScriptedConsumerMember
    known: ConsumerMember
    target: Target
    is_affected: bool = True
    stage: int = UP_TO_DATE
    due_ms: float = 0.0
    beat_ms: float = 0.0
    reports: bool = False
    next_beat_ms: float = 0.0
    heard_ms: float = -math.inf
    before_epoch: int = 0
    before_period_ms: float = 0.0
    heard_words: int = 0
    drawn_from: int = 0
    at: int = 0
    trips_ms: Sequence[float] = ()
    shares: Sequence[float] = ()

    @property
    def drawn(self) -> int:
        """How many numbers it has drawn."""
        return self.drawn_from + self.at


class ReconcilingMembers:
    """members: by slot, in no order. touched, touched_ms: the slots of members whose sessions were extended since
    `clear`, and when. written, written_ms: the records that the coordinator would have written, if records are kept."""

    def __init__(self, world: World, settings: BrokerSettings) -> None:
        self.members: dict[int, ReconcilingMember] = {}
        self.touched: list[int] = []
        self.touched_ms: list[float] = []
        self.written: list[Record] = []
        self.written_ms: list[float] = []
        self._world = world
        self._settings = settings
        self._interval_ms = heartbeat_interval_ms(settings, None)
        self._heap: list[tuple[float, int]] = []
        #: The ids of the topics that members subscribe to, by their names.
        self._subscribed: dict[frozenset[str], frozenset[bytes]] = {}

    # -- which members

    @property
    def can_play(self) -> bool:
        """Whether heartbeats are far enough apart that a client has reacted to the answer to one before it sends the
        next."""
        return self._interval_ms > LONGEST_TRIP_MS + LONGEST_REACTION_MS

    def may_take(self, known: ConsumerMember, target: Target) -> bool:
        """Whether nothing unusual can happen to a member on its way to this target: its rebalance timeout does not
        expire, and it subscribes to all of these topics."""
        names = known.subscribed_topic_names
        ids = self._subscribed.get(names)
        if ids is None:
            by_name = self._world.image.by_name
            ids = self._subscribed[names] = frozenset(by_name[name].topic_id for name in names if name in by_name)
        return (
            target.keys() <= ids
            and known.rebalance_timeout_ms > LONGEST_TRIP_MS + LONGEST_REACTION_MS
            and known.classic is None
            and not known.subscribed_topic_regex
        )

    def is_at_rest(self, one: ReconcilingMember) -> bool:
        """Whether a member has reached its target, and none of its messages is on its way."""
        now_ms = self._world.clock.now_ms
        return not one.is_affected and one.heard_ms <= now_ms and (one.stage == UP_TO_DATE or one.beat_ms > now_ms)

    def add_beating(self, one: ReconcilingMember, beat_ms: float) -> None:
        """Add a member that has heard all answers, with the heartbeat that it has sent, or will send, at `beat_ms`."""
        self._beat(one, beat_ms)
        self._add(one)

    def add_answered(self, one: ReconcilingMember, heard_ms: float) -> None:
        """Add a member that has sent a heartbeat whose answer is on its way; in the coordinator it already has the
        answer's epoch."""
        member = one.member
        one.beat_ms, one.heard_ms = member.last_beat_ms, heard_ms
        one.next_beat_ms = one.beat_ms + member.period_ms
        self._hear(one)
        self._wait(one)
        self._add(one)

    def add_up_to_date(self, one: ReconcilingMember, due_ms: float) -> None:
        """Add a member that hands in its next heartbeat at `due_ms`."""
        one.next_beat_ms = one.due_ms = due_ms
        self._add(one)

    def _add(self, one: ReconcilingMember) -> None:
        self.members[one.slot] = one
        heapq.heappush(self._heap, (one.due_ms, one.slot))

    # -- their random numbers

    def draw_ahead(self, some: Sequence[ReconcilingMember]) -> None:
        """Compute the numbers that these members will draw next, and the one that they have drawn last, because it may
        be given back."""
        firsts = [max(one.drawn - 1, 0) for one in some]
        keys = np.array([one.member.chance.key for one in some], dtype=np.uint64)
        words = random_words(keys, np.array(firsts, dtype=np.uint64), _AHEAD)
        for one, first, trips_ms, of_one in zip(
            some, firsts, network_ms(words).T.tolist(), shares(words).T.tolist(), strict=True
        ):
            one.at, one.drawn_from, one.trips_ms, one.shares = one.drawn - first, first, trips_ms, of_one

    def _draw_on(self, one: ReconcilingMember) -> None:
        """Compute more numbers for this member, and for the members that will need them soon."""
        others = self.members.values()
        self.draw_ahead([one, *(each for each in others if each.at > _AHEAD // 2 and each is not one)])

    # -- what they do

    @property
    def next_ms(self) -> float:
        """When one of them does something next, or an earlier time."""
        return self._heap[0][0] if self._heap else math.inf

    def run(self, until_ms: float) -> None:
        """Carry out what members have done by `until_ms`, which is not later than the next event."""
        heap, members = self._heap, self.members
        if not heap or heap[0][0] > until_ms:
            return
        group = consumer_group_of(self._world)
        while heap and heap[0][0] <= until_ms:
            due_ms, slot = heap[0]
            one = members.get(slot)
            if one is None or one.due_ms != due_ms:
                heapq.heappop(heap)  # it was taken out
                continue
            if one.stage == _HEARTBEATING:
                self._arrive(one, group)
            elif one.stage == _REACTING:
                self._react(one)
            else:
                self._hand_in(one)
            heapq.heapreplace(heap, (one.due_ms, slot))

    def epoch_began(self) -> None:
        """Heartbeats that were left out are sent again (`ScriptedMember.resume_heartbeats`)."""
        now_ms = self._world.clock.now_ms
        for one in self.members.values():
            member = one.member
            if one.stage == _REACTING:
                continue
            if one.stage == _HEARTBEATING and one.beat_ms <= now_ms:
                one.next_beat_ms = one.beat_ms + member.period_ms
                continue
            if one.stage == _HEARTBEATING:
                one.at -= 1
            period_ms = member.period_ms if one.heard_ms <= now_ms else one.before_period_ms
            missed = max((now_ms - member.last_beat_ms) // period_ms, 0)
            member.last_beat_ms += missed * period_ms
            one.next_beat_ms = max(member.last_beat_ms + period_ms, now_ms)
            self._wait(one)
        self._heap = [(one.due_ms, slot) for slot, one in self.members.items()]
        heapq.heapify(self._heap)

    def settled_from_ms(self) -> float:
        """The time until which, at least, some member has not reached the epoch and the target, or waits for an
        answer."""
        return max(
            [one.heard_ms if one.stage == UP_TO_DATE else one.due_ms for one in self.members.values()],
            default=float("-inf"),
        )

    def next_arrival(self) -> tuple[float, int | None]:
        """When the next heartbeat of a member that is not up to date arrives, and the slot of that member."""
        first_ms, first = float("inf"), None
        for slot, one in self.members.items():
            at_ms = one.due_ms
            if one.stage == UP_TO_DATE:
                continue
            if one.stage == _REACTING:
                at_ms = max(at_ms + one.trips_ms[one.at], one.member.link_busy_until_ms)
            if at_ms < first_ms:
                first_ms, first = at_ms, slot
        return first_ms, first

    def clear(self) -> None:
        """Forget what was touched and written, after it has been processed."""
        for each in (self.touched, self.touched_ms, self.written, self.written_ms):
            each.clear()

    def _arrive(self, one: ReconcilingMember, group: ConsumerGroup) -> None:
        """A heartbeat arrives: compute the answer, and when and how the client reacts to it."""
        member, before, arrives_ms = one.member, one.known, one.due_ms
        self.touched.append(one.slot)
        self.touched_ms.append(arrives_ms)
        member.last_beat_ms = member.extended_ms = one.beat_ms
        member.link_busy_until_ms = arrives_ms
        if one.at + _PER_ARRIVAL > _AHEAD:
            self._draw_on(one)
        is_answered_with_assignment = False
        after = next_step(group, before, one.target)
        if after is not before:
            one.known = after = take_step(group, after)
            self._written(one, group)
            # A step either takes partitions away or assigns some.
            is_answered_with_assignment = _count(before.assigned) != _count(after.assigned)
        if after.state is _STABLE:
            one.is_affected = False
        one.heard_ms = arrives_ms + one.trips_ms[one.at]
        one.at += 1
        self._hear(one)
        if is_answered_with_assignment:
            pace, profile, at, shares = self._world.timing.pace, member.profile, one.at, one.shares
            (least, most), (least_revoke, most_revoke) = profile.react, profile.revoke
            react_ms = least + (most - least) * promptly(shares[at])
            revoke_ms = least_revoke + (most_revoke - least_revoke) * promptly(shares[at + 1])
            one.at = at + 2
            one.heard_words += 2
            one.stage, one.due_ms = _REACTING, one.heard_ms + (pace * react_ms + pace * revoke_ms)
        else:
            self._wait(one)

    def _written(self, one: ReconcilingMember, group: ConsumerGroup) -> None:
        """The member's state in the coordinator has changed."""
        world, known = self._world, one.known
        if known.state is _STABLE:
            world.unreconciled.discard(known.member_id)
        else:
            world.unreconciled.add(known.member_id)
        if world.kept_records is not None:
            self.written.append(records.current_record(group, known))
            self.written_ms.append(one.due_ms)

    def _hear(self, one: ReconcilingMember) -> None:
        """The client receives an answer, apart from any assignment in it."""
        member = one.member
        one.before_epoch, one.before_period_ms = member.generation, member.period_ms
        member.generation = one.known.member_epoch
        member.period_ms = self._interval_ms + HEARTBEAT_LATE_MS * one.shares[one.at]
        one.at += 1
        one.heard_words = 1

    def _react(self, one: ReconcilingMember) -> None:
        """Give up and take partitions, and report it (`ScriptedConsumerMember._reconcile`)."""
        member, known, now_ms, ledger = one.member, one.known, one.due_ms, self._world.ledger
        target = self._by_name(known.assigned)
        if known.pending_revocation:  # then it gains nothing
            ledger.drop(member.consumes_as, self._by_name(known.pending_revocation), now_ms)
        else:
            ledger.take(member.consumes_as, less(target, member.owned), now_ms)
        member.owned = member.target = target
        if target and member.waited_ms is None:
            member.waited_ms = now_ms - member.started_ms
        self._beat(one, now_ms)
        one.reports = True
        if self._is_stable(one):
            one.next_beat_ms = self._last_in_time_ms(one, now_ms)

    def _hand_in(self, one: ReconcilingMember) -> None:
        """A heartbeat that changes nothing but the session's deadline (`ScriptedMember._beat`)."""
        self.touched.append(one.slot)
        self.touched_ms.append(one.due_ms)
        one.member.last_beat_ms = one.member.extended_ms = one.due_ms
        one.next_beat_ms = one.due_ms = self._last_in_time_ms(one, one.due_ms)

    def _last_in_time_ms(self, one: ReconcilingMember, beat_ms: float) -> float:
        """When a member that is up to date sends the next heartbeat after this one (`ScriptedMember._beat_at`)."""
        period_ms = one.member.period_ms
        at_ms = beat_ms + period_ms
        spare_ms = beat_ms + self._world.consumer_session_ms - period_ms - at_ms
        return at_ms + (spare_ms // period_ms) * period_ms if spare_ms > period_ms else at_ms

    def _is_stable(self, one: ReconcilingMember) -> bool:
        return one.member.generation == self._world.generation and one.known.state is _STABLE

    def _wait(self, one: ReconcilingMember) -> None:
        """Wait for the next heartbeat."""
        if self._is_stable(one):
            one.stage, one.due_ms = UP_TO_DATE, one.next_beat_ms
        else:
            self._beat(one, one.next_beat_ms)

    def _beat(self, one: ReconcilingMember, beat_ms: float) -> None:
        """Send a heartbeat at `beat_ms`."""
        member = one.member
        one.stage, one.beat_ms, one.reports = _HEARTBEATING, beat_ms, False
        one.next_beat_ms = beat_ms + member.period_ms
        one.due_ms = max(beat_ms + one.trips_ms[one.at], member.link_busy_until_ms)
        one.at += 1

    def _by_name(self, assigned: Assigned) -> dict[str, tuple[int, ...]]:
        names = self._world.image.by_id
        return {names[topic_id].name: tuple(sorted(those)) for topic_id, those in assigned.items() if those}

    # -- back to events

    def rest(self, slot: int) -> tuple[ReconcilingMember, float]:
        """Take out a member that `is_at_rest`. Returns it, and when its next heartbeat is scheduled."""
        one = self.members.pop(slot)
        one.member.chance.drawn = one.drawn - (one.stage == _HEARTBEATING)
        return one, one.beat_ms if one.stage == _HEARTBEATING else one.due_ms

    def release(self, slot: int) -> ConsumerMember:
        """Take out a member, which continues by events. Returns what the coordinator knows of it."""
        one = self.members.pop(slot)
        member, now_ms, stage = one.member, self._world.clock.now_ms, one.stage
        next_ms = one.next_beat_ms
        member.chance.drawn = one.drawn
        if stage == UP_TO_DATE:
            next_ms = one.due_ms
        elif stage == _HEARTBEATING and one.beat_ms > now_ms:
            member.chance.drawn -= 1
            next_ms = one.beat_ms
        if one.heard_ms > now_ms:
            member.chance.drawn -= one.heard_words
            member.generation, member.period_ms = one.before_epoch, one.before_period_ms
            assigned = one.known.assigned if stage == _REACTING else None
            answer = heartbeat_response(member.member_id, one.known.member_epoch, self._interval_ms, assigned)
            member.is_sent_answer(member.last_beat_ms, answer, one.heard_ms)
        elif stage == _REACTING:
            member.reacts_at(one.due_ms, self._by_name(one.known.assigned))
        elif stage == _HEARTBEATING and one.beat_ms <= now_ms:
            member.has_sent_heartbeat(one.beat_ms, one.due_ms, owns=one.reports)
        member.resume_beating_at(next_ms)
        return one.known


def _count(assigned: Assigned) -> int:
    return sum(map(len, assigned.values()))
