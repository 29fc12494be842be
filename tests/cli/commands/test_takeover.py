"""A coordinator that has just taken over describes groups as they were some records ago (real Kafka, for a second or
so): what it knows and what it describes differ, and nothing that kgm says may rest on the latter alone."""

import pytest

from kgm.client import connect
from kgm.operations.watch.conditions import parse_condition
from kgm.operations.watch.wait import WaitLimits, wait_for
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.describe_groups_response import DescribeGroupsResponse
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from tests.cli.commands.test_remove_members import left, remove, shown  # noqa: F401
from tests.client.conftest import form, group, newcomer, proxy, server  # noqa: F401
from tests.client.faults import Edit, Pass, ResetBefore
from tests.operations.watch.virtual_time import VirtualTime

pytestmark = pytest.mark.slow


def as_it_was(message: DescribeGroupsResponse) -> None:
    """The group before its first rebalance."""
    for described in message.groups:
        described.group_state, described.protocol_type, described.protocol_data = "Empty", "", ""
        described.members = []


def unknown(message: DescribeGroupsResponse) -> None:
    """The group before its first record."""
    as_it_was(message)
    for described in message.groups:
        described.group_state = "Dead"


@pytest.mark.parametrize("before", [as_it_was, unknown])
def test_nobody_is_absent_who_holds_the_instance_id(remove, proxy, group, form, before):  # noqa: F811
    form("a", "b", "c")
    proxy.script(ApiKey.DESCRIBE_GROUPS, Edit(before), Edit(before))
    code, document, _ = remove("--instance-ids", "a,zz", "--yes", "--ignore-missing")
    assert (code, shown(document)) == (0, [("a", "removed", None), ("zz", "absent", "UNKNOWN_MEMBER_ID")])
    assert left(proxy, group) == ["b", "c"]


def test_patterns_have_nobody_to_ask_for_and_look_twice(remove, proxy, group, form):  # noqa: F811
    form("a", "b", "c")
    proxy.script(ApiKey.DESCRIBE_GROUPS, Edit(as_it_was))
    code, document, _ = remove("--match", "[ab]", "--yes")
    assert (code, shown(document)) == (0, [("a", "removed", None), ("b", "removed", None)])


def test_nobody_is_removed_who_is_there_yet(remove, proxy, form):  # noqa: F811
    """The answer is lost, and the removal with it: the coordinator that took over has the member, and does not show
    it at first."""
    form("a", "b", "c")
    proxy.script(ApiKey.DESCRIBE_GROUPS, Pass(), Edit(as_it_was), Edit(as_it_was))
    proxy.always(ApiKey.LEAVE_GROUP, ResetBefore())
    code, document, _ = remove("--instance-ids", "a", "--yes", "--assume-stopped", quick=("--timeout", "3s"))
    assert (code, shown(document)) == (7, [("a", "unknown", None)])
    assert "it is still in the group" in document["data"]["results"][0]["note"]


def test_who_may_not_ask_believes_what_is_described(remove, proxy, form):  # noqa: F811
    form("a", "b")
    proxy.always(ApiKey.HEARTBEAT, Edit(lambda _: HeartbeatResponse(error_code=30), forward=False))
    code, document, _ = remove("--instance-ids", "zz", "--yes")
    assert (code, shown(document)) == (3, [("zz", "absent", "UNKNOWN_MEMBER_ID")])


def test_a_description_that_stays_behind_is_an_error(remove, proxy, form):  # noqa: F811
    form("a", "b")
    proxy.always(ApiKey.DESCRIBE_GROUPS, Edit(as_it_was))
    code, document, err = remove("--instance-ids", "a", "--yes", quick=("--timeout", "2s"))
    assert (code, document["data"]) == (5, {})
    assert "describes an outdated state of it" in err
    assert not proxy.requests(ApiKey.LEAVE_GROUP)


@pytest.mark.parametrize("outdated", [1, 3, 5])
def test_waiting_for_an_empty_group_looks_twice(proxy, group, form, outdated):  # noqa: F811
    """A group that is described as empty for less than a second is not believed to be."""
    form("a", "b")
    proxy.script(ApiKey.DESCRIBE_GROUPS, *[Edit(as_it_was)] * outdated)
    with connect(proxy.bootstrap) as cluster:
        limits = WaitLimits(timeout_ms=4_000, hold_ms=0, interval_ms=200)
        result = wait_for(cluster, group, [parse_condition("empty")], limits, VirtualTime())
    assert not result.met
    assert result.conditions[0].seen == "2 members"
    assert 3_500 < result.waited_ms < 4_000


def test_a_group_that_stays_empty_is_waited_for_no_longer_than_that(proxy, group, form):  # noqa: F811
    form("a", "b")
    proxy.always(ApiKey.DESCRIBE_GROUPS, Edit(as_it_was))
    with connect(proxy.bootstrap) as cluster:
        limits = WaitLimits(timeout_ms=4_000, hold_ms=0, interval_ms=200)
        result = wait_for(cluster, group, [parse_condition("empty")], limits, VirtualTime())
    assert result.met
    assert 1_000 <= result.waited_ms < 1_500
