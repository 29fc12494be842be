"""What a collection looks like to Prometheus. The parsers of prometheus_client read it back."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import pytest
from prometheus_client import generate_latest as in_prometheus
from prometheus_client.openmetrics.exposition import generate_latest as in_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_prometheus

from kgm.model.errors import UnreachableError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, OffsetSnapshot
from kgm.operations.doctor.findings import Finding, Severity
from kgm.operations.export.collector import Collection
from kgm.operations.export.families import DROPPED, families, openmetrics_text, prometheus_text
from kgm.operations.export.series import ExportedGroup, GroupSeries

FORMATS = [(openmetrics_text, read_openmetrics), (prometheus_text, read_prometheus)]


def offset(topic, partition, lag, member=None):
    return OffsetSnapshot(
        topic=topic, partition=partition, committed=None if lag is None else 100 - lag, end=100, lag=lag,
        group_instance_id=None if member is None else member.group_instance_id,
        member_id=None if member is None else member.member_id,
    )  # fmt: skip


def group(group_id, *members, offsets=(), **more):
    values = {"type": "classic", "state": "Stable", **more}
    return ExportedGroup(
        snapshot=GroupSnapshot(group_id=group_id, members=members, offsets=tuple(offsets), **values),
        rebalances=3,
        handovers=7,
    )


def collection(*groups, max_series=1_000, **more):
    series = GroupSeries(most=max_series)
    for one in groups:
        series.add(one)
    return Collection(at_s=1_000.5, duration_s=0.25, is_up=True, cluster_id="c", series=series, **more)


def text_of(write, one):
    return b"".join(write(one)).decode()


def samples(one, *, write=openmetrics_text, read=read_openmetrics):
    """{(name, label values in the order of their names): value}"""
    text = text_of(write, one)
    rows = [row for family in read(text) for row in family.samples]
    found = {(row.name, tuple(value for _, value in sorted(row.labels.items()))): row.value for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize(("write", "read"), FORMATS)
def test_lag_is_summed_by_owner_topic_and_group(write, read):
    a = MemberSnapshot(member_id="a-1", group_instance_id="a", client_id="app", status="stable")
    dynamic = [MemberSnapshot(member_id=f"app-{n}", client_id="app", status="reconciling") for n in range(2)]
    offsets = [
        offset("t", 0, 5, a), offset("t", 1, 7, dynamic[0]), offset("u", 0, 11, dynamic[1]), offset("u", 1, 13),
        offset("u", 2, None, a),
    ]  # fmt: skip
    found = samples(collection(group("g", a, *dynamic, offsets=offsets, generation=9)), write=write, read=read)
    lags = {key: value for key, value in found.items() if key[0].endswith("_lag")}
    assert lags == {
        ("kgm_group_lag", ("g",)): 36, ("kgm_group_topic_lag", ("g", "t")): 12, ("kgm_group_topic_lag", ("g", "u")): 24,
        ("kgm_member_lag", ("app", "g", "a")): 5, ("kgm_member_lag", ("app", "g", "")): 18,
        ("kgm_partition_lag", ("app", "g", "a", "0", "t")): 5, ("kgm_partition_lag", ("app", "g", "", "1", "t")): 7,
        ("kgm_partition_lag", ("app", "g", "", "0", "u")): 11, ("kgm_partition_lag", ("", "g", "", "1", "u")): 13,
    }  # fmt: skip
    assert found["kgm_group_members", ("g", "stable")] == 1
    assert found["kgm_group_members", ("g", "reconciling")] == 2
    assert found["kgm_group_static_members", ("g",)] == 1
    assert found["kgm_group_generation", ("g",)] == 9
    assert (found["kgm_group_rebalances_total", ("g",)], found["kgm_group_handovers_total", ("g",)]) == (3, 7)
    assert found["kgm_collection_timestamp_seconds", ()] == 1_000.5


def test_what_is_not_known_is_missing():
    unknown = group("g", generation=None, offsets=[offset("t", 0, None)])
    found = samples(collection(unknown))
    assert not [key for key in found if key[0] in ("kgm_group_generation", "kgm_group_lag", "kgm_findings")]
    errors = (UnreachableError("x"), UnreachableError("y"))
    down = Collection(at_s=1, duration_s=1, is_up=False, cluster_id=None, errors=errors, series=GroupSeries(most=1_000))
    found = samples(down)
    assert found["kgm_up", ()] == 0
    assert ("kgm_log_readable", ()) not in found
    for has_read_log in (False, True):  # that some records were read does not help
        blind = samples(collection(log_unread_because="no READ", has_read_log=has_read_log))
        assert blind["kgm_log_readable", ()] == 0
    assert samples(collection(has_read_log=True))["kgm_log_readable", ()] == 1
    assert found["kgm_collection_errors", ("UNREACHABLE",)] == 2
    assert not [key for key in found if key[0].startswith("kgm_group")]


def test_a_consumer_group_has_its_epoch_and_findings_are_counted():
    findings = [
        Finding(group_id="g", check="x", severity=severity, message="m")
        for severity in (Severity.ERROR, Severity.ERROR, Severity.INFO)
    ]
    consumers = group("g", type="consumer", assignment_epoch=4, generation=9)
    found = samples(collection(consumers, findings=tuple(findings), not_run=("z",)))
    assert {key[1]: value for key, value in found.items() if key[0] == "kgm_checks_not_run"} == {("z",): 1}
    assert found["kgm_group_generation", ("g",)] == 4
    assert {key[1]: value for key, value in found.items() if key[0] == "kgm_findings"} == {
        ("x", "g", "error"): 2, ("x", "g", "info"): 1,
    }  # fmt: skip


@pytest.mark.parametrize(("write", "read"), FORMATS)
@pytest.mark.parametrize(
    "names",
    [
        ["a\x1b[31m", "a\\x1b[31m"],
        ["x" * 300, "x" * 301],
        ['q"uote\\', "new\nline"],
        ["a\u202eb", "a b"],
        ["é", "日本"],
    ],
)
def test_foreign_names_are_harmless_and_stay_apart(names, write, read):
    text = text_of(write, collection(*map(group, names)))
    states = [row for family in read(text) for row in family.samples if row.name == "kgm_group_state"]
    labels = [row.labels["group"] for row in states]
    assert len(set(labels)) == len(names)
    assert all(label.isprintable() and len(label) < 270 for label in labels)
    assert all(name in labels for name in names if name.isprintable() and len(name) < 250)


def test_too_many_series_lose_their_details_and_say_so():
    offsets = [offset("t", partition, 1) for partition in range(500)]
    found = samples(collection(*(group(f"g{n}", offsets=offsets) for n in range(2)), max_series=200))
    names = {name for name, _ in found}
    assert {"kgm_group_lag", "kgm_group_topic_lag", "kgm_group_rebalances_total"} <= names
    assert "kgm_partition_lag" not in names
    assert found[DROPPED, ("kgm_partition_lag",)] == 1_000
    assert len(found) <= 200 + 1


def test_of_a_metric_with_too_many_series_only_their_number_is_kept():
    series = GroupSeries(most=3)
    for number in range(5):
        series.add(group(f"g{number}"))
    (state,) = [one for one in series if one.name == "kgm_group_state"]
    assert (state.count, [*state.rows]) == (5, [])


@pytest.mark.long
@pytest.mark.parametrize(("write", "read", "encode"), [(*FORMATS[0], in_openmetrics), (*FORMATS[1], in_prometheus)])
def test_pieces_are_together_what_prometheus_client_writes_at_once(write, read, encode):
    offsets = [offset(f"topic-{number % 7}", number, number) for number in range(12_345)]
    one = collection(group("large", offsets=offsets), *(group(f"g{number}") for number in range(9)), max_series=100_000)
    registry = SimpleNamespace(collect=lambda: families(one))
    text = text_of(write, one)
    assert text == encode(registry).decode()
    assert max(map(len, write(one))) < len(text) / 2
    assert sum(row.name == "kgm_partition_lag" for family in read(text) for row in family.samples) == 12_345


@pytest.mark.long
def test_a_series_takes_little_memory():
    lag = GroupSeries(most=10**6)._partition_lag
    tracemalloc.start()
    try:
        for number in range(100_000):
            lag.add(number, f"group-{number // 12}", f"topic-{number % 7}", str(number % 12), "", f"client-{number}")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept / 100_000 < 80  # bytes; unpacked rows take 450
    assert len([*lag.rows]) == 100_000
