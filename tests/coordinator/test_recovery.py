"""S11: the log makes the same coordinator, for every prefix at the end of a batch, and for every compaction of it."""

import random

import pytest

from kgm.coordinator.engine import Coordinator
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kgm.records.batch import ProducerInfo, parse_batch
from kgm.records.compaction import _Cleaning
from kgm.records.log import OffsetsLog
from kgm.records.record import decode_record
from kgm.records.transactions import LogTransactions
from tests.coordinator.classic.test_stateful import hard
from tests.coordinator.harness import Harness, subscription
from tests.coordinator.loaded import replay_into

GROUPS = ("g", "h")
INSTANCES = ("a", "b", "c")
PRODUCERS = (11, 12)


class OnDisk(Harness):
    """A coordinator whose records go to a log on disk, an outcome a batch."""

    def __init__(self, log, **overrides):
        super().__init__(**overrides)
        self.disk = log

    def append(self, records, producer=None):
        self.disk.append(records, now_ms=self.now, producer=None if producer is None else ProducerInfo(*producer))
        self.log.extend(records)

    def end_transaction(self, producer_id, *, commit):
        self.disk.append_marker(ProducerInfo(producer_id, 0), commit=commit, now_ms=self.now)
        self.engine.replay_end_transaction(producer_id, 0, commit=commit)

    def commit_in_transaction(self, producer_id, group, partition, offset):
        row = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topics = [TxnOffsetCommitRequestTopic(name="orders", partitions=[row])]
        message = TxnOffsetCommitRequest(group_id=group, producer_id=producer_id, producer_epoch=0, topics=topics)
        self.send(message, 2)


def live(on_disk, rng):
    """One random thing that happens to one of the groups."""
    group = rng.choice(GROUPS)
    known = on_disk.engine._state.groups.get(group)
    members = list(known.members.values()) if known else []
    somebody = rng.choice(members) if members else None
    match rng.randrange(9):
        case 0 if not members:
            on_disk.stable(*rng.sample(INSTANCES, rng.randint(1, 3)), dynamic=rng.randrange(2), group=group)
        case 1 | 2 if somebody is not None and somebody.group_instance_id is not None:
            on_disk.join("", somebody.group_instance_id, group=group, protocols={"range": subscription()})
        case 3 if somebody is not None:
            on_disk.leave((somebody.member_id, None), group=group)
            on_disk.sleep(70_000)
        case 4:
            member = (somebody.member_id, known.generation) if somebody else ()
            on_disk.commit(*member, group=group, partition=rng.randrange(3), offset=rng.randrange(1_000))
        case 5:
            on_disk.commit_in_transaction(rng.choice(PRODUCERS), group, rng.randrange(3), rng.randrange(1_000))
        case 6:
            on_disk.end_transaction(rng.choice(PRODUCERS), commit=rng.random() < 0.7)
        case 7:
            on_disk.delete_offset(partition=rng.randrange(3), group=group)
        case 8 if rng.random() < 0.4:
            on_disk.sleep(100_000_000)  # everybody is gone
            on_disk.delete(group)


def settled(state, engine):
    """Of the hard state what is also soft state's: groups without a round in flight, and offsets."""
    return {
        group_id: found
        for group_id, found in state.items()
        if engine._state.groups[group_id].state in (ClassicState.STABLE, ClassicState.EMPTY)
    }


def pending(engine):
    return {
        producer_id: {(group_id, at): found.offset for group_id, rest in by_group.items() for at, found in rest.items()}
        for producer_id, by_group in engine.offsets.pending.items()
    }


def loaded(batches):
    engine = Coordinator(new_member_id=lambda _: "nobody")
    assert replay_into(engine, batches) == []
    return engine


def producer_of(batch):
    return (batch.producer_id, batch.producer_epoch) if batch.transactional else None


def record_by_record(batches):
    """The coordinator that every single record makes: the obvious way to load."""
    engine = Coordinator(new_member_id=lambda _: "nobody")
    for batch in batches:
        if batch.is_control:
            engine.replay_end_transaction(batch.producer_id, batch.producer_epoch, commit=batch.marker.commit)
        else:
            for row in batch.records:
                engine.replay(decode_record(row.key, row.value), producer_of(batch))
    return engine


