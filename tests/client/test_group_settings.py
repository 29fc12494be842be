"""The settings that a consumer group has: its own, within the limits that its coordinator's broker has now. Up to 4.2
they apply as they are (GroupConfig.java of each version)."""

import uuid
from contextlib import ExitStack, contextmanager

import pytest

from kgm.client import connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import ErrorCode
from kgm.operations.bounce.group import live_group
from kgm.operations.bounce.prediction import predict_bounce
from kgm.operations.bounce.request import BounceRequest
from kgm.operations.removal.guard import GuardWatch
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kgm.server import serve_in_thread
from tests.client.faults import Edit, FaultProxy
from tests.kafka.heartbeat_group import HeartbeatGroup
from tests.kafka.versions import shared_broker
from tests.server.wire_client import WireClient

GROUP, TOPIC = "g", "orders"
SESSION, ASSIGNMENT = "consumer.session.timeout.ms", "consumer.assignment.interval.ms"
_GROUP, _BROKER = 32, 4


@contextmanager
def restarted_broker(folder, version, *, own_ms, before, after):
    """A broker of a version, after a restart: the group's session timeout was set while the broker had the settings
    `before`. Static members a and b have joined since."""
    version = BrokerVersion.parse(version)

    def serving(more):
        settings = BrokerSettings(
            kafka_version=version, offsets_topic_num_partitions=1, group_consumer_assignment_interval_ms=0, **more
        )
        return serve_in_thread(topics={TOPIC: 6}, settings=settings, data_dir=folder)

    with serving(before) as server, WireClient(server.port) as wire:
        row = AlterableConfig(name=SESSION, config_operation=0, value=str(own_ms))
        resource = AlterConfigsResource(resource_type=_GROUP, resource_name=GROUP, configs=[row])
        answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        assert [one.error_code for one in answer.responses] == [0]
    with serving(after) as server, WireClient(server.port) as wire:
        members = HeartbeatGroup(wire, GROUP, [TOPIC], "uniform")
        for name in "ab":
            members.join(f"member-{name}", name)
        members.heartbeat_until_stable()
        yield server


LOWERED = {
    "own_ms": 40_000,
    "before": {"group_consumer_min_session_timeout_ms": 6_000},
    "after": {
        "group_consumer_session_timeout_ms": 10_000, "group_consumer_min_session_timeout_ms": 6_000,
        "group_consumer_max_session_timeout_ms": 10_000,
    },
}  # fmt: skip
RAISED = {"own_ms": 6_000, "before": LOWERED["before"], "after": {}}  # the broker's default minimum: 45 s


def static_restart(cluster, *, restart_time_ms=20_000):
    request = BounceRequest(instance_ids=("a",), restart_time_ms=restart_time_ms)
    return predict_bounce(live_group(cluster, GROUP), request, draws=5).predictions[0]


@pytest.mark.parametrize(
    ("limits", "version", "effective_ms", "rebalances"),
    [
        (LOWERED, "4.3", 10_000, 2), (LOWERED, "4.2", 40_000, 0), (RAISED, "4.3", 45_000, 0), (RAISED, "4.2", 6_000, 2),
    ],
    ids=["lowered-4.3", "lowered-4.2", "raised-4.3", "raised-4.2"],
)  # fmt: skip
def test_a_groups_own_settings_are_limited_as_its_broker_limits_them(
    tmp_path, limits, version, effective_ms, rebalances
):
    with (
        restarted_broker(tmp_path / "data", version, **limits) as server,
        connect(server.bootstrap, timeout_ms=10_000) as cluster,
    ):
        assert cluster.describe_group(GROUP).session_timeout_ms == effective_ms
        assert cluster.group_settings(GROUP, [SESSION]) == {SESSION: str(effective_ms)}
        assert cluster.session_timeout_ms(GROUP, "consumer") == effective_ms
        assert static_restart(cluster).typical.rebalances == rebalances


def refusing(resource_type):
    """Refuses the settings of brokers, or of groups."""

    def change(answer):
        for row in answer.results:
            if row.resource_type == resource_type:
                row.error_code, row.configs = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, []
                if resource_type == _GROUP:
                    row.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    return Edit(change)


