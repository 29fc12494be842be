"""Static membership (KIP-345, KIP-814): behaviours B038-B054 of Apache Kafka 4.3.0's coordinator."""

import pytest

from kgm.coordinator.groups.classic_state import ClassicState
from kgm.model.errors import ErrorCode as E
from tests.coordinator.behaviours import rule
from tests.coordinator.harness import REBALANCE_MS, SESSION_MS, Harness, subscription

TWO = {"range": subscription(), "roundrobin": subscription()}
OTHER_TOPIC = {"range": subscription("other")}


@pytest.fixture
def h():
    return Harness()


def record_of(h):
    value = h.log[-1].value
    return value.generation, value.leader, [(m.member_id, m.group_instance_id, m.assignment) for m in value.members]


@rule("B038")
@pytest.mark.parametrize("v", [5, 9])
def test_a_restart_in_stable_keeps_generation_and_assignment(h, v):
    a, b = h.stable("a", "b")
    logged = len(h.log)
    reply = h.got(h.join("", "b", v=v))
    assert (reply.error_code, reply.generation_id, reply.leader) == (E.NONE, 1, a)
    assert (reply.members, reply.skip_assignment) == ([], False)
    assert reply.member_id not in (a, b)
    assert (h.state(), h.generation()) == ("Stable", 1)
    assert h.assignments() == {a: b"a", reply.member_id: b"b"}
    assert len(h.log) == logged + 1
    assert record_of(h) == (1, a, [(a, "a", b"a"), (reply.member_id, "b", b"b")])


@rule("B039")
@pytest.mark.parametrize("instance", ["a", "b"])
def test_a_restart_that_cannot_be_appended_changes_nothing(h, instance):
    a, b = h.stable("a", "b")
    before = h.engine.group("g")
    h.sleep(SESSION_MS - 1)
    h.fail_with = E.NOT_ENOUGH_REPLICAS
    reply = h.got(h.join("", instance, v=9, session=SESSION_MS * 3, rebalance=1, protocols=TWO))
    assert (reply.error_code, reply.member_id) == (E.COORDINATOR_NOT_AVAILABLE, "")
    assert (reply.generation_id, reply.leader, reply.protocol_name, reply.protocol_type) == (1, a, "range", "consumer")
    after = h.engine.group("g")
    assert [m.member_id for m in after.members] == [a, b]
    assert [m.protocols for m in after.members] == [m.protocols for m in before.members]
    assert [m.rebalance_timeout_ms for m in after.members] == [REBALANCE_MS] * 2
    # The old id gets a new session.
    old = after.members[0 if instance == "a" else 1]
    assert old.session_deadline_ms == h.now + SESSION_MS
    h.fail_with = None
    assert h.heartbeat(old.member_id, 1, instance) == E.NONE


@rule("B040")
def test_a_restarted_leader_v9_leads_and_skips_the_assignment(h):
    a, b = h.stable("a", "b")
    reply = h.got(h.join("", "a", v=9))
    assert reply.leader == reply.member_id != a
    assert reply.skip_assignment
    assert [m.member_id for m in reply.members] == [b, reply.member_id]
    assert (h.state(), h.engine.group("g").leader) == ("Stable", reply.member_id)


@rule("B040")
@pytest.mark.parametrize("v", [5, 8])
def test_before_v9_a_restarted_leader_gets_its_old_id_as_the_leader(h, v):
    a, _ = h.stable("a", "b")
    reply = h.got(h.join("", "a", v=v))
    assert (reply.leader, reply.skip_assignment, reply.members) == (a, False, [])
    assert h.engine.group("g").leader == reply.member_id


@rule("B041")
def test_a_leader_with_its_member_id_rebalances(h):
    a, _ = h.stable("a", "b")
    assert h.got(h.join(a, "a")) is None
    assert h.state() == "PreparingRebalance"


@rule("B042")
def test_a_restarted_follower_does_not_rebalance(h):
    _a, _b = h.stable("a", "b")
    reply = h.got(h.join("", "b"))
    assert (reply.error_code, reply.generation_id, h.state()) == (E.NONE, 1, "Stable")


