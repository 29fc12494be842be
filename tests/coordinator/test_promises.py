"""What the KIPs promise, one test a promise, with the numbers of their own examples.

KIP-345 is static membership, KIP-792 generations in subscriptions, KIP-814 restarted static leaders."""

import pytest

from kgm.model.errors import ErrorCode as E
from tests.coordinator.fleet import Fleet
from tests.coordinator.harness import Harness

ASSIGNORS = pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
HALF_AN_HOUR_MS = 1_800_000


def thirds(*names):
    """The assignment of the KIP's example: 9 partitions by range."""
    return dict(zip(names, [(0, 1, 2), (3, 4, 5), (6, 7, 8)], strict=True))


def leader_rejoins(fleet, count=1):
    """Something makes the group rebalance: its leader joins with the id that it has, as after a change of topics."""
    for _ in range(count):
        leader = fleet.h.engine.group("g").leader
        fleet.join(next(one for one in fleet.up.values() if one.member_id == leader))
        fleet.settle()


# -- the example of the nine partitions


def example(*, static):
    """members {A=1, B=2, C=3}, generation 5, 9 partitions by range."""
    fleet = Fleet("range", partitions=9)
    fleet.number_members_from_one()
    fleet.form("A", "B", "C", static=static)
    leader_rejoins(fleet, 4)
    assert {one.name: one.member_id for one in fleet.up.values()} == {"A": "1", "B": "2", "C": "3"}
    assert fleet.generation == 5
    return fleet


def test_the_nine_partitions_of_the_range_example_stay_put_across_a_restart():
    """KIP-345, Client Behavior Changes: with the instance id as the first sort key the range assignor computes the same
    assignment although member 1 has become member 4."""
    fleet = example(static=True)
    assert fleet.assigned == thirds("A", "B", "C")
    fleet.stop("A")
    fleet.start("A")
    fleet.settle()
    # "the coordinator will assign a new memberId to A and let it continue using the previous assignment"
    assert {one.name: one.member_id for one in fleet.up.values()} == {"B": "2", "C": "3", "A": "4"}
    assert (fleet.generation, fleet.owned["A"]) == (5, (0, 1, 2))
    # "eventually something causes the group to rebalance: the leader will see the members {2, 3, 4}"
    leader_rejoins(fleet)
    seen = next(reply.members for one in fleet.up.values() for reply in one.replies[-1:] if reply.members)
    assert {row.member_id: row.group_instance_id for row in seen} == {"2": "B", "3": "C", "4": "A"}
    assert fleet.generation == 6
    assert fleet.owned == thirds("A", "B", "C")


def test_without_instance_ids_every_assignment_of_the_example_changes():
    """KIP-345, the same example before the KIP: {2, 3, 4} sort differently from {1, 2, 3}, and all nine partitions get
    another owner."""
    fleet = example(static=False)
    before = {one.member_id: one.owned for one in fleet.up.values()}
    assert before == thirds("1", "2", "3")
    fleet.stop("A")
    fleet.start("A", static=False)
    fleet.settle()
    assert {one.member_id: one.owned for one in fleet.up.values()} == thirds("2", "3", "4")
    assert fleet.owned == thirds("B", "C", "A")
    assert not [p for name, owned in thirds("A", "B", "C").items() for p in owned if p in fleet.owned[name]]


# -- rolling bounces


@ASSIGNORS
def test_a_rolling_bounce_of_a_static_fleet_causes_no_rebalance(assignor):
    """KIP-345, Motivation: a constant number of rebalances for the entire rolling bounce, as long as everybody is back
    within the timeout. Since a leader that restarts costs none either (Non Goal, update of 2/12), the constant is 0."""
    fleet = Fleet(assignor, partitions=12)
    names = [f"m{n}" for n in range(6)]
    fleet.form(*names)
    owned, rebalances, generation, joins = fleet.owned, fleet.rebalances, fleet.generation, fleet.up["m5"].joins
    for name in names:
        fleet.stop(name)
        fleet.run(9_000)
        fleet.start(name)
        fleet.settle()
        assert fleet.h.state() == "Stable"
        assert fleet.owned == owned
        if name != "m5":
            assert fleet.up["m5"].joins == joins, "somebody else was disturbed"
    assert (fleet.rebalances, fleet.generation) == (rebalances, generation)


