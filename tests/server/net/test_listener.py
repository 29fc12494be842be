"""The server on its sockets: order, bounds, and bytes that no client should send."""

import asyncio
import contextlib
import errno
import json
import random
import resource
import socket
import struct
import subprocess
import sys
import time

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import KgmError
from kgm.protocol.messages.api_versions_request import ApiVersionsRequest
from kgm.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.metadata_request import MetadataRequest
from kgm.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kgm.server import Limits, serve_in_thread
from kgm.server.cluster.topics import topic_id
from kgm.server.net import event_loop, listener
from kgm.server.net.connection import java_address
from kgm.server.net.event_loop import WallClock
from kgm.server.net.poller import SelectorPoll
from tests.cpu_time import allowed
from tests.server.wire_client import WireClient, batch
from tests.waiting import until

PATIENCE_S = 10


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def start(warnings):
    running = []

    def start(limits=None, delay_ms=0, topics=None, **more):
        settings = BrokerSettings(group_initial_rebalance_delay_ms=delay_ms)
        topics = {"t": 2} if topics is None else topics
        server = serve_in_thread(topics=topics, settings=settings, limits=limits, warn=warnings.append, **more)
        running.append(server)
        return server

    yield start
    for server in running:
        server.close()


def api_versions():
    return ApiVersionsRequest(client_software_name="kgm", client_software_version="1")


def heartbeat():
    return HeartbeatRequest(group_id="nobody", generation_id=1, member_id="m")


def join(group="g"):
    return JoinGroupRequest(
        group_id=group,
        group_instance_id="i",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def fetch(wait_ms):
    parts = [FetchPartition(partition=0, partition_max_bytes=2**20)]
    topics = [FetchTopic(topic_id=topic_id("t"), partitions=parts)]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=topics)


def produce(records, acks=-1):
    data = TopicProduceData(topic_id=topic_id("t"), partition_data=[PartitionProduceData(index=0, records=records)])
    return ProduceRequest(transactional_id=None, acks=acks, topic_data=[data])


def is_alive(server):
    with WireClient(server.port) as client:
        return client.ask(api_versions()).error_code == 0


# -- serving


def test_metadata_names_the_address_at_which_the_client_connected(start):
    server = start()
    with WireClient(server.port) as client:
        broker = client.ask(MetadataRequest(topics=None)).brokers[0]
    assert (broker.host, broker.port) == ("127.0.0.1", server.port)
    assert server.bootstrap == f"127.0.0.1:{server.port}"


def test_a_port_that_is_taken_is_an_error_with_a_hint(start):
    server = start()
    with pytest.raises(KgmError, match="cannot listen on") as caught:
        start(port=server.port)
    assert "--listen" in caught.value.hint


def test_closing_ends_the_connections_and_frees_the_port(start):
    server = start()
    with WireClient(server.port) as client:
        client.ask(api_versions())
        assert server.connections == 1
        server.close()
        server.close()
        assert client.is_closed()
    again = start(port=server.port)
    assert again.port == server.port


def test_ipv6(start):
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        server = start(host="::1")
    except KgmError:
        pytest.skip("no IPv6 loopback here")
    assert server.bootstrap == f"[::1]:{server.port}"


def test_addresses_are_shown_as_java_does():
    assert java_address("192.0.2.1") == "/192.0.2.1"
    assert java_address("::1") == "/0:0:0:0:0:0:0:1"
    assert java_address("fe80::1%eth0") == "/fe80:0:0:0:0:0:0:1"
    assert java_address("::ffff:192.0.2.1") == "/192.0.2.1"


def test_the_clock_is_the_time_of_day_in_ms_and_never_goes_back():
    clock = WallClock()
    assert abs(clock.now() - time.time() * 1000) < 5_000
    times = [clock.now() for _ in range(1000)]
    assert times == sorted(times)


# -- order


def test_pipelined_requests_are_answered_in_order(start):
    server = start()
    with WireClient(server.port) as client:
        client.send(
            *[message for _ in range(200) for message in (api_versions(), heartbeat(), MetadataRequest(topics=None))]
        )
        assert [client.receive()[0] for _ in range(600)] == list(range(1, 601))


