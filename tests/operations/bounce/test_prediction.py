"""`simulate` and `predict_bounce`: the same predictions as of the simulation, with scenarios and gates."""

import uuid
from dataclasses import replace

import pytest

from kgm.model.errors import ConditionNotMet, NotFoundError, TimedOutError, UsageError
from kgm.model.snapshot import CoordinatorNode, TopicSnapshot
from kgm.model.work import MemberWork
from kgm.operations.bounce.gates import Gates
from kgm.operations.bounce.group import BounceGroup, made_up_group
from kgm.operations.bounce.prediction import predict_bounce, simulate
from kgm.operations.bounce.request import BounceRequest
from kgm.simulation import bounce
from kgm.simulation.plan.bounce_plan import GroupProtocol, MemberOrder, Membership, Plan, Rolling, Stop, WhatIf

TOPICS = [TopicSnapshot(name="t", partitions=12)]
STATIC = made_up_group(3, TOPICS)
DYNAMIC = made_up_group(3, TOPICS, membership=Membership.DYNAMIC)
#: A group of a broker whose settings are not known.
RECORDED = BounceGroup(
    snapshot=replace(STATIC.snapshot, coordinator=CoordinatorNode(id=1, host="127.0.0.1", port=9092))
)
POLICY = "group.consumer.migration.policy"


def names(predicted):
    return [prediction.name for prediction in predicted.predictions]


def test_simulate_takes_a_snapshot_or_a_group_with_its_broker():
    plan = Plan(bounce=("member-2",))
    expected = bounce.simulate(STATIC.snapshot, plan)
    assert simulate(STATIC.snapshot, plan) == simulate(STATIC, plan) == expected
    assert (expected.exact, expected.typical.rebalances) == (True, 0)


def test_the_settings_of_the_broker_count_unless_the_plan_has_others():
    full = replace(STATIC, broker_settings={"group.max.size": "3"})
    assert simulate(full, Plan(scale_out=1)).typical.refused_joins == 1
    assert simulate(full, Plan(scale_out=1, settings={"group.max.size": "9"})).typical.refused_joins == 0
    assert predict_bounce(full, BounceRequest(scale_out=1), draws=2).predictions[0].typical.refused_joins == 1


def test_a_prediction_has_the_group_and_the_plan_as_understood():
    predicted = predict_bounce(STATIC, BounceRequest(everyone=True, rolling=Rolling()))
    assert predicted.group == STATIC.snapshot
    assert predicted.plan == Plan(bounce=("member-1", "member-2", "member-3"), rolling=Rolling(), order=MemberOrder.ID)
    assert (names(predicted), predicted.errors, predicted.failed_gates) == (["as-is"], (), ())
    assert predicted.predictions == (simulate(STATIC, predicted.plan),)


def test_scenarios_that_matter_are_shown_and_compare_shows_them_all():
    assert names(predict_bounce(STATIC, BounceRequest(scale_out=1, target_size=4), draws=2)) == ["as-is", "standby"]
    consumers = made_up_group(3, TOPICS, protocol=GroupProtocol.CONSUMER)
    killed = BounceRequest(instance_ids=("member-1",), stop=Stop.CRASH)
    assert names(predict_bounce(consumers, killed, draws=2)) == ["as-is", "freed"]
    compared = predict_bounce(STATIC, BounceRequest(everyone=True), compares=True, draws=2)
    assert names(compared) == ["as-is", "static", "dynamic", "cooperative", "consumer"]


def test_an_error_in_one_scenario_is_data():
    """As it is the assignor need not run; in the others it would have to."""
    own = BounceGroup(snapshot=replace(STATIC.snapshot, assignor="stream"))
    compared = predict_bounce(own, BounceRequest(instance_ids=("member-1",)), compares=True, draws=2)
    assert names(compared) == ["as-is"]
    assert len(compared.errors) == 4


def test_what_is_known_of_a_streams_application_that_rebalances():
    """Freed tasks, who has copies of them, and how often it rebalances with what is not known."""
    work = [
        MemberWork(process_id=str(uuid.UUID(int=n)), active_tasks=(f"0_{n}",), standby_tasks=("0_1",) * (n == 0))
        for n in range(3)
    ]
    members = tuple(replace(one, work=each) for one, each in zip(STATIC.snapshot.members, work, strict=True))
    own = BounceGroup(snapshot=replace(STATIC.snapshot, assignor="stream", members=members, is_settled=True))
    request = BounceRequest(scale_in=tuple(one.identity for one in members[1:]))
    (found,) = predict_bounce(own, request, draws=2).predictions
    freed, held, alone = found.caveats[:3]
    assert (found.exact, found.typical.rebalances > 0, len(found.typical.final_assignment)) == (False, True, 1)
    assert (freed, held.endswith(f"0_1 ({members[0].identity})")) == (
        "2 active tasks to be assigned again: 0_1, 0_2",
        True,
    )
    assert alone.startswith("nobody else has a copy of 0_2:")


