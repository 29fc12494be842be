"""Predictions by what Kafka is known to do: the outcome matrix, and what was counted on a real broker."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from kgm.model.broker_version import BrokerVersion
from kgm.model.client_library import stated_library
from kgm.model.errors import NotFoundError, RefusedError, TimedOutError, UsageError
from kgm.model.snapshot import OffsetSnapshot, TopicSnapshot
from kgm.model.snapshot_json import snapshot_from_json
from kgm.simulation.bounce import simulate
from kgm.simulation.compare import compare, side_by_side
from kgm.simulation.draws.executor import ParallelDrawExecutor
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, Rolling, Stop, WhatIf
from kgm.simulation.plan.synthetic_group import synthetic_group
from kgm.simulation.play.classic_member import ScriptedClassicMember
from kgm.simulation.simulation import Simulation
from tests.simulation.groups import DYNAMIC, STATIC, ids, made_up, member

EAGER = ("range", "roundrobin", "sticky")
ALL_ASSIGNORS = (*EAGER, "cooperative-sticky")
LATE_MS = 60_000
NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}


def predict(snapshot, draws=25, **plan):
    return simulate(snapshot, Plan(**plan), draws=draws)


def counts(scenario):
    """(rebalances, moved partitions), each a number when the prediction is exact, else (least, most)."""
    if scenario.exact:
        return scenario.typical.rebalances, scenario.typical.moved_partitions
    ranges = scenario.ranges
    return (ranges.rebalances.min, ranges.rebalances.max), (ranges.moved_partitions.min, ranges.moved_partitions.max)


# -- what a simulation may cost


@pytest.mark.long
def test_a_group_that_cannot_become_stable_is_given_up():
    """Members that heartbeat when their session of 2 ms is over already: they join again and again."""
    group = made_up(3, 6)
    plan = Plan(bounce=ids(group, 0), what_if=WhatIf(session_timeout_ms=2))
    drawn = Simulation.of(group, plan).play(200)
    assert len(drawn) == 10
    assert not any(draw.became_stable for draw in drawn)
    assert max(draw.requests for draw in drawn) < 150_000


BUDGET_MS = 400


@pytest.fixture(scope="module")
def restarts_of_thirty():
    """A rolling restart of dynamic members, in about 5,400 requests; a budget of 400 ms pays for 12,000."""
    group = made_up(30, 60, DYNAMIC, library="java")
    return group, Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=5_000)


@pytest.mark.long
def test_a_budget_pays_for_more_draws_in_bulk(restarts_of_thirty, monkeypatch):
    """And what is drawn is the same, as far as it goes."""
    simulation = replace(Simulation.of(*restarts_of_thirty), budget_ms=BUDGET_MS)
    in_bulk = simulation.play(100)
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    by_events = simulation.play(100)
    assert (len(in_bulk), len(by_events)) == (19, 2)
    assert in_bulk[:2] == by_events
    assert all(draw.cost == draw.requests for draw in by_events)
    assert sum(draw.cost for draw in in_bulk) == pytest.approx(30 * BUDGET_MS, rel=0.1)


@pytest.mark.long
def test_a_budget_pays_for_the_same_draws_on_any_number_of_cores(restarts_of_thirty):
    expected = simulate(*restarts_of_thirty, budget_ms=BUDGET_MS)
    for processes in (1, 2, 3):
        with ParallelDrawExecutor(processes, worth_s=0) as executor:
            found = simulate(*restarts_of_thirty, budget_ms=BUDGET_MS, executor=executor)
        assert found == expected
        assert found.typical.cost == expected.typical.cost


def test_a_time_limit_ends_it():
    group = made_up(3, 12, DYNAMIC)
    plan = Plan(bounce=ids(group), rolling=Rolling())
    with pytest.raises(TimedOutError, match="before the plan was simulated once"):
        simulate(group, plan, is_out_of_time=lambda: True)
    in_time = iter([False] * 20)
    short = simulate(group, plan, is_out_of_time=lambda: next(in_time, True))
    assert 1 < short.ranges.draws < 200
    assert _is_cut_short(short)
    assert not _is_cut_short(simulate(group, plan, draws=3))


def test_what_a_time_limit_ends_is_not_exact():
    """Whenever it passes: what was not played may have had another outcome."""
    group = made_up(3, 12, STATIC)
    plan = Plan(bounce=ids(group)[:1], restart_time_ms=1_000)
    whole = simulate(group, plan)
    assert whole.exact
    asked = itertools.count()
    simulate(group, plan, is_out_of_time=lambda: next(asked) < 0)
    ended = 0
    for limit in range(next(asked)):
        calls = itertools.count()
        try:
            short = simulate(group, plan, is_out_of_time=lambda: next(calls) >= limit)  # noqa: B023 (called at once)
        except TimedOutError:
            continue
        ended += 1
        assert _is_cut_short(short)
        assert not short.exact
    assert ended


def _is_cut_short(prediction):
    return any(caveat.startswith("the time limit (--timeout) has passed") for caveat in prediction.caveats)


@pytest.mark.parametrize("blank", [" ", "\u2028", "\u3000"])
def test_blank_names_are_simulated_with_the_other_protocol_too(blank):
    """The classic protocol takes any instance id and rack. The other one refuses those that Java's `trim` empties."""
    group = made_up(3, 6)
    first, second, third = group.members
    group = replace(group, members=(replace(first, group_instance_id=blank), replace(second, rack=blank), third))
    compared = compare(group, Plan(bounce=ids(group)), draws=2)
    assert compared.errors == ()
    refused = {one.name: one.typical.refused_joins for one in compared.predictions}
    assert refused.pop("consumer") == (2 if blank == " " else 0)
    assert set(refused.values()) == {0}


