"""Plans for a group: newcomers that are held back, pre-registered instance ids, spares (KIP-345, future works 1 and 2)."""

import pytest

from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.coordinator.contract.scale_out_plan import GroupPlan, GroupPlans, plans_from
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode as E
from kgm.model.errors import UsageError
from tests.coordinator.harness import REBALANCE_MS, SESSION_MS, Harness, subscription

HOLD = TimerKey(TimerKind.HOLD, "g")
OTHER = {"range": subscription("other")}


def planned(**plan):
    """A coordinator with a plan for group g, set as an operator sets it."""
    names = {"size": "kgm.group.target.size.g", "ids": "kgm.group.pre.registered.instance.ids.g"}
    more = {"wait": "kgm.group.newcomer.max.wait.ms"}
    h = Harness()
    h.engine.settings = h.settings = BrokerSettings.from_overrides({(names | more)[k]: v for k, v in plan.items()})
    return h


def alive(h, *members, ms=0, step=3_000):
    """Let time pass in which these members heartbeat; what they were told in the end."""
    generation, told = h.generation(), []
    while True:
        told = [h.heartbeat(member, generation) for member in members]
        if ms <= 0:
            return set(told)
        h.sleep(min(step, ms))
        ms -= step


def rejoin(h, *identities, **how):
    """Everybody joins the round and syncs; the generation that comes of it."""
    tickets = [h.join(member, instance, **how) for member, instance in identities]
    replies = [h.joined(ticket) for ticket in tickets]
    return finish(h, replies)


def finish(h, replies):
    generation = replies[0].generation_id
    for reply in replies:
        plan = {m.member_id: (m.group_instance_id or m.member_id).encode() for m in reply.members}
        h.sync(reply.member_id, generation, plan)
    assert h.state() == "Stable"
    return generation


def held(h):
    return h.engine.group("g").held


# -- settings


def test_plans_are_read_by_group():
    plans = plans_from([
        ("kgm.group.target.size.app-*", "7"),
        ("kgm.group.target.size.app-1", "3"),
        ("kgm.group.pre.registered.instance.ids.app.with.dots", "a, b,c"),
    ])  # fmt: skip
    assert plans.of("app-2") == GroupPlan(target_size=7)
    assert plans.of("app-1") == GroupPlan(target_size=3)
    assert plans.of("app.with.dots") == GroupPlan(instance_ids=frozenset("abc"))
    assert plans.of("other") is None
    assert plans_from([("kgm.group.target.size", 2)]).of("any") == GroupPlan(target_size=2)


def test_there_are_no_plans_by_default():
    assert not BrokerSettings().plans
    assert not GroupPlans()
    assert BrokerSettings().plans.of("g") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kgm.group.target.size.g", "0"),
        ("kgm.group.target.size.g", "many"),
        ("kgm.group.target.size.g", str(2**31)),
        ("kgm.group.pre.registered.instance.ids.g", ""),
        ("kgm.group.pre.registered.instance.ids.g", "a,,b"),
        ("kgm.group.pre.registered.instance.ids.g", "a-{1..3}"),
        ("kgm.group.pre.registered.instance.ids.g", "a,.."),
        ("kgm.group.target.sizes.g", "3"),
        ("kgm.group.newcomer.max.wait.ms", "-1"),
    ],
)
def test_a_bad_plan_is_refused(name, value):
    with pytest.raises(UsageError):
        BrokerSettings.from_overrides({name: value})


# -- a target size


def test_three_newcomers_cost_one_rebalance():
    """KIP-345, future work 1: the server waits until all have joined before it kicks the rebalance off."""
    h = planned(size=7)
    a, b, c, d = h.stable("a", "b", "c", "d")
    e = h.join("", "e")
    assert alive(h, a, b, c, d, ms=20_000) == {E.NONE}
    f = h.join("", "f")
    assert alive(h, a, b, c, d, ms=20_000) == {E.NONE}
    assert (h.state(), h.generation(), held(h)) == ("Stable", 1, ("e", "f"))
    assert len(h.log) == len(h.reload().log) + 2  # nothing is written for those who wait
    g = h.join("", "g")
    assert alive(h, a, b, c, d) == {E.REBALANCE_IN_PROGRESS}
    assert held(h) == ()
    replies = [h.join(member, name) for member, name in zip((a, b, c, d), "abcd", strict=True)]
    replies = [h.joined(ticket) for ticket in (*replies, e, f, g)]
    assert {reply.generation_id for reply in replies} == {2}
    assert [m.group_instance_id for m in replies[0].members] == list("abcdefg")
    assert finish(h, replies) == 2
    assert HOLD not in h.engine.deadlines


