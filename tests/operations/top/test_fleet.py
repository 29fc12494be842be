"""Round after round over groups of the embedded coordinator: what is seen, what it costs, and what is not known."""

from __future__ import annotations

import time
import uuid

import pytest
from confluent_kafka import Producer

from kgm.client import connect
from kgm.client.topic_log import partition_log
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode, KgmError
from kgm.operations.top import fleet as fleet_module
from kgm.operations.top.fleet import Fleet, FleetRequest
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from kgm.server import serve_in_thread
from kgm.server.cluster.topics import topic_id
from tests.client.faults import Edit, FaultProxy, Pass, ResetBefore
from tests.client.joiners import form_group
from tests.kafka.heartbeat_group import HeartbeatGroup
from tests.server.wire_client import WireClient

TOPIC, PARTITIONS, RECORDS, AGE_MS = "orders", 4, 3, 90_000
BUDGET_MS = 30_000


@pytest.fixture(scope="module")
def server():
    settings = BrokerSettings.from_overrides(
        {"group.initial.rebalance.delay.ms": "0", "group.consumer.assignment.interval.ms": "0"}
    )
    with serve_in_thread(topics={TOPIC: PARTITIONS}, settings=settings) as running:
        written_ms = round(time.time() * 1000) - AGE_MS
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for partition in range(PARTITIONS):
            for _ in range(RECORDS):
                producer.produce(TOPIC, b"record", partition=partition, timestamp=written_ms)
        assert producer.flush(30) == 0
        yield running


@pytest.fixture(scope="module")
def proxy(server):
    with FaultProxy((server.host, server.port)) as running:
        yield running


@pytest.fixture
def prefix():
    return f"top-{uuid.uuid4().hex[:8]}-"


@pytest.fixture
def form(server, prefix):
    """Form a group of the test: `form("late", "a", "b")`."""
    made = []

    def form(name, *instance_ids):
        joiners = form_group(server, prefix + name, instance_ids, TOPIC)
        made.extend(joiners)
        return joiners

    yield form
    for joiner in made:
        joiner.close()


class Costs:
    """A processor clock: a description costs so many seconds for each group."""

    def __init__(self, per_group_s):
        self.now_s, self.per_group_s, self.slices = 0.0, per_group_s, []

    def __call__(self):
        return self.now_s

    def charge(self, cluster):
        describe = cluster.describe_groups

        def charged(group_ids, **more):
            self.now_s += self.per_group_s * len(group_ids)
            self.slices.append([*group_ids])
            return describe(group_ids, **more)

        cluster.describe_groups = charged


@pytest.fixture
def cluster(proxy):
    with connect(proxy.bootstrap, timeout_ms=BUDGET_MS) as connected:
        yield connected


def fleet_of(cluster, prefix, **more):
    return Fleet(cluster, FleetRequest(pattern=f"{prefix}*"), **more)


def commit_all(joiner, offset):
    for partition in range(PARTITIONS):
        assert joiner.commit(partition, offset) == 0


def leave(joiner):
    row = MemberIdentity(member_id=joiner.member_id, group_instance_id=joiner.instance_id)
    answer = joiner.wire.ask(LeaveGroupRequest(group_id=joiner.group, members=[row]), version=4)
    assert answer.members[0].error_code == 0


def test_what_is_known_of_each_group(cluster, form, prefix):
    (late, _), (done,) = form("late", "a", "b"), form("done", "a")
    commit_all(late, 1)
    commit_all(done, RECORDS)
    before_ms = time.time() * 1000
    fleet = fleet_of(cluster, prefix)
    fleet.read_all()
    rows = {name.removeprefix(prefix): row for name, row in fleet.rows.items()}
    assert list(rows) == ["done", "late"]
    late, done = rows["late"], rows["done"]
    assert (late.type, late.state, late.protocol_type, late.assignor) == ("classic", "Stable", "consumer", "range")
    assert (late.members, late.missing, done.members) == (2, 0, 1)
    assert late.lag == PARTITIONS * (RECORDS - 1)
    assert AGE_MS <= late.lag_ms <= AGE_MS + time.time() * 1000 - before_ms + 60_000
    assert (done.lag, done.lag_ms) == (0, 0)
    assert 0 <= done.commit_age_ms < time.time() * 1000 - before_ms + 60_000
    assert (done.rebalances, late.rebalances) == (1, 2)
    assert done.rebalances_exact
    assert not fleet.unread()


