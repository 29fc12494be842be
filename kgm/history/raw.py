"""Record batches of a partition into a table of raw records.

Batches are walked side by side, the j-th records of all of them at once. What is unusual in a batch (headers, a varint
of more than five bytes, far more records than its neighbours have) sends it to the scalar reader, which also says what
is wrong with one that does not parse."""

from collections.abc import Iterable
from itertools import chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgm.history.cursor import Buffer, Cursor, Positions
from kgm.history.schema import RAW
from kgm.records.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER,
    LOG_APPEND_TIME,
    MAX_UNCOMPRESSED,
    TRANSACTIONAL,
    Batch,
)
from kgm.records.compression import decompress

_CHUNK_BYTES = 16 << 20
_CHUNK_RECORDS = 400_000
#: With fewer batches side by side than this, a record costs more than the scalar reader takes for it.
_WORTH_IT = 48


def raw_records(partition: int, batches: Iterable[Batch]) -> pa.Table:
    """Every record of the batches by `schema.RAW`, in order, in chunks of some 16 MiB. Raises DecodeError for a batch
    whose records do not parse; `segment.batches` and `decode_batches` have checked its checksum."""
    found, waiting, size, count = [], [], 0, 0
    for batch in batches:
        waiting.append(batch)
        size += len(batch.data)
        count += batch.record_count
        if size >= _CHUNK_BYTES or count >= _CHUNK_RECORDS:
            found += _chunk(partition, waiting)
            waiting, size, count = [], 0, 0
    if waiting:
        found += _chunk(partition, waiting)
    return pa.Table.from_batches(found, schema=RAW)


def _chunk(partition: int, batches: list[Batch]) -> list[pa.RecordBatch]:
    counts = np.array([batch.record_count for batch in batches])
    by_size = np.sort(counts)[::-1]
    most = by_size[_WORTH_IT - 1] if len(by_size) >= _WORTH_IT else 0
    beside = [batch for batch in batches if batch.record_count <= most]
    alone = [batch for batch in batches if batch.record_count > most]
    parts = []
    if beside:
        fast, refused = _side_by_side(partition, beside)
        parts.append(fast)
        alone += [beside[number] for number in refused]
    if alone:
        parts.append(_one_by_one(partition, alone))
    if len(parts) == 1:
        return parts
    both = pa.Table.from_batches(parts, schema=RAW)
    in_order = np.argsort(both.column("offset").to_numpy(), kind="stable")
    return both.take(pa.array(in_order)).combine_chunks().to_batches()  # type: ignore[no-any-return]


class _Walk:
    """What is found about each record, batch after batch."""

    def __init__(self, counts: Positions) -> None:
        self.first = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(counts, out=self.first[1:])
        self.fields = np.zeros((6, int(self.first[-1])), dtype=np.int64)

    def step(self, active: Positions, place: int, cursor: Cursor) -> None:
        length = _zigzag(cursor)
        stop = cursor.at + length
        cursor.skip(1)
        timestamp, delta = _zigzag(cursor), _zigzag(cursor)
        key, key_length = _field(cursor)
        value, value_length = _field(cursor)
        headers = cursor.uvarint()
        at = self.first[active] + place
        previous = self.fields[1, at - 1] if place else -1
        cursor.fail((cursor.at != stop) | (headers != 0) | (delta <= previous))
        for row, found in zip(self.fields, (timestamp, delta, key, key_length, value, value_length), strict=True):
            row[at] = found


def _zigzag(cursor: Cursor) -> Positions:
    found = cursor.uvarint()
    return (found >> 1) ^ -(found & 1)


def _field(cursor: Cursor) -> tuple[Positions, Positions]:
    """(start, length or -1) of a key or a value."""
    length = _zigzag(cursor)
    cursor.fail(length < -1)
    length = np.where(cursor.end < 0, -1, length)
    start = cursor.at
    cursor.skip(np.maximum(length, 0))
    return start, length