def test_without_a_plan_each_newcomer_costs_one():
    h = Harness()
    members = dict(zip("abcd", h.stable("a", "b", "c", "d"), strict=True))
    for generation, name in enumerate("efg", start=2):
        ticket = h.join("", name)
        tickets = [h.join(member, instance) for instance, member in members.items()]
        replies = [h.joined(each) for each in (*tickets, ticket)]
        members[name] = replies[-1].member_id
        assert finish(h, replies) == generation


def test_dynamic_newcomers_wait_too():
    h = planned(size=4)
    a, b = h.stable(dynamic=2)
    first = h.got(h.join("")).member_id
    waiting = h.join(first)
    assert alive(h, a, b, ms=30_000) == {E.NONE}
    assert (held(h), h.engine.group("g").pending_member_ids) == ((first,), ())
    older = h.join("", v=3)  # before KIP-394
    assert h.got(older) is None
    assert h.state() == "PreparingRebalance"
    replies = [h.joined(ticket) for ticket in (h.join(a), h.join(b), waiting, older)]
    assert finish(h, replies) == 2


def test_a_restart_of_a_static_member_is_not_held():
    h = planned(size=7)
    h.stable("a", "b")
    assert h.got(h.join("", "b", v=9)).generation_id == 1
    assert (h.state(), held(h)) == ("Stable", ())


def test_nobody_waits_in_a_group_without_members():
    h = planned(size=7)
    (a,) = h.stable("a")  # after the initial delay, though six are missing
    assert h.generation() == 1
    h.leave((a, None))
    assert h.state() == "Empty"
    assert h.stable("b")
    assert h.generation() == 3


def test_the_initial_delay_ends_early_when_everybody_is_there():
    h = planned(size=3)
    tickets = [h.join("", name) for name in "ab"]
    assert not any(map(h.got, tickets))
    replies = [h.joined(ticket) for ticket in (*tickets, h.join("", "c"))]
    assert (h.state(), {reply.generation_id for reply in replies}) == ("CompletingRebalance", {1})
    assert TimerKey(TimerKind.JOIN, "g") not in h.engine.deadlines


def test_the_initial_delay_goes_on_while_somebody_was_promised_a_place():
    h = planned(size=2)
    pending = h.got(h.join("")).member_id
    first, second = h.join("", "a"), h.join("", "b")
    assert h.got(first) is None
    assert h.state() == "PreparingRebalance"
    h.leave((pending, None))
    assert h.joined(first).generation_id == h.joined(second).generation_id == 1


# -- the wait ends


def test_the_wait_ends_after_the_newcomers_rebalance_timeout():
    """One of three never comes: those who came are let in together, and nobody hangs."""
    h = planned(size=5)
    a, b = h.stable("a", "b")
    c = h.join("", "c", rebalance=40_000)
    assert alive(h, a, b, ms=30_000) == {E.NONE}
    d = h.join("", "d", rebalance=90_000)
    assert alive(h, a, b, ms=9_999) == {E.NONE}
    h.sleep(1)
    assert alive(h, a, b) == {E.REBALANCE_IN_PROGRESS}
    replies = [h.joined(ticket) for ticket in (h.join(a, "a"), h.join(b, "b"), c, d)]
    assert finish(h, replies) == 2
    # The last one comes late: one more rebalance.
    e = h.join("", "e")
    assert h.state() == "PreparingRebalance"
    assert h.got(e) is None


def test_the_wait_can_be_bounded_further():
    h = planned(size=3, wait=5_000)
    a, b = h.stable("a", dynamic=1)
    c = h.join("", "c", rebalance=600_000)  # the third: let in at once
    assert h.state() == "PreparingRebalance"
    finish(h, [h.joined(ticket) for ticket in (h.join(a, "a"), h.join(b), c)])
    h2 = planned(size=4, wait=5_000)
    a, b = h2.stable("a", dynamic=1)
    h2.join("", "c", rebalance=600_000)
    h2.sleep(4_999)
    assert h2.state() == "Stable"
    h2.sleep(1)
    assert h2.state() == "PreparingRebalance"


def test_a_wait_of_nothing_is_kafkas_rule():
    h = planned(size=4, wait=0)
    h.stable("a", "b")
    h.join("", "c")
    h.sleep(0)
    assert h.state() == "PreparingRebalance"


