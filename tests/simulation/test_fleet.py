"""What planned work would cost a fleet: each group in each scenario, whatever the group is."""

import json

import msgspec
import pytest

from kgm.model.errors import UsageError
from kgm.model.snapshot import TopicSnapshot
from kgm.operations.history.fleet_costs import costs_as_text
from kgm.simulation import fleet
from kgm.simulation.fleet import OUT_OF_TIME, FleetCost, FleetPlan, costs_of_groups, group_costs
from kgm.simulation.plan.bounce_plan import GroupProtocol, Membership
from kgm.simulation.plan.synthetic_group import synthetic_group


def group(name="g", members=3, partitions=6, membership=Membership.STATIC, **more):
    made = synthetic_group(members, [TopicSnapshot(name="orders", partitions=partitions)], membership, **more)
    return made.to_json() | {"group_id": name}


def costs_of(data, *scenarios, **plan):
    return {one.scenario: one for one in group_costs(data, FleetPlan(scenarios=scenarios or ("rolling",), **plan))}


def test_a_cost_says_what_the_group_is():
    (row,) = costs_of(group()).values()
    assert (row.group_id, row.members, row.static_members, row.partitions) == ("g", 3, 3, 6)
    assert (row.assignor, row.session_timeout_ms, row.reason) == ("range", 45_000, None)


def test_static_members_that_are_back_in_time_cost_the_time_of_their_absence():
    """10 s times two partitions, three times, and nothing moves."""
    (row,) = costs_of(group(), restart_time_ms=10_000).values()
    assert (row.moved_partitions.median, row.moved_partitions.max, row.worst, row.played) == (0, 0, None, 1)
    assert 3 * 2 * 10_000 <= row.stopped_partition_ms.median < 3 * 2 * 20_000


def test_those_that_are_not_cost_two_rebalances_each():
    found = costs_of(group(), "each", restart_time_ms=120_000)["each"]
    assert (found.rebalances.min, found.rebalances.median, found.rebalances.max) == (2, 2, 2)
    assert found.moved_partitions.max == 0
    # Range: the other two get its two partitions and exchange one, unless it was in the middle; and all of it back.
    assert (found.handovers.min, found.handovers.median, found.handovers.max) == (4, 6, 6)
    assert found.played == 3
    assert found.worst in {"member-1", "member-2", "member-3"}


def test_members_that_stay_away_give_up_their_partitions():
    found = costs_of(group(), "scale-in")["scale-in"]
    assert found.moved_partitions.min >= 2
    assert found.rebalances.max == 1


class OnHost:
    """Members on these hosts."""

    def __init__(self, *hosts):
        self.hosts = hosts

    def takes(self, member):
        return member.client_host in self.hosts


def on_hosts(data, *hosts):
    members = [member | {"client_host": host} for member, host in zip(data["members"], hosts, strict=True)]
    return data | {"members": members}


def test_a_drain_restarts_the_members_of_the_target_together():
    """Static members that are back in time cost the time of their absence: 10 s times two partitions for each."""
    data = on_hosts(group(), "/a", "/a", "/b")
    for hosts, partitions in ((("/a",), 4), (("/b",), 2), (("/a", "/b"), 6)):
        (row,) = costs_of(data, "drain", restart_time_ms=10_000, target=OnHost(*hosts)).values()
        assert (row.moved_partitions.max, row.rebalances.max, row.reason) == (0, 0, None)
        assert partitions * 10_000 <= row.stopped_partition_ms.median < partitions * 11_500


def test_a_drain_of_dynamic_members_moves_what_they_have():
    data = on_hosts(group(membership=Membership.DYNAMIC), "/a", "/b", "/b")
    (row,) = costs_of(data, "drain", restart_time_ms=60_000, target=OnHost("/a")).values()
    assert row.rebalances.median == 2, "one without the member, and one when it is back"
    assert row.moved_partitions.min >= 2, "it comes back with another member id"


