"""What is predicted of a Kafka Streams application that rebalances.

The numbers of rebalances are those that were seen on Kafka 4.3.0 with three processes of two threads, one standby each."""

import random
from dataclasses import replace

import pytest

from kgm.model.errors import RefusedError, UsageError
from kgm.model.work import MemberWork
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, Rolling, Stop, WhatIf
from kgm.simulation.streams.group import (
    PROBING_INTERVAL,
    STANDBYS,
    STRATEGY,
    TAGS,
    split_settings,
    streams_group_of,
    supposed_rare,
    supposed_usual,
)
from tests.simulation.streams.applications import PARTITIONS, application

TASKS = {(f"subtopology-{sub}", number) for sub in (0, 1) for number in range(PARTITIONS)}
WR_3 = ("wr-3-1", "wr-3-2")


def predicted(group=None, draws=40, **plan):
    return simulate(application() if group is None else group, Plan(**plan), draws=draws)


@pytest.mark.parametrize(
    ("plan", "seen"),
    [
        ({"scale_out": 2}, 4),
        ({"bounce": WR_3, "units": (WR_3,), "restart_time_ms": 90_000, "stop": Stop.CRASH}, 4),
        ({"remove": WR_3}, 2),
    ],
)
def test_what_was_seen_is_in_the_range(plan, seen):
    """A fourth process: 2, and 2 at the first probe. A crash beyond the session, and the return: 2 and 2. Two dead
    threads that are removed with one LeaveGroup: 1, and 1 at once."""
    found = predicted(**plan)
    assert not found.exact
    assert found.ranges.rebalances.min <= seen <= found.ranges.rebalances.max


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("is_static", "standbys", "restart_ms", "seen"),
    [(True, 1, 2_000, (12, 54, 27_498)), (False, 1, 4_000, (12, 56, 27_927))],
    ids=["static", "dynamic"],
)
def test_an_application_that_leaves_when_it_is_closed(is_static, standbys, restart_ms, seen):
    """Seen on Kafka 4.3.0 with CloseOptions.leaveGroup(true): rebalances, handovers, and ms during which no thread ran
    a task."""
    group = application(standbys=standbys)
    if not is_static:
        group = replace(group, members=tuple(replace(one, group_instance_id=None) for one in group.members))
    names = {one.identity: one.group_instance_id or one.member_id for one in group.members}
    units = tuple(tuple(names[one.identity] for one in group.members[place : place + 2]) for place in (0, 2, 4))
    found = predicted(
        group, bounce=tuple(names.values()), units=units, rolling=Rolling(), restart_time_ms=restart_ms,
        stop=Stop.LEAVE, heartbeat_interval_ms=300,
    )  # fmt: skip
    assert not found.exact
    ranges = found.ranges.rebalances, found.ranges.handovers, found.stopped_partition_range_ms
    for value, each in zip(seen, ranges, strict=True):
        assert each.min <= value <= each.max
    assert not any("--stop leave" in text for text in found.caveats)
    stays = predicted(bounce=WR_3, units=(WR_3,), restart_time_ms=90_000)
    assert any("--stop leave" in text for text in stays.caveats)


def test_the_delay_of_an_empty_group_is_told():
    """Kafka: GroupCoordinatorConfig has 3 s by default."""
    names = tuple(one.identity for one in application().members)
    all_leave = {"bounce": names, "units": (names,), "restart_time_ms": 20_000, "stop": Stop.LEAVE}
    delay = "group.initial.rebalance.delay.ms"
    (text,) = [each for each in predicted(draws=4, **all_leave).caveats if delay in each]
    assert f"{delay}=3000 (--set)" in text
    known = predicted(draws=4, settings={delay: "0"}, **all_leave)
    assert not any(delay in each for each in known.caveats)


@pytest.mark.parametrize("standbys", [0, 1])
def test_every_task_runs_once_in_the_end(standbys):
    for plan in ({"scale_in": WR_3}, {"scale_out": 3}, {"bounce": WR_3, "restart_time_ms": 90_000}):
        draw = predicted(application(standbys=standbys), draws=5, **plan).typical
        held = [
            (topic, number)
            for owned in draw.final_assignment.values()
            for topic, numbers in owned.items()
            for number in numbers
        ]
        assert sorted(held) == sorted(TASKS)
        assert draw.became_stable


def test_what_is_freed_and_who_has_copies_comes_first():
    freed, held, alone, *others = predicted(scale_in=WR_3, stop=Stop.CRASH).caveats
    assert freed == "4 active tasks to be assigned again: 0_4, 0_5, 1_4, 1_5"
    assert held.endswith("1_4 (wr-2-1), 1_5 (wr-2-2)")
    assert alone.startswith("nobody else has a copy of 0_4, 0_5:")
    assert any("--set" in text and f"{STANDBYS}=1" in text for text in others)