@pytest.mark.parametrize("how", ["leaves", "expires"])
def test_those_who_wait_come_along_when_a_member_goes(how):
    h = planned(size=5)
    a, b, c = h.stable("a", "b", "c")
    d = h.join("", "d", protocols={"range": subscription("orders", "more")})
    assert alive(h, a, b, c) == {E.NONE}
    if how == "leaves":
        h.leave(("", "c"))
    else:
        alive(h, a, b, ms=SESSION_MS)
    # Two members and one who waits: the plan is not fulfilled, but there is a rebalance anyway.
    assert h.state() == "PreparingRebalance"
    assert h.member_ids() == [a, b]
    replies = [h.joined(ticket) for ticket in (h.join(a, "a"), h.join(b, "b"))]
    replies.append(h.joined(d))
    assert finish(h, replies) == 2
    assert h.member_ids() == [a, b, replies[-1].member_id]


def test_those_who_wait_make_the_group_when_all_members_have_gone():
    h = planned(size=5)
    a, b = h.stable("a", "b")
    c = h.join("", "c", protocols=OTHER)
    h.leave((a, None), (b, None))
    reply = h.joined(c)
    assert (reply.generation_id, reply.leader) == (2, reply.member_id)
    assert h.state() == "CompletingRebalance"


def test_who_comes_while_members_join_comes_in():
    h = planned(size=5)
    a, b = h.stable("a", "b")
    waiting = h.join("", "c")
    h.join(a, "a")  # the leader asks for a rebalance
    assert h.state() == "PreparingRebalance"
    d = h.join("", "d")
    assert held(h) == ()
    h.join(b, "b")
    assert h.joined(waiting).generation_id == h.joined(d).generation_id == 2


def test_who_comes_while_members_sync_waits():
    h = planned(size=4)
    replies = h.until_answered(h.join("", "a"), h.join("", "b"))
    assert h.state() == "CompletingRebalance"
    c = h.join("", "c")
    assert (h.state(), held(h)) == ("CompletingRebalance", ("c",))
    finish(h, replies)
    assert h.got(c) is None


# -- newcomers that change their mind


def test_a_held_newcomer_that_starts_again_is_fenced_and_keeps_its_time():
    h = planned(size=4)
    h.stable("a", "b")
    first = h.join("", "c", rebalance=40_000)
    h.sleep(5_000)
    second = h.join("", "c", rebalance=40_000)
    reply = h.got(first)
    assert (reply.error_code, reply.member_id) == (E.FENCED_INSTANCE_ID, "")
    assert (h.got(second), held(h)) == (None, ("c",))
    assert h.engine.deadlines[HOLD] == h.now + 35_000


def test_a_held_newcomer_that_asks_again_is_not_answered_twice():
    h = planned(size=4)
    h.stable("a", "b")
    member = h.got(h.join("")).member_id
    first, second = h.join(member), h.join(member)
    assert h.got(first).error_code == E.REBALANCE_IN_PROGRESS
    assert (h.got(second), held(h)) == (None, (member,))
    assert h.got(h.join(member, "with-an-instance")).error_code == E.UNKNOWN_MEMBER_ID
    assert h.got(second) is None


@pytest.mark.parametrize("instance", [None, "c"])
def test_a_held_newcomer_that_leaves_is_not_missed(instance):
    h = planned(size=4)
    h.stable("a", "b")
    member = "" if instance else h.got(h.join("")).member_id
    ticket = h.join(member, instance)
    assert h.leave((member, instance)).members[0].error_code == E.NONE
    assert h.got(ticket).error_code == E.UNKNOWN_MEMBER_ID
    assert (h.state(), h.generation(), held(h)) == ("Stable", 1, ())
    assert HOLD not in h.engine.deadlines
    assert h.leave((member or "x", instance)).members[0].error_code == E.UNKNOWN_MEMBER_ID


def test_an_old_client_that_is_held_leaves():
    h = planned(size=4)
    h.stable("a", "b")
    member = h.got(h.join("")).member_id
    h.join(member)
    assert h.leave((member, None), v=1).error_code == E.NONE
    assert (h.state(), held(h)) == ("Stable", ())


