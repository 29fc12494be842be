"""Classic groups through a broker without sockets: what reaches the coordinator, timers, bounds."""

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.server.contract.exchange import CloseConnection, ResponseFrame
from kgm.server.contract.limits import Limits
from tests.server.broker_driver import Driver
from tests.server.group_requests import commit, join, stable


def test_a_join_waits_for_the_initial_delay_and_is_answered_by_the_clock():
    driver = Driver(group_initial_rebalance_delay_ms=500)
    first, second = driver.send(join("i")), driver.send(join("j"))
    assert driver.events == {}
    assert driver.cluster.next_deadline() == driver.now + 500
    driver.advance(499)
    assert driver.events == {}
    driver.advance(1)
    driver.advance(500)
    answers = [driver.answer(first), driver.answer(second)]
    assert [a.error_code for a in answers] == [0, 0]
    assert {a.generation_id for a in answers} == {1}
    assert [a.member_id[:2] for a in answers] == ["i-", "j-"]


def test_members_are_described_with_client_id_and_host():
    driver = Driver()
    stable(driver)
    group = driver.ask(DescribeGroupsRequest(groups=["g"])).groups[0]
    assert group.group_state == "Stable"
    assert [(m.group_instance_id, m.client_id, m.client_host) for m in group.members] == [("i", "c", "/192.0.2.7")]


def test_an_overdue_timer_fires_before_the_request_that_comes_later():
    driver = Driver()
    joined = stable(driver)
    driver.now += 10_001  # without a call of advance
    beat = HeartbeatRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id="i"
    )
    assert driver.ask(beat).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_forgotten_request_is_never_answered():
    driver = Driver(group_initial_rebalance_delay_ms=500)
    ticket = driver.send(join())
    driver.cluster.disconnected(ticket)
    driver.advance(500)
    assert driver.events == {}
    assert driver.cluster.view.group("g").members


def test_static_members_are_removed_together():
    driver = Driver()
    stable(driver)
    request = LeaveGroupRequest(
        group_id="g",
        members=[MemberIdentity(member_id="", group_instance_id=name, reason="test") for name in ("i", "nobody")],
    )
    rows = driver.ask(request).members
    assert [(m.group_instance_id, m.error_code) for m in rows] == [("i", 0), ("nobody", 25)]


def test_a_classic_group_is_no_consumer_group():
    driver = Driver()
    stable(driver)
    row = driver.ask(ConsumerGroupDescribeRequest(group_ids=["g"])).groups[0]
    assert row.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_are_bounded_and_deleting_one_makes_room():
    driver = Driver(limits=Limits(max_groups=2))
    for group in ("g", "h"):
        driver.send(join(group=group))
    refused = driver.ask(join(group="k"))
    assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    simple = driver.ask(commit("k", name="t"), version=9)
    assert simple.topics[0].partitions[0].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.send(join("j", group="g"))  # a known one goes on
    assert [row.group_id for row in driver.ask(ListGroupsRequest()).groups] == ["g", "h"]


def heavy(instance="i", *, size=30_000, **more):
    request = join(instance, **more)
    request.protocols[0].metadata += bytes(size)
    return request


def test_what_all_groups_keep_is_bounded_and_the_end_of_sessions_makes_room():
    """A member is kept until its session ends, whether it is connected or not."""
    driver = Driver(limits=Limits(group_members_max_bytes=100_000))
    for group in ("a", "b", "c"):
        ticket = driver.send(heavy(group=group))
        driver.advance(0)
        assert driver.answer(ticket).error_code == 0
        driver.cluster.disconnected(ticket)
    assert 90_000 < driver.cluster.shards.held_bytes() <= 100_000
    for _ in range(3):
        assert driver.ask(heavy(group="d")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.cluster.shards.held_bytes() <= 100_000
    small = driver.send(join(group="e"))  # there is room for it
    driver.advance(0)
    assert driver.answer(small).error_code == 0
    driver.advance(10_000)
    driver.advance(10_000)
    assert driver.cluster.shards.held_bytes() < 1_000
    ticket = driver.send(heavy(group="d"))
    driver.advance(0)
    assert driver.answer(ticket).error_code == 0


def test_a_member_that_joins_again_and_again_is_counted_once():
    driver = Driver(limits=Limits(group_members_max_bytes=100_000))
    member = ""
    for _ in range(20):
        ticket = driver.send(heavy(group="a", member=member))
        driver.advance(0)
        answer = driver.answer(ticket)
        assert answer.error_code == 0
        member = answer.member_id


def test_long_ids_are_bounded_with_the_rest():
    """Those of members, and those that were given out to dynamic members that never come back with them."""
    driver = Driver(limits=Limits(group_members_max_bytes=1_000_000))
    codes = set()
    for number in range(100):
        for request in (join(f"{number}" + "i" * 30_000, group=f"s{number}"), join(None, group=f"d{number}")):
            ticket = driver.send(request, client_id="c" * 30_000)
            driver.advance(0)
            codes.add(driver.answer(ticket).error_code)
        assert driver.cluster.shards.held_bytes() <= 1_000_000
    assert codes == {0, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED}


def test_assignments_are_bounded_with_the_rest():
    driver = Driver(limits=Limits(group_members_max_bytes=1_000))
    ticket = driver.send(join())
    driver.advance(0)
    joined = driver.answer(ticket)
    rows = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(2_000))]
    request = SyncGroupRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id="i",
        protocol_type="consumer", protocol_name="range", assignments=rows,
    )  # fmt: skip
    assert driver.ask(request).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.cluster.shards.held_bytes() < 1_000


def test_subscriptions_of_consumer_groups_are_bounded_too():
    driver = Driver(limits=Limits(group_members_max_bytes=1_000))
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1_000, subscribed_topic_names=["t"],
        topic_partitions=[],
    )  # fmt: skip
    assert driver.ask(request).error_code == 0
    many = ["x" * 200 + str(number) for number in range(10)]
    request.member_id, request.subscribed_topic_names = "n", many
    assert driver.ask(request).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert 0 < driver.cluster.shards.held_bytes() < 1_000


def test_a_repeated_describe_is_bounded():
    driver = Driver(limits=Limits(max_items=50))
    stable(driver)
    assert len(driver.ask(DescribeGroupsRequest(groups=["g"] * 25)).groups) == 25
    assert isinstance(driver.events[driver.send(DescribeGroupsRequest(groups=["g"] * 26))], CloseConnection)
    assert isinstance(
        driver.events[driver.send(DescribeGroupsRequest(groups=[f"g{n}" for n in range(50)]))], ResponseFrame
    )
