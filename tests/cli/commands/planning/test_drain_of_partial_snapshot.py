"""`kgm drain --from-file` with a snapshot from which groups are missing: what it does not show, no gate can vouch for. As with a
live cluster and the same login."""

from __future__ import annotations

import json

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode
from kgm.protocol.apis import ApiKey
from kgm.server import serve_in_thread
from tests.cli.runner import kgm
from tests.client.faults import Edit, FaultProxy
from tests.client.joiners import form_group

pytestmark = pytest.mark.slow
GROUPS = ["seen", "hidden-1", "hidden-2"]
DRAIN = ["drain", "--client-id", "*", "--restart-time", "5s", "--draws", "2", "-o", "json"]
GATE = ["--fail-if-moves", "100000"]


@pytest.fixture(scope="module")
def server():
    with serve_in_thread(topics={"orders": 6}, settings=BrokerSettings(group_initial_rebalance_delay_ms=0)) as running:
        joiners = [one for name in GROUPS for one in form_group(running, name, ["a", "b"], "orders")]
        yield running
        for joiner in joiners:
            joiner.close()


@pytest.fixture
def proxy(server):
    with FaultProxy((server.host, server.port)) as running:
        yield running


@pytest.fixture
def snapshot(proxy, tmp_path):
    """Writes what `describe --all-groups` prints: the path."""

    def snapshot():
        path = tmp_path / "snapshot.json"
        path.write_text(kgm("describe", "--all-groups", "-o", "json", "-b", proxy.bootstrap).out)
        return str(path)

    return snapshot


def deny_hidden(answer):
    for group in answer.groups:
        if group.group_id.startswith("hidden"):
            group.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED


def deny_listing(proxy):
    """No DESCRIBE on the cluster, and none on Group '*'."""

    def deny(answer):
        if answer.cluster_authorized_operations != -(2**31):  # it was asked for
            answer.cluster_authorized_operations = 0

    def hide(answer):
        for one in answer.coordinators:
            if one.key not in GROUPS:
                one.error_code, one.node_id = ErrorCode.GROUP_AUTHORIZATION_FAILED, -1

    proxy.always(ApiKey.METADATA, Edit(deny))
    proxy.always(ApiKey.FIND_COORDINATOR, Edit(hide))


def codes(run):
    return {one["group_id"]: one["code"] for one in json.loads(run.out)["errors"]}


def test_a_snapshot_of_all_groups_is_as_good_as_the_cluster(proxy, snapshot):
    assert kgm(*DRAIN, *GATE, "-b", proxy.bootstrap).code == 0
    run = kgm(*DRAIN, *GATE, "--from-file", snapshot())
    assert (run.code, codes(run)) == (0, {})


@pytest.mark.parametrize("gate", [[], GATE])
def test_groups_that_could_not_be_described_are_errors(proxy, snapshot, gate):
    proxy.always(ApiKey.DESCRIBE_GROUPS, Edit(deny_hidden))
    live = kgm(*DRAIN, *gate, "-b", proxy.bootstrap)
    run = kgm(*DRAIN, *gate, "--from-file", snapshot())
    assert (live.code, run.code) == (7, 7), run.err
    assert codes(run) == codes(live) == dict.fromkeys(GROUPS[1:], "GROUP_AUTHORIZATION_FAILED")
    assert [one["group_id"] for one in json.loads(run.out)["data"]["not_predicted"]] == GROUPS[1:]
    assert "is not complete: " in run.err


def test_groups_that_are_not_named_do_not_matter(proxy, snapshot):
    proxy.always(ApiKey.DESCRIBE_GROUPS, Edit(deny_hidden))
    deny_listing(proxy)
    path = snapshot()
    named = kgm(*DRAIN, *GATE, "seen", "--from-file", path)
    assert (named.code, codes(named), named.err) == (0, {}, "")
    named = kgm(*DRAIN, *GATE, "seen", "hidden-2", "--from-file", path)
    assert (named.code, codes(named)) == (7, {"hidden-2": "GROUP_AUTHORIZATION_FAILED"})


def test_a_snapshot_that_may_lack_groups_says_so_and_no_gate_is_green(proxy, snapshot):
    deny_listing(proxy)
    path = snapshot()
    for where in (["-b", proxy.bootstrap], ["--from-file", path]):
        gated, plain = kgm(*DRAIN, *GATE, *where), kgm(*DRAIN, *where)
        assert (gated.code, plain.code) == (7, 0), gated.err
        assert "groups may be invisible: without DESCRIBE on Cluster" in plain.err
