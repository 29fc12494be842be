"""Deletions on an embedded cluster, on a clock that is set by hand: what is idle, what is seen directly before the request,
and what is said when answers get lost."""

from __future__ import annotations

import os

import pytest

from kgm.client.failures import LostError
from kgm.client.transport.connection import BrokerConnection
from kgm.model.errors import (
    AuthorizationError,
    ErrorCode,
    PartialError,
    RefusedError,
    UnreachableError,
    UnsupportedError,
)
from kgm.operations.audit.audit_log import AuditLog
from kgm.operations.change.carrying_out import StaleVerdictError
from kgm.operations.change.operator import HumanOperator
from kgm.operations.deletion import deletion
from kgm.operations.deletion.request import DeletionRequest
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kgm.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kgm.protocol.messages.fetch_response import FetchResponse
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.metadata_response import MetadataResponse
from kgm.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tests.client.joiners import commit_without_member
from tests.operations.removal.in_process import TOPIC, ClassicMember, World, form_classic

ALICE = HumanOperator(name="alice", uid=1000, host="ops-1")
DELETE = ApiKey.DELETE_GROUPS
HOUR_MS = 3_600_000


class Deleting:
    """A world with an operator who deletes groups in it."""

    def __init__(self, world: World, client, log: AuditLog) -> None:
        self.world, self.client, self.log = world, client, log

    def commit(self, group: str, offset: int = 1, partition: int = 0, topic: str = TOPIC) -> None:
        """Commit as a consumer that is no member of the group."""
        answer = self.world.cluster.request(commit_without_member(group, topic, partition, offset), version=9)
        assert answer.topics[0].partitions[0].error_code == 0

    def wait(self, hours: float) -> None:
        """Let hours pass at once."""
        self.world.now_s += hours * 3600
        cluster = self.world.cluster
        cluster.advance(round(self.world.now_s * 1000) - cluster.now)
        cluster.load()

    def prepare(self, *group_ids: str, **asked):
        request = DeletionRequest(group_ids=group_ids, **asked)
        self.client.renew()
        return deletion.prepare(self.client, request, clock=self.world.clock, now_ms=lambda: self.world.now_s * 1000)

    def delete(self, *group_ids: str, meanwhile=lambda: None, **asked):
        prepared = self.prepare(*group_ids, **asked)
        meanwhile()
        return deletion.execute(
            self.client, prepared, operator=ALICE, audit=self.log, sleep=self.world.pass_by, clock=self.world.clock
        )  # fmt: skip

    def exists(self, group: str) -> bool:
        self.world.cluster.load()
        return self.world.cluster.cluster.view.group(group) is not None

    def sent(self, api: ApiKey = DELETE) -> int:
        return self.world.sent.count(api)


@pytest.fixture
def world():
    return World()


@pytest.fixture
def ops(world, tmp_path):
    with world.client() as client:
        yield Deleting(world, client, AuditLog(tmp_path / "audit.jsonl"))


def results(report):
    return {one.target.id: str(one.result) for one in report.results}


def test_a_group_that_committed_long_ago_is_deleted(ops):
    ops.commit("old", 7)
    ops.commit("other")
    ops.wait(25)
    prepared = ops.prepare("old")
    assert [(one.result, one.idleness.verdict) for one in prepared.results] == [("planned", "idle")]
    assert prepared.results[0].idleness.evidence == (
        "its last commit was 25 hours ago, of orders-0 (the coordinator's log)",
    )
    report = ops.delete("old")
    assert (results(report), report.exit_code, report.error) == ({"old": "removed"}, 0, None)
    assert (ops.exists("old"), ops.exists("other")) == (False, True)
    (entry,) = ops.log.read().removals
    assert (entry.action, entry.group_id, entry.topic, entry.result) == ("delete-groups", "old", None, "removed")
    assert entry.offsets == ({"topic": "orders", "partition": 0, "committed": 7},)
    assert (entry.verdict, entry.reason) == ("idle", "empty and idle (by alice@ops-1)")


