"""The message oracle answers as Kafka's own classes."""

import pytest

from tests.kafka.oracle import OracleError

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_request_by_hand(oracle):
    heartbeat = b"\0\1g" + b"\0\0\0\5" + b"\0\1m"
    assert oracle.roundtrip("HeartbeatRequest", 0, heartbeat) == heartbeat
    value = {"groupId": "g", "generationId": 5, "memberId": "m"}
    assert oracle.to_json("HeartbeatRequestData", 0, heartbeat) == value
    assert oracle.from_json("HeartbeatRequest", 0, value) == heartbeat


def test_records_and_consumer_protocol(oracle):
    assert oracle.from_json("GroupMetadataKey", 0, {"group": "x"}) == b"\0\1x"
    blob = {"topics": ["t"], "userData": None}
    assert oracle.from_json("ConsumerProtocolSubscription", 0, blob) == b"\0\0\0\1\0\1t\xff\xff\xff\xff"


def test_refusals(oracle):
    with pytest.raises(OracleError, match="BufferUnderflow"):
        oracle.roundtrip("HeartbeatRequest", 0, b"\0")
    with pytest.raises(OracleError, match="1 bytes are left over"):
        oracle.roundtrip("HeartbeatRequest", 0, b"\0\1g\0\0\0\5\0\1m!")
    with pytest.raises(OracleError, match="NoSuchMessage"):
        oracle.roundtrip("NoSuchMessage", 0, b"")
