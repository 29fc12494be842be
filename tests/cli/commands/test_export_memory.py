"""What `kgm export -o FORMAT` of many groups keeps of each series: what is packed for it, and never what is printed."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc

import pytest
import yaml

from kgm.cli.commands.export import report
from kgm.cli.output import report as output_report
from kgm.cli.output import streams
from kgm.cli.output.output_options import OutputOptions
from kgm.cli.output.report import emit, rendered
from kgm.model.snapshot import GroupSnapshot, OffsetSnapshot
from kgm.operations.export import series
from kgm.operations.export.collector import Collection
from kgm.operations.export.series import ExportedGroup, GroupSeries

#: Bytes that a series may take; as an object for JSON, or as a row of text, it takes several times as much.
MOST_KEPT = 150
WHERE = {"id": None, "bootstrap": ""}


def collection(count):
    """A group with this many partitions, each of which is a series."""
    found = GroupSeries(most=10**9)
    offsets = tuple(OffsetSnapshot(f"topic-{number:05d}", number, 1, 9, 8, None, None) for number in range(count))
    group = GroupSnapshot(group_id="g", type="classic", state="Stable", members=(), offsets=offsets)
    found.add(ExportedGroup(snapshot=group, rebalances=0, handovers=0))
    return Collection(at_s=1_000.5, duration_s=0.25, is_up=True, cluster_id="c", series=found)


@pytest.mark.long
@pytest.mark.parametrize("output", ["json", "ndjson", "yaml", "csv", "tsv", "table"])
def test_a_series_that_was_printed_is_not_kept(output, monkeypatch):
    monkeypatch.setattr(series, "_PART", 100)
    monkeypatch.setattr(output_report, "_ROWS_AT_ONCE", 100)
    monkeypatch.setattr(streams, "write_stdout", lambda _text: True)

    def peak(count):
        one = collection(count)
        tracemalloc.start()
        try:
            emit(report(one, WHERE), OutputOptions(output=output))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = 2_000, 4_000
    peak(few)  # what is imported and cached once
    kept = (peak(many) - peak(few)) / (many - few)
    assert kept < MOST_KEPT, f"{kept:.0f} bytes of each series are kept"


def test_every_format_has_the_same_samples():
    """Of one metric after another: the lag of partition n is 8, in JSON a number, in csv its text."""
    one = collection(30)
    text = {
        form: rendered(report(one, WHERE), OutputOptions(output=form)) for form in ("json", "ndjson", "yaml", "csv")
    }
    families = json.loads(text["json"])["data"]["families"]
    assert text["json"] == json.dumps(json.loads(text["json"]), indent=2) + "\n"
    assert [json.loads(line) for line in text["ndjson"].splitlines()] == families
    assert yaml.safe_load(text["yaml"])["data"]["families"] == families
    rows = [(row["name"], row["labels"], float(row["value"])) for row in csv.DictReader(io.StringIO(text["csv"]))]
    samples = [row for family in families for row in family["samples"]]
    assert rows == [
        (row["name"], ",".join(f"{key}={value}" for key, value in row["labels"].items()), row["value"])
        for row in samples
    ]
    lags = {row["labels"]["partition"]: row["value"] for row in samples if row["name"] == "kgm_partition_lag"}
    assert lags == {str(number): 8 for number in range(30)}
