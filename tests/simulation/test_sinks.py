"""What restarts of Connect workers do to the groups of their sink connectors. `tests/frameworks/test_real_connect.py`
holds it against real workers."""

from dataclasses import replace

import pytest

from kgm.model.error_code import ErrorCode
from kgm.model.errors import AuthorizationError, NotFoundError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, TopicSnapshot
from kgm.operations.bounce.gates import Gates
from kgm.operations.bounce.group import BounceGroup
from kgm.operations.bounce.prediction import predict_bounce, simulate
from kgm.operations.bounce.request import BounceRequest
from kgm.operations.bounce.sinks import with_live_sinks, with_recorded_sinks
from kgm.operations.drain.fleet import recorded_fleet
from kgm.operations.drain.forecast import Drain, forecast
from kgm.operations.drain.target import DrainTarget
from kgm.operations.rollout.expectation import StepExpectation
from kgm.simulation.plan.bounce_plan import Plan, Rolling, Stop
from tests.operations.groups.test_sink_tasks import Cluster
from tests.simulation.connect.test_connect_bounce import DELAY, worker, workers

DELAY_MS = 60_000
#: The longest heartbeat interval of a consumer or a worker, which learns of a rebalance with a heartbeat.
HEARTBEAT_MS = 3_000
#: Until a worker's tasks have stopped and it has left; until a group of one task that starts has assigned it.
LEAVE_MS, START_MS = 2_000, 3_500 + HEARTBEAT_MS


def sink(name, *tasks, partitions=4, **changes):
    """The group of a sink connector. tasks: what the consumer of each owns."""
    members = tuple(
        MemberSnapshot(
            member_id=f"connector-consumer-{name}-{number}-id", client_id=f"connector-consumer-{name}-{number}",
            client_host="10.0.0.2", status="stable", assignment={"orders": owned}, topics=("orders",),
        )
        for number, owned in enumerate(tasks)
    )  # fmt: skip
    return GroupSnapshot(**{
        "group_id": f"connect-{name}", "type": "classic", "state": "Stable", "protocol_type": "consumer",
        "assignor": "range", "generation": 7, "members": members, "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000, "topics": (TopicSnapshot(name="orders", partitions=partitions),), **changes,
    })  # fmt: skip


#: The tasks of `a` run on w-1 (0 and 1) and w-2 (2), the only one of `b` on w-2.
A = sink("a", (0, 1), (2,), (3,))
B = sink("b", (0, 1), partitions=2)
WORKERS = workers(worker(1, "a", "a-0", "a-1", "s-0"), worker(2, "b", "a-2", "b-0"))


def predicted(*sinks, group=WORKERS, draws=8, **plan):
    linked = with_recorded_sinks(BounceGroup(snapshot=group), [BounceGroup(snapshot=one) for one in (group, *sinks)])
    return simulate(linked, Plan(**{"settings": DELAY, **plan}), draws=draws)


def spans(value):
    return value.min, value.max


def test_partitions_of_a_task_that_is_alone_wait_for_the_end_of_the_delay():
    (found,) = predicted(B, bounce=("w-2",)).sinks
    assert (found.group_id, found.connector, found.tasks, found.stopping_tasks) == ("connect-b", "b", 1, ("b-0",))
    assert (spans(found.rebalances), spans(found.generations)) == ((1, 1), (2, 2))  # an empty group is a generation
    assert spans(found.moved_partitions) == (0, 0)
    assert [(one.topic, one.partition) for one in found.unowned_partitions] == [("orders", 0), ("orders", 1)]
    assert found.longest_ms.min > DELAY_MS
    assert found.until_ms.max < DELAY_MS + LEAVE_MS + 2 * HEARTBEAT_MS + START_MS


def test_other_tasks_have_the_partitions_meanwhile():
    """Until all have them again there are two rebalances at least: without the task, and with it."""
    (found,) = predicted(A, bounce=("w-2",)).sinks
    assert (found.tasks, found.stopping_tasks) == (3, ("a-2",))
    assert found.rebalances.min == 2
    # All stop in a rebalance of `range`.
    assert found.unowned_by_topic == {"orders": (0, 1, 2, 3)}
    assert found.longest_ms.max < 2 * HEARTBEAT_MS
    assert DELAY_MS < found.until_ms.min < found.until_ms.max < DELAY_MS + LEAVE_MS + 2 * HEARTBEAT_MS + START_MS