@pytest.mark.parametrize(("resource_type", "where"), [(_BROKER, "cluster"), (_GROUP, "group")])
def test_a_session_timeout_that_cannot_be_known_is_not_guessed(tmp_path, resource_type, where):
    """Not from what the group asked for, which the broker may limit, nor from the broker's, which the group may not
    have: a member that is still there after that time has not shown that it is alive."""
    with (
        restarted_broker(tmp_path / "data", "4.3", **LOWERED) as server,
        FaultProxy((server.host, server.port)) as proxy,
        connect(proxy.bootstrap, timeout_ms=10_000) as cluster,
    ):
        proxy.always(ApiKey.DESCRIBE_CONFIGS, refusing(resource_type))
        group = cluster.describe_group(GROUP)
        assert group.session_timeout_ms is None
        assert cluster.session_timeout_ms(GROUP, "consumer") is None
        why = cluster.unread_group_settings[GROUP].why
        assert why == f"cannot be read without DESCRIBE_CONFIGS on the {where}"
        report = GuardWatch(cluster, group, ["member-a"], window_ms=1).run()
        assert report.session_timeouts_ms == {}
        prediction = static_restart(cluster)
        assert not prediction.exact
        assert prediction.ranges.rebalances.max == 2
        (text,) = [text for text in prediction.caveats if "the group's settings" in text]
        assert text.startswith(f"the group's settings {why}: Kafka's defaults are assumed")


def test_the_limits_of_a_broker_that_is_no_apache_kafka_are_not_known(tmp_path):
    def foreign(answer):
        answer.api_keys[-1].api_key = 10_000
        answer.supported_features = []

    with (
        restarted_broker(tmp_path / "data", "4.3", **LOWERED) as server,
        FaultProxy((server.host, server.port)) as proxy,
        ExitStack() as stack,
    ):
        proxy.always(ApiKey.API_VERSIONS, Edit(foreign))
        cluster = stack.enter_context(connect(proxy.bootstrap, timeout_ms=10_000))
        assert cluster.describe_group(GROUP).session_timeout_ms is None
        assert cluster.group_settings(GROUP, [SESSION]) == {}
        assert GROUP in cluster.unread_group_settings


@pytest.mark.parametrize(("version", "are_known"), [("2.8", False), ("3.9+new", False), ("4.0", True)])
def test_brokers_before_4_0_are_not_asked_for_a_groups_settings(version, are_known):
    settings = BrokerSettings(kafka_version=BrokerVersion.parse(version), offsets_topic_num_partitions=1)
    with (
        serve_in_thread(topics={TOPIC: 1}, settings=settings) as server,
        FaultProxy((server.host, server.port)) as proxy,
        connect(proxy.bootstrap, timeout_ms=10_000) as cluster,
    ):
        assert cluster.group_settings(GROUP, [SESSION]) == ({SESSION: "45000"} if are_known else {})
        assert cluster.broker_settings(GROUP, ["group.min.session.timeout.ms"])
        # Nothing is unread: there are no settings of groups.
        assert (cluster.unread_group_settings, cluster.unread_broker_settings) == ({}, {})
        asked = {one.resource_type for each in proxy.requests(ApiKey.DESCRIBE_CONFIGS) for one in each.resources}
    assert asked == ({_GROUP, _BROKER} if are_known else {_BROKER})


@pytest.mark.kafka
@pytest.mark.slow
def test_an_old_broker_logs_no_error():
    """Kafka 2.8.2 logs each resource type that it does not know, with a stack trace."""
    kafka = shared_broker("2.8.2")
    group = f"g-{uuid.uuid4().hex[:8]}"
    with connect(kafka.bootstrap, timeout_ms=20_000) as cluster:
        assert cluster.group_settings(group, [SESSION]) == {}
        assert (cluster.unread_group_settings, cluster.unread_broker_settings) == ({}, {})
    assert f"resource type UNKNOWN for resource {group}" not in (kafka.folder / "broker.log").read_text(
        errors="replace"
    )