# -- static members


@pytest.mark.few(4)
@pytest.mark.parametrize("assignor", ALL_ASSIGNORS)
@pytest.mark.parametrize("stop", [Stop.CLEAN, Stop.CRASH])  # with `leave` they leave
@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_static_members_back_in_time_cost_nothing(assignor, stop, library):
    """KIP-345, and KIP-814 for leaders: whoever leads is among those that restart."""
    group = made_up(assignor=assignor, library=library)
    for plan in ({"bounce": ids(group)}, {"bounce": ids(group), "rolling": Rolling()}, {"bounce": ids(group, 1)}):
        scenario = predict(group, stop=stop, **plan)
        assert (scenario.exact, scenario.typical.generations, counts(scenario)) == (True, 0, (0, 0))
        assert scenario.ranges is None
        assert scenario.typical.final_assignment == {m.identity: {"t": tuple(m.assignment["t"])} for m in group.members}


def test_stopped_time_is_that_of_the_process_and_no_more():
    group = made_up(3, 12)
    scenario = predict(group, bounce=ids(group, 0), restart_time_ms=10_000)
    assert 4 * 10_000 < scenario.typical.stopped_partition_ms < 4 * 11_500
    assert scenario.typical.handovers == 0


def test_times_have_a_range_where_everything_else_is_exact():
    """A process may take anything between a few ms and half a second to join, so the time without a consumer is not
    certain."""
    group = made_up(3, 12)
    scenario = predict(group, bounce=ids(group, 0), restart_time_ms=10_000)
    stopped = scenario.stopped_partition_range_ms
    assert (scenario.exact, scenario.ranges) == (True, None)
    assert 4 * 10_000 < stopped.min < stopped.median < stopped.max < 4 * 11_500
    assert stopped.min <= scenario.typical.stopped_partition_ms <= stopped.max
    assert stopped.max - stopped.min > 4 * 200
    assert stopped.is_meaningful
    few = simulate(group, Plan(bounce=ids(group, 0)), draws=2).stopped_partition_range_ms
    assert (few.draws, few.is_meaningful) == (2, False)


def test_the_range_of_times_is_that_of_the_ranges_where_there_are_any():
    group = made_up(3, 12, DYNAMIC)
    scenario = predict(group, bounce=ids(group, 0))
    drawn, stopped = scenario.ranges.stopped_partition_ms, scenario.stopped_partition_range_ms
    assert (stopped.min, stopped.median, stopped.max, stopped.draws) == (
        drawn.min, drawn.median, drawn.max, scenario.ranges.draws
    )  # fmt: skip


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_a_late_static_member_costs_two_rebalances_and_no_move_when_eager(assignor):
    group = made_up(3, 12, assignor=assignor)
    scenario = predict(group, bounce=ids(group, 0), restart_time_ms=LATE_MS)
    assert (scenario.exact, counts(scenario)) == (True, (2, 0))
    assert scenario.typical.handovers >= 2 * 4
    events = [event.event for event in scenario.typical.timeline]
    assert sorted(events[1:3]) == ["expired", "rebalance"]
    assert [events[0], *events[3:]] == ["stop", "assigned", "start", "rebalance", "assigned", "stable"]