def test_a_group_that_is_in_use_stops_the_whole_batch(ops):
    """A consumer that assigns its partitions itself is no member: only its commits show it."""
    ops.commit("old")
    ops.wait(23)
    ops.commit("young")
    ops.wait(2)
    prepared = ops.prepare("old", "young")
    assert [str(one.result) for one in prepared.results] == ["planned", "refused"]
    assert prepared.refusal.exit_code == 6
    assert prepared.refusal.facts == (
        "young: active: its last commit was 2 hours ago, of orders-0 (the coordinator's log)",
    )
    with pytest.raises(RefusedError):
        ops.delete("old", "young", assume_idle=True)
    assert ops.sent() == 0
    assert results(ops.delete("old", "young", idle_ms=HOUR_MS)) == {"old": "removed", "young": "removed"}


def test_a_group_whose_last_member_has_just_left_is_in_use(ops, world):
    ops.commit("g")
    ops.wait(25)
    form_classic(world.cluster, "g", ["a"])
    ops.wait(1)  # its session ends
    (one,) = ops.prepare("g").results
    assert (one.result, one.idleness.verdict) == ("refused", "active")
    assert "its last member left" in one.note


def test_nobody_is_said_to_have_left_a_group_that_never_had_a_member(ops, world):
    """KIP-394: the first JoinGroup of a consumer creates the group, and is answered with a member id to join with."""
    world.cluster.load()
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=60_000, member_id="", protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )  # fmt: skip
    answer = world.cluster.request(request, version=9)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    ops.wait(1 / 60)
    (one,) = ops.prepare("g").results
    assert (one.result, one.idleness.verdict) == ("refused", "active")
    assert "it was created 1m ago" in one.note


def test_what_the_log_does_not_tell_is_unknown(ops, world):
    ops.commit("g")
    ops.wait(25)

    def between(api, request, deliver):
        if api is ApiKey.METADATA and request.topics and request.topics[0].name == "__consumer_offsets":
            answer = deliver()
            return MetadataResponse(
                brokers=answer.brokers, cluster_id=answer.cluster_id, topics=[replace_error(answer.topics[0], 29)]
            )
        return deliver()

    def replace_error(topic, code):
        topic.error_code, topic.partitions = code, []
        return topic

    world.between = between
    (one,) = ops.prepare("g").results
    assert (one.result, one.idleness.verdict) == ("refused", "unknown")
    assert "no READ on Topic '__consumer_offsets'" in one.note
    report = ops.delete("g", assume_idle=True)
    assert (results(report), report.exit_code) == ({"g": "removed"}, 0)


@pytest.fixture
def blind(world):
    """No record of the log is handed out."""

    def between(api, _request, deliver):
        return FetchResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED) if api is ApiKey.FETCH else deliver()

    world.between = between


@pytest.mark.parametrize("moves", [False, True])
def test_without_the_log_a_watch_shows_whether_records_that_wait_are_committed(ops, world, blind, moves, monkeypatch):
    ops.commit("g", 1)
    monkeypatch.setattr(type(ops.client), "end_offsets", lambda *_, **__: {(TOPIC, 0): 9})
    begun_s = world.now_s

    def act():
        if moves and world.now_s > begun_s + 30 and not acted:
            acted.append(True)
            ops.commit("g", 2)

    acted = []
    world.actors.append(act)
    (one,) = ops.prepare("g", idle_ms=60_000, window_ms=61_000).results
    wanted = ("refused", "active") if moves else ("planned", "idle")
    assert (one.result, one.idleness.verdict) == wanted
    assert ("changed while kgm watched" if moves else "no committed offset changed") in one.idleness.why


def test_without_records_that_wait_a_watch_shows_nothing(ops, blind, monkeypatch):
    ops.commit("g", 1)
    monkeypatch.setattr(type(ops.client), "end_offsets", lambda *_, **__: {(TOPIC, 0): 1})
    (one,) = ops.prepare("g", idle_ms=60_000, window_ms=61_000).results
    assert (one.result, one.idleness.verdict) == ("refused", "unknown")


