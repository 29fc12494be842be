"""A collection as OpenMetrics. Names begin with `kgm_`, times are in seconds, lag is in records.

What is not known is missing, never 0 or -1. Dynamic members have no label of their own, because their ids are new with
every restart: their partitions have the label `client_id` only."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from kgm.model.snapshot import MemberSnapshot
from kgm.operations.export.collector import Collection, ExportedGroup
from kgm.text.sanitize import clean
from kgm.version import __version__

#: Kafka's limit for topics; group, instance and client ids have none but the size of a request.
_LONGEST_LABEL: Final = 249
DROPPED: Final = "kgm_export_dropped_series"


class CollectionMetrics:
    """The latest collection, for a registry of prometheus_client. max_series: of one exposition; with more, the most
    detailed metrics are left out, and `kgm_export_dropped_series` says how many."""

    def __init__(self, latest: Callable[[], Collection | None], *, max_series: int) -> None:
        self._latest = latest
        self._max_series = max_series

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        collection = self._latest()
        if collection is not None:
            yield from families(collection, max_series=self._max_series)

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry would collect otherwise."""
        return ()


def openmetrics_text(collection: Collection, *, max_series: int) -> str:
    """An OpenMetrics exposition, with its end marker."""
    text: bytes = generate_openmetrics(_registry(collection, max_series))  # type: ignore[no-untyped-call]
    return text.decode()


def prometheus_text(collection: Collection, *, max_series: int) -> str:
    """The older text format, which is the only one that node_exporter reads from files."""
    return generate_latest(_registry(collection, max_series)).decode()


def _registry(collection: Collection, max_series: int) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(CollectionMetrics(lambda: collection, max_series=max_series))
    return registry


def families(collection: Collection, *, max_series: int) -> list[Metric]:
    """All metrics of a collection."""
    kept = [*_of_collection(collection), *_of_findings(collection)]
    left = max_series - sum(len(one.samples) for one in kept)
    dropped: list[tuple[str, int]] = []
    # From the least to the most detailed, so that what is cut off is the detail.
    times = _of_lag_times(collection.groups) if collection.has_times else ()
    for family in (*_of_groups(collection.groups), *_of_lag(collection.groups), *times):
        if len(family.samples) <= left:
            left -= len(family.samples)
            kept.append(family)
        else:
            dropped.append((family.name, len(family.samples)))
    cut = GaugeMetricFamily(DROPPED, "Series that --max-series leaves out.", labels=("family",))
    for name, count in dropped:
        cut.add_metric([name], count)
    return [*kept, cut] if dropped else kept


def _of_collection(collection: Collection) -> Iterator[Metric]:
    info = InfoMetricFamily("kgm_export", "The exporter, and the cluster that it asks.")
    info.add_metric([], {"version": __version__, "cluster_id": _label(collection.cluster_id)})
    yield info
    yield GaugeMetricFamily("kgm_up", "Whether the cluster answered in the last collection.", value=collection.is_up)
    yield GaugeMetricFamily(
        "kgm_collection_timestamp_seconds", "When the last collection ended.", value=collection.at_s, unit="seconds"
    )
    yield GaugeMetricFamily(
        "kgm_collection_duration_seconds",
        "How long the last collection took.",
        value=collection.duration_s,
        unit="seconds",
    )
    yield GaugeMetricFamily(
        "kgm_log_readable",
        "0 if rebalances between two collections may be missed, because __consumer_offsets cannot be read.",
        value=collection.log_unreadable_because is None,
    )
    errors = GaugeMetricFamily("kgm_collection_errors", "Requests that failed, by error.", labels=("code",))
    for code, count in sorted(Counter(error.code for error in collection.errors).items()):
        errors.add_metric([code], count)
    yield errors


def _of_findings(collection: Collection) -> Iterator[Metric]:
    if collection.findings is None:
        return
    family = GaugeMetricFamily(
        "kgm_findings", "Findings of kgm doctor at its last examination.", labels=("group", "check", "severity")
    )
    counts = Counter((one.group_id, one.check, one.severity.value) for one in collection.findings)
    for (group_id, check, severity), count in sorted(counts.items()):
        family.add_metric([_label(group_id), check, severity], count)
    yield family


