"""The records of many groups, read for a part of them at a time: the same ones that one read of all returns."""

from __future__ import annotations

import contextlib
import uuid

import pytest

from kgm.client import connect
from kgm.client.offsets_topic.group_tail import GroupRecordTail
from kgm.client.topic_log import partition_log
from kgm.java.partitions import partition_for
from kgm.operations.doctor import coordinator_records
from kgm.operations.doctor.coordinator_records import CoordinatorRecords
from tests.client.joiners import Joiner, take_all
from tests.client.offsets_topic.test_last_rebalance import TOPIC

GROUPS, PER_PART = 12, 3


@pytest.mark.kafka
def test_a_part_at_a_time_reads_what_one_read_of_all_returns(kafka, monkeypatch):
    if TOPIC not in kafka.admin().list_topics(timeout=10).topics:
        kafka.create_topics({TOPIC: 100})
    run = uuid.uuid4().hex[:8]
    names = [f"parts-{run}-{number}" for number in range(GROUPS)]
    with contextlib.ExitStack() as stack:
        for at, name in enumerate(names):
            joiner = stack.enter_context(contextlib.closing(Joiner(kafka.port, name, "a", TOPIC)))
            for _ in range(1 + at % 3):
                take_all(joiner)
        with connect(kafka.bootstrap, timeout_ms=60_000) as cluster:
            count = partition_log.look_up(cluster.brokers, cluster.deadline).partition_count
            expected = GroupRecordTail(cluster, names).read_back(cluster.deadline)
            assert sorted(expected) == sorted(names)
            monkeypatch.setattr(coordinator_records, "PART", PER_PART)
            records = CoordinatorRecords(cluster)
            ordered = records.in_log_order(names)
            found, most_kept = {}, 0
            for start in range(0, GROUPS, PER_PART):
                part = ordered[start : start + PER_PART]
                read = records.read(part)
                found |= {name: read[name] for name in part}
                most_kept = max(most_kept, len(read))
    assert sorted(ordered) == sorted(names)
    partitions = [partition_for(name, count) for name in ordered]
    assert partitions == sorted(partitions)
    assert found == expected
    assert most_kept < GROUPS
    assert records.skipped == []
