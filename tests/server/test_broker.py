"""A broker without its sockets: which requests it serves, and which end the connection."""

import struct

import pytest

from kgm.protocol.apis import API, ApiKey, request_class
from kgm.protocol.messages.api_versions_request import ApiVersionsRequest
from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.wire import encode_request
from kgm.server.contract.exchange import CloseConnection, ResponseFrame
from kgm.server.contract.limits import Limits
from tests.server.broker_driver import Driver

SERVED = {key: info for key, info in API.items() if key in Driver().broker._handlers}
EVERY_VERSION = [(key, v) for key, info in SERVED.items() for v in range(info.min_version, info.max_version + 1)]


@pytest.mark.few(20)
@pytest.mark.parametrize(("key", "version"), EVERY_VERSION, ids=[f"{SERVED[k].name}-v{v}" for k, v in EVERY_VERSION])
def test_every_version_that_is_listed_is_answered(key, version):
    """An all-defaults request is odd, but each has an answer that can be encoded at its version."""
    driver = Driver()
    message = (
        ApiVersionsRequest(client_software_name="kgm", client_software_version="1.0")
        if key == ApiKey.API_VERSIONS
        else request_class(key)()
    )
    ticket = driver.send(message, version=version)
    if key == ApiKey.PRODUCE:  # acks 0
        assert driver.events
    else:
        driver.answer(ticket)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\3",
        b"\xff" * 40,
        struct.pack(">hhih", 3, 1, 1, 9) + b"short",
        struct.pack(">hhih", 3, 1, 1, -2),
        struct.pack(">hhih", 3, 1, 1, 1) + b"\xff" + struct.pack(">i", 0),
        struct.pack(">hhih", 4, 0, 1, -1),  # LeaderAndIsr
        struct.pack(">hhih", 76, 0, 1, -1) + b"\0",  # ShareGroupHeartbeat
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", 3, 14, 1, -1),
        struct.pack(">hhih", 3, -1, 1, -1),
        struct.pack(">hhih", 8, 1, 1, -1),
        struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", 0x7FFFFFFF),
        struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", -2),
        struct.pack(">hhih", 3, 12, 1, -1) + b"\0\xff\xff\xff\xff\x0f",
    ],
)
def test_what_cannot_be_read_ends_the_connection(frame):
    driver = Driver()
    event = driver.events[driver.frame(frame)]
    assert isinstance(event, CloseConnection)
    assert event.reason


def test_trailing_bytes_are_ignored():
    driver = Driver()
    frame = encode_request(MetadataRequest(topics=None), version=12, correlation_id=1, client_id="librdkafka")
    assert isinstance(driver.events[driver.frame(frame + b"\0\0\0")], ResponseFrame)


def test_a_request_with_too_many_entries_is_hung_up_on():
    driver = Driver(limits=Limits(max_items=100))
    topics = [MetadataRequestTopic(name=f"t{n}") for n in range(101)]
    assert isinstance(driver.events[driver.send(MetadataRequest(topics=topics))], CloseConnection)
    parts = [OffsetCommitRequestPartition(partition_index=n) for n in range(100)]
    commit = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=parts)])
    assert isinstance(driver.events[driver.send(commit, version=9)], CloseConnection)
    assert isinstance(driver.events[driver.send(MetadataRequest(topics=topics[:100]))], ResponseFrame)