def test_requests_behind_a_waiting_join_wait_for_its_answer(start):
    server = start(delay_ms=150)
    with WireClient(server.port) as client:
        client.send(join(), heartbeat(), api_versions())
        answers = [client.receive() for _ in range(3)]
    assert [correlation_id for correlation_id, _ in answers] == [1, 2, 3]
    assert answers[0][1].generation_id == 1


def test_a_request_that_gets_no_answer_does_not_hold_up_the_next(start):
    server = start()
    with WireClient(server.port) as client:
        client.send(produce(batch(), acks=0), api_versions(), produce(batch()))
        assert client.receive()[0] == 2
        assert client.receive()[1].responses[0].partition_responses[0].base_offset == 1


def test_bytes_may_come_one_at_a_time(start):
    server = start()
    with WireClient(server.port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in client.frame(api_versions()) + client.frame(heartbeat()):
            client.socket.sendall(bytes([byte]))
        assert [client.receive()[0] for _ in range(2)] == [1, 2]


def test_one_connection_wakes_another(start):
    server = start()
    with WireClient(server.port) as consumer, WireClient(server.port) as producer:
        consumer.send(fetch(wait_ms=60_000))
        producer.ask(produce(batch()))
        assert len(consumer.receive()[1].responses[0].partitions[0].records) == len(batch())


def test_a_fetch_is_answered_when_its_time_is_up(start):
    server = start()
    with WireClient(server.port) as client:
        begun = time.monotonic()
        assert client.ask(fetch(wait_ms=60)).responses[0].partitions[0].records == b""
        assert time.monotonic() - begun >= 0.055


# -- those who go away


def test_a_client_that_leaves_while_it_waits_is_forgotten(start):
    server = start(delay_ms=100)
    with WireClient(server.port) as client, WireClient(server.port) as other:
        client.send(join())
        other.send(fetch(wait_ms=60_000))
        until(lambda: server.inspect(lambda c: c.group("g") is not None), "the join is not there", PATIENCE_S)
    until(lambda: server.connections == 0, "the connections are still there", PATIENCE_S)
    until(lambda: server.inspect(lambda c: c.group("g").generation) == 1, "the round did not end", PATIENCE_S)
    assert server._server.driver._waiting == {}
    assert server._server.cluster.pending._requests == {}
    assert is_alive(server)


def test_idle_connections_are_closed_and_waiting_ones_are_not(start):
    server = start(Limits(connections_max_idle_ms=80))
    with WireClient(server.port) as idle, WireClient(server.port) as waiting:
        idle.ask(api_versions())
        waiting.send(fetch(wait_ms=240))
        assert idle.is_closed()
        assert waiting.receive()[1].error_code == 0


def test_a_thousand_long_polls_lock_nobody_out(start, warnings):
    """The one that has waited for longest makes way."""
    server = start(Limits(max_connections=3))
    with contextlib.ExitStack() as opened:
        clients = []
        for number in range(3):
            clients.append(opened.enter_context(WireClient(server.port)))
            clients[-1].send(fetch(wait_ms=60_000))
            until(lambda number=number: server._server.driver.requests == number + 1, "it has not arrived", PATIENCE_S)
        assert is_alive(server)
        assert clients[0].is_closed()
        assert warnings == ["there are 3 connections: one that has waited for longest is closed"]
        until(lambda: server.connections == 2, "the place is not free", PATIENCE_S)
        for number in range(20):
            last = opened.enter_context(WireClient(server.port))
            last.ask(api_versions())
            last.send(fetch(wait_ms=60_000))
            until(lambda number=number: server._server.driver.requests == 6 + 3 * number, "it has not come", PATIENCE_S)
            assert is_alive(server)
        last.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            last.socket.recv(1)


def test_what_all_clients_together_leave_unread_is_bounded(start, warnings):
    server = start(Limits(queued_max_response_bytes=2 << 20))
    driver = server._server.driver
    with contextlib.ExitStack() as opened:
        first = opened.enter_context(WireClient(server.port))
        first.ask(produce(batch(size=900_000)))
        for _ in range(8):
            client = opened.enter_context(WireClient(server.port, receive_buffer=4096))
            client.send(*[fetch(wait_ms=0)] * 8)  # more than the kernel takes
        until(lambda: warnings, "nobody is closed", PATIENCE_S)
        assert is_alive(server)
        assert "does not read its responses" in warnings[0]
        assert driver.unsent_bytes <= 2 << 20
    until(lambda: server.connections == 0, "they are still there", PATIENCE_S)
    assert driver.unsent_bytes == 0


# -- hostile bytes


def raw(length, rest=b""):
    return struct.pack(">i", length) + rest


HOSTILE = {
    "longest length": raw(0x7FFFFFFF),
    "longest length and bytes": raw(0x7FFFFFFF, b"x" * 100_000),
    "one over the limit": raw(2**20 + 1),
    "minus one": raw(-1),
    "lowest length": raw(-(2**31)),
    "zero": raw(0),
    "half a header": raw(3, b"\0\3\0"),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x5a" * 500,
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "unknown api": raw(10, struct.pack(">hhih", 12345, 0, 1, -1)),
    "unknown version": raw(10, struct.pack(">hhih", 11, 10, 1, -1)),
    "huge array": raw(14, struct.pack(">hhihi", 3, 1, 1, -1, 0x7FFFFFFF)),
    "huge varint": raw(16, struct.pack(">hhih", 3, 12, 1, -1) + b"\0\xff\xff\xff\xff\xff"),
    "client id longer than the frame": raw(10, struct.pack(">hhih", 3, 1, 1, 32767)),
    "noise": raw(2**20, random.Random(4).randbytes(2**20)),
    "zeros": raw(2**20, bytes(2**20)),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_cost_their_connection_only(start, warnings, data):
    server = start()
    with WireClient(server.port) as innocent, WireClient(server.port) as hostile:
        innocent.ask(api_versions())
        hostile.socket.settimeout(PATIENCE_S)
        with contextlib.suppress(OSError):  # it may be closed before all is sent
            hostile.socket.sendall(data)
        assert hostile.is_closed()
        assert innocent.ask(heartbeat()).error_code == 25
    assert len(warnings) == 1
    assert warnings[0].startswith("connection from 127.0.0.1 closed: ")
    assert ("TLS" in warnings[0]) == data.startswith(b"\x16\x03")


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 12, 20])
def test_half_a_frame_and_then_silence_or_the_end(start, cut):
    server = start(Limits(connections_max_idle_ms=100))
    with WireClient(server.port) as silent:
        silent.socket.sendall(silent.frame(api_versions())[:cut])
        assert silent.is_closed()
    with WireClient(server.port) as gone:
        gone.socket.sendall(gone.frame(api_versions())[:cut])
    until(lambda: server.connections == 0, "it is still there", PATIENCE_S)
    assert server.buffered_bytes == 0
    assert is_alive(server)


