"""What is predicted of a streams group (KIP-1071): kgm's own coordinator places its tasks in each draw."""

import json
import uuid
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from kgm.coordinator.contract.behavior import REFERENCE_BEHAVIOR
from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import NotFoundError, RefusedError, UsageError
from kgm.model.snapshot import CoordinatorNode, OffsetSnapshot
from kgm.model.work import MemberWork
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership, Plan, Rolling, Stop, WhatIf
from tests.simulation.streams.applications import PARTITIONS, THREADS, streams_group

TASKS = {(f"subtopology-{sub}", number) for sub in (0, 1) for number in range(PARTITIONS)}
M_3 = THREADS[4:]


def predicted(group=None, draws=12, **plan):
    return simulate(streams_group() if group is None else group, Plan(**plan), draws=draws)


@pytest.mark.few(4)
@pytest.mark.parametrize("standbys", [0, 1])
@pytest.mark.parametrize(
    ("plan", "members"),
    [
        ({"bounce": M_3}, 6),
        ({"bounce": M_3, "stop": Stop.CRASH, "restart_time_ms": 90_000}, 6),
        ({"bounce": THREADS, "units": (THREADS[:2], THREADS[2:4], M_3), "rolling": Rolling(max_unavailable=1)}, 6),
        ({"scale_in": M_3}, 4),
        ({"scale_in": M_3, "stop": Stop.CRASH}, 4),
        ({"scale_out": 2}, 8),
    ],
    ids=["restart", "crash", "rolling", "scale-in", "crash-for-good", "scale-out"],
)
def test_every_task_runs_once_in_the_end(plan, members, standbys):
    found = predicted(streams_group(standbys=standbys), draws=6, **plan)
    draw = found.typical
    held = [
        (topic, number)
        for owned in draw.final_assignment.values()
        for topic, numbers in owned.items()
        for number in numbers
    ]
    assert sorted(held) == sorted(TASKS)
    assert (len(draw.final_assignment), draw.became_stable) == (members, True)
    assert (found.exact, found.protocol, found.assignor, found.generation_before) == (False, "streams", "sticky", 7)
    assert found.ranges.rebalances.min >= 1


def restarts():
    """Restarts of three processes with two threads on Kafka 4.3.0, with heartbeats every 5 s, after 3 s each: the
    extremes of 40. members: process, active and standby tasks by member id, before it. restarts: a thread of the
    process that restarted; null: all did, one after the other. seen: rebalances, handovers, and ms in which no thread
    ran a task."""
    with (Path(__file__).parent / "restarts.jsonl").open() as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.few(1)
@pytest.mark.parametrize("case", restarts(), ids=lambda case: ",".join(map(str, case["seen"])))
def test_what_real_applications_did_is_in_the_ranges(case):
    """Only a heartbeat makes the coordinator assign the tasks of members that have left, and processes that have
    started together send theirs together: a process was often back before any other member sent one."""
    members, units = [], {}
    for name, (process, active, standby) in case["members"].items():
        work = MemberWork(
            process_id=str(uuid.UUID(int=process)), active_tasks=tuple(active), standby_tasks=tuple(standby)
        )
        members.append(replace(streams_group().members[0], member_id=name, work=work, assignment={}))
        units.setdefault(process, []).append(name)
    some = [tuple(names) for names in units.values() if case["restarts"] in (None, *names)]
    group = replace(streams_group(), members=tuple(members), kafka_versions=(version("4.3"),))
    plan = {"bounce": tuple(chain(*some)), "units": tuple(some), "rolling": Rolling(), "restart_time_ms": 3_000}
    found = predicted(group, draws=60, **plan)
    ranges = found.ranges.rebalances, found.ranges.handovers, found.stopped_partition_range_ms
    for value, each in zip(case["seen"], ranges, strict=True):
        assert each.min <= value <= each.max


def test_a_killed_thread_stops_its_tasks_until_its_session_ends():
    away = {"bounce": M_3, "restart_time_ms": 1_000}
    closed = predicted(**away).stopped_partition_range_ms
    killed = predicted(stop=Stop.CRASH, **away).stopped_partition_range_ms
    assert closed.max < killed.min
    assert killed.min > 4 * 30_000
    shorter = predicted(stop=Stop.CRASH, what_if=WhatIf(session_timeout_ms=45_000), **away)
    assert shorter.stopped_partition_range_ms == killed


def test_the_same_seed_says_the_same():
    plan = {"bounce": M_3, "restart_time_ms": 20_000}
    assert predicted(**plan) == predicted(**plan)


