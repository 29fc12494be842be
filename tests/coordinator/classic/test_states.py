"""What each request does in each state of a classic group: the docstrings of `ClassicState`, as a table."""

import pytest

from kgm.coordinator.groups.classic_state import ClassicState
from kgm.model.errors import ErrorCode as E
from tests.coordinator.harness import Harness, subscription

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = ClassicState
PARKED = "parked"
OTHER = {"range": subscription("orders", "payments")}
PRODUCER = (7, 0)


def group_in(state):
    """A group in a state, with an offset; the leader a and the follower b, which are in the group unless it is Empty."""
    h = Harness(group_initial_rebalance_delay_ms=1_000)
    a, b = h.stable("a", "b")
    h.commit(a, 1)
    match state:
        case ClassicState.EMPTY:
            h.leave(("", "a"), ("", "b"))
        case ClassicState.PREPARING_REBALANCE:
            h.join("", "c")
        case ClassicState.COMPLETING_REBALANCE:
            tickets = [h.join(a, "a"), h.join(b, "b")]
            assert [reply.leader for reply in h.until_answered(*tickets)] == [a, a]
        case ClassicState.DEAD:
            h.take(h.runtime.unload(now=h.now))
    assert h.state() == state
    return h, a, b, h.generation()


def answer_to(h, ticket):
    reply = h.got(ticket)
    return PARKED if reply is None else reply.error_code


#: What is sent, given the harness, the leader, the follower, and the generation; gives the error code.
REQUESTS = {
    "JoinGroup of a dynamic newcomer": lambda h, a, b, n: answer_to(h, h.join("", v=5)),
    "JoinGroup of a static newcomer": lambda h, a, b, n: answer_to(h, h.join("", "new")),
    "JoinGroup of the leader": lambda h, a, b, n: answer_to(h, h.join(a, "a")),
    "JoinGroup of a follower": lambda h, a, b, n: answer_to(h, h.join(b, "b")),
    "JoinGroup of a changed follower": lambda h, a, b, n: answer_to(h, h.join(b, "b", protocols=OTHER)),
    "JoinGroup of a restarted follower": lambda h, a, b, n: answer_to(h, h.join("", "b")),
    "SyncGroup of the leader": lambda h, a, b, n: answer_to(h, h.sync(a, n, {a: b"1", b: b"2"}, "a")),
    "SyncGroup of a follower": lambda h, a, b, n: answer_to(h, h.sync(b, n, None, "b")),
    "Heartbeat": lambda h, a, b, n: h.heartbeat(b, n, "b"),
    "LeaveGroup": lambda h, a, b, n: leave(h, b),
    "OffsetCommit of a member": lambda h, a, b, n: h.commit(b, n, "b"),
    "OffsetCommit without a generation": lambda h, a, b, n: h.commit(),
    "TxnOffsetCommit of a member": lambda h, a, b, n: h.commit_in_transaction(PRODUCER, b, n, "b"),
    "TxnOffsetCommit without a generation": lambda h, a, b, n: h.commit_in_transaction(PRODUCER),
    "OffsetFetch": lambda h, a, b, n: sorted(h.fetch()),
    "OffsetDelete": lambda h, a, b, n: max(filter(None, h.delete_offset()), default=E.NONE),
    "DeleteGroups": lambda h, a, b, n: h.delete("g")["g"],
    "DescribeGroups": lambda h, a, b, n: h.describe("g")[0].protocol_data,
}


def leave(h, member):
    reply = h.leave((member, "b"))
    return reply.error_code or reply.members[0].error_code