@rule("B043")
def test_a_follower_joins_again_with_its_member_id_and_no_change(h):
    _, b = h.stable("a", "b")
    reply = h.got(h.join(b, "b"))
    assert (reply.error_code, reply.generation_id, reply.member_id, h.state()) == (E.NONE, 1, b, "Stable")


@rule("B044")
def test_a_restart_that_changes_the_selected_protocol_rebalances(h):
    a, _b = h.stable("a", "b", protocols=TWO)
    ticket = h.join("", "b", protocols={"roundrobin": subscription()})
    assert (h.got(ticket), h.state()) == (None, "PreparingRebalance")
    other = h.join(a, "a", protocols=TWO)
    assert (h.got(ticket).protocol_name, h.got(other).protocol_name) == ("roundrobin", "roundrobin")
    assert h.got(other).generation_id == 2
    assert [m.group_instance_id for m in h.got(other).members] == ["a", "b"]


@rule("B045")
def test_a_restart_that_keeps_the_selected_protocol_does_not(h):
    h.stable("a", "b", protocols=TWO)
    reply = h.got(h.join("", "b", protocols={"range": subscription(), "other": b""}))
    assert (reply.error_code, reply.generation_id, h.state()) == (E.NONE, 1, "Stable")


@rule("B045")
def test_a_restart_with_a_changed_subscription_does_not_rebalance(h):
    """A known gap of Kafka's: KAFKA-12759."""
    h.stable("a", "b")
    assert h.got(h.join("", "b", protocols=OTHER_TOPIC)).generation_id == 1
    assert h.state() == "Stable"


@rule("B046")
def test_a_restart_in_completing_rebalances(h):
    a, b = h.completing("a", "b")
    waiting = h.sync(a, 1, instance="a") if h.engine.group("g").leader != a else h.sync(b, 1, instance="b")
    ticket = h.join("", "a")
    assert (h.got(ticket), h.state()) == (None, "PreparingRebalance")
    assert h.got(waiting).error_code == E.REBALANCE_IN_PROGRESS


@rule("B047")
@pytest.mark.parametrize("instance", ["a", "b"])
def test_a_duplicate_in_preparing_fences_the_parked_join(h, instance):
    ids = dict(zip("abc", h.stable("a", "b", "c"), strict=True))
    first = h.join(ids["a"], "a")
    if instance == "b":
        first = h.join(ids["b"], "b")
    second = h.join("", instance)
    reply = h.got(first)
    assert (reply.error_code, reply.member_id, reply.leader) == (E.FENCED_INSTANCE_ID, ids[instance], "")
    assert h.got(second) is None
    # The phase goes on with the duplicate in the place of the first.
    others = [h.join(ids[i], i) for i in "abc" if i != instance and (instance, i) != ("b", "a")]
    assert {h.got(ticket).generation_id for ticket in [second, *others]} == {2}


@rule("B048")
def test_a_duplicate_in_completing_fences_the_parked_sync(h):
    _, b = h.completing("a", "b")
    parked = h.sync(b, 1, instance="b")
    h.join("", "b")
    assert h.got(parked).error_code == E.FENCED_INSTANCE_ID


@rule("B049")
@pytest.mark.parametrize("mine", ["a", "b"])
def test_a_member_id_with_another_instance_id_is_fenced(h, mine):
    ids = dict(zip("ab", h.stable("a", "b"), strict=True))
    other = "b" if mine == "a" else "a"
    reply = h.got(h.join(ids[mine], other))
    assert (reply.error_code, reply.member_id) == (E.FENCED_INSTANCE_ID, ids[mine])
    assert h.state() == "Stable"


@rule("B050")
def test_an_unknown_instance_id_with_a_known_member_id(h):
    a, _ = h.stable("a", "b")
    reply = h.got(h.join(a, "nobody"))
    assert (reply.error_code, reply.member_id) == (E.UNKNOWN_MEMBER_ID, a)