def test_a_late_static_member_costs_three_rebalances_when_cooperative():
    group = made_up(3, 12, assignor="cooperative-sticky")
    (least, most), _ = counts(predict(group, bounce=ids(group, 0), restart_time_ms=LATE_MS))
    assert (least, most) in ((3, 3), (3, 4))


@pytest.mark.parametrize("assignor", ALL_ASSIGNORS)
@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_static_members_that_stay_away_cost_one_rebalance_when_their_session_ends(assignor, library):
    group = made_up(4, 16, assignor=assignor, library=library)
    scenario = predict(group, scale_in=ids(group, 0, 2))
    assert scenario.exact
    assert scenario.typical.rebalances == 1
    gone = [event for event in scenario.typical.timeline if event.event == "expired"]
    assert {event.member for event in gone} == {"member-1", "member-3"}
    # Their sessions began with their last heartbeats, up to 3 s before they stopped.
    assert all(42_000 - 100 <= event.at_ms <= 45_000 + 100 for event in gone)
    assert set(scenario.typical.final_assignment) == {"member-2", "member-4"}
    assert all(move.owner_after in ("member-2", "member-4") for move in scenario.typical.moves)


@pytest.mark.parametrize("assignor", ALL_ASSIGNORS)
def test_a_removal_costs_one_rebalance_at_once(assignor):
    group = made_up(4, 16, assignor=assignor)
    scenario = predict(group, remove=ids(group, 0, 2))
    assert (scenario.exact, scenario.typical.rebalances) == (True, 1)
    assert scenario.typical.took_ms < 5_000
    assert "expired" not in {event.event for event in scenario.typical.timeline}


def test_sticky_assignors_move_only_what_a_leaver_had():
    for assignor in ("sticky", "cooperative-sticky"):
        group = made_up(4, 16, assignor=assignor)
        moves = predict(group, scale_in=ids(group, 1)).typical.moves
        assert {move.owner_before for move in moves} == {"member-2"}
        assert len(moves) == 4


def test_new_static_members_cost_one_or_two_phases():
    group = made_up(3, 15)
    assert counts(predict(group, scale_out=1)) == (1, counts(predict(group, scale_out=1))[1])
    rebalances, _ = counts(predict(group, scale_out=2, draws=60))
    assert rebalances in (1, (1, 2))
    assert set(predict(group, scale_out=2).typical.final_assignment) == {f"member-{n}" for n in range(1, 6)}


def test_a_shorter_session_is_a_what_if():
    group = made_up()
    plan = Plan(bounce=ids(group, 0), restart_time_ms=20_000)
    assert simulate(group, plan).typical.rebalances == 0
    shorter = simulate(group, replace(plan, what_if=WhatIf(session_timeout_ms=10_000)), draws=10)
    assert shorter.typical.rebalances == 2


def test_a_restart_that_takes_as_long_as_the_session_may_go_either_way():
    group = made_up(session_timeout_ms=10_000)
    scenario = predict(group, bounce=ids(group, 0), restart_time_ms=8_500, draws=60)
    assert counts(scenario)[0] in ((0, 1), (0, 2))
    assert any("session timeout (10 s)" in caveat for caveat in scenario.caveats)


def test_a_broker_accepts_the_members_that_it_has_unless_its_limits_are_given():
    group = made_up(session_timeout_ms=2_000)
    plan = {"bounce": ids(group), "restart_time_ms": 100, "heartbeat_interval_ms": 500}
    assert predict(group, **plan).typical.refused_joins == 0
    assert predict(group, **plan, settings={"group.min.session.timeout.ms": "6000"}).typical.refused_joins == 3
    patient = made_up(session_timeout_ms=3_600_000)
    assert predict(patient, bounce=ids(patient)).typical.refused_joins == 0
    assert (
        predict(
            patient, bounce=ids(patient), settings={"group.max.session.timeout.ms": "1800000"}
        ).typical.refused_joins
        == 3
    )


