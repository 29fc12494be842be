"""SyncGroup, Heartbeat, LeaveGroup and sessions: behaviours B055-B076, B085 and B086 of Apache Kafka 4.3.0."""

import pytest

from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from tests.coordinator.behaviours import rule
from tests.coordinator.harness import REBALANCE_MS, SESSION_MS, Harness


@pytest.fixture
def h():
    return Harness()


def completing(h, *instances, dynamic=0, **how):
    """Members in CompletingRebalance, by instance id and then the dynamic ones; in order of joining."""
    tickets = [h.join("", i, **how) for i in instances] + [h.join(v=3, **how) for _ in range(dynamic)]
    return [reply.member_id for reply in h.until_answered(*tickets)]


# -- SyncGroup


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
    a, _ = completing(h, "a", "b")
    ticket = h.sync(a, 1, {a: b"x"}, v=v, **said)
    reply = h.got(ticket)
    assert reply.error_code == error
    assert (reply.protocol_type, reply.protocol_name) == (("consumer", "range") if not error else (None, None))


@rule("B057")
def test_a_follower_waits_for_the_leader(h):
    a, b = completing(h, "a", "b")
    follower = h.sync(b, 1)
    assert h.got(follower) is None
    leader = h.sync(a, 1, {a: b"1", b: b"2"})
    assert (h.got(leader).assignment, h.got(follower).assignment) == (b"1", b"2")
    assert h.state() == "Stable"


@rule("B057")
def test_after_the_leader_a_follower_is_answered_at_once(h):
    a, b = completing(h, "a", "b")
    h.sync(a, 1, {a: b"1", b: b"2"})
    assert h.got(h.sync(b, 1)).assignment == b"2"


@rule("B057")
def test_a_sync_in_preparing_is_refused(h):
    a, _ = h.stable("a", "b")
    h.join(a, "a")
    assert h.got(h.sync(a, 1)).error_code == E.REBALANCE_IN_PROGRESS


@rule("B058")
def test_members_without_an_assignment_get_an_empty_one_and_unknown_ids_none(h):
    a, b = completing(h, "a", "b")
    h.sync(a, 1, {a: b"1", "stranger": b"3"})
    assert h.assignments() == {a: b"1", b: b""}
    assert [(m.member_id, m.assignment) for m in h.log[-1].value.members] == [(a, b"1"), (b, b"")]


@rule("B059")
def test_an_assignment_that_cannot_be_appended(h):
    a, b = completing(h, "a", "b")
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
    a, b = completing(h, "a", "b")
    parked = h.sync(b, 1)
    h.sleep(SESSION_MS)
    assert h.got(parked).error_code == E.REBALANCE_IN_PROGRESS
    assert (h.state(), h.member_ids(), h.engine.group("g").leader) == ("PreparingRebalance", [b], b)
    assert h.heartbeat(a, 1) == E.UNKNOWN_MEMBER_ID


@rule("B061")
@pytest.mark.parametrize("silent", [(0,), (1,), (2,), (1, 2), (0, 1, 2)])
def test_members_that_never_sync_are_removed_static_or_not(h, silent):
    ids = completing(h, "a", "b", dynamic=1, rebalance=9_000)
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
    a, b = completing(h, "a", "b", rebalance=9_000)
    h.sync(a, 1, {})
    assert h.engine.group("g").deadline_ms is not None
    h.sync(b, 1)
    assert h.engine.group("g").deadline_ms is None
    h.sleep(9_000)
    assert (h.state(), h.member_ids()) == ("Stable", [a, b])


def test_a_parked_sync_that_its_own_repeat_replaces_is_told_to_rejoin(h):
    a, b = completing(h, "a", "b")
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


# -- Heartbeat


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
    a, b = completing(h, "a", "b")
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
    a, b = completing(h, "a", "b", session=6_000)
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


# -- LeaveGroup


@rule("B069")
@pytest.mark.parametrize("v", [0, 1, 2, 3, 4, 5])
def test_leave_of_an_unknown_group_or_member(h, v):
    def errors():
        reply = h.leave(("m", None), v=v)
        if v < 3:
            assert reply.members == []
            return reply.error_code
        assert reply.error_code == E.NONE
        assert [(m.member_id, m.group_instance_id) for m in reply.members] == [("m", None)]
        return reply.members[0].error_code

    assert errors() == E.UNKNOWN_MEMBER_ID
    h.stable("a")
    assert errors() == E.UNKNOWN_MEMBER_ID
    assert h.state() == "Stable"