@pytest.mark.parametrize(("how", "each"), [("kill", 1), ("stop", 2)])
def test_a_rolling_bounce_of_a_dynamic_fleet_costs_a_rebalance_for_each_restart(how, each):
    """KIP-345, Motivation: one process restart triggers one rebalance. That is so where the process is killed; where it
    says goodbye, its leaving costs another one."""
    fleet = Fleet("range", partitions=12)
    names = [f"m{n}" for n in range(6)]
    fleet.form(*names, static=False)
    before = fleet.rebalances
    for done, name in enumerate(names, start=1):
        getattr(fleet, how)(name)
        if how == "stop":
            fleet.settle()
        fleet.start(name, static=False)
        fleet.settle()
        assert len(fleet.members) == 6
        assert fleet.rebalances - before == each * done
    assert fleet.everything_is_read_once()


# -- scale down


def six():
    fleet = Fleet("range", partitions=12)
    fleet.form(*[f"m{n}" for n in range(6)])
    return fleet


LEAVING = ["m3", "m4", "m5"]


def test_scale_in_by_one_batch_leave_costs_exactly_one_rebalance():
    """KIP-345, Scale Down: LeaveGroup takes a list, to remove offline members in a batch and rebalance immediately."""
    fleet = six()
    before = fleet.rebalances
    for name in LEAVING:
        fleet.stop(name)
    reply = fleet.h.leave(*[("", name) for name in LEAVING])
    assert [m.error_code for m in reply.members] == [E.NONE] * 3
    fleet.settle()
    fleet.run(120_000)
    assert fleet.rebalances - before == 1
    assert fleet.members == ["m0", "m1", "m2"]
    assert fleet.everything_is_read_once()


def test_scale_in_without_the_batch_costs_one_for_each_member():
    """The same members one by one, as LeaveGroup was before KIP-345."""
    fleet = six()
    before = fleet.rebalances
    for name in LEAVING:
        fleet.stop(name)
        fleet.h.leave(("", name))
        fleet.settle()
    assert fleet.rebalances - before == 3
    assert fleet.everything_is_read_once()


def test_scale_in_without_an_operator_waits_for_each_session():
    """KIP-345, Scale Down: without LeaveGroup it is the session timeout that triggers the rebalance. Until then nobody
    reads those partitions."""
    fleet = six()
    before = fleet.rebalances
    for gone, name in enumerate(LEAVING):
        fleet.stop(name)
        fleet.run(6_000)
        assert fleet.rebalances - before == gone
        assert not fleet.everything_is_read_once()
        fleet.run(12_000)
        assert fleet.rebalances - before == gone + 1
        assert fleet.everything_is_read_once()


# -- upgrade and downgrade


def test_upgrade_from_dynamic_to_static_one_member_at_a_time():
    """KIP-345, Upgrade Process: set the instance id, bounce the group in a rolling way; static and dynamic members
    coexist in one group. Each step costs what a dynamic bounce costs; afterwards bounces cost nothing."""
    fleet = Fleet("range", partitions=9)
    fleet.form("A", "B", "C", static=False)
    assert (fleet.members, fleet.rebalances) == ([None] * 3, 1)
    states = []
    for name in "ABC":
        fleet.stop(name)  # still dynamic: it leaves
        fleet.settle()
        fleet.start(name)
        fleet.settle()
        states.append((sorted(str(instance) for instance in fleet.members), fleet.rebalances, fleet.owned))
        assert fleet.everything_is_read_once()
    assert states[0][:2] == (["A", "None", "None"], 3)
    assert states[0][2]["A"] == (0, 1, 2), "static members sort before dynamic ones"
    assert {states[0][2][name] for name in "BC"} == {(3, 4, 5), (6, 7, 8)}
    assert states[1] == (["A", "B", "None"], 5, thirds("A", "B", "C"))
    assert states[2] == (["A", "B", "C"], 7, thirds("A", "B", "C"))
    for name in "ABC":
        fleet.stop(name)
        fleet.start(name)
        fleet.settle()
    assert (fleet.rebalances, fleet.owned) == (7, thirds("A", "B", "C"))


