"""Where a rule says that draws can differ in times only, they do. The oracle is the play of many draws."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.model.client_library import stated_library
from kgm.simulation.draws.task import DrawTask
from kgm.simulation.plan.bounce_plan import Plan, Stop
from kgm.simulation.play.timing import EXTREME_TIMINGS
from kgm.simulation.simulation import Simulation
from tests.selection import first_seed, sized
from tests.simulation.groups import DYNAMIC, KINDS, STATIC, ids, made_up, mixed_fleet


@pytest.mark.few(1)
@pytest.mark.parametrize("stop", Stop)
def test_whoever_loses_one_member_does_the_same_in_every_draw(stop):
    """In groups of each kind; the rule covers at least half of them."""
    size, draws = sized(1, 10) * len(KINDS), sized(4, 30)
    covered = 0
    for one in mixed_fleet(size, first_seed() + 3, members=(2, sized(7, 20))):
        gone = min(member.identity for member in one.members)
        simulation = Simulation.of(one, Plan(scale_in=(gone,), stop=stop))
        first = simulation.play_task(DrawTask(number=0))
        if not simulation.differs_in_times_only(first):
            continue
        covered += 1
        tasks = [DrawTask(number=number) for number in range(1, draws)]
        tasks += [DrawTask(number=number, extreme=each) for number in range(draws // 4) for each in EXTREME_TIMINGS]
        for task in tasks:
            drawn = simulation.play_task(task)
            assert drawn.without_times == first.without_times, (one.group_id, task)
            assert drawn.final_assignment == first.final_assignment, (one.group_id, task)
    assert covered >= size / 2


def _rule(group, **plan):
    simulation = Simulation.of(group, Plan(**plan))
    return simulation.differs_in_times_only(simulation.play_task(DrawTask(number=0)))


def test_where_chance_decides_the_rule_does_not_hold():
    dynamic, static = made_up(4, 12, DYNAMIC), made_up(4, 12, STATIC)
    assert _rule(dynamic, scale_in=ids(dynamic, 0))
    assert _rule(static, scale_in=ids(static, 0))
    assert _rule(static, bounce=ids(static, 0), restart_time_ms=5_000), "it is back in time"
    assert not _rule(dynamic, scale_in=ids(dynamic, 0, 1)), "others may notice in between"
    assert not _rule(dynamic, bounce=ids(dynamic, 0)), "it gets another member id"
    assert not _rule(dynamic, scale_out=1), "its member id is drawn"
    last = made_up(1, 12, DYNAMIC)
    assert not _rule(last, scale_in=ids(last, 0)), "nobody is left to be assigned"


def test_what_is_not_known_of_members_may_decide():
    group = made_up(4, 12, DYNAMIC)
    gone = ids(group, 0)
    librdkafka = replace(group.members[1], client_library=stated_library("librdkafka"))
    assert not _rule(replace(group, members=(group.members[0], librdkafka, *group.members[2:])), scale_in=gone)
    sarama = tuple(replace(one, client_library=stated_library("sarama")) for one in group.members)
    assert not _rule(replace(group, members=sarama), scale_in=gone)
    assert not _rule(replace(group, rebalance_timeout_ms=1_000), scale_in=gone), "a member may come too late"
    sticky = made_up(4, 12, DYNAMIC, assignor="sticky")
    assert _rule(sticky, scale_in=ids(sticky, 0))
    sticky = replace(sticky, members=tuple(replace(one, listed_at=None) for one in sticky.members))
    assert not _rule(sticky, scale_in=ids(sticky, 0)), "it is not known how the broker lists the members"