def test_how_long_an_empty_group_waits_is_drawn_if_it_is_not_given():
    group = made_up(3, 12, DYNAMIC)
    rebalances, _ = counts(predict(group, bounce=ids(group), draws=60))
    assert rebalances[0] == 1 < rebalances[1]


# -- dynamic members


@pytest.mark.parametrize("assignor", EAGER)
@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_a_dynamic_member_costs_two_rebalances_when_closed_and_one_when_killed(assignor, library):
    group = made_up(3, 12, DYNAMIC, assignor, library="java" if assignor == "sticky" else library)
    assert counts(predict(group, bounce=ids(group, 0)))[0] == (2, 2)
    assert counts(predict(group, bounce=ids(group, 0), stop=Stop.CRASH))[0] == (1, 1)


def test_a_dynamic_cooperative_member_costs_three_rebalances_and_keeps_all_in_place_when_killed():
    group = made_up(3, 12, DYNAMIC, "cooperative-sticky")
    closed, _ = counts(predict(group, bounce=ids(group, 0), draws=60))
    assert closed in ((3, 3), (3, 4), (3, 5))
    killed = predict(group, bounce=ids(group, 0), stop=Stop.CRASH)
    assert counts(killed) == ((1, 1), (4, 4))
    assert {move.owner_before for move in killed.typical.moves} == {ids(group, 0)[0]}


@pytest.mark.parametrize(("assignor", "per_member"), [("range", 2), ("roundrobin", 2), ("cooperative-sticky", 3)])
def test_a_rolling_restart_of_dynamic_members(assignor, per_member):
    group = made_up(3, 12, DYNAMIC, assignor)
    scenario = predict(group, bounce=ids(group), rolling=Rolling(), draws=40)
    assert scenario.typical.rebalances == 3 * per_member
    assert scenario.ranges.rebalances.max <= 3 * per_member + 4


def test_no_time_between_stop_and_start_saves_a_rebalance():
    """The newcomer joins while the others have not yet heard that somebody left."""
    group = made_up(3, 12, DYNAMIC, "roundrobin")
    assert counts(predict(group, bounce=ids(group, 0), restart_time_ms=0, draws=100))[0] == (1, 2)


def test_moves_of_dynamic_members_differ_from_draw_to_draw():
    """ "moved 7 partitions one time and 14 the next": a random id sorts anywhere among those of the same client."""
    group = made_up(3, 21, DYNAMIC, "range")
    scenario = predict(group, bounce=ids(group, 0), draws=60)
    assert (scenario.ranges.moved_partitions.min, scenario.ranges.moved_partitions.max) == (7, 14)
    assert not scenario.exact
    assert any("random ids" in caveat for caveat in scenario.caveats)


def test_who_leaves_is_known_so_that_a_dynamic_scale_in_is_exact():
    group = made_up(4, 16, DYNAMIC, "range")
    scenario = predict(group, scale_in=ids(group, 1))
    assert (scenario.exact, scenario.typical.rebalances, scenario.ranges) == (True, 1, None)
    assert scenario.typical.took_ms < 10_000
    assert predict(group, scale_in=ids(group, 1), stop=Stop.CRASH).typical.took_ms > 40_000


def test_all_dynamic_members_at_once_leave_the_group_empty_in_between():
    group = made_up(3, 12, DYNAMIC)
    scenario = predict(group, bounce=ids(group))
    assert scenario.typical.generations > scenario.typical.rebalances
    assert "empty" in {event.event for event in scenario.typical.timeline}
    assert any("group.initial.rebalance.delay.ms=3000" in caveat for caveat in scenario.caveats)
    quick = predict(group, bounce=ids(group), settings=NO_DELAY)
    assert not any("initial" in caveat for caveat in quick.caveats)
    assert quick.typical.took_ms < scenario.typical.took_ms
    assert scenario.typical.moved_partitions == 12


