"""Version 1 of a subscription that ends before the owned partitions, as kafka-go 0.4.51 and @platformatic/kafka 1.35.0
write it."""

import pyarrow as pa
import pytest

from kgm.history.decode.subscriptions import subscriptions
from kgm.model.errors import DecodeError
from kgm.protocol.subscription import Subscription, decode_subscription, encode_subscription

# Version 1, the topics "orders" and "a", user data null; nothing behind it.
SHORT = bytes.fromhex("0001 00000002 0006 6f7264657273 0001 61 ffffffff")


def test_it_is_read_as_owning_nothing_that_is_said():
    read = decode_subscription(SHORT)
    assert (read.topics, read.user_data, read.version) == (("orders", "a"), None, 1)
    assert (read.owned_partitions, read.says_owned) == ({}, False)
    assert encode_subscription(read) == SHORT
    assert decode_subscription(SHORT + bytes(4)) == Subscription(topics=("orders", "a"), version=1)


@pytest.mark.parametrize("cut", [SHORT[:-1], SHORT + b"\0", SHORT + bytes(3), SHORT + b"\0\0\0\1"])
def test_what_is_cut_off_elsewhere_is_refused(cut):
    with pytest.raises(DecodeError):
        decode_subscription(cut)


@pytest.mark.parametrize("version", [2, 3])
def test_later_versions_may_not_end_there(version):
    with pytest.raises(DecodeError):
        decode_subscription(version.to_bytes(2) + SHORT[2:])


def test_a_history_reads_the_same():
    blobs = [SHORT, SHORT[:-1], SHORT + b"\0", b"\0\2" + SHORT[2:], b"\0\0" + SHORT[2:], SHORT + bytes(4), SHORT]
    found = subscriptions(pa.array(blobs, type=pa.binary()))
    topics = [None if row is None else row["topics"] for row in found.messages.to_pylist()]
    read = ["orders", "a"]
    assert topics == [read, None, None, None, read, read, read]
    assert found.failed.tolist() == [False, True, True, True, False, False, False]
    assert subscriptions(pa.array([SHORT], type=pa.binary())).messages.to_pylist()[0]["owned_partitions"] == []