def test_a_brief_description_has_what_a_whole_one_has(server, cluster, form, prefix):
    """Of what a fleet needs: the lag, and what it rests on."""
    (late, _) = form("late", "a", "b")
    assert late.commit(0, 1) == 0  # the others own, or have, nothing that is committed
    wire = WireClient(server.port)
    group = HeartbeatGroup(wire, f"{prefix}epochs", [TOPIC], "uniform")
    group.join(f"a-{uuid.uuid4()}", "a")
    group.heartbeat_until_stable()
    ids = [late.group, group.group_id]
    pairs = zip(cluster.describe_groups(ids), cluster.describe_groups(ids, is_brief=True), strict=True)
    for whole, brief in pairs:
        for name in (
            "group_id", "type", "state", "protocol_type", "assignor", "coordinator", "assignment_epoch", "topics",
            "offsets", "lag", "lag_ms", "past_end", "may_lack_offsets", "hidden_offset_topics", "deleted_topics",
        ):  # fmt: skip
            assert getattr(brief, name) == getattr(whole, name), name
        for one, other in zip(whole.members, brief.members, strict=True):
            for name in ("member_id", "group_instance_id", "topics", "assignment", "is_readable"):
                assert getattr(one, name) == getattr(other, name), name
    wire.close()


def test_groups_are_asked_for_together(cluster, proxy, form, prefix):
    for number in range(12):
        (joiner,) = form(f"g{number}", "a")
        commit_all(joiner, 1)
    fleet = fleet_of(cluster, prefix)
    fleet.read_round(budget_ms=BUDGET_MS)
    del proxy.seen[:]
    fleet.read_round([*fleet.rows], budget_ms=BUDGET_MS)
    asked = [one.api for one in proxy.seen]
    for api in (ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH):
        assert asked.count(api) == 1, api
    # Ends, starts of the logs that lag, and the ends of __consumer_offsets.
    assert asked.count(ApiKey.LIST_OFFSETS) <= 4
    assert ApiKey.FETCH not in asked, "the records that lag are the same, and their times are known"


def test_what_is_on_the_screen_is_read_each_time_and_the_rest_in_turn(cluster, form, prefix):
    for number in range(10):
        form(f"g{number}", "a")
    costs = Costs(per_group_s=fleet_module._SHARE / 4)  # four in a round, of one second
    costs.charge(cluster)
    fleet = fleet_of(cluster, prefix, cpu_clock=costs)
    while fleet.is_filling or not fleet.rows:
        fleet.read_round(budget_ms=BUDGET_MS)
    wanted = [f"{prefix}g7", f"{prefix}g8"]
    for _ in range(12):  # until the estimate of what a group costs has settled
        fleet.read_round(wanted, budget_ms=BUDGET_MS)
    del costs.slices[:]
    for _ in range(8):
        fleet.read_round(wanted, budget_ms=BUDGET_MS)
    assert all(one[:2] == wanted and 3 <= len(one) <= 4 for one in costs.slices)
    assert {name for one in costs.slices for name in one} == set(fleet.rows)


def test_groups_that_come_and_go(cluster, form, prefix, monkeypatch):
    monkeypatch.setattr(fleet_module, "_LISTING_MS", 0)
    (first,) = form("first", "a")
    fleet = fleet_of(cluster, prefix)
    fleet.read_round(budget_ms=BUDGET_MS)
    assert list(fleet.rows) == [first.group]
    (second,) = form("second", "a")
    fleet.read_round(budget_ms=BUDGET_MS)
    assert fleet.rows[second.group].members == 1
    leave(first)
    fleet.read_round(budget_ms=BUDGET_MS)
    assert (fleet.rows[first.group].state, fleet.rows[first.group].missing) == ("Empty", 1)
    answer = first.wire.ask(DeleteGroupsRequest(groups_names=[first.group]))
    assert [one.error_code for one in answer.results] == [0]
    fleet.read_round(budget_ms=BUDGET_MS)
    assert list(fleet.rows) == [second.group]


