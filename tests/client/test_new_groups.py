"""Groups that the embedded server does not serve, told by a broker made up for it: consumer, share, streams."""

import pytest

from kgm.client import connect
from kgm.model.errors import AuthenticationError, AuthorizationError, KgmError, NotFoundError, UnsupportedError
from kgm.operations.change.operator import current_operator
from kgm.operations.change.result import Result
from kgm.operations.removal import removal
from kgm.operations.removal.guard import GuardWatch
from kgm.operations.removal.liveness import LivenessVerdict
from kgm.operations.removal.request import RemovalRequest
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages import consumer_group_describe_response as consumer
from kgm.protocol.messages import describe_configs_response as configs
from kgm.protocol.messages import share_group_describe_response as share
from kgm.protocol.messages import streams_group_describe_response as streams
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from tests.client.faults import Edit, Pass

NOT_FOUND = 69


@pytest.fixture
def broker(proxy):
    """A proxy that seems to speak the newer APIs; each knows no group until the test says otherwise."""
    proxy.ranges = {ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1), ApiKey.SHARE_GROUP_DESCRIBE: (1, 1), ApiKey.STREAMS_GROUP_DESCRIBE: (0, 0)}  # fmt: skip
    for api, module, answer in (
        (ApiKey.CONSUMER_GROUP_DESCRIBE, consumer, consumer.ConsumerGroupDescribeResponse),
        (ApiKey.SHARE_GROUP_DESCRIBE, share, share.ShareGroupDescribeResponse),
        (ApiKey.STREAMS_GROUP_DESCRIBE, streams, streams.StreamsGroupDescribeResponse),
    ):
        row = module.DescribedGroup(group_id="g", error_code=NOT_FOUND)
        proxy.always(api, answering(answer(groups=[row])))
    return proxy


def answering(message):
    return Edit(lambda _: message, forward=False)


def describe(broker, group_id="g", **more):
    with connect(broker.bootstrap, timeout_ms=60_000) as cluster:
        return cluster.describe_groups([group_id], **more)[0]


def test_a_group_that_no_api_knows(broker):
    assert isinstance(describe(broker), NotFoundError)
    assert len(broker.requests(ApiKey.STREAMS_GROUP_DESCRIBE)) == 1


def test_a_share_group(broker):
    row = share.DescribedGroup(group_id="g", group_state="Stable", members=[share.Member(member_id="m")])
    broker.always(ApiKey.SHARE_GROUP_DESCRIBE, answering(share.ShareGroupDescribeResponse(groups=[row])))
    found = describe(broker)
    assert (found.type, [member.identity for member in found.members], found.offsets) == ("share", ["m"], ())
    assert broker.requests(ApiKey.OFFSET_FETCH) == []
    assert broker.requests(ApiKey.STREAMS_GROUP_DESCRIBE) == []


def test_a_streams_group(broker):
    row = streams.DescribedGroup(group_id="g", group_state="Empty")
    broker.always(ApiKey.STREAMS_GROUP_DESCRIBE, answering(streams.StreamsGroupDescribeResponse(groups=[row])))
    found = describe(broker)
    assert (found.type, found.state, found.members) == ("streams", "Empty", ())


@pytest.mark.parametrize(
    ("code", "kind"), [(30, AuthorizationError), (58, AuthenticationError), (112, UnsupportedError), (-1, KgmError)]
)
def test_a_refusal_of_the_newer_api_is_final(broker, code, kind):
    row = consumer.DescribedGroup(group_id="g", error_code=code, error_message="because")
    broker.always(ApiKey.CONSUMER_GROUP_DESCRIBE, answering(consumer.ConsumerGroupDescribeResponse(groups=[row])))
    error = describe(broker)
    assert isinstance(error, kind)
    assert "the broker says: because" in error.facts
    assert broker.requests(ApiKey.DESCRIBE_GROUPS) == []


def consumer_group(*members):
    row = consumer.DescribedGroup(
        group_id="g",
        group_state="Stable",
        group_epoch=4,
        assignment_epoch=4,
        assignor_name="uniform",
        members=list(members),
    )
    return answering(consumer.ConsumerGroupDescribeResponse(groups=[row]))


