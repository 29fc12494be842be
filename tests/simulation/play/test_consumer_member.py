"""Bounces of consumer groups (KIP-848): what Kafka's documents and 198 bounces on a real broker say comes of each."""

from dataclasses import replace

import pytest

from kgm.model.broker_version import BrokerVersion
from kgm.model.client_library import stated_library
from kgm.model.errors import TimedOutError, UsageError
from kgm.model.snapshot import CoordinatorNode, TopicSnapshot
from kgm.operations.bounce.gates import Gates
from kgm.simulation.bounce import simulate
from kgm.simulation.compare import compare, side_by_side
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, Rolling, Stop, WhatIf
from kgm.simulation.plan.starting_group import starting_group_of
from kgm.simulation.plan.synthetic_group import synthetic_group
from tests.simulation.groups import DYNAMIC, STATIC, ids, made_up, member

CONSUMER = GroupProtocol.CONSUMER


def consumers(members=3, partitions=12, membership=STATIC, assignor=None):
    return synthetic_group(members, [TopicSnapshot(name="t", partitions=partitions)], membership, assignor, CONSUMER)


def events(outcome, name):
    return [event.member for event in outcome.timeline if event.event == name]


@pytest.mark.few(1)
@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("rolling", [None, Rolling(max_unavailable=1)])
def test_static_members_that_are_closed_and_come_back_in_time_move_nothing(assignor, rolling):
    group = consumers(assignor=assignor)
    scenario = simulate(group, Plan(bounce=ids(group), rolling=rolling, restart_time_ms=8_000))
    outcome = scenario.typical
    assert scenario.exact
    assert scenario.protocol == "consumer"
    assert (outcome.generations, outcome.rebalances, outcome.moves, outcome.refused_joins) == (0, 0, (), 0)
    assert outcome.stopped_partition_ms >= 12 * 8_000


def test_a_static_member_that_was_killed_is_refused_until_its_session_ends():
    group = consumers()
    victim = ids(group)[0]
    scenario = simulate(group, Plan(bounce=(victim,), stop=Stop.CRASH, restart_time_ms=5_000), draws=20)
    outcome = scenario.typical
    assert outcome.refused_joins == 1
    assert (outcome.generations, outcome.rebalances) == (1, 1)
    assert victim not in outcome.final_assignment
    assert {move.owner_before for move in outcome.moves} == {victim}
    assert not scenario.exact, "a process that is started again later joins, which is a second rebalance"
    assert scenario.ranges is not None
    assert (scenario.ranges.rebalances.min, scenario.ranges.rebalances.max) == (1, 2)
    assert scenario.ranges.handovers.min == len(outcome.moves), "to come back takes nothing back"
    assert scenario.stopped_partition_range_ms.is_open, "nobody knows when it comes back"
    (failure,) = Gates(stopped_ms=10**9).failures(scenario)
    assert failure.message == "how long partitions will have no consumer is not known"
    command = f"kgm remove-members synthetic --instance-ids {victim}"
    assert any("UNRELEASED_INSTANCE_ID" in caveat and command in caveat for caveat in scenario.caveats)
    (gone,) = [event.at_ms for event in outcome.timeline if event.event == "expired"]
    assert 40_000 <= gone <= 45_200, "a session of 45 s, counted from a heartbeat at most 5 s before"


