"""Every line that kgm prints of a real log is what Kafka's own JSON converters print (truth.jsonl)."""

import json
import random

import pyarrow as pa
import pytest

from kgm.history.decode.json_text import kafkas_name
from kgm.history.decode.ndjson import lines
from kgm.history.schema import RAW
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record, decode_record, encode_record, message_classes
from kgm.records.record_types import TYPES
from tests.history.decode.test_real_logs import raw_log
from tests.history.decode.test_record_tables import EVERY, raw, record
from tests.protocol.cases import struct_differences
from tests.records.real_logs import KINDS, partitions, truth
from tests.text.hostile import WIRE, hidden


def expected(line):
    """A line of truth.jsonl as kgm prints it, but for the words of an error."""
    found = {name: line[name] for name in ("partition", "offset", "timestamp", "key", "value")}
    if found["value"] is not None and "version" not in found["value"]:
        found["value"] = {"version": None, **found["value"]}
    if "error" in line:
        found["error"] = True
    if "control" in line:
        found["control"] = {"type": line["control"]["type"]}
    if "txn" in line:
        found["txn"] = line["txn"]
    return found


def printed(table, *, all_batches):
    rows = [json.loads(each) for each in lines(table, all_batches=all_batches)]
    for row in rows:
        if "error" in row:
            assert row["error"]
            row["error"] = True
    return rows


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_every_line_is_kafkas(kind):
    """All partitions at once, their records shuffled. That is all 8,396 + 910 + 49 of them, unreadable ones included."""
    whole = pa.concat_tables([raw_log(kind, partition) for partition in partitions(kind)])
    rows = list(range(len(whole)))
    random.Random(kind).shuffle(rows)
    wanted = [expected(line) for partition in partitions(kind) for line in truth(kind, partition)]
    found = printed(whole.take(pa.array(rows)), all_batches=True)
    assert [(a, b) for a, b in zip(found, wanted, strict=True) if a != b] == []
    counted = [row for row in wanted if "control" not in row and row.pop("txn", None) not in ("aborted", "open")]
    assert printed(whole, all_batches=False) == counted
    assert len(counted) < len(wanted) or kind == "synthetic"


@pytest.mark.parametrize(("kind", "version"), EVERY)
def test_every_type_and_version_has_all_that_is_in_it(kind, version):
    """Of random records: nothing but fields at their default is left out, and nothing is made up."""
    rng = random.Random(f"json {kind} {version}")
    pairs = [record(kind, version, rng) for _ in range(10)]
    for line, (key, value) in zip(map(json.loads, lines(raw(pairs))), pairs, strict=True):
        read = decode_record(key, value)
        assert line["key"]["type"] == kind
        key_class, value_class = message_classes(kind)
        assert struct_differences(line["key"]["data"], read.key, key_class, 0) == []
        if value is None:
            assert line["value"] is None
        else:
            assert line["value"]["version"] == version
            assert struct_differences(line["value"]["data"], read.value, value_class, version) == []


@pytest.mark.parametrize("name", WIRE)
def test_a_hostile_name_is_exact_and_escaped(name):
    """In keys and values: nothing that a terminal acts on is printed, and the JSON has the name as it is."""
    key = OffsetCommitKey(group=name, topic=name, partition=1)
    value = OffsetCommitValue(offset=5, metadata=name, commit_timestamp=1)
    (line,) = lines(raw([encode_record(Record(key, value))]))
    assert hidden(line, but="") == []
    data = json.loads(line)
    assert (data["key"]["data"]["group"], data["value"]["data"]["metadata"]) == (name, name)


def test_names_and_nothing():
    assert [kafkas_name(name) for name in ("group", "member_id", "rebalance_timeout_ms")] == [
        "group",
        "memberId",
        "rebalanceTimeoutMs",
    ]
    assert list(lines(RAW.empty_table())) == []
    assert len(TYPES) == 22
