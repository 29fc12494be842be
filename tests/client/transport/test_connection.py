"""One connection: versions, bytes nobody should send, and time that runs out."""

import resource
import socket
import struct
import threading
import time

import pytest

from kgm.client import connect
from kgm.client.failures import BadAnswerError, ConnectError, LostError, WrongProtocolError
from kgm.client.transport.bootstrap import Address
from kgm.client.transport.connection import MAX_FRAME_BYTES, BrokerConnection, Plaintext, resolve
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import DecodeError, KgmError, UnreachableError, UnsupportedError
from kgm.protocol import wire
from kgm.protocol.apis import API, ApiKey
from kgm.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.list_groups_response import ListGroupsResponse
from tests.client.faults import (
    BlackHole,
    Delay,
    Drip,
    Edit,
    Garbage,
    Raw,
    ResetAfter,
    ResetBefore,
    Scripted,
    Truncate,
    WrongCorrelation,
)
from tests.client.pace import short_budget_ms

PATIENCE_MS = 60_000


@pytest.fixture
def open_to():
    opened = []

    def open_to(port, ms=PATIENCE_MS):
        opened.append(BrokerConnection.connect(Address("127.0.0.1", port), Deadline.after(ms), Plaintext()))
        return opened[-1]

    yield open_to
    for connection in opened:
        connection.close()


def ask(connection, ms=PATIENCE_MS):
    version = connection.version(ApiKey.LIST_GROUPS)
    return connection.call(ListGroupsRequest(), ListGroupsResponse, version=version, deadline=Deadline.after(ms))


def test_versions_are_the_best_of_both(server, open_to):
    connection = open_to(server.port)
    assert connection.version(ApiKey.LIST_GROUPS) == 5
    assert connection.version(ApiKey.OFFSET_FETCH, at_most=9) == 9
    assert connection.supports(ApiKey.LEAVE_GROUP, 5)
    assert not connection.supports(ApiKey.LEAVE_GROUP, 6)
    assert not connection.supports(ApiKey.SHARE_GROUP_DESCRIBE)
    connection.close()
    connection.close()
    with pytest.raises(LostError) as caught:
        ask(connection)
    assert not caught.value.sent


def test_an_api_that_the_broker_lacks_is_named(proxy, open_to):
    proxy.ranges = {ApiKey.LIST_GROUPS: (7, 9), ApiKey.DESCRIBE_GROUPS: (1, 0)}
    connection = open_to(proxy.port)
    with pytest.raises(UnsupportedError, match="ListGroups") as caught:
        ask(connection)
    assert caught.value.facts == ("ListGroups: the broker supports v7-v9, kgm supports v0-v5",)
    with pytest.raises(UnsupportedError, match="does not support DescribeGroups"):
        connection.version(ApiKey.DESCRIBE_GROUPS)
    proxy.ranges = {}
    with pytest.raises(UnsupportedError):
        open_to(proxy.port).version(ApiKey.OFFSET_FETCH, at_most=0)


@pytest.mark.parametrize(
    ("told", "asked_next"), [(2, 2), (None, 0), (API[ApiKey.API_VERSIONS].max_version, 0)],
    ids=["Kafka 2.4 and later tell their range", "older ones do not", "one that offers what it refuses"],
)  # fmt: skip
def test_versions_go_down_to_what_an_old_broker_knows(proxy, told, asked_next, open_to):
    """KIP-511: error 35 comes in the form of v0, whatever was asked."""
    rows = [] if told is None else [ApiVersion(api_key=18, min_version=0, max_version=told)]
    refusal = ApiVersionsResponse(error_code=35, api_keys=rows)
    frame = wire.framed(wire.encode_response(refusal, version=0, correlation_id=1))
    proxy.script(ApiKey.API_VERSIONS, Raw(frame, forward=False, keep=True))
    connection = open_to(proxy.port)
    asked = [one.version for one in proxy.seen if one.api is ApiKey.API_VERSIONS]
    assert asked == [API[ApiKey.API_VERSIONS].max_version, asked_next]
    assert connection.supports(ApiKey.LIST_GROUPS)


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (bytes.fromhex("15030300020246"), WrongProtocolError, "this port expects TLS"),
        (bytes.fromhex("160303002a02000026"), WrongProtocolError, "this port expects TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", WrongProtocolError, "serves HTTP"),
        (struct.pack(">i", 0x7FFFFFFF), BadAnswerError, "2147483647 bytes"),
        (struct.pack(">i", MAX_FRAME_BYTES + 1), BadAnswerError, "bytes"),
        (struct.pack(">i", 0), BadAnswerError, "0 bytes"),
        (struct.pack(">i", -1), BadAnswerError, "-1 bytes"),
        (struct.pack(">ii", 4, 99), BadAnswerError, "another request"),
        (struct.pack(">ih", 2, 1), WrongProtocolError, "does not use the Kafka protocol"),
        (struct.pack(">iih", 6, 1, 0), WrongProtocolError, "does not use the Kafka protocol"),
        (struct.pack(">ii", 10, 1), ConnectError, "broke"),
        (b"", ConnectError, "broke"),
        (struct.pack(">iih", 12, 1, 0) + b"\xff" * 6, WrongProtocolError, "does not use the Kafka protocol"),
    ],
)
def test_bytes_that_no_broker_should_send(answer, kind, says, open_to):
    with Scripted(answer) as listener, pytest.raises(kind, match=says):
        open_to(listener.port)


