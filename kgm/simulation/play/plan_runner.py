"""Plays a plan once: members stop and start in virtual time until the group is stable."""

import math
import random
from collections.abc import Callable, Collection, Sequence
from functools import partial

from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import TimedOutError
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, Stop
from kgm.simulation.plan.new_members import NewMembers, new_members
from kgm.simulation.plan.starting_group import StartingGroup, StartingMember
from kgm.simulation.play.bulk import BULK_FROM, HEARTBEATS_FROM, BulkPlayer, bulk_player_of
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.play.consumer_member import ScriptedConsumerMember
from kgm.simulation.play.draw import SILENT_CLOSE, Draw, final_assignment, generation_of, stable_with
from kgm.simulation.play.leader import DrawCache
from kgm.simulation.play.scripted_member import ScriptedMember
from kgm.simulation.play.seed_records import load_group, scripted_member, seed_records
from kgm.simulation.play.timing import STOP_SPREAD_MS, DrawTiming
from kgm.simulation.play.world import LEAVE_VERSION, START_MS, Client, LeaveSender, World
from kgm.text.wording import many

#: From the last stop to the LeaveGroup of an operator who waits for it.
_REMOVAL_AFTER_MS = 200.0
#: The same for an operator who first checks whether the members are alive, as `kgm rollout` does.
_GUARDED_REMOVAL_MS = (1_500.0, 8_000.0)
_REMOVAL_REASON = "member was removed by an admin"
#: How often an operator who waits for a group to be stable polls it.
_LOOK_MS = 1_000.0
#: A group that is still rebalancing after this many rounds, plus three for each member, will not become stable.
_HOPELESS_REBALANCES = 30
#: How long a group may take to become stable, in addition to its own timeouts.
_PATIENCE_MS = 600_000
#: How many requests of each member, in addition to its heartbeats, an operator waits through for a group to become
#: stable.
_HOPELESS_REQUESTS = 5_000
#: Heartbeat intervals shorter than this do not extend the wait.
_SHORTEST_INTERVAL_MS = 100
#: The time limit is checked once per this many events.
_EVENTS_PER_CHECK = 256
#: A request of a consumer group takes as long to play as this many requests of a classic group: each does more, and
#: there are more of them for each assignment.
_CONSUMER_REQUEST = 2.5
#: How many requests a member sends in one round.
_REQUESTS_PER_ROUND = 4


