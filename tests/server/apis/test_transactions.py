"""Transactions without sockets: who may write, when what is written counts, and what a crash leaves."""

import errno
import itertools

import pytest

from kgm.java.partitions import partition_for
from kgm.model.errors import ErrorCode, KgmError
from kgm.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kgm.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kgm.protocol.messages.end_txn_request import EndTxnRequest
from kgm.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kgm.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kgm.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kgm.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kgm.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kgm.records.batch import ProducerInfo as Info
from kgm.records.batch import checksum, decode_batches, new_batch
from kgm.server.cluster.nodes import TRANSACTION_PARTITIONS
from kgm.server.contract.exchange import CloseConnection
from kgm.server.contract.limits import Limits
from tests.server.broker_driver import Driver
from tests.server.disk import Disk, fail_sync
from tests.server.group_requests import commit

TX = "tx"


class Writer:
    """A transactional producer by hand."""

    def __init__(self, driver, name=TX, to=1):
        self.driver, self.name, self.to = driver, name, to
        self.id = self.epoch = -1
        self.sequence = 0

    def ask(self, request, version=None):
        return self.driver.ask(request, version=version, to=self.to)

    def init(self, timeout_ms=60_000, *, version=5, again=False):
        said = {"producer_id": self.id, "producer_epoch": self.epoch} if again else {}
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms, **said)
        answer = self.ask(request, version=version)
        if not answer.error_code:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code

    def add(self, *partitions, version=3):
        topics = [AddPartitionsToTxnTopic(name="t", partitions=list(partitions))]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        rows = self.ask(request, version=version).results_by_topic_v3_and_below[0].results_by_partition
        return [row.partition_error_code for row in rows]

    def produce(self, partition=0, *, version=9, epoch=None):
        who = Info(self.id, self.epoch if epoch is None else epoch)
        records = bytearray(new_batch([(b"k", b"v")], base_offset=0, timestamp_ms=1_000, producer=who))
        records[53:57] = self.sequence.to_bytes(4, "big")
        records[17:21] = checksum(bytes(records[21:])).to_bytes(4, "big")
        self.sequence += 1
        rows = [PartitionProduceData(index=partition, records=bytes(records))]
        topics = [TopicProduceData(name="t", partition_data=rows)]
        if version >= 13:
            topics[0].topic_id, topics[0].name = self.driver.cluster.topics.by_name("t").topic_id, ""
        request = ProduceRequest(acks=-1, transactional_id=self.name, topic_data=topics)
        return self.ask(request, version=version).responses[0].partition_responses[0].error_code

    def add_offsets(self, group="g", version=3):
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, group_id=group
        )
        return self.ask(request, version=version).error_code

    def commit_offset(self, offset, group="g", *, version=3, to=None, epoch=None, topic="t", partition=0):
        row = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch if epoch is None else epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[row])],
        )
        answer = self.driver.ask(request, version=version, to=to or self.to)
        return answer.topics[0].partitions[0].error_code

    def end(self, *, commit=True, version=3):
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, committed=commit
        )
        return self.ask(request, version=version).error_code


def writer(driver, **options):
    found = Writer(driver, **options)
    assert found.init() == 0
    return found


def offset_of(driver, group="g"):
    committed = driver.cluster.view.offsets(group).get(("t", 0))
    return None if committed is None else committed.offset


def stable_fetch(driver, group="g"):
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True)
    row = driver.ask(request, version=9).groups[0].topics[0].partitions[0]
    return row.error_code or row.committed_offset


def fetched(driver, *, committed_only, partition=0):
    row = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=10**6)
    request = FetchRequest(
        max_bytes=10**6, isolation_level=int(committed_only), topics=[FetchTopic(topic="t", partitions=[row])]
    )
    return driver.ask(request, version=12).responses[0].partitions[0]


def end_offset(driver, *, committed_only):
    row = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        isolation_level=int(committed_only), topics=[ListOffsetsTopic(name="t", partitions=[row])]
    )
    return driver.ask(request).topics[0].partitions[0].offset


# -- offsets


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_count_when_the_transaction_commits(commits):
    driver = Driver()
    driver.ask(commit("g", name="t", offset=1), version=9)
    tx = writer(driver)
    assert tx.add_offsets() == 0
    assert tx.commit_offset(7) == 0
    assert offset_of(driver) == 1
    assert stable_fetch(driver) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert tx.end(commit=commits) == 0
    assert offset_of(driver) == stable_fetch(driver) == (7 if commits else 1)
    assert tx.end(commit=commits) == 0  # the answer may have been lost
    assert tx.end(commit=not commits) == ErrorCode.INVALID_TXN_STATE


