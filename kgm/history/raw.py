"""Record batches of a partition into a table of raw records."""

from collections.abc import Iterable
from itertools import chain, repeat
from typing import Any

import pyarrow as pa

from kgm.history.schema import RAW
from kgm.records.batch import Batch

_BATCH_BYTES = 64 << 20
_BATCH_RECORDS = 200_000


def raw_records(partition: int, batches: Iterable[Batch]) -> pa.Table:
    """Every record of the batches by `schema.RAW`, in order, in chunks of some 64 MiB. Raises DecodeError for a batch
    whose records do not parse; `segment.batches` and `decode_batches` have checked its checksum."""
    found, waiting, size, count = [], [], 0, 0
    for batch in batches:
        waiting.append(batch)
        size += len(batch.data)
        count += batch.record_count
        if size >= _BATCH_BYTES or count >= _BATCH_RECORDS:
            found.append(_chunk(partition, waiting))
            waiting, size, count = [], 0, 0
    if waiting:
        found.append(_chunk(partition, waiting))
    return pa.Table.from_batches(found, schema=RAW)


def _chunk(partition: int, batches: list[Batch]) -> pa.RecordBatch:
    records = [batch.records for batch in batches]
    counts = [len(each) for each in records]
    rows = list(chain.from_iterable(records))
    offsets, timestamps, keys, values = zip(*(row[:4] for row in rows), strict=True) if rows else ((), (), (), ())

    def each(name: str, kind: pa.DataType, of_batch: list[Any]) -> tuple[str, pa.Array]:
        return name, pa.array(chain.from_iterable(map(repeat, of_batch, counts)), type=kind)

    control = [batch.is_control for batch in batches]
    marker = [_marker(batch) if batch.is_control else None for batch in batches]
    hidden = list(chain.from_iterable(map(repeat, control, counts)))
    columns = dict([
        ("partition", pa.array(repeat(partition, len(rows)), type=pa.int32())),
        ("offset", pa.array(offsets, type=pa.int64())),
        ("timestamp", pa.array(timestamps, type=pa.int64())),
        ("key", _payload(keys, hidden)),
        ("value", _payload(values, hidden)),
        each("leader_epoch", pa.int32(), [batch.leader_epoch for batch in batches]),
        each("producer_id", pa.int64(), [batch.producer_id for batch in batches]),
        each("producer_epoch", pa.int16(), [batch.producer_epoch for batch in batches]),
        each("transactional", pa.bool_(), [batch.transactional for batch in batches]),
        each("control", pa.bool_(), control),
        each("marker", pa.int8(), marker),
    ])  # fmt: skip
    return pa.RecordBatch.from_arrays([columns[name] for name in RAW.names], schema=RAW)


def _payload(data: tuple[bytes | None, ...], hidden: list[bool]) -> pa.Array:
    if any(hidden):
        data = tuple(None if control else each for each, control in zip(data, hidden, strict=True))
    return pa.array(data, type=pa.binary())


def _marker(batch: Batch) -> int | None:
    marker = batch.marker
    return None if marker is None else int(marker.commit)
