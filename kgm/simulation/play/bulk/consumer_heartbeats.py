"""The heartbeats of members of a consumer group (KIP-848) that an epoch does not affect, without a request for each:
they change nothing, or inform the member of the epoch. What a member does, and which random numbers it draws for that,
is in `scripted_member` and `consumer_member`."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from kgm.coordinator.consumer import target
from kgm.coordinator.contract.settings import BrokerSettings, heartbeat_interval_ms
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import Assigned, ConsumerMember
from kgm.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kgm.simulation.play.bulk.arrays import Floats, Ints, RandomWords, network_ms, random_words, shares
from kgm.simulation.play.consumer_member import ScriptedConsumerMember
from kgm.simulation.play.timing import HEARTBEAT_LATE_MS
from kgm.simulation.play.world import World

#: How many numbers a member draws for a heartbeat: for the trip there, the trip back, and the time to the next one.
_DRAWN: Final = 3

#: What happens to a member next, its *stage*: it hands in a heartbeat, with the ones before left out
#: (`ScriptedMember`); or its heartbeat, which it may not have sent yet, arrives and informs it of the epoch; or the
#: answer arrives.
UP_TO_DATE, BEHIND, ANSWERED = range(3)


def consumer_group_of(world: World) -> ConsumerGroup:
    """The group as the coordinator sees it."""
    group = world.engine.consumer_group(world.group.group_id)
    assert group is not None
    return group


class HeartbeatArrays:
    """members: all that the draw may have. Arrays have an entry for each of them, its *slot*. Names are the same as in
    `ScriptedMember`; times are in ms.

    due: when the next thing happens, according to the stage. beat: when the heartbeat is sent that is due or on its
    way; arrives, replied: when it arrives, and when its answer does. next_period: the period from then on. answer: the
    epoch in the answer. epoch, previous: the epochs of the member in the coordinator, whose own data is outdated.
    deadline, turn: of its session. _behind: how many of the members that are played with these arrays are not up to
    date."""

    def __init__(self, world: World, members: Sequence[ScriptedConsumerMember], settings: BrokerSettings) -> None:
        self.members = members
        self._world = world
        self._settings = settings
        self._interval_ms, self._session_ms = heartbeat_interval_ms(settings, None), world.consumer_session_ms
        self._slot_of = {member: slot for slot, member in enumerate(members)}
        self._known: dict[str, ConsumerMember] = {}
        self._behind = 0
        size = len(members)
        self.keys: RandomWords = np.array([member.chance.key for member in members], dtype=np.uint64)
        self.drawn: RandomWords = np.zeros(size, dtype=np.uint64)
        self.stage: Ints = np.zeros(size, dtype=np.int64)
        self.due_ms, self.beat_ms, self.arrives_ms, self.replied_ms = (np.zeros(size) for _ in range(4))
        self.period_ms, self.next_period_ms = np.zeros(size), np.zeros(size)
        self.last_beat_ms, self.extended_ms, self.link_busy_ms = np.zeros(size), np.zeros(size), np.zeros(size)
        self.generation, self.answer, self.epoch, self.previous, self.deadline_ms, self.turn = (
            np.zeros(size, dtype=np.int64) for _ in range(6)
        )

    def _group(self) -> ConsumerGroup:
        return consumer_group_of(self._world)

    def _assigned_from_ms(self, group: ConsumerGroup) -> float:
        return target.due_from_ms(group, self._settings, None)

    # -- from scripted members, and back

    def _read_clients(self, slots: Sequence[int], known: Sequence[ConsumerMember], group: ConsumerGroup) -> None:
        """Load what members know that have heard all answers, and what the coordinator knows of them."""
        for each in known:
            self._known[each.member_id] = each
            if len(each.assigned) > 1:
                # When a member moves to another epoch, its topics are in the order of the target assignment.
                assigned = {topic_id: each.assigned[topic_id] for topic_id in group.target_of(each.member_id)}
                self._known[each.member_id] = each._replace(assigned=assigned)
        members = [self.members[slot] for slot in slots]
        self.drawn[slots] = [member.chance.drawn for member in members]
        self.link_busy_ms[slots] = [member.link_busy_until_ms for member in members]
        self.period_ms[slots] = [member.period_ms for member in members]
        self.generation[slots] = [member.generation for member in members]
        self.last_beat_ms[slots] = [member.last_beat_ms for member in members]
        self.extended_ms[slots] = [member.extended_ms for member in members]
        self.epoch[slots] = [each.member_epoch for each in known]
        self.previous[slots] = [each.previous_member_epoch for each in known]
        self.stage[slots] = UP_TO_DATE

    def _write_clients(self, slots: Sequence[int]) -> None:
        """Write what members know back to the scripted members."""
        columns = self.drawn, self.link_busy_ms, self.period_ms, self.generation, self.last_beat_ms, self.extended_ms
        for slot, drawn, link_busy_ms, period_ms, generation, last_beat_ms, extended_ms in zip(
            slots, *(column[slots].tolist() for column in columns), strict=True
        ):
            member = self.members[slot]
            member.chance.drawn, member.link_busy_until_ms = drawn, link_busy_ms
            member.generation, member.period_ms = generation, period_ms
            member.last_beat_ms, member.extended_ms = last_beat_ms, extended_ms

    def _as_known(self, member: ScriptedConsumerMember, group: ConsumerGroup) -> ConsumerMember:
        """The member as the coordinator would know it."""
        slot, known = self._slot_of[member], group.members[member.member_id]
        if known.member_epoch == self.epoch[slot]:
            return known
        return self._known[member.member_id]._replace(
            member_epoch=int(self.epoch[slot]), previous_member_epoch=int(self.previous[slot])
        )

    # -- heartbeats

    def _send_at(self, places: Ints, beat_ms: Floats) -> None:
        """Send heartbeats over the network at these times, and compute when they arrive and are answered."""
        drawn = random_words(self.keys[places], self.drawn[places], _DRAWN)
        arrives_ms = np.maximum(beat_ms + network_ms(drawn[0]), self.link_busy_ms[places])
        self.beat_ms[places], self.arrives_ms[places] = beat_ms, arrives_ms
        self.replied_ms[places] = arrives_ms + network_ms(drawn[1])
        self.next_period_ms[places] = self._interval_ms + HEARTBEAT_LATE_MS * shares(drawn[2])
        self.stage[places], self.due_ms[places] = BEHIND, arrives_ms

    def _hand_in(self, places: Ints) -> None:
        """Heartbeats that change nothing but the session's deadline (`ScriptedMember._beat_at`)."""
        at_ms, period_ms = self.due_ms[places], self.period_ms[places]
        self.last_beat_ms[places] = self.extended_ms[places] = at_ms
        next_ms = at_ms + period_ms
        spare_ms = at_ms + self._session_ms - period_ms - next_ms
        self.due_ms[places] = next_ms + (spare_ms // period_ms) * period_ms

    def _arrive(self, places: Ints, group: ConsumerGroup) -> Ints:
        """Heartbeats arrive. Returns the members that this moves to another epoch."""
        aim = group.assignment_epoch
        is_due = group.group_epoch > aim and (self.arrives_ms[places] >= self._assigned_from_ms(group)).any()
        assert not is_due, "one of these heartbeats has the target assignment computed"
        self.last_beat_ms[places] = self.extended_ms[places] = self.beat_ms[places]
        self.link_busy_ms[places] = self.arrives_ms[places]
        self.drawn[places] += np.uint64(2)
        moved: Ints = places[self.epoch[places] != aim]
        self.previous[moved] = self.epoch[moved]
        self.epoch[moved] = self.answer[places] = aim
        self.stage[places], self.due_ms[places] = ANSWERED, self.replied_ms[places]
        return moved

    def _hear(self, places: Ints) -> None:
        """Answers arrive. A member that is still behind reports it with its next heartbeat."""
        self.drawn[places] += np.uint64(1)
        self.generation[places] = self.answer[places]
        next_ms = self.beat_ms[places] + self.period_ms[places]
        self.period_ms[places] = self.next_period_ms[places]
        self.stage[places], self.due_ms[places] = UP_TO_DATE, next_ms
        is_behind = self.generation[places] != self._world.generation
        behind = int(np.count_nonzero(is_behind))
        if behind:
            self._send_at(places[is_behind], next_ms[is_behind])
        self._behind -= len(places) - behind


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
