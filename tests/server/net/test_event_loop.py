"""When the event loop answers a Heartbeat in the short form: never in front of something that is to happen first."""

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
    broker, clock = cluster.broker, Clock(cluster)
    driver = ClusterDriver(cluster.cluster, clock, warn=pytest.fail)
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id, group_instance_id="i")
    frame = encode_request(message, version=4, correlation_id=7, client_id="c")
    connection = Connection(broker)

    def is_short():
        before = driver.requests
        response = driver.answer_heartbeat(broker, frame, 0)
        assert driver.requests == before + (response is not None)
        return response is not None

    async def main():
        assert is_short()
        records = encode_request(commit("other", name="t"), version=9, correlation_id=8, client_id="c")
        driver.receive(connection, records, ENDPOINTS)
        assert not is_short()  # there is something to flush
        assert connection.events == []
        driver.receive(connection, frame, ENDPOINTS)
        assert connection.events == []
        await asyncio.sleep(0)
        assert len(connection.events) == 2
        assert is_short()
        driver.observers.append(lambda: None)
        driver.deliver(())
        assert not is_short()  # somebody wants to see it
        driver.observers.clear()
        driver.deliver(())
        assert is_short()
        clock.now_ms = cluster.cluster.next_deadline() - 1
        driver._begin_turn()
        assert is_short()
        clock.now_ms += 1
        driver._begin_turn()
        assert not is_short()  # a timer is due
        for timer in (driver._timer, driver._compaction):
            if timer is not None:
                timer.cancel()

    asyncio.run(main())
