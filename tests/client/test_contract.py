"""One contract, two clusters: what kgm relies on holds for the embedded server and for a real Kafka alike.

Members are real: librdkafka, and Java where a test says so."""

from __future__ import annotations

import uuid

import pytest

from kgm.client import connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.assignment import owners
from kgm.model.errors import NotFoundError
from kgm.operations.change.operator import current_operator
from kgm.operations.removal import removal
from kgm.operations.removal.guard import GuardWatch
from kgm.operations.removal.liveness import LivenessVerdict
from kgm.operations.removal.request import RemovalRequest
from kgm.server import serve_in_thread
from tests.kafka.members import JavaMembers, RdMembers, wait_settled
from tests.kafka.records import produce
from tests.waiting import until

PARTITIONS = 6
BUDGET_MS = 20_000
SESSION_MS = 30_000

pytestmark = pytest.mark.slow


class Place:
    """A cluster with a topic and a group name of one's own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self.group = f"g-{uuid.uuid4().hex[:8]}"

    def connect(self):
        return connect(self.bootstrap, timeout_ms=BUDGET_MS)

    def describe(self):
        with self.connect() as cluster:
            return cluster.describe_group(self.group)

    def produce(self, count: int, partition: int) -> None:
        produce(self.bootstrap, self.topic, [b"x"] * count, [partition], timeout_s=20)

    def wait(self, condition, timeout_s: float = 30):
        """The first snapshot for which the condition holds."""
        return until(self.describe, "no such group is described", timeout_s, accept=condition, every_s=0.05)


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def place(request):
    topic = f"t-{uuid.uuid4().hex[:8]}"
    if request.param == "embedded":
        settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
        with serve_in_thread(topics={topic: PARTITIONS}, settings=settings) as server:
            yield Place(server.bootstrap, topic)
    else:
        kafka = request.getfixturevalue("kafka")
        kafka.create_topics({topic: PARTITIONS})
        yield Place(kafka.bootstrap, topic)


@pytest.fixture
def real_place(kafka):
    topic = f"t-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({topic: PARTITIONS})
    return Place(kafka.bootstrap, topic)


@pytest.fixture
def rd(place):
    with RdMembers(place.bootstrap) as members:
        yield members


def fleet(members, place, count, *, static=True, **more):
    options = {"group": place.group, "topics": [place.topic], **more}
    if options.get("protocol") != "consumer":
        options["session_timeout_ms"] = SESSION_MS
    started = [members.start(instance_id=f"seat-{i}" if static else None, **options) for i in range(count)]
    wait_settled(started, PARTITIONS)
    return started


def remove(place, *instance_ids, **more):
    with place.connect() as cluster:
        request = RemovalRequest(
            group_id=place.group,
            instance_ids=instance_ids,
            assume_stopped=True,
            allow_live=True,
            guard_window_ms=0,
            **more,
        )
        prepared = removal.prepare(cluster, request)
        report = removal.execute(cluster, prepared, operator=current_operator(), audit=None)
        return {one.target.id: str(one.result) for one in report.results}, prepared.plan.group, prepared.moves.moves


def by_identity(snapshot):
    return owners({member.identity: member.assignment for member in snapshot.members})


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_a_stopped_static_member_is_removed_and_its_partitions_go_where_it_was_said(place, rd, assignor):
    members = fleet(rd, place, 3, assignor=assignor)
    seen = place.describe()
    assert (seen.type, seen.state, seen.assignor) == ("classic", "Stable", assignor)
    assert [member.identity for member in seen.members] == ["seat-0", "seat-1", "seat-2"]
    assert {member.client_library.name for member in seen.members} == {"librdkafka"}
    members[1].crash()
    results, before, moves = remove(place, "seat-1", "nobody")
    assert results == {"seat-1": "removed", "nobody": "absent"}
    after = place.wait(
        lambda one: one.state == "Stable" and len(one.members) == 2 and len(by_identity(one)) == PARTITIONS
    )
    expected = by_identity(before) | {(m.topic, m.partition): m.owner_after for m in moves}
    assert by_identity(after) == expected


def test_a_live_static_member_comes_back_under_another_id(place, rd):
    fleet(rd, place, 2)
    before = place.describe().members[0].member_id
    results, *_ = remove(place, "seat-0")
    assert results == {"seat-0": "returned"}
    after = place.wait(
        lambda one: one.state == "Stable" and len(by_identity(one)) == PARTITIONS and len(one.members) == 2
    )
    assert after.members[0].group_instance_id == "seat-0"
    assert after.members[0].member_id != before


def test_dynamic_members_by_member_id(place, rd):
    members = fleet(rd, place, 2, static=False)
    seen = place.describe()
    assert {member.group_instance_id for member in seen.members} == {None}
    gone = members[0].member_id
    members[0].crash()
    results, *_ = remove(place, member_ids=[gone])
    assert results == {gone: "removed"}
    after = place.wait(lambda one: one.state == "Stable" and len(by_identity(one)) == PARTITIONS)
    assert [member.member_id for member in after.members] == [members[1].member_id]


def test_all_of_them_leave_an_empty_group(place, rd):
    members = fleet(rd, place, 2)
    for member in members:
        member.crash()
    results, *_ = remove(place, "seat-0", "seat-1")
    assert set(results.values()) == {"removed"}
    after = place.describe()
    assert (after.state, after.members) == ("Empty", ())
    assert remove(place, "seat-0", "seat-1")[0] == {"seat-0": "absent", "seat-1": "absent"}


def test_offsets_lag_and_what_can_be_known_of_life(place, rd):
    place.produce(7, 0)
    members = fleet(rd, place, 2)
    holder = next(one for one in members if (place.topic, 0) in one.assignment)

    def committed(seen):
        holder.commit()
        return any(row.committed for row in seen.offsets)

    seen = place.wait(committed)
    row = next(one for one in seen.offsets if one.partition == 0)
    assert (row.end, row.member_id) == (7, holder.member_id)
    assert row.committed + row.lag == 7
    assert seen.topics[0].partitions == PARTITIONS
    holder.crash()
    place.produce(3, 0)
    with place.connect() as cluster:
        assert cluster.end_offsets([(place.topic, 0), (place.topic, 1)]) == {(place.topic, 0): 10, (place.topic, 1): 0}
        group = cluster.describe_group(place.group)
        report = GuardWatch(cluster, group, [one.member_id for one in group.members], window_ms=500).run()
    assert {one.member_id for one in members} == report.liveness.keys()
    assert {liveness.verdict for liveness in report.liveness.values()} == {LivenessVerdict.UNKNOWN}
    silent = [name for name, liveness in report.liveness.items() if "3 records wait for it" in liveness.why]
    assert silent == [holder.member_id]


def test_list_and_not_found(place, rd):
    fleet(rd, place, 1)
    with place.connect() as cluster:
        assert cluster.cluster_id
        row = next(one for one in cluster.list_groups().groups if one.group_id == place.group)
        assert (row.state, row.type, row.protocol_type) == ("Stable", "classic", "consumer")
        assert [one.group_id for one in cluster.list_groups(states=["Stable"], types=["CLASSIC"]).groups].count(
            place.group
        ) == 1
        assert place.group not in [one.group_id for one in cluster.list_groups(types=["consumer"]).groups]
        found, missing = cluster.describe_groups([place.group, "no-such"])
        assert found.coordinator is not None
        assert isinstance(missing, NotFoundError)


# -- KIP-848, which the embedded server does not serve


@pytest.mark.kafka
def test_consumer_groups(real_place):
    place = real_place
    with RdMembers(place.bootstrap) as rd:
        members = fleet(rd, place, 3, protocol="consumer")
        seen = place.wait(lambda one: one.state == "Stable")
        assert (seen.type, seen.assignor, seen.session_timeout_ms) == ("consumer", "uniform", 6_000)
        assert {member.status for member in seen.members} == {"stable"}
        assert {member.protocol for member in seen.members} == {"consumer"}
        members[0].close()  # a static member says -2 and stays
        away = place.wait(lambda one: any(member.status == "away" for member in one.members)).members[0]
        assert (away.identity, away.member_epoch) == ("seat-0", -2)
        with place.connect() as cluster:
            group = cluster.describe_group(place.group)
            liveness = GuardWatch(cluster, group, [away.member_id]).run().liveness[away.member_id]
            assert (liveness.verdict, "member epoch -2" in liveness.why) == (LivenessVerdict.STOPPED, True)
        results, _, moves = remove(place, "seat-0")
        assert results == {"seat-0": "removed"}
        after = place.wait(lambda one: one.state == "Stable" and len(by_identity(one)) == PARTITIONS)
        assert [member.identity for member in after.members] == ["seat-1", "seat-2"]
        freed = {key for key, owner in by_identity(seen).items() if owner == "seat-0"}
        assert {(m.topic, m.partition) for m in moves} == freed
        # by member id, of a crashed one
        gone = after.members[0].member_id
        members[1].crash()
        assert remove(place, member_ids=[gone])[0] == {gone: "removed"}
        assert remove(place, member_ids=[gone])[0] == {gone: "absent"}


@pytest.mark.kafka
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_members(real_place, protocol):
    place = real_place
    with JavaMembers(place.bootstrap) as java:
        members = fleet(java, place, 2, protocol=protocol, client_id=f"consumer-{place.group}-1")
        seen = place.wait(lambda one: one.state == "Stable")
        assert seen.type == protocol
        assert {member.client_library.name for member in seen.members} == {"java"}
        assert {member.topics for member in seen.members} == {(place.topic,)}
        # A KIP-848 member of a shared JVM cannot crash alone; closing leaves a static one in the group as well.
        members[0].close() if protocol == "consumer" else members[0].crash()
        results, before, moves = remove(place, "seat-0")
        assert results == {"seat-0": "removed"}
        after = place.wait(
            lambda one: len(one.members) == 1 and len(by_identity(one)) == PARTITIONS and one.state == "Stable"
        )
        assert by_identity(after) == by_identity(before) | {(m.topic, m.partition): m.owner_after for m in moves}


@pytest.mark.kafka
def test_a_mixed_group_is_described_and_downgraded(real_place):
    """Classic and consumer members in one group; removing the last consumer member makes it classic again."""
    place = real_place
    with RdMembers(place.bootstrap) as rd:
        fleet(rd, place, 1)
        new = rd.start(group=place.group, topics=[place.topic], instance_id="seat-9", protocol="consumer")
        new.wait_assigned(PARTITIONS // 2)
        seen = place.wait(lambda one: one.type == "consumer" and one.state == "Stable")
        assert {member.identity: member.protocol for member in seen.members} == {
            "seat-0": "classic",
            "seat-9": "consumer",
        }
        new.crash()
        assert remove(place, "seat-9")[0] == {"seat-9": "removed"}
        after = place.wait(lambda one: one.state == "Stable" and len(by_identity(one)) == PARTITIONS)
        assert (after.type, [member.identity for member in after.members]) == ("classic", ["seat-0"])
