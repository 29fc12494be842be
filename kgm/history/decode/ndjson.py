"""Raw records as lines of JSON, as `kgm history decode` prints them:

    {"partition", "offset", "timestamp", "key": {"type", "data"}, "value": {"version", "data"} | null}

with key and value as Kafka's own JSON converters print them (`json_text`); text that is not UTF-8 as Java reads it.
Records that cannot be decoded are not left out: `data` is null, `raw` has the bytes in base64, and `error` says why."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.arrow_lists import to_list
from kgm.history.decode.json_text import NULL, base64_text, message_texts, text
from kgm.history.decode.raw_batch import RawBatch, RecordsOfType
from kgm.history.decode.record_order import in_order, partitions_of, pieces
from kgm.history.decode.record_tables import why_refused
from kgm.history.decode.transactions import OUTCOME_NAMES, TransactionOutcome, transaction_outcomes
from kgm.history.decode.vector_cursor import Mask
from kgm.history.schema import RAW
from kgm.records.record import message_classes
from kgm.records.record_types import TYPES


def lines(raw: pa.Table, *, all_batches: bool = False) -> Iterator[str]:
    """A line (without its newline) for each record by `schema.RAW`, by partition and offset; the table can be in any
    order.

    Records of control batches and of transactions that were aborted or are still open are left out, unless
    `all_batches` is set: then markers have "control": {"type": "COMMIT" | "ABORT"} and null for key and value, and
    records of transactions have "txn": "committed" | "aborted" | "open"."""
    raw = raw.select(RAW.names)
    for partition in partitions_of(raw):
        mine = in_order(partition, raw)
        outcome = transaction_outcomes(mine).outcome
        done = 0
        for piece in pieces(mine):
            yield from _piece(piece, outcome[done : done + len(piece)], all_batches=all_batches)
            done += len(piece)


def _piece(raw: pa.RecordBatch, outcome: npt.NDArray[np.int8], *, all_batches: bool) -> Iterator[str]:
    control = pc.fill_null(raw.column("control"), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    if not all_batches:
        shown = ~control & (outcome != TransactionOutcome.ABORTED) & (outcome != TransactionOutcome.OPEN)
        if not shown.all():
            raw = raw.filter(pa.array(shown))
            control, outcome = control[shown], outcome[shown]
    ends = _contents(raw, control)
    if all_batches:
        for row in np.nonzero(outcome)[0].tolist():
            ends[row] = f'{ends[row][:-1]},"txn":"{OUTCOME_NAMES[outcome[row]]}"}}'
    places = (to_list(raw.column(name)) for name in ("partition", "offset", "timestamp"))
    for partition, offset, timestamp, rest in zip(*places, ends, strict=True):
        when = NULL if timestamp is None else timestamp
        yield f'{{"partition":{partition},"offset":{offset},"timestamp":{when},{rest}'


def _contents(raw: pa.RecordBatch, control: Mask) -> list[str]:
    """The part of each line after the timestamp."""
    batch = RawBatch(raw, lenient=True)
    contents: list[str] = [""] * len(raw)
    for kind in batch.types():
        if kind in TYPES:
            records = batch.read(kind)
            good = records.rows[records.readable]
            for row, content in zip(good.tolist(), _decoded(kind, batch, records), strict=True):
                contents[row] = content
            for number in np.nonzero((records.key_of >= 0) & ~records.readable)[0].tolist():
                row = int(records.rows[number])
                contents[row] = _value_refused(kind, records, number, batch, row)
    for row, content in enumerate(contents):
        if not content:
            contents[row] = _marker(raw, row) if control[row] else _refused(batch, row)
    return contents


def _decoded(kind: int, batch: RawBatch, records: RecordsOfType) -> list[str]:
    key_class, value_class = message_classes(kind)
    keys = [f'"key":{{"type":{kind},"data":{each}}},"value":' for each in message_texts(key_class, 0, records.keys)]
    values: list[str] = []
    versions = batch.version[records.rows]
    # The parts are by version, in ascending order.
    bounds = np.append(0, np.cumsum([len(part) for part in records.values]))
    for number, part in enumerate(records.values):
        if len(part):
            one = int(np.nonzero(records.value_of == bounds[number])[0][0])
            version = int(versions[one])
            shape = f'{{"version":{version},"data":%s}}}}'
            values += map(shape.__mod__, message_texts(value_class, version, part))
    values.append(NULL + "}")
    good = records.readable
    of_key, of_value = records.key_of[good].tolist(), records.value_of[good].tolist()
    return [keys[key] + values[value] for key, value in zip(of_key, of_value, strict=True)]


def _value_refused(kind: int, records: RecordsOfType, number: int, batch: RawBatch, row: int) -> str:
    key_class, _ = message_classes(kind)
    key = message_texts(key_class, 0, records.keys.slice(int(records.key_of[number]), 1))[0]
    return f'"key":{{"type":{kind},"data":{key}}},"value":{_raw_value(batch, row)},"error":{_error(batch, row)}}}'


def _refused(batch: RawBatch, row: int) -> str:
    key = batch.keys[row].as_py()
    kind = batch.key_type[row] if batch.has_type[row] else NULL
    shown = NULL if key is None else f'{{"type":{kind},"data":null,"raw":{base64_text(key)}}}'
    return f'"key":{shown},"value":{_raw_value(batch, row)},"error":{_error(batch, row)}}}'


def _raw_value(batch: RawBatch, row: int) -> str:
    value = batch.values[row].as_py()
    if value is None:
        return NULL
    version = batch.version[row] if batch.has_version[row] else NULL
    return f'{{"version":{version},"data":null,"raw":{base64_text(value)}}}'


def _error(batch: RawBatch, row: int) -> str:
    return text(why_refused(batch.keys[row].as_py(), batch.values[row].as_py())[1])


def _marker(raw: pa.RecordBatch, row: int) -> str:
    marker = raw.column("marker")[row].as_py()
    control = NULL if marker is None else f'{{"type":"{"COMMIT" if marker else "ABORT"}"}}'
    return f'"key":null,"value":null,"control":{control}}}'