def test_the_tasks_of_a_leader_start_elsewhere_at_once():
    (found,) = predicted(A, bounce=("w-1",)).sinks
    assert found.stopping_tasks == ("a-0", "a-1")
    assert found.until_ms.max < DELAY_MS


def test_beyond_the_delay_tasks_run_elsewhere_and_some_stop_once_more():
    within, beyond = (predicted(A, B, bounce=("w-2",), restart_time_ms=ms).sinks for ms in (10_000, 90_000))
    assert DELAY_MS < beyond[1].longest_ms.min < beyond[1].longest_ms.max < 90_000
    assert sum(one.generations.max for one in beyond) > sum(one.generations.max for one in within)


def test_a_worker_that_leaves_for_good_is_replaced_after_the_delay():
    (found,) = predicted(B, scale_in=("w-2",)).sinks
    assert found.until_ms.min > DELAY_MS


def test_without_any_worker_nobody_has_the_partitions():
    (found,) = predicted(B, scale_in=("w-1", "w-2")).sinks
    assert found.until_ms is None
    assert {one.until_ms for one in found.unowned_partitions} == {None}


def test_consumers_of_a_killed_worker_stay_members_until_their_session_ends():
    """They own what they have, and nobody reads it. The session of the consumers is longer than that of the workers."""
    (found,) = predicted(A, bounce=("w-2",), stop=Stop.CRASH).sinks
    (last,) = [one for one in found.unowned_partitions if one.partition == 3]
    assert last.longest_ms.min > 45_000 - HEARTBEAT_MS


def test_only_tasks_that_stop_matter():
    (found,) = predicted(sink("s", (0,)), bounce=("w-2",)).sinks
    assert (found.stopping_tasks, spans(found.generations), found.unowned_partitions) == ((), (0, 0), ())
    assert str(found) == "sink group connect-s: 0 rebalances, no partition stops"


def test_a_delay_that_is_not_known_is_a_range():
    (found,) = predicted(B, bounce=("w-2",), settings={}).sinks
    assert found.until_ms.min < LEAVE_MS + 2 * HEARTBEAT_MS + START_MS
    assert found.until_ms.max > 300_000


def test_settings_of_the_broker_hold_for_both_groups():
    settings = {**DELAY, "group.initial.rebalance.delay.ms": "20000"}
    (found,) = predicted(B, bounce=("w-2",), settings=settings).sinks
    assert found.longest_ms.min > DELAY_MS + 20_000 > found.longest_ms.min - LEAVE_MS - 2 * HEARTBEAT_MS


def test_the_same_seed_gives_the_same():
    assert predicted(A, B, bounce=("w-2",), draws=3).sinks == predicted(A, B, bounce=("w-2",), draws=3).sinks


def test_what_is_not_known_is_said():
    alone = predicted(bounce=("w-2",))
    assert not alone.sinks
    assert alone.caveats[-1].startswith("sink groups are not part of the prediction: no group connect-CONNECTOR in the")
    busy = predicted(sink("b", (0, 1), state="PreparingRebalance"), A, bounce=("w-2",))
    assert [one.group_id for one in busy.sinks] == ["connect-a"]
    assert busy.caveats[-1].startswith("the sink group connect-b is not part of the prediction: group connect-b is in")
    (failed,) = predicted(sink("a", (0, 1, 2), (3,)), bounce=("w-1",)).sinks
    assert failed.caveats[0].startswith("a-2 run on a worker and have no consumer in the group now")


def test_a_task_that_is_killed_before_it_has_joined_is_no_member():
    """Nobody waits for the end of a session that it does not have. Eager workers start all tasks in each rebalance."""
    consumers = tuple(replace(member, protocol="consumer") for member in A.members)
    group = replace(A, type="consumer", assignor="uniform", group_epoch=7, members=consumers)
    plan = {"bounce": ("w-1", "w-2"), "rolling": Rolling(), "stop": Stop.CRASH, "restart_time_ms": 0}
    (found,) = predicted(group, group=replace(WORKERS, assignor="default"), draws=24, **plan).sinks
    assert not found.caveats


def test_a_group_of_consumers_has_no_sinks():
    group = BounceGroup(snapshot=A)
    assert with_recorded_sinks(group, [BounceGroup(snapshot=WORKERS)]) is group


