"""What-ifs that no Apache Kafka can do: new members that wait for each other, and spares."""

from __future__ import annotations

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import UsageError
from kgm.simulation.bounce import simulate
from kgm.simulation.compare import compare, side_by_side
from kgm.simulation.plan.bounce_plan import Plan, Rolling, Stop, WhatIf
from tests.simulation.groups import DYNAMIC, ids, made_up

WHAT_IF_ONLY = "what-if only: Apache Kafka has neither"
IN_VAIN = "not all planned members join"


def both(group, *, draws=4, **plan):
    """(as any Kafka does it, with a broker that heeds the plan)"""
    as_is, standby = side_by_side(group, Plan(heartbeat_interval_ms=3_000, **plan), draws=draws).predictions
    assert (as_is.name, standby.name) == ("as-is", "standby")
    assert not any(said.startswith(WHAT_IF_ONLY) for said in as_is.caveats)
    assert standby.caveats[0].startswith(WHAT_IF_ONLY)
    return as_is, standby


def events(scenario, *kinds):
    return [(event.event, event.member) for event in scenario.typical.timeline if event.event in kinds]


@pytest.mark.few(1)
@pytest.mark.parametrize("membership", ["static", "dynamic"])
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_scale_out_one_by_one_costs_one_rebalance_instead_of_three(membership, assignor):
    group = made_up(4, 12, assignor=assignor, **({"membership": DYNAMIC} if membership == "dynamic" else {}))
    as_is, standby = both(group, draws=20, scale_out=3, scale_out_every_ms=20_000, target_size=7)
    rounds = 2 if assignor == "cooperative-sticky" else 1  # the cooperative protocol moves in two
    assert as_is.typical.rebalances == 3 * rounds
    assert standby.typical.rebalances == rounds
    assert len(standby.typical.final_assignment) == len(as_is.typical.final_assignment) == 7
    assert standby.typical.handovers <= as_is.typical.handovers
    # What it costs: the first one waits for the last.
    assert as_is.typical.newcomers_wait_ms < 20_000
    assert 40_000 <= standby.typical.newcomers_wait_ms < 60_000
    assert not any(IN_VAIN in said for said in standby.caveats)
    assert len(events(standby, "let in")) == 2  # the third did not have to wait


def test_a_member_that_never_joins_makes_the_others_wait_in_vain():
    group = made_up(4, 12, rebalance_timeout_ms=90_000)
    as_is, standby = both(group, scale_out=2, target_size=7)
    assert as_is.typical.newcomers_wait_ms < 10_000
    assert 90_000 <= standby.typical.newcomers_wait_ms < 100_000
    assert any(IN_VAIN in said for said in standby.caveats)
    assert standby.typical.rebalances == 1
    assert standby.typical.became_stable
    assert len(standby.typical.final_assignment) == 6


def test_the_wait_can_be_bounded():
    group = made_up(4, 12)
    _, standby = both(group, scale_out=2, target_size=7, settings={"kgm.group.newcomer.max.wait.ms": "15000"})
    assert 15_000 <= standby.typical.newcomers_wait_ms < 25_000


def test_members_with_pre_registered_ids_join_under_their_names():
    group = made_up(2, 6)
    ids_to_come = ("member-1", "member-2", "extra-a", "extra-b")
    as_is, standby = both(group, scale_out=2, scale_out_every_ms=30_000, pre_registered=ids_to_come)
    assert standby.typical.final_assignment.keys() == as_is.typical.final_assignment.keys() == set(ids_to_come)
    assert (as_is.typical.rebalances, standby.typical.rebalances) == (2, 1)


def test_more_members_may_join_than_are_pre_registered():
    _, standby = both(made_up(2, 6), scale_out=2, pre_registered=("member-1", "member-2", "extra"))
    assert standby.typical.final_assignment.keys() == {"member-1", "member-2", "member-3", "extra"}


def test_a_spare_takes_over_from_a_member_that_is_away_for_too_long():
    group = made_up(4, 12)
    plan = {"bounce": ids(group, 1), "stop": Stop.CRASH, "restart_time_ms": 60_000}
    as_is, standby = both(group, scale_out=1, target_size=4, **plan)
    assert as_is.typical.rebalances == 2
    assert (standby.typical.rebalances, standby.typical.generations) == (0, 0)
    assert events(standby, "swapped") == [("swapped", "member-5")]
    assert {(move.owner_before, move.owner_after) for move in standby.typical.moves} == {("member-2", "member-5")}
    assert standby.typical.became_stable
    # Who comes back is the next spare, and idle.
    assert "member-2" not in standby.typical.final_assignment
    assert standby.typical.stopped_partition_ms < as_is.typical.stopped_partition_ms


def test_a_dynamic_group_with_a_spare_is_bounced_without_a_rebalance():
    group = made_up(3, 9, membership=DYNAMIC)
    as_is, standby = both(group, scale_out=1, target_size=3, bounce=ids(group), rolling=Rolling(pause_ms=5_000))
    assert as_is.typical.rebalances >= 6
    assert standby.typical.rebalances == 0
    assert sorted(p for owned in standby.typical.final_assignment.values() for p in owned["t"]) == list(range(9))


def test_a_spare_that_waits_beyond_its_bound_joins_again():
    group = made_up(2, 6, rebalance_timeout_ms=50_000)
    plan = {"bounce": ids(group, 0), "restart_time_ms": 120_000}
    _, standby = both(group, scale_out=2, target_size=2, **plan)
    assert events(standby, "again")
    assert standby.typical.became_stable


def test_compare_shows_standby_after_the_plan_as_it_stands():
    group = made_up(3, 6)
    plan = Plan(scale_out=1, target_size=4)
    names = [scenario.name for scenario in compare(group, plan, draws=2).predictions]
    assert names == ["as-is", "standby", "static", "dynamic", "cooperative", "consumer"]
    assert [s.name for s in compare(group, Plan(scale_out=1), draws=2).predictions][:2] == ["as-is", "static"]


def test_a_broker_that_follows_plans_is_not_apache_kafka():
    """--set kgm.group... is said of the broker at hand: the caveat says that it is none of Apache's."""
    group = made_up(4, 12)
    plan = Plan(scale_out=3, scale_out_every_ms=20_000, settings={"kgm.group.target.size.synth*": "7"})
    scenario = simulate(group, plan, draws=3)
    assert scenario.typical.rebalances == 1
    assert scenario.caveats[0].startswith(WHAT_IF_ONLY)
    elsewhere = Plan(scale_out=1, settings={"kgm.group.target.size.other": "7"})
    assert not any(said.startswith(WHAT_IF_ONLY) for said in simulate(group, elsewhere, draws=3).caveats)


def test_a_plan_changes_broker_settings_only_in_the_what_if():
    plan = Plan(scale_out=1, target_size=7, pre_registered=("a", "b"))
    assert not BrokerSettings.from_overrides(plan.broker_settings("g")).plans
    heeded = Plan(scale_out=1, target_size=7, pre_registered=("a", "b"), what_if=WhatIf(standby=True))
    found = BrokerSettings.from_overrides(heeded.broker_settings("g")).plans.of("g")
    assert (found.target_size, found.instance_ids) == (7, {"a", "b"})
    assert heeded.to_json()["pre_registered"] == ["a", "b"]


@pytest.mark.parametrize("wrong", [{"target_size": 0}, {"scale_out_every_ms": -1}])
def test_impossible_plans(wrong):
    with pytest.raises(UsageError):
        Plan(scale_out=1, **wrong)
