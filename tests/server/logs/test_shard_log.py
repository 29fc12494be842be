"""What a log in memory keeps: the same as a log on disk that holds everything."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgm.coordinator.contract.outcome import Producer
from kgm.coordinator.engine import Coordinator
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record
from kgm.server.logs.shard_log import COMPACTION_BYTES, MemoryShardLog
from tests.selection import sized

GROUPS = st.sampled_from("ab")
PRODUCERS = st.sampled_from([Producer(1, 0), Producer(2, 0)])


def offset(group, partition, value):
    key = OffsetCommitKey(group=group, topic="t", partition=partition)
    return Record(key, None if value is None else OffsetCommitValue(offset=value))


def metadata(group, generation):
    key = GroupMetadataKey(group=group)
    value = GroupMetadataValue(protocol_type="consumer", generation=generation, members=[])
    return Record(key, None if generation is None else value)


OFFSETS = st.builds(offset, GROUPS, st.integers(0, 1), st.none() | st.integers(0, 9))
SET_OFFSETS = st.builds(offset, GROUPS, st.integers(0, 1), st.integers(0, 9))
METADATA = st.builds(metadata, GROUPS, st.none() | st.integers(0, 9))
STEPS = st.one_of(
    st.tuples(st.just("write"), st.lists(OFFSETS | METADATA, min_size=1, max_size=3), st.none()),
    st.tuples(st.just("write"), st.lists(SET_OFFSETS, min_size=1, max_size=3), PRODUCERS),
    st.tuples(st.just("end"), st.booleans(), PRODUCERS),
)


def engine():
    return Coordinator(new_member_id=lambda prefix: prefix)


def state(coordinator):
    offsets = {group: {at: row.offset for at, row in coordinator.offsets.of(group).items()} for group in "ab"}
    unstable = {group: dict(coordinator.offsets.unstable_of(group)) for group in "ab"}
    # A group at generation 0 is there by its offsets, or by a record that says nothing else.
    generations = {group.group_id: group.generation for group in coordinator.groups() if group.generation}
    return offsets, unstable, generations


@pytest.mark.slow
@example(
    compaction_bytes=COMPACTION_BYTES,
    steps=[
        ("write", [offset("b", 1, 0)], Producer(2, 0)),
        ("write", [offset("b", 1, 1)], Producer(1, 0)),
        ("end", True, Producer(2, 0)),
        ("end", True, Producer(1, 0)),
    ],
)
@settings(max_examples=sized(16, 300))
@given(compaction_bytes=st.sampled_from([1, 500, COMPACTION_BYTES]), steps=st.lists(STEPS, max_size=40))
def test_a_replay_gives_the_state_that_the_whole_history_gives(compaction_bytes, steps):
    log, live = MemoryShardLog(compaction_bytes), engine()
    for kind, what, producer in steps:
        if kind == "end":
            log.append_marker(producer, commit=what, now=0)
            live.replay_end_transaction(*producer, commit=what)
            continue
        log.append(what, now=0, producer=producer)
        for record in what:
            live.replay(record, producer)
    again = engine()
    for _ in log.replay(again):
        pass
    assert state(again) == state(live)


def test_it_is_no_longer_than_its_keys_and_what_was_written_lately():
    log = MemoryShardLog(1_000)
    for n in range(500):
        log.append([offset(f"gone-{n}", 0, n)], now=n, producer=None)
        log.append([offset(f"gone-{n}", 0, None)], now=n, producer=None)
        log.append([offset("a", n % 3, n)], now=n, producer=None)
        assert log.records.size < 3_000
    coordinator = engine()
    for _ in log.replay(coordinator):
        pass
    assert all(not coordinator.offsets.of(f"gone-{n}") for n in range(500))
    assert sorted(row.offset for row in coordinator.offsets.of("a").values()) == [497, 498, 499]
    assert (log.records.start_offset, log.records.end_offset) == (0, 1_500)
    assert log.records.batches[-1].last_offset == 1_499
    assert log.records.size == sum(len(batch.data) for batch in log.records.batches)


def test_what_an_open_transaction_commits_again_replaces_what_it_committed():
    log = MemoryShardLog()
    for n in range(1_000):
        log.append([offset("a", n % 3, n)], now=0, producer=Producer(7, 0))
    log.append_marker(Producer(7, 0), commit=True, now=0)
    coordinator = engine()
    for _ in log.replay(coordinator):
        pass
    assert sorted(row.offset for row in coordinator.offsets.of("a").values()) == [997, 998, 999]


def test_it_is_replayed_in_pieces():
    log = MemoryShardLog()
    for n in range(3):
        log.append([offset("a", n, n)], now=0, producer=None)
    assert len(list(log.replay(engine()))) == 4  # three batches, and the offsets of a group
