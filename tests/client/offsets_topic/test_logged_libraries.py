"""Libraries that only their timeouts tell apart, which the group's record in a real Kafka has."""

from __future__ import annotations

import uuid

import pytest

from kgm.client import connect
from kgm.client.offsets_topic.last_rebalance import with_logged_timeouts
from kgm.model.client_library import LIKELY, UNKNOWN
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from tests.client.joiners import Joiner

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(
    ("session_ms", "rebalance_ms", "library"), [(10_000, 10_000, "aiokafka"), (11_000, 12_000, None)]
)
def test_the_record_tells_more_than_the_description(kafka, session_ms, rebalance_ms, library):
    """Version 0 with empty user data is what librdkafka before 1.6, kafka-python and aiokafka send."""
    topic = f"logged-{uuid.uuid4().hex[:8]}"
    kafka.create_topics({topic: 2})
    name = topic.encode()
    joiner = Joiner(
        kafka.port, f"g-{topic}", "a", topic,
        metadata=b"\0\0" + (1).to_bytes(4) + len(name).to_bytes(2) + name + bytes(4),
    )  # fmt: skip
    try:
        joiner.session_ms, joiner.rebalance_ms = session_ms, rebalance_ms
        assert joiner.join().error_code == 0
        blob = encode_assignment(MemberAssignment(partitions={topic: [0, 1]}, user_data=b"", version=0))
        assert joiner.sync({joiner.member_id: blob}).error_code == 0
        with connect(kafka.bootstrap, timeout_ms=60_000) as cluster:
            described = cluster.describe_group(joiner.group)
            logged = with_logged_timeouts(cluster, described)
    finally:
        joiner.close()
    (before,), (after,) = described.members, logged.members
    assert (before.client_library.name, before.client_library.confidence) == (None, UNKNOWN)
    assert set(before.client_library.candidates) == {"librdkafka", "kafka-python", "aiokafka"}
    assert after.client_library.name == library
    assert after.client_library.confidence == (UNKNOWN if library is None else LIKELY)
