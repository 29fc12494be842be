"""Plays a plan in a world: who stops and starts when, until the group has come to rest. One draw."""

import random
from collections.abc import Callable, Mapping, Sequence

from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.assignment import Partitions
from kgm.model.ids import Millis
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, Stop
from kgm.simulation.plan.newcomers import newcomers
from kgm.simulation.plan.seed_records import installed
from kgm.simulation.plan.starting_group import Origin, Seat
from kgm.simulation.play.classic_member import Member
from kgm.simulation.play.client_profiles import HABITS, Library
from kgm.simulation.play.consumer_member import EpochMember
from kgm.simulation.play.leader import STICKY
from kgm.simulation.play.world import START_MS, World
from kgm.simulation.report.report import Outcome

#: Members that are stopped together do not stop in the same millisecond.
_STOP_SPREAD_MS = 100.0
#: From the last stop to the LeaveGroup of an operator who waits for it.
_REMOVAL_AFTER_MS = 200.0
_LEAVE_VERSION = 5
_REMOVAL_REASON = "member was removed by an admin"
#: Who waits for a group to be stable looks once in this time.
_LOOK_MS = 1_000.0
#: A group that is still rebalancing after so many rounds per member and action will not stop.
_HOPELESS_REBALANCES = 30
#: How long a group may take to come to rest, besides its own timeouts.
_PATIENCE_MS = 600_000


#: A scripted consumer, by the protocol of the group.
Scripted = Member | EpochMember


class Operator:
    """Who sends the LeaveGroup of a removal."""

    client_id = "kgm"
    client_host = "/127.0.0.1"
    life = 0
    link_busy_until_ms = 0.0