def test_a_length_costs_no_memory_before_the_bytes_are_there(open_to):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Scripted(struct.pack(">i", MAX_FRAME_BYTES) + b"x" * 1000) as listener, pytest.raises(ConnectError):
        open_to(listener.port)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024  # KiB


def test_silence_ends_at_the_deadline(open_to):
    says = "did not answer within the time allowed"
    with Scripted(b"", hold=True) as listener, pytest.raises(ConnectError, match=says):
        open_to(listener.port, 100)


@pytest.mark.parametrize("fault", [Drip(), Delay(0.02)])
def test_slow_is_not_broken(proxy, fault, open_to):
    proxy.script(ApiKey.LIST_GROUPS, fault)
    assert ask(open_to(proxy.port)).error_code == 0


def test_a_slow_drip_does_not_outlive_the_deadline(proxy, open_to):
    proxy.script(ApiKey.LIST_GROUPS, Drip(0.05))
    connection = open_to(proxy.port)
    with pytest.raises(LostError, match="did not answer within"):
        ask(connection, 150)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (ResetBefore(), LostError),
        (ResetAfter(), LostError),
        (Truncate(3), LostError),
        (Truncate(9), LostError),
        (BlackHole(), LostError),
        (Garbage(), DecodeError),
        (Garbage(b""), DecodeError),
        (WrongCorrelation(), BadAnswerError),
        (Raw(struct.pack(">i", 0x7FFFFFFF)), BadAnswerError),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, type) else value.__name__,
)
def test_after_any_failure_the_connection_is_closed(proxy, group, fault, kind, open_to):
    budget_ms = short_budget_ms(proxy.bootstrap, group) if isinstance(fault, BlackHole) else PATIENCE_MS
    proxy.script(ApiKey.LIST_GROUPS, fault)
    connection = open_to(proxy.port)
    with pytest.raises(kind) as caught:
        ask(connection, budget_ms)
    assert connection.closed
    if isinstance(caught.value, LostError):
        assert caught.value.sent


def test_throttling_is_waited_for_and_counted(proxy, open_to):
    def throttled(message):
        message.throttle_time_ms = 60

    proxy.script(ApiKey.LIST_GROUPS, Edit(throttled))
    connection = open_to(proxy.port)
    started = time.monotonic()
    ask(connection)
    ask(connection)
    assert time.monotonic() - started >= 0.06

    proxy.script(ApiKey.LIST_GROUPS, Edit(lambda message: setattr(message, "throttle_time_ms", 7_200_000)))
    ask(connection)
    with pytest.raises(LostError, match="throttles") as caught:
        ask(connection, 3_600_000)  # who waits for that waits until the test times out
    assert not caught.value.sent


def test_names_that_do_not_resolve():
    for name in ("no-such-host.invalid", "x" * 300):
        with pytest.raises(ConnectError) as caught:
            resolve(Address(name, 9092), Deadline.after(PATIENCE_MS))
        assert name in caught.value.message


def test_a_resolver_that_hangs_is_left_behind(monkeypatch):
    ended = threading.Event()

    def hangs(*_, **__):
        ended.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    with pytest.raises(ConnectError, match="within the time allowed"):
        resolve(Address("slow", 9092), Deadline.after(50))
    ended.set()


def dead_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def test_every_bootstrap_address_is_tried(server):
    with Scripted(b"", hold=True) as silent:
        bootstrap = f"127.0.0.1:{dead_port()},{silent.bootstrap},{server.bootstrap}"
        # Who waits for the silent one waits until the test times out.
        with connect(bootstrap, timeout_ms=3_600_000) as cluster:
            assert cluster.list_groups().errors == ()


def test_nobody_at_any_address_tells_each():
    first, second = dead_port(), dead_port()
    with pytest.raises(UnreachableError) as caught:
        connect(f"127.0.0.1:{first},127.0.0.1:{second}", timeout_ms=30_000)
    assert caught.value.exit_code == 5
    assert [str(port) in fact for port, fact in zip((first, second), caught.value.facts, strict=True)] == [True, True]


def test_tls_says_more_than_silence():
    with Scripted(bytes.fromhex("15030300020246")) as tls, pytest.raises(KgmError, match="expects TLS") as caught:
        connect(f"127.0.0.1:{dead_port()},{tls.bootstrap}", timeout_ms=30_000)
    assert caught.value.exit_code == 5
    assert "security.protocol=SSL" in (caught.value.hint or "")


def test_an_ipv6_literal_is_an_address():
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with listener, pytest.raises(KgmError) as caught:
        connect(f"[::1]:{listener.getsockname()[1]}", timeout_ms=100)
    assert "[::1]:" in caught.value.message


def test_an_address_needs_no_time_to_be_resolved():
    deadline = Deadline.after(0)
    assert deadline.expired
    assert resolve(Address("127.0.0.1", 9092), deadline) == [(socket.AF_INET, ("127.0.0.1", 9092))]


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch):
    ends = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ends.wait(60) and [])
    with pytest.raises(KgmError, match="was not resolved within"):
        resolve(Address("no-such-host.invalid", 9092), Deadline.after(1))
    ends.set()
