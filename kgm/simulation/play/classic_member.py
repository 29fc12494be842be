"""A scripted consumer of a classic group: reacts to each response as a real one does, at the pace of its library.

The rules are those of AbstractCoordinator and ConsumerCoordinator (Java) and of rdkafka_cgrp.c (librdkafka).
Differences between the two are data in `client_profiles`, or branches here that name the library."""

from collections.abc import Mapping

from kgm.assignors import is_cooperative
from kgm.coordinator.contract.outcome import Request
from kgm.java.hash_map import DEFAULT_CAPACITY
from kgm.model.assignment import Partitions, less
from kgm.model.client_library import FRANZ_GO
from kgm.model.errors import ErrorCode, error_name
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.join_group_response import JoinGroupResponse
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.messages.sync_group_response import SyncGroupResponse
from kgm.protocol.subscription import NO_GENERATION, PROTOCOL_TYPE
from kgm.simulation.plan.bounce_plan import Stop
from kgm.simulation.plan.client_library import KEEPING, STICKY, Library
from kgm.simulation.plan.starting_group import StartingMember
from kgm.simulation.play.client_profiles import ClientProfile, Span
from kgm.simulation.play.draw import FULL_FOR_NOW, TRIES_UNTIL_THERE_IS_ROOM
from kgm.simulation.play.leader import assignments, encode_sticky_data
from kgm.simulation.play.scripted_member import LifecyclePhase, ScriptedMember
from kgm.simulation.play.timing import heartbeat_period_ms
from kgm.simulation.play.world import World

