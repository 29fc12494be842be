"""Collection after collection: counters go on, and groups that cannot be described are missing."""

from __future__ import annotations

import uuid

import pytest

from kgm.client import connect, in_parts
from kgm.operations.export.collector import ExportRequest, GroupCollector
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from kgm.testing import QUICK_SETTINGS, serve_in_thread
from tests.client.joiners import Joiner
from tests.waiting import until

TOPIC = "exported"
TIMEOUT_MS = 60_000


class Group:
    """A group whose only member may be replaced by another one."""

    def __init__(self, port):
        self.name = f"export-{uuid.uuid4().hex[:8]}"
        self.first, self.second = (Joiner(port, self.name, name, TOPIC) for name in "ab")
        until(self.first.join, "it cannot join", accept=lambda answer: answer.error_code == 0)
        self._sync(self.first, {self.first.member_id: encode({TOPIC: [0, 1]})})

    def _sync(self, leader, assignment):
        assert leader.sync(assignment).error_code == 0

    def rebalance(self):
        """The leader joins again: one more generation with the same owner."""
        assert self.first.join().error_code == 0
        self._sync(self.first, {self.first.member_id: encode({TOPIC: [0, 1]})})

    def replace(self):
        """The member leaves, and another one gets its partitions."""
        row = MemberIdentity(member_id=self.first.member_id, group_instance_id="a")
        answer = self.first.wire.ask(LeaveGroupRequest(group_id=self.name, members=[row]), version=4)
        assert answer.members[0].error_code == 0
        assert self.second.join().error_code == 0
        self._sync(self.second, {self.second.member_id: encode({TOPIC: [0, 1]})})

    def close(self):
        self.first.close()
        self.second.close()


def encode(partitions):
    return encode_assignment(MemberAssignment(partitions=partitions))


@pytest.fixture
def group(kafka):
    if TOPIC not in kafka.admin().list_topics(timeout=10).topics:
        kafka.create_topics({TOPIC: 2})
    made = Group(kafka.port)
    yield made
    made.close()


def counted(collection):
    rebalances, handovers = (
        {labels[0]: value for labels, value in family.rows}
        for family in (collection.series.rebalances, collection.series.handovers)
    )
    return {group_id: (rebalances[group_id], handovers[group_id]) for group_id in collection.series.group_ids}


@pytest.mark.kafka
@pytest.mark.parametrize("part", [500, 1])
def test_every_rebalance_and_handover_is_counted_once(kafka, group, part, monkeypatch):
    """part: of so many groups one is described, and packed from the second one on."""
    monkeypatch.setattr(in_parts, "PART", part)
    monkeypatch.setattr(in_parts, "UNPACKED", 0)
    with connect(kafka.bootstrap, timeout_ms=TIMEOUT_MS) as cluster:
        collector = GroupCollector(cluster=cluster, request=ExportRequest(pattern="export-*"))
        assert counted(collector.collect())[group.name] == (0, 0)
        assert counted(collector.collect())[group.name] == (0, 0)
        for _ in range(3):
            group.rebalance()
        assert counted(collector.collect())[group.name] == (3, 0)
        group.replace()  # the group is empty for a moment: a generation, but nothing is assigned in it
        late = Group(kafka.port)
        late.rebalance()
        again = counted(collector.collect())
        assert again[group.name] == (4, 2)
        assert late.name in again
        for _ in range(2):
            late.rebalance()
        assert counted(collector.collect())[late.name][0] - again[late.name][0] == 2
        late.close()


@pytest.mark.kafka
def test_names_and_findings(kafka, group):
    with connect(kafka.bootstrap, timeout_ms=TIMEOUT_MS) as cluster:
        now_s = [100.0]
        request = ExportRequest(names=[group.name, "export-nobody"], findings_every_ms=60_000)
        collector = GroupCollector(cluster=cluster, request=request, clock=lambda: now_s[0])
        first = collector.collect()
        assert first.series.group_ids == [group.name]
        assert [(error.code, error.group_id) for error in first.errors] == [("NOT_FOUND", "export-nobody")]
        assert first.findings is not None
        assert {one.group_id for one in first.findings} <= {group.name}
        now_s[0] += 59
        assert collector.collect().findings is first.findings
        now_s[0] += 2
        assert collector.collect().findings is not first.findings


def test_a_cluster_that_is_away_has_no_groups_and_counters_go_on():
    settings = {**QUICK_SETTINGS, "offsets.topic.num.partitions": 4}
    server = serve_in_thread(topics={TOPIC: 2}, settings=settings)
    port = server.port
    group = Group(port)
    with connect(server.bootstrap, timeout_ms=TIMEOUT_MS) as cluster:
        collector = GroupCollector(cluster=cluster, request=ExportRequest(budget_ms=2_000))
        assert group.name in counted(collector.collect())
        group.replace()
        before = counted(collector.collect())
        assert before[group.name][0] >= 1
        group.close()
        server.close()
        away = collector.collect()
        assert (away.is_up, away.series.group_ids, away.findings) == (False, [], None)
        assert away.errors
        with serve_in_thread(topics={TOPIC: 2}, settings=settings, port=port):
            back = collector.collect()
            assert (back.is_up, back.errors, back.series.group_ids) == (True, (), [])


@pytest.mark.kafka
def test_the_findings_of_a_group_go_with_it(kafka):
    """Not when the doctor looks at the groups again, which is minutes later."""
    gone, kept = Group(kafka.port), Group(kafka.port)
    names = [gone.name, kept.name]
    try:
        with connect(kafka.bootstrap, timeout_ms=TIMEOUT_MS) as cluster:
            request = ExportRequest(names=names, findings_every_ms=3_600_000)
            collector = GroupCollector(cluster=cluster, request=request)
            assert {one.group_id for one in collector.collect().findings} == {*names}
            row = MemberIdentity(member_id=gone.first.member_id, group_instance_id="a")
            gone.first.wire.ask(LeaveGroupRequest(group_id=gone.name, members=[row]), version=4)
            admin = kafka.admin()  # which ends what it does when nothing holds it
            admin.delete_consumer_groups([gone.name])[gone.name].result(30)
            assert {one.group_id for one in collector.collect().findings} == {kept.name}
    finally:
        gone.close()
        kept.close()


@pytest.mark.kafka
def test_a_collection_that_is_the_only_one_keeps_no_group_and_shows_the_same(kafka, group, monkeypatch):
    """Part by part, with the generation from the log."""
    monkeypatch.setattr(in_parts, "PART", 1)
    group.rebalance()
    other = Group(kafka.port)
    with connect(kafka.bootstrap, timeout_ms=TIMEOUT_MS) as cluster:
        shown = []
        for is_once in (False, True):
            request = ExportRequest(names=[group.name, "export-nobody", other.name], is_once=is_once)
            found = GroupCollector(cluster=cluster, request=request).collect()
            shown.append((found.series.group_ids, [[*one.rows] for one in found.series], [*map(str, found.errors)]))
    other.close()
    assert shown[0] == shown[1]
    assert any(one.name == "kgm_group_generation" and [*one.rows] for one in found.series)
