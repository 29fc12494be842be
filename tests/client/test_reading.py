"""List and describe against a broker that misbehaves: retries inside the budget, partial answers as data."""

import time

import pytest

from kgm.client import connect
from kgm.client.failures import MissingGroupError
from kgm.client.requests import GroupDescription
from kgm.client.transport.bootstrap import Address
from kgm.client.transport.brokers import BrokerNode, Brokers
from kgm.client.transport.connection import Plaintext
from kgm.model.errors import (
    AuthorizationError,
    BrokerError,
    ErrorCode,
    KgmError,
    NotFoundError,
    UnreachableError,
    UnsupportedError,
)
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kgm.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kgm.protocol.messages.list_groups_response import ListGroupsResponse
from tests.client.faults import BlackHole, Edit, Garbage, Raw, ResetAfter, ResetBefore, WrongCorrelation
from tests.client.pace import short_budget_ms

BUDGET_MS = 60_000


@pytest.fixture
def cluster(proxy):
    with connect(proxy.bootstrap, timeout_ms=BUDGET_MS) as connected:
        yield connected


def describe_error(code):
    def change(message):
        for group in message.groups:
            group.error_code, group.group_state, group.members = code, "", []

    return Edit(change)


def coordinator_error(code):
    def change(_):
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key=key, error_code=code, port=-1, node_id=-1) for key in keys]
        )

    keys: list[str] = []
    return keys, Edit(change, forward=False)


@pytest.mark.parametrize(
    "fault",
    [
        ResetBefore(),
        ResetAfter(),
        describe_error(ErrorCode.NOT_COORDINATOR),
        describe_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        describe_error(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
    ids=["reset before", "reset after", "moved", "loading", "not available"],
)
@pytest.mark.slow
def test_describe_tries_again(cluster, proxy, form, group, fault):
    form("a", "b")
    proxy.script(ApiKey.DESCRIBE_GROUPS, fault, fault)
    found = cluster.describe_group(group)
    assert [member.identity for member in found.members] == ["a", "b"]
    # Two that failed, one that was answered, and one more: the coordinator may have taken over just now.
    assert len(proxy.requests(ApiKey.DESCRIBE_GROUPS)) == 4


@pytest.mark.slow
def test_a_moved_coordinator_is_looked_up_again_and_a_loading_one_is_not(cluster, proxy, form, group):
    form("a")
    proxy.script(ApiKey.DESCRIBE_GROUPS, describe_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    cluster.describe_group(group)
    assert len(proxy.requests(ApiKey.FIND_COORDINATOR)) == 1
    proxy.script(ApiKey.DESCRIBE_GROUPS, describe_error(ErrorCode.NOT_COORDINATOR))
    cluster.describe_group(group)
    assert len(proxy.requests(ApiKey.FIND_COORDINATOR)) == 2


def test_no_coordinator_yet_is_waited_for(cluster, proxy, group):
    keys, fault = coordinator_error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    keys.append(group)
    proxy.script(ApiKey.FIND_COORDINATOR, fault)
    with pytest.raises(NotFoundError):
        cluster.describe_group(group)
    assert len(proxy.requests(ApiKey.FIND_COORDINATOR)) == 2


def test_a_coordinator_that_never_comes_is_unreachable_and_says_why(proxy, group):
    keys, fault = coordinator_error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    keys.append(group)
    proxy.always(ApiKey.FIND_COORDINATOR, fault)
    with connect(proxy.bootstrap, timeout_ms=1_000) as cluster:
        (error,) = cluster.describe_groups([group])
    assert isinstance(error, UnreachableError)
    assert (error.json_code, error.group_id) == ("COORDINATOR_NOT_AVAILABLE", group)


def test_an_answer_that_leaves_a_group_out_is_asked_again(cluster, proxy, group):
    proxy.script(ApiKey.FIND_COORDINATOR, Edit(lambda m: setattr(m, "coordinators", [])))
    with pytest.raises(NotFoundError):
        cluster.describe_group(group)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.INVALID_GROUP_ID, BrokerError),
        (ErrorCode.GROUP_ID_NOT_FOUND, MissingGroupError),
        (999, BrokerError),
    ],
)
def test_errors_of_one_group_are_data(cluster, proxy, form, group, code, kind):
    proxy.script(ApiKey.DESCRIBE_GROUPS, describe_error(code))
    (error,) = cluster.describe_groups([group])
    assert type(error) is kind
    assert error.group_id == group
    if kind is AuthorizationError:
        assert error.exit_code == 4
        assert any("DESCRIBE on Group" in fact for fact in error.facts)
    if code == 999:
        assert error.json_code == "ERROR_999"


