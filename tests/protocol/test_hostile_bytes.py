"""No bytes, however wrong, get anything but a message or a DecodeError out of a decoder, nor make it take much memory."""

import itertools
import tracemalloc

import pytest

from kgm.model.errors import DecodeError, EncodeError
from kgm.protocol import codec
from kgm.protocol.subscription import decode_assignment, decode_subscription
from kgm.records.record import decode_record
from kgm.records.record_types import TYPES
from tests.protocol.cases import EVERY, MESSAGES, FromTables, damaged, rng_for
from tests.protocol.request_frames import decode_request
from tests.selection import sized

pytestmark = pytest.mark.slow
CASES = sized(2, 6)
#: Lengths that no message has.
COUNTS = (0x7FFFFFFF, -2, -(2**31))
FILLERS = (b"\0", b"\1", b"\2", b"\0\1", b"\xff\xff\x03", b"\0\0\x20\0")
each = pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)


def decoded(decode, *arguments, **options):
    """What came out, or None for the one error that may."""
    try:
        return decode(*arguments, **options)
    except DecodeError:
        return None


@pytest.mark.few(20)
@each
def test_messages(cls):
    seen = survived = 0
    for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
        rng = rng_for("hostile", cls.__name__, version)
        for _ in range(CASES):
            whole = codec.encode(FromTables(cls, version, rng).message(), version)
            for data in damaged(whole, rng):
                seen += 1
                message = decoded(codec.decode, cls, data, version, allow_trailing=True)
                if message is None:
                    continue
                survived += 1
                try:
                    again = codec.encode(message, version)
                except EncodeError:
                    continue  # a null where Kafka reads but does not write one, or a string above 32,767 bytes
                assert repr(codec.decode(cls, again, version)) == repr(message)  # NaN is not equal to itself
    assert 0 < survived < seen


@pytest.mark.few(25)
@each
def test_memory_stays_in_proportion(cls):
    """64 KiB that claim to be the longest arrays and strings they can be."""
    size = 1 << 16
    for version in {cls.MIN_VERSION, cls.MAX_VERSION}:
        rng = rng_for("memory", cls.__name__, version)
        start = codec.encode(FromTables(cls, version, rng).message(), version)
        for prefix, filler in itertools.product((b"", start[: len(start) // 2]), FILLERS):
            data = (prefix + filler * size)[:size]
            decoded(codec.decode, cls, b"", version)  # compile first
            tracemalloc.start()
            decoded(codec.decode, cls, data, version, allow_trailing=True)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            # One byte becomes one struct of Python objects at worst.
            assert peak < 300 * size, (version, prefix, filler, peak)


@pytest.mark.few(42)
@pytest.mark.parametrize(
    ("cls", "count"),
    sized(list(zip(MESSAGES, itertools.cycle(COUNTS))), list(itertools.product(MESSAGES, COUNTS))),
    ids=lambda value: str(getattr(value, "__name__", value)),
)
def test_a_length_is_checked_before_anything_is_made(cls, count):
    versions = range(cls.MIN_VERSION, cls.MAX_VERSION + 1)
    for version in versions:
        decoded(codec.decode, cls, b"", version)  # compiled before memory is counted
    tracemalloc.start()
    for version in versions:
        length = b"\xff\xff\xff\xff\x07" if version >= cls.FLEXIBLE_FROM else count.to_bytes(4, signed=True)
        for before in range(40):
            decoded(codec.decode, cls, b"\1" * before + length + b"\1" * 40, version)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000


def test_blobs_records_and_frames():
    rng = rng_for("blobs")
    key = b"\0\2\0\5group"
    value = b"\0\3" + b"\0\1c" + b"\0\0\0\1" + b"\0\1r" + b"\0\1l" + b"\0" * 8 + b"\0\0\0\0"
    assert decode_record(key, value).value.generation == 1
    blob = b"\0\1" + b"\0\0\0\1\0\1t" + b"\0\0\0\3abc" + b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\5"
    assert decode_subscription(blob).owned_partitions == {"t": [5]}
    frame = b"\0\x0b\0\5" + b"\0\0\0\1" + b"\0\1c" + b"\0\1g\0\0\0\1\0\0\0\1\0\0\xff\xff\0\1c\0\0\0\0"
    assert decode_request(frame).message.group_id == "g"
    for _ in range(30):
        for data in damaged(key, rng):
            decoded(decode_record, data, value)
        for data in damaged(value, rng):
            decoded(decode_record, key, data)
        for data in damaged(blob, rng):
            decoded(decode_subscription, data)
            decoded(decode_assignment, data)
        for data in damaged(frame, rng):
            decoded(decode_request, data)


@pytest.mark.parametrize("kind", [-1, 9, 18, 24, 32767])
def test_unknown_record_types_are_decode_errors(kind):
    assert kind not in TYPES
    with pytest.raises(DecodeError, match="record type"):
        decode_record(kind.to_bytes(2, signed=True) + b"\0\1g", b"\0\0")


def test_every_version_is_tried():
    assert {cls for cls, _ in EVERY} == set(MESSAGES)