@rule("B051")
def test_every_restart_gets_another_id(h):
    h.stable("a", "b")
    ids = {h.got(h.join("", "b")).member_id for _ in range(5)}
    assert len(ids) == 5
    assert all(member.startswith("b-") for member in ids)


@rule("B052")
def test_a_restart_takes_the_new_timeouts(h):
    h.stable("a", "b")
    member = h.got(h.join("", "b", session=20_000, rebalance=90_000)).member_id
    view = h.engine.group("g").members[1]
    assert (view.session_timeout_ms, view.rebalance_timeout_ms) == (20_000, 90_000)
    # The first session is still as long as the old one; from the next heartbeat on it is the new one.
    assert view.session_deadline_ms == h.now + SESSION_MS
    assert h.heartbeat(member, 1, "b") == E.NONE
    assert h.engine.group("g").members[1].session_deadline_ms == h.now + 20_000


@rule("B053")
def test_a_static_member_to_replace_in_an_empty_group_is_a_bug(h):
    h.stable("a")
    h.engine._state.groups["g"].state = ClassicState.EMPTY
    with pytest.raises(AssertionError):
        h.join("", "a")


@rule("B054")
def test_the_old_id_is_fenced_by_instance_id_and_unknown_without(h):
    a, _ = h.stable("a", "b")
    new = h.got(h.join("", "a", v=9)).member_id
    assert h.got(h.sync(a, 1, instance="a")).error_code == E.FENCED_INSTANCE_ID
    assert h.got(h.sync(a, 1)).error_code == E.UNKNOWN_MEMBER_ID
    assert (h.heartbeat(a, 1, "a"), h.heartbeat(a, 1)) == (E.FENCED_INSTANCE_ID, E.UNKNOWN_MEMBER_ID)
    assert (h.commit(a, 1, "a"), h.commit(a, 1)) == (E.FENCED_INSTANCE_ID, E.UNKNOWN_MEMBER_ID)
    assert [m.error_code for m in h.leave((a, "a"), (a, None)).members] == [E.FENCED_INSTANCE_ID, E.UNKNOWN_MEMBER_ID]
    assert h.got(h.join(a, "a")).error_code == E.FENCED_INSTANCE_ID
    assert h.got(h.join(a)).error_code == E.UNKNOWN_MEMBER_ID
    # The new one is not touched by any of it, and a static member may leave its instance id out.
    assert (h.heartbeat(new, 1, "a"), h.heartbeat(new, 1)) == (E.NONE, E.NONE)
    assert h.got(h.sync(new, 1, instance="a")).assignment == b"a"


def test_a_restart_between_join_and_sync_costs_a_rebalance_when_the_sync_phase_ends(h):
    """A quirk of Kafka's: the old member id is still awaited, though nobody has it any more."""
    a, b = h.completing("a", "b")
    h.sync(a, 1, {a: b"1", b: b"2"}, instance="a")
    assert h.state() == "Stable"
    new = h.got(h.join("", "b")).member_id
    assert h.got(h.sync(new, 1, instance="b")).assignment == b"2"
    for _ in range(REBALANCE_MS // 5_000 - 1):
        h.sleep(5_000)
        assert (h.heartbeat(a, 1), h.heartbeat(new, 1)) == (E.NONE, E.NONE)
    h.sleep(5_000)
    assert h.state() == "PreparingRebalance"
    assert h.member_ids() == [a, new]


@pytest.mark.parametrize("timeout", [0, -1, 1])
def test_a_phase_that_nobody_joins_passes_time_whatever_the_rebalance_timeout_is(h, timeout):
    """Static members without a rebalance timeout, one of which leaves: the phase ends as soon as one of them is there."""
    h.stable("a", "b", "c", v=9)
    a, _, c = (h.got(h.join("", name, v=9, rebalance=timeout)).member_id for name in "abc")
    h.leave((c, "c"))
    h.sleep(100)
    assert h.state() == "PreparingRebalance"
    waiting = h.join(a, "a", v=9, rebalance=timeout)
    h.sleep(1)
    assert h.got(waiting).generation_id == 2
