"""The columnar decoder is the scalar one, for every type and version of record, good and bad bytes alike."""

import random
import struct
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgm.history.decode.message_reader import plain
from kgm.history.decode.record_tables import decode
from kgm.history.schema import BAD, RAW, record_schema
from kgm.model.errors import DecodeError
from kgm.protocol import codec
from kgm.protocol.struct import Struct
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.record import Record, decode_record, encode_record, message_classes
from kgm.records.record_types import TYPES
from tests.protocol.cases import FromTables, damaged
from tests.selection import sized

EVERY = [
    (kind, version)
    for kind in TYPES
    for version in range(message_classes(kind)[1].MIN_VERSION, message_classes(kind)[1].MAX_VERSION + 1)
]


def raw(pairs):
    """A table of raw records, offsets counting up."""
    rows = [
        {"partition": 3, "offset": at, "timestamp": 1000 + at, "key": key, "value": value, "leader_epoch": 7}
        for at, (key, value) in enumerate(pairs)
    ]
    return pa.Table.from_pylist(rows, schema=RAW)


def tags_in(value):
    """How many unknown tags a message of the scalar codec holds."""
    if isinstance(value, Struct):
        return len(value.unknown_tags) + sum(tags_in(getattr(value, row[0])) for row in value.FIELDS)
    return sum(map(tags_in, value)) if isinstance(value, list) else 0


def scalar(pairs):
    """{offset: (type, key, version, value, unknown tags)} by the scalar codec, None for what it refuses."""
    found = {}
    for at, (key, value) in enumerate(pairs):
        try:
            record = decode_record(key, value)
        except (DecodeError, TypeError):
            found[at] = None
            continue
        version = None if value is None else struct.unpack_from(">h", value)[0]
        found[at] = record.key.API_KEY, plain(record.key), version, plain(record.value), tags_in(record.value)
    return found


def columnar(pairs):
    decoded = decode(raw(pairs))
    found = {}
    for kind, table in decoded.records.items():
        assert table.schema == record_schema(kind)
        table.validate(full=True)
        for row in table.to_pylist():
            assert (row["partition"], row["timestamp"], row["leader_epoch"]) == (3, 1000 + row["offset"], 7)
            found[row["offset"]] = kind, row["key"], row["version"], row["value"], row["unknown_tags"]
    assert decoded.bad.schema == BAD
    for row in decoded.bad.to_pylist():
        assert (row["key"], row["value"]) == pairs[row["offset"]]
        found[row["offset"]] = None
    return dict(sorted(found.items()))


def record(kind, version, rng):
    """Bytes of a random record."""
    key_class, value_class = message_classes(kind)
    key = struct.pack(">h", kind) + codec.encode(FromTables(key_class, 0, rng).message(), 0)
    if rng.random() < 0.1:
        return key, None
    return key, struct.pack(">h", version) + codec.encode(FromTables(value_class, version, rng).message(), version)


def messed(pair, rng):
    """The same, at times with wrong bytes in it."""
    key, value = pair
    match rng.randint(0, 9):
        case 0:
            return rng.choice(list(damaged(key, rng))), value
        case 1 | 2 | 3:
            return key, None if value is None else rng.choice(list(damaged(value, rng)))
        case 4:
            return key, None if value is None else value + rng.randbytes(3)
    return pair


@pytest.mark.parametrize(("kind", "version"), EVERY)
def test_whole_records_of_each_kind(kind, version):
    rng = random.Random(f"{kind} {version}")
    pairs = [record(kind, version, rng) for _ in range(30)]
    assert columnar(pairs) == scalar(pairs)
    assert None not in scalar(pairs).values()


@pytest.mark.few(12)
@pytest.mark.parametrize(("kind", "version"), EVERY)
@pytest.mark.slow
def test_damaged_records_of_each_kind(kind, version):
    """All of them in one table, so that what is wrong with one must not touch its neighbours."""
    rng = random.Random(f"damaged {kind} {version}")
    pairs = []
    for _ in range(3):
        key, value = record(kind, version, rng)
        pairs += [(each, value) for each in list(damaged(key, rng))[::7]]
        pairs += [(key, each) for each in damaged(value or b"", rng)]
    assert columnar(pairs) == scalar(pairs)


