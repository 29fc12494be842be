"""Groups of one shape are played once. The oracle is the play of a group alone, and the play with its own names."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.model.broker_version import BrokerVersion
from kgm.model.client_library import stated_library
from kgm.model.snapshot import GroupSnapshot, TopicSnapshot
from kgm.operations.drain.fleet import recorded_fleet
from kgm.operations.drain.forecast import Drain, forecast
from kgm.operations.drain.target import DrainTarget
from kgm.simulation.bounce import simulate
from kgm.simulation.draws.executor import ParallelDrawExecutor
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, Stop
from kgm.simulation.plan.synthetic_group import newly_assigned, synthetic_group
from kgm.simulation.played_bounce import BounceToPlay
from kgm.simulation.shape import PlayedShapes, RealNames
from kgm.simulation.simulation import Simulation
from tests.selection import first_seed, sized
from tests.simulation.groups import KINDS, mixed_fleet

STATIC, DYNAMIC = Membership.STATIC, Membership.DYNAMIC
CONSUMER, CLASSIC = GroupProtocol.CONSUMER, GroupProtocol.CLASSIC
HOST = DrainTarget(hosts=("gone",))
DRAWS = 3


def group(
    name: str, *, members: int = 3, partitions: int = 7, topics: int = 1, assignor: str = "range",
    membership: Membership = STATIC, library: str | None = "java", seed: int = 0, **more: object,
) -> GroupSnapshot:  # fmt: skip
    """Everything in it is named after the group, and member ids are random. The first members are on the host."""
    chance = random.Random(f"{name}/{seed}")
    protocol = CONSUMER if assignor == "uniform" else CLASSIC
    made = synthetic_group(
        members,
        [TopicSnapshot(name=f"{name}-{topic}", partitions=partitions) for topic in range(topics)],
        membership, assignor, protocol,
    )  # fmt: skip
    renamed = []
    for number, one in enumerate(made.members):
        instance_id = f"{name}-{number}" if membership is STATIC else None
        member_id = one.member_id if protocol is CONSUMER else f"{instance_id or name}-{chance.randbytes(16).hex()}"
        renamed.append(
            replace(
                one, member_id=member_id, group_instance_id=instance_id, client_id=instance_id or name,
                client_host="/gone" if number == 0 else "/stays",
                client_library=None if library is None else stated_library(library),
            )
        )  # fmt: skip
    return newly_assigned(replace(made, group_id=name, members=tuple(renamed), **more))


NAMES = st.sampled_from(["a", "zeta", "orders-10", "orders-2", "consumer"])
GROUPS = st.builds(
    group, NAMES, members=st.integers(2, 5), partitions=st.integers(1, 12), topics=st.integers(1, 2),
    assignor=st.sampled_from(["range", "range", "roundrobin", "sticky", "cooperative-sticky", "uniform"]),
    membership=st.sampled_from(Membership),
    library=st.sampled_from(["java", "java", "librdkafka", "sarama", "franz-go", None]),
    seed=st.integers(0, 3), generation=st.sampled_from([None, 1, 41]), session_timeout_ms=st.sampled_from([None, 45_000]),
)  # fmt: skip
DRAINS = st.builds(
    Drain, target=st.just(HOST), restart_time_ms=st.sampled_from([None, 5_000, 90_000]), stop=st.sampled_from(Stop)
)


@pytest.mark.long
@pytest.mark.parametrize("restart_time_ms", [None, 10_000])
def test_a_group_of_a_mixed_fleet_has_the_prediction_that_it_has_alone(restart_time_ms):
    """And where nothing is left to chance, what it has by its own names; in groups of each kind, as brokers describe
    them."""
    groups = mixed_fleet(sized(1, 100) * len(KINDS), first_seed() + 8, members=(2, sized(5, 20)))
    drain = Drain(target=HOST, restart_time_ms=restart_time_ms)
    found = forecast(_fleet(groups), drain, draws=DRAWS)
    assert len(found.groups) == len(groups)
    for one in found.groups:
        assert one.prediction == simulate(one.group, one.plan, draws=DRAWS)
        plain = BounceToPlay.of(one.group, one.plan, Simulation.of(one.group, one.plan), DRAWS).play()
        assert one.prediction.exact <= plain.are_alike
        if one.prediction.exact:
            assert one.prediction.typical.without_times == plain.typical.without_times
            assert one.prediction.typical.final_assignment == plain.typical.final_assignment


def playable(fleet: list[GroupSnapshot]) -> list[GroupSnapshot]:
    return list({one.group_id: one for one in fleet}.values())


@settings(max_examples=5, deadline=None, derandomize=True)
@given(st.lists(GROUPS, min_size=2, max_size=5), DRAINS)
def test_a_group_of_a_fleet_has_the_prediction_that_it_has_alone(fleet, drain):
    """Values, ranges, exactness and caveats."""
    groups = playable(fleet)
    together = {one.group.group_id: one for one in forecast(_fleet(groups), drain, draws=DRAWS).groups}
    assert together.keys() == {one.group_id for one in groups}
    for one in groups:
        found = together[one.group_id]
        assert found.prediction == simulate(one, found.plan, draws=DRAWS)


@pytest.mark.long
@settings(max_examples=12, deadline=None, derandomize=True)
@given(GROUPS, DRAINS)
def test_names_make_no_difference_but_to_times(one, drain):
    """What is certain with one set of names is the same with the other, with the names of the group."""
    plan = forecast(_fleet([one]), drain, draws=1).groups[0].plan
    to_play = BounceToPlay.of(one, plan, Simulation.of(one, plan), DRAWS)
    played, names = PlayedShapes().play(to_play)
    plain = to_play.play()
    assert (played.is_certain, played.rebalances > 0) == (plain.is_certain, plain.rebalances > 0)
    if plain.are_alike and played.are_alike:
        typical = names.typical(played, keeps_holdings=True)
        held = {(each.topic, each.partition, each.owner) for each in typical.holdings}
        real = RealNames(simulation=to_play.simulation).typical(plain, keeps_holdings=True)
        assert held == {(each.topic, each.partition, each.owner) for each in real.holdings} or plain.is_open
        assert typical.fewest_consumed == real.fewest_consumed or plain.has_rebalances
        assert typical.without_times == plain.typical.without_times
        assert typical.final_assignment == plain.typical.final_assignment or plain.is_open
        assert [event.detail for event in typical.timeline if event.event == "assigned"] == [
            event.detail for event in plain.typical.timeline if event.event == "assigned"
        ]
    assert played.caveats.assumed == plain.caveats.assumed


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky", "uniform"])
def test_static_members_that_are_back_in_time_are_played_once_for_groups_that_are_alike(assignor):
    """Nothing is assigned, so no assignor matters; nothing moves, and partitions are stopped for the restart."""
    shapes = PlayedShapes()
    for name in ("orders", "payments", "a"):
        one = group(name, assignor=assignor, members=4, partitions=8)
        plan = Plan(bounce=(f"{name}-0",), restart_time_ms=10_000)
        found = simulate(one, plan, draws=DRAWS, shapes=shapes)
        assert (found.exact, found.typical.rebalances, found.typical.moves) == (True, 0, ())
        assert 2 * 10_000 <= found.typical.stopped_partition_ms < 2 * 13_000
        assert {event.member for event in found.typical.timeline if event.member} == {f"{name}-0"}
        assert found.typical.final_assignment == {m.identity: m.assignment for m in one.members}
    assert len(shapes) == 1


def test_of_members_that_notice_nothing_one_stands_for_all():
    """Groups of 3 and of 6 members, of one topic and of two, in which the first restarts with as many partitions."""
    shapes = PlayedShapes()
    for members, topics in ((3, 1), (6, 1), (4, 2)):
        one = group("orders", members=members, partitions=2 * members // topics, topics=topics)
        found = simulate(one, Plan(bounce=("orders-0",), restart_time_ms=10_000), draws=DRAWS, shapes=shapes)
        assert found.typical.timeline[-1].detail == f"the group is stable with {members} members"
        assert found.typical.final_assignment == {m.identity: m.assignment for m in one.members}
    assert len(shapes) == 1


def test_who_has_what_in_a_group_that_notices_nothing_is_told_of_its_own_partitions():
    """Two members of a group of two topics restart; one of them has no partitions."""
    one = group("orders", members=4, partitions=3, topics=2)
    found = simulate(
        one, Plan(bounce=("orders-1", "orders-3"), restart_time_ms=10_000), draws=DRAWS, keeps_holdings=True
    ).typical
    owned = {(t, n, m.identity) for m in one.members for t, numbers in m.assignment.items() for n in numbers}
    assert {(each.topic, each.partition, each.owner) for each in found.holdings} == owned
    assert {each.owner for each in found.holdings if each.from_ms} == {"orders-1"}
    assert found.fewest_consumed == 4
    assert found.final_assignment == {m.identity: m.assignment for m in one.members}


@pytest.mark.parametrize(
    "changes",
    [
        {"partitions": 8}, {"members": 4}, {"topics": 2}, {"library": "librdkafka"}, {"library": None},
        {"session_timeout_ms": 30_000}, {"rebalance_timeout_ms": 60_000}, {"membership": DYNAMIC},
        {"assignor": "roundrobin"}, {"kafka_versions": (BrokerVersion.parse("3.6"),)}, {"offsets": ()},
    ],
    ids=str,
)  # fmt: skip
def test_groups_that_are_not_alike_are_not_shared(changes):
    shapes = PlayedShapes()
    for one in (group("a"), group("b"), group("a", **changes)):
        simulate(one, Plan(scale_in=(one.members[0].identity,)), draws=DRAWS, shapes=shapes)
    assert len(shapes) == 2


@pytest.mark.parametrize("key", ["session_timeout_ms", "rebalance_timeout_ms", "rack"])
def test_what_one_member_has_of_its_own_counts(key):
    shapes = PlayedShapes()
    other = group("b")
    own = replace(other.members[1], **{key: "r" if key == "rack" else 20_000})
    other = replace(other, members=(other.members[0], own, *other.members[2:]))
    for one in (group("a"), other):
        simulate(one, Plan(scale_in=(one.members[0].identity,)), draws=DRAWS, shapes=shapes)
    assert len(shapes) == 2


@pytest.mark.long
def test_the_forecast_is_the_same_on_any_number_of_cores():
    groups = [group(f"g{number}", members=2 + number % 3, seed=number) for number in range(18)]
    drain = Drain(target=HOST)
    alone = forecast(_fleet(groups), drain, draws=DRAWS)
    for processes in (2, 3):
        with ParallelDrawExecutor(processes, worth_s=0.0) as executor:
            assert forecast(_fleet(groups), drain, draws=DRAWS, executor=executor) == alone


def _fleet(groups):
    return recorded_fleet(groups, HOST, path="s.json")


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_sticky_groups_that_lose_one_member_share_what_was_played(assignor):
    """Of groups whose member ids have another order in the hash map each, as long as they are assigned the same."""
    shapes = PlayedShapes()
    for number in range(6):
        one = group(f"g{number}", assignor=assignor, members=4, partitions=12, seed=number)
        gone = min(member.identity for member in one.members)
        found = simulate(one, Plan(scale_in=(gone,)), draws=DRAWS, shapes=shapes)
        plain = Simulation.of(one, Plan(scale_in=(gone,))).runner(0).play()
        assert found.exact
        assert found.typical.without_times == plain.without_times
        assert found.typical.final_assignment == plain.final_assignment
    assert len(shapes) == 1