def test_downgrade_from_static_to_dynamic_one_member_at_a_time():
    """KIP-345, Downgrade Process: unset the instance id and bounce in a rolling way; the dynamic member gets a new
    member id, and the static one's metadata is wiped out when its session ends: by then, with Kafka's defaults, the
    join phase that the newcomer began is still waiting for it, and that is one rebalance a step."""
    fleet = Fleet("range", partitions=9, session=45_000, rebalance=300_000)
    fleet.form("A", "B", "C")
    rebalances = fleet.rebalances
    for done, name in enumerate("ABC", start=1):
        fleet.stop(name)  # static: it says nothing
        fleet.start(name, static=False)
        fleet.settle(patience=False)
        assert sorted(filter(None, fleet.members)) == list("ABC"[done - 1 :]), "the seat is still there"
        assert (fleet.h.state(), fleet.rebalances - rebalances) == ("PreparingRebalance", done - 1)
        fleet.run(46_000)
        assert sorted(filter(None, fleet.members)) == list("ABC"[done:])
        assert (fleet.members.count(None), fleet.rebalances - rebalances) == (done, done)
        assert fleet.everything_is_read_once()
    assert fleet.members == [None] * 3


def test_downgrade_with_a_session_longer_than_the_rebalance_timeout_costs_two_a_step():
    """The same where the join phase ends first: the seat of the static member outlives it with a share of the
    partitions, which nobody reads until it goes."""
    fleet = Fleet("range", partitions=9, session=120_000, rebalance=20_000)
    fleet.form("A", "B", "C")
    rebalances = fleet.rebalances
    fleet.stop("A")
    fleet.start("again", static=False)
    fleet.settle()
    assert sorted(map(str, fleet.members)) == ["A", "B", "C", "None"]
    assert fleet.rebalances - rebalances == 1
    assert sum(map(len, fleet.assigned.values())) == 9
    assert not fleet.everything_is_read_once()
    fleet.run(121_000)
    assert sorted(map(str, fleet.members)) == ["B", "C", "None"]
    assert fleet.rebalances - rebalances == 2
    assert fleet.everything_is_read_once()


def test_a_static_member_that_leaves_by_member_id_alone_is_gone_with_its_instance_id():
    """KIP-345, Switching from Static Member to Dynamic Member: LeaveGroup with the id of a static member and no instance
    id removes the member with its static info."""
    fleet = Fleet("range", partitions=9)
    fleet.form("A", "B", "C")
    gone = fleet.kill("A")
    assert fleet.h.leave((gone.member_id, None)).members[0].error_code == E.NONE
    fleet.start("A", static=False)
    fleet.settle()
    assert sorted(map(str, fleet.members)) == ["B", "C", "None"]
    assert fleet.rebalances == 2
    assert fleet.everything_is_read_once()


# -- the session timeout


def test_a_session_timeout_of_half_an_hour_is_the_longest_allowed():
    """KIP-345, Server Side Changes: GroupMaxSessionTimeoutMs = 1800000, 30 min for max cap."""
    h = Harness()
    refused = h.got(h.join("", "A", session=HALF_AN_HOUR_MS + 1))
    assert refused.error_code == E.INVALID_SESSION_TIMEOUT
    assert h.state() is None
    assert h.got(h.join("", "A", session=HALF_AN_HOUR_MS)) is None
    assert h.member_ids() == ["A-1"]