class PlanRunner:
    """One draw of a plan; also the observer of its world.

    led_by: the library whose assignor the first leader runs; None: any. keeps_holdings: whether to record
    `Draw.holdings`. timing, is_deleted_when_empty, cache: see `World`. is_out_of_time: checked now and then; once it is
    true, the play ends with TimedOutError. bulk_from: groups of at least this many members are played in bulk if
    possible (None: see `BULK_FROM`, `HEARTBEATS_FROM`); it makes no difference to the draw."""

    def __init__(
        self, group: StartingGroup, plan: Plan, settings: BrokerSettings, seed: str, *, led_by: str | None = None,
        keeps_holdings: bool = False, timing: type[DrawTiming] = DrawTiming,
        is_out_of_time: Callable[[], bool] = lambda: False, bulk_from: int | None = None,
        is_deleted_when_empty: bool = False, cache: DrawCache | None = None,
    ) -> None:  # fmt: skip
        self.group = group
        self._is_out_of_time = is_out_of_time
        self._events = 0
        self.plan = plan
        self._patience_ms = 2 * group.sessions_ms()[1] + 3 * group.longest_rebalance_ms + plan.longest_restart_ms
        self.world = World(
            group, settings, seed, heartbeat_interval_ms=plan.heartbeat_interval_ms, keeps_holdings=keeps_holdings,
            timing=timing, observer=self, is_deleted_when_empty=is_deleted_when_empty, cache=cache,
        )  # fmt: skip
        self._scheduled = 0
        self._unanswered_removals: set[ScriptedMember] = set()
        self._awaiting_removal: set[ScriptedMember] = set()
        self._led_by = led_by
        self.members = [scripted_member(self.world, member) for member in group.members]
        self.by_identity = {member.spec.identity: member for member in self.members}
        #: Identities of stopped processes that are still members of the group, by member id.
        self.lingering: dict[str, str] = {}
        joining = NewMembers(members=(), guessed=False)
        if plan.scale_out:
            names = random.Random(seed + "/names")  # noqa: S311  (a simulation)
            joining = new_members(group, plan.scale_out, names, plan.pre_registered)
        self._names_are_guessed = joining.guessed
        self.new_members = [scripted_member(self.world, member) for member in joining.members]
        is_small = len(self.members) < (BULK_FROM[group.protocol] if bulk_from is None else bulk_from)
        heartbeats_from = HEARTBEATS_FROM if bulk_from is None else bulk_from
        self._applies_heartbeats = plan.rolling is not None and len(self.members) >= heartbeats_from
        everybody = [*self.members, *self.new_members]
        self.bulk: BulkPlayer | None = (
            None if is_small or plan.migrate or group.regexes else bulk_player_of(self.world, everybody, settings)
        )
        self.world.watcher = self.bulk

    # -- the plan

    def play(self) -> Draw:
        """Play the plan to its end. Raises TimedOutError."""
        self._check_time()
        self._load_group()
        is_stable = self._scale_and_remove()
        rolling = self.plan.rolling
        for number, batch in enumerate(self.plan.batches()):
            if not is_stable:
                break
            if rolling is not None and number:
                self._pass_time(rolling.pause_ms + _LOOK_MS * self.world.chance.random())
            is_stable = self._bounce(batch)
            if rolling is not None and is_stable:
                is_stable = self._until_stable(with_lingering=False)
        is_stable = is_stable and self._until_stable(with_lingering=True)
        return self._draw(became_stable=is_stable)

    def dismantle(self) -> None:
        """Free the memory of everything that took part: the parts refer to each other, so they would stay until a
        garbage collection, and the next draw is played faster in memory that has just been used."""
        world, bulk = self.world, self.bulk
        for part in (*self.members, *self.new_members, *(() if bulk is None else (bulk,)), world.runtime, world, self):
            vars(part).clear()

    def _load_group(self) -> None:
        """Load the group into the coordinator from the records of its log, with its members as they are."""
        world, group = self.world, self.group
        if not self.members:
            return
        leaders = group.leaders
        able = [member for member in self.members if member.spec.identity in leaders] or self.members
        by_library = [one for one in able if self._led_by and one.spec.assigner(group.assignor) == self._led_by]
        leader = world.chance.choice(by_library or able)
        loaded = world.cache.loaded
        if loaded is not None and loaded[0] is group and loaded[1].behavior == world.behavior:
            world.engine.adopt(loaded[1])
            load_group(world, self.members, leader, ())
            return
        records = seed_records(
            group, leader.spec, world.image, START_MS - 60_000, world.behavior, world.cache,
            resolved_ms=START_MS - group.resolved_before_ms,
        )  # fmt: skip
        load_group(world, self.members, leader, records)

    def _scale_and_remove(self) -> bool:
        """Do everything in the plan except the bounce; a rolling bounce begins afterwards. False if the group did not
        become stable."""
        plan, world = self.plan, self.world
        for member in self._in_order_of_stops((*plan.scale_in, *plan.remove)):
            self._schedule(world.timing.stop_ms(), self._stop, member)
        if plan.remove:
            self._schedule(STOP_SPREAD_MS + _REMOVAL_AFTER_MS, self._remove)
        for number, member in enumerate(self.new_members):
            if plan.scale_out_every_ms and number:
                self._schedule(number * plan.scale_out_every_ms, self._start_new, member)
            else:
                self._start_new(member)
        if plan.rolling is None or not (plan.scale_in or plan.remove or plan.scale_out):
            return True
        is_stable = self._until_stable(with_lingering=True)
        self._pass_time(plan.rolling.pause_ms + _LOOK_MS * world.chance.random())
        return is_stable

    def _bounce(self, batch: tuple[str, ...]) -> bool:
        """Stop the members, and schedule their restart. False if the group did not become stable without them."""
        self.world.timing.begin_batch()
        if self.bulk is not None and self._applies_heartbeats:
            self.bulk.batch_begins()
        if self.plan.remove_first:
            return self._replace(batch)
        for member in self._in_order_of_stops(batch):
            delay = self.world.timing.stop_ms()
            restart_time_ms = self._restart_time_ms()
            self._schedule(delay, partial(self._bounce_one, restart_time_ms=restart_time_ms), member)
            if self.plan.what_if.freed:
                at_ms = max(delay + restart_time_ms - _REMOVAL_AFTER_MS, delay)
                self._schedule(at_ms, self._free, member)
        return True

    def _in_order_of_stops(self, together: Sequence[str]) -> list[ScriptedMember]:
        members = [self.by_identity[identity] for identity in together]
        if self.world.timing.leavers_stop_first and self.plan.stop is Stop.CLEAN:
            members.sort(key=lambda member: not member.leaves_after(Stop.CLEAN))
        return members

    def _restart_time_ms(self) -> int:
        seen_ms = self.plan.restart_times_ms
        return self.world.chance.choice(seen_ms) if seen_ms else self.plan.restart_time_ms

    def _replace(self, batch: tuple[str, ...]) -> bool:
        """Stop the members, remove them, and start them again once the group is stable without them."""
        world, members = self.world, self._in_order_of_stops(batch)
        stops_ms = [world.timing.stop_ms() for _ in members]
        starts_ms = [world.now_ms + stop_ms + self._restart_time_ms() for stop_ms in stops_ms]
        for stop_ms, member in zip(stops_ms, members, strict=True):
            self._schedule(stop_ms, self._stop, member)
        shortest_ms, longest_ms = _GUARDED_REMOVAL_MS
        guarded_ms = shortest_ms + (longest_ms - shortest_ms) * world.chance.random()
        self._schedule(STOP_SPREAD_MS + guarded_ms, self._remove_stopped, *members)
        if not self._until_stable(with_lingering=False):
            return False
        self._pass_time(_LOOK_MS * world.chance.random())
        for stop_ms, start_ms, member in zip(stops_ms, starts_ms, members, strict=True):
            self._schedule(max(start_ms - world.now_ms, stop_ms), self._restart, member)
        return True

    def _remove_stopped(self, *members: ScriptedMember) -> None:
        """Remove the ones that are still members. (A dynamic member that was closed has already left.)"""
        left = [member.spec for member in members if member.member_id in self.lingering]
        if left:
            self._send_removal(left)

    def _bounce_one(self, member: ScriptedMember, *, restart_time_ms: int) -> None:
        """Stop a process, and start it again some time after it has ended. A process that leaves the group ends when
        the broker has answered."""
        wait_ms = member.begin_to_stop(self.plan.stop)
        if wait_ms:
            self._schedule(wait_ms, partial(self._end_one, restart_time_ms=restart_time_ms), member)
        else:
            self._end_one(member, restart_time_ms=restart_time_ms)

    def _end_one(self, member: ScriptedMember, *, restart_time_ms: int) -> None:
        life = member.life
        self._end(member)
        self._scheduled += 1

        def restart_later() -> None:
            self._scheduled -= 1
            restart = self._restart_freed if self.plan.what_if.freed else self._restart
            self._schedule(restart_time_ms, restart, member)

        if self.plan.stop is Stop.CRASH:
            restart_later()
        else:
            self.world.when_answered(member, life, restart_later)

    def _schedule(self, delay_ms: float, action: Callable[..., None], *arguments: ScriptedMember) -> None:
        """Do a part of the plan later; until then the group does not count as stable."""
        self._scheduled += 1
        self.world.clock.after(delay_ms, self._do_scheduled, action, arguments)

    def _do_scheduled(self, action: Callable[..., None], arguments: tuple[ScriptedMember, ...]) -> None:
        self._scheduled -= 1
        action(*arguments)

    def _stop(self, member: ScriptedMember) -> None:
        wait_ms = member.begin_to_stop(self.plan.stop)
        if wait_ms:
            self._schedule(wait_ms, self._end, member)
        else:
            self._end(member)

    def _end(self, member: ScriptedMember, how: Stop | None = None) -> None:
        """how: None: as in the plan."""
        how = self.plan.stop if how is None else how
        if self.bulk is not None:
            self.bulk.release(member)
        leaves = member.leaves_after(how)
        if how is Stop.CRASH:
            detail = "is killed"
        elif leaves:
            detail = "shuts down and leaves the group"
        elif isinstance(member, ScriptedConsumerMember):
            detail = "shuts down and says that it will return (epoch -2)"
        elif member.spec.group_instance_id is None:
            detail = SILENT_CLOSE
        else:
            detail = "shuts down without leaving the group"
        self.world.note("stop", detail, member.identity)
        if not leaves and member.member_id:  # without an id it has not been a member yet
            self.lingering[member.member_id] = member.identity
        member.stop(how)

    def _restart(self, member: ScriptedMember) -> None:
        detail = "restarts"
        if self.plan.migrate and isinstance(member, ScriptedClassicMember):
            member = self._migrated(member)
            detail += " with the consumer protocol"
        self.world.note("start", detail, member.spec.identity)
        member.start()

    def _migrated(self, member: ScriptedClassicMember) -> ScriptedConsumerMember:
        """The member with the other protocol, in place of the stopped process."""
        migrated = ScriptedConsumerMember(self.world, member.spec, member.profile)
        self.members[self.members.index(member)] = self.by_identity[member.spec.identity] = migrated
        return migrated

    def _start_new(self, member: ScriptedMember) -> None:
        self.members.append(member)
        self.world.note("start", "a new member starts", member.identity)
        member.start()

    def _remove(self) -> None:
        self._send_removal([self.by_identity[name].spec for name in self.plan.remove])

    def _free(self, member: ScriptedMember) -> None:
        self._unanswered_removals.add(member)
        self._send_removal([member.spec], lambda _response: self._freed(member))

    def _freed(self, member: ScriptedMember) -> None:
        self._unanswered_removals.discard(member)
        if member in self._awaiting_removal:
            self._awaiting_removal.discard(member)
            self._scheduled -= 1
            self._restart(member)

    def _restart_freed(self, member: ScriptedMember) -> None:
        """The operator starts a process only once the broker has answered the removal."""
        if member in self._unanswered_removals:
            self._awaiting_removal.add(member)
            self._scheduled += 1
        else:
            self._restart(member)

    def _send_removal(
        self, members: Sequence[StartingMember], on_reply: Callable[[object], None] | None = None
    ) -> None:
        """One LeaveGroup for all of them, as an operator sends it: static members without their member id."""
        identities = []
        for member in members:
            member_id = "" if member.group_instance_id is not None else member.member_id
            identities.append(
                MemberIdentity(member_id=member_id, group_instance_id=member.group_instance_id, reason=_REMOVAL_REASON)
            )
            self.lingering.pop(member.member_id, None)
        self.world.note("remove", f"one LeaveGroup request removes {many(len(identities), 'member')}")
        request = LeaveGroupRequest(group_id=self.group.group_id, members=identities)
        self.world.send(LeaveSender(self.world, "/operator"), request, LEAVE_VERSION, on_reply)

    # -- waiting

    def _pass_time(self, span_ms: float) -> None:
        call = self.world.clock.after(span_ms, lambda: None)
        while call.action is not None:
            self._run_next(math.inf)

    def _until_stable(self, *, with_lingering: bool) -> bool:
        """Let time pass until the group is stable; False if it never is.

        with_lingering: also wait until the sessions of stopped processes have ended."""
        world, patience_ms = self.world, self._patience_ms
        deadline = world.now_ms + _PATIENCE_MS + patience_ms
        most = world.rebalances + _HOPELESS_REBALANCES + 3 * len(self.members)
        interval_ms = max(world.timing.heartbeat_interval_ms, _SHORTEST_INTERVAL_MS)
        most_requests = world.requests + (len(self.members) + 4) * (_HOPELESS_REQUESTS + patience_ms // interval_ms)
        while self._scheduled or world.in_flight or not self._is_stable(with_lingering=with_lingering):
            if world.clock.now_ms > deadline or world.rebalances > most or world.requests > most_requests:
                return False
            at_once = 0 if self.bulk is None else self.bulk.most_rebalances
            requests = world.requests + at_once * _REQUESTS_PER_ROUND * len(self.members)
            is_last = world.rebalances + at_once > most or requests > most_requests
            self._run_next(-math.inf if is_last else deadline)
        return True

    def _run_next(self, deadline_ms: float) -> None:
        """Advance to the next event, or play members in bulk if that ends before `deadline_ms`."""
        self._events += 1
        if not self._events % _EVENTS_PER_CHECK:
            self._check_time()
        if self.bulk is not None and self.bulk.plays_next(deadline_ms, is_undisturbed=not self.lingering):
            self._check_time()
        else:
            self.world.run_next()

    def _check_time(self) -> None:
        """Raises TimedOutError if the time is over."""
        if self._is_out_of_time():
            raise TimedOutError(
                "the time limit has passed before the plan was simulated once",
                hint="allow more with --timeout, or simulate fewer members",
            )

    def _is_stable(self, *, with_lingering: bool) -> bool:
        world = self.world
        if self._scheduled or world.in_flight or world.is_rebalancing:
            return False
        if self.lingering and not world.behavior.writes_replaced_members:
            self._forget_absent()  # the restart of a static member is in no record
        if with_lingering and (self.lingering or world.regexes.are_open):
            return False
        if world.unfinished and not self._only_spares():
            return False
        generation, unreconciled = world.generation, world.unreconciled
        if self.bulk is not None and not self.bulk.is_settled:
            return False
        members = self.members if self.bulk is None else self.bulk.by_events(self.members)
        behind = [member for member in members if member.generation != generation]
        if unreconciled:
            behind += [member for member in members if member.member_id in unreconciled]
        return not any(member.is_up and member not in world.unfinished for member in behind)

    def _only_spares(self) -> bool:
        """Whether all unfinished members are spares of a group that has all its members, which makes it stable."""
        newcomers = self.world.held_newcomers
        return newcomers.is_complete and all(one.identity in newcomers.held for one in self.world.unfinished)

    # -- what happens in the world (`WorldObserver`)

    def rebalance_began(self) -> None:
        if self.bulk is not None:
            self.bulk.rebalance_began()
            return
        for member in self.members:
            member.resume_heartbeats()

    def start_refused(self, member: Client) -> None:
        """A supervisor starts the process again, if the plan says so."""
        if self.plan.retry_every_ms is not None:
            assert isinstance(member, ScriptedMember)
            self._schedule(self.plan.retry_every_ms, self._restart, member)

    def expects_room(self) -> bool:
        return bool(self.lingering)

    def timer_expired(self) -> None:
        """Check whether the session of a stopped process has ended. In a consumer group the records show that."""
        engine, group_id = self.world.engine, self.group.group_id
        if self.group.protocol is GroupProtocol.CONSUMER:
            return
        if any(engine.deadline(TimerKey(TimerKind.SESSION, group_id, each)) is None for each in self.lingering):
            self._forget_absent()

    def group_recorded(self) -> None:
        if self.lingering:
            self._forget_absent()

    def members_removed(self, member_ids: Sequence[str], replaced: frozenset[str]) -> None:
        for member_id in member_ids:
            identity = self.lingering.pop(member_id, None)
            if identity is not None and identity not in replaced:
                self._note_expired(identity)

    def _forget_absent(self) -> None:
        """Forget stopped processes that are no longer in the coordinator: removed, or (if static) replaced by their
        restart."""
        engine, group_id = self.world.engine, self.group.group_id
        group = engine.classic_group(group_id)
        member_ids: Collection[str]
        instance_ids: Collection[str | None]
        if group is not None:
            member_ids, instance_ids = group.members.keys(), group.static_ids.keys()
        else:  # it has become a consumer group
            view = engine.group(group_id)
            rows = () if view is None else view.members
            member_ids = {row.member_id for row in rows}
            instance_ids = {row.group_instance_id for row in rows}
        for member_id, identity in list(self.lingering.items()):
            if member_id not in member_ids:
                del self.lingering[member_id]
                if identity not in instance_ids:
                    self._note_expired(identity)

    def _note_expired(self, identity: str) -> None:
        self.world.note("expired", "its session times out; the coordinator removes it", identity)

    # -- the end

    @property
    def _request_cost(self) -> float:
        return _CONSUMER_REQUEST if self.group.protocol is GroupProtocol.CONSUMER else 1.0

    def _longest_wait_ms(self) -> int | None:
        """The longest time that a new member was without partitions, from its start; None if no new member got any."""
        waits = [member.waited_ms for member in self.new_members if member.waited_ms is not None]
        return round(max(waits)) if waits else None

    def _draw(self, *, became_stable: bool) -> Draw:
        world, group_id = self.world, self.group.group_id
        pending = {} if self.bulk is None else self.bulk.pending_assignments()
        group = world.engine.classic_group(group_id) or world.engine.consumer_group(group_id)
        final = final_assignment(group, pending, world.image, world.cache.decode_assignment)
        generation = None if group is None else generation_of(group)
        dynamic = {one.member_id for one in group.members.values() if one.group_instance_id is None} if group else set()
        ledger = world.ledger.written()
        if became_stable and final:
            world.note("stable", stable_with(len(final)))
        elif became_stable:
            world.note("empty", "the group is empty")
        return Draw(
            generations=world.epochs_before
            + (world.generation if generation is None else generation)
            - self.group.generation,
            epoch_in_new_group=generation if world.is_new_group else None,
            rebalances=world.rebalances,
            moves=ledger.moves(final),
            handovers=ledger.handovers,
            stopped_partition_ms=ledger.stopped_ms(world.now_ms),
            fenced=tuple(sorted(set(world.fenced))),
            refused_joins=world.refused_joins,
            final_assignment={identity: final[identity] for identity in sorted(final)},
            timeline=tuple(world.timeline),
            became_stable=became_stable,
            has_random_ids=self._names_are_guessed or bool(dynamic & world.drawn_member_ids),
            follows_map_order=world.map_order.decides,
            was_empty=world.was_empty,
            took_ms=world.at_ms,
            requests=world.requests,
            cost=round(self._request_cost * (world.requests - (0 if self.bulk is None else self.bulk.saved))),
            newcomers_wait_ms=self._longest_wait_ms(),
            fewest_consumed=ledger.fewest_consumed,
            holdings=() if ledger.holdings is None else ledger.holdings.until(world.now_ms, self.group.topics),
        )
