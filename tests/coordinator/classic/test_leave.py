"""LeaveGroup: behaviours B069-B076 of Apache Kafka 4.3.0's coordinator."""

import pytest

from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from tests.coordinator.behaviours import rule
from tests.coordinator.harness import Harness


@pytest.fixture
def h():
    return Harness()


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