def test_trailing_bytes_do_not_disturb(start):
    server = start()
    with WireClient(server.port) as client:
        client.send(MetadataRequest(topics=None), version=12, trailing=b"\0\0\0")
        client.send(api_versions())
        assert [client.receive()[0] for _ in range(2)] == [1, 2]


def test_connections_that_ask_for_nothing_make_way_for_those_that_do(start, warnings):
    """However many there are, each with a byte of a request; the oldest is closed first."""
    server = start(Limits(max_connections=5))
    with WireClient(server.port) as served:
        served.ask(api_versions())
        with contextlib.ExitStack() as opened:
            silent = [opened.enter_context(WireClient(server.port)) for _ in range(20)]
            for client in silent:
                client.socket.sendall(b"\0")
            until(lambda: server.connections == 5, "there are more than allowed", PATIENCE_S)
            assert all(client.is_closed() for client in silent[:16])
            for _ in range(10):
                assert is_alive(server)
            assert served.ask(api_versions()).error_code == 0
    assert len(warnings) == 5
    assert warnings[0] == "there are 5 connections: one that has sent no request is closed"


def test_a_thousand_clients_that_idle_after_a_valid_request_lock_nobody_out(start, warnings):
    """The one that has been idle for longest makes way; those that go on asking, or wait for a response, stay."""
    server = start(Limits(max_connections=12))
    with contextlib.ExitStack() as opened:
        waiting, *idle = (opened.enter_context(WireClient(server.port)) for _ in range(12))
        waiting.send(fetch(wait_ms=60_000))
        for client in idle:
            client.ask(api_versions())
        served = opened.enter_context(WireClient(server.port))
        for _ in range(30):
            served.ask(api_versions())
            assert is_alive(server)
            later = opened.enter_context(WireClient(server.port))
            later.ask(api_versions())
        assert all(client.is_closed() for client in idle)
        assert served.ask(api_versions()).error_code == 0
        waiting.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            waiting.socket.recv(1)
    assert warnings[0] == "there are 12 connections: one that has been idle for longest is closed"


