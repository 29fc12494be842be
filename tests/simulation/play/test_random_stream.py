"""Random numbers of one client: against the published numbers of splitmix64, and even ones."""

from __future__ import annotations

from kgm.simulation.play.random_stream import RandomStream
from kgm.simulation.play.timing import NETWORK_MS, SLOW_MS, SLOW_SHARE, draw_ms

MANY = 200_000


def test_the_numbers_are_those_of_splitmix64():
    """The first ones for seed 1234567 (Vigna's splitmix64.c, as many implementations test it)."""
    stream = RandomStream.of(1234567)
    assert [stream.word() for _ in range(5)] == [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
    ]  # fmt: skip


def test_streams_differ_by_seed_and_name():
    firsts = {RandomStream(seed, name).word() for seed in ("1", "2") for name in ("a", "b", "c")}
    assert len(firsts) == 6


def test_a_time_over_the_network_is_now_and_then_slow():
    stream = RandomStream("seed", "name")
    times = [draw_ms(stream, NETWORK_MS) for _ in range(MANY)]
    usual = [ms for ms in times if ms <= NETWORK_MS[1]]
    slow = [ms for ms in times if ms > NETWORK_MS[1]]
    assert stream.drawn == MANY
    assert abs(len(slow) / MANY - SLOW_SHARE) < 0.002
    assert abs(sum(usual) / len(usual) - sum(NETWORK_MS) / 2) < 0.02
    assert abs(sum(slow) / len(slow) - (sum(SLOW_MS) + sum(NETWORK_MS)) / 2) < 10
    assert min(usual) >= NETWORK_MS[0]
    assert max(slow) <= SLOW_MS[1] + NETWORK_MS[1]
