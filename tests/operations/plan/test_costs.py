"""Which plans no other beats."""

from __future__ import annotations

import random

from kgm.operations.plan.costs import Objective, PlanCosts, PlanLimits, rounded, unbeaten


def costs(stopped=0, handovers=0, rebalances=0, took=0, **more):
    more = {"most_ms": took, "fewest_consumed_percent": 100, "may_fail": False} | more
    return PlanCosts(stopped_partition_ms=stopped, handovers=handovers, rebalances=rebalances, took_ms=took, **more)


def test_times_that_differ_by_little_are_equal():
    assert not costs(took=10_000).beats(costs(took=10_400))
    assert costs(took=10_000).beats(costs(took=10_600))
    assert [rounded(value) for value in (7, 99, 100, 12_345, 12_999)] == [7, 99, 100, 12_000, 13_000]


def test_a_plan_beats_one_that_is_nowhere_better():
    assert costs(handovers=1, took=10).beats(costs(handovers=1, took=20))
    assert not costs(handovers=1, took=10).beats(costs(handovers=0, took=20))
    assert not costs(handovers=1).beats(costs(handovers=1))


def test_of_plans_that_cost_the_same_the_one_with_fewer_tasks_without_a_copy_is_better():
    few, many = costs(took=20, tasks_without_copy=2), costs(took=10, tasks_without_copy=12)
    assert few.rank(Objective.STOPPED) < many.rank(Objective.STOPPED)
    assert many.rank(Objective.DURATION) < few.rank(Objective.DURATION)
    assert not few.beats(many)
    assert not many.beats(few)


def test_those_that_are_left_are_all_that_no_other_beats():
    """Held against the definition, on plans with few different costs, so far apart that no two times are equal."""
    chance = random.Random(7)
    for _ in range(200):
        plans = [(n, costs(*(chance.randrange(4) for _ in range(4)))) for n in range(chance.randrange(1, 12))]
        vectors = [(c.stopped_partition_ms, c.handovers, c.rebalances, c.took_ms) for _, c in plans]
        left = unbeaten(plans)
        for number, mine in enumerate(vectors):
            is_beaten = any(other != mine and all(map(int.__le__, other, mine)) for other in vectors)
            is_repeated = mine in vectors[:number]
            assert (plans[number] in left) == (not is_beaten and not is_repeated)


def test_of_plans_with_equal_costs_the_first_is_left():
    plans = [("a", costs(took=10_200)), ("b", costs(took=10_000)), ("c", costs(took=10_300, handovers=1))]
    assert [name for name, _ in unbeaten(plans)] == ["a"]


def test_the_objective_decides_what_is_first():
    quick, calm = costs(stopped=5, handovers=9, took=1), costs(stopped=3, handovers=2, took=50)
    assert min([quick, calm], key=lambda one: one.rank(Objective.DURATION)) is quick
    for objective in (Objective.STOPPED, Objective.HANDOVERS):
        assert min([quick, calm], key=lambda one: one.rank(objective)) is calm


def test_limits_hold_in_the_worst_draw():
    limits = PlanLimits(duration_ms=100, consumed_percent=90)
    assert limits.exceeded(costs(took=50, most_ms=100, fewest_consumed_percent=90)) == ()
    assert limits.exceeded(costs(took=50, most_ms=101)) == ("--max-duration",)
    assert limits.exceeded(costs(fewest_consumed_percent=89)) == ("--keep-consuming",)
    assert limits.exceeded(costs(may_fail=True)) == ("the group may not become stable",)
