"""Histories that were captured in parts, further apart than `delete.retention.ms` of the offsets topic: what deleted a
member, an offset or a group may have been written and removed in between, so that no record shows it. The truth is what
the coordinator that wrote the records answers."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgm.cli.main import run
from kgm.history.derive import derive
from kgm.history.rows import GroupEpochRow, OwnerRow, TenureRow
from kgm.history.schema import RAW
from kgm.history.store.commit_log import Span, unconfirmed_until
from kgm.history.store.final_state import final_groups
from kgm.history.store.query import RowFilter
from kgm.history.store.tables import TablesInMemory, open_store
from kgm.operations.history.explanation import explain_group
from kgm.operations.history.source import HistorySource, open_history
from tests.history.store.stores import write_store
from tests.history.truth.consumer_lives import ConsumerLog
from tests.history.truth.lives import Log

GROUP = "g"


class Captures:
    """A log that is captured now and then, and cleaned in between. rows: what was captured."""

    def __init__(self, log):
        self.log, self.rows, self.read, self.ends = log, [], 0, []

    def capture(self, *, cleaned=0):
        """Read on. cleaned: the log is clean up to this offset, and its tombstones have been removed."""
        rows = self.log.raw().to_pylist()
        newest = {row["key"]: row["offset"] for row in rows[:cleaned]}
        self.rows += [
            row
            for row in rows[self.read :]
            if row["offset"] >= cleaned or (row["value"] is not None and newest[row["key"]] == row["offset"])
        ]
        self.read = len(rows)
        self.ends.append(self.read)

    @property
    def raw(self):
        return pa.Table.from_pylist(self.rows, schema=RAW)

    @property
    def end(self):
        """The offset of the next record."""
        return len(self.log.stamped)


@pytest.fixture(params=["records", "store"])
def opened(request, tmp_path):
    """The options of `kgm history` for what was captured, as files of records and as a built store."""

    def options(captures):
        if request.param == "store":
            tables, limit = derive(captures.raw).tables, captures.ends[-2]
            path = write_store(tmp_path / "store", tables, partitions=[0], unconfirmed_until={0: limit})
            return ["--store", str(path)]
        (tmp_path / "raw").mkdir()
        pq.write_table(captures.raw, tmp_path / "raw" / "part.parquet")
        return ["--source", f"parquet:{tmp_path / 'raw'}"]

    return options


def asked(capsys, *words):
    assert run(["history", *words, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def joins(log, name, **more):
    log.sleep(1_000)
    log.beat(name, **more)
    log.sleep(1_000)
    log.calm()


def leaves(log, name):
    log.sleep(1_000)
    log.beat(name, -1)
    log.sleep(1_000)
    log.calm()


def left_in_between(partitions):
    """b leaves between two captures, and c and d join before the second one."""
    log = ConsumerLog(topics={"a": partitions})
    captures = Captures(log)
    joins(log, "a")
    joins(log, "b")
    captures.capture()
    leaves(log, "b")
    cleaned = captures.end
    joins(log, "c")
    joins(log, "d")
    captures.capture(cleaned=cleaned)
    assert all(row["value"] is not None for row in captures.rows)
    return captures


def there(captures):
    """Who is in the group."""
    (group,) = captures.log.groups_described()
    assert group.group_state == "Stable"
    return {member.member_id for member in group.members}


def at_the_end(tables):
    return {row.member_id for row in tables.rows(TenureRow, RowFilter()) if row.to_offset is None}


@pytest.mark.few(1)
def test_a_member_whose_partitions_others_got_is_gone(opened, capsys):
    captures = left_in_between(6)
    where = opened(captures)
    tables = TablesInMemory(tables=derive(captures.raw).tables)
    assert at_the_end(tables) == there(captures) == {"a", "c", "d"}
    (tenure,) = (row for row in tables.rows(TenureRow, RowFilter()) if row.member_id == "b")
    assert (tenure.end_cause, tenure.end_confidence) == ("unknown", "unknown")
    assert {row.member_id for row in tables.rows(OwnerRow, RowFilter()) if row.to_offset is None} == {"a", "c", "d"}
    (group,) = final_groups(tables, RowFilter())
    assert {member.member_id for member in group.snapshot.members} == {"a", "c", "d"}
    assert group.snapshot.state == "Stable"

    told = asked(capsys, "explain", GROUP, *where)["data"]
    assert told["wait"] is None
    counts = [(row["complete"], row["members_before"], row["members_after"]) for row in told["rebalances"]]
    # b left with the third one, of which the gap has removed the beginning.
    assert counts == [(True, 0, 1), (True, 1, 2), (False, None, None), (True, 1, 2), (True, 2, 3)]
    told = asked(capsys, "timeline", GROUP, *where)["data"]
    assert told["unconfirmed"] == []
    assert {row["member_id"] for row in told["seats"] if row["to"] is None} == {"a", "c", "d"}


def test_a_member_is_gone_also_if_the_rest_of_the_log_is_clean_too():
    """As with a cleaner that leaves little: the records of those who got its partitions are followed by gaps."""
    captures = left_in_between(6)
    again = Captures(captures.log)
    again.rows, again.read = captures.rows[: captures.ends[0]], captures.ends[0]
    again.capture(cleaned=again.end)
    tables = TablesInMemory(tables=derive(again.raw).tables)
    assert at_the_end(tables) == there(captures) == {"a", "c", "d"}


@pytest.mark.few(1)
def test_a_member_of_which_nothing_shows_whether_it_is_there_is_not_awaited(opened, capsys):
    """It had no partition, so nobody got one of its partitions."""
    captures = left_in_between(1)
    where = opened(captures)
    assert there(captures) == {"a", "c", "d"}
    told = asked(capsys, "explain", GROUP, *where)["data"]
    assert told["wait"] is None
    assert [row["members_after"] for row in told["rebalances"]] == [1, 2, None, None, None]
    assert run(["history", "explain", GROUP, *where]) == 0
    assert "? -> ?" in capsys.readouterr().out
    assert asked(capsys, "timeline", GROUP, *where)["data"]["unconfirmed"] == ["b"]
    assert run(["history", "timeline", GROUP, *where]) == 0
    out = capsys.readouterr().out
    assert "3 at the end" in out
    assert "1 member id may be gone" in out


def test_a_group_that_really_waits_still_says_so(opened, capsys):
    """Of the members that are there now, one does not give up what it has to."""
    captures = left_in_between(6)
    log = captures.log
    log.sleep(1_000)
    log.beat("e")
    captures.capture()
    told = asked(capsys, "explain", GROUP, *opened(captures))["data"]
    assert {one["member_id"] for one in told["wait"]["awaited"]} <= {"a", "c", "d", "e"}
    assert told["rebalances"][-1]["members_after"] == len({"a", "c", "d", "e"})


def test_a_static_member_that_another_replaced_in_between_is_gone(opened, capsys):
    log = ConsumerLog(topics={"a": 1})
    captures = Captures(log)
    joins(log, "a")
    joins(log, "b", instance="i")
    captures.capture()
    log.beat("b", -2, instance="i")
    joins(log, "b2", instance="i")
    cleaned = captures.end
    joins(log, "c")
    captures.capture(cleaned=cleaned)
    assert there(captures) == {"a", "b2", "c"}
    assert at_the_end(TablesInMemory(tables=derive(captures.raw).tables)) == {"a", "b2", "c"}
    assert asked(capsys, "timeline", GROUP, *opened(captures))["data"]["unconfirmed"] == []


def test_the_members_of_a_group_that_was_deleted_and_created_again_are_gone():
    log = ConsumerLog(topics={"a": 1})
    captures = Captures(log)
    for name in ("a", "b", "z"):
        joins(log, name)
    captures.capture()
    for name in ("a", "b", "z"):
        leaves(log, name)
    log.delete(GROUP)
    cleaned = captures.end
    joins(log, "c")
    captures.capture(cleaned=cleaned)
    tables = TablesInMemory(tables=derive(captures.raw).tables)
    assert at_the_end(tables) == there(captures) == {"c"}
    assert max(tables.rows(GroupEpochRow, RowFilter()), key=lambda row: row.offset).members == 1


def deleted_in_between(kind):
    """A group commits, and is deleted before the rest of the log is captured."""
    log = kind(topics={"a": 1, "orders": 1}) if kind is ConsumerLog else kind()
    captures = Captures(log)
    if kind is ConsumerLog:
        joins(log, "a")
        log.commit("a", log.epochs()[2]["a"], group=GROUP, offset=5)
        captures.capture()
        leaves(log, "a")
    else:
        log.commit(group=GROUP, offset=5)
        captures.capture()
    log.delete(GROUP)
    cleaned = captures.end
    log.commit(group="other", offset=1)
    captures.capture(cleaned=cleaned)
    return captures


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", [ConsumerLog, Log], ids=["consumer", "commits only"])
def test_a_group_that_was_deleted_in_between_is_not_said_to_be_there(kind, opened, capsys):
    captures = deleted_in_between(kind)
    assert captures.log.engine.group(GROUP) is None
    where = opened(captures)
    for words in (["offsets", GROUP], ["timeline", GROUP], ["explain", GROUP], ["rebalances", GROUP]):
        (warning,) = asked(capsys, *words, *where)["warnings"]
        assert f"nothing is known of group {GROUP} since" in warning
    (held,) = asked(capsys, "offsets", GROUP, *where)["data"]["offsets"]
    assert (held["confirmed"], held["expires"]) == (False, None)
    assert run(["history", "offsets", GROUP, *where]) == 0
    assert "committed now" not in capsys.readouterr().out
    told = asked(capsys, "timeline", GROUP, *where)["data"]
    assert set(told["unconfirmed"]) == {row["member_id"] for row in told["seats"] if row["to"] is None}
    assert asked(capsys, "offsets", "other", *where)["warnings"] == []


def test_an_offset_that_was_deleted_in_between_is_not_said_to_be_there(opened, capsys):
    """The group is still there, and commits another one."""
    log = Log()
    captures = Captures(log)
    log.commit(group=GROUP, offset=5)
    log.commit(group=GROUP, offset=7, partition=1)
    captures.capture()
    log.delete_offset(partition=0, group=GROUP)
    cleaned = captures.end
    log.commit(group=GROUP, offset=8, partition=1)
    captures.capture(cleaned=cleaned)
    told = asked(capsys, "offsets", GROUP, *opened(captures))["data"]["offsets"]
    assert [(one["partition"], one["committed"], one["confirmed"]) for one in told] == [(0, 5, False), (1, 8, True)]


def test_a_group_whose_deletion_was_captured_is_said_to_be_deleted(opened, capsys):
    captures = deleted_in_between(ConsumerLog)
    whole = Captures(captures.log)
    whole.capture()
    log = whole.log
    log.commit(group="other", offset=2)
    cleaned = whole.end
    log.commit(group="other", offset=3)
    log.commit(group="other", offset=4)
    whole.capture(cleaned=cleaned)
    assert asked(capsys, "offsets", GROUP, *opened(whole))["warnings"] == []


def test_a_log_that_was_read_once_leaves_no_doubt(tmp_path):
    """The cleaner keeps the last record of each key, and a tombstone longer than what it deletes."""
    captures = left_in_between(6)
    once = Captures(captures.log)
    once.capture(cleaned=captures.end - 1)
    path = write_store(tmp_path / "store", derive(once.raw).tables, partitions=[0])
    history = open_history(HistorySource(path=path))
    assert at_the_end(history.tables) == {"a", "c", "d"}
    assert explain_group(history, GROUP).wait is None
    assert open_store(path).origin.unconfirmed_until == {}


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], 0),
        ([(0, 9, 10), (10, 19, 10)], 0),  # nothing is missing
        ([(5, 9, 3), (10, 19, 10)], 0),  # nothing was read before what is missing
        ([(0, 9, 10), (12, 19, 8)], 10),  # between two files
        ([(0, 9, 10), (10, 19, 9)], 10),  # in a later file
        ([(0, 9, 10), (10, 19, 9), (20, 29, 10)], 10),
        ([(0, 9, 10), (10, 19, 9), (30, 39, 10)], 20),
        ([(10, 19, 9), (0, 9, 10)], 10),  # in any order
    ],
)
def test_up_to_where_records_were_read_before_later_ones_went_missing(spans, expected):
    assert unconfirmed_until(Span(*span) for span in spans) == expected