def test_a_group_without_a_member_of_the_target_gets_no_row():
    data = on_hosts(group(), "/a", "/a", "/b")
    assert costs_of(data, "drain", target=OnHost("/c")) == {}
    assert set(costs_of(data, "drain", "rolling", target=OnHost("/c"))) == {"rolling"}
    with pytest.raises(UsageError):
        FleetPlan(scenarios=("drain",))


@pytest.mark.slow
def test_of_many_members_some_stand_for_all():
    found = costs_of(group(members=50, partitions=50), "scale-in", draws=1)["scale-in"]
    assert found.played == 20
    assert any("20 of 50 members were simulated" in caveat for caveat in found.caveats)


def test_groups_of_the_consumer_protocol_are_simulated():
    (row,) = costs_of(group(protocol=GroupProtocol.CONSUMER)).values()
    assert (row.reason, row.moved_partitions.max) == (None, 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"state": "PreparingRebalance"}, "PreparingRebalance"),
        ({"members": [], "state": "Empty"}, "no members"),
        ({"type": "share"}, "share group"),
        ({"unplayable": "nobody knows its topics"}, "nobody knows its topics"),
        ({"members": 7}, "members"),
        ({"group_id": None}, "group_id"),
    ],
)
def test_a_row_says_why_its_group_cannot_be_simulated(change, said):
    (row,) = costs_of(group() | change, "scale-in").values()
    assert said in row.reason
    assert row.rebalances is row.moved_partitions is row.stopped_partition_ms is None


@pytest.mark.slow
def test_the_same_with_the_same_seed_and_as_text():
    data, plan = group(membership=Membership.DYNAMIC), FleetPlan(seed=7)
    costs = [*group_costs(data, plan)]
    assert [*group_costs(data, plan)] == costs
    assert [msgspec.json.decode(text, type=FleetCost) for text in costs_as_text(json.dumps(data), plan)] == costs


def test_the_most_expensive_group_is_first_and_those_not_simulated_are_last():
    plan = FleetPlan(draws=1)
    rows = [
        *group_costs(group("empty", members=3) | {"members": []}, plan),
        *group_costs(group("small", members=2, partitions=2), plan),
        *group_costs(group("large", members=2, partitions=40), plan),
    ]
    assert [row.group_id for row in sorted(rows, key=lambda row: row.rank)] == ["large", "small", "empty"]


def test_other_scenarios_are_refused():
    with pytest.raises(UsageError, match="zone"):
        FleetPlan(scenarios=("zone",))


def test_a_row_has_counts_for_an_assignor_that_kgm_does_not_know():
    (row,) = costs_of(group() | {"assignor": "own"}, "scale-in").values()
    assert (row.reason, row.exact, row.assignor) == (None, False, "own")
    assert row.rebalances.min >= 1
    assert any("does not know the assignor own" in caveat for caveat in row.caveats)


def test_groups_that_are_not_reached_in_time_say_so(monkeypatch):
    """The time is over after some looks at the clock; what is known by then stays."""
    looks = iter([9.0] * 60)
    monkeypatch.setattr(fleet.time, "time", lambda: next(looks, 10.0))
    plan = FleetPlan(scenarios=("rolling", "scale-in"), draws=1, ends_at_s=10.0)
    groups = [group(f"g{number}", membership=Membership.DYNAMIC) for number in range(30)]
    found = list(costs_of_groups(groups, plan))
    assert [{row.group_id for row in rows} for rows in found] == [{each["group_id"]} for each in groups]
    reasons = [row.reason for rows in found for row in rows]
    known = reasons.index(OUT_OF_TIME)
    assert 0 < known < len(reasons)
    assert reasons == [None] * known + [OUT_OF_TIME] * (len(reasons) - known)
    unlimited = FleetPlan(scenarios=plan.scenarios, draws=1)
    assert [row for rows in found for row in rows][: known - 1] == [
        row for one in groups for row in group_costs(one, unlimited)
    ][: known - 1]
    assert (found[-1][0].members, found[-1][0].rebalances) == (3, None)