@rule("B070")
@pytest.mark.parametrize("v", [2, 5])
def test_leave_of_a_dead_group(h, v):
    (a,) = h.stable("a")
    h.take(h.runtime.unload(now=h.now))
    reply = h.leave((a, "a"), v=v)
    assert (reply.error_code, reply.members) == (E.COORDINATOR_NOT_AVAILABLE, [])


@rule("B071")
@pytest.mark.parametrize("v", [0, 5])
def test_leave_by_member_id(h, v):
    a, b = h.stable("a", dynamic=1)
    h.leave((a, None), v=v)
    assert (h.state(), h.member_ids(), h.engine.group("g").leader) == ("PreparingRebalance", [b], b)
    h.leave((b, None), v=v)
    assert (h.state(), h.generation(), h.member_ids()) == ("Empty", 2, [])


@rule("B072")
def test_leave_by_instance_id_echoes_the_empty_member_id(h):
    _, b = h.stable("a", "b")
    reply = h.leave(("", "a"))
    assert reply.error_code == E.NONE
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in reply.members] == [("", "a", E.NONE)]
    assert h.member_ids() == [b]


@rule("B073")
def test_leave_with_another_member_id(h):
    ids = h.stable("a", "b")
    reply = h.leave(("x", "a"), ("", "b"))
    assert [m.error_code for m in reply.members] == [E.FENCED_INSTANCE_ID, E.NONE]
    assert h.member_ids() == ids[:1]


@rule("B073")
def test_a_batch_of_refused_members_changes_nothing(h):
    ids = h.stable("a", "b")
    reply = h.leave(("x", "a"), ("", "nobody"), ("", None), ("y", None), ("z", "nobody"))
    assert [m.error_code for m in reply.members] == [
        E.FENCED_INSTANCE_ID, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID,
    ]  # fmt: skip
    assert [(m.member_id, m.group_instance_id) for m in reply.members] == [
        ("x", "a"), ("", "nobody"), ("", None), ("y", None), ("z", "nobody"),
    ]  # fmt: skip
    assert (h.state(), h.member_ids(), h.generation()) == ("Stable", ids, 1)


@rule("B074")
def test_a_batch_costs_one_rebalance(h):
    a, b, _c = h.stable("a", "b", "c")
    reply = h.leave((b, "b"), ("", "c"))
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in reply.members] == [
        (b, "b", E.NONE),
        ("", "c", E.NONE),
    ]
    assert (h.state(), h.member_ids()) == ("PreparingRebalance", [a])
    assert h.got(h.join(a, "a")).generation_id == 2


@rule("B074")
def test_a_batch_starts_one_rebalance_at_its_end(h):
    """The join phase waits as long as those want who are left after the whole batch."""
    tickets = [h.join("", i, rebalance=ms, session=1_800_000) for i, ms in (("a", 9_000), ("b", 60_000), ("c", 90_000))]
    ids = [reply.member_id for reply in h.until_answered(*tickets)]
    for member in ids:
        h.sync(member, 1, {})
    h.leave(("", "b"), ("", "c"))
    assert h.engine.group("g").deadline_ms == h.now + 9_000


@rule("B074")
def test_an_unknown_instance_in_a_batch(h):
    _a, _b = h.stable("a", "b")
    reply = h.leave(("", "nobody"), ("", "a"))
    assert [m.error_code for m in reply.members] == [E.UNKNOWN_MEMBER_ID, E.NONE]


@rule("B074")
def test_the_same_identity_twice(h):
    h.stable("a", "b")
    reply = h.leave(("", "a"), ("", "a"))
    assert [m.error_code for m in reply.members] == [E.NONE, E.UNKNOWN_MEMBER_ID]


@rule("B074")
def test_an_empty_batch(h):
    h.stable("a")
    reply = h.leave()
    assert (reply.error_code, reply.members, h.state()) == (E.NONE, [], "Stable")


@rule("B075")
def test_a_pending_id_leaves(h):
    pending = h.got(h.join(v=4)).member_id
    reply = h.leave((pending, None))
    assert [m.error_code for m in reply.members] == [E.NONE]
    assert h.engine.group("g").pending_member_ids == ()
    assert h.runtime.next_deadline() is None
    assert h.got(h.join(pending)).error_code == E.UNKNOWN_MEMBER_ID


@rule("B075")
def test_a_batch_of_joined_pending_and_unknown_ones(h):
    (a,) = h.stable("a")
    pending = h.got(h.join(v=4)).member_id
    reply = h.leave(("unknown", None), (pending, None), (a, "a"))
    assert [m.error_code for m in reply.members] == [E.UNKNOWN_MEMBER_ID, E.NONE, E.NONE]
    assert (h.state(), h.generation()) == ("Empty", 2)


