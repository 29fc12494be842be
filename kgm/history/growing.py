"""Tables of a log that is read piece by piece, as it grows: each piece is derived behind what the ones before left."""

import io
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.carry import Carry
from kgm.history.causes.session_timeouts import SessionLookup
from kgm.history.decode.raw import segment_records
from kgm.history.derive import derive, merge
from kgm.history.schema import RAW
from kgm.history.store.tables import HistoryOrigin, TablesInMemory
from kgm.model.errors import DecodeError
from kgm.records.segment import BadBatch

#: (partition, first offset, whole record batches). Earlier records of the first batch do not count.
LogBytes = tuple[int, int, bytes]


class GrowingTables:
    """Every table of the records so far. session_of_group: as for `derive`."""

    def __init__(self, *, cluster: str | None, source: str, session_of_group: SessionLookup) -> None:
        self._session_of_group = session_of_group
        self._carry: Carry | None = None
        self.tables = TablesInMemory(
            tables=derive(RAW.empty_table()).tables, origin=HistoryOrigin(cluster=cluster, source=source)
        )

    def add(self, pieces: Iterable[LogBytes]) -> None:
        """Pieces that follow those before, by partition and offset. Raises DecodeError for what is no log."""
        raw = pa.Table.from_batches([batch for piece in pieces for batch in log_records(piece)], schema=RAW)
        derived = derive(raw, carry=self._carry, session_of_group=self._session_of_group)
        self._carry = derived.carry
        before = self.tables
        times = [before.origin.last_ms, pc.max(raw.column("timestamp")).as_py()]
        origin = HistoryOrigin(
            cluster=before.origin.cluster, source=before.origin.source,
            last_ms=max((each for each in times if each is not None), default=None),
        )  # fmt: skip
        self.tables = TablesInMemory(tables=merge(before.tables, derived.tables), origin=origin)


def log_records(piece: LogBytes) -> Iterator[pa.RecordBatch]:
    """Every record by `schema.RAW`; every checksum is checked. Raises DecodeError."""
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