def test_holdings_are_recorded_on_request():
    request = BounceRequest(instance_ids=("member-1",))
    assert not predict_bounce(STATIC, request).predictions[0].typical.holdings
    (prediction,) = predict_bounce(STATIC, request, keeps_holdings=True).predictions
    assert {holding.owner for holding in prediction.typical.holdings} == {"member-1", "member-2", "member-3"}


@pytest.mark.parametrize("draws", [0, -1])
def test_a_prediction_needs_a_draw(draws):
    with pytest.raises(UsageError, match=f"the number of draws is {draws}"):
        simulate(STATIC, Plan(scale_out=1), draws=draws)
    with pytest.raises(UsageError, match=f"the number of draws is {draws}"):
        predict_bounce(STATIC, BounceRequest(scale_out=1), draws=draws)


def test_a_time_limit_that_is_not_enough_for_one_draw():
    request = BounceRequest(instance_ids=("member-1",), what_if=WhatIf(session_timeout_ms=1))
    with pytest.raises(TimedOutError):
        predict_bounce(STATIC, request, timeout_ms=0)
    assert predict_bounce(STATIC, BounceRequest(everyone=True), timeout_ms=60_000).predictions[0].exact


def test_members_that_are_not_there_are_named():
    with pytest.raises(NotFoundError, match="no member stranger"):
        predict_bounce(STATIC, BounceRequest(instance_ids=("stranger",)))


# -- gates


def test_gates_of_an_exact_prediction_count_what_it_predicts():
    request = BounceRequest(scale_in=("member-3",))
    prediction = predict_bounce(STATIC, request).predictions[0]
    assert prediction.exact
    passed = Gates(handovers=6, rebalances=1)  # partitions 8-11 of the removed member, and 4-5 to keep ranges in a row
    assert predict_bounce(STATIC, request, gates=passed).failed_gates == ()
    failed = predict_bounce(STATIC, request, gates=Gates(handovers=5, rebalances=0)).failed_gates
    assert [error.message for error in failed] == [
        "6 handovers are predicted, more than 5",
        "1 rebalances are predicted, more than 0",
    ]
    assert all(isinstance(error, ConditionNotMet) for error in failed)


def test_gates_of_ranges_count_the_most():
    request = BounceRequest(everyone=True)
    predicted = predict_bounce(DYNAMIC, request, draws=12)
    most = predicted.predictions[0].ranges.rebalances.max
    assert predicted.predictions[0].typical.rebalances < most
    assert predict_bounce(DYNAMIC, request, draws=12, gates=Gates(rebalances=most)).failed_gates == ()
    (failed,) = predict_bounce(DYNAMIC, request, draws=12, gates=Gates(rebalances=most - 1)).failed_gates
    assert failed.message == f"up to {most} rebalances are predicted, more than {most - 1}"


def test_a_partition_that_goes_and_comes_back_is_two_handovers_and_no_move():
    """Range over 6 partitions: while member-1 is away, 0-1 go to member-2 and 3 goes from there to member-3."""
    group = made_up_group(3, [TopicSnapshot(name="t", partitions=6)])
    late = BounceRequest(
        instance_ids=("member-1",), restart_time_ms=60_000, what_if=WhatIf(session_timeout_ms=30_000)
    )  # fmt: skip
    predicted = predict_bounce(group, late, gates=Gates(handovers=5))
    (prediction,) = predicted.predictions
    assert (prediction.exact, prediction.typical.rebalances) == (True, 2)
    assert (prediction.typical.moved_partitions, prediction.typical.handovers) == (0, 6)
    assert [error.message for error in predicted.failed_gates] == ["6 handovers are predicted, more than 5"]
    assert predict_bounce(group, late, gates=Gates(handovers=6)).failed_gates == ()


def test_gates_do_not_pass_with_a_single_draw_of_what_is_not_certain():
    request = BounceRequest(everyone=True, restart_time_ms=1_000)
    (failed,) = predict_bounce(DYNAMIC, request, draws=1, gates=Gates(handovers=1_000)).failed_gates
    assert "one draw is no limit" in failed.message
    assert predict_bounce(STATIC, request, draws=1, gates=Gates(handovers=0)).failed_gates == ()  # it is exact


def test_time_without_a_consumer_has_a_limit_and_is_never_known_from_one_draw():
    """Four partitions of each of three members, ten seconds and a moment to start in. Times are never exact."""
    request = BounceRequest(everyone=True, rolling=Rolling(), restart_time_ms=10_000)

    def failed(draws=12, **limits):
        return [one.message for one in predict_bounce(STATIC, request, draws=draws, gates=Gates(**limits)).failed_gates]

    assert failed(stopped_ms=150_000) == failed(handovers=0, draws=1) == []
    (message,) = failed(stopped_ms=120_000)
    assert message.endswith("partition-seconds without a consumer are predicted, more than 120")
    assert failed(stopped_ms=10**9, draws=1) == [
        "one draw is no limit to what may happen: more draws (--draws) are needed"
    ]


