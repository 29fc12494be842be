"""Consumer protocol blobs, KIP-792's generation among them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgm.model.errors import DecodeError
from kgm.protocol.subscription import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

V2 = b"\0\x02\0\0\0\x01\0\x01t\xff\xff\xff\xff\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x05\0\0\0\x09"


def test_version_2_carries_the_generation():
    subscription = Subscription(topics=("t",), owned_partitions={"t": [5]}, generation_id=9, version=2)
    assert encode_subscription(subscription) == V2
    assert decode_subscription(V2) == subscription


@pytest.mark.parametrize(("version", "owned", "generation"), [(0, {}, -1), (1, {"t": [5]}, -1), (2, {"t": [5]}, 9)])
def test_older_versions_leave_out_what_they_cannot_say(version, owned, generation):
    data = encode_subscription(
        Subscription(topics=("t",), owned_partitions={"t": [5]}, generation_id=9, version=version)
    )
    decoded = decode_subscription(data)
    assert (decoded.owned_partitions, decoded.generation_id, decoded.version) == (owned, generation, version)


def test_a_newer_version_is_read_by_the_prefix_that_is_known():
    data = b"\0\x09" + encode_subscription(Subscription(topics=("t",), rack_id="r"))[2:] + b"future"
    decoded = decode_subscription(data)
    assert (decoded.version, decoded.topics, decoded.rack_id) == (9, ("t",), "r")


def test_a_topic_that_stands_twice_is_merged():
    """librdkafka leaders write one."""
    data = b"\0\0\0\0\0\x02\0\x01t\0\0\0\x01\0\0\0\x02\0\x01t\0\0\0\x01\0\0\0\x01\xff\xff\xff\xff"
    assert decode_assignment(data).partitions == {"t": [1, 2]}


def test_no_bytes_mean_nothing_assigned():
    assert decode_assignment(b"") == MemberAssignment()


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff\0\0", b"\0\0\0\0\0\x09", V2[:-1]])
def test_broken_blobs(data):
    with pytest.raises(DecodeError):
        decode_subscription(data)
    if data:
        with pytest.raises(DecodeError):
            decode_assignment(data)


names = st.text(min_size=1, max_size=8)
partitions = st.dictionaries(
    names, st.lists(st.integers(0, 2**31 - 1), unique=True, min_size=1, max_size=4).map(sorted), max_size=3
)


@given(
    st.lists(names, max_size=3),
    partitions,
    st.integers(-1, 2**31 - 1),
    st.none() | names,
    st.none() | st.binary(max_size=9),
)
def test_round_trip(topics, owned, generation, rack, user_data):
    subscription = Subscription(
        topics=tuple(topics), owned_partitions=owned, generation_id=generation, rack_id=rack, user_data=user_data
    )
    assert decode_subscription(encode_subscription(subscription)) == subscription
    assignment = MemberAssignment(partitions=owned, user_data=user_data)
    assert decode_assignment(encode_assignment(assignment)) == assignment
