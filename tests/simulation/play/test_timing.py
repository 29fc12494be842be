"""How long things take: what a range has to include, and what is typical."""

import random
from dataclasses import replace
from statistics import median_low, quantiles

import pytest

from kgm.model.client_library import stated_library
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, Rolling, WhatIf
from kgm.simulation.play.timing import (
    NOTICED,
    AllAtOnce,
    DrawTiming,
    OneByOne,
    OneLibraryLast,
    RejoinsBeforeItStops,
    SlowestLast,
)
from kgm.simulation.simulation import Simulation
from tests.simulation.groups import DYNAMIC, ids, made_up

pytestmark = pytest.mark.slow

NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}


@pytest.mark.few(1)
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


# -- draws of what is rare


def of_both_libraries(group):
    libraries = ("java", "librdkafka")
    members = (
        replace(member, client_library=stated_library(libraries[n % 2])) for n, member in enumerate(group.members)
    )
    return replace(group, members=tuple(members))


def extreme(group, timing, **plan):
    """A draw with such a timing."""
    plan = Plan(heartbeat_interval_ms=1_000, **plan)
    return Simulation.of(group, plan).runner(1, timing=timing).play()


def starts_ms(draw):
    """When members say that they start, from the first of them."""
    return [event.at_ms for event in draw.timeline if event.event == "start"]


def test_all_at_once_is_one_join_phase_for_any_number_of_members():
    """The first of them begins a rebalance that waits for nobody; six that join within 4 ms are in time for it."""
    group = of_both_libraries(made_up(6, 13, DYNAMIC))
    draw = extreme(group, AllAtOnce, bounce=ids(group), restart_time_ms=1_500, settings=NO_DELAY)
    assert (draw.generations, draw.rebalances) == (2, 1)
    assert max(starts_ms(draw)) - min(starts_ms(draw)) <= 10


def test_one_by_one_is_a_rebalance_for_nearly_every_member():
    """Each of them joins a group that has just been assigned, if it starts later than the others hear of a rebalance."""
    group = made_up(3, 13, DYNAMIC)
    plan = Plan(bounce=ids(group), restart_time_ms=1_500, settings=NO_DELAY, heartbeat_interval_ms=100)
    draws = [Simulation.of(group, plan, seed).runner(1, timing=OneByOne).play() for seed in range(20)]
    assert max(draw.rebalances for draw in draws) >= 3
    assert extreme(group, AllAtOnce, bounce=ids(group), restart_time_ms=1_500, settings=NO_DELAY).rebalances == 1


def test_one_that_is_late_costs_a_second_rebalance():
    group = made_up(5, 13, DYNAMIC)
    draw = extreme(group, SlowestLast, bounce=ids(group), restart_time_ms=1_500, settings=NO_DELAY)
    assert draw.rebalances == 2
    assert [event.detail for event in draw.timeline if event.event == "assigned"] == [
        "generation 3 is assigned to 4 members", "generation 4 is assigned to 5 members"
    ]  # fmt: skip


def test_newcomers_of_one_library_may_all_be_later_than_those_of_the_other():
    group = of_both_libraries(made_up(4, 13, DYNAMIC))
    draw = extreme(group, OneLibraryLast, bounce=ids(group), restart_time_ms=1_500, settings=NO_DELAY)
    assert [event.detail for event in draw.timeline if event.event == "assigned"][-1].endswith("to 4 members")
    assert draw.rebalances >= 2


def test_a_member_that_rejoins_before_it_stops_is_in_one_more_generation():
    """As on a real broker: its LeaveGroup waits until its JoinGroup is answered. Without it the two leave together."""
    group = made_up(4, 13, DYNAMIC, library="java")
    draw = extreme(group, RejoinsBeforeItStops, scale_in=ids(group, 0, 1))
    assert draw.generations == 2
    assert extreme(group, AllAtOnce, scale_in=ids(group, 0, 1)).generations == 1
    ranges = simulate(group, Plan(scale_in=ids(group, 0, 1), heartbeat_interval_ms=3_000)).ranges
    assert (ranges.generations.min, ranges.generations.median, ranges.generations.max) == (1, 1, 2)


