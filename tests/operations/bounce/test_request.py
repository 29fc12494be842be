"""Which members a request means, and what plan comes of it."""

from dataclasses import replace

import pytest

from kgm.model.errors import NotFoundError, RefusedError, UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, TopicSnapshot
from kgm.operations.bounce.group import BounceGroup, made_up_group
from kgm.operations.bounce.request import BounceRequest, plan_for
from kgm.simulation.plan.bounce_plan import GroupProtocol, MemberOrder, Membership, Rolling, Stop, WhatIf

SNAPSHOT = GroupSnapshot(
    group_id="g",
    type="classic",
    state="Stable",
    assignor="range",
    topics=(TopicSnapshot(name="t", partitions=6),),
    members=(
        MemberSnapshot(member_id="id-b", group_instance_id="app-b"),
        MemberSnapshot(member_id="id-a", group_instance_id="app-a"),
        MemberSnapshot(member_id="dyn-1"),
    ),
)


def plan(snapshot=SNAPSHOT, broker=None, **request):
    return plan_for(BounceRequest(**request), BounceGroup(snapshot=snapshot, broker_settings=broker or {}))


@pytest.mark.parametrize(
    ("request_", "bounce"),
    [
        ({"instance_ids": ("app-b", "app-a", "app-b")}, ("app-b", "app-a")),
        ({"member_ids": ("id-b", "dyn-1")}, ("app-b", "dyn-1")),
        ({"instance_ids": ("app-b",), "member_ids": ("id-b", "id-a")}, ("app-b", "app-a")),
        ({"patterns": ("app-*",)}, ("app-a", "app-b")),
        ({"patterns": ("dyn*", "app-b")}, ("dyn-1", "app-b")),
        ({"everyone": True}, ("app-a", "app-b", "dyn-1")),
        ({"everyone": True, "scale_in": ("app-a",)}, ("app-b", "dyn-1")),
        ({"patterns": ("app-*",), "remove": ("id-a",)}, ("app-b",)),
    ],
    ids=str,
)
def test_members_bounce_in_the_order_in_which_they_are_named(request_, bounce):
    assert plan(**request_).bounce == bounce


def test_a_member_that_is_removed_does_not_also_stay_away():
    found = plan(scale_in=("app-a", "dyn-1"), remove=("id-a",))
    assert (found.scale_in, found.remove) == (("dyn-1",), ("app-a",))


def test_a_member_that_is_named_cannot_be_removed_too():
    with pytest.raises(UsageError, match="app-a is named twice"):
        plan(instance_ids=("app-a",), remove=("app-a",))


def test_ids_that_the_group_does_not_have_stay_for_the_simulation_to_refuse():
    assert plan(instance_ids=("stranger",)).bounce == ("stranger",)


def test_a_pattern_that_matches_no_member_names_those_that_are_there():
    with pytest.raises(NotFoundError, match=r"no member of group g matches x-\*") as caught:
        plan(patterns=("x-*",))
    assert caught.value.facts == ("members: app-a, app-b, dyn-1",)
    with pytest.raises(NotFoundError, match="has no members"):
        plan(replace(SNAPSHOT, members=(), state="Empty"), everyone=True)


@pytest.mark.parametrize(("scale_out", "expected"), [(None, 2), (0, 0), (5, 5)], ids=["not given", "none", "given"])
def test_pre_registered_ids_without_a_member_join(scale_out, expected):
    found = plan(everyone=True, pre_registered=("app-a", "app-c", "app-d"), scale_out=scale_out)
    assert found.scale_out == expected


def test_options_reach_the_plan_and_settings_precede_those_of_the_broker():
    found = plan(
        broker={"group.max.size": "9", "group.initial.rebalance.delay.ms": "3000"},
        everyone=True,
        rolling=Rolling(max_unavailable=2, pause_ms=7),
        restart_time_ms=1,
        stop=Stop.CRASH,
        settings={"group.max.size": "4"},
        heartbeat_interval_ms=5,
        scale_out_every_ms=6,
        target_size=8,
        retry_every_ms=9,
        migrate=True,
    )
    assert found.settings == {"group.max.size": "4", "group.initial.rebalance.delay.ms": "3000"}
    assert (found.rolling, found.restart_time_ms, found.stop) == (Rolling(max_unavailable=2, pause_ms=7), 1, Stop.CRASH)
    assert (found.heartbeat_interval_ms, found.scale_out_every_ms, found.target_size) == (5, 6, 8)
    assert (found.retry_every_ms, found.migrate) == (9, True)