def test_a_group_that_does_not_become_stable_exceeds_every_limit(monkeypatch):
    monkeypatch.setattr("kgm.simulation.play.plan_runner._HOPELESS_REBALANCES", -9)
    request = BounceRequest(everyone=True)
    (failure,) = predict_bounce(DYNAMIC, request, draws=3, gates=Gates(handovers=10**6)).failed_gates
    assert failure.message == "the group is not predicted to become stable"


def test_partitions_that_are_left_without_an_owner_exceed_every_limit_of_time():
    request = BounceRequest(scale_in=tuple(one.identity for one in STATIC.snapshot.members), stop=Stop.CRASH)
    (failure,) = predict_bounce(STATIC, request, draws=3, gates=Gates(stopped_ms=10**9)).failed_gates
    assert failure.message == "12 partitions are left without an owner"


def test_gates_of_handovers_count_the_most_of_all_draws():
    request = BounceRequest(everyone=True, rolling=Rolling())
    ranges = predict_bounce(DYNAMIC, request, draws=12).predictions[0].ranges
    most = ranges.handovers.max
    assert most > ranges.handovers.min >= ranges.moved_partitions.max
    assert predict_bounce(DYNAMIC, request, draws=12, gates=Gates(handovers=most)).failed_gates == ()
    (failed,) = predict_bounce(DYNAMIC, request, draws=12, gates=Gates(handovers=most - 1)).failed_gates
    assert failed.message == f"up to {most} handovers are predicted, more than {most - 1}"


def test_partitions_that_no_other_consumer_takes_are_not_let_through():
    """No handover, and yet no partition is consumed any more."""
    request = BounceRequest(scale_in=("member-1", "member-2", "member-3"))
    predicted = predict_bounce(STATIC, request, gates=Gates(handovers=11))
    assert predicted.predictions[0].typical.final_assignment == {}
    assert [error.message for error in predicted.failed_gates] == ["12 moved partitions are predicted, more than 11"]
    assert predict_bounce(STATIC, request, gates=Gates(handovers=12)).failed_gates == ()


def test_gates_look_at_the_plan_as_it_stands():
    """Of a comparison, the static members that are there, not the dynamic ones that might be."""
    request = BounceRequest(everyone=True)
    compared = predict_bounce(STATIC, request, compares=True, draws=2, gates=Gates(rebalances=0))
    assert any(prediction.typical.rebalances for prediction in compared.predictions)
    assert compared.failed_gates == ()


def test_limits_that_hold_prove_nothing_if_their_input_was_not_read():
    """A topic without rights has no partition count, and an unreadable subscription names no topics."""
    request, gates = BounceRequest(everyone=True, restart_time_ms=1_000), Gates(handovers=0)
    uncounted = replace(STATIC.snapshot, topics=())
    unsubscribed = replace(
        STATIC.snapshot, members=(replace(STATIC.snapshot.members[0], topics=None), *STATIC.snapshot.members[1:])
    )
    for group, fact in (
        (BounceGroup(snapshot=uncounted), "partitions of topic 't'"),
        (BounceGroup(snapshot=unsubscribed), "subscription of member-1"),
        (replace(STATIC, hidden_topics=frozenset({"t", "of-others"})), "partitions of topic 't'"),
    ):
        predicted = predict_bounce(group, request, gates=gates)
        assert predicted.failed_gates == ()
        assert (predicted.unread.facts, predicted.unread.exit_code) == ((fact,), 7)
        assert predict_bounce(group, request).unread is None  # there is no limit
    assert predict_bounce(STATIC, request, gates=gates).unread is None
    deleted = BounceGroup(snapshot=replace(uncounted, deleted_topics=("t",)))
    assert predict_bounce(deleted, request, gates=gates).unread is None  # it was read: there is no such topic


def migrated(group, policy=None, **limits):
    settings = {} if policy is None else {POLICY: policy}
    request = BounceRequest(instance_ids=("member-1",), restart_time_ms=1_000, migrate=True, settings=settings)
    predicted = predict_bounce(group, request, gates=Gates(**limits), draws=9)
    return predicted.predictions[0], predicted.failed_gates


def test_a_migration_is_certain_only_if_the_brokers_policy_is_known():
    """Whether the broker lets the member in decides everything, and no snapshot has the setting."""
    open_, failed = migrated(RECORDED, handovers=0, rebalances=0)
    assert not open_.exact
    assert any(POLICY in caveat and "--set" in caveat for caveat in open_.caveats)
    assert len(failed) == 2
    for policy in ("bidirectional", "upgrade", "downgrade", "disabled"):
        stated, _ = migrated(RECORDED, policy)
        assert stated.exact
        assert not any(f"{POLICY} is not known" in caveat for caveat in stated.caveats)
        for count in ("generations", "rebalances", "moved_partitions", "handovers"):
            found = getattr(open_.ranges, count)
            assert found.min <= getattr(stated.typical, count) <= found.max, (policy, count)


def test_the_policy_of_a_live_or_made_up_broker_is_known():
    live = replace(RECORDED, broker_settings={POLICY: "bidirectional"})
    for group in (live, STATIC):
        prediction, failed = migrated(group, handovers=0, rebalances=0)
        assert (prediction.exact, failed) == (True, ())
