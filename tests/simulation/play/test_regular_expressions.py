"""Consumer groups whose members subscribe by regular expression (KIP-848): what became of such groups on a real Kafka
4.3.0 with librdkafka consumers, and the broker's rules: it drops what an expression matches with the last member that
has it, and resolves expressions at most once in 10 s."""

from dataclasses import replace

import pytest

from kgm.model.client_library import stated_library
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, TopicSnapshot
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, Rolling
from kgm.simulation.plan.expressions import may_be_dropped, without_lasting_expressions
from kgm.simulation.plan.synthetic_group import synthetic_group
from kgm.simulation.play.plan_runner import PlanRunner
from kgm.simulation.play.timing import UsualTiming
from kgm.simulation.simulation import Simulation
from tests.simulation.groups import DYNAMIC, STATIC, ids

TOPICS = {"t-2": 3, "t-10": 7, "T-1": 4, "a": 5, "z.9": 6}
WHOLE = {topic: tuple(range(count)) for topic, count in TOPICS.items()}
TOPIC_IDS = {topic: topic.encode().rjust(16) for topic in TOPICS}
SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}
T, LOWER_T, A_OR_Z = "^[tT]-.*", "^t-.*", "^[az].*"
OTHERS = {"a": WHOLE["a"], "z.9": WHOLE["z.9"]}
#: What members with three different expressions, or two with the same, owned.
DIFFERENT = (
    (T, {"T-1": WHOLE["T-1"], "t-10": (0, 1, 2)}),
    (LOWER_T, {"t-10": (3, 4, 5, 6), "t-2": WHOLE["t-2"]}),
    (A_OR_Z, OTHERS),
)
SAME = ((T, {"T-1": WHOLE["T-1"], "t-10": (0, 1, 2)}), (T, {"t-10": (3, 4, 5, 6), "t-2": WHOLE["t-2"]}))
STATIC_THREE = (
    (T, {"T-1": WHOLE["T-1"], "t-2": WHOLE["t-2"]}),
    (LOWER_T, {"t-10": WHOLE["t-10"]}),
    (A_OR_Z, OTHERS),
)


def described(members, assignor="uniform", *, static=False):
    """The group as kgm describes it: members m-0, m-1 and so on."""
    return GroupSnapshot(
        group_id="g", type="consumer", state="Stable", protocol_type="consumer", assignor=assignor, group_epoch=3,
        assignment_epoch=3, session_timeout_ms=6_000, rebalance_timeout_ms=20_000,
        topics=tuple(
            TopicSnapshot(name=topic, partitions=TOPICS[topic], topic_id=TOPIC_IDS[topic])
            for topic in sorted({topic for _, owned in members for topic in owned})
        ),
        members=tuple(
            MemberSnapshot(
                member_id=f"id-{number}" if static else f"m-{number}",
                group_instance_id=f"m-{number}" if static else None, client_id="c", member_epoch=3, status="stable",
                topics=(), regex=regex, assignment=owned, target_assignment=owned, protocol="consumer",
                client_library=stated_library("librdkafka"),
            )
            for number, (regex, owned) in enumerate(members)
        ),
    )  # fmt: skip


def plan_of(*numbers, restart_time_ms=1_500, rolling=None):
    bounce = tuple(f"m-{number}" for number in numbers)
    return Plan(
        bounce=bounce, restart_time_ms=restart_time_ms, rolling=rolling, heartbeat_interval_ms=1_000, settings=SETTINGS
    )


#: What really happened: generations, rebalances, moved partitions, handovers, and for how long partitions were not
#: consumed in ms, each time that it was tried.
SCENES = {
    "rolling": (
        DIFFERENT, False, plan_of(0, 1, 2, rolling=Rolling()),
        [(5, 5, 25, 35, 90_010), (5, 5, 25, 35, 99_385), (5, 5, 25, 35, 107_750), (5, 5, 25, 35, 97_771)],
    ),
    "two at the same time": (DIFFERENT, False, plan_of(0, 2), [(4, 3, 21, 21, 138_833)]),
    "all, with one expression": (SAME, False, plan_of(0, 1), [(4, 2, 14, 14, 37_604), (4, 2, 14, 14, 36_489)]),
    "static, too late": (STATIC_THREE, True, plan_of(0, 2, restart_time_ms=9_100), [(4, 3, 6, 6, 270_500)]),
}  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("scene", SCENES)
def test_what_really_happened_is_within_the_ranges(scene):
    members, static, plan, real = SCENES[scene]
    scenario = simulate(described(members, static=static), plan, draws=60)
    ranges = scenario.ranges
    assert ranges is not None
    assert not scenario.exact
    counted = (ranges.generations, ranges.rebalances, ranges.moved_partitions, ranges.handovers)
    for *numbers, stopped_ms in real:
        for number, known in zip(numbers, counted, strict=True):
            assert known.min <= number <= known.max, (numbers, counted)
        stopped = ranges.stopped_partition_ms
        assert stopped.min * 0.8 <= stopped_ms <= stopped.max * 1.25
    assert any("at most once in 10 s" in caveat for caveat in scenario.caveats)


