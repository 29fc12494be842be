"""What happens between the verdict and the request: whatever shows life, or ends a silence, is seen, and nothing is sent."""

from __future__ import annotations

import uuid

import pytest

from kgm.client import connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode, KgmError, RefusedError
from kgm.operations.audit.audit_log import AuditLog
from kgm.operations.change.carrying_out import StaleVerdictError
from kgm.operations.change.operator import HumanOperator
from kgm.operations.change.result import Result
from kgm.operations.removal import removal
from kgm.operations.removal.liveness import LivenessVerdict
from kgm.operations.removal.request import RemovalRequest
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from kgm.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse
from kgm.server import serve_in_thread
from tests.client.conftest import TOPIC
from tests.client.faults import Edit, ResetAfter, ResetBefore
from tests.kafka.heartbeat_group import HeartbeatGroup
from tests.server.wire_client import WireClient

pytestmark = pytest.mark.slow

ALICE = HumanOperator(name="alice", uid=1000, host="ops-1")
LEAVE = ApiKey.LEAVE_GROUP


class Clock:
    """Time that passes when somebody waits, and when a test says so. In seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def pass_by(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture(scope="module")
def server():
    """Targets are assigned as soon as a member joins."""
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=0)
    with serve_in_thread(topics={TOPIC: 6}, settings=settings) as running:
        yield running


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def left(server, group):
    """The instance ids in the group."""
    return lambda: server.inspect(lambda engine: {one.group_instance_id for one in engine.group(group).members})


@pytest.fixture
def consumer_group(server, group):
    """A KIP-848 group of a and b, which heartbeat only when they are told to."""
    with WireClient(server.port) as wire:
        members = HeartbeatGroup(wire, group, [TOPIC], "uniform")
        members.join("a-id", "a")
        members.join("b-id", "b")
        members.heartbeat_until_stable()
        yield members


@pytest.fixture
def remove(proxy, group, clock, tmp_path):
    """Prepare, let something happen, and execute: (report or error, result in the audit log)."""
    log = AuditLog(tmp_path / "audit.jsonl")

    def remove(meanwhile=lambda: None, **flags):
        request = RemovalRequest(group_id=group, instance_ids=("a",), guard_window_ms=300, **flags)
        with connect(proxy.bootstrap, timeout_ms=30_000) as cluster:
            prepared = removal.prepare(cluster, request)
            assert prepared.refusal is None
            meanwhile()
            try:
                came_of_it = removal.execute(cluster, prepared, operator=ALICE, audit=log)
            except RefusedError as error:
                came_of_it = error
        return came_of_it, [one.result for one in log.read().removals]

    return remove


def is_refused(came_of_it, recorded, proxy, evidence):
    assert isinstance(came_of_it, StaleVerdictError), came_of_it
    assert came_of_it.exit_code == 6
    assert proxy.requests(LEAVE) == []
    assert recorded == ["refused"]
    ((_, liveness),) = [one for one in came_of_it.report.liveness.items() if one[0].startswith("a")]
    assert liveness.verdict is LivenessVerdict.ALIVE
    assert evidence in liveness.why
    assert any(evidence in fact for fact in came_of_it.facts)


def test_a_consumer_that_was_away_and_subscribed_again_is_alive(remove, proxy, server, group, consumer_group):
    """KIP-848: it unsubscribes (member epoch -2), and subscribes again with the same member id while kgm asks."""
    proxy.hide_offsets_topic()  # which would tell it first
    consumer_group.step_away("a-id")
    came_of_it, recorded = remove(lambda: consumer_group.join("a-id", "a"))
    is_refused(came_of_it, recorded, proxy, "it had left with the intention to return (member epoch -2), and is subscr")
    assert "a-id" in server.inspect(lambda coordinator: {one.member_id for one in coordinator.group(group).members})


def test_a_consumer_that_is_still_away_is_removed(remove, consumer_group):
    consumer_group.step_away("a-id")
    report, recorded = remove()
    assert ([one.result for one in report.results], report.exit_code) == ([Result.REMOVED], 0)
    assert recorded == ["removed"]


def test_a_member_epoch_that_went_on_is_a_sign_of_life(remove, proxy, consumer_group):
    proxy.hide_offsets_topic()  # which would tell it first

    def rebalance():
        consumer_group.join("c-id", "c")
        consumer_group.heartbeat_until_stable()

    came_of_it, recorded = remove(rebalance, assume_stopped=True)
    is_refused(came_of_it, recorded, proxy, "its member epoch went from")


def test_a_commit_is_a_sign_of_life(remove, proxy, form):
    a, _ = form("a", "b")
    a.commit(0, 3)
    came_of_it, recorded = remove(lambda: a.commit(0, 4), assume_stopped=True)
    is_refused(came_of_it, recorded, proxy, "it committed offset 4 of orders-0 while kgm watched, after 3")


def test_a_process_that_took_the_instance_id_is_alive(remove, proxy, form, newcomer):
    form("a", "b")
    came_of_it, recorded = remove(lambda: newcomer("a"), assume_stopped=True)
    is_refused(came_of_it, recorded, proxy, "it came back as member a-")


def test_a_live_member_is_still_removed_where_that_is_allowed(remove, form):
    a, _ = form("a", "b")
    report, _ = remove(lambda: a.commit(0, 4), assume_stopped=True, allow_live=True)
    assert [one.result for one in report.results] == [Result.REMOVED]
    assert report.results[0].liveness.verdict is LivenessVerdict.ALIVE


def test_a_group_that_became_one_of_another_type_is_refused(remove, proxy, server, group, form):
    form("a", "b")

    def pretend(answer: ConsumerGroupDescribeResponse) -> None:
        (one,) = answer.groups
        one.error_code, one.group_state, one.members = 0, "Stable", members

    with WireClient(server.port) as wire:
        other = HeartbeatGroup(wire, f"g-{uuid.uuid4().hex[:10]}", [TOPIC], "uniform")
        other.join("a-id", "a")
        other.join("b-id", "b")
        with connect(server.bootstrap, timeout_ms=30_000) as cluster:
            members = cluster._describe([other.group_id])[other.group_id].raw.members
    came_of_it, recorded = remove(
        lambda: proxy.always(ApiKey.CONSUMER_GROUP_DESCRIBE, Edit(pretend)), assume_stopped=True, allow_live=True
    )
    assert isinstance(came_of_it, RefusedError)
    assert "has become a consumer group" in came_of_it.message
    assert (proxy.requests(LEAVE), recorded) == ([], ["failed"])


def test_a_group_that_cannot_be_described_is_left_alone(proxy, group, form, tmp_path):
    form("a", "b")
    request = RemovalRequest(group_id=group, instance_ids=("a",), guard_window_ms=0, assume_stopped=True)
    with connect(proxy.bootstrap, timeout_ms=30_000) as cluster:
        prepared = removal.prepare(cluster, request)
        refusal = DescribeGroupsResponse(groups=[DescribedGroup(error_code=-1, group_id=group)])
        proxy.always(ApiKey.DESCRIBE_GROUPS, Edit(lambda _: refusal, forward=False))
        with pytest.raises(KgmError, match="cannot be described"):
            removal.execute(cluster, prepared, operator=ALICE, audit=AuditLog(tmp_path / "audit.jsonl"))
    assert proxy.requests(LEAVE) == []


@pytest.mark.parametrize(("pause_s", "is_repeated"), [(5.0, False), (7.0, True)])
def test_after_a_long_pause_the_watch_is_repeated(proxy, group, form, clock, monkeypatch, pause_s, is_repeated):
    """Longer than the 6 s that kgm watches by default."""
    form("a", "b")
    monkeypatch.setattr("kgm.client.transport.deadline.time.sleep", clock.pass_by)
    request = RemovalRequest(group_id=group, instance_ids=("a",), assume_stopped=True)
    with connect(proxy.bootstrap, timeout_ms=30_000) as cluster:
        prepared = removal.prepare(cluster, request, clock=clock)
        clock.pass_by(pause_s)
        before = len(proxy.requests(ApiKey.OFFSET_FETCH))
        removal.execute(cluster, prepared, operator=ALICE, audit=None, clock=clock, sleep=clock.pass_by)
    looks = len(proxy.requests(ApiKey.OFFSET_FETCH)) - before
    assert (looks > 1) is is_repeated, looks
    assert len(proxy.requests(LEAVE)) == 1


NOT_READY = [
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
]  # fmt: skip


def not_carried_out(code, meanwhile=lambda: None):
    """The broker answers with an error, and does nothing."""

    def change(_):
        meanwhile()
        return LeaveGroupResponse(error_code=code)

    return Edit(change, forward=False)


@pytest.mark.parametrize("code", NOT_READY)
def test_a_member_that_commits_before_a_retry_is_alive(remove, proxy, form, left, code):
    """The first request was not carried out, so nothing was: it is refused as it would have been before that request."""
    a, _ = form("a", "b")
    a.commit(0, 3)
    proxy.script(LEAVE, not_carried_out(code, lambda: a.commit(0, 4)))
    came_of_it, recorded = remove(assume_stopped=True)
    assert isinstance(came_of_it, StaleVerdictError), came_of_it
    assert came_of_it.report.verdict_of(a.member_id) is LivenessVerdict.ALIVE
    assert any("it committed offset 4 of orders-0 while kgm watched, after 3" in fact for fact in came_of_it.facts)
    assert (len(proxy.requests(LEAVE)), recorded, left()) == (1, ["refused"], {"a", "b"})


@pytest.mark.parametrize("code", NOT_READY)
def test_a_process_that_took_the_instance_id_before_a_retry_is_left_alone(remove, proxy, form, newcomer, left, code):
    """It may have come after the member was removed: a coordinator that writes while it moves answers with an error,
    although the next one may have the record."""
    form("a", "b")
    proxy.script(LEAVE, not_carried_out(code, lambda: newcomer("a")))
    report, recorded = remove(assume_stopped=True)
    (one,) = report.results
    assert (one.result, report.exit_code) == (Result.UNKNOWN, 7)
    assert f"the broker answered {code.name}; it is gone: rejoined as member a-" in one.note
    assert "which was left alone" in one.note
    assert (len(proxy.requests(LEAVE)), recorded, left()) == (1, ["unknown"], {"a", "b"})


@pytest.mark.usefixtures("nobody_returns")
@pytest.mark.parametrize("code", NOT_READY)
def test_without_signs_of_life_the_retry_removes_and_leaves_no_doubt(remove, proxy, form, left, code):
    form("a", "b")
    proxy.script(LEAVE, not_carried_out(code))
    report, recorded = remove(assume_stopped=True)
    (one,) = report.results
    assert (one.result, one.in_doubt, report.exit_code) == (Result.REMOVED, False, 0)
    assert (len(proxy.requests(LEAVE)), recorded, left()) == (2, ["removed"], {"b"})


@pytest.mark.usefixtures("nobody_returns")
def test_a_live_member_is_removed_by_a_retry_where_that_is_allowed(remove, proxy, form, left):
    a, _ = form("a", "b")
    proxy.script(LEAVE, ResetBefore(lambda: a.commit(0, 4)))
    report, _ = remove(assume_stopped=True, allow_live=True)
    assert [one.result for one in report.results] == [Result.REMOVED]
    assert (len(proxy.requests(LEAVE)), left()) == (2, {"b"})


def test_after_a_lost_answer_a_member_that_commits_is_not_sent_again(remove, proxy, form, left):
    """It is still there, but the first request may yet arrive: the outcome is unknown."""
    a, _ = form("a", "b")
    proxy.script(LEAVE, ResetBefore(lambda: a.commit(0, 4)))
    report, recorded = remove(assume_stopped=True)
    (one,) = report.results
    assert (one.result, one.liveness.verdict, report.exit_code) == (Result.UNKNOWN, LivenessVerdict.ALIVE, 7)
    assert (len(proxy.requests(LEAVE)), recorded, left()) == (1, ["unknown"], {"a", "b"})


@pytest.mark.usefixtures("nobody_returns")
def test_after_a_lost_answer_a_member_that_is_gone_was_removed(remove, proxy, form, left):
    form("a", "b")
    proxy.script(LEAVE, ResetAfter())
    report, recorded = remove(assume_stopped=True)
    (one,) = report.results
    assert (one.result, one.liveness.verdict, report.exit_code) == (Result.REMOVED, LivenessVerdict.UNKNOWN, 0)
    assert (len(proxy.requests(LEAVE)), recorded, left()) == (1, ["removed"], {"b"})