def test_one_address_may_be_bounded(start, warnings):
    server = start(Limits(max_connections_per_ip=2))
    with WireClient(server.port) as one, WireClient(server.port) as two, WireClient(server.port) as three:
        assert three.is_closed()
        assert one.ask(api_versions()).error_code == two.ask(api_versions()).error_code == 0
    assert warnings == ["connection refused: 127.0.0.1 has 2 already"]


@pytest.mark.parametrize("begun", [b"", b"\0", raw(100, b"half of it")], ids=["nothing", "a-byte", "half"])
def test_a_request_that_does_not_arrive_in_time_ends_its_connection(start, warnings, begun):
    """The first one, and one after others; who waits for a response, and who is idle, is not late."""
    server = start(Limits(incomplete_request_max_ms=80))
    with contextlib.ExitStack() as opened:
        late, again, waiting, idle = (opened.enter_context(WireClient(server.port)) for _ in range(4))
        for client in (again, idle):
            assert client.ask(api_versions()).error_code == 0
        waiting.send(fetch(wait_ms=400))
        waiting.send(heartbeat())
        late.socket.sendall(begun)
        assert late.is_closed()
        if begun:
            again.socket.sendall(begun)
            assert again.is_closed()
        assert waiting.receive()[1].error_code == 0
        assert waiting.receive()[0] == 2
        assert idle.ask(api_versions()).error_code == 0
    assert set(warnings) == {"connection from 127.0.0.1 closed: its request did not arrive in time"}


def test_a_request_that_comes_byte_by_byte_must_be_whole_in_time_too(start):
    server = start(Limits(incomplete_request_max_ms=300))
    with WireClient(server.port) as slow:
        slow.socket.sendall(struct.pack(">i", 1_000_000))
        slow.socket.settimeout(0.02)
        sent = 0

        def is_closed():
            nonlocal sent
            try:
                slow.socket.sendall(b"\0")
                sent += 1
                return slow.socket.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        until(is_closed, "it is not closed", PATIENCE_S)
        assert 0 < sent < 1_000


def test_warnings_come_to_an_end(start, warnings):
    server = start()
    for _ in range(8):
        with WireClient(server.port) as client:
            client.socket.sendall(raw(-1))
            assert client.is_closed()
    assert len(warnings) == 5
    assert warnings[-1].endswith("(further warnings of this kind are suppressed)")


def test_unfinished_requests_are_bounded_and_the_largest_pays(start, warnings):
    server = start(Limits(queued_max_request_bytes=600_000))
    with WireClient(server.port) as small, WireClient(server.port) as large:
        small.socket.sendall(raw(300_000, b"x" * 200_000))
        until(lambda: server.buffered_bytes == 200_004, "the bytes did not come", PATIENCE_S)
        large.socket.sendall(raw(900_000, b"x" * 500_000))
        assert large.is_closed()
        assert server.buffered_bytes == 200_004
        assert is_alive(server)
    assert "incomplete requests" in warnings[0]


