"""A real broker that is restarted with other limits of session timeouts than those with which groups were made."""

import pytest

from kgm.client import connect
from kgm.model.error_code import ErrorCode
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.group import live_group
from kgm.operations.removal import removal
from kgm.operations.removal.request import RemovalRequest
from tests.client.joiners import Joiner, form_group
from tests.kafka.broker import KafkaCluster
from tests.kafka.heartbeat_group import PROMPT, HeartbeatGroup, wait_coordinator_knows
from tests.server.wire_client import WireClient
from tests.waiting import until

CONSUMER, CLASSIC, TOPIC = "consumer-group", "classic-group", "orders"
SESSION = "consumer.session.timeout.ms"
OWN_MS, MOST_MS = 40_000, 10_000
BEFORE = {
    "broker.rack": "r1",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.max.session.timeout.ms": "60000",
}
AFTER = {
    "group.consumer.session.timeout.ms": str(MOST_MS), "group.consumer.max.session.timeout.ms": str(MOST_MS),
    "group.max.session.timeout.ms": "60000",
}  # fmt: skip


@pytest.fixture(scope="module")
def restarted():
    with KafkaCluster(properties=BEFORE) as cluster:
        cluster.create_topics({TOPIC: 3})
        cluster.configure_group(CONSUMER, {**PROMPT, SESSION: OWN_MS})
        with connect(cluster.bootstrap, timeout_ms=60_000) as client:

            def members():
                (one,) = client.describe_members([CLASSIC])
                return len(one.members) if isinstance(one, GroupSnapshot) else 0

            for joiner in form_group(cluster, CLASSIC, "abc", TOPIC, members=members):
                joiner.close()
        cluster.properties |= AFTER
        cluster.restart(1)
        yield cluster


@pytest.mark.long
@pytest.mark.kafka
def test_a_member_is_removed_after_the_session_that_the_broker_allows(restarted):
    wait_coordinator_knows(restarted.bootstrap, [TOPIC])
    with WireClient(restarted.port) as wire, connect(restarted.bootstrap, timeout_ms=60_000) as cluster:
        members = HeartbeatGroup(wire, CONSUMER, [TOPIC], "uniform")
        members.join("m" * 22, "a")
        members.heartbeat_until_stable()
        live = live_group(cluster, CONSUMER)
        assert live.snapshot.session_timeout_ms == MOST_MS
        assert live.broker_settings["group.consumer.session.timeout.ms"] == str(MOST_MS)
        # By its own setting, it would be there for longer than this waits.
        until(
            lambda: cluster.describe_group(CONSUMER).members, "the member is still there",
            (OWN_MS - MOST_MS) / 1000, accept=lambda left: not left, every_s=0.5,
        )  # fmt: skip


@pytest.mark.long
@pytest.mark.kafka
def test_the_rack_of_a_broker_is_known(restarted):
    with connect(restarted.bootstrap, timeout_ms=60_000) as cluster:
        cluster.describe_group(CLASSIC)
        assert [broker.rack for broker in cluster.brokers.brokers()] == ["r1"]


@pytest.mark.long
@pytest.mark.kafka
def test_members_that_stay_are_refused_as_the_warning_says(restarted):
    request = RemovalRequest(group_id=CLASSIC, instance_ids=("a",), assume_stopped=True, guard_window_ms=1)
    with connect(restarted.bootstrap, timeout_ms=60_000) as cluster:
        ready = removal.prepare(cluster, request)
        assert ready.moves.moves is None
        (text,) = [one for one in ready.warnings if "INVALID_SESSION_TIMEOUT" in one]
        assert "2 of the 2 members that stay are refused" in text
        before = cluster.describe_group(CLASSIC)
    for member in before.members:
        again = Joiner(restarted.port, CLASSIC, member.group_instance_id, TOPIC)
        again.member_id = member.member_id
        assert again.join().error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        again.close()
