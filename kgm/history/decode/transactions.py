"""What became of transactional records: they count at their producer's next marker if it is a COMMIT, are void if it is
an ABORT, and are pending while there is none (KIP-98; OffsetMetadataManager of Kafka's group coordinator).

A pending record is the reason to read a partition again from before it: its fate comes later."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

NONE, OPEN, COMMITTED, ABORTED = range(4)
NAMES = (None, "open", "committed", "aborted")


class Fates(NamedTuple):
    """For each raw record: fate (NONE outside of transactions, and of markers), and the offset of the marker that
    decided it (-1: none did)."""

    fate: npt.NDArray[np.int8]
    marker_offset: npt.NDArray[np.int64]


def fates(raw: pa.Table) -> Fates:
    """What became of each record of a table by `schema.RAW`, several partitions if need be, in any order."""
    count = len(raw)
    partition = raw.column("partition").to_numpy()
    offset = raw.column("offset").to_numpy()
    producer = _filled(raw, "producer_id", -1)
    marker = _filled(raw, "marker", -1)
    pending = _filled(raw, "transactional", False) & ~_filled(raw, "control", False)  # noqa: FBT003
    fate = np.full(count, NONE, dtype=np.int8)
    decided = np.full(count, -1, dtype=np.int64)
    rows = np.nonzero(pending | (marker >= 0))[0]
    # Backwards through each producer's records of a partition: the marker met last is the next one.
    rows = rows[np.lexsort((offset[rows], producer[rows], partition[rows]))][::-1]
    ends = marker[rows] >= 0
    last = np.maximum.accumulate(np.where(ends, np.arange(len(rows)), -1))
    by = rows[np.maximum(last, 0)] if len(rows) else rows
    same = (last >= 0) & (producer[by] == producer[rows]) & (partition[by] == partition[rows])
    fate[rows] = np.where(same, np.where(marker[by] == 1, COMMITTED, ABORTED), OPEN)
    decided[rows] = np.where(same, offset[by], -1)
    fate[~pending], decided[~pending] = NONE, -1
    return Fates(fate, decided)


def _filled(raw: pa.Table, name: str, value: object) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = pc.fill_null(raw.column(name), value).to_numpy()
    return found
