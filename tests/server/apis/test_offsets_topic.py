"""`__consumer_offsets` as clients read it, without sockets: from memory, and from a data directory."""

import pytest

from kgm.model.errors import ErrorCode
from kgm.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kgm.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kgm.records.batch import decode_batches
from kgm.records.record import decode_record
from kgm.records.segment import file_name
from kgm.server.cluster.topics import topic_id
from kgm.server.contract.limits import Limits
from kgm.server.contract.offsets_topic import OFFSETS_TOPIC
from tests.records import real_logs
from tests.server.apis.test_transactions import writer
from tests.server.broker_driver import Driver
from tests.server.disk import Disk
from tests.server.group_requests import commit, stable

EARLIEST, LATEST, NEWEST = -2, -1, -3


@pytest.fixture
def disk(tmp_path):
    opened = Disk(tmp_path / "data")
    yield opened
    opened.kill()


@pytest.fixture(params=["memory", "disk"])
def start(request, disk):
    """Starts a cluster with one partition of the topic, in memory or on disk."""
    if request.param == "disk":
        return lambda **options: disk.start(partitions=1, **options)
    return lambda **options: Driver(offsets_topic_num_partitions=1, **options)


def fetch(offset=0, *, epoch=-1, each=2**20, wait_ms=0, committed_only=False):
    part = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=each, current_leader_epoch=epoch
    )  # fmt: skip
    topics = [FetchTopic(topic=OFFSETS_TOPIC, topic_id=topic_id(OFFSETS_TOPIC), partitions=[part])]
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=2**31 - 1, isolation_level=int(committed_only), topics=topics
    )


def row(response):
    return response.responses[0].partitions[0]


def fetched(driver, offset=0, *, to=1, version=None, **how):
    return row(driver.ask(fetch(offset, **how), to=to, version=version))


def listed(driver, timestamp, *, to=1, epoch=-1, committed_only=False):
    part = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    topics = [ListOffsetsTopic(name=OFFSETS_TOPIC, partitions=[part])]
    found = driver.ask(ListOffsetsRequest(topics=topics, isolation_level=int(committed_only)), to=to)
    answer = found.topics[0].partitions[0]
    return answer.error_code or (answer.timestamp, answer.offset, answer.leader_epoch)


def commits(data):
    """(base offset, timestamp, leader epoch, group, committed offset) of batches of one commit each."""
    found = []
    for batch in decode_batches(data):
        (record,) = batch.records
        decoded = decode_record(record.key, record.value)
        value = None if decoded.value is None else decoded.value.offset
        found.append((batch.base_offset, record.timestamp, batch.leader_epoch, decoded.key.group, value))
    return found


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch(start, version):
    driver = start()
    driver.ask(commit("g", name="t", offset=7), version=9)
    answer = fetched(driver, version=version)
    assert commits(answer.records) == [(0, driver.now, 0, "g", 7)]
    assert (answer.high_watermark, answer.last_stable_offset) == (1, 1)
    assert fetched(driver, 1, version=version).records == b""


def test_it_holds_what_the_coordinators_write(start):
    """The group's records too, so that a group that is read from it is the one that is described."""
    driver = start()
    joined = stable(driver)
    driver.advance(10)
    driver.ask(commit("h", name="t"), version=9)
    batches = decode_batches(fetched(driver).records)
    assert [batch.base_offset for batch in batches] == list(range(len(batches)))
    (last,) = batches[-2].records
    group = decode_record(last.key, last.value)
    assert (group.key.group, group.value.generation) == ("g", joined.generation_id)
    assert [member.member_id for member in group.value.members] == [joined.member_id]
    assert [batch.max_timestamp for batch in batches[-2:]] == [driver.now - 10, driver.now]


def test_what_is_fetched_is_what_the_data_directory_holds(disk):
    """Byte by byte, whatever the size of a fetch, over segments, and after a compaction and a restart."""
    limits = Limits(offsets_topic_segment_bytes=500)

    def check(driver):
        paths = sorted((disk.folder / f"{OFFSETS_TOPIC}-0").glob("*.log"))
        held = b"".join(path.read_bytes() for path in paths)
        for each in (1, 300, 2**20):
            data, offset = b"", 0
            while piece := fetched(driver, offset, each=each).records:
                data += piece
                offset = decode_batches(piece)[-1].last_offset + 1
            assert data == held
        return len(paths), decode_batches(held)

    driver = disk.start(partitions=1, limits=limits)
    for n in range(40):
        driver.ask(commit(f"g{n % 3}", name="t", offset=n), version=9)
        driver.advance(1)
    segments, whole = check(driver)
    assert (segments > 3, len(whole)) == (True, 40)
    driver.cluster.compact(driver.now)
    segments, left = check(driver)
    assert len(left) < 15
    assert left[-1] == whole[-1]
    assert listed(driver, EARLIEST)[1] == 0
    assert check(disk.start(partitions=1, limits=limits)) == (segments, left)