def test_only_the_session_timeout_removes_a_silent_static_member_of_a_stable_group():
    """KIP-345, Rolling Bounce: in summary, the member will only be removed due to session timeout. Its seat lives
    through 30 min less a millisecond of others' heartbeats, commits, restarts and dynamic clients' failures to join."""
    fleet = Fleet("range", partitions=9, session=HALF_AN_HOUR_MS, rebalance=60_000)
    fleet.form("A", "B", "C")
    silent = fleet.up["C"].member_id
    since = fleet.h.now
    fleet.kill("C")
    for minute in range(1, 30):
        fleet.run(since + minute * 60_000 - fleet.h.now)
        name = "AB"[minute % 2]
        fleet.stop(name)
        fleet.start(name)
        fleet.settle()
        one = fleet.up[name]
        assert fleet.h.commit(one.member_id, one.generation, one.instance) == E.NONE
        assert sorted(fleet.members) == ["A", "B", "C"]
    fleet.run(since + HALF_AN_HOUR_MS - 1 - fleet.h.now)
    assert (fleet.h.state(), fleet.generation) == ("Stable", 1)
    assert silent in fleet.h.member_ids()
    fleet.h.sleep(1)
    assert fleet.h.state() == "PreparingRebalance"
    assert silent not in fleet.h.member_ids()
    fleet.settle()
    assert (fleet.generation, fleet.owned) == (2, {"A": (0, 1, 2, 3, 4), "B": (5, 6, 7, 8)})


def test_a_join_phase_ends_without_removing_a_static_member_that_is_away():
    """KIP-345, Rolling Bounce: the rebalance timeout only stops PREPARE_REBALANCE, it does not remove members that are
    temporarily away; and there is no full rebalance if the lagging one joins within its session timeout."""
    fleet = Fleet("range", partitions=9, session=HALF_AN_HOUR_MS, rebalance=60_000)
    fleet.form("A", "B", "C")
    fleet.kill("C")
    leader_rejoins(fleet)
    assert (sorted(fleet.members), fleet.generation) == (["A", "B", "C"], 2)
    assert fleet.assigned == thirds("A", "B", "C")
    fleet.start("C")
    fleet.settle()
    assert (fleet.generation, fleet.owned) == (2, thirds("A", "B", "C"))


# -- duplicates and leaders


@pytest.mark.parametrize("name", ["A", "B"])
def test_a_duplicate_instance_id_fences_who_had_it(name):
    """KIP-345, Join Group Logic Change: the mapping is updated on each join; whoever comes with an outdated member id
    is refused with FENCED_INSTANCE_ID on join, sync, heartbeat and commit, and is to fail at once."""
    fleet = Fleet("range", partitions=9)
    fleet.form("A", "B", "C")
    old = fleet.kill(name)
    fleet.start(name)
    fleet.settle()
    h, who = fleet.h, (old.member_id, old.instance)
    assert h.got(h.join(*who)).error_code == E.FENCED_INSTANCE_ID
    assert h.got(h.sync(old.member_id, 1, instance=old.instance)).error_code == E.FENCED_INSTANCE_ID
    assert h.heartbeat(old.member_id, 1, old.instance) == E.FENCED_INSTANCE_ID
    assert h.commit(old.member_id, 1, old.instance) == E.FENCED_INSTANCE_ID
    fleet.up["twin"] = old
    fleet.settle()
    assert old.fenced
    # The group has not noticed any of it.
    assert (fleet.generation, fleet.rebalances, fleet.h.state()) == (1, 1, "Stable")
    del fleet.up["twin"]
    assert fleet.owned == thirds("A", "B", "C")


def test_a_leader_that_restarts_causes_no_rebalance_but_one_that_rejoins_does():
    """KIP-345, Non Goal, update of 2/12: a leader that joins with its member id has another purpose than a rolling
    bounce; UNKNOWN_MEMBER_ID alone says that it restarted, and no rebalance is to be expected."""
    fleet = Fleet("range", partitions=9)
    fleet.form("A", "B", "C")
    view = fleet.h.engine.group("g")
    leader = next(m.group_instance_id for m in view.members if m.member_id == view.leader)
    fleet.stop(leader)
    again = fleet.start(leader)
    fleet.settle()
    assert (fleet.generation, fleet.h.engine.group("g").leader) == (1, again.member_id)
    leader_rejoins(fleet)
    assert (fleet.generation, fleet.rebalances) == (2, 2)


# -- KIP-814


