"""Turns record batches of a partition into a table of raw records.

The first step finds where records begin: each record's length leads to the next record. In many small batches that is
done side by side, for the j-th records of all of them together; in a large batch, one by one. Then the fields of all
records are read together. A batch with something unusual in it (headers, a varint of more than five bytes, a record of
more than a MiB) goes to the scalar reader, which also reports what is wrong with a batch that does not parse.
`segment_records` likewise reads all headers of a segment together; if one is wrong, `kgm.records.segment.batches`
continues from there and reports the problem."""

import contextlib
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgm.history.decode.vector_cursor import Buffer, Cursor, Positions
from kgm.history.schema import RAW
from kgm.records.batch import (
    ATTRIBUTES_AT,
    BEHIND_LENGTH,
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    HEADER,
    LEAST_RECORD,
    LENGTH,
    LENGTH_AT,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    MAX_OFFSET,
    TRANSACTIONAL,
    Batch,
    checksum_function,
    parse_batch,
)
from kgm.records.compression import CODECS
from kgm.records.segment import BadBatch, FileTail, batches

_CHUNK_BYTES = 16 << 20
_CHUNK_RECORDS = 400_000
#: With fewer batches side by side than this, one step to their next records costs more than finding them one by one.
_WORTH_IT = 400
#: The largest varints of one, two and three bytes.
_VARINT = ((1 << 7) - 1, (1 << 14) - 1, (1 << 21) - 1)
_SLOW_BATCHES = 10_000
#: The fields of HEADER.
_HEADER_KINDS = (
    ">i8", ">i4", ">i4", ">i1", ">u4", ">i2", ">i4", ">i8", ">i8", ">i8", ">i2", ">i4", ">i4",
)  # fmt: skip


def raw_records(partition: int, batches: Iterable[Batch]) -> pa.Table:
    """Every record of the batches by `schema.RAW`, in order, in chunks of about 16 MiB. Raises DecodeError for a batch
    whose records do not parse. Checksums are not verified here: `segment.batches` and `records.batch.decode_batches` do
    that."""
    return pa.Table.from_batches(_chunks(partition, batches), schema=RAW)


def _chunks(partition: int, batches: Iterable[Batch]) -> Iterator[pa.RecordBatch]:
    """The records of the batches, decompressing no more than about one chunk at a time."""
    waiting: list[Batch] = []
    bodies: list[bytes] = []
    size = count = 0
    for batch in batches:
        body = batch.unpacked if batch.attributes & CODEC_MASK else batch.data
        waiting.append(batch)
        bodies.append(body)
        size += len(body)
        count += batch.record_count
        if size >= _CHUNK_BYTES or count >= _CHUNK_RECORDS:
            yield from _chunk(partition, waiting, bodies)
            waiting, bodies, size, count = [], [], 0, 0
    if waiting:
        yield from _chunk(partition, waiting, bodies)


def segment_records(partition: int, file: BinaryIO, size: int, *, from_offset: int = 0) -> Iterator[pa.RecordBatch]:
    """Every record in the first `size` bytes of a segment file with an offset of `from_offset` or higher; all checksums
    are verified. Raises BadBatch, after all records before the bad batch, and DecodeError."""
    position = 0
    while position < size:
        file.seek(position)
        data = file.read(min(_CHUNK_BYTES, size - position))
        starts, end = _whole_batches(data)
        if len(starts) == 0:
            break
        buffer = Buffer(data)
        header = _headers(buffer, starts)
        if not _plausible(header, from_offset):
            break
        if (header[:, 5] & CODEC_MASK).any():
            yield from _chunks(partition, (parse_batch(data, at) for at in starts.tolist()))
        else:
            yield from _in_place(partition, data, buffer, starts, header)
        from_offset = int(header[-1, 0] + header[-1, 6]) + 1
        position += end
    if position < size:
        rest = FileTail(file, position)
        yield from _slowly(partition, rest, size - position, position, from_offset)


def _whole_batches(data: bytes) -> tuple[Positions, int]:
    """(where each whole batch at the beginning of the bytes starts, where the last of them ends), up to the first batch
    with a wrong checksum or an impossible length."""
    edges, at, size = [0], 0, len(data)
    unpack, least = LENGTH.unpack_from, HEADER.size - BEHIND_LENGTH
    while size - at >= HEADER.size:
        length = unpack(data, at + LENGTH_AT)[0]
        at += BEHIND_LENGTH + length
        if length < least or at > size:
            break
        edges.append(at)
    starts = np.array(edges[:-1], dtype=np.int64)
    if len(starts):
        buffer = Buffer(data)
        checked = map(data.__getitem__, map(slice, (starts + ATTRIBUTES_AT).tolist(), edges[1:]))
        checksums = map(checksum_function(), checked)
        good = np.fromiter(checksums, dtype=np.int64, count=len(starts)) == buffer.view(">u4")[starts + CRC_AT]
        good &= buffer.view(">i1")[starts + MAGIC_AT] == MAGIC
        if not good.all():
            starts = starts[: int(np.argmin(good))]
    return starts, edges[len(starts)]