@pytest.mark.parametrize("window_ms", [None, 0, 500])
def test_a_group_that_comes_back_after_an_assumption_is_told(ops, world, blind, window_ms):
    ops.commit("g", 1)
    began = []

    def act():
        if not ops.exists("g"):
            began.append(world.now_s)
        if began and world.now_s > began[0] + 3 and not ops.exists("g"):
            ops.commit("g", 2)

    world.actors.append(act)
    report = ops.delete("g", assume_idle=True, window_ms=window_ms)
    assert (results(report), report.exit_code) == ({"g": "returned"}, 7)


# -- directly before the request


def join(world, group="g"):
    member = ClassicMember(world.cluster, group, "new")
    member.send_join()
    world.cluster.advance(0)
    world.cluster.load()


def join_and_end(ops):
    """A member joins, which gives the group a protocol type, and its session ends."""
    form_classic(ops.world.cluster, "g", ["new"])
    ops.wait(1)


def consumer_group(world, group="g"):
    """A member of another protocol joins, and leaves."""
    for epoch in (0, -1):
        answer = world.cluster.request(
            ConsumerGroupHeartbeatRequest(
                group_id=group, member_id="m-1", member_epoch=epoch, rebalance_timeout_ms=60_000 if not epoch else -1,
                subscribed_topic_names=[TOPIC] if not epoch else None, topic_partitions=[] if not epoch else None,
            )
        )  # fmt: skip
        assert answer.error_code == 0


@pytest.mark.parametrize(
    ("meanwhile", "says"),
    [
        (lambda ops: join(ops.world), "it has 1 member"),
        (lambda ops: ops.commit("g", 1), "its last commit was 0s ago, of orders-0"),  # the same offset again
        (lambda ops: ops.commit("g", 8, partition=3), "its last commit was 0s ago, of orders-3"),
        (lambda ops: consumer_group(ops.world), "it was a classic group, and is a consumer group now"),
        (join_and_end, "its protocol type was none, and is consumer now"),
    ],
    ids=["joined", "committed the same", "committed", "another protocol", "joined and gone"],
)
def test_what_happened_since_the_verdict_is_seen(ops, meanwhile, says):
    ops.commit("g")
    ops.wait(25)
    with pytest.raises(StaleVerdictError) as caught:
        ops.delete("g", meanwhile=lambda: meanwhile(ops))
    assert caught.value.exit_code == 6
    assert any(says in fact for fact in caught.value.facts), caught.value.facts
    assert "seen immediately before the request would have been sent" in caught.value.facts
    assert (ops.sent(), ops.exists("g")) == (0, True)
    (entry,) = ops.log.read().removals
    assert (entry.result, says in entry.note) == ("refused", True)


def left_and_another(ops):
    """A member joins and leaves; another one then waits for its first rebalance."""
    form_classic(ops.world.cluster, "g", ["a"])
    ops.wait(1)  # its session ends
    ClassicMember(ops.world.cluster, "g", "z-1").send_join()


@pytest.mark.parametrize(
    ("meanwhile", "says"),
    [
        (lambda ops: form_classic(ops.world.cluster, "g", ["z-1"]), ["its members last changed 0s ago"]),
        (left_and_another, []),
    ],
    ids=["a first member", "another one after that"],
)
def test_nobody_is_said_to_have_left_a_group_that_has_a_member(ops, meanwhile, says):
    """The coordinator writes a record when a rebalance ends, with members or without."""
    ops.commit("g")
    ops.wait(25)
    with pytest.raises(StaleVerdictError) as caught:
        ops.delete("g", meanwhile=lambda: meanwhile(ops))
    facts = [one for one in caught.value.facts if "protocol type" not in one]
    assert facts == ["it has 1 member: z-1", *says, "seen immediately before the request would have been sent"]
    (entry,) = ops.log.read().removals
    assert "its last member left" not in entry.note


