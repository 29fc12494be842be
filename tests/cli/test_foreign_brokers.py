"""Brokers that are not Apache Kafka: with the API versions that their makers publish, and without one API after another.

Each command does what it can, or ends with one clear line that names the API. What answers is the embedded server, behind a
proxy that narrows the versions it reports; a broker that is asked for more than it reports is a test that fails."""

from __future__ import annotations

import contextlib
import io

import pytest

from kgm.cli.main import run
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol.apis import API, ApiKey
from kgm.protocol.messages.api_versions_request import ApiVersionsRequest
from kgm.protocol.messages.api_versions_response import ApiVersionsResponse
from kgm.protocol.released_apis import API_VERSIONS
from kgm.server import serve_in_thread
from tests.cli.environment import forget_settings
from tests.client.faults import FaultProxy
from tests.client.joiners import form_group, leave_dead_group
from tests.server.wire_client import WireClient

pytestmark = pytest.mark.slow
GROUP, TOPIC = "foreign", "orders"
DEAD = "dead-app"
ABSENT = (0, -1)
_CONSUMER_APIS = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ABSENT, ApiKey.CONSUMER_GROUP_DESCRIBE: ABSENT, ApiKey.SHARE_GROUP_DESCRIBE: ABSENT,
    ApiKey.STREAMS_GROUP_DESCRIBE: ABSENT,
}  # fmt: skip


def of_release(broker):
    """The APIs of a release of Apache Kafka, for makers that publish which release they build on."""
    return {ApiKey(key): API_VERSIONS[broker].get(key, ABSENT) for key in map(int, ASKED)}


#: What kgm asks for. Without an answer to Metadata or FindCoordinator there is no cluster and no group.
ASKED = (
    ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH,
    ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_CONFIGS, ApiKey.LEAVE_GROUP, ApiKey.HEARTBEAT, ApiKey.FETCH,
    ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.CONSUMER_GROUP_HEARTBEAT,
)  # fmt: skip
#: Makers, and what they publish of the APIs that kgm asks for.
FOREIGN = {
    # docs.confluent.io, "Supported Versions and Interoperability": the release in each version of the platform.
    "Confluent Platform 7.8": of_release("3.8.1"),
    "Confluent Platform 5.5": of_release("2.5.1"),
    # docs.aws.amazon.com/msk, "Supported Apache Kafka versions".
    "MSK 2.8.1": of_release("2.8.2"),
    "MSK 3.9.x": of_release("3.9.1"),
    # redpanda-data/redpanda, src/v/kafka/server/handlers/*.h.
    "Redpanda": {
        ApiKey.METADATA: (0, 8), ApiKey.LIST_OFFSETS: (0, 4), ApiKey.OFFSET_FETCH: (1, 7), ApiKey.FIND_COORDINATOR: (0, 3),
        ApiKey.JOIN_GROUP: (0, 6), ApiKey.HEARTBEAT: (0, 4), ApiKey.LEAVE_GROUP: (0, 4), ApiKey.DESCRIBE_GROUPS: (0, 5),
        ApiKey.LIST_GROUPS: (0, 3), ApiKey.DESCRIBE_CONFIGS: (0, 4), **_CONSUMER_APIS,
    },
    # seaweedfs/seaweedfs, weed/mq/kafka/API_VERSION_MATRIX.md.
    "SeaweedFS": {
        ApiKey.METADATA: (0, 7), ApiKey.FETCH: (0, 7), ApiKey.LIST_OFFSETS: (0, 2), ApiKey.OFFSET_FETCH: (0, 5),
        ApiKey.FIND_COORDINATOR: (0, 3), ApiKey.JOIN_GROUP: (0, 6), ApiKey.HEARTBEAT: (0, 4), ApiKey.LEAVE_GROUP: (0, 4),
        ApiKey.DESCRIBE_GROUPS: (0, 5), ApiKey.LIST_GROUPS: (0, 4), ApiKey.DESCRIBE_CONFIGS: (0, 4), **_CONSUMER_APIS,
    },
    # docs.warpstream.com, "Protocol and Feature Support": the APIs, without their versions.
    "WarpStream": {**_CONSUMER_APIS},
    # What a client of Azure/azure-event-hubs-for-kafka logged, issue 69: the versions of Kafka 1.0, from before static
    # members.
    "Event Hubs": {
        ApiKey.METADATA: (0, 5), ApiKey.FETCH: (4, 6), ApiKey.LIST_OFFSETS: (0, 2), ApiKey.OFFSET_FETCH: (0, 3),
        ApiKey.FIND_COORDINATOR: (0, 1), ApiKey.JOIN_GROUP: (0, 2), ApiKey.HEARTBEAT: (0, 1), ApiKey.LEAVE_GROUP: (0, 1),
        ApiKey.DESCRIBE_GROUPS: (0, 1), ApiKey.LIST_GROUPS: (0, 1), ApiKey.DESCRIBE_CONFIGS: ABSENT, **_CONSUMER_APIS,
    },
}  # fmt: skip
COMMANDS = {
    "list": ["list"],
    "top": ["top", "--once"],
    "describe": ["describe", GROUP],
    "describe offsets": ["describe", GROUP, "--offsets"],
    "remove-members": ["remove-members", GROUP, "--instance-ids", "a", "--dry-run", "--guard-window", "50ms", "--assume-stopped"],
    "delete-groups": ["delete-groups", DEAD, "--dry-run", "--idle-for", "0s", "--assume-idle"],
    "simulate-bounce": ["simulate-bounce", GROUP, "--all", "--draws", "2"],
    "drain": ["drain", GROUP, "--client-id", "*", "--draws", "2"],
    "plan": ["plan", GROUP, "--draws", "2"],
    "rollout": ["rollout", GROUP, "--all", "--exec", "true", "--dry-run", "--draws", "2"],
    "watch": ["watch", GROUP, "--count", "2", "--interval", "100ms"],
    "wait": ["wait", GROUP, "--for", "members=2"],
    "doctor": ["doctor", GROUP, "--window", "0s", "--fail-on", "never"],
    "diff": ["diff", f"live:{GROUP}", f"live:{GROUP}"],
    "config test": ["config", "test", "-g", GROUP],
}  # fmt: skip
#: What a command that works shows.
_SHOWN = dict.fromkeys(COMMANDS, GROUP) | {
    "remove-members": "planned",
    "delete-groups": "planned",
    "config test": f"Group '{GROUP}'",
}
#: What a broker has no request for.
_REFUSED = {("Event Hubs", "remove-members"): "LeaveGroup: the broker supports up to v1; instance ids need v3"}


