"""Members of one group with session timeouts of their own: what happens to one is decided by its own."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, Stop
from kgm.simulation.plan.client_library import HEARTBEAT_INTERVAL_MS
from tests.selection import sized
from tests.simulation.groups import ids, made_up

#: What passes besides the restart: the start of a process, slow messages, timers that are late.
_SPARE_MS = 4_000


def with_sessions(group, sessions_ms):
    members = zip(group.members, sessions_ms, strict=True)
    return replace(
        group, session_timeout_ms=None, members=tuple(replace(one, session_timeout_ms=ms) for one, ms in members)
    )


@settings(max_examples=sized(8, 200))
@given(st.lists(st.integers(6, 90), min_size=3, max_size=3), st.integers(0, 2), st.integers(0, 120))
def test_whether_a_restart_is_noticed_depends_on_the_session_of_that_member(sessions_s, which, restart_s):
    """A static member that is silent is removed when its own session ends, and at no other time (KIP-345)."""
    group = with_sessions(made_up(), [1_000 * seconds for seconds in sessions_s])
    own_ms, restart_ms = 1_000 * sessions_s[which], 1_000 * restart_s
    (name,) = ids(group, which)
    draw = simulate(group, Plan(bounce=(name,), restart_time_ms=restart_ms), draws=1).typical
    expired = [event.at_ms for event in draw.timeline if event.event == "expired"]
    if restart_ms > own_ms:
        (at_ms,) = expired
        assert own_ms - HEARTBEAT_INTERVAL_MS - _SPARE_MS <= at_ms <= own_ms + _SPARE_MS
        assert draw.rebalances
    elif restart_ms + HEARTBEAT_INTERVAL_MS + _SPARE_MS < own_ms:
        assert (expired, draw.rebalances) == ([], 0)


@settings(max_examples=sized(5, 100))
@given(st.permutations([10_000, 45_000, 90_000]))
def test_each_dead_member_is_missed_for_as_long_as_its_own_session(sessions_ms):
    group = with_sessions(made_up(), sessions_ms)
    names = ids(group)
    for name, session_ms in zip(names, sessions_ms, strict=True):
        draw = simulate(group, Plan(scale_in=(name,), stop=Stop.CRASH), draws=1).typical
        (expired,) = [event for event in draw.timeline if event.event == "expired"]
        assert expired.member == name
        assert session_ms - HEARTBEAT_INTERVAL_MS - _SPARE_MS <= expired.at_ms <= session_ms + _SPARE_MS
