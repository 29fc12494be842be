"""Describe, list, delete: behaviours B077-B080 of Apache Kafka 4.3.0; and what KIP-848 clients are told."""

import pytest

from kgm.coordinator.admin.describe_list_delete import ALL_GROUP_OPERATIONS
from kgm.coordinator.contract.outcome import Request, Ticket
from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.fetch_request import FetchRequest
from tests.coordinator.behaviours import rule
from tests.coordinator.harness import Harness, subscription


@pytest.fixture
def h():
    return Harness()


@rule("B077")
def test_describe_a_stable_group(h):
    a, b = h.stable("a", dynamic=1)
    (group,) = h.describe("g")
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert [
        (m.member_id, m.group_instance_id, m.client_id, m.client_host, m.member_metadata, m.member_assignment)
        for m in group.members
    ] == [
        (a, "a", "client", "/127.0.0.1", subscription(), b"a"),
        (b, None, "client", "/127.0.0.1", subscription(), b.encode()),
    ]


@rule("B077")
def test_describe_a_rebalancing_group(h):
    a, b = h.stable("a", "b")
    h.join(a, "a")
    (group,) = h.describe("g")
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("PreparingRebalance", "consumer", "")
    assert [(m.member_metadata, m.member_assignment) for m in group.members] == [(b"", b"a"), (b"", b"b")]
    h.join(b, "b")
    (group,) = h.describe("g")
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")


@rule("B078")
@pytest.mark.parametrize(
    ("v", "error", "message"), [(5, E.NONE, None), (6, E.GROUP_ID_NOT_FOUND, "Group x not found.")]
)
def test_describe_a_missing_group(h, v, error, message):
    (group,) = h.describe("x", v=v)
    assert (group.error_code, group.error_message, group.group_state, group.members) == (error, message, "Dead", [])


def test_describe_answers_repeated_ids_each_time_and_tells_operations_when_asked(h):
    h.stable("a")
    groups = h.describe("g", "x", "g", v=5, operations=True)
    assert [(g.group_id, g.authorized_operations) for g in groups] == [
        ("g", ALL_GROUP_OPERATIONS), ("x", ALL_GROUP_OPERATIONS), ("g", ALL_GROUP_OPERATIONS),
    ]  # fmt: skip
    # READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS as Kafka 4.3 has them.
    assert ALL_GROUP_OPERATIONS == 3400
    assert [g.authorized_operations for g in h.describe("g", "x", operations=True)] == [3400, -(2**31)]
    assert [g.authorized_operations for g in h.describe("g")] == [-(2**31)]


@rule("B079")
@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ((), (), ["empty", "g", "simple"]),
        (("Stable",), (), ["g"]),
        (("stable", "EMPTY"), (), ["empty", "g", "simple"]),
        ((" Stable ",), (), ["g"]),
        (("preparingrebalance",), (), []),
        (("nonsense",), (), []),
        (("",), (), []),
        (("nonsense", "stable"), (), ["g"]),
        ((), ("classic",), ["empty", "g", "simple"]),
        ((), ("CLASSIC", "consumer"), ["empty", "g", "simple"]),
        ((), ("consumer",), []),
        ((), ("nonsense",), []),
        (("Empty",), ("classic",), ["empty", "simple"]),
        (("Empty",), ("consumer",), []),
    ],
)
def test_list_with_filters(h, states, types, found):
    h.commit(group="simple")
    h.stable("a")
    h.stable("e", group="empty")
    h.leave(("", "e"), group="empty")
    assert [group.group_id for group in h.list(states, types)] == found


@rule("B079")
def test_listed_groups(h):
    h.commit(group="simple")
    h.stable("a")
    assert [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in h.list()] == [
        ("g", "consumer", "Stable", "classic"),
        ("simple", "", "Empty", "classic"),
    ]


@rule("B080")
def test_delete(h):
    h.stable("a")
    h.stable("e", group="empty")
    h.commit("e-2", 1, group="empty", topic="t2")
    h.commit("e-2", 1, group="empty", topic="t1", partition=3)
    h.leave(("", "e"), group="empty")
    logged = len(h.log)
    assert h.delete("g", "empty", "x", "empty") == {
        "g": E.NON_EMPTY_GROUP, "empty": E.NONE, "x": E.GROUP_ID_NOT_FOUND,
    }  # fmt: skip
    assert [(type(r.key).__name__, r.value) for r in h.log[logged:]] == [
        ("OffsetCommitKey", None),
        ("OffsetCommitKey", None),
        ("GroupMetadataKey", None),
    ]
    assert [group.group_id for group in h.list()] == ["g"]
    assert h.fetch(group="empty") == {}
    assert h.reload().list()[0].group_id == "g"


@rule("B080")
@pytest.mark.parametrize("act", ["join", "sync"])
def test_delete_of_a_group_in_a_rebalance(h, act):
    a, b = h.stable("a", "b")
    h.join(a, "a")
    if act == "sync":
        h.join(b, "b")
    assert h.delete("g") == {"g": E.NON_EMPTY_GROUP}


@rule("B080")
def test_delete_voids_ids_that_were_given_out(h):
    pending = h.got(h.join(v=4)).member_id
    assert h.delete("g") == {"g": E.NONE}
    assert h.runtime.next_deadline() is None
    assert h.got(h.join(pending, v=4)).error_code == E.UNKNOWN_MEMBER_ID


@rule("B080")
def test_delete_of_a_dead_group(h):
    h.stable("a")
    h.take(h.runtime.unload(now=h.now))
    assert h.delete("g") == {"g": E.GROUP_ID_NOT_FOUND}


@rule("B080")
def test_a_delete_that_cannot_be_appended(h):
    h.commit()
    h.fail_with = E.NOT_LEADER_OR_FOLLOWER
    assert h.delete("g") == {"g": E.NOT_COORDINATOR}
    assert h.fetch() == {("orders", 0): 42}


def test_consumer_group_describe_does_not_find_classic_groups(h):
    h.stable("a")
    reply = h.got(h.send(ConsumerGroupDescribeRequest(group_ids=["g", "x", ""], include_authorized_operations=True), 1))
    assert [(g.group_id, g.error_code, g.error_message, g.authorized_operations) for g in reply.groups] == [
        ("g", E.GROUP_ID_NOT_FOUND, "Group g is not a consumer group.", -(2**31)),
        ("x", E.GROUP_ID_NOT_FOUND, "Group x not found.", -(2**31)),
        ("", E.INVALID_GROUP_ID, None, -(2**31)),
    ]


def test_the_new_protocol_is_not_spoken_if_it_is_off():
    h = Harness(group_coordinator_rebalance_protocols="classic")
    reply = h.got(h.send(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0), 1))
    assert (reply.error_code, reply.member_id, reply.member_epoch) == (E.UNSUPPORTED_VERSION, None, 0)


def test_other_requests_are_a_bug_of_the_caller(h):
    with pytest.raises(TypeError):
        h.engine.handle(Request(message=FetchRequest(), version=4), ticket=Ticket(1), now=h.now)
