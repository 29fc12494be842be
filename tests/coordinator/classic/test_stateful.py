"""Whatever clients, operators, clocks and disks do, these hold (the S and L numbers are in the class below)."""

import threading

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.model.errors import ErrorCode as E
from kgm.records.record import decode_record, encode_record
from tests.coordinator.harness import Harness, subscription
from tests.selection import sized

INSTANCES = ["a", "b", "c"]
BOTH = subscription("orders", "payments", "ghost")
OFFERS = [{"range": subscription()}, {"range": BOTH, "roundrobin": b""}, {"roundrobin": BOTH, "range": b""}]
GROUP = "g"
#: Kafka's table, written down a second time: from where a group may get to a state.
VALID_PREVIOUS_STATES = {
    "Empty": {"PreparingRebalance"},
    "PreparingRebalance": {"Stable", "CompletingRebalance", "Empty"},
    "CompletingRebalance": {"PreparingRebalance"},
    "Stable": {"CompletingRebalance"},
    "Dead": {"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"},
}


def hard(engine):
    """What must survive a crash: groups at their last written generation, and offsets."""
    return {
        group_id: (
            group.state.value,
            group.generation,
            group.protocol_type,
            group.protocol,
            group.leader,
            [
                (m.member_id, m.group_instance_id, m.client_id, m.client_host, m.rebalance_timeout_ms,
                 m.session_timeout_ms, next((p.metadata for p in m.protocols if p.name == group.protocol), None), m.assignment)
                for m in group.members.values()
            ],
            dict(engine.offsets.of(group_id)),
        )
        for group_id, group in engine._state.groups.items()
    }  # fmt: skip


