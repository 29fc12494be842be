"""Rows into Arrow tables and back: nothing is lost, and what does not fit is cut."""

import pyarrow as pa
import pytest

from kgm.history.derive import DERIVED, derive
from kgm.history.row_parts import TopicPartitions, Who
from kgm.history.row_tables import RowCollector, columns_of, read_rows, row_table
from kgm.history.rows import ROW_CLASSES, EventRow, GroupDayRow, MemberRow, TopicRow
from kgm.history.schema import TABLES
from tests.history.decode.test_real_logs import raw_log

TOPIC = TopicRow(partition=1, topic_id=b"0123456789abcdef", topic="orders", offset=5)


@pytest.mark.slow
def test_every_table_that_is_derived_is_the_same_after_a_way_through_rows():
    tables = derive(raw_log("plain", 1)).tables
    assert all(len(table) for name, table in tables.items() if name not in ("gold_alarm", "silver_topic")), tables
    for name in DERIVED:
        cls = ROW_CLASSES[name]
        assert row_table(cls, read_rows(cls, tables[name])).equals(tables[name].combine_chunks()), name


def test_lists_and_structs_inside_a_row():
    who = Who(seat="a-1", what="joined", member_id="m", client_id=None, client_host="/10.0.0.1")
    event = EventRow(
        partition=0, offset=1, timestamp=2, group_id="g", group_type="classic", generation=3, event="away",
        confidence="certain", who=(who,), evidence=("one", "two"), complete=True,
    )  # fmt: skip
    assert read_rows(EventRow, row_table(EventRow, [event])) == [event]
    member = MemberRow(
        partition=0, offset=1, timestamp=2, group_id="g", generation=3, member_id="m", client_id="c", client_host="h",
        rebalance_timeout_ms=1, session_timeout_ms=2, topics=None, owned=(),
        assigned=(TopicPartitions(topic="t", partitions=(1, 2)),),
    )  # fmt: skip
    assert read_rows(MemberRow, row_table(MemberRow, [member])) == [member]


def test_a_list_that_an_older_store_does_not_have_is_empty():
    columns = TABLES["gold_event"]
    table = pa.Table.from_pylist([{"partition": 0, "offset": 1, "event": "away"}], schema=columns)
    (row,) = read_rows(EventRow, table)
    assert (row.who, row.evidence, row.event) == ((), (), "away")


def test_sums_that_no_column_can_hold_are_cut():
    day = GroupDayRow(
        partition=0, group_id="g", group_type="classic", day=0, rebalances=1 << 40, lost_rounds=0, absorbed=0,
        stopped_partition_ms_min=-(1 << 70), stopped_partition_ms_max=1 << 70, moved=1, joined=0, left=0, replaced=0,
    )  # fmt: skip
    (found,) = read_rows(GroupDayRow, row_table(GroupDayRow, [day]))
    assert (found.rebalances, found.moved) == ((1 << 31) - 1, 1)
    assert (found.stopped_partition_ms_min, found.stopped_partition_ms_max) == (-(1 << 63), (1 << 63) - 1)


def test_a_row_replaces_the_one_with_its_key():
    rows = RowCollector()
    other = TopicRow(partition=1, topic_id=TOPIC.topic_id, topic="payments", offset=6)
    again = TopicRow(partition=1, topic_id=TOPIC.topic_id, topic="orders", offset=7)
    rows.put_all([TOPIC, other, again])
    assert read_rows(TopicRow, rows.table(TopicRow)) == [again, other]
    assert rows.table(EventRow).schema == TABLES["gold_event"]
    assert columns_of(TopicRow) == ("partition", "topic_id", "topic", "offset")
