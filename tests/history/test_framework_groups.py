"""Streams and share groups (KIP-1071, KIP-932) in a history: what a coordinator writes of them, one request a batch as it
does, and how it is told. Real ones: tests/frameworks/test_real_streams_group.py, tests/client/test_share_groups.py."""

import json
import pathlib
from collections import Counter

import pyarrow as pa
import pytest

from kgm.history.carry import Carry
from kgm.history.derive import derive
from kgm.history.rows import MemberStateRow, OwnerRow, RebalanceRow, TimeoutAdviceRow
from kgm.history.schema import RAW
from kgm.history.store.final_state import final_groups
from kgm.history.store.query import RowFilter
from kgm.history.store.tables import HistoryOrigin, TablesInMemory
from kgm.model.errors import NotFoundError
from kgm.operations.history.explanation import explain_group
from kgm.operations.history.source import History, HistorySource
from kgm.records.member_states import TaskState
from kgm.records.messages import (
    share_group_current_member_assignment_key as share_current_key,
)
from kgm.records.messages import (
    share_group_current_member_assignment_value as share_current,
)
from kgm.records.messages import (
    streams_group_current_member_assignment_key as streams_current_key,
)
from kgm.records.messages import (
    streams_group_current_member_assignment_value as streams_current,
)
from kgm.records.messages import streams_group_target_assignment_member_value as streams_target
from kgm.records.messages.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from kgm.records.messages.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from kgm.records.messages.share_group_metadata_key import ShareGroupMetadataKey
from kgm.records.messages.share_group_metadata_value import ShareGroupMetadataValue
from kgm.records.messages.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from kgm.records.messages.share_group_target_assignment_metadata_value import ShareGroupTargetAssignmentMetadataValue
from kgm.records.messages.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from kgm.records.messages.streams_group_member_metadata_value import StreamsGroupMemberMetadataValue
from kgm.records.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from kgm.records.messages.streams_group_metadata_value import StreamsGroupMetadataValue
from kgm.records.messages.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from kgm.records.messages.streams_group_target_assignment_metadata_key import StreamsGroupTargetAssignmentMetadataKey
from kgm.records.messages.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from kgm.records.record import Record, encode_record
from tests.history.test_derive import piecewise, same

START = 1_700_000_000_000


class Log:
    """Records of one partition, so long after one another."""

    def __init__(self):
        self.rows, self.now = [], START

    def batch(self, *records, after_ms=1_000):
        self.now += after_ms
        for key, value in records:
            encoded, content = encode_record(Record(key, value))
            self.rows.append(
                {"partition": 0, "offset": len(self.rows), "timestamp": self.now, "leader_epoch": 0, "key": encoded,
                 "value": content, "transactional": False, "control": False, "producer_id": -1, "producer_epoch": -1}
            )  # fmt: skip

    @property
    def raw(self):
        return pa.Table.from_pylist(self.rows, schema=RAW)


class Streams:
    """Two subtopologies of four tasks each."""

    def __init__(self, log):
        self.log, self.epoch, self.members = log, 0, {}

    def member(self, name, *, topology=0):
        key = StreamsGroupMemberMetadataKey(group_id="app", member_id=name)
        return key, StreamsGroupMemberMetadataValue(
            instance_id=None, rack_id=None, client_id=f"app-{name}", client_host="/10.0.0.1",
            rebalance_timeout_ms=300_000, topology_epoch=topology, process_id=f"process-{name}", user_endpoint=None,
        )  # fmt: skip

    def epoch_records(self):
        """The epoch of the group, and the target assignment that answers it."""
        self.epoch += 1
        names = sorted(self.members)
        self.members = {name: list(range(4))[at :: len(names)] for at, name in enumerate(names)}
        yield StreamsGroupMetadataKey(group_id="app"), StreamsGroupMetadataValue(epoch=self.epoch, metadata_hash=7)
        for name, tasks in self.members.items():
            rows = [streams_target.TaskIds(subtopology_id=one, partitions=tasks) for one in "01"]
            key = StreamsGroupTargetAssignmentMemberKey(group_id="app", member_id=name)
            yield key, streams_target.StreamsGroupTargetAssignmentMemberValue(active_tasks=rows)
        value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=self.epoch)
        yield StreamsGroupTargetAssignmentMetadataKey(group_id="app"), value

    def current(self, name, state=TaskState.STABLE):
        rows = [streams_current.TaskIds(subtopology_id=one, partitions=self.members[name]) for one in "01"]
        key = streams_current_key.StreamsGroupCurrentMemberAssignmentKey(group_id="app", member_id=name)
        return key, streams_current.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch, previous_member_epoch=self.epoch - 1, state=state, active_tasks=rows
        )

    def reconcile(self):
        for name in self.members:
            self.log.batch(self.current(name), after_ms=100)

    def join(self, name):
        self.members[name] = []
        self.log.batch(self.member(name), *self.epoch_records())
        self.reconcile()

    def leave(self, name, *, after_ms=1_000):
        del self.members[name]
        gone = [
            (streams_current_key.StreamsGroupCurrentMemberAssignmentKey(group_id="app", member_id=name), None),
            (StreamsGroupTargetAssignmentMemberKey(group_id="app", member_id=name), None),
            (StreamsGroupMemberMetadataKey(group_id="app", member_id=name), None),
        ]
        self.log.batch(*gone, *self.epoch_records(), after_ms=after_ms)
        self.reconcile()


def streams_log():
    log = Log()
    group = Streams(log)
    group.join("a")
    group.join("b")
    for name in ("a", "b"):
        log.batch(group.member(name, topology=1), *group.epoch_records())
    group.reconcile()
    group.leave("b")
    return log.raw


