"""The settings of a streams group (KIP-1071): the group's own, or else those of its broker."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import replace

import pytest

from kgm.client import connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import ErrorCode
from kgm.operations.bounce.gates import Gates
from kgm.operations.bounce.group import BounceGroup, live_group
from kgm.operations.bounce.prediction import predict_bounce
from kgm.operations.bounce.request import BounceRequest
from kgm.protocol.apis import ApiKey
from kgm.server import serve_in_thread
from kgm.simulation.plan.bounce_plan import Stop, WhatIf
from tests.cli.runner import kgm
from tests.client.faults import Edit, FaultProxy
from tests.kafka.streams_heartbeats import PROMPT, StreamsHeartbeats
from tests.kafka.versions import shared_broker
from tests.server.wire_client import WireClient
from tests.simulation.streams.applications import streams_group

TASKS, SESSION, INTERVAL = 4, "streams.session.timeout.ms", "streams.heartbeat.interval.ms"
#: What a broker allows: sessions of 6 s to 100 s.
LIMITS = {"group.streams.min.session.timeout.ms": "6000", "group.streams.max.session.timeout.ms": "100000"}
#: A member reports at least this often, and others learn of it and run its tasks within this time.
HEARTBEAT_MS, SLACK_MS = 5_000, 12_000
_GROUP, _BROKER = 32, 4


@contextmanager
def members_of(port, group, topic):
    """A stable group of two members with two tasks each: their ids."""
    with WireClient(port) as wire:
        names = [f"{group}-{name}" for name in "ab"]
        StreamsHeartbeats(wire, group, topic).join(names, tasks=TASKS)
        yield names


def killed(cluster, group, name, **options):
    request = BounceRequest(scale_in=(name,), stop=Stop.CRASH, **options)
    return predict_bounce(live_group(cluster, group), request, draws=20, gates=Gates(stopped_ms=10**9))


def is_for_session(found, session_ms):
    """Whether the two tasks of the killed member are predicted to stop for its session, less the time since its last
    heartbeat."""
    stopped = found.predictions[0].stopped_partition_range_ms
    return 2 * (session_ms - HEARTBEAT_MS) <= stopped.min <= stopped.max <= 2 * (session_ms + SLACK_MS)


def assumed(prediction):
    return [text for text in prediction.caveats if text.startswith("assumed about the broker and the group")]


@pytest.mark.few(1)
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(
    ("brokers_ms", "own_ms", "session_ms"),
    [(90_000, None, 90_000), (90_000, 75_000, 75_000), (45_000, 8_000, 8_000)],
    ids=["of-the-broker", "of-the-group", "a-short-one"],
)
def test_a_killed_member_stays_for_the_session_that_the_broker_and_the_group_have(brokers_ms, own_ms, session_ms):
    kafka = shared_broker("4.3.0", {**LIMITS, f"group.{SESSION}": str(brokers_ms)})
    group, topic = f"sg-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({topic: TASKS})
    kafka.configure_group(group, PROMPT if own_ms is None else {**PROMPT, SESSION: own_ms})
    port = int(kafka.bootstrap.rpartition(":")[2])
    with members_of(port, group, topic) as names, connect(kafka.bootstrap, timeout_ms=30_000) as cluster:
        found = killed(cluster, group, names[0])
        assert found.group.session_timeout_ms == session_ms
        assert is_for_session(found, session_ms)
        assert (assumed(found.predictions[0]), found.unread, found.failed_gates) == ([], None, ())
        asked = {"what_if": WhatIf(session_timeout_ms=60_000)}, {"settings": {f"group.{SESSION}": "60000"}}
        assert all(is_for_session(killed(cluster, group, names[0], **more), 60_000) for more in asked)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.1.1", "4.2.0", "4.3.0"])
def test_what_a_broker_states_of_a_group_without_settings_is_not_taken_for_its_own(version):
    """Up to 4.2 it states Kafka's defaults, and its own settings apply to the group. They do not if the group has any
    (GroupConfigManager.updateGroupConfig)."""
    kafka = shared_broker(version, {f"group.{SESSION}": "50000", f"group.{INTERVAL}": "6000"})
    plain, own = f"sg-{uuid.uuid4().hex[:8]}", f"sg-{uuid.uuid4().hex[:8]}"
    kafka.configure_group(own, {INTERVAL: 7_000})
    with connect(kafka.bootstrap, timeout_ms=30_000) as cluster:
        assert cluster.group_settings(plain, [SESSION, INTERVAL]) == {SESSION: "50000", INTERVAL: "6000"}
        session = "50000" if version == "4.3.0" else "45000"
        assert cluster.group_settings(own, [SESSION, INTERVAL]) == {SESSION: session, INTERVAL: "7000"}
        assert cluster.session_timeout_ms(plain, "streams") == 50_000
        assert cluster.session_timeout_ms(own, "streams") == int(session)


@contextmanager
def served(version="4.3"):
    """A broker with sessions of 90 s, by the rules of a version, behind a proxy; and a group of two members."""
    settings = BrokerSettings.from_overrides(
        {**LIMITS, f"group.{SESSION}": "90000", **{f"group.{name}": str(value) for name, value in PROMPT.items()}}
    )
    settings = replace(settings, kafka_version=BrokerVersion.parse(version), offsets_topic_num_partitions=1)
    with (
        serve_in_thread(topics={"t": TASKS}, settings=settings) as server,
        members_of(server.port, "g", "t") as names,
        FaultProxy((server.host, server.port)) as proxy,
    ):
        yield proxy, names[0]


@pytest.mark.parametrize("version", ["4.2", "4.3"])
def test_the_session_is_the_brokers(version):
    with served(version) as (proxy, name), connect(proxy.bootstrap, timeout_ms=30_000) as cluster:
        assert is_for_session(killed(cluster, "g", name), 90_000)


def refusing(*resource_types):
    """Refuses the settings of brokers, or of groups."""

    def change(answer):
        for row in answer.results:
            if row.resource_type in resource_types:
                is_group = row.resource_type == _GROUP
                code = ErrorCode.GROUP_AUTHORIZATION_FAILED if is_group else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                row.error_code, row.configs = code, []

    return Edit(change)


def without_the_api(answer):
    answer.api_keys = [one for one in answer.api_keys if one.api_key != ApiKey.DESCRIBE_CONFIGS]


CANNOT_BE_READ = {
    "neither": (ApiKey.DESCRIBE_CONFIGS, refusing(_GROUP, _BROKER)),
    "not the group's": (ApiKey.DESCRIBE_CONFIGS, refusing(_GROUP)),
    "no such API": (ApiKey.API_VERSIONS, Edit(without_the_api)),
}


@pytest.mark.parametrize("fault", CANNOT_BE_READ)
def test_a_gate_is_not_green_for_a_session_that_had_to_be_assumed(fault):
    with served() as (proxy, name):
        words = ("simulate-bounce", "g", "--stop", "crash", "--scale-in", name, "--draws", "5", "-b", proxy.bootstrap)
        limit = ("--fail-if-stopped", "150s")
        assert kgm(*words, *limit).code == 8  # two tasks, 90 s each
        proxy.always(*CANNOT_BE_READ[fault])
        run = kgm(*words, *limit)
        assert run.code == 7
        assert "the group's session timeout" in run.err
        assert "DESCRIBE_CONFIGS on Cluster 'kafka-cluster' and on Group 'g'" in run.err
        assert f"group.{SESSION}=45000" in run.out
        assert kgm(*words).code == 0  # without a limit a note is enough
        assert kgm(*words, *limit, "--session-timeout", "45s").code == 0
        assert kgm(*words, *limit, "--set", f"group.{SESSION}=45000").code == 0
        closed = [*words[:2], *words[4:]]
        assert kgm(*closed, *limit).code == 0  # it leaves, and no session matters


def test_the_groups_settings_are_enough_where_the_brokers_cannot_be_read():
    with served() as (proxy, name), connect(proxy.bootstrap, timeout_ms=30_000) as cluster:
        proxy.always(ApiKey.DESCRIBE_CONFIGS, refusing(_BROKER))
        found = killed(cluster, "g", name)
        assert is_for_session(found, 90_000)
        assert (assumed(found.predictions[0]), found.unread) == ([], None)


def test_a_snapshot_from_a_file_has_a_caveat_only():
    group = BounceGroup(snapshot=streams_group(session_timeout_ms=None))
    request = BounceRequest(scale_in=("m-1-1",), stop=Stop.CRASH)
    found = predict_bounce(group, request, draws=2, gates=Gates(stopped_ms=10**9))
    assert (found.unread, found.failed_gates) == (None, ())
    (text,) = assumed(found.predictions[0])
    assert f"group.{SESSION}=45000" in text