def meaning(engine):
    """The hard state. A group that is nothing but a name is left out: offsets that have gone since make one, and a
    compaction deletes them without a trace (in Kafka, too)."""
    return {
        group_id: found for group_id, found in hard(engine).items() if found[-1] or found[1:4] != (0, None, None)
    }, pending(engine)


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """([batch], [(number of batches, the live coordinator's hard state then)])"""
    rng = random.Random(20)
    seen = []
    with OffsetsLog.open(tmp_path_factory.mktemp("history") / "log", segment_bytes=20_000) as log:
        on_disk = OnDisk(log, group_initial_rebalance_delay_ms=1_000)
        count = last = 0
        for _ in range(400):
            live(on_disk, rng)
            if log.next_offset != last:
                last = log.next_offset
                count = sum(1 for _ in log.read())
            engine = on_disk.engine
            seen.append((count, settled(hard(engine), engine), pending(engine)))
        batches = list(log.read())
    kinds = {(batch.is_control, batch.transactional) for batch in batches}
    assert kinds == {(False, False), (False, True), (True, True)}
    assert len(batches) > 150
    return batches, seen


@pytest.mark.slow
def test_every_prefix_is_the_coordinator_of_that_moment(history):
    batches, seen = history
    engine = Coordinator(new_member_id=lambda _: "nobody")
    done = 0
    compared = 0
    for count, live_state, live_pending in seen:
        replay_into(engine, batches[done:count])
        done = count
        mine = hard(engine)
        for group_id, found in live_state.items():
            assert mine[group_id] == found
            compared += 1
        assert pending(engine) == live_pending
    assert compared > 300


@pytest.mark.slow
def test_putting_records_off_makes_no_difference(history):
    """Of every fifth prefix, and of many compactions: the same groups, down to those that are but a name."""
    batches, _ = history
    for end in range(0, stable_end(batches) + 1, 5):
        for some in (batches[:end], compacted(batches, end // 2, end)):
            whole, mine = record_by_record(some), loaded(some)
            assert hard(mine) == hard(whole)
            assert pending(mine) == pending(whole)


def compacted(batches, first, last, *, now_ms=0):
    """The batches with a window compacted: what Kafka's cleaner would make of it, tombstones kept."""
    transactions = LogTransactions()
    for batch in batches:
        transactions.see(batch)
    window = batches[first:last]
    latest = {
        row.key: row.offset
        for batch in window
        if not batch.is_control and not transactions.is_aborted(batch)
        for row in batch.records
    }
    cleaning = _Cleaning(now_ms, 1, transactions, latest, last_offset=-1)
    kept = [data for batch in window if (data := cleaning.cleaned(batch)) is not None]
    return [*batches[:first], *map(parse_batch, kept), *batches[last:]]


def stable_end(batches):
    """Where the first transaction begins that never ends: no cleaner goes further."""
    transactions = LogTransactions()
    for batch in batches:
        transactions.see(batch)
    first = transactions.stable_offset(batches[-1].last_offset + 1)
    return sum(batch.last_offset < first for batch in batches)


@pytest.mark.slow
def test_every_compacted_prefix_and_100_windows_load_to_the_same_state(history):
    """As Kafka tests it since PR 23220: all records captured, a part of them compacted at batch boundaries, replayed
    into a fresh coordinator."""
    batches, _ = history
    end = stable_end(batches)
    assert end > 100
    whole = meaning(loaded(batches))
    rng = random.Random(5)
    windows = [(0, last) for last in range(1, end + 1)]
    windows += [tuple(sorted(rng.sample(range(end + 1), 2))) for _ in range(100)]
    shorter = 0
    for first, last in windows:
        some = compacted(batches, first, last)
        assert meaning(loaded(some)) == whole, f"batches {first} to {last}"
        shorter += sum(b.record_count for b in some) < sum(b.record_count for b in batches)
    assert shorter > len(windows) / 2


@pytest.mark.slow
def test_every_compacted_prefix_of_every_prefix_in_the_end(history, tmp_path):
    """On disk, by the log itself: after each hundred batches, two compactions, the second past all tombstones."""
    batches, _ = history
    with OffsetsLog.open(tmp_path / "log", segment_bytes=5_000) as log:
        for at, batch in enumerate(batches):
            rows = batch.records
            if batch.is_control:
                log.append_marker(batch.producer, commit=batch.marker.commit, now_ms=rows[0].timestamp)
            else:
                pairs = [(row.key, row.value) for row in rows]
                log.append_raw(pairs, now_ms=rows[0].timestamp, producer=batch.producer)
            if at % 100 == 99 or at == len(batches) - 1:
                log.roll()
                for now_ms in (at * 1_000, at * 1_000 + 500):
                    log.compact(now_ms=now_ms, delete_retention_ms=500)
                    assert meaning(loaded(log.read())) == meaning(loaded(batches[: at + 1]))