def test_size_limits_hold(start):
    driver = start(limits=Limits(fetch_max_bytes=250))
    for n in range(10):
        driver.ask(commit("g", name="t", offset=n), version=9)
    one = len(fetched(driver, each=1).records)
    assert len(fetched(driver).records) == 250 // one * one < 10 * one


@pytest.mark.parametrize("offset", [-1, 2])
def test_other_offsets_are_out_of_range(start, offset):
    driver = start()
    driver.ask(commit("g", name="t"), version=9)
    answer = fetched(driver, offset)
    assert (answer.error_code, answer.log_start_offset, answer.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0, 1)


def test_a_log_may_begin_later(disk):
    driver = disk.start(partitions=1)
    for n in range(5):
        driver.ask(commit("g", name="t", offset=n), version=9)
    disk.kill()
    folder = disk.folder / f"{OFFSETS_TOPIC}-0"
    (folder / "kgm-segments.json").unlink()
    whole = decode_batches((folder / file_name(0)).read_bytes())
    (folder / file_name(0)).unlink()
    (folder / file_name(3)).write_bytes(b"".join(batch.data for batch in whole[3:]))
    driver = disk.start(partitions=1)
    assert fetched(driver, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert [one[0] for one in commits(fetched(driver, 3).records)] == [3, 4]
    assert (listed(driver, EARLIEST)[1], listed(driver, LATEST)[1], listed(driver, 0)[1]) == (3, 5, 3)


def test_offsets_by_time(start):
    driver = start()
    assert (listed(driver, EARLIEST), listed(driver, LATEST)) == ((-1, 0, 0), (-1, 0, 0))
    assert (listed(driver, NEWEST), listed(driver, 0)) == ((-1, -1, -1), (-1, -1, -1))
    times = []
    for n in range(3):
        driver.ask(commit("g", name="t", offset=n), version=9)
        times.append(driver.now)
        driver.advance(100)
    assert (listed(driver, EARLIEST), listed(driver, LATEST)) == ((-1, 0, 0), (-1, 3, 0))
    assert listed(driver, NEWEST) == (times[2], 2, 0)
    assert [listed(driver, at) for at in (0, times[1], times[1] + 1)] == [
        (times[0], 0, 0), (times[1], 1, 0), (times[2], 2, 0),
    ]  # fmt: skip
    assert listed(driver, driver.now) == (-1, -1, -1)


def test_transactions_and_their_isolation(start):
    driver = start()
    kept, gone, pending = (writer(driver, name=name) for name in ("kept", "gone", "pending"))
    for one in (gone, kept):
        one.add_offsets()
        one.commit_offset(5)
    gone.end(commit=False)
    kept.end()
    before = fetched(driver).high_watermark
    pending.add_offsets()
    pending.commit_offset(9)
    everything, committed = fetched(driver), fetched(driver, committed_only=True)
    assert (everything.last_stable_offset, everything.high_watermark) == (before, before + 1)
    batches = decode_batches(everything.records)
    assert [(batch.transactional, batch.is_control) for batch in batches] == [
        (True, False), (True, False), (True, True), (True, True), (True, False),
    ]  # fmt: skip
    assert committed.records == b"".join(batch.data for batch in batches[:-1])
    assert [(one.producer_id, one.first_offset) for one in committed.aborted_transactions] == [(gone.id, 0)]
    assert (listed(driver, LATEST)[1], listed(driver, LATEST, committed_only=True)[1]) == (before + 1, before)


def test_a_fetch_waits_for_the_next_record(start):
    driver = start()
    waiting = driver.send(fetch(wait_ms=500))
    assert waiting not in driver.events
    driver.ask(commit("g", name="t", offset=3), version=9)
    assert commits(row(driver.answer(waiting)).records) == [(0, driver.now, 0, "g", 3)]


def test_a_fetch_waits_for_what_a_timer_writes(start):
    driver = start()
    joined = stable(driver)
    end = fetched(driver).high_watermark
    waiting = driver.send(fetch(end, wait_ms=30_000))
    driver.advance(10_000)
    (record,) = decode_batches(row(driver.answer(waiting)).records)[-1].records
    assert decode_record(record.key, record.value).value.members == []
    beat = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
    assert driver.ask(beat).error_code == ErrorCode.UNKNOWN_MEMBER_ID


# -- leaders


@pytest.fixture(params=["memory", "disk"])
def three(request, disk):
    """Three brokers."""
    if request.param == "disk":
        return disk.start(partitions=1, brokers=3)
    return Driver(offsets_topic_num_partitions=1, brokers=3)


def test_the_leader_serves_it_and_batches_have_its_epoch(three):
    driver = three
    driver.ask(commit("g", name="t", offset=1), version=9)
    driver.move(0, 3)
    driver.load()
    driver.ask(commit("g", name="t", offset=2), version=9, to=3)
    assert [(offset, epoch) for offset, _, epoch, _, _ in commits(fetched(driver, to=3).records)] == [(0, 0), (1, 1)]
    assert [listed(driver, at, to=3)[1:] for at in (EARLIEST, LATEST, NEWEST, 0)] == [(0, 0), (2, 1), (0, 0), (0, 0)]
    metadata = driver.ask(MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)])).topics[0].partitions[0]
    assert (metadata.leader_id, metadata.leader_epoch) == (3, 1)