@pytest.mark.parametrize(("version", "assigned"), [(9, 12), (8, 9)])
def test_a_restarted_static_leader_still_leads(version, assigned):
    """KIP-814: a static leader that restarts is told who the members are and that it need not assign, so that it goes on
    watching the topics, and asks for a rebalance when partitions are added. An older one (JoinGroup before v9) is told
    the id that it had before, takes itself for a follower, and nobody hands the new partitions out (KAFKA-13435)."""
    fleet = Fleet("range", partitions=9)
    fleet.form("A", "B", "C", version=version)
    view = fleet.h.engine.group("g")
    name = next(m.group_instance_id for m in view.members if m.member_id == view.leader)
    fleet.stop(name)
    again = fleet.start(name, version=version)
    fleet.settle()
    reply = again.replies[-1]
    knows = reply.leader == reply.member_id
    assert (knows, reply.skip_assignment) == (version == 9,) * 2
    assert sorted(row.group_instance_id for row in reply.members) == (["A", "B", "C"] if knows else [])
    assert fleet.generation == 1
    fleet.topics["t"] = 12
    watching = [one for one in fleet.up.values() if one.replies[-1].leader == one.member_id]
    for one in watching:
        fleet.join(one)
    fleet.settle()
    assert sum(map(len, fleet.owned.values())) == assigned
    assert fleet.generation == (2 if watching else 1)


# -- KIP-792


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_a_stale_claim_is_seen_through_by_its_generation(assignor):
    """KIP-792, Rejected Alternatives, the example: member A joins with the claims of generation 1 while the group is at
    generation 3; the leader ignores them, and A need not join again for that. Nobody reads a partition twice, and those
    who own partitions now keep as many as is fair."""
    fleet = Fleet(assignor, partitions=9)
    fleet.form("A", "B", "C", static=False)
    stale = fleet.up["A"].said
    assert (len(stale[0]), stale[1]) == (3, fleet.generation)
    away = fleet.kill("A")
    fleet.run(20_000)
    leader_rejoins(fleet)
    assert fleet.generation >= 3
    current = fleet.owned
    assert fleet.everything_is_read_once()
    assert set(stale[0]) <= {p for owned in current.values() for p in owned}
    # A wakes up, and does not know that its partitions have been given to others.
    fleet.up["A"] = away
    away.joining = None
    joins = away.joins
    fleet.settle()
    assert away.said[1] == fleet.generation
    assert fleet.everything_is_read_once()
    for name in "BC":
        assert set(fleet.owned[name]) <= set(current[name])
        assert len(fleet.owned[name]) == 3
    # MEMBER_ID_REQUIRED, and the second round of the cooperative protocol, are all that A has to join again for.
    assert away.joins - joins == (2 if assignor == "sticky" else 3)


def test_without_generations_two_claims_are_worth_the_same():
    """KIP-792, Motivation: owned partitions without a generation are like TCP without sequence numbers. Where nobody
    tells one, the leader cannot know whose claim is old; it trusts neither."""
    for told in (True, False):
        fleet = Fleet("cooperative-sticky", partitions=2)
        fleet.form("B", static=False)
        (b,) = fleet.up.values()
        b.said = ((0, 1), b.generation if told else -1)
        a = fleet.start("A", static=False)
        a.said = ((0,), 0 if told else -1)
        a.owned = (0,)
        fleet.settle()
        assert sum(map(len, fleet.assigned.values())) == 2
        kept = set(fleet.assigned["B"])
        assert len(kept) == 1


# -- requests, one by one


