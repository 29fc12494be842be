"""What is said about a prediction, where other tests do not look at it."""

import shlex
from dataclasses import replace

import pytest

from kgm.model.broker_version import BrokerVersion
from kgm.model.client_library import stated_library
from kgm.model.snapshot import CoordinatorNode, TopicSnapshot
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, Stop, WhatIf
from kgm.simulation.plan.synthetic_group import synthetic_group
from kgm.text.braces import expand_list
from tests.simulation.groups import DYNAMIC, made_up

CONSUMERS = synthetic_group(3, [TopicSnapshot(name="t", partitions=6)], Membership.STATIC, None, GroupProtocol.CONSUMER)


@pytest.mark.parametrize(
    ("group_id", "instance_id"),
    [
        ("orders", "app-1"),
        ("two words; rm -rf ~", "app 1"),
        ("$(reboot)", "a,b"),
        ("it's", "app-{1..3}"),
        ("-b", "back\\slash"),
        ("a'$(touch X)'", "b'$(touch Y)'"),
    ],
)
def test_a_suggested_command_means_the_group_and_the_member_whatever_their_names_are(group_id, instance_id):
    first, *others = CONSUMERS.members
    group = replace(CONSUMERS, group_id=group_id, members=(replace(first, group_instance_id=instance_id), *others))
    scenario = simulate(group, Plan(bounce=(instance_id,), stop=Stop.CRASH, restart_time_ms=5_000), draws=2)
    (caveat,) = [caveat for caveat in scenario.caveats if "UNRELEASED_INSTANCE_ID" in caveat]
    words = shlex.split(caveat[caveat.index("kgm remove-members") :])
    assert words[2] in (group_id, f"--group={group_id}")
    assert words[3] == "--instance-ids"
    assert expand_list(words[4], "--instance-ids") == [instance_id]


def test_control_characters_are_written_as_a_shell_reads_them():
    first, *others = CONSUMERS.members
    group = replace(CONSUMERS, group_id="a\x1b[31m", members=(replace(first, group_instance_id="b\tc"), *others))
    scenario = simulate(group, Plan(bounce=("b\tc",), stop=Stop.CRASH, restart_time_ms=5_000), draws=2)
    (caveat,) = [caveat for caveat in scenario.caveats if "UNRELEASED_INSTANCE_ID" in caveat]
    assert caveat.endswith(r"kgm remove-members $'a\x1b[31m' --instance-ids $'b\x09c'")


def test_a_what_if_says_under_what_the_group_is_assumed_to_be_stable():
    what_if = WhatIf(protocol=GroupProtocol.CONSUMER, membership=Membership.DYNAMIC)
    scenario = simulate(made_up(), Plan(bounce=("member-1",), what_if=what_if), draws=2)
    assumed = "assumed to be stable under dynamic membership and the consumer protocol before the plan"
    assert any(assumed in caveat for caveat in scenario.caveats)


def test_a_member_that_stays_a_ghost_is_named_as_such():
    """Of three members of a group with two partitions one has none; librdkafka does not leave when it is closed."""
    group = made_up(3, 2, DYNAMIC, "cooperative-sticky", library="librdkafka")
    (idle,) = (member.identity for member in group.members if not any(member.assignment.values()))
    plan = Plan(bounce=(idle,), restart_time_ms=5_000, what_if=WhatIf(session_timeout_ms=20_000))
    scenario = simulate(group, plan, draws=10)
    expired = [event for event in scenario.typical.timeline if event.event == "expired"]
    assert [event.member for event in expired] == [idle]
    assert 17_000 <= expired[0].at_ms <= 20_200
    (text,) = (caveat for caveat in scenario.caveats if "do not leave" in caveat)
    assert "up to 20 s" in text
    java = replace(
        group, members=tuple(replace(member, client_library=stated_library("java")) for member in group.members)
    )
    assert not any("do not leave" in caveat for caveat in simulate(java, plan, draws=10).caveats)


@pytest.mark.parametrize(
    ("session_ms", "restarts_ms", "may_be_late"),
    [
        (45_000, [41_000], True), (45_000, [46_000], True), (45_000, [20_000, 41_000], True),
        (45_000, [20_000], False), (10_000, [9_000], True), (10_000, [4_000], False), (6_000, [1_000], False),
    ],
)  # fmt: skip
def test_what_may_be_in_time_or_too_late_is_not_exact(session_ms, restarts_ms, may_be_late):
    plan = Plan(bounce=("member-1",), restart_times_ms=tuple(restarts_ms), restart_time_ms=1_000)
    if len(restarts_ms) == 1:
        plan = replace(plan, restart_times_ms=(), restart_time_ms=restarts_ms[0])
    found = simulate(made_up(session_timeout_ms=session_ms), plan, draws=5)
    assert any("it may be in time or too late" in text for text in found.caveats) is may_be_late
    assert found.exact is not may_be_late