def test_a_held_newcomer_is_no_member_to_anybody():
    h = planned(size=4)
    _a, _ = h.stable("a", "b")
    member = h.got(h.join("")).member_id
    h.join(member)
    assert h.heartbeat(member, 1) == E.UNKNOWN_MEMBER_ID
    assert h.got(h.sync(member, 1)).error_code == E.UNKNOWN_MEMBER_ID
    assert h.commit(member, 1) == E.UNKNOWN_MEMBER_ID
    (described,) = h.describe()
    assert [m.group_instance_id for m in described.members] == ["a", "b"]


def test_a_newcomer_that_fits_no_more_is_refused_when_its_turn_comes():
    both = {"range": subscription(), "roundrobin": subscription()}
    h = planned(size=4)
    a, b = h.stable("a", "b", protocols=both)
    only_range = h.join("", "c", protocols={"range": subscription()})
    only_robin = h.join("", "d", protocols={"roundrobin": subscription()})
    assert h.state() == "PreparingRebalance"
    assert h.got(only_robin).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    finish(h, [h.joined(t) for t in (h.join(a, "a", protocols=both), h.join(b, "b", protocols=both), only_range)])
    late = h.join("", "e", protocols={"roundrobin": subscription()})
    assert h.got(late).error_code == E.INCONSISTENT_GROUP_PROTOCOL


def test_the_largest_size_counts_those_who_wait():
    h = Harness(group_max_size=3, plans=plans_from([("kgm.group.target.size", 5)]))
    h.stable("a", "b")
    c = h.join("", "c")
    assert h.got(h.join("", "d")).error_code == E.GROUP_MAX_SIZE_REACHED
    assert h.got(c) is None


def test_when_the_coordinator_moves_everybody_is_sent_on():
    h = planned(size=4)
    a, b = h.stable("a", "b")
    c = h.join("", "c")
    h.take(h.runtime.unload(now=h.now))
    assert h.got(c).error_code == E.NOT_COORDINATOR
    other = h.reload(plans=h.settings.plans)
    assert (other.state(), other.member_ids(), held(other)) == ("Stable", [a, b], ())
    other.join("", "c")
    assert held(other) == ("c",)


def test_a_fork_waits_on_its_own():
    h = planned(size=4)
    h.stable("a", "b")
    h.join("", "c", rebalance=5_000)
    twin = h.runtime.fork()
    twin.advance(h.now + 5_000)
    assert twin.engine.group("g").held == ()
    assert held(h) == ("c",)


# -- pre-registered instance ids


def test_pre_registered_ids_wait_for_each_other():
    """KIP-345, future work 1, with its number: 4 new instance ids are defined, and cost one rebalance."""
    h = planned(ids="a,b,n1,n2,n3,n4")
    a, b = h.stable("a", "b")
    tickets = [h.join("", name) for name in ("n1", "n2", "n3")]
    assert alive(h, a, b, ms=30_000) == {E.NONE}
    assert (h.state(), held(h)) == ("Stable", ("n1", "n2", "n3"))
    tickets.append(h.join("", "n4"))
    replies = [h.joined(ticket) for ticket in (h.join(a, "a"), h.join(b, "b"), *tickets)]
    assert finish(h, replies) == 2
    assert h.generation() == 2


@pytest.mark.parametrize("stranger", [None, "stranger"])
def test_who_is_not_registered_comes_as_ever_and_takes_along_who_waits(stranger):
    h = planned(ids="a,n1,n2")
    (a,) = h.stable("a")
    waiting = h.join("", "n1")
    member = "" if stranger else h.got(h.join("")).member_id
    ticket = h.join(member, stranger)
    assert h.state() == "PreparingRebalance"
    replies = [h.joined(each) for each in (h.join(a, "a"), ticket)]
    replies.append(h.joined(waiting))
    assert finish(h, replies) == 2
    assert len(h.member_ids()) == 3


def test_the_initial_delay_ends_early_when_all_registered_are_there():
    h = planned(ids="a,b")
    first = h.join("", "a")
    assert h.got(first) is None
    second = h.join("", "b")
    assert h.joined(first).generation_id == h.joined(second).generation_id == 1


def test_a_registered_member_that_comes_back_after_its_session_waits_for_those_who_are_missing():
    """What the plan costs while it is not fulfilled: `kgm.group.newcomer.max.wait.ms` bounds it."""
    h = planned(ids="a,b,n1", wait=7_000)
    a, _b = h.stable("a", "b")
    alive(h, a, ms=SESSION_MS)
    rejoin(h, (a, "a"))
    back = h.join("", "b")
    assert held(h) == ("b",)
    alive(h, a, ms=7_000)
    h.join(a, "a")
    assert h.joined(back).generation_id == 3


