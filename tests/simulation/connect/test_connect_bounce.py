"""What restarts of Connect workers do. The numbers are those that real workers showed: a worker that does not lead comes
back to nothing until the delay is over, in three rebalances; after the leader's stop everything runs elsewhere at once,
also in three. `tests/frameworks/test_real_connect.py` carries such plans out."""

import pytest

from kgm.model.errors import NotFoundError, RefusedError, UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.work import MemberWork
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.bounce.request import BounceRequest
from kgm.operations.drain.fleet import DrainedFleet
from kgm.operations.drain.forecast import Drain, forecast
from kgm.operations.drain.target import DrainTarget
from kgm.operations.plan.search import PlanTask, find_plans
from kgm.simulation.bounce import simulate
from kgm.simulation.compare import compare
from kgm.simulation.connect.group import connect_group_of
from kgm.simulation.connect.play import usual_play
from kgm.simulation.plan.bounce_plan import MemberOrder, Membership, Plan, Rolling, Stop, WhatIf

DELAY = {"scheduled.rebalance.max.delay.ms": "60000"}


def worker(number, *work):
    tasks = tuple(one for one in work if "-" in one)
    connectors = tuple(one for one in work if "-" not in one)
    return MemberSnapshot(
        member_id=f"w-{number}", client_id=f"w-{number}", client_host=f"10.0.0.{number}", status="stable",
        work=MemberWork(user_endpoint=f"http://w{number}/", connectors=connectors, active_tasks=tasks),
    )  # fmt: skip


def workers(*members, **changes):
    members = members or (worker(1, "a", "a-0", "a-1", "b-0"), worker(2, "b", "a-2", "b-1"))
    return GroupSnapshot(**{
        "group_id": "connect", "type": "classic", "state": "Stable", "protocol_type": "connect",
        "assignor": "sessioned", "leader": "w-1", "generation": 5, "members": members, "is_settled": True, **changes,
    })  # fmt: skip


def predicted(group=None, **plan):
    return simulate(group or workers(), Plan(**{"settings": DELAY, **plan}), draws=30)


def spans(value):
    return value.min, value.max


def test_a_worker_that_does_not_lead_is_back_long_before_its_tasks():
    found = predicted(bounce=("w-2",))
    assert (spans(found.ranges.rebalances), spans(found.ranges.moved_partitions)) == ((3, 3), (0, 0))
    assert not found.exact
    assert 2 * 60_000 <= found.stopped_partition_range_ms.min <= found.stopped_partition_range_ms.max < 2 * 75_000
    assert "2 tasks of w-2 do not run for 1m after it leaves, even if it is back sooner" in found.caveats[0]


def test_beyond_the_delay_others_have_its_tasks_first():
    found = predicted(bounce=("w-2",), restart_time_ms=90_000)
    assert spans(found.ranges.rebalances) == (4, 4)
    assert found.ranges.handovers.min >= 2


def test_the_tasks_of_a_leader_run_elsewhere_at_once():
    found = predicted(bounce=("w-1",))
    assert spans(found.ranges.rebalances) == (3, 3)
    assert found.stopped_partition_range_ms.max < 60_000
    assert found.caveats[0].startswith("w-1 leads: the next leader does not remember what ran there")


#: The workers of a real group of Kafka 4.3, whose leader restarted. Its records: 2 workers; 3, and two of them have to
#: give up a task each; one has not, so the leader pauses (40 ms); it is told again; and its task starts elsewhere.
LOSING = (
    worker(1, "files", "lake-0", "lake-1"), worker(2, "files-1", "files-3"), worker(3, "lake", "files-0", "files-2"),
)  # fmt: skip


def test_what_a_worker_has_to_give_up_may_not_reach_it():
    found = predicted(workers(*LOSING), bounce=("w-1",))
    assert (found.ranges.rebalances.min, found.ranges.rebalances.median, found.ranges.rebalances.max) == (3, 3, 5)
    assert found.typical.rebalances == 3


def test_seldom_it_does_not():
    """In 46 real rounds in which two workers had to give something up, one did not learn of it."""
    plan = Plan(bounce=("w-1",), settings=DELAY)
    group = connect_group_of(workers(*LOSING), plan)
    rebalances = [usual_play(group, plan, f"{number}").play().rebalances for number in range(460)]
    assert {*rebalances} == {3, 5}
    assert 2 <= rebalances.count(5) <= 25


def test_without_a_delay_nobody_waits():
    found = predicted(bounce=("w-2",), settings={"scheduled.rebalance.max.delay.ms": "0"})
    assert found.stopped_partition_range_ms.max < 2 * 10_000