def test_a_group_that_all_members_leave_for_good_is_empty():
    group = made_up(2, 6)
    scenario = predict(group, scale_in=ids(group))
    assert scenario.exact
    assert (scenario.typical.rebalances, scenario.typical.generations) == (0, 1)
    assert scenario.typical.final_assignment == {}
    assert all(move.owner_after is None for move in scenario.typical.moves)
    assert scenario.typical.moved_partitions == 6


# -- other groups


def test_static_members_of_a_mixed_group_keep_their_partitions():
    mixed = replace(
        made_up(2, 6),
        members=(member("a", assignment={"t": (0, 1, 2)}), member("b", static=False, assignment={"t": (3, 4, 5)})),
    )
    assert predict(mixed, bounce=("a",)).typical.rebalances == 0
    scenario = predict(mixed, bounce=("b-uuid",))
    assert scenario.typical.rebalances == 2
    assert scenario.typical.final_assignment["a"] == {"t": (0, 1, 2)}


def test_a_whole_plan_at_once():
    group = made_up(5, 20, assignor="cooperative-sticky")
    scenario = predict(
        group,
        bounce=ids(group, 0, 1),
        rolling=Rolling(pause_ms=2_000),
        scale_in=ids(group, 2),
        remove=ids(group, 3),
        scale_out=1,
    )
    final = scenario.typical.final_assignment
    assert set(final) == {"member-1", "member-2", "member-5", "member-6"}
    assert sorted(p for topics in final.values() for p in topics["t"]) == list(range(20))
    starts = [(event.member, event.at_ms) for event in scenario.typical.timeline if event.event == "start"]
    assert [who for who, _ in starts] == ["member-6", "member-1", "member-2"]
    # The rolling restart waits for the sessions of those that went.
    assert starts[1][1] > 42_000


def test_the_limit_of_the_group_refuses_newcomers():
    group = made_up(3, 12)
    scenario = predict(group, scale_out=2, settings={"group.max.size": "4"})
    assert scenario.typical.refused_joins == 1
    assert len(scenario.typical.final_assignment) == 4
    assert any("the group is full and refuses" in caveat for caveat in scenario.caveats)


def test_a_streams_application_whose_tasks_are_unknown_is_played_as_long_as_none_of_them_moves():
    streams = replace(made_up(), assignor="stream")
    assert predict(streams, bounce=ids(streams)).typical.rebalances == 0
    with pytest.raises(RefusedError, match="tasks of member-1, member-2, member-3 cannot be read"):
        predict(streams, scale_in=ids(streams, 0))


def test_what_if_all_members_were_dynamic_or_static():
    group = made_up(3, 12)
    plan = Plan(bounce=ids(group, 0))
    dynamic = simulate(group, replace(plan, what_if=WhatIf(membership=DYNAMIC)), draws=10)
    assert dynamic.typical.rebalances == 2
    assert dynamic.typical.moves[0].owner_before == group.members[0].member_id
    loose = made_up(3, 12, DYNAMIC)
    static = simulate(loose, Plan(bounce=ids(loose, 0), what_if=WhatIf(membership=STATIC)))
    assert (static.exact, static.typical.rebalances) == (True, 0)


@pytest.mark.parametrize("rolling", [None, Rolling()])
def test_a_prediction_is_not_exact_if_the_group_does_not_become_stable(monkeypatch, rolling):
    """Nothing waits for ever: time is bounded, and so is the number of rebalances."""
    group = made_up(3, 12, DYNAMIC)
    monkeypatch.setattr("kgm.simulation.play.plan_runner._HOPELESS_REBALANCES", -9)
    scenario = predict(group, bounce=ids(group), rolling=rolling, draws=3)
    assert not scenario.exact
    assert not scenario.typical.became_stable
    assert scenario.caveats[0].startswith("the group does not become stable in 3 of 3 draws")
    assert scenario.typical.timeline[-1].event != "stable"


def test_a_scale_out_needs_a_group_with_members():
    empty = replace(made_up(), members=(), state="Empty", assignor=None)
    with pytest.raises(UsageError, match="no members"):
        predict(empty, scale_out=1)


