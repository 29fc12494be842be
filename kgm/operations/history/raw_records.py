"""The raw records of a history: as lines of JSON, and how far they can be trusted."""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from kgm.operations.history.source import HistorySource, extra_needed

if TYPE_CHECKING:
    from kgm.history.folders import Reading
    from kgm.history.verify import LogVerdict


def decoded_lines(
    source: HistorySource, reading: "Reading", *, partitions: Collection[int] | None = None,
    since_ms: int | None = None, until_ms: int | None = None, all_batches: bool = False,
) -> Iterator[str]:  # fmt: skip
    """A line of JSON for each record, without the line end; see `kgm.history.decode.ndjson`. partitions: all if None.
    reading: collects the damage that is found."""
    with extra_needed():
        from kgm.history.decode.ndjson import lines
        from kgm.history.in_process import read_partitions

        kind, path = source.raw
        for raw in read_partitions(kind, path, reading=reading):
            if len(raw) and (partitions is None or raw.column("partition")[0].as_py() in partitions):
                yield from _within(lines(raw, all_batches=all_batches), since_ms, until_ms)


def _within(lines: Iterable[str], since_ms: int | None, until_ms: int | None) -> Iterator[str]:
    if since_ms is None and until_ms is None:
        yield from lines
        return
    for line in lines:
        timestamp = json.loads(line)["timestamp"]
        late = timestamp is not None and (since_ms is None or timestamp >= since_ms)
        if late and (until_ms is None or timestamp < until_ms):
            yield line


def verify_source(source: HistorySource) -> "LogVerdict":
    """The verdict on all records of a source, read partition by partition. Raises NotFoundError, UsageError."""
    with extra_needed():
        from kgm.history.folders import Reading
        from kgm.history.in_process import read_partitions
        from kgm.history.verify import joined_verdict, verify

        reading = Reading()
        kind, path = source.raw
        verdicts = [verify(raw) for raw in read_partitions(kind, path, reading=reading) if len(raw)]
        return replace(joined_verdict(verdicts), damages=tuple(reading.damages))
