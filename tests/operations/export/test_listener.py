"""What the port of `kgm export --listen` answers, and how far those who reach it can hold it up."""

from __future__ import annotations

import gzip
import http.client
import socket
import threading
import time

import pytest

from kgm.operations.export import listener as module
from kgm.operations.export.collector import Collection
from kgm.operations.export.listener import MOST_CONNECTIONS, MOST_REQUEST_BYTES, MetricsListener
from kgm.operations.export.series import GroupSeries
from tests.waiting import until

pytestmark = pytest.mark.slow

COLLECTION = Collection(at_s=1.0, duration_s=0.5, is_up=True, cluster_id="c", series=GroupSeries(most=1_000))


@pytest.fixture
def listener():
    with MetricsListener("127.0.0.1", 0, allowed_hosts=("kgm.monitoring.svc",)) as listener:
        listener.latest = COLLECTION
        yield listener


def get(listener, path="/metrics", method="GET", **headers):
    connection = http.client.HTTPConnection(*listener.address, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def raw(listener, data):
    connection = socket.create_connection(listener.address, timeout=30)
    connection.sendall(data)
    return connection


def threads():
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("path", "status", "has"),
    [
        ("/metrics", 200, b"kgm_up 1.0"), ("/metrics?name[]=x", 200, b"kgm_up 1.0"), ("/", 200, b"metrics are at /metrics"),
        ("/metricsx", 404, b"metrics are at"), ("/favicon.ico", 404, b""), ("/metrics/..", 404, b""),
    ],
)  # fmt: skip
def test_one_path(listener, path, status, has):
    found = get(listener, path)
    assert found[0] == status
    assert has in found[1]
    assert b"kgm_up" not in found[1] or status == 200


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9797", "127.0.0.1", "127.0.0.1:1", "127.9.9.9", "[::1]:9797", "kgm.monitoring.svc:80",
             "localhost.:80"],
)  # fmt: skip
def test_hosts_that_mean_this_machine(listener, host):
    assert get(listener, Host=host)[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9797", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "[",
             "0.0.0.0", "evil@127.0.0.2.example", "monitoring.svc"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/metrics"])
def test_other_hosts_are_refused(listener, host, path):
    """A name that was made to resolve to a loopback address is one of somebody else."""
    status, body, _ = get(listener, path, Host=host)
    assert (status, b"kgm_up" in body, b"--allow-host" in body) == (403, False, True)


@pytest.mark.parametrize("headers", [b"", b"Host: localhost\r\nHost: evil.example\r\n"])
def test_a_request_names_one_host(listener, headers):
    with raw(listener, b"GET /metrics HTTP/1.1\r\n" + headers + b"\r\n") as connection:
        assert b" 403 " in connection.recv(1000)


def test_only_reading(listener):
    status, body, headers = get(listener, method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 100
    assert get(listener, method="POST")[0] == 501


def test_packed_and_as_openmetrics(listener):
    _, body, headers = get(
        listener, **{"Accept-Encoding": "gzip", "Accept": "application/openmetrics-text; version=1.0.0"}
    )
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert gzip.decompress(body).endswith(b"# EOF\n")


def test_half_sent_requests_are_few_threads_and_lock_nobody_out(listener):
    half = [raw(listener, b"GET /metrics HTTP/1.1\r\nHost: local") for _ in range(300)]
    try:
        status, body, _ = get(listener)
        assert (status, b"kgm_up" in body) == (200, True)
        until(lambda: threads() <= MOST_CONNECTIONS, "more threads than connections are allowed")
    finally:
        for one in half:
            one.close()


def test_a_request_ends_in_time(listener, mocker):
    clock = mocker.patch.object(module.time, "monotonic", wraps=time.monotonic)
    with raw(listener, b"GET /metrics HTTP/1.1\r\n") as connection:
        until(threads, "the request is not read")
        clock.side_effect = lambda: time.perf_counter() + 1e9
        assert connection.recv(1000) == b""


@pytest.mark.long
def test_one_that_does_not_read_ends_in_time_and_locks_nobody_out(listener, mocker):
    """The answer is larger than what the kernel takes."""
    answer = bytes(30 << 20)
    mocker.patch.object(module, "choose_encoder", return_value=(lambda _: answer, "text/plain"))
    clock = mocker.patch.object(module.time, "monotonic", wraps=time.monotonic)
    slow = [raw(listener, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(MOST_CONNECTIONS + 4)]
    try:
        assert get(listener, "/")[0] == 200
        until(lambda: threads() <= MOST_CONNECTIONS, "more threads than connections are allowed")
        clock.side_effect = lambda: time.perf_counter() + 1e9
        until(lambda: threads() == 0, "a thread waits for who does not read")
    finally:
        for one in slow:
            one.close()


def test_a_request_has_a_size(listener):
    line = b"X: " + b"x" * 1000 + b"\r\n"
    with raw(listener, b"GET /metrics HTTP/1.1\r\n") as connection:
        try:
            for _ in range(2 * MOST_REQUEST_BYTES // len(line)):
                connection.sendall(line)
            found = connection.recv(1000)
        except ConnectionError:
            found = b""
        assert b" 200 " not in found


def test_it_ends_while_somebody_waits():
    with MetricsListener("127.0.0.1", 0) as listener:
        connection = raw(listener, b"GET")
        until(threads, "the request is not read")
    with connection:
        assert connection.recv(1000) == b""
    until(lambda: threads() == 0, "a thread goes on")


@pytest.mark.parametrize("host", ["::1", "localhost"])
def test_other_addresses_of_loopback(host):
    try:
        with MetricsListener(host, 0) as listener:
            listener.latest = COLLECTION
            assert get(listener)[0] == 200
    except OSError:
        pytest.skip("this machine has no IPv6")