@pytest.mark.parametrize(
    ("to", "epoch", "error"),
    [
        (1, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (1, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (1, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (3, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (3, 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_others_refuse_it_and_so_does_the_leader_of_another_epoch(three, to, epoch, error):
    three.move(0, 3)
    assert fetched(three, to=to, epoch=epoch).error_code == error
    assert listed(three, LATEST, to=to, epoch=epoch) == error


def test_a_fetch_that_waits_learns_of_another_leader(three):
    waiting = three.send(fetch(wait_ms=500))
    three.move(0, 2)
    three.flush()
    assert row(three.answer(waiting)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_epochs_go_on_after_a_restart(disk):
    driver = disk.start(partitions=1, brokers=2)
    driver.move(0, 2)
    driver.load()
    driver.ask(commit("g", name="t", offset=1), version=9, to=2)
    driver = disk.start(partitions=1, brokers=2)
    assert driver.cluster.placement[0].epoch == 1
    driver.move(0, 2)
    driver.load()
    driver.ask(commit("g", name="t", offset=2), version=9, to=2)
    assert [one[2] for one in commits(fetched(driver, to=2).records)] == [1, 2]


def test_a_log_that_fails_has_no_leader(disk, monkeypatch):
    driver = disk.start(partitions=1)
    driver.ask(commit("g", name="t"), version=9)
    (segment,) = (disk.folder / f"{OFFSETS_TOPIC}-0").glob("*.log")
    segment.write_bytes(b"\xff" * 100)
    assert fetched(driver).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert listed(driver, 0) == ErrorCode.KAFKA_STORAGE_ERROR


# -- the topic


def test_it_is_read_only():
    driver = Driver()
    data = TopicProduceData(
        topic_id=topic_id(OFFSETS_TOPIC), partition_data=[PartitionProduceData(index=0, records=b"")]
    )
    answer = driver.ask(ProduceRequest(acks=-1, topic_data=[data]))
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_group_may_consume_it():
    driver = Driver(offsets_topic_num_partitions=1)
    assert driver.ask(commit("g", name=OFFSETS_TOPIC), version=9).topics[0].partitions[0].error_code == 0
    by_id = driver.ask(commit("g", topic_id=topic_id(OFFSETS_TOPIC)), version=10)
    assert by_id.topics[0].partitions[0].error_code == 0
    assert [one[3] for one in commits(fetched(driver).records)] == ["g", "g"]


@pytest.mark.parametrize("kind", real_logs.KINDS)
def test_the_log_of_a_real_broker_is_served_as_it_is(disk, kind):
    """Its batches with their offsets, times, epochs and checksums, from the first offset on."""
    partition = max(real_logs.partitions(kind))
    real_logs.unpack(kind, partition, disk.folder / f"{OFFSETS_TOPIC}-0")
    driver = disk.start(partitions=1)
    real = b"".join(real_logs.segment_bytes(kind, partition))
    epochs = {batch.leader_epoch for batch in decode_batches(real)}
    served, offset = b"", listed(driver, EARLIEST)[1]
    while len(served) < len(real):
        piece = fetched(driver, offset, epoch=max(epochs)).records
        served += piece
        offset = decode_batches(piece)[-1].last_offset + 1
    assert served.startswith(real)  # the coordinator may have written since
