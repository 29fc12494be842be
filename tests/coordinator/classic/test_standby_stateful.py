"""With a plan for the group, whatever happens: nobody is held beyond its bound, and all that holds without one holds."""

import random

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import initialize, invariant, rule

from kgm.coordinator.classic import standby
from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.coordinator.contract.scale_out_plan import GroupPlans
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.model.errors import ErrorCode as E
from tests.coordinator.classic.test_stateful import GROUP, INSTANCES, Coordination
from tests.coordinator.harness import Harness, subscription
from tests.selection import sized

NEWCOMERS = ["n1", "n2"]
HOLD = TimerKey(TimerKind.HOLD, GROUP)
LONGEST_MS = 15_000
PLANS = st.sampled_from(
    [
        GroupPlans(target_sizes=((GROUP, 3),)),
        GroupPlans(target_sizes=((GROUP, 2),)),
        GroupPlans(target_sizes=((GROUP, 1),)),
        GroupPlans(instance_ids=((GROUP, frozenset([*INSTANCES, *NEWCOMERS])),)),
        GroupPlans(target_sizes=((GROUP, 3),), instance_ids=((GROUP, frozenset(NEWCOMERS)),)),
    ]
)


def given(group):
    return sorted(member.assignment for member in group.members.values())


class PlannedCoordination(Coordination):
    """The same group, for which there is a plan, and to which newcomers come."""

    def __init__(self):
        super().__init__()
        self.came = {}

    @initialize(
        instances=st.sampled_from([[], ["a"], ["a", "b"], ["a", "b", "c"]]),
        dynamic=st.integers(0, 1),
        plans=PLANS,
        wait=st.sampled_from([4_000, 2**31 - 1]),
    )
    def a_group_may_be_there(self, instances, dynamic, plans, wait):
        """The plan comes after the group, which may be larger than that."""
        if instances or dynamic:
            self.h.stable(*instances, dynamic=dynamic, session=12_000, rebalance=15_000)
        self.planned = {"plans": plans, "kgm_group_newcomer_max_wait_ms": wait}
        self.h.settings = self.h.engine.settings = BrokerSettings(
            group_max_size=4, group_initial_rebalance_delay_ms=1_000, **self.planned
        )

    @rule(instance=st.sampled_from(NEWCOMERS), v=st.sampled_from([5, 9]))
    def a_newcomer_starts(self, instance, v):
        self.h.join("", instance, v=v, session=6_000, rebalance=LONGEST_MS)

    @rule()
    def an_old_newcomer_starts(self):
        self.h.join("", v=3, session=6_000, rebalance=LONGEST_MS)

    @rule(data=st.data())
    def a_newcomer_leaves(self, data):
        if self.group and self.group.soft.held:
            before = self.group
            held = data.draw(st.sampled_from(list(before.soft.held.values()))).member
            instance = held.group_instance_id
            reply = self.h.leave(("" if instance else held.member_id, instance))
            assert reply.members[0].error_code == E.NONE
            assert held.member_id not in self.group.soft.held
            assert (self.group.state, self.group.members) == (before.state, before.members)

    @rule(data=st.data())
    def a_connection_ends(self, data):
        """Of somebody who waits for a reply: it matters to who is held only."""
        waiting = sorted(set(self.h.sent) - set(self.h.replies))
        if waiting:
            before, ticket = self.group, data.draw(st.sampled_from(waiting))
            was_held = any(held.parked.ticket == ticket for held in before.soft.held.values())
            self.h.take(self.h.runtime.disconnected(ticket, now=self.h.now))
            assert (ticket in self.h.replies) == was_held
            assert (self.group.state, self.group.members) == (before.state, before.members)

    @rule(data=st.data(), count=st.integers(1, 3))
    def an_operator_removes(self, data, count):
        """S9, and S10 but for spares: those that take a place spare the group the rebalance."""
        self.h.sleep(0)
        identities = [self.member(data) for _ in range(count)]
        before = self.group
        reply = self.h.leave(*identities)
        after = self.group
        if reply.error_code:
            return
        assert [(m.member_id, m.group_instance_id) for m in reply.members] == identities
        assert all(m.error_code or m.member_id not in after.members for m in reply.members)
        if before is not None:
            assert after.generation - before.generation in (0, 1)
            if before.state is ClassicState.STABLE and after.state is ClassicState.STABLE:
                # Nobody has gone, or spares have all that they had.
                assert given(after) == given(before)

    @rule(limit=st.sampled_from([2, 4]))
    def the_coordinator_moves(self, limit):
        if self.h.fail_with is not None:
            return
        self.h.take(self.h.runtime.unload(now=self.h.now))
        self.everyone_is_answered()
        before = self.h
        self.h = before.reload(group_max_size=limit, group_initial_rebalance_delay_ms=1_000, **self.planned)
        for name in ("log", "tickets", "batches", "sent", "replies"):
            setattr(self.h, name, getattr(before, name))
        self.fenced = {(m, i) for m, i in self.fenced if not self.group or m not in self.group.members}
        self.generation = self.group.generation if self.group else 0
        self.state = None

    # -- what holds

    @invariant()
    def nobody_is_held_beyond_its_bound(self):
        held = {} if self.group is None else self.group.soft.held
        bound = min(LONGEST_MS, self.h.settings.kgm_group_newcomer_max_wait_ms, 60_000)
        for each in held.values():
            came = self.came.setdefault(each.parked.ticket, self.h.now)
            assert self.h.now <= each.until_ms <= came + max(bound, each.member.rebalance_timeout_ms)
            assert each.until_ms - came <= self.h.settings.kgm_group_newcomer_max_wait_ms
        deadline = self.h.engine.deadlines.get(HOLD)
        assert deadline == min((each.until_ms for each in held.values()), default=None)

    @invariant()
    def who_waits_is_held_or_parked_and_everybody_else_has_one_answer(self):
        group, open_tickets = self.group, set(self.h.sent) - set(self.h.replies)
        waiting = set()
        if group is not None:
            assert not {*group.soft.held} & {*group.members, *group.soft.pending_joins}
            waiting = {held.parked.ticket for held in group.soft.held.values()}
            waiting |= {p.ticket for p in (*group.soft.parked_joins.values(), *group.soft.parked_syncs.values())}
        assert open_tickets == waiting

    @invariant()
    def nobody_is_held_for_nothing(self):
        """Not by a group without members; not once the plan is fulfilled, unless there is no place."""
        group = self.group
        if group is None or not group.soft.held:
            return
        # Pending ids can keep a join phase open whose members have all gone, for 0 ms.
        assert group.members or group.state is ClassicState.PREPARING_REBALANCE
        plan = self.h.settings.plans.of(GROUP)
        if plan.target_size is None:
            assert {held.member.group_instance_id for held in group.soft.held.values()} <= plan.instance_ids
            assert not standby.is_plan_fulfilled(group, self.h.settings)
        elif group.state is ClassicState.STABLE:
            free = plan.target_size - len(group.members)
            # A broker's `group.max.size` below the target leaves a spare without a place, too.
            is_full = len(group.members) >= self.h.settings.group_max_size
            assert is_full or free <= 0 or len(group.soft.held) < free or plan.instance_ids