def test_dead_without_an_error_is_not_found(cluster, proxy, group):
    """DescribeGroups before v6 has no other way to say it."""
    answer = DescribeGroupsResponse(groups=[DescribedGroup(group_id=group, group_state="Dead")])
    proxy.script(ApiKey.DESCRIBE_GROUPS, Edit(lambda _: answer, forward=False))
    with pytest.raises(NotFoundError):
        cluster.describe_group(group)


@pytest.mark.parametrize("fault", [Garbage(), WrongCorrelation(), Raw(b"\x7f\xff\xff\xff")])
def test_answers_that_make_no_sense_are_errors_not_crashes(cluster, proxy, group, fault):
    proxy.always(ApiKey.DESCRIBE_GROUPS, fault)
    (error,) = cluster.describe_groups([group])
    assert isinstance(error, KgmError)
    assert error.exit_code == 1


@pytest.mark.slow
def test_offsets_that_cannot_be_read_cost_nothing_else(proxy, form, group):
    form("a")
    for api, fault in (
        (ApiKey.OFFSET_FETCH, Garbage()),
        (ApiKey.LIST_OFFSETS, Garbage()),
        (ApiKey.METADATA, Garbage()),
    ):
        with connect(proxy.bootstrap, timeout_ms=BUDGET_MS) as cluster:
            proxy.always(api, fault)
            found = cluster.describe_group(group)
            assert found.members[0].assignment == {"orders": [0]}
            assert found.members[0].lag is None
        proxy._always.clear()


@pytest.mark.slow
def test_a_silent_partition_leader_does_not_cost_the_answer(proxy, form, group):
    (a,) = form("a")
    assert a.commit(0, 3) == 0
    budget_ms = short_budget_ms(proxy.bootstrap, group)
    proxy.always(ApiKey.LIST_OFFSETS, BlackHole())
    with connect(proxy.bootstrap, timeout_ms=budget_ms) as cluster:
        found = cluster.describe_group(group)
    (row,) = found.offsets
    assert (row.committed, row.end, row.lag) == (3, None, None)


def test_a_listing_that_fails_everywhere_raises(cluster, proxy):
    proxy.always(ApiKey.LIST_GROUPS, Edit(lambda _: ListGroupsResponse(error_code=31), forward=False))
    with pytest.raises(AuthorizationError):
        cluster.list_groups()


@pytest.mark.slow
def test_a_listing_of_an_old_broker_gets_its_states_by_describe(proxy, form, group):
    form("a")
    proxy.ranges = {ApiKey.LIST_GROUPS: (0, 3), ApiKey.CONSUMER_GROUP_DESCRIBE: (1, 0)}
    with connect(proxy.bootstrap, timeout_ms=BUDGET_MS) as cluster:
        row = next(one for one in cluster.list_groups().groups if one.group_id == group)
        assert (row.state, row.type) == (None, None)
        stable = cluster.list_groups(states=["STABLE"]).groups
        assert next(one for one in stable if one.group_id == group).state == "Stable"
        assert group not in [one.group_id for one in cluster.list_groups(states=["empty"]).groups]
        assert group not in [one.group_id for one in cluster.list_groups(types=["consumer"]).groups]


@pytest.mark.parametrize("highest", [0, 1, 2, 3, 4, 5, 6])
@pytest.mark.slow
def test_describe_by_every_version(proxy, form, group, highest):
    (a, *_) = form("a", None)
    assert a.commit(0, 2) == 0
    proxy.ranges = {
        ApiKey.DESCRIBE_GROUPS: (0, min(highest, 6)),
        ApiKey.FIND_COORDINATOR: (0, highest),
        ApiKey.METADATA: (0, 2 * highest + 1),
        ApiKey.OFFSET_FETCH: (1, highest + 2),
        ApiKey.LIST_OFFSETS: (1, highest + 1),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (1, 0),
        ApiKey.API_VERSIONS: (0, min(highest, 4)),
    }
    with connect(proxy.bootstrap, timeout_ms=BUDGET_MS) as cluster:
        found = cluster.describe_group(group)
    static = [member.group_instance_id for member in found.members]
    assert len(static) == 2
    assert ("a" in static) == (highest >= 4)  # instance ids came with DescribeGroups v4
    assert {p for member in found.members for p in member.assignment["orders"]} == {0, 1}
    assert next(row for row in found.offsets if row.partition == 0).committed == 2
    assert [(topic.name, topic.partitions) for topic in found.topics] == [("orders", 6)]


