"""What coordinators write down, read as it comes: nothing is missed, nothing is read twice, and bounds hold."""

from __future__ import annotations

import tracemalloc
import uuid
from types import SimpleNamespace

import pytest

from kgm.client import connect, in_parts
from kgm.client.offsets_topic import group_tail, last_rebalance
from kgm.client.offsets_topic.group_tail import GroupRecordTail, as_snapshot, decoded
from kgm.client.poller import GroupPoller, completed_from_record
from kgm.client.topic_log import partition_log
from kgm.model.errors import NotFoundError, UnreachableError
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription
from kgm.records.batch import decode_batches, new_batch
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.record import Record, encode_record
from tests.client.joiners import REBALANCE_MS, SESSION_MS, Joiner, take_all
from tests.client.offsets_topic.test_last_rebalance import TOPIC, bury

PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def broker(kafka):
    if TOPIC not in kafka.admin().list_topics(timeout=10).topics:
        kafka.create_topics({TOPIC: 100})
    return kafka


@pytest.fixture
def member(broker):
    """The only member of a new group, and nobody's business but the test's."""
    joiner = Joiner(broker.port, f"tail-{uuid.uuid4().hex[:8]}", "a", TOPIC)
    take_all(joiner)
    yield joiner
    joiner.close()


@pytest.fixture
def cluster(broker):
    with connect(broker.bootstrap, timeout_ms=PATIENCE_MS) as connected:
        yield connected


def read(tail, cluster):
    found = tail.read(cluster.deadline)
    return {name: [one.group.generation for one in decoded(name, found.take(name) or ())] for name in found.group_ids}


@pytest.mark.kafka
def test_each_generation_is_read_once(cluster, member):
    tail = GroupRecordTail(cluster, [member.group, "another"])
    assert read(tail, cluster) == {member.group: [1]}
    assert read(tail, cluster) == {}
    for _ in range(3):
        take_all(member)
    assert read(tail, cluster) == {member.group: [2, 3, 4]}
    assert (tail.unreadable_because, tail.skipped) == (None, set())


@pytest.mark.kafka
def test_the_past_is_read_back_within_bounds(cluster, member):
    for _ in range(3):
        take_all(member)
    records = GroupRecordTail(cluster, [member.group]).read_back(cluster.deadline)[member.group]
    past = decoded(member.group, records)
    assert [one.group.generation for one in past] == [0, 1, 2, 3, 4] or [one.group.generation for one in past] == [
        1,
        2,
        3,
        4,
    ]
    bury(member, 6_000)
    assert GroupRecordTail(cluster, [member.group]).read_back(cluster.deadline, 1000) == {}


@pytest.mark.kafka
def test_what_is_too_much_is_skipped_and_said(cluster, member, monkeypatch):
    tail = GroupRecordTail(cluster, [member.group])
    tail.read(cluster.deadline)
    monkeypatch.setattr(group_tail, "MAX_BYTES", 1000)
    monkeypatch.setattr(partition_log, "_FETCH_BYTES", 20_000)
    bury(member, 3_000)
    take_all(member)
    assert read(tail, cluster) == {}
    assert tail.skipped == {member.group}
    take_all(member)
    assert read(tail, cluster) == {member.group: [3]}  # it goes on at the end
    assert tail.skipped == set()


@pytest.mark.kafka
def test_a_look_is_completed_by_the_log(broker, cluster, member):
    lookout = GroupPoller(cluster, [member.group, "nobody"], budget_ms=PATIENCE_MS)
    look = lookout.poll()
    seen = look[member.group].seen
    assert (seen.generation, seen.session_timeout_ms, seen.rebalance_timeout_ms) == (1, SESSION_MS, REBALANCE_MS)
    assert isinstance(look["nobody"].seen, NotFoundError)
    assert look[member.group].log_unreadable_because is None


def test_a_log_that_nobody_may_read_is_silent_and_says_why(proxy, form, group):
    form("a", "b")
    proxy.hide_offsets_topic()
    with connect(proxy.bootstrap, timeout_ms=PATIENCE_MS) as cluster:
        look = GroupPoller(cluster, [group], budget_ms=PATIENCE_MS).poll()[group]
        assert (look.seen.state, look.recorded) == ("Stable", ())
        assert "__consumer_offsets" in look.log_unreadable_because


def test_a_cluster_that_is_gone_is_data(server, form, group):
    form("a")
    with connect(f"{server.host}:{server.port}", timeout_ms=PATIENCE_MS) as cluster:
        lookout = GroupPoller(cluster, [group], budget_ms=300)
        lookout.poll()

        def fail(*_, **__):
            raise UnreachableError("gone")

        cluster.describe_groups = fail
        assert str(lookout.poll()[group].seen) == "gone"


def test_a_record_as_a_snapshot():
    blob = encode_assignment(MemberAssignment(partitions={"t": [1, 0]}))
    known = MemberMetadata(
        member_id="a-1", group_instance_id="a", client_host="/10.0.0.1", session_timeout=10_000, rebalance_timeout=60_000,
        subscription=encode_subscription(Subscription(topics=("t",))), assignment=blob,
    )  # fmt: skip
    odd = MemberMetadata(
        member_id="m", session_timeout=20_000, rebalance_timeout=5, subscription=b"\0", assignment=b"x"
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="a-1", members=[known, odd]
    )
    found = as_snapshot("g", value)
    assert (found.state, found.generation, found.assignor) == ("Stable", 3, "range")
    assert (found.session_timeout_ms, found.rebalance_timeout_ms) == (None, 60_000)
    first, second = found.members
    assert (first.identity, first.topics, sorted(first.assignment["t"]), first.client_host) == (
        "a",
        ("t",),
        [0, 1],
        "10.0.0.1",
    )
    assert (second.identity, second.topics, second.assignment) == ("m", None, {})
    connect_group = as_snapshot("g", GroupMetadataValue(protocol_type="connect", members=[known]))
    assert connect_group.members[0].assignment == {}
    assert as_snapshot("g", GroupMetadataValue(protocol_type="consumer")).state == "Empty"
    assert completed_from_record(found, connect_group) is found  # other members: it says nothing of these
    assert completed_from_record(connect_group, found) is connect_group


