"""The search for plans, held against trying everything."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kgm.model.errors import NotFoundError, TimedOutError
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.bounce.prediction import simulate
from kgm.operations.bounce.request import BounceRequest
from kgm.operations.plan.costs import Objective, PlanLimits
from kgm.operations.plan.search import PlanTask, find_plans
from kgm.operations.plan.shapes import shapes_of
from kgm.simulation.plan.bounce_plan import Membership, Plan, Rolling, Stop
from kgm.simulation.simulation import Simulation
from kgm.text.names import in_order, natural
from tests.simulation.groups import ids, made_up
from tests.simulation.streams.applications import application, streams_group

STATIC, DYNAMIC = Membership.STATIC, Membership.DYNAMIC
DRAWS = 4
PAUSES_MS = (0, 20_000)


def task(group, *, pauses_ms=PAUSES_MS, restart_time_ms=10_000, stop=Stop.CLEAN, **more):
    request = BounceRequest(everyone=True, restart_time_ms=restart_time_ms, stop=stop)
    return PlanTask(group=BounceGroup(snapshot=group), request=request, pauses_ms=pauses_ms, **more)


def search(group, *, budget_ms=10**9, draws=DRAWS, seed=1, **more):
    return find_plans(task(group, **more), budget_ms=budget_ms, draws=draws, seed=seed)


def is_no_worse(mine, others, same_time=0.05):
    """Of (stopped, handovers, rebalances, duration); times may be longer by this share."""
    shares = (1 + same_time, 1, 1, 1 + same_time)
    return all(one <= another * share for one, another, share in zip(mine, others, shares, strict=True))


def everything(group, restart_time_ms, stop):
    """(stopped, handovers, rebalances, duration) of every way, each a median of the same draws, by hand."""
    members = in_order(ids(group))
    ways = [None] + [
        Rolling(max_unavailable=size, pause_ms=pause) for size in range(1, len(members)) for pause in PAUSES_MS
    ]
    owned = {member.identity: sum(map(len, member.assignment.values())) for member in group.members}
    orders = {
        tuple(members), tuple(sorted(members, key=lambda name: (natural(hosts(group)[name]), natural(name)))),
        tuple(sorted(members, key=lambda name: (owned[name], natural(name)))),
    }  # fmt: skip
    costs = []
    is_static = any(member.group_instance_id is not None for member in group.members)
    removals = (False, True) if is_static or stop is Stop.CRASH else (False,)
    for rolling, order, first in itertools.product(ways, sorted(orders), removals):
        plan = Plan(
            bounce=order, rolling=rolling, restart_time_ms=restart_time_ms, stop=stop, remove_first=first
        )  # fmt: skip
        simulation = Simulation.of(group, plan, 1)
        draws = [simulation.runner(number).play() for number in range(len(simulation.play(DRAWS)))]
        middle = (len(draws) - 1) // 2
        costs.append(
            (
                sorted(draw.stopped_partition_ms for draw in draws)[middle],
                sorted(draw.handovers for draw in draws)[middle],
                sorted(draw.rebalances for draw in draws)[middle],
                sorted(draw.took_ms for draw in draws)[middle],
            )
        )
    return costs


def hosts(group):
    return {member.identity: member.client_host for member in group.members}


def on_two_hosts(group):
    members = [replace(one, client_host=f"h{number % 2}") for number, one in enumerate(group.members)]
    return replace(group, members=tuple(members))


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "restart_time_ms", "stop"),
    [
        (made_up(3, 7, DYNAMIC), 5_000, Stop.CLEAN),
        pytest.param(made_up(3, 6, DYNAMIC, "cooperative-sticky"), 5_000, Stop.CLEAN, marks=pytest.mark.long),
        pytest.param(made_up(4, 8, STATIC), 10_000, Stop.CLEAN, marks=pytest.mark.long),
        (made_up(3, 6, STATIC, session_timeout_ms=6_000), 20_000, Stop.CLEAN),
        pytest.param(
            on_two_hosts(made_up(4, 9, STATIC, session_timeout_ms=6_000)), 20_000, Stop.CLEAN, marks=pytest.mark.long
        ),
        (made_up(3, 6, DYNAMIC, session_timeout_ms=10_000), 5_000, Stop.CRASH),
    ],
    ids=["dynamic", "cooperative", "static", "static and late", "on two hosts", "crash"],
)
def test_it_finds_what_trying_all_finds(group, restart_time_ms, stop):
    """Nothing beats a plan that is printed, and nothing is better than all of them."""
    tried = everything(group, restart_time_ms, stop)
    for number, objective in enumerate(Objective):
        found = search(group, restart_time_ms=restart_time_ms, stop=stop, objective=objective)
        assert found.is_complete
        plans = [
            (c.stopped_partition_ms, c.handovers, c.rebalances, c.took_ms) for c in (plan.costs for plan in found.plans)
        ]
        assert set(plans) <= set(tried)
        for one, plan in zip(plans, found.plans, strict=True):
            is_singly = plan.shape.rolling is not None and plan.shape.rolling.max_unavailable == 1
            # One at a time is shown also where more at a time are better in these four: most partitions are consumed.
            assert is_singly or not any(is_no_worse(o, one) and not is_no_worse(one, o) for o in tried)
        assert all(any(is_no_worse(one, other, 0.11) for one in plans) for other in tried)
        assert plans[0][number] <= 1.11 * min(one[number] for one in tried)


def test_the_scenario_of_a_plan_is_what_its_options_give():
    group = made_up(3, 7, DYNAMIC)
    for found in search(group).plans:
        plan = Plan(bounce=found.shape.bounce, rolling=found.shape.rolling, order=found.shape.order)
        assert found.prediction == simulate(BounceGroup(snapshot=group), plan, draws=DRAWS)
        assert found.prediction.typical.became_stable


def shrunk(group):
    """The group after its topic was created again with fewer partitions: a broker keeps the assignment as it is."""
    (topic,) = group.topics
    return replace(group, topics=(replace(topic, partitions=topic.partitions - 2),))


def doubly_owned(group):
    """A group with an assignor that gives partitions of the first member to the second one, too."""
    first, second, *others = group.members
    return replace(group, members=(first, replace(second, assignment=first.assignment), *others))


@pytest.mark.few(1)
@pytest.mark.parametrize("group", [shrunk(made_up(3, 9, STATIC)), doubly_owned(made_up(3, 9, STATIC))])
def test_a_plan_costs_what_its_scenario_says_whatever_was_assigned(group):
    """And what a play of it by hand says."""
    found = search(group)
    assert found.plans
    for one in found.plans:
        assert one.costs.rebalances == one.prediction.typical.rebalances
        assert one.costs.handovers == one.prediction.typical.handovers
        span = one.prediction.stopped_partition_range_ms
        assert span.min <= one.costs.stopped_partition_ms <= span.max
    (quiet,) = (one for one in found.plans if not one.shape.removes_first and one.shape.rolling is not None)
    plan = Plan(bounce=quiet.shape.bounce, rolling=quiet.shape.rolling, restart_time_ms=10_000)
    by_hand = Simulation.of(group, plan, 1).runner(0).play()
    assert abs(quiet.prediction.typical.stopped_partition_ms - by_hand.stopped_partition_ms) < 5_000


def test_partitions_that_do_not_exist_are_not_among_those_that_have_a_consumer():
    """Two of nine are gone, so no more than three of seven stop at a time."""
    for one in search(shrunk(made_up(3, 9, STATIC))).plans:
        if one.shape.rolling is not None and not one.shape.removes_first:
            assert one.costs.fewest_consumed_percent == 100 * 4 // 7


def test_static_members_that_are_back_in_time_are_restarted_together():
    best, *others = search(made_up(4, 8, STATIC), objective=Objective.REBALANCES).plans
    assert (best.shape.words, best.costs.handovers, best.costs.rebalances) == (("--together",), 0, 0)
    kept = [one for one in others if not one.shape.removes_first]  # only a removal can be better in anything
    assert [(one.shape.words, one.costs.handovers) for one in kept] == [(("--rolling", "--max-unavailable", "1"), 0)]


def test_tasks_that_nobody_else_has_a_copy_of_are_counted():
    """With one process away those without state; with all away each of the twelve. Away for longer than its session,
    the application rebalances, which is a range."""
    front = search(application(), restart_time_ms=2_000, pauses_ms=(0,)).plans
    alone = {one.shape.rolling and one.shape.rolling.max_unavailable: one.costs.tasks_without_copy for one in front}
    assert front[0].prediction.exact
    assert (alone[1], alone.get(None, 12)) == (2, 12)
    late = search(application(), restart_time_ms=90_000, pauses_ms=(0,), draws=1).plans[0]
    assert (late.prediction.exact, late.costs.rebalances > 0) == (False, True)


def test_a_streams_group_has_no_other_configuration_and_removes_nobody():
    found = search(streams_group(), draws=2, pauses_ms=(0,))
    assert (found.what_ifs, found.not_played) == ((), {})
    assert not any(one.shape.removes_first for one in found.plans)
    assert {one.prediction.protocol for one in found.plans} == {"streams"}
    alone = {one.shape.rolling and one.shape.rolling.max_unavailable: one.costs for one in found.plans}[1]
    assert (alone.tasks_without_copy, alone.rebalances > 0) == (2, True)


def test_members_that_are_away_for_longer_than_their_session_are_removed_first():
    """The others take over within seconds; without a removal they would wait for the session."""
    group = made_up(4, 8, STATIC, session_timeout_ms=45_000)
    found = search(group, restart_time_ms=180_000, pauses_ms=(0,))
    best = found.plans[0]
    assert best.shape.words[-1] == "--remove-first"
    waiting = Plan(bounce=best.shape.bounce, rolling=best.shape.rolling, restart_time_ms=180_000)
    waits = simulate(BounceGroup(snapshot=group), waiting, draws=DRAWS).typical
    assert 3 * best.costs.stopped_partition_ms < waits.stopped_partition_ms
    assert best.costs.rebalances == waits.rebalances


def test_when_the_time_is_over_the_best_way_is_predicted_and_the_others_are_named():
    """The time ends before the last way is tried."""
    is_over = False

    def on_shape(done: int, of: int) -> None:
        nonlocal is_over
        is_over = done == of - 1

    group = task(made_up(3, 7, DYNAMIC), pauses_ms=(0,))
    found = find_plans(group, budget_ms=10**9, draws=DRAWS, on_shape=on_shape, is_out_of_time=lambda _share: is_over)
    (best,) = found.plans
    assert (best.prediction.draws, found.tried) == (1, found.ways - 1)
    assert found.unpredicted
    assert best.shape not in found.unpredicted
    assert found.what_ifs == ()
    assert {type(error) for error in found.not_played.values()} == {TimedOutError}


@pytest.mark.few(1)
@pytest.mark.parametrize("stop", Stop)
def test_a_removal_is_tried_where_a_stopped_process_stays_a_member(stop):
    tried = {one.shape.removes_first for one in search(made_up(3, 6, DYNAMIC), stop=stop, pauses_ms=(0,)).plans}
    group = made_up(3, 6, DYNAMIC)
    ways = search(group, stop=stop, pauses_ms=(0,)).ways
    assert ways == len(shapes_of(group, ids(group), pauses_ms=(0,), may_remove=stop is Stop.CRASH))
    assert tried <= ({False, True} if stop is Stop.CRASH else {False})


# -- a longer session timeout


def session_row(group, **more):
    (row,) = [one for one in search(group, pauses_ms=(0,), **more).what_ifs if one.name == "session-timeout"]
    return row


def test_a_session_that_outlasts_the_restart_moves_nothing_and_makes_deaths_dearer():
    row = session_row(made_up(3, 6, STATIC, session_timeout_ms=10_000), restart_time_ms=60_000)
    assert row.change.startswith("session.timeout.ms=")
    session_ms = int(row.change.partition("=")[2])
    assert 60_000 < session_ms <= 70_000
    assert (row.best.costs.rebalances, row.best.costs.handovers, row.best.shape.removes_first) == (0, 0, False)
    # Each member owns two partitions, which nobody consumes until its session ends.
    assert row.death.stopped_partition_now_ms == pytest.approx(2 * 10_000, rel=0.5)
    assert row.death.stopped_partition_ms == pytest.approx(2 * session_ms, rel=0.2)


def test_dynamic_members_have_to_be_static_too():
    row = session_row(made_up(3, 6, DYNAMIC), restart_time_ms=60_000)
    assert row.change.startswith("a different group.instance.id for each member and session.timeout.ms=")
    assert row.best.costs.handovers == 0
    assert row.death.stopped_partition_ms > row.death.stopped_partition_now_ms


@pytest.mark.parametrize(
    ("restart_time_ms", "stop"), [(10_000, Stop.CLEAN), (3_600_000, Stop.CLEAN), (60_000, Stop.CRASH)],
    ids=["it does already", "no broker accepts it", "killed"],
)  # fmt: skip
def test_no_session_is_advised_that_changes_nothing_or_cannot_be(restart_time_ms, stop):
    found = search(made_up(3, 6, STATIC), restart_time_ms=restart_time_ms, stop=stop, pauses_ms=(0,), draws=1)
    assert "session-timeout" not in {one.name for one in found.what_ifs}


@pytest.mark.few(1)
@pytest.mark.parametrize(("percent", "away"), [(75, 1), (50, 2)])
def test_partitions_that_have_to_be_consumed_limit_how_many_members_are_away(percent, away):
    """Each of four static members owns a quarter of the partitions."""
    found = search(made_up(4, 8, STATIC), limits=PlanLimits(consumed_percent=percent), objective=Objective.DURATION)
    assert found.plans[0].shape.rolling == Rolling(max_unavailable=away)
    assert found.plans[0].costs.fewest_consumed_percent == percent


def test_no_more_members_are_away_than_allowed():
    found = search(made_up(5, 10, STATIC), max_unavailable=2, objective=Objective.DURATION)
    assert found.plans[0].shape.rolling == Rolling(max_unavailable=2)


def test_limits_that_no_plan_keeps_leave_the_closest():
    """A rebalance of eager members stops all partitions."""
    found = search(made_up(3, 6, DYNAMIC), limits=PlanLimits(consumed_percent=60), pauses_ms=(0,))
    assert found.plans == ()
    assert found.closest_exceeds == ("--keep-consuming",)
    kept = {one.name for one in found.what_ifs if not one.exceeded}
    assert "static" in kept  # one member away, two thirds go on
    one_by_one = search(made_up(3, 6, STATIC), limits=PlanLimits(duration_ms=1_000), pauses_ms=(0,))
    assert one_by_one.closest is not None
    assert one_by_one.closest.shape.words == ("--together",), "nothing is quicker"


def test_what_ifs_are_those_that_the_group_is_not():
    def names(group):
        found = search(group, pauses_ms=(0,), draws=1)
        return {one.name for one in found.what_ifs} | found.not_played.keys()

    assert names(made_up(2, 4, DYNAMIC)) == {"static", "cooperative", "consumer"}
    assert names(made_up(2, 4, STATIC, "cooperative-sticky")) == {"consumer"}


@pytest.mark.long
def test_the_same_seed_and_budget_give_the_same_answer():
    """Also where the budget ends the search, which is counted in simulated requests."""
    group = made_up(6, 12, DYNAMIC)
    one, again = (search(group, budget_ms=20, pauses_ms=(0,)) for _ in range(2))
    assert one == again
    assert 1 <= one.tried < one.ways
    assert search(group, budget_ms=0, pauses_ms=(0,)).tried == 1


def test_the_search_leaves_time_for_the_prediction_of_what_it_found():
    group = task(made_up(3, 7, DYNAMIC), pauses_ms=(0,))
    asked = set()

    def is_out_of_time(share):
        asked.add(share)
        return share < 1 and len(tried) > 1

    tried = []
    found = find_plans(
        group, budget_ms=10**9, draws=DRAWS, on_shape=lambda *at: tried.append(at), is_out_of_time=is_out_of_time
    )
    assert found.tried == 1 < found.ways
    assert [one.prediction.draws > 1 for one in found.plans] == [True]
    assert len(asked) == 2


def test_a_search_that_is_out_of_time_ends_with_what_it_has():
    calls = itertools.count()
    found = find_plans(
        task(made_up(4, 8, DYNAMIC)), budget_ms=10**9, draws=1, is_out_of_time=lambda _share: next(calls) > 5
    )
    assert 1 <= found.tried < found.ways


def test_members_that_do_not_exist_are_an_error():
    group = BounceGroup(snapshot=made_up(2, 4))
    with pytest.raises(NotFoundError):
        find_plans(PlanTask(group=group, request=BounceRequest(instance_ids=("nobody",))))


# -- shapes


def test_ways_with_the_same_batches_are_one():
    group = made_up(4, 8)
    shapes = shapes_of(group, ids(group), pauses_ms=(0,))
    assert [shape.words for shape in shapes] == [
        ("--rolling", "--max-unavailable", "1"),
        ("--together",),
        ("--rolling", "--max-unavailable", "2"),
        ("--rolling", "--max-unavailable", "3"),
    ]


def test_orders_that_differ_are_tried():
    group = on_two_hosts(made_up(4, 8))
    words = [" ".join(shape.words) for shape in shapes_of(group, ids(group), pauses_ms=(0, 5_000))]
    assert "--rolling --max-unavailable 2 --order host" in words
    assert "--rolling --max-unavailable 1 --pause 5s --order host" in words
    assert words.count("--together") == 1
    assert len(words) == len(set(words))


def test_the_leader_is_last_only_if_it_is_known():
    group = made_up(3, 6)
    led = replace(group, leader=group.members[0].member_id)
    assert not [shape for shape in shapes_of(group, ids(group)) if "leader-last" in shape.words]
    last = [shape for shape in shapes_of(led, ids(led)) if "leader-last" in shape.words]
    assert last
    assert all(shape.bounce[-1] == group.members[0].identity for shape in last)
