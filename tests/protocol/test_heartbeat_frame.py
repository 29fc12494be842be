"""Heartbeats that are read without making a message of them are what the codec reads."""

import random
import struct

import pytest

from kgm.model.errors import DecodeError
from kgm.protocol.heartbeat_frame import read_heartbeat
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from kgm.protocol.wire import decode_request, encode_request, encode_response, framed
from tests.selection import sized

CASES = sized(2_000, 20_000)
TEXTS = ["", "a", "orders", "grüße", "x" * 125, "x" * 126, "x" * 127, "y" * 300]


def frame(rng, version):
    def text():
        return rng.choice(TEXTS[1:4] if rng.random() < 0.8 else TEXTS)

    message = HeartbeatRequest(
        group_id=text(),
        generation_id=rng.choice((-1, 0, 7, 2**31 - 1)),
        member_id=text(),
        group_instance_id=rng.choice((None, text())) if version >= 3 else None,
    )
    client_id = rng.choice((None, "", "client", text()))
    return encode_request(message, version=version, correlation_id=rng.randrange(-5, 2**31), client_id=client_id)


def as_the_codec_reads_it(data):
    """What `read_heartbeat` is to return if it does not leave the frame to others; None if that must not be."""
    try:
        request = decode_request(data)
    except DecodeError:
        return None
    message = request.message
    if not isinstance(message, HeartbeatRequest):
        return None
    response = encode_response(HeartbeatResponse(), version=request.version, correlation_id=request.correlation_id)
    return message.group_id, message.generation_id, message.member_id, message.group_instance_id, framed(response)


def mutilated(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    cut = rng.choice((len(data), len(data), rng.randrange(len(data) + 1)))
    return bytes(data[:cut]) + rng.choice((b"", b"", b"\0\0", b"trailing"))


def test_what_is_read_is_what_the_codec_reads():
    rng, read = random.Random(20261124), 0
    for _ in range(CASES):
        data = mutilated(rng, frame(rng, rng.choice((0, 1, 2, 3, 3, 3, 4, 4, 4))))
        prefix = rng.choice((b"", b"abcd"))
        found = read_heartbeat(prefix + data, len(prefix))
        if found is not None:
            assert found == as_the_codec_reads_it(data), data
            read += 1
    assert read > CASES / 5


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("client_id", [None, "", "client"])
@pytest.mark.parametrize("instance_id", [None, "", "i-1"])
def test_heartbeats_of_real_clients_are_read(version, client_id, instance_id):
    """Otherwise nothing would be gained."""
    message = HeartbeatRequest(group_id="g", generation_id=3, member_id="m" * 60, group_instance_id=instance_id)
    data = encode_request(message, version=version, correlation_id=9, client_id=client_id)
    assert read_heartbeat(data, 0) == as_the_codec_reads_it(data) is not None


def test_every_frame_that_is_cut_short_is_left_to_others():
    for version in (3, 4):
        message = HeartbeatRequest(group_id="g", generation_id=3, member_id="m", group_instance_id="i")
        data = encode_request(message, version=version, correlation_id=9, client_id="c")
        assert read_heartbeat(data, 0) is not None
        assert all(read_heartbeat(data[:cut], 0) is None for cut in range(len(data)))


def test_text_that_is_not_utf8_is_left_to_others():
    for version in (3, 4):
        message = HeartbeatRequest(group_id="gg", generation_id=3, member_id="mm", group_instance_id="ii")
        data = encode_request(message, version=version, correlation_id=9, client_id="cc")
        assert read_heartbeat(data, 0) is not None
        for text in (b"gg", b"mm", b"ii", b"cc"):
            assert read_heartbeat(data.replace(text, b"\xff\xff"), 0) is None
    assert read_heartbeat(struct.pack(">hhih", 12, 4, 1, -2) + bytes(40), 0) is None