_SYNC_NAMES_PROTOCOL_FROM = 5
_LEAVE_IS_BATCH_FROM = 3
#: Errors in JoinGroup responses that end a consumer.
_REFUSALS = frozenset(
    {
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class ScriptedClassicMember(ScriptedMember):
    """One consumer of the classic protocol."""

    UNJOINED = NO_GENERATION

    def __init__(self, world: World, spec: StartingMember, profile: ClientProfile) -> None:
        self.assignor = world.group.assignor
        keeps = profile.library in KEEPING or spec.identity not in world.group.giving_up
        self.keeps_while_joining = is_cooperative(self.assignor) and keeps
        self.subscription_version = spec.subscription_version(self.assignor)
        super().__init__(world, spec, profile)

    def _forget(self) -> None:
        super()._forget()
        self.remembered: Partitions = {}
        self.remembered_generation = NO_GENERATION
        self.last_join_ms = float("-inf")
        #: Whether it has sent a heartbeat in this life.
        self.has_beaten = False
        #: When it knows the topics that it subscribes to, and whether it has asked for those of the others.
        self.knows_topics_at_ms = float("-inf")
        self.has_led = False
        #: Whether the group had no room for it, in this life.
        self.is_refused = False
        #: Whether it leads the current generation, and has left out topics that it did not know.
        self.has_left_out = False

    def _first_period_ms(self) -> float:
        interval_ms = self.spec.heartbeat_interval_ms or self.world.timing.heartbeat_interval_ms
        return heartbeat_period_ms(self.profile, interval_ms, self.chance)

    def _joined_before(self) -> None:
        self.remembered, self.remembered_generation = self.owned, self.generation
        self.has_beaten = True

    # -- joining

    def _begin(self) -> None:
        span = self.profile.topics_ms
        if span is not None and not self.world.knows_topics_first:
            least_ms, most_ms = span
            self.knows_topics_at_ms = self.world.clock.now_ms + least_ms + (most_ms - least_ms) * self.chance.random()
        self._join()

    def _join_soon(self, delay_ms: float, *, at_once: bool = False) -> None:
        """at_once: do not keep the minimum gap between two JoinGroups."""
        world = self.world
        at_ms = world.clock.now_ms + delay_ms
        if not at_once:
            at_ms = max(at_ms, self.last_join_ms + self.profile.rejoin_gap_ms)
        if self.next_action is not None:
            self.next_action.cancel()
        world.unfinished.add(self)
        self.next_action = world.clock.at(at_ms, self._join)

    def _join(self) -> None:
        world, spec = self.world, self.spec
        self.next_action = None
        self._stop_heartbeats()
        if not self.keeps_while_joining:
            self._release()
        self.phase = LifecyclePhase.JOINING
        self.last_join_ms = world.clock.now_ms
        request = JoinGroupRequest(
            group_id=world.group.group_id,
            session_timeout_ms=spec.session_timeout_ms,
            rebalance_timeout_ms=spec.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=spec.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=self.assignor, metadata=self._subscription())],
        )
        version = min(self.profile.join_version, world.behavior.highest_join_version)
        world.send(self, request, version, self._on_join)

    def _subscription(self) -> bytes:
        eager = not self.keeps_while_joining
        generation = self.generation if self.profile.library is not Library.LIBRDKAFKA else self.remembered_generation
        if eager and not self.profile.sends_generation_when_eager:
            generation = NO_GENERATION
        claims = self.claims if self.assignor == STICKY else None
        data = None if claims is None else encode_sticky_data(*claims)
        owned: Partitions = {} if eager else self.owned
        return self.world.cache.encode_subscription(
            self.spec.topics, owned, data, generation, self.spec.rack, version=self.subscription_version
        )

    @property
    def claims(self) -> tuple[Partitions, int] | None:
        """What it was assigned last, and in which generation, as StickyAssignor reports it in the user data. Newer
        versions of franz-go have forgotten it by the time they join."""
        was_assigned = self.remembered_generation != NO_GENERATION
        may_forget = self.world.group.may_forget and self.assignor == STICKY
        forgets = may_forget and self.spec.assigner(self.assignor) == FRANZ_GO
        claimed = {} if forgets else self.remembered
        return (claimed, self.remembered_generation) if was_assigned else None

    def _on_join(self, response: JoinGroupResponse) -> None:
        match response.error_code:
            case ErrorCode.NONE:
                self._joined(response)
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                self.generation = NO_GENERATION
                self._join_soon(0, at_once=True)
            case ErrorCode.UNKNOWN_MEMBER_ID:
                if self.profile.library is not Library.LIBRDKAFKA:
                    self._lose_membership(forget_id=True)
                    self._join_soon(self.profile.lost_ms, at_once=True)
                else:
                    self.member_id = ""
                    self._join_soon(0)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._join_soon(0)
            case ErrorCode.FENCED_INSTANCE_ID:
                self._fenced()
            case ErrorCode.GROUP_MAX_SIZE_REACHED if self.world.observer.expects_room():
                if self.profile.full_retry_ms is not None:
                    self._try_until_there_is_room(self.profile.full_retry_ms)
                else:
                    self._end_refused(FULL_FOR_NOW)
            case code if code in _REFUSALS:
                self._end_refused(f"JoinGroup is refused with {error_name(code)}")
            case code:
                raise AssertionError(f"JoinGroup answered with {error_name(code)}")

    def _try_until_there_is_room(self, retry_ms: Span) -> None:
        first_ms, every_ms = retry_ms
        if self.is_refused:
            self._join_soon(every_ms, at_once=True)
            return
        self.is_refused = True
        self.world.refuse(self, TRIES_UNTIL_THERE_IS_ROOM)
        self._join_soon(first_ms * self.chance.random(), at_once=True)

    def _joined(self, response: JoinGroupResponse) -> None:
        """SyncGroup follows; the leader's contains the assignments of all members."""
        self.phase = LifecyclePhase.SYNCING
        self.member_id = response.member_id
        self.generation = response.generation_id
        if self.profile.beats_while_syncing:
            self.last_beat_ms, self.has_beaten = self.world.clock.now_ms, True
            self._beat_at(self.world.clock.now_ms + self.period_ms)
        delay = self.takes_ms(self.profile.think)
        leads = response.leader == response.member_id
        if leads and self.profile.library is Library.LIBRDKAFKA:
            delay += self.takes_ms(self.profile.think)  # it fetches metadata first
        leading = response if leads else None
        self.next_action = self.world.clock.after(delay, self._sync, leading, response.protocol_name)

    def _sync(self, leading: JoinGroupResponse | None, protocol: str) -> None:
        world = self.world
        self.next_action = None
        rows: list[SyncGroupRequestAssignment] = []
        self.has_left_out = False
        if leading is not None and not self._can_lead(leading):
            self._leave_and_return()
            return
        if leading is not None and not leading.skip_assignment:
            members = [world.cache.decode_member(self.assignor, row) for row in leading.members]
            group, known = world.group, self.known_topics
            wanted = () if known is group.topics else {topic for member in members for topic in member.topics}
            self.has_left_out = any(topic in group.topics and topic not in known for topic in wanted)
            self.has_led = True
            assigned = assignments(
                self.assignor,
                members,
                known,
                self.spec.assigner(self.assignor),
                group.listing_capacity or DEFAULT_CAPACITY,
                has_scala_maps=world.behavior.has_scala_maps,
                leader=self.member_id,
                map_order=world.map_order,
                cache=world.cache,
                has_user_data=group.has_user_data,
            )
            rows = [SyncGroupRequestAssignment(member_id=who, assignment=blob) for who, blob in assigned.items()]
        names_protocol = self.profile.sync_version >= _SYNC_NAMES_PROTOCOL_FROM
        request = SyncGroupRequest(
            group_id=world.group.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.spec.group_instance_id,
            protocol_type=PROTOCOL_TYPE if names_protocol else None,
            protocol_name=protocol if names_protocol else None,
            assignments=rows,
        )
        world.send(self, request, self.profile.sync_version, self._on_sync)

    @property
    def known_topics(self) -> Mapping[str, int]:
        """The topics that it can assign now."""
        topics, world = self.world.group.topics, self.world
        if self.profile.topics_ms is None or world.knows_topics_first:
            return topics
        if world.clock.now_ms < self.knows_topics_at_ms:
            return {}
        return topics if self.has_led else {name: topics[name] for name in topics if name in self.spec.topics}

    def _can_lead(self, leading: JoinGroupResponse) -> bool:
        """Whether it can read the subscriptions: kafka-go can only read those that end with the user data
        (consumergroup.go: makeMemberProtocolMetadata)."""
        is_picky = self.profile.library is Library.KAFKA_GO
        return not is_picky or all(self.world.cache.ends_at_user_data(row.metadata) for row in leading.members)

    def _leave_and_return(self) -> None:
        self._stop_heartbeats()
        self._close(leaves=True)
        self._lose_membership(forget_id=True)
        self._join_soon(self.profile.lost_ms, at_once=True)

    def _on_sync(self, response: SyncGroupResponse) -> None:
        is_prompt = self.profile.library is not Library.LIBRDKAFKA
        match response.error_code:
            case ErrorCode.NONE:
                self._assigned(self.world.cache.decode_assignment(response.assignment))
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._join_soon(0, at_once=is_prompt)
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._lose_membership(forget_id=True)
                self._join_soon(self.profile.lost_ms, at_once=is_prompt)
            case ErrorCode.ILLEGAL_GENERATION:
                self._lose_membership(forget_id=False)
                self._join_soon(0, at_once=is_prompt)
            case ErrorCode.FENCED_INSTANCE_ID:
                self._fenced()
            case code:
                raise AssertionError(f"SyncGroup answered with {error_name(code)}")

    def _assigned(self, assigned: Partitions) -> None:
        """Start to consume what is new. In the cooperative protocol, also give up what is no longer assigned, and join
        again so that others can get it."""
        world = self.world
        self.phase = LifecyclePhase.STABLE
        if self.next_action is None:
            world.unfinished.discard(self)
        if self.waited_ms is None:
            self.waited_ms = world.clock.now_ms - self.started_ms
        self.remembered, self.remembered_generation = assigned, self.generation
        lost = less(self.owned, assigned)
        if lost:
            world.ledger.drop(self.consumes_as, lost, world.clock.now_ms)
        if self.consumes_as != self.identity:
            world.ledger.drop(self.consumes_as, self.owned, world.clock.now_ms)
            self.consumes_as, self.owned = self.identity, {}
        world.ledger.take(self.consumes_as, less(assigned, self.owned), world.clock.now_ms)
        self.owned = {topic: tuple(numbers) for topic, numbers in assigned.items() if numbers}
        if lost and self.keeps_while_joining:
            self._join_soon(self.takes_ms(self.profile.revoke), at_once=True)
        if self.has_left_out:
            wait_ms = max(self.knows_topics_at_ms - world.clock.now_ms, 0.0)
            self._join_soon(wait_ms + self.takes_ms(self.profile.react), at_once=True)
        if self.profile.beats_while_syncing:
            self._beat_at(self.last_beat_ms + self.period_ms)
        else:
            due_ms = self.last_beat_ms + self.period_ms if self.has_beaten else world.clock.now_ms
            self._beat_at(max(world.clock.now_ms, due_ms))

    # -- heartbeats

    def _heartbeat(self) -> Request:
        request = self._handed_in
        if request is not None:
            last = request.message
            assert isinstance(last, HeartbeatRequest)
            if last.generation_id == self.generation and last.member_id == self.member_id:
                return request
        message = HeartbeatRequest(
            group_id=self.world.group.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.spec.group_instance_id,
        )
        self._handed_in = Request(message, self.profile.heartbeat_version, self.client_id, self.client_host)
        return self._handed_in

    def _send_heartbeat(self) -> None:
        self.has_beaten = True
        self.world.send(self, self._heartbeat().message, self.profile.heartbeat_version, self._on_beat)

    @property
    def session_timeout_ms(self) -> int:
        return self.spec.session_timeout_ms

    @property
    def _is_calm(self) -> bool:
        world = self.world
        return (
            not world.awaits_assignment
            and self.phase is LifecyclePhase.STABLE
            and self.next_action is None
            and self.generation == world.generation
            and (not world.unreconciled or self.member_id not in world.unreconciled)
        )

    @property
    def _may_hand_in(self) -> bool:
        """Also during a rebalance: a late heartbeat does not change it."""
        return self.phase is LifecyclePhase.STABLE and self.has_beaten

    def _on_beat(self, response: HeartbeatResponse) -> None:
        is_busy = self.phase is not LifecyclePhase.STABLE or self.next_action is not None
        if response.error_code == ErrorCode.NONE or is_busy:
            return
        react = self.takes_ms(self.profile.react)
        if self.profile.joins_after_fetches:
            react += self.fetch_ends_ms()
            self._stop_heartbeats()
            self._release()
        match response.error_code:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._join_soon(react, at_once=not self.keeps_while_joining)
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._lose_membership(forget_id=True)
                self._join_soon(react + self.profile.lost_ms, at_once=True)
            case ErrorCode.ILLEGAL_GENERATION:
                self._lose_membership(forget_id=False)
                self._join_soon(react, at_once=True)
            case ErrorCode.FENCED_INSTANCE_ID:
                self._fenced()
            case code:
                raise AssertionError(f"Heartbeat answered with {error_name(code)}")

    # -- endings

    def leaves_after(self, how: Stop) -> bool:
        """A librdkafka member does not leave either if its last assignment in a cooperative group was empty: it leaves
        after giving up partitions, and it has none to give up."""
        is_silent = self.keeps_while_joining and self.profile.leaves_after_last_revocation
        has_empty_assignment = self.remembered_generation != NO_GENERATION and not self.owned
        return super().leaves_after(how) and not (is_silent and has_empty_assignment)

    def _close(self, *, leaves: bool) -> None:
        if not leaves:
            return
        request = LeaveGroupRequest(group_id=self.world.group.group_id)
        if self.profile.leave_version < _LEAVE_IS_BATCH_FROM:
            request.member_id = self.member_id
        else:
            request.members = [MemberIdentity(member_id=self.member_id, reason="the consumer is being closed")]
        self.world.send(self, request, self.profile.leave_version, None)

    def _lose_membership(self, *, forget_id: bool) -> None:
        """The group has gone on without it, so it has lost what it owned."""
        self._release()
        self.generation = NO_GENERATION
        if forget_id:
            self.member_id = ""