def test_the_last_of_several_commits_since_the_verdict_is_named(ops):
    def meanwhile():
        ops.commit("g", 8, partition=2)
        ops.wait(1)
        ops.commit("g", 9, partition=3)

    ops.commit("g")
    ops.wait(25)
    with pytest.raises(StaleVerdictError) as caught:
        ops.delete("g", meanwhile=meanwhile)
    assert caught.value.facts[0] == "its last commit was 0s ago, of orders-3"


def test_a_member_that_joins_between_the_look_and_the_request_is_left_alone(ops, world):
    ops.commit("g")
    ops.wait(25)

    def between(api, _request, deliver):
        if api is DELETE:
            join(world)
        return deliver()

    world.between = between
    report = ops.delete("g")
    assert (results(report), report.exit_code) == ({"g": "refused"}, 6)
    assert "NON_EMPTY_GROUP: a member joined" in report.results[0].note
    assert ops.exists("g")


def test_what_changed_after_others_were_deleted_stops_the_rest(ops, world):
    for name in ("a", "b", "c"):
        ops.commit(name)
    ops.wait(25)

    def between(api, _request, deliver):
        answer = deliver()
        if api is DELETE:
            ops.commit("b")
        return answer

    world.between = between
    report = ops.delete("a", "b", "c")
    assert results(report) == {"a": "removed", "b": "refused", "c": "refused"}
    assert (report.exit_code, isinstance(report.error, PartialError), ops.sent()) == (7, True, 1)
    assert (ops.exists("a"), ops.exists("b"), ops.exists("c")) == (False, True, True)


def test_another_cluster_at_the_same_address_is_refused(ops, world):
    ops.commit("g")
    ops.wait(25)
    with pytest.raises(RefusedError, match="another cluster answers"):
        ops.delete("g", meanwhile=world.switch)
    assert (ops.sent(), ops.exists("g")) == (0, True)


@pytest.mark.parametrize("carried_out", [True, False])
def test_before_a_new_run_the_address_is_to_be_checked_if_another_cluster_answers_there(ops, world, carried_out):
    """A new run would accept that cluster, and delete its group."""
    ops.commit("g")
    ops.wait(25)
    world.between = lose(carried_out=carried_out, then=world.switch)
    report = ops.delete("g")
    assert (results(report), report.exit_code, ops.sent()) == ({"g": "unknown"}, 7, 1)
    assert "another cluster answers" in report.results[0].note
    assert "is safe" not in report.results[0].note
    assert "check where the address leads" in report.results[0].note


# -- the answer


def lose(count=1, *, carried_out=True, then=lambda: None):
    def between(api, _request, deliver):
        nonlocal count
        if api is DELETE and count:
            count -= 1
            if carried_out:
                deliver()
            then()
            raise LostError("the connection ended", sent=True)
        return deliver()

    return between


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_lost_answer_is_looked_through(ops, world, carried_out):
    ops.commit("g")
    ops.wait(25)
    world.between = lose(carried_out=carried_out)
    report = ops.delete("g")
    assert (results(report), report.exit_code) == ({"g": "removed"}, 0)
    assert ops.sent() == (1 if carried_out else 2)
    assert not ops.exists("g")


def test_what_was_made_again_after_a_lost_answer_is_left_alone(ops, world):
    ops.commit("g")
    ops.wait(25)
    world.between = lose(then=lambda: ops.commit("g", 5))
    report = ops.delete("g")
    assert (results(report), report.exit_code, ops.sent()) == ({"g": "unknown"}, 7, 1)
    assert ops.exists("g")


def answer_with(code):
    def between(api, request, deliver):
        if api is not DELETE:
            return deliver()
        rows = [DeletableGroupResult(group_id=name, error_code=code) for name in request.groups_names]
        return DeleteGroupsResponse(results=rows)

    return between


