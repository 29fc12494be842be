"""Segments that a real Kafka wrote, in columns: every record and every transaction as Kafka's own classes read them."""

import base64

import pyarrow as pa
import pytest

from kgm.history.decode.raw import raw_records
from kgm.history.decode.record_tables import decode
from kgm.history.decode.transactions import OUTCOME_NAMES, transaction_outcomes
from kgm.history.schema import RAW
from kgm.protocol.struct import Field
from kgm.records.batch import decode_batches
from kgm.records.record import message_classes
from tests.protocol.cases import struct_differences
from tests.records.real_logs import KINDS, partitions, segment_bytes, truth

#: Java reads a group id that is not UTF-8 with U+FFFD in it, kgm refuses it. No broker can write one.
NOT_UTF8 = b"\x00\x02\x00\x02\xff\xfe"
EVERY = [(kind, partition) for kind in KINDS for partition in partitions(kind)]


def raw_log(kind, partition):
    batches = (batch for data in segment_bytes(kind, partition) for batch in decode_batches(data))
    return raw_records(partition, batches)


def rebuilt(cls, message, value):
    """A message of the scalar codec from a row's dict."""
    found = cls()
    for row in (Field(*row) for row in cls.FIELDS):
        found_value = value[row.name]
        inner = message.STRUCTS.get(row.kind.removeprefix("[]"))
        if inner is not None and found_value is not None:
            many = row.kind.startswith("[]")
            found_value = (
                [rebuilt(inner, message, each) for each in found_value]
                if many
                else rebuilt(inner, message, found_value)
            )
        setattr(found, row.name, found_value)
    return found


def differences(line, kind, row):
    key_class, value_class = message_classes(kind)
    assert line["key"]["type"] == kind
    found = struct_differences(line["key"]["data"], rebuilt(key_class, key_class, row["key"]), key_class, 0, "key")
    value = line["value"]
    if value is None or row["value"] is None:
        return found + ([] if value is row["value"] is row["version"] else [f"{value} is not {row['value']}"])
    if value["version"] != row["version"]:
        found.append(f"version {value['version']} is not {row['version']}")
    mine = rebuilt(value_class, value_class, row["value"])
    return found + struct_differences(value["data"], mine, value_class, value["version"], "value")


@pytest.mark.parametrize(("kind", "partition"), EVERY)
@pytest.mark.slow
def test_every_record_is_what_kafka_reads(kind, partition):
    """Kafka's reading is tests/data/offsets-log/*/truth.jsonl."""
    lines = {line["offset"]: line for line in truth(kind, partition)}
    raw = raw_log(kind, partition)
    decoded = decode(raw)
    assert len(raw) == len(lines)
    for row in raw.filter(raw.column("control")).to_pylist():
        assert lines.pop(row["offset"])["control"]["type"] == ("COMMIT" if row["marker"] else "ABORT")
    for row in decoded.bad.to_pylist():
        line = lines.pop(row["offset"])
        assert "error" in line or row["key"] == NOT_UTF8
        for name in ("key", "value"):
            kept = (line[name] or {}).get("raw")
            assert kept is None or base64.b64decode(kept) == row[name]
    found = []
    for number, table in decoded.records.items():
        for row in table.to_pylist():
            line = lines.pop(row["offset"])
            assert line["timestamp"] == row["timestamp"]
            found += [f"offset {row['offset']}: {each}" for each in differences(line, number, row)]
    assert (found, lines) == ([], {})


@pytest.mark.slow
def test_transactions_end_as_kafka_says():
    """All partitions at once, and shuffled: producers' transactions of one partition are none of another's business."""
    for kind in ("plain", "compacted"):
        raw = pa.concat_tables([raw_log(kind, partition) for partition in partitions(kind)])
        raw = raw.take(pa.array(range(len(raw) - 1, -1, -1)))
        said = {
            (line["partition"], line["offset"]): line.get("txn")
            for partition in partitions(kind)
            for line in truth(kind, partition)
        }
        outcome, marker = transaction_outcomes(raw)
        at = zip(raw.column("partition").to_pylist(), raw.column("offset").to_pylist(), strict=True)
        assert {place: OUTCOME_NAMES[each] for place, each in zip(at, outcome.tolist(), strict=True)} == said
        committed = marker[outcome > 1]
        assert (committed > raw.column("offset").to_numpy()[outcome > 1]).all()


def test_transactions_of_nothing_and_of_records_that_say_nothing():
    assert transaction_outcomes(RAW.empty_table()).outcome.tolist() == []
    rows = [{"partition": 0, "offset": at} for at in range(3)]
    assert transaction_outcomes(pa.Table.from_pylist(rows, schema=RAW)).outcome.tolist() == [0, 0, 0]