def test_it_is_not_known_who_leads_a_group_of_two_libraries():
    group = made_up(4, 13, assignor="cooperative-sticky")
    both = replace(
        group,
        members=tuple(
            replace(m, client_library=stated_library(("java", "librdkafka")[n % 2]))
            for n, m in enumerate(group.members)
        ),
    )
    scenario = predict(both, scale_in=ids(group, 0))
    assert any("whether a Java or a librdkafka member leads" in caveat for caveat in scenario.caveats)
    unlike = replace(both, members=tuple(replace(m, topics=("t", f"u{n}")) for n, m in enumerate(both.members)))
    assert any("seen to crash" in caveat for caveat in predict(unlike, scale_in=ids(group, 0), draws=2).caveats)


# -- the prediction as such


def test_the_same_seed_gives_the_same_answer_and_another_seed_may_not():
    group = made_up(4, 21, DYNAMIC)
    plan = Plan(bounce=ids(group), rolling=Rolling())
    assert simulate(group, plan, draws=5, seed=3) == simulate(group, plan, draws=5, seed=3)
    assert simulate(group, plan, draws=5, seed=3) != simulate(group, plan, draws=5, seed=4)


def test_members_that_do_not_exist_are_named():
    group = made_up()
    with pytest.raises(NotFoundError, match="nobody, nothing"):
        predict(group, bounce=("member-1", "nobody"), scale_in=("nothing",))


def test_unknown_broker_settings_are_named():
    with pytest.raises(UsageError, match=r"no\.such\.setting"):
        predict(made_up(), scale_out=1, settings={"no.such.setting": "1"})


def test_generations_are_null_if_the_snapshot_does_not_contain_them():
    group = made_up(generation=None)
    scenario = predict(group, scale_in=ids(group, 0)).to_json()
    assert (scenario["generation_before"], scenario["generation_after"], scenario["generations"]) == (None, None, 1)
    known = predict(made_up(generation=41), scale_in=ids(group, 0)).to_json()
    assert (known["generation_before"], known["generation_after"]) == (41, 42)