def test_a_protocol_that_the_group_has_is_no_what_if():
    assert plan(everyone=True, what_if=WhatIf(protocol=GroupProtocol.CLASSIC)).what_if == WhatIf()
    other = WhatIf(protocol=GroupProtocol.CONSUMER)
    assert plan(everyone=True, what_if=other).what_if == other
    # An assignor is one even if the group has it: the group is then assigned afresh.
    same = WhatIf(assignor="range")
    assert plan(everyone=True, what_if=same).what_if == same


def test_a_made_up_group_is_made_as_it_is_to_be():
    what_if = WhatIf(
        assignor="uniform", membership=Membership.DYNAMIC, protocol=GroupProtocol.CONSUMER, session_timeout_ms=9_000
    )
    group = made_up_group(
        3,
        [TopicSnapshot(name="t", partitions=6)],
        membership=what_if.membership,
        assignor=what_if.assignor,
        protocol=what_if.protocol,
    )
    assert (group.snapshot.type, group.snapshot.assignor) == ("consumer", "uniform")
    assert not any(member.group_instance_id for member in group.snapshot.members)
    assert plan_for(BounceRequest(everyone=True, what_if=what_if), group).what_if == WhatIf(session_timeout_ms=9_000)


HOSTS = replace(
    SNAPSHOT,
    leader="id-a",
    members=tuple(
        MemberSnapshot(member_id=member_id, group_instance_id=name, client_host=host, client_id=client_id,
            assignment={"t": owned})
        for member_id, name, host, client_id, owned in (
            ("id-b", "app-b", "/10.0.0.1", "z", (0,)), ("id-a", "app-a", "/10.0.0.2", "y", (1, 2)),
            ("dyn-1", None, "/10.0.0.1", "x", ()),
        )
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("order", "bounce"),
    [
        (MemberOrder.NAMED, ("app-a", "app-b", "dyn-1")),
        (MemberOrder.ID, ("app-a", "app-b", "dyn-1")),
        (MemberOrder.HOST, ("app-b", "dyn-1", "app-a")),
        (MemberOrder.CLIENT_ID, ("dyn-1", "app-a", "app-b")),
        (MemberOrder.PARTITIONS, ("dyn-1", "app-b", "app-a")),
        (MemberOrder.LEADER_LAST, ("app-b", "dyn-1", "app-a")),
    ],
)
def test_members_bounce_in_an_order_that_can_be_chosen(order, bounce):
    ordered = plan(HOSTS, everyone=True, rolling=Rolling(), order=order)
    assert ordered.bounce == bounce
    assert ordered.order is (MemberOrder.ID if order is MemberOrder.NAMED else order)
    named = plan(HOSTS, instance_ids=("app-b", "app-a"), rolling=Rolling(), order=order)
    expected = ("app-b", "app-a") if order is MemberOrder.NAMED else tuple(one for one in bounce if one != "dyn-1")
    assert named.bounce == expected
    assert named.order is order


@pytest.mark.parametrize("leader", [None, "id-of-one-that-has-left"])
def test_nobody_is_taken_for_the_leader(leader):
    with pytest.raises(RefusedError, match="leader of group g is not known"):
        plan(replace(HOSTS, leader=leader), everyone=True, rolling=Rolling(), order=MemberOrder.LEADER_LAST)


def test_a_consumer_group_has_no_leader():
    group = replace(HOSTS, type="consumer")
    with pytest.raises(UsageError, match="has no leader"):
        plan(group, everyone=True, rolling=Rolling(), order=MemberOrder.LEADER_LAST)
