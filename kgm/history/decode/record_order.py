"""A partition's raw records in order, in pieces that fit into memory."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.schema import RAW
from kgm.records.batch import NO_TIMESTAMP

#: Pieces are no larger than this, except for single records.
_PIECE_BYTES, _PIECE_RECORDS = 32 << 20, 400_000


def partitions_of(raw: pa.Table) -> list[int]:
    """The numbers of the partitions that have records, ascending."""
    return sorted(pc.unique(raw.column("partition")).to_pylist())


def in_order(partition: int, raw: pa.Table, from_offset: int = 0) -> pa.Table:
    """A partition's records from an offset on, with ascending offsets, without duplicates."""
    if pc.min_max(raw.column("partition")).as_py() != {"min": partition, "max": partition}:
        raw = raw.filter(pc.equal(raw.column("partition"), partition))
    offset = raw.column("offset").to_numpy()
    if (offset[1:] <= offset[:-1]).any():
        _, first = np.unique(offset, return_index=True)
        raw, offset = raw.take(pa.array(first)), offset[first]
    known = int(np.searchsorted(offset, from_offset))
    return raw.slice(known) if known else raw


def with_times(raw: pa.Table) -> pa.Table:
    """Replaces missing timestamps with Kafka's NO_TIMESTAMP."""
    times = raw.column("timestamp")
    if not times.null_count:
        return raw
    known = pc.fill_null(times, NO_TIMESTAMP)
    return raw.set_column(raw.schema.get_field_index("timestamp"), RAW.field("timestamp"), known)


def pieces(raw: pa.Table) -> Iterator[pa.RecordBatch]:
    """The records in batches, one after the other."""
    for batch in raw.to_batches():
        count = len(batch)
        most = min(_PIECE_RECORDS, max(1, count * _PIECE_BYTES // max(batch.nbytes, 1)))
        yield from (batch.slice(start, most) for start in range(0, count, most))