def test_the_six_cases_of_the_join_discussion():
    """KIP-345, the comments below it: member id known, unknown or empty, with and without an instance id. Where Kafka's
    code ended up stricter than the discussion, what the code does is said here."""
    h = Harness()
    a, b, dynamic = h.stable("A", "B", dynamic=1)
    leader = h.engine.group("g").leader
    assert leader == a
    # 1. Known, none: as before. An unchanged follower is told the generation that is; nothing rebalances.
    assert h.got(h.join(dynamic)).generation_id == 1
    # 2. Unknown, none: rejected.
    assert h.got(h.join("nobody")).error_code == E.UNKNOWN_MEMBER_ID
    # 3. Empty, none: an id is made, and the member has to come back with it (KIP-394).
    reply = h.got(h.join(""))
    assert (reply.error_code, bool(reply.member_id)) == (E.MEMBER_ID_REQUIRED, True)
    h.leave((reply.member_id, None))
    finish = [h.join(member, instance) for member, instance in ((a, "A"), (b, "B"), (dynamic, None))]
    assert {h.joined(ticket).generation_id for ticket in finish} == {2}
    plan = {a: b"A", b: b"B", dynamic: b"D"}
    for member in (b, dynamic, a):
        h.sync(member, 2, plan)
    # 4. Known, given: who does not match is refused (MEMBER_ID_MISMATCH in the discussion, FENCED_INSTANCE_ID now) ...
    assert h.got(h.join(b, "B")).generation_id == 2
    assert h.got(h.join(dynamic, "B")).error_code == E.FENCED_INSTANCE_ID
    # ... and a dynamic member does not become a static one in place: its instance id is not known.
    assert h.got(h.join(dynamic, "C")).error_code == E.UNKNOWN_MEMBER_ID
    # 5. Unknown, given: the discussion would let it take over; Kafka asks it to come without its old id.
    assert h.got(h.join("nobody", "B")).error_code == E.FENCED_INSTANCE_ID
    assert h.got(h.join("nobody", "C")).error_code == E.UNKNOWN_MEMBER_ID
    assert (h.state(), h.generation()) == ("Stable", 2)
    # 6. Empty, given: known, it takes over with the old assignment and no MEMBER_ID_REQUIRED; new, it is added.
    again = h.got(h.join("", "B"))
    assert (again.error_code, again.generation_id) == (E.NONE, 2)
    assert h.got(h.sync(again.member_id, 2)).assignment == b"B"
    assert h.got(h.join("", "C")) is None
    assert h.state() == "PreparingRebalance"


def test_leaving_with_an_instance_id_a_member_id_or_both():
    """KIP-345, Leave Group Logic Change: the instance id is enough; a member id beside it must match; an instance id
    that is not there, or nothing at all, is UNKNOWN_MEMBER_ID; and one bad row spoils no other."""
    h = Harness()
    a, b, c, dynamic = h.stable("A", "B", "C", dynamic=1)
    rows = [("", "A"), (b, "B"), (b, "C"), ("", "nobody"), ("", None), ("", ""), (dynamic, None)]
    errors = [row.error_code for row in h.leave(*rows).members]
    fenced, unknown = E.FENCED_INSTANCE_ID, E.UNKNOWN_MEMBER_ID
    # B has gone by the second row: its id is fenced where it says that it is C.
    assert errors == [E.NONE, E.NONE, fenced, unknown, unknown, unknown, E.NONE]
    assert h.member_ids() == [c]
    assert a not in h.member_ids()


def test_static_members_outlive_their_coordinator():
    """KIP-345, Fault-tolerance of Static Membership: the mapping of instance ids is in `__consumer_offsets`, and another
    broker that takes the leadership loads it: who restarts then gets what it had, without a rebalance."""
    fleet = Fleet("range", partitions=9)
    fleet.form("A", "B", "C")
    fleet.stop("B")
    fleet.start("B")
    fleet.settle()
    fleet.h = fleet.h.reload()
    assert (fleet.h.state(), fleet.generation) == ("Stable", 1)
    for name in "ABC":
        fleet.stop(name)
        fleet.run(6_000)
        fleet.start(name)
        fleet.settle()
    assert (fleet.h.state(), fleet.generation, fleet.owned) == ("Stable", 1, thirds("A", "B", "C"))
    # Whoever is silent from then on has one whole session.
    fleet.kill("C")
    fleet.h = fleet.h.reload()
    fleet.run(9_000)
    assert fleet.generation == 1
    fleet.run(3_000)
    fleet.settle()
    assert (fleet.generation, fleet.members) == (2, ["A", "B"])
