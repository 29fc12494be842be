"""How long things take: what a range has to include, and what is typical."""

from statistics import quantiles

import pytest

from kgm.simulation.bounce import Simulation, simulate
from kgm.simulation.plan.bounce_plan import Plan, Rolling
from tests.simulation.groups import DYNAMIC, ids, made_up

NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}


@pytest.mark.parametrize("library", ["java", "librdkafka"])
@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_members_that_start_at_once_may_share_the_first_rebalance_of_a_group_that_does_not_wait(library, assignor):
    """A timer passes from thread to thread in a broker, even one of 0 ms. Three members that had all left and came back
    within these milliseconds were assigned in one round on a real broker, in others in two or three."""
    group = made_up(3, 13, DYNAMIC, assignor, library=library)
    scenario = simulate(group, Plan(bounce=ids(group), restart_time_ms=1_500, settings=NO_DELAY))
    ranges = scenario.ranges
    assert ranges.rebalances.min == 1
    assert ranges.rebalances.median == 2
    assert ranges.generations.min == 2, "one more: the group was empty"
    assert ranges.rebalances.max <= 4


@pytest.mark.parametrize("migrate", [False, True])
def test_an_exact_prediction_has_the_times_of_most_runs(migrate):
    """It is one draw; and a process may take anything between a few ms and half a second to join."""
    group = made_up(3, 13)
    plan = Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=500, migrate=migrate)
    scenario = simulate(group, plan)
    simulation = Simulation.of(group, plan)
    stopped = [simulation.runner(number).play().stopped_partition_ms for number in range(1, 80)]
    assert scenario.exact
    lower, _, upper = quantiles(stopped, n=4)
    assert lower <= scenario.typical.stopped_partition_ms <= upper
    assert max(stopped) > 1.5 * min(stopped)