class Coordination(RuleBasedStateMachine):
    """One group with up to three static members and a few dynamic ones, two processes of which may share an id."""

    def __init__(self):
        super().__init__()
        self.h = Harness(group_max_size=4, group_initial_rebalance_delay_ms=1_000)
        self.fenced = set()
        self.generation = 0
        self.state = None
        self.moves = []
        # Generations with which join phases began, and with which they ended.
        self.begun, self.ended = set(), set()
        # (state, number of batches) and hard state of a group that is Stable or Empty.
        self.at_rest = None
        self.patch = pytest.MonkeyPatch()
        self.see_moves()
        self.batches = [0]

    # -- what is there

    @property
    def group(self):
        return self.h.engine._state.groups.get(GROUP)

    def member(self, data):
        """(member id, instance id) of somebody who is or was in the group."""
        now = [(m.member_id, m.group_instance_id) for m in self.group.members.values()] if self.group else []
        return data.draw(st.sampled_from([*now, *sorted(self.fenced, key=str)[-3:], ("stranger", None)]))

    def plan(self):
        """What the leader assigns."""
        return {m: f"{self.group.generation}.{n}".encode() for n, m in enumerate(self.group.members)}

    # -- what happens

    @initialize(instances=st.sampled_from([[], ["a"], ["a", "b"], ["a", "b", "c"]]), dynamic=st.integers(0, 1))
    def a_group_may_be_there(self, instances, dynamic):
        if instances or dynamic:
            self.h.stable(*instances, dynamic=dynamic, session=12_000, rebalance=15_000)

    @precondition(lambda self: self.group and self.group.state not in (ClassicState.EMPTY, ClassicState.STABLE))
    @rule()
    def the_round_comes_to_its_end(self):
        self.heal()

    @rule(instance=st.sampled_from(INSTANCES), offer=st.sampled_from(OFFERS), v=st.sampled_from([5, 9]),
          session=st.sampled_from([6_000, 12_000, 30_000]))  # fmt: skip
    def a_static_process_starts(self, instance, offer, v, session):
        """S5: whoever had the instance id before is fenced from now on."""
        self.h.sleep(0)  # whatever is due happens before
        before = self.group
        old = before.static_ids.get(instance) if before else None
        reply = self.h.got(self.h.join("", instance, protocols=offer, v=v, session=session, rebalance=15_000))
        after = self.group
        if old is None or after is None or after.static_ids.get(instance) in (None, old):
            return
        self.fenced.add((old, instance))
        as_before = tuple(offer.items()) == before.members[old].protocols
        if before.state is ClassicState.STABLE and (as_before or after.state is ClassicState.STABLE):
            self.nothing_moved(before, after, reply, v)

    def nothing_moved(self, before, after, reply, v):
        """S4: a restart in Stable; and KIP-814: a leader then knows that it leads, and that it need not assign."""
        assert (after.state, after.generation) == (before.state, before.generation)
        assert {m.assignment for m in after.members.values()} == {m.assignment for m in before.members.values()}
        leads = after.leader == reply.member_id
        assert reply.leader == (after.leader if v == 9 else before.leader)
        assert reply.skip_assignment == (leads and v == 9)
        assert bool(reply.members) == reply.skip_assignment

    @rule(v=st.sampled_from([1, 4]))
    def a_dynamic_process_starts(self, v):
        reply = self.h.got(self.h.join("", v=v, rebalance=15_000))
        if v >= 4 and reply.error_code == E.MEMBER_ID_REQUIRED:
            self.h.join(reply.member_id, v=v, rebalance=15_000)

    @rule()
    def a_dynamic_process_starts_and_dies(self):
        self.h.join("", v=4, session=6_000)

    @rule(data=st.data(), offer=st.sampled_from(OFFERS))
    def somebody_rejoins(self, data, offer):
        member, instance = self.member(data)
        ticket = self.h.join(member, instance, protocols=offer, rebalance=15_000)
        if (member, instance) in self.fenced and self.group and instance in self.group.static_ids:
            assert self.h.got(ticket).error_code in (E.FENCED_INSTANCE_ID, E.INCONSISTENT_GROUP_PROTOCOL,
                                                     E.GROUP_MAX_SIZE_REACHED, E.COORDINATOR_NOT_AVAILABLE)  # fmt: skip

    @precondition(lambda self: self.group and self.group.state is ClassicState.PREPARING_REBALANCE)
    @rule()
    def everybody_rejoins(self):
        for member in list(self.group.members.values()):
            if member.member_id not in self.group.soft.parked_joins and member.member_id in self.group.members:
                offer = {p.name: p.metadata for p in member.protocols}
                self.h.join(member.member_id, member.group_instance_id, protocols=offer, rebalance=15_000)

    @precondition(lambda self: self.group and self.group.state is ClassicState.COMPLETING_REBALANCE)
    @rule(data=st.data())
    def the_sync_phase_goes_on(self, data):
        everyone = list(self.group.members)
        for member in data.draw(st.permutations(everyone)):
            self.h.sync(member, self.group.generation, self.plan(), protocol_name=None, protocol_type=None, v=3)

    @rule(data=st.data())
    def somebody_syncs(self, data):
        member, instance = self.member(data)
        generation = self.group.generation if self.group else 0
        ticket = self.h.sync(member, generation, {member: b"alone"}, instance, v=3)
        if (member, instance) in self.fenced and self.group and instance in self.group.static_ids:
            assert self.h.got(ticket).error_code == E.FENCED_INSTANCE_ID

    @rule(data=st.data())
    def somebody_heartbeats(self, data):
        member, instance = self.member(data)
        error = self.h.heartbeat(member, self.group.generation if self.group else 0, instance)
        if (member, instance) in self.fenced and self.group and instance in self.group.static_ids:
            assert error == E.FENCED_INSTANCE_ID

    @rule(data=st.data(), offset=st.integers(0, 9), late=st.booleans())
    def somebody_commits(self, data, offset, late):
        """S6: who is fenced, removed or behind never changes an offset."""
        self.h.sleep(0)
        member, instance = self.member(data)
        before = dict(self.h.engine.offsets.of(GROUP))
        current = bool(self.group) and self.group.check_member(member, instance) == E.NONE
        error = self.h.commit(member, (self.group.generation if self.group else 0) - late, instance, offset=offset)
        if not current or late:
            assert error != E.NONE or self.group.state is ClassicState.EMPTY
        if error:
            assert dict(self.h.engine.offsets.of(GROUP)) == before

    @rule(data=st.data(), count=st.integers(1, 3))
    def an_operator_removes(self, data, count):
        """S9: one answer for each, in order, as it was asked. S10: one rebalance for all of them, none for nothing."""
        self.h.sleep(0)
        identities = []
        for _ in range(count):
            member, instance = self.member(data)
            if instance is not None and data.draw(st.booleans()):
                member = ""
            identities.append((member, instance))
        before = self.group
        reply = self.h.leave(*identities)
        after = self.group
        if reply.error_code:
            return
        assert [(m.member_id, m.group_instance_id) for m in reply.members] == identities
        done = [m for m in reply.members if m.error_code == E.NONE]
        for member in done:
            assert member.member_id == "" or member.member_id not in after.members
            assert member.member_id != "" or member.group_instance_id not in after.static_ids
        if before is None:
            assert not done
        elif not done:
            assert (after.state, list(after.members), after.generation) == (
                before.state,
                list(before.members),
                before.generation,
            )
        else:
            assert len(after.members) <= len(before.members) - len(
                [m for m in done if m.member_id not in before.soft.pending_joins]
            )
            assert after.generation - before.generation in (0, 1)
            assert after.state is not ClassicState.STABLE
        if before is not None and before.state is ClassicState.STABLE and done:
            assert after.state in (ClassicState.PREPARING_REBALANCE, ClassicState.EMPTY)

    @rule(ms=st.sampled_from([0, 1, 999, 1_000, 5_999, 6_000, 15_000]))
    def time_passes(self, ms):
        self.h.sleep(ms)

    @rule(error=st.sampled_from([None, None, E.NOT_ENOUGH_REPLICAS, E.NOT_LEADER_OR_FOLLOWER]))
    def the_log_fails_or_recovers(self, error):
        self.h.fail_with = error

    @precondition(lambda self: self.h.fail_with is None)
    @rule(limit=st.sampled_from([2, 4]))
    def the_coordinator_moves(self, limit):
        """Whoever waits is told; the log makes a new coordinator."""
        self.h.take(self.h.runtime.unload(now=self.h.now))
        self.everyone_is_answered()
        before = self.h
        self.h = before.reload(group_max_size=limit, group_initial_rebalance_delay_ms=1_000)
        self.h.log, self.h.tickets, self.h.batches, self.h.sent = (
            before.log,
            before.tickets,
            before.batches,
            before.sent,
        )
        self.h.replies = before.replies
        # What was not written is lost with its coordinator: generations, and the restart of a static member.
        self.fenced = {(m, i) for m, i in self.fenced if not self.group or m not in self.group.members}
        self.generation = self.group.generation if self.group else 0
        self.state = self.at_rest = None

    # -- what holds

    def everyone_is_answered(self):
        assert set(self.h.sent) == set(self.h.replies)

    @invariant()
    def s1_s12_members_and_indexes_agree(self):
        group = self.group
        if group is None:
            return
        assert {m.group_instance_id: i for i, m in group.members.items() if m.group_instance_id} == group.static_ids
        assert all(i == m.member_id for i, m in group.members.items())
        assert (group.leader in group.members) if group.members else group.leader is None
        assert not set(group.soft.pending_joins) & set(group.members)
        counts = {}
        for member in group.members.values():
            for name in {offered.name for offered in member.protocols}:
                counts[name] = counts.get(name, 0) + 1
        assert {name: count for name, count in group.protocol_counts.items() if count} == counts
        assert group.state is not ClassicState.EMPTY or not group.members
        assert group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE) or group.members

    def see_moves(self):
        """Every move of a group from state to state, also of drafts that come to nothing."""
        original, own_thread = ClassicGroup.move_to, threading.get_ident()

        def move_to(group, state, now):
            if threading.get_ident() != own_thread:  # a server that another test has started has groups too
                return original(group, state, now)
            self.moves.append((group.state.value, state.value))
            if state is ClassicState.PREPARING_REBALANCE:
                self.begun.add(group.generation)
            elif group.state is ClassicState.PREPARING_REBALANCE and state is not ClassicState.DEAD:
                self.ended.add(group.generation)
            return original(group, state, now)

        self.patch.setattr(ClassicGroup, "move_to", move_to)

    @invariant()
    def s14_states_follow_each_other_as_in_kafka(self):
        """And no group changes its state without a move; what is new, loaded or deleted has none."""
        before, after = self.state, self.group and self.group.state.value
        self.state = after
        assert all(earlier in VALID_PREVIOUS_STATES[later] for earlier, later in self.moves)
        if None not in (before, after) and before != after:
            assert after in [later for _, later in self.moves]
        self.moves.clear()

    @invariant()
    def s2_nobody_shares_an_assignment(self):
        if self.group and self.group.state is ClassicState.STABLE:
            given = [m.assignment for m in self.group.members.values() if m.assignment]
            assert len(given) == len(set(given))

    @invariant()
    def s7_generations_grow_by_one(self):
        """By one for each join phase, and at no other time."""
        if self.group:
            assert self.generation <= self.group.generation
            self.generation = self.group.generation
            assert {generation - 1 for generation in self.ended} <= self.begun

    @invariant()
    def s8_who_waits_is_parked_and_everybody_else_has_one_answer(self):
        parked = set()
        if self.group:
            group = self.group
            assert not group.soft.parked_joins or group.state is ClassicState.PREPARING_REBALANCE
            assert not group.soft.parked_syncs or group.state is ClassicState.COMPLETING_REBALANCE
            assert {*group.soft.parked_joins, *group.soft.parked_syncs} <= set(group.members)
            parked = {p.ticket for p in (*group.soft.parked_joins.values(), *group.soft.parked_syncs.values())}
        assert not parked & set(self.h.replies)
        self.parked = parked

    @invariant()
    def s11_the_log_makes_the_same_group(self):
        if self.group and self.group.state in (ClassicState.STABLE, ClassicState.EMPTY) and self.unbroken():
            assert hard(self.h.reload().engine).get(GROUP) == hard(self.h.engine).get(GROUP)

    @invariant()
    def s15_a_group_at_rest_changes_in_replay_only(self):
        """Hard state: without a record nothing of it changes while the group is Stable or Empty."""
        now = None
        if self.group and self.group.state in (ClassicState.STABLE, ClassicState.EMPTY):
            now = (self.group.state, len(self.h.batches)), hard(self.h.engine)[GROUP][:-1]
        if self.at_rest and now and self.at_rest[0] == now[0]:
            assert self.at_rest[1] == now[1]
        self.at_rest = now

    @invariant()
    def s11_through_bytes_and_compaction(self):
        if len(self.h.batches) == self.batches[-1]:
            return
        self.batches.append(len(self.h.batches))
        written = [encode_record(record) for record in self.h.log]
        loaded = hard(self.h.reload().engine)
        assert hard(self.h.reload([decode_record(*row) for row in written]).engine) == loaded
        last = {key: n for n, (key, _) in enumerate(written)}
        assert hard(self.h.reload([self.h.log[n] for n in sorted(last.values())]).engine) == loaded

    def unbroken(self):
        """Whether the last generation is in the log: an Empty one may not be, if writing it failed."""
        written = [r.value.generation for r in self.h.log if hasattr(r.value, "generation")]
        return bool(written) and written[-1] == self.group.generation

    @invariant()
    def s13_timers_belong_to_somebody(self):
        group, deadlines = self.group, self.h.engine.deadlines
        sessions = {key.member_id for key in deadlines if key.kind is TimerKind.SESSION}
        if group is None:
            assert not sessions
            return
        waiting = {*group.soft.parked_joins, *group.soft.parked_syncs}
        assert sessions <= {*group.members, *group.soft.pending_joins}
        assert sessions >= {*group.members, *group.soft.pending_joins} - waiting
        joining = TimerKey(TimerKind.JOIN, GROUP) in deadlines
        assert joining == (group.state is ClassicState.PREPARING_REBALANCE)
        syncing = TimerKey(TimerKind.SYNC, GROUP) in deadlines
        assert syncing == bool(group.soft.pending_syncs)
        assert all(deadline >= self.h.now for deadline in deadlines.values())

    @invariant()
    def a_fork_lives_its_own_life(self):
        if len(self.h.replies) % 10 == 0:
            before = hard(self.h.engine), dict(self.h.engine.deadlines)
            self.h.runtime.fork().advance(self.h.now + 1_000_000)
            assert (hard(self.h.engine), dict(self.h.engine.deadlines)) == before

    def teardown(self):
        """L1: when faults end and clients behave, the group becomes Stable. L3: when they all go, nobody is left
        without an answer, and the group is Empty."""
        try:
            self.all_ends_well()
        finally:
            self.patch.undo()

    def all_ends_well(self):
        self.heal()
        self.h.fail_with = None
        self.h.sleep(2_000_000)
        assert self.group is None or (self.group.state is ClassicState.EMPTY and not self.group.soft.pending_joins)
        self.s8_who_waits_is_parked_and_everybody_else_has_one_answer()
        assert not self.parked
        self.everyone_is_answered()

    def heal(self):
        """Everybody who is in the group behaves, and the log works."""
        failing, self.h.fail_with = self.h.fail_with, None
        for _ in range(12):
            if self.group is None or self.group.state in (ClassicState.EMPTY, ClassicState.STABLE):
                break
            if self.group.state is ClassicState.PREPARING_REBALANCE:
                self.everybody_rejoins()
                self.h.sleep(6_000)
            if self.group.state is ClassicState.COMPLETING_REBALANCE:
                plan = self.plan()
                for member in list(self.group.members):
                    self.h.sync(member, self.group.generation, plan, protocol_type=None, protocol_name=None, v=3)
        assert self.group is None or self.group.state in (ClassicState.EMPTY, ClassicState.STABLE)
        self.h.fail_with = failing


Coordination.TestCase.settings = settings(
    max_examples=sized(5, 120),
    stateful_step_count=40,
    report_multiple_bugs=False,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestCoordination = pytest.mark.slow(Coordination.TestCase)
