"""SyncGroup: behaviours B055-B062 of Apache Kafka 4.3.0's coordinator."""

import pytest

from kgm.model.errors import ErrorCode as E
from tests.coordinator.behaviours import rule
from tests.coordinator.harness import SESSION_MS, Harness


@pytest.fixture
def h():
    return Harness()


@rule("B055")
def test_sync_of_unknown_group_and_member_and_generation(h):
    assert h.got(h.sync("m", 1)).error_code == E.UNKNOWN_MEMBER_ID
    (a,) = h.stable("a")
    assert h.got(h.sync("m", 1)).error_code == E.UNKNOWN_MEMBER_ID
    assert h.got(h.sync(a, 1, instance="other")).error_code == E.UNKNOWN_MEMBER_ID
    for generation in (0, 2, -1):
        assert h.got(h.sync(a, generation)).error_code == E.ILLEGAL_GENERATION
    h.leave((a, None))
    assert h.state() == "Empty"
    assert h.got(h.sync(a, 2)).error_code == E.UNKNOWN_MEMBER_ID


@rule("B055")
def test_sync_of_a_dead_group(h):
    (a,) = h.stable("a")
    h.take(h.runtime.unload(now=h.now))
    assert h.got(h.sync(a, 1)).error_code == E.COORDINATOR_NOT_AVAILABLE


@rule("B056")
@pytest.mark.parametrize(
    ("said", "v", "error"),
    [
        ({"protocol_type": "connect"}, 5, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, 5, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None}, 5, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": None}, 5, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None, "protocol_name": None}, 4, E.NONE),
        ({}, 5, E.NONE),
    ],
)
def test_sync_checks_protocol_type_and_name(h, said, v, error):
    a, _ = h.completing("a", "b")
    ticket = h.sync(a, 1, {a: b"x"}, v=v, **said)
    reply = h.got(ticket)
    assert reply.error_code == error
    assert (reply.protocol_type, reply.protocol_name) == (("consumer", "range") if not error else (None, None))


@rule("B057")
def test_a_follower_waits_for_the_leader(h):
    a, b = h.completing("a", "b")
    follower = h.sync(b, 1)
    assert h.got(follower) is None
    leader = h.sync(a, 1, {a: b"1", b: b"2"})
    assert (h.got(leader).assignment, h.got(follower).assignment) == (b"1", b"2")
    assert h.state() == "Stable"


@rule("B057")
def test_after_the_leader_a_follower_is_answered_at_once(h):
    a, b = h.completing("a", "b")
    h.sync(a, 1, {a: b"1", b: b"2"})
    assert h.got(h.sync(b, 1)).assignment == b"2"


@rule("B057")
def test_a_sync_in_preparing_is_refused(h):
    a, _ = h.stable("a", "b")
    h.join(a, "a")
    assert h.got(h.sync(a, 1)).error_code == E.REBALANCE_IN_PROGRESS


@rule("B058")
def test_members_without_an_assignment_get_an_empty_one_and_unknown_ids_none(h):
    a, b = h.completing("a", "b")
    h.sync(a, 1, {a: b"1", "stranger": b"3"})
    assert h.assignments() == {a: b"1", b: b""}
    assert [(m.member_id, m.assignment) for m in h.log[-1].value.members] == [(a, b"1"), (b, b"")]


@rule("B059")
def test_an_assignment_that_cannot_be_appended(h):
    a, b = h.completing("a", "b")
    follower = h.sync(b, 1)
    logged = len(h.log)
    h.fail_with = E.NOT_ENOUGH_REPLICAS
    leader = h.sync(a, 1, {a: b"1", b: b"2"})
    assert {h.got(leader).error_code, h.got(follower).error_code} == {E.COORDINATOR_NOT_AVAILABLE}
    assert (h.state(), h.generation(), len(h.log)) == ("PreparingRebalance", 1, logged)
    assert h.assignments() == {a: b"", b: b""}
    # It goes on as after any other reason to rebalance.
    h.fail_with = None
    tickets = [h.join(a, "a"), h.join(b, "b")]
    assert [h.got(t).generation_id for t in tickets] == [2, 2]


@rule("B060")
def test_the_leader_expires_before_it_has_assigned(h):
    a, b = h.completing("a", "b")
    parked = h.sync(b, 1)
    h.sleep(SESSION_MS)
    assert h.got(parked).error_code == E.REBALANCE_IN_PROGRESS
    assert (h.state(), h.member_ids(), h.engine.group("g").leader) == ("PreparingRebalance", [b], b)
    assert h.heartbeat(a, 1) == E.UNKNOWN_MEMBER_ID


@rule("B061")
@pytest.mark.parametrize("silent", [(0,), (1,), (2,), (1, 2), (0, 1, 2)])
def test_members_that_never_sync_are_removed_static_or_not(h, silent):
    ids = h.completing("a", "b", dynamic=1, rebalance=9_000)
    parked = [
        h.sync(member, 1, dict.fromkeys(ids, b"x") if n == 0 else None)
        for n, member in enumerate(ids)
        if n not in silent
    ]
    h.sleep(8_999)
    assert h.member_ids() == ids
    h.sleep(1)
    left = [member for n, member in enumerate(ids) if n not in silent]
    assert h.member_ids() == left
    assert h.state() == ("PreparingRebalance" if left else "Empty")
    if 0 in silent:
        assert [h.got(t).error_code for t in parked] == [E.REBALANCE_IN_PROGRESS] * len(left)


@rule("B062")
def test_the_timer_is_cancelled_when_all_members_have_synced(h):
    a, b = h.completing("a", "b", rebalance=9_000)
    h.sync(a, 1, {})
    assert h.engine.group("g").deadline_ms is not None
    h.sync(b, 1)
    assert h.engine.group("g").deadline_ms is None
    h.sleep(9_000)
    assert (h.state(), h.member_ids()) == ("Stable", [a, b])


def test_a_parked_sync_that_its_own_repeat_replaces_is_told_to_rejoin(h):
    a, b = h.completing("a", "b")
    first, second = h.sync(b, 1), h.sync(b, 1)
    assert (h.got(first).error_code, h.got(second)) == (E.REBALANCE_IN_PROGRESS, None)
    h.sync(a, 1, {b: b"2"})
    assert h.got(second).assignment == b"2"


def test_a_sync_without_new_assignment_in_stable(h):
    a, b = h.stable("a", "b")
    assert h.got(h.sync(b, 1)).assignment == b"b"
    assert h.got(h.sync(a, 1, {a: b"other"})).assignment == b"a"


def test_assignments_of_before_are_gone_when_a_sync_phase_is_broken_off(h):
    a, b = h.stable("a", "b")
    for member, instance in ((a, "a"), (b, "b")):
        h.join(member, instance)
    assert (h.state(), h.assignments()) == ("CompletingRebalance", {a: b"a", b: b"b"})
    h.join("", "c")
    assert (h.state(), set(h.assignments().values())) == ("PreparingRebalance", {b""})
