import pytest

from kgm.model.errors import UsageError
from kgm.simulation.plan.bounce_plan import Plan, Rolling, Stop, WhatIf, without


def test_batches_follow_the_order_given():
    names = ("c", "a", "b")
    assert Plan(bounce=names).batches() == (names,)
    assert Plan(bounce=names, rolling=Rolling()).batches() == (("c",), ("a",), ("b",))
    assert Plan(bounce=names, rolling=Rolling(max_unavailable=2)).batches() == (("c", "a"), ("b",))
    assert Plan(scale_in=("a",)).batches() == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"bounce": ("a", "a")},
        {"bounce": ("a",), "scale_in": ("a",)},
        {"scale_in": ("a",), "remove": ("a",)},
        {"scale_out": -1},
        {"bounce": ("a",), "restart_time_ms": -1},
        {"bounce": ("a",), "heartbeat_interval_ms": 0},
        {"bounce": ("a",), "what_if": WhatIf(session_timeout_ms=0)},
        {"bounce": ("a",), "what_if": WhatIf(rebalance_timeout_ms=0)},
        {"bounce": ("a",), "rolling": Rolling(max_unavailable=0)},
        {"bounce": ("a",), "rolling": Rolling(pause_ms=-1)},
    ],
)
def test_a_plan_that_cannot_be_is_refused(wrong):
    with pytest.raises(UsageError):
        Plan(**wrong)


def test_the_plan_as_understood():
    plan = Plan(bounce=("a",), scale_out=2, rolling=Rolling(pause_ms=5), stop=Stop.CRASH, settings={"x.y": "1"})
    assert plan.to_json() == {
        "bounce": ["a"], "scale_in": [], "remove": [], "scale_out": 2, "scale_out_every_ms": 0,
        "target_size": None, "pre_registered": [], "units": [], "mode": "rolling", "max_unavailable": 1, "order": "named",
        "pause_ms": 5, "restart_time_ms": 10_000, "restart_times_ms": [], "retry_every_ms": None, "migrate": False, "stop": "crash",
            "remove_first": False, "session_timeout_ms": None,
        "rebalance_timeout_ms": None, "heartbeat_interval_ms": None, "assignor": None, "library": None, "protocol": None, "as": None,
        "settings": {"x.y": "1"},
        "kafka_version": "4.3", "other_versions": [],
    }  # fmt: skip
    together = Plan(bounce=("a",)).to_json()
    assert (together["mode"], together["max_unavailable"], together["pause_ms"]) == ("together", None, None)


def test_without_keeps_the_order():
    assert without(("c", "a", "b"), ["a"]) == ("c", "b")
