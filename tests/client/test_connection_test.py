"""Step by step, against the embedded server: which step failed, and what to try."""

import socket

from kgm.client.authorized_operations import is_allowed
from kgm.client.connection_test import run_connection_test
from kgm.client.transport.bootstrap import Address
from kgm.client.transport.connection import Plaintext
from kgm.client.transport.deadline import Deadline
from tests.client.faults import Scripted


def run(*addresses, group_id=None, ms=10_000):
    found = run_connection_test(addresses, Plaintext(), Deadline.after(ms), group_id=group_id)
    return found, [(check.step, check.result) for check in found.checks]


UP = [("name", "ok"), ("connect", "ok"), ("tls", "skipped"), ("versions", "ok"), ("sasl", "skipped")]


def test_all_is_well(server):
    found, steps = run(Address(server.host, server.port))
    assert steps == [*UP, ("broker", "ok"), ("authorisation", "ok")]
    assert found.errors == ()
    assert found.cluster_id
    assert all(check.took_ms is not None for check in found.checks[:2])


def test_the_step_that_failed_and_what_to_try_next(server):
    found, steps = run(Address("no-such-host.invalid", 9092))
    assert steps == [("name", "failed")]
    assert found.errors[0].exit_code == 5
    assert "getent hosts no-such-host.invalid" in found.errors[0].hint

    with socket.create_server(("127.0.0.1", 0)) as probe:
        dead = probe.getsockname()[1]
    found, steps = run(Address("127.0.0.1", dead))
    assert steps == [("name", "ok"), ("connect", "failed")]
    assert f"nc -vz 127.0.0.1 {dead}" in found.errors[0].hint

    with Scripted(bytes.fromhex("15030300020246")) as tls:
        found, steps = run(Address("127.0.0.1", tls.port))
    assert steps == [*UP[:3], ("versions", "failed")]
    assert "this port expects TLS" in found.errors[0].message


def test_every_bootstrap_address_is_tried_and_one_is_enough_to_go_on(server):
    found, steps = run(
        Address("no-such-host.invalid", 1), Address(server.host, server.port), Address("localhost", server.port)
    )
    assert steps == [("name", "failed"), *UP, *UP, ("broker", "ok"), ("authorisation", "ok")]
    assert len(found.errors) == 1


def test_bits():
    assert is_allowed(1 << 8, 8)
    assert not is_allowed(1 << 8, 3)