@pytest.mark.long
def test_what_is_supposed_is_said_and_can_be_set():
    texts = predicted(streams_group(session_timeout_ms=None), bounce=M_3).caveats
    assert texts[0].startswith("4 active tasks to be assigned again")
    (supposed,) = [text for text in texts if "--set" in text]
    assert "group.streams.session.timeout.ms=45000" in supposed
    assert "group.streams.num.standby.replicas=1" in supposed
    known = predicted(bounce=M_3, settings={"group.streams.num.standby.replicas": "0"})
    (supposed,) = [text for text in known.caveats if "--set" in text]
    assert "standby" not in supposed
    assert "session" not in supposed  # the snapshot has it
    settings = {DELAY: "0", INTERVAL: "0", "group.streams.num.standby.replicas": "1"}
    stated = predicted(draws=1, bounce=M_3, heartbeat_interval_ms=5_000, settings=settings)
    assert not [text for text in stated.caveats if "--set" in text]
    others = predicted(streams_group(kafka_versions=(BrokerVersion.parse("4.2"),)), draws=1, bounce=M_3).caveats
    assert any("by the rules of Kafka 4.3" in text for text in others)


TOGETHER = {"bounce": THREADS, "restart_time_ms": 8_000}
DELAY, INTERVAL = "group.streams.initial.rebalance.delay.ms", "group.streams.assignment.interval.ms"
BROKER = CoordinatorNode(id=1, host="127.0.0.1", port=9092)


def version(text):
    return BrokerVersion.parse(text)


@pytest.mark.long
def test_a_broker_without_an_initial_delay_assigns_each_member_that_joins():
    """GroupCoordinatorConfig of 4.1 has neither setting, and that of 4.2 only the delay. Of two processes with two
    threads that were restarted together, a real 4.1.1 gave tasks to the first thread, then to each that joined."""
    ranges = {
        each: predicted(kafka_version=version(each), **TOGETHER).ranges.rebalances for each in ("4.1", "4.2", "4.3")
    }
    assert ranges["4.1"].min >= len(THREADS)
    assert ranges["4.3"].min == 1
    assert max(ranges["4.2"].max, ranges["4.3"].max) < len(THREADS)
    explicit = {DELAY: "0", INTERVAL: "0"}
    assert predicted(kafka_version=version("4.3"), settings=explicit, **TOGETHER).ranges.rebalances == ranges["4.1"]
    known = {DELAY: "3000", INTERVAL: "1000"}
    assert predicted(kafka_version=version("4.1"), settings=known, **TOGETHER).ranges.rebalances == ranges["4.3"]


@pytest.mark.parametrize("versions", [(), None, tuple(map(version, ("4.3", "4.2", "4.1")))])
def test_the_range_includes_every_version_that_the_broker_may_be(versions):
    group = streams_group(kafka_versions=versions, coordinator=BROKER)
    found = predicted(group, **TOGETHER)
    assert (found.ranges.rebalances.min, found.exact) == (1, False)
    assert found.ranges.rebalances.max >= len(THREADS)
    (text,) = [each for each in found.caveats if "by the rules of Kafka 4.3" in each]
    assert "may also be Kafka 4.2 or 4.1" in text


@pytest.mark.parametrize(
    ("text", "lacking", "present"),
    [
        ("4.1", (DELAY, INTERVAL), ()),
        ("4.2", (INTERVAL,), (DELAY,)),
        ("4.3", (), (DELAY, INTERVAL)),
        ("4.4", (), (DELAY, INTERVAL)),
    ],
)
def test_settings_that_the_version_does_not_have_are_not_assumed(text, lacking, present):
    caveats = predicted(draws=1, bounce=M_3, kafka_version=version(text)).caveats
    rules = [each for each in caveats if "by the rules of Kafka 4.3" in each]
    assert len(rules) == (text != "4.3")
    assert all(name in rules[0] for name in lacking)
    (supposed,) = [each for each in caveats if "(--set)" in each]
    assert all(name not in supposed for name in lacking)
    assert all(name in supposed for name in present)


@pytest.mark.parametrize(
    "plan",
    [
        {"remove": M_3},
        {"bounce": M_3, "remove_first": True},
        {"bounce": THREADS, "migrate": True},
        {"bounce": M_3, "what_if": WhatIf(membership=Membership.STATIC)},
        {"bounce": M_3, "what_if": WhatIf(protocol=GroupProtocol.CONSUMER)},
        {"bounce": M_3, "what_if": WhatIf(assignor="range")},
    ],
)
def test_what_streams_groups_do_not_have(plan):
    with pytest.raises(RefusedError, match=r"is a streams group \(KIP-1071\)"):
        predicted(**plan)


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize(
    "terms",
    [
        {"what_if": WhatIf(session_timeout_ms=5_000)},
        {"what_if": WhatIf(session_timeout_ms=3_000)},
        {"heartbeat_interval_ms": 45_000},
        {"settings": {"group.streams.max.heartbeat.interval.ms": "45000", "group.streams.heartbeat.interval.ms": "45000"}},
    ],
)  # fmt: skip
def test_a_session_is_longer_than_the_heartbeat_interval(terms, stop):
    """As GroupCoordinatorConfig requires it: otherwise every session ends between two heartbeats."""
    with pytest.raises(UsageError, match=r"group\.streams\.session\.timeout\.ms is out of range"):
        predicted(bounce=THREADS, stop=stop, **terms)