def _of_groups(groups: Iterable[ExportedGroup]) -> Iterator[Metric]:
    group, rows = ("group",), list(groups)
    state = GaugeMetricFamily("kgm_group_state", "1 for the state that the group is in.", labels=(*group, "state"))
    kind = GaugeMetricFamily("kgm_group_type", "1 for the type of the group.", labels=(*group, "type"))
    members = GaugeMetricFamily("kgm_group_members", "Members by status.", labels=(*group, "status"))
    static = GaugeMetricFamily("kgm_group_static_members", "Members with a group.instance.id.", labels=group)
    generation = GaugeMetricFamily(
        "kgm_group_generation", "Generation of a classic group; assignment epoch of a consumer group.", labels=group
    )
    rebalances = CounterMetricFamily(
        "kgm_group_rebalances", "Completed rebalances since the exporter first saw the group.", labels=group
    )
    handovers = CounterMetricFamily(
        "kgm_group_handovers",
        "Partitions that passed from one member to another since the exporter first saw the group; those between two "
        "collections may be missed unless the exporter may read __consumer_offsets.",
        labels=group,
    )
    for row in rows:
        snapshot, name = row.snapshot, _label(row.snapshot.group_id)
        state.add_metric([name, snapshot.state], 1)
        kind.add_metric([name, snapshot.type], 1)
        for status, count in sorted(Counter(member.status for member in snapshot.members).items()):
            members.add_metric([name, status], count)
        static.add_metric([name], sum(member.group_instance_id is not None for member in snapshot.members))
        number = snapshot.generation if snapshot.type == "classic" else snapshot.assignment_epoch
        if number is not None:
            generation.add_metric([name], number)
        rebalances.add_metric([name], row.rebalances)
        handovers.add_metric([name], row.handovers)
    yield from (state, kind, members, static, generation, rebalances, handovers)


def _of_lag(groups: Iterable[ExportedGroup]) -> Iterator[Metric]:
    """The lag of groups, of topics, of members, of partitions."""
    by_group = GaugeMetricFamily("kgm_group_lag", "Records that are not committed.", labels=("group",))
    by_topic = GaugeMetricFamily(
        "kgm_group_topic_lag", "Records that are not committed, by topic.", labels=("group", "topic")
    )
    member_labels = ("group", "group_instance_id", "client_id")
    by_member = GaugeMetricFamily(
        "kgm_member_lag", "Records that are not committed, by the member that owns the partition.", labels=member_labels
    )
    lost = GaugeMetricFamily(
        "kgm_group_lost_records",
        "Records after the committed offset that retention has deleted.",
        labels=("group", "topic"),
    )
    by_partition = GaugeMetricFamily(
        "kgm_partition_lag",
        "Records that are not committed, by partition, with its owner.",
        labels=("group", "topic", "partition", "group_instance_id", "client_id"),
    )
    for row in groups:
        snapshot, name = row.snapshot, _label(row.snapshot.group_id)
        if snapshot.lag is not None:
            by_group.add_metric([name], snapshot.lag)
        by_id = {member.member_id: member for member in snapshot.members}
        topics: Counter[str] = Counter()
        members: Counter[tuple[str, str]] = Counter()
        for offset in snapshot.offsets:
            if offset.lag is None:
                continue
            owner = _owner(by_id, offset.member_id)
            topics[offset.topic] += offset.lag
            if offset.member_id is not None:
                members[owner] += offset.lag
            by_partition.add_metric([name, _label(offset.topic), str(offset.partition), *owner], offset.lag)
        losses: Counter[str] = Counter()
        for (topic, _partition), number in snapshot.lost.items():
            losses[topic] += number
        for topic, number in sorted(losses.items()):
            lost.add_metric([name, _label(topic)], number)
        for topic, lag in sorted(topics.items()):
            by_topic.add_metric([name, _label(topic)], lag)
        for owner, lag in sorted(members.items()):
            by_member.add_metric([name, *owner], lag)
    yield from (by_group, by_topic, by_member, by_partition, lost)


def _of_lag_times(groups: Iterable[ExportedGroup]) -> Iterator[Metric]:
    """How far behind groups and partitions are in time."""
    by_group = GaugeMetricFamily(
        "kgm_group_lag_seconds",
        "Age of the oldest record that is not committed, of the group; missing if that of one partition is not known.",
        labels=("group",),
        unit="seconds",
    )
    by_partition = GaugeMetricFamily(
        "kgm_partition_lag_seconds",
        "Age of the first record that is not committed.",
        labels=("group", "topic", "partition"),
        unit="seconds",
    )
    for row in groups:
        snapshot, name = row.snapshot, _label(row.snapshot.group_id)
        if snapshot.lag_ms is not None:
            by_group.add_metric([name], snapshot.lag_ms / 1000)
        for offset in snapshot.offsets:
            if offset.known_lag_ms is not None:
                labels = [name, _label(offset.topic), str(offset.partition)]
                by_partition.add_metric(labels, offset.known_lag_ms / 1000)
    yield from (by_group, by_partition)


def _owner(members: Mapping[str, MemberSnapshot], member_id: str | None) -> tuple[str, str]:
    """(group instance id, client id) of the member; empty where it has none."""
    member = None if member_id is None else members.get(member_id)
    return ("", "") if member is None else (_label(member.group_instance_id), _label(member.client_id))


def _label(text: str | None) -> str:
    """A foreign string as the value of a label: on one line, without characters that a terminal acts on, of limited
    length. What is changed gets a part of its hash, because two series with the same labels would spoil the scrape."""
    shown = clean(text or "")
    if shown == (text or "") and len(shown) <= _LONGEST_LABEL:
        return shown
    return f"{shown[:_LONGEST_LABEL]}~{hashlib.sha256((text or '').encode()).hexdigest()[:8]}"
