"""A collection as OpenMetrics. Names begin with `kgm_`; times are in seconds, lag is in records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from kgm.operations.export.collector import Collection
from kgm.operations.export.series import SeriesFamily, label
from kgm.version import __version__

DROPPED: Final = "kgm_export_dropped_series"


class CollectionMetrics:
    """The latest collection, as a collector for a prometheus_client registry."""

    def __init__(self, latest: Callable[[], Collection | None]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        collection = self._latest()
        if collection is not None:
            yield from families(collection)

    def describe(self) -> Iterable[Metric]:
        """Empty, so that the registry does not run a collection on registration."""
        return ()


def openmetrics_text(collection: Collection) -> str:
    """An OpenMetrics exposition, with its end marker."""
    text: bytes = generate_openmetrics(_registry(collection))  # type: ignore[no-untyped-call]
    return text.decode()


def prometheus_text(collection: Collection) -> str:
    """The older text format, the only one that node_exporter reads from files."""
    return generate_latest(_registry(collection)).decode()


def _registry(collection: Collection) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(CollectionMetrics(lambda: collection))
    return registry


def families(collection: Collection) -> list[Metric]:
    """All metrics of a collection. If that exceeds the maximum number of series, the most detailed metrics are left
    out, and `kgm_export_dropped_series` reports how many."""
    kept = [*_of_collection(collection), *_of_findings(collection)]
    left = collection.series.most - sum(len(one.samples) for one in kept)
    dropped: list[tuple[str, int]] = []
    for family in collection.series:
        if not family.is_cut and family.count <= left:
            left -= family.count
            kept.append(_metric(family))
        else:
            dropped.append((family.name, family.count))
    cut = GaugeMetricFamily(DROPPED, "Series that --max-series leaves out.", labels=("family",))
    for name, count in dropped:
        cut.add_metric([name], count)
    return [*kept, cut] if dropped else kept


def _metric(family: SeriesFamily) -> Metric:
    make = CounterMetricFamily if family.is_counter else GaugeMetricFamily
    metric = make(family.name, family.help, labels=family.labels, unit=family.unit)
    for labels, value in family.rows:
        metric.add_metric(labels, value)
    return metric


def _of_collection(collection: Collection) -> Iterator[Metric]:
    info = InfoMetricFamily("kgm_export", "The exporter, and the cluster that it asks.")
    info.add_metric([], {"version": __version__, "cluster_id": label(collection.cluster_id)})
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
        family.add_metric([label(group_id), check, severity], count)
    yield family
