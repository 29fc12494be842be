"""Deletions of groups whose offsets are committed in transactions, on an embedded cluster and a clock set by hand."""

from __future__ import annotations

import pytest

from kgm.java.partitions import partition_for
from kgm.model.errors import RefusedError
from kgm.server.cluster.nodes import TRANSACTION_PARTITIONS
from tests.operations.deletion.test_deletion import ops, results, world  # noqa: F401  (fixtures)
from tests.operations.removal.in_process import TOPIC
from tests.server.apis.test_transactions import TX, Writer

MINUTE_MS = 60_000
#: Five minutes: shorter than the transactions may take.
A_WHILE_H = 5 / 60


@pytest.fixture
def writer(world):  # noqa: F811
    """A transactional producer with open offsets of group g, which has committed partition 0."""
    world.cluster.load()
    found = Writer(world.cluster, to=partition_for(TX, TRANSACTION_PARTITIONS) % 2 + 1)
    assert found.init(timeout_ms=15 * MINUTE_MS) == 0
    assert found.add_offsets("g") == 0
    for partition in (0, 3):
        sent = found.commit_offset(9, "g", to=world.cluster.coordinator, topic=TOPIC, partition=partition)
        assert sent == 0
    return found


@pytest.fixture
def group(ops):  # noqa: F811
    ops.commit("g")


@pytest.mark.parametrize("topics", [(), (TOPIC,)], ids=["group", "offsets of a topic"])
def test_offsets_in_an_open_transaction_are_not_idle(ops, group, writer, topics):  # noqa: F811
    ops.wait(A_WHILE_H)
    (one,) = ops.prepare("g", topics=topics, idle_ms=MINUTE_MS).results
    assert (one.result, one.idleness.verdict) == ("refused", "unknown")
    why = "a transaction is open with offsets of orders-0, orders-3, written 5m ago (the coordinator's log)"
    assert one.idleness.evidence == (why,)
    with pytest.raises(RefusedError):
        ops.delete("g", topics=topics, idle_ms=MINUTE_MS)
    prepared = ops.prepare("g", topics=topics, idle_ms=MINUTE_MS, assume_idle=True)
    assert prepared.warnings == (f"{one.target.id}: {why}: what it has not committed yet is deleted too",)
    report = ops.delete("g", topics=topics, idle_ms=MINUTE_MS, assume_idle=True)
    assert results(report) == {one.target.id: "removed"}


def test_offsets_of_another_topic_are_not_concerned(ops, group, writer):  # noqa: F811
    ops.wait(A_WHILE_H)
    prepared = ops.prepare("g", topics=("orders", "other"), idle_ms=MINUTE_MS)
    assert [str(one.result) for one in prepared.results] == ["refused", "absent"]


def test_a_young_open_transaction_is_a_use_that_cannot_be_assumed_away(ops, group, writer):  # noqa: F811
    ops.wait(A_WHILE_H)
    (one,) = ops.prepare("g", assume_idle=True).results
    assert (one.result, one.idleness.verdict) == ("refused", "active")
    assert one.idleness.evidence == (
        "a transaction that is open wrote an offset of orders-3 5m ago (the coordinator's log)",
    )


def test_what_was_aborted_is_a_use_and_no_commit(ops, group, writer):  # noqa: F811
    assert writer.end(commit=False) == 0
    ops.wait(A_WHILE_H)
    words = "a transaction that was aborted wrote an offset of orders-3 5m ago (the coordinator's log)"
    (one,) = ops.prepare("g").results
    assert (one.idleness.verdict, one.idleness.evidence) == ("active", (words,))
    (one,) = ops.prepare("g", idle_ms=MINUTE_MS).results
    assert (one.result, one.idleness.verdict, one.idleness.evidence) == ("planned", "idle", (words,))


def test_a_commit_in_a_transaction_counts_from_its_end_on(ops, group, writer):  # noqa: F811
    ops.wait(A_WHILE_H)
    assert writer.end() == 0
    ops.wait(1 / 60)
    (one,) = ops.prepare("g", idle_ms=3 * MINUTE_MS).results
    assert (one.result, one.idleness.verdict) == ("refused", "active")
    assert one.idleness.evidence == ("its last commit was 1m ago, of orders-3 (the coordinator's log)",)