PlannedCoordination.TestCase.settings = settings(
    max_examples=sized(5, 120),
    stateful_step_count=40,
    report_multiple_bugs=False,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestPlannedCoordination = pytest.mark.slow(PlannedCoordination.TestCase)


def play(h, chance, steps=150):
    """A random history of group g, by somebody who obeys now and then; the same for the same `chance`."""
    offers = [{"range": subscription()}, {"range": subscription(), "roundrobin": b""}]
    for _ in range(steps):
        group = h.engine.group("g")
        members = [("", None)] if group is None else [(m.member_id, m.group_instance_id) for m in group.members]
        member, instance = chance.choice(members or [("", None)])
        generation = 0 if group is None else group.generation - (chance.random() < 0.1)
        match chance.randrange(9):
            case 0:
                h.join("", chance.choice("abc"), v=chance.choice([5, 9]), protocols=chance.choice(offers))
            case 1:
                reply = h.got(h.join("", v=chance.choice([3, 4])))
                if reply is not None and reply.error_code == E.MEMBER_ID_REQUIRED and chance.random() < 0.8:
                    h.join(reply.member_id, v=4)
            case 2 | 3:
                for member, instance in members:
                    if member and chance.random() < 0.9:
                        h.join(member, instance, protocols=offers[0])
            case 4 | 5:
                plan = {member: f"{generation} {member}".encode() for member, _ in members}
                for member, instance in members:
                    h.sync(member, generation, plan, instance, protocol_name=None, protocol_type=None, v=3)
            case 6:
                h.heartbeat(member, generation, instance)
            case 7:
                h.leave((member, instance), *([("", "a")] if chance.random() < 0.3 else []))
            case 8:
                h.sleep(chance.choice([1, 500, 3_000, 6_000, 60_000]))
    h.sleep(400_000)
    return h.replies, h.log, h.batches, dict(h.engine.deadlines), h.engine.groups()


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_for_another_group_changes_nothing(seed):
    """What every event asks for is the same to the last timer, whether plans exist for other groups or not."""
    elsewhere = GroupPlans(target_sizes=(("other*", 2),), instance_ids=(("x", frozenset("abc")),))
    without = play(Harness(), random.Random(seed))
    assert len(without[0]) > 100
    assert without == play(Harness(plans=elsewhere), random.Random(seed))
    assert without != play(Harness(plans=GroupPlans(target_sizes=(("g", 3),))), random.Random(seed))