def _headers(buffer: Buffer, starts: Positions) -> Positions:
    """The fields of HEADER, one row for each batch."""
    header = np.empty((len(starts), len(_HEADER_KINDS)), dtype=np.int64)
    at = starts
    for column, letters in enumerate(_HEADER_KINDS):
        header[:, column] = buffer.view(letters)[at]
        at = at + int(letters[-1])
    return header


def _plausible(header: Positions, from_offset: int) -> bool:
    """Whether `parse_batch` and `batches` would accept the headers; length and checksum are checked elsewhere."""
    base, last, count = header[:, 0], header[:, 6], header[:, 12]
    least = np.append(from_offset, base[:-1] + last[:-1] + 1)
    # Beyond the highest offset the sums overflow, so nothing is added here.
    wrong = (
        (base < least)
        | (base > MAX_OFFSET - 1 - last)
        | (count < 0)
        | (count > last + 1)
        | ((header[:, 5] & CODEC_MASK) >= len(CODECS))
    )
    return not wrong.any()


def _in_place(
    partition: int, data: bytes, buffer: Buffer, starts: Positions, header: Positions
) -> list[pa.RecordBatch]:
    """The records of batches without compression."""
    ends = starts + BEHIND_LENGTH + header[:, 1]
    here = np.nonzero((header[:, 5] & CONTROL) == 0)[0]
    walked, refused = _walk(partition, buffer, starts[here] + HEADER.size, ends[here], header[here], [])
    there = np.ones(len(starts), dtype=np.bool_)
    there[here] = False
    there[here[refused]] = True
    others = [parse_batch(data, at) for at in starts[there].tolist()]
    return _in_order([walked, *(_chunk(partition, others, [each.data for each in others]) if others else [])])


def _slowly(partition: int, rest: FileTail, size: int, position: int, from_offset: int) -> Iterator[pa.RecordBatch]:
    waiting = []
    bad = None
    try:
        for _, batch in batches(rest, size, from_offset=from_offset):
            waiting.append(batch)
            if len(waiting) == _SLOW_BATCHES:
                yield from _chunks(partition, waiting)
                waiting = []
    except BadBatch as error:
        bad = BadBatch(position + error.position, error.message, whole=error.whole)
    yield from _chunks(partition, waiting)
    if bad is not None:
        raise bad


def _most(counts: Positions) -> int:
    """The largest record count with which a batch is still read side by side with others."""
    by_size = np.sort(counts)[::-1]
    return int(by_size[_WORTH_IT - 1]) if len(by_size) >= _WORTH_IT else 0


