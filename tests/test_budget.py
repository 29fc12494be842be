"""Budgets of CPU time, several times what is measured: no benchmark, but a tenfold slip fails here.

The figures themselves, beside their peers, are in bench/."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import pytest

from kgm.protocol import codec
from kgm.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember


def cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def best(function, rounds):
    found = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        function()
        found = min(found, time.process_time() - start)
    return found


@pytest.mark.slow
def test_help_stays_far_below_half_a_second_of_cpu():
    """Measured: 0.1 s."""
    found = float("inf")
    for _ in range(3):
        start = cpu_of_children()
        subprocess.run([sys.executable, "-m", "kgm.cli.main", "--help"], check=True, capture_output=True)
        found = min(found, cpu_of_children() - start)
    assert found < 0.5


def test_the_codec_handles_500_members_in_milliseconds():
    """Measured: 0.5 ms to decode, 0.25 ms to encode."""
    members = [JoinGroupResponseMember(member_id=f"consumer-{i:037d}", metadata=bytes(150)) for i in range(500)]
    message = JoinGroupResponse(protocol_type="consumer", protocol_name="range", members=members)
    data = codec.encode(message, 9)
    assert best(lambda: codec.decode(JoinGroupResponse, data, 9), 5) < 0.005
    assert best(lambda: codec.encode(message, 9), 5) < 0.003


@pytest.mark.slow
def test_a_rolling_bounce_of_300_static_members_takes_seconds():
    """Measured: 3 s."""
    start = cpu_of_children()
    flags = ["--members", "300", "--topic", "orders:3000", "--all", "--rolling", "--restart-time", "5s"]
    subprocess.run([sys.executable, "-m", "kgm.cli.main", "simulate-bounce", *flags, "-o", "json"], check=True, capture_output=True)
    assert cpu_of_children() - start < 25