def test_a_supervisor_starts_it_again_until_its_session_has_ended():
    group = consumers()
    victim = ids(group)[0]
    plan = Plan(bounce=(victim,), stop=Stop.CRASH, restart_time_ms=5_000, retry_every_ms=10_000)
    scenario = simulate(group, plan, draws=20)
    outcome = scenario.typical
    assert outcome.refused_joins == 4, "after 5, 15, 25 and 35 s"
    assert outcome.generations == 2, "one epoch when its session ends, one when it is let in"
    assert not scenario.stopped_partition_range_ms.is_open
    assert set(outcome.final_assignment) == set(ids(group))
    starts = [event.at_ms for event in outcome.timeline if event.event == "start"]
    assert 45_000 <= starts[-1] <= 49_000
    assert any("it is started again every 10 s" in caveat for caveat in scenario.caveats)
    assert not any("rebalance timeout" in caveat for caveat in scenario.caveats), (
        "no member fails to give up partitions"
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("library", "stop"), [("franz-go", Stop.CRASH), ("franz-go", Stop.CLEAN), ("platformatic", Stop.CRASH)]
)
def test_some_libraries_try_again_until_the_session_has_ended(library, stop):
    """franz-go 1.22.3 waits for up to 5 s, and frees nothing when it is closed either; @platformatic/kafka 1.35.0 waits
    for 1 s."""
    group = consumers()
    clients = tuple(replace(one, client_library=stated_library(library)) for one in group.members)
    plan = Plan(bounce=ids(group, 0), stop=stop, restart_time_ms=5_000)
    scenario = simulate(replace(group, members=clients), plan, draws=20)
    outcome = scenario.typical
    assert (scenario.exact, outcome.generations, outcome.refused_joins) == (False, 2, 1)
    assert set(outcome.final_assignment) == set(ids(group))
    assert any("tries again on its own" in event.detail for event in outcome.timeline)
    assert not any("started again" in caveat for caveat in scenario.caveats)


def test_the_removal_that_frees_it_at_once_is_shown_beside():
    group = consumers()
    plan = Plan(bounce=ids(group, 0), stop=Stop.CRASH, restart_time_ms=5_000)
    as_is, freed = side_by_side(group, plan, draws=20).predictions
    assert (as_is.name, freed.name) == ("as-is", "freed")
    assert freed.typical.refused_joins == 0
    assert freed.typical.generations == 2, "one epoch for the removal, one for the return"
    assert set(freed.typical.final_assignment) == set(ids(group))
    assert freed.typical.stopped_partition_ms < as_is.typical.stopped_partition_ms
    clean = replace(plan, stop=Stop.CLEAN)
    assert [scenario.name for scenario in side_by_side(group, clean, draws=2).predictions] == ["as-is"]


def test_compare_has_the_protocol_that_the_group_does_not_have():
    group = consumers(membership=DYNAMIC)
    scenarios = compare(group, Plan(bounce=ids(group, 0)), draws=3).predictions
    protocols = {scenario.name: scenario.protocol for scenario in scenarios}
    assert protocols == {
        "as-is": "consumer", "static": "consumer", "dynamic": "consumer", "cooperative": "classic", "classic": "classic"
    }  # fmt: skip


def test_a_static_member_that_comes_back_too_late_costs_two_epochs():
    group = consumers()
    scenario = simulate(group, Plan(bounce=ids(group, 0), restart_time_ms=70_000), draws=20)
    assert (scenario.typical.generations, scenario.typical.rebalances) == (2, 2)
    assert set(scenario.typical.final_assignment) == set(ids(group))


@pytest.mark.parametrize("stop", list(Stop))
def test_a_dynamic_member_costs_an_epoch_each_way(stop):
    group = consumers(membership=DYNAMIC)
    scenario = simulate(group, Plan(bounce=ids(group, 0), stop=stop, restart_time_ms=20_000), draws=20)
    assert scenario.typical.generations == 2
    assert not scenario.exact
    assert all(len(assigned["t"]) == 4 for assigned in scenario.typical.final_assignment.values())


def test_members_that_go_together_share_target_assignments():
    """Targets are computed once in an assignment interval, epochs rise with every member."""
    group = consumers(6, 24, DYNAMIC)
    scenario = simulate(group, Plan(bounce=ids(group, 0, 1, 2), restart_time_ms=20_000), draws=20)
    assert scenario.typical.generations == 6
    assert scenario.typical.rebalances < 6


def test_a_removal_is_one_epoch():
    group = consumers(5, 20)
    scenario = simulate(group, Plan(remove=ids(group, 0, 1)), draws=10)
    assert scenario.typical.generations == 1
    assert set(scenario.typical.final_assignment) == set(ids(group)[2:])


def test_members_that_stay_away_after_a_clean_stop_are_removed_when_their_sessions_end():
    group = consumers(5, 20)
    outcome = simulate(group, Plan(scale_in=ids(group, 0, 1)), draws=10).typical
    assert outcome.generations == 2
    assert sorted(events(outcome, "expired")) == sorted(ids(group, 0, 1))


