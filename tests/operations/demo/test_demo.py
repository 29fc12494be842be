"""The demo, without a terminal."""

from __future__ import annotations

from contextlib import closing

import pytest

from kgm.operations.demo.demo import (
    INSTANCE_IDS,
    BounceDone,
    BouncePredicted,
    CoordinatorStarted,
    GroupFormed,
    HistoryAsked,
    MemberRemoved,
    MemberStopped,
    RemovalDone,
    RemovalRefused,
    run_demo,
)


def verdict_of(step):
    (one,) = step.results
    return one.result.value, one.liveness.verdict.value


@pytest.mark.slow
def test_its_steps_and_that_its_predictions_hold():
    with closing(run_demo()) as running:
        steps = list(running)
    assert [type(step) for step in steps] == [
        CoordinatorStarted, GroupFormed, BouncePredicted, BounceDone, RemovalRefused, MemberStopped, MemberRemoved,
        RemovalDone, HistoryAsked,
    ]  # fmt: skip
    _, formed, predicted, bounced, refused, stopped, removed, after, asked = steps
    assert [member.group_instance_id for member in formed.snapshot.members] == list(INSTANCE_IDS)
    assert (predicted.static.typical.rebalances, bounced.lost_by_others) == (0, 0)
    assert predicted.dynamic.typical.rebalances > 0
    assert (bounced.check.holds, after.check.holds) == (True, True)
    assert after.check.actual.rebalances == 1
    assert [(result.target.id, result.result.value) for result in removed.results] == [(stopped.instance_id, "removed")]
    assert [verdict_of(refused), verdict_of(removed)] == [("refused", "alive"), ("removed", "stopped")]
    (gone,) = removed.results
    assert "commits in the group's log" in gone.liveness.why
    rebalance = asked.explanation.rebalance
    assert (rebalance.cause, rebalance.moved) == ("admin-removal", len(after.check.actual.moves))
    assert [(one.seat, one.what) for one in rebalance.who] == [("payments-3", "admin-removal")]
    assert [member.group_instance_id for member in after.snapshot.members] == list(INSTANCE_IDS[:2])


@pytest.mark.slow
def test_a_demo_that_is_not_finished_leaves_nothing_running():
    running = run_demo()
    started = next(running)
    assert isinstance(started, CoordinatorStarted)
    running.close()
    from kgm.client import connect
    from kgm.model.errors import UnreachableError

    with pytest.raises(UnreachableError):
        connect(started.bootstrap, timeout_ms=2_000)
