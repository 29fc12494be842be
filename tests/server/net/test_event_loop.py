"""When the event loop answers: never before what comes first is on the disk."""

import asyncio

import pytest

from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.wire import encode_request
from kgm.server.net.event_loop import ClusterDriver
from tests.server.broker_driver import ENDPOINTS
from tests.server.disk import Disk
from tests.server.group_requests import commit, stable


class Clock:
    def __init__(self, cluster):
        self.now_ms = cluster.now

    def now(self):
        return self.now_ms


class Connection:
    """Keeps its events. broker: that of the cluster."""

    ticket = None

    def __init__(self, broker):
        self.broker = broker
        self.events = []

    def deliver(self, event):
        self.events.append(event)


@pytest.fixture
def disk(tmp_path):
    disk = Disk(tmp_path)
    yield disk
    disk.kill()


def test_a_heartbeat_is_answered_after_what_comes_before_it(disk):
    cluster = disk.start(group_initial_rebalance_delay_ms=0)
    joined = stable(cluster)
    driver = ClusterDriver(cluster.cluster, Clock(cluster), warn=pytest.fail)
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id, group_instance_id="i")
    heartbeat = encode_request(message, version=4, correlation_id=7, client_id="c")
    records = encode_request(commit("other", name="t"), version=9, correlation_id=8, client_id="c")
    connection = Connection(cluster.broker)

    async def main():
        driver.receive(connection, heartbeat, ENDPOINTS)
        assert len(connection.events) == 1
        driver.receive(connection, records, ENDPOINTS)
        driver.receive(connection, heartbeat, ENDPOINTS)
        assert len(connection.events) == 1  # there is something to flush
        await asyncio.sleep(0)
        assert len(connection.events) == 3
        for timer in (driver._timer, driver._compaction):
            if timer is not None:
                timer.cancel()

    asyncio.run(main())