def test_offsets_of_v1_cannot_be_asked_for_all_topics(proxy, group):
    proxy.ranges = {ApiKey.OFFSET_FETCH: (1, 1)}
    with connect(proxy.bootstrap, timeout_ms=BUDGET_MS) as cluster:
        assert cluster.committed_offsets(group) == {}


def test_a_broker_without_describe_says_so(proxy, group):
    proxy.ranges = {ApiKey.DESCRIBE_GROUPS: (1, 0), ApiKey.CONSUMER_GROUP_DESCRIBE: (1, 0)}
    with connect(proxy.bootstrap, timeout_ms=BUDGET_MS) as cluster:
        (error,) = cluster.describe_groups([group])
    assert isinstance(error, UnsupportedError)


@pytest.mark.slow
def test_a_group_of_another_protocol_and_odd_metadata(cluster, form, group):
    form("a", protocol_type="connect", metadata=b"\0\1\0\0\0\3url")
    found = cluster.describe_group(group)
    assert (found.protocol_type, found.members[0].topics, found.members[0].assignment) == ("connect", (), {})


def test_a_connection_that_died_in_between_is_replaced(cluster, proxy, group):
    cluster.list_groups()
    proxy.cut()
    assert cluster.list_groups().errors == ()
    proxy.cut()
    with pytest.raises(NotFoundError):
        cluster.describe_group(group)


def test_a_renewed_budget_counts_from_now(cluster):
    before = time.monotonic()
    cluster.renew(60_000)
    remaining = cluster.deadline.remaining()
    assert 60 - (time.monotonic() - before) <= remaining <= 60


@pytest.mark.slow
def test_many_groups_in_few_requests(cluster, proxy, form, group):
    form("a")
    names = [group, *(f"{group}-{i}" for i in range(1_200))]
    found = cluster.describe_groups(names)
    assert [isinstance(one, NotFoundError) for one in found] == [False] + [True] * 1_200
    assert len(proxy.requests(ApiKey.DESCRIBE_GROUPS)) == 3


def test_listed_groups_are_described_in_one_request_each(cluster, proxy, form, group):
    """The broker that lists a group coordinates it, and says which protocol it uses."""
    form("a", "b")
    assert group in {row.group_id for row in cluster.list_groups().groups}
    assert [member.identity for member in cluster.describe_members_of(group).members] == ["a", "b"]
    assert not proxy.requests(ApiKey.FIND_COORDINATOR)
    assert not proxy.requests(ApiKey.CONSUMER_GROUP_DESCRIBE)
    assert len(proxy.requests(ApiKey.DESCRIBE_GROUPS)) == 1


@pytest.mark.slow
def test_a_listed_group_that_has_moved_is_looked_up(cluster, proxy, form, group):
    form("a")
    cluster.list_groups()
    proxy.script(ApiKey.DESCRIBE_GROUPS, describe_error(ErrorCode.NOT_COORDINATOR))
    assert [member.identity for member in cluster.describe_members_of(group).members] == ["a"]
    assert len(proxy.requests(ApiKey.FIND_COORDINATOR)) == 1


def test_a_listed_group_of_another_type_by_now_is_asked_for_as_such(cluster, proxy, form, group):
    form("a")
    cluster.list_groups()
    proxy.script(ApiKey.DESCRIBE_GROUPS, describe_error(ErrorCode.GROUP_ID_NOT_FOUND))
    assert [member.identity for member in cluster.describe_members_of(group).members] == ["a"]
    assert len(proxy.requests(ApiKey.CONSUMER_GROUP_DESCRIBE)) == 1


def test_a_group_that_two_brokers_list_is_looked_up():
    one, two = (BrokerNode(number, Address("h", number)) for number in (1, 2))
    brokers = Brokers([one.address], Plaintext())
    brokers.remember_listed(["a", "b"], one, also_listed=())
    brokers.remember_listed(["b", "c"], two, also_listed={"a", "b"})
    known = {name: brokers.coordinator(name) for name in "abc"}
    assert {name: node and node.id for name, node in known.items()} == {"a": 1, "b": None, "c": 2}


def test_kinds_of_described_groups():
    assert GroupDescription("classic", None) == GroupDescription("classic", None)