def test_a_typical_draw_lies_within_the_ranges():
    group = made_up(4, 21, DYNAMIC)
    plan = Plan(bounce=ids(group), rolling=Rolling(max_unavailable=2))
    scenario = simulate(group, plan, draws=30)
    for name in ("generations", "rebalances", "moved_partitions", "stopped_partition_ms"):
        found = getattr(scenario.ranges, name)
        assert found.min <= getattr(scenario.typical, name) <= found.max
        assert found.min <= found.median <= found.max
    simulation = Simulation.of(group, plan)
    drawn = simulation.play(30)
    extreme = simulation.play_extreme(simulation.counts_as(drawn, 30))
    assert (len(drawn) // 10, len(extreme)) == (2, 10)
    assert scenario.ranges.draws == len(drawn) + len(extreme) + len(simulation.play_rare(drawn, extreme))


@pytest.mark.parametrize(
    "plan", [{"scale_in": (0,)}, {"scale_in": (0, 2)}, {"bounce": (0,), "restart_time_ms": LATE_MS}]
)
@pytest.mark.parametrize("assignor", ["range", "sticky"])
def test_heartbeats_that_are_left_out_are_not_missed(monkeypatch, plan, assignor):
    """The same prediction when every heartbeat is sent."""
    group = made_up(4, 16, assignor=assignor)
    plan = {key: ids(group, *value) if isinstance(value, tuple) else value for key, value in plan.items()}
    plan["heartbeat_interval_ms"] = 1_000
    short = predict(group, draws=3, **plan)
    monkeypatch.setattr(ScriptedClassicMember, "_is_calm", property(lambda self: False))
    long = predict(group, draws=3, **plan)
    assert short.exact
    assert long.exact
    assert long.typical.requests > 3 * short.typical.requests
    assert long.typical.without_times == short.typical.without_times
    assert abs(long.typical.took_ms - short.typical.took_ms) < 3_000


@pytest.mark.long
@pytest.mark.slow
def test_a_thousand_static_members_roll_in_seconds():
    group = made_up(1000, 10_000)
    scenario = predict(group, bounce=ids(group), rolling=Rolling())
    assert (scenario.exact, scenario.typical.rebalances) == (True, 0)


@pytest.mark.slow
def test_five_hundred_dynamic_members():
    group = made_up(500, 5_000, DYNAMIC)
    scenario = predict(group, bounce=ids(group, 7), draws=5)
    assert scenario.typical.rebalances == 2
    assert scenario.typical.became_stable


#: app-2 and app-3 fall into one bucket of a Java hash map; who of them joined first decides who keeps a fifth partition.
COLLIDING = (
    ("app-1", "app-1-00751f27-4da3-4b53-b9e9-0158c70527d8"),
    ("app-2", "app-2-2d603ff2-3211-4a84-813e-9b60d1e5feb3"),
    ("app-3", "app-3-d2c58071-b262-404c-a188-8fb74ebc8935"),
)


@pytest.mark.parametrize(
    ("listed", "moved"), [((0, 1, 2), (5, 5)), ((0, 2, 1), (7, 7)), ((None, None, None), (5, 7))], ids=str
)
def test_the_order_in_which_the_broker_lists_members_decides_who_keeps_what(listed, moved):
    """A group that a real Kafka listed as app-1, app-3, app-2: with the restart of app-1 past its session 7 of 13
    partitions changed hands for good."""
    group = made_up(3, 13, assignor="cooperative-sticky")
    members = tuple(
        replace(
            one, member_id=member_id, group_instance_id=name, listed_at=listed[seat], client_library=stated_library("java"),
            assignment={"t": tuple(range(seat, 13, 3))},
        )
        for seat, (one, (name, member_id)) in enumerate(zip(group.members, COLLIDING, strict=True))
    )  # fmt: skip
    seen = replace(group, members=members, session_timeout_ms=6_000)
    scenario = predict(seen, bounce=("app-1",), restart_time_ms=9_000, draws=20)
    range_ = (scenario.ranges.moved_partitions.min, scenario.ranges.moved_partitions.max)
    assert range_ == moved
    read = snapshot_from_json(json.loads(json.dumps(seen.to_json())))
    assert predict(read, bounce=("app-1",), restart_time_ms=9_000, draws=20) == scenario


def test_a_new_member_of_a_consumer_group_waits_from_its_own_start_until_it_first_owns_something():
    """Whose turn comes 20 s later waits no longer, and a later rebalance is not waited for: its heartbeats are 5 s apart,
    and a partition that it is to get is revoked from another one within two of those."""
    group, what_if = made_up(3, 24), WhatIf(protocol=GroupProtocol.CONSUMER)
    for every_ms in (0, 20_000):
        draw = predict(group, scale_out=3, scale_out_every_ms=every_ms, what_if=what_if, draws=2).typical
        assert 0 < draw.newcomers_wait_ms <= 15_000


@pytest.mark.parametrize(("version", "is_exact"), [("3.9+new", False), ("4.0", True), ("4.1", True), ("4.4", True)])
def test_consumer_groups_before_4_0_have_no_exact_prediction(version, is_exact):
    group, what_if = made_up(), WhatIf(protocol=GroupProtocol.CONSUMER)
    plan = {
        "what_if": what_if,
        "bounce": ids(group),
        "restart_time_ms": 1_000,
        "kafka_version": BrokerVersion.parse(version),
    }
    scenario = predict(group, **plan)
    assert scenario.exact is is_exact
    assert any("simulated as those of 4.0" in caveat for caveat in scenario.caveats) is not is_exact
    assert scenario.typical.moved_partitions == 0


def test_before_4_0_members_of_consumer_groups_cannot_be_removed():
    """The broker answers UNKNOWN_MEMBER_ID (KAFKA-18188; seen with 3.9.1): nothing may be stopped for it."""
    group, what_if = made_up(), WhatIf(protocol=GroupProtocol.CONSUMER)
    old, first = {"what_if": what_if, "kafka_version": BrokerVersion.parse("3.9+new")}, ids(group, 0)
    for removal in ({"remove": first}, {"bounce": first, "remove_first": True}):
        with pytest.raises(RefusedError, match="cannot remove members of consumer groups"):
            predict(group, **old, **removal)
        assert predict(group, **{**old, "kafka_version": BrokerVersion.parse("4.0")}, **removal)
    killed = Plan(bounce=first, stop=Stop.CRASH, restart_time_ms=1_000, **old)
    (as_is,) = side_by_side(group, killed, draws=2).predictions
    assert not any("remove-members" in caveat for caveat in as_is.caveats)


def test_each_restart_takes_one_of_the_times_that_were_seen():
    """One of two static members restarts: in time, or late, which costs its three partitions two handovers each."""
    group = made_up(2, 6, STATIC, session_timeout_ms=45_000)
    plan = Plan(bounce=ids(group, 0), restart_times_ms=(5_000, 90_000))
    drawn = Simulation.of(group, plan).play(40)
    assert {draw.handovers for draw in drawn} == {0, 6}
    away_s = {round(draw.stopped_partition_ms / 3 / 10_000) for draw in drawn if not draw.handovers}
    assert away_s == {1}, "about 5 s and a moment to start in"
    prediction = simulate(group, plan, draws=40)
    assert not prediction.exact
    assert (prediction.ranges.handovers.min, prediction.ranges.handovers.max) == (0, 6)


def test_restarts_that_are_all_in_time_are_certain():
    group = made_up(2, 6, STATIC, session_timeout_ms=45_000)
    assert simulate(group, Plan(bounce=ids(group), restart_times_ms=(5_000, 30_000))).exact


@pytest.mark.parametrize("rolling", [None, Rolling()], ids=["together", "rolling"])
@pytest.mark.parametrize("version", ["2.4", "2.5", "2.6", "3.9", "4.4"])
def test_a_group_is_stable_when_the_last_static_member_is_back(version, rolling):
    """Up to Kafka 2.5 no record says that a static member was replaced (KAFKA-10284)."""
    group = made_up(3, 6)
    plan = Plan(
        bounce=ids(group), rolling=rolling, restart_time_ms=10_000, kafka_version=BrokerVersion.parse(version),
        heartbeat_interval_ms=3_000,
    )  # fmt: skip
    restarts = 1 if rolling is None else 3
    for draw in Simulation.of(group, plan).play(20):
        assert (draw.became_stable, draw.rebalances) == (True, 0)
        assert draw.took_ms < restarts * 13_000


# -- groups that are empty for a while


@pytest.mark.few(2)
@pytest.mark.parametrize("protocol", GroupProtocol)
@pytest.mark.parametrize("committed", [3, None], ids=["offsets", "no offsets"])
def test_an_empty_group_is_kept_if_it_has_offsets(protocol, committed):
    """Brokers look for empty groups without offsets every ten minutes, by default. What a real one does is in
    reality/test_deleted_groups.py."""
    away_ms = 900_000
    topics = [TopicSnapshot(name="t", partitions=6)]
    group = synthetic_group(3, topics, STATIC, protocol=protocol)
    group = replace(group, offsets=(OffsetSnapshot("t", 0, committed, 5, 2, None, None),))
    plan = Plan(bounce=ids(group), stop=Stop.CRASH, restart_time_ms=away_ms, settings=NO_DELAY)
    simulation = Simulation.of(group, plan)
    drawn = simulation.play(20)
    assert all(draw.became_stable and draw.was_empty for draw in drawn)
    deleted_ms = [[event.at_ms for event in draw.timeline if event.event == "deleted"] for draw in drawn]
    caveats = [caveat for caveat in simulate(group, plan, draws=20).caveats if "committed offsets" in caveat]
    if committed is None:
        assert len(caveats) == 1
        assert all(len(times) == 1 and 40_000 < times[0] < away_ms for times in deleted_ms)
        assert len({tuple(times) for times in deleted_ms}) == len(drawn), "when a broker looks is not known"
        assert all(draw.epoch_in_new_group < draw.generations for draw in drawn)
    else:
        assert not caveats
        assert not any(deleted_ms)
        assert {draw.epoch_in_new_group for draw in drawn} == {None}


def test_where_offsets_are_not_known_a_prediction_that_depends_on_them_is_not_exact():
    group = made_up(2, 6, STATIC, session_timeout_ms=45_000)
    plan = {"bounce": ids(group), "stop": Stop.CRASH, "restart_time_ms": LATE_MS}
    unknown, known = replace(group, offsets=()), group
    told = [predict(each, **plan) for each in (unknown, known)]
    assert not told[0].exact
    assert ["not known whether" in " ".join(one.caveats) for one in told] == [True, False]
    one = {"bounce": ids(group, 0), "stop": Stop.CRASH, "restart_time_ms": LATE_MS}
    assert predict(unknown, **one).exact, "the group is never empty"