@pytest.mark.parametrize(
    ("plan", "what_if", "expected"),
    [
        ({"scale_in": ("member-1",)}, WhatIf(), True),
        ({"remove": ("member-1",)}, WhatIf(), True),
        ({"bounce": ("member-1",), "restart_time_ms": 90_000}, WhatIf(), True),
        ({"scale_in": ("member-1",)}, WhatIf(assignor="roundrobin"), False),
        ({"bounce": ("member-1",), "restart_time_ms": 5_000}, WhatIf(), False),  # the broker keeps the assignment
        ({"scale_out": 1}, WhatIf(), False),  # new members are like the others
    ],
)
def test_what_members_list_besides_the_present_assignor_is_an_assumption(plan, what_if, expected):
    """A broker chooses an assignor that all members list, and returns no other: a member that stops may have
    been the one that did not list what the others prefer."""
    live = made_up(assignor="roundrobin", coordinator=CoordinatorNode(id=1, host="127.0.0.1", port=9092))
    for group, is_said in ((live, expected), (replace(live, coordinator=None), False)):
        scenario = simulate(group, Plan(what_if=what_if, **plan), draws=2)
        said = [caveat for caveat in scenario.caveats if "list the same assignors" in caveat]
        assert (len(said), [caveat for caveat in said if "--assignor roundrobin" not in caveat]) == (is_said, [])


def assumed_settings(group, **plan):
    scenario = simulate(group, Plan(scale_in=("member-1",), **plan), draws=2)
    return [caveat for caveat in scenario.caveats if caveat.startswith("Kafka's defaults are assumed for the broker's")]


def test_settings_of_consumer_groups_that_a_snapshot_does_not_have_are_assumed_aloud():
    """The interval between assignments is new in Kafka 4.3 (KIP-1263)."""
    assignors, heartbeats, assignments = (
        f"group.consumer.{name}" for name in ("assignors", "heartbeat.interval.ms", "assignment.interval.ms")
    )
    live = replace(CONSUMERS, coordinator=CoordinatorNode(id=1, host="127.0.0.1", port=9092))
    (text,) = assumed_settings(live)
    assert all(name in text for name in (assignors, heartbeats, assignments))
    known = {assignors: "uniform", heartbeats: "5000"}
    (text,) = assumed_settings(live, settings=known)
    assert f" {assignments} " in text
    assert assignors not in text
    assert assumed_settings(live, settings=known, kafka_version=BrokerVersion.parse("4.2")) == []
    (text,) = assumed_settings(live, settings=known, kafka_version=BrokerVersion.parse("4.3"))
    assert assumed_settings(live, settings=known | {assignments: "0"}) == []
    assert assumed_settings(CONSUMERS) == []  # there is no broker
    assert assumed_settings(made_up(coordinator=live.coordinator)) == []  # they are not of classic groups


UNSUBSCRIBES = "a program of librdkafka that unsubscribes before it closes leaves the group"


def unsubscribing(group, plan=None, **changes):
    """The caveats about programs that unsubscribe, where the first member is bounced; and whether the rest is exact."""
    scenario = simulate(group, replace(plan or Plan(bounce=("member-1",), restart_time_ms=1_000), **changes), draws=2)
    return [text for text in scenario.caveats if text.startswith(UNSUBSCRIBES)], scenario.exact


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_program_on_librdkafka_may_unsubscribe_before_it_closes(assignor):
    """stream.close() of node-rdkafka 3.6.1: a rolling restart of two cooperative members took the group from generation
    3 to 9. Nothing shows in advance which programs do it, and nearly none do."""
    group = made_up(2, 6, assignor=assignor, library="librdkafka")
    (text,), exact = unsubscribing(group)
    assert exact
    assert text.endswith("then use --stop leave")
    for plan in (Plan(scale_in=("member-1",)), Plan(remove=("member-1",))):
        assert len(unsubscribing(group, plan)[0]) == 1


def test_what_the_caveat_names_predicts_what_happened():
    """One of three such members was closed and back after 5 s: from generation 3 to 5."""
    group = made_up(3, 6, library="librdkafka")
    left = simulate(group, Plan(bounce=("member-2",), restart_time_ms=5_000, stop=Stop.LEAVE), draws=2)
    assert left.typical.generations == 2


@pytest.mark.parametrize("stop", [Stop.LEAVE, Stop.CRASH])
def test_how_a_member_stops_that_does_not_close_says_nothing_of_programs_that_unsubscribe(stop):
    assert unsubscribing(made_up(2, 6, library="librdkafka"), stop=stop)[0] == []


def test_only_static_members_of_librdkafka_in_a_classic_group_leave_if_their_program_unsubscribes():
    """A member of a consumer group says that it will return (member epoch -2), and a dynamic member leaves anyway."""
    assert unsubscribing(made_up(2, 6))[0] == []
    dynamic = made_up(2, 6, DYNAMIC, library="librdkafka")
    assert unsubscribing(dynamic, Plan(bounce=(dynamic.members[0].identity,)))[0] == []
    others = tuple(replace(one, client_library=stated_library("librdkafka")) for one in CONSUMERS.members)
    consumers = replace(CONSUMERS, members=others)
    assert unsubscribing(consumers, Plan(bounce=(consumers.members[0].identity,)))[0] == []
    # Only the one that stays runs on librdkafka.
    java = made_up(2, 6)
    first, second = java.members
    mixed = replace(java, members=(first, replace(second, client_library=stated_library("librdkafka"))))
    assert unsubscribing(mixed)[0] == []