def member(name, epoch=4):
    rows = [consumer.TopicPartitions(topic_name="orders", partitions=[0])]
    mine = consumer.Assignment(topic_partitions=rows)
    return consumer.Member(
        member_id=f"{name}-id", instance_id=name, member_epoch=epoch, assignment=mine, target_assignment=mine,
        subscribed_topic_names=["orders"], member_type=1,
    )  # fmt: skip


def session_timeout(value, error_code=0):
    config = configs.DescribeConfigsResourceResult(name="consumer.session.timeout.ms", value=value)
    row = configs.DescribeConfigsResult(resource_type=32, resource_name="g", configs=[config], error_code=error_code)
    return answering(configs.DescribeConfigsResponse(results=[row]))


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (session_timeout("45000"), 45_000),
        (session_timeout(None), None),
        (session_timeout("soon"), None),
        (session_timeout("45000", 29), None),
        (None, None),
    ],
)
def test_the_session_timeout_of_a_consumer_group_where_it_may_be_seen(broker, fault, expected):
    broker.always(ApiKey.CONSUMER_GROUP_DESCRIBE, consumer_group(member("a")))
    broker.ranges[ApiKey.DESCRIBE_CONFIGS] = (1, 0)
    if fault is not None:
        broker.ranges[ApiKey.DESCRIBE_CONFIGS] = (1, 4)
        broker.always(ApiKey.DESCRIBE_CONFIGS, fault)
    found = describe(broker)
    assert (found.type, found.session_timeout_ms, found.group_epoch) == ("consumer", expected, 4)
    assert [(topic.name, topic.partitions) for topic in found.topics] == [("orders", 6)]


def test_away_is_known_without_a_window(broker):
    broker.always(ApiKey.CONSUMER_GROUP_DESCRIBE, consumer_group(member("a", -2), member("b")))
    with connect(broker.bootstrap, timeout_ms=60_000) as cluster:
        report = GuardWatch(cluster, cluster.describe_group("g"), ["a-id"], also=["b-id"]).run()
    assert report.liveness["a-id"].verdict is LivenessVerdict.STOPPED
    assert report.verdict_of("b-id") is LivenessVerdict.UNKNOWN


def removed(cluster):
    request = RemovalRequest(group_id="g", instance_ids=("a",), assume_stopped=True, guard_window_ms=0)
    prepared = removal.prepare(cluster, request)
    return removal.execute(cluster, prepared, operator=current_operator(), audit=None)


def test_brokers_before_4_0_cannot_remove_consumer_members(broker):
    """KAFKA-18188: the broker says UNKNOWN_MEMBER_ID of a member that it describes."""
    broker.always(ApiKey.CONSUMER_GROUP_DESCRIBE, consumer_group(member("a")))
    rows = [MemberResponse(member_id="a-id", group_instance_id="a", error_code=25)]
    broker.always(ApiKey.LEAVE_GROUP, answering(LeaveGroupResponse(members=rows)))
    with connect(broker.bootstrap, timeout_ms=60_000) as cluster:
        report = removed(cluster)
    (row,) = report.results
    assert (row.result, row.error, report.exit_code) == (Result.REFUSED, 25, 6)
    assert "KAFKA-18188" in row.note


def test_a_removed_live_consumer_member_comes_back_under_the_same_id(broker):
    broker.always(ApiKey.CONSUMER_GROUP_DESCRIBE, consumer_group(member("a")))
    rows = [MemberResponse(member_id="a-id", group_instance_id="a", error_code=0)]
    broker.script(ApiKey.LEAVE_GROUP, answering(LeaveGroupResponse(members=rows)), Pass())
    with connect(broker.bootstrap, timeout_ms=60_000) as cluster:
        report = removed(cluster)
    (row,) = report.results
    assert (row.result, report.exit_code) == (Result.RETURNED, 7)
    assert "its process is alive" in row.note