def test_a_group_that_was_not_added_takes_no_offsets():
    driver = Driver()
    tx = writer(driver)
    assert tx.commit_offset(7) == ErrorCode.INVALID_TXN_STATE
    assert tx.commit_offset(7, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    assert tx.add_offsets("other") == 0
    assert tx.commit_offset(7) == ErrorCode.INVALID_TXN_STATE
    assert tx.commit_offset(7, version=5) == 0  # it adds the group by itself
    assert tx.commit_offset(7, group="") == ErrorCode.INVALID_GROUP_ID
    assert tx.commit_offset(7, epoch=9) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert Writer(driver, "nobody").commit_offset(3) == 0  # producer id -1: no transaction
    assert offset_of(driver) == 3
    stranger = Writer(driver, "stranger")
    stranger.id, stranger.epoch = tx.id, tx.epoch
    assert stranger.commit_offset(7) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_pending_offsets_move_with_their_partition_and_the_marker_finds_them():
    driver = Driver(brokers=2)
    partition = partition_for("g", 50)
    name = next(f"tx{n}" for n in itertools.count() if partition_for(f"tx{n}", TRANSACTION_PARTITIONS) % 2 == 0)
    driver.move(partition, 1)
    tx = writer(driver, name=name)
    tx.add_offsets()
    assert tx.commit_offset(7) == 0
    driver.move(partition, 2)
    assert tx.commit_offset(8) == ErrorCode.NOT_COORDINATOR
    assert tx.commit_offset(8, to=2) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert tx.end() == 0  # it is decided, the marker follows
    assert tx.add_offsets() == ErrorCode.CONCURRENT_TRANSACTIONS
    driver.load()
    assert offset_of(driver) is None
    driver.advance(100)
    assert offset_of(driver) == 7
    assert tx.add_offsets() == 0
    driver.move(partition, 1)
    driver.load()
    assert offset_of(driver) == 7
    assert tx.commit_offset(9) == 0


# -- records


@pytest.mark.parametrize("commits", [True, False])
def test_records_are_stable_when_the_transaction_ends(commits):
    driver = Driver()
    tx = writer(driver)
    assert tx.add(0, 1) == [0, 0]
    assert tx.produce() == tx.produce() == 0
    row = fetched(driver, committed_only=True)
    assert (row.records, row.high_watermark, row.last_stable_offset) == (b"", 2, 0)
    assert row.aborted_transactions == []
    assert len(decode_batches(fetched(driver, committed_only=False).records)) == 2
    assert (end_offset(driver, committed_only=True), end_offset(driver, committed_only=False)) == (0, 2)
    assert tx.end(commit=commits) == 0
    row = fetched(driver, committed_only=True)
    batches = decode_batches(row.records)
    assert [batch.is_control for batch in batches] == [False, False, True]
    assert batches[-1].marker.commit is commits
    assert (row.high_watermark, row.last_stable_offset) == (3, 3)
    aborted = [(one.producer_id, one.first_offset) for one in row.aborted_transactions]
    assert aborted == ([] if commits else [(tx.id, 0)])
    assert end_offset(driver, committed_only=True) == 3


def test_a_reader_that_waits_for_stable_records_is_woken_by_the_marker():
    driver = Driver()
    tx = writer(driver)
    tx.add(0)
    tx.produce()
    row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10**6)
    request = FetchRequest(
        max_bytes=10**6,
        isolation_level=1,
        max_wait_ms=30_000,
        min_bytes=1,
        topics=[FetchTopic(topic="t", partitions=[row])],
    )
    waiting = driver.send(request, version=12)
    assert waiting not in driver.events
    tx.end()
    assert len(decode_batches(driver.answer(waiting).responses[0].partitions[0].records)) == 2


def test_which_producers_may_write():
    driver = Driver()
    tx = writer(driver)
    assert tx.produce() == ErrorCode.INVALID_TXN_STATE
    assert tx.produce(version=11) == ErrorCode.TRANSACTION_ABORTABLE
    assert tx.add(0) == [0]
    assert tx.produce(1) == ErrorCode.INVALID_TXN_STATE
    assert tx.produce(1, version=13) == 0  # adds it by itself
    assert tx.produce(epoch=tx.epoch + 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert tx.add(2, 3) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    who = new_batch([(b"k", b"v")], base_offset=0, timestamp_ms=1, producer=Info(tx.id, tx.epoch))
    rows = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=who)])]
    plain = driver.ask(ProduceRequest(acks=-1, topic_data=rows), version=9)
    assert plain.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_RECORD


