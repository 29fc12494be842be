"""What kgm itself reads: a live topic or copies of segments, as slices of partitions. A slice is plain values, so that
any process can read it: {"partition", "path" (where it is, empty for the live topic), "start", "end" (exclusive)}."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from kgm.pipeline import segments, topic
from kgm.pipeline.options import Source, SourceKind
from kgm.pipeline.parts import Partitions

Slice = Mapping[str, Any]
#: The records of a slice by `schema.RAW`.
SliceReader = Callable[[Slice], Iterator[pa.RecordBatch]]
#: Offsets from start to end (exclusive) for each partition.
Ranges = Mapping[int, tuple[int, int]]
_META = "meta.properties"


def slice_reader(source: Source) -> SliceReader:
    """How a worker reads slices of a source."""
    if source.kind is SourceKind.SEGMENTS:
        return segments.slice_records
    return partial(topic.slice_records, topic.LiveTopic.of(source))


def partitions_of(source: Source) -> Partitions:
    """The partitions of a source; can be asked again as it grows."""
    if source.kind is SourceKind.SEGMENTS:
        return segments.SegmentFolders(source.directory())
    return topic.LiveTopic.of(source)


def slices(partitions: Partitions, ranges: Ranges) -> list[Slice]:
    """The slices of these offsets, the largest first. Raises KgmError."""
    starts, ends = ({number: each[at] for number, each in ranges.items()} for at in (0, 1))
    return [
        {"partition": part.number, "path": part.path, "start": part.start, "end": part.end}
        for part in partitions.between(starts, ends)
    ]


def cluster_of(source: Source) -> str | None:
    """The cluster's id, if the source has it: Kafka does, and so does meta.properties in a broker's log.dirs."""
    if source.kind is SourceKind.KAFKA:
        return topic.LiveTopic.of(source).cluster_id()
    meta = source.directory() / _META
    if source.kind is not SourceKind.SEGMENTS or not meta.is_file():
        return None
    pairs = (line.partition("=") for line in meta.read_text(encoding="utf-8").splitlines())
    return next((value.strip() or None for name, _, value in pairs if name.strip() == "cluster.id"), None)
