"""What is drawn for a run, where what is drawn could stop the clock."""

import random

import pytest

from kgm.simulation.play.timing import AllAtOnce, DrawTiming, NoticedLastFirst, OneByOne


@pytest.mark.parametrize("timing", [DrawTiming, AllAtOnce, OneByOne, NoticedLastFirst])
@pytest.mark.parametrize("session_timeout_ms", [0, 1, 3, 20])
def test_time_passes_between_heartbeats_whatever_the_session(timing, session_timeout_ms):
    """A member that beats again at once would beat without end before any of its heartbeats arrives."""
    drawn = [timing(random.Random(seed), None, session_timeout_ms).heartbeat_interval_ms for seed in range(200)]
    assert min(drawn) >= 1
    assert max(drawn) <= max(1, session_timeout_ms // 2)