def test_a_registered_place_is_kept_for_its_owner():
    h = planned(ids="a,b,c,d", size=4)
    a, b = h.stable("a", "b")
    h.join("", "x")
    h.join("", "y")
    assert (h.state(), held(h)) == ("Stable", ("x", "y"))
    c = h.join("", "c")
    d = h.join("", "d")
    assert h.state() == "PreparingRebalance"
    assert held(h) == ("x", "y")
    replies = [h.joined(ticket) for ticket in (h.join(a, "a"), h.join(b, "b"), c, d)]
    finish(h, replies)
    assert [m.group_instance_id for m in h.engine.group("g").members] == list("abcd")
    assert held(h) == ("x", "y")


def test_nobody_waits_for_the_registered_where_nobody_works():
    h = planned(ids="a,b", size=2)
    (x,) = h.stable("x")
    y = h.join("", "y", protocols=OTHER)
    assert held(h) == ("y",)
    h.leave((x, None))
    assert h.joined(y).generation_id == 2
    assert h.state() == "CompletingRebalance"


# -- spares


def spare_group(**how):
    h = planned(size=2)
    return h, *h.stable("a", "b", **how)


def test_who_finds_no_place_is_a_spare():
    """KIP-345, future work 2: idle consumers are kept in the group."""
    h, a, b = spare_group()
    s = h.join("", "s")
    assert alive(h, a, b, ms=REBALANCE_MS - 1) == {E.NONE}
    assert (h.got(s), held(h)) == (None, ("s",))
    h.sleep(1)
    assert h.got(s).error_code == E.REBALANCE_IN_PROGRESS
    assert (h.state(), h.generation()) == ("Stable", 1)
    # As every client does, it joins again, and is a spare again.
    assert h.got(h.join("", "s")) is None
    assert held(h) == ("s",)


@pytest.mark.parametrize("v", [5, 9])
@pytest.mark.parametrize("gone", ["a", "b"])
@pytest.mark.parametrize("how", ["expires", "is removed"])
def test_a_spare_takes_the_place_of_a_member_that_goes(gone, how, v):
    """Future work 2: when an active member goes offline the spare is swapped in, without a rebalance."""
    h, a, b = spare_group()
    s = h.join("", "s", v=v)
    stays = {"a": b, "b": a}[gone]
    logged = len(h.log)
    if how == "expires":
        assert alive(h, stays, ms=SESSION_MS) == {E.NONE}
    else:
        h.leave(("", gone))
    reply = h.joined(s)
    assert (h.state(), h.generation(), reply.generation_id, held(h)) == ("Stable", 1, 1, ())
    assert h.assignments() == {stays: {a: b"a", b: b"b"}[stays], reply.member_id: gone.encode()}
    assert h.got(h.sync(reply.member_id, 1, instance="s")).assignment == gone.encode()
    assert h.heartbeat(reply.member_id, 1, "s") == h.heartbeat(stays, 1) == E.NONE
    # As after the restart of a static leader: it is told that it leads only if it knows what that means (KIP-814).
    leads = gone == "a"
    assert h.engine.group("g").leader == (reply.member_id if leads else a)
    assert reply.leader == (reply.member_id if leads and v == 9 else a)
    assert (reply.skip_assignment, bool(reply.members)) == ((leads and v == 9),) * 2
    # It is in the log, where a static member is found again.
    assert len(h.log) == logged + 1
    other = h.reload()
    assert (other.state(), other.assignments()) == ("Stable", h.assignments())
    assert [m.member_id for m in other.engine.group("g").members] == h.member_ids()
    # Who was away too long is a newcomer, and the next spare.
    h.join("", gone)
    assert held(h) == (gone,)


def test_a_rolling_bounce_of_dynamic_members_with_a_spare_costs_nothing():
    h = planned(size=2)
    a, b = h.stable(dynamic=2)
    spare = h.got(h.join("")).member_id
    waiting = {spare: h.join(spare)}
    for leaving in (a, b):
        h.leave((leaving, None))
        (taken,) = (h.joined(ticket) for ticket in waiting.values())
        assert h.got(h.sync(taken.member_id, 1)).assignment == leaving.encode()
        spare = h.got(h.join("")).member_id
        waiting = {spare: h.join(spare)}
    assert (h.state(), h.generation(), held(h)) == ("Stable", 1, (spare,))


