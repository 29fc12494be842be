"""`kgm describe -o json` of random groups is what Python's own JSON encoder writes of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgm.cli.commands.describe import DescribeView, report
from kgm.cli.output.output_options import OutputOptions
from kgm.cli.output.report import envelope, rendered
from kgm.model.broker_version import REFERENCE
from kgm.model.client_library import CONFIDENCES, ClientLibrary
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot, MemberSnapshot, OffsetSnapshot, TopicSnapshot
from kgm.operations.groups.description import DescribedGroups
from kgm.operations.groups.partitions import PartitionOrder
from kgm.text.sanitize import json_text

TEXT = st.text(max_size=5)
SOME = st.none() | TEXT
NUMBER = st.none() | st.integers(0, 2**63 - 1)
PARTITIONS = st.dictionaries(TEXT, st.lists(st.integers(0, 99), max_size=5), max_size=3)
LIBRARIES = st.none() | st.builds(
    ClientLibrary, name=SOME, confidence=st.sampled_from(CONFIDENCES), evidence=st.lists(TEXT, max_size=2).map(tuple),
    candidates=st.lists(TEXT, max_size=2).map(tuple),
)  # fmt: skip
MEMBERS = st.builds(
    MemberSnapshot, member_id=TEXT, group_instance_id=SOME, client_id=TEXT, client_host=TEXT, rack=SOME,
    member_epoch=NUMBER, topics=st.lists(TEXT, max_size=3).map(tuple), regex=SOME, assignment=PARTITIONS,
    target_assignment=st.none() | PARTITIONS, lag=NUMBER, lag_ms=NUMBER, protocol=SOME, client_library=LIBRARIES, listed_at=NUMBER,
    listed_target=st.none() | PARTITIONS,
)  # fmt: skip
OFFSETS = st.builds(
    OffsetSnapshot, topic=TEXT, partition=st.integers(0, 99), committed=NUMBER, end=NUMBER, lag=NUMBER,
    group_instance_id=SOME, member_id=SOME, lag_ms=NUMBER, commit_age_ms=NUMBER,
)  # fmt: skip
TOPICS = st.builds(
    TopicSnapshot, name=TEXT, partitions=st.integers(0, 99), topic_id=st.none() | st.binary(min_size=16, max_size=16)
)
GROUPS = st.builds(
    GroupSnapshot, group_id=TEXT, type=st.sampled_from(["classic", "consumer"]), state=TEXT, protocol_type=SOME,
    assignor=SOME, coordinator=st.none() | st.builds(CoordinatorNode, id=st.integers(0, 9), host=TEXT, port=st.just(1)),
    generation=NUMBER, group_epoch=NUMBER, session_timeout_ms=NUMBER, topics=st.lists(TOPICS, max_size=3).map(tuple),
    members=st.lists(MEMBERS, max_size=6).map(tuple), offsets=st.lists(OFFSETS, max_size=8).map(tuple),
    kafka_versions=st.none() | st.just((REFERENCE,)), leader=SOME, leader_library=LIBRARIES,
)  # fmt: skip


@given(st.lists(GROUPS, max_size=6), st.sampled_from([*DescribeView]))
def test_the_json_of_random_groups(groups, view):
    def shown():
        described = DescribedGroups(groups=iter(groups))
        return report(described, [], {"id": None, "bootstrap": "b"}, view=view)

    text = rendered(shown(), OutputOptions(output="json"))
    plain = json_text(json.dumps(_whole(envelope(shown())), indent=2, ensure_ascii=False)) + "\n"
    at = "generated_at"
    assert [line for line in text.split("\n") if at not in line] == [
        line for line in plain.split("\n") if at not in line
    ]
    as_they_are = [json.loads(json.dumps(group.to_json())) for group in groups]
    assert [*map(_unordered, as_they_are)] == [*map(_unordered, json.loads(text)["data"]["groups"])]


def _unordered(group):
    """The order is for people: tests/cli/output/test_natural_order.py."""
    return group | {name: sorted(map(json.dumps, group[name])) for name in ("topics", "members", "offsets")}


def _whole(value):
    """The value with lists where it has iterators."""
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in value.items()}
    return list(value) if isinstance(value, Iterator) else value


@given(OFFSETS)
def test_an_offset_has_its_fields_by_name(row):
    assert row.to_json() == {
        "topic": row.topic, "partition": row.partition, "committed": row.committed, "end": row.end, "lag": row.lag,
        "group_instance_id": row.group_instance_id, "member_id": row.member_id, "lost": row.lost, "lag_ms": row.lag_ms,
        "commit_age_ms": row.commit_age_ms,
    }  # fmt: skip
    assert [*row.to_json()] == [
        "topic",
        "partition",
        "committed",
        "end",
        "lag",
        "group_instance_id",
        "member_id",
        "lost",
        "lag_ms",
        "commit_age_ms",
    ]


@pytest.mark.parametrize(("view", "key"), [(DescribeView.MEMBERS, "member_id"), (DescribeView.OFFSETS, "partition")])
def test_ndjson_and_csv_are_in_the_order_of_sort(view, key):
    """The highest lag first, and what is unknown last; JSON has the groups as snapshots are."""
    lags = {"a": 2, "b": None, "c": 30}
    group = GroupSnapshot(
        group_id="g", type="classic", state="Stable",
        members=tuple(MemberSnapshot(member_id=name, lag=lag) for name, lag in lags.items()),
        offsets=tuple(OffsetSnapshot("t", at, 0, 9, lag, None, None) for at, lag in enumerate(lags.values())),
    )  # fmt: skip

    def shown(output):
        described = DescribedGroups(groups=iter([group]))
        return rendered(report(described, [], {}, view=view, order=PartitionOrder.LAG), OutputOptions(output=output))

    in_order = ["c", "a", "b"] if key == "member_id" else [2, 0, 1]
    assert [json.loads(line)[key] for line in shown("ndjson").splitlines()] == in_order
    assert [row[key] for row in csv.DictReader(io.StringIO(shown("csv")))] == [*map(str, in_order)]