def test_a_client_that_sends_ahead_is_left_waiting_in_its_socket(start):
    """Behind a request that waits, the server takes a bounded number of bytes from the socket."""
    server = start()
    with WireClient(server.port) as client:
        client.send(fetch(wait_ms=60_000))
        client.socket.settimeout(0.2)
        ahead = client.frame(heartbeat()) * 1000
        sent = 0

        def is_left_waiting():
            nonlocal sent
            try:
                while sent < 64 * 2**20:
                    sent += client.socket.send(ahead)
            except TimeoutError:  # or the server had no time to read
                return server.buffered_bytes >= 64 * 1024
            return True

        until(is_left_waiting, "the server does not read", PATIENCE_S)
        assert sent < 64 * 2**20
        assert 64 * 1024 <= server.buffered_bytes < 1024 * 1024
        assert is_alive(server)


@pytest.mark.slow
def test_a_client_that_does_not_read_costs_little(start):
    server = start(topics={f"topic-{n}": 100 for n in range(100)})
    with WireClient(server.port, receive_buffer=4096) as client:
        client.socket.settimeout(1)
        request = client.frame(MetadataRequest(topics=None))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sent = 0
        try:
            while sent < 2**26:
                sent += client.socket.send(request * 100)
        except TimeoutError:
            pass
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert sent < 2**26  # each is answered with a quarter of a MiB
        assert grown_kib < 64 * 1024
        assert is_alive(server)
        client.socket.settimeout(PATIENCE_S)
        assert client.receive()[0] == 1


