"""What draws of one simulation share makes no difference to them."""

from __future__ import annotations

import gc
import weakref

import pytest

from kgm.simulation.draws.task import DrawTask
from kgm.simulation.plan.bounce_plan import Plan
from kgm.simulation.play import seed_records
from kgm.simulation.play.plan_runner import PlanRunner
from kgm.simulation.play.timing import EXTREME_TIMINGS
from kgm.simulation.simulation import Simulation
from tests.simulation.groups import KINDS, ids, mixed_fleet
from tests.simulation.play.bulk.both_ways import timers_of

TASKS = (*(DrawTask(number=number) for number in range(4)), DrawTask(number=0, extreme=EXTREME_TIMINGS[1]))
FLEET = mixed_fleet(len(KINDS), 5, members=(3, 12))


def one_restarts(group):
    return Plan(bounce=ids(group, 0), restart_time_ms=10_000)


@pytest.mark.few(3)
@pytest.mark.parametrize("group", FLEET, ids=[f"{group.assignor}-{group.type}-{group.group_id}" for group in FLEET])
def test_draws_are_the_same_after_other_draws(group):
    shared = Simulation.of(group, one_restarts(group))
    for task in TASKS:
        assert shared.play_task(task) == Simulation.of(group, one_restarts(group)).play_task(task)


@pytest.mark.parametrize("group", FLEET, ids=[f"{group.assignor}-{group.type}-{group.group_id}" for group in FLEET])
def test_first_heartbeats_together_are_those_one_by_one(monkeypatch, group):
    """The draw, the number of requests, and the order of the timers at the start."""

    def play():
        runner = Simulation.of(group, one_restarts(group)).runner(1)
        runner._load_group()
        timers = timers_of(runner), runner.world.requests
        return timers, Simulation.of(group, one_restarts(group)).runner(1).play()

    together = play()
    monkeypatch.setattr(seed_records, "_extend_sessions", lambda *_: False)
    assert play() == together


def test_a_draw_leaves_nothing_to_a_garbage_collection(monkeypatch):
    worlds = []

    class Watched(PlanRunner):
        def __init__(self, *given, **more):
            super().__init__(*given, **more)
            worlds.append(weakref.ref(self.world))

    monkeypatch.setattr("kgm.simulation.simulation.PlanRunner", Watched)
    gc.disable()
    try:
        for group in FLEET:
            Simulation.of(group, one_restarts(group)).play_task(DrawTask(number=0))
        assert [world() for world in worlds] == [None] * len(FLEET)
    finally:
        gc.enable()
