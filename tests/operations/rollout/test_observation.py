"""What a rollout that goes on concludes from the group before and now: no cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.client.poller import PolledGroup
from kgm.model.client_library import stated_library
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.rollout.observation import GroupObservation
from kgm.operations.rollout.spec import RolloutStep, StepKind
from kgm.operations.watch.events import EventKind
from tests.operations.watch.virtual_time import VirtualTime


def _group(generation: int | None) -> GroupSnapshot:
    member = MemberSnapshot(member_id="a-1", group_instance_id="a", status="stable", topics=("t",))
    return GroupSnapshot(group_id="g", type="classic", state="Stable", members=(member,), generation=generation)


class _Poller:
    """Shows one group after another, and then the last one."""

    def __init__(self, *groups: GroupSnapshot) -> None:
        self._groups = [*groups]

    def poll(self) -> dict[str, PolledGroup]:
        return {"g": PolledGroup(seen=self._groups.pop(0) if len(self._groups) > 1 else self._groups[0])}


@pytest.mark.parametrize(
    ("before", "now", "rebalances", "doubt"),
    [
        (4, 4, 0, None), (4, 6, 2, None),
        (9, 2, 2, "at least: the group was deleted meanwhile and counts from 1 again"),
        (None, 2, 0, "at least: the generation before or now is not known"),
    ],
)  # fmt: skip
def test_what_happened_while_nobody_looked_is_counted_by_generations(before, now, rebalances, doubt):
    observation = GroupObservation("g", _Poller(_group(now)), VirtualTime())
    observation.poll()
    step = RolloutStep(kind=StepKind.BOUNCE, members=("a",))
    observation.resume(step, _group(before), is_acknowledged=False)
    counts = observation.counts()
    assert counts.rebalances == rebalances
    assert (None if counts.rebalances_doubt is None else str(counts.rebalances_doubt)) == doubt


def test_a_step_is_not_over_while_lost_work_is_held_back():
    """A Connect group is Stable then, with all members."""
    step = RolloutStep(kind=StepKind.BOUNCE, members=())
    for delay_ms, count in ((None, 0), (0, 0), (40_000, 1)):
        observation = GroupObservation("g", _Poller(replace(_group(4), rebalance_delay_ms=delay_ms)), VirtualTime())
        observation.poll()
        observation.resume(step, _group(4), is_acknowledged=False)
        assert len(observation.missing()) == count, observation.missing()


@pytest.mark.parametrize(
    ("stated", "seen", "why"),
    [
        (None, None, ""),
        (None, "java", ""),
        (None, "platformatic", "; a static member of platformatic leaves when it is closed"),
        ("platformatic", "java", "; a static member of platformatic leaves when it is closed"),
        ("java", "platformatic", ""),
    ],
)
def test_a_static_member_that_left_because_it_was_closed_is_told_of_as_such(stated, seen, why):
    """Not as one whose session has timed out."""
    (member,) = _group(4).members
    library = None if seen is None else stated_library(seen)
    before = replace(_group(4), members=(replace(member, client_library=library),))
    observation = GroupObservation(
        "g", _Poller(before, replace(before, members=(), generation=5)), VirtualTime(), library=stated
    )
    observation.poll()
    observation.begin(RolloutStep(kind=StepKind.BOUNCE, members=("a",)))
    (left,) = [event.text for event in observation.poll() if event.kind is EventKind.LEFT]
    assert left == f"a  a-1{why}"
    assert observation.missing() == [f"a has not come back{why}"]
    assert bool(observation.expired()) is not bool(why)
