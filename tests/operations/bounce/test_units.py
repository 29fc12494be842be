"""A process restarts with all its threads, once."""

from dataclasses import replace

import pytest

from kgm.model.snapshot import MemberSnapshot
from kgm.model.work import MemberWork
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.bounce.request import BounceRequest, plan_for
from kgm.operations.bounce.units import UnitKind, by_process_name, units_in
from kgm.operations.drain.target import DrainTarget
from kgm.operations.plan.shapes import shapes_of
from kgm.operations.rollout.session import plan_rollout
from kgm.operations.rollout.spec import RolloutCommands, RolloutLimits, RolloutSpec
from kgm.simulation.plan.bounce_plan import Rolling
from tests.simulation.groups import made_up

PROCESSES = (("wr-1-1", "wr-1-2"), ("wr-2-1", "wr-2-2"), ("wr-3-1", "wr-3-2"))


def streams(*, tells=False):
    """Three static processes of two threads, settled. tells: whether they have an application.server."""
    group = made_up(6, 12)
    names = [name for unit in PROCESSES for name in unit]
    members = tuple(
        replace(
            member, group_instance_id=name, client_host=f"10.0.0.{name[3]}",
            work=MemberWork(process_id=f"p-{name[3]}", user_endpoint=f"app-{name[3]}:80" if tells else None),
        )
        for name, member in zip(names, group.members, strict=True)
    )  # fmt: skip
    return replace(group, assignor="stream", is_settled=True, members=members)


def planned(**request):
    request = {"rolling": Rolling(), "restart_time_ms": 2_000, **request}
    return plan_for(BounceRequest(**request), BounceGroup(snapshot=streams(tells=True)))


def test_rolling_takes_process_by_process():
    assert planned(everyone=True).batches() == PROCESSES
    two = planned(everyone=True, rolling=Rolling(max_unavailable=2)).batches()
    assert two == (PROCESSES[0] + PROCESSES[1], PROCESSES[2])


def test_one_thread_stands_for_its_process_unless_units_are_members():
    assert planned(instance_ids=("wr-2-2",)).batches() == (("wr-2-2", "wr-2-1"),)
    assert planned(instance_ids=("wr-2-2",), unit=UnitKind.MEMBER).batches() == (("wr-2-2",),)
    alone = planned(everyone=True, unit=UnitKind.MEMBER)
    assert (alone.units, len(alone.batches())) == ((), 6)


def test_those_that_stay_away_do_not_come_back_with_their_process():
    plan = planned(instance_ids=("wr-1-1",), remove=("wr-1-2",))
    assert (plan.bounce, plan.remove) == (("wr-1-1",), ("wr-1-2",))


@pytest.mark.parametrize("name", ["wr-3-1", "p-3", "app-3:80"])
def test_a_process_stays_away_with_all_its_threads(name):
    """It is named by one of them, by its process id, or by its application.server."""
    for field in ("scale_in", "remove"):
        plan = planned(**{field: (name,)}, rolling=None)
        assert getattr(plan, field) == PROCESSES[2]
        assert plan.units == (PROCESSES[2],)
    assert planned(everyone=True, scale_in=(name,)).batches() == PROCESSES[:2]
    assert planned(instance_ids=(name,)).batches() == (PROCESSES[2],)


def test_a_worker_goes_by_its_url():
    """Connect's ids are random."""
    members = tuple(
        replace(one, group_instance_id=None, work=MemberWork(user_endpoint=f"http://c-{number}:8083/"))
        for number, one in enumerate(streams().members)
    )
    group = BounceGroup(snapshot=replace(streams(), members=members))
    request = BounceRequest(scale_in=("http://c-1:8083", "http://c-2:8083/"), rolling=Rolling())
    assert plan_for(request, group).scale_in == (members[1].member_id, members[2].member_id)


def test_what_several_processes_tell_is_no_name():
    """Connect workers that advertise `localhost`, say."""
    same = [MemberSnapshot(member_id=name, work=MemberWork(user_endpoint="http://localhost:8083/")) for name in "ab"]
    assert by_process_name(same) == {}
    assert by_process_name(same[:1]) == {"http://localhost:8083": ("a",), "http://localhost:8083/": ("a",)}
    threads = [MemberSnapshot(member_id=name, work=MemberWork(process_id="p")) for name in "ab"]
    assert by_process_name(threads) == {"p": ("a", "b")}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (UnitKind.AUTO, (("a-1-0", "a-1-1"),)),
        (UnitKind.MEMBER, ()),
        (UnitKind.HOST, (("a-1-0", "b"),)),
        (UnitKind.INSTANCE, (("a-1-0", "a-1-1"),)),
    ],
)
def test_kinds_of_units(kind, expected):
    """Spring names threads ID-0, ID-1, …; a member without a number at its end is alone."""
    members = [
        MemberSnapshot(member_id="m-0", group_instance_id="a-1-0", client_host="h1", work=MemberWork(process_id="p")),
        MemberSnapshot(member_id="m-1", group_instance_id="a-1-1", client_host="h2", work=MemberWork(process_id="p")),
        MemberSnapshot(member_id="b", client_host="h1", work=MemberWork()),
        MemberSnapshot(member_id="c"),
    ]
    assert units_in(members, kind) == expected


def test_a_drain_takes_whole_processes():
    assert DrainTarget(identities=("wr-3-2",)).taken_from(streams().members) == PROCESSES[2]


def test_ways_of_a_plan_count_processes():
    everyone = [name for unit in PROCESSES for name in unit]
    ways = shapes_of(streams(), everyone, pauses_ms=(0,), units=PROCESSES)
    assert {len(way.batches) for way in ways} == {1, 2, 3}
    one_by_one = next(way for way in ways if len(way.batches) == 3)
    assert one_by_one.words == ("--rolling", "--max-unavailable", "1")
    assert one_by_one.batches == tuple(map(frozenset, PROCESSES))


def test_a_rollout_stops_a_process_once():
    """And removes all its threads with one request."""
    commands = RolloutCommands(stop_command="echo {instance_id}")
    request = BounceRequest(remove=("p-2",))
    consumers = BounceGroup(snapshot=replace(streams(), assignor="range"))
    found = plan_rollout(consumers, request, commands, RolloutLimits(), draws=3)
    (step,) = found.spec.steps
    assert (step.members, step.remove) == (PROCESSES[1], PROCESSES[1])
    assert [argv for _, argv in found.commands] == [("echo", "wr-2-1")]


def test_a_rollout_restarts_each_process_once():
    request = BounceRequest(everyone=True, rolling=Rolling(), restart_time_ms=2_000)
    commands = RolloutCommands(command="echo {instance_id}")
    found = plan_rollout(BounceGroup(snapshot=streams()), request, commands, RolloutLimits(), draws=3)
    assert [step.members for step in found.spec.steps] == [*PROCESSES]
    assert [argv for _, argv in found.commands] == [("echo", unit[0]) for unit in PROCESSES]
    assert RolloutSpec.from_json(found.spec.to_json()) == found.spec
    (predicted,) = found.predicted.predictions
    assert (predicted.exact, predicted.typical.rebalances) == (True, 0)
