"""The codec's own rules; that its bytes are Kafka's is held against the JVM in test_java_oracle.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgm.model.errors import DecodeError, EncodeError
from kgm.protocol import codec, primitives
from kgm.protocol.apis import API, ApiKey, request_class, response_class
from kgm.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.records.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)

MESSAGES = [cls for key in API for cls in (request_class(key), response_class(key))]
EVERY = [(cls, version) for cls in MESSAGES for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1)]


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_defaults_survive_and_every_truncation_is_a_decode_error(cls):
    for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
        data = codec.encode(cls(), version)
        assert codec.decode(cls, data, version) == cls()
        for cut in range(len(data)):
            with pytest.raises(DecodeError):
                codec.decode(cls, data[:cut], version)
        with pytest.raises(DecodeError, match="left over"):
            codec.decode(cls, data + b"\0", version)
        assert codec.decode(cls, data + b"\0\0\0", version, allow_trailing=True) == cls()


def test_leave_group_v3_bytes_by_hand():
    """KIP-345's batch: group "g", two members, one by instance id with an empty member id."""
    message = LeaveGroupRequest(
        group_id="g", members=[MemberIdentity(member_id="", group_instance_id="i"), MemberIdentity(member_id="m")]
    )
    data = b"\0\x01g\0\0\0\x02\0\0\0\x01i\0\x01m\xff\xff"
    assert codec.encode(message, 3) == data
    assert codec.decode(LeaveGroupRequest, data, 3) == message


def test_flexible_bytes_by_hand():
    message = LeaveGroupRequest(
        group_id="g", members=[MemberIdentity(member_id="m", group_instance_id=None, reason="r")]
    )
    data = b"\x02g\x02\x02m\0\x02r\0\0"
    assert codec.encode(message, 5) == data
    assert codec.decode(LeaveGroupRequest, data, 5) == message


def test_unknown_tags_are_kept():
    data = b"\x02g\x01\x02\x07\x02hi\x09\x00"
    message = codec.decode(LeaveGroupRequest, data, 5)
    assert message.unknown_tags == ((7, b"hi"), (9, b""))
    assert codec.encode(message, 5) == data


@pytest.mark.parametrize(
    "tags", [b"\x02\x09\x00\x07\x00", b"\x02\x07\x00\x07\x00", b"\x01\x07\x05hi", b"\xff\xff\xff\xff\x7f"]
)
def test_bad_tag_sections(tags):
    with pytest.raises(DecodeError):
        codec.decode(LeaveGroupRequest, b"\x02g\x01" + tags, 5)


def test_an_explicit_null_struct_is_a_tag_of_one_zero_byte():
    """A consumer-protocol member's record: Kafka writes tag 0, size 1, byte 0 (the default is an *empty* struct)."""
    value = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    data = codec.encode(value, 0)
    assert data.endswith(b"\x01\x00\x01\x00")
    assert codec.decode(ConsumerGroupMemberMetadataValue, data, 0) == value
    full = ConsumerGroupMemberMetadataValue(classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=9))
    assert codec.decode(ConsumerGroupMemberMetadataValue, codec.encode(full, 0), 0) == full
    assert codec.encode(ConsumerGroupMemberMetadataValue(), 0).endswith(b"\0")


def test_a_field_that_the_version_lacks_is_refused_unless_ignorable():
    with pytest.raises(EncodeError, match="group_instance_id"):
        codec.encode(JoinGroupRequest(group_instance_id="i"), 4)
    assert codec.encode(JoinGroupRequest(reason="r"), 7) == codec.encode(JoinGroupRequest(), 7)


@pytest.mark.parametrize(
    "message",
    [
        LeaveGroupRequest(group_id=None),
        LeaveGroupRequest(group_id="x" * 40_000),
        LeaveGroupRequest(group_id="\ud800"),
        LeaveGroupRequest(members=None),
        JoinGroupRequest(session_timeout_ms=2**31),
        JoinGroupRequest(protocols=[JoinGroupRequestProtocol(metadata="text")]),
    ],
)
def test_what_has_no_bytes_is_an_encode_error(message):
    with pytest.raises(EncodeError):
        codec.encode(message, 5)


def test_versions_outside_the_table():
    with pytest.raises(EncodeError, match="versions 0 to 5"):
        codec.encode(LeaveGroupRequest(), 6)
    with pytest.raises(DecodeError):
        codec.decode(LeaveGroupRequest, b"", -1)


def test_a_count_that_the_bytes_cannot_hold_is_refused_before_anything_is_made():
    huge = b"\0\0\0\0" + b"\x7f\xff\xff\xff"
    with pytest.raises(DecodeError, match="bytes are left"):
        codec.decode(DescribeGroupsResponse, huge, 1)


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_uvarint_round_trip(value):
    data = primitives.uvarint(value)
    assert primitives.read_uvarint(data, 0) == (value, len(data))
    assert 1 <= len(data) <= 5


@pytest.mark.parametrize("value", [-1, 2**32])
def test_uvarint_bounds(value):
    with pytest.raises(ValueError, match="unsigned varint"):
        primitives.uvarint(value)


@pytest.mark.parametrize("data", [b"\xff" * 6, b"\xff\xff\xff\xff\x1f", b"\x80"])
def test_overlong_uvarints(data):
    with pytest.raises((primitives.Malformed, IndexError)):
        primitives.read_uvarint(data, 0)


@given(st.binary(max_size=60), st.sampled_from(EVERY))
def test_random_bytes_give_a_message_or_a_decode_error(data, pair):
    cls, version = pair
    try:
        message = codec.decode(cls, data, version)
    except DecodeError:
        return
    assert codec.decode(cls, codec.encode(message, version), version) == message


def test_repr_and_equality():
    group = DescribedGroup(group_id="g")
    assert group == DescribedGroup(group_id="g")
    assert group != DescribedGroup(group_id="h")
    assert group != "g"
    assert "group_id='g'" in repr(group)


def test_api_names_are_those_of_the_table():
    assert {key.value for key in ApiKey} == set(API)
    for key in ApiKey:
        assert key.name.replace("_", "").lower() == API[key].name.lower()
    with pytest.raises(DecodeError, match="API key 999"):
        request_class(999)
