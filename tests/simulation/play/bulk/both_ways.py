"""A draw in bulk and the same draw event by event, which must be equal: to the last float, with the same records, and
with the same final state of the coordinator and the clients. Sessions that end in the same millisecond end together, in
any order, so no draw shows the order of their timers: that order is compared directly."""

from __future__ import annotations

from hypothesis import strategies as st

from kgm.coordinator.contract.outcome import session_key
from kgm.simulation.plan.bounce_plan import MemberOrder, Plan, Rolling, Stop
from kgm.simulation.play.bulk.rounds import Rounds
from kgm.simulation.play.plan_runner import PlanRunner
from kgm.simulation.play.timing import EXTREME_TIMINGS, DrawTiming
from kgm.simulation.simulation import Simulation
from tests.simulation.groups import ids

NEVER = 10**9


def play(snapshot, plan, *, bulk_from, seed="seed", timing=DrawTiming, keeps_records=True):
    """A draw, the records that the coordinator wrote in it, its timers at the start of each batch, and the runner that
    played it."""
    simulation = Simulation.of(snapshot, plan)
    seen = []

    class Watched(timing):
        """Looks at the timers at the start of each batch."""

        def begin_batch(self):
            super().begin_batch()
            seen.append(timers_of(runner))

    runner = PlanRunner(
        simulation.group, simulation.plan, simulation.settings, seed, timing=Watched, bulk_from=bulk_from
    )
    runner.world.kept_records = [] if keeps_records else None
    draw = runner.play()
    return draw, runner.world.kept_records, seen, runner


def timers_of(runner):
    """The coordinator's timers, and those kept in arrays, in the order in which they would fire."""
    world = runner.world
    if runner.bulk is not None:
        runner.bulk.catch_up()
    timers = [(deadline, world.runtime.turn_of(key), key) for key, deadline in world.engine.deadlines.items()]
    if isinstance(runner.bulk, Rounds):
        arrays, group_id = runner.bulk.arrays, world.group.group_id
        timers += [
            (int(arrays.deadline_ms[slot]), int(arrays.turn[slot]), session_key(group_id, member_id))
            for member_id, slot in arrays.slots.items()
        ]
    elif runner.bulk is not None:
        timers += [(deadline, turn, key) for key, deadline, turn in runner.bulk.suspended_timers()]
    return [(deadline, key) for deadline, _, key in sorted(timers)]


def left_behind(runner):
    """The timers, the group, and the clients' state at the end."""
    world = runner.world
    if runner.bulk is not None:
        runner.bulk.to_scripted_members()
    clients = [
        (
            member.spec.identity, member.phase, member.member_id, member.generation, member.owned, member.chance.drawn,
            member.last_beat_ms, member.extended_ms, member.link_busy_until_ms,
            None if member.next_heartbeat is None else member.next_heartbeat.at_ms,
        )
        for member in runner.members
    ]  # fmt: skip
    return timers_of(runner), world.engine.group(world.group.group_id), clients, world.clock.now_ms


def assert_equal(snapshot, plan, seed="seed", timing=DrawTiming):
    """Play it both ways, such as what `with_a_plan` returns; returns the runner that played it in bulk."""
    more = {"seed": seed, "timing": timing}
    plain, plain_records, plain_timers, by_events = play(snapshot, plan, bulk_from=NEVER, **more)
    bulk, bulk_records, timers, runner = play(snapshot, plan, bulk_from=1, **more)
    assert bulk == plain
    assert bulk_records == plain_records
    assert timers == plain_timers
    assert left_behind(runner) == left_behind(by_events)
    # To keep the records, the coordinator is told of each round; otherwise it is not.
    without_records, _, timers, other = play(snapshot, plan, bulk_from=1, keeps_records=False, **more)
    assert without_records == plain
    assert timers == plain_timers
    assert left_behind(other) == left_behind(by_events)
    return runner


def with_a_plan(draw, snapshot, joining, **more):
    """The group, a plan for it, a seed, and timings. joining: how many members may join. more: other fields of the
    plan."""
    named = ids(snapshot)
    rolling = draw(st.sampled_from([None, Rolling(), Rolling(), Rolling(pause_ms=50_000), Rolling(max_unavailable=2)]))
    leaves = draw(st.sampled_from([0, 0, 0, 1]))
    plan = Plan(
        bounce=named[leaves:], scale_in=named[:leaves], scale_out=draw(st.sampled_from(joining)), rolling=rolling,
        order=draw(st.sampled_from(MemberOrder)), stop=draw(st.sampled_from([Stop.CLEAN, Stop.CLEAN, Stop.CRASH])),
        restart_time_ms=draw(st.sampled_from([0, 1_000, 5_000, 5_000, 20_000, 100_000])),
        remove_first=rolling is not None and draw(st.integers(0, 9)) == 0, **more,
    )  # fmt: skip
    return snapshot, plan, f"seed {draw(st.integers(0, 1_000))}", draw(st.sampled_from([DrawTiming, *EXTREME_TIMINGS]))
