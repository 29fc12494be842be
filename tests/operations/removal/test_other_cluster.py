"""A connection breaks, and at the same address another cluster answers: nothing of it is changed, or believed."""

from __future__ import annotations

import pytest

from kgm.client import connect
from kgm.client.failures import OtherClusterError
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.operations.audit.audit_log import AuditLog
from kgm.operations.change.operator import HumanOperator
from kgm.operations.change.result import Result
from kgm.operations.removal import removal
from kgm.operations.removal.request import RemovalRequest
from kgm.protocol.apis import ApiKey
from kgm.server import serve_in_thread
from tests.client.conftest import TOPIC
from tests.client.faults import FaultProxy, ResetAfter, ResetBefore
from tests.client.joiners import form_group

pytestmark = pytest.mark.usefixtures("nobody_returns")

ALICE = HumanOperator(name="alice", uid=1000, host="ops-1")
LEAVE = ApiKey.LEAVE_GROUP


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A cluster with an id of its own."""
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics={TOPIC: 6}, settings=settings, data_dir=tmp_path_factory.mktemp("other")) as running:
        yield running


class Stage:
    """The same group on both clusters, kgm behind a proxy that leads to the first, and an audit log."""

    def __init__(self, proxy: FaultProxy, server, other, group: str, log: AuditLog) -> None:
        self.proxy, self.group, self.log = proxy, group, log
        self.servers = [server, other]
        self.joiners = [form_group(one, group, ["a", "b"], TOPIC) for one in self.servers]
        self.request = RemovalRequest(group_id=group, instance_ids=("a",), assume_stopped=True, guard_window_ms=0)

    def switch(self) -> None:
        """From the next connection on it is the other cluster."""
        other = self.servers[1]
        self.proxy.backend = (other.host, other.port)

    def members(self, number: int) -> list[str | None]:
        """The instance ids that the coordinator of a cluster has."""
        return self.servers[number].inspect(
            lambda coordinator: sorted(one.group_instance_id or "" for one in coordinator.group(self.group).members)
        )

    @property
    def recorded(self) -> list[tuple[str, str | None]]:
        return [(one.result, one.cluster_id) for one in self.log.read().removals]


@pytest.fixture
def stage(proxy, server, other, group, tmp_path):
    staged = Stage(proxy, server, other, group, AuditLog(tmp_path / "audit.jsonl"))
    yield staged
    for joiner in (one for joiners in staged.joiners for one in joiners):
        joiner.close()


def test_before_anything_is_read_it_is_refused(stage):
    with connect(stage.proxy.bootstrap, timeout_ms=30_000) as cluster:
        stage.switch()
        stage.proxy.cut()
        with pytest.raises(OtherClusterError) as caught:
            removal.prepare(cluster, stage.request)
    assert caught.value.exit_code == 6


@pytest.mark.parametrize("api", [None, ApiKey.FIND_COORDINATOR, ApiKey.METADATA], ids=str)
def test_before_it_is_sent_it_is_refused_and_nothing_is_sent(stage, api):
    """At the prompt, or at any request after it."""
    with connect(stage.proxy.bootstrap, timeout_ms=30_000) as cluster:
        prepared = removal.prepare(cluster, stage.request)
        cluster.brokers.forget_coordinators([stage.group])
        stage.switch()
        if api is None:
            stage.proxy.cut()
        else:
            stage.proxy.script(api, ResetBefore())
            if api is ApiKey.METADATA:
                stage.proxy.cut()
        with pytest.raises(OtherClusterError) as caught:
            removal.execute(cluster, prepared, operator=ALICE, audit=stage.log)
        expected = cluster.cluster_id
    assert caught.value.exit_code == 6
    assert stage.servers[1]._server.cluster.cluster_id in caught.value.message
    assert stage.proxy.requests(LEAVE) == []
    assert [stage.members(0), stage.members(1)] == [["a", "b"], ["a", "b"]]
    ((result, cluster_id),) = stage.recorded
    assert (result, cluster_id) == ("failed", expected)


@pytest.mark.parametrize("is_done", [False, True])
def test_while_it_is_sent_the_other_cluster_is_not_asked_what_came_of_it(stage, is_done):
    """The answer is lost, and the second request would go to the other cluster, and so would the description."""
    with connect(stage.proxy.bootstrap, timeout_ms=30_000) as cluster:
        prepared = removal.prepare(cluster, stage.request)
        stage.proxy.script(LEAVE, ResetAfter(then=stage.switch) if is_done else ResetBefore(then=stage.switch))
        report = removal.execute(cluster, prepared, operator=ALICE, audit=stage.log)
    (one,) = report.results
    assert (one.result, report.exit_code) == (Result.UNKNOWN, 7)
    assert "another cluster answers at" in one.note
    assert "is safe" not in one.note
    assert "check where the address leads" in one.note
    assert len(stage.proxy.requests(LEAVE)) == 1
    assert [stage.members(0), stage.members(1)] == [["b"] if is_done else ["a", "b"], ["a", "b"]]
    assert [result for result, _ in stage.recorded] == ["unknown"]
