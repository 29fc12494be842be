"""A collection as OpenMetrics. Names begin with `kgm_`; times are in seconds, lag is in records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from itertools import islice
from typing import Final, TypeAlias, cast

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from kgm.operations.export.collector import Collection
from kgm.operations.export.series import SeriesFamily, label
from kgm.version import __version__

DROPPED: Final = "kgm_export_dropped_series"


#: Samples that become text together.
_PART: Final = 5_000
#: Of prometheus_client: the text of all metrics of a registry.
Encoder: TypeAlias = Callable[[Collector], bytes]


class _Piece(Collector):
    """A registry for one piece of a metric, or for none."""

    def __init__(self, *metrics: Metric) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def openmetrics_text(collection: Collection) -> Iterator[bytes]:
    """An OpenMetrics exposition with its end marker, in pieces."""
    return exposition(collection, generate_openmetrics)


def prometheus_text(collection: Collection) -> Iterator[bytes]:
    """The older text format, the only one that node_exporter reads from files, in pieces."""
    return exposition(collection, generate_latest)


def exposition(collection: Collection | None, encode: Encoder) -> Iterator[bytes]:
    """The text of a collection, in pieces of bounded size: a metric of a large cluster has millions of samples. None:
    there is no collection yet."""
    end = encode(_Piece())
    for metric in () if collection is None else families(collection):
        samples, head = iter(metric.samples), True
        while (some := [*islice(samples, _PART)]) or head:
            piece = copy(metric)
            piece.samples = some
            text = encode(_Piece(piece)).removesuffix(end)
            yield text if head else _without_head(text)
            head = False
    yield end


def _without_head(text: bytes) -> bytes:
    """Without the lines in which a metric is described: a label value has no line breaks, so no other line begins like
    these."""
    while text.startswith(b"#"):
        text = text.partition(b"\n")[2]
    return text


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
    metric: Metric = make(family.name, family.help, labels=family.labels, unit=family.unit)
    metric.samples = cast("list[Sample]", _Samples(family))  # it is only iterated
    return metric


class _Samples:
    """The samples of a family, made when they are needed."""

    def __init__(self, family: SeriesFamily) -> None:
        self._family = family

    def __len__(self) -> int:
        return self._family.count

    def __iter__(self) -> Iterator[Sample]:
        family = self._family
        name = f"{family.name}_total" if family.is_counter else family.name
        return (Sample(name, dict(zip(family.labels, labels, strict=True)), value) for labels, value in family.rows)


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
    if collection.has_read_log or collection.log_unread_because is not None:
        yield GaugeMetricFamily(
            "kgm_log_readable",
            "0 if records of __consumer_offsets were not read, or compaction has removed them, so rebalances may be "
            "missed, or counted by a later collection; "
            "missing if there was no need to read it.",
            value=collection.log_unread_because is None,
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
    not_run = GaugeMetricFamily(
        "kgm_checks_not_run", "1 for each check of kgm doctor that could not run at its last examination.",
        labels=("check",),
    )  # fmt: skip
    for check in collection.not_run:
        not_run.add_metric([check], 1)
    yield not_run
