"""A scripted consumer of the protocol of KIP-848: one heartbeat for everything, and partitions are given up and taken
over member by member.

The rules are those of ConsumerHeartbeatRequestManager and ConsumerMembershipManager (Java) and of rdkafka_cgrp.c
(librdkafka), which agree in everything that affects a group: a member that gives up or takes partitions reports it
immediately with a heartbeat, and everything else waits for the next heartbeat, whose interval the broker sets."""

from kgm.coordinator.contract.outcome import Request
from kgm.model.assignment import Partitions, less
from kgm.model.errors import ErrorCode, error_name
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kgm.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kgm.simulation.plan.bounce_plan import GroupProtocol
from kgm.simulation.plan.member_ids import new_consumer_member_id
from kgm.simulation.play.draw import FULL_FOR_NOW, TRIES_AGAIN, UNRELEASED
from kgm.simulation.play.scripted_member import LifecyclePhase, ScriptedMember
from kgm.simulation.play.timing import HEARTBEAT_LATE_MS

_VERSION = 1
#: Member epochs of KIP-848.
_JOIN, _LEAVE, _STEP_AWAY = 0, -1, -2


class ScriptedConsumerMember(ScriptedMember):
    """One consumer of the consumer protocol."""

    UNJOINED = _JOIN

    def _forget(self) -> None:
        super()._forget()
        self.target: Partitions = {}
        #: How many heartbeats have not been answered yet.
        self.unanswered = 0
        self._refusals = 0

    def _first_period_ms(self) -> float:
        return self.world.consumer_heartbeat_ms

    def _joined_before(self) -> None:
        self.target = self.owned
        self.period_ms += HEARTBEAT_LATE_MS * self.chance.random()

    @property
    def is_behind(self) -> bool:
        """Whether it has not reached its target assignment yet."""
        return self.generation != self.world.generation or self.member_id in self.world.unreconciled

    # -- joining

    def _begin(self) -> None:
        """Join with a member id that the client generates (KIP-1082)."""
        self.member_id = new_consumer_member_id(self.world.id_chance())
        self.world.drawn_member_ids.add(self.member_id)
        self._join()

    def _join(self) -> None:
        """Join, or rejoin after the group has removed it, without partitions."""
        self.next_action = None
        self.phase = LifecyclePhase.JOINING
        self.generation = _JOIN
        self.world.unfinished.add(self)
        self._send(self._message(joins=True))

    def _message(self, *, joins: bool = False, owns: bool = False) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat. joins: with everything that a member sends when it joins. owns: with what it owns now."""
        world, spec = self.world, self.spec
        message = ConsumerGroupHeartbeatRequest(
            group_id=world.group.group_id,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=spec.group_instance_id,
            topic_partitions=None,
        )
        if joins:
            message.rack_id = spec.rack
            message.rebalance_timeout_ms = self.spec.rebalance_timeout_ms
            message.subscribed_topic_names = list(spec.names)
            message.subscribed_topic_regex = spec.regex
            if world.group.protocol is GroupProtocol.CONSUMER:
                message.server_assignor = world.group.vote_of(self.spec.identity)
        if joins or owns:
            ids = world.image.by_name
            message.topic_partitions = [
                TopicPartitions(topic_id=ids[topic].topic_id, partitions=list(numbers))
                for topic, numbers in self.owned.items()
            ]
        return message

    # -- heartbeats

    def _send(self, message: ConsumerGroupHeartbeatRequest) -> None:
        """Send a heartbeat now, and the next one an interval later."""
        self._stop_heartbeats()
        self.last_beat_ms = self.extended_ms = self.world.clock.now_ms
        self._send_now(message)
        self._beat_at(self.world.clock.now_ms + self.period_ms)

    def _heartbeat(self) -> Request:
        request = self._handed_in
        if request is not None:
            last = request.message
            assert isinstance(last, ConsumerGroupHeartbeatRequest)
            if last.member_epoch == self.generation:
                return request
        self._handed_in = Request(self._message(), _VERSION, self.client_id, self.client_host)
        return self._handed_in

    def _send_heartbeat(self) -> None:
        """Unless the last one has not been answered: clients have one request at a time under way
        (HeartbeatRequestManager in Kafka's client), and two would have the same epoch."""
        if not self.unanswered:
            self._send_now(self._message())

    def _send_now(self, message: ConsumerGroupHeartbeatRequest) -> None:
        self.unanswered += 1
        self.world.send(self, message, _VERSION, self._on_beat)

    def has_sent_heartbeat(self, sent_ms: float, arrives_ms: float, *, owns: bool = False) -> None:
        """Record that a heartbeat was sent at `sent_ms`, which is still on its way to the broker. owns: it reports what
        it owns."""
        self._beat_before(sent_ms)
        self.link_busy_until_ms = arrives_ms
        self.world.post_request(self, self._message(owns=owns), _VERSION, self._on_beat, arrives_ms)

    def is_sent_answer(self, sent_ms: float, answer: ConsumerGroupHeartbeatResponse, arrives_ms: float) -> None:
        """Record that a heartbeat was sent at `sent_ms`, whose answer is on its way back."""
        self._beat_before(sent_ms)
        self.world.post_reply(self, answer, self._on_beat, arrives_ms)

    def reacts_at(self, at_ms: float, target: Partitions) -> None:
        """React at that time to an answer with this target."""
        self.target = target
        self.world.unfinished.add(self)
        self.next_action = self.world.clock.at(at_ms, self._reconcile)

    def _beat_before(self, sent_ms: float) -> None:
        self.unanswered += 1
        self.last_beat_ms = self.extended_ms = sent_ms
        self.resume_beating_at(sent_ms + self.period_ms)

    @property
    def session_timeout_ms(self) -> int:
        return self.world.consumer_session_ms

    @property
    def _is_calm(self) -> bool:
        return self.phase is LifecyclePhase.STABLE and self.next_action is None and not self._must_be_heard

    @property
    def _must_be_heard(self) -> bool:
        """Whether a heartbeat may change the group or the member."""
        return self.is_behind or self.world.regexes.are_open

    @property
    def _may_hand_in(self) -> bool:
        """Only while the member is calm; otherwise the heartbeat would move it to the next epoch."""
        return self._is_calm

    def _on_beat(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.unanswered -= 1
        match response.error_code:
            case ErrorCode.NONE:
                self._heard(response)
            case ErrorCode.FENCED_MEMBER_EPOCH | ErrorCode.UNKNOWN_MEMBER_ID:
                self._release()
                self._cancel_next_action()
                self._join()
            case ErrorCode.FENCED_INSTANCE_ID:
                self._fenced()
            case ErrorCode.UNRELEASED_INSTANCE_ID if self.profile.retries_ms is not None:
                self._join_again(*self.profile.retries_ms)
            case ErrorCode.UNRELEASED_INSTANCE_ID:
                self._end_refused(UNRELEASED)
            case ErrorCode.GROUP_MAX_SIZE_REACHED if self.world.observer.expects_room():
                self._end_refused(FULL_FOR_NOW)
            case (
                (
                    ErrorCode.GROUP_MAX_SIZE_REACHED
                    | ErrorCode.UNSUPPORTED_ASSIGNOR
                    | ErrorCode.GROUP_ID_NOT_FOUND
                    | ErrorCode.INVALID_REQUEST  # a blank instance id or rack, which the classic protocol accepts
                )
                as code
            ):
                self._end_refused(f"the heartbeat to join is refused with {error_name(code)}")
            case code:
                raise AssertionError(f"ConsumerGroupHeartbeat answered with {error_name(code)}")

    def _join_again(self, first_ms: float, longest_ms: float) -> None:
        """Try again after a while, because another process seems to have the instance id."""
        if not self._refusals:
            self.world.refuse(self, TRIES_AGAIN)
        self._stop_heartbeats()
        wait_ms = min(first_ms * 2**self._refusals, longest_ms)
        self._refusals += 1
        self.next_action = self.world.clock.after(wait_ms, self._join)

    def _heard(self, response: ConsumerGroupHeartbeatResponse) -> None:
        world = self.world
        self.generation = response.member_epoch
        self.period_ms = response.heartbeat_interval_ms + HEARTBEAT_LATE_MS * self.chance.random()
        if self.phase is LifecyclePhase.JOINING:
            self.phase = LifecyclePhase.STABLE
        if response.assignment is not None:
            names = world.image.by_id
            rows = response.assignment.topic_partitions
            self.target = {names[row.topic_id].name: tuple(sorted(row.partitions)) for row in rows if row.partitions}
        if self.target != self.owned or self.consumes_as != self.identity:
            world.unfinished.add(self)
            if self.next_action is None:
                span_ms = self.takes_ms(self.profile.react) + self.takes_ms(self.profile.revoke)
                self.next_action = world.clock.after(span_ms, self._reconcile)
        elif self.next_action is None:
            world.unfinished.discard(self)

    def _reconcile(self) -> None:
        """Give up what is not in the target, take what is new, and report it."""
        world = self.world
        self.next_action = None
        now_ms = world.clock.now_ms
        if self.consumes_as != self.identity:
            world.ledger.drop(self.consumes_as, self.owned, now_ms)
            self.consumes_as, self.owned = self.identity, {}
        world.ledger.drop(self.consumes_as, less(self.owned, self.target), now_ms)
        world.ledger.take(self.consumes_as, less(self.target, self.owned), now_ms)
        has_changed = self.owned != self.target
        self.owned = {topic: tuple(numbers) for topic, numbers in self.target.items()}
        if self.owned and self.waited_ms is None:
            self.waited_ms = now_ms - self.started_ms
        world.unfinished.discard(self)
        if has_changed:
            self._send(self._message(owns=True))

    # -- endings

    def _close(self, *, leaves: bool) -> None:
        """A dynamic member leaves; a static one announces that it will return (epoch -2)."""
        self.generation = _LEAVE if leaves else _STEP_AWAY
        message = self._message()
        if not leaves and not self.profile.names_itself_when_closed:
            message.instance_id = None
        self.world.send(self, message, _VERSION, None)

    def _release(self) -> None:
        super()._release()
        self.target = {}