def _in_order(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    parts = [part for part in parts if len(part)]
    if len(parts) < 2:
        return parts
    both = pa.Table.from_batches(parts, schema=RAW)
    in_order = np.argsort(both.column("offset").to_numpy(), kind="stable")
    return both.take(pa.array(in_order)).combine_chunks().to_batches()  # type: ignore[no-any-return]


def _chunk(partition: int, batches: list[Batch], bodies: list[bytes]) -> list[pa.RecordBatch]:
    """bodies: the bytes of each batch, or the decompressed records of a compressed one."""
    fast, refused = _side_by_side(partition, batches, bodies)
    parts = [fast]
    if refused:
        parts.append(_one_by_one(partition, [batches[number] for number in refused]))
    return _in_order(parts)


class _Layout:
    """Where each record begins, batch after batch. This is only a guess, which reading the fields confirms or
    refutes."""

    def __init__(self, counts: Positions) -> None:
        self.first = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(counts, out=self.first[1:])
        self.start = np.zeros(int(self.first[-1]), dtype=np.int64)

    def step(self, active: Positions, place: int, cursor: Cursor) -> None:
        """Side by side: note the next record of each batch."""
        self.start[self.first[active] + place] = cursor.at
        length = _zigzag(cursor)
        cursor.fail(length < 0)
        cursor.skip(length)

    def scan(self, number: int, start: int, data: bytes) -> None:
        """Note the records of one batch, which start at `start` in the buffer."""
        first, stop = self.first[number : number + 2].tolist()
        found = _starts(data, stop - first)
        self.start[first : first + len(found)] = found
        self.start[first:stop] += start


def _starts(data: bytes, count: int) -> list[int]:
    """The offsets at which consecutive records begin; fewer than `count` if the bytes are invalid. Straight-line code:
    this is all that is done record by record."""
    starts: list[int] = []
    note = starts.append
    one, two, three = _VARINT
    at = 0
    with contextlib.suppress(IndexError):
        for _ in range(count):
            size = data[at]
            note(at)
            if size > one:
                size += (data[at + 1] - 1) << 7
                at += 1
                if size > two:
                    size += (data[at + 1] - 1) << 14
                    at += 1
                    if size > three:
                        break
            at += 1 + (size >> 1)
    return starts


def _zigzag(cursor: Cursor) -> Positions:
    encoded = cursor.uvarint()
    return (encoded >> 1) ^ -(encoded & 1)


def _field(cursor: Cursor) -> tuple[Positions, Positions]:
    """(start, length or -1) of a key or a value."""
    length = _zigzag(cursor)
    cursor.fail(length < -1)
    length = np.where(cursor.end < 0, -1, length)
    start = cursor.at
    cursor.skip(np.maximum(length, 0))
    return start, length


def _side_by_side(
    partition: int, batches: list[Batch], bodies: list[bytes]
) -> tuple[pa.RecordBatch, list[int]]:  # fmt: skip
    """(the records of the batches that could be walked, the numbers of the others)."""
    header = np.array([batch[:-1] for batch in batches], dtype=np.int64)
    codec = header[:, 5] & CODEC_MASK
    buffer = Buffer(b"".join(bodies))
    end = np.cumsum([len(body) for body in bodies])
    start = np.append(0, end[:-1]) + np.where(codec == 0, HEADER.size, 0)
    walked, refused = _walk(partition, buffer, start, end, header, batches)
    return walked, refused.tolist()


def _walk(
    partition: int, buffer: Buffer, start: Positions, end: Positions, header: Positions, batches: list[Batch]
) -> tuple[pa.RecordBatch, Positions]:
    """The same, for batches whose records are in one buffer. batches: needed only for markers."""
    whole = Cursor.over(buffer, start, end)
    whole.fail(header[:, 12] * LEAST_RECORD > end - start)
    counts = np.where(whole.bad, 0, header[:, 12])
    layout = _layout(whole, counts)
    of_batch = np.repeat(np.arange(len(header)), counts)
    stop = np.roll(layout.start, -1)
    stop[layout.first[1:][counts > 0] - 1] = end[counts > 0]
    cursor = Cursor(buffer, layout.start, stop, of_batch, whole.bad)
    fields = _fields(cursor, header[of_batch, 6])
    behind = np.zeros(len(of_batch), dtype=np.bool_)
    behind[1:] = (of_batch[1:] == of_batch[:-1]) & (fields[1, 1:] <= fields[1, :-1])
    cursor.fail(behind)
    good = ~whole.bad & ((counts > 0) | (start == end))
    if not good.all():
        chosen = good[of_batch]
        of_batch, fields = of_batch[chosen], fields[:, chosen]
    return _record_batch(partition, batches, header, buffer, of_batch, fields), np.nonzero(~good)[0]


def _layout(cursor: Cursor, counts: Positions) -> _Layout:
    """Where the records begin: small batches are read side by side, each large one by a scan."""
    layout = _Layout(counts)
    most = _most(counts)
    for number in np.nonzero(counts > most)[0].tolist():
        at, end = int(cursor.at[number]), int(cursor.end[number])
        layout.scan(number, at, cursor.buffer.bytes[at:end].tobytes())
    cursor.lockstep(np.where(counts > most, 0, counts), layout.step)
    return layout


def _fields(cursor: Cursor, last_delta: Positions) -> Positions:
    """Timestamp, offset delta, and start and length of key and value for each record, whose fields must fill its bytes
    exactly."""
    length = _zigzag(cursor)
    cursor.fail(cursor.at + length != cursor.end)
    cursor.skip(1)
    timestamp, delta = _zigzag(cursor), _zigzag(cursor)
    key, key_length = _field(cursor)
    value, value_length = _field(cursor)
    headers = cursor.uvarint()
    cursor.fail((cursor.at != cursor.end) | (headers != 0) | (delta < 0) | (delta > last_delta))
    return np.stack((timestamp, delta, key, key_length, value, value_length))


def _record_batch(
    partition: int, batches: list[Batch], header: Positions, buffer: Buffer, of_batch: Positions, fields: Positions
) -> pa.RecordBatch:
    base_offset, epoch, attributes, base_timestamp, max_timestamp, producer, producer_epoch = (
        header[of_batch, column] for column in (0, 2, 5, 7, 8, 9, 10)
    )
    control = (attributes & CONTROL) != 0
    timestamp = np.where(attributes & LOG_APPEND_TIME, max_timestamp, base_timestamp + fields[0])
    nothing = np.zeros(0, dtype=np.int64)
    whole = Cursor.over(buffer, nothing, nothing)
    columns = [
        np.full(len(of_batch), partition, dtype=np.int32),
        base_offset + fields[1],
        timestamp,
        whole.cut(fields[2], np.where(control, -1, fields[3])),
        whole.cut(fields[4], np.where(control, -1, fields[5])),
        epoch.astype(np.int32),
        producer,
        producer_epoch.astype(np.int16),
        (attributes & TRANSACTIONAL) != 0,
        control,
        _markers(batches, of_batch, control),
    ]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=RAW)


def _markers(batches: list[Batch], of_batch: Positions, control: npt.NDArray[np.bool_]) -> pa.Array:
    markers = np.full(len(of_batch), -1, dtype=np.int8)
    for at in np.nonzero(control)[0].tolist():
        marker = batches[of_batch[at]].marker
        markers[at] = -1 if marker is None else int(marker.commit)
    return pa.array(markers, mask=markers < 0)


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
