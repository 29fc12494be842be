"""Every group of a real log from its raw records: the same as the fold over what the scalar codec reads."""

import pyarrow as pa
import pytest

from kgm.history.schema import GOLD_REBALANCE, RAW, SILVER_MEMBER_CHANGE, SILVER_SNAPSHOT
from kgm.history.timelines import change_table, rebalance_table, snapshot_table, timelines
from tests.history.test_membership import histories
from tests.history.test_real_logs import raw_log
from tests.records.real_logs import partitions


@pytest.mark.parametrize("kind", ["plain", "compacted"])
@pytest.mark.slow
def test_columns_and_the_scalar_codec_tell_the_same_history(kind):
    raw = pa.concat_tables([raw_log(kind, partition) for partition in partitions(kind)])
    found = list(timelines(raw))
    scalar = {group: each for group, each in histories(kind).items() if each.snapshots}
    assert {each.group_id: each.history for each in found} == scalar
    snapshots, changes, rebalances = snapshot_table(found), change_table(found), rebalance_table(found)
    assert (snapshots.schema, changes.schema, rebalances.schema) == (
        SILVER_SNAPSHOT,
        SILVER_MEMBER_CHANGE,
        GOLD_REBALANCE,
    )
    assert len(snapshots) == sum(len(each.snapshots) for each in scalar.values())
    assert len(changes) == sum(len(each.changes) for each in scalar.values())
    assert len(rebalances) == sum(len(each.rebalances) for each in scalar.values())
    assert set(snapshots.column("leader_epoch").to_pylist()) != {None}
    assert rebalances.column("complete").to_pylist().count(False) == 0 or kind == "compacted"


def test_nothing_gives_nothing():
    assert list(timelines(RAW.empty_table())) == []
    assert snapshot_table([]).schema == SILVER_SNAPSHOT
    synthetic = raw_log("synthetic", 0)
    assert [each.group_id for each in timelines(synthetic)] == sorted({each.group_id for each in timelines(synthetic)})
    no_groups = raw_log("plain", 0).slice(0, 0)
    assert list(timelines(no_groups)) == []
