"""No Kafka API returns the session timeout of a classic group, so a prediction that depends on it is not exact."""

from dataclasses import replace

import pytest

from kgm.model.snapshot import TopicSnapshot
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Membership, Plan, WhatIf
from kgm.simulation.plan.synthetic_group import synthetic_group

LIVE = replace(
    synthetic_group(3, [TopicSnapshot(name="t", partitions=12)], Membership.STATIC, "range"),
    session_timeout_ms=None, rebalance_timeout_ms=None,
)  # fmt: skip


def bounce(restart_time_ms, session_timeout_ms=None):
    what_if = WhatIf(session_timeout_ms=session_timeout_ms)
    return simulate(LIVE, Plan(bounce=("member-2",), restart_time_ms=restart_time_ms, what_if=what_if), draws=5)


def test_a_restart_that_any_session_survives_is_exact():
    assert bounce(500).exact


def test_a_restart_that_some_sessions_do_not_survive_is_not():
    """Expiry and join are a rebalance each (KIP-345: only the session timeout removes a silent static member)."""
    scenario = bounce(10_000)
    assert not scenario.exact
    assert (scenario.ranges.rebalances.min, scenario.ranges.rebalances.median, scenario.ranges.rebalances.max) == (
        0,
        0,
        2,
    )
    assert scenario.typical.rebalances == 0
    assert any("--session-timeout" in caveat and "6 s" in caveat for caveat in scenario.caveats)


@pytest.mark.parametrize(("session_timeout_ms", "rebalances"), [(45_000, 0), (6_000, 2)])
def test_a_prediction_with_a_given_session_timeout_is_exact(session_timeout_ms, rebalances):
    scenario = bounce(15_000, session_timeout_ms)
    assert scenario.exact
    assert scenario.typical.rebalances == rebalances
    assert scenario.typical.moved_partitions == 0
