"""A drain that takes all members of a group is the plan of `kgm simulate-bounce --all --together`: what may happen is the
same, however the members were selected, and whatever they are called."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kgm.model.client_library import stated_library
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.gates import Gates
from kgm.operations.bounce.prediction import predict_bounce
from kgm.operations.bounce.request import BounceRequest
from kgm.operations.drain.fleet import recorded_fleet
from kgm.operations.drain.forecast import Drain, forecast
from kgm.operations.drain.target import DrainTarget
from kgm.simulation.plan.synthetic_group import newly_assigned
from tests.selection import first_seed, sized
from tests.simulation.groups import made_up

EVERYONE = DrainTarget(client_ids=("*",))
RESTART_TIME_MS = 8_000
#: Shorter than the restart time: static members are not back in time.
SESSION_MS = 6_000


def mixed(members: dict[str, str], static: set[str], *, assignor="range", partitions=3) -> GroupSnapshot:
    """members: the library of each by name. static: the names of those that have an instance id."""
    group = made_up(len(members), partitions, assignor=assignor, group_id="mixed")
    named = (
        replace(
            one, member_id=f"{name}-9caf26a7", group_instance_id=name if name in static else None, client_id=name,
            client_library=stated_library(library), session_timeout_ms=SESSION_MS,
        )
        for one, (name, library) in zip(group.members, members.items(), strict=True)
    )  # fmt: skip
    return newly_assigned(replace(group, members=tuple(named)))


def foreseen(group, *, draws, seed=1, restart_time_ms=RESTART_TIME_MS, gates=None):
    drain = Drain(target=EVERYONE, restart_time_ms=restart_time_ms)
    fleet = recorded_fleet([group], EVERYONE, path="s.json")
    (one,) = forecast(fleet, drain, gates=gates, draws=draws, seed=seed).groups
    return one.prediction


@pytest.mark.long
@pytest.mark.parametrize("seed", range(sized(4, 40)))
def test_a_drain_foresees_what_simulate_bounce_does(seed):
    chance = random.Random(first_seed() + seed)
    names = chance.sample("abcdefgh", chance.randint(3, 6))
    group = mixed(
        {name: chance.choice(("java", "librdkafka")) for name in names},
        static={max(names)} | {name for name in names[1:] if name != min(names) and chance.random() < 0.5},
        assignor=chance.choice(("range", "roundrobin", "sticky", "cooperative-sticky")),
        partitions=chance.randint(2, 12),
    )
    (alone,) = recorded_fleet([group], EVERYONE, path="s.json").affected
    for restart_time_ms in (2_000, RESTART_TIME_MS):
        request = BounceRequest(everyone=True, restart_time_ms=restart_time_ms)
        draws = sized(20, 60)
        (expected,) = predict_bounce(alone, request, draws=draws, seed=seed).predictions
        assert foreseen(group, draws=draws, seed=seed, restart_time_ms=restart_time_ms) == expected


@pytest.mark.few(1)
@pytest.mark.parametrize("static", ["a", "s"])
@pytest.mark.parametrize("seed", range(1, sized(3, 9)))
def test_a_static_member_may_answer_the_leave_of_the_other_whatever_its_name(static, seed):
    """Seen with Kafka 4.3.0: its librdkafka member left, the static one joined the rebalance while it was closing and its
    session expired, and both joined again one after the other. However few the draws are, they include that."""
    group = mixed(dict.fromkeys((static, "c"), "librdkafka"), {static})
    for draws in (20, 200):
        prediction = foreseen(group, draws=draws, seed=seed)
        assert prediction.ranges is not None
        assert (prediction.ranges.generations.max, prediction.ranges.rebalances.max) >= (4, 3), draws


@pytest.mark.long
def test_a_gate_holds_only_on_the_draws_of_simulate_bounce():
    """Groups that keep a limit in the few draws of a drain are drawn as often as a single group; the others need not be."""
    looked = kept = 0
    for seed in range(1, sized(5, 60)):
        chance = random.Random(first_seed() + seed)
        names = chance.sample("abcdefgh", 4)
        group = mixed(dict.fromkeys(names, "librdkafka"), set(names[1:]), assignor="sticky", partitions=9)
        few = foreseen(group, draws=None, seed=seed)
        if few.exact or few.ranges is None:
            continue
        (alone,) = recorded_fleet([group], EVERYONE, path="s.json").affected
        request = BounceRequest(everyone=True, restart_time_ms=RESTART_TIME_MS)
        (many,) = predict_bounce(alone, request, seed=seed).predictions
        limit = few.ranges.handovers.max
        gated = foreseen(group, draws=None, seed=seed, gates=Gates(handovers=limit))
        assert gated.ranges == many.ranges
        assert foreseen(group, draws=None, seed=seed, gates=Gates(handovers=limit - 1)) == few
        looked += 1
        kept += many.ranges.handovers.max > limit
    assert looked
    assert kept or looked < 10, "no limit that is kept in few draws is exceeded in many, so this shows nothing"
