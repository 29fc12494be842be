"""What a drain does to groups. Numbers follow from the number of members and partitions, or from a simulation of the same
plan for one group alone, which is held against real brokers elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.model.errors import AuthorizationError, NotFoundError, RefusedError, TimedOutError
from kgm.operations.bounce.gates import Gates
from kgm.operations.bounce.prediction import simulate
from kgm.operations.drain.fleet import DrainedFleet, recorded_fleet
from kgm.operations.drain.forecast import Drain, forecast
from kgm.operations.drain.target import DrainTarget
from kgm.simulation.plan.bounce_plan import Membership, Plan, Stop, WhatIf
from tests.operations.drain.fleets import placed
from tests.simulation.streams.applications import application, streams_group

HOST = DrainTarget(hosts=("h1",))
STATIC, DYNAMIC = Membership.STATIC, Membership.DYNAMIC


def fleet_of(*groups, target=HOST) -> DrainedFleet:
    return recorded_fleet(groups, target, path="s.json")


def ids(forecast):
    return [one.group.group_id for one in forecast.groups]


def test_only_groups_with_members_there_are_simulated():
    here, elsewhere = placed("here", ["h1", "h2"]), placed("elsewhere", ["h2", "h3"])
    foreseen = forecast(fleet_of(here, elsewhere), Drain(target=HOST))
    assert ids(foreseen) == ["here"]
    assert foreseen.examined == 2
    assert foreseen.groups[0].taken == ("member-1",)
    assert (foreseen.unpredicted, foreseen.errors) == ((), ())


@pytest.mark.parametrize("stop", Stop)
def test_a_group_is_simulated_as_if_it_were_the_only_one(stop):
    groups = [placed("a", ["h1", "h2", "h1"]), placed("b", ["h2", "h1"], membership=DYNAMIC)]
    for drain, plan in (
        (Drain(target=HOST, stop=stop), lambda who: Plan(scale_in=who, stop=stop)),
        (
            Drain(target=HOST, stop=stop, restart_time_ms=60_000),
            lambda who: Plan(bounce=who, restart_time_ms=60_000, stop=stop),
        ),
    ):
        foreseen = {one.group.group_id: one for one in forecast(fleet_of(*groups), drain, draws=5).groups}
        for group in groups:
            who = tuple(sorted(one.identity for one in group.members if one.client_host == "h1"))
            assert foreseen[group.group_id].taken == who
            assert foreseen[group.group_id].prediction == simulate(group, plan(who), draws=5)


def test_the_group_whose_partitions_are_stopped_longest_is_first():
    """A static member that stays away holds its partitions until its session ends, a dynamic one leaves."""
    session = {"session_timeout_ms": 45_000}
    dynamic = placed("dynamic", ["h1", "h2", "h3"], membership=DYNAMIC, **session)
    static = placed("static", ["h1", "h2", "h3"], **session)
    short = placed("short", ["h1", "h2", "h3"], session_timeout_ms=20_000)
    assert ids(forecast(fleet_of(dynamic, short, static), Drain(target=HOST), draws=3)) == [
        "static",
        "short",
        "dynamic",
    ]


def test_an_application_that_loses_tasks_without_a_copy_comes_first():
    """The host has four active tasks of each; of those with state the first application has copies elsewhere."""
    copied, bare = application("copied"), application("bare", standbys=0, session_timeout_ms=20_000)
    foreseen = forecast(fleet_of(copied, bare), Drain(target=HOST), draws=3)
    assert [(one.group.group_id, one.tasks_without_copy) for one in foreseen.groups] == [
        ("bare", ("0_0", "0_1", "1_0", "1_1")),
        ("copied", ("0_0", "0_1")),
    ]
    assert not any(one.prediction.exact for one in foreseen.groups)
    back = forecast(fleet_of(copied), Drain(target=HOST, restart_time_ms=2_000), draws=3).groups[0]
    assert (back.prediction.exact, back.tasks_without_copy) == (True, ())


def test_a_streams_group_counts_tasks_without_a_copy_as_well():
    (one,) = forecast(fleet_of(streams_group()), Drain(target=HOST), draws=3).groups
    assert (one.prediction.protocol, one.tasks_without_copy) == ("streams", ("0_0", "0_1"))


def test_partitions_without_an_owner_are_stopped_without_end_and_come_first():
    """A group that empties at once has hardly any stopped time until then."""
    gone = placed("gone", ["h1", "h1"], membership=DYNAMIC, partitions=5)
    slow = placed("slow", ["h1", "h2"])
    first, second = forecast(fleet_of(slow, gone), Drain(target=HOST), draws=3).groups
    assert (first.group.group_id, first.is_emptied, first.prediction.unowned_partitions, first.members_left) == (
        "gone",
        True,
        5,
        0,
    )
    assert (second.is_emptied, second.prediction.unowned_partitions) == (False, 0)


def test_an_emptied_group_whose_members_return_owns_its_partitions_again():
    gone = placed("gone", ["h1", "h1"], membership=DYNAMIC)
    (one,) = forecast(fleet_of(gone), Drain(target=HOST, restart_time_ms=1_000), draws=3).groups
    assert (one.is_emptied, one.prediction.unowned_partitions) == (True, 0)


@pytest.mark.parametrize(
    ("hosts", "partitions", "is_thin"),
    [
        (["h1", "h2"], 12, True),
        (["h1", "h2", "h3"], 12, False),
        (["h1", "h1", "h2"], 12, True),
        (["h1", "h2", "h3", "h4"], 2, False),  # two of them have nothing to do
        (["h1", "h1", "h1", "h2"], 2, True),
        (["h1"], 12, False),  # empty, which says more
    ],
)
def test_a_group_is_thin_when_half_of_those_that_can_work_are_left(hosts, partitions, is_thin):
    (one,) = forecast(fleet_of(placed("g", hosts, partitions=partitions)), Drain(target=HOST), draws=3).groups
    assert one.is_thin is is_thin


def test_the_load_of_those_that_are_left_is_known():
    (one,) = forecast(fleet_of(placed("g", ["h1", "h2", "h3"], partitions=12)), Drain(target=HOST), draws=3).groups
    assert (one.most_partitions_before, one.most_partitions_after, one.partitions_taken) == (4, 6, 4)


def test_a_group_that_cannot_be_simulated_is_named_with_the_reason():
    busy = replace(placed("busy", ["h1", "h2"]), state="PreparingRebalance")
    foreseen = forecast(fleet_of(placed("fine", ["h1", "h2"]), busy), Drain(target=HOST), draws=3)
    assert ids(foreseen) == ["fine"]
    (one,) = foreseen.unpredicted
    assert (one.group_id, one.taken) == ("busy", ("member-1",))
    assert isinstance(one.reason, RefusedError)
    assert foreseen.members_taken == 2
    assert foreseen.errors == ()


def test_a_group_that_cannot_be_described_is_named_and_is_an_error():
    lost = NotFoundError("group lost does not exist", group_id="lost")
    fleet = replace(fleet_of(placed("fine", ["h1", "h2"])), unread={"lost": lost})
    foreseen = forecast(fleet, Drain(target=HOST), draws=3)
    assert [(one.group_id, one.taken) for one in foreseen.unpredicted] == [("lost", None)]
    assert foreseen.errors == (lost,)


def test_a_gate_says_nothing_about_a_group_that_cannot_be_described():
    """It is not green, as the error stands, and not broken either: nobody looked."""
    lost = AuthorizationError("group 'lost' cannot be described", group_id="lost")
    fine, busy = placed("fine", ["h1", "h2"]), replace(placed("busy", ["h1", "h2"]), state="PreparingRebalance")
    for groups, most, failed in (([fine], 1_000, []), ([fine, busy], 1_000, ["busy"]), ([fine], 0, ["fine"])):
        fleet = replace(fleet_of(*groups), unread={"lost": lost})
        foreseen = forecast(fleet, Drain(target=HOST), draws=3, gates=Gates(handovers=most))
        assert [one.group_id for one in foreseen.failed_gates] == failed
        assert foreseen.errors == (lost,)


def test_nothing_there_is_not_found_and_never_safe():
    with pytest.raises(NotFoundError, match="no group has a member that matches --host h1") as caught:
        forecast(fleet_of(placed("elsewhere", ["h2", "h3"])), Drain(target=HOST))
    assert caught.value.facts == ("groups examined: 1", "hosts of members: h2, h3")


def test_nothing_there_says_nothing_about_groups_that_cannot_be_described():
    lost = NotFoundError("group lost does not exist", group_id="lost")
    foreseen = forecast(replace(fleet_of(), unread={"lost": lost}), Drain(target=HOST))
    assert foreseen.errors == (lost,)
    assert [one.group_id for one in foreseen.unpredicted] == ["lost"]


def test_a_host_without_members_beside_one_with_members_is_an_error():
    target = DrainTarget(hosts=("h1", "h9"))
    foreseen = forecast(fleet_of(placed("g", ["h1", "h2"]), target=target), Drain(target=target), draws=3)
    assert [error.message for error in foreseen.errors] == ["no member of any group matches --host h9"]


def test_groups_for_which_the_time_is_not_enough_are_named():
    foreseen = forecast(fleet_of(placed("g", ["h1", "h2"])), Drain(target=HOST), timeout_ms=0)
    (one,) = foreseen.unpredicted
    assert isinstance(one.reason, TimedOutError)


def test_a_session_timeout_that_is_given_is_that_of_every_group():
    """As in `simulate-bounce`. In a consumer group the broker sets it."""
    hosts = ["h1", "h2", "h3"]
    known = placed("known", hosts, session_timeout_ms=20_000)
    unknown = placed("unknown", hosts, session_timeout_ms=None)
    consumers = replace(placed("consumers", hosts, session_timeout_ms=20_000), type="consumer", assignor="uniform")
    what_if = WhatIf(session_timeout_ms=90_000)
    foreseen = forecast(fleet_of(known, unknown, consumers), Drain(target=HOST, what_if=what_if), draws=3)
    stopped = {one.group.group_id: one.prediction.typical.stopped_partition_ms for one in foreseen.groups}
    assert stopped.keys() == {"known", "unknown", "consumers"}
    assert all(4 * 80_000 < ms < 4 * 100_000 for ms in stopped.values()), stopped


# -- gates


def failures(*groups, restart_time_ms=None, **limits):
    drain = Drain(target=HOST, restart_time_ms=restart_time_ms)
    foreseen = forecast(fleet_of(*groups), drain, gates=Gates(**limits), draws=5)
    return {error.group_id: error.message for error in foreseen.failed_gates}


def test_gates_hold_for_each_group():
    """Static members that are back in time move nothing."""
    static = placed("static", ["h1", "h2", "h3"])
    dynamic = placed("dynamic", ["h1", "h2", "h3"], membership=DYNAMIC)
    assert failures(static, dynamic, restart_time_ms=5_000, handovers=0).keys() == {"dynamic"}
    assert failures(static, dynamic, restart_time_ms=5_000, handovers=1_000) == {}
    assert failures(static, dynamic, restart_time_ms=5_000) == {}


def test_the_time_that_partitions_are_stopped_has_a_limit():
    """Four partitions, five seconds and a moment to start in."""
    static = placed("static", ["h1", "h2", "h3"])
    assert failures(static, restart_time_ms=5_000, stopped_ms=40_000) == {}
    (message,) = failures(static, restart_time_ms=5_000, stopped_ms=15_000).values()
    assert "partition-seconds without a consumer are predicted, more than 15" in message


def test_an_emptied_group_fails_whatever_the_limit_of_stopped_time():
    gone = placed("gone", ["h1"], membership=DYNAMIC, partitions=3)
    assert failures(gone, stopped_ms=10**9) == {"gone": "group gone: 3 partitions are left without an owner"}


def test_what_is_not_predicted_fails_a_gate():
    busy = replace(placed("busy", ["h1", "h2"]), state="PreparingRebalance")
    assert failures(busy, handovers=10**9)["busy"].startswith("group busy is not predicted: ")
    assert failures(busy) == {}


def test_gates_that_hold_prove_nothing_about_what_could_not_be_read():
    drain = Drain(target=HOST, restart_time_ms=5_000)
    group = placed("g", ["h1", "h2", "h3"])
    unseen = AuthorizationError("groups may be invisible")
    gates = Gates(handovers=1_000)
    for fleet, codes in (
        (fleet_of(group), []),
        (replace(fleet_of(group), unseen=unseen), ["AUTHORIZATION"]),
        (fleet_of(replace(group, topics=())), ["PARTIAL"]),
    ):
        foreseen = forecast(fleet, drain, gates=gates, draws=3)
        assert ([error.code for error in foreseen.errors], foreseen.failed_gates) == (codes, ())
        assert forecast(fleet, drain, draws=3).errors == ()


def test_the_same_seed_gives_the_same_forecast():
    groups = [placed("a", ["h1", "h2", "h3"], membership=DYNAMIC, partitions=24)]
    drain = Drain(target=HOST, restart_time_ms=20_000)
    assert forecast(fleet_of(*groups), drain, draws=5) == forecast(fleet_of(*groups), drain, draws=5)