def test_only_what_has_to_move_moves_when_members_join():
    group = consumers(4, 12)
    outcome = simulate(group, Plan(scale_out=2), draws=10).typical
    assert outcome.generations == 2
    assert len(outcome.moves) == 4
    assert all(len(assigned["t"]) == 2 for assigned in outcome.final_assignment.values())
    gained = [move.owner_after for move in outcome.moves]
    assert set(gained).isdisjoint(ids(group)), (
        "uniform takes nothing from one member to give it to another that was there"
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("membership", [STATIC, DYNAMIC])
def test_no_draw_refuses_one_of_several_that_join_at_the_same_time(membership):
    """Whatever the timing: a client has one heartbeat under way at a time. Seen on Kafka 4.3.0, twice, and with three
    new librdkafka members beside three: 3 epochs, 2 target assignments, 6 partitions moved once each."""
    found = simulate(consumers(3, 12, membership), Plan(scale_out=3), draws=60)
    assert not found.stopped_partition_range_ms.is_open
    assert not any("remove-members" in text or "refuse" in text for text in found.caveats)
    assert found.ranges.generations.min <= 3 <= found.ranges.generations.max <= 4
    assert found.ranges.rebalances.min <= 2 <= found.ranges.rebalances.max <= 3
    assert found.ranges.handovers.min <= 6


def test_a_scenario_for_which_no_time_is_left_does_not_cost_the_prediction():
    group, asked = consumers(), []
    plan = Plan(bounce=ids(group, 0), stop=Stop.CRASH, restart_time_ms=2_000)
    simulate(group, plan, draws=4, is_out_of_time=lambda: asked.append(None) is not None)
    of_as_is = iter([False] * len(asked))
    found = side_by_side(group, plan, draws=4, is_out_of_time=lambda: next(of_as_is, True))
    assert [one.name for one in found.predictions] == ["as-is"]
    assert [type(one) for one in found.errors] == [TimedOutError]


@pytest.mark.long
@pytest.mark.parametrize("session_ms", [5_000, 10_000])
def test_heartbeats_are_more_frequent_than_sessions_are_long(session_ms):
    """Kafka 4.0.1 and 4.3.0 refuse a longer interval (INVALID_CONFIG); so where the interval is not known, the default of
    5 s and the longest of 15 s are not played for such a session. Seen four times on Kafka 4.3.0 with 6 members of which
    3 restart while 3 join: 2 target assignments, 18 to 24 handovers."""
    group = replace(
        consumers(6, 12), session_timeout_ms=session_ms, coordinator=CoordinatorNode(id=1, host="h", port=9092)
    )
    quiet = simulate(group, Plan(bounce=ids(group, 0), restart_time_ms=500), draws=20)
    assert (quiet.exact, quiet.typical.rebalances) == (True, 0)
    plan = Plan(bounce=ids(group, 0, 1, 5), scale_out=3, restart_time_ms=500)
    found = simulate(group, plan, draws=20)
    assert found.ranges.rebalances.min <= 2 <= found.ranges.rebalances.max <= 6
    assert found.ranges.handovers.max <= 60


def test_a_stated_interval_that_no_broker_accepts_is_refused():
    group = replace(consumers(), session_timeout_ms=6_000)
    with pytest.raises(
        UsageError, match="the heartbeat interval is 6s, and must be shorter than the session timeout, 6s"
    ):
        simulate(group, Plan(bounce=ids(group, 0), heartbeat_interval_ms=6_000), draws=2)


def test_several_killed_members_that_are_started_again_settle():
    """Seen on Kafka 4.1.1 (sessions of 5 s, heartbeats every second, a start every 4 s): 6 epochs, 4 target
    assignments."""
    group = consumers(4, 12, DYNAMIC)
    plan = Plan(
        bounce=ids(group, 0, 1, 2), stop=Stop.CRASH, restart_time_ms=1_000, retry_every_ms=4_000,
        heartbeat_interval_ms=1_000, what_if=WhatIf(session_timeout_ms=5_000), kafka_version=BrokerVersion.parse("4.1"),
    )  # fmt: skip
    found = simulate(group, plan, draws=60)
    assert found.ranges.generations.min <= 6 <= found.ranges.generations.max <= 8
    assert found.ranges.rebalances.min <= 4 <= found.ranges.rebalances.max <= 8


def test_the_group_under_the_other_protocol_keeps_its_identities():
    classic = made_up(3, 12)
    origin = starting_group_of(classic, WhatIf(protocol=CONSUMER))
    assert (origin.protocol, origin.assignor) == (CONSUMER, "uniform")
    assert [seat.identity for seat in origin.members] == list(ids(classic))
    back = starting_group_of(consumers(), WhatIf(protocol=GroupProtocol.CLASSIC))
    assert (back.protocol, back.assignor) == (GroupProtocol.CLASSIC, "range")
    assert (
        simulate(classic, Plan(bounce=ids(classic), what_if=WhatIf(protocol=CONSUMER)), draws=3).protocol == "consumer"
    )


def test_only_the_brokers_assignors_are_possible_in_consumer_groups():
    with pytest.raises(UsageError, match="brokers do not have the assignor sticky"):
        starting_group_of(made_up(2, 4), WhatIf(protocol=CONSUMER, assignor="sticky"))
    assert starting_group_of(made_up(2, 4), WhatIf(protocol=CONSUMER, assignor="consumer-range")).assignor == "range"


def test_a_regular_expression_is_taken_as_what_is_assigned():
    group = consumers(2, 4)
    first, second = group.members
    listening = replace(
        group, members=(replace(first, topics=(), regex="t.*"), replace(second, topics=(), regex="t.*", assignment={}))
    )
    origin = starting_group_of(listening, WhatIf())
    assert [seat.topics for seat in origin.members] == [("t",), ("t",)]
    assert sum("regular expression" in caveat for caveat in origin.caveats) == 1


@pytest.mark.long
def test_heartbeats_that_are_left_out_keep_sessions_alive():
    """An hour of a stable group, in which no session may end, costs next to nothing."""
    group = consumers(20, 40)
    plan = Plan(bounce=ids(group, 0, 1), rolling=Rolling(max_unavailable=1, pause_ms=3_600_000), restart_time_ms=1_000)
    outcome = simulate(group, plan).typical
    assert (outcome.generations, events(outcome, "expired")) == (0, [])
    assert outcome.requests < 20 * 3_600 / 30 * 2


def test_a_draw_is_the_same_when_it_is_played_again():
    group = consumers(4, 12, DYNAMIC)
    plan = Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=3_000)
    assert simulate(group, plan, draws=5).to_json() == simulate(group, plan, draws=5).to_json()
    assert simulate(group, plan, draws=5).to_json() != simulate(group, plan, draws=5, seed=2).to_json()


