"""Every group of a log from its raw records: the same as the fold over what the scalar codec reads, however it is cut."""

import random
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgm.history.reconstruct.replay_state import REPLAY_STATE
from kgm.history.reconstruct.timelines import joined, snapshot_table
from kgm.history.schema import RAW, SILVER_SNAPSHOT
from tests.history.decode.test_real_logs import raw_log
from tests.history.random_logs import random_log
from tests.history.reconstruct.log_replay import LogReplay, timelines
from tests.history.reconstruct.slow_timelines import slow_histories
from tests.history.reconstruct.test_classic_snapshots import histories
from tests.records.real_logs import partitions

ANY = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def told(found):
    return {(each.partition, each.group_id): each.history for each in found}


def replayed(raw, state=None):
    """(what a part of a log adds, each group once; the state after it)."""
    replay = LogReplay(state)
    return list(joined(replay.feed(raw))), replay.state()


def merged(parts):
    """Histories that follow each other, in one."""
    found = {}
    for part in parts:
        for key, history in told(part).items():
            snapshots, changes, rebalances = found.get(key, ((), (), {}))
            rebalances = rebalances | {each.offset: each for each in history.rebalances}
            found[key] = snapshots + history.snapshots, changes + history.changes, rebalances
    return found


def whole(histories):
    return {
        key: (each.snapshots, each.changes, {rebalance.offset: rebalance for rebalance in each.rebalances})
        for key, each in histories.items()
    }


@pytest.mark.parametrize("kind", ["plain", "compacted"])
@pytest.mark.slow
def test_columns_and_the_scalar_codec_tell_the_same_history(kind):
    raw = pa.concat_tables([raw_log(kind, partition) for partition in partitions(kind)])
    found = list(timelines(raw))
    scalar = {group: each for group, each in histories(kind).items() if each.snapshots}
    assert {each.group_id: each.history for each in found} == scalar
    snapshots = snapshot_table(found)
    assert snapshots.schema == SILVER_SNAPSHOT
    assert len(snapshots) == sum(len(each.snapshots) for each in scalar.values())
    assert set(snapshots.column("leader_epoch").to_pylist()) != {None}
    assert all(one.complete for each in found for one in each.history.rebalances) or kind == "compacted"


@given(seed=st.integers(0, 2**32), odd=st.booleans(), holes=st.sampled_from([0.0, 0.02, 0.3]))
@ANY
@pytest.mark.slow
def test_any_log_is_told_as_the_plain_fold_tells_it(seed, odd, holes):
    raw = random_log(random.Random(seed), records=150, odd=odd, holes=holes, partitions=2)
    assert told(timelines(raw)) == slow_histories(raw)


@pytest.mark.long
@given(seed=st.integers(0, 2**32), odd=st.booleans(), cuts=st.lists(st.floats(0, 1), min_size=1, max_size=4))
@ANY
@pytest.mark.slow
def test_a_log_that_is_cut_anywhere_is_told_as_the_whole(seed, odd, cuts):
    """Each part with the state after the one before, which goes through Arrow's bytes as through a file; and some records
    of the part before are fed again."""
    raw = random_log(random.Random(seed), records=200, odd=odd, holes=random.Random(seed).choice([0, 0.1]))
    borders = [0, *sorted(int(cut * len(raw)) for cut in cuts), len(raw)]
    state, parts = None, []
    for start, stop in pairwise(borders):
        again = max(0, start - 3)
        part, state = replayed(raw.slice(again, stop - again), state)
        state = through_bytes(state)
        parts.append(part)
    assert merged(parts) == whole(slow_histories(raw))


def through_bytes(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    with pa.ipc.open_stream(sink.getvalue()) as stream:
        return stream.read_all()


@pytest.mark.slow
def test_a_history_knows_what_it_goes_on_from():
    raw = raw_log("plain", 2)
    first, state = replayed(raw.slice(0, 1500))
    second, end = replayed(raw.slice(1500), state)
    ends = {each.group_id: each.history.end for each in first}
    assert any(each.before is not None for each in second)
    assert {each.group_id: each.before for each in second} == {
        each.group_id: ends.get(each.group_id) for each in second
    }
    assert state.schema == REPLAY_STATE
    assert replayed(raw, end)[0] == []


@pytest.mark.slow
def test_order_of_the_rows_and_doubles_change_nothing():
    raw = random_log(random.Random(7), records=300, partitions=2)
    rows = list(range(len(raw))) * 2
    random.Random(8).shuffle(rows)
    assert told(timelines(raw.take(pa.array(rows)))) == told(timelines(raw))


def test_nothing_gives_nothing():
    assert list(timelines(RAW.empty_table())) == []
    assert snapshot_table([]).schema == SILVER_SNAPSHOT
    synthetic = raw_log("synthetic", 0)
    assert [each.group_id for each in timelines(synthetic)] == sorted({each.group_id for each in timelines(synthetic)})
    no_groups = raw_log("plain", 0).slice(0, 0)
    assert list(timelines(no_groups)) == []