def test_without_the_log_what_is_seen_counts(cluster, form, prefix, monkeypatch):
    def refuse(*_arguments, **_more):
        raise partition_log.unauthorized()

    monkeypatch.setattr(partition_log, "look_up", refuse)
    a, b = form("unlogged", "a", "b")
    clock = iter(range(1_000_000, 2_000_000)).__next__  # a second passes with each look
    fleet = fleet_of(cluster, prefix, clock=clock)
    fleet.read_round(budget_ms=BUDGET_MS)
    row = fleet.rows[a.group]
    assert (row.rebalances, row.commit_age_ms, row.missing) == (None, None, None)
    assert any("no READ on Topic '__consumer_offsets'" in one.text for one in fleet.unread())
    fleet.read_round([a.group], budget_ms=BUDGET_MS)
    assert (fleet.rows[a.group].rebalances, fleet.rows[a.group].missing) == (0, 0)
    leave(b)
    a.join()
    assert a.sync({a.member_id: encode_assignment(MemberAssignment(partitions={TOPIC: [0]}))}).error_code == 0
    fleet.read_round([a.group], budget_ms=BUDGET_MS)
    row = fleet.rows[a.group]
    assert (row.state, row.members, row.missing) == ("Stable", 1, 1)
    assert (row.rebalances, row.rebalances_exact) == (1, False)
    assert row.rebalances_since_ms < row.read_at_ms


def test_members_that_are_away_are_missing(server, cluster, prefix):
    wire = WireClient(server.port)
    group = HeartbeatGroup(wire, f"{prefix}away", [TOPIC], "uniform")
    for name in ("a", "b"):
        group.join(f"{name}-{uuid.uuid4()}", name)
    group.heartbeat_until_stable()
    assert all(topic_id(TOPIC) in owned for owned in group.owned.values())
    fleet = fleet_of(cluster, prefix)
    fleet.read_round(budget_ms=BUDGET_MS)
    group.step_away(next(iter(group.epochs)))
    fleet.read_round([group.group_id], budget_ms=BUDGET_MS)
    wire.close()
    row = fleet.rows[group.group_id]
    assert (row.type, row.members, row.missing) == ("consumer", 2, 1)


def test_what_is_not_answered_is_unknown_and_never_zero(cluster, proxy, form, prefix):
    one, other = form("one", "a")[0], form("other", "a")[0]
    commit_all(one, 0)
    commit_all(other, 0)

    def refuse(message):
        for group in message.groups:
            if group.group_id == one.group:
                group.error_code = ErrorCode.UNKNOWN_SERVER_ERROR

    fleet = fleet_of(cluster, prefix)
    proxy.always(ApiKey.DESCRIBE_GROUPS, Edit(refuse))
    try:
        fleet.read_all()
    finally:
        proxy.always(ApiKey.DESCRIBE_GROUPS, Pass())
    row = fleet.rows[one.group]
    assert row.error is not None
    assert (row.members, row.lag, row.lag_ms, row.rebalances, row.missing) == (None, None, None, None, None)
    assert any(one.group in unread.text for unread in fleet.unread())
    assert fleet.rows[other.group].lag == PARTITIONS * RECORDS
    proxy.always(ApiKey.FETCH, ResetBefore())
    try:
        fleet = fleet_of(cluster, prefix)
        fleet.read_all()
    finally:
        proxy.always(ApiKey.FETCH, Pass())
    row = fleet.rows[other.group]
    assert (row.lag, row.lag_ms, row.rebalances, row.commit_age_ms) == (PARTITIONS * RECORDS, None, None, None)


def test_rows_stay_while_no_broker_answers(cluster, proxy, form, prefix):
    form("stays", "a")
    fleet = fleet_of(cluster, prefix)
    fleet.read_round(budget_ms=BUDGET_MS)
    before = fleet.rows
    for api in (ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_GROUPS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR):
        proxy.always(api, ResetBefore())
    try:
        fleet._listed_at_ms = None
        with pytest.raises(KgmError):
            fleet.read_round(budget_ms=300)
    finally:
        for api in (ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_GROUPS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR):
            proxy.always(api, Pass())
    assert fleet.rows == before
    fleet.read_round(budget_ms=BUDGET_MS)
    assert fleet.rows.keys() == before.keys()