def test_a_rolling_plan_frees_the_tasks_of_one_process_after_the_other():
    """Each task with state has its copy in a process that runs meanwhile; together, none has."""
    units = tuple((f"wr-{n}-1", f"wr-{n}-2") for n in (1, 2, 3))
    bounce = {"bounce": tuple(name for unit in units for name in unit), "units": units, "restart_time_ms": 90_000}
    rolling = predicted(draws=2, rolling=Rolling(), **bounce).caveats
    assert "nobody else has a copy of 0_0, 0_1, 0_2, 0_3, 0_4 and 1 more:" in rolling[2]
    assert "nobody else has a copy of 0_0, 0_1, 0_2, 0_3, 0_4 and 7 more:" in predicted(draws=2, **bounce).caveats[1]


def test_a_process_goes_with_all_its_threads():
    assert any(
        text.startswith("wr-3-2: other threads of the process go") for text in predicted(scale_in=WR_3[:1]).caveats
    )
    assert not any("of a process" in text for text in predicted(scale_in=WR_3).caveats)


def test_settings_that_are_given_are_taken():
    plan = {"scale_out": 2, "settings": {PROBING_INTERVAL: "120000", STANDBYS: "1"}}
    found = predicted(**plan)
    assert any("one every 2m" in text for text in found.caveats)
    assert not any(f"{PROBING_INTERVAL}=" in text for text in found.caveats)
    with pytest.raises(UsageError, match=r"num\.standby\.replicas is many, and must be a number"):
        predicted(scale_out=2, settings={STANDBYS: "many"})
    with pytest.raises(UsageError):
        predicted(scale_out=2, settings={"no.such.setting": "1"})


def test_a_session_that_is_not_known_may_be_short():
    """A restart of ten seconds outlasts one of six."""
    found = predicted(application(session_timeout_ms=None), bounce=WR_3, units=(WR_3,), restart_time_ms=10_000)
    assert (found.exact, found.typical.rebalances, found.ranges.rebalances.max > 0) == (False, 0, True)
    assert any("session timeouts are not known" in text for text in found.caveats)


def test_an_application_that_is_not_settled_goes_on_to_rebalance():
    found = predicted(
        application(is_settled=False, next_rebalance_at="1970-01-01T00:00:00.000Z"), bounce=WR_3, units=(WR_3,),
        restart_time_ms=5_000,
    )  # fmt: skip
    assert (found.exact, found.ranges.rebalances.min > 0) == (False, True)
    assert "not settled" in found.caveats[0]


def test_what_cannot_be_played_is_refused():
    work = MemberWork(process_id="not an id", active_tasks=("0_1",))
    strange = application()
    strange = replace(strange, members=(replace(strange.members[0], work=work), *strange.members[1:]))
    with pytest.raises(RefusedError, match="the tasks of wr-1-1 cannot be read"):
        predicted(strange, scale_in=WR_3)
    with pytest.raises(RefusedError, match="is a Kafka Streams application"):
        predicted(scale_in=WR_3, what_if=WhatIf(protocol=GroupProtocol.CONSUMER))


def tagged():
    """Two processes in one zone, and one in another."""
    group = application()
    members = tuple(
        replace(one, work=replace(one.work, client_tags=(f"zone={'b' if place > 3 else 'a'}", "disk=ssd")))
        for place, one in enumerate(group.members)
    )
    return replace(group, members=members)


@pytest.mark.parametrize(
    ("given", "usual", "rare"),
    [(None, ("disk", "zone"), {("disk", "zone"), ()}), ("zone", ("zone",), {("zone",)}), ("", (), {()})],
)
def test_tags_are_taken_to_be_used_unless_it_is_known(given, usual, rare):
    settings = {} if given is None else {TAGS: given}
    group, (known, of_broker) = streams_group_of(tagged(), Plan(scale_out=1)), split_settings(settings)
    assert of_broker == {}
    assert supposed_usual(group, known, random.Random(1)).settings.tags == usual
    assert {supposed_rarely(group, known, seed).settings.tags for seed in range(20)} == rare
    caveats = predicted(tagged(), scale_in=WR_3, settings=settings, draws=5).caveats
    assert any(f"{TAGS}=disk,zone" in text for text in caveats) is (given is None)


def test_what_goes_by_racks_is_not_played():
    racks = replace(application(), members=tuple(replace(one, rack="a") for one in application().members))
    for settings, doubts in (({}, True), ({STRATEGY: "none"}, False)):
        texts = predicted(racks, scale_out=2, settings=settings, draws=3).caveats
        assert any(text.startswith("threads report racks") for text in texts) is doubts
    with pytest.raises(
        UsageError, match=r"rack\.aware\.assignment\.strategy is min_traffic; kgm places tasks only with"
    ):
        predicted(scale_out=2, settings={STRATEGY: "min_traffic"})


def supposed_rarely(group, known, seed):
    return supposed_rare(group, known, random.Random(seed), shortest_session_ms=6_000)


def test_an_application_without_tags_supposes_none():
    group, (known, _) = streams_group_of(application(), Plan(scale_out=1)), split_settings({})
    assert {supposed_rarely(group, known, seed).settings.tags for seed in range(20)} == {()}