HAS_OFFSET = [("orders", 0)]
UNKNOWN, REBALANCING, GONE = E.UNKNOWN_MEMBER_ID, E.REBALANCE_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE
#: By request and state: the answer, and the state of the group after it (None: the group is deleted).
TABLE = {
    "JoinGroup of a dynamic newcomer": {
        EMPTY: (E.MEMBER_ID_REQUIRED, EMPTY), PREPARING: (E.MEMBER_ID_REQUIRED, PREPARING),
        COMPLETING: (E.MEMBER_ID_REQUIRED, COMPLETING), STABLE: (E.MEMBER_ID_REQUIRED, STABLE), DEAD: (GONE, DEAD),
    },
    "JoinGroup of a static newcomer": {
        EMPTY: (PARKED, PREPARING), PREPARING: (PARKED, PREPARING), COMPLETING: (PARKED, PREPARING),
        STABLE: (PARKED, PREPARING), DEAD: (GONE, DEAD),
    },
    "JoinGroup of the leader": {
        EMPTY: (UNKNOWN, EMPTY), PREPARING: (PARKED, PREPARING), COMPLETING: (E.NONE, COMPLETING),
        STABLE: (PARKED, PREPARING), DEAD: (GONE, DEAD),
    },
    "JoinGroup of a follower": {
        EMPTY: (UNKNOWN, EMPTY), PREPARING: (PARKED, PREPARING), COMPLETING: (E.NONE, COMPLETING),
        STABLE: (E.NONE, STABLE), DEAD: (GONE, DEAD),
    },
    "JoinGroup of a changed follower": {
        EMPTY: (UNKNOWN, EMPTY), PREPARING: (PARKED, PREPARING), COMPLETING: (PARKED, PREPARING),
        STABLE: (PARKED, PREPARING), DEAD: (GONE, DEAD),
    },
    "JoinGroup of a restarted follower": {
        EMPTY: (PARKED, PREPARING), PREPARING: (PARKED, PREPARING), COMPLETING: (PARKED, PREPARING),
        STABLE: (E.NONE, STABLE), DEAD: (GONE, DEAD),
    },
    "SyncGroup of the leader": {
        EMPTY: (UNKNOWN, EMPTY), PREPARING: (REBALANCING, PREPARING), COMPLETING: (E.NONE, STABLE),
        STABLE: (E.NONE, STABLE), DEAD: (GONE, DEAD),
    },
    "SyncGroup of a follower": {
        EMPTY: (UNKNOWN, EMPTY), PREPARING: (REBALANCING, PREPARING), COMPLETING: (PARKED, COMPLETING),
        STABLE: (E.NONE, STABLE), DEAD: (GONE, DEAD),
    },
    "Heartbeat": {
        EMPTY: (UNKNOWN, EMPTY), PREPARING: (REBALANCING, PREPARING), COMPLETING: (E.NONE, COMPLETING),
        STABLE: (E.NONE, STABLE), DEAD: (GONE, DEAD),
    },
    "LeaveGroup": {
        EMPTY: (UNKNOWN, EMPTY), PREPARING: (E.NONE, PREPARING), COMPLETING: (E.NONE, PREPARING),
        STABLE: (E.NONE, PREPARING), DEAD: (GONE, DEAD),
    },
    "OffsetCommit of a member": {
        EMPTY: (UNKNOWN, EMPTY), PREPARING: (E.NONE, PREPARING), COMPLETING: (REBALANCING, COMPLETING),
        STABLE: (E.NONE, STABLE), DEAD: (GONE, DEAD),
    },
    "OffsetCommit without a generation": {
        EMPTY: (E.NONE, EMPTY), PREPARING: (UNKNOWN, PREPARING), COMPLETING: (UNKNOWN, COMPLETING),
        STABLE: (UNKNOWN, STABLE), DEAD: (GONE, DEAD),
    },
    "TxnOffsetCommit of a member": {
        EMPTY: (UNKNOWN, EMPTY), PREPARING: (E.NONE, PREPARING), COMPLETING: (E.NONE, COMPLETING),
        STABLE: (E.NONE, STABLE), DEAD: (GONE, DEAD),
    },
    "TxnOffsetCommit without a generation": {
        EMPTY: (E.NONE, EMPTY), PREPARING: (E.NONE, PREPARING), COMPLETING: (E.NONE, COMPLETING),
        STABLE: (E.NONE, STABLE), DEAD: (GONE, DEAD),
    },
    "OffsetFetch": {
        EMPTY: (HAS_OFFSET, EMPTY), PREPARING: (HAS_OFFSET, PREPARING), COMPLETING: (HAS_OFFSET, COMPLETING),
        STABLE: (HAS_OFFSET, STABLE), DEAD: ([], DEAD),
    },
    "OffsetDelete": {
        EMPTY: (E.NONE, EMPTY), PREPARING: (E.GROUP_SUBSCRIBED_TO_TOPIC, PREPARING),
        COMPLETING: (E.GROUP_SUBSCRIBED_TO_TOPIC, COMPLETING), STABLE: (E.GROUP_SUBSCRIBED_TO_TOPIC, STABLE),
        DEAD: (E.GROUP_ID_NOT_FOUND, DEAD),
    },
    "DeleteGroups": {
        EMPTY: (E.NONE, None), PREPARING: (E.NON_EMPTY_GROUP, PREPARING), COMPLETING: (E.NON_EMPTY_GROUP, COMPLETING),
        STABLE: (E.NON_EMPTY_GROUP, STABLE), DEAD: (E.GROUP_ID_NOT_FOUND, DEAD),
    },
    "DescribeGroups": {
        EMPTY: ("", EMPTY), PREPARING: ("", PREPARING), COMPLETING: ("", COMPLETING), STABLE: ("range", STABLE),
        DEAD: ("", DEAD),
    },
}  # fmt: skip


@pytest.mark.parametrize("state", ClassicState)
@pytest.mark.parametrize("request_name", REQUESTS)
def test_each_request_in_each_state(request_name, state):
    h, a, b, generation = group_in(state)
    answer = REQUESTS[request_name](h, a, b, generation)
    assert (answer, h.state()) == TABLE[request_name][state]


EXTENDS = {PREPARING: ("Heartbeat", "OffsetCommit of a member"), COMPLETING: ("Heartbeat",),
           STABLE: ("Heartbeat", "OffsetCommit of a member")}  # fmt: skip


@pytest.mark.parametrize("state", [PREPARING, COMPLETING, STABLE])
@pytest.mark.parametrize(
    "request_name", [name for name in REQUESTS if name.startswith(("Heartbeat", "OffsetCommit", "TxnOffset"))]
)
def test_what_extends_a_session(request_name, state):
    h, a, b, generation = group_in(state)
    before = h.engine.group("g").members
    h.sleep(500)
    REQUESTS[request_name](h, a, b, generation)
    later = {
        after.member_id
        for earlier, after in zip(before, h.engine.group("g").members, strict=True)
        if after.session_deadline_ms > earlier.session_deadline_ms
    }
    assert later == ({b} if request_name in EXTENDS[state] else set())
