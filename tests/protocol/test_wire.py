"""Headers and frames."""

import pytest

from kgm.model.errors import DecodeError
from kgm.protocol import wire
from kgm.protocol.messages.api_versions_request import ApiVersionsRequest
from kgm.protocol.messages.api_versions_response import ApiVersionsResponse
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from tests.protocol.request_frames import decode_request


def test_request_header_v1_by_hand():
    frame = wire.encode_request(
        HeartbeatRequest(group_id="g", member_id="m"), version=0, correlation_id=7, client_id="c"
    )
    assert frame == b"\0\x0c\0\0\0\0\0\x07\0\x01c" + b"\0\x01g\0\0\0\0\0\x01m"
    decoded = decode_request(frame)
    assert (decoded.api_key, decoded.version, decoded.correlation_id, decoded.client_id) == (12, 0, 7, "c")
    assert decoded.message.group_id == "g"


def test_request_header_v2_has_tags_and_a_client_id_that_is_never_compact():
    frame = wire.encode_request(HeartbeatRequest(group_id="g"), version=4, correlation_id=1, client_id=None)
    assert frame.startswith(b"\0\x0c\0\x04\0\0\0\x01\xff\xff\0\x02g")
    assert decode_request(frame).client_id is None


def test_trailing_bytes_of_a_request_are_tolerated():
    frame = wire.encode_request(HeartbeatRequest(), version=4, correlation_id=1, client_id="c")
    assert decode_request(frame + b"\0\0\0").message == HeartbeatRequest()


@pytest.mark.parametrize("version", [0, 4])
def test_responses_round_trip(version):
    frame = wire.encode_response(HeartbeatResponse(error_code=27), version=version, correlation_id=9)
    assert wire.decode_response(HeartbeatResponse, frame, version=version) == (9, HeartbeatResponse(error_code=27))


def test_api_versions_responses_never_have_tags_in_the_header():
    """KIP-511: the client cannot know yet what the broker speaks."""
    frame = wire.encode_response(ApiVersionsResponse(error_code=35), version=3, correlation_id=1)
    assert frame[:6] == b"\0\0\0\x01\0\x23"
    request = wire.encode_request(ApiVersionsRequest(), version=3, correlation_id=1, client_id="c")
    assert request[11:12] == b"\0"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0",
        b"\0\x0c\0\0\0\0\0\x07",
        b"\0\x0c\0\0\0\0\0\x07\0\x7fc",
        b"\0\x0c\0\0\0\0\0\x07\x80\0",
        b"\0\x0c\0\0\0\0\0\x07\0\x01\xff",
    ],
)
def test_broken_request_headers(frame):
    with pytest.raises(DecodeError):
        decode_request(frame)


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\x01", b"\0\0\0\x01\x05"])
def test_broken_responses(frame):
    with pytest.raises(DecodeError):
        wire.decode_response(HeartbeatResponse, frame, version=4)


def test_an_unknown_api_is_a_decode_error_but_its_header_is_read():
    frame = b"\x03\xe7\0\0\0\0\0\x07\0\x01c"
    assert wire.decode_request_header(frame).api_key == 999
    with pytest.raises(DecodeError, match="999"):
        decode_request(frame)


def test_framed():
    assert wire.framed(b"abc") == b"\0\0\0\x03abc"