@pytest.fixture(scope="module")
def server():
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics={TOPIC: 6}, settings=settings) as running:
        joiners = form_group(running, GROUP, ["a", "b"], TOPIC)
        for joiner in joiners:
            assert joiner.commit(0, 0) == 0
        leave_dead_group(running.port, DEAD, TOPIC)
        yield running
        for joiner in joiners:
            joiner.close()


@pytest.fixture
def kgm(server, monkeypatch, tmp_path):
    """Runs kgm on the server as a broker that reports these versions: (exit code, stdout, stderr). Fails if it is asked for
    a version that it does not report."""
    forget_settings(monkeypatch)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def run_on(ranges, *words):
        out, err = io.StringIO(), io.StringIO()
        with (
            FaultProxy((server.host, server.port), ranges=dict(ranges)) as proxy,
            contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
        ):  # fmt: skip
            code = run([*words, "-b", proxy.bootstrap, "--timeout", "10s"])
            for one in proxy.seen:
                low, high = ranges.get(one.api, (API[one.api].min_version, API[one.api].max_version))
                assert low <= one.version <= high or one.api is ApiKey.API_VERSIONS, one
        assert "internal error" not in err.getvalue(), err.getvalue()
        assert "Traceback" not in err.getvalue(), err.getvalue()
        return code, out.getvalue(), err.getvalue()

    return run_on


@pytest.mark.few(10)
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("maker", FOREIGN)
def test_a_command_works_with_the_versions_that_a_maker_publishes(kgm, maker, name):
    code, out, err = kgm(FOREIGN[maker], *COMMANDS[name])
    if (maker, name) in _REFUSED:
        assert code == 6
        assert _REFUSED[maker, name] in err
        return
    assert code == 0, err
    assert _SHOWN[name] in out


@pytest.mark.few(12)
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("api", ASKED, ids=lambda api: api.name.lower())
def test_a_broker_that_lacks_an_api_is_told_apart_by_one_line_that_names_it(kgm, api, name):
    code, out, err = kgm({api: ABSENT}, *COMMANDS[name])
    if code == 0:
        assert _SHOWN[name] in out
        return
    assert f"does not support {API[api].name}" in err, err
    assert code in (1, 5), err
    assert len({line for line in err.splitlines() if line.startswith("error: ")}) == 1


def test_the_proxy_narrows_what_is_reported(server):
    """Otherwise nothing here would be tested."""
    ranges = {ApiKey.LIST_GROUPS: ABSENT, ApiKey.METADATA: (0, 8)}
    with FaultProxy((server.host, server.port), ranges=ranges) as proxy, WireClient(proxy.port) as wire:
        answer = wire.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), version=3)
    assert isinstance(answer, ApiVersionsResponse)
    reported = {row.api_key: row.max_version for row in answer.api_keys}
    assert ApiKey.LIST_GROUPS not in reported
    assert reported[ApiKey.METADATA] == 8