@given(seed=st.integers(0, 2**32), kinds=st.lists(st.sampled_from(EVERY), min_size=1, max_size=25))
@settings(max_examples=sized(6, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.slow
def test_any_mixture_of_records_whole_and_damaged(seed, kinds):
    rng = random.Random(seed)
    pairs = [messed(record(kind, version, rng), rng) for kind, version in kinds]
    assert columnar(pairs) == scalar(pairs)


@given(st.lists(st.tuples(st.binary(max_size=12) | st.none(), st.binary(max_size=40) | st.none()), max_size=20))
@settings(max_examples=sized(6, 100), deadline=None)
@pytest.mark.slow
def test_any_bytes(pairs):
    assert columnar(pairs) == scalar(pairs)


def fleet(rng, groups, size, rounds):
    """Records of groups that change by a member at a time, as brokers write them; so most are laid out alike."""
    fleets = [[member_bytes(rng, f"{group}-{at}") for at in range(size + group % 2)] for group in range(groups)]
    for _ in range(rounds):
        for group, members in enumerate(fleets):
            at = rng.randrange(len(members))
            members[at] = member_bytes(rng, f"{group}-{at}" if rng.random() < 0.8 else "longer" * rng.randrange(9))
            value = GroupMetadataValue(protocol_type="consumer", generation=rng.randrange(9), members=list(members))
            yield encode_record(Record(GroupMetadataKey(group=f"g{group}"), value))


def member_bytes(rng, seat):
    return MemberMetadata(
        member_id=f"{seat}-{rng.randrange(10**9):09d}", group_instance_id=rng.choice([None, seat]), client_id=seat,
        subscription=b"subscription", assignment=rng.randbytes(rng.choice([0, 8, 8, 8])),
    )  # fmt: skip


@pytest.mark.parametrize("harm", [0.0, 0.2])
@pytest.mark.slow
def test_records_that_are_laid_out_alike(harm):
    rng = random.Random(f"alike {harm}")
    pairs = [
        (key, rng.choice(list(damaged(value, rng))) if rng.random() < harm else value)
        for key, value in fleet(rng, 4, 12, 100)
    ]
    assert columnar(pairs) == scalar(pairs)


def test_what_is_refused_is_kept_and_counted():
    rng = random.Random(1)
    good = record(1, 4, rng)[0], record(1, 4, rng)[1] or b"\0\4"
    pairs = [
        (None, b"value"), (b"", None), (b"\0", None), (b"\0\x09key", b"\0\0"), (b"\0\x63", None), (good[0], b"\0\5rest"),
        (good[0], b"\0"), (good[0], b""), (good[0][:-1], None), (good[0], b"\0\4\0"), (b"\0\2\0\2\xff\xfe", None),
    ]  # fmt: skip
    decoded = decode(raw(pairs))
    assert decoded.records[1].num_rows == 0
    assert Counter((row["reason"], row["key_type"], row["value_version"]) for row in decoded.bad.to_pylist()) == Counter({
        ("no key", None, 30305): 1, ("malformed", None, None): 2, ("unknown type", 9, 0): 1, ("unknown type", 99, None): 1,
        ("unknown version", 1, 5): 1, ("malformed", 1, None): 3, ("malformed", 1, 4): 1, ("malformed", 2, None): 1,
    })  # fmt: skip
    assert [(row["key"], row["value"]) for row in decoded.bad.to_pylist()] == pairs
    assert all(decoded.bad.column("error").to_pylist())


def test_chunks_and_slices_change_nothing():
    rng = random.Random(2)
    pairs = [messed(record(*rng.choice(EVERY), rng), rng) for _ in range(60)]
    whole = raw(pairs)
    cut = pa.concat_tables([whole.slice(0, 1), whole.slice(1, 30), whole.slice(31)])
    one, other = decode(whole), decode(cut)
    assert {kind: table.to_pylist() for kind, table in one.records.items()} == {
        kind: table.to_pylist() for kind, table in other.records.items()
    }
    assert one.bad.to_pylist() == other.bad.to_pylist()
    assert decode(whole.slice(0, 0)).records == {}