def share_log():
    log = Log()
    group_key, target_key = ShareGroupMetadataKey(group_id="s"), ShareGroupTargetAssignmentMetadataKey(group_id="s")

    def member(name, *topics):
        value = ShareGroupMemberMetadataValue(
            rack_id=None, client_id=name, client_host="/h", subscribed_topic_names=topics
        )
        return ShareGroupMemberMetadataKey(group_id="s", member_id=name), value

    def epoch(number, *members):
        yield group_key, ShareGroupMetadataValue(epoch=number, metadata_hash=3)
        yield target_key, ShareGroupTargetAssignmentMetadataValue(assignment_epoch=number)
        for name in members:
            rows = [share_current.TopicPartitions(topic_id=bytes(range(16)), partitions=[0, 1])]
            yield (
                share_current_key.ShareGroupCurrentMemberAssignmentKey(group_id="s", member_id=name),
                share_current.ShareGroupCurrentMemberAssignmentValue(member_epoch=number, assigned_partitions=rows),
            )

    log.batch(member("a", "orders"), *epoch(1, "a"))
    log.batch(member("b", "orders"), *epoch(2, "a", "b"))
    log.batch(member("b", "orders", "pay"), *epoch(3, "a", "b"))
    log.batch((ShareGroupMemberMetadataKey(group_id="s", member_id="a"), None), *epoch(4, "b"))
    return log.raw


def told(raw, carry=None):
    return TablesInMemory(tables=derive(raw, carry=carry).tables, origin=HistoryOrigin())


def rebalances(tables):
    return sorted(tables.rows(RebalanceRow, RowFilter()), key=lambda row: row.offset)


def test_why_the_epochs_of_a_streams_group_rose_and_who_had_its_tasks():
    tables = told(streams_log())
    rows = rebalances(tables)
    assert [(row.group_type, row.cause, row.to_generation) for row in rows] == [
        ("streams", "join", 1), ("streams", "join", 2), ("streams", "topology-change", 3),
        ("streams", "topology-change", 4), ("streams", "departure", 5),
    ]  # fmt: skip
    assert rows[2].evidence == ("a has another topology",)
    assert [(row.moved, row.kept) for row in rows] == [(0, 0), (4, 4), (0, 8), (0, 8), (4, 4)]
    owners = tables.rows(OwnerRow, RowFilter())
    assert {row.topic for row in owners} == {"subtopology-0", "subtopology-1"}
    now = Counter(row.seat for row in owners if row.to_offset is None)
    assert now == {"a": 8}


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (TaskState.STABLE, "departure"),
        (TaskState.UNREVOKED_TASKS, "max-poll"),
        (TaskState.UNRELEASED_TASKS, "departure"),
        (TaskState.UNKNOWN, "departure"),
    ],
)
def test_only_a_member_with_tasks_to_revoke_can_have_failed_to_do_so(state, cause):
    """The members have a rebalance timeout of 5 minutes."""
    log = Log()
    group = Streams(log)
    group.join("a")
    group.join("b")
    log.batch(group.current("b", state))
    group.leave("b", after_ms=300_000)
    assert rebalances(told(log.raw))[-1].cause == cause


def test_why_the_epochs_of_a_share_group_rose_and_no_owners():
    """Partitions of a share group have several members."""
    tables = told(share_log())
    rows = rebalances(tables)
    assert [(row.group_type, row.cause) for row in rows] == [
        ("share", "join"), ("share", "join"), ("share", "subscription-change"), ("share", "departure"),
    ]  # fmt: skip
    assert [[who.member_id for who in row.who] for row in rows] == [["a"], ["b"], ["b"], ["a"]]
    assert not tables.rows(OwnerRow, RowFilter())


@pytest.mark.parametrize(("group", "raw"), [("app", streams_log()), ("s", share_log())], ids=["streams", "share"])
def test_they_are_in_the_history(group, raw):
    history = History(source=HistorySource(path=pathlib.Path("d")), tables=told(raw))
    found = explain_group(history, group)
    assert {row.group_id for row in found.rebalances} == {group}
    with pytest.raises(NotFoundError, match="is not in the history"):
        explain_group(history, "another")


@pytest.mark.parametrize("raw", [streams_log(), share_log()], ids=["streams", "share"])
def test_they_are_not_simulated_nor_advised(raw):
    tables = told(raw)
    assert list(final_groups(tables, RowFilter())) == []
    for cls in (MemberStateRow, TimeoutAdviceRow):
        assert not tables.rows(cls, RowFilter())


@pytest.mark.few(1)
@pytest.mark.parametrize("raw", [streams_log(), share_log()], ids=["streams", "share"])
def test_any_cut_gives_the_same(raw):
    whole = derive(raw).tables
    for cut in range(1, len(raw), 3):
        same(whole, piecewise(raw, [cut], again=2))


def test_behind_a_store_that_an_older_kgm_has_built_the_first_members_are_not_sure():
    """It did not read these groups, so what was there before is not known."""
    raw = streams_log()
    first, rest = raw.slice(0, 6), raw.slice(6)
    carry = derive(first).carry.table.to_pylist()
    for row in carry:
        if row["group_id"] is None:
            state = json.loads(row["state"])
            del state["every_type"]
            row["state"] = json.dumps(state).encode()
    older = Carry(
        pa.Table.from_pylist([row for row in carry if row["group_id"] is None], schema=derive(first).carry.table.schema)
    )
    rows = rebalances(told(rest, older))
    assert all(row.confidence != "certain" for row in rows)
    assert not rows or rows[0].to_generation >= 3