def _side_by_side(partition: int, batches: list[Batch]) -> tuple[pa.RecordBatch, list[int]]:
    """(the records of all batches but some, the numbers of those)."""
    header = np.array([batch[:-1] for batch in batches], dtype=np.int64)
    attributes, counts = header[:, 5], header[:, 12]
    codec = attributes & CODEC_MASK
    bodies = [
        batch.data if not number else decompress(number, batch.data[HEADER.size :], limit=MAX_UNCOMPRESSED)
        for number, batch in zip(codec.tolist(), batches, strict=True)
    ]
    buffer = Buffer(b"".join(bodies))
    end = np.cumsum([len(body) for body in bodies])
    start = np.append(0, end[:-1]) + np.where(codec == 0, HEADER.size, 0)
    cursor = Cursor.over(buffer, start, end)
    cursor.fail(counts > end - start)
    walk = _Walk(np.where(cursor.bad, 0, counts))
    cursor.lockstep(np.where(cursor.bad, 0, counts), walk.step)
    last = np.maximum(walk.first[1:] - 1, 0)
    if walk.fields.shape[1]:
        cursor.fail((counts > 0) & (walk.fields[1, last] > header[:, 6]))
    cursor.fail((cursor.at != cursor.end) & (cursor.end >= 0))
    good = ~cursor.bad
    of_batch = np.repeat(np.arange(len(batches)), np.diff(walk.first))
    chosen = good[of_batch]
    of_batch = of_batch[chosen]
    return _record_batch(partition, batches, header, buffer, of_batch, walk.fields[:, chosen]), np.nonzero(~good)[
        0
    ].tolist()


def _record_batch(
    partition: int, batches: list[Batch], header: Positions, buffer: Buffer, of_batch: Positions, fields: Positions
) -> pa.RecordBatch:
    each = header[of_batch]
    attributes = each[:, 5]
    control = (attributes & CONTROL) != 0
    timestamp = np.where(attributes & LOG_APPEND_TIME, each[:, 8], each[:, 7] + fields[0])
    nothing = np.zeros(0, dtype=np.int64)
    whole = Cursor.over(buffer, nothing, nothing)
    columns = [
        np.full(len(each), partition, dtype=np.int32),
        each[:, 0] + fields[1],
        timestamp,
        whole.cut(fields[2], np.where(control, -1, fields[3])),
        whole.cut(fields[4], np.where(control, -1, fields[5])),
        each[:, 2].astype(np.int32),
        each[:, 9],
        each[:, 10].astype(np.int16),
        (attributes & TRANSACTIONAL) != 0,
        control,
        _markers(batches, of_batch, control),
    ]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=RAW)


def _markers(batches: list[Batch], of_batch: Positions, control: npt.NDArray[np.bool_]) -> pa.Array:
    found = np.full(len(of_batch), -1, dtype=np.int8)
    for at in np.nonzero(control)[0].tolist():
        marker = batches[of_batch[at]].marker
        found[at] = -1 if marker is None else int(marker.commit)
    return pa.array(found, mask=found < 0)


def _one_by_one(partition: int, batches: list[Batch]) -> pa.RecordBatch:
    records = [batch.records for batch in batches]
    counts = [len(each) for each in records]
    rows = list(chain.from_iterable(records))
    offsets, timestamps, keys, values = zip(*(row[:4] for row in rows), strict=True) if rows else ((), (), (), ())

    def each(of_batch: list[Any]) -> list[Any]:
        return list(chain.from_iterable(map(repeat, of_batch, counts)))

    hidden = each([batch.is_control for batch in batches])
    markers = [batch.marker if batch.is_control else None for batch in batches]
    columns = [
        [partition] * len(rows),
        offsets,
        timestamps,
        [None if control else key for key, control in zip(keys, hidden, strict=True)],
        [None if control else value for value, control in zip(values, hidden, strict=True)],
        each([batch.leader_epoch for batch in batches]),
        each([batch.producer_id for batch in batches]),
        each([batch.producer_epoch for batch in batches]),
        each([batch.transactional for batch in batches]),
        hidden,
        each([None if marker is None else int(marker.commit) for marker in markers]),
    ]
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, RAW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RAW)