def test_a_bounce_of_tasks_says_what_restarts():
    found = simulate(BounceGroup(snapshot=B), Plan(bounce=(B.members[0].identity,)), draws=3)
    assert not found.exact
    assert "in practice a Kafka Connect worker restarts with all its tasks" in found.caveats[0]


def test_what_workers_refuse_is_no_reason_of_a_sink_group():
    linked = with_recorded_sinks(BounceGroup(snapshot=WORKERS), [BounceGroup(snapshot=B)])
    with pytest.raises(NotFoundError, match="has no member w-9"):
        simulate(linked, Plan(bounce=("w-9",), settings=DELAY), draws=2)


def test_a_rollout_tells_of_sink_groups():
    found = predicted(B, bounce=("w-2",), draws=3)
    *_, text = StepExpectation.of(found, WORKERS).caveats
    assert text.startswith("sink group connect-b: 1 rebalance, 2 partitions without a consumer for a while, until 6")


def drained(*groups, **gates):
    target = DrainTarget(hosts=("10.0.0.2",))
    fleet = recorded_fleet(groups, target, path="f")
    what_if = Plan(bounce=("x",)).what_if
    return forecast(fleet, Drain(target=target, what_if=what_if), draws=3, gates=Gates(**gates))


def test_a_drain_has_sink_groups_with_their_workers():
    """A consumer by itself would not come back, and its partitions would have no owner left. Tasks of `a` on w-1 are at
    that address in the group of the sink too, and so it is a group of its own."""
    found = drained(WORKERS, A, B, stopped_ms=1)
    names = [one.group.group_id for one in found.groups]
    assert sorted(names) == ["connect", "connect-a"]
    (of_workers,) = [one for one in found.groups if one.group.group_id == "connect"]
    assert [one.group_id for one in of_workers.prediction.sinks] == ["connect-a", "connect-b"]
    assert [one.group_id for one in found.failed_gates if one.group_id == "connect-b"] == ["connect-b"]


@pytest.mark.parametrize(
    ("groups", "missing"),
    [
        ((replace(WORKERS, state="PreparingRebalance"), B), ["connect", "connect-b"]),
        ((WORKERS, replace(B, state="PreparingRebalance")), ["connect-b"]),
    ],
)
def test_a_drain_drops_no_sink_group(groups, missing):
    found = drained(*groups, handovers=1_000)
    assert [(one.group_id, len(one.taken)) for one in found.unpredicted] == [(name, 1) for name in missing]
    assert [one.group_id for one in found.failed_gates] == missing


def test_a_sink_group_that_may_not_be_described_is_said_to_be_missing():
    error = AuthorizationError("no DESCRIBE", kafka_error=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    found = with_live_sinks(Cluster(errors={"connect-a": error}), BounceGroup(snapshot=WORKERS))
    assert not found.sinks
    (missing,) = found.missing_sinks
    assert missing.message.startswith(
        "sink groups may be missing from the prediction: group 'connect-a' could not be described"
    )


def gated(group, **limits):
    """What a bounce of w-2 fails of gates."""
    request = BounceRequest(member_ids=("w-2",), settings=DELAY)
    found = predict_bounce(group, request, draws=3, gates=Gates(**limits))
    return [error.message for error in found.failed_gates]


def test_gates_of_workers_count_sink_groups():
    linked = with_recorded_sinks(BounceGroup(snapshot=WORKERS), [BounceGroup(snapshot=A), BounceGroup(snapshot=B)])
    (of_b,) = [one for one in predicted(A, B, bounce=("w-2",), draws=3).sinks if one.connector == "b"]
    assert gated(linked, rebalances=1_000, handovers=1_000) == []
    failed = gated(linked, rebalances=of_b.rebalances.max - 1)
    assert f"sink group connect-b: up to {of_b.rebalances.max} rebalances are predicted, more than 0" in failed


def test_a_gate_fails_where_a_sink_group_is_not_predicted():
    forming = with_recorded_sinks(
        BounceGroup(snapshot=WORKERS), [BounceGroup(snapshot=replace(B, state="PreparingRebalance"))]
    )
    unread = with_live_sinks(Cluster(errors={"connect-a": AuthorizationError("no")}), BounceGroup(snapshot=WORKERS))
    for group, words in ((forming, "the sink group connect-b is not part"), (unread, "sink groups may be missing")):
        (message,) = gated(group, rebalances=1_000)
        assert message.startswith(words)
        assert gated(group) == []