@rule("B075")
def test_a_pending_id_that_leaves_unblocks_the_join_phase(h):
    (a,) = h.stable("a")
    pending = h.got(h.join(v=4)).member_id
    ticket = h.join(a, "a")
    h.leave((pending, None))
    assert h.got(ticket).generation_id == 2


@rule("B075")
def test_the_last_member_leaves_and_a_pending_id_is_left(h):
    (a,) = h.stable("a")
    h.join(v=4)
    h.leave((a, "a"))
    assert h.state() == "PreparingRebalance"
    h.sleep(0)
    assert (h.state(), h.generation()) == ("Empty", 2)


@rule("B076")
@pytest.mark.parametrize("v", [0, 1, 2])
def test_before_v3_there_is_one_member_and_one_error(h, v):
    a, _ = h.stable("a", "b")
    # Members in the list are no part of these versions.
    message = LeaveGroupRequest(group_id="g", member_id=a, members=[MemberIdentity(member_id="b-2")])
    reply = h.got(h.send(message, v))
    assert (reply.error_code, reply.members, h.member_ids()) == (E.NONE, [], ["b-2"])
    assert h.leave((a, None), v=v).error_code == E.UNKNOWN_MEMBER_ID


def test_leave_answers_a_parked_join_and_a_parked_sync_of_the_leaver(h):
    a, b = h.stable("a", "b")
    parked = h.join(a, "a")
    h.leave(("", "a"))
    assert (h.got(parked).error_code, h.got(parked).member_id) == (E.UNKNOWN_MEMBER_ID, "")
    assert h.got(h.join(b, "b")).generation_id == 2
    c = h.join("", "c")
    h.join(b, "b")
    waiting = h.sync(h.got(c).member_id, 3)
    h.leave((h.got(c).member_id, "c"))
    # Kafka never answers this one.
    assert h.got(waiting).error_code == E.UNKNOWN_MEMBER_ID


def test_leave_in_the_first_join_phase_does_not_end_it(h):
    first, second = h.join("", "a"), h.join("", "b")
    h.leave(("", "a"))
    assert h.got(first).error_code == E.UNKNOWN_MEMBER_ID
    assert (h.state(), h.got(second)) == ("PreparingRebalance", None)
    h.until_answered(second)
    assert h.generation() == 1


def test_a_leave_that_empties_the_group_and_cannot_be_logged(h):
    (a,) = h.stable("a")
    h.fail_with = E.KAFKA_STORAGE_ERROR
    reply = h.leave((a, "a"))
    assert (reply.error_code, reply.members) == (E.NOT_COORDINATOR, [])
    assert (h.state(), h.member_ids()) == ("Empty", [])


# -- load and unload


@rule("B085")
def test_loading_rebuilds_stable_and_empty_groups_with_their_timers(h):
    a, b = h.stable("a", dynamic=1)
    h.stable("z", group="empty")
    h.leave(("", "z"), group="empty")
    h.commit(group="simple")
    h.sleep(5_000)
    other = h.reload()
    assert [(g.group_id, g.state, g.generation) for g in other.engine.groups()] == [
        ("empty", "Empty", 2),
        ("g", "Stable", 1),
        ("simple", "Empty", 0),
    ]
    assert other.engine.group("simple").protocol_type is None
    assert [(m.member_id, m.session_deadline_ms) for m in other.engine.group("g").members] == [
        (a, h.now + SESSION_MS),
        (b, h.now + SESSION_MS),
    ]
    assert other.heartbeat(a, 1, "a") == E.NONE
    assert other.got(other.sync(b, 1)).assignment == b.encode()
    other.sleep(SESSION_MS)
    assert other.state() == "Empty"


@rule("B086")
def test_unloading_answers_parked_requests(h):
    a, _ = h.stable("a", "b")
    joining = h.join(a, "a")
    _c, d = completing(h, "c", "d", group="other")
    syncing = h.sync(d, 1, group="other")
    h.take(h.runtime.unload(now=h.now))
    assert (h.got(joining).error_code, h.got(joining).member_id) == (E.NOT_COORDINATOR, a)
    assert h.got(syncing).error_code == E.NOT_COORDINATOR
    assert {group.state for group in h.engine.groups()} == {"Dead"}
    assert h.runtime.next_deadline() is None


def test_the_rebalance_timeout_is_the_longest_of_the_members(h):
    a = h.stable("a", session=1_800_000, rebalance=20_000)[0]
    b = h.join("", "b", session=1_800_000, rebalance=40_000)
    assert h.engine.group("g").deadline_ms == h.now + 40_000
    h.join(a, "a", session=1_800_000, rebalance=REBALANCE_MS)
    assert h.got(b).error_code == E.NONE
