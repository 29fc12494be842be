"""What `kgm describe` of many groups keeps of each: what its format cannot do without, and never the group."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import pytest

from kgm.cli.commands.describe import DescribeView, _tables, report
from kgm.cli.output import report as output_report
from kgm.cli.output import streams
from kgm.cli.output.output_options import OutputOptions
from kgm.cli.output.report import emit
from kgm.client import in_parts, lag_times
from kgm.client.group_listing import ListedGroup, Listing
from kgm.client.offset_reader import OffsetReader
from kgm.client.transport.bootstrap import Address
from kgm.client.transport.brokers import Brokers
from kgm.client.transport.connection import Plaintext
from kgm.client.transport.deadline import Deadline
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, OffsetSnapshot
from kgm.operations.groups import partitions
from kgm.operations.groups.description import DescriptionRequest, describe
from kgm.operations.groups.partitions import PartitionFilter, PartitionOrder

#: Bytes that a group may leave behind, its id and its row; the groups below take several times as much.
MOST_KEPT = 2_500


def group(group_id):
    names = [f"{group_id}-{number}" for number in range(4)]
    members = [
        MemberSnapshot(member_id=f"{name}-{'x' * 36}", group_instance_id=name, client_id=f"{name}-client",
                       client_host=f"10.0.0.{name}", topics=("orders",), assignment={"orders": [*range(3)]})
        for name in names
    ]  # fmt: skip
    offsets = [
        OffsetSnapshot("orders", number, 1_000 + number, 2_000 + number, 1_000, names[0], members[0].member_id)
        for number in range(12)
    ]
    return GroupSnapshot(
        group_id=group_id, type="classic", state="Stable", members=tuple(members), offsets=tuple(offsets)
    )


def cluster_of(count):
    brokers = Brokers([Address("localhost", 1)], Plaintext())
    listed = [
        ListedGroup(group_id=f"g-{number:06d}", protocol_type=None, state=None, type=None) for number in range(count)
    ]
    return SimpleNamespace(
        brokers=brokers, offsets=OffsetReader(brokers), deadline=Deadline.after(600_000), unread_records={},
        list_groups=lambda: Listing(groups=tuple(listed), errors=()), name_similar_groups=lambda _errors: None,
        describe_groups=lambda part: [*map(group, part)], can_list_all=lambda *, sees_some: sees_some,
    )  # fmt: skip


def peak(output, view, count, **more):
    """Bytes at most, while so many groups are described and printed."""
    cluster = cluster_of(count)
    tracemalloc.start()
    try:
        wanted = PartitionFilter(only_lagging=True) if view is DescribeView.PARTITIONS else None
        request = DescriptionRequest(all_groups=True, partitions=wanted, **more)
        described = describe(cluster, request, PartitionOrder.LAG)
        tables = _tables(described, view, PartitionOrder.LAG, verbose=False, times=False, folds=True)
        emit(
            report(described, tables, {"id": None, "bootstrap": ""}, view=view, order=PartitionOrder.LAG),
            OutputOptions(output=output),
        )
        assert described.described == count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("output", "view"),
    [*((output, DescribeView.MEMBERS) for output in ("json", "ndjson", "yaml", "csv", "name", "table")),
     ("csv", DescribeView.STATE),
     *((output, DescribeView.PARTITIONS) for output in ("json", "ndjson", "yaml", "csv", "table", "wide"))],
)  # fmt: skip
def test_a_group_that_was_printed_is_not_kept(output, view, monkeypatch):
    monkeypatch.setattr(in_parts, "PART", 10)
    monkeypatch.setattr(partitions, "_RUN", 120)
    monkeypatch.setattr(partitions, "_PART", 24)
    monkeypatch.setattr(output_report, "_ROWS_AT_ONCE", 50)
    monkeypatch.setattr(streams, "write_stdout", lambda _text: True)
    few, many = 30, 90
    peak(output, view, few)  # what is imported and cached once
    kept = (peak(output, view, many) - peak(output, view, few)) / (many - few)
    assert kept < MOST_KEPT, f"{kept:.0f} bytes of each group are kept"


@pytest.mark.few(1)
@pytest.mark.parametrize("view", [DescribeView.MEMBERS, DescribeView.PARTITIONS])
def test_nor_is_a_group_with_lag_in_time(view, monkeypatch):
    monkeypatch.setattr(in_parts, "PART", 12)  # more than those whose commits are looked for
    monkeypatch.setattr(partitions, "_RUN", 120)
    monkeypatch.setattr(partitions, "_PART", 24)
    monkeypatch.setattr(streams, "write_stdout", lambda _text: True)
    monkeypatch.setattr(lag_times, "_record_times", lambda _cluster, places, _deadline: (dict.fromkeys(places, 5), {}))
    few, many = 36, 108
    peak("ndjson", view, few, with_times=True)
    kept = (peak("ndjson", view, many, with_times=True) - peak("ndjson", view, few, with_times=True)) / (many - few)
    assert kept < MOST_KEPT, f"{kept:.0f} bytes of each group are kept"


def test_a_record_is_read_once_for_all_groups_that_have_read_as_far(monkeypatch):
    """And commits are looked for in the logs of few groups, which the last part of many is not."""
    monkeypatch.setattr(in_parts, "PART", 12)
    monkeypatch.setattr(lag_times, "GroupActivity", None)
    read = []

    def record_times(_cluster, places, _deadline):
        read.extend(places)
        return dict.fromkeys(places, 5), {}

    monkeypatch.setattr(lag_times, "_record_times", record_times)
    cluster = cluster_of(25)
    described = describe(cluster, DescriptionRequest(all_groups=True, with_times=True), PartitionOrder.NAME)
    assert all(row.lag_ms > 0 for one in described.groups for row in one.offsets)
    assert sorted(read) == [("orders", number, 1_000 + number, 2_000 + number) for number in range(12)]
    assert len(cluster.offsets.unread_commit_times) == described.described == 25