class Script:
    """One draw of a plan. led_by: of which library the leader is, or any. keeps_holdings: `Outcome.holdings`."""

    def __init__(
        self, origin: Origin, plan: Plan, settings: BrokerSettings, seed: str, *, led_by: Library | None = None,
        keeps_holdings: bool = False,
    ) -> None:  # fmt: skip
        self.origin = origin
        self.plan = plan
        self.world = World(
            origin, settings, seed, heartbeat_interval_ms=plan.heartbeat_interval_ms, keeps_holdings=keeps_holdings
        )
        self.world.wake = self._wake_all
        self.world.on_record = self._recorded
        self.world.on_gone = self._gone
        self.world.on_timer = self._timer_fired
        self.world.on_refused = self._refused
        self._planned = 0
        self._led_by = led_by
        self.members = [self._member(seat) for seat in origin.seats]
        self.by_identity = {member.seat.identity: member for member in self.members}
        #: Member ids of stopped processes that the coordinator still counts on, with their identities.
        self.ghosts: dict[str, str] = {}
        names = random.Random(seed + "/names")  # noqa: S311
        arrivals = newcomers(origin, plan.scale_out, names, plan.pre_registered)
        self.guessed_names = arrivals.guessed
        self.newcomers = [self._member(seat) for seat in arrivals.seats]

    def _member(self, seat: Seat) -> Scripted:
        """A member whose library nobody knows is taken for a Java consumer; only those have `sticky`."""
        known = Library.JAVA if seat.library is None or self.origin.assignor == STICKY else seat.library
        kind = EpochMember if self.origin.protocol is GroupProtocol.CONSUMER else Member
        return kind(self.world, seat, HABITS[known])

    # -- the play

    def play(self) -> Outcome:
        """Play the plan to its end."""
        self._install()
        settled = self._scale_and_remove()
        rolling = self.plan.rolling
        for number, batch in enumerate(self.plan.batches()):
            if not settled:
                break
            if rolling is not None and number:
                self._pass_time(rolling.pause_ms + _LOOK_MS * self.world.chance.random())
            self._bounce(batch)
            if rolling is not None:
                settled = self._until_rest(with_ghosts=False)
        settled = settled and self._until_rest(with_ghosts=True)
        return self._outcome(settled=settled)

    def _install(self) -> None:
        """Put the group into the coordinator as the records of its log have it, and its members at their posts."""
        world, origin = self.world, self.origin
        if not self.members:
            return
        leader = world.chance.choice(
            [member for member in self.members if self._led_by in (None, member.habits.library)] or self.members
        )
        records = installed(origin, leader.seat, world.image, START_MS - 60_000)
        for member in self.members:
            member.take_seat()
        by_heartbeat = sorted(self.members, key=lambda member: member.extended_ms)
        world.runtime.load(records, now=Millis(int(by_heartbeat[0].extended_ms)))
        for member in by_heartbeat:
            member.show_life()

    def _scale_and_remove(self) -> bool:
        """What is done besides the bounce; before it, if that is rolling. Whether the group came to rest."""
        plan, world = self.plan, self.world
        for identity in (*plan.scale_in, *plan.remove):
            self._stop_soon(self.by_identity[identity])
        if plan.remove:
            self._soon(_STOP_SPREAD_MS + _REMOVAL_AFTER_MS, self._remove)
        for number, member in enumerate(self.newcomers):
            if plan.scale_out_every_ms and number:
                self._soon(number * plan.scale_out_every_ms, self._start_new, member)
            else:
                self._start_new(member)
        if plan.rolling is None or not (plan.scale_in or plan.remove or plan.scale_out):
            return True
        settled = self._until_rest(with_ghosts=True)
        self._pass_time(plan.rolling.pause_ms + _LOOK_MS * world.chance.random())
        return settled

    def _bounce(self, batch: tuple[str, ...]) -> None:
        for identity in batch:
            member = self.by_identity[identity]
            delay = self._stop_soon(member)
            if self.plan.what_if.freed:
                self._soon(max(delay + self.plan.restart_time_ms - _REMOVAL_AFTER_MS, delay), self._free, member)
            self._soon(delay + self.plan.restart_time_ms, self._start, member)

    def _stop_soon(self, member: Scripted) -> float:
        delay = self.world.chance.random() * _STOP_SPREAD_MS
        self._soon(delay, self._stop, member)
        return delay

    def _soon(self, delay_ms: float, action: Callable[..., None], *arguments: Scripted) -> None:
        """Do it then; the group is not at rest before."""
        self._planned += 1
        self.world.clock.after(delay_ms, self._do_planned, action, arguments)

    def _do_planned(self, action: Callable[..., None], arguments: tuple[Scripted, ...]) -> None:
        self._planned -= 1
        action(*arguments)

    def _stop(self, member: Scripted) -> None:
        how = self.plan.stop
        said = {Stop.CLEAN: "is closed", Stop.CRASH: "is killed"}[how]
        leaves = how is Stop.CLEAN and member.seat.group_instance_id is None
        if leaves:
            said += " and leaves the group"
        elif how is Stop.CLEAN and isinstance(member, EpochMember):
            said += " and says that it will be back (epoch -2)"
        self.world.note("stop", said, member.identity)
        if not leaves:
            self.ghosts[member.member_id] = member.identity
        member.stop(how)

    def _start(self, member: Scripted) -> None:
        said = "starts again"
        if self.plan.migrate and isinstance(member, Member):
            member = self._migrated(member)
            said += ", with the consumer protocol"
        self.world.note("start", said, member.seat.identity)
        member.start()

    def _migrated(self, member: Member) -> EpochMember:
        """Who takes the place of a stopped process, and speaks the other protocol."""
        heir = EpochMember(self.world, member.seat, member.habits)
        self.members[self.members.index(member)] = self.by_identity[member.seat.identity] = heir
        return heir

    def _refused(self, member: EpochMember) -> None:
        """What restarts processes starts this one again; nobody waits for that but it."""
        if self.plan.retry_every_ms is not None:
            self._soon(self.plan.retry_every_ms, self._start, member)

    def _start_new(self, member: Scripted) -> None:
        self.members.append(member)
        self.world.note("start", "a new member starts", member.identity)
        member.start()

    def _remove(self) -> None:
        self._send_removal([self.by_identity[name].seat for name in self.plan.remove])

    def _free(self, member: Scripted) -> None:
        self._send_removal([member.seat])

    def _send_removal(self, seats: Sequence[Seat]) -> None:
        """One LeaveGroup for all of them, as an operator sends it: static members without their member id."""
        identities = []
        for seat in seats:
            member_id = "" if seat.group_instance_id is not None else seat.member_id
            identities.append(
                MemberIdentity(member_id=member_id, group_instance_id=seat.group_instance_id, reason=_REMOVAL_REASON)
            )
            self.ghosts.pop(seat.member_id, None)
        self.world.note("remove", f"one LeaveGroup removes {len(identities)} members")
        request = LeaveGroupRequest(group_id=self.origin.group_id, members=identities)
        self.world.send(Operator(), request, _LEAVE_VERSION, None)

    # -- waiting

    def _pass_time(self, span_ms: float) -> None:
        alarm = self.world.clock.after(span_ms, lambda: None)
        while alarm.action is not None:
            self.world.run_next()

    def _until_rest(self, *, with_ghosts: bool) -> bool:
        """Let time pass until nobody wants anything any more; False if that does not happen."""
        world, origin = self.world, self.origin
        patience_ms = 2 * origin.session_timeout_ms + 3 * origin.rebalance_timeout_ms + self.plan.restart_time_ms
        deadline = world.now_ms + _PATIENCE_MS + patience_ms
        most = world.rebalances + _HOPELESS_REBALANCES + 3 * len(self.members)
        while self._planned or world.in_flight or not self._at_rest(with_ghosts=with_ghosts):
            if world.clock.now_ms > deadline or world.rebalances > most:
                return False
            world.run_next()
        return True

    def _at_rest(self, *, with_ghosts: bool) -> bool:
        world = self.world
        if self._planned or world.in_flight or world.is_busy or (with_ghosts and self.ghosts):
            return False
        if world.restless and not self._only_spares():
            return False
        generation, unreconciled = world.generation, world.unreconciled
        behind = [member for member in self.members if member.generation != generation]
        if unreconciled:
            behind += [member for member in self.members if member.member_id in unreconciled]
        return not any(member.is_up and member not in world.restless for member in behind)

    def _only_spares(self) -> bool:
        """Whether all that want something are held back, by a group that has all its members: it is at rest so."""
        standby = self.world.standby
        return standby.has_all and all(
            isinstance(one, Member | EpochMember) and one.identity in standby.held for one in self.world.restless
        )

    def _wake_all(self) -> None:
        for member in self.members:
            member.wake()

    # -- ghosts

    def _timer_fired(self) -> None:
        """See whether the session of a ghost has ended."""
        engine, group_id = self.world.engine, self.origin.group_id
        if self.origin.protocol is GroupProtocol.CONSUMER:
            return  # its records say so
        if any(engine.deadline(TimerKey(TimerKind.SESSION, group_id, ghost)) is None for ghost in self.ghosts):
            view = engine.group(group_id)
            there = {} if view is None else {member.member_id: member.group_instance_id for member in view.members}
            self._bury(there)

    def _recorded(self, value: GroupMetadataValue) -> None:
        if self.ghosts:
            self._bury({row.member_id: row.group_instance_id for row in value.members})

    def _gone(self, gone: Sequence[str], replaced: frozenset[str]) -> None:
        for member_id in gone:
            identity = self.ghosts.pop(member_id, None)
            if identity is not None and identity not in replaced:
                self.world.note("expired", "its session has ended: the coordinator removes it", identity)

    def _bury(self, there: Mapping[str, str | None]) -> None:
        """Forget ghosts that are not members any more: removed, or (static) replaced by their next life."""
        replaced = {instance_id for instance_id in there.values() if instance_id is not None}
        for ghost, identity in list(self.ghosts.items()):
            if ghost not in there:
                del self.ghosts[ghost]
                if identity not in replaced:
                    self.world.note("expired", "its session has ended: the coordinator removes it", identity)

    # -- the end

    def _longest_wait_ms(self) -> int | None:
        """How long a new member was without partitions at most, from its start; None if none has come to any."""
        waits = [member.waited_ms for member in self.newcomers if member.waited_ms is not None]
        return round(max(waits)) if waits else None

    def _outcome(self, *, settled: bool) -> Outcome:
        world = self.world
        view = world.engine.group(self.origin.group_id)
        final: dict[str, Partitions] = {}
        ids = set()
        for member in () if view is None else view.members:
            ids.add(member.member_id)
            identity = member.group_instance_id or member.member_id
            seat = member.consumer
            owned = world.blobs.assignment(member.assignment) if seat is None else seat.assigned
            final[identity] = {topic: tuple(sorted(owned[topic])) for topic in sorted(owned) if owned[topic]}
        dynamic = {member.member_id for member in view.members if member.group_instance_id is None} if view else set()
        holdings = world.ledger.holdings
        if settled:
            world.note("stable" if final else "empty", f"the group is at rest with {len(final)} members")
        return Outcome(
            generations=world.epochs_before
            + (self.origin.generation if view is None else view.generation)
            - self.origin.generation,
            new_count=view.generation if view is not None and world.began_anew else None,
            rebalances=world.rebalances,
            moves=world.ledger.moves(final),
            handovers=world.ledger.handovers,
            stopped_partition_ms=world.ledger.stopped_ms(world.now_ms),
            fenced=tuple(sorted(set(world.fenced))),
            refused_joins=world.refused_joins,
            final_assignment={identity: final[identity] for identity in sorted(final)},
            timeline=tuple(world.timeline),
            settled=settled,
            random_ids=self.guessed_names or bool(dynamic & world.made_up),
            passed_empty=world.passed_empty,
            took_ms=world.at_ms,
            requests=world.requests,
            newcomers_wait_ms=self._longest_wait_ms(),
            holdings=() if holdings is None else holdings.until(world.now_ms, self.origin.topics),
        )
