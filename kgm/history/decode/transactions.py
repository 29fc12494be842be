"""The outcome of transactional records: they count from their producer's next marker on if that is a COMMIT, are void
if it is an ABORT, and are pending until there is one (KIP-98; OffsetMetadataManager of Kafka's group coordinator).

A pending record has to be kept, with its bytes, until its marker arrives."""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


class TransactionOutcome(IntEnum):
    """The outcome of a record. NONE: it is not in a transaction, or is a marker."""

    NONE = 0
    OPEN = 1
    COMMITTED = 2
    ABORTED = 3


#: The names of the outcomes in the column `txn` and in the JSON of records.
OUTCOME_NAMES = (None, "open", "committed", "aborted")


class TransactionOutcomes(NamedTuple):
    """The `TransactionOutcome` of each raw record, and the offset of the marker that decided it (-1: none did)."""

    outcome: npt.NDArray[np.int8]
    marker_offset: npt.NDArray[np.int64]


def transaction_outcomes(raw: pa.Table) -> TransactionOutcomes:
    """The outcome of each record in a table by `schema.RAW`, for one or more partitions, in any order."""
    count = len(raw)
    partition = raw.column("partition").to_numpy()
    offset = raw.column("offset").to_numpy()
    producer = _filled(raw, "producer_id", -1)
    marker = _filled(raw, "marker", -1)
    pending = _filled(raw, "transactional", False) & ~_filled(raw, "control", False)  # noqa: FBT003
    outcome = np.full(count, TransactionOutcome.NONE, dtype=np.int8)
    decided = np.full(count, -1, dtype=np.int64)
    rows = np.nonzero(pending | (marker >= 0))[0]
    # Backward through each producer's records of a partition: the last marker met is the next one in the log.
    rows = rows[np.lexsort((offset[rows], producer[rows], partition[rows]))][::-1]
    ends = marker[rows] >= 0
    last = np.maximum.accumulate(np.where(ends, np.arange(len(rows)), -1))
    by = rows[np.maximum(last, 0)] if len(rows) else rows
    same = (last >= 0) & (producer[by] == producer[rows]) & (partition[by] == partition[rows])
    committed = np.where(marker[by] == 1, TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED)
    outcome[rows] = np.where(same, committed, TransactionOutcome.OPEN)
    decided[rows] = np.where(same, offset[by], -1)
    outcome[~pending], decided[~pending] = TransactionOutcome.NONE, -1
    return TransactionOutcomes(outcome, decided)


def _filled(raw: pa.Table, name: str, value: object) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = pc.fill_null(raw.column(name), value).to_numpy()
    return values
