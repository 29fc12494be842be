"""What a rollout that goes on concludes from the group before and now: no cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.client.poller import PolledGroup
from kgm.model.client_library import stated_library
from kgm.model.errors import RefusedError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.rollout import session
from kgm.operations.rollout.observation import GroupObservation, next_rebalance_ms
from kgm.operations.rollout.spec import RolloutLimits, RolloutStep, StepKind
from kgm.operations.watch.events import EventKind
from kgm.text.timestamps import rfc3339
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


AT_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
DUE = {"is_settled": False, "next_rebalance_at": "2026-01-01T00:01:00.000Z"}


def test_a_step_is_not_over_while_a_member_is_to_start_another_rebalance():
    """A Kafka Streams application is Stable between two probes. While its members are away it need not be at rest."""
    observation = GroupObservation("g", _Poller(replace(_group(4), **DUE)), VirtualTime())
    observation.poll()
    observation.resume(RolloutStep(kind=StepKind.BOUNCE, members=()), _group(4), is_acknowledged=False)
    assert observation.missing() == ["not settled: a member starts another rebalance, due at 2026-01-01T00:01:00.000Z"]
    observation.expect_away(is_away=True)
    assert observation.missing() == []


@pytest.mark.parametrize(
    ("group", "now_ms", "due_ms"),
    [
        (replace(_group(4), **DUE), AT_MS, AT_MS + 60_000),
        (replace(_group(4), **DUE), AT_MS + 60_000, None),  # it is over
        (replace(_group(4), **DUE), AT_MS - 3_600_000, None),  # too late to be waited for
        (replace(_group(4), is_settled=False, unassigned_until=DUE["next_rebalance_at"]), AT_MS, AT_MS + 60_000),
        (replace(_group(4), **(DUE | {"next_rebalance_at": "1970-01-01T00:00:00.000Z"})), AT_MS, None),  # at once
        (replace(_group(4), **(DUE | {"is_settled": None})), AT_MS, None),
        (replace(_group(4), is_settled=False), AT_MS, None),
        (None, AT_MS, None),
    ],
)
def test_when_the_next_rebalance_is_due(group, now_ms, due_ms):
    assert next_rebalance_ms(group, now_ms) == due_ms


class _Cluster:
    """An application with probes every minute until it is settled. probes: how many. It counts as asked at each look."""

    def __init__(self, clock: VirtualTime, probes: int) -> None:
        self._clock, self._probes, self._began_ms = clock, probes, clock.now_ms()

    def renew(self, timeout_ms: int | None = None) -> None:
        pass

    def describe_group(self, group_id: str, *, offsets: bool = True) -> GroupSnapshot:
        done = (self._clock.now_ms() - self._began_ms) // 60_000
        settled = done >= self._probes
        due = None if settled else rfc3339(self._began_ms + 60_000 * (done + 1))
        return replace(_group(4 + done), is_settled=settled, next_rebalance_at=due, rebalance_timeout_ms=10_000)


@pytest.mark.parametrize(
    ("probes", "limit_ms", "waits_ms"), [(0, None, 0), (3, None, 180_000), (3, 200_000, 180_000), (3, 100_000, None)]
)
def test_a_rollout_begins_when_the_application_is_settled(monkeypatch, probes, limit_ms, waits_ms):
    clock = VirtualTime()
    cluster, began_ms, told = _Cluster(clock, probes), clock.now_ms(), []
    monkeypatch.setattr(session, "live_group", lambda of, name: BounceGroup(snapshot=of.describe_group(name)))
    limits = RolloutLimits(settle_ms=0, step_timeout_ms=limit_ms)
    unsettled = BounceGroup(snapshot=cluster.describe_group("g"))

    def wait():
        return session.settled_group(cluster, unsettled, limits, clock, told.append).snapshot

    if waits_ms is None:
        with pytest.raises(RefusedError, match="nothing was done: group 'g' does not come to rest: not settled"):
            wait()
        return
    assert wait().generation == 4 + probes
    assert 0 <= clock.now_ms() - began_ms - waits_ms <= limits.interval_ms
    assert bool(told) is bool(probes)


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