class CleanedLog:
    """A log of one partition, of which the records that a cleaner removes are missing. Each record is a batch."""

    def __init__(self, monkeypatch):
        self.records, self.end, self.fails_at = {}, 0, None
        log = SimpleNamespace(partition_count=1, leaders={0: SimpleNamespace(broker=0)})
        monkeypatch.setattr(partition_log, "look_up", lambda *_: log)
        monkeypatch.setattr(partition_log, "end_offset", lambda *_: self.end)
        monkeypatch.setattr(partition_log, "start_offset", lambda *_: 0)
        monkeypatch.setattr(partition_log, "fetch_batches", self._fetch)
        self.brokers = SimpleNamespace(on_broker=lambda _broker, task, _deadline: task(None))

    def write(self, *names):
        """The next generation of each group; another record for a group without a name."""
        for name in names:
            key = partition_log.group_record_key(name) if name else b"another"
            value = GroupMetadataValue(protocol_type="consumer", generation=self.end)
            _, encoded = encode_record(Record(GroupMetadataKey(group=name), value))
            self.records[self.end] = new_batch([(key, encoded)], base_offset=self.end, timestamp_ms=0)
            self.end += 1

    def clean(self, *offsets):
        for offset in offsets:
            del self.records[offset]

    def _fetch(self, _connection, _partition, first, end, _deadline):
        while first < end:
            if self.fails_at is not None and first >= self.fails_at:
                raise UnreachableError("gone")
            at = min(offset for offset in self.records if offset >= first)
            yield decode_batches(self.records[at])
            first = at + 1


def gaps(tail, group_id="g"):
    """(generation, whether it follows a gap) of each record."""
    records = decoded(group_id, tail.read(None).take(group_id) or ())
    return [(one.group.generation, one.follows_gap) for one in records]


def test_a_record_says_that_others_may_be_missing_before_it(monkeypatch):
    log = CleanedLog(monkeypatch)
    log.write("g", "")
    tail = GroupRecordTail(log, ["g", "h"])
    assert gaps(tail) == [(0, True)]  # the last one, whatever was before
    log.write("", "g", "", "g")
    assert gaps(tail) == [(3, False), (5, False)]
    log.write("", "g", "", "g", "g")
    log.clean(7, 8)
    assert gaps(tail) == [(9, True), (10, False)]
    log.write("g", "")
    log.clean(11)
    assert gaps(tail) == []  # the record for which it was removed is written later
    log.write("g", "g", "h")
    assert gaps(tail) == [(13, True), (14, False)]
    log.write("g", "", "h", "", "h")
    log.clean(17)
    assert gaps(tail, "h") == [(18, True), (20, False)]
    log.write("g")
    assert gaps(tail) == [(21, True)]
    tail.follow(["g"])
    log.write("g")
    assert gaps(tail) == [(22, False)]


def test_a_read_that_is_repeated_finds_the_gap_again(monkeypatch):
    log = CleanedLog(monkeypatch)
    log.write("g")
    tail = GroupRecordTail(log, ["g"])
    gaps(tail)
    log.write("g", "g", "g", "")
    log.clean(1)
    log.fails_at = 4
    assert gaps(tail) == []
    log.fails_at = None
    assert gaps(tail) == [(2, True), (3, False)]


def test_records_before_a_first_read_that_failed_may_be_missing(monkeypatch):
    log = CleanedLog(monkeypatch)
    log.write("g", "g")
    log.fails_at = 0
    tail = GroupRecordTail(log, ["g"])
    assert gaps(tail) == []
    log.fails_at = None
    log.write("g", "g")
    assert gaps(tail) == [(2, True), (3, False)]


@pytest.mark.long
def test_records_of_many_groups_take_a_fraction_of_their_size(monkeypatch):
    """Groups are taken in the order of their names, in which their partitions take turns."""
    monkeypatch.setattr(in_parts, "UNPACKED", 0)
    names, count = [f"service-{number:06d}" for number in range(5_000)], 10
    log = SimpleNamespace(
        partition_count=count, leaders={number: SimpleNamespace(broker=number) for number in range(count)}
    )
    monkeypatch.setattr(partition_log, "look_up", lambda _cluster, _deadline: log)
    monkeypatch.setattr(partition_log, "end_offset", lambda *_: 5)

    keys = {partition_log.group_record_key(name): name for name in names}

    def record(name):
        members = b"".join(b"%s-%d/10.0.0.1 orders, range" % (name.encode(), number) for number in range(30))
        return members, 7

    def last_records(_number, wanted, _deadline, _connection):
        return {key: record(keys[key]) for key in reversed(wanted)}

    monkeypatch.setattr(last_rebalance, "find_last_records", last_records)
    brokers = SimpleNamespace(on_broker=lambda _broker, task, _deadline: task(None))
    tail = GroupRecordTail(SimpleNamespace(brokers=brokers), names)
    tracemalloc.start()
    try:
        found = tail.read(None)
        assert all(found.take(name) == [(key, *record(name), True)] for key, name in keys.items())
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = sum(len(record(name)[0]) for name in names)
    assert most < size * 0.75, f"{most:,} bytes at most, for records of {size:,} bytes"
    assert found.group_ids == []
