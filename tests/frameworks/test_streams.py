"""Whether a group of Kafka Streams is settled: the rules of StreamsPartitionAssignor.onAssignment."""

from dataclasses import replace

import pytest

from kgm.frameworks.streams import StreamsAssignment, StreamsSubscription, in_order, is_settled

ONE = StreamsSubscription(version=11, latest_version=11, process_id="p")
GIVEN = StreamsAssignment(version=11, common_version=11, active_tasks=("0_0",), standby_tasks={})


@pytest.mark.parametrize(
    ("own", "given", "expected"),
    [
        ({}, {}, True),
        ({}, {"next_rebalance_ms": 0}, False),
        ({}, {"next_rebalance_ms": 1_764_000_000_000}, False),
        ({}, {"error_code": 1}, False),
        ({}, {"version": 6}, None),
        ({"user_endpoint": "h:80"}, {"endpoints": ("h:80",)}, True),
        ({"user_endpoint": "http://[::1]:80"}, {"endpoints": ("::1:80",)}, True),
        ({"user_endpoint": "h:80"}, {"endpoints": ("other:80",)}, False),
        ({"user_endpoint": "h:80"}, {"endpoints": ()}, True),
        ({}, {"endpoints": ("other:80",)}, True),
    ],
)
def test_settled(own, given, expected):
    assert is_settled([ONE, replace(ONE, **own)], [GIVEN, replace(GIVEN, **given)]) is expected


def test_what_cannot_be_read_is_not_known():
    assert is_settled([ONE, None], [GIVEN, None]) is None
    assert is_settled([ONE, None], [replace(GIVEN, next_rebalance_ms=0), None]) is False


def test_tasks_are_in_the_order_of_their_numbers():
    assert in_order(["0_10", "1_0", "0_9", "top__0_1"]) == ("0_9", "0_10", "1_0", "top__0_1")