def test_a_spare_with_another_subscription_costs_a_rebalance():
    h, a, b = spare_group()
    s = h.join("", "s", protocols=OTHER)
    alive(h, a, ms=SESSION_MS)
    assert h.state() == "PreparingRebalance"
    replies = [h.joined(h.join(a, "a")), h.joined(s)]
    assert finish(h, replies) == 2
    assert h.heartbeat(b, 2) == E.UNKNOWN_MEMBER_ID


def test_more_go_than_there_are_spares():
    h = planned(size=3)
    a, _b, _c = h.stable("a", "b", "c")
    s = h.join("", "s")
    h.leave(("", "b"), ("", "c"))
    assert h.joined(s).generation_id == 1
    assert h.state() == "PreparingRebalance"
    assert h.member_ids() == [a, h.got(s).member_id]
    assert h.got(h.sync(h.got(s).member_id, 1)).error_code == E.REBALANCE_IN_PROGRESS


def test_one_spare_for_each_that_goes():
    h = planned(size=3)
    _a, _, _ = h.stable("a", "b", "c")
    tickets = [h.join("", name) for name in ("s1", "s2")]
    h.leave(("", "b"), ("", "c"))
    assert [h.joined(ticket).generation_id for ticket in tickets] == [1, 1]
    assert [m.assignment for m in h.engine.group("g").members] == [b"a", b"b", b"c"]
    assert (h.state(), h.generation()) == ("Stable", 1)


@pytest.mark.parametrize("how", ["expires", "is removed"])
def test_a_swap_that_cannot_be_logged_is_a_rebalance(how):
    h, a, _ = spare_group()
    s = h.join("", "s")
    if how == "expires":
        h.sleep(SESSION_MS - 1)
        h.heartbeat(a, 1)
        h.fail_with = E.NOT_ENOUGH_REPLICAS
        h.sleep(1)
    else:
        h.fail_with = E.NOT_ENOUGH_REPLICAS
        assert h.leave(("", "b")).members[0].error_code == E.NONE
    assert (h.state(), h.member_ids(), h.got(s)) == ("PreparingRebalance", [a], None)
    h.fail_with = None
    replies = [h.joined(h.join(a, "a")), h.joined(s)]
    assert finish(h, replies) == 2


def test_a_group_above_its_target_lets_members_go():
    h = planned(size=2)
    ids = h.stable("a", "b")
    more = Harness(plans=plans_from([("kgm.group.target.size", 1)]))
    more.ids = more.engine._dispatcher.new_member_id = h.ids
    more.take(more.runtime.load(h.log, now=more.now))
    s = more.join("", "s")
    assert more.member_ids() == ids
    more.leave(("", "b"))
    assert (more.state(), more.got(s)) == ("PreparingRebalance", None)
    more.joined(more.join(ids[0], "a"))
    assert (more.member_ids(), held(more)) == ([ids[0]], ("s",))


# -- connections


@pytest.mark.parametrize("instance", [None, "c"])
def test_a_held_newcomer_whose_connection_ends_is_given_up(instance):
    """Else it would get partitions when the others have come, and nobody would read them until its session ends."""
    h = planned(size=4)
    a, b = h.stable("a", "b")
    ticket = h.join("" if instance else h.got(h.join("")).member_id, instance)
    h.take(h.runtime.disconnected(ticket, now=h.now))
    assert h.got(ticket).error_code == E.UNKNOWN_MEMBER_ID
    assert (h.state(), held(h)) == ("Stable", ())
    assert HOLD not in h.engine.deadlines
    h.join("", "d")
    assert held(h) == ("d",)  # it is the third, not the fourth
    assert alive(h, a, b) == {E.NONE}


def test_a_connection_that_ends_means_nothing_to_who_is_not_held():
    h = planned(size=3)
    a, b = h.stable("a", "b")
    c = h.join("", "c")  # complete: a rebalance
    before = h.engine.group("g"), dict(h.engine.deadlines)
    assert h.runtime.disconnected(c, now=h.now) == ()
    assert (h.engine.group("g"), dict(h.engine.deadlines)) == before
    finish(h, [h.joined(t) for t in (h.join(a, "a"), h.join(b, "b"), c)])


def test_without_plans_connections_mean_nothing():
    h = Harness()
    h.stable("a")
    ticket = h.join("", "b")
    assert h.runtime.disconnected(ticket, now=h.now) == ()
    assert h.state() == "PreparingRebalance"