@pytest.mark.parametrize("seed", range(3))
def test_others_may_notice_one_process_before_the_next_one_joins(seed):
    """Two of three static members are removed, and start together. If both join before member-3 notices, all six
    partitions pass on but its last two: 4 when the two are removed, and 4 more. If member-3 notices member-1 first,
    member-1 gets three partitions (3), and then member-2 one of each (2); the other way round 3 and 3."""
    group = made_up(3, 6, library="librdkafka")
    plan = Plan(bounce=ids(group, 0, 1), rolling=Rolling(max_unavailable=2), remove_first=True, restart_time_ms=300)
    simulation = Simulation.of(group, plan, seed)
    draws = [simulation.runner(1, timing=timing).play() for timing in (AllAtOnce, *NOTICED)]
    together, *apart = [(draw.rebalances, draw.handovers) for draw in draws]
    assert together == (2, 8)
    assert sorted(apart) == [(3, 9), (3, 10)]
    prediction = simulate(group, plan, draws=5, seed=seed)
    assert not prediction.exact
    assert (prediction.ranges.rebalances.min, prediction.ranges.rebalances.max) == (2, 3)
    assert (prediction.ranges.handovers.min, prediction.ranges.handovers.max) == (8, 10)


def test_what_others_may_notice_in_a_large_group_is_left_open():
    """Draws of it would cost too much there."""
    group = made_up(30, 60)
    together = Plan(scale_in=ids(group, 0, 1), heartbeat_interval_ms=3_000)
    assert not simulate(group, together, draws=3).exact
    assert simulate(group, replace(together, scale_in=ids(group, 0)), draws=3).exact
    assert simulate(group, Plan(remove=ids(group, 0, 1)), draws=3).exact, "one request removes both"


def test_what_is_rare_widens_ranges_and_is_not_typical():
    group = made_up(6, 13, DYNAMIC)
    plan = Plan(bounce=ids(group), restart_time_ms=1_500, settings=NO_DELAY, heartbeat_interval_ms=3_000)
    simulation = Simulation.of(group, plan)
    drawn, extreme = simulation.play(60), simulation.play_extreme(60)
    more = simulation.play_rare(drawn, extreme)
    ranges = simulate(group, plan, draws=60).ranges
    every = (*drawn, *extreme, *more)
    assert ranges.generations.min == min(draw.generations for draw in every)
    assert ranges.generations.max == max(draw.generations for draw in every)
    assert ranges.generations.median == median_low(draw.generations for draw in drawn)
    assert ranges.draws == len(every)
    assert simulation.play_extreme(9) == []


def test_more_draws_are_played_while_an_extreme_is_rare():
    """A value that came once in 60 draws may well have one beyond it in the next 60; one that came often has not."""
    group = made_up(6, 13, DYNAMIC)
    plan = Plan(bounce=ids(group), restart_time_ms=1_500, settings=NO_DELAY, heartbeat_interval_ms=3_000)
    simulation = Simulation.of(group, plan)
    drawn = simulation.play(60)
    more = simulation.play_rare(drawn, [])
    assert 0 < len(more) <= 2 * len(drawn)
    certain = drawn[:1] * 60
    assert simulation.play_rare(certain, []) == []
    assert simulation.play_rare(drawn[:9], []) == []


def test_most_groups_heartbeat_in_step():
    """A scale-out of an eager group then stops it for milliseconds: 12 partitions were without a consumer for 125 to
    165 ms together, on a real broker."""
    group = made_up(4, 12, library="librdkafka")
    plan = Plan(scale_out=1, heartbeat_interval_ms=1_000, what_if=WhatIf(session_timeout_ms=6_000))
    stopped = simulate(group, plan).stopped_partition_range_ms
    assert stopped.min < 125
    assert stopped.median < 12 * 40
    assert stopped.max > 12 * 400, "they may heartbeat at any time"
    spans = {DrawTiming(random.Random(seed), 1_000, 6_000)._phase_spread for seed in range(50)}
    assert max(spans) == 1.0
