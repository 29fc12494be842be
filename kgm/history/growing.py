"""Tables of a log that is read piece by piece, as it grows: each piece is derived from the state after the last one."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.carry import Carry
from kgm.history.causes.session_timeouts import SessionLookup
from kgm.history.decode.log_bytes import LogBytes, log_records
from kgm.history.derive import derive, merge
from kgm.history.expansion import RecordExpansion
from kgm.history.schema import RAW
from kgm.history.store.tables import HistoryOrigin, TablesInMemory


class GrowingTables:
    """Every table of the records so far. session_of_group: as for `derive`."""

    def __init__(self, *, cluster: str | None, source: str, session_of_group: SessionLookup) -> None:
        self._session_of_group = session_of_group
        self._carry: Carry | None = None
        self._expansion = RecordExpansion(source)
        self.tables = TablesInMemory(
            tables=derive(RAW.empty_table()).tables, origin=HistoryOrigin(cluster=cluster, source=source)
        )

    def add(self, pieces: Iterable[LogBytes]) -> None:
        """Add pieces that follow the previous ones, by partition and offset. Raises DecodeError for bytes that are not
        a log, RefusedError for more than this many bytes may hold."""
        batches = []
        for piece in pieces:
            self._expansion.grow(len(piece[2]))
            for batch in log_records(piece):
                self._expansion.count(batch)
                batches.append(batch)
        raw = pa.Table.from_batches(batches, schema=RAW)
        derived = derive(raw, carry=self._carry, session_of_group=self._session_of_group)
        self._carry = derived.carry
        before = self.tables
        times = [before.origin.last_ms, pc.max(raw.column("timestamp")).as_py()]
        origin = HistoryOrigin(
            cluster=before.origin.cluster, source=before.origin.source,
            last_ms=max((each for each in times if each is not None), default=None),
        )  # fmt: skip
        self.tables = TablesInMemory(tables=merge(before.tables, derived.tables), origin=origin)
