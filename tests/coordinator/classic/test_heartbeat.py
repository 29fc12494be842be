"""Heartbeat, and sessions that expire: behaviours B063-B068 of Apache Kafka 4.3.0's coordinator."""

import pytest

from kgm.model.errors import ErrorCode as E
from tests.coordinator.behaviours import rule
from tests.coordinator.harness import SESSION_MS, Harness


@pytest.fixture
def h():
    return Harness()


@rule("B063")
def test_refused_heartbeats(h):
    assert h.heartbeat("m", 1) == E.UNKNOWN_MEMBER_ID
    (a,) = h.stable("a")
    assert h.heartbeat("m", 1) == E.UNKNOWN_MEMBER_ID
    assert h.heartbeat(a, 1, "nobody") == E.UNKNOWN_MEMBER_ID
    assert [h.heartbeat(a, generation) for generation in (0, 2, -1)] == [E.ILLEGAL_GENERATION] * 3
    h.leave((a, None))
    assert h.heartbeat(a, 2) == E.UNKNOWN_MEMBER_ID
    h.take(h.runtime.unload(now=h.now))
    assert h.heartbeat(a, 2) == E.COORDINATOR_NOT_AVAILABLE


@rule("B064")
def test_heartbeats_by_state(h):
    a, b = h.completing("a", "b")
    assert h.heartbeat(a, 1) == E.NONE
    h.sync(a, 1, {})
    assert h.heartbeat(b, 1) == E.NONE
    h.join(a, "a")
    assert h.heartbeat(b, 1) == E.REBALANCE_IN_PROGRESS


@rule("B064")
def test_a_heartbeat_in_preparing_extends_the_session(h):
    a, b = h.stable("a", "b")
    h.join(a, "a")
    for _ in range(4):
        h.sleep(SESSION_MS - 1)
        assert h.heartbeat(b, 1) == E.REBALANCE_IN_PROGRESS
    assert h.member_ids() == [a, b]


@rule("B065")
def test_a_heartbeat_with_a_fenced_id(h):
    a, _b = h.stable("a", "b")
    assert h.heartbeat(a, 1, "b") == E.FENCED_INSTANCE_ID
    assert h.heartbeat("other", 1, "a") == E.FENCED_INSTANCE_ID


@rule("B066")
def test_heartbeats_and_commits_keep_the_session(h):
    (a,) = h.stable("a")
    for alive in (lambda: h.heartbeat(a, 1), lambda: h.commit(a, 1, "a")):
        for _ in range(3):
            h.sleep(SESSION_MS - 1)
            assert alive() == E.NONE
    h.sleep(SESSION_MS)
    assert h.state() == "Empty"


@rule("B067")
def test_an_expired_session_removes_the_member(h):
    a, _b = h.stable("a", "b")
    logged = len(h.log)
    h.sleep(SESSION_MS - 1)
    h.heartbeat(a, 1)
    h.sleep(1)
    assert (h.member_ids(), h.state()) == ([a], "PreparingRebalance")
    assert len(h.log) == logged
    h.sleep(SESSION_MS)
    assert (h.state(), h.generation()) == ("Empty", 2)
    assert len(h.log) == logged + 1
    value = h.log[-1].value
    assert (value.generation, value.members, value.leader, value.protocol) == (2, [], None, None)
    assert (value.protocol_type, value.current_state_timestamp) == ("consumer", h.now - 1)


@rule("B068")
def test_a_session_expires_during_a_rebalance(h):
    a, _b = h.stable("a", "b")
    ticket = h.join(a, "a")
    h.sleep(SESSION_MS)
    assert (h.got(ticket).generation_id, h.member_ids()) == (2, [a])


@rule("B068")
def test_a_member_that_waits_for_a_reply_does_not_expire(h):
    a, b = h.stable("a", "b", session=6_000)
    ticket = h.join(a, "a", session=6_000)
    for _ in range(9):
        h.sleep(5_000)
        assert h.heartbeat(b, 1) == E.REBALANCE_IN_PROGRESS
    assert (h.got(ticket), h.member_ids()) == (None, [a, b])
    assert h.engine.group("g").members[0].session_deadline_ms is None
    h.join(b, "b", session=6_000)
    # From the reply on it is watched again.
    assert h.engine.group("g").members[0].session_deadline_ms == h.now + 6_000


@rule("B068")
def test_a_session_does_not_expire_while_a_sync_is_parked(h):
    a, b = h.completing("a", "b", session=6_000)
    parked = h.sync(b, 1)
    h.sleep(4_000)
    h.heartbeat(a, 1)
    h.sleep(4_000)
    assert h.engine.group("g").members[1].session_deadline_ms is None
    h.sync(a, 1, {})
    assert h.got(parked).error_code == E.NONE
    assert h.engine.group("g").members[1].session_deadline_ms == h.now + 6_000


@rule("B067")
def test_a_group_stays_empty_in_memory_when_that_cannot_be_appended(h):
    (_a,) = h.stable("a")
    h.fail_with = E.NOT_LEADER_OR_FOLLOWER
    h.sleep(SESSION_MS)
    assert (h.state(), h.generation()) == ("Empty", 2)
