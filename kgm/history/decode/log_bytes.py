"""Pieces of a log as a broker sends them."""

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.raw import segment_records
from kgm.model.errors import DecodeError
from kgm.records.segment import BadBatch

#: (partition, first offset, whole record batches). Records of the first batch before that offset are skipped.
LogBytes = tuple[int, int, bytes]


def log_records(piece: LogBytes) -> Iterator[pa.RecordBatch]:
    """Every record by `schema.RAW`; all checksums are verified. Raises DecodeError."""
    partition, first_offset, data = piece
    try:
        for batch in segment_records(partition, io.BytesIO(data), len(data)):
            if batch.num_rows and batch.column("offset")[0].as_py() < first_offset:
                yield batch.filter(pc.greater_equal(batch.column("offset"), first_offset))
            else:
                yield batch
    except BadBatch as bad:
        raise DecodeError(
            f"a record batch of partition {partition} at or after offset {first_offset} is damaged: {bad.message}"
        ) from bad