def test_a_delay_that_is_not_known_is_a_range():
    found = predicted(bounce=("w-2",), settings={})
    assert found.stopped_partition_range_ms.min < 2 * 10_000
    assert found.stopped_partition_range_ms.max > 2 * 300_000
    assert any("--set scheduled.rebalance.max.delay.ms=MS" in text for text in found.caveats)


def test_a_new_worker_takes_its_share():
    found = predicted(scale_out=1)
    assert spans(found.ranges.rebalances) == (2, 2)
    assert all(sum(map(len, share.values())) in (1, 2) for share in found.typical.final_assignment.values())


def test_whoever_leaves_for_good_is_waited_for():
    found = predicted(scale_in=("w-2",))
    assert found.stopped_partition_range_ms.min >= 2 * 60_000
    assert {move.owner_after for move in found.typical.moves} == {"w-1"}


def test_a_killed_worker_is_a_member_until_its_session_ends():
    found = predicted(bounce=("w-2",), stop=Stop.CRASH, restart_time_ms=30_000)
    assert found.stopped_partition_range_ms.min >= 2 * (60_000 + 7_000)


def test_all_at_once_and_one_by_one():
    together = predicted(bounce=("w-1", "w-2"), restart_time_ms=60_000)
    assert together.typical.was_empty
    rolling = predicted(bounce=("w-2", "w-1"), rolling=Rolling(), order=MemberOrder.LEADER_LAST)
    assert spans(rolling.ranges.rebalances) == (6, 6)
    assert all(sum(map(len, share.values())) in (2, 3) for share in rolling.typical.final_assignment.values())


def test_eager_workers_stop_everything_in_each_rebalance():
    found = predicted(workers(assignor="default"), bounce=("w-2",))
    assert spans(found.ranges.rebalances) == (2, 2)
    assert found.typical.fewest_consumed == 0


def test_a_group_that_holds_work_back_now():
    """The worker that ran a-1 has left: its task is what is missing between others."""
    group = workers(worker(1, "a", "a-0", "a-2"), worker(2), rebalance_delay_ms=40_000, is_settled=False)
    found = predicted(group, scale_out=1)
    assert any("holds work back now" in text for text in found.caveats)
    tasks = {(name, n) for share in found.typical.final_assignment.values() for name, ns in share.items() for n in ns}
    assert tasks == {("a", 0), ("a", 1), ("a", 2)}


@pytest.mark.parametrize(
    ("group", "plan", "error", "says"),
    [
        (workers(), {"bounce": ("w-9",)}, NotFoundError, "has no member w-9"),
        (workers(), {"bounce": ("w-1",), "migrate": True}, RefusedError, "no static membership"),
        (workers(), {"bounce": ("w-1",), "what_if": WhatIf(membership=Membership.STATIC)}, RefusedError, "no static"),
        (workers(state="PreparingRebalance"), {"bounce": ("w-1",)}, RefusedError, "its state is PreparingRebalance"),
        (workers(), {"bounce": ("w-1",), "settings": {"no.such": "1"}}, UsageError, "no.such is not known"),
        (
            workers(), {"bounce": ("w-1",), "settings": {"scheduled.rebalance.max.delay.ms": "1m"}}, UsageError,
            "must be a number of milliseconds",
        ),
        (
            workers(MemberSnapshot(member_id="w-1", work=MemberWork(user_endpoint="http://w/"))), {"bounce": ("w-1",)},
            RefusedError, "the work of w-1 cannot be read",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(group, plan, error, says):
    with pytest.raises(error, match=says):
        simulate(group, Plan(**plan), draws=2)


def test_comparisons_say_that_workers_have_nothing_of_it():
    found = compare(workers(), Plan(bounce=("w-2",), settings=DELAY), draws=2)
    assert len(found.predictions) == 1
    assert all("no static membership" in error.message for error in found.errors)


def test_a_plan_begins_with_the_leader():
    """Whoever leads restarts without a delay, and of two workers the other one leads then."""
    request = BounceRequest(everyone=True, settings=DELAY)
    found = find_plans(PlanTask(group=BounceGroup(snapshot=workers()), request=request), draws=8)
    assert found.is_complete
    best = found.plans[0]
    assert (best.shape.rolling, best.shape.bounce) == (Rolling(), ("w-1", "w-2"))
    assert best.prediction.stopped_partition_range_ms.max < 60_000
    assert not found.what_ifs
    assert not found.not_played


def test_a_drain_counts_tasks():
    fleet = DrainedFleet(described=(workers(),), affected=(BounceGroup(snapshot=workers()),))
    found = forecast(fleet, Drain(target=DrainTarget(hosts=("10.0.0.2",))), draws=4)
    (one,) = found.groups
    assert (one.taken, one.partitions_taken, one.most_partitions_before) == (("w-2",), 2, 3)
    assert one.most_partitions_after == 5
