"""Timelines the slow, obvious way, which those of kgm must equal: every record decoded by the scalar codec, and each
group folded by `plain_fold.fold` over all of its records."""

import numpy as np

from kgm.history.decode.transactions import TransactionOutcome, transaction_outcomes
from kgm.model.errors import DecodeError
from kgm.records.record import decode_record
from tests.history.reconstruct.plain_fold import GroupCommitRecord, GroupMetadataRecord, fold, gaps_between


def slow_histories(raw):
    """{(partition, group): history} of every group with a metadata record; the table's offsets rise."""
    outcome, marker = transaction_outcomes(raw)
    found = {}
    for partition in np.unique(raw.column("partition").to_numpy()).tolist():
        rows, offsets = {}, []
        for row, its_outcome, its_marker in zip(raw.to_pylist(), outcome.tolist(), marker.tolist(), strict=True):
            if row["partition"] != partition:
                continue
            offsets.append(row["offset"])
            visible = row["offset"] if its_outcome == TransactionOutcome.NONE else its_marker
            for record in decoded(row):
                if isinstance(record[1], GroupMetadataRecord):
                    rows.setdefault(record[0], []).append((row["offset"], record[1]))
                elif its_outcome not in (TransactionOutcome.OPEN, TransactionOutcome.ABORTED):
                    rows.setdefault(record[0], []).append((visible, record[1]))
        gaps = gaps_between(offsets)
        for group, records in rows.items():
            if any(isinstance(record, GroupMetadataRecord) for _, record in records):
                in_order = [record for _, record in sorted(records, key=lambda row: row[0])]
                found[partition, group] = fold(in_order, gaps)
    return found


def decoded(row):
    """(group, the part of the record that the fold needs), or nothing."""
    try:
        record = decode_record(row["key"], row["value"])
    except (DecodeError, TypeError):
        return
    key, at = record.key, {"offset": row["offset"], "timestamp": row["timestamp"]}
    if key.API_KEY == 2:
        yield key.group, GroupMetadataRecord(value=record.value, **at)
    elif key.API_KEY in (0, 1) and record.value is not None:
        yield key.group, GroupCommitRecord(topic=key.topic, partition=key.partition, **at)
