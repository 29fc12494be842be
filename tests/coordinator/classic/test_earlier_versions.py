"""Where coordinators of Kafka before 4.0 differ.

What the coordinator in Scala does is held against Kafka 3.9.1's in tests/coordinator/lockstep and tests/server/wire;
what versions before 3.3 do, against brokers of 2.8.2 and 2.4.1 in tests/server/wire. These are the same rules, one by
one, and quick."""

import pytest

from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from tests.coordinator.harness import Harness


def of(version, **settings):
    return Harness(kafka_version=BrokerVersion.parse(version), **settings)


def described(h):
    return h.got(h.send(DescribeGroupsRequest(groups=["g"]), 5)).groups[0]


@pytest.mark.parametrize(("version", "records"), [("4.3", 1), ("3.9+new", 1), ("3.9", 0), ("2.4", 0)])
def test_a_new_group_is_written_by_the_java_coordinator_only(version, records):
    h = of(version)
    h.join("", "a")
    assert len(h.log) == records
    assert h.state() == "PreparingRebalance"


@pytest.mark.parametrize(("version", "records"), [("4.3", 2), ("3.9", 0)])
def test_a_group_without_a_generation_is_deleted_as_it_was_created(version, records):
    h = of(version)
    h.join("")
    assert h.delete("g") == {"g": E.NONE}
    assert len(h.log) == records
    assert h.state() is None


@pytest.mark.parametrize("version", ["4.3", "3.9"])
def test_members_of_a_group_that_rebalances_are_described_with_what_they_had(version):
    """Or, up to 3.9, without."""
    h = of(version)
    a, _ = h.stable("a", "b")
    owned = {member.member_id: member.member_assignment for member in described(h).members}
    assert all(owned.values())
    h.join(a, "a")
    rebalancing = described(h)
    assert rebalancing.group_state == "PreparingRebalance"
    expected = owned if version == "4.3" else dict.fromkeys(owned, b"")
    assert {member.member_id: member.member_assignment for member in rebalancing.members} == expected


@pytest.mark.parametrize(("version", "generations"), [("4.3", 1), ("3.9", 2)])
def test_members_that_leave_together_in_a_join_phase(version, generations):
    """The absent one leaves first: up to 3.9 that ends the join phase, and the other one that leaves begins another."""
    h = of(version)
    a, b, c = h.stable("a", "b", "c")
    before = h.generation()
    h.join(a, "a")
    joined = h.join(b, "b")
    h.leave(("", "c"), ("", "a"))
    h.join(b, "b")
    assert h.generation() - before == generations
    assert h.got(joined).error_code == E.NONE
    assert c not in h.member_ids()


@pytest.mark.parametrize(("version", "phases"), [("4.3", 2), ("3.9", 1)])
def test_newcomers_extend_the_initial_delay_of_a_group_that_was_empty(version, phases):
    """Up to 3.9 only that of a new group."""
    h = of(version)
    first = h.join("", "a")
    h.sleep(3_000)
    h.leave((h.got(first).member_id, "a"))
    assert h.state() == "Empty"
    joined = h.join("", "a")
    h.sleep(1_000)
    h.join("", "b")
    h.sleep(2_000)
    assert (h.got(joined) is None) is (phases == 2)
    h.sleep(3_000)
    assert h.got(joined).error_code == E.NONE


@pytest.mark.parametrize(("version", "timeout_ms"), [("3.3", 20_000), ("3.2", 10_000)])
def test_a_member_that_joins_again_changes_its_timeouts_since_3_3(version, timeout_ms):
    h = of(version)
    (a,) = h.stable("a")
    h.join(a, "a", session=20_000)
    assert h.engine.group("g").members[0].session_timeout_ms == timeout_ms


@pytest.mark.parametrize(("version", "error"), [("3.0", E.UNKNOWN_MEMBER_ID), ("2.8", E.NONE)])
def test_an_instance_id_that_no_member_has_is_refused_since_3_0(version, error):
    h = of(version)
    (a,) = h.stable("a")
    assert h.heartbeat(a, h.generation(), "nobody") == error


@pytest.mark.parametrize(("version", "state"), [("2.8", "PreparingRebalance"), ("2.7", "CompletingRebalance")])
def test_members_that_send_no_sync_are_removed_since_2_8(version, state):
    h = of(version, group_initial_rebalance_delay_ms=0)
    joined = h.join("", "a", session=30_000, rebalance=10_000)
    h.sleep(0)
    a = h.got(joined).member_id
    for _ in range(2):
        h.sleep(5_000)
        h.heartbeat(a, 1, "a")
    assert h.state() == ("Empty" if state == "PreparingRebalance" else state)


@pytest.mark.parametrize(("version", "records"), [("2.6", 1), ("2.5", 0)])
def test_a_static_member_that_restarts_is_written_since_2_6(version, records):
    h = of(version)
    (a,) = h.stable("a")
    before = len(h.log)
    again = h.got(h.join("", "a"))
    assert (again.error_code, again.leader, h.state()) == (E.NONE, a, "Stable")
    assert again.member_id in h.member_ids()
    written = [record.value for record in h.log[before:]]
    assert [type(value).__name__ for value in written] == ["GroupMetadataValue"] * records


@pytest.mark.parametrize(("version", "error"), [("2.6", E.NONE), ("2.5", E.REBALANCE_IN_PROGRESS)])
def test_a_heartbeat_before_the_leader_has_assigned(version, error):
    h = of(version, group_initial_rebalance_delay_ms=0)
    joined = h.join("", "a")
    h.sleep(0)
    assert h.heartbeat(h.got(joined).member_id, 1, "a") == error