def test_a_batch_that_comes_again_is_there_once():
    driver = Driver()
    who = Info(7, 0)

    def send(sequence, epoch=0):
        data = bytearray(new_batch([(b"k", b"v")], base_offset=0, timestamp_ms=1, producer=who))
        data[21:23] = b"\0\0"  # idempotent only
        data[51:57] = epoch.to_bytes(2, "big") + sequence.to_bytes(4, "big")
        data[17:21] = checksum(bytes(data[21:])).to_bytes(4, "big")
        rows = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=bytes(data))])]
        row = driver.ask(ProduceRequest(acks=-1, topic_data=rows), version=9).responses[0].partition_responses[0]
        return row.error_code or row.base_offset

    assert [send(0), send(1), send(0), send(1), send(2), send(1)] == [0, 1, 0, 1, 2, 1]
    assert send(1, epoch=1) == 3
    assert [send(n) for n in range(3, 9)] == list(range(4, 10))
    assert send(0) == 10  # so long ago is not remembered


# -- producers


def test_a_second_producer_fences_the_first_and_aborts_what_it_left():
    driver = Driver()
    first = writer(driver)
    first.add(0)
    first.produce()
    first.add_offsets()
    first.commit_offset(7)
    second = Writer(driver)
    assert second.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert second.init() == 0
    assert (second.id, second.epoch > first.epoch) == (first.id, True)
    assert offset_of(driver) is None
    assert len(fetched(driver, committed_only=True).aborted_transactions) == 1
    assert first.add(0) == [ErrorCode.PRODUCER_FENCED]
    assert first.add(0, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert first.add_offsets() == first.end() == ErrorCode.PRODUCER_FENCED
    assert first.init(again=True) == ErrorCode.PRODUCER_FENCED
    assert first.init(again=True, version=3) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert second.init(again=True) == 0


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced():
    driver = Driver()
    tx = Writer(driver)
    assert tx.init(5_000) == 0
    tx.add_offsets()
    tx.commit_offset(7)
    driver.advance(4_999)
    assert stable_fetch(driver) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    driver.advance(1)
    assert stable_fetch(driver) == -1
    assert tx.end() == ErrorCode.PRODUCER_FENCED
    assert tx.init() == 0
    assert tx.add_offsets() == 0


def test_what_is_no_producer():
    driver = Driver(limits=Limits(max_transactional_ids=1))
    assert Writer(driver, "").init() == ErrorCode.INVALID_REQUEST
    assert Writer(driver).init(0) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert Writer(driver).init(900_001) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert Writer(driver).init(900_000) == 0
    assert Writer(driver, "one too many").init() == ErrorCode.INVALID_REQUEST
    unknown = Writer(driver, "unknown")
    assert unknown.end() == unknown.add_offsets() == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_epochs_end_and_a_new_id_begins():
    driver = Driver()
    tx = writer(driver)
    row = driver.cluster.transactions.find(TX)
    row.epoch = 32_766
    before = tx.id
    assert tx.init() == 0
    assert (tx.id != before, tx.epoch) == (True, 0)


def test_the_last_epoch_of_a_producer_can_still_be_fenced():
    driver = Driver()
    tx = writer(driver)
    driver.cluster.transactions.find(TX).epoch = tx.epoch = 32_766
    tx.add_offsets()
    assert tx.end(version=5) == 0
    assert driver.cluster.transactions.find(TX).epoch == 32_767
    assert tx.init() == 0
    assert tx.epoch == 0


def test_each_transactional_id_has_its_broker():
    driver = Driver(brokers=2)
    partition = partition_for(TX, TRANSACTION_PARTITIONS)
    there, elsewhere = partition % 2 + 1, 2 - partition % 2
    row = driver.ask(FindCoordinatorRequest(key=TX, key_type=1), version=3)
    assert (row.error_code, row.node_id) == (0, there)
    wrong = Writer(driver, to=elsewhere)
    assert wrong.init() == wrong.add_offsets() == wrong.end() == ErrorCode.NOT_COORDINATOR
    assert wrong.add(0) == [ErrorCode.NOT_COORDINATOR]
    tx = writer(driver, to=there)
    assert tx.add(0) == [0]
    driver.stop(there)
    tx.to = elsewhere
    assert tx.end() == 0


def test_brokers_ask_in_batches_and_may_only_look():
    driver = Driver()
    tx = writer(driver)
    tx.add(0)
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
    more = [AddPartitionsToTxnTopic(name="t", partitions=[1])]
    who = {"transactional_id": TX, "producer_id": tx.id, "producer_epoch": tx.epoch}
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(topics=topics, verify_only=True, **who),
            AddPartitionsToTxnTransaction(topics=more, verify_only=True, **who),
            AddPartitionsToTxnTransaction(topics=more, **who),
        ]
    )
    rows = driver.ask(request, version=5).results_by_transaction
    codes = [row.topic_results[0].results_by_partition[0].partition_error_code for row in rows]
    assert codes == [0, ErrorCode.INVALID_TXN_STATE, 0]


# -- on disk


@pytest.fixture
def disk(tmp_path):
    found = Disk(tmp_path / "data")
    yield found
    found.kill()