# -- the broker's assignor is the one for which most members ask


LIVE = CoordinatorNode(id=1, host="127.0.0.1", port=9092)
#: What a broker had assigned with range, for which only i-3 had asked.
OWNED = {
    "i-0": {"a": (6,), "b": (5,)},
    "i-1": {"a": (0, 1), "b": (0, 1)},
    "i-2": {"a": (2, 3), "b": (2, 3)},
    "i-3": {"a": (4, 5), "b": (4,)},
}


def asking():
    members = tuple(member(name, topics=("a", "b"), assignment=owned) for name, owned in OWNED.items())
    topics = (TopicSnapshot(name="a", partitions=7), TopicSnapshot(name="b", partitions=6))
    return replace(consumers(), members=members, topics=topics, assignor="range", coordinator=LIVE)


def test_when_a_member_leaves_the_group_may_change_to_the_default_assignor():
    """On a real broker three partitions moved, to a balanced assignment of uniform; range would have moved four."""
    scenario = simulate(asking(), Plan(scale_in=("i-3",)), draws=12)
    assert not scenario.exact
    moved = scenario.ranges.moved_partitions
    assert (moved.min <= 3, moved.max >= 4) == (True, True)
    assert any("group.remote.assignor" in caveat and "uniform" in caveat for caveat in scenario.caveats)