@pytest.mark.slow
def test_noise_of_all_kinds_leaves_the_server_as_it_was(start):
    server = start()
    rng = random.Random(20261121)
    templates = [join(), heartbeat(), api_versions(), fetch(0), produce(batch()), MetadataRequest(topics=None)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(400):
        with WireClient(server.port) as client:
            frame = bytearray(client.frame(rng.choice(templates)))
            for _ in range(rng.randint(1, 6)):
                frame[rng.randrange(4, len(frame))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            client.socket.sendall(bytes(frame[: rng.choice((len(frame), rng.randrange(len(frame)))) or 1]))
            client.socket.shutdown(socket.SHUT_WR)
            assert client.is_closed()
    until(lambda: server.connections == 0, "connections are left", PATIENCE_S)
    assert server.buffered_bytes == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
    assert is_alive(server)


@pytest.mark.long
@pytest.mark.slow
def test_the_heaviest_requests_are_affordable():
    """In a process of its own, whose peak of memory is not the peak of another test."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.server.net.heaviest_requests"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found = json.loads(done.stdout)
    assert found["slowest_s"] < allowed(1), found
    assert found["grown_mib"] < 64, found


# -- bugs of our own


def test_a_bug_costs_the_connection_that_met_it(start, warnings, monkeypatch):
    server = start()

    def broken(request, cluster):
        raise RuntimeError("a bug")

    monkeypatch.setitem(server._server.brokers[1]._handlers, 12, broken)
    with WireClient(server.port) as unlucky, WireClient(server.port) as innocent:
        unlucky.send(heartbeat())
        assert unlucky.is_closed()
        assert innocent.ask(api_versions()).error_code == 0
    assert warnings[0] == "internal error in kgm serve: RuntimeError('a bug')"
    assert "failed with an internal error" in warnings[1]


def test_a_bug_in_a_timer_does_not_stop_the_others(start, warnings, monkeypatch):
    server = start()
    advance = server._server.cluster.records.advance
    calls = []

    def broken_once(now):
        calls.append(now)
        if len(calls) == 1:
            raise RuntimeError("a bug")
        return advance(now)

    monkeypatch.setattr(server._server.cluster.records, "advance", broken_once)
    with WireClient(server.port) as client:
        assert client.ask(fetch(wait_ms=20)).error_code == 0
    assert len(calls) >= 2
    assert "RuntimeError('a bug')" in warnings[0]


# -- the poll


@pytest.fixture
def without_epoll(monkeypatch):
    monkeypatch.setattr(event_loop, "new_poll", SelectorPoll)


def test_a_system_without_epoll_serves_the_same(start, without_epoll):
    server = start(delay_ms=100)
    with WireClient(server.port) as client, WireClient(server.port, receive_buffer=4096) as other:
        client.send(*[api_versions()] * 50)
        assert [client.receive()[0] for _ in range(50)] == list(range(1, 51))
        other.send(*[api_versions()] * 2_000)
        client.send(join(), heartbeat())
        client.socket.sendall(client.frame(heartbeat()) * 3_000)  # reading stops behind the join
        assert client.receive()[1].error_code == 0
        assert client.receive()[0] == 52
        assert [client.receive()[0] for _ in range(3_000)] == [53] * 3_000
        assert [other.receive()[0] for _ in range(2_000)] == list(range(1, 2_001))
    until(lambda: server.connections == 0, "the connections are still there", PATIENCE_S)


@pytest.mark.long
def test_what_a_client_does_not_read_is_sent_later(start, warnings):
    """Serving stops when a client does not read, and goes on where it stopped; and what was written before a frame that
    cannot be read is sent before the connection is closed."""
    server = start(topics={f"topic-{n}": 100 for n in range(40)})
    driver = server._server.driver
    with WireClient(server.port, receive_buffer=65536) as client:
        client.send(*[MetadataRequest(topics=None)] * 80)  # each is answered with 100 KiB

        def unsent():
            return max((len(connection._unsent) for connection in driver.connections), default=0)

        until(lambda: unsent() > 128 * 1024, "the socket takes everything", PATIENCE_S)
        for _ in range(50):  # as many turns
            assert is_alive(server)
        assert unsent() < 512 * 1024
        assert [client.receive()[0] for _ in range(80)] == list(range(1, 81))
        client.send(*[MetadataRequest(topics=None)] * 80)
        until(lambda: unsent() > 128 * 1024, "the socket takes everything", PATIENCE_S)
        client.socket.sendall(raw(-1))
        for number in range(80):
            assert client.receive()[0] == 81 + number
        assert client.is_closed()
    until(lambda: server.connections == 0, "it is still there", PATIENCE_S)
    assert len(warnings) == 1


def test_a_client_that_is_reset_while_it_waits_is_forgotten(start):
    """Also when reading has stopped: more was sent ahead than is taken."""
    server = start()
    client = WireClient(server.port)
    client.send(fetch(wait_ms=60_000))
    client.socket.setblocking(False)
    ahead = client.frame(heartbeat()) * 1_000
    with contextlib.suppress(BlockingIOError):
        for _ in range(1_000):
            client.socket.send(ahead)
    until(lambda: server.buffered_bytes >= 64 * 1024, "the server does not read", PATIENCE_S)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    until(lambda: server.connections == 0, "it is still there", PATIENCE_S)
    assert server.buffered_bytes == 0
    assert server._server.driver._waiting == {}


def test_a_server_that_has_no_room_for_sockets_accepts_again_later(start, warnings, monkeypatch):
    server = start()
    monkeypatch.setattr(listener, "_PAUSE_S", 0.05)
    failed = []

    class Full:
        """A listening socket for which there is no descriptor left, once."""

        def __init__(self, real):
            self.real = real

        def fileno(self):
            return self.real.fileno()

        def close(self):
            self.real.close()

        def accept(self):
            if not failed:
                failed.append(1)
                raise OSError(errno.EMFILE, "Too many open files")
            return self.real.accept()

    listening = server._server._listeners[1]

    async def replace():
        loop = asyncio.get_running_loop()
        for real in listening._sockets:
            loop.remove_reader(real)
        listening._sockets = [Full(real) for real in listening._sockets]
        for full in listening._sockets:
            loop.add_reader(full, listening._accept, full)

    server._do(replace())
    assert is_alive(server)
    assert failed
    assert warnings == ["no connection can be accepted: Too many open files"]