@pytest.mark.few(1)
@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("rolling", [None, Rolling()])
def test_static_members_that_are_back_in_time_keep_what_they_have(assignor, rolling):
    group = described(STATIC_THREE, assignor, static=True)
    scenario = simulate(group, plan_of(0, 1, 2, rolling=rolling))
    outcome = scenario.typical
    assert scenario.exact
    assert (outcome.generations, outcome.rebalances, outcome.handovers) == (0, 0, 0)
    assert outcome.final_assignment == {member.identity: member.assignment for member in group.members}
    assert not any("at most once in 10 s" in caveat for caveat in scenario.caveats)


@pytest.mark.long
def test_a_static_member_that_returns_too_late_has_one_result():
    """As on the real broker, each time: 2 epochs, 2 assignments, 6 handovers."""
    group = described(STATIC_THREE, static=True)
    one = simulate(group, plan_of(0, restart_time_ms=9_100))
    assert one.exact
    assert (one.typical.generations, one.typical.rebalances, one.typical.handovers) == (2, 2, 6)


@pytest.mark.parametrize(("resolved_before_ms", "least", "most"), [(0, 10_000, 13_000), (300_000, 1_500, 6_000)])
def test_a_member_that_returns_has_no_partitions_until_expressions_may_be_resolved(resolved_before_ms, least, most):
    simulation = Simulation.of(described(DIFFERENT), plan_of(2))
    group = replace(simulation.group, resolved_before_ms=resolved_before_ms)
    draw = PlanRunner(group, simulation.plan, simulation.settings, "1", timing=UsualTiming).play()
    assert draw.became_stable
    assert sorted(map(len, draw.final_assignment.values())) == [2, 2, 2]
    assert least <= draw.took_ms <= most
    assert draw.stopped_partition_ms >= least * 11


def by_expression(members, *expressions, membership=DYNAMIC):
    topics = [TopicSnapshot(name=name, partitions=12) for name in ("ta", "tb")]
    group = synthetic_group(members, topics, membership, None, GroupProtocol.CONSUMER)
    return replace(
        group,
        members=tuple(
            replace(member, topics=(), regex=expressions[number % len(expressions)])
            for number, member in enumerate(group.members)
        ),
    )


@pytest.mark.parametrize("membership", [DYNAMIC, STATIC])
@pytest.mark.parametrize("rolling", [None, Rolling()])
def test_an_expression_that_lasts_is_like_topic_names(membership, rolling):
    snapshot = by_expression(4, "t.*", membership=membership)
    plan = Plan(bounce=ids(snapshot, 0, 1), rolling=rolling, restart_time_ms=60_000)
    simulation = Simulation.of(snapshot, plan)
    assert not simulation.group.regexes
    members = tuple(replace(member, regex="t.*") for member in simulation.group.members)
    group = replace(simulation.group, members=members)
    assert without_lasting_expressions(group, simulation.plan) == simulation.group
    for seed in "123":
        one, other = (
            PlanRunner(each, simulation.plan, simulation.settings, seed).play() for each in (group, simulation.group)
        )
        assert one == other


def test_which_expressions_last():
    def is_dropped(snapshot, **plan):
        simulation = Simulation.of(snapshot, Plan(restart_time_ms=1_000, **plan))
        assert simulation.group.regexes or not may_be_dropped(simulation.group, simulation.plan)
        return bool(simulation.group.regexes)

    one, two = by_expression(4, "t.*"), by_expression(4, "t.*", "ta|tb")
    assert is_dropped(one, bounce=ids(one))
    assert not is_dropped(one, bounce=ids(one), rolling=Rolling(max_unavailable=3))
    assert is_dropped(one, bounce=ids(one, 0), scale_in=ids(one, 1, 2, 3))
    assert is_dropped(one, bounce=ids(one), rolling=Rolling(), retry_every_ms=1_000)
    # Different expressions are different subscriptions to the broker, whatever they match.
    assert is_dropped(two, bounce=ids(two, 0))
