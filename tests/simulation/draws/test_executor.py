import os
import pathlib
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from kgm.model.errors import RefusedError, TimedOutError
from kgm.simulation.bounce import simulate
from kgm.simulation.draws.executor import HERE, ParallelDrawExecutor, cores
from kgm.simulation.draws.task import DrawTask
from kgm.simulation.plan.bounce_plan import Membership, Plan, Rolling
from kgm.simulation.play.timing import EXTREME_TIMINGS
from kgm.simulation.simulation import Simulation
from tests.simulation.groups import ids, made_up
from tests.waiting import is_running

TASKS = [DrawTask(number=number) for number in range(6)]


@pytest.fixture
def simulation():
    group = made_up(5, 12, Membership.DYNAMIC, "range")
    return Simulation.of(group, Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=2_000), seed=7)


@pytest.fixture
def slow():
    """A simulation of which a draw takes seconds."""
    group = made_up(80, 80, Membership.DYNAMIC, "range")
    return Simulation.of(group, Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=2_000))


def never():
    return False


def wait_until_gone(pids, within_s=10):
    deadline = time.monotonic() + within_s
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.02)


def test_a_task_gives_the_same_draw_here_and_in_any_number_of_processes(simulation):
    tasks = [*TASKS, DrawTask(number=1, extreme=EXTREME_TIMINGS[0]), DrawTask(number=2, keeps_holdings=True)]
    here = list(HERE.play(simulation, tasks, never))
    assert len({draw.stopped_partition_ms for draw in here}) > 1
    for processes in (1, 2, 3):
        with ParallelDrawExecutor(processes, worth_s=0) as executor:
            assert list(executor.play(simulation, tasks, never)) == here
            assert len(executor.process_ids) == (processes if processes > 1 else 0)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("membership", Membership)
def test_a_prediction_does_not_depend_on_who_plays(membership):
    group = made_up(4, 9, membership, "range")
    plan = Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=2_000)
    expected = simulate(group, plan, draws=20, seed=3, keeps_holdings=True)
    with ParallelDrawExecutor(2, worth_s=0) as executor:
        assert simulate(group, plan, draws=20, seed=3, keeps_holdings=True, executor=executor) == expected


def test_what_takes_no_time_is_played_here(simulation):
    with ParallelDrawExecutor(2) as executor:
        list(executor.play(simulation, TASKS[:3], never))
        assert executor.process_ids == ()


@pytest.mark.long
def test_draws_of_a_process_that_is_killed_are_played_here(simulation):
    expected = list(HERE.play(simulation, TASKS, never))
    with ParallelDrawExecutor(2, worth_s=0) as executor:
        played = executor.play(simulation, TASKS, never)
        draws = [next(played), next(played)]
        for pid in executor.process_ids:
            os.kill(pid, signal.SIGKILL)
        assert [*draws, *played] == expected


def test_an_error_in_a_process_is_the_error_that_there_would_be_here():
    group = made_up(3, 6, Membership.DYNAMIC, "range")
    refused = Simulation.of(group, Plan(bounce=ids(group)))
    refused = replace(refused, group=replace(refused.group, assignor="unheard-of"))
    with ParallelDrawExecutor(2, worth_s=0) as executor, pytest.raises(RefusedError, match="unheard-of"):
        list(executor.play(refused, TASKS, never))


def test_processes_end_with_the_executor_whatever_they_do(slow):
    with ParallelDrawExecutor(2, worth_s=0) as executor:
        played = executor.play(slow, [*TASKS], lambda: len(executor.process_ids) == 2)
        with pytest.raises(TimedOutError):
            list(played)
        assert executor.process_ids == ()  # those at work were ended with the time limit


def test_processes_end_with_an_interrupt(slow):
    pids = ()

    def interrupted():
        nonlocal pids
        pids = executor.process_ids
        if pids:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt), ParallelDrawExecutor(2, worth_s=0) as executor:
        list(executor.play(slow, TASKS, interrupted))
    assert pids
    wait_until_gone(pids)


_PARENT = """
import sys
from kgm.simulation.simulation import Simulation
from kgm.simulation.draws.executor import ParallelDrawExecutor
from kgm.simulation.draws.task import DrawTask
from kgm.simulation.plan.bounce_plan import Membership, Plan, Rolling
from tests.simulation.groups import ids, made_up
group = made_up(80, 80, Membership.DYNAMIC, "range")
plan = Plan(bounce=ids(group), rolling=Rolling(), restart_time_ms=2_000)
executor, said = ParallelDrawExecutor(2, worth_s=0), False
def look():
    global said
    if not said and len(executor.process_ids) == 2:
        said = True
        print(*executor.process_ids, flush=True)
    return False
list(executor.play(Simulation.of(group, plan), [DrawTask(number=n) for n in range(50)], look))
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_is_left_when_the_parent_is_killed(how):
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        cwd=pathlib.Path(__file__).resolve().parents[3],
    )  # fmt: skip
    with parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.send_signal(how)
        parent.wait(20)
    wait_until_gone(pids, within_s=20)


def test_it_is_known_how_many_cores_there_are():
    assert 1 <= cores() <= (os.cpu_count() or 1)