def test_a_missing_right_names_the_acl(ops, world):
    for name in ("g", "h"):
        ops.commit(name)
    ops.wait(25)
    world.between = answer_with(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(AuthorizationError) as caught:
        ops.delete("g", "h")
    assert "the principal needs DELETE on Group 'g'" in caught.value.facts
    assert "--operation Delete --group g" in caught.value.hint
    assert "nothing was changed: the group is still there" in caught.value.facts
    assert (ops.sent(), {one.result for one in ops.log.read().removals}) == (1, {"failed"})


def test_a_coordinator_that_is_never_ready_is_unreachable_and_nothing_changed(ops, world):
    ops.commit("g")
    ops.wait(25)
    world.between = answer_with(ErrorCode.NOT_COORDINATOR)
    with pytest.raises(UnreachableError, match="did not accept DeleteGroups"):
        ops.delete("g")
    assert ops.exists("g")


def test_an_error_of_the_broker_is_one_of_the_group(ops, world):
    ops.commit("g")
    ops.wait(25)
    world.between = answer_with(ErrorCode.UNKNOWN_SERVER_ERROR)
    report = ops.delete("g")
    assert (results(report), report.exit_code) == ({"g": "failed"}, 1)


def test_ctrl_c_after_the_request_ends_in_what_is_known(ops, world):
    for name in ("g", "h"):
        ops.commit(name)
    ops.wait(25)

    def between(api, _request, deliver):
        answer = deliver()
        if api is DELETE:
            raise KeyboardInterrupt
        return answer

    world.between = between
    report = ops.delete("g", "h")
    assert report.interrupted
    assert results(report) == {"g": "removed", "h": "failed"}
    assert ops.exists("h")


def test_ctrl_c_before_the_request_changes_nothing(ops, world):
    ops.commit("g")
    ops.wait(25)

    def between(api, _request, deliver):
        if api is ApiKey.DESCRIBE_GROUPS:
            raise KeyboardInterrupt
        return deliver()

    with pytest.raises(KeyboardInterrupt):
        ops.delete("g", meanwhile=lambda: setattr(world, "between", between))
    (entry,) = ops.log.read().removals
    assert (entry.result, ops.exists("g")) == ("failed", True)


def test_ctrl_c_while_the_intent_is_written_changes_nothing(ops, monkeypatch):
    ops.commit("g")
    ops.wait(25)
    fsync = os.fsync

    def interrupted(descriptor):
        fsync(descriptor)
        if '"intent"' in ops.log.path.read_text():
            monkeypatch.setattr(os, "fsync", fsync)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ops.delete("g", meanwhile=lambda: monkeypatch.setattr(os, "fsync", interrupted))
    (entry,) = ops.log.read().removals
    assert (entry.result, ops.exists("g"), ops.sent()) == ("failed", True, 0)


def test_groups_that_do_not_exist(ops):
    ops.commit("g")
    ops.wait(25)
    report = ops.delete("none")
    assert (results(report), report.exit_code) == ({"none": "absent"}, 3)
    assert results(ops.delete("none", ignore_missing=True)) == {"none": "absent"}
    report = ops.delete("none", "g", ignore_missing=True)
    assert (results(report), report.exit_code) == ({"none": "absent", "g": "removed"}, 0)
    assert ops.delete("g", "none", ignore_missing=True).exit_code == 0
    assert ops.prepare(pattern="x*", ignore_missing=True).errors == ()
    assert [one.exit_code for one in ops.prepare(pattern="x*").errors] == [3]


def test_the_error_has_the_exit_code_beside_a_group_that_does_not_exist(ops, world):
    """It says what became of the groups that do exist, and of the one that does not."""

    def between(api, _request, deliver):
        if api is DELETE:
            join(world)
        return deliver()

    ops.commit("g")
    ops.wait(25)
    world.between = between
    report = ops.delete("none", "g")
    assert (results(report), report.exit_code) == ({"none": "absent", "g": "refused"}, 6)
    assert report.error.exit_code == 6
    assert [one.split(":")[0] for one in report.error.facts] == ["none", "g"]
    assert "NON_EMPTY_GROUP" in report.error.facts[1]


def test_a_deletion_that_cannot_be_recorded_is_not_sent(ops, tmp_path):
    ops.commit("g")
    ops.wait(25)
    (tmp_path / "audit.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError) as caught:
        ops.delete("g")
    assert caught.value.message == "the audit log cannot be written: nothing was deleted"
    assert (ops.sent(), ops.exists("g")) == (0, True)


# -- offsets of a topic


@pytest.fixture
def left(ops, world):
    """A group whose member reads orders; it has committed offsets of two other topics, once."""
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in ("left", "gone")]
    world.cluster.request(CreateTopicsRequest(topics=topics))
    ops.commit("g", 3, topic="left")
    ops.commit("g", 4, partition=1, topic="left")
    ops.commit("g", 5, topic="gone")
    ops.wait(25)
    (member,) = form_classic(world.cluster, "g", ["a"])
    assert member.commit(0, 9) == 0
    return ops


def committed(ops):
    ops.client.renew()
    return ops.client.committed_offsets("g")


def test_offsets_of_a_topic_that_no_member_reads(left):
    report = left.delete("g", topics=("left", "none"))
    assert (results(report), report.exit_code) == ({"g:left": "removed", "g:none": "absent"}, 7)
    assert committed(left) == {("orders", 0): 9, ("gone", 0): 5}
    (entry,) = left.log.read().removals
    assert (entry.topic, [row["committed"] for row in entry.offsets]) == ("left", [3, 4])
    assert left.sent() == 0


def test_stale_topics_are_those_that_no_member_reads(left):
    assert results(left.delete("g", is_stale=True)) == {"g:gone": "removed", "g:left": "removed"}
    assert committed(left) == {("orders", 0): 9}
    report = left.delete("g", is_stale=True)
    assert (report.results, report.exit_code, left.sent(ApiKey.OFFSET_DELETE)) == ((), 0, 2)


def test_offsets_of_a_topic_that_is_read_are_left_alone(left):
    prepared = left.prepare("g", topics=("left", "orders"))
    assert [(one.result, one.note) for one in prepared.results] == [
        ("planned", None), ("refused", "a member subscribes to topic orders"),
    ]  # fmt: skip
    with pytest.raises(RefusedError):
        left.delete("g", topics=("left", "orders"))


def test_the_coordinator_has_the_last_word_about_subscriptions(left, world):
    def between(api, request, deliver):
        if api is ApiKey.OFFSET_DELETE and request.topics[0].name == "gone":
            rows = [OffsetDeleteResponsePartition(partition_index=0, error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)]
            return OffsetDeleteResponse(topics=[OffsetDeleteResponseTopic(name="gone", partitions=rows)])
        return deliver()

    world.between = between
    report = left.delete("g", topics=("left", "gone"))
    assert (results(report), report.exit_code) == ({"g:left": "removed", "g:gone": "refused"}, 7)


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_the_right_that_is_missing_is_that_on_the_topic_or_the_group(left, world, code):
    def between(api, request, deliver):
        if api is not ApiKey.OFFSET_DELETE:
            return deliver()
        if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return OffsetDeleteResponse(error_code=code)
        rows = [OffsetDeleteResponsePartition(partition_index=number, error_code=code) for number in (0, 1)]
        return OffsetDeleteResponse(topics=[OffsetDeleteResponseTopic(name="left", partitions=rows)])

    world.between = between
    with pytest.raises(AuthorizationError) as caught:
        left.delete("g", topics=("left",))
    needs = "READ on Topic" if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else "DELETE on Group 'g'"
    assert f"the principal needs {needs}" in caught.value.facts


def test_a_broker_without_the_request_is_told(left, monkeypatch):
    def version(connection, key, **more):
        if key is ApiKey.OFFSET_DELETE:
            raise UnsupportedError("broker 192.0.2.1:9092 does not support OffsetDelete")
        return known(connection, key, **more)

    known = BrokerConnection.version
    monkeypatch.setattr(BrokerConnection, "version", version)
    with pytest.raises(RefusedError, match=r"Kafka 2\.4") as caught:
        left.prepare("g", topics=("left",))
    assert caught.value.exit_code == 6
