"""What was predicted beside what happened: more is a deviation, less is not, and what is not known is neither."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kgm.operations.rollout.expectation import (
    ExpectedRange,
    StepCounts,
    StepExpectation,
    excess,
    other_owners,
    shortfall,
    unknown_because,
)  # fmt: skip
from kgm.operations.watch.rebalance_count import CountDoubt
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan
from kgm.simulation.streams.group import most_partitions_of_a_task
from tests.simulation.streams.applications import THREADS, application, streams_group

PREDICTED = StepExpectation(
    rebalances=ExpectedRange(least=1, most=2), handovers=ExpectedRange(least=2, most=4), exact=False
)
AT_LEAST = CountDoubt(why="the log cannot be read")
UP_TO_TWO_MORE = CountDoubt(why="several epochs passed", more=2)


@pytest.mark.parametrize(
    ("rebalances", "handovers", "more", "less"),
    [
        (1, 2, [], []), (2, 4, [], []),
        (3, 4, ["step 1: 3 rebalances, predicted: 1 to 2 rebalances"], []),
        (2, 5, ["step 1: 5 handovers, predicted: 2 to 4 handovers"], []),
        (0, 0, [], ["0 rebalances, fewer than predicted: 1 to 2 rebalances", "0 handovers, fewer than predicted: 2 to 4 handovers"]),
    ],
)  # fmt: skip
def test_more_and_less(rebalances, handovers, more, less):
    counts = StepCounts(rebalances=rebalances, handovers=handovers)
    assert excess(counts, PREDICTED, "step 1") == more
    assert shortfall(counts, PREDICTED) == less
    assert counts.unknown_because is None


@pytest.mark.parametrize("doubt", [None, AT_LEAST, UP_TO_TWO_MORE])
def test_counts_are_read_from_the_journal_as_they_were_written(doubt):
    counts = StepCounts(rebalances=3, handovers=5, rebalances_doubt=doubt, handovers_exact=doubt is None)
    assert StepCounts.from_json(json.loads(json.dumps(counts.to_json()))) == counts


def test_the_journal_of_an_earlier_kgm_has_the_most_rebalances():
    written = {
        "rebalances": 6,
        "rebalances_doubt": "at most: several epochs passed",
        "handovers": 5,
        "handovers_exact": False,
    }
    counts = StepCounts.from_json(written)
    assert (counts.rebalances, counts.most_rebalances) == (1, 6)
    assert str(counts) == "1 to 6 rebalances, at least 5 handovers"
    with pytest.raises(ValueError, match="not a doubt"):
        StepCounts.from_json(written | {"rebalances_doubt": "perhaps: who knows"})


def test_a_task_of_kafka_streams_is_as_many_handovers_as_it_has_partitions():
    """A subtopology that joins two topics has two in each task."""
    one = application()
    members = tuple(
        replace(each, assignment={"t": each.assignment["t"], "u": each.assignment["t"]}) for each in one.members
    )
    joined = replace(one, members=members)
    assert [most_partitions_of_a_task(each) for each in (one, joined, replace(joined, assignor="range"))] == [1, 1, 1]
    stateless = tuple(
        replace(each, work=replace(each.work, active_tasks=each.work.active_tasks[:1])) for each in members
    )
    assert most_partitions_of_a_task(replace(joined, members=stateless)) == 2
    predicted = simulate(joined, Plan(scale_in=("wr-3-1", "wr-3-2")), draws=5)
    tasks, partitions = (StepExpectation.of(predicted, group) for group in (joined, replace(joined, members=stateless)))
    assert partitions.handovers.most == 2 * tasks.handovers.most == 2 * predicted.ranges.handovers.max


def test_a_range_is_never_certain():
    assert PREDICTED.certainty == "at most what any draw had"
    exact = replace(PREDICTED, exact=True)
    assert exact.certainty == "the same in every draw"
    one = ExpectedRange(least=1, most=1)
    assert replace(exact, rebalances=one).certainty == "the same in every draw"
    assert replace(exact, rebalances=one, handovers=one).certainty == "certain"


def test_epochs_of_a_streams_group_with_one_target_assignment_are_one_rebalance():
    """Two threads that leave are two epochs, and may be one assignment."""
    plan = Plan(scale_in=THREADS[4:], settings={"group.streams.assignment.interval.ms": "15000"})
    prediction = simulate(streams_group(), plan, draws=5)
    assert prediction.ranges.generations.max == 2
    once = replace(prediction.ranges, rebalances=replace(prediction.ranges.rebalances, min=1, max=1))
    prediction = replace(prediction, ranges=once)
    assert StepExpectation.of(prediction, streams_group()).rebalances == ExpectedRange(least=1, most=1)


def test_what_may_have_been_missed_is_not_known():
    few = StepCounts(rebalances=0, handovers=0, rebalances_doubt=AT_LEAST)
    assert few.unknown_because == "there may have been more rebalances: the log cannot be read"
    assert shortfall(few, PREDICTED) == ["0 handovers, fewer than predicted: 2 to 4 handovers"]
    some = StepCounts(rebalances=1, handovers=2, rebalances_doubt=UP_TO_TWO_MORE)
    assert excess(some, PREDICTED, "step 1") == []
    assert unknown_because(some, PREDICTED) == "1 to 3 rebalances (several epochs passed), predicted: 1 to 2 rebalances"
    fewer = StepCounts(rebalances=0, handovers=2, rebalances_doubt=UP_TO_TWO_MORE)
    assert (unknown_because(fewer, PREDICTED), shortfall(fewer, PREDICTED)) == (None, [])
    too_many = StepCounts(rebalances=3, handovers=2, rebalances_doubt=UP_TO_TWO_MORE)
    assert excess(too_many, PREDICTED, "step 1") == [
        "step 1: 3 rebalances (up to 2 more: several epochs passed), predicted: 1 to 2 rebalances"
    ]
    assert unknown_because(few, PREDICTED) == few.unknown_because
    hidden = StepCounts(rebalances=1, handovers=0, handovers_exact=False)
    assert "while kgm did not look" in str(hidden.unknown_because)
    assert shortfall(hidden, PREDICTED) == []


def test_counts_of_two_steps_are_as_certain_as_the_less_certain_one():
    sure = StepCounts(rebalances=1, handovers=2)
    unsure = StepCounts(rebalances=1, handovers=3, rebalances_doubt=AT_LEAST, handovers_exact=False)
    assert sure.plus(unsure) == unsure.plus(sure)
    assert sure.plus(unsure) == StepCounts(rebalances=2, handovers=5, rebalances_doubt=AT_LEAST, handovers_exact=False)


def test_what_is_not_known_of_a_step_is_not_held_against_the_next_one():
    before = StepCounts(rebalances=1, handovers=2, rebalances_doubt=UP_TO_TWO_MORE)
    after = before.plus(StepCounts(rebalances=2, handovers=1))
    assert after.most_rebalances == 5
    assert after.since(before) == StepCounts(rebalances=2, handovers=1)
    assert after.plus(before).since(before) == replace(before, rebalances=3, handovers=3)


def test_owners_are_compared_where_they_are_certain():
    final = {"a": {"t": (0, 1)}, "b": {"t": (2,)}}
    certain = StepExpectation(
        rebalances=ExpectedRange(least=0, most=0), handovers=ExpectedRange(least=0, most=0), exact=True,
        final_assignment=final,
    )  # fmt: skip
    assert other_owners(final, certain) is None
    assert other_owners({"a": {"t": (0,)}, "b": {"t": (1, 2)}}, certain) == (
        "1 partition with a different owner than predicted: t[1] a -> b"
    )
    assert other_owners({}, PREDICTED) is None


def test_the_journal_gives_back_what_was_written():
    for one in (PREDICTED, StepExpectation(
        rebalances=ExpectedRange(least=0, most=0), handovers=ExpectedRange(least=0, most=0), exact=True,
        becomes_stable=False, final_assignment={"a": {"t": (0, 1)}}, caveats=("x",),
    )):  # fmt: skip
        assert StepExpectation.from_json(json.loads(json.dumps(one.to_json()))) == one