@pytest.mark.parametrize(
    ("group", "what_if"),
    [
        (asking(), WhatIf(assignor="range")),
        (replace(asking(), coordinator=None), WhatIf()),
        (replace(consumers(assignor="uniform"), coordinator=LIVE), WhatIf()),
    ],
    ids=["stated", "made up", "default"],
)
def test_the_assignor_stays_if_it_is_stated_or_the_default(group, what_if):
    scenario = simulate(group, Plan(scale_in=ids(group)[-1:], what_if=what_if), draws=12)
    assert scenario.exact
    assert not any("group.remote.assignor" in caveat for caveat in scenario.caveats)


def test_without_a_rebalance_it_does_not_matter_who_asks_for_which_assignor():
    assert simulate(asking(), Plan(bounce=("i-3",), restart_time_ms=5_000), draws=12).exact


def test_another_default_of_the_broker():
    """If range is the default, members need not have asked for it; if uniform is not, some have."""
    ranged = {"group.consumer.assignors": "range,uniform"}
    assert simulate(asking(), Plan(scale_in=("i-3",), settings=ranged), draws=12).exact
    group = replace(consumers(assignor="uniform"), coordinator=LIVE)
    assert not simulate(group, Plan(scale_in=("member-3",), settings=ranged), draws=12).exact


# -- from the classic protocol to the new one, member by member


def test_static_members_migrate_in_a_rolling_bounce_that_moves_nothing():
    """As three of them did on a real broker: each takes the place of its former self, in the same epoch."""
    group = made_up(3, 12)
    scenario = simulate(group, Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=5_000, migrate=True))
    outcome = scenario.typical
    assert scenario.exact
    assert (outcome.generations, outcome.rebalances, outcome.moves) == (0, 0, ())
    assert any("uniform" in caveat for caveat in scenario.caveats)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_dynamic_members_cost_a_generation_or_an_epoch_each_way_when_they_migrate(assignor):
    group = made_up(3, 12, DYNAMIC, assignor)
    scenario = simulate(group, Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=5_000, migrate=True), draws=9)
    assert scenario.ranges is not None
    assert scenario.ranges.generations.max == 6
    assert {name for name, _ in scenario.typical.final_assignment.items()}.isdisjoint(ids(group))
    assert all(len(assigned["t"]) == 4 for assigned in scenario.typical.final_assignment.values())


def test_a_group_of_librdkafkas_cooperative_assignor_is_not_upgraded():
    group = made_up(3, 12, DYNAMIC, "cooperative-sticky", library="librdkafka")
    scenario = simulate(group, Plan(bounce=ids(group, 0), restart_time_ms=5_000, migrate=True), draws=5)
    assert scenario.typical.refused_joins == 1
    assert len(scenario.typical.final_assignment) == 2
    assert any("GROUP_ID_NOT_FOUND" in caveat for caveat in scenario.caveats)


def test_a_group_whose_last_classic_member_has_left_starts_again_at_epoch_1():
    """The first to come back is refused; when the other has gone too, it is let in, into a group at epoch 1."""
    group = made_up(2, 12, DYNAMIC, "cooperative-sticky", library="librdkafka", generation=7)
    scenario = simulate(group, Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=5_000, migrate=True), draws=3)
    outcome = scenario.typical
    assert outcome.became_stable
    assert (outcome.refused_joins, outcome.generations, outcome.rebalances) == (1, 3, 2)
    assert scenario.generation_after < scenario.generation_before
    assert [len(assigned["t"]) for assigned in outcome.final_assignment.values()] == [12]


def test_a_broker_may_be_configured_to_upgrade_no_group():
    policy = {"group.consumer.migration.policy": "downgrade"}
    group = made_up(3, 12)
    scenario = simulate(group, Plan(bounce=ids(group, 0), restart_time_ms=5_000, migrate=True, settings=policy))
    assert scenario.typical.refused_joins == 1
    assert any("group.consumer.migration.policy is downgrade" in caveat for caveat in scenario.caveats)


def test_a_consumer_group_cannot_be_migrated():
    with pytest.raises(UsageError, match="already"):
        simulate(consumers(), Plan(bounce=ids(consumers(), 0), migrate=True))