def prepared(disk):
    """A transaction with records and offsets."""
    tx = writer(disk.start())
    assert tx.add(0) == [0]
    assert tx.produce() == 0
    assert tx.add_offsets() == 0
    assert tx.commit_offset(7) == 0
    return tx


def again(disk, tx):
    tx.driver = disk.start()
    return tx.driver


def test_an_open_transaction_goes_on_after_a_crash(disk):
    tx = prepared(disk)
    driver = again(disk, tx)
    assert stable_fetch(driver) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert fetched(driver, committed_only=True).records == b""
    assert tx.produce() == 0
    assert tx.end() == 0
    driver.flush()
    assert stable_fetch(driver) == 7
    driver = again(disk, tx)
    assert stable_fetch(driver) == 7
    assert fetched(driver, committed_only=True).last_stable_offset == 3
    driver.flush()
    assert tx.add(0) == [0]
    assert disk.warnings == []


def test_an_open_transaction_whose_producer_is_gone_is_aborted_in_time(disk):
    tx = prepared(disk)
    driver = again(disk, tx)
    driver.advance(60_000)
    driver.flush()
    assert stable_fetch(driver) == -1
    assert len(fetched(driver, committed_only=True).aborted_transactions) == 1
    assert tx.end() == ErrorCode.PRODUCER_FENCED


def test_a_transaction_whose_commit_was_answered_is_committed_after_a_crash(disk):
    tx = prepared(disk)
    request = EndTxnRequest(transactional_id=TX, producer_id=tx.id, producer_epoch=tx.epoch, committed=True)
    ticket = tx.driver.send(request, version=3)
    assert ticket not in tx.driver.events
    tx.driver.cluster.shards.end_transaction = lambda *_a, **_k: False  # the process ends before it writes the marker
    tx.driver.flush()
    assert tx.driver.answer(ticket).error_code == 0
    driver = again(disk, tx)
    assert driver.cluster.next_deadline() <= driver.now
    driver.advance(0)
    assert stable_fetch(driver) == 7
    assert (
        fetched(driver, committed_only=True).last_stable_offset == fetched(driver, committed_only=True).high_watermark
    )


def test_an_end_that_is_not_on_the_disk_is_not_answered(disk, monkeypatch):
    tx = prepared(disk)
    request = EndTxnRequest(transactional_id=TX, producer_id=tx.id, producer_epoch=tx.epoch, committed=True)
    with monkeypatch.context() as patch:
        fail_sync(patch)
        ticket = tx.driver.send(request, version=3)
        tx.driver.flush()
    assert isinstance(tx.driver.events[ticket], CloseConnection)
    assert stable_fetch(tx.driver) == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_a_full_disk_begins_no_transaction(disk, monkeypatch):
    tx = writer(disk.start())
    with monkeypatch.context() as patch:

        def full(*_arguments):
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr("kgm.records.log.os.pwrite", full)
        assert tx.add_offsets() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert Writer(tx.driver, "other").init() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert tx.add_offsets() == 0
    assert Writer(tx.driver, "other").init() == 0
    assert [str(disk.folder / "kgm-transactions") in line for line in disk.warnings] == [True, True]
    assert ["No space left on device" in line for line in disk.warnings] == [True, False]


def test_a_damaged_log_of_transactions_is_an_error(disk):
    tx = prepared(disk)
    log = tx.driver.cluster.storage.transactions._log
    log.append_raw([(b"tx", b"[]")], now_ms=0)
    with pytest.raises(KgmError, match="kgm-transactions is damaged"):
        disk.start()
    disk.driver = None


def test_producer_ids_are_new_after_a_restart(disk):
    tx = prepared(disk)
    driver = again(disk, tx)
    other = writer(driver, name="other")
    assert other.id > tx.id


# -- idempotent producers


def test_producer_ids_are_never_given_twice():
    driver = Driver()
    ids = [driver.ask(InitProducerIdRequest(transactional_id=None)).producer_id for _ in range(3)]
    assert len(set(ids)) == 3
    assert driver.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1)).producer_id not in ids


def test_what_open_transactions_hold_is_bounded():
    """Partitions of all of them together, and the offsets that are pending."""
    driver = Driver({"t": 10}, limits=Limits(max_transaction_partitions=12, committed_offsets_max_bytes=1_000))
    first, second = writer(driver, name="a"), writer(driver, name="b")
    assert first.add(*range(10)) == [0] * 10
    assert second.add(0, 1) == [0, 0]
    assert second.add(1) == [0]
    assert second.add(2) == [ErrorCode.INVALID_REQUEST]
    assert first.end() == 0
    assert second.add(2) == [0]
    assert [second.add_offsets(group) for group in ("g", "h", "i")] == [0, 0, 0]
    assert [second.commit_offset(1, group) for group in ("g", "h")] == [0, 0]
    assert second.commit_offset(1, "i") == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