def test_a_session_just_longer_than_the_heartbeat_interval_is_played():
    draw = predicted(bounce=THREADS, heartbeat_interval_ms=1_000, what_if=WhatIf(session_timeout_ms=1_001)).typical
    assert (draw.became_stable, len(draw.final_assignment)) == (True, len(THREADS))


HOUR_MS = 3_600_000
NO_OFFSETS = (OffsetSnapshot("t", 0, None, 0, None, None, None),)


@pytest.mark.few(3)
@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize(
    ("group", "away_ms", "is_deleted"),
    [
        (streams_group(), HOUR_MS, False),
        (streams_group(), 8 * 24 * HOUR_MS, True),
        (streams_group(offsets=NO_OFFSETS), HOUR_MS, True),
    ],
    ids=["an hour", "longer than offsets are kept", "without offsets"],
)
def test_a_group_that_is_empty_for_long(group, away_ms, is_deleted, stop):
    """A broker looks every 10 minutes, and deletes an empty group without offsets, which it keeps for 7 days. Then
    epochs count from the start again (Kafka: GroupCoordinatorShard.cleanupGroupMetadata)."""
    found = predicted(group, draws=3, bounce=THREADS, stop=stop, restart_time_ms=away_ms)
    draw = found.typical
    assert (draw.became_stable, draw.was_empty, len(draw.final_assignment)) == (True, True, len(THREADS))
    assert (draw.epoch_in_new_group is not None) is is_deleted
    assert found.generation_after is not None
    if is_deleted:  # each join is an epoch, but some may come together
        assert found.generation_after <= REFERENCE_BEHAVIOR.first_epoch + len(THREADS)
    else:
        assert found.generation_after > group.group_epoch + len(THREADS)


def test_groups_that_cannot_be_played():
    with pytest.raises(RefusedError, match="its state is Reconciling"):
        predicted(streams_group(state="Reconciling"), bounce=M_3)
    with pytest.raises(NotFoundError, match="has no member nobody"):
        predicted(bounce=("nobody",))
    group = streams_group()
    unread = replace(group, members=(replace(group.members[0], work=None), *group.members[1:]))
    with pytest.raises(RefusedError, match="the tasks of m-1-1 cannot be read"):
        predicted(unread, bounce=M_3)


def test_the_plan_states_another_session_than_the_snapshot():
    settings = {"group.streams.session.timeout.ms": "60000"}
    longer = predicted(bounce=M_3, stop=Stop.CRASH, settings=settings).stopped_partition_range_ms
    assert longer.min > predicted(bounce=M_3, stop=Stop.CRASH).stopped_partition_range_ms.min + 4 * 10_000


FULL = {"group.streams.max.size": "6"}


def test_threads_that_start_in_a_full_group_are_refused():
    """GROUP_MAX_SIZE_REACHED is fatal for a thread (StreamsGroupHeartbeatRequestManager)."""
    found = predicted(draws=2, scale_out=2, settings=FULL)
    assert (found.typical.refused_joins, len(found.typical.final_assignment)) == (2, 6)
    assert any("group is full (group.streams.max.size)" in text for text in found.caveats)
    killed = predicted(draws=2, bounce=M_3, stop=Stop.CRASH, restart_time_ms=1_000, settings=FULL)
    assert (killed.typical.refused_joins, len(killed.typical.final_assignment)) == (2, 4)
    assert predicted(draws=2, bounce=M_3, settings=FULL).typical.refused_joins == 0  # those that are closed leave


def test_what_rests_on_a_limit_or_a_session_that_is_not_known():
    unknown = {"knows_size_limit": False, "knows_session": False}
    plans = {
        "closed": {"bounce": M_3},
        "killed": {"bounce": M_3, "stop": Stop.CRASH},
        "killed for good": {"scale_in": M_3, "stop": Stop.CRASH},
        "new": {"scale_out": 2, "stop": Stop.CRASH},
        "stated": {"scale_in": M_3, "stop": Stop.CRASH, "what_if": WhatIf(session_timeout_ms=50_000)},
    }
    found = {name: predicted(draws=1, **plan, **unknown) for name, plan in plans.items()}
    assert [name for name, one in found.items() if one.may_be_full] == ["killed", "new"]
    assert [name for name, one in found.items() if one.assumes_session] == ["killed", "killed for good"]
    assert any("group.streams.max.size is not known" in text for text in found["new"].caveats)
